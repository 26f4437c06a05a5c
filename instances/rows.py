"""Rows of a table whose fields are read by column name; errors name file, row and column."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from types import TracebackType

from lyra_opt.core.errors import InputError, UserError, show_value
from lyra_opt.core.nearest_names import nearest

MILLISECONDS = 1000
LARGEST_SECONDS = 10**11  # about 3,000 years: holds a time since 1970, and catches typing errors
LARGEST_COUNT = 10**9
GPU_TYPE_SEPARATOR = "|"
NO_VALUE = frozenset({"", "none", "nan", "nat", "null"})

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table, whose fields are read by the names of their columns.

    Parameters
    ----------
    source, number
        The name of the file, and the number of the row in the file.
    columns
        The index of each column, by name.
    values
        The fields of the row, as text.
    """

    source: str
    number: int
    columns: Mapping[str, int]
    values: Sequence[str]

    def require_width(self, width: int, other: str) -> None:
        """Raise `InputError` unless the row has `width` fields, as the row named `other` has."""
        if len(self.values) != width:
            fields = f"{len(self.values)} field" + "s" * (len(self.values) != 1)
            reason = f"row {self.number} has {fields}, but {other} has {width}"
            raise InputError(self.source, reason)

    def text(self, column: str) -> str:
        """Return the text of a column without surrounding blanks."""
        return self.values[self.columns[column]].strip()

    def error(self, column: str, rule: str) -> InputError:
        """Return the error that says which rule the value of a column breaks."""
        shown = show_value(self.text(column)) if self.text(column) else "empty"
        return InputError(self.source, f"row {self.number}, column {column} is {shown}: {rule}")

    def has(self, column: str) -> bool:
        """Return whether a column has a value other than an empty text, ``none`` or ``nan``."""
        return self.text(column).lower() not in NO_VALUE

    def required(self, column: str) -> str:
        """Return the text of a column, which must not be empty."""
        value = self.text(column)
        if not value:
            raise self.error(column, "must not be empty")
        return value

    def milliseconds(self, column: str) -> int:
        """Return decimal seconds as milliseconds, rounded to the nearest (ties to even)."""
        return self.thousandths(column, " of seconds")

    def thousandths(self, column: str, of: str = "") -> int:
        """Return a decimal number in thousandths, rounded to the nearest (ties to even).

        `of` names what is counted in errors, such as " of seconds".
        """
        text = self.text(column)
        if text.isascii() and text.isdigit() and len(text) <= 11:
            return int(text) * 1000
        if not _DECIMAL.fullmatch(text) or not 0 <= (number := Decimal(text)) <= LARGEST_SECONDS:
            raise self.error(column, f"must be a number{of} from 0 to {LARGEST_SECONDS}")
        return int((number * 1000).to_integral_value(rounding=ROUND_HALF_EVEN))

    def number_from_1(self, column: str) -> int:
        """Return a column as an integer of at least 1, such as a number of GPUs."""
        text = self.text(column)
        if not _INTEGER.fullmatch(text) or not 1 <= int(text) <= LARGEST_COUNT:
            raise self.error(column, f"must be an integer from 1 to {LARGEST_COUNT}")
        return int(text)

    def count(self, column: str) -> int:
        """Return a column as an integer of at least 0; decimals such as 3.0 are accepted."""
        whole, _, decimals = self.text(column).partition(".")
        if not (whole.isascii() and whole.isdigit() and len(whole) <= 9) or decimals.strip("0"):
            raise self.error(column, "must be an integer of at least 0")
        return int(whole)

    def positive(self, column: str) -> int:
        """Return a column as an integer of at least 1; decimals such as 3.0 are accepted."""
        value = self.count(column)
        if not value:
            raise self.error(column, "must be at least 1")
        return value

    def priority(self, column: str) -> int:
        """Return a column as a 32-bit integer, which may be negative."""
        text = self.text(column)
        if not _INTEGER.fullmatch(text) or not -(2**31) <= int(text) < 2**31:
            raise self.error(column, f"must be an integer from {-(2**31)} to {2**31 - 1}")
        return int(text)

    def decimal(self, column: str) -> float:
        """Return the value of a column as a finite number."""
        text = self.text(column)
        if not _DECIMAL.fullmatch(text) or not math.isfinite(float(text)):
            raise self.error(column, "must be a finite number")
        return float(text)

    def weight(self, column: str) -> float:
        """Return the value of a column as a number above 0."""
        weight = self.decimal(column)
        if weight <= 0:
            raise self.error(column, "must be above 0")
        return weight

    def moment(self, column: str) -> int:
        """Return a date and time as milliseconds since 1970."""
        rule = "must be a date and time such as 2020-06-09 18:41:01"
        return moment_ms(self.text(column), lambda: self.error(column, rule))

    def gpu_types(self, column: str) -> tuple[str, ...]:
        """Return the GPU types that a column lists, without duplicates, ignoring case."""
        names = [name.strip() for name in self.text(column).split(GPU_TYPE_SEPARATOR)]
        if not all(names):
            rule = f"must be names separated by {GPU_TYPE_SEPARATOR}, none of them empty"
            raise self.error(column, rule)
        found: dict[str, str] = {}
        for name in names:
            found.setdefault(name.casefold(), name)
        return tuple(found.values())


def moment_ms(text: str, error: Callable[[], UserError]) -> int:
    """Return a date and time as milliseconds since 1970; raise the result of `error` if not valid.

    A time without a time zone counts as UTC. Only differences matter, as a file has one clock.
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
    """Raise `InputError` unless a header contains each of the columns exactly once.

    Parameters
    ----------
    expected
        A phrase for errors that says which columns such a table has.
    """
    for column in columns:
        if header.count(column) != 1:
            found = "occurs more than once"
            if column not in header:
                similar = nearest(column, header)
                found = "is missing" + (f", is it {similar}?" if similar else "")
            raise InputError(source, f"row 1: column {column} {found}; {expected}")


def require_once(source: str, header: Sequence[str], columns: Iterable[str]) -> None:
    """Raise `InputError` if one of the columns occurs more than once in a header."""
    for column in columns:
        if header.count(column) > 1:
            raise InputError(source, f"row 1: column {column} occurs more than once")


def rows_below(source: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[Row]:
    """Yield the rows below the header of a table, without empty ones.

    Raises
    ------
    InputError
        If a row has more or fewer fields than the header.
    """
    places = {name: place for place, name in enumerate(header)}
    for number, values in enumerate(rows, start=2):
        if values:
            row = Row(source, number, places, values)
            row.require_width(len(header), "the header")
            yield row


class BadRows:
    """A context manager for reading a row: a bad row is refused, or else dropped and counted.

    Parameters
    ----------
    drops
        Whether bad rows are dropped instead of refused.
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
        """Drop the row if it breaks a rule and bad rows are dropped; else let the error pass."""
        if not self.drops or not isinstance(error, InputError):
            return False
        self.count += 1
        self.first = self.first or error.reason
        return True
