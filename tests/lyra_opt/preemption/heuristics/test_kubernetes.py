"""kube-scheduler's two preemptions choose the victims that its code and its tests describe."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from lyra_opt.preemption import Budget, Demand, Gang, Instance, Node, PodGroup, Shape
from lyra_opt.preemption.heuristics import kubernetes
from lyra_opt.preemption.heuristics.base import State
from lyra_opt.preemption.heuristics.kubernetes import KubeGang, KubePods
from tests.draws import draws
from tests.lyra_opt.preemption.heuristics.small import answer, cluster, gang, pending, victims
from tests.lyra_opt.preemption.heuristics.test_production_rules import instances, require_valid


@pytest.mark.parametrize("name", ["kube-pods", "kube-gang"])
@draws(150)
@given(instance=instances())
def test_answers_are_valid_and_not_below_the_optimum(name, instance):
    require_valid(name, instance)


def budget(name: str, most: int = 0) -> Budget:
    return Budget(id=name, gangs=[name], most=most, is_hard=False)


@pytest.mark.parametrize(
    ("on_n", "on_m", "budgets"),
    [
        # default_preemption_test.go: fewest violated budgets, although the priority is higher
        ([gang("n", "n", gpus=2, priority=5)], [gang("m", "m", gpus=2)], [budget("m")]),
        # lowest highest priority, although the pods are more
        ([gang("n", "n", "n", priority=1)], [gang("m", "m", gpus=2, priority=2)], []),
        # smallest sum of priorities
        ([gang("n", "n", priority=1), gang("o", "n")], [gang("m", "m", "m", priority=1)], []),
        # the sum also counts pods: one of priority 1 beats two of priorities 1 and -9
        ([gang("n", "n", gpus=2, priority=1)],
         [gang("m", "m", priority=1), gang("o", "m", priority=-9)], []),
        # latest start of the earliest victim of highest priority
        ([gang("n", "n", priority=1, start_s=3), gang("o", "n", start_s=1)],
         [gang("m", "m", priority=1, start_s=2), gang("p", "m", start_s=9)], []),
    ],
)  # fmt: skip
def test_the_node_is_chosen_by_the_order_of_scores(on_n, on_m, budgets):
    for gangs in (on_n + on_m, on_m + on_n):
        instance = cluster(
            {"n": 2, "m": 2},
            *gangs,
            budgets=budgets,
            demand=pending(1, 2),
            objective=["lost_gangs"],
        )
        assert answer(KubePods(), instance).placements[0].node == "n"


@pytest.mark.parametrize(
    ("gangs", "budgets", "lost"),
    [
        ([gang("low", "n"), gang("high", "n", priority=1)], [], "low"),
        ([gang("old", "n", start_s=1), gang("new", "n", start_s=2)], [], "new"),
        ([gang("low", "n"), gang("high", "n", priority=1)], [budget("low")], "high"),
        ([gang("low", "n"), gang("high", "n", priority=1)], [budget("low", 1)], "low"),
    ],
)
@pytest.mark.parametrize("rule", [KubePods(), KubeGang()])
def test_victims_return_by_budget_then_priority_then_age(rule, gangs, budgets, lost):
    instance = cluster({"n": 2}, *gangs, budgets=budgets, demand=pending(1))
    assert victims(rule, instance) == {lost: 1}


def test_pod_by_pod_does_not_see_gangs():
    # one pod of ten loses the gang, but it is younger than the single pod
    nodes = {f"n{number}": 1 for number in range(11)}
    big = gang("big", *[name for name in nodes if name != "n10"], start_s=5)
    instance = cluster(nodes, big, gang("single", "n10"), demand=pending(1))
    assert victims(KubePods(), instance) == {"big": 10}
    assert victims(KubeGang(), instance) == {"single": 1}


def test_victims_are_still_present_when_the_next_pod_is_tried():
    # a second pod on n would have two victims there, because the first one has not left yet
    young, old = gang("young", "n", "n", min_pods=1, start_s=2), gang("old", "m")
    instance = cluster({"n": 2, "m": 1}, young, old, demand=pending(2))
    assert victims(KubePods(), instance) == {"young": 1, "old": 1}
    # but if one victim makes room for both pods, it counts once
    wide = cluster({"n": 2, "m": 1}, gang("w", "n", gpus=2, start_s=2), old, demand=pending(2))
    assert victims(KubePods(), wide) == {"w": 1}


def test_ties_are_random():
    instance = cluster({"n": 1, "m": 1}, gang("n", "n"), gang("m", "m"), demand=pending(1))
    for rule in (KubePods(), KubeGang()):
        found = set()
        for seed in range(20):
            state = State(instance)
            assert rule.choose(state, np.random.default_rng(seed))
            found.add(tuple(state.lost))
        assert found == {(0, 1), (1, 0)}


def test_pods_are_placed_until_one_finds_no_node():
    shape = Shape(count=3, min_count=1, request={"gpu": 1})
    demand = Demand(priority=1, shapes=[shape])
    high = gang("high", "o", priority=5)
    instance = cluster({"n": 1, "m": 1, "o": 1}, gang("low", "m"), high, demand=demand)
    assert victims(KubePods(), instance) == {"low": 1}
    # a group needs only its minimum, for which there is room
    assert victims(KubeGang(), instance) == {}


@pytest.mark.parametrize(
    ("gangs", "lost"),
    [
        # gangs before single pods, even if these are older
        ([gang("pod", "n", start_s=-5), gang("gang", "m", "o")], {"pod": 1}),
        # larger gangs first
        ([gang("small", "n", "n"), gang("large", *"mmm")], {"small": 2}),
        # then earlier start
        ([gang("new", "n", "n", start_s=1), gang("old", "m", "m")], {"new": 2}),
        # a gang is lost whole, also above its minimum
        ([gang("young", "n", "m", "o", min_pods=1)], {"young": 3}),
    ],
)
def test_units_of_gang_preemption_return_in_order(gangs, lost):
    held = dict.fromkeys("nmo", 3)
    for each in gangs:
        for group in each.pods:
            held[group.node] -= 1
    full = [
        gang(f"full-{node}", *[node] * left, priority=20) for node, left in held.items() if left
    ]
    instance = cluster(dict.fromkeys("nmo", 3), *gangs, *full, demand=pending(1))
    assert victims(KubeGang(), instance) == lost


def test_gang_preemption_refuses_a_required_level():
    instance = cluster({"n": 1}, racks="r", demand=pending(1, level="rack"))
    for rule in (KubeGang(), KubePods()):
        assert rule.supports(instance).reason.endswith("does not handle a required level")


@draws(200)
@given(instances(("one-shape", "partial", "vectors")))
def test_no_victim_of_gang_preemption_can_return(instance):
    state = State(instance, instance.index.shape_min)
    if len(state.wanted) == 1 and KubeGang().choose(state, np.random.default_rng(0)):
        for unit in np.flatnonzero(state.kept < instance.index.size):
            without = state.copy()
            without.put_back_gang(int(unit))
            assert not without.fits()


def test_scores_of_nodes():
    # least_allocated_test.go: 3000 of 4000 and of 6000 CPUs, 5000 of 10000 bytes
    requested, capacity = np.array([[3000, 5000]] * 2), np.array([[4000, 10000], [6000, 10000]])
    assert kubernetes.least_allocated(requested, capacity).tolist() == [37, 50]
    # an eighth is the deviation of 3/4 and 1/2 from their mean
    held = np.zeros((2, 2), dtype=np.int64)
    balanced = kubernetes.balanced_allocation(held, requested[0], capacity)
    assert balanced.tolist() == [50 + (50 + 87 - 100) // 2, 75]


def test_a_pod_goes_to_the_node_with_the_most_free_cpu():
    def node(name: str, cpu: int) -> Node:
        return Node(id=name, capacity={"gpu": 2, "cpu": cpu, "memory": 2**40})

    busy = PodGroup(node="n", request={"gpu": 1, "cpu": 9000})
    shape = Shape(count=2, request={"gpu": 2, "cpu": 1000})
    full = PodGroup(node="o", request={"gpu": 2, "cpu": 1000})
    nodes = [node("n", 10_000), node("m", 10_000), node("o", 10_000)]
    instance = Instance(
        nodes=nodes,
        gangs=[Gang(id="busy", pods=[busy]), Gang(id="full", priority=1, pods=[full])],
        demand=Demand(priority=2, shapes=[shape]),
    )
    # m is free, and the second pod preempts the lower priority
    assert victims(KubePods(), instance) == {"busy": 1}
    assert {each.node for each in answer(KubePods(), instance).placements} == {"n", "m"}


def test_large_clusters_are_sampled():
    # schedule_one.go, numFeasibleNodesToFind
    wanted = {99: 99, 100: 100, 1000: 420, 5040: 504, 6000: 300}
    assert {nodes: kubernetes._nodes_to_score(nodes) for nodes in wanted} == wanted
    # 300 nodes, of which 100 from a random start are candidates: the cheap one is often missed
    gangs = [gang(f"g{n}", f"n{n}", priority=int(n != 150)) for n in range(300)]
    instance = cluster({f"n{n}": 1 for n in range(300)}, *gangs, demand=pending(1))
    cheap = 0
    for seed in range(30):
        state = State(instance)
        KubePods().choose(state, np.random.default_rng(seed))
        cheap += bool(state.lost[150])
    assert 0 < cheap < 25
