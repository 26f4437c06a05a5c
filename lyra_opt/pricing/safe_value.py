"""A value of the bound that rounding cannot have made too large."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lyra_opt.pricing.ascent import Pricer

    FloatArray = NDArray[np.float64]

EPSILON = float(np.finfo(float).eps)
SLACK = 64.0
"""Roundings on the way to what one job pays, sums left out; generous."""


def safe_value(pricer: Pricer, price: FloatArray) -> float:
    """Return a number that the bound at these prices is not below.

    Parameters
    ----------
    pricer
        Of the jobs and the room.
    price : array of (pools, cells)
        At least 0.
    """
    pricer.at(price, counts=False)
    jobs, room, scratch = pricer.jobs, pricer.room, pricer.scratch
    cells = price.shape[1]
    length_s = np.diff(room.border_s)
    most_paid = float((price * length_s).sum(axis=1).max(initial=0.0))
    most_paid += float(price.max(initial=0.0)) * float(room.border_s[-1])
    gpus = np.maximum.reduceat(jobs.gpus, jobs.first[:-1])
    slowest_s = 1.0 / np.minimum.reduceat(jobs.rate, jobs.first[:-1])
    margin = EPSILON * (
        (SLACK + cells) * gpus * most_paid
        + SLACK * jobs.weight * (room.border_s[-1] + jobs.release_s + slowest_s)
        + SLACK * scratch.size
    )
    paid = math.fsum(scratch.paid - margin)
    rent = (price * room.gpu_s).ravel()
    least = math.fsum(-rent * (1 + (SLACK + cells) * EPSILON))
    return paid + least - SLACK * EPSILON * (abs(paid) + abs(least))
