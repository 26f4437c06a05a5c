"""Delay timers by gang size for the scheduler Dally, and the TOML files that list them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lyra_opt.core.documents import parse_toml, read_text, require_format
from lyra_opt.core.errors import FieldError, in_file
from lyra_opt.core.fields import Table, declared, key, parsed
from lyra_opt.core.rules import Integer, ListOf, Number, Rule, located
from lyra_opt.network.heuristics import delay_scheduling
from lyra_opt.network.heuristics.delay_scheduling import (
    LEAST_NETWORK_LEASES,
    LEAST_RACK_LEASES,
    DelayScheduling,
    FixedTimers,
    require_leases,
)

TIMERS_FORMAT = "lyra-opt/timers"
VERSION = 1
LARGEST_FILE_BYTES = 2**20
SCHEME = "manual"
"""The name of the scheme that runs Dally with fixed timers."""


@dataclass(frozen=True, slots=True)
class _Leases(Rule):
    """The rule for a number of leases: at least 0, where inf means for ever."""

    dtype = "float64"

    def check(self, path: str, value: Any) -> float:
        return require_leases(path, value)

    def schema(self) -> dict[str, Any]:
        return Number().schema()

    def in_words(self) -> str:
        return "number of at least 0, or inf to wait for ever"


@declared()
class TimerClass:
    """The delay timers, in leases, of gangs up to a given size."""

    largest_gang: int = key(
        Integer(1), "largest gang of the class, in GPUs; smaller classes take the smaller gangs"
    )
    rack_leases: float = key(_Leases(), "leases to wait before a gang accepts machines of one rack")
    network_leases: float = key(_Leases(), "leases to wait before a gang accepts several racks")


@declared(kw_only=False)
class ClassTimers:
    """Delay timers for all gang sizes; gangs larger than the last class do not wait."""

    classes: tuple[TimerClass, ...] = key(
        ListOf(Table(TimerClass)), "classes in increasing order of largest_gang", named="class"
    )

    def __post_init__(self) -> None:
        largest = 0
        for position, each in enumerate(self.classes):
            if each.largest_gang <= largest:
                rule = f"must be above largest_gang of the class before, {largest}"
                raise FieldError(f"class[{position}].largest_gang", each.largest_gang, rule)
            largest = each.largest_gang

    def rule(self) -> FixedTimers:
        """Return an object that looks up the delay timers of a gang, for one run of Dally."""
        by_gang = {
            each.largest_gang: (each.rack_leases, each.network_leases) for each in self.classes
        }
        return FixedTimers(0.0, 0.0, by_gang)

    def policy(self) -> DelayScheduling:
        """Return Dally's placement policy with the delay timers of this table, for one run."""
        return DelayScheduling(SCHEME, self.rule())


def manual(
    rack_leases: float = LEAST_RACK_LEASES,
    network_leases: float = LEAST_NETWORK_LEASES,
    timers: str | Path | Sequence[Mapping[str, Any]] | None = None,
) -> DelayScheduling:
    """Return Dally's policy with one pair of timers, or with timers by gang size."""
    if timers is None:
        return delay_scheduling.manual(rack_leases, network_leases)
    if isinstance(timers, list | tuple):
        with located("timers"):
            return parsed(ClassTimers, {"class": list(timers)}).policy()
    if not isinstance(timers, str | os.PathLike):
        rule = "must be a file or a list of tables with timers by class. For one pair of timers, "
        raise FieldError("timers", timers, f"{rule}give rack_leases and network_leases instead")
    return read_timers(timers).policy()


def read_timers(path: str | Path) -> ClassTimers:
    """Read delay timers by gang-size class from a TOML file.

    The file has the format ``lyra-opt/timers``, version 1, and tables ``[[class]]`` with the keys
    of `TimerClass`.

    Raises
    ------
    InputError
        If the file cannot be read or breaks a rule; the message names the file, the field and the
        rule.
    """
    source = str(path)
    document = parse_toml(read_text(path, LARGEST_FILE_BYTES), source, "timers")
    with in_file(source):
        require_format(document, TIMERS_FORMAT, VERSION)
        return parsed(ClassTimers, document, beside=("format", "version"))
