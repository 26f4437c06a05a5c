"""Assumptions: shares are kept exactly, nested, and independent of one another."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import FieldError
from lyra_opt.instances.workloads.transform import JobAssumptions, assigned
from lyra_opt.simulation.workload import Job

percents = st.integers(0, 100)


def jobs_of(count: int) -> list[Job]:
    return [
        Job(id=f"j{n}", submit_s=n, work_worker_s=100, min_workers=1 + n % 3, max_workers=3)
        for n in range(count)
    ]


def chosen(jobs, property_):
    return {job.id for job in jobs if property_(job)}


SHARES = {
    "fungible_percent": lambda job: job.fungible,
    "elastic_percent": lambda job: job.is_elastic,
    "heterogeneous_percent": lambda job: job.heterogeneous,
    "checkpoint_percent": lambda job: job.checkpoints,
    "wrong_estimate_percent": lambda job: job.estimated_work_worker_s is not None,
}


@given(st.integers(1, 200), st.sampled_from(sorted(SHARES)), percents, percents, st.integers(0, 9))
def test_shares_are_exact_nested_and_independent(count, share, percent, other, seed):
    jobs, low, high = jobs_of(count), *sorted((percent, other))
    few = assigned(jobs, JobAssumptions(**{share: low}), seed=seed)
    many = assigned(jobs, JobAssumptions(**{share: high}), seed=seed)
    assert len(chosen(few, SHARES[share])) == (count * low + 50) // 100
    assert chosen(few, SHARES[share]) <= chosen(many, SHARES[share])
    for name, property_ in SHARES.items():
        if name != share:
            assert chosen(few, property_) == chosen(many, property_)


@given(st.integers(1, 60), percents, st.data())
def test_jobs_of_the_elastic_kind_come_first(count, percent, data):
    first = data.draw(st.lists(st.integers(0, count - 1), unique=True))
    assumptions = JobAssumptions(elastic_percent=percent)
    jobs = assigned(jobs_of(count), assumptions, seed=1, elastic_first=first)
    elastic = {position for position, job in enumerate(jobs) if job.is_elastic}
    assert elastic <= set(first) or set(first) <= elastic


def test_what_is_assigned():
    assumptions = JobAssumptions(
        elastic_percent=50, scaling_loss_percent=20, wrong_estimate_percent=40
    )
    before = jobs_of(1000)
    after = assigned(before, assumptions, seed=3)
    for old, new in zip(before, after, strict=True):
        assert (new.id, new.submit_s, new.work_worker_s) == (old.id, old.submit_s, 100)
        assert new.min_workers == old.min_workers  # the base demand is what was requested
        assert new.max_workers == new.min_workers * (2 if new.is_elastic else 1)
        assert new.scaling_loss == (0.2 if new.is_elastic else 0)
    estimates = [job.estimated_work_worker_s for job in after if job.estimated_work_worker_s]
    assert 75 <= min(estimates) < 80 < 120 < max(estimates) <= 125
    assert len(estimates) == 400


def test_estimates_are_off_by_as_much_as_is_said():
    """Never by all of the work, which would leave nothing to do."""
    before = jobs_of(1000)
    for percent in (0, 50, 99):
        assumptions = JobAssumptions(wrong_estimate_percent=100, estimate_error_percent=percent)
        estimates = [job.estimated_work_worker_s for job in assigned(before, assumptions, seed=3)]
        assert 100 - percent <= min(estimates) <= 101 - percent
        assert 99 + percent <= max(estimates) <= 100 + percent
        assert f"off by up to {percent} %" in assumptions.in_words


def test_an_estimate_does_not_depend_on_how_many_are_wrong():
    few, all_ = (
        assigned(jobs_of(50), JobAssumptions(wrong_estimate_percent=percent), seed=0)
        for percent in (20, 100)
    )
    for job, other in zip(few, all_, strict=True):
        assert job.estimated_work_worker_s in (None, other.estimated_work_worker_s)


def test_ideal():
    jobs = assigned(jobs_of(40), JobAssumptions(all_elastic=True), seed=0)
    assert all(job.is_elastic and job.heterogeneous for job in jobs)
    assert "100 % elastic" in JobAssumptions(all_elastic=True).in_words


def test_labels_tell_scenarios_apart():
    assert JobAssumptions().label == ""
    labels = {replace(JobAssumptions(), **{name: 77}).label for name in SHARES}
    labels |= {
        JobAssumptions(all_elastic=True).label,
        JobAssumptions(scaling_loss_percent=77).label,
        JobAssumptions(estimate_error_percent=77).label,
    }
    assert len(labels) == len(fields(JobAssumptions))
    assert JobAssumptions(all_elastic=True, fungible_percent=0).label == "-fungible0-ideal"


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("fungible_percent", -1, "must be an integer of at least 0"),
        ("elastic_percent", 101, "must be at most 100"),
        ("checkpoint_percent", 2.5, "must be an integer"),
        ("wrong_estimate_percent", True, "must be an integer"),
        ("estimate_error_percent", 100, "must be at most 99"),
        ("all_elastic", 1, "must be true or false"),
    ],
)
def test_bad_values(field, value, rule):
    with pytest.raises(FieldError, match=rule) as caught:
        JobAssumptions(**{field: value})
    assert caught.value.field == field
