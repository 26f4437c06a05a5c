"""The threshold search: its bound is proved whatever the floats say, and its answers are right."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core import kernels
from lyra_opt.core.result import Limits, StoppedBy
from lyra_opt.core.stopwatch import limited_to
from lyra_opt.instances.family import generate
from lyra_opt.reclaim.exact.threshold.bound import NodeBound, ThresholdProblem, first_prices
from lyra_opt.reclaim.exact.threshold.kernels import CHOSEN, KEPT, OPEN, PAID, SPARED, Dominance
from lyra_opt.reclaim.exact.threshold.relaxation import Relaxation
from lyra_opt.reclaim.exact.threshold.search import Effort, search_thresholds
from lyra_opt.reclaim.reduction import dominance_pairs, reduce_instance
from lyra_opt.testing.strategies import reclaim_instances
from tests.draws import draws
from tests.lyra_opt.reclaim.examples import fleet, job_on
from tests.lyra_opt.reclaim.reduced import choices, cost_of, least_cost

HUGE = 2**70
NO_PAIRS = Dominance.of([])


FULL_EFFORT = Effort()
LITTLE_EFFORT = Effort(
    root_steps=3,
    interpreted_root_steps=3,
    node_steps=3,
    trial_steps=1,
    rounds_at_root=1,
    rounds_at_node=1,
    pivots=3,
    trial_pivots=1,
    moves_per_server_at_root=0,
    moves_per_server_at_node=0,
)


@pytest.fixture(params=[FULL_EFFORT, LITTLE_EFFORT], ids=["in earnest", "with little effort"])
def effort(request):
    """Bound nodes as usual, or so badly that the tree has to do the work."""
    return request.param


def search(reduced, incumbent=None, *, seed=0, observer=None, effort=FULL_EFFORT, **limits):
    with limited_to(Limits(**limits)):
        return search_thresholds(
            reduced,
            range(reduced.reclaim_servers) if incumbent is None else incumbent,
            rng=np.random.default_rng(seed),
            observer=observer,
            effort=effort,
        )


def drawn_cluster(seed, servers):
    """Return a cluster whose jobs overlap in many ways: large and small losses, any slack."""
    draw = random.Random(seed)
    jobs = []
    for number in range(draw.randint(servers, 2 * servers)):
        hosts = draw.sample(
            range(servers), draw.randint(1, draw.choice([min(3, servers), servers]))
        )
        most = draw.choice([1, 2, 8])
        groups = {f"s{server}": draw.randint(1, most) for server in hosts}
        workers = sum(groups.values())
        weight = draw.choice([1, draw.randint(1, 10), draw.randint(1, 10**6)])
        least = draw.choice([(workers + 1) // 2, draw.randint(0, workers)])
        jobs.append(job_on(f"j{number}", groups, weight=weight, min_workers=least))
    reclaim = draw.randint(servers // 4, servers - 1)
    names = [f"s{number}" for number in range(servers)]
    return fleet(names, *jobs, reclaim=reclaim, gpus=10**4, semantics="interchangeable")


def root_of(problem, prices=None, *, pairs=NO_PAIRS, state=OPEN):
    """Return the bound where no server is decided and all jobs are in one state; prices of 0."""
    if prices is None:
        prices = np.zeros(problem.losses.entries, dtype=np.int64)
    servers, jobs = np.zeros(problem.servers, dtype=np.int64), np.full_like(problem.slack, state)
    return NodeBound(problem, pairs, servers, jobs, prices)


def messy(servers, reclaim):
    asked = {"servers": servers, "reclaim": reclaim}
    return reduce_instance(
        generate("reclaim", "messy-dist", **asked, semantics="interchangeable", seed=0)
    )


class TestAnswer:
    """What is claimed to be best is best, by brute force or by another method."""

    @pytest.mark.parametrize("seed", range(6))
    def test_is_the_optimum(self, mode, effort, seed):
        """Where small instances would not branch on jobs and servers, nor need covers."""
        reduced = reduce_instance(drawn_cluster(seed, 10))
        best = least_cost(reduced)
        found = search(reduced, effort=effort)
        assert (found.objective, found.bound) == (best, best)
        assert cost_of(reduced, found.places) == best

    def test_weights_whose_sum_leaves_64_bits(self):
        """All weights and costs times a huge number, and one more each, so that they stay huge."""
        for seed in range(3):
            reduced = reduce_instance(drawn_cluster(seed, 9))
            huge = replace(
                reduced,
                weight=reduced.weight.astype(object) * HUGE + 1,
                server_cost=reduced.server_cost.astype(object) * HUGE,
            )
            best = least_cost(huge)
            found = search(huge)
            assert found.bound == found.objective == best


class TestProof:
    """Each part of the proof by itself, on all choices of a small instance."""

    def test_any_prices_prove_a_bound(self, mode):
        """Below any decisions; and what prices decide excludes nothing better than the threshold.

        With random prices and decisions, so that no optimisation can hide a wrong bound.
        """

        @given(st.integers(0, 10**6), st.integers(1, 7))
        @draws(80)
        def holds(seed, servers):
            draw = random.Random(seed)
            reduced = reduce_instance(drawn_cluster(seed, servers))
            problem = ThresholdProblem.of(reduced, range(reduced.reclaim_servers))
            server_state = [draw.choice([0, 0, 0, CHOSEN, SPARED]) for _ in range(servers)]
            job_state = [draw.choice([OPEN, OPEN, KEPT, PAID]) for _ in problem.slack]
            largest = draw.choice([1, problem.unit, 10**6 * problem.unit])
            prices = [draw.randint(0, largest) for _ in range(problem.losses.entries)]
            prices = [min(price, problem.largest_price) for price in prices]
            node = NodeBound(
                problem, NO_PAIRS, server_state, job_state, np.array(prices, dtype=np.int64)
            )
            threshold = draw.choice([0, problem.largest // 2**10, problem.unit * servers])
            costs = {
                places: _cost_keeping_to(reduced, places, server_state, job_state)
                for places in choices(reduced)
            }
            known = {p: c // problem.divisor * problem.unit for p, c in costs.items() if c >= 0}
            if not node.is_feasible:
                assert not known
                return
            node.value = -problem.largest
            node.fix(threshold)
            assert node.value <= min(known.values(), default=node.value)
            for places, cost in known.items():
                if cost <= threshold:
                    after = _cost_keeping_to(
                        reduced, places, node.decided.server_state, node.decided.job_state
                    )
                    assert after == costs[places]

        holds()

    def test_dominance_and_decisions_leave_a_best_choice(self, mode):
        """With the pairs, what is concluded from one decision keeps the best choice for it."""

        @given(reclaim_instances(min_servers=2, max_servers=6, max_jobs=6))
        @draws(60)
        def holds(instance):
            reduced = reduce_instance(instance)
            problem = ThresholdProblem.of(reduced, range(reduced.reclaim_servers))
            pairs = Dominance.of(dominance_pairs(reduced))
            node = root_of(problem, first_prices(problem), pairs=pairs)
            assert node.is_feasible
            decided = node.decided.server_state, node.decided.job_state
            left = [
                cost_of(reduced, places)
                for places in choices(reduced)
                if _cost_keeping_to(reduced, places, *decided) >= 0
            ]
            assert min(left) == least_cost(reduced)

        holds()

    @pytest.mark.parametrize("seed", range(12))
    def test_rows_cut_off_no_choice(self, seed):
        """The relaxation, with every row that it finds, stays below the optimum.

        Its objective is no proof, but a row that is wrong would show here.
        """
        reduced = reduce_instance(drawn_cluster(seed, 10))
        # Small weights, so that the perturbation of the costs is smaller still.
        reduced = replace(
            reduced,
            weight=np.minimum(reduced.weight, 3),
            server_cost=np.minimum(reduced.server_cost, 3),
        )
        problem = ThresholdProblem.of(reduced, range(reduced.reclaim_servers))
        root = root_of(problem)
        relaxation = Relaxation(problem, root)
        best = least_cost(reduced) / problem.divisor
        for _ in range(20):
            objective = relaxation.climb(root, problem.largest, None, 10_000)
            assert relaxation.is_optimal
            assert objective <= best + 1e-3 * max(1.0, best)
            root.fix(problem.largest, relaxation.prices())
            # Its multipliers are worth, in integers, what the floats say or more.
            assert root.value / problem.unit >= objective * (1 - 1e-3) - 1e-3
            if not relaxation.add_rows():
                break

    def test_prices_prove_that_there_is_no_choice(self):
        """Two of three servers, of which any two preempt a job that is kept: no finite optimum."""
        jobs = [job_on(f"on-{pair}", pair, min_workers=1) for pair in ("ab", "bc", "ac")]
        triangle = fleet("abc", *jobs, reclaim=2, semantics="interchangeable")
        problem = ThresholdProblem.of(reduce_instance(triangle), [0, 1])
        kept = root_of(problem, state=KEPT)
        assert kept.is_feasible
        relaxation = Relaxation(problem, root_of(problem))
        relaxation.climb(kept, problem.largest, None, 10_000)
        assert not relaxation.is_optimal
        incumbent_is_best = (problem.objective([0, 1]) - 1) * problem.unit
        kept.fix(incumbent_is_best, relaxation.prices())
        assert kept.value > incumbent_is_best

    @pytest.mark.parametrize("seed", range(4))
    def test_does_not_rest_on_the_relaxation(self, monkeypatch, seed):
        """Random prices, and a relaxation that claims anything: the same answer."""
        monkeypatch.setattr(kernels, "COMPILE_FROM_WORK", 0)
        draw = random.Random(seed)

        def nonsense(self):
            problem = self._problem
            return [draw.randint(0, problem.unit) for _ in range(problem.losses.entries)]

        def anything(*arguments):
            climb(*arguments)
            return draw.choice([float("nan"), float("inf"), -1.0, 1e9])

        climb = Relaxation.climb
        monkeypatch.setattr(Relaxation, "prices", nonsense)
        monkeypatch.setattr(Relaxation, "climb", anything)
        reduced = reduce_instance(drawn_cluster(seed, 9))
        best = least_cost(reduced)
        found = search(reduced, effort=Effort(root_steps=1))
        assert found.bound == found.objective == best


def _cost_keeping_to(reduced, places, server_state, job_state):
    """Return what a choice costs where jobs paid for cost anyway; -1 if it breaks a decision."""
    for server, state in enumerate(server_state):
        if (state == CHOSEN and server not in places) or (state == SPARED and server in places):
            return -1
    cost = sum(int(reduced.server_cost[place]) for place in places)
    for job in range(reduced.losses.jobs):
        lost = sum(count for server, count in reduced.losses.row(job) if server in places)
        is_preempted = lost > reduced.slack[job]
        if is_preempted and job_state[job] not in (OPEN, PAID):
            return -1
        if is_preempted or job_state[job] == PAID:
            cost += int(reduced.weight[job])
    return cost


class TestLimits:
    """Whatever ends the search, the optimum lies between its bound and its objective."""

    @pytest.mark.parametrize("nodes", [0, 1, 2, 5])
    def test_nodes(self, mode, effort, nodes):
        for seed in range(8):
            reduced = reduce_instance(drawn_cluster(seed, 9))
            best = least_cost(reduced)
            found = search(reduced, effort=effort, nodes=nodes)
            assert found.nodes <= nodes
            assert found.bound <= best <= found.objective == cost_of(reduced, found.places)
            if found.stopped_by is None:
                assert found.bound == found.objective
            else:
                assert found.stopped_by is StoppedBy.NODES

    def test_time(self):
        """None at all, and too little."""
        reduced = messy(120, 60)
        start = list(range(60))
        found = search(reduced, start, time_s=0)
        assert (found.stopped_by, found.nodes, found.bound) == (StoppedBy.TIME, 0, 0)
        assert found.places == start
        found = search(reduced, start, time_s=0.01)
        assert found.bound <= found.objective <= cost_of(reduced, start)

    def test_memory(self):
        """Too little for anything but a root ends it there, with the root's bound."""
        reduced = messy(80, 40)
        complete = search(reduced)
        found = search(reduced, memory_mib=1e-6)
        assert found.stopped_by is StoppedBy.MEMORY
        assert found.nodes == 1
        assert 0 < found.bound <= complete.objective <= found.objective

    def test_little_memory_means_no_relaxation(self):
        """But the tree still comes to its end, with steps alone."""
        reduced = messy(40, 20)
        found = search(reduced, memory_mib=0.2)
        assert found.stopped_by is None
        assert found.objective == search(reduced).objective

    def test_observer_sees_each_improvement(self):
        """Objectives fall, bounds rise, and the last of both are what is returned."""
        seen = {"objective": [], "dual_bound": []}
        found = search(messy(80, 40), observer=lambda name, value: seen[name].append(value))
        assert seen["objective"] == sorted(set(seen["objective"]), reverse=True)
        assert seen["dual_bound"] == sorted(set(seen["dual_bound"]))
        assert seen["objective"][-1] == seen["dual_bound"][-1] == found.objective
