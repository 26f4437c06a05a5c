"""Schedules in rounds by trying everything: slow, plain, and right; the oracle of the tests."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from formulations.exact_solver import Countdown
from lyra_opt.core.result import SolveResult, Status, StoppedBy
from lyra_opt.core.rounding import float_up
from lyra_opt.core.solver import Unsupported
from lyra_opt.heterogeneous.bounds.dual_bound import simple_bound
from lyra_opt.heterogeneous.checker import check, due_steps, jct_s, steps_in_round, worth
from lyra_opt.heterogeneous.instance import (
    SHARE_OBJECTIVES,
    Objective,
    RoundEntry,
    RoundSchedule,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np

    from lyra_opt.core.result import Limits
    from lyra_opt.heterogeneous.instance import GangJob, HeterogeneousInstance, Placement

    Cell = tuple[str, str]
    Copies = tuple[Placement, ...]
    Choice = tuple[Copies, ...]

MOST_CHOICES = 50_000
MOST_ROUNDS = 8
STATES_BETWEEN_LOOKS_AT_THE_CLOCK = 100

COMPLETE = Fraction(0)


class _Node(NamedTuple):
    """The best way found to a state: what completions have added, and the round before."""

    value: Fraction
    before: tuple[Fraction, ...] | None
    choice: Choice


class BruteForce:
    """Try every placement of every job in every round; implements `lyra_opt.core.solver.Solver`.

    A state is what each job still has to do. From the states before a round, all choices of
    placements that fit lead to those after it; of several ways to a state the one of most value
    is kept, the first found of equal ones. Of choices in which every job does the same steps only
    the first is tried. Numbers are rational. Complexity O(rounds states choices).

    Stopped by the time limit, it returns the best schedule known with the bound of each job
    alone. Other limits are not kept.
    """

    name = "brute-force"
    problem = "heterogeneous"
    variants: Sequence[str] = tuple(
        str(objective) for objective in Objective if objective not in SHARE_OBJECTIVES
    )
    proves_optimality = True
    gives_bound = True

    def availability(self) -> Unsupported | None:
        """Brute force needs nothing beyond this package."""
        return None

    def supports(self, instance: HeterogeneousInstance) -> Unsupported | None:
        """Return why there are too many choices, None if there are not."""
        if instance.objective in SHARE_OBJECTIVES:
            return Unsupported("brute force tries schedules in rounds, not shares of time")
        if instance.horizon_rounds > MOST_ROUNDS:
            return Unsupported(
                f"horizon_rounds is {instance.horizon_rounds}; brute force tries at most "
                f"{MOST_ROUNDS} rounds"
            )
        choices = math.prod(_count(instance, job) for job in instance.jobs)
        if choices <= MOST_CHOICES:
            return None
        return Unsupported(
            f"there are {choices} ways to place jobs in a round, those that do not fit together "
            f"included; brute force tries at most {MOST_CHOICES}"
        )

    def solve(
        self,
        instance: HeterogeneousInstance,
        *,
        limits: Limits,
        rng: np.random.Generator,  # noqa: ARG002
        warm_start: RoundSchedule | None = None,
        observer: Callable[[str, int | float], None] | None = None,
    ) -> SolveResult[RoundSchedule]:
        """Try everything; see `lyra_opt.core.solver.Solver.solve`."""
        countdown = Countdown(limits.time_s)
        maximises = instance.objective.sense == "max"
        best = _search(instance, countdown)
        stopped_by = StoppedBy.TIME if best is None else None
        if best is None:
            best = warm_start
            if best is None and maximises:
                best = RoundSchedule(())
        objective = None if best is None else check(instance, best).objective
        if objective is None:
            if stopped_by is None:
                return SolveResult(
                    status=Status.INFEASIBLE,
                    message="no schedule completes all jobs within the horizon",
                )
            bound = -float_up(-simple_bound(instance))
            return SolveResult(status=Status.UNKNOWN, stopped_by=stopped_by, dual_bound=bound)
        bound = objective
        if stopped_by is not None:
            simple = simple_bound(instance)
            bound = float_up(simple) if maximises else -float_up(-simple)
        if observer is not None:
            observer("objective", objective)
            observer("dual_bound", bound)
        return SolveResult(
            status=Status.OPTIMAL if bound == objective else Status.FEASIBLE,
            stopped_by=stopped_by,
            solution=best,
            objective=objective,
            dual_bound=bound,
        )


def _search(instance: HeterogeneousInstance, countdown: Countdown) -> RoundSchedule | None:
    """Return the best schedule, one that is not valid if none is; None if time ran out."""
    choices = _choices(instance, countdown)
    if choices is None:
        return None
    if instance.objective is Objective.ROUND_PROGRESS:
        best = max(choices, key=lambda steps: _progress(instance, steps))
        return _schedule(instance, [choices[best]])
    layers = [{tuple(due_steps(job) for job in instance.jobs): _Node(Fraction(0), None, ())}]
    for t in range(instance.horizon_rounds):
        if countdown.is_over:
            return None
        layer: dict[tuple[Fraction, ...], _Node] = {}
        for tried, (state, node) in enumerate(layers[-1].items()):
            if tried % STATES_BETWEEN_LOOKS_AT_THE_CLOCK == 0 and countdown.is_over:
                return None
            for steps, choice in choices.items():
                if not _is_allowed(instance, t, state, steps):
                    continue
                left = tuple(max(COMPLETE, d - s) for d, s in zip(state, steps, strict=True))
                value = node.value + sum(
                    (
                        _value(instance, job, t)
                        for job, old, new in zip(instance.jobs, state, left, strict=True)
                        if old and not new
                    ),
                    Fraction(0),
                )
                if left not in layer or value > layer[left].value:
                    layer[left] = _Node(value, state, choice)
        layers.append(layer)
    done = (COMPLETE,) * len(instance.jobs)
    if instance.objective is Objective.UTILITY:
        last = max(layers[-1], key=lambda state: layers[-1][state].value)
        return _traced(instance, layers, len(layers) - 1, last)
    if done not in layers[-1]:
        return RoundSchedule(())
    if instance.objective is Objective.MAKESPAN:
        first = next(place for place, layer in enumerate(layers) if done in layer)
        return _traced(instance, layers, first, done)
    return _traced(instance, layers, len(layers) - 1, done)


def _value(instance: HeterogeneousInstance, job: GangJob, t: int) -> Fraction:
    if instance.objective is Objective.UTILITY:
        return worth(instance, job, t)
    return -jct_s(instance, job, t)


def _progress(instance: HeterogeneousInstance, steps: Sequence[Fraction]) -> Fraction:
    return sum(
        (
            Fraction(job.weight) * min(Fraction(1), done / Fraction(job.steps))
            for job, done in zip(instance.jobs, steps, strict=True)
        ),
        Fraction(0),
    )


def _is_allowed(
    instance: HeterogeneousInstance, t: int, state: Sequence[Fraction], steps: Sequence[Fraction]
) -> bool:
    """Whether only released jobs that are not complete run."""
    return all(
        not done or (left and t >= instance.first_round(job))
        for job, left, done in zip(instance.jobs, state, steps, strict=True)
    )


def _traced(
    instance: HeterogeneousInstance,
    layers: Sequence[Mapping[tuple[Fraction, ...], _Node]],
    last: int,
    state: tuple[Fraction, ...],
) -> RoundSchedule:
    chosen: list[Choice] = []
    for layer in reversed(layers[1 : last + 1]):
        node = layer[state]
        chosen.append(node.choice)
        assert node.before is not None
        state = node.before
    return _schedule(instance, chosen[::-1])


def _schedule(instance: HeterogeneousInstance, chosen: Sequence[Choice]) -> RoundSchedule:
    return RoundSchedule(
        tuple(
            RoundEntry(job=job.id, round=t, gpus=placement)
            for t, choice in enumerate(chosen)
            for job, copies in zip(instance.jobs, choice, strict=True)
            for placement in copies
        )
    )


def _cells(instance: HeterogeneousInstance) -> list[tuple[Cell, int]]:
    return [
        ((server.id, name), count)
        for server in instance.servers
        for name, count in server.gpus.items()
    ]


def _count(instance: HeterogeneousInstance, job: GangJob) -> int:
    """Return the ways to place a job in a round, none included, those at rate 0 too."""
    if not instance.forking:
        return 1 + _ways([count for _, count in _cells(instance)], job.gang)
    return math.prod(1 + _ways(list(server.gpus.values()), job.gang) for server in instance.servers)


def _ways(counts: Sequence[int], gang: int) -> int:
    ways = [1] + [0] * gang
    for count in counts:
        ways = [sum(ways[max(0, g - count) : g + 1]) for g in range(gang + 1)]
    return ways[gang]


def _placements(
    cells: Sequence[tuple[Cell, int]], gang: int, chosen: tuple[tuple[Cell, int], ...] = ()
) -> Iterator[Placement]:
    """Yield every way to take `gang` GPUs of the cells."""
    if not gang:
        placement: Placement = {}
        for (server, name), count in chosen:
            placement.setdefault(server, {})[name] = count
        yield placement
    elif cells:
        (cell, there), *rest = cells
        for count in range(min(there, gang) + 1):
            more = ((cell, count),) if count else ()
            yield from _placements(rest, gang - count, chosen + more)


def _of_job(instance: HeterogeneousInstance, job: GangJob) -> Iterator[Copies]:
    """Yield every way to run a job in a round, not to run it first."""
    cells = _cells(instance)
    if instance.objective is Objective.ROUND_PROGRESS and instance.first_round(job):
        yield ()
        return
    if not instance.forking:
        yield ()
        for placement in _placements(cells, job.gang):
            if job.rate_of(placement):
                yield (placement,)
        return
    ways: list[Copies] = [()]
    for server in instance.servers:
        own = [entry for entry in cells if entry[0][0] == server.id]
        here = [placement for placement in _placements(own, job.gang) if job.rate_of(placement)]
        ways += [(*copies, placement) for copies in ways for placement in here]
    yield from ways


def _choices(
    instance: HeterogeneousInstance, countdown: Countdown
) -> dict[tuple[Fraction, ...], Choice] | None:
    """Return what fits into a round, one choice for each vector of steps done; None out of time."""
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

    def choose(j: int, steps: tuple[Fraction, ...], choice: Choice) -> bool:
        if j == len(ways):
            found.setdefault(steps, choice)
            return len(found) % STATES_BETWEEN_LOOKS_AT_THE_CLOCK != 0 or not countdown.is_over
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
            goes_on = choose(j + 1, (*steps, done), (*choice, copies))
            for cell, count in held:
                free[cell] += count
            if not goes_on:
                return False
        return True

    return found if not countdown.is_over and choose(0, (), ()) else None
