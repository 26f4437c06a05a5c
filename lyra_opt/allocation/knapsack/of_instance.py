"""Which knapsack an allocation instance is, and what a choice of its items means there.

Each job that may get workers is a class, and an item is a number of them beyond what the job has
anyway. With T(w) for the duration with w workers and g for the GPUs of one:

* ``jct_reduction``: every job has w_min workers. Item k: k * g GPUs, worth T(w_min) - T(w_min + k).
* ``two_phase``: the same for the jobs that phase 1 starts, with the GPUs that it leaves; the
  objective is the sum of their T(w_min) less the value taken.
* ``joint``: running jobs as above. A waiting job costs T(w_min) + H, so its item w weighs w * g
  and is worth H + T(w_min) - T(w); the objective is the sum of all T(w_min) and of H for each
  waiting job, less the value taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lyra_opt.allocation.instance import NamedWorkers, Objective, WorkerAllocation
from lyra_opt.allocation.knapsack.data import (
    LARGEST_CAPACITY,
    VALUE_MARGIN,
    FloatArray,
    IntArray,
    Knapsack,
)
from lyra_opt.core.solver import Unsupported

if TYPE_CHECKING:
    from lyra_opt.allocation.instance import Instance

BoolArray = NDArray[np.bool_]

KNAPSACK_OBJECTIVES = (Objective.JCT_REDUCTION, Objective.TWO_PHASE, Objective.JOINT)

MOST_ITEMS = 10**7
LEAST_WORK, MOST_WORK = 1e-200, 1e200


@dataclass(frozen=True, slots=True, eq=False)
class JobArrays:
    """The jobs of an instance as arrays of shape (jobs,)."""

    work: FloatArray
    min_workers: IntArray
    max_workers: IntArray
    gpus_per_worker: IntArray
    speed_up: FloatArray  # 1 - scaling loss: what a worker beyond w_min adds to the rate
    running: BoolArray

    @classmethod
    def of(cls, instance: Instance) -> JobArrays:
        """Gather the arrays; a few hundred nanoseconds a job."""
        jobs = instance.jobs
        return cls(
            np.array([job.work_worker_s for job in jobs], dtype=np.float64),
            np.array([job.min_workers for job in jobs], dtype=np.int64),
            np.array([job.max_workers for job in jobs], dtype=np.int64),
            np.array([job.gpus_per_worker for job in jobs], dtype=np.int64),
            1.0 - np.array([job.scaling_loss for job in jobs], dtype=np.float64),
            np.array([job.running for job in jobs], dtype=np.bool_),
        )

    def shortest_rank(self, instance: Instance) -> IntArray:
        """Return the positions of the jobs by work / w_max, ties in file order; exact.

        Rounding keeps the order of different quotients, or makes them equal: only those that are
        equal as floats are compared as fractions.
        """
        key = self.work / self.max_workers
        order = np.argsort(key, kind="stable")
        equal = np.flatnonzero(np.diff(key[order]) == 0)
        # Of integers a / b and c / d differ by at least 1 / (b d), more than floats if a d < 2^52.
        is_whole = bool(np.all(self.work == np.floor(self.work)))
        if not len(equal) or (is_whole and self.work.max() * self.max_workers.max() < 2.0**52):
            return order
        ranked = order.tolist()
        for run in np.split(equal, np.flatnonzero(np.diff(equal) != 1) + 1):
            first, last = int(run[0]), int(run[-1]) + 2
            ranked[first:last] = sorted(
                ranked[first:last],
                key=lambda position: (
                    Fraction(instance.jobs[position].work_worker_s)
                    / instance.jobs[position].max_workers
                ),
            )
        return np.array(ranked, dtype=np.int64)

    def started_by_two_phase(self, instance: Instance) -> BoolArray:
        """Return which jobs get their base demand in phase 1, shape (jobs,)."""
        base = (self.min_workers * self.gpus_per_worker).tolist()
        started = self.running.tolist()
        free = instance.gpus - sum(
            gpus for gpus, running in zip(base, started, strict=True) if running
        )
        for position in self.shortest_rank(instance).tolist():
            if not started[position] and base[position] <= free:
                free -= base[position]
                started[position] = True
        return np.array(started, dtype=np.bool_)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AllocationKnapsack:
    """The knapsack of an instance, and the way back.

    Parameters
    ----------
    knapsack
        One class for each of `jobs`.
    jobs
        Shape (classes,): file position of the job that each class is.
    instance
        The instance.
    base_workers
        Shape (all jobs,): workers of a job of which no item is taken; 0 if it then waits.
    horizon_s
        H of `Objective.JOINT`, else 0.
    arrays
        The jobs.
    """

    knapsack: Knapsack
    jobs: IntArray
    instance: Instance
    base_workers: IntArray
    horizon_s: float
    arrays: JobArrays

    @classmethod
    def of(cls, instance: Instance) -> AllocationKnapsack:
        """Return the knapsack of an instance, vectorised; time O(items).

        Raises
        ------
        ValueError
            If `refusal` has a reason.
        """
        arrays = JobArrays.of(instance)
        refused = refusal(instance, arrays)
        if refused is not None:
            raise ValueError(refused.reason)
        objective = instance.objective
        if objective is Objective.TWO_PHASE:
            is_granted = arrays.started_by_two_phase(instance)
        elif objective is Objective.JOINT:
            is_granted = arrays.running
        else:
            is_granted = np.ones(len(instance.jobs), dtype=np.bool_)
        base_workers = np.where(is_granted, arrays.min_workers, 0)
        free = instance.gpus
        if objective is not Objective.JCT_REDUCTION:
            free -= int((base_workers * arrays.gpus_per_worker).sum())
        horizon_s = 0.0
        if objective is Objective.JOINT:
            horizon_s = math.fsum((arrays.work * arrays.gpus_per_worker).tolist()) / instance.gpus
            jobs = np.arange(len(instance.jobs))
        else:
            jobs = np.flatnonzero(is_granted)
        knapsack = _knapsack(arrays, jobs, base_workers[jobs], free, horizon_s)
        return cls(
            knapsack=knapsack,
            jobs=jobs,
            instance=instance,
            base_workers=base_workers,
            horizon_s=horizon_s,
            arrays=arrays,
        )

    def allocation(self, chosen: IntArray) -> WorkerAllocation:
        """Return the workers of each job when these items are taken, -1 for none of a class."""
        workers = self.base_workers.copy()
        taken = chosen >= 0
        jobs = self.jobs[taken]
        weight = self.knapsack.weight[chosen[taken]]
        workers[jobs] += weight // self.arrays.gpus_per_worker[jobs]
        return WorkerAllocation(tuple(workers.tolist()))

    def allocation_of(self, solution: WorkerAllocation | NamedWorkers) -> WorkerAllocation:
        """Return a solution without names."""
        if isinstance(solution, NamedWorkers):
            return solution.in_file_order(self.instance)
        return solution

    def workers(self, solution: WorkerAllocation) -> IntArray:
        """Return the workers of a solution in file order."""
        return np.array(solution.workers, dtype=np.int64)

    def choice(self, workers: IntArray) -> IntArray:
        """Return the items that give so many workers, -1 for none; shape (classes,).

        Workers beyond the items of a class, which add nothing, are left out.
        """
        extra = (workers - self.base_workers)[self.jobs]
        start = self.knapsack.start
        first = np.where(self.base_workers[self.jobs] > 0, 1, self.arrays.min_workers[self.jobs])
        item = start[:-1] + np.minimum(extra - first, np.diff(start) - 1)
        chosen: IntArray = np.where((extra > 0) & (np.diff(start) > 0), item, -1)
        return chosen

    def linear_bound_s(self) -> float:
        """Return the bound of the linear relaxation on the objective; see `knapsack_bound`."""
        scaled = self.knapsack.reduced().scaled()
        return self.bound_s(scaled.dual_bound(scaled.priced().bound))

    def objective_s(self, workers: IntArray) -> float:
        """Return the objective, each term within 2**-49 of the exact one; time O(jobs)."""
        arrays = self.arrays
        longest = arrays.work / arrays.min_workers
        gained = (workers - arrays.min_workers) * arrays.speed_up
        rate = arrays.min_workers + gained
        if self.instance.objective is Objective.JCT_REDUCTION:
            return math.fsum((longest * (gained / rate)).tolist())
        starts = workers > 0
        terms = (arrays.work[starts] / rate[starts]).tolist()
        if self.instance.objective is Objective.JOINT:
            terms += (longest[~starts] + self.horizon_s).tolist()
        return math.fsum(terms)

    def costs_s(self) -> tuple[FloatArray, FloatArray]:
        """Return what no item costs, shape (classes,), and each item, shape (items,); seconds.

        Their sum over a choice is the objective, or the reduction with its sign changed. Formed
        without cancellation, each within 2**-49.
        """
        knapsack, arrays = self.knapsack, self.arrays
        if self.instance.objective is Objective.JCT_REDUCTION:
            return np.zeros(knapsack.classes), -knapsack.value
        least = self.base_workers[self.jobs]
        longest = (arrays.work / arrays.min_workers)[self.jobs]
        none = longest + np.where(least > 0, 0.0, self.horizon_s)
        job = self.jobs[knapsack.class_of]
        workers = least[knapsack.class_of] + knapsack.weight // arrays.gpus_per_worker[job]
        rate = arrays.min_workers[job] + (workers - arrays.min_workers[job]) * arrays.speed_up[job]
        return none, arrays.work[job] / rate

    def bound_s(self, value: float) -> float:
        """Return the bound on the objective that follows from no choice being worth more."""
        if self.instance.objective is Objective.JCT_REDUCTION:
            return value
        arrays = self.arrays
        least_workers = self.base_workers[self.jobs]
        longest = (arrays.work / arrays.min_workers)[self.jobs]
        at_most = math.fsum((longest + np.where(least_workers > 0, 0.0, self.horizon_s)).tolist())
        return max(0.0, math.nextafter(at_most * (1 - VALUE_MARGIN) - value, -math.inf))


def _knapsack(
    arrays: JobArrays, jobs: IntArray, base_workers: IntArray, free: int, horizon_s: float
) -> Knapsack:
    """Return a class for each of `jobs`; value is formed without cancellation."""
    least, most = arrays.min_workers[jobs], arrays.max_workers[jobs]
    gpus, speed_up = arrays.gpus_per_worker[jobs], arrays.speed_up[jobs]
    first_workers = np.where(base_workers > 0, least + 1, least)
    count = _item_counts(base_workers, first_workers, most, gpus, free)
    # Without speed-up, an extra worker is worth nothing.
    useful = np.where(speed_up > 0, count, np.where(base_workers > 0, 0, np.minimum(count, 1)))
    start = np.zeros(len(jobs) + 1, dtype=np.int64)
    np.cumsum(useful, out=start[1:])
    class_of = np.repeat(np.arange(len(jobs)), useful)
    workers = np.arange(start[-1]) + (first_workers - start[:-1])[class_of]
    least_of = least[class_of]
    gained = (workers - least_of) * speed_up[class_of]
    value = (arrays.work / arrays.min_workers)[jobs][class_of] * (gained / (least_of + gained))
    if horizon_s > 0:
        value += np.where(base_workers > 0, 0.0, horizon_s)[class_of]
    return Knapsack(
        capacity=free,
        start=start,
        weight=(workers - base_workers[class_of]) * gpus[class_of],
        value=value,
    )


def _item_counts(
    base_workers: IntArray, first_workers: IntArray, most: IntArray, gpus: IntArray, free: int
) -> IntArray:
    """Return how many items of each class fit."""
    counts: IntArray = np.maximum(
        np.minimum(most, base_workers + free // gpus) - first_workers + 1, 0
    )
    return counts


def refusal(instance: Instance, arrays: JobArrays | None = None) -> Unsupported | None:
    """Return why the instance is beyond these algorithms, None if it is not."""
    arrays = arrays or JobArrays.of(instance)
    if instance.objective not in KNAPSACK_OBJECTIVES:
        return Unsupported(f"the objective {instance.objective} is no knapsack")
    outside = np.flatnonzero((arrays.work < LEAST_WORK) | (arrays.work > MOST_WORK))
    if len(outside):
        job = instance.jobs[outside[0]]
        return Unsupported(
            f"job {job.id!r} has work_worker_s {job.work_worker_s!r}; "
            f"the knapsack is exact from {LEAST_WORK:g} to {MOST_WORK:g}"
        )
    items = int(np.minimum(arrays.max_workers, instance.gpus // arrays.gpus_per_worker).sum())
    if items > MOST_ITEMS:
        return Unsupported(
            f"the jobs can be given numbers of workers in {items} ways; "
            f"the knapsack takes at most {MOST_ITEMS} items"
        )
    capacity = min(instance.gpus, int((arrays.max_workers * arrays.gpus_per_worker).sum()))
    if capacity > LARGEST_CAPACITY:
        return Unsupported(
            f"the jobs can use {capacity} GPUs; the knapsack takes at most {LARGEST_CAPACITY}"
        )
    return None


def knapsack_bound(instance: Instance) -> float:
    """Return the certificate: the bound of the linear relaxation on a knapsack objective.

    Above the optimum for ``jct_reduction``, below it for ``two_phase`` and ``joint``. It is the
    Lagrangian bound at one price, computed in integers, so that rounding in the making of the
    price can only weaken it. Time O(items).

    Raises
    ------
    ValueError
        If the instance is no knapsack, or beyond `refusal`.
    """
    return AllocationKnapsack.of(instance).linear_bound_s()
