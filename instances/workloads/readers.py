"""Read published job traces as workloads.

`read_workload` tells the layout by what the file holds, plain or gzip. Every layout is read into
the same thing: jobs of one-GPU workers, with as many as the trace says, from the first submission
on. What a trace does not say (elasticity above all) is not made up here; see
`lyra_opt.instances.workloads.transform.with_assumptions`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from lyra_opt.core.csv_text import require_commas
from lyra_opt.core.documents import read_text
from lyra_opt.core.errors import FieldError, InputError, counted, show_value
from lyra_opt.core.plugins import Plugins
from lyra_opt.core.reading_memory import ReadingMemory
from lyra_opt.instances.rows import MILLISECONDS
from lyra_opt.instances.traces import (
    COLUMNS,
    LARGEST_TRACE_BYTES,
    name_of,
    renamed_of,
    trace_of_text,
    with_unique_ids,
)
from lyra_opt.instances.workloads.layout import (
    DROPS_BAD_ROWS,
    MEMORY,
    NO_TIME,
    Found,
    TraceLayout,
    first_row,
)
from lyra_opt.instances.workloads.tables import OwnTable, TableLayout, found_in
from lyra_opt.simulation.workload import Job, Workload

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd

    from lyra_opt.instances.traces import TraceJob

LAYOUTS = Plugins("lyra_opt.trace_layouts", "trace layout", TraceLayout, checks_names=False)
"""All layouts by name."""

RENAMED = "{:,} jobs share an id with others; # and their row are added to it."


def read_workload(
    path: str | Path,
    *,
    vc: str | None = None,
    layout: str | None = None,
    drops_bad_rows: bool = False,
) -> Workload:
    """Read a job trace in any of the `LAYOUTS`.

    Rows that do not describe a job that ran (without GPUs, never started, not ended, no running
    time) are left out and counted in the workload's ``assumptions``. Ids that occur more than once
    get their row appended. Running time is the time for which the job held its GPUs; of several
    attempts, their sum. A job whose last attempt has no end is left out.

    Parameters
    ----------
    path
        The file; its name appears in every error as given. Of Alibaba's two tables either one;
        the other is looked for beside it, by name.
    vc
        Only the jobs of this virtual cluster, where the layout has them.
    layout
        The name of the layout; None finds it by the content of the file.
    drops_bad_rows
        Whether rows with a value that breaks its rule are dropped and counted in ``assumptions``.
        Otherwise the first of them is an error.

    Returns
    -------
    Workload
        Jobs in the order of submission (equal times: of rows), the first at 0. Workers hold one
        GPU each; minimum and maximum are those of the trace. ``measured_on`` is the GPU type of
        the layout's running times, where it is known.

    Raises
    ------
    InputError
        If the file cannot be read or its layout is not known, if a value breaks its rule (names
        row and column), if a column that multiplies the GPUs would be ignored, if reading needs
        more memory than allowed, or if no job is left.

    Notes
    -----
    Time O(rows log rows). Sources of the layouts: the README files of msr-fiddle/philly-traces,
    S-Lab-System-Group/HeliosData, InternLM/AcmeTrace, alibaba/clusterdata (cluster-trace-gpu-v2020
    and -v2023) and microsoft/elasticflow-traces; SymbioticLab/Tiresias, simulator/60_job.csv;
    stanford-futuredata/gavel, scheduler/utils.py; petuum/adaptdl, branch osdi21-artifact; the
    Standard Workload Format of the Parallel Workloads Archive.
    """
    source = str(path)
    named: TraceLayout | None = None if layout is None else LAYOUTS.find(layout)
    text = read_text(source, LARGEST_TRACE_BYTES).removeprefix("\ufeff")
    reader = _layout_of(source, text) if named is None else named
    memory = MEMORY.set(ReadingMemory(source, sys.getsizeof(text)))
    drops = DROPS_BAD_ROWS.set(drops_bad_rows)
    try:
        found = reader.read(source, text, vc)
    finally:
        MEMORY.reset(memory)
        DROPS_BAD_ROWS.reset(drops)
    return _workload_of(source, found, reader.measured_on)


def _layout_of(source: str, text: str) -> TraceLayout:
    """Return the layout that is surest of a file; `InputError` if no layout recognises it."""
    header = first_row(text)
    found: list[tuple[int, str, TraceLayout]] = [
        (-layout.likeness(text, header), name, layout) for name, layout in LAYOUTS.all().items()
    ]
    unlikeness, _, layout = min(found, key=lambda each: each[:2])
    if unlikeness:
        return layout
    if len(header) == 1:
        require_commas(source, header[0])
    raise InputError(
        source,
        f"is not a job trace in a known layout{_nearest(header)}. Name its layout with "
        f"jobs.layout ({', '.join(LAYOUTS.all())}), or give the columns {', '.join(COLUMNS)}",
    )


def _nearest(header: Sequence[str]) -> str:
    """Return the columns that the nearest table lacks, in brackets; nothing if none is near."""
    tables = {
        name: layout.form.split(", ")
        for name, layout in LAYOUTS.all().items()
        if isinstance(layout, TableLayout | OwnTable)
    }
    missing = {
        name: [column for column in columns if column not in header]
        for name, columns in tables.items()
    }
    name = min(missing, key=lambda each: len(missing[each]) / len(tables[each]))
    is_near = 0 < 2 * len(missing[name]) <= len(tables[name])
    return f" ({name} would need {', '.join(missing[name])} in row 1)" if is_near else ""


def workload_of_frame(frame: pd.DataFrame, *, name: str = "data frame") -> Workload:
    """Return the jobs of a data frame, as `read_workload` does those of a file.

    Parameters
    ----------
    frame
        With the columns of this project's traces: ``job_id``, ``submit_time_s`` or ``submit_time``
        (moments), ``duration_s``, ``gpus``, and any of ``model``, ``batch_size``, ``weight``,
        ``deadline_s``, ``gpu_types``; what is missing is not known. Others are ignored. Its
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


def _workload_of(source: str, found: Found, measured_on: str | None = None) -> Workload:
    jobs = []
    for number, job in found.jobs:
        if job.duration_ms:
            jobs.append((number, job))
        else:
            found.left_out[NO_TIME] += 1
    bad = found.bad_rows
    if bad.count:
        found.left_out[f"with a value that breaks its rule (the first: {bad.first})"] = bad.count
    left_out = "; ".join(f"{count:,} {why}" for why, count in sorted(found.left_out.items()))
    if not jobs:
        raise InputError(source, "holds no jobs" + (f"; left out: {left_out}" if left_out else ""))
    unique = list(with_unique_ids(jobs))
    renamed = found.renamed + renamed_of(jobs, unique)
    trace = sorted(unique, key=lambda job: job.submit_time_ms)
    first_ms = trace[0].submit_time_ms
    return Workload(
        name=name_of(source) or "trace",
        jobs=tuple(_job_of(source, job, first_ms) for job in trace),
        assumptions=(
            "Each worker of the trace's jobs holds one GPU, and no job is elastic "
            "unless the opposite is said below.",
            *found.remarks,
            *(f"{said} ({counted(count, 'job')})." for said, count in sorted(found.noted.items())),
            *((RENAMED.format(renamed),) if renamed else ()),
            *((f"Jobs of the trace left out: {left_out}.",) if left_out else ()),
        ),
        measured_on=measured_on or "",
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
