"""Names that do not exist, and the nearest that do."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LEAST_LIKENESS = 0.65
"""Of two names, from 0 to 1, for one to be taken for a slip of the other."""
LONGEST_COMPARED = 60


def nearest(given: object, known: Iterable[str]) -> str | None:
    """Return the known name that `given` is most likely a slip of, None if it is like none.

    Upper and lower case do not count.

    >>> nearest("lyra-gredy", ["exact", "lyra-greedy"]), nearest("CPSAT", ["cpsat"])
    ('lyra-greedy', 'cpsat')
    >>> nearest("best", ["exact", "lyra-greedy"])
    """
    folded = {name.casefold(): name for name in known}
    likeliest = str(given)[:LONGEST_COMPARED].casefold()
    found = get_close_matches(likeliest, folded, 1, LEAST_LIKENESS)
    return folded[found[0]] if found else None


def meant(
    given: object, known: Iterable[str], listing: str = "known:", also: Iterable[str] = ()
) -> str:
    """Return which name was meant, as a question, or all where none is near.

    Parameters
    ----------
    listing
        What stands before them.
    also
        Names that may be meant too, but are too many to list.

    >>> meant("servres", ["servers", "jobs"]), meant("colour", ["servers", "jobs"])
    ('did you mean servers?', 'known: servers, jobs')
    """
    names = list(known)
    likely = nearest(given, [*names, *also])
    if likely is not None:
        return f"did you mean {likely}?"
    return f"{listing} {', '.join(names)}" if names else "there are none"
