"""Brute force for schedules in rounds: try every placement of every job in every round."""

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from lyra_opt.core.solver import Unsupported
from lyra_opt.core.stopwatch import require_time
from lyra_opt.formulations.brute_force import (
    STATES_BETWEEN_TIME_CHECKS,
    BruteForceSolver,
    best_ways,
    choices_to,
    count_ways_to_take,
    too_many,
    ways_to_take,
)
from lyra_opt.formulations.heterogeneous.round_model import rounded_bound
from lyra_opt.heterogeneous.checker import due_steps, jct_s, steps_in_round, worth
from lyra_opt.heterogeneous.instance import (
    SHARE_OBJECTIVES,
    GangJob,
    Instance,
    Objective,
    Placement,
    RoundEntry,
    RoundSchedule,
)
from lyra_opt.heterogeneous.problem import PROBLEM

Cell = tuple[str, str]
Steps = tuple[Fraction, ...]
Copies = tuple[Placement, ...]
Choice = tuple[Copies, ...]

MOST_CHOICES = 50_000
MOST_ROUNDS = 8
COMPLETE = Fraction(0)


class BruteForce(BruteForceSolver):
    """Brute-force solver that tries all placements in all rounds by dynamic programming.

    A state holds the remaining steps of each job. Each round extends every state by all choices of
    placements that fit together. Of several ways to a state the best is kept, and of equally good
    ways the first. Of choices in which all jobs do equal steps only the first is tried. Numbers are
    rational. Complexity O(rounds * states * choices).
    """

    of = PROBLEM
    variants = tuple(objective for objective in Objective if objective not in SHARE_OBJECTIVES)

    def supports(self, instance: Instance) -> Unsupported | None:
        """Return why brute force refuses the instance; None if it can solve the instance."""
        if instance.objective in SHARE_OBJECTIVES:
            return Unsupported("brute force supports schedules in rounds only, not shares of time")
        if instance.horizon_rounds > MOST_ROUNDS:
            return Unsupported(
                f"brute force supports at most {MOST_ROUNDS} rounds; horizon_rounds is "
                f"{instance.horizon_rounds}"
            )
        choices = math.prod(_count(instance, job) for job in instance.jobs)
        return too_many(
            choices,
            MOST_CHOICES,
            "jobs can be placed in a round in {} ways, whether or not they fit together",
        )

    def improvements(self, instance: Instance) -> Iterator[RoundSchedule]:
        """Yield the optimal schedule; nothing if the instance is infeasible."""
        best = _search(instance)
        if best is not None:
            yield best

    def simple_bound(self, instance: Instance) -> float:
        """Return a bound on the objective that assumes each job has the whole cluster to itself."""
        return rounded_bound(instance)

    def without_search(self, instance: Instance) -> RoundSchedule | None:
        """Return the empty schedule if it is valid; None if all jobs must complete."""
        return RoundSchedule(()) if instance.variant.sense == "max" else None


def _search(instance: Instance) -> RoundSchedule | None:
    """Return the optimal schedule; None if no schedule completes all jobs."""
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
    """Whether every job that runs in round t is released and not yet complete."""
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
    """Count the ways to place a job in a round, including no placement and placements of rate 0."""
    if not instance.forking:
        return 1 + count_ways_to_take((count for _, count in _cells(instance)), job.gang)
    return math.prod(
        1 + count_ways_to_take(each.gpus.values(), job.gang) for each in instance.servers
    )


def _placements(cells: Sequence[tuple[Cell, int]], job: GangJob) -> Iterator[Placement]:
    """Yield every placement of the job's gang, with a positive rate, on the GPUs of `cells`."""
    for counts in ways_to_take([there for _, there in cells], job.gang):
        placement: Placement = {}
        for ((server, name), _), count in zip(cells, counts, strict=True):
            if count:
                placement.setdefault(server, {})[name] = count
        if job.rate_of(placement):
            yield placement


def _of_job(instance: Instance, job: GangJob) -> Iterator[Copies]:
    """Yield each set of placements that a job can have in a round, starting with the empty set."""
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
    """Return a joint placement that fits into one round for each vector of steps done per job."""
    ways = [
        [
            (sum((steps_in_round(instance, job, gpus) for gpus in copies), Fraction(0)), copies)
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
