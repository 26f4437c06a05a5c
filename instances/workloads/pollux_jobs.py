"""The workloads of Pollux's simulations, as jobs that Pollux runs.

Each is elastic from one GPU on: it trains one of six models (`PROFILES`) from beginning to end, at
whatever batch size. Its work is counted by its time on one GPU with the initial batch size of its
model. Source: ``simulator/workloads`` of the public repository petuum/adaptdl, branch
osdi21-artifact (Apache licence 2.0, copyright 2020 Petuum, Inc.). Its files do not come along.
"""

from __future__ import annotations

import csv

from lyra_opt.core.errors import UserError
from lyra_opt.core.validation import require_integer
from lyra_opt.instances.traces import NOT_THERE, locate
from lyra_opt.instances.workloads.adaptdl import T4
from lyra_opt.simulation.goodput.model import PROFILES, fixed_duration_s
from lyra_opt.simulation.workload import Job, Workload

POLLUX_FILES = tuple(f"workload-{number}.csv" for number in range(1, 9))
"""One a workload."""

MOST_GPUS = 64
"""Of a job; Pollux's simulator has no measurements of more."""

ASSUMPTIONS = (
    "Eight hours of Pollux's simulations (OSDI 2021, section 5.3): 160 jobs drawn from Philly's "
    "trace by its authors, each of which trains one of six models.",
    "Every job can use from 1 GPU to as many as its largest batch can be divided among, "
    f"{MOST_GPUS} at most, and can be restarted. Its work is that of all epochs that its authors "
    "measured, on their T4 GPUs.",
)


def pollux_jobs(number: int) -> Workload:
    """Return one of Pollux's workloads.

    Parameters
    ----------
    number
        Which, from 1 on: the place of its file in `POLLUX_FILES`.

    Raises
    ------
    FieldError
        If there is no such workload.
    UserError
        If its file is neither here nor in the folder of published traces.
    """
    require_integer("number", number, minimum=1, maximum=len(POLLUX_FILES))
    path = locate(POLLUX_FILES[number - 1])
    if not path.is_file():
        raise UserError(
            f"workload pollux reads {path.name} of Pollux's artifact, which is {NOT_THERE}"
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
