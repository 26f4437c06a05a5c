"""List scheduling: place gangs in several fixed orders, each on its fastest free GPUs."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np

from lyra_opt.core.result import SolveResult, Status, StoppedBy
from lyra_opt.core.solver import HeuristicSolver
from lyra_opt.core.stopwatch import OutOfTimeError, within_time
from lyra_opt.heterogeneous.bounds.fastest import earliest_completion
from lyra_opt.heterogeneous.checker import check, completion_of, due_steps, steps_in_round
from lyra_opt.heterogeneous.instance import (
    SHARE_OBJECTIVES,
    GangJob,
    Instance,
    Objective,
    Placement,
    RoundEntry,
    RoundSchedule,
)

Free = dict[str, dict[str, int]]


MOST_MOVED_JOBS = 12
MOST_SCHEDULES = 200
"""Most schedules in the local search, and most jobs for which a local search runs."""


class ListSchedule(HeuristicSolver):
    """Schedule gangs in several fixed orders and return the best schedule.

    In each round jobs are placed in a fixed order, each on the fastest free GPUs. The orders are:
    least work alone first, least work per weight first, largest gang first, most rounds first, and
    file order. With few jobs a local search improves the best order: as long as the schedule
    improves, one job is removed or moved to another position. Ties go to the order tried first.
    Exact models use the result as their warm start.

    Source: Graham's list scheduling; the orders and the moves are ours. Complexity O(orders rounds
    jobs servers types), with at most 200 orders. Guarantee: none. No schedule is found if no order
    completes all jobs that the objective requires to complete.
    """

    name = "list-schedule"
    problem = "heterogeneous"
    variants = tuple(each for each in Objective if each not in SHARE_OBJECTIVES)

    def apply(self, instance: Instance, rng: np.random.Generator) -> SolveResult[RoundSchedule]:  # noqa: ARG002
        """Return the best schedule over all orders."""
        search, stopped_by = _Search(instance), None
        try:
            _search_orders(search)
        except OutOfTimeError:
            stopped_by = StoppedBy.TIME
            if search.best is None and instance.variant.sense == "max":
                search.offer(RoundSchedule(()))
        if search.best is None:
            message = None if stopped_by else "no order completes all jobs"
            return SolveResult(status=Status.UNKNOWN, stopped_by=stopped_by, message=message)
        solution, objective = search.best
        return SolveResult(
            status=Status.FEASIBLE, stopped_by=stopped_by, solution=solution, objective=objective
        )


class _Search:
    """State of the search over orders of jobs: the best schedule and order so far."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.sign = 1 if instance.variant.sense == "min" else -1
        self.best: tuple[RoundSchedule, float] | None = None
        self.order: Sequence[GangJob] | None = None
        self.tried = 0

    def try_order(self, order: Sequence[GangJob]) -> bool:
        """Schedule the jobs in an order; return whether the result is the best so far."""
        self.tried += 1
        if not self.offer(without_waste(self.instance, _schedule(self.instance, order))):
            return False
        self.order = order
        return True

    def offer(self, schedule: RoundSchedule) -> bool:
        """Keep a schedule if it is valid and better than the best so far; return whether it is."""
        value = check(self.instance, schedule).objective
        if value is None:
            return False
        if self.best is not None and self.sign * value >= self.sign * self.best[1]:
            return False
        self.best = schedule, value
        return True


def _search_orders(search: _Search) -> None:
    """Try the fixed orders; with few jobs, then search around the best order."""
    instance = search.instance
    alone = [earliest_completion(instance, job) for job in within_time(instance.jobs)]
    for order in _orders(instance, alone):
        search.try_order(order)
    if search.order is not None and len(instance.jobs) <= MOST_MOVED_JOBS:
        while any(search.try_order(order) for order in _moved(instance, search.order)):
            if search.tried >= MOST_SCHEDULES:
                break


def _moved(instance: Instance, order: Sequence[GangJob]) -> Iterator[Sequence[GangJob]]:
    """Yield the orders in which one job is removed or moved to another position."""
    for job in instance.jobs:
        others = [other for other in order if other.id != job.id]
        yield others
        for place in range(len(others) + 1):
            moved = [*others[:place], job, *others[place:]]
            if moved != list(order):
                yield moved


def without_waste(instance: Instance, schedule: RoundSchedule) -> RoundSchedule:
    """Return the schedule without rounds after a job's completion and without incomplete jobs.

    In ``round_progress`` every entry counts, so all entries are kept.
    """
    if instance.objective is Objective.ROUND_PROGRESS:
        return schedule
    entries_of: dict[str, list[RoundEntry]] = {job.id: [] for job in instance.jobs}
    for entry in schedule.entries:
        entries_of[entry.job].append(entry)
    kept = []
    for job in instance.jobs:
        entries = entries_of[job.id]
        last = completion_of(instance, job, entries)
        kept += [entry for entry in entries if last is not None and entry.round <= last]
    kept.sort(key=lambda entry: entry.round)
    return RoundSchedule(kept)


def _orders(instance: Instance, alone: Sequence[int | None]) -> Iterator[Sequence[GangJob]]:
    def rounds(position: int) -> int:
        number = alone[position]
        first = instance.first_round(instance.jobs[position])
        return instance.horizon_rounds if number is None else number - first + 1

    positions = range(len(instance.jobs))
    keys = (
        lambda p: rounds(p) * instance.jobs[p].gang,
        lambda p: rounds(p) * instance.jobs[p].gang / instance.jobs[p].weight,
        lambda p: (-instance.jobs[p].gang, -rounds(p)),
        lambda p: -rounds(p),
        lambda p: p,
    )
    for key in keys:
        yield [instance.jobs[p] for p in sorted(positions, key=key) if alone[p] is not None]


def _schedule(instance: Instance, order: Sequence[GangJob]) -> RoundSchedule:
    left = {job.id: due_steps(job) for job in order}
    entries = []
    for number in range(instance.horizon_rounds):
        free = {server.id: dict(server.gpus) for server in instance.servers}
        for job in within_time(order):
            if number < instance.first_round(job):
                continue
            for placement in _placements(instance, job, free, left[job.id]):
                entries.append(RoundEntry(job=job.id, round=number, gpus=placement))
                left[job.id] -= steps_in_round(instance, job, placement)
                for server, types in placement.items():
                    for name, count in types.items():
                        free[server][name] -= count
        if all(rest <= 0 for rest in left.values()):
            break
    return RoundSchedule(tuple(entries))


def _placements(
    instance: Instance, job: GangJob, free: Free, left: Fraction
) -> Iterator[Placement]:
    """Yield a job's placements in a round: the fastest one, or several copies with forking."""
    whole = [
        found
        for server in free
        if (found := _fastest(job, {server: free[server]}, job.throughput)) is not None
    ]
    if instance.forking:
        choices = whole
    else:
        spread = job.throughput if job.spread_throughput is None else job.spread_throughput
        anywhere = _fastest(job, free, spread)
        choices = [*whole, *([anywhere] if anywhere is not None else [])]
    current = {server: dict(types) for server, types in job.current.items()}
    fits = all(
        free[server].get(name, 0) >= count
        for server, types in current.items()
        for name, count in types.items()
    )
    if current and fits and (len(current) == 1 or not instance.forking):
        if instance.forking:
            choices = [found for found in choices if found.keys() != current.keys()]
        choices = [current, *choices]
    steps = [steps_in_round(instance, job, found) for found in choices]
    ranked = sorted(range(len(choices)), key=lambda place: -steps[place])
    for place in ranked if instance.forking else ranked[:1]:
        if left > 0 and job.rate_of(choices[place]) > 0:
            left -= steps[place]
            yield choices[place]


def _fastest(job: GangJob, free: Free, rates: Mapping[str, float]) -> Placement | None:
    """Return a gang's placement on the fastest free GPU types; None if too few GPUs are free.

    Among equally fast GPUs, servers with the most free ones come first.
    """
    cells = sorted(
        (
            (-rates.get(name, 0.0), -count, position, server, name)
            for position, (server, types) in enumerate(free.items())
            for name, count in types.items()
            if count and rates.get(name, 0.0) > 0
        ),
    )
    needed = job.gang
    placement: Placement = {}
    for _, count, _, server, name in cells:
        taken = min(needed, -count)
        placement.setdefault(server, {})[name] = taken
        needed -= taken
        if not needed:
            return placement
    return None
