"""The preemption families: pinned bytes, fleets as documented, and optima that are known."""

from dataclasses import replace

import numpy as np
import pytest

from lyra_opt.core.result import Limits
from lyra_opt.core.solver import find_solver
from lyra_opt.instances.family import find_family
from lyra_opt.instances.preemption.parameters import TRAPS
from lyra_opt.instances.preemption.traps import BUILDERS
from lyra_opt.preemption import PROBLEM, check
from lyra_opt.preemption.heuristics.karpenter import Karpenter
from tests.reference import preemption as reference
from tests.reference.drawing import INFEASIBLE
from tests.tables import tables

TABLES = tables(__file__)


def drawn(family, seed=0, **parameters):
    return find_family("preemption", family).generate(parameters, seed)


def known_optimum(family, **parameters):
    return find_family("preemption", family).known_optimum(parameters)


@pytest.mark.parametrize(("family", "parameters", "values"), TABLES["solved"])
def test_known_optima(family, parameters, values):
    """The stated optimum is valid, and the reference finds the same value."""
    instance = drawn(family, **parameters)
    solution, objective = known_optimum(family, **parameters)
    report = check(instance, solution)
    assert (report.violations, dict(report.terms)) == ((), values)
    assert reference.optimum(PROBLEM.instance_document(instance)) == objective == report.objective


def test_one_gpu_is_missing():
    """No rack fits the demand; one GPU less in a pod of one rack would make it fit."""
    parameters = {"scale": 1, "rack_nodes": 2}
    instance = drawn("one-short", **parameters)
    assert known_optimum("one-short", **parameters) is None
    assert reference.optimum(PROBLEM.instance_document(instance)) is INFEASIBLE
    first = replace(instance.nodes[0], capacity={"gpu": 9})
    more = replace(instance, nodes=(first, *instance.nodes[1:]))
    assert reference.optimum(PROBLEM.instance_document(more)) is not INFEASIBLE


@pytest.mark.parametrize(("trap", "rule", "values"), TABLES["misled"])
def test_rules_fall_into_their_traps(trap, rule, values):
    """The imitations pay what the docstrings say, and more than the optimum."""
    parameters = {"trap": trap, "scale": 3}
    instance = drawn("rule-trap", **parameters)
    multi_node = Karpenter(tries_single_nodes=False)
    solver = multi_node if rule == "karpenter" else find_solver("preemption", rule)
    found = solver.solve(instance, limits=Limits(), rng=np.random.default_rng(0))
    paid = check(instance, found.solution).terms if found.solution else {}
    assert dict(paid) == values
    assert not values or found.objective > known_optimum("rule-trap", **parameters)[1]


def test_every_trap_has_a_rule():
    assert set(TRAPS) == set(BUILDERS) == {trap for trap, _, _ in TABLES["misled"]}
