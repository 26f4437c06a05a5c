"""The certificate is never beyond the optimum, and close to it where theory says so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.allocation import AllocationInstance, ElasticJob, Objective
from lyra_opt.allocation.bounds import dual_bound
from lyra_opt.result import same_value
from lyra_opt.testing import allocation_instances
from tests.lyra_opt.allocation.reference import NARROW, best_allocation, example

ONE_SHOT = [objective for objective in Objective if objective is not Objective.MEAN_JCT]


@given(st.sampled_from(ONE_SHOT).flatmap(lambda kind: allocation_instances(objective=kind)))
def test_bound_is_on_the_right_side(instance: AllocationInstance) -> None:
    """Of the optimum by looking at every choice."""
    _, optimum = best_allocation(instance)
    bound = dual_bound(instance)
    sign = -1 if instance.objective is Objective.JCT_REDUCTION else 1
    assert sign * bound <= sign * optimum or same_value(bound, optimum)


@given(allocation_instances(objective="jct_reduction", max_gpus_per_worker=1))
def test_bound_is_tight_where_greedy_is_optimal(instance: AllocationInstance) -> None:
    """One GPU a worker: T(w) is convex, so the linear relaxation has no gap."""
    _, optimum = best_allocation(instance)
    assert dual_bound(instance) == pytest.approx(optimum, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("gpus", "bound"), [(0, 0), (1, 25), (2, 50), (4, 80), (6, 90), (99, 90)])
def test_bound_of_figure_6(gpus: int, bound: float) -> None:
    """Density of A's item 25 a GPU, of B's 20, 10, 6 and 4."""
    instance = example(replace(NARROW, gpus_per_worker=2), "jct_reduction", gpus)
    assert dual_bound(instance) == pytest.approx(bound, abs=1e-6)


@pytest.mark.parametrize("objective", ONE_SHOT)
def test_bound_of_any_size(objective: Objective) -> None:
    """Numbers of workers that no table could hold."""
    job = ElasticJob(id="a", min_workers=1, max_workers=10**14, work_worker_s=1e9)
    instance = AllocationInstance(name="x", objective=objective, gpus=10**6, jobs=(job,))
    best = {Objective.JCT_REDUCTION: 1e9 - 1e9 / (10**6 + 1)}.get(objective, 1000)
    assert dual_bound(instance) == pytest.approx(best, rel=1e-3)
