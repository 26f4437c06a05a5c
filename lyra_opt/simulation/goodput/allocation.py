r"""Pollux's allocation of one scheduling epoch: its fitness, a bound on it, and a search.

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
each job should have.

Servers are then found by a search of allocation matrices (`best_allocation`). The widest jobs are
placed first: those whose number of workers stays keep their servers, others go to the server with
least room that holds all of them, or are spread over those with most room. Then, as long as that
lessens the sum of costs, the job that gains most takes the row that is best for it beside all
others. Guarantee: never less fit than the present allocation; `fitness_bound` says how far from the
best at most. On 300 drawn clusters of up to 3 servers and jobs it was the best in 94 %, on four of
16 servers and 20 jobs within 3 % of the bound. Where gangs fit in few ways, it may leave one
waiting that the best allocation would run.

Source: Pollux (OSDI 2021), section 4.2, and its public artifact (petuum/adaptdl, branch
osdi21-artifact), which has e. There a genetic algorithm searches the matrices; the search here is
this project's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.allocation.exact.mckp_core import MckpCore
from lyra_opt.allocation.knapsack.data import Knapsack
from lyra_opt.core.result import Limits
from lyra_opt.core.stopwatch import limited_to
from lyra_opt.simulation.decisions import LONGEST_DECISION_S, ScalingRule
from lyra_opt.simulation.goodput.tuning import NEAR, SPREAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lyra_opt.allocation.knapsack.data import FloatArray, IntArray
    from lyra_opt.simulation.goodput.tuning import TunedSpeed
    from lyra_opt.simulation.job_run import JobRun
    from lyra_opt.simulation.view import View

    Row = Mapping[int, int]
    "Workers of a job by server, at least 1 each."


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


LEAST_GAIN = 1e-9
"""Part of a job's cost that a change has to save; less is rounding."""

NOBODY = -1


def best_allocation(epoch: PolluxEpoch) -> list[dict[int, int]]:
    """Return the fittest allocation that is found, a row a job.

    The same for the same epoch; ties go to the job that stands first, and the first server.

    Parameters
    ----------
    epoch
        The jobs.

    Notes
    -----
    Complexity: that of `relaxed_workers`, O(servers) for each job that gets another row, and
    O(jobs * most workers) once and O(jobs + spread workers) for each change of the second phase.
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
    """An allocation that changes job by job."""

    def __init__(self, epoch: PolluxEpoch) -> None:
        self.epoch = epoch
        self.rows: list[dict[int, int]] = [{} for _ in range(epoch.jobs)]
        self.cost: FloatArray = epoch.cost[NEAR, :, 0].copy()
        self.free: list[int] = epoch.gpus.tolist()
        self.spread_on = [NOBODY] * len(self.free)
        """Whose workers that are spread a server holds."""
        self.width: list[int] = epoch.gpus_per_worker.tolist()

    def take(self, job: int, row: dict[int, int]) -> None:
        """Give a job that has nothing a row for which there is room."""
        width = self.width[job]
        for server, workers in row.items():
            self.free[server] -= workers * width
            if len(row) > 1:
                self.spread_on[server] = job
        self.rows[job] = row
        self.cost[job] = self.epoch.cost_of(job, row)

    def give(self, job: int) -> dict[int, int]:
        """Take the row of a job away, and return it."""
        width, row = self.width[job], self.rows[job]
        for server, workers in row.items():
            self.free[server] += workers * width
            if len(row) > 1:
                self.spread_on[server] = NOBODY
        self.rows[job] = {}
        self.cost[job] = self.epoch.cost[NEAR, job, 0]
        return row

    # Placing numbers.

    def place(self, workers: list[int]) -> None:
        """Place so many workers of each job, or as many as there is room for."""
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
        """Return the cheapest row of at most so many workers on free GPUs; its own if it may stay.

        It is empty where none is cheaper than nothing.
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
        """Return the best row on one server, the one with least room for it."""
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
        """Return the only server that a job has at present; None if there is no such."""
        held = self.epoch.held[job]
        return next(iter(held)) if len(held) == 1 else None

    def _spread(self, job: int, most: int) -> dict[int, int]:
        """Return the best row on several servers that no other spread job is on.

        On those with most room, so that there are few; from the last it takes what it needs.
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
            # Fewest GPUs are left over where the last server has least room.
            others = [(-negative, server) for negative, server in rooms if server not in row]
            _, server = min(other for other in others if other[0] >= rest)
            row[server] = rest
        return row

    def _has_room(self, job: int, row: Iterable[int] | dict[int, int]) -> bool:
        """Whether a job could have a present row."""
        assert isinstance(row, dict)
        if not row:
            return False
        width = self.width[job]
        return all(
            self.free[server] >= workers * width
            and (len(row) == 1 or self.spread_on[server] == NOBODY)
            for server, workers in row.items()
        )

    # Improving rows.

    def improve(self) -> None:
        """Let the job that gains most take the row that is best for it, while any gains."""
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
                # What it holds now is the best beside all others until one of these moves.
            else:
                self.take(job, had)
            is_stuck[job] = True

    def _rooms(self) -> tuple[np.ndarray, np.ndarray]:
        """Return how many workers each job could have on one server, and at most on several."""
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
    """Lyra's phase 2 for jobs that are tuned: the knapsack on their reduction of running time.

    As `lyra_opt.simulation.decisions.KnapsackScaling`, with the durations at the rates of
    `TunedSpeed` in the place of linear ones. Complexity: that of `mckp-core`. Source: Lyra (EuroSys
    2023), sections 5.2 and 7.1 (Lyra+TunedJobs).

    Parameters
    ----------
    tuned
        The rates.
    """

    tuned: TunedSpeed

    def __init__(self, tuned: TunedSpeed) -> None:
        self.tuned = tuned

    def rates(self, run: JobRun, free_gpus: int) -> FloatArray:
        """Return a job's rates with 0, 1, ... workers beyond its base demand that could fit."""
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
        """See `ScalingRule`. Nothing is captured: no standalone problem has such durations."""
        values = []
        for run in runs:
            duration_s = view.speed.believed_left_worker_s(run) / self.rates(run, free_gpus)
            values.append(duration_s[0] - duration_s[1:])
        sizes = np.array([run.job.gpus_per_worker for run in runs], dtype=np.int64)
        with limited_to(Limits(time_s=LONGEST_DECISION_S)):
            extra: list[int] = most_valuable(free_gpus, values, sizes).tolist()
        return extra
