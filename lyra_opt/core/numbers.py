"""How tables, pages and messages write numbers, so that a number looks the same everywhere.

Measures and times have three significant digits, whole numbers all their digits, and percentages
one decimal. Commas separate thousands. A missing number (None or NaN) is a dash.

Numbers are rounded to the nearest text, except bounds: a lower bound is rounded down, and an upper
bound is rounded up, so that the text is never a stronger claim than the number. The formats take
``rounding=DOWN`` or ``rounding=UP`` for this.
"""

import math
from collections.abc import Callable, Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import partial, wraps
from inspect import signature
from typing import Any, NamedTuple

MISSING = "–"
"""Stands for a missing number, such as a mean over no instances."""

INFINITE = "∞"
MINUS = "−"

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
HOUR_MS, DAY_MS = 1000 * HOUR_S, 1000 * DAY_S

FEW = 100
"""Means of counts below this value are shown with decimals."""

SMALLEST_PERCENT = 0.1
"""The last digit of a percentage; a smaller one that is not 0 is shown as less than this."""

LEAST_EXPONENT = -4
"""Numbers of smaller powers of ten are written with their power."""

EXACT_DIGITS = 10
"""Significant digits of an objective that is not a whole number."""

DOWN, UP = ROUND_FLOOR, ROUND_CEILING
"""The directions in which the formats round lower and upper bounds."""

WIDE = Context(prec=400)
"""Decimal arithmetic with more digits than any float has."""

TRUSTED_DIGITS = 12
"""A directed rounding ignores later digits, because float arithmetic leaves noise in them."""

Show = Callable[..., str]
"""A function that writes a value as text."""


def is_missing(value: object) -> bool:
    """Return whether a value is None or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _number_format(show: Show) -> Show:
    """Extend a format of finite numbers to missing and infinite ones, with a true minus sign."""

    @wraps(show)
    def shown(value: Any, **options: Any) -> str:
        if is_missing(value):
            return MISSING
        is_finite = math.isfinite(value)
        text = show(value, **options) if is_finite else f"{value}".replace("inf", INFINITE)
        return text.replace("-", MINUS)

    return shown


def rounded(value: float, decimals: int, rounding: str | None) -> float:
    """Return a number rounded to some decimals in a direction; None leaves it as it is.

    The noise of float arithmetic does not move a number to its neighbour.

    >>> rounded(5.4067, 2, DOWN), rounded(5.3, 2, DOWN), rounded(100 * 0.07, 1, UP)
    (5.4, 5.3, 7.0)
    """
    if rounding is None:
        return value
    trusted = Decimal(f"{value:.{TRUSTED_DIGITS}g}")
    return float(trusted.quantize(Decimal(1).scaleb(-decimals), rounding, WIDE))


@_number_format
def three_digits(value: float, largest: float | None = None, rounding: str | None = None) -> str:
    """Return a number as text with three significant digits; whole digits are never rounded away.

    With `largest`, the size of the largest number beside it, it has as many decimals as that one.

    >>> [three_digits(each) for each in (141_318.2, 12.34, -0.21, 0.0, 2e-7, math.nan, math.inf)]
    ['141,318', '12.3', '−0.210', '0', '2.00e−7', '–', '∞']
    >>> three_digits(0.00909, largest=0.832)
    '0.009'
    >>> three_digits(5.4067), three_digits(5.4067, rounding=DOWN)
    ('5.41', '5.40')
    """
    size = abs(value) if largest is None else largest
    if size == 0:
        return "0"
    exponent = int(f"{size:.2e}".partition("e")[2])
    if exponent < LEAST_EXPONENT:
        return f"{rounded(value, 2 - exponent, rounding):.2e}".replace("e-0", "e-")
    decimals = max(0, 2 - exponent)
    return f"{rounded(value, decimals, rounding):z,.{decimals}f}"


@_number_format
def count(value: float, largest: float | None = None) -> str:
    """Return a count, or a mean of counts, as text; `largest` is that of `three_digits`.

    >>> count(12_345), count(2.5), count(2.0), count(1234.5)
    ('12,345', '2.50', '2', '1,234')
    """
    has_decimals = value != round(value) if largest is None else True
    size = abs(value) if largest is None else largest
    return three_digits(value, largest=size) if has_decimals and size < FEW else f"{round(value):,}"


@_number_format
def percent(value: float, rounding: str | None = None) -> str:
    """Return a percentage as text without its sign; only 0 itself is shown as 0.

    >>> percent(6.67), percent(0.0), percent(0.004), percent(-3100)
    ('6.7', '0.0', '< 0.1', '−3,100.0')
    """
    if 0 < abs(value) < SMALLEST_PERCENT / 2:
        return f"< {SMALLEST_PERCENT}" if value > 0 else f"> -{SMALLEST_PERCENT}"
    return f"{rounded(value, 1, rounding):,.1f}"


def share(value: float | None, rounding: str | None = None) -> str:
    """Return a share from 0 to 1 as a percentage without its sign; see `percent`.

    >>> share(0.158), share(0.1581, rounding=UP)
    ('15.8', '15.9')
    """
    return MISSING if value is None else percent(100 * value, rounding=rounding)


@_number_format
def exact(value: float) -> str:
    """Return an objective or a bound as text: whole numbers in full, others with ten digits.

    >>> exact(1_234_567), exact(2.5), exact(1 / 3)
    ('1,234,567', '2.5', '0.3333333333')
    """
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{EXACT_DIGITS}g}"


@_number_format
def six_digits(value: float, rounding: str | None = None) -> str:
    """Return an objective or a bound for a table: whole numbers in full, others with six digits.

    >>> six_digits(1_234_567), six_digits(2 / 3), six_digits(2 / 3, rounding=DOWN)
    ('1,234,567', '0.666667', '0.666666')
    """
    if isinstance(value, int):
        return f"{value:,}"
    decimals = 5 - int(f"{value:.5e}".partition("e")[2])
    return f"{rounded(value, decimals, rounding):,.6g}"


def signed(show: Show) -> Show:
    """Return a format of differences, which writes a plus sign before positive numbers.

    >>> [signed(percent)(each) for each in (3.21, -3.21, 0.0, 1e-3)]
    ['+3.2', '−3.2', '0.0', '+0.0']
    """

    def shown(value: Any, **largest: Any) -> str:
        text = show(value, **largest)
        if text.startswith(("< ", "> ")):
            text = "0.0" if value > 0 else f"{MINUS}0.0"
        return text if is_missing(value) or value <= 0 else f"+{text}"

    return shown


def alike(show: Show, values: Iterable[Any]) -> Show:
    """Return a format that gives these values as many decimals as `show` gives the largest one.

    Formats whose decimals do not depend on the value, such as `percent`, stay as they are.

    >>> list(map(alike(three_digits, [0.376, 0.00909, 0.832]), [0.376, 0.00909, 0.832]))
    ['0.376', '0.009', '0.832']
    """
    sizes = [abs(each) for each in values if not is_missing(each) and math.isfinite(each)]
    has_choice = "largest" in signature(show).parameters
    if (
        not has_choice
        or not sizes
        or (show is count and all(each == round(each) for each in sizes))
    ):
        return show
    return partial(show, largest=max(sizes))


class Unit(NamedTuple):
    """A unit of time: plural name, symbol, length in seconds, and the shortest duration for it."""

    name: str
    symbol: str
    seconds: float
    least_s: float


HOURS = Unit("hours", "h", HOUR_S, HOUR_S)
UNITS = (
    Unit("days", "d", DAY_S, 3 * DAY_S),
    HOURS,
    Unit("minutes", "min", MINUTE_S, 2 * MINUTE_S),
    Unit("seconds", "s", 1, 0.0),
)
"""The units of simulated times, such as job completion times."""

MILLISECONDS = Unit("milliseconds", "ms", 1e-3, 0.0)
RUN_UNITS = (Unit("seconds", "s", 1, 1.0), MILLISECONDS)
"""The units of the running times of solvers."""


def unit_of(duration_s: float, units: tuple[Unit, ...] = UNITS) -> Unit:
    """Return the unit in which a duration is easiest to read.

    >>> unit_of(90).symbol, unit_of(14_400).symbol, unit_of(0.02, RUN_UNITS).symbol
    ('s', 'h', 'ms')
    """
    return next(unit for unit in units if abs(duration_s) >= unit.least_s)


def in_unit(unit: Unit) -> Show:
    """Return a format that writes seconds as a number in `unit`."""

    def shown(value_s: Any, largest: float | None = None, rounding: str | None = None) -> str:
        if is_missing(value_s):
            return MISSING
        largest = None if largest is None else largest / unit.seconds
        return three_digits(value_s / unit.seconds, largest=largest, rounding=rounding)

    return shown


def duration(value_s: float, unit: Unit | None = None, rounding: str | None = None) -> str:
    """Return a duration as text in `unit`, or else in the one of `UNITS` that is easiest to read.

    >>> duration(5400), duration(-5400), duration(0.0021, MILLISECONDS)
    ('1.50 h', '−1.50 h', '2.10 ms')
    """
    chosen = unit or unit_of(value_s)
    return f"{in_unit(chosen)(value_s, rounding=rounding)} {chosen.symbol}"
