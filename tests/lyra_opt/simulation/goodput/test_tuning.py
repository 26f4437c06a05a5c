"""Which models jobs train, and how fast they are when tuned."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.goodput.model import BERT, CIFAR, DEEP_SPEECH, IMAGENET, YOLO
from lyra_opt.simulation.goodput.tuning import TunedSpeed, draw_profile
from lyra_opt.simulation.job_run import JobRates, JobRun, Part
from lyra_opt.simulation.speed import Speed
from tests.lyra_opt.simulation.replays import job_of


def elastic(gpu_hours, workers=2, **fields):
    """Return a job by its work, of up to twice its workers unless told otherwise."""
    fields = {"max_workers": 2 * workers, "name": "job", **fields}
    work_s = gpu_hours * 3600 / fields.get("gpus_per_worker", 1)
    return job_of(fields.pop("name"), 0, work_s / workers, workers, **fields)


@pytest.mark.parametrize(
    ("gpu_hours", "models"),
    [(0.5, {CIFAR}), (5.0, {DEEP_SPEECH, BERT}), (50.0, {YOLO}), (500.0, {IMAGENET})],
)
def test_the_mix_is_by_gpu_hours(gpu_hours, models):
    for width in (1, 4):
        names = [f"job-{number}" for number in range(50)]
        jobs = [elastic(gpu_hours, name=name, gpus_per_worker=width) for name in names]
        assert {draw_profile(job, 0) for job in jobs} == models


def test_the_lot_is_even_and_depends_on_name_and_seed_alone():
    jobs = [elastic(5.0, name=f"job-{number}") for number in range(400)]
    drawn = [draw_profile(job, 1) for job in jobs]
    assert drawn == [draw_profile(job, 1) for job in jobs]
    assert drawn != [draw_profile(job, 2) for job in jobs]
    assert 150 < Counter(drawn)[BERT] < 250


@pytest.mark.parametrize(
    ("gpu_hours", "workers", "model"),
    [(0.5, 60, CIFAR), (5.0, 60, YOLO), (0.5, 65, IMAGENET), (0.5, 1000, IMAGENET)],
)
def test_jobs_too_wide_for_their_class_go_to_the_next(gpu_hours, workers, model):
    assert draw_profile(elastic(gpu_hours, workers=workers), 0) is model


def test_inelastic_jobs_are_not_tuned():
    job = elastic(5.0, workers=3, max_workers=3)
    assert TunedSpeed().rate(job, 3) == 3.0


@given(
    st.sampled_from((0.5, 5.0, 50.0, 500.0)),
    st.integers(1, 40),
    st.integers(1, 40),
    st.floats(0, 1),
    st.integers(1, 4),
)
def test_tuning_is_never_slower_than_the_untuned_job(
    gpu_hours, workers, extra, loss, gpus_per_worker
):
    fields = {"scaling_loss": loss, "gpus_per_worker": gpus_per_worker}
    job = elastic(gpu_hours, workers, max_workers=workers + extra, **fields)
    speed = TunedSpeed()
    for number, rate in enumerate(speed.rates(job).tolist()):
        assert rate >= job.rate(workers + number)
        assert rate == speed.rate(job, workers + number)


def test_a_running_job_is_asked_for_what_it_holds():
    run = JobRun(elastic(5.0), 0, 5.0 * 3600, JobRates(1.0, 2, (), ()))
    run.workers = 3
    run.parts = [Part(0, {0: 2}, base=2)]
    tuned = TunedSpeed(seed=4, gpus_per_server=4)
    speed = Speed(Cluster.of_servers(1, gpus_per_server=4), tuned=tuned)
    speed.set_rate(run)
    assert run.rate == speed.scaled(run.job, 3) == tuned.rate(run.job, 3) != run.job.rate(3)


def test_rates_are_not_for_writing():
    rates = TunedSpeed().rates(elastic(5.0))
    with pytest.raises(ValueError, match="read-only"):
        rates[0] = 0.0
