"""Pollux's workloads: layouts of its trace files, and jobs whose batch sizes Pollux adapts.

Source: the public repository petuum/adaptdl, branch osdi21-artifact (Apache licence 2.0, copyright
2020 Petuum, Inc.). Its trace files are the CSV files in the folders ``workloads*`` of benchmark/
and simulator/, and are not part of this package. They have the start, application, replicas and
batch size of each job, but no running times. Running times follow from the authors' measurements of
the six applications: ``adaptdl_runs.csv`` in this folder has the steps to completion and the
seconds per step on servers of four T4, computed by ``get_configurations`` of
simulator/applications.py and rounded to four digits.
"""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from lyra_opt.core.errors import UserError
from lyra_opt.core.rules import require_integer
from lyra_opt.instances.rows import MILLISECONDS, Row
from lyra_opt.instances.traces import TraceJob, locate, model_name, not_there
from lyra_opt.instances.workloads.tables import TableLayout
from lyra_opt.simulation.goodput.model import PROFILES, fixed_duration_s
from lyra_opt.simulation.workload import Job, Workload

RUNS = "adaptdl_runs.csv"
T4 = "t4"
NOT_MEASURED = "whose combination of application, replicas and batch size was never measured"


class MeasuredRun(NamedTuple):
    """A measured training run: its number of steps to completion, and its seconds per step."""

    steps: int
    step_s: float


@cache
def measured_runs() -> dict[tuple[str, int, int], MeasuredRun]:
    """Return Pollux's measured training runs by application, replicas and batch size."""
    text = (files("lyra_opt.instances.workloads") / RUNS).read_text(encoding="utf-8")
    return {
        (row["application"], int(row["num_replicas"]), int(row["batch_size"])): MeasuredRun(
            int(row["steps"]), float(row["step_s"])
        )
        for row in csv.DictReader(text.splitlines())
    }


def _job(row: Row) -> TraceJob | str:
    job_id, application = row.required("name"), row.required("application")
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
        "The trace has no running times. They follow from Pollux's measurements on T4 GPUs, with "
        "the replicas and the batch size of the trace; each replica has one GPU.",
    ),
    measured_on=T4,
)


POLLUX_FILES = tuple(f"workload-{number}.csv" for number in range(1, 9))
"""The files of Pollux's workloads, one per workload."""

MOST_GPUS = 64
"""The most GPUs of a job; Pollux's simulator has no measurements for more."""

ASSUMPTIONS = (
    "Eight hours of Pollux's simulations (OSDI 2021, section 5.3): 160 jobs drawn from Philly's "
    "trace by its authors, each of which trains one of six models.",
    "Every job can use from 1 GPU to the largest number that its largest batch allows, "
    f"at most {MOST_GPUS}, and can be restarted. Its work is that of all epochs that the authors "
    "measured on their T4 GPUs.",
)


def pollux_jobs(number: int) -> Workload:
    """Return the jobs of one of Pollux's eight workloads.

    Parameters
    ----------
    number
        The number of the workload, from 1 to 8, which is the number of its file.

    Raises
    ------
    FieldError
        If `number` is out of range.
    UserError
        If the file is neither in the working folder nor in the folder of traces.
    """
    require_integer("number", number, minimum=1, maximum=len(POLLUX_FILES))
    path = locate(POLLUX_FILES[number - 1])
    if not path.is_file():
        raise UserError(
            f"workload pollux reads {path.name} of Pollux's artifact, which is {not_there()}"
        )
    profiles = {profile.application: profile for profile in PROFILES}
    jobs = []
    for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
        profile = profiles[row["application"]]
        jobs.append(
            Job(
                id=row["name"],
                submit_s=float(row["time"]),
                work_worker_s=fixed_duration_s(profile, 1, 1),
                max_workers=min(profile.most_gpus, MOST_GPUS),
                checkpoints=True,
                model=profile.application,
            )
        )
    return Workload(
        name=f"pollux-{number}", jobs=tuple(jobs), assumptions=ASSUMPTIONS, measured_on=T4
    )
