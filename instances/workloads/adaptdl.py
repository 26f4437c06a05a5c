"""Pollux's workloads: which application starts when, on how many replicas, with which batch size.

Source: the public repository petuum/adaptdl, branch osdi21-artifact (Apache licence 2.0, copyright
its authors): the CSV files below benchmark/ and simulator/ whose folders begin with ``workloads``.
They name no running times, which follow from what its authors measured of the six applications:
``adaptdl_runs.csv`` beside this file has the steps to completion and the seconds a step, as
``get_configurations`` of simulator/applications.py works them out, on servers of four T4, rounded
to four digits.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from lyra_opt.instances.traces import MILLISECONDS, TraceJob, model_name
from lyra_opt.instances.workloads.layout import NO_GPUS
from lyra_opt.instances.workloads.tables import TableLayout

if TYPE_CHECKING:
    from lyra_opt.instances.workloads.layout import Row

RUNS = "adaptdl_runs.csv"
T4 = "t4"
NOT_MEASURED = "of an application, replicas and batch size together that were never measured"


class MeasuredRun(NamedTuple):
    """What a run of an application takes."""

    steps: int
    step_s: float


@cache
def measured_runs() -> dict[tuple[str, int, int], MeasuredRun]:
    """Return what runs take, by application, replicas and batch size."""
    text = (files("lyra_opt.instances.workloads") / RUNS).read_text(encoding="utf-8")
    return {
        (row["application"], int(row["num_replicas"]), int(row["batch_size"])): MeasuredRun(
            int(row["steps"]), float(row["step_s"])
        )
        for row in csv.DictReader(text.splitlines())
    }


def _job(row: Row) -> TraceJob | str:
    job_id, application = row.job_id("name"), row.job_id("application")
    submitted_ms = row.milliseconds("time")
    replicas, batch_size = (row.positive(column) for column in ("num_replicas", "batch_size"))
    run = measured_runs().get((application, replicas, batch_size))
    if run is None:
        return NOT_MEASURED
    return TraceJob(
        job_id,
        submitted_ms,
        round(run.steps * run.step_s * MILLISECONDS),
        replicas,
        model=model_name(application, batch_size),
        steps=float(run.steps),
    )


ADAPTDL = TableLayout(
    "Pollux workload-*.csv (adaptdl)",
    ("name", "time", "application", "num_replicas", "batch_size"),
    _job,
    remarks=(
        "The trace names no running times: they are those of Pollux's measurements on T4 GPUs, "
        "with the replicas and the batch size of the trace throughout; a replica is a GPU.",
    ),
    measured_on=T4,
)


def _philly_job(row: Row) -> TraceJob | str:
    submitted_ms, run_ms = row.moment("timestamp"), row.milliseconds("duration")
    gpus = row.count("num_gpus")
    return TraceJob(f"row-{row.number}", submitted_ms, run_ms, gpus) if gpus else NO_GPUS


ADAPTDL_PHILLY = TableLayout(
    "Pollux philly.csv (adaptdl)", ("timestamp", "duration", "num_gpus", "gpu_time"), _philly_job
)
