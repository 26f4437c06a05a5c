"""Read published job traces as workloads.

`read_workload` tells the layout by what the file holds, plain or gzip. Every layout is read into
the same thing: jobs of one-GPU workers, with as many as the trace says, from the first submission
on. What a trace does not say (elasticity above all) is not made up here; see
`lyra_opt.instances.workloads.transform.with_assumptions`.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from lyra_opt.core.documents import read_text
from lyra_opt.core.errors import FieldError, InputError, show_value
from lyra_opt.core.plugins import Plugins
from lyra_opt.instances.traces import (
    LARGEST_TRACE_BYTES,
    MILLISECONDS,
    Trace,
    name_of,
    trace_of_text,
    with_unique_ids,
)
from lyra_opt.instances.workloads.layout import NO_TIME, Found, TraceLayout
from lyra_opt.instances.workloads.tables import OwnTable, TableLayout, found_in
from lyra_opt.simulation.workload import Job, Workload

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd

    from lyra_opt.instances.traces import TraceJob

LAYOUTS = Plugins("lyra_opt.trace_layouts", "trace layout", TraceLayout, checks_names=False)
"""All layouts by name."""


def read_workload(path: str | Path, *, vc: str | None = None) -> Workload:
    """Read a job trace in any of the `LAYOUTS`.

    Rows that are no jobs of a workload (without GPUs, never started, not ended, no running time)
    are left out and counted in the workload's ``assumptions``. Ids that occur more than once get
    their row appended. Running time is what the job held its GPUs for; of several attempts, their
    sum.

    Parameters
    ----------
    path
        The file; its name appears in every error as given. Of Alibaba's two tables either one;
        the other is looked for beside it, by name.
    vc
        Only the jobs of this virtual cluster, where the layout has them.

    Returns
    -------
    Workload
        Jobs in the order of submission (equal times: of rows), the first at 0. Workers hold one
        GPU each; minimum and maximum are what the trace says.

    Raises
    ------
    InputError
        If the file cannot be read or its layout is not known, if a value breaks its rule (names
        row and column), or if no job is left.

    Notes
    -----
    Time O(rows log rows). Sources of the layouts: the README files of msr-fiddle/philly-traces,
    S-Lab-System-Group/HeliosData, InternLM/AcmeTrace, alibaba/clusterdata (cluster-trace-gpu-v2020
    and -v2023) and microsoft/elasticflow-traces; SymbioticLab/Tiresias, simulator/60_job.csv;
    stanford-futuredata/gavel, scheduler/utils.py; petuum/adaptdl, branch osdi21-artifact; the
    Standard Workload Format of the Parallel Workloads Archive.
    """
    source = str(path)
    text = read_text(source, LARGEST_TRACE_BYTES).removeprefix("\ufeff")
    try:
        header = [name.strip() for name in next(csv.reader(io.StringIO(text, newline="")), [])]
    except csv.Error:
        header = []
    found: list[tuple[int, str, TraceLayout]] = [
        (-layout.likeness(text, header), name, layout) for name, layout in LAYOUTS.all().items()
    ]
    unlikeness, _, layout = min(found, key=lambda each: each[:2])
    try:
        if not unlikeness:
            # A file that is no CSV at all says so first.
            for _ in csv.reader(io.StringIO(text, newline=""), strict=True):
                break
            raise InputError(source, _unknown_layout(header))
        return _workload_of(source, layout.read(source, text, vc))
    except csv.Error as error:
        raise InputError(source, f"is not valid CSV: {error}") from None


def workload_of_frame(frame: pd.DataFrame, *, name: str = "data frame") -> Workload:
    """Return the jobs of a data frame, as `read_workload` does those of a file.

    Parameters
    ----------
    frame
        With the columns of this project's traces: ``job_id``, ``submit_time_s`` or ``submit_time``
        (moments), ``duration_s``, ``gpus``, and any of ``model``, ``batch_size``, ``weight``,
        ``deadline_s``, ``gpu_types``; what is missing is not known. Others are passed over. Its
        index does not matter; errors count rows from 0.
    name
        What the workload is called in results, and in errors.

    Raises
    ------
    InputError
        If a column is missing, a value breaks its rule, or no job is left.

    Notes
    -----
    Time O(rows log rows).
    """
    # Counts beside missing values are floats in pandas, and would be written as 8.0.
    text = frame.convert_dtypes().to_csv(index=False)
    return _workload_of(name, found_in(trace_of_text(name, text, first_row=0)))


def known_layouts() -> list[str]:
    """Return what layouts there are, in words."""
    return [f"{layout.name} ({layout.form})" for layout in LAYOUTS.all().values()]


def _workload_of(source: str, found: Found) -> Workload:
    jobs = []
    for number, job in found.jobs:
        if job.duration_ms:
            jobs.append((number, job))
        else:
            found.left_out[NO_TIME] += 1
    left_out = "; ".join(f"{count:,} {why}" for why, count in sorted(found.left_out.items()))
    if not jobs:
        raise InputError(source, "holds no jobs" + (f"; left out: {left_out}" if left_out else ""))
    trace = Trace(
        name_of(source), tuple(sorted(with_unique_ids(jobs), key=lambda job: job.submit_time_ms))
    )
    first_ms = trace.jobs[0].submit_time_ms
    return Workload(
        name=trace.name or "trace",
        jobs=tuple(_job_of(source, job, first_ms) for job in trace.jobs),
        assumptions=(
            "Each worker of the trace's jobs holds one GPU, and no job is elastic "
            "unless the opposite is said below.",
            *found.remarks,
            *(
                f"{said} ({count:,} job{'s' * (count != 1)})."
                for said, count in sorted(found.noted.items())
            ),
            *((f"Jobs of the trace left out: {left_out}.",) if left_out else ()),
        ),
    )


def _job_of(source: str, job: TraceJob, first_ms: int) -> Job:
    try:
        return Job(
            id=job.job_id,
            submit_s=(job.submit_time_ms - first_ms) / MILLISECONDS,
            work_worker_s=job.duration_ms * job.gpus / MILLISECONDS,
            min_workers=job.gpus,
            max_workers=job.gpus,
            model=job.model,
            steps=job.steps,
            weight=job.weight,
            deadline_s=None if job.deadline_ms is None else job.deadline_ms / MILLISECONDS,
            gpu_types=job.gpu_types,
        )
    except FieldError as error:  # such as more work than a simulation can tell apart
        raise InputError(source, f"job {show_value(job.job_id)}: {error}") from None


def _unknown_layout(header: Sequence[str]) -> str:
    """Say what is missing for the nearest layout, and which layouts there are."""
    tables = [
        (layout.name, layout.form.split(", "))
        for layout in LAYOUTS.all().values()
        if isinstance(layout, TableLayout | OwnTable)
    ]
    name, columns = max(tables, key=lambda table: len(set(table[1]) & set(header)))
    missing = [column for column in columns if column not in header]
    near = ""
    if len(missing) * 2 <= len(columns):
        plural = "s" * (len(missing) > 1)
        near = f" (for {name}, row 1 lacks the column{plural} {', '.join(missing)})"
    return f"is no trace in a known layout{near}; known are: {'; '.join(known_layouts())}"
