"""What every exact model keeps, whatever the problem, the form and the backend."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import lyra_opt as lo
from lyra_opt.allocation import WorkerAllocation
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits, Status, StoppedBy, same_value
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import solve_and_check
from lyra_opt.instances.family import generate
from lyra_opt.reclaim import Solution
from tests.draws import draws
from tests.formulations.backends import BACKENDS, lying
from tests.lyra_opt.heterogeneous import examples as heterogeneous
from tests.lyra_opt.network import examples as network
from tests.lyra_opt.preemption import examples as preemption
from tests.odd_instances import odd_instances
from tests.test_right_answers import SOLUTIONS, UNFILTERED


class Case(NamedTuple):
    """An instance, a valid solution that is not optimal, one that is not valid, and forms."""

    instance: Any
    poor: Any
    invalid: Any
    forms: tuple[str, ...]


LOANS = generate("reclaim", seed=1, family="messy-dist", servers=9, reclaim=3, semantics="rigid")
ELASTIC = generate("allocation", seed=1, family="load", jobs=4, objective="jct_reduction")
MINIMAL = WorkerAllocation(tuple(job.min_workers for job in ELASTIC.jobs))
CASES = {
    "reclaim": Case(
        LOANS,
        Solution.of_positions(LOANS, LOANS.index.on_loan.tolist()[-3:]),
        Solution(("nowhere",)),
        ("", "-strengthened"),
    ),
    "allocation": Case(
        ELASTIC, MINIMAL, WorkerAllocation((0,) * len(ELASTIC.jobs)), ("", "-strengthened")
    ),
    "heterogeneous": Case(
        heterogeneous.instance(heterogeneous.job(steps=4.0), objective="utility"),
        heterogeneous.schedule(),
        heterogeneous.schedule(heterogeneous.entry("a", 9, s1={"fast": 1})),
        ("",),
    ),
    "network": Case(
        network.instance(),
        network.solution(network.placement("a", "rack", r0m0=1, r0m1=1)),
        network.solution(network.placement("a", "rack", r0m0=2)),
        ("", "-patterns"),
    ),
    "preemption": Case(
        preemption.example(),
        replace(preemption.BEST, lost_gangs=["train-a", "batch"]),
        replace(preemption.BEST, lost_gangs=[]),
        ("",),
    ),
}
MODELS = [
    (problem, backend + form)
    for problem, case in CASES.items()
    for form in case.forms
    for backend in BACKENDS
]
every_model = pytest.mark.parametrize(("problem", "name"), MODELS)
every_problem = pytest.mark.parametrize("problem", CASES)


def result_from(problem, name, start, **limits):
    """Return what a solver itself says of the case of a problem."""
    return find_solver(problem, name).solve(
        CASES[problem].instance,
        limits=Limits(**limits),
        rng=np.random.default_rng(0),
        warm_start=start,
    )


def backend_of(problem):
    """Return a solver in floats that is an `ExactModelSolver` by itself."""
    return find_solver(problem, "pulp-highs")


def values_of(problem, solution):
    """Return what a backend says that stands for a solution."""
    solver, case = backend_of(problem), CASES[problem]
    value = find_problem(problem).check(case.instance, solution).objective
    return solver.formulation.data(case.instance, (solution, value), True).start(solution)


@every_model
def test_no_time_at_all_returns_the_start_itself(problem, name):
    """With a bound, and no claim."""
    start = CASES[problem].poor
    result = result_from(problem, name, start, time_s=0)
    assert (result.solution, result.status) == (start, Status.FEASIBLE)
    assert result.stopped_by is StoppedBy.TIME
    assert result.dual_bound is not None


@every_problem
def test_a_cbc_that_ignores_its_limit_is_killed(problem, monkeypatch, write):
    """Its first linear programme has taken seconds where 0.3 s were left."""
    pulp = pytest.importorskip("pulp")
    program = write("#!/bin/sh\nexec sleep 1000\n", "cbc")
    program.chmod(0o755)
    monkeypatch.setattr(pulp.PULP_CBC_CMD, "pulp_cbc_path", str(program))
    start = CASES[problem].poor
    result = result_from(problem, "pulp-cbc", start, time_s=0.5)
    assert (result.solution, result.stopped_by) == (start, StoppedBy.TIME)


@every_model
def test_the_start_is_improved_to_a_proved_optimum(problem, name):
    """The observer is told the start, what is better, and bounds, each better than the last."""
    case, seen = CASES[problem], []
    answer = solve_and_check(
        find_problem(problem),
        case.instance,
        find_solver(problem, name),
        warm_start=case.poor,
        observer=lambda kind, value, _: seen.append((kind, value)),
    )
    assert (answer.status, answer.stopped_by, answer.message) == (Status.OPTIMAL, None, None)
    start = find_problem(problem).check(case.instance, case.poor).objective
    objectives = [value for kind, value in seen if kind == "objective"]
    bounds = [value for kind, value in seen if kind == "dual_bound"]
    sign = 1 if answer.sense == "min" else -1
    assert (objectives[0], objectives[-1]) == (start, answer.objective)
    assert objectives == sorted(set(objectives), key=lambda value: -sign * value)
    assert bounds == sorted(set(bounds), key=lambda value: sign * value)
    assert bounds[-1] == answer.dual_bound


@every_model
def test_an_invalid_start_is_refused(problem, name):
    """Not repaired in silence."""
    with pytest.raises(ValueError, match="the warm start is not valid"):
        result_from(problem, name, CASES[problem].invalid)


@every_problem
def test_a_worse_solution_does_not_replace_the_start(problem):
    """What a backend offers is judged by the checker."""
    case, of = CASES[problem], find_problem(problem)
    best = lo.solve(case.instance, "cpsat")
    worse = lying(backend_of(problem), values=values_of(problem, case.poor))
    answer = solve_and_check(of, case.instance, worse, warm_start=best.solution)
    assert (answer.solution, answer.objective) == (best.solution, best.objective)


FORMS = [(problem, form) for problem, case in CASES.items() for form in case.forms]


@pytest.mark.parametrize(("problem", "form"), [each for each in FORMS if each[0] != "preemption"])
@draws(60, **UNFILTERED)
@given(data=st.data())
def test_starts_satisfy_every_row_and_become_a_solution_that_is_no_worse(problem, form, data):
    """A start that breaks a row would be dropped by a backend without a word.

    Preemption, whose models have stages, has a test of its own.
    """
    of, solver = find_problem(problem), find_solver(problem, f"pulp-highs{form}")
    variants, solutions = SOLUTIONS[problem]
    one = data.draw(st.sampled_from(variants).flatmap(lambda v: odd_instances(problem, v)))
    assume(solver.supports(one) is None)
    drawn = data.draw(solutions(one))
    if of.check(one, drawn).violations:
        drawn = lo.solve(one, "brute-force").solution
    assume(drawn is not None)
    drawn = solver.formulation.tidied(one, drawn)
    value = of.check(one, drawn).objective
    model = solver.formulation.data(one, (drawn, value), True)
    assume(not model.is_settled)
    built, start = solver.build(model), model.start(drawn)
    for variable, number in zip(built.in_order, start, strict=True):
        assert 0 <= number <= variable.upBound
        variable.setInitialValue(number)
    assert [row.name for row in built.model.constraints() if not row.valid(1e-3)] == []
    back = of.check(one, model.solution(start))
    sign = 1 if one.variant.sense == "min" else -1
    assert back.violations == ()
    assert sign * back.objective <= sign * value or same_value(back.objective, value)
    worth = float(model.unit.scale) * built.model.objective.value() + float(model.unit.offset)
    assert sign * worth <= sign * value + 1e-6 * max(1, abs(value))
