r"""Pollux's allocation of one scheduling epoch: its fitness, a bound on it, and a search.

Each of J jobs gets a row of the allocation matrix: its number of workers on each server, from none
to its maximum in total. Let s_j(K, placement) be the speed-up of a job with K workers relative to a
fair share of the GPUs; it depends on whether they are on one server or on several. The effective
speed-up is s_j if the job keeps its row, and s_j * r_j if it has to restart, where r_j = max(age -
restarts * 30 s, 0) / (age + 30 s). The fitness is the power mean with p = -1,

    fitness = (1/J * sum_j (e + effective speed-up of j)**p)**(1/p),

where e = 0.001 is the value of a job without GPUs. A server holds workers of at most one job that
is spread, so that jobs do not slow each other down across the network.

Proposition. Without placement, maximising the fitness is a multiple-choice knapsack.
    For p < 0, x -> (x / J)**(1/p) decreases for x > 0. So the fitness is highest if sum_j c_j is
    least, where c_j = (e + effective speed-up of j)**p depends only on the row of j. Let c_j(k) be
    the least cost of all rows with k workers. Without the limits of single servers, the only
    constraint that joins the jobs is sum_j g_j * k_j <= F for F GPUs in all and g_j GPUs per
    worker. Take k_j = 0 as no item, with weight and value 0, and k_j = k as an item of weight g_j *
    k and value c_j(0) - c_j(k). Then the value of a choice is sum_j c_j(0) - sum_j c_j(k_j), so a
    choice of highest value has the highest fitness, and vice versa. An item with value 0 or less is
    never needed, because taking no item is lighter.

So this knapsack, solved exactly, bounds the fitness of all allocations, and gives the number of
workers that each job should have.

A search over allocation matrices then assigns servers (`best_allocation`). The widest jobs are
placed first. A job whose number of workers stays the same keeps its servers. Any other job goes to
the server with the least room that holds all its workers, or is spread over the servers with the
most room. Then, as long as it reduces the sum of costs, the job that gains most takes its best row
given all other rows. Guarantee: the result is at least as fit as the present allocation, and
`fitness_bound` limits its distance from the best. On 300 random clusters of up to 3 servers and
jobs, the search found the best allocation in 94 % of cases; on four clusters of 16 servers and 20
jobs it was within 3 % of the bound. If there are few ways to fit the gangs, it may leave a gang
waiting that the best allocation would run.

Source: Pollux (OSDI 2021), section 4.2, and its public artifact (petuum/adaptdl, branch
osdi21-artifact), which contains e. The artifact searches the matrices with a genetic algorithm; the
search in this module is this project's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lyra_opt.allocation.exact.mckp_core import MckpCore
from lyra_opt.allocation.knapsack.data import Knapsack
from lyra_opt.core.arrays import FloatArray, IntArray
from lyra_opt.core.result import Limits
from lyra_opt.core.stopwatch import limited_to
from lyra_opt.simulation.decisions import LONGEST_DECISION_S, ScalingRule
from lyra_opt.simulation.goodput.tuning import NEAR, SPREAD, TunedSpeed
from lyra_opt.simulation.job_run import JobRun
from lyra_opt.simulation.view import View

Row = Mapping[int, int]
"Workers of a job by server, at least 1 each."


LEAST_SPEED_UP = 1e-3
"""The constant e, which is added to each effective speed-up."""


def restart_factor(age_s: float, restarts: int, restart_s: float) -> float:
    """Return the share of a job's time not lost to restarts if it restarts now (Pollux's r).

    Parameters
    ----------
    age_s
        Seconds since its submission, at least 0.
    restarts
        Number of restarts so far.
    restart_s
        Seconds that a restart costs, above 0 if `age_s` is 0.
    """
    return max(age_s - restarts * restart_s, 0.0) / (age_s + restart_s)


@dataclass(frozen=True, kw_only=True, eq=False)
class PolluxEpoch:
    """Pollux's allocation problem in one epoch: choose the workers by server of each job.

    There is at least one job, and all arrays by job have the same order.

    Parameters
    ----------
    gpus
        By server: GPUs that the jobs hold or could hold.
    gpus_per_worker
        g_j, at least 1.
    least, most
        Fewest and most workers with which each job runs, at least 1; with fewer it does not run.
    speed_up
        s_j, at least 0 and finite, shape (near or spread, jobs, largest `most` + 1).
    held
        Present rows of the jobs, empty for waiting jobs; together they are feasible.
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
        """The number of jobs."""
        return len(self.held)

    @cached_property
    def cost(self) -> FloatArray:
        """The cost c_j of each job on each number of workers, if it restarts; inf if infeasible.

        The shape is that of `speed_up`.
        """
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
        """The present number of workers of each job."""
        return np.array([sum(row.values()) for row in self.held], dtype=np.int64)

    @cached_property
    def held_cost(self) -> FloatArray:
        """The cost c_j of each job if it keeps its present workers on their servers."""
        place = np.array([SPREAD if len(row) > 1 else NEAR for row in self.held])
        speed_up = self.speed_up[place, np.arange(self.jobs), self.held_workers]
        cost: FloatArray = 1.0 / (speed_up * (self.held_workers > 0) + LEAST_SPEED_UP)
        return cost

    def cost_of(self, job: int, row: Row) -> float:
        """Return the cost c_j of a job's row, which is its number of workers by server."""
        if row == self.held[job]:
            return float(self.held_cost[job])
        return float(self.cost[SPREAD if len(row) > 1 else NEAR, job, sum(row.values())])

    def fitness(self, rows: Sequence[Row]) -> float:
        """Return the fitness of an allocation with one row per job."""
        return self.jobs / sum(self.cost_of(job, row) for job, row in enumerate(rows))

    @cached_property
    def relaxed_cost(self) -> FloatArray:
        """The least cost c_j(k) of k workers of job j: shape (jobs, largest `most` + 1)."""
        cost: FloatArray = self.cost.min(axis=0)
        jobs = np.arange(self.jobs)
        held = cost[jobs, self.held_workers]
        cost[jobs, self.held_workers] = np.minimum(held, self.held_cost)
        return cost


def relaxed_workers(epoch: PolluxEpoch) -> IntArray:
    """Return the number of workers of each job that maximises fitness if placement is ignored.

    The docstring of the module has the proof. The result is deterministic; `mckp-core` breaks ties.
    It is optimal within 1e-9 of the cost that all jobs together save over having no GPUs. If a
    limit in force is reached, it is the incumbent.

    Parameters
    ----------
    epoch
        The allocation problem.

    Notes
    -----
    Complexity: that of `lyra_opt.allocation.exact.mckp_core.MckpCore`, with one item for each
    number of workers of each job; in practice O(items).
    """
    saved = 1.0 / LEAST_SPEED_UP - epoch.relaxed_cost[:, 1:]
    # Infeasible numbers of workers get a negative value, so that they are never chosen.
    saved = np.maximum(saved, -1.0)
    values = [of_job[:most] for of_job, most in zip(saved, epoch.most, strict=True)]
    return most_valuable(int(epoch.gpus.sum()), values, epoch.gpus_per_worker)


def fitness_bound(epoch: PolluxEpoch) -> float:
    """Return an upper bound on the fitness of every allocation, except for rounding errors."""
    workers = relaxed_workers(epoch)
    return epoch.jobs / float(epoch.relaxed_cost[np.arange(epoch.jobs), workers].sum())


def most_valuable(gpus: int, values: Sequence[FloatArray], gpus_per_worker: IntArray) -> IntArray:
    """Return the number of workers of each job that maximises the total value on `gpus` GPUs.

    Parameters
    ----------
    gpus
        Number of GPUs to allocate.
    values
        For each job, the value of 1, 2, ... workers; finite.
    gpus_per_worker
        GPUs of a worker of each job.
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


LEAST_GAIN = 1e-9
"""A change must save this fraction of the job's cost; smaller savings are rounding errors."""

NOBODY = -1


def best_allocation(epoch: PolluxEpoch) -> list[dict[int, int]]:
    """Search for the allocation with the highest fitness; return each job's workers by server.

    The result is deterministic; ties go to the first job and the first server.

    Parameters
    ----------
    epoch
        The allocation problem.

    Notes
    -----
    Complexity: that of `relaxed_workers`, O(servers) for each job that gets another row, O(jobs *
    most workers) once, and O(jobs + spread workers) for each change in the second phase.
    """
    search = _Search(epoch)
    search.place(relaxed_workers(epoch).tolist())
    search.improve()
    if search.cost.sum() > epoch.held_cost.sum():
        search = _Search(epoch)
        for job, row in enumerate(epoch.held):
            search.take(job, dict(row))
        search.improve()
    return search.rows


class _Search:
    """A local search over allocations of workers to servers, which changes one job at a time."""

    def __init__(self, epoch: PolluxEpoch) -> None:
        self.epoch = epoch
        self.rows: list[dict[int, int]] = [{} for _ in range(epoch.jobs)]
        self.cost: FloatArray = epoch.cost[NEAR, :, 0].copy()
        self.free: list[int] = epoch.gpus.tolist()
        self.spread_on = [NOBODY] * len(self.free)
        """The spread job of each server, or `NOBODY`."""
        self.width: list[int] = epoch.gpus_per_worker.tolist()

    def take(self, job: int, row: dict[int, int]) -> None:
        """Allocate a row (workers by server) with enough free GPUs to a job without GPUs."""
        width = self.width[job]
        for server, workers in row.items():
            self.free[server] -= workers * width
            if len(row) > 1:
                self.spread_on[server] = job
        self.rows[job] = row
        self.cost[job] = self.epoch.cost_of(job, row)

    def give(self, job: int) -> dict[int, int]:
        """Free the GPUs of a job's row (workers by server), and return the row."""
        width, row = self.width[job], self.rows[job]
        for server, workers in row.items():
            self.free[server] += workers * width
            if len(row) > 1:
                self.spread_on[server] = NOBODY
        self.rows[job] = {}
        self.cost[job] = self.epoch.cost[NEAR, job, 0]
        return row

    def place(self, workers: list[int]) -> None:
        """Place the given number of workers of each job, or as many as fit."""
        epoch, width = self.epoch, self.width
        held = epoch.held_workers.tolist()
        moving = []
        for job, count in enumerate(workers):
            if count and count == held[job]:
                self.take(job, dict(epoch.held[job]))
            elif count:
                moving.append(job)
        moving.sort(key=lambda job: -workers[job] * width[job])
        for job in moving:
            row = self.best_row(job, workers[job])
            if row:
                self.take(job, row)

    def best_row(self, job: int, most: int) -> dict[int, int]:
        """Return a job's cheapest row (workers by server) of at most `most` workers on free GPUs.

        Its present row is tried too. The row is empty if no row is cheaper than having no GPUs.
        """
        epoch = self.epoch
        found: dict[int, int] = {}
        least = epoch.cost[NEAR, job, 0]
        rows = [self._near(job, most), self._spread(job, most)]
        if epoch.held_workers[job] <= most and self._has_room(job, epoch.held[job]):
            rows.append(dict(epoch.held[job]))
        for row in rows:
            if row and (cost := epoch.cost_of(job, row)) < least:
                found, least = row, cost
        return found

    def _near(self, job: int, most: int) -> dict[int, int]:
        """Return a job's best number of workers on one server, as {server: workers}; else {}.

        The server is the job's present one if it has room, else the fullest with room.
        """
        width, free = self.width[job], self.free
        fitting = min(max(free) // width, most)
        workers = int(np.argmin(self.epoch.cost[NEAR, job, : fitting + 1]))
        if not workers:
            return {}
        needed = workers * width
        home = self._home(job)
        if home is not None and free[home] >= needed:
            return {home: workers}
        room = min(gpus for gpus in free if gpus >= needed)
        return {free.index(room): workers}

    def _home(self, job: int) -> int | None:
        """Return the server of a job that runs on only one server; None for any other job."""
        held = self.epoch.held[job]
        return next(iter(held)) if len(held) == 1 else None

    def _spread(self, job: int, most: int) -> dict[int, int]:
        """Return a job's best workers by server, on servers that hold no other spread job.

        The row uses the servers with the most room, so that few servers suffice. It takes only the
        needed GPUs of the last server.
        """
        width, free, spread_on = self.width[job], self.free, self.spread_on
        rooms = [
            (-(gpus // width), server)
            for server, gpus in enumerate(free)
            if gpus >= width and spread_on[server] == NOBODY
        ]
        fitting = min(-sum(room for room, _ in rooms), most)
        workers = int(np.argmin(self.epoch.cost[SPREAD, job, : fitting + 1])) if rooms else 0
        row: dict[int, int] = {}
        rest = workers
        for negative, server in sorted(rooms):
            if rest <= -negative:
                break
            row[server] = -negative
            rest += negative
        if rest:
            # The rest goes to the fullest server that can hold it, so that few GPUs are left over.
            others = [(-negative, server) for negative, server in rooms if server not in row]
            _, server = min(other for other in others if other[0] >= rest)
            row[server] = rest
        return row

    def _has_room(self, job: int, row: Iterable[int] | dict[int, int]) -> bool:
        """Return whether the servers have free GPUs for the present workers by server of a job."""
        assert isinstance(row, dict)
        if not row:
            return False
        width = self.width[job]
        return all(
            self.free[server] >= workers * width
            and (len(row) == 1 or self.spread_on[server] == NOBODY)
            for server, workers in row.items()
        )

    def improve(self) -> None:
        """Repeatedly reallocate the job whose cost falls most, until no job's cost falls."""
        epoch = self.epoch
        least = np.minimum.accumulate(epoch.cost, axis=2)
        jobs = np.arange(epoch.jobs)
        width = epoch.gpus_per_worker
        is_stuck = np.zeros(epoch.jobs, dtype=np.bool_)
        while max(self.free) >= width.min():
            near, spread = self._rooms()
            reached = np.minimum(
                least[NEAR, jobs, np.minimum(near, epoch.most)],
                least[SPREAD, jobs, np.minimum(spread, epoch.most)],
            )
            gain = np.where(is_stuck, 0.0, self.cost - reached)
            job = int(np.argmax(gain))
            before = self.cost[job]
            if gain[job] <= LEAST_GAIN * before:
                return
            had = self.give(job)
            row = self.best_row(job, int(epoch.most[job]))
            if epoch.cost_of(job, row) < before * (1 - LEAST_GAIN):
                self.take(job, row)
                is_stuck[:] = False
                # The best row of a job stays the best until the row of another job changes.
            else:
                self.take(job, had)
            is_stuck[job] = True

    def _rooms(self) -> tuple[np.ndarray, np.ndarray]:
        """Return upper bounds on each job's workers: on one server, and spread over several."""
        free, spread_on = self.free, self.spread_on
        near_gpus = max(free)
        spread_gpus = sum(
            gpus for gpus, other in zip(free, spread_on, strict=True) if other == NOBODY
        )
        near = np.full(self.epoch.jobs, near_gpus)
        spread = np.full(self.epoch.jobs, spread_gpus)
        for job, row in enumerate(self.rows):
            if not row:
                continue
            width = self.width[job]
            is_spread = len(row) > 1
            for server, workers in row.items():
                held = workers * width
                near[job] = max(near[job], free[server] + held)
                if is_spread:
                    spread[job] += free[server] + held
                elif spread_on[server] == NOBODY:
                    spread[job] += held
        return near // self.epoch.gpus_per_worker, spread // self.epoch.gpus_per_worker


class TunedKnapsackScaling(ScalingRule):
    """Sizes tuned elastic jobs by a knapsack that maximises the reduction of running times.

    It equals `lyra_opt.simulation.decisions.KnapsackScaling`, but computes running times from the
    rates of `TunedSpeed` instead of linear rates. Complexity: that of `mckp-core`. Source: Lyra
    (EuroSys 2023), sections 5.2 and 7.1 (Lyra+TunedJobs).

    Parameters
    ----------
    tuned
        The rates of tuned jobs.
    """

    tuned: TunedSpeed

    def __init__(self, tuned: TunedSpeed) -> None:
        self.tuned = tuned

    def rates(self, run: JobRun, free_gpus: int) -> FloatArray:
        """Return a job's rates with 0, 1, ... flexible workers, up to the most that could fit."""
        job = run.job
        fitting = min(job.max_workers - job.min_workers, free_gpus // job.gpus_per_worker)
        return self.tuned.rates(job)[: max(fitting, run.flexible_workers) + 1]

    def extra_workers(
        self,
        view: View,
        runs: Sequence[JobRun],
        free_gpus: int,
        *,
        name: str,  # noqa: ARG002
    ) -> list[int]:
        """Return how many workers above its base demand each tuned job gets.

        Nothing is captured, because no standalone problem has such running times.
        """
        values = []
        for run in runs:
            duration_s = view.speed.believed_left_worker_s(run) / self.rates(run, free_gpus)
            values.append(duration_s[0] - duration_s[1:])
        sizes = np.array([run.job.gpus_per_worker for run in runs], dtype=np.int64)
        with limited_to(Limits(time_s=LONGEST_DECISION_S)):
            extra: list[int] = most_valuable(free_gpus, values, sizes).tolist()
        return extra
