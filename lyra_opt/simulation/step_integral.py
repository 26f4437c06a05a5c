"""The integral of what changes in steps, such as the GPUs that there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]


def step_integral(since_s: FloatArray, values: NDArray[Any], time_s: FloatArray) -> FloatArray:
    """Return the integral up to each moment, float64, in the shape of `time_s`; O(n log steps).

    Parameters
    ----------
    since_s : array of steps
        When each step begins, rising from 0; the last one stays for ever.
    values : array of steps
        What there is from there to the next step.
    time_s
        Moments, at least 0.
    """
    until = np.concatenate(([0.0], np.cumsum(values[:-1] * np.diff(since_s))))
    step = np.searchsorted(since_s, time_s, side="right") - 1
    found: FloatArray = until[step] + values[step] * (time_s - since_s[step])
    return found
