"""Pollux's workloads as jobs: those of its files, as long as its measurements say."""

from collections import Counter

import pytest

from lyra_opt.core.errors import FieldError, UserError
from lyra_opt.instances.workloads.pollux import POLLUX_FILES, pollux_jobs
from tests.instances.workloads.published import published
from tests.tables import tables

ROWS = tables(__file__)["rows"]


@pytest.fixture
def traces(tmp_path, monkeypatch):
    """Return a folder of traces with two jobs as the third workload."""
    (tmp_path / POLLUX_FILES[2]).write_text(ROWS)
    monkeypatch.setenv("LYRA_OPT_TRACES", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("number", range(1, len(POLLUX_FILES) + 1))
def test_the_jobs_are_those_of_the_files(number):
    """160 each, within eight hours; the mix of the sixth one is known."""
    published(POLLUX_FILES[number - 1])
    workload = pollux_jobs(number)
    assert len(workload.jobs) == 160
    assert workload.jobs[-1].submit_s < 8 * 3600
    if number == 6:
        mix = Counter(job.model for job in workload.jobs)
        assert mix == Counter(cifar10=67, ncf=54, deepspeech2=16, bert=15, yolov3=5, imagenet=3)


@pytest.mark.usefixtures("traces")
def test_work_and_range_follow_from_the_model():
    """100 epochs of 50,000 samples take 70 minutes on one T4, at 128 samples a step."""
    first, second = pollux_jobs(3).jobs
    assert (first.id, first.model, first.submit_s) == ("cifar10-0", "cifar10", 30)
    assert first.work_worker_s == pytest.approx(4213, rel=0.01)
    assert (first.max_workers, second.max_workers) == (64, 1)
    assert all(job.min_workers == 1 and job.checkpoints for job in (first, second))


@pytest.mark.usefixtures("traces")
def test_a_file_that_is_not_there_is_named():
    """It does not come along."""
    with pytest.raises(UserError, match=r"reads workload-4.csv of Pollux's artifact"):
        pollux_jobs(4)


@pytest.mark.parametrize("number", [0, 9])
def test_there_is_no_other(number):
    """Eight were published."""
    with pytest.raises(FieldError, match=f"number is {number}: must be"):
        pollux_jobs(number)
