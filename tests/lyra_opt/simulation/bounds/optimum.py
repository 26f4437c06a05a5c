"""The least that any schedule of a few jobs costs, from the definition of the problem.

What a job may hold is listed GPU by GPU, with rates by hand
(`tests.lyra_opt.simulation.product.share_rate`); nothing of `lyra_opt.simulation.bounds` or
`lyra_opt.simulation.least_run` is used. Then every order in which jobs start and complete is tried,
before and after each release and each change of a loan, with a linear programme for the times.
Jobs share GPUs in the mean over an interval alone, so that no schedule costs less than what is
found, and the bound must not exceed it.
"""

from __future__ import annotations

from itertools import combinations, product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import linprog

from lyra_opt.core.errors import UserError
from lyra_opt.simulation.job_run import Part
from tests.lyra_opt.simulation.product import share_rate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lyra_opt.simulation.cluster import Cluster, LoanPlan
    from lyra_opt.simulation.speed import Speed
    from lyra_opt.simulation.workload import Job, Workload


class State(NamedTuple):
    """What a job holds: GPUs by pool, and the share of its work that it does a second."""

    gpus: tuple[int, ...]
    rate: float


class Exact(NamedTuple):
    """A job."""

    release_s: float
    weight: float
    states: tuple[State, ...]
    is_one_piece: bool


# What a job may hold.


def states_of(
    job: Job, speed: Speed, *, borrows: bool, copy_efficiency: Sequence[float] | None = None
) -> tuple[State, ...]:
    """Return all that a job may hold on an empty cluster, but for what is worse than another."""
    cluster = speed.cluster
    hosts = [host for pool in cluster.pools for host in pool.hosts if borrows or not pool.is_lent]
    alone = [
        state
        for workers in range(job.min_workers, job.max_workers + 1)
        for state in states_on(job, speed, hosts, workers)
    ]
    found = list(alone)
    if copy_efficiency is not None:
        servers = [
            [host for host in hosts if cluster.server_of_host[host] == server]
            for server in sorted({cluster.server_of_host[host] for host in hosts})
        ]
        of_server = [_best(states_on(job, speed, there, job.min_workers)) for there in servers]
        for copies in range(2, len(servers) + 1):
            worth = copy_efficiency[min(copies, len(copy_efficiency)) - 1]
            for chosen in combinations(of_server, copies):
                found += [
                    State(
                        tuple(int(count) for count in np.sum([each.gpus for each in held], axis=0)),
                        worth * sum(each.rate for each in held),
                    )
                    for held in product(*chosen)
                ]
    return _best(found)


def states_on(job: Job, speed: Speed, hosts: Sequence[int], workers: int) -> Iterator[State]:
    """Yield what a job of so many workers may hold on some hosts."""
    cluster = speed.cluster
    pools = sorted({cluster.pool_of_host[host] for host in hosts})
    for counts in _divided(workers, len(pools)):
        used = [(pool, count) for pool, count in zip(pools, counts, strict=True) if count]
        if not _is_allowed(job, cluster, [pool for pool, _ in used]):
            continue
        for has_replicas in (False, True):
            needed = []
            for pool, count in used:
                of_pool = cluster.pools[pool]
                replicas = of_pool.gpu_type.replicas if of_pool.is_lent and has_replicas else 1
                needed.append((pool, count, replicas))
            for gpus in _placed(job, cluster, hosts, needed):
                parts = [
                    Part(pool, there, count, sum(there.values()))
                    for (pool, count, _), there in zip(needed, gpus, strict=True)
                ]
                try:
                    rate = share_rate(speed, job, parts)
                except UserError:  # nothing is known of so large a gang
                    continue
                if rate > 0:
                    held = [0] * len(cluster.pools)
                    for part in parts:
                        held[part.pool] += part.held
                    yield State(tuple(held), rate)


def _divided(workers: int, places: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to divide workers on places."""
    if places == 1:
        yield (workers,)
        return
    for first in range(workers + 1):
        for others in _divided(workers - first, places - 1):
            yield (first, *others)


def _is_allowed(job: Job, cluster: Cluster, pools: Sequence[int]) -> bool:
    """Whether a job may be on these kinds of GPUs, and on all of them at once."""
    kinds = {cluster.pools[pool].is_lent for pool in pools}
    if True in kinds and not (job.fungible or job.heterogeneous):
        return False
    if len(kinds) > 1 and not job.heterogeneous:
        return False
    return not job.gpu_types or all(
        cluster.pools[pool].gpu_type.name in job.gpu_types for pool in pools
    )


def _placed(
    job: Job, cluster: Cluster, hosts: Sequence[int], needed: Sequence[tuple[int, int, int]]
) -> Iterator[tuple[dict[int, int], ...]]:
    """Yield the GPUs by host of each pool, whole workers on a host."""
    width = job.gpus_per_worker
    of_pools = []
    for pool, count, replicas in needed:
        there = [host for host in hosts if cluster.pool_of_host[host] == pool]
        of_pools.append(
            [
                {
                    host: width * chunks
                    for host, chunks in zip(there, divided, strict=True)
                    if chunks
                }
                for divided in _divided(count * replicas, len(there))
                if all(
                    width * chunks <= cluster.gpus_of_host[host]
                    for host, chunks in zip(there, divided, strict=True)
                )
            ]
        )
    yield from product(*of_pools)


def _best(states: Sequence[State] | Iterator[State]) -> tuple[State, ...]:
    """Return states none of which holds as much as another that does as much."""
    found = sorted(set(states), key=lambda state: (-state.rate, state.gpus))
    kept: list[State] = []
    for state in found:
        if not any(
            all(mine <= theirs for mine, theirs in zip(other.gpus, state.gpus, strict=True))
            for other in kept
        ):
            kept.append(state)
    return tuple(kept)


# What there is.


class Room(NamedTuple):
    """GPUs by pool from a moment on."""

    since_s: float
    gpus: tuple[int, ...]


def rooms_of(cluster: Cluster, plan: LoanPlan | None) -> list[Room]:
    """Return what there is, from 0 on."""
    steps = [0] if plan is None else plan.on_loan
    rooms: list[Room] = []
    for tick, on_loan in enumerate(steps):
        gpus = tuple(
            sum(sorted(pool.gpus, reverse=True)[: on_loan if pool.is_lent else None])
            for pool in cluster.pools
        )
        if not rooms or rooms[-1].gpus != gpus:
            rooms.append(Room(tick * plan.interval_s if plan else 0.0, gpus))
    return rooms


# The optimum.

FIXED, START, END = range(3)


class Problem:
    """What jobs are to run where.

    Parameters
    ----------
    jobs
        Of weight above 0; others wait until all else is done.
    rooms
        What there is.
    is_queue
        Whether they are to wait little, rather than to complete soon.
    """

    def __init__(self, jobs: Sequence[Exact], rooms: Sequence[Room], *, is_queue: bool) -> None:
        self.jobs = [job for job in jobs if job.weight > 0]
        self.rooms, self.is_queue = rooms, is_queue
        moments = {job.release_s for job in self.jobs} | {room.since_s for room in rooms}
        self.fixed_s = sorted(moments - {0.0})

    def orders(self) -> Iterator[list[tuple[int, int]]]:
        """Yield all orders of events: (FIXED, place), (START, job) and (END, job)."""
        yield from self._from([], 0, frozenset(), frozenset())

    def _from(
        self,
        events: list[tuple[int, int]],
        place: int,
        started: frozenset[int],
        ended: frozenset[int],
    ) -> Iterator[list[tuple[int, int]]]:
        if len(ended) == len(self.jobs):
            yield events
            return
        now_s = self.fixed_s[place - 1] if place else 0.0
        if place < len(self.fixed_s):
            yield from self._from([*events, (FIXED, place)], place + 1, started, ended)
        for number, job in enumerate(self.jobs):
            if number in ended or job.release_s > now_s:
                continue
            if job.is_one_piece and number not in started:
                more = started | {number}
                yield from self._from([*events, (START, number)], place, more, ended)
            else:
                more = ended | {number}
                yield from self._from([*events, (END, number)], place, started, more)

    def least(self) -> float:
        """Return what all jobs cost at least."""
        if not self.jobs:
            return 0.0
        pieces = [job.states if job.is_one_piece else (None,) for job in self.jobs]
        return min(
            self._least_in_order(events, chosen)
            for events in self.orders()
            for chosen in product(*pieces)
        )

    def _least_in_order(
        self, events: list[tuple[int, int]], chosen: Sequence[State | None]
    ) -> float:
        """Return what jobs cost at least in an order of events, with these states of pieces."""
        programme = _Programme()
        moments: list[_Moment] = [(None, 0.0)]
        start_of: dict[int, _Moment] = {}
        end_of: dict[int, _Moment] = {}
        for kind, number in events:
            if kind == FIXED:
                moments.append((None, self.fixed_s[number]))
                continue
            moment = (programme.variable(), 0.0)
            moments.append(moment)
            (start_of if kind == START else end_of)[number] = moment
        for number, job in enumerate(self.jobs):
            state = chosen[number]
            programme.costs(
                job.weight,
                end_of[number] if state is None or not self.is_queue else start_of[number],
            )
            if state is not None:
                programme.equal([(1.0, end_of[number]), (-1.0, start_of[number])], 1 / state.rate)
        done: list[list[tuple[float, int]]] = [[] for _ in self.jobs]
        is_running: set[int] = set()
        over: set[int] = set()
        now_s = 0.0
        for place, (kind, number) in enumerate(events):
            length = [(1.0, moments[place + 1]), (-1.0, moments[place])]
            programme.at_most([], [(-1.0 * sign, moment) for sign, moment in length], 0.0)
            gpus = next(room.gpus for room in reversed(self.rooms) if room.since_s <= now_s)
            used: list[list[tuple[float, int]]] = [[] for _ in gpus]
            free = [float(count) for count in gpus]
            for each, job in enumerate(self.jobs):
                if each in over or job.release_s > now_s:
                    continue
                state = chosen[each]
                if state is not None and each in is_running:
                    for pool, count in enumerate(state.gpus):
                        free[pool] -= count
                    continue
                if state is not None and not self.is_queue:
                    continue
                held = []
                for option in job.states:
                    time = programme.variable(-job.weight if self.is_queue else 0.0)
                    held.append((1.0, time))
                    for pool, count in enumerate(option.gpus):
                        used[pool].append((float(count), time))
                    if state is None:
                        done[each].append((-option.rate, time))
                programme.at_most(held, [(-sign, moment) for sign, moment in length], 0.0)
            for pool, terms in enumerate(used):
                programme.at_most(
                    terms, [(-sign * free[pool], moment) for sign, moment in length], 0.0
                )
            if kind == FIXED:
                now_s = self.fixed_s[number]
            elif kind == START:
                is_running.add(number)
            else:
                over.add(number)
        passed = sum(kind == FIXED for kind, _ in events)
        if passed < len(self.fixed_s):
            programme.at_most([], [(1.0, moments[-1])], self.fixed_s[passed])
        for number, terms in enumerate(done):
            if chosen[number] is None:
                programme.at_most(terms, [], -1.0)
        released = sum(job.weight * job.release_s for job in self.jobs)
        return programme.least() - released


_Moment = tuple[int | None, float]
"""A variable, or a time."""


class _Programme:
    """A linear programme that grows."""

    def __init__(self) -> None:
        self._cost: list[float] = []
        self._rows: list[tuple[list[tuple[float, int]], float]] = []
        self._equal: list[tuple[list[tuple[float, int]], float]] = []

    def variable(self, cost: float = 0.0) -> int:
        """Return a new variable, at least 0."""
        self._cost.append(cost)
        return len(self._cost) - 1

    def costs(self, weight: float, moment: _Moment) -> None:
        """Let a moment that is a variable cost so much more."""
        assert moment[0] is not None, "only fixed moments are known"
        self._cost[moment[0]] += weight

    def at_most(
        self, terms: list[tuple[float, int]], moments: list[tuple[float, _Moment]], most: float
    ) -> None:
        """Add a row."""
        self._rows.append(_row(terms, moments, most))

    def equal(self, moments: list[tuple[float, _Moment]], value: float) -> None:
        """Add an equation."""
        self._equal.append(_row([], moments, value))

    def least(self) -> float:
        """Return the least cost; infinite if there is no solution."""
        matrices = []
        for rows in (self._rows, self._equal):
            matrix = np.zeros((len(rows), len(self._cost)))
            for place, (terms, _) in enumerate(rows):
                for factor, variable in terms:
                    matrix[place, variable] += factor
            matrices.append((matrix, [most for _, most in rows]) if rows else (None, None))
        (less, most), (equal, value) = matrices
        found = linprog(self._cost, A_ub=less, b_ub=most, A_eq=equal, b_eq=value)
        assert found.status in (0, 2), found.message
        return float(found.fun) if found.status == 0 else np.inf


def _row(
    terms: list[tuple[float, int]], moments: list[tuple[float, _Moment]], most: float
) -> tuple[list[tuple[float, int]], float]:
    found = list(terms)
    for factor, (variable, time_s) in moments:
        if variable is None:
            most -= factor * time_s
        else:
            found.append((factor, variable))
    return found, most


def exact_jobs(
    workload: Workload,
    speed: Speed,
    *,
    borrows: bool,
    is_restart: bool,
    weight: Sequence[float],
    copy_efficiency: Sequence[float] | None = None,
) -> list[Exact]:
    """Return jobs of a workload; those that lose their work when they are stopped in one piece."""
    first_s = workload.jobs[0].submit_s
    found = []
    for job, counts in zip(workload.jobs, weight, strict=True):
        loses_work = is_restart and not job.checkpoints and copy_efficiency is None
        is_rigid = job.min_workers == job.max_workers and not job.heterogeneous
        states = states_of(job, speed, borrows=borrows, copy_efficiency=copy_efficiency)
        found.append(Exact(job.submit_s - first_s, counts, states, loses_work and is_rigid))
    return found
