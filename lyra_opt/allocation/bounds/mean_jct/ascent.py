"""Maximise a concave function of which values and supergradients are known: L-BFGS, plainly.

SciPy's does its algebra in BLAS, whose threads wait for one another on a busy machine: vectors of
fifty numbers then take a hundred times as long as the function itself.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

MEMORY = 20
"""Pairs of steps and changes of slope that the curvature is told from."""
LEAST_SHARE = 1e-4
"""Of the rise that the slope promises, what a step must bring (Armijo)."""
LEAST_RISE = 1e-9
"""Relative rise of a step below which the ascent ends."""


def ascend(
    value_and_slope: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    scale: FloatArray,
    evaluations: int,
) -> FloatArray:
    """Return the best point found.

    Parameters
    ----------
    value_and_slope
        The function; where it has a kink, any supergradient.
    start
        Where to start.
    scale
        By how much each variable is likely to change; above 0.
    evaluations
        At most so many of the function, at least one.

    Notes
    -----
    Source: Nocedal and Wright, Numerical Optimization, algorithms 7.4 and 3.1. Complexity
    O(20 n) an evaluation beside it.
    """
    pairs: deque[tuple[FloatArray, FloatArray, float]] = deque(maxlen=MEMORY)
    point = start / scale
    value, slope = value_and_slope(start)
    slope = slope * scale
    left = evaluations - 1
    while left > 0:
        direction = _direction(slope, pairs)
        promised = _dot(direction, slope)
        if promised <= 0:
            break
        if not pairs:
            direction, promised = direction / np.abs(slope).max(), promised / np.abs(slope).max()
        step = 1.0
        while True:
            left -= 1
            moved = point + step * direction
            moved_value, moved_slope = value_and_slope(moved * scale)
            if moved_value >= value + LEAST_SHARE * step * promised:
                break
            if left <= 0 or step < 1e-6:
                return point * scale
            # Where the parabola through both values and the slope has its top.
            top = step * step * promised / (2 * (step * promised - (moved_value - value)))
            step = min(0.5 * step, max(0.1 * step, top))
        moved_slope = moved_slope * scale
        change, fall = moved - point, slope - moved_slope
        curvature = _dot(change, fall)
        if curvature > 1e-12 * _dot(fall, fall):
            pairs.append((change, fall, curvature))
        rise = moved_value - value
        point, value, slope = moved, moved_value, moved_slope
        if rise <= LEAST_RISE * abs(value):
            break
    return point * scale


def _direction(slope: FloatArray, pairs: deque[tuple[FloatArray, FloatArray, float]]) -> FloatArray:
    """Return the slope times the inverse curvature (the two-loop recursion)."""
    direction = slope.copy()
    shares = []
    for change, fall, curvature in reversed(pairs):
        share = _dot(change, direction) / curvature
        shares.append(share)
        direction -= share * fall
    if pairs:
        _, fall, curvature = pairs[-1]
        direction *= curvature / _dot(fall, fall)
    for (change, fall, curvature), share in zip(pairs, reversed(shares), strict=True):
        direction += (share - _dot(fall, direction) / curvature) * change
    return direction


def _dot(first: FloatArray, second: FloatArray) -> float:
    return float(np.einsum("i,i->", first, second))  # not BLAS: see above
