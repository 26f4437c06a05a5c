"""Brute force for one-shot allocation: ties, and its limits."""

from __future__ import annotations

import numpy as np
import pytest

from lyra_opt.allocation import ElasticJob, Instance, Objective, WorkerAllocation
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits
from lyra_opt.core.solving import solve_and_check
from lyra_opt.formulations.allocation import brute_force
from lyra_opt.formulations.allocation.brute_force import BruteForce
from tests.lyra_opt.allocation.examples import example

ALLOCATION = find_problem("allocation")


def test_first_of_the_best_is_kept():
    """Fewer workers for the first job, where that makes no difference."""
    jobs = tuple(
        ElasticJob(id=name, min_workers=1, max_workers=2, work_worker_s=4) for name in "ab"
    )
    instance = Instance(name="x", objective="jct_reduction", gpus=1, jobs=jobs)
    answer = solve_and_check(ALLOCATION, instance, BruteForce())
    assert answer.solution == WorkerAllocation((1, 2))


def test_too_many_choices_are_refused():
    """With the number, and before any is tried; jobs that phase 1 leaves waiting do not count."""
    jobs = tuple(
        ElasticJob(id=name, min_workers=1, max_workers=1000, work_worker_s=1) for name in "abc"
    )
    instance = Instance(name="x", objective="joint", gpus=1, jobs=jobs)
    refusal = BruteForce().supports(instance)
    assert refusal is not None
    assert "1003003001 ways" in refusal.reason
    two_phase = Instance(name="x", objective="two_phase", gpus=2, jobs=jobs)
    assert BruteForce().supports(two_phase) is None


def test_schedules_are_refused():
    """It has no notion of time."""
    refusal = BruteForce().supports(example())
    assert refusal is not None
    assert "not schedules" in refusal.reason


@pytest.mark.parametrize("objective", BruteForce.variants)
def test_time_limit(monkeypatch, objective):
    """What is known at the limit: a solution, or a better start, and a bound that holds."""
    monkeypatch.setattr(brute_force, "CHOICES_BETWEEN_TIME_CHECKS", 1)
    instance = example(objective=objective)
    best = solve_and_check(ALLOCATION, instance, BruteForce())
    sign = -1 if instance.objective is Objective.JCT_REDUCTION else 1
    for start in (None, best.solution):
        result = BruteForce().solve(
            instance,
            limits=Limits(time_s=1e-12),
            rng=np.random.default_rng(0),
            warm_start=start,
        )
        assert result.stopped_by == "time"
        assert result.objective is not None
        assert result.dual_bound is not None
        assert sign * result.dual_bound <= sign * best.objective <= sign * result.objective
        assert start is None or result.objective == best.objective
