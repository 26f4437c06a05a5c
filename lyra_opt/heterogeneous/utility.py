"""What it is worth to complete a job, by its completion time: never more for a later one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from lyra_opt.core.errors import FieldError
from lyra_opt.core.fields import declared, key
from lyra_opt.core.foreign import as_python
from lyra_opt.core.rules import Entry, ListOf, Rule, require_number

LEAST_QUANTITY, LARGEST_QUANTITY = 1e-60, 1e60


@dataclass(frozen=True, slots=True)
class Quantity(Rule):
    """A number that is 0 (unless `above`) or from 1e-60 to 1e60, and at most `most`.

    Products of a few such quantities are neither infinite nor lost.
    """

    dtype = "float64"

    above: bool = False
    most: float = LARGEST_QUANTITY

    def check(self, path: str, value: Any) -> float:
        """See `Rule`."""
        if type(value) is float and LEAST_QUANTITY <= value <= self.most:  # nearly always, quick
            return value
        number = require_number(path, as_python(value), minimum=0, above=self.above)
        if number and not LEAST_QUANTITY <= number <= LARGEST_QUANTITY:
            raise FieldError(path, value, f"must be {self._range()}")
        if number > self.most:
            raise FieldError(path, value, f"must be at most {self.most:g}")
        return number

    def _range(self) -> str:
        zero = "" if self.above else "0 or "
        return f"{zero}from {LEAST_QUANTITY:g} to {LARGEST_QUANTITY:g}"

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        positive = {"type": "number", "minimum": LEAST_QUANTITY, "maximum": self.most}
        return positive if self.above else {"anyOf": [{"const": 0}, positive]}

    def in_words(self) -> str:
        """See `Rule`."""
        most = "" if self.most == LARGEST_QUANTITY else f", at most {self.most:g}"
        return f"number above 0{most}" if self.above else f"number of at least 0{most}"


@declared()
class InverseJct:
    """U = scale / JCT; with the steps of the job as scale, its mean throughput."""

    kind = "inverse_jct"
    scale: float = key(
        Quantity(above=True),
        "what a job is worth that completes within a second",
        default=1.0,
        always_written=True,
    )

    def at(self, jct_s: float) -> float:
        """Return what the job is worth; `jct_s` above 0."""
        return self.scale / jct_s


@declared()
class Deadline:
    """U = value up to a deadline, late_value after it."""

    kind = "deadline"
    deadline_s: float = key(Quantity(above=True), "longest JCT that is in time")
    value: float = key(
        Quantity(), "what a job is worth that is in time", default=1.0, always_written=True
    )
    late_value: float = key(
        Quantity(), "what it is worth late, at most value", default=0.0, always_written=True
    )

    def __post_init__(self) -> None:
        if self.late_value > self.value:
            rule = f"must be at most value, {self.value:g}"
            raise FieldError("late_value", self.late_value, rule)

    def at(self, jct_s: float) -> float:
        """Return what the job is worth."""
        return self.value if jct_s <= self.deadline_s else self.late_value


@declared()
class UtilityTable:
    """U by steps: that of the first entry whose time is at least the JCT, 0 after the last."""

    kind = "table"
    entries: tuple[tuple[float, float], ...] = key(
        ListOf(Entry((Quantity(above=True), Quantity()), "pair of time and value")),
        "pairs of time, increasing, and value, not increasing",
    )

    def __post_init__(self) -> None:
        for place, (before, entry) in enumerate(pairwise(self.entries), start=1):
            field = f"entries[{place}]"
            if entry[0] <= before[0]:
                raise FieldError(f"{field}[0]", entry[0], "must be above the time before it")
            if entry[1] > before[1]:
                raise FieldError(f"{field}[1]", entry[1], "must be at most the value before it")

    def at(self, jct_s: float) -> float:
        """Return what the job is worth; O(entries)."""
        return next((value for time_s, value in self.entries if jct_s <= time_s), 0.0)


Utility = InverseJct | Deadline | UtilityTable
