"""Approximate max-min shares: feasible, never above the optimum, and near it where it is known."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import lyra_opt as lo
from lyra_opt.core.result import Status
from lyra_opt.core.solver import find_solver
from lyra_opt.heterogeneous.exact.shares.arrays import ShareArrays
from lyra_opt.heterogeneous.exact.shares.solver import fractions_of_cluster
from lyra_opt.heterogeneous.heuristics import approximate_shares
from lyra_opt.heterogeneous.instance import PackedRate
from tests.draws import draws
from tests.formulations.heterogeneous.share_instances import drawn

NAMES = ("pop-2", "pop-4", "pop-8", "pop-16", "dede")


@draws(20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.sampled_from(NAMES))
def test_levels_are_feasible_and_at_most_the_optimum(seed, jobs, name):
    """The checker accepts the shares; `lo.solve` raises if a claim differs from its value."""
    instance = drawn(jobs, seed=seed)
    best, found = lo.solve(instance, "lp-highs"), lo.solve(instance, name)
    assert found.status is Status.FEASIBLE
    assert 0 < found.objective <= best.objective * (1 + 1e-5)


def test_parts_of_equal_jobs_are_parts_of_the_optimum():
    """Of 32 equal jobs, each part has as many as it has GPUs for, so no part loses anything."""
    instance = drawn(1, seed=3, largest_gang=1)
    (job,) = instance.jobs
    instance = replace(instance, jobs=tuple(replace(job, id=f"j{n}") for n in range(32)))
    best = lo.solve(instance, "lp-highs").objective
    for name in ("pop-2", "pop-16"):
        assert lo.solve(instance, name).objective == pytest.approx(best, rel=1e-6)


def test_alternation_comes_near_the_optimum():
    """With 200 jobs on 36 GPUs, it ends within 10 % of the optimum on each of five seeds."""
    for seed in range(5):
        instance = drawn(200, seed=seed)
        best = lo.solve(instance, "lp-highs").objective
        assert lo.solve(instance, "dede").objective >= 0.9 * best


@draws(10)
@given(st.integers(0, 2**32 - 1))
def test_newton_minimises_the_problem_of_each_job(seed):
    """The closed form agrees with a general method on the augmented Lagrangian of single jobs."""
    rng = np.random.default_rng(seed)
    arrays = ShareArrays.of(drawn(3, seed=seed))
    problems = approximate_shares._JobProblems.of(
        arrays.max_min_share(), fractions_of_cluster(arrays)
    )
    target, level = rng.uniform(-0.5, 1, (3, 3)), rng.uniform(-0.5, 1, 3)
    prices = rng.uniform(0, 0.3, (2, 3))
    z, v, _ = problems.solve(target, level, prices)
    for job in range(3):
        value, factor = problems.value[job], problems.level[job]

        def penalty(x, job=job, value=value, factor=factor):
            short = max(0.0, factor * x[3] - value @ x[:3] + prices[0, job])
            late = max(0.0, problems.time * x[:3].sum() - problems.limit + prices[1, job])
            away = ((x[:3] - target[job]) ** 2).sum() + (x[3] - level[job]) ** 2
            return short**2 + late**2 + away

        own = penalty(np.append(z[job], v[job]))
        other = minimize(penalty, np.full(4, 0.3), bounds=[(0, None)] * 4).fun
        assert own == pytest.approx(other, abs=1e-6)


def test_pairs_on_the_same_gpus_are_refused():
    """Neither method is defined for jobs that share GPUs in pairs."""
    instance = drawn(1, seed=0)
    jobs = tuple(replace(instance.jobs[0], kind="a", id=f"j{n}") for n in range(2))
    rates = PackedRate(kind="a", beside="a", throughput=dict.fromkeys(("v100", "p100", "k80"), 0.1))
    packed = replace(instance, jobs=jobs, packed=(rates,))
    for name in NAMES:
        refusal = find_solver("heterogeneous", name).supports(packed)
        assert refusal is not None
        assert "no instances with packed rates" in refusal.reason
