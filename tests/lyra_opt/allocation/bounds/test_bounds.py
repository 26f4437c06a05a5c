"""The certificate is never beyond the optimum, and close to it where theory says so."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.allocation import ElasticJob, Instance, Objective
from lyra_opt.allocation.bounds.dual_bound import dual_bound
from lyra_opt.allocation.heuristics.mckp_greedy import MckpGreedy
from lyra_opt.allocation.problem import PROBLEM
from lyra_opt.core.result import Status
from lyra_opt.core.solving import solve_and_check
from lyra_opt.testing.strategies import allocation_instances
from tests.lyra_opt.allocation.examples import NARROW, SHORT, example
from tests.optima import optimum

ONE_SHOT = [objective for objective in Objective if objective is not Objective.MEAN_JCT]


drawn = st.sampled_from(ONE_SHOT).flatmap(lambda kind: allocation_instances(objective=kind))


@given(drawn, st.sampled_from((1.0, 1e-3, 1e-12, 1e-310)), st.floats(0, 1))
def test_bound_is_on_the_right_side(instance, scale, loss):
    """Of the optimum by looking at every choice, with no tolerance at all."""
    jobs = tuple(
        replace(job, work_worker_s=job.work_worker_s * scale or scale) for job in instance.jobs
    )
    instance = replace(instance, jobs=(replace(jobs[0], scaling_loss=loss), *jobs[1:]))
    sign = -1 if instance.objective is Objective.JCT_REDUCTION else 1
    assert sign * Fraction(dual_bound(instance)) <= sign * optimum(instance)


@given(drawn, st.sampled_from(("no GPUs", "inelastic", "all fits")))
def test_certifies_what_is_trivially_optimal(instance, edge):
    """Within rounding, and an exact 0 exactly."""
    if edge == "inelastic":
        jobs = tuple(replace(job, max_workers=job.min_workers) for job in instance.jobs)
        instance = replace(instance, jobs=jobs)
    held = sum(job.min_gpus for job in instance.jobs if job.running)
    if edge == "all fits" or (edge == "inelastic" and instance.objective is Objective.JOINT):
        instance = replace(instance, gpus=sum(job.max_gpus for job in instance.jobs))
    elif edge == "no GPUs":
        least = 1 if instance.objective is Objective.JOINT else 0
        gpus = 0 if instance.objective is Objective.JCT_REDUCTION else max(least, held)
        instance = replace(instance, gpus=gpus)
    answer = solve_and_check(PROBLEM, instance, MckpGreedy(), certify=True)
    best = optimum(instance)
    assert answer.status is Status.OPTIMAL
    assert answer.objective == pytest.approx(float(best), rel=1e-12)
    if best == 0:
        assert dual_bound(instance) == 0


def test_weights_with_a_common_divisor_leave_what_they_cannot_use():
    """Two GPUs a worker and an odd number of them: nothing is gained by the last."""
    jobs = tuple(replace(SHORT, id=name, gpus_per_worker=2) for name in "ab")
    even = Instance(name="even", objective="jct_reduction", gpus=4, jobs=jobs)
    assert dual_bound(replace(even, gpus=5)) == dual_bound(even) == pytest.approx(40)


@given(allocation_instances(objective="jct_reduction", max_gpus_per_worker=1))
def test_bound_is_tight_where_greedy_is_optimal(instance):
    """One GPU a worker: T(w) is convex, so the linear relaxation has no gap."""
    best = float(optimum(instance))
    assert dual_bound(instance) == pytest.approx(best, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("gpus", "bound"), [(0, 0), (1, 20), (2, 50), (3, 70), (4, 80), (6, 90), (99, 90)]
)
def test_bound_of_figure_6(gpus, bound):
    """Density of A's item 25 a GPU if it fits, of B's 20, 10, 6 and 4."""
    instance = example(replace(NARROW, gpus_per_worker=2), "jct_reduction", gpus)
    assert dual_bound(instance) == pytest.approx(bound, rel=1e-15)


@pytest.mark.parametrize("objective", ONE_SHOT)
def test_bound_of_any_size(objective):
    """Numbers of workers that no table could hold."""
    job = ElasticJob(id="a", min_workers=1, max_workers=10**14, work_worker_s=1e9)
    instance = Instance(name="x", objective=objective, gpus=10**6, jobs=(job,))
    best = {Objective.JCT_REDUCTION: 1e9 - 1e9 / (10**6 + 1)}.get(objective, 1000)
    assert dual_bound(instance) == pytest.approx(best, rel=1e-3)
