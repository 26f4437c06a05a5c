"""A backend's number becomes a bound in one place; here it is fed with backends that prove nothing.

Whatever a backend says, at its end or on its way: a bound that was not proved is none, one on the
wrong side of a valid solution is an error that names both numbers, and no optimum is claimed.
"""

import math
import re
import subprocess
import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lyra_opt as lo
from lyra_opt.core.result import Limits, Status, StoppedBy
from lyra_opt.core.solving import solve_and_check
from lyra_opt.core.stopwatch import limited_to, remaining_s
from lyra_opt.formulations.backends import linear
from lyra_opt.formulations.backends.backend import BackendRun, Built, Settings
from lyra_opt.formulations.backends.cpsat import new_model, run_cpsat
from lyra_opt.formulations.backends.linear import LinearModel, presolve_within, run_highs
from lyra_opt.formulations.backends.pulp import _highs_model
from lyra_opt.formulations.backends.rows import equal
from lyra_opt.formulations.exact_model import ExactModelSolver
from lyra_opt.formulations.exact_solver import proved_cost
from tests.formulations.backends import lying
from tests.formulations.test_exact_model import CASES, backend_of, every_problem, values_of

NOTHING = (None, math.nan, math.inf, -math.inf, 1e20, -1e20, -1e30, -1e100, -1.79769e308, 10**20)
"""What says that nothing is known: SCIP, CLP and Gurobi have infinities that are numbers."""
ENDS = {"done": None, "stopped": StoppedBy.TIME}
every_end = pytest.mark.parametrize("end", ENDS)
every_found = pytest.mark.parametrize("finds", [True, False], ids=["solution", "none"])


@pytest.mark.parametrize("is_done", [True, False])
@pytest.mark.parametrize("bound", [*NOTHING, np.float64("nan"), np.float64(1e20)])
def test_nothing_known_proves_nothing(bound, is_done):
    """At the end as on the way."""
    assert proved_cost(bound, is_done=is_done) is None


@pytest.mark.parametrize("zero", [0, 0.0, -0.0, np.int64(0)])
def test_a_zero_before_the_end_is_a_default(zero):
    """CP-SAT and HiGHS hold one before there is a bound; of a run that is done it is believed."""
    assert proved_cost(zero, is_done=False) is None
    assert Fraction(-2, 10**6) < proved_cost(zero, is_done=True) <= 0
    assert proved_cost(Fraction(0), is_done=False) == 0  # computed here, from any multipliers


@pytest.mark.parametrize("bound", ["7", True, [7], 7j])
def test_what_is_no_number_is_an_error(bound):
    """Not a bound of 1 or of 7."""
    with pytest.raises(RuntimeError, match="the backend's bound must be a number, not "):
        proved_cost(bound, is_done=True)


@given(st.floats(-1e19, 1e19), st.booleans())
def test_a_float_is_moved_to_the_safe_side_by_its_own_rounding_at_least(bound, is_done):
    """At 1e12 and beyond too, where a step of 1e-6 would be lost in the rounding of the float."""
    proved = proved_cost(bound, is_done=is_done)
    if proved is None:
        assert (bound, is_done) == (0.0, False)
    else:
        least = max(Fraction(1, 10**6), abs(Fraction(bound)) / 2**32, Fraction(math.ulp(bound)))
        assert proved <= Fraction(bound) - least * Fraction(999, 1000)


def lied_to(problem, bound, end, finds):
    """Return the answer of a solver whose backend claims a bound, and the poor solution or none."""
    poor = CASES[problem].poor
    values = values_of(problem, poor) if finds else None
    liar = lying(backend_of(problem), bound=bound, values=values, stopped_by=ENDS[end])
    return lo.solve(CASES[problem].instance, liar, start=poor)


@every_found
@every_end
@pytest.mark.parametrize("bound", NOTHING, ids=str)
@every_problem
def test_an_answer_without_a_bound_of_the_backend_has_our_own(problem, bound, end, finds):
    """The formulation's simple one, which alone may prove what was found."""
    answer = lied_to(problem, bound, end, finds)
    simple = backend_of(problem).formulation.simple_bound(CASES[problem].instance)
    is_met = answer.objective == simple
    assert answer.status == (Status.OPTIMAL if is_met else Status.FEASIBLE)
    assert (answer.dual_bound, answer.stopped_by) == (simple, ENDS[end])


@every_found
@every_end
@pytest.mark.parametrize("cost", [1e5, 1e12, 10**12 + 1, 1e15, 1e19])
@every_problem
def test_a_bound_on_the_wrong_side_is_an_error_with_both_numbers(problem, cost, end, finds):
    """However large, whatever the sense: a cost of so much for each solution there is."""
    answer = lied_to(problem, cost, end, finds)
    assert (answer.status, answer.dual_bound) == (Status.ERROR, None)
    assert re.search(r"bound \S+ contradicts a valid solution with objective \d", answer.message)


@every_end
@every_problem
def test_bounds_on_the_way_go_through_the_same_place(problem, end):
    """A run that is ended from outside has those that the observer was told, and no other."""
    case, solver, told = CASES[problem], backend_of(problem), []

    def run(_built, _start, settings):
        for bound in (*NOTHING, 0, 0.0):
            settings.watch.bounded(bound)
        return BackendRun(stopped_by=ENDS[end])

    def observer(kind, value, _solution=None):
        if kind == "dual_bound":
            told.append(value)

    answer = solve_with(solver, run, case, observer=observer)
    assert answer.status is Status.FEASIBLE
    assert told == [solver.formulation.simple_bound(case.instance)]


def solve_with(solver, run, case, *, time_s=None, **given):
    """Return the answer of a solver whose backend runs so, from the case's poor solution."""
    own = ExactModelSolver(solver.formulation, solver.statement, replace(solver.backend, run=run))
    return solve_and_check(
        solver.formulation.problem,
        case.instance,
        own,
        limits=Limits(time_s=time_s),
        warm_start=case.poor,
        **given,
    )


# Failures at a limit


def failing_after(part):
    """Return what fails once this part of its time is over."""

    def run(_built, _start, settings):
        time.sleep((remaining_s() or 0.0) * part)
        raise RuntimeError("Segmentation fault\n(core dumped)")

    return run


def test_a_failure_at_the_limit_costs_only_what_the_backend_found():
    """CBC crashes there, or writes no result; the start that was known stays."""
    case = CASES["reclaim"]
    answer = solve_with(backend_of("reclaim"), failing_after(1.01), case, time_s=0.5)
    assert (answer.status, answer.stopped_by) == (Status.FEASIBLE, StoppedBy.TIME)
    assert answer.solution == case.poor
    said = "the backend failed at its time limit: Segmentation fault\\n(core dumped)"
    assert answer.message == said


@pytest.mark.parametrize("time_s", [None, 3600.0])
def test_a_failure_before_the_limit_is_an_error(time_s):
    """It is nothing that the limit did."""
    answer = solve_with(backend_of("reclaim"), failing_after(0.0), CASES["reclaim"], time_s=time_s)
    assert answer.status is Status.ERROR


# Backends themselves


@pytest.mark.parametrize("end", [0.0, 1e-4])
def test_cp_sat_has_no_bound_before_it_has_one(end):
    """Its default is 0, which is wrong here: the optimum is below."""
    model = new_model()
    variables = {k: model.new_int_var(0, 1, f"x{k}") for k in range(400)}
    for k in range(0, 400, 2):
        model.add(sum((j * k) % 7 * x for j, x in variables.items()) <= 300)
    model.minimize(-sum(variables.values()))
    with limited_to(Limits(time_s=end)):
        run = run_cpsat(Built(model, [variables]), None, Settings())
    assert run.stopped_by is StoppedBy.TIME
    assert run.bound is None or run.bound < 0


def programme(limit):
    """Return: minimise -x with 2 x = limit, x from 0 to 5."""
    made = LinearModel()
    made.minimize([(-1, made.add_variable("x", 5))])
    made.add_row(equal("twice", [(2, 0)], limit=limit))
    return made


def test_a_linear_programme_says_how_it_ended(monkeypatch):
    """Only the time limit is one; no solution for another reason is an error that names it."""
    found = run_highs(Built(programme(6), []), None, Settings())
    assert (found.values, found.bound, found.stopped_by) == ([3.0], -3, None)
    monkeypatch.setattr(linear, "remaining_s", lambda: 0.0)
    stopped = run_highs(Built(programme(6), []), None, Settings())
    assert stopped.bound is None or stopped.bound <= -3
    with pytest.raises(RuntimeError, match="HiGHS stopped with Infeasible"):
        run_highs(Built(programme(12), []), None, Settings())


@every_problem
def test_highs_gets_the_model_that_pulp_would_give_it(problem):
    """Kinds of variables too: some models have variables that are no integers."""
    pulp = pytest.importorskip("pulp")
    solver, instance = backend_of(problem), CASES[problem].instance
    model = solver.build(solver.formulation.data(instance, None, True)).model
    ours = _highs_model(model).getLp()
    of_pulp = pulp.HiGHS(msg=False)
    of_pulp.createAndConfigureSolver(model)
    of_pulp.buildSolverModel(model)
    theirs = model.solverModel.getLp()
    vectors = ("col_cost_", "col_lower_", "col_upper_", "row_lower_", "row_upper_", "integrality_")
    for vector in vectors:
        assert list(getattr(ours, vector)) == list(getattr(theirs, vector))
    for vector in ("start_", "index_", "value_"):
        assert list(getattr(ours.a_matrix_, vector)) == list(getattr(theirs.a_matrix_, vector))


def test_no_presolve_that_may_take_longer_than_the_limit_leaves():
    """HiGHS does not look at the clock meanwhile."""
    assert presolve_within(None, 10**6) == presolve_within(1.0, 100) == "choose"
    assert presolve_within(1.0, 10**6) == "off"


@pytest.mark.parametrize("multiplier", [math.nan, math.inf, -math.inf, 0.0, 1e6, -1e6])
def test_any_multipliers_prove_a_bound(multiplier):
    """In exact arithmetic; what is no number counts as 0."""
    assert programme(6).proved_bound([multiplier]) <= -3


@pytest.mark.parametrize("threads", [1, 2])
def test_cbc_starts_no_thread_that_it_does_not_need(threads, monkeypatch, figure_5):
    """With ``threads 1`` it waited for a thread of its own, once in 1,000 runs for 10 s."""
    told, original = [], subprocess.Popen

    def recorded(command, **given):
        told.append("-threads" in command)
        return original(command, **given)

    monkeypatch.setattr(subprocess, "Popen", recorded)
    assert lo.solve(figure_5, "pulp-cbc", threads=threads).status is Status.OPTIMAL
    assert told == [threads > 1]
