"""The least that any schedule of a few jobs costs, from the definition of the problem.

What a job may hold is listed GPU by GPU, with rates by hand
(`tests.lyra_opt.simulation.product.share_rate`); nothing of `lyra_opt.simulation.bounds` or
`lyra_opt.simulation.least_run` is used. Then every order in which jobs start and complete is tried,
before and after each release and each change of a loan, with a linear programme for the times.
Jobs share GPUs in the mean over an interval alone, so that no schedule costs less than what is
found, and the bound must not exceed it.
"""

from itertools import combinations, product
from typing import NamedTuple

import highspy
import numpy as np

from lyra_opt.core.errors import UserError
from lyra_opt.simulation.job_run import Part
from tests.lyra_opt.simulation.product import share_rate


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


def states_of(job, speed, *, borrows, copy_efficiency=None):
    """Return all that a job may hold on an empty cluster, but for what is worse than another."""
    cluster = speed.cluster
    hosts = [host for pool in cluster.pools for host in pool.hosts if borrows or not pool.is_lent]
    alone = [
        state
        for workers in range(job.min_workers, job.max_workers + 1)
        for state in states_on(job, speed, hosts, workers)
    ]
    if copy_efficiency is None:
        return _best(alone)
    found = list(alone)
    servers = [
        [host for host in hosts if cluster.server_of_host[host] == server]
        for server in sorted({cluster.server_of_host[host] for host in hosts})
    ]
    of_server = [_best(states_on(job, speed, there, job.min_workers)) for there in servers]
    for copies in range(2, len(servers) + 1):
        worth = copy_efficiency[min(copies, len(copy_efficiency)) - 1]
        for chosen in combinations(of_server, copies):
            for held in product(*chosen):
                gpus = np.sum([each.gpus for each in held], axis=0).tolist()
                found.append(State(tuple(gpus), worth * sum(each.rate for each in held)))
    return _best(found)


def states_on(job, speed, hosts, workers):
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


def _divided(workers, places):
    """Yield all ways to divide workers on places."""
    if places == 1:
        yield (workers,)
        return
    for first in range(workers + 1):
        for others in _divided(workers - first, places - 1):
            yield (first, *others)


def _is_allowed(job, cluster, pools):
    """Whether a job may be on these kinds of GPUs, and on all of them at once."""
    kinds = {cluster.pools[pool].is_lent for pool in pools}
    if True in kinds and not (job.fungible or job.heterogeneous):
        return False
    if len(kinds) > 1 and not job.heterogeneous:
        return False
    return not job.gpu_types or all(
        cluster.pools[pool].gpu_type.name in job.gpu_types for pool in pools
    )


def _placed(job, cluster, hosts, needed):
    """Yield the GPUs by host of each pool, whole workers on a host."""
    of_pools = []
    for pool, count, replicas in needed:
        there = [host for host in hosts if cluster.pool_of_host[host] == pool]
        held = [
            {host: job.gpus_per_worker * n for host, n in zip(there, divided, strict=True) if n}
            for divided in _divided(count * replicas, len(there))
        ]
        sizes = cluster.gpus_of_host
        of_pools.append([gpus for gpus in held if all(n <= sizes[h] for h, n in gpus.items())])
    yield from product(*of_pools)


def _best(states):
    """Return states none of which holds as much as another that does as much."""
    found = sorted(set(states), key=lambda state: (-state.rate, state.gpus))
    kept = []
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


def rooms_of(cluster, plan):
    """Return what there is, from 0 on."""
    steps = [0] if plan is None else plan.on_loan
    rooms = []
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

    def __init__(self, jobs, rooms, *, is_queue):
        self.jobs = [job for job in jobs if job.weight > 0]
        self.rooms, self.is_queue = rooms, is_queue
        moments = {job.release_s for job in self.jobs} | {room.since_s for room in rooms}
        self.fixed_s = sorted(moments - {0.0})

    def orders(self):
        """Yield all orders of events: (FIXED, place), (START, job) and (END, job)."""
        yield from self._from([], 0, frozenset(), frozenset())

    def _from(self, events, place, started, ended):
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

    def least(self):
        """Return what all jobs cost at least."""
        if not self.jobs:
            return 0.0
        pieces = [job.states if job.is_one_piece else (None,) for job in self.jobs]
        return min(
            self._least_in_order(events, chosen)
            for events in self.orders()
            for chosen in product(*pieces)
        )

    def _least_in_order(self, events, chosen):
        """Return what jobs cost at least in an order of events, with these states of pieces."""
        model = highspy.Highs()
        model.silent()
        cost = model.expr(-sum(job.weight * job.release_s for job in self.jobs))
        moments, start_of, end_of = [model.expr(0.0)], {}, {}
        for kind, number in events:
            if kind == FIXED:
                moments.append(model.expr(self.fixed_s[number]))
                continue
            moment = model.expr(model.addVariable())
            moments.append(moment)
            (start_of if kind == START else end_of)[number] = moment
        for number, job in enumerate(self.jobs):
            state = chosen[number]
            is_end = state is None or not self.is_queue
            cost += job.weight * (end_of if is_end else start_of)[number]
            if state is not None:
                model.addConstr(end_of[number] - start_of[number] == 1 / state.rate)
        done = [model.expr(0.0) for _ in self.jobs]
        is_running = set()
        over = set()
        now_s = 0.0
        for place, (kind, number) in enumerate(events):
            length = moments[place + 1] - moments[place]
            model.addConstr(length >= 0)
            gpus = next(room.gpus for room in reversed(self.rooms) if room.since_s <= now_s)
            used = [model.expr(0.0) for _ in gpus]
            for each, job in enumerate(self.jobs):
                state = chosen[each]
                if each in over or job.release_s > now_s:
                    continue
                if state is not None and each in is_running:
                    for pool, count in enumerate(state.gpus):
                        used[pool] += count * length
                elif state is None or self.is_queue:
                    times = [model.addVariable() for _ in job.states]
                    model.addConstr(model.qsum(times) <= length)
                    for option, time in zip(job.states, times, strict=True):
                        done[each] += option.rate * time
                        cost -= (job.weight if self.is_queue else 0.0) * time
                        for pool, count in enumerate(option.gpus):
                            used[pool] += count * time
            for pool, count in enumerate(gpus):
                model.addConstr(used[pool] <= count * length)
            if kind == FIXED:
                now_s = self.fixed_s[number]
            else:
                (is_running if kind == START else over).add(number)
        passed = sum(kind == FIXED for kind, _ in events)
        if passed < len(self.fixed_s):
            model.addConstr(moments[-1] <= self.fixed_s[passed])
        for number, worked in enumerate(done):
            if chosen[number] is None:
                model.addConstr(worked >= 1.0)
        model.minimize(cost)
        status = model.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return np.inf
        assert status == highspy.HighsModelStatus.kOptimal, status
        return float(model.getObjectiveValue())
