"""Schedules in rounds by trying everything: slow, plain, and right."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from lyra_opt.core.solver import Unsupported
from lyra_opt.core.stopwatch import require_time
from lyra_opt.formulations.brute_force import (
    STATES_BETWEEN_TIME_CHECKS,
    BruteForceSolver,
    best_ways,
    choices_to,
    count_takings,
    takings,
    too_many,
)
from lyra_opt.formulations.heterogeneous.round_model import rounded_bound
from lyra_opt.heterogeneous.checker import due_steps, jct_s, steps_in_round, worth
from lyra_opt.heterogeneous.instance import (
    SHARE_OBJECTIVES,
    Objective,
    RoundEntry,
    RoundSchedule,
)
from lyra_opt.heterogeneous.problem import PROBLEM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lyra_opt.heterogeneous.instance import GangJob, Instance, Placement

    Cell = tuple[str, str]
    Steps = tuple[Fraction, ...]
    Copies = tuple[Placement, ...]
    Choice = tuple[Copies, ...]

MOST_CHOICES = 50_000
MOST_ROUNDS = 8
COMPLETE = Fraction(0)


class BruteForce(BruteForceSolver):
    """Try every placement of every job in every round.

    A state is what each job still has to do. From the states before a round, all choices of
    placements that fit lead to those after it; of several ways to a state the one of most value
    is kept, the first found of equal ones. Of choices in which every job does the same steps only
    the first is tried. Numbers are rational. Complexity O(rounds states choices).
    """

    of = PROBLEM
    variants = tuple(objective for objective in Objective if objective not in SHARE_OBJECTIVES)

    def supports(self, instance: Instance) -> Unsupported | None:
        """Return why there are too many choices, None if there are not."""
        if instance.objective in SHARE_OBJECTIVES:
            return Unsupported("brute force tries schedules in rounds, not shares of time")
        if instance.horizon_rounds > MOST_ROUNDS:
            return Unsupported(
                f"horizon_rounds is {instance.horizon_rounds}; brute force tries at most "
                f"{MOST_ROUNDS} rounds"
            )
        choices = math.prod(_count(instance, job) for job in instance.jobs)
        return too_many(
            choices,
            MOST_CHOICES,
            "there are {} ways to place jobs in a round, those that do not fit together included",
        )

    def improvements(self, instance: Instance) -> Iterator[RoundSchedule]:
        """Yield the best schedule, if there is one."""
        best = _search(instance)
        if best is not None:
            yield best

    def simple_bound(self, instance: Instance) -> float:
        """Return that of each job alone."""
        return rounded_bound(instance)

    def without_search(self, instance: Instance) -> RoundSchedule | None:
        """Return that nothing runs, where that is a schedule."""
        return RoundSchedule(()) if instance.variant.sense == "max" else None


def _search(instance: Instance) -> RoundSchedule | None:
    """Return the best schedule; None if none completes all jobs."""
    choices = _choices(instance)
    if instance.objective is Objective.ROUND_PROGRESS:
        best = max(choices, key=lambda steps: _progress(instance, steps))
        return _schedule(instance, [choices[best]])

    def stage(t: int) -> Callable[[Steps], Iterator[tuple[Steps, Fraction, Choice]]]:
        def follow(state: Steps) -> Iterator[tuple[Steps, Fraction, Choice]]:
            for steps, choice in choices.items():
                if _is_allowed(instance, t, state, steps):
                    left = tuple(max(COMPLETE, d - s) for d, s in zip(state, steps, strict=True))
                    added = [
                        _value(instance, job, t)
                        for job, old, new in zip(instance.jobs, state, left, strict=True)
                        if old and not new
                    ]
                    yield left, sum(added, Fraction(0)), choice

        return follow

    start = tuple(due_steps(job) for job in instance.jobs)
    layers = best_ways(start, map(stage, range(instance.horizon_rounds)))
    last = (COMPLETE,) * len(instance.jobs)
    if instance.objective is Objective.UTILITY:
        last = max(layers[-1], key=lambda state: layers[-1][state].value)
    elif last not in layers[-1]:
        return None
    if instance.objective is Objective.MAKESPAN:
        layers = layers[: 1 + next(t for t, layer in enumerate(layers) if last in layer)]
    return _schedule(instance, choices_to(layers, last))


def _value(instance: Instance, job: GangJob, t: int) -> Fraction:
    if instance.objective is Objective.UTILITY:
        return worth(instance, job, t)
    return -jct_s(instance, job, t)


def _progress(instance: Instance, steps: Steps) -> Fraction:
    parts = (
        Fraction(job.weight) * min(Fraction(1), done / Fraction(job.steps))
        for job, done in zip(instance.jobs, steps, strict=True)
    )
    return sum(parts, Fraction(0))


def _is_allowed(instance: Instance, t: int, state: Steps, steps: Steps) -> bool:
    """Whether only released jobs that are not complete run."""
    return all(
        not done or (left and t >= instance.first_round(job))
        for job, left, done in zip(instance.jobs, state, steps, strict=True)
    )


def _schedule(instance: Instance, chosen: Sequence[Choice]) -> RoundSchedule:
    return RoundSchedule(
        tuple(
            RoundEntry(job=job.id, round=t, gpus=placement)
            for t, choice in enumerate(chosen)
            for job, copies in zip(instance.jobs, choice, strict=True)
            for placement in copies
        )
    )


def _cells(instance: Instance) -> list[tuple[Cell, int]]:
    return [
        ((server.id, name), count)
        for server in instance.servers
        for name, count in server.gpus.items()
    ]


def _count(instance: Instance, job: GangJob) -> int:
    """Return the ways to place a job in a round, none included, those at rate 0 too."""
    if not instance.forking:
        return 1 + count_takings((count for _, count in _cells(instance)), job.gang)
    return math.prod(1 + count_takings(each.gpus.values(), job.gang) for each in instance.servers)


def _placements(cells: Sequence[tuple[Cell, int]], job: GangJob) -> Iterator[Placement]:
    """Yield every way to run the job's gang on GPUs of the cells."""
    for counts in takings([there for _, there in cells], job.gang):
        placement: Placement = {}
        for ((server, name), _), count in zip(cells, counts, strict=True):
            if count:
                placement.setdefault(server, {})[name] = count
        if job.rate_of(placement):
            yield placement


def _of_job(instance: Instance, job: GangJob) -> Iterator[Copies]:
    """Yield every way to run a job in a round, not to run it first."""
    cells = _cells(instance)
    if instance.objective is Objective.ROUND_PROGRESS and instance.first_round(job):
        yield ()
        return
    if not instance.forking:
        yield ()
        yield from ((placement,) for placement in _placements(cells, job))
        return
    ways: list[Copies] = [()]
    for server in instance.servers:
        own = [entry for entry in cells if entry[0][0] == server.id]
        here = list(_placements(own, job))
        ways += [(*copies, placement) for copies in ways for placement in here]
    yield from ways


def _choices(instance: Instance) -> dict[tuple[Fraction, ...], Choice]:
    """Return what fits into a round, one choice for each vector of steps done."""
    ways = [
        [
            (
                sum((steps_in_round(instance, job, gpus) for gpus in copies), Fraction(0)),
                copies,
            )
            for copies in _of_job(instance, job)
        ]
        for job in instance.jobs
    ]
    free = dict(_cells(instance))
    found: dict[tuple[Fraction, ...], Choice] = {}

    def choose(j: int, steps: tuple[Fraction, ...], choice: Choice) -> None:
        if j == len(ways):
            found.setdefault(steps, choice)
            if len(found) % STATES_BETWEEN_TIME_CHECKS == 0:
                require_time()
            return
        for done, copies in ways[j]:
            held = [
                ((server, name), count)
                for placement in copies
                for server, types in placement.items()
                for name, count in types.items()
            ]
            if any(count > free[cell] for cell, count in held):
                continue
            for cell, count in held:
                free[cell] -= count
            choose(j + 1, (*steps, done), (*choice, copies))
            for cell, count in held:
                free[cell] += count

    require_time()
    choose(0, (), ())
    return found
