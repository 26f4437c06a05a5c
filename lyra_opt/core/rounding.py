"""Rounding to the safe side: floats that are never on the wrong side of an exact number."""

from __future__ import annotations

import math
from fractions import Fraction


def float_up(value: Fraction) -> float:
    """Return the least float that is not below `value`."""
    nearest = float(value)
    return math.nextafter(nearest, math.inf) if Fraction(nearest) < value else nearest
