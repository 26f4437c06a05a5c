"""Fixed timers by demand class, and the files that hold them."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import Record, located, parse_toml, read_text, require_format
from lyra_opt.core.errors import FieldError, InputError
from lyra_opt.core.validation import require_integer
from lyra_opt.network.heuristics import dally
from lyra_opt.network.heuristics.delay_scheduling import DelayScheduling
from lyra_opt.network.heuristics.timers import (
    LEAST_NETWORK_LEASES,
    LEAST_RACK_LEASES,
    FixedTimers,
    require_leases,
)

if TYPE_CHECKING:
    from pathlib import Path

TIMERS_FORMAT = "lyra-opt/timers"
VERSION = 1
LARGEST_FILE_BYTES = 2**20
SCHEME = "manual"
"""Dally with fixed timers, as policies call it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerClass:
    """How long gangs of some sizes wait, in leases.

    Parameters
    ----------
    largest_gang
        GPUs of the largest gang of the class; it has those that no smaller class has.
    rack_leases, network_leases
        What they wait before they accept machines of one rack, and of several; at least 0, inf for
        ever.
    """

    largest_gang: int
    rack_leases: float
    network_leases: float

    def __post_init__(self) -> None:
        require_integer("largest_gang", self.largest_gang, minimum=1)
        for name in ("rack_leases", "network_leases"):
            object.__setattr__(self, name, require_leases(name, getattr(self, name)))


@dataclass(frozen=True, slots=True)
class ClassTimers:
    """Timers of all gangs.

    Parameters
    ----------
    classes
        By largest gang, increasing; at least one. Gangs beyond the last class do not wait.
    """

    classes: tuple[TimerClass, ...]

    def __post_init__(self) -> None:
        if not self.classes:
            raise FieldError("class", [], "must have at least one entry")
        largest = 0
        for position, each in enumerate(self.classes):
            if each.largest_gang <= largest:
                rule = f"must be above that of the class before, {largest}"
                raise FieldError(f"class[{position}].largest_gang", each.largest_gang, rule)
            largest = each.largest_gang

    def rule(self) -> FixedTimers:
        """Return them for a run."""
        by_gang = {
            each.largest_gang: (each.rack_leases, each.network_leases) for each in self.classes
        }
        return FixedTimers(0.0, 0.0, by_gang)

    def policy(self) -> DelayScheduling:
        """Return Dally with these timers, for a run."""
        return DelayScheduling(SCHEME, self.rule())

    def in_words(self) -> str:
        """Return them on one line."""
        parts = []
        smallest = 1
        for each in self.classes:
            pair = f"{shown_leases(each.rack_leases)} / {shown_leases(each.network_leases)}"
            parts.append(f"gangs of {smallest} to {each.largest_gang}: {pair}")
            smallest = each.largest_gang + 1
        return "; ".join(parts)


def manual(
    rack_leases: float = LEAST_RACK_LEASES,
    network_leases: float = LEAST_NETWORK_LEASES,
    timers: str | Path | None = None,
) -> DelayScheduling:
    """Return `dally.manual`, or Dally with the timers of a file by class."""
    if timers is None:
        return dally.manual(rack_leases, network_leases)
    if not isinstance(timers, str | os.PathLike):
        rule = "must be a file such as tune-timers writes; one pair is rack_leases, network_leases"
        raise FieldError("timers", timers, rule)
    return read_timers(timers).policy()


def shown_leases(leases: float) -> str:
    """Return a timer for people.

    >>> shown_leases(6.0), shown_leases(math.inf)
    ('6', 'for ever')
    """
    return "for ever" if leases == math.inf else f"{leases:g}"


def timers_text(timers: ClassTimers, remarks: tuple[str, ...] = ()) -> str:
    """Return a file that `read_timers` reads.

    Parameters
    ----------
    remarks
        Comments at its head, a line each.
    """
    lines = [f"# {' '.join(remark.split())}" for remark in remarks]
    lines += [f'format = "{TIMERS_FORMAT}"', f"version = {VERSION}"]
    for each in timers.classes:
        lines += [
            "",
            "[[class]]",
            f"largest_gang = {each.largest_gang}",
            f"rack_leases = {_toml(each.rack_leases)}",
            f"network_leases = {_toml(each.network_leases)}",
        ]
    return "\n".join(lines) + "\n"


def read_timers(path: str | Path) -> ClassTimers:
    """Read timers by demand class from a TOML file.

    It has the format ``lyra-opt/timers``, version 1, and tables ``[[class]]`` with the keys of
    `TimerClass`.

    Raises
    ------
    InputError
        If the file cannot be read or breaks a rule; names file, field and rule.
    """
    source = str(path)
    document = parse_toml(read_text(path, LARGEST_FILE_BYTES), source, "timers")
    try:
        record = Record(document, "", ("format", "version", "class"))
        require_format(document, TIMERS_FORMAT, VERSION)
        return ClassTimers(tuple(located(_parse_class, record.items_of("class"))))
    except FieldError as error:
        raise InputError(source, str(error)) from None


def _parse_class(value: object, path: str) -> TimerClass:
    keys = ("largest_gang", "rack_leases", "network_leases")
    record = Record(value, path, keys)
    given: dict[str, Any] = {key: record.required(key) for key in keys}
    return TimerClass(**given)


def _toml(leases: float) -> str:
    return "inf" if leases == math.inf else repr(float(leases))
