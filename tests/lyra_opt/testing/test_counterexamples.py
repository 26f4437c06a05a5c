"""The search says what is wrong with a solver, and believes none unchecked."""

from dataclasses import replace
from fractions import Fraction
from itertools import islice

import pytest
from hypothesis import given

from lyra_opt.allocation import Schedule
from lyra_opt.allocation.heuristics.policy_solver import SchedulePolicySolver, scheduled
from lyra_opt.core.errors import FieldError
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits, Status, StoppedBy
from lyra_opt.core.solver import Unsupported, find_solver
from lyra_opt.reclaim.heuristics.base import ReclaimHeuristic
from lyra_opt.testing.counterexamples import SolverFailedError, find_counterexample
from lyra_opt.testing.small_instances import DOMAINS, InstanceSpace
from tests.draws import draws
from tests.tables import tables

TABLES = tables(__file__)
SPACE = InstanceSpace(problem="reclaim", variant="rigid", limits={"servers": 2, "jobs": 1})


def schedules(**limits):
    """Return small instances of the mean JCT, without releases."""
    return InstanceSpace(problem="allocation", variant="mean_jct", limits={"release": 0, **limits})


def counted_in(problem):
    """Return what the work on a cluster is called."""
    return "gangs" if problem == "preemption" else "jobs"


class Own(ReclaimHeuristic):
    """A solver that nobody registered and that chooses as the test says."""

    name = "own"

    def __init__(self, choose):
        self._choose = choose

    def choose(self, instance, rng):
        return self._choose(instance)


class Picky(Own):
    """Takes no instance whose last server is empty."""

    def supports(self, instance):
        hosts = {group.server for job in instance.jobs for group in job.workers}
        return None if instance.servers[-1].id in hosts else Unsupported("an empty server")


class Late(SchedulePolicySolver):
    """The exact schedule, but all begins later where it may: mean JCT is worse by a factor."""

    name = "late"

    def __init__(self, factor):
        self._factor = factor

    def apply(self, instance, rng):
        exact = find_solver("allocation", "exact").solve(instance, limits=Limits(), rng=rng)
        if any(job.running for job in instance.jobs):
            return exact
        delay_s = (self._factor - 1) * exact.objective
        pieces = tuple(
            replace(piece, start_s=piece.start_s + delay_s, end_s=piece.end_s + delay_s)
            for piece in exact.solution.pieces
        )
        return scheduled(instance, Schedule(pieces))


def first(instance):
    return list(instance.index.on_loan[: instance.reclaim_servers])


def test_a_solver_of_ones_own():
    """It need not be registered; the first of two servers is the wrong one if it is not empty."""
    counterexample = find_counterexample(SPACE, Own(first)).counterexample
    assert (counterexample.heuristic.objective, counterexample.optimum.objective) == (1, 0)
    assert counterexample.ratio == float("inf")


def test_a_solver_that_fails_ends_the_search():
    """With its message: a crash is no counterexample."""
    with pytest.raises(SolverFailedError, match=r"own failed in the search: ZeroDivisionError"):
        find_counterexample(SPACE, Own(lambda _: [1 // 0]))


def test_an_invalid_choice_ends_the_search():
    """The checker refuses it, and nothing is claimed."""
    with pytest.raises(SolverFailedError, match="the solution is not valid"):
        find_counterexample(SPACE, Own(lambda _: []))


def test_an_answer_that_does_not_come_again():
    """A solver that keeps state is found out when it is run again at the end."""
    first_calls = iter([first])  # on the first instance the job is on the first server

    def once_wrong(instance):
        hosts = [group.server for job in instance.jobs for group in job.workers]
        return next(
            first_calls,
            lambda _: sorted(
                instance.index.on_loan, key=lambda place: hosts.count(instance.servers[place].id)
            )[: instance.reclaim_servers],
        )(instance)

    with pytest.raises(SolverFailedError, match="answers differently"):
        find_counterexample(SPACE, Own(once_wrong))


def test_what_a_solver_does_not_take_is_counted():
    """And then nothing is claimed of all plain instances."""
    search = find_counterexample(SPACE, Picky(first))
    assert search.skipped > 0
    assert search.skip_reason == "own: an empty server"
    assert not search.no_smaller_plain


def test_the_time_limit_ends_the_search():
    """Nothing is claimed of what was not tried."""
    search = find_counterexample(SPACE, find_solver("reclaim", "peeling"), time_limit_s=1e-9)
    assert search.counterexample is None
    assert search.stopped_by is StoppedBy.TIME
    assert not search.no_smaller_plain


def test_progress_tells_of_smaller_and_smaller_ones():
    """The last of which is what is found."""
    measures = []
    space = InstanceSpace(problem="reclaim", variant="rigid", limits={"servers": 3, "jobs": 2})
    search = find_counterexample(
        space, find_solver("reclaim", "lyra-greedy"), progress=measures.append
    )
    assert measures[-1] == space.measures(search.counterexample.instance)
    orders = [tuple(each.values()) for each in measures]
    assert orders == sorted(orders, reverse=True)
    assert search.no_smaller_plain


@pytest.mark.parametrize(("problem", "variant", "heuristic"), TABLES["drawn"])
def test_what_is_not_listed_is_drawn(problem, variant, heuristic):
    """And nothing is proved of what is smaller."""
    space = InstanceSpace(problem=problem, variant=variant, limits={counted_in(problem): 2})
    found = find_counterexample(space, find_solver(problem, heuristic), seed=1)
    assert found.counterexample.optimum.status is Status.OPTIMAL
    assert found.counterexample.ratio > 1
    assert not found.no_smaller_plain


@pytest.mark.parametrize(("problem", "variant"), TABLES["listed"])
def test_plain_instances_are_different_and_of_their_size(problem, variant):
    """In ascending order, each one that could be drawn; a size with too many is not listed."""
    space = InstanceSpace(problem=problem, variant=variant, limits={})
    for size in islice(space.sizes(), 2):
        plain = space.plain(size, 10_000)
        orders = [space.order(instance) for instance in plain]
        assert orders == sorted(orders)
        assert {order[: len(size)] for order in orders} == {tuple(size.values())}
        assert len({repr(instance) for instance in plain}) == len(plain)
        assert all(map(space.holds, plain))
        assert space.plain(size, len(plain) - 1) is None


@pytest.mark.parametrize("problem", DOMAINS)
def test_limits_are_kept(problem):
    """By what is drawn, where the limit is also counted."""
    variant = next(iter(find_problem(problem).variants))
    counted = counted_in(problem)
    space = InstanceSpace(problem=problem, variant=variant, limits={counted: 2})

    @draws(30)
    @given(space.strategy({}))
    def few(instance):
        assert space.measures(instance)[counted] == 2
        assert instance.variant == variant
        assert space.holds(instance)

    few()


@pytest.mark.parametrize(("arguments", "part"), TABLES["bad_spaces"])
def test_what_there_is_not(arguments, part):
    """Named with value and rule."""
    with pytest.raises(FieldError) as raised:
        InstanceSpace(**({"problem": "reclaim", "variant": "rigid", "limits": {}} | arguments))
    assert part in str(raised.value)


@pytest.mark.parametrize(("factor", "min_ratio", "is_found"), TABLES["clearly_worse"])
def test_floats_are_worse_where_that_is_clear(factor, min_ratio, is_found):
    """A difference within the tolerance of the proof is none; rounding takes no ratio away."""
    space = schedules(jobs=2, gpus=1, work=2)
    search = find_counterexample(space, Late(factor), min_ratio=Fraction(min_ratio))
    assert (search.counterexample is not None) is is_found
    if search.counterexample is not None:
        assert search.counterexample.ratio == pytest.approx(factor, rel=1e-9)


def test_an_optimum_without_proof_is_not_compared(monkeypatch):
    """Nothing is claimed of the instance, and the reason is kept."""
    exact = find_solver("allocation", "exact")
    solve = type(exact).solve

    def unproved(self, *arguments, **options):
        result = solve(self, *arguments, **options)
        assert result.objective is not None
        return replace(result, status=Status.FEASIBLE, dual_bound=result.objective / 2)

    monkeypatch.setattr(type(exact), "solve", unproved)
    space = schedules(jobs=2, gpus=1, work=1)
    search = find_counterexample(space, find_solver("allocation", "equal-share"))
    assert search.counterexample is None
    assert search.skipped == search.tried > 0
    assert search.skip_reason == "exact: ended feasible without a proof"
    assert not search.no_smaller_plain


@pytest.mark.parametrize(("solvers", "ratio", "part"), TABLES["bad_arguments"])
def test_bad_arguments(solvers, ratio, part):
    """Named with value and rule."""
    found = [find_solver("reclaim", name) for name in solvers]
    with pytest.raises(FieldError) as raised:
        find_counterexample(SPACE, *found, min_ratio=ratio)
    assert part in str(raised.value)
