"""What strict first come, first served forbids: a few jobs that wait far longer than all others.

Where nobody overtakes and nobody is preempted, jobs start in the order in which they are submitted,
so that from job to job waits fall by at most the time between the submissions. Whoever waits e
seconds longer than T is therefore followed by jobs that wait longer than T too, for e seconds of
submissions at least. Of k jobs that wait longer than T, and are followed by one that does not, the
m-th last therefore waits at most ``T + m * gap`` where submissions are at most `gap` apart.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def most_mean_of_slowest_s(above_s: float, *, jobs: int, gap_s: float) -> float:
    """Return the longest mean wait of jobs that all wait longer than the others do.

    Parameters
    ----------
    above_s
        What no other job waits longer than.
    jobs
        How many wait longer, at least 1; the last job that is submitted is none of them.
    gap_s
        By which submissions are apart at most.

    Notes
    -----
    Source: this project. All of them submitted one after the other have the longest: in runs of m
    jobs the sum is ``m * (m + 1) / 2 * gap_s`` above, which is convex in m.
    """
    return above_s + (jobs + 1) / 2 * gap_s


def longest_gap_s(above_s: float, mean_s: float, *, jobs: int) -> float:
    """Return by how much submissions must be apart somewhere for so long a mean wait; its inverse.

    Parameters as in `most_mean_of_slowest_s`, `mean_s` in place of the gap.
    """
    return (mean_s - above_s) * 2 / (jobs + 1)


def least_mean_of_slowest_s(mean_s: float, percentiles_s: Mapping[float, float]) -> float:
    """Return what the slowest jobs wait at least in the mean.

    All others are taken to wait as long as the percentile above them allows.

    Parameters
    ----------
    mean_s
        Of all jobs.
    percentiles_s
        By rank in percent, rising; the slowest are those above the last one.
    """
    ranks = [0.0, *percentiles_s]
    shares = [(high - low) / 100 for low, high in pairwise(ranks)]
    others_s = math.fsum(
        share * value for share, value in zip(shares, percentiles_s.values(), strict=True)
    )
    return (mean_s - others_s) / (1 - ranks[-1] / 100)
