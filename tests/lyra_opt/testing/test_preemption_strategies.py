"""What is drawn for preemption is valid, varied, and as narrow as the caller says."""

import pytest
from hypothesis import Phase, find, given, settings

from lyra_opt.preemption import Moves
from lyra_opt.preemption.objective import TERMS
from lyra_opt.testing.drawn_instances import PREEMPTION_FEATURES
from lyra_opt.testing.strategies import preemption_instances
from tests.draws import draws

FEATURES = {
    "nothing runs": lambda one: not one.gangs,
    "nothing is pending": lambda one: one.demand is None,
    "a pending gang and nodes to empty": lambda one: one.demand and one.empty_nodes,
    "a named node to empty": lambda one: any(node.must_be_empty for node in one.nodes),
    "a cordoned node": lambda one: not all(node.is_usable for node in one.nodes),
    "a node without a domain": lambda one: (
        any(not n.domains for n in one.nodes)
        and one.demand is not None
        and one.demand.level is not None
    ),
    "a preferred level": lambda one: one.demand is not None and not one.demand.is_level_required,
    "a hard budget": lambda one: any(budget.is_hard for budget in one.budgets),
    "a soft budget": lambda one: not all(budget.is_hard for budget in one.budgets),
    "a pod that requests nothing": lambda one: any(
        not any(group.request.values()) for gang in one.gangs for group in gang.pods
    ),
    "two groups of a gang on a node": lambda one: any(
        len({group.node for group in gang.pods}) < len(gang.pods) for gang in one.gangs
    ),
    "no GPUs": lambda one: not any("gpu" in node.capacity for node in one.nodes),
}


def has_term(term):
    """Return whether a term of an instance can differ from 0."""
    return lambda one: term.removesuffix("_by_priority") in [t.name for t in one.terms.terms]


FEATURES |= {f"term {term}": has_term(term) for term in TERMS}


@pytest.mark.parametrize("feature", FEATURES)
def test_every_feature_is_drawn(feature):
    """Also without a search for it: none is so rare that a test would miss it."""
    options = settings(max_examples=2000, database=None, phases=(Phase.generate,))
    find(preemption_instances(), lambda one: bool(FEATURES[feature](one)), settings=options)


@draws(30)
@given(
    preemption_instances(
        moves="any",
        objective=["lost_pods"],
        without=PREEMPTION_FEATURES,
        max_idle=0,
        **{f"{bound}_{each}": 1 for bound in ("min", "max") for each in ("nodes", "gangs")},
        **{f"max_{each}": 1 for each in ("pods", "pending", "request")},
    )
)
def test_limits_and_switches_are_kept(instance):
    """One of each, and nothing else."""
    assert (instance.moves, instance.objective) == (Moves.ANY, ("lost_pods",))
    assert (len(instance.nodes), len(instance.gangs)) == (1, 1)
    assert all(pods.count == 1 for pods in instance.gangs[0].pods)
    assert instance.gangs[0].min_pods == instance.gangs[0].size
    (shape,) = instance.demand.shapes
    assert (shape.count, shape.min_count) == (1, 1)
    assert (instance.empty_nodes, instance.budgets, instance.demand.level) == (0, (), None)
    assert instance.victims == "lower"
    assert set(instance.resources) <= {"gpu"}
    assert all(sum(node.capacity.values()) <= 3 and not node.labels for node in instance.nodes)
