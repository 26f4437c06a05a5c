"""Workloads of any kind get steps and rates, by what their jobs say or by seed."""

from dataclasses import replace

import pytest

from lyra_opt.heterogeneous.utility import Deadline
from lyra_opt.instances.heterogeneous.clusters import types_of
from lyra_opt.instances.heterogeneous.throughput_files import gavel_throughputs
from lyra_opt.instances.heterogeneous.workload_throughputs import with_throughputs
from lyra_opt.simulation.workload import Workload
from tests.instances.heterogeneous.test_generated_jobs import (
    MEASURED_TYPES,
    digest,
    gangs_of,
    trace_of,
    v100_hours,
)

TABLE = gavel_throughputs()
TRACE = trace_of((0.0, 1.0, 1), (1.0, 2.0, 3), (2.0, 3.0, 16), (2.5, 0.5, 8))

SILENT_DIGEST = "8b18adfe3b84"
"""Of `TRACE`, whose jobs say no model, with seed 0."""


def saying(trace, *models):
    """Return a trace whose jobs say their models."""
    jobs = zip(trace.jobs, models, strict=True)
    return replace(trace, jobs=tuple(replace(job, model=model) for job, model in jobs))


def test_jobs_that_say_nothing():
    """Their times and gangs stay, and a seed gives the same bytes for ever."""
    workload = with_throughputs(TRACE, TABLE, MEASURED_TYPES, seed=0)
    assert v100_hours(workload) == pytest.approx([1, 2, 3, 0.5])
    assert [job.min_gpus for job in workload.jobs] == [1, 3, 16, 8]
    assert [job.submit_s for job in workload.jobs] == [0, 3600, 7200, 9000]
    assert any("names no model (4 jobs)" in sentence for sentence in workload.assumptions)
    assert any("next smaller" in sentence for sentence in workload.assumptions)
    assert digest(workload) == SILENT_DIGEST


def test_measured_gangs_need_no_scaling():
    """Then nothing is said of it."""
    workload = with_throughputs(trace_of((0.0, 1.0, 2)), TABLE, MEASURED_TYPES, seed=0)
    assert not any("next smaller" in sentence for sentence in workload.assumptions)


def test_jobs_that_say_their_model_get_its_rates():
    """Whatever the seed; their steps are those of their running time, and they keep the model."""
    trace = saying(TRACE, "ResNet-18 (batch size 128)", "lm-20", "GPT-3", None)
    for seed in range(3):
        workload = with_throughputs(trace, TABLE, MEASURED_TYPES, seed=seed)
        first, second, _, _ = gangs_of(workload)
        assert first.throughput == TABLE.find_type("ResNet-18", 128, 1).throughput
        of_two = TABLE.find_type("LM", 20, 2)
        assert second.throughput == {name: rate * 1.5 for name, rate in of_two.throughput.items()}
        assert v100_hours(workload) == pytest.approx([1, 2, 3, 0.5])
        assert [job.model for job in workload.jobs] == [job.model for job in trace.jobs]
    told = " ".join(workload.assumptions)
    assert "of the table that jobs name are used (2 jobs)" in told
    assert "if a job names no model (1 job)" in told
    assert "lacks the model of a job (1 job: GPT-3)" in told


def test_batch_size_is_drawn_where_it_is_not_said():
    """From those of the model, and that is said; who says more is not moved by it."""
    trace = trace_of(*((0.0, 1.0, 1) for _ in range(60)))
    said = saying(trace, *("ResNet-50" for _ in range(60)))
    workload = with_throughputs(said, TABLE, MEASURED_TYPES, seed=1)
    rates = {
        TABLE.find_type("ResNet-50", batch, 1).throughput["v100"] for batch in (16, 32, 64, 128)
    }
    assert {job.throughput["v100"] for job in gangs_of(workload)} == rates
    assert any("one of the model's batch sizes" in sentence for sentence in workload.assumptions)
    mixed = saying(trace, "ResNet-50", *(None for _ in range(59)))
    silent = with_throughputs(replace(trace, jobs=trace.jobs[1:]), TABLE, MEASURED_TYPES, seed=1)
    drawn = with_throughputs(mixed, TABLE, MEASURED_TYPES, seed=1)
    assert gangs_of(drawn)[1:] == gangs_of(silent)


def test_own_steps():
    """Who says model and steps has those steps; of another model they would mean nothing."""
    trace = saying(TRACE, "LM-20", "LM-20", "GPT-3", None)
    jobs = tuple(
        replace(job, steps=steps)
        for job, steps in zip(trace.jobs, (50.0, None, 70.0, 80.0), strict=True)
    )
    workload = with_throughputs(replace(trace, jobs=jobs), TABLE, MEASURED_TYPES, seed=0)
    silent = with_throughputs(trace, TABLE, MEASURED_TYPES, seed=0)
    assert workload.jobs[0].steps == gangs_of(workload)[0].steps == 50
    assert workload.jobs[1:] == silent.jobs[1:]
    assert any("its own steps if the trace states" in sentence for sentence in workload.assumptions)
    assert not any(
        "its own steps if the trace states" in sentence for sentence in silent.assumptions
    )


def test_what_users_ask_for_is_kept():
    """And a model is drawn that runs on a type that is asked for, where there is one."""
    wishes = {"weight": 3.0, "deadline_s": 60.0, "gpu_types": ("k80",)}
    trace = trace_of(*((float(hour), 1.0, 1) for hour in range(50)))
    asking = replace(trace, jobs=tuple(replace(job, **wishes) for job in trace.jobs))
    for job in with_throughputs(asking, TABLE, MEASURED_TYPES, seed=0).jobs:
        assert {name: getattr(job, name) for name in wishes} == wishes
        assert job.measured.throughput["k80"] > 0
        assert job.measured.utility == Deadline(
            deadline_s=60.0, value=1 / 60, late_value=1 / 60 / 5
        )
    elsewhere = replace(trace, jobs=(replace(trace.jobs[0], gpu_types=("h100",)),))
    (job,) = with_throughputs(elsewhere, TABLE, MEASURED_TYPES, seed=0).jobs
    assert job.gpu_types == ("h100",)


def test_elasticity_and_estimates_are_kept():
    """So that schemes that resize and lend find on unlike GPUs what they find elsewhere."""
    (job,) = trace_of((0.0, 1.0, 2)).jobs
    elastic = replace(
        job,
        max_workers=4,
        scaling_loss=0.2,
        fungible=True,
        estimated_work_worker_s=job.work_worker_s / 2,
        model="LM-20",
    )
    workload = Workload(name="elastic", jobs=(elastic,))
    (found,) = with_throughputs(workload, TABLE, types_of(["k80", "h100"]), seed=0).jobs
    assert (found.min_workers, found.max_workers, found.scaling_loss) == (2, 4, 0.2)
    assert found.fungible
    # The H100 is faster than the reference, and counts as it.
    assert found.duration_s == pytest.approx(3600 * 900 / 3350)
    assert found.estimated_work_worker_s == pytest.approx(found.work_worker_s / 2)


def test_jobs_with_rates_keep_them():
    """A workload that has them all is not drawn again."""
    once = with_throughputs(TRACE, TABLE, MEASURED_TYPES, seed=0)
    assert with_throughputs(once, TABLE, MEASURED_TYPES, seed=5).jobs == once.jobs
