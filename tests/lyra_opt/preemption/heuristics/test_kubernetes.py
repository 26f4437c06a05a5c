"""kube-scheduler's two preemptions score and sample nodes as its code does; ties are random."""

import numpy as np

from lyra_opt.preemption.heuristics import kubernetes
from lyra_opt.preemption.heuristics.base import State
from lyra_opt.preemption.heuristics.kubernetes import KubeGang, KubePods
from tests.lyra_opt.preemption.heuristics.small import cluster, gang, pending


def test_ties_are_random():
    instance = cluster({"n": 1, "m": 1}, gang("n", "n"), gang("m", "m"), demand=pending(1))
    for rule in (KubePods(), KubeGang()):
        found = set()
        for seed in range(20):
            state = State(instance)
            assert rule.choose(state, np.random.default_rng(seed))
            found.add(tuple(state.lost))
        assert found == {(0, 1), (1, 0)}


def test_scores_of_nodes():
    # least_allocated_test.go: 3000 of 4000 and of 6000 CPUs, 5000 of 10000 bytes
    requested, capacity = np.array([[3000, 5000]] * 2), np.array([[4000, 10000], [6000, 10000]])
    assert kubernetes.least_allocated(requested, capacity).tolist() == [37, 50]
    # an eighth is the deviation of 3/4 and 1/2 from their mean
    held = np.zeros((2, 2), dtype=np.int64)
    balanced = kubernetes.balanced_allocation(held, requested[0], capacity)
    assert balanced.tolist() == [50 + (50 + 87 - 100) // 2, 75]


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
