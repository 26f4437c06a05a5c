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

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.allocation.knapsack import Knapsack
from lyra_opt.allocation.mckp_core import MckpCore
from lyra_opt.errors import FieldError
from lyra_opt.result import Limits
from lyra_opt.stopwatch import Stopwatch
from lyra_opt.validation import require_integer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lyra_opt.allocation.knapsack import FloatArray, IntArray
    from lyra_opt.result import StoppedBy

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
    """The jobs of an epoch; all by job, in one order.

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

    def __post_init__(self) -> None:
        require_integer("gpus", self.gpus, minimum=0)
        jobs = len(self.speed_ups)
        for field in ("gpus_per_worker", "current", "restart_factor"):
            if getattr(self, field).shape != (jobs,):
                raise FieldError(field, getattr(self, field), f"must have the shape ({jobs},)")
        table = self.table
        if not (np.all(np.diff(self.start) > 0) and np.all((table > 0) & (table < np.inf))):
            rule = "must have a number above 0 and finite for each number of workers, at least one"
            raise FieldError("speed_ups", self.speed_ups, rule)
        if np.any(self.gpus_per_worker < 1):
            raise FieldError("gpus_per_worker", self.gpus_per_worker, "must be at least 1")
        if np.any((self.current < 0) | (self.current > self.most)):
            rule = "must be from 0 to the job's most workers beyond its base demand"
            raise FieldError("current", self.current, rule)
        factor = self.restart_factor
        if not np.all((factor == 0) | ((factor >= LEAST_FACTOR) & (factor <= 1))):
            raise FieldError("restart_factor", factor, f"must be 0 or from {LEAST_FACTOR} to 1")

    @property
    def jobs(self) -> int:
        """How many jobs there are."""
        return len(self.speed_ups)

    @cached_property
    def start(self) -> IntArray:
        """Shape (jobs + 1,): where the numbers of each job stand in `table` and `cost`."""
        start = np.zeros(self.jobs + 1, dtype=np.int64)
        np.cumsum([len(speed_up) for speed_up in self.speed_ups], out=start[1:])
        return start

    @cached_property
    def most(self) -> IntArray:
        """Shape (jobs,): the most workers that each job can get."""
        most: IntArray = np.diff(self.start) - 1
        return most

    @cached_property
    def table(self) -> FloatArray:
        """s_j(k), job after job."""
        return np.concatenate(self.speed_ups) if self.jobs else np.zeros(0)

    @cached_property
    def cost(self) -> FloatArray:
        """c_j(k), job after job; infinite where r_j = 0 forbids a change."""
        cost = 1.0 / self.table
        kept = self.start[:-1] + self.current
        kept_cost = cost[kept]
        with np.errstate(divide="ignore"):
            cost *= np.repeat(1.0 / self.restart_factor, self.most + 1)
        cost[kept] = kept_cost
        return cost

    def fits(self, extra: IntArray) -> bool:
        """Whether so many workers of each job fit."""
        return bool(
            np.all((extra >= 0) & (extra <= self.most))
            and int((extra * self.gpus_per_worker).sum()) <= self.gpus
        )

    def fitness(self, extra: IntArray) -> float:
        """Return the fitness of an allocation; 0 where a forbidden change is made.

        Parameters
        ----------
        extra
            Shape (jobs,): k_j.
        """
        cost = math.fsum(self.cost[self.start[:-1] + extra].tolist())
        return self.jobs / cost if cost else 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PolluxAllocation:
    """What `best_allocation` found.

    Parameters
    ----------
    extra
        Shape (jobs,): k_j.
    fitness
        Of them.
    bound
        No allocation has a greater fitness; None if a limit came before a proof.
    stopped_by
        The limit that ended the search, None if it ran to its end.
    """

    extra: IntArray
    fitness: float
    bound: float | None
    stopped_by: StoppedBy | None


def best_allocation(epoch: PolluxEpoch, limits: Limits | None = None) -> PolluxAllocation:
    """Return an allocation of the greatest fitness; proof in the docstring of this module.

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
    Complexity: that of `lyra_opt.allocation.mckp_core.MckpCore`, with an item for each number of
    workers of each job; in practice O(items).
    """
    is_fixed = epoch.restart_factor == 0
    held = int((epoch.current * epoch.gpus_per_worker)[is_fixed].sum())
    is_hopeless = held > epoch.gpus
    if is_hopeless:
        # Whatever is chosen has the fitness 0: choose as if these jobs could restart for nothing.
        factor = np.where(is_fixed, 1.0, epoch.restart_factor)
        epoch = PolluxEpoch(
            gpus=epoch.gpus,
            speed_ups=epoch.speed_ups,
            gpus_per_worker=epoch.gpus_per_worker,
            current=epoch.current,
            restart_factor=factor,
        )
        is_fixed = np.zeros(epoch.jobs, dtype=np.bool_)
        held = 0
    extra = epoch.current.copy()
    free = np.flatnonzero(~is_fixed)
    cost, start = epoch.cost, epoch.start
    values = [cost[start[job]] - cost[start[job] + 1 : start[job + 1]] for job in free]
    chosen, value_bound, stopped_by = most_valuable(
        epoch.gpus - held, values, epoch.gpus_per_worker[free], limits
    )
    extra[free] = chosen
    if is_hopeless or not epoch.jobs:
        return PolluxAllocation(extra=extra, fitness=0.0, bound=0.0, stopped_by=None)
    fitness, bound = epoch.fitness(extra), None
    if value_bound is not None:
        base = epoch.start[:-1] + np.where(is_fixed, epoch.current, 0)
        least = math.fsum(cost[base].tolist()) - value_bound
        # Cancellation may take the last digits of a difference.
        bound = max(fitness, epoch.jobs / least) if least > 0 else math.inf
    return PolluxAllocation(extra=extra, fitness=fitness, bound=bound, stopped_by=stopped_by)


def most_valuable(
    gpus: int,
    values: Sequence[FloatArray],
    gpus_per_worker: IntArray,
    limits: Limits | None = None,
) -> tuple[IntArray, float | None, StoppedBy | None]:
    """Return the numbers of workers of most value, a bound on it, and the limit that was reached.

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
    start = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(counts, out=start[1:])
    workers = np.arange(start[-1]) - np.repeat(start[:-1], counts) + 1
    reduced = Knapsack(
        capacity=gpus,
        start=start,
        weight=workers * np.repeat(gpus_per_worker, counts),
        value=np.concatenate(values) if len(values) else np.zeros(0),
    ).reduced()
    found = MckpCore().choose(reduced, limits or Limits(), Stopwatch())
    items = reduced.original(found.chosen)
    chosen: NDArray[np.int64] = np.zeros(len(values), dtype=np.int64)
    chosen[items >= 0] = workers[items[items >= 0]]
    return chosen, found.bound, found.stopped_by
