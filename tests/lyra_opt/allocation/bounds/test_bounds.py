"""The certificate is never beyond the optimum, and close to it where theory says so."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lyra_opt as lo
from lyra_opt.allocation import Objective
from lyra_opt.allocation.bounds.dual_bound import dual_bound
from lyra_opt.testing.strategies import allocation_instances
from tests.lyra_opt.allocation.examples import NARROW, SHORT, example, instance_of, job
from tests.optima import optimum

ONE_SHOT = [objective for objective in Objective if objective is not Objective.MEAN_JCT]


drawn = st.sampled_from(ONE_SHOT).flatmap(lambda kind: allocation_instances(objective=kind))


@given(drawn, st.sampled_from((1.0, 1e-3, 1e-12, 1e-310)), st.floats(0, 1))
def test_bound_is_on_the_right_side(instance, scale, loss):
    """Of the optimum by looking at every choice, with no tolerance at all."""
    jobs = tuple(
        replace(each, work_worker_s=each.work_worker_s * scale or scale) for each in instance.jobs
    )
    instance = replace(instance, jobs=(replace(jobs[0], scaling_loss=loss), *jobs[1:]))
    sign = -1 if instance.objective is Objective.JCT_REDUCTION else 1
    assert sign * Fraction(dual_bound(instance)) <= sign * optimum(instance)


@given(drawn, st.sampled_from(("no GPUs", "inelastic", "all fits")))
def test_certifies_what_is_trivially_optimal(instance, edge):
    """Within rounding, and an exact 0 exactly."""
    if edge == "inelastic":
        jobs = tuple(replace(each, max_workers=each.min_workers) for each in instance.jobs)
        instance = replace(instance, jobs=jobs)
    if edge == "all fits" or (edge == "inelastic" and instance.objective is Objective.JOINT):
        instance = replace(instance, gpus=sum(each.max_gpus for each in instance.jobs))
    elif edge == "no GPUs":
        held = sum(each.min_gpus for each in instance.jobs if each.running)
        least = {Objective.JCT_REDUCTION: 0, Objective.JOINT: max(1, held)}
        instance = replace(instance, gpus=least.get(instance.objective, held))
    answer = lo.solve(instance, "mckp-greedy", certify=True)
    best = optimum(instance)
    assert answer.status is lo.Status.OPTIMAL
    assert answer.objective == pytest.approx(float(best), rel=1e-12)
    if best == 0:
        assert dual_bound(instance) == 0


def test_weights_with_a_common_divisor_leave_what_they_cannot_use():
    """Two GPUs a worker and an odd number of them: nothing is gained by the last."""
    jobs = [replace(SHORT, id=name, gpus_per_worker=2) for name in "ab"]
    even, odd = (instance_of(gpus, *jobs, objective="jct_reduction") for gpus in (4, 5))
    assert dual_bound(odd) == dual_bound(even) == pytest.approx(40)


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
    instance = instance_of(10**6, job("a", 1, 10**14, 1e9), objective=objective)
    best = {Objective.JCT_REDUCTION: 1e9 - 1e9 / (10**6 + 1)}.get(objective, 1000)
    assert dual_bound(instance) == pytest.approx(best, rel=1e-3)
