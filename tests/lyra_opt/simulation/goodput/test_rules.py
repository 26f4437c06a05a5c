"""The scaling rule that knows goodput, asked as a simulation asks it."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.goodput.allocation import TunedKnapsackScaling
from lyra_opt.simulation.goodput.tuning import TunedSpeed
from lyra_opt.simulation.job_run import JobRates, JobRun, Part
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.workload import Job


def running(
    order: int,
    *,
    base: int = 2,
    most: int = 6,
    workers: int | None = None,
    work_worker_s: float = 20000.0,
    gpus_per_worker: int = 1,
    now_s: float = 3600.0,
) -> JobRun:
    job = Job(
        id=f"job-{order}",
        submit_s=0.0,
        work_worker_s=work_worker_s,
        min_workers=base,
        max_workers=most,
        gpus_per_worker=gpus_per_worker,
    )
    run = JobRun(job, order, work_worker_s, JobRates(1.0, base, (), ()))
    run.parts = [Part(0, {}, base=base)]
    run.workers = base if workers is None else workers
    run.updated_s = now_s
    return run


def ask(rule: TunedKnapsackScaling, runs: list[JobRun], free_gpus: int) -> list[int]:
    """Return the extra workers that the rule gives."""
    kernel = SimpleNamespace(speed=Speed(Cluster.of_servers(1), tuned=rule.tuned))
    return rule.extra_workers(kernel, runs, free_gpus, name="epoch")


@st.composite
def epochs_of_runs(draw: st.DrawFn) -> tuple[list[JobRun], int]:
    runs = []
    for order in range(draw(st.integers(1, 4))):
        base = draw(st.integers(1, 3))
        most = base + draw(st.integers(1, 3))
        runs.append(
            running(
                order,
                base=base,
                most=most,
                workers=draw(st.integers(base, most)),
                work_worker_s=draw(st.floats(100, 1e6)),
                gpus_per_worker=draw(st.integers(1, 2)),
            )
        )
    held = sum(run.flexible_workers * run.job.gpus_per_worker for run in runs)
    return runs, held + draw(st.integers(0, 6))


def fits(runs: list[JobRun], extra: list[int], free_gpus: int) -> bool:
    return (
        all(
            0 <= more <= run.job.max_workers - run.job.min_workers
            for run, more in zip(runs, extra, strict=True)
        )
        and sum(more * run.job.gpus_per_worker for run, more in zip(runs, extra, strict=True))
        <= free_gpus
    )


@given(epochs_of_runs())
def test_it_fills_no_more_than_there_is(asked):
    runs, free_gpus = asked
    extra = ask(TunedKnapsackScaling(TunedSpeed()), runs, free_gpus)
    assert fits(runs, extra, free_gpus)


@given(epochs_of_runs())
def test_the_tuned_knapsack_reduces_running_times_most(asked):
    runs, free_gpus = asked
    speed = TunedSpeed()

    def left_s(extra: tuple[int, ...]) -> float:
        return sum(
            run.left / speed.rate(run.job, run.job.min_workers + more)
            for run, more in zip(runs, extra, strict=True)
        )

    ranges = [range(run.job.max_workers - run.job.min_workers + 1) for run in runs]
    least = min(
        left_s(extra) for extra in itertools.product(*ranges) if fits(runs, list(extra), free_gpus)
    )
    extra = ask(TunedKnapsackScaling(speed), runs, free_gpus)
    assert left_s(tuple(extra)) == pytest.approx(least)
