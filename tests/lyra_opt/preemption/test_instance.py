"""Instances of preemption: refused values, defaults, who may lose and move, and documents."""

import json

import pytest

from lyra_opt.core.errors import FieldError
from lyra_opt.preemption import PROBLEM, Gang, Instance, Moves, Node, PodGroup
from tests.lyra_opt.preemption.examples import BEST, example, example_document
from tests.malformed import changed
from tests.tables import tables

REFUSED = tables(__file__)["refused"]


def refused(case):
    """Return the document of a case, in which "none" stands for null."""
    changes = REFUSED[case][0].items()
    return changed(example_document(), {k: None if v == "none" else v for k, v in changes})


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    """One line that names field, value and rule; the issue lists these cases as bad input."""
    with pytest.raises(FieldError) as caught:
        PROBLEM.parse_instance(refused(case))
    assert str(caught.value).startswith(REFUSED[case][1])
    assert "\n" not in str(caught.value)


def test_python_values_are_validated_too():
    """Objects made in Python keep the rules of files, and a default minimum is all pods."""
    with pytest.raises(FieldError, match="min_pods is 2: must be at most the gang's 1 pods"):
        Gang(id="g", pods=[PodGroup(node="n", request={})], min_pods=2)
    with pytest.raises(FieldError, match=r"request.gpu is 0.5: must be an integer"):
        PodGroup(node="n", request={"gpu": 0.5})
    group = PodGroup(node="n", request={}, count=3)
    assert Gang(id="g", pods=[group, group]).min_pods == 6


def test_defaults():
    """Lower priorities with a demand, otherwise anybody; GPUs if any, soft budgets if any."""
    assert example(objective=None).victims == "lower"
    soft = [{"id": "b", "gangs": ["batch"], "most": 0, "used": 1, "is_hard": False}]
    terms = ("lost_gangs_by_priority", "lost:gpu", "moved_pods", "extra_domains")
    assert example(objective=None).objective == ("unplaced", *terms)
    assert example(objective=None, budgets=soft).objective == ("unplaced", "budget_excess", *terms)
    drain = Instance(nodes=[Node(id="n", capacity={"cpu": 1}, must_be_empty=True)])
    assert (drain.victims, drain.moves) == ("any", Moves.NONE)
    assert "lost_pods" in drain.objective


def test_arrays_by_hand():
    """The arrays of algorithms say what the records of the example say."""
    instance = example()
    index = instance.index
    assert instance.resources == ("gpu", "cpu")
    assert index.free.tolist() == [[0, 32], [1, 36], [6, 56], [8, 64]]
    assert index.may_use.tolist() == [True, True, True, False]
    assert (index.domain.tolist(), index.domains) == ([0, 0, 1, 1], 2)
    assert index.first_group.tolist() == [0, 1, 3, 5, 6]
    assert index.group_count.tolist() == [1, 1, 1, 2, 1, 1]
    assert index.min_pods.tolist() == [1, 2, 2, 1]
    assert index.shape_allowed.tolist() == [[True, True, True, False]]
    assert not index.free.flags.writeable


@pytest.mark.parametrize("objective", [5, 2**1000])
def test_solutions_survive(objective):
    """A solution file has the objective, an integer of any size, which the checker recomputes."""
    instance = example()
    document = PROBLEM.solution_document(instance, BEST, objective)
    solution, claims = PROBLEM.parse_solution(json.loads(json.dumps(document)))
    assert (solution, claims["objective"]) == (BEST, objective)


def test_keys_of_the_demand_are_listed():
    """The page and ``schema --keys`` list the keys of a table that may be null."""
    paths = {row.path for row in PROBLEM.keys(PROBLEM.instance_format)}
    assert {"demand", "demand.shapes[].count", "gangs[].pods[].node"} <= paths


def test_graph():
    """Nodes and gangs are joined where they meet."""
    graph = example().to_networkx()
    assert graph.edges[("node", "n1"), ("gang", "train-b")]["pods"] == 2
    assert graph.number_of_edges() == 6
