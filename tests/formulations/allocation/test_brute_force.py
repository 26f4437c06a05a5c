"""Brute force for one-shot allocation: ties, and its limits."""

import numpy as np
import pytest

import lyra_opt as lo
from lyra_opt.allocation import Objective, WorkerAllocation
from lyra_opt.core.result import Limits
from lyra_opt.formulations.allocation import brute_force
from lyra_opt.formulations.allocation.brute_force import BruteForce
from tests.lyra_opt.allocation.examples import example, instance_of, job


def test_first_of_the_best_is_kept():
    """Fewer workers for the first job, where that makes no difference."""
    jobs = [job(name, 1, 2, 4) for name in "ab"]
    answer = lo.solve(instance_of(1, *jobs, objective="jct_reduction"), BruteForce)
    assert answer.solution == WorkerAllocation((1, 2))


def test_too_many_choices_are_refused():
    """With the number, and before any is tried; jobs that phase 1 leaves waiting do not count."""
    jobs = [job(name, 1, 1000, 1) for name in "abc"]
    refusal = BruteForce().supports(instance_of(1, *jobs, objective="joint"))
    assert "1003003001 ways" in refusal.reason
    assert BruteForce().supports(instance_of(2, *jobs, objective="two_phase")) is None


def test_schedules_are_refused():
    """It has no notion of time."""
    assert "not schedules" in BruteForce().supports(example()).reason


@pytest.mark.parametrize("objective", BruteForce.variants)
def test_time_limit(monkeypatch, objective):
    """What is known at the limit: a solution, or a better start, and a bound that holds."""
    monkeypatch.setattr(brute_force, "CHOICES_BETWEEN_TIME_CHECKS", 1)
    instance = example(objective=objective)
    best = lo.solve(instance, BruteForce)
    sign = -1 if instance.objective is Objective.JCT_REDUCTION else 1
    for start in (None, best.solution):
        result = BruteForce().solve(
            instance, limits=Limits(time_s=1e-12), rng=np.random.default_rng(0), warm_start=start
        )
        assert result.stopped_by == "time"
        assert sign * result.dual_bound <= sign * best.objective <= sign * result.objective
        assert start is None or result.objective == best.objective
