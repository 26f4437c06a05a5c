"""Suggestions for names that are unknown: the known name that a user probably meant."""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

LEAST_LIKENESS = 0.65
"""Similarity, from 0 to 1, from which a name counts as a misspelling of another name."""
LEAST_LIKENESS_OF_PARTS = 0.8
"""Similarity from which a name counts as a misspelling of a part of another name."""
LONGEST_COMPARED = 60
_LEADING_ZEROS = re.compile(r"(?<!\d)0+(?=\d)")
_SEPARATOR = re.compile(r"[-./:_]")


def nearest(given: object, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to `given`; None if no known name is similar.

    Upper and lower case count as equal, and numbers with and without leading zeros. If no whole
    name is similar, the parts of the names between separators count: each part, and all parts up
    to a separator or after it.

    >>> nearest("lyra-gredy", ["exact", "lyra-greedy"]), nearest("CPSAT", ["cpsat"])
    ('lyra-greedy', 'cpsat')
    >>> nearest("gpu-5", ["gpu-05", "gpu-55"]), nearest("gpu-05", ["gpu-05.rack-1.example.com"])
    ('gpu-05', 'gpu-05.rack-1.example.com')
    >>> nearest("gredy", ["exact", "lyra-greedy"])
    'lyra-greedy'
    >>> nearest("best", ["exact", "lyra-greedy"])
    """
    names = list(known)
    if given in names:
        return str(given)
    folded = {_folded(name): name for name in names}
    likeliest = _folded(str(given)[:LONGEST_COMPARED])
    if found := get_close_matches(likeliest, folded, 1, LEAST_LIKENESS):
        return folded[found[0]]
    parts: dict[str, str] = {}
    for text, name in folded.items():
        for part in filter(None, _parts(text)):
            parts.setdefault(part, name)
    found = get_close_matches(likeliest, parts, 1, LEAST_LIKENESS_OF_PARTS)
    return parts[found[0]] if found else None


def _folded(name: str) -> str:
    return _LEADING_ZEROS.sub("", name.casefold())


def _parts(name: str) -> Iterator[str]:
    """Yield the parts of a name between separators, and its beginnings and ends at them."""
    yield from _SEPARATOR.split(name)
    for separator in _SEPARATOR.finditer(name):
        yield name[: separator.start()]
        yield name[separator.end() :]


def suggestion(given: object, known: Iterable[str]) -> str:
    """Return "; did you mean NAME?" for the known name that is similar; "" if none is similar.

    >>> suggestion("spam", ["span", "grid"]), suggestion("x", ["span", "grid"])
    ('; did you mean span?', '')
    """
    likely = nearest(given, known)
    return "" if likely is None else f"; did you mean {likely}?"


def one_of(given: object, known: Iterable[str], noun: str = "") -> str:
    """Return the rule that a value must be a known name, with all names and the similar one.

    Parameters
    ----------
    noun
        The words for the known names, such as "the gpu_types".

    >>> one_of("softt", ["hard", "soft"]), one_of("x", ["V100"], "the gpu_types")
    ('must be one of: hard, soft; did you mean soft?', 'must be one of the gpu_types: V100')
    """
    names = list(known)
    of = f"must be one of {noun}".rstrip()
    return f"{of}: {', '.join(names)}{suggestion(given, names)}"


def meant(
    given: object, known: Iterable[str], listing: str = "known:", also: Iterable[str] = ()
) -> str:
    """Return the hint for an unknown name: the similar known name, or else all known names.

    Parameters
    ----------
    listing
        The words before the list of known names.
    also
        Names that may be suggested but are too many to list.

    >>> meant("servres", ["servers", "jobs"]), meant("colour", ["servers", "jobs, all"])
    ('did you mean servers?', "known: servers, 'jobs, all'")
    """
    names = list(known)
    likely = nearest(given, [*names, *also])
    if likely is not None:
        return f"did you mean {likely}?"
    listed = (repr(name) if "," in name else name for name in names)
    return f"{listing} {', '.join(listed) or 'none'}"
