"""The scaling rule that knows goodput, asked as a simulation asks it."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.goodput.allocation import TunedKnapsackScaling
from lyra_opt.simulation.goodput.tuning import TunedSpeed
from lyra_opt.simulation.job_run import JobRates, JobRun, Part
from lyra_opt.simulation.speed import Speed
from tests.lyra_opt.simulation.replays import job_of

if TYPE_CHECKING:
    from collections.abc import Sequence


def running(order: int, *, workers: int, work_worker_s: float, base: int, **fields: int) -> JobRun:
    """Return a job that has run for an hour, with so many workers."""
    job = job_of(f"job-{order}", 0, work_worker_s / base, base, **fields)
    run = JobRun(job, order, work_worker_s, JobRates(1.0, base, (), ()))
    run.parts, run.workers, run.updated_s = [Part(0, {}, base=base)], workers, 3600.0
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
                max_workers=most,
                workers=draw(st.integers(base, most)),
                work_worker_s=draw(st.floats(100, 1e6)),
                gpus_per_worker=draw(st.integers(1, 2)),
            )
        )
    held = sum(run.flexible_workers * run.job.gpus_per_worker for run in runs)
    return runs, held + draw(st.integers(0, 6))


def fits(runs: list[JobRun], extra: Sequence[int], free_gpus: int) -> bool:
    gpus = sum(more * run.job.gpus_per_worker for run, more in zip(runs, extra, strict=True))
    return gpus <= free_gpus and all(
        0 <= more <= run.job.max_workers - run.job.min_workers
        for run, more in zip(runs, extra, strict=True)
    )


@given(epochs_of_runs())
def test_the_tuned_knapsack_reduces_running_times_most(asked):
    """And fills no more than there is."""
    runs, free_gpus = asked
    speed = TunedSpeed()

    def left_s(extra: Sequence[int]) -> float:
        return sum(
            run.left / speed.rate(run.job, run.job.min_workers + more)
            for run, more in zip(runs, extra, strict=True)
        )

    ranges = [range(run.job.max_workers - run.job.min_workers + 1) for run in runs]
    fitting = [extra for extra in itertools.product(*ranges) if fits(runs, extra, free_gpus)]
    extra = ask(TunedKnapsackScaling(speed), runs, free_gpus)
    assert fits(runs, extra, free_gpus)
    assert left_s(extra) == pytest.approx(min(map(left_s, fitting)))
