r"""Pollux's allocation of one scheduling epoch: its fitness, and a bound on it.

Each of J jobs gets a row of the allocation matrix: so many workers on each server, none at all or
as many as it can use. With s_j(K, place) for the speed-up of a job with K workers against a fair
share of the GPUs, which depends on whether they are on one server or on several, its effective
speed-up is s_j if the row is what it has, and s_j * r_j if it has to restart for it,
r_j = max(age - restarts * 30 s, 0) / (age + 30 s). The fitness is their power mean with p = -1,

    fitness = (1/J * sum_j (e + effective speed-up of j)**p)**(1/p),

where e = 0.001 is what a job counts for that gets nothing. A server holds workers of at most one
job that is spread, so that jobs do not slow each other down across the network.

Proposition. The fitness without places is a multiple-choice knapsack.
    For p < 0, x -> (x / J)**(1/p) falls for x > 0. So the fitness is greatest where
    sum_j c_j is least, c_j = (e + effective speed-up of j)**p, which depends on the row of j
    alone. Let c_j(k) be the least of all rows of k workers. Without the limits of single servers
    the only constraint that joins the jobs is sum_j g_j * k_j <= F for F GPUs in all and g_j a
    worker. Taking k_j = 0 as no item, of weight and value 0, and k_j = k as an item of weight
    g_j * k and value c_j(0) - c_j(k), the value of a choice is sum_j c_j(0) - sum_j c_j(k_j): a
    choice of most value has the greatest fitness, and the converse. An item worth 0 or less is
    never needed, since none is lighter.

So that knapsack, solved exactly, bounds the fitness of all allocations, and says how many workers
each job should have. `lyra_opt.simulation.goodput.allocation` finds servers for them.

Source: Pollux (OSDI 2021), section 4.2, and its public artifact (petuum/adaptdl, branch
osdi21-artifact), which has e. There a genetic algorithm searches the matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.allocation.exact.mckp_core import MckpCore
from lyra_opt.allocation.knapsack.data import Knapsack
from lyra_opt.simulation.goodput.tuning import NEAR, SPREAD

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.allocation.knapsack.data import FloatArray, IntArray

    Row = Mapping[int, int]
    """Workers of a job by server, at least 1 each."""

LEAST_SPEED_UP = 1e-3
"""e: what is added to each effective speed-up."""


def restart_factor(age_s: float, restarts: int, restart_s: float) -> float:
    """Return r of a job: the share of its time that it would not have spent on restarts.

    Parameters
    ----------
    age_s
        Seconds since its submission, at least 0.
    restarts
        How often it has restarted.
    restart_s
        What a restart costs it, above 0 if `age_s` is 0.
    """
    return max(age_s - restarts * restart_s, 0.0) / (age_s + restart_s)


@dataclass(frozen=True, kw_only=True, eq=False)
class PolluxEpoch:
    """The jobs of an epoch, at least one; all by job, in one order.

    Parameters
    ----------
    gpus
        GPUs by server that the jobs have or could have.
    gpus_per_worker
        g_j, at least 1.
    least, most
        With how few and how many workers a job can run, at least 1; fewer are none.
    speed_up
        s_j, from 0 on and finite, shape (near or spread, jobs, most of all + 1).
    held
        What the jobs have at present, empty for those that wait; possible as a whole.
    restart_factor
        r_j, from 0 to 1.
    """

    gpus: IntArray
    gpus_per_worker: IntArray
    least: IntArray
    most: IntArray
    speed_up: FloatArray
    held: Sequence[Row]
    restart_factor: FloatArray

    @property
    def jobs(self) -> int:
        """How many jobs there are."""
        return len(self.held)

    @cached_property
    def cost(self) -> FloatArray:
        """c_j of rows other than the present ones, as `speed_up`; infinite where there is none."""
        cost = 1.0 / (self.speed_up * self.restart_factor[:, None] + LEAST_SPEED_UP)
        workers = np.arange(cost.shape[2])
        cost[:, (workers < self.least[:, None]) | (workers > self.most[:, None])] = np.inf
        is_too_large = workers * self.gpus_per_worker[:, None] > self.gpus.max()
        cost[NEAR, is_too_large] = np.inf
        cost[SPREAD, :, 1 : None if len(self.gpus) == 1 else 2] = np.inf
        cost[:, :, 0] = 1.0 / LEAST_SPEED_UP
        return cost

    @cached_property
    def held_workers(self) -> IntArray:
        """How many workers each job has at present."""
        return np.array([sum(row.values()) for row in self.held], dtype=np.int64)

    @cached_property
    def held_cost(self) -> FloatArray:
        """c_j of the present rows."""
        place = np.array([SPREAD if len(row) > 1 else NEAR for row in self.held])
        speed_up = self.speed_up[place, np.arange(self.jobs), self.held_workers]
        cost: FloatArray = 1.0 / (speed_up * (self.held_workers > 0) + LEAST_SPEED_UP)
        return cost

    def cost_of(self, job: int, row: Row) -> float:
        """Return c_j of a row."""
        if row == self.held[job]:
            return float(self.held_cost[job])
        return float(self.cost[SPREAD if len(row) > 1 else NEAR, job, sum(row.values())])

    def fitness(self, rows: Sequence[Row]) -> float:
        """Return the fitness of an allocation, a row a job."""
        return self.jobs / sum(self.cost_of(job, row) for job, row in enumerate(rows))

    @cached_property
    def relaxed_cost(self) -> FloatArray:
        """c_j(k): the least cost of each number of workers, shape (jobs, most of all + 1)."""
        cost: FloatArray = self.cost.min(axis=0)
        jobs = np.arange(self.jobs)
        held = cost[jobs, self.held_workers]
        cost[jobs, self.held_workers] = np.minimum(held, self.held_cost)
        return cost


def relaxed_workers(epoch: PolluxEpoch) -> IntArray:
    """Return the numbers of workers of greatest fitness without places; proof in this module.

    The same for the same epoch; ties as `mckp-core` breaks them. Optimal within 1e-9 of what all
    jobs together can save against having nothing, and else the best numbers known when one of the
    limits in force is reached.

    Parameters
    ----------
    epoch
        The jobs.

    Notes
    -----
    Complexity: that of `lyra_opt.allocation.exact.mckp_core.MckpCore`, with an item for each number
    of workers of each job; in practice O(items).
    """
    saved = 1.0 / LEAST_SPEED_UP - epoch.relaxed_cost[:, 1:]
    # What is impossible is worth less than nothing.
    saved = np.maximum(saved, -1.0)
    values = [of_job[:most] for of_job, most in zip(saved, epoch.most, strict=True)]
    return most_valuable(int(epoch.gpus.sum()), values, epoch.gpus_per_worker)


def fitness_bound(epoch: PolluxEpoch) -> float:
    """Return what the fitness of no allocation exceeds, but for rounding."""
    workers = relaxed_workers(epoch)
    return epoch.jobs / float(epoch.relaxed_cost[np.arange(epoch.jobs), workers].sum())


def most_valuable(gpus: int, values: Sequence[FloatArray], gpus_per_worker: IntArray) -> IntArray:
    """Return the numbers of workers of most value.

    Parameters
    ----------
    gpus
        What there is to share out.
    values
        By job: the value of 1, 2, ... workers; finite.
    gpus_per_worker
        By job.
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
    items = reduced.original(MckpCore().choose(reduced).chosen)
    chosen: IntArray = np.zeros(len(values), dtype=np.int64)
    chosen[items >= 0] = workers[items[items >= 0]]
    return chosen
