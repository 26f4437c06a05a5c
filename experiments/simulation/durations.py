"""Seconds in the unit that a reader thinks in."""

from __future__ import annotations

from typing import NamedTuple

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400


class Unit(NamedTuple):
    """A unit of time.

    Parameters
    ----------
    name
        In the plural.
    symbol
        As it stands behind a number.
    seconds
        How long it is.
    least_s
        Duration from which it is used.
    """

    name: str
    symbol: str
    seconds: int
    least_s: float


UNITS = (
    Unit("days", "d", DAY_S, 3 * DAY_S),
    Unit("hours", "h", HOUR_S, HOUR_S),
    Unit("minutes", "min", MINUTE_S, 2 * MINUTE_S),
    Unit("seconds", "s", 1, 0.0),
)


def unit_of(duration_s: float) -> Unit:
    """Return the unit for durations like this one.

    >>> unit_of(90).symbol, unit_of(14_400).symbol, unit_of(300_000).symbol
    ('s', 'h', 'd')
    """
    return next(unit for unit in UNITS if abs(duration_s) >= unit.least_s)


def three_digits(value: float) -> str:
    """Return a number with three digits or more, never with an exponent above 1.

    >>> three_digits(1234.5), three_digits(12.34), three_digits(0.21), three_digits(0.0)
    ('1,234', '12.3', '0.210', '0')
    """
    size = abs(value)
    if size == 0:
        return "0"
    if size < 1:
        return f"{value:#.3g}"
    return f"{value:,.{0 if size >= 99.95 else 1 if size >= 9.995 else 2}f}"


def duration(value_s: float, unit: Unit | None = None) -> str:
    """Return a duration with its unit; None takes the one that suits it.

    >>> duration(5400), duration(-5400)
    ('1.50 h', '−1.50 h')
    """
    chosen = unit or unit_of(value_s)
    return f"{three_digits(value_s / chosen.seconds)} {chosen.symbol}".replace("-", "−")
