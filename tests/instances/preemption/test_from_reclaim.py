"""Reclaim instances as preemption instances: every choice of servers costs the same in both."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import assume, given

from lyra_opt.core.errors import FieldError
from lyra_opt.instances.preemption.from_reclaim import from_reclaim, reclaim_solution
from lyra_opt.preemption import PROBLEM, Solution
from lyra_opt.reclaim import Instance, Job, Server, WorkerGroup
from lyra_opt.reclaim import Solution as ReclaimSolution
from lyra_opt.testing.strategies import reclaim_instances
from tests.draws import draws
from tests.optima import document_of, objective, optimum
from tests.reference import preemption, reclaim

MOST_EFFECTS = 2_000
"""Ways to lose pods that the reference may try."""


@given(reclaim_instances(min_servers=1))
@draws(100)
def test_every_choice_costs_the_same(instance):
    """Lose exactly the pods on the chosen nodes: the checkers of both problems agree."""
    assume(instance.reclaim_servers)
    converted = from_reclaim(instance)
    index = converted.index
    for servers in reclaim.choices(document_of(instance)):
        emptied = [converted.node_position[server] for server in servers]
        lost = np.where(np.isin(index.group_node, emptied), index.group_count, 0)
        none = np.zeros((0, len(converted.nodes)), dtype=np.int64)
        found = Solution.of_counts(converted, lost=lost.tolist(), placed=none, emptied=emptied)
        report = PROBLEM.check(converted, found)
        assert report.violations == ()
        assert report.objective == objective(instance, ReclaimSolution(servers))
        assert reclaim_solution(found) == ReclaimSolution(found.emptied_nodes)


@given(reclaim_instances(min_servers=1, max_servers=5, max_jobs=4))
@draws(60)
def test_optima_agree(instance):
    """The references of both problems, which share no code, find the same optimum."""
    assume(instance.reclaim_servers)
    converted = from_reclaim(instance)
    assume(prod(pods.count + 1 for gang in converted.gangs for pods in gang.pods) <= MOST_EFFECTS)
    document = PROBLEM.instance_document(converted)
    assert preemption.optimum(document) == optimum(instance)


def test_a_flexible_worker_does_not_stand_in_for_a_base_worker():
    """The reason why flexible workers are left out of rigid gangs."""
    workers = (WorkerGroup(server="a", base=1), WorkerGroup(server="b", flexible=1))
    fields = {"reclaim_servers": 1, "jobs": (Job(id="j", workers=workers, weight=7),)}
    servers = (Server(id="a", gpus=1), Server(id="b", gpus=1, on_loan=False))
    (gang,) = from_reclaim(Instance(servers=servers, **fields)).gangs
    assert (gang.size, gang.min_pods, gang.weight) == (1, 1, 7)


def test_nothing_to_take_back():
    """An instance of preemption must ask for something."""
    with pytest.raises(FieldError, match="reclaim_servers is 0: must be at least 1"):
        from_reclaim(Instance(reclaim_servers=0, servers=(), jobs=()))
