"""What a simulation replays: jobs, workloads and demands are what they say, or are refused."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import FieldError
from lyra_opt.heterogeneous.instance import GangJob
from lyra_opt.simulation.workload import InferenceDemand, Job, Workload
from tests.lyra_opt.simulation.replays import job_of, workload_of
from tests.tables import tables

TABLES = tables(__file__)
PLAIN_JOB = Job(id="a", submit_s=0, work_worker_s=60, min_workers=2, max_workers=4)
MEASURED = GangJob(id="g", gang=3, steps=90, release_s=7, throughput={"fast": 2, "slow": 1})
PLAIN_DEMAND = InferenceDemand(name="demand", step_s=300, busy_share=(0.5, 1))

JOBS = st.builds(
    Job,
    id=st.just("a"),
    submit_s=st.just(0.0),
    work_worker_s=st.floats(1e-3, 1e9),
    min_workers=st.integers(1, 100),
    max_workers=st.integers(100, 200),
    gpus_per_worker=st.integers(1, 8),
    scaling_loss=st.floats(0, 1),
)
NAMED_JOBS = st.builds(
    replace,
    JOBS,
    deadline_s=st.none() | st.floats(1, 1e9),
    model=st.none() | st.sampled_from(["7", "ResNet-18"]),
    gpu_types=st.sampled_from([(), ("V100",), ("V100", "P100")]),
)


def workload(*jobs):
    """Return a workload of jobs (id, submission, duration, GPUs)."""
    return workload_of(*(job_of(*fields) for fields in jobs), name="made")


class TestJob:
    """A job by itself."""

    def test_slices(self):
        """A slice needs its share, or the share that holds its memory, rounded up."""
        half = Job(id="a", submit_s=0, work_worker_s=60, gpu_thousandths=500)
        assert half.is_slice
        assert (half.share, half.slice_on(None), half.min_gpus) == (0.5, 500, 1)
        memory = replace(half, gpu_thousandths=None, gpu_memory_mib=5000)
        assert [memory.slice_on(mib) for mib in (None, 4999, 5000, 16_384, 10**7)] == [
            *(0, 0, 1000, 306, 1)
        ]
        assert workload_of(half, replace(half, id="b", gpu_thousandths=None)).gpu_work_s == 90

    def test_derived(self):
        """Gangs, durations and beliefs by hand."""
        job = replace(PLAIN_JOB, gpus_per_worker=4)
        assert (job.min_gpus, job.duration_s) == (8, 30)
        assert job.is_elastic
        assert not replace(job, max_workers=2).is_elastic
        assert job.believed_work_worker_s == 60
        assert replace(job, estimated_work_worker_s=75).believed_work_worker_s == 75
        assert isinstance(job.work_worker_s, float), "integers of a file are kept as floats"

    def test_gpu_types(self):
        """It takes those that it asks for, in whatever case, and all if it asks for none."""
        assert PLAIN_JOB.takes("a")
        asking = replace(PLAIN_JOB, gpu_types=["a", "b"])
        assert asking.gpu_types == ("a", "b"), "frozen, as jobs are"
        assert [asking.takes(name) for name in ("a", "B", "c")] == [True, True, False]

    def test_rigid(self):
        """Work is that of all GPUs, which a gang of all of them shares."""
        job = Job.rigid(id="a", submit_s=5, gpus=3, work_gpu_s=60, model="m")
        assert (job.min_gpus, job.duration_s, job.submit_s, job.model) == (3, 20, 5, "m")
        assert not job.is_elastic
        assert job.checkpoints, "leases and rounds take away no progress"

    def test_measured(self):
        """Reference GPUs are those that suit it best: 90 steps at 2 a second, on 3 GPUs."""
        job = Job.of_gang(replace(MEASURED, weight=4))
        assert (job.id, job.submit_s, job.min_gpus) == ("g", 7, 3)
        assert (job.duration_s, job.work_worker_s) == (45, 135)
        assert (job.steps, job.weight) == (90, 4), "there is one truth"
        assert not job.is_elastic
        assert job.checkpoints


class TestWorkload:
    """Jobs in the order of submission."""

    @pytest.mark.parametrize(("jobs", "message"), TABLES["refused"])
    def test_refused(self, jobs, message):
        """The error names the place of the job."""
        with pytest.raises(FieldError, match=message):
            workload(*jobs)

    def test_its_name_is_text(self):
        with pytest.raises(FieldError, match=r'^name is "": must be a non-empty string'):
            replace(workload(("a", 0, 1, 1)), name="")

    @given(st.lists(NAMED_JOBS, min_size=1, max_size=5))
    def test_frames(self, drawn):
        """Nothing is lost on the way to a frame and back, missing values included."""
        made = workload_of(*(replace(job, id=str(n)) for n, job in enumerate(drawn)), name="made")
        assert Workload.from_frame(made.to_frame(), name="made") == made

    def test_frames_of_few_columns(self):
        """Rows in any order; what is missing is at its default; counts may be floats."""
        columns = {"id": ["b", "a"], "submit_s": [5, 0], "work_worker_s": np.array([1.5, 2.5])}
        frame = pd.DataFrame({**columns, "max_workers": [np.nan, 4.0]})
        (a, b) = Workload.from_frame(frame).jobs
        assert (a.id, a.max_workers, b.id, b.max_workers) == ("a", 4, "b", 1)

    @pytest.mark.parametrize(("columns", "message"), TABLES["frames_refused"])
    def test_frames_refused(self, columns, message):
        """The error names the row, from 0 on."""
        with pytest.raises(FieldError, match=message):
            Workload.from_frame(pd.DataFrame(columns))

    def test_load_by_hand(self):
        """100 + 200 GPU-seconds asked for in 50 s: 60 % of 10 GPUs."""
        jobs = workload(("a", 10, 100, 1), ("b", 60, 50, 4))
        assert jobs.gpu_work_s == 300
        assert jobs.submission_span_s == 50
        assert jobs.load(10) == pytest.approx(0.6)

    def test_load_of_one_moment(self):
        """There is no span to spread the work over."""
        assert workload(("a", 5, 1, 1), ("b", 5, 1, 1)).load(8) == math.inf
        assert workload(("a", 5, 1, 1)).submission_span_s == 0

    def test_work_counts_the_gpus_of_each_worker(self):
        """And no scaling loss, for that depends on how a job is run."""
        job = replace(PLAIN_JOB, gpus_per_worker=4, scaling_loss=1)
        assert workload_of(job).gpu_work_s == 240


class TestInferenceDemand:
    """Steps of equal length, over and over."""

    def test_by_hand(self):
        """A step begins at its first moment and ends before that of the next."""
        demand = replace(PLAIN_DEMAND, busy_share=(0.1, 0.2, 0.3))
        found = [demand.at(time_s) for time_s in (0, 299.9, 300, 899, 900, 1500)]
        assert found == [0.1, 0.1, 0.2, 0.3, 0.1, 0.3]
