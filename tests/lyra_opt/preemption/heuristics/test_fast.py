"""The heuristic `fast`: brute force confirms its claims, and small cases show its steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.fields import written
from lyra_opt.core.result import Limits, Status, StoppedBy
from lyra_opt.core.stopwatch import limited_to
from lyra_opt.preemption.checker import check
from lyra_opt.preemption.heuristics.fast import Fast
from tests.draws import draws
from tests.lyra_opt.preemption.draws import KINDS, draw
from tests.lyra_opt.preemption.heuristics.small import cluster, gang, pending
from tests.reference import preemption as reference
from tests.reference.drawing import INFEASIBLE, UNKNOWN

SEEDS = st.integers(0, 2**32 - 1)


def solve(instance, seed=0):
    return Fast().solve(instance, limits=Limits(), rng=np.random.default_rng(seed))


def is_best(instance):
    """Compare all claims with brute force; return whether the answer is best, None without one."""
    found, best = solve(instance), reference.optimum(written(instance))
    if found.solution is not None:
        assert check(instance, found.solution).objective == found.objective
    if best == INFEASIBLE:
        assert found.status in (Status.INFEASIBLE, Status.UNKNOWN)
    if best in (INFEASIBLE, UNKNOWN):
        return None
    assert found.status is not Status.INFEASIBLE
    assert found.dual_bound <= best
    assert found.objective is None or found.objective >= best
    assert (found.status is Status.OPTIMAL) == (found.objective == found.dual_bound)
    return found.objective == best


@draws(200)
@given(SEEDS, st.sampled_from(KINDS))
def test_claims_agree_with_brute_force(seed, kind):
    is_best(draw(np.random.default_rng(seed), kind))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_nearly_all_small_instances_are_solved_to_the_optimum(kind):
    rng = np.random.default_rng(0)
    feasible = [each for _ in range(60) if (each := is_best(draw(rng, kind))) is not None]
    assert sum(feasible) >= 0.93 * len(feasible)


@draws(60)
@given(SEEDS, SEEDS)
def test_equal_seeds_give_equal_answers(seed, instance_seed):
    instance = draw(np.random.default_rng(instance_seed), "mixture")
    assert solve(instance, seed) == solve(instance, seed)


def test_a_solution_is_returned_when_there_is_no_time():
    nodes = {f"n{n}": 8 for n in range(40)}
    ring = zip(nodes, [*nodes][1:] + [*nodes][:1], strict=True)
    gangs = [gang(f"g{n}", *pair, gpus=3) for n, pair in enumerate(ring)]
    instance = cluster(nodes, *gangs, demand=pending(13, 8))
    with limited_to(Limits(time_s=0)):
        found = Fast().apply(instance, np.random.default_rng(0))
    assert found.stopped_by is StoppedBy.TIME
    assert check(instance, found.solution).objective == found.objective
