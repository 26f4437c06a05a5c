"""Notations of Slurm: lists of hosts, generic resources (GRES), trackable resources and times."""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from itertools import product
from math import prod

from lyra_opt.core.errors import show_value
from lyra_opt.core.rules import LARGEST_INTEGER
from lyra_opt.instances.snapshots.snapshot import GPU

MOST_HOSTS = 1_000_000

MIB = 2**20

_MIG_PROFILE = re.compile(r"(.*_)?\d+g\.\d+gb.*")
_GRES = re.compile(
    r"(?P<name>[^:,(=]+)"
    r"(?::(?P<type>(?!\d+[KMGTP]?(?:\(|$))[^:,(=]+))?"
    r"(?:[:=](?P<count>\d+)(?P<unit>[KMGTP]?))?"
    r"(?P<more>\([^()]*\))?"
)
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)[cn]?")
_TRES = re.compile(
    r"(?:node|billing|energy|vmem|pages|(?:bb|fs|ic|license)/[^=]+)=\S+"
    r"|cpu=\d+|mem=\d+(?:\.\d+)?[KMGTP]?[cn]?|gres/[^=:]+(?::[^=:]+)?=\d+[KMGTP]?"
)
_UNITS = {"K": 2**10, "": 2**20, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}


def hosts(text: str) -> list[str]:
    """Return the host names of a list such as ``n[01-03,07],login``.

    Raises
    ------
    ValueError
        If brackets do not match, a range is not valid, or it has over a million hosts.
    """
    found: list[str] = []
    for part in _split(text):
        pieces = [_range(piece) for piece in re.split(r"(\[[^\]]*\])", part) if piece]
        if prod(map(len, pieces)) + len(found) > MOST_HOSTS:
            raise ValueError(f"{show_value(text)} has more than {MOST_HOSTS} hosts")
        found += ["".join(combined) for combined in product(*pieces)]
    return found


def _split(text: str) -> Iterator[str]:
    """Yield the parts of a list that commas outside brackets and parentheses separate."""
    depth, start = 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and depth == 0:
            yield text[start:place]
            start = place + 1
        if depth < 0:
            break
    if depth:
        raise ValueError(f"{show_value(text)}: brackets do not match")
    if text[start:]:
        yield text[start:]


def _range(piece: str) -> list[str]:
    """Return the alternatives of a piece of a host name: a text, or numbers in brackets."""
    if not piece.startswith("["):
        return [piece]
    found = []
    for part in piece[1:-1].split(","):
        if not re.fullmatch(r"\d{1,18}(-\d{1,18})?", part):
            raise ValueError(f"{show_value(piece)} is not a range of hosts")
        first, _, last = part.partition("-")
        end = int(last or first)
        if not 0 <= end - int(first) < MOST_HOSTS:
            raise ValueError(f"{show_value(piece)} does not have 1 to {MOST_HOSTS} hosts")
        found += [str(number).zfill(len(first)) for number in range(int(first), end + 1)]
    return found


def generic_resources(
    text: str, field: str = "", *, is_counted: bool = False
) -> tuple[Counter[str], set[str]]:
    """Return the amounts of generic resources, and the types of whole GPUs among them.

    Whole GPUs of all types are counted as ``gpu``. Slices have a resource per MIG profile. CPUs and
    memory, which stand among the resources for each task since version 24.05, are ignored. In a
    configuration or a request, a name or a type without an amount stands for 1. In texts with
    `is_counted`, which show what is in use, Slurm writes every amount. Messages name the `field`.

    Raises
    ------
    ValueError
        If a part is not a generic resource, or its amount is missing or not a number.

    >>> generic_resources("gpu:h100:8(S:0-1),gpu:1g.10gb:7,shard:16")
    (Counter({'gres/shard': 16, 'gpu': 8, 'gres/gpu:1g.10gb': 7}), {'h100'})
    """
    amounts: Counter[str] = Counter()
    types: set[str] = set()
    for part in _split("" if text in ("(null)", "N/A") else text):
        if part.startswith(("cpu:", "cpu=", "mem:", "mem=")):
            continue
        match = _GRES.fullmatch(re.sub(r"^gres[:/]|:no_consume", "", part))
        shown = f"{field} {show_value(part)}".lstrip()
        if match is None:
            rule = "is not a generic resource; it must be like gpu:4, gpu:a100:4 or gres/gpu=4"
            raise ValueError(f"{shown} {rule}")
        kind, more = match["type"] or "", match["more"] or ""
        is_profile = bool(_MIG_PROFILE.fullmatch(kind))
        counted = re.fullmatch(r"\(CNT:(\d+)\)", more)
        count = counted[1] if counted else match["count"]
        is_name = is_profile or not kind or kind[0].isalpha()
        is_one = is_name and not is_counted and (not more or more.startswith("(S:"))
        if count is None and not is_one:
            rule = f"has no amount of {match['name']}; it must be a number, as in gpu:a100:4"
            raise ValueError(f"{shown} {rule}")
        number = _number(shown, count or "1", 1024 ** " KMGTP".index(match["unit"] or " "))
        if match["name"] != "gpu":
            amounts[f"gres/{match['name']}"] += number
        elif is_profile:
            amounts[f"gres/gpu:{kind}"] += number
        else:
            amounts[GPU] += number
            types |= {kind} - {""}
    return amounts, types


def trackable_resources(text: str, field: str = "") -> Counter[str]:
    """Return the CPUs (milli), memory (bytes) and generic resources of a text such as ``cpu=4``.

    The amount without a type is that of all types: ``gres/gpu=8,gres/gpu:h100=6`` are eight GPUs.

    Raises
    ------
    ValueError
        If a part is not a trackable resource, or its amount is not a number.
    """
    amounts: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    typed: Counter[str] = Counter()
    for part in _split("" if text in ("(null)", "N/A") else text):
        shown = f"{field} {show_value(part)}".lstrip()
        if _TRES.fullmatch(part) is None:
            rule = "is not a trackable resource; it must be like cpu=4, mem=32G or gres/gpu:a100=4"
            raise ValueError(f"{shown} {rule}")
        name, _, value = part.partition("=")
        if name == "cpu":
            amounts["cpu"] = _number(shown, value, 1000)
        elif name == "mem":
            amounts["memory"] = memory_bytes(value)
        elif name.startswith("gres/"):
            found = generic_resources(part, field)[0]
            amounts.update(found if ":" in name else {})
            (typed if ":" in name else totals)[name.partition(":")[0]] += found.total()
    for name, number in totals.items():
        rest = max(0, number - typed[name])
        amounts.update({GPU if name == "gres/gpu" else name: rest} if rest else {})
    return amounts


def memory_bytes(text: str) -> int:
    """Return an amount of memory in bytes; without a unit it is in MiB."""
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise ValueError(f"{show_value(text)} is not an amount of memory")
    return _number(show_value(text), match[1], _UNITS[match[2]])


def _number(shown: str, digits: str, factor: int) -> int:
    """Return a number times the size of its unit; `ValueError` if no cluster has so much."""
    number = float(digits) * factor
    if number > LARGEST_INTEGER:
        raise ValueError(f"{shown} must be at most {LARGEST_INTEGER} (2**53 - 1)")
    return round(number)


def words(text: str) -> list[str]:
    """Return the words of a text with commas, ``+`` or ``&`` between them."""
    return [word for word in re.split(r"[+,&\s]", text) if word]


def count(text: str) -> int:
    """Return a number such as ``4K``, or the lower end of a range such as ``2-4``."""
    match = re.fullmatch(r"(\d+)(K?)(-\S+)?", text)
    if match is None:
        raise ValueError(f"{show_value(text)} is not a number")
    return _number(show_value(text), match[1], 1024 if match[2] else 1)


def seconds(text: str) -> int:
    """Return a local time such as ``2026-11-26T19:07:19`` in seconds since 1970; 0 if unknown."""
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError):
        return 0


def span(text: str) -> int:
    """Return a duration such as ``1-02:03:04``, which begins with days; 0 if it is not known."""
    match = re.fullmatch(r"(?:(\d{1,6})-)?(\d{1,9}):(\d{1,9}):(\d{1,9})", text)
    if match is None:
        return 0
    days, hours, minutes, rest = (int(part or 0) for part in match.groups())
    return ((24 * days + hours) * 60 + minutes) * 60 + rest
