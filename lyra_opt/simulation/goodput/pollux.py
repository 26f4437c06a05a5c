r"""Pollux's allocation of one scheduling epoch, and its exact optimum.

Each of J jobs gets k_j workers beyond its base demand. With s_j(k) for its speed-up against a fair
share of the GPUs, its effective speed-up is s_j(k) if k is what it has, and s_j(k) * r_j if it has
to restart for the change, r_j = max(age - restarts * 30 s, 0) / (age + 30 s). The fitness is their
power mean with p = -1,

    fitness(k) = (1/J * sum_j (effective speed-up of j)**p)**(1/p),

and the k_j workers of g_j GPUs each must fit into F GPUs.

Proposition. Maximising the fitness is a multiple-choice knapsack.
    For p < 0, x -> (x / J)**(1/p) falls for x > 0. So the fitness is greatest where
    sum_j c_j(k_j) is least, c_j = (effective speed-up of j)**p. The sum is separable, since the
    penalty of a job depends on its own k_j alone, and the only constraint that joins the jobs is
    sum_j g_j * k_j <= F. Taking k_j = 0 as no item, of weight and value 0, and k_j = k as an item
    of weight g_j * k and value c_j(0) - c_j(k), the value of a choice is
    sum_j c_j(0) - sum_j c_j(k_j): a choice of most value has the greatest fitness, and the
    converse. An item worth 0 or less is never needed, since none is lighter.
    If r_j = 0, every k_j but the present one makes the fitness 0, the limit of the power mean. Such
    jobs keep what they have and leave the knapsack, which is then of finite costs; if what they
    have does not fit, every allocation has the fitness 0 and none is better than another.

`best_allocation` solves that knapsack with `mckp-core`, so no search does better. Pollux itself
searches by a genetic algorithm, which the tests hold against it.

Source: Pollux (OSDI 2021), section 4.2.1, and Lyra (EuroSys 2023), section 7.1. Other than there,
jobs keep their base demand, and the GPUs of a job are counted, not placed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.allocation.exact.mckp_core import MckpCore
from lyra_opt.allocation.knapsack.data import Knapsack
from lyra_opt.core.result import Limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.allocation.knapsack.data import FloatArray, IntArray

RESTART_S = 30.0
"""What a restart costs a job; Pollux's simulator."""

LEAST_FACTOR = 1e-6
"""Smaller factors are 0: their inverse would drown all other terms of the fitness in rounding."""


def restart_factor(age_s: float, restarts: int) -> float:
    """Return r of a job: the share of its time that it would not have spent on restarts.

    Parameters
    ----------
    age_s
        Seconds since its submission, at least 0.
    restarts
        How often it has restarted.
    """
    factor = (age_s - restarts * RESTART_S) / (age_s + RESTART_S)
    return factor if factor >= LEAST_FACTOR else 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class PolluxEpoch:
    """The jobs of an epoch, at least one; all by job, in one order.

    Parameters
    ----------
    gpus
        F: GPUs beyond the base demands, at least 0.
    speed_ups
        s_j(k) for k = 0, 1, ... up to the most workers beyond the base demand; finite, above 0.
    gpus_per_worker
        g_j, at least 1.
    current
        k_j at present, from 0 to the most.
    restart_factor
        r_j, 0 or from `LEAST_FACTOR` to 1.
    """

    gpus: int
    speed_ups: tuple[FloatArray, ...]
    gpus_per_worker: IntArray
    current: IntArray
    restart_factor: FloatArray

    @property
    def jobs(self) -> int:
        """How many jobs there are."""
        return len(self.speed_ups)

    @cached_property
    def start(self) -> IntArray:
        """Shape (jobs + 1,): where the numbers of each job stand in `table` and `cost`."""
        return np.concatenate(([0], np.cumsum([len(table) for table in self.speed_ups])))

    @cached_property
    def most(self) -> IntArray:
        """Shape (jobs,): the most workers that each job can get."""
        most: IntArray = np.diff(self.start) - 1
        return most

    @cached_property
    def cost(self) -> FloatArray:
        """c_j(k), job after job; infinite where r_j = 0 forbids a change."""
        cost = 1.0 / np.concatenate(self.speed_ups)
        kept = self.start[:-1] + self.current
        kept_cost = cost[kept]
        with np.errstate(divide="ignore"):
            cost *= np.repeat(1.0 / self.restart_factor, self.most + 1)
        cost[kept] = kept_cost
        return cost


def best_allocation(epoch: PolluxEpoch, limits: Limits | None = None) -> IntArray:
    """Return the k_j of the greatest fitness; proof in the docstring of this module.

    The same for the same epoch; ties as `mckp-core` breaks them. Optimal within 1e-9 of what all
    jobs together can save against having no workers beyond their base demand.

    Parameters
    ----------
    epoch
        The jobs.
    limits
        Of the knapsack solver; none by default. When one is reached, the best allocation known is
        returned.

    Notes
    -----
    Complexity: that of `lyra_opt.allocation.exact.mckp_core.MckpCore`, with an item for each number
    of workers of each job; in practice O(items).
    """
    is_fixed = epoch.restart_factor == 0
    held = int((epoch.current * epoch.gpus_per_worker)[is_fixed].sum())
    if held > epoch.gpus:
        # Whatever is chosen has the fitness 0: choose as if these jobs could restart for nothing.
        free_restarts = np.where(is_fixed, 1.0, epoch.restart_factor)
        return best_allocation(replace(epoch, restart_factor=free_restarts), limits)
    extra = epoch.current.copy()
    free = np.flatnonzero(~is_fixed)
    cost, start = epoch.cost, epoch.start
    values = [cost[start[job]] - cost[start[job] + 1 : start[job + 1]] for job in free]
    extra[free] = most_valuable(epoch.gpus - held, values, epoch.gpus_per_worker[free], limits)
    return extra


def most_valuable(
    gpus: int, values: Sequence[FloatArray], gpus_per_worker: IntArray, limits: Limits | None = None
) -> IntArray:
    """Return the numbers of workers of most value.

    Parameters
    ----------
    gpus
        What there is to share out.
    values
        By job: the value of 1, 2, ... workers; finite.
    gpus_per_worker
        By job.
    limits
        As in `best_allocation`.
    """
    counts = np.array([len(value) for value in values], dtype=np.int64)
    start = np.concatenate(([0], np.cumsum(counts)))
    workers = np.arange(start[-1]) - np.repeat(start[:-1], counts) + 1
    reduced = Knapsack(
        capacity=gpus,
        start=start,
        weight=workers * np.repeat(gpus_per_worker, counts),
        value=np.concatenate(values) if len(values) else np.zeros(0),
    ).reduced()
    items = reduced.original(MckpCore().choose(reduced, limits or Limits()).chosen)
    chosen: IntArray = np.zeros(len(values), dtype=np.int64)
    chosen[items >= 0] = workers[items[items >= 0]]
    return chosen
