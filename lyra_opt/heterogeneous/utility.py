"""What it is worth to complete a job, by its completion time: never more for a later one."""

from __future__ import annotations

from dataclasses import dataclass

from lyra_opt.core.errors import FieldError
from lyra_opt.core.validation import require_number

LEAST_QUANTITY, LARGEST_QUANTITY = 1e-60, 1e60


def require_quantity(field: str, value: object, *, above: bool = False) -> float:
    """Return `value` as a float if it is 0 (unless `above`) or from 1e-60 to 1e60.

    Products of a few such quantities are neither infinite nor lost.
    """
    number = require_number(field, value, minimum=0, above=above)
    if number and not LEAST_QUANTITY <= number <= LARGEST_QUANTITY:
        rule = f"must be {'' if above else '0 or '}from {LEAST_QUANTITY:g} to {LARGEST_QUANTITY:g}"
        raise FieldError(field, value, rule)
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class InverseJct:
    """U = scale / JCT; with the steps of the job as scale, its mean throughput.

    Parameters
    ----------
    scale
        What a job is worth that completes within a second, above 0.
    """

    scale: float = 1.0
    kind = "inverse_jct"

    def __post_init__(self) -> None:
        scale = require_quantity("scale", self.scale, above=True)
        object.__setattr__(self, "scale", scale)

    def at(self, jct_s: float) -> float:
        """Return what the job is worth; `jct_s` above 0."""
        return self.scale / jct_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """U = value up to a deadline, late_value after it.

    Parameters
    ----------
    deadline_s
        Longest JCT that is in time, above 0.
    value, late_value
        At least 0, late_value at most value.
    """

    deadline_s: float
    value: float = 1.0
    late_value: float = 0.0
    kind = "deadline"

    def __post_init__(self) -> None:
        _keep(self, "deadline_s", above=True)
        _keep(self, "value")
        _keep(self, "late_value")
        if self.late_value > self.value:
            rule = f"must be at most value, {self.value:g}"
            raise FieldError("late_value", self.late_value, rule)

    def at(self, jct_s: float) -> float:
        """Return what the job is worth."""
        return self.value if jct_s <= self.deadline_s else self.late_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """U by steps: that of the first entry whose time is at least the JCT, 0 after the last.

    Parameters
    ----------
    entries
        Pairs of time, increasing and above 0, and value, at least 0 and not increasing; one at
        least.
    """

    entries: tuple[tuple[float, float], ...]
    kind = "table"

    def __post_init__(self) -> None:
        if not self.entries:
            raise FieldError("entries", [], "must have at least one entry")
        kept: list[tuple[float, float]] = []
        for place, entry in enumerate(self.entries):
            field = f"entries[{place}]"
            if not isinstance(entry, list | tuple) or len(entry) != 2:
                raise FieldError(field, entry, "must be a pair of time and value")
            time_s = require_quantity(f"{field}[0]", entry[0], above=True)
            value = require_quantity(f"{field}[1]", entry[1])
            if kept and time_s <= kept[-1][0]:
                raise FieldError(f"{field}[0]", time_s, "must be above the time before it")
            if kept and value > kept[-1][1]:
                raise FieldError(f"{field}[1]", value, "must be at most the value before it")
            kept.append((time_s, value))
        object.__setattr__(self, "entries", tuple(kept))

    def at(self, jct_s: float) -> float:
        """Return what the job is worth; O(entries)."""
        return next((value for time_s, value in self.entries if jct_s <= time_s), 0.0)


Utility = InverseJct | Deadline | Table


def _keep(utility: Deadline, field: str, *, above: bool = False) -> None:
    object.__setattr__(
        utility, field, require_quantity(field, getattr(utility, field), above=above)
    )
