"""Rows of tables: fields by the name of their column; every error names file, row and column."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING

from lyra_opt.core.errors import InputError, show_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

MILLISECONDS = 1000
LARGEST_SECONDS = 10**11  # some 3,000 years: a clock since 1970 fits, a typing error does not
LARGEST_COUNT = 10**9
GPU_TYPE_SEPARATOR = "|"
NO_VALUE = frozenset({"", "none", "nan", "nat", "null"})

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table.

    Parameters
    ----------
    source, number
        The file, and which row it is of it.
    columns
        Where each column is.
    values
        The fields.
    """

    source: str
    number: int
    columns: Mapping[str, int]
    values: Sequence[str]

    def require_width(self, width: int, other: str) -> None:
        """Raise `InputError` unless the row has as many fields as another one."""
        if len(self.values) != width:
            fields = f"{len(self.values)} field" + "s" * (len(self.values) != 1)
            reason = f"row {self.number} has {fields}, but {other} has {width}"
            raise InputError(self.source, reason)

    def text(self, column: str) -> str:
        """Return what stands in a column."""
        return self.values[self.columns[column]].strip()

    def error(self, column: str, rule: str) -> InputError:
        """Return the error that a column breaks a rule."""
        shown = show_value(self.text(column))
        return InputError(self.source, f"row {self.number}, column {column} is {shown}: {rule}")

    def has(self, column: str) -> bool:
        """Whether a column has a value."""
        return self.text(column).lower() not in NO_VALUE

    def required(self, column: str) -> str:
        """Return a text that is not empty."""
        value = self.text(column)
        if not value:
            raise self.error(column, "must not be empty")
        return value

    def job_id(self, column: str = "job_id") -> str:
        """Return the name of a job."""
        return self.required(column)

    def milliseconds(self, column: str) -> int:
        """Return decimal seconds as milliseconds, rounded to the nearest, ties to even."""
        text = self.text(column)
        if text.isascii() and text.isdigit() and len(text) <= 11:
            return int(text) * MILLISECONDS
        if not _DECIMAL.fullmatch(text) or not 0 <= (seconds := Decimal(text)) <= LARGEST_SECONDS:
            raise self.error(column, f"must be a number of seconds from 0 to {LARGEST_SECONDS}")
        return int((seconds * MILLISECONDS).to_integral_value(rounding=ROUND_HALF_EVEN))

    def number_from_1(self, column: str) -> int:
        """Return an integer of at least 1, such as a number of GPUs."""
        text = self.text(column)
        if not _INTEGER.fullmatch(text) or not 1 <= int(text) <= LARGEST_COUNT:
            raise self.error(column, f"must be an integer from 1 to {LARGEST_COUNT}")
        return int(text)

    def count(self, column: str) -> int:
        """Return an integer of at least 0, which some sources write as a decimal."""
        whole, _, decimals = self.text(column).partition(".")
        if not (whole.isascii() and whole.isdigit() and len(whole) <= 9) or decimals.strip("0"):
            raise self.error(column, "must be an integer of at least 0")
        return int(whole)

    def positive(self, column: str) -> int:
        """Return an integer of at least 1, which some sources write as a decimal."""
        value = self.count(column)
        if not value:
            raise self.error(column, "must be at least 1")
        return value

    def decimal(self, column: str) -> float:
        """Return a finite number."""
        text = self.text(column)
        if not _DECIMAL.fullmatch(text) or not math.isfinite(float(text)):
            raise self.error(column, "must be a finite number")
        return float(text)

    def weight(self, column: str) -> float:
        """Return a number above 0."""
        weight = self.decimal(column)
        if weight <= 0:
            raise self.error(column, "must be above 0")
        return weight

    def moment(self, column: str) -> int:
        """Return a date and time as milliseconds since 1970."""
        rule = "must be a date and time such as 2020-06-09 18:41:01"
        return moment_ms(self.text(column), lambda: self.error(column, rule))

    def gpu_types(self, column: str) -> tuple[str, ...]:
        """Return GPU types, separated by ``|``, each once in whatever case, in order."""
        names = [name.strip() for name in self.text(column).split(GPU_TYPE_SEPARATOR)]
        if not all(names):
            rule = f"must be names separated by {GPU_TYPE_SEPARATOR}, none of them empty"
            raise self.error(column, rule)
        found: dict[str, str] = {}
        for name in names:
            found.setdefault(name.casefold(), name)
        return tuple(found.values())


def moment_ms(text: str, error: Callable[[], InputError]) -> int:
    """Return a date and time as milliseconds since 1970; raise what `error` returns for other text.

    Without a time zone it is UTC: only differences matter, and a file has one clock.
    """
    try:
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise error() from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    milliseconds = (moment - _EPOCH) // _MILLISECOND
    if milliseconds < 0:
        raise error()
    return milliseconds


def require_columns(
    source: str, header: Sequence[str], columns: Iterable[str], expected: str
) -> None:
    """Raise `InputError` unless a header has each of the columns once.

    Parameters
    ----------
    expected
        What such a table has, for errors.
    """
    for column in columns:
        if header.count(column) != 1:
            found = "is missing" if column not in header else "occurs more than once"
            raise InputError(source, f"row 1: column {column} {found}; {expected}")


def require_once(source: str, header: Sequence[str], columns: Iterable[str]) -> None:
    """Raise `InputError` if a header has one of the columns more than once."""
    for column in columns:
        if header.count(column) > 1:
            raise InputError(source, f"row 1: column {column} occurs more than once")


class BadRows:
    """The context in which a row is read: a bad row is refused, or dropped and counted.

    Parameters
    ----------
    drops
        Whether such rows are dropped.
    """

    def __init__(self, drops: bool = False) -> None:
        self.drops, self.count, self.first = drops, 0, ""

    def __enter__(self) -> None:
        """Begin a row."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Drop the row if it broke a rule and such rows are dropped."""
        if not self.drops or not isinstance(error, InputError):
            return False
        self.count += 1
        self.first = self.first or error.reason
        return True
