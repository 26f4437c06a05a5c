"""Hadar's prices of GPUs: the exponential of how much of them is used."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, inf, log
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

LOG_LEAST_SHARE = log(1e-12)
"""Of the highest price: the lowest one where no job's least utility is above 0."""


@dataclass(frozen=True, slots=True)
class PriceRange:
    """What a GPU of a type costs in a round: `least` idle, `most` when all are used.

    Parameters
    ----------
    log_least, log_most
        Logarithms, since the two may be far apart; both -inf where no job wants the type.
    """

    log_least: float
    log_most: float

    def price(self, used: int, capacity: int) -> float:
        """Return U_min (U_max / U_min)^(used / capacity)."""
        if self.log_most == -inf:
            return 0.0
        return exp(self.log_least + (self.log_most - self.log_least) * used / capacity)

    @property
    def log_ratio(self) -> float:
        """Return ln(U_max / U_min); 0 where no job wants the type."""
        return 0.0 if self.log_most == -inf else self.log_most - self.log_least


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedJobs:
    """What the prices need to know of the jobs.

    Parameters
    ----------
    gangs
        Shape (jobs,).
    can_run
        Whether a job can run on a type; shape (jobs, types).
    longest_rounds
        What each job takes on its slowest type; shape (jobs,).
    most_worth, last_worth
        Weighted utility if it never waits on its fastest type, and if it completes at the
        horizon; shape (jobs,).
    """

    gangs: NDArray[np.int64]
    can_run: NDArray[np.bool_]
    longest_rounds: NDArray[np.float64]
    most_worth: NDArray[np.float64]
    last_worth: NDArray[np.float64]


def rounds_to_run(steps: float, rate: float, round_s: float) -> int:
    """Return how many rounds that many steps take, 1 at least."""
    return max(1, ceil(steps / (rate * round_s) * (1 - 1e-9)))


def all_rounds_to_run(
    steps: NDArray[np.float64], rates: NDArray[np.float64], round_s: float
) -> NDArray[np.float64]:
    """Return `rounds_to_run` for arrays that broadcast; rates may be inf."""
    return np.maximum(1.0, np.ceil(steps / (rates * round_s) * (1 - 1e-9)))


def price_ranges(jobs: PricedJobs, gpus: int) -> list[PriceRange]:
    """Return Hadar's U_min and U_max of each type from the jobs that want it.

    Source: Hadar (arXiv 2503.10918). That prices grow exponentially between two constants is well
    established; the constants below are from memory, with high to medium confidence for their
    form and medium for the factor 1 / (4 eta)::

        U_max^r = max_j U_j(t_j^min) / W_j
        U_min^r = min_j U_j(T - a_j) / (t_j^max W_j) / (4 eta)
        1 / eta = min_j t_j^max W_j / (GPUs of the cluster)

    where W_j is the gang, t_j^min and t_j^max are the rounds that the job takes on its fastest and
    on its slowest type, and the extremes run over the jobs that can run on type r. Prices are per
    GPU and round. A job that is worth nothing at the horizon has no part in U_min; where none is
    worth anything then, U_min is 1e-12 U_max. O(jobs types).

    Parameters
    ----------
    jobs
        Active ones.
    gpus
        Of the cluster.
    """
    with np.errstate(divide="ignore"):
        gpu_rounds = jobs.longest_rounds * jobs.gangs
        most = np.log(jobs.most_worth / jobs.gangs)
        least = np.log(jobs.last_worth / gpu_rounds)
    least[least == -inf] = inf
    is_runnable = jobs.can_run.any(axis=1)
    log_inverse_eta = log(gpu_rounds[is_runnable].min() / gpus) if is_runnable.any() else 0.0
    ranges = []
    for can_run in jobs.can_run.T:
        log_most = float(most[can_run].max(initial=-inf))
        log_least = float(least[can_run].min(initial=inf)) + log_inverse_eta - log(4)
        if log_least == inf:
            log_least = log_most + LOG_LEAST_SHARE
        ranges.append(PriceRange(min(log_least, log_most), log_most))
    return ranges


def competitive_ratio(ranges: Sequence[PriceRange]) -> float:
    """Return 2 alpha, alpha = max(1, ln(U_max / U_min)) over types; form from memory (high).

    A theorem only in the setting of `lyra_opt.heterogeneous.heuristics.hadar.committed`; elsewhere
    a number to set observed ratios beside.
    """
    return 2 * max(1.0, *(each.log_ratio for each in ranges))
