"""The generator against every published figure, and its promises on seeds and options."""

import hashlib
import math
from dataclasses import replace
from statistics import fmean, median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import FieldError
from lyra_opt.core.numbers import DAY_S
from lyra_opt.instances.workloads.lyra_like import (
    GPUS_PER_JOB,
    TESTBED_SPAN_S,
    bootstrapped,
    inference_demand,
    lyra_like,
    lyra_testbed,
)
from lyra_opt.instances.workloads.transform import JobAssumptions
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.workload import Job, Workload
from tests.draws import draws
from tests.tables import tables

TABLES = tables(__file__)


GPUS = 3544


@pytest.fixture(scope="module")
def published_size():
    """The workload of 15 days and 50,390 jobs."""
    return lyra_like()


def within(percent, target):
    return pytest.approx(target, rel=percent / 100)


def percentile(values, percent):
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]


def test_jobs_and_days(published_size):
    assert len(published_size.jobs) == 50_390
    last = published_size.jobs[-1].submit_s
    assert 14.5 * DAY_S < last < 15 * DAY_S
    assert published_size.jobs[0].submit_s < DAY_S / 2


def test_running_times(published_size):
    durations = [job.duration_s for job in published_size.jobs]
    assert fmean(durations) == within(1, 13_540)  # 16,610 - 3,072 (table 5)
    assert 60 <= min(durations) < 120  # "minutes ..."
    assert 4 * DAY_S < max(durations) < 5 * DAY_S  # "... to days"
    # Of the JCT under FIFO (table 8), less queuing time: its median there, else its mean.
    assert 600 <= median(durations) <= 791 - 55
    assert percentile(durations, 75) == within(1, 29_163 - 3_072)
    assert percentile(durations, 95) == within(5, 82_933 - 3_072)
    assert percentile(durations, 99) == within(5, 376_513 - 3_072)


def test_gpu_time(published_size):
    jobs = published_size.jobs
    assert published_size.gpu_work_s / len(jobs) == within(1, 70_150)
    assert published_size.gpu_work_s / (GPUS * 15 * DAY_S) == pytest.approx(0.77, abs=0.01)
    assert published_size.load(GPUS) == pytest.approx(0.77, abs=0.01)
    running_s = math.fsum(job.duration_s for job in jobs)
    assert published_size.gpu_work_s / running_s == within(2, 5.15)
    assert {job.min_workers for job in jobs} == set(GPUS_PER_JOB)
    assert sum(job.min_gpus == 1 for job in jobs) > len(jobs) / 2
    assert all(job.gpus_per_worker == 1 for job in jobs)


def test_kinds_of_jobs(published_size):
    jobs = published_size.jobs
    assert sum(job.fungible for job in jobs) == round(0.21 * len(jobs))
    elastic = [job for job in jobs if job.is_elastic]
    assert len(elastic) == round(0.05 * len(jobs))
    gpu_time = math.fsum(job.work_worker_s for job in elastic)
    assert gpu_time / published_size.gpu_work_s == pytest.approx(0.36, abs=0.005)
    assert fmean(job.duration_s for job in elastic) == within(1, 14.2 * 3600)
    assert fmean(job.min_gpus for job in elastic) == pytest.approx(10, abs=0.5)
    assert all(job.max_workers == 2 * job.min_workers for job in elastic)
    for job in jobs:
        assert not job.heterogeneous
        assert not job.checkpoints
        assert job.scaling_loss == 0
        assert job.estimated_work_worker_s is None


@given(st.integers(1, 4), st.integers(0, 2**40), st.integers(1, 300), st.integers(1, 400))
@draws(25)
def test_any_size_is_valid(days, seed, training_gpus, jobs):
    workload = lyra_like(days=days, seed=seed, training_gpus=training_gpus, jobs=jobs)
    assert len(workload.jobs) == jobs
    assert all(0 <= job.submit_s < days * DAY_S for job in workload.jobs)
    assert max(job.min_gpus for job in workload.jobs) <= training_gpus
    assert [job.id for job in workload.jobs] == sorted(job.id for job in workload.jobs)


@pytest.mark.parametrize(("days", "gpus", "jobs"), [(15, 886, 12_598), (3, 256, 728), (1, 1, 1)])
def test_jobs_scale_with_days_and_gpus(days, gpus, jobs):
    workload = lyra_like(days=days, training_gpus=gpus)
    assert len(workload.jobs) == jobs
    if jobs > 500:  # few jobs, of which a handful hold a quarter of the GPU time
        load = workload.gpu_work_s / (gpus * days * DAY_S)
        assert load == pytest.approx(0.77, abs=0.02 if jobs > 10_000 else 0.15)


def small(seed=0, **assumed):
    assumptions = JobAssumptions(**assumed)
    return lyra_like(days=2, training_gpus=256, seed=seed, assumptions=assumptions)


@pytest.mark.parametrize("name", TABLES["options"])
def test_an_option_leaves_all_else_equal(name):
    option, expected = TABLES["options"][name]
    changed = set()
    for base, other in zip(small().jobs, small(**option).jobs, strict=True):
        for field in Job.__dataclass_fields__:
            if getattr(base, field) != getattr(other, field):
                changed.add(field)
    assert changed == set(expected)
    assert small(**option).name != small().name


def test_more_elastic_jobs_hold_those_of_the_elastic_kind():
    few = {job.id for job in small().jobs if job.is_elastic}
    many = {job.id for job in small(elastic_percent=40).jobs if job.is_elastic}
    assert few < many


TOLD = (
    *("id", "submit_s", "work_worker_s", "min_workers", "max_workers", "gpus_per_worker"),
    *("scaling_loss", "fungible", "heterogeneous", "checkpoints", "estimated_work_worker_s"),
)


def digest(workload):
    told = [tuple(getattr(job, field) for field in TOLD) for job in workload.jobs]
    return hashlib.sha256(repr(told).encode()).hexdigest()[:16]


def test_same_seed_same_bytes():
    assert small(seed=1) == small(seed=1)
    assert small(seed=1).jobs != small(seed=2).jobs
    assert digest(small(wrong_estimate_percent=20)) == "dcc25a4b8b3fecbb"


def test_assumptions_are_sentences():
    for sentence in (*small().assumptions, *inference_demand(days=1).assumptions):
        assert sentence[0].isupper()
        assert sentence.endswith(".")
        assert "\n" not in sentence


@pytest.mark.parametrize(("field", "value"), TABLES["bad_options"])
def test_bad_options(field, value):
    with pytest.raises(FieldError) as caught:
        lyra_like(**{field: value})
    assert caught.value.field == field


# --- inference --------------------------------------------------------------------------------


def test_inference_by_seed_and_size():
    assert inference_demand(days=2, seed=1) == inference_demand(days=2, seed=1)
    assert inference_demand(days=2, seed=1) != inference_demand(days=2, seed=2)
    for share in inference_demand(days=1, servers=2).busy_share:
        assert (share * 16).is_integer()
    shares = repr(inference_demand(days=7).busy_share)
    assert hashlib.sha256(shares.encode()).hexdigest()[:16] == "f5007345cb6f3340"


@pytest.mark.parametrize("field", ["days", "servers"])
def test_bad_inference_options(field):
    with pytest.raises(FieldError, match=f"{field} is 0"):
        inference_demand(**{field: 0})


# --- bootstrap --------------------------------------------------------------------------------


@given(st.integers(1, 6), st.integers(0, 99))
def test_bootstrapped_days_are_days_of_the_source(days, seed):
    source = lyra_like(days=3, training_gpus=64)
    result = bootstrapped(source, days=days, seed=seed)
    listed = [
        int(day) for day in result.assumptions[-1].split("days ")[1].split(" of")[0].split(",")
    ]
    assert len(listed) == days
    for number, day in enumerate(listed):
        expected = [
            (job.submit_s - (day - 1) * DAY_S, job.work_worker_s, job.fungible)
            for job in source.jobs
            if (day - 1) * DAY_S <= job.submit_s < day * DAY_S
        ]
        drawn = [
            (job.submit_s - number * DAY_S, job.work_worker_s, job.fungible)
            for job in result.jobs
            if number * DAY_S <= job.submit_s < (number + 1) * DAY_S
        ]
        assert drawn == [(pytest.approx(at, abs=1e-6), *rest) for at, *rest in expected]


def test_bootstrap_leaves_out_a_last_day_that_has_hardly_begun():
    jobs = tuple(Job(id=f"j{n}", submit_s=n * DAY_S / 4, work_worker_s=1) for n in range(6))
    result = bootstrapped(Workload(name="w", jobs=jobs), days=3, seed=0)
    assert {job.id.split("-")[1] for job in result.jobs} == {"j0", "j1", "j2", "j3"}
    longer = (*jobs, replace(jobs[0], id="late", submit_s=1.6 * DAY_S))
    drawn = {
        job.id.split("-")[1]
        for seed in range(5)
        for job in bootstrapped(Workload(name="w", jobs=longer), seed=seed).jobs
    }
    assert drawn == {job.id for job in longer}


def test_bootstrap_of_empty_days():
    jobs = (
        Job(id="a", submit_s=0, work_worker_s=1),
        Job(id="b", submit_s=99.6 * DAY_S, work_worker_s=1),
    )
    with pytest.raises(FieldError, match="seed is 0: must draw a day on which jobs"):
        bootstrapped(Workload(name="w", jobs=jobs), days=1, seed=0)


@pytest.mark.parametrize("seed", [0, 1])
def test_testbed_is_scaled_as_the_paper_says(seed):
    """180 jobs within 8 hours, 2 minutes to 2 hours, none wider than 16 GPUs."""
    cluster = Cluster.of_servers(4)
    jobs = lyra_testbed(cluster, seed).jobs
    assert len(jobs) == 180
    assert jobs[0].submit_s == 0
    assert jobs[-1].submit_s == pytest.approx(TESTBED_SPAN_S)
    assert max(job.min_gpus for job in jobs) <= 16 < cluster.gpus
    assert all(120 <= job.duration_s <= 7200 for job in jobs)
    assert sum(job.is_elastic for job in jobs) == 11
    assert np.mean([job.duration_s for job in jobs]) == pytest.approx(2540, rel=0.02)
