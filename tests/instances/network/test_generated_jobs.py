"""Workloads with the figures of Dally's, and gangs of traces."""

import hashlib
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import FieldError
from lyra_opt.core.numbers import DAY_S
from lyra_opt.instances.network.jobs import (
    BATCH,
    DISTRIBUTED,
    PUBLISHED_JOBS_PER_DAY,
    apportioned,
    assigned_models,
    dally_batch,
    dally_distributed,
    dally_poisson,
    shares_of,
)
from lyra_opt.simulation.communication import MODELS
from lyra_opt.simulation.workload import Job, Workload


def digest(workload):
    """Return what changes whenever a job does."""
    told = [
        (job.id, job.min_gpus, job.model, job.work_worker_s, job.submit_s) for job in workload.jobs
    ]
    return hashlib.sha256(repr(told).encode()).hexdigest()[:12]


class TestMarginals:
    """What was published of the sets holds for every seed."""

    def test_models_are_known_to_the_communication_model(self):
        """A workload runs without a table of the user's."""
        assert set(BATCH.models) == set(DISTRIBUTED.models) == set(MODELS)


class TestSeeds:
    """The same seed, the same jobs; what is asked for beside changes nothing else."""

    def test_golden(self):
        """A seed gives the same jobs on any machine; a change of it is a new version."""
        assert digest(dally_batch(seed=0)) == "31a20a66e235"
        assert digest(dally_poisson(seed=1, jobs_per_day=50, jobs=60)) == "961b8508a22d"
        assert digest(dally_distributed(seed=2)) == "18cad9fc0615"
        assert digest(dally_batch(seed=0)) != digest(dally_batch(seed=1))

    @pytest.mark.parametrize("rate", PUBLISHED_JOBS_PER_DAY)
    def test_poisson_has_the_jobs_of_the_batch(self, rate):
        """Only the times of submission differ, and rates stretch the same gaps."""
        batch, poisson = dally_batch(seed=3), dally_poisson(seed=3, jobs_per_day=rate)
        assert [replace(job, submit_s=0.0) for job in poisson.jobs] == list(batch.jobs)
        gap_s = poisson.jobs[-1].submit_s / (len(poisson.jobs) - 1)
        assert gap_s == pytest.approx(DAY_S / rate, rel=0.2)
        twice = dally_poisson(seed=3, jobs_per_day=2 * rate)
        for job, sooner in zip(poisson.jobs, twice.jobs, strict=True):
            assert job.submit_s == pytest.approx(2 * sooner.submit_s, abs=1)
        assert f"{rate:.3g} jobs per day" in poisson.assumptions[0]

    @given(
        counts=st.lists(st.integers(0, 50), min_size=1, max_size=6).filter(sum),
        total=st.integers(0, 300),
    )
    def test_apportioned(self, counts, total):
        """As many as asked for, each kind within one of its share, exact where it can be."""
        kinds = dict(enumerate(counts))
        found = Counter(apportioned(kinds, total))
        assert found.total() == total
        assert all(
            abs(found[kind] - total * count / sum(counts)) < 1 for kind, count in kinds.items()
        )
        assert Counter(apportioned(kinds, 3 * sum(counts))) == Counter(
            {kind: 3 * count for kind, count in kinds.items() if count}
        )

    @pytest.mark.parametrize(
        ("make", "field", "value"),
        [
            *((dally_batch, "seed", -1), (dally_batch, "jobs", 0)),
            *((dally_poisson, "jobs_per_day", rate) for rate in (0.0, float("nan"))),
            (dally_distributed, "jobs_per_day", -1.0),
        ],
    )
    def test_bad_input(self, make, field, value):
        """The field is named."""
        with pytest.raises(FieldError, match=field):
            make(**{"seed": 0, field: value})


class TestTraceJobs:
    """What a trace says is kept; what it does not is drawn, and said to be."""

    TRACE = Workload(
        name="trace",
        jobs=tuple(
            Job(
                id=f"t{number}",
                submit_s=10.0 * number,
                work_worker_s=100.0 * (1 + number % 3),
                min_workers=1 + number % 3,
                max_workers=4,
                gpus_per_worker=2,
            )
            for number in range(2000)
        ),
        assumptions=("Of the trace.",),
    )

    def test_gang_time_and_work_are_the_traces(self):
        """Elastic jobs run with their base demand, for as long as in the trace."""
        workload = assigned_models(self.TRACE, seed=0)
        for job, before in zip(workload.jobs, self.TRACE.jobs, strict=True):
            known = before.id, before.submit_s, before.min_gpus
            assert (job.id, job.submit_s, job.min_gpus) == known
            assert job.min_workers == job.max_workers == job.min_gpus
            assert job.duration_s == pytest.approx(before.duration_s) == 100.0
        assert workload.assumptions[0] == "Of the trace."
        assert "Assigned by seed" in workload.assumptions[1]

    def test_what_users_ask_for_is_kept(self):
        """Weight, deadline and types of GPUs are theirs, whatever model is drawn."""
        wishes = {"weight": 3.0, "deadline_s": 60.0, "gpu_types": ("V100",)}
        asking = replace(self.TRACE, jobs=(replace(self.TRACE.jobs[0], **wishes),))
        (job,) = assigned_models(asking, seed=0).jobs
        assert {name: getattr(job, name) for name in wishes} == wishes

    def test_models_have_the_shares_of_the_batch(self):
        """Within three standard deviations; the same for the same seed alone."""
        first, again, other = (
            [job.model for job in assigned_models(self.TRACE, seed=seed).jobs] for seed in (0, 0, 1)
        )
        assert first == again != other
        for model, count in BATCH.models.items():
            assert first.count(model) / 2000 == pytest.approx(count / 500, abs=0.03)

    def test_models_that_the_trace_names_are_kept(self):
        """None is drawn in place of one that is known, and what was drawn is said."""
        named = [replace(job, model="mine") for job in self.TRACE.jobs]
        workload = assigned_models(replace(self.TRACE, jobs=tuple(named)), seed=0)
        assert {job.model for job in workload.jobs} == {"mine"}
        assert (workload.name, workload.assumptions[1][:26]) == (
            "trace",
            "The models of all jobs are",
        )
        mixed = replace(self.TRACE, jobs=(named[0], *self.TRACE.jobs[1:]))
        workload = assigned_models(mixed, seed=0, shares=shares_of(["x", "y"]))
        assert workload.jobs[0].model == "mine"
        assert {job.model for job in workload.jobs[1:]} == {"x", "y"}
        assert "the models of 1,999 of its 2,000 jobs" in workload.assumptions[1]
        assert "(x 50 %, y 50 %)" in workload.assumptions[1]

    def test_shares_are_dallys_where_all_its_models_are_known(self):
        """A table of five of them has no share for the sixth."""
        assert shares_of([*BATCH.models, "mine"]) == BATCH.models
        assert set(shares_of(list(BATCH.models)[1:]).values()) == {1}
