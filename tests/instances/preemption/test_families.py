"""The preemption families: pinned bytes, fleets as documented, and optima that are known."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lyra_opt.core.documents import format_document
from lyra_opt.core.errors import UserError
from lyra_opt.core.result import Limits
from lyra_opt.core.solver import find_solver
from lyra_opt.instances.family import find_family
from lyra_opt.instances.preemption.parameters import TRAPS
from lyra_opt.instances.preemption.traps import BUILDERS
from lyra_opt.preemption import PROBLEM, Instance, Solution, check
from lyra_opt.preemption.heuristics.karpenter import Karpenter
from tests.reference import preemption as reference
from tests.reference.drawing import INFEASIBLE
from tests.tables import tables

TABLES = tables(__file__)


def drawn(family: str, seed: int = 0, **parameters: Any) -> Instance:
    return find_family("preemption", family).generate(parameters, seed)


def known_optimum(family: str, **parameters: Any) -> Any:
    return find_family("preemption", family).known_optimum(parameters)


@pytest.mark.parametrize("sha256", TABLES["golden"])
def test_golden_bytes(sha256):
    """A seed gives the same bytes in every version; a family that changes gets a new version."""
    family, parameters = TABLES["golden"][sha256]
    text = format_document(PROBLEM.instance_document(drawn(family, **parameters)))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == sha256


@pytest.mark.parametrize("name", TABLES["names"])
def test_names_tell_the_parameters(name):
    family, parameters = TABLES["names"][name]
    assert drawn(family, 3, **parameters).name == name


@pytest.mark.parametrize(("family", "parameters", "message"), TABLES["refused"])
def test_bad_parameters(family, parameters, message):
    with pytest.raises(UserError) as caught:
        drawn(family, **parameters)
    assert message in str(caught.value)


def test_question_does_not_change_the_fleet():
    """Instances that ask something else can be compared in pairs; seeds differ."""
    plain = drawn("crowded", nodes=54)
    other = drawn("crowded", nodes=54, pods=3, pod_gpus=5, shapes=2, level="block", moves="any")
    assert (plain.nodes, plain.gangs) == (other.nodes, other.gangs)
    counts = [(shape.count, shape.request["gpu"]) for shape in other.demand.shapes]
    assert (counts, other.demand.level) == ([(3, 5), (2, 2)], "block")
    assert plain.gangs != drawn("crowded", 1, nodes=54).gangs
    only = drawn("crowded", nodes=54, moves="only")
    assert (only.gangs, only.moves, only.victims) == (plain.gangs, "any", "none")
    named, chosen = (
        drawn("drain", nodes=54, drained_nodes=5, drained=each) for each in ("random", "chosen")
    )
    assert named.gangs == chosen.gangs
    assert (sum(node.must_be_empty for node in named.nodes), named.empty_nodes) == (5, 0)
    assert (sum(node.must_be_empty for node in chosen.nodes), chosen.empty_nodes) == (0, 5)
    assert (named.demand, named.moves, named.victims) == (None, "any", "any")


@pytest.mark.parametrize("seed", range(3))
def test_protected_pods_leave_one_solution(seed):
    """Only open nodes can hold a pending pod, so everything on them must go, and that suffices."""
    instance = drawn("protected-pod", seed, nodes=60, open_nodes=5, occupancy_percent=90)
    guarded = {gang.pods[0].node for gang in instance.gangs if gang.is_protected}
    opened = [n for n, node in enumerate(instance.nodes) if node.id not in guarded]
    assert (len(opened), instance.demand.shapes[0].count) == (5, 5)
    index = instance.index
    placed = np.zeros((1, 60), dtype=np.int64)
    placed[0, opened] = 1
    lost = np.where(np.isin(index.group_node, opened), index.group_count, 0)
    forced = Solution.of_counts(instance, lost=lost.tolist(), placed=placed)
    assert check(instance, forced).violations == ()


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
