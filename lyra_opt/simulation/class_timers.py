"""Fixed timers by demand class, and the files that hold them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import parse_toml, read_text, require_format
from lyra_opt.core.errors import FieldError, InputError
from lyra_opt.core.fields import Table, declared, key, parsed
from lyra_opt.core.rules import Integer, ListOf, Number, Rule
from lyra_opt.network.heuristics import delay_scheduling
from lyra_opt.network.heuristics.delay_scheduling import (
    LEAST_NETWORK_LEASES,
    LEAST_RACK_LEASES,
    DelayScheduling,
    FixedTimers,
    require_leases,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

TIMERS_FORMAT = "lyra-opt/timers"
VERSION = 1
LARGEST_FILE_BYTES = 2**20
SCHEME = "manual"
"""Dally with fixed timers, as policies call it."""


@dataclass(frozen=True, slots=True)
class _Leases(Rule):
    """A number of leases of at least 0, or inf, which is for ever."""

    dtype = "float64"

    def check(self, path: str, value: Any) -> float:
        return require_leases(path, value)

    def schema(self) -> dict[str, Any]:
        return Number().schema()

    def in_words(self) -> str:
        return "number of at least 0, or inf for ever"


@declared()
class TimerClass:
    """How long gangs of some sizes wait, in leases."""

    largest_gang: int = key(
        Integer(1), "GPUs of the largest gang of the class; it has those that no smaller class has"
    )
    rack_leases: float = key(_Leases(), "what they wait before they accept machines of one rack")
    network_leases: float = key(_Leases(), "what they wait before they accept machines of several")


@declared(kw_only=False)
class ClassTimers:
    """Timers of all gangs. Gangs beyond the last class do not wait."""

    classes: tuple[TimerClass, ...] = key(
        ListOf(Table(TimerClass)), "by largest gang, increasing", named="class"
    )

    def __post_init__(self) -> None:
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


def manual(
    rack_leases: float = LEAST_RACK_LEASES,
    network_leases: float = LEAST_NETWORK_LEASES,
    timers: str | Path | Sequence[Mapping[str, Any]] | None = None,
) -> DelayScheduling:
    """Return Dally with one pair of timers, or with timers by class from a file or tables."""
    if timers is None:
        return delay_scheduling.manual(rack_leases, network_leases)
    if isinstance(timers, list | tuple):
        try:
            return parsed(ClassTimers, {"class": list(timers)}).policy()
        except FieldError as error:
            raise error.inside("timers") from None
    if not isinstance(timers, str | os.PathLike):
        rule = "must be a file, or a list of tables, of timers by class; one pair is rack_leases, "
        raise FieldError("timers", timers, f"{rule}network_leases")
    return read_timers(timers).policy()


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
        require_format(document, TIMERS_FORMAT, VERSION)
        return parsed(ClassTimers, document, beside=("format", "version"))
    except FieldError as error:
        raise InputError(source, str(error)) from None
