"""Backends that are known by name alone: what they say of optimality is not believed."""

from dataclasses import replace
from functools import partial

import pulp
import pytest

import lyra_opt as lo
from lyra_opt.core.solver import MAKERS, find_solver
from lyra_opt.formulations.backends import foreign
from lyra_opt.formulations.backends.pulp import CBC
from lyra_opt.formulations.exact_model import ExactModelSolver
from tests.formulations.test_exact_model import CASES

FLEET = lo.generate("reclaim", "net", reclaim=6)
every_problem = pytest.mark.parametrize("problem", CASES)


def run_by_pulp(problem, solver, form=""):
    """Return the model of a problem with a solver of PuLP that nothing is known of."""
    twin = find_solver(problem, f"pulp-highs{form}")
    run = partial(foreign._run_by_pulp, solver)
    backend = replace(CBC, name="pulp-stranger", run=run, gives_bound=False)
    return ExactModelSolver(twin.formulation, twin.statement, backend)


@every_problem
def test_every_form_has_every_name(problem):
    """And its own: the model is that of the registered twin."""
    for form in CASES[problem].forms:
        for maker in MAKERS.all().values():
            for name in maker.names():
                solver = find_solver(problem, name + form)
                twin = find_solver(problem, maker.like + form)
                assert find_solver(problem, name + form) is solver  # one child serves its runs
                assert solver.name == name + form
                assert solver.formulation is twin.formulation
                assert not solver.exact_variants or name in ("pulp-gurobi", "pulp-scip-py")


@pytest.mark.parametrize("name", ["pulp-gurobbi", "pulp-gurobi-patterns", "mathopt-glop", "pulp"])
def test_a_name_that_nobody_has_is_refused(name):
    """A form of another problem and a solver of linear programmes included."""
    with pytest.raises(lo.UserError, match="unknown solver"):
        find_solver("reclaim", name)


@every_problem
@pytest.mark.parametrize(
    ("name", "reason"), [("pulp-mipcl-cmd", "PuLP cannot find MIPCL_CMD"), ("mathopt-glpk", "GLPK")]
)
def test_what_is_not_installed_is_unsupported_with_the_reason(problem, name, reason):
    """No error, and no guess."""
    answer = lo.solve(CASES[problem].instance, name)
    assert answer.status is lo.Status.UNSUPPORTED
    assert reason in answer.message


@every_problem
def test_an_optimum_without_a_bound_is_feasible(problem):
    """HiGHS as a stranger: PuLP calls it optimal, but all that is proved is our simple bound."""
    case = CASES[problem]
    for form in case.forms:
        best = lo.solve(case.instance, f"pulp-highs{form}")
        stranger = run_by_pulp(problem, pulp.HiGHS, form)
        answer = lo.solve(case.instance, stranger, start=case.poor)
        assert (answer.objective, answer.message) == (best.objective, None)
        assert answer.dual_bound == stranger.formulation.simple_bound(case.instance)


def test_a_limit_that_pulp_calls_optimal_is_a_limit():
    """Nothing is found in a millisecond, and the start stays."""
    stranger, start = run_by_pulp("reclaim", pulp.HiGHS), lo.solve(FLEET, "random")
    answer = lo.solve(FLEET, stranger, start=start, time_limit_s=0.05, isolated=False)
    assert answer.status is lo.Status.FEASIBLE


class Liar(pulp.LpSolver):
    """Says that doing nothing is optimal."""

    name = "LIAR"

    def actualSolve(self, lp):  # noqa: N802
        """Set all variables to 0."""
        for variable in lp.variables():
            variable.varValue = 0.0
        return int(lp.assignStatus(pulp.LpStatusOptimal, pulp.LpSolutionOptimal))


def test_what_is_no_solution_is_an_error():
    """Whatever the backend calls it."""
    answer = lo.solve(FLEET, run_by_pulp("reclaim", Liar))
    assert answer.status is lo.Status.ERROR
    assert "chose 0 servers instead of 6" in answer.message


def test_cp_sat_through_mathopt_finds_the_optimum():
    """A backend that nobody registered, and that is always there."""
    instance = CASES["network"].instance
    answer = lo.solve(instance, "mathopt-cp-sat-patterns")
    assert answer.objective == lo.solve(instance, "cpsat").objective


@pytest.mark.parametrize(
    ("name", "package"), [("pulp-gurobi", "gurobipy"), ("pulp-scip-py", "pyscipopt")]
)
@every_problem
def test_bounds_that_are_believed_prove_the_optimum(problem, name, package):
    """Where these solvers are installed."""
    pytest.importorskip(package)
    case = CASES[problem]
    for form in case.forms:
        answer = lo.solve(case.instance, name + form)
        assert answer.status is lo.Status.OPTIMAL
        assert answer.objective == lo.solve(case.instance, "cpsat").objective


def test_an_unknown_name_is_answered_with_a_made_one():
    """Which no list of registered solvers has."""
    with pytest.raises(lo.UserError, match=r"'gurobi': .*; did you mean pulp-gurobi\?$"):
        find_solver("reclaim", "gurobi")
