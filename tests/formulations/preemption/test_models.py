"""The models of every backend against the reference, stage by stage or merged."""

from dataclasses import replace

import numpy as np
import pytest

from lyra_opt.core.result import Limits, Status, StoppedBy
from lyra_opt.core.solving import solve_and_check
from lyra_opt.formulations.backends.backend import BackendRun, NoSolutionError
from lyra_opt.formulations.preemption import model_data
from lyra_opt.formulations.preemption.brute_force import BruteForce
from lyra_opt.formulations.preemption.model import CONSTRAINTS
from lyra_opt.formulations.preemption.model import SOLVERS as MODELS
from lyra_opt.formulations.preemption.model_data import PreemptionModel
from lyra_opt.formulations.preemption.staged import StagedSolver
from lyra_opt.instances.family import generate
from lyra_opt.preemption import Budget, Demand, Shape
from tests.formulations.preemption.test_brute_force import PREEMPTION
from tests.fuzz.judging import Truth, attempt
from tests.lyra_opt.preemption.draws import KINDS, draw
from tests.lyra_opt.preemption.heuristics.small import cluster, gang, pending
from tests.optima import document_of
from tests.reference import preemption as reference

SOLVERS = {solver.name: solver for solver in MODELS}
CPSAT = SOLVERS["cpsat"]
COUNTS = {"cpsat": 25, "pulp-highs": 25}
"""Drawn instances of each kind; other solvers get fewer."""
# Two stages with work to do: the first is about gangs of one priority, the last about GPUs.
SCATTERED = generate("preemption", seed=1, family="scattered", nodes=54, pods=8)


@pytest.fixture(params=[1, 2**24], ids=["one term per stage", "merged"])
def stage(request, monkeypatch):
    """Merge no terms, or as usual; the drawn instances have one stage otherwise."""
    monkeypatch.setattr(model_data, "LARGEST_STAGE", request.param)


def assert_agrees(solver, instance):
    """Require the optimum of the reference with a proof, or a proof that there is none."""
    truth = Truth.of("preemption", document_of(instance))
    answer, failures = attempt(truth, instance, solver, Limits(), None)
    assert failures == []
    assert answer.status in (Status.OPTIMAL, Status.INFEASIBLE), answer.message


every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("share", [1, pytest.param(80, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("stage")
def test_models_agree_with_the_reference(kind, name, share):
    """Values, bounds and infeasibility; the checker accepts every solution."""
    rng = np.random.default_rng(38)
    for _ in range(share * COUNTS.get(name, 5)):
        assert_agrees(SOLVERS[name], draw(rng, kind))


@every_kind
def test_exported_models_have_the_objective_of_the_instance(kind):
    """The encoded one, as long as floats can hold it."""
    from ortools.sat.python import cp_model

    rng = np.random.default_rng(40)
    for _ in range(15):
        instance = draw(rng, kind)
        solver = cp_model.CpSolver()
        status = solver.solve(CPSAT.model(instance))
        best = reference.optimum(document_of(instance))
        assert (status == cp_model.INFEASIBLE) == (best == "infeasible")
        assert best == "infeasible" or round(solver.objective_value) == best


@every_kind
def test_starts_satisfy_every_row_and_become_the_solution_again(kind):
    """A start that breaks a row would be dropped by a backend without a word."""
    rng = np.random.default_rng(41)
    for _ in range(60):
        instance = draw(rng, kind)
        best = solve_and_check(PREEMPTION, instance, BruteForce())
        if best.solution is None:
            continue
        model = PreemptionModel.whole(instance, 2**1000)
        values = iter(model.start(best.solution))
        found = type(model.largest)(
            *({key: next(values) for key in kind_of} for kind_of in model.largest)
        )
        for of_kind, most in zip(found, model.largest, strict=True):
            assert all(0 <= value <= most[key] for key, value in of_kind.items())
        for row in (row for rows in CONSTRAINTS for row in rows(model, found)):
            total = sum(a * value for a, value in row.terms)
            assert total == row.limit if row.is_equation else total <= row.limit, row.name
        assert sum(a * value for a, value in model.cost(found)) == best.objective
        again = model.solution(model.start(best.solution))
        assert PREEMPTION.check(instance, again).objective == best.objective


def with_run(run):
    """Return the solver of CP-SAT with another way to run it."""
    return StagedSolver(CPSAT.formulation, CPSAT.statement, replace(CPSAT.backend, run=run))


def test_a_stage_that_is_stopped_leaves_the_values_of_the_stages_before(monkeypatch):
    """In the bound, with 0 for the terms after them."""
    monkeypatch.setattr(model_data, "LARGEST_STAGE", 1)
    best = solve_and_check(PREEMPTION, SCATTERED, CPSAT)
    values = SCATTERED.terms.decode(best.objective)
    for most in range(len(values)):
        runs = []

        def run(built, start, settings, runs=runs, most=most):
            runs.append(built)
            if len(runs) > most:
                return BackendRun(stopped_by=StoppedBy.TIME)
            return CPSAT.backend.run(built, start, settings)

        answer = solve_and_check(PREEMPTION, SCATTERED, with_run(run), limits=Limits(time_s=60))
        assert answer.stopped_by is StoppedBy.TIME
        proved = SCATTERED.terms.decode(answer.dual_bound)
        assert proved == (*values[:most], *[0] * (len(values) - most))


def test_a_backend_that_finds_nothing_does_not_make_a_known_solution_infeasible():
    def run(*_):
        raise NoSolutionError("infeasible")

    best = solve_and_check(PREEMPTION, SCATTERED, CPSAT)
    known = solve_and_check(PREEMPTION, SCATTERED, with_run(run), warm_start=best.solution)
    assert (known.status, known.objective) == (Status.FEASIBLE, best.objective)
    unknown = solve_and_check(PREEMPTION, SCATTERED, with_run(run))
    assert unknown.status is Status.INFEASIBLE


@pytest.mark.parametrize("name", SOLVERS)
def test_bounds_that_are_tightened_until_nothing_is_left(name):
    """CBC crashes when it writes its solution, and says nothing of it."""
    instance = cluster(
        *({"full": 5, "free": 2}, gang("five", *["full"] * 5), gang("one", "free")),
        demand=pending(2, 2),
        budgets=[Budget(id="b", gangs=["five", "one"], counts="lost_pods", most=3)],
    )
    assert solve_and_check(PREEMPTION, instance, SOLVERS[name]).status is Status.INFEASIBLE


@pytest.mark.parametrize("name", SOLVERS)
def test_a_gang_that_only_a_useless_move_could_displace(name):
    """Its variable is in no row, and PuLP does not know such variables."""
    gangs = gang("stays", "a", gpus=3, is_movable=False), gang("moves", "b", "b", gpus=2)
    rules = {"moves": "any", "victims": "any", "objective": ["moved_pods"]}
    usable = cluster({"a": 3, "b": 4}, *gangs, demand=pending(1, 0), **rules)
    first, last = usable.nodes
    instance = replace(usable, nodes=(first, replace(last, is_usable=False)))
    assert not PreemptionModel.of(instance).largest.lost
    assert solve_and_check(PREEMPTION, instance, SOLVERS[name]).objective == 0


def memory(unit, *odd):
    """Return a node of two gangs, one of which must leave, with amounts in multiples of `unit`."""
    gangs = [gang(f"of-{units}", "n", request={"memory": units * unit}) for units in (3, 5)]
    pods = [Shape(id=f"s{n}", count=1, request={"memory": n}) for n in (4 * unit, *odd)]
    demand = Demand(priority=1, shapes=pods)
    nodes = {"n": {"memory": 9 * unit}}
    return cluster(nodes, *gangs, demand=demand, objective=("lost:memory",))


def test_amounts_in_bytes_are_counted_in_their_common_unit():
    """Without one they are declined, or exact: one byte more needs the larger gang."""
    for solver in SOLVERS.values():
        assert solve_and_check(PREEMPTION, memory(2**40), solver).objective == 3 * 2**40
    assert "units of 1 memory" in SOLVERS["pulp-highs"].supports(memory(2**40, 1)).reason
    assert "units of 1 memory" in CPSAT.supports(memory(2**40, 1)).reason
    assert solve_and_check(PREEMPTION, memory(2**30, 1), CPSAT).objective == 5 * 2**30
