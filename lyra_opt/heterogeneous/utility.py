"""Utility of a completed job as a non-increasing function of its job completion time."""

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
    """The rule for a number from 1e-60 to `most`, or 0 unless `above` is set.

    The range keeps products of a few quantities from overflowing or underflowing.
    """

    dtype = "float64"

    above: bool = False
    most: float = LARGEST_QUANTITY

    def check(self, path: str, value: Any) -> float:
        """Return `value` as a float; raise `FieldError` if it is out of range."""
        if (
            type(value) is float and LEAST_QUANTITY <= value <= self.most
        ):  # fast path for nearly every value
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
        """Return the JSON schema of the allowed range."""
        positive = {"type": "number", "minimum": LEAST_QUANTITY, "maximum": self.most}
        return positive if self.above else {"anyOf": [{"const": 0}, positive]}

    def in_words(self) -> str:
        """Return a short description of the allowed range."""
        most = "" if self.most == LARGEST_QUANTITY else f", at most {self.most:g}"
        return f"number above 0{most}" if self.above else f"number of at least 0{most}"


@declared()
class InverseJct:
    """Utility that is inversely proportional to the JCT, namely scale / JCT.

    If the scale is the job's number of steps, the utility is its mean throughput.
    """

    kind = "inverse_jct"
    scale: float = key(
        Quantity(above=True),
        "utility of a job that completes within one second",
        default=1.0,
        always_written=True,
    )

    def at(self, jct_s: float) -> float:
        """Return the utility at JCT `jct_s`, which is above 0."""
        return self.scale / jct_s


@declared()
class Deadline:
    """Utility `value` if the job meets its deadline, else `late_value`."""

    kind = "deadline"
    deadline_s: float = key(Quantity(above=True), "longest JCT that meets the deadline")
    value: float = key(
        Quantity(), "utility of a job that meets it", default=1.0, always_written=True
    )
    late_value: float = key(
        Quantity(),
        "utility of a job that misses its deadline, at most value",
        default=0.0,
        always_written=True,
    )

    def __post_init__(self) -> None:
        if self.late_value > self.value:
            rule = f"must be at most value, {self.value:g}"
            raise FieldError("late_value", self.late_value, rule)

    def at(self, jct_s: float) -> float:
        """Return the utility at JCT `jct_s`."""
        return self.value if jct_s <= self.deadline_s else self.late_value


@declared()
class UtilityTable:
    """Utility as a step function of the JCT, given by a table of times and utilities.

    The utility is that of the first entry whose time is at least the JCT, or else 0.
    """

    kind = "table"
    entries: tuple[tuple[float, float], ...] = key(
        ListOf(Entry((Quantity(above=True), Quantity()), "pair of time and value")),
        "pairs of increasing time and non-increasing utility",
    )

    def __post_init__(self) -> None:
        for place, (before, entry) in enumerate(pairwise(self.entries), start=1):
            field = f"entries[{place}]"
            if entry[0] <= before[0]:
                raise FieldError(
                    f"{field}[0]", entry[0], "must be above the time of the entry before"
                )
            if entry[1] > before[1]:
                raise FieldError(
                    f"{field}[1]", entry[1], "must be at most the value of the entry before"
                )

    def at(self, jct_s: float) -> float:
        """Return the utility at JCT `jct_s`; O(entries)."""
        return next((value for time_s, value in self.entries if jct_s <= time_s), 0.0)


Utility = InverseJct | Deadline | UtilityTable
