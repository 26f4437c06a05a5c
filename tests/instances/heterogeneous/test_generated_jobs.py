"""Generated gangs and gangs of traces."""

import hashlib
from collections import Counter

import pytest

from lyra_opt.core.errors import FieldError
from lyra_opt.core.numbers import HOUR_S
from lyra_opt.heterogeneous.utility import Deadline
from lyra_opt.instances.heterogeneous.clusters import types_of
from lyra_opt.instances.heterogeneous.generated_jobs import MIX_SIZES, gavel_like, hadar_480, mix
from lyra_opt.instances.heterogeneous.throughput_files import parse_throughputs
from lyra_opt.simulation.workload import Job, Workload
from tests.tables import tables

TABLES = tables(__file__)


MEASURED_TYPES = types_of(["v100", "p100", "k80"])


def gangs_of(workload):
    """Return what was measured of the jobs, which says when each is submitted too."""
    found = []
    for job in workload.jobs:
        assert (job.id, job.submit_s) == (job.measured.id, job.measured.release_s)
        found.append(job.measured)
    return found


def digest(workload):
    """Return what changes whenever a job does."""
    told = [
        (job.id, job.gang, job.steps, job.release_s, job.weight, dict(job.throughput))
        for job in gangs_of(workload)
    ]
    return hashlib.sha256(repr(told).encode()).hexdigest()[:12]


def v100_hours(workload):
    return [job.steps / job.throughput["v100"] / HOUR_S for job in gangs_of(workload)]


class TestGavelLike:
    """The rules of Gavel's generator."""

    def test_a_seed_gives_the_same_bytes_everywhere(self):
        """Golden hashes: a change of what a seed gives is a new version."""
        given = {"jobs": 50, "gpu_types": MEASURED_TYPES, "arrivals_per_hour": 2.0}
        first, second = gavel_like(seed=0, **given), gavel_like(seed=1, **given)
        assert digest(first) == TABLES["golden"]["gavel-like-0"]
        assert digest(second) == TABLES["golden"]["gavel-like-1"]

    def test_options_leave_the_other_draws(self):
        """Priorities, deadlines and arrivals are drawn from streams of their own."""
        given = {"jobs": 300, "seed": 3, "gpu_types": MEASURED_TYPES}
        asked = {"arrivals_per_hour": 1.0, "high_priority_percent": 20, "slo_percent": 100}
        plain, rich = gavel_like(**given), gavel_like(**given, **asked)
        assert v100_hours(plain) == v100_hours(rich)
        assert plain.submission_span_s == 0 < rich.submission_span_s
        assert Counter(job.weight for job in gangs_of(rich))[5.0] == pytest.approx(60, abs=20)
        factors = Counter(
            round(job.utility.deadline_s * job.throughput["v100"] / job.steps, 6)
            for job in gangs_of(rich)
            if isinstance(job.utility, Deadline)
        )
        assert set(factors) == {1.2, 2.0, 10.0}
        assert sum(factors.values()) == 300

    def test_largest_gang(self):
        """Larger ones are not drawn, and that is said."""
        workload = gavel_like(jobs=100, seed=0, gpu_types=types_of(["k80"]), largest_gang=2)
        assert {job.min_gpus for job in workload.jobs} == {1, 2}
        assert any("more than 2 GPUs" in sentence for sentence in workload.assumptions)
        assert all(set(job.throughput) == {"k80"} for job in gangs_of(workload))

    def test_deadlines_are_those_of_the_jobs(self):
        """So that who misses one is counted."""
        workload = gavel_like(jobs=20, seed=0, gpu_types=MEASURED_TYPES, slo_percent=50)
        told = {job.deadline_s for job in workload.jobs if job.measured is not None}
        assert None in told
        for job, gang in zip(workload.jobs, gangs_of(workload), strict=True):
            assert job.deadline_s == getattr(gang.utility, "deadline_s", None)

    def test_table_of_ones_own(self):
        """Its kinds alone are drawn; numbers of GPUs that it lacks are said to be scaled."""
        text = "model,batch_size,gpus,h100\nGPT,4,1,10\nGPT,8,2,10\n"
        table = parse_throughputs(text, "mine.csv", name="mine")
        workload = gavel_like(jobs=50, seed=0, gpu_types=types_of(["h100"]), table=table)
        assert {(job.gang, job.throughput["h100"]) for job in gangs_of(workload)} == {
            (1, 10),
            (2, 10),
            (4, 20),
            (8, 40),
        }
        assert any("next smaller" in sentence for sentence in workload.assumptions)
        assert any("table mine" in sentence for sentence in workload.assumptions)
        default = gavel_like(jobs=50, seed=0, gpu_types=MEASURED_TYPES)
        assert not any("next smaller" in sentence for sentence in default.assumptions)
        with pytest.raises(FieldError, match="LM|ResNet|CycleGAN|Transformer|Recommendation"):
            mix(3, gpu_types=types_of(["h100"]), table=table)

    @pytest.mark.parametrize(("field", "value"), TABLES["bad_values"])
    def test_bad_values(self, field, value):
        """Each is named."""
        given = {"jobs": 1, "seed": 0, "gpu_types": MEASURED_TYPES, field: value}
        with pytest.raises(FieldError, match=field):
            gavel_like(**given)


class TestMixes:
    """HadarE's small workloads."""

    @pytest.mark.parametrize("jobs", MIX_SIZES)
    def test_sizes(self, jobs):
        """K jobs of one GPU at once, for testbeds without any measured GPU too."""
        workload = mix(jobs, gpu_types=types_of(["t4", "rtx-3090"]))
        assert len(workload.jobs) == jobs
        assert {job.min_gpus for job in workload.jobs} == {1}
        assert workload.submission_span_s == 0
        assert any("from memory" in sentence for sentence in workload.assumptions)

    def test_others(self):
        """There are no others."""
        with pytest.raises(FieldError, match="must be one of: 1, 3, 4, 5, 8, 10, 12"):
            mix(2, gpu_types=MEASURED_TYPES)


def trace_of(*jobs):
    """Return a trace of jobs with hour of submission, hours and GPUs."""
    rows = [
        Job.rigid(id=f"t{n}", submit_s=at_h * HOUR_S, gpus=gpus, work_gpu_s=hours * HOUR_S * gpus)
        for n, (at_h, hours, gpus) in enumerate(jobs)
    ]
    return Workload(name="trace", jobs=tuple(rows), assumptions=("Of a test.",))


class TestHadar480:
    """Jobs drawn from a trace by class."""

    # One candidate of each class, and of each rule a job that is none.
    TRACE = trace_of(
        *((2.9, 0.5, 1), (3.0, 0.5, 1), (4.0, 2.0, 4), (5.0, 15.0, 2), (6.0, 9.0, 8)),
        *((7.0, 0.5, 3), (8.0, 55.0, 1), (10.5, 101.0, 1), (11.0, 0.5, 1), (29.0, 3.0, 1)),
    )

    def test_same_seed_same_jobs(self):
        """Candidates alone, drawn again if they are too few; another seed draws others."""
        first, again, other = (
            hadar_480(self.TRACE, seed=seed, gpu_types=MEASURED_TYPES) for seed in (0, 0, 1)
        )
        assert digest(first) == digest(again) == TABLES["golden"]["hadar-480"]
        assert digest(other) != digest(first)
        assert {job.id.split("-")[-1] for job in first.jobs} == {"t1", "t2", "t3", "t4", "t9"}
        assert first.assumptions[0] == "Of a test."
        assert any("some jobs occur more than once" in sentence for sentence in first.assumptions)

    def test_nobody_stands_twice_where_there_are_enough(self):
        """Jobs are drawn without putting them back."""
        trace = trace_of(
            *((3 + number / 1000, hours, 1) for number in range(60) for hours in (0.5, 5, 20, 70))
        )
        workload = hadar_480(trace, seed=0, gpu_types=MEASURED_TYPES, jobs=80)
        sources = [job.id.split("-")[-1] for job in workload.jobs]
        assert len(set(sources)) == 80
        assert not any("more than once" in sentence for sentence in workload.assumptions)

    def test_missing_classes(self):
        """A trace of short jobs will not do."""
        with pytest.raises(FieldError, match="class M"):
            hadar_480(trace_of((3.0, 0.5, 1)), seed=0, gpu_types=MEASURED_TYPES)
