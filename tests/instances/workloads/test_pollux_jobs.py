"""Pollux's workloads as jobs: those of its files, as long as its measurements say."""

from __future__ import annotations

from collections import Counter

import pytest

from lyra_opt.core.errors import FieldError
from lyra_opt.instances.workloads.pollux_jobs import WORKLOADS, pollux_jobs


def test_the_jobs_are_those_of_the_files() -> None:
    """160 each, within eight hours; the mix of the sixth one is known."""
    for number in range(1, WORKLOADS + 1):
        workload = pollux_jobs(number)
        assert len(workload.jobs) == 160
        assert workload.jobs[-1].submit_s < 8 * 3600
    mix = Counter(job.model for job in pollux_jobs(6).jobs)
    assert mix == Counter(cifar10=67, ncf=54, deepspeech2=16, bert=15, yolov3=5, imagenet=3)


def test_work_and_range_follow_from_the_model() -> None:
    """100 epochs of 50,000 samples take 70 minutes on one T4, at 128 samples a step."""
    jobs = {job.model: job for job in pollux_jobs(6).jobs}
    assert jobs["cifar10"].work_worker_s == pytest.approx(4213, rel=0.01)
    assert {job.max_workers for name, job in jobs.items() if name != "ncf"} == {64}
    assert jobs["ncf"].max_workers == 1
    assert all(job.min_workers == 1 and job.checkpoints for job in jobs.values())


@pytest.mark.parametrize("number", [0, 9])
def test_there_is_no_other(number: int) -> None:
    with pytest.raises(FieldError, match=f"number is {number}: must be"):
        pollux_jobs(number)
