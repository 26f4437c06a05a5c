"""Convert an allocation instance to a knapsack, and a choice of items back to workers.

Each job that may get workers is a class of items. An item is a number of workers beyond those that
the job has in any case. T(w) is the duration with w workers, and g the GPUs of one worker:

* ``jct_reduction``: every job has w_min workers. Item k weighs k * g GPUs and is worth T(w_min) -
  T(w_min + k).
* ``two_phase``: the same items, for the jobs that phase 1 starts and the GPUs that it leaves. The
  objective is the sum of their T(w_min) minus the value of the items taken.
* ``joint``: running jobs have the same items. A waiting job costs T(w_min) + H, so its item w
  weighs w * g and is worth H + T(w_min) - T(w). The objective is the sum of all T(w_min), plus H
  for each waiting job, minus the value of the items taken.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from lyra_opt.allocation.instance import Instance, NamedWorkers, Objective, WorkerAllocation
from lyra_opt.allocation.knapsack.data import LARGEST_CAPACITY, VALUE_MARGIN, Knapsack
from lyra_opt.core.arrays import BoolArray, FloatArray, IntArray
from lyra_opt.core.solver import Unsupported

KNAPSACK_OBJECTIVES = (Objective.JCT_REDUCTION, Objective.TWO_PHASE, Objective.JOINT)

MOST_ITEMS = 10**7
LEAST_WORK, MOST_WORK = 1e-200, 1e200


@dataclass(frozen=True, slots=True, eq=False)
class JobArrays:
    """The jobs of an allocation instance as arrays of shape (jobs,)."""

    work: FloatArray
    min_workers: IntArray
    max_workers: IntArray
    gpus_per_worker: IntArray
    speed_up: FloatArray  # 1 - scaling loss: the rate that each extra worker adds
    running: BoolArray

    @classmethod
    def of(cls, instance: Instance) -> "JobArrays":
        """Gather the arrays from the jobs in a few hundred nanoseconds per job."""
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
        """Return the positions of the jobs in the exact order of work / w_max, ties in file order.

        Rounding keeps the order of different quotients or makes them equal, so only quotients that
        are equal as floats are compared as fractions.
        """
        key = self.work / self.max_workers
        order = np.argsort(key, kind="stable")
        equal = np.flatnonzero(np.diff(key[order]) == 0)
        # Different quotients a / b and c / d of integers stay different as floats if a d < 2^52.
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
        """Return whether phase 1 of ``two_phase`` starts each job, shape (jobs,)."""
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
    """The knapsack of an allocation instance, with the data to convert choices back.

    Parameters
    ----------
    knapsack
        One class for each of `jobs`.
    jobs
        Shape (classes,): file position of the job of each class.
    instance
        The instance.
    base_workers
        Shape (all jobs,): workers of a job without an item; 0 if the job then waits.
    horizon_s
        H of `Objective.JOINT`, else 0.
    arrays
        The jobs as arrays.
    """

    knapsack: Knapsack
    jobs: IntArray
    instance: Instance
    base_workers: IntArray
    horizon_s: float
    arrays: JobArrays

    @classmethod
    def of(cls, instance: Instance) -> "AllocationKnapsack":
        """Return the knapsack of an instance in O(items) time.

        Raises
        ------
        ValueError
            If `refusal` returns a reason.
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
        """Return the workers of each job for the chosen items (-1: no item of a class)."""
        workers = self.base_workers.copy()
        taken = chosen >= 0
        jobs = self.jobs[taken]
        weight = self.knapsack.weight[chosen[taken]]
        workers[jobs] += weight // self.arrays.gpus_per_worker[jobs]
        return WorkerAllocation(tuple(workers.tolist()))

    def allocation_of(self, solution: WorkerAllocation | NamedWorkers) -> WorkerAllocation:
        """Return the numbers of workers of a solution in file order."""
        if isinstance(solution, NamedWorkers):
            return solution.in_file_order(self.instance)
        return solution

    def workers(self, solution: WorkerAllocation) -> IntArray:
        """Return the workers of a solution as an array in file order."""
        return np.array(solution.workers, dtype=np.int64)

    def choice(self, workers: IntArray) -> IntArray:
        """Convert the workers of each job to the item of each class, -1 for no item.

        Workers beyond the last item of a class have no value and are ignored.
        """
        extra = (workers - self.base_workers)[self.jobs]
        start = self.knapsack.start
        first = np.where(self.base_workers[self.jobs] > 0, 1, self.arrays.min_workers[self.jobs])
        item = start[:-1] + np.minimum(extra - first, np.diff(start) - 1)
        chosen: IntArray = np.where((extra > 0) & (np.diff(start) > 0), item, -1)
        return chosen

    def linear_bound_s(self) -> float:
        """Return the bound of the linear relaxation on the objective, in seconds."""
        scaled = self.knapsack.reduced().scaled()
        return self.bound_s(scaled.dual_bound(scaled.priced().bound))

    def objective_s(self, workers: IntArray) -> float:
        """Return the objective in seconds, each term within 2**-49, in O(jobs) time."""
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
        """Return the cost in seconds of taking no item from each class, and of taking each item.

        The arrays have shapes (classes,) and (items,). The sum of these costs over a choice is the
        objective, or for ``jct_reduction`` its negative. Each cost is computed without
        cancellation, within 2**-49.
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
        """Convert an upper bound on the knapsack value to a bound on the objective, in seconds."""
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
    """Return a knapsack with one class per job; values are computed without cancellation."""
    least, most = arrays.min_workers[jobs], arrays.max_workers[jobs]
    gpus, speed_up = arrays.gpus_per_worker[jobs], arrays.speed_up[jobs]
    first_workers = np.where(base_workers > 0, least + 1, least)
    count = _item_counts(base_workers, first_workers, most, gpus, free)
    # Without a speed-up, an extra worker has no value.
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
    """Return, for each job, how many numbers of workers fit into the free GPUs."""
    counts: IntArray = np.maximum(
        np.minimum(most, base_workers + free // gpus) - first_workers + 1, 0
    )
    return counts


def refusal(instance: Instance, arrays: JobArrays | None = None) -> Unsupported | None:
    """Return why the knapsack algorithms cannot take the instance; None if they can."""
    arrays = arrays or JobArrays.of(instance)
    if instance.objective not in KNAPSACK_OBJECTIVES:
        return Unsupported(f"the objective {instance.objective} is not a knapsack")
    outside = np.flatnonzero((arrays.work < LEAST_WORK) | (arrays.work > MOST_WORK))
    if len(outside):
        job = instance.jobs[outside[0]]
        return Unsupported(
            f"job {job.id!r} has work_worker_s {job.work_worker_s!r}; "
            f"the knapsack supports {LEAST_WORK:g} to {MOST_WORK:g} worker-seconds"
        )
    items = int(np.minimum(arrays.max_workers, instance.gpus // arrays.gpus_per_worker).sum())
    if items > MOST_ITEMS:
        return Unsupported(
            f"the knapsack supports at most {MOST_ITEMS} items; "
            f"this instance has {items}, one for each job and number of workers"
        )
    capacity = min(instance.gpus, int((arrays.max_workers * arrays.gpus_per_worker).sum()))
    if capacity > LARGEST_CAPACITY:
        return Unsupported(
            f"the knapsack supports at most {LARGEST_CAPACITY} GPUs; the jobs can use {capacity}"
        )
    return None


def knapsack_bound(instance: Instance) -> float:
    """Return the proved bound of the linear relaxation on a knapsack objective.

    It is an upper bound for ``jct_reduction`` and a lower bound for ``two_phase`` and ``joint``. It
    is the Lagrangian bound at one price, computed in integers, so that rounding errors in the price
    can only weaken it. Time O(items).

    Raises
    ------
    ValueError
        If `refusal` returns a reason.
    """
    return AllocationKnapsack.of(instance).linear_bound_s()
