"""The search says what is wrong with a solver, and believes none unchecked."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from lyra_opt.allocation import Schedule
from lyra_opt.allocation.counterexamples import AllocationSpace
from lyra_opt.allocation.heuristics.policy_solver import SchedulePolicySolver
from lyra_opt.core.errors import FieldError
from lyra_opt.core.result import Limits, Status, StoppedBy
from lyra_opt.core.solver import Unsupported, find_solver
from lyra_opt.reclaim.counterexamples import ReclaimSpace
from lyra_opt.reclaim.heuristics.base import ReclaimHeuristic
from lyra_opt.testing.counterexamples import SolverFailedError, find_counterexample

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from lyra_opt.allocation import AllocationInstance
    from lyra_opt.core.result import SolveResult
    from lyra_opt.core.solver import Solver
    from lyra_opt.reclaim import ReclaimInstance

SPACE = ReclaimSpace(max_servers=2, max_jobs=1)


class Own(ReclaimHeuristic):
    """A solver that nobody registered and that chooses as the test says."""

    name = "own"

    def __init__(self, choose: Callable[[ReclaimInstance], list[int]]) -> None:
        self._choose = choose

    def choose(self, instance: ReclaimInstance, rng: Any) -> list[int]:
        return self._choose(instance)


class Picky(Own):
    """Takes no instance whose last server is empty."""

    def supports(self, instance: ReclaimInstance) -> Unsupported | None:
        hosts = {group.server for job in instance.jobs for group in job.workers}
        return None if instance.servers[-1].id in hosts else Unsupported("an empty server")


class Late(SchedulePolicySolver):
    """The exact schedule, but all begins later where it may: mean JCT is worse by a factor."""

    name = "late"

    def __init__(self, factor: float) -> None:
        self._factor = factor

    def schedule(self, instance: AllocationInstance, rng: np.random.Generator) -> Schedule:
        exact = find_solver("allocation", "exact").solve(instance, limits=Limits(), rng=rng)
        if any(job.running for job in instance.jobs):
            return exact.solution
        delay_s = (self._factor - 1) * exact.objective
        return Schedule(
            tuple(
                replace(piece, start_s=piece.start_s + delay_s, end_s=piece.end_s + delay_s)
                for piece in exact.solution.pieces
            )
        )


def first(instance: ReclaimInstance) -> list[int]:
    return list(range(instance.reclaim_servers))


def test_a_solver_of_ones_own() -> None:
    """It need not be registered; the first of two servers is the wrong one if it is not empty."""
    counterexample = find_counterexample(SPACE, Own(first)).counterexample
    assert counterexample is not None
    assert (counterexample.heuristic.objective, counterexample.optimum.objective) == (1, 0)
    assert counterexample.ratio == float("inf")


def test_a_solver_that_fails_ends_the_search() -> None:
    """With its message: a crash is no counterexample."""
    with pytest.raises(SolverFailedError, match=r"own failed in the search: ZeroDivisionError"):
        find_counterexample(SPACE, Own(lambda _: [1 // 0]))


def test_an_invalid_choice_ends_the_search() -> None:
    """The checker refuses it, and nothing is claimed."""
    with pytest.raises(SolverFailedError, match="the solution is not valid"):
        find_counterexample(SPACE, Own(lambda _: []))


def test_an_answer_that_does_not_come_again() -> None:
    """A solver that keeps state is found out when it is run again at the end."""
    choices = iter([[1], [1], [0], [0]])  # the second instance has its job on the second server
    with pytest.raises(SolverFailedError, match="answers differently"):
        find_counterexample(SPACE, Own(lambda _: next(choices)))


def test_what_a_solver_does_not_take_is_counted() -> None:
    """And then nothing is claimed of all plain instances."""
    search = find_counterexample(SPACE, Picky(lambda instance: [0]))
    assert search.skipped > 0
    assert search.skip_reason == "own: an empty server"
    assert not search.no_plain_of_smaller_size


def test_the_time_limit_ends_the_search() -> None:
    """Nothing is claimed of what was not tried."""
    search = find_counterexample(
        ReclaimSpace(), find_solver("reclaim", "peeling"), time_limit_s=1e-9
    )
    assert search.counterexample is None
    assert search.stopped_by is StoppedBy.TIME
    assert not search.no_plain_of_smaller_size


def test_progress_names_every_size() -> None:
    """In ascending order, before it is searched."""
    sizes: list[tuple[int, ...]] = []
    find_counterexample(
        ReclaimSpace(max_servers=3, max_jobs=2),
        find_solver("reclaim", "lyra-greedy"),
        progress=sizes.append,
    )
    assert sizes == [(2, 1), (2, 2), (3, 1), (3, 2)]


@pytest.mark.parametrize("space", [ReclaimSpace(), AllocationSpace()])
def test_sizes_are_the_first_measures(space: Any) -> None:
    """By their names, which the output says."""
    size = next(iter(space.sizes()))
    measures = space.measures(next(iter(space.plain_of(size))))
    assert list(measures.items())[: len(size)] == list(zip(space.size_names, size, strict=True))


@pytest.mark.parametrize(
    ("factor", "min_ratio", "is_found"),
    [
        (1 + 1e-7, 1, False),  # within the gap at which the optimum counts as proved
        (1 + 1e-5, 1, True),
        (1.2, Fraction("1.2"), True),  # the floats may be just below
        (1.2, Fraction("1.2001"), False),
    ],
)
def test_floats_are_worse_where_that_is_clear(
    factor: float, min_ratio: int | Fraction, is_found: bool
) -> None:
    """A difference within the tolerance of the proof is none; rounding takes no ratio away."""
    space = AllocationSpace(max_jobs=2, max_gpus=1, max_work=2, max_release=0)
    search = find_counterexample(space, Late(factor), min_ratio=min_ratio)
    assert (search.counterexample is not None) is is_found
    if search.counterexample is not None:
        assert search.counterexample.ratio == pytest.approx(factor, rel=1e-9)


def test_an_optimum_without_proof_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is claimed of the instance, and the reason is kept."""
    exact = find_solver("allocation", "exact")
    solve = type(exact).solve

    def unproved(self: Any, *arguments: Any, **options: Any) -> SolveResult[Schedule]:
        result = solve(self, *arguments, **options)
        assert result.objective is not None
        return replace(result, status=Status.FEASIBLE, dual_bound=result.objective / 2)

    monkeypatch.setattr(type(exact), "solve", unproved)
    space = AllocationSpace(max_jobs=2, max_gpus=1, max_work=1, max_release=0)
    search = find_counterexample(space, find_solver("allocation", "equal-share"))
    assert search.counterexample is None
    assert search.skipped == search.tried > 0
    assert search.skip_reason == "exact: ended feasible without a proof"
    assert not search.no_plain_of_smaller_size


@pytest.mark.parametrize(
    ("heuristic", "against", "ratio", "part"),
    [
        ("cpsat", None, 1, 'heuristic is "cpsat": proves optimality'),
        ("peeling", "peeling", 1, 'against is "peeling": must be another solver'),
        ("lyra-greedy-elastic", None, 1, "takes interchangeable instances, not rigid ones"),
        ("peeling", None, 0.5, "min_ratio is 0.5"),
        ("peeling", None, float("inf"), "min_ratio is Infinity"),
        ("peeling", None, float("nan"), "min_ratio is NaN"),
        ("peeling", None, True, "min_ratio is true"),
        ("peeling", None, "2", 'min_ratio is "2"'),
    ],
)
def test_bad_arguments(heuristic: str, against: str | None, ratio: Any, part: str) -> None:
    """Named with value and rule."""

    def solver(name: str) -> Solver:
        return find_solver("reclaim", name)

    with pytest.raises(FieldError) as raised:
        find_counterexample(
            ReclaimSpace(),
            solver(heuristic),
            None if against is None else solver(against),
            min_ratio=ratio,
        )
    assert part in str(raised.value)
