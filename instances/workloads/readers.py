"""Read published job traces of any known layout as workloads.

`read_workload` recognises the layout by the content of the file, plain or gzip. Every layout
results in jobs of one-GPU workers, with times since the first submission. Properties that a trace
lacks, such as elasticity, are added only by
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
"""All registered trace layouts by name."""

RENAMED = "{:,} jobs share their id with another job; # and the row number are added to the id."


def read_workload(
    path: str | Path,
    *,
    vc: str | None = None,
    layout: str | None = None,
    drops_bad_rows: bool = False,
) -> Workload:
    """Return the workload of a job trace in any of the `LAYOUTS`.

    Rows without a completed job (no GPUs, never started, not ended, no running time) are left out
    and counted in the workload's ``assumptions``. The row number is appended to ids that are not
    unique. The running time is the time for which a job held its GPUs, summed over its attempts. A
    job whose last attempt has no end is left out.

    Parameters
    ----------
    path
        The file, as named in errors. It may be either of Alibaba's two tables; the other one must
        be in the same folder.
    vc
        Read only the jobs of this virtual cluster, if the layout has virtual clusters.
    layout
        The name of the layout; None recognises it by the content of the file.
    drops_bad_rows
        Whether rows with a bad value are dropped and counted in ``assumptions``. If not, the first
        bad row is an error.

    Returns
    -------
    Workload
        Jobs in the order of submission, ties in file order; the first is submitted at 0. Each
        worker has one GPU, or the part of one that ``gpu_thousandths`` states. No job is elastic
        unless the layout says so. ``measured_on`` is the GPU type of the running times, if known.

    Raises
    ------
    InputError
        If the file cannot be read, its layout is unknown, or a value breaks its rule (the error
        names row and column). Also if a column that multiplies the GPUs would be ignored, if
        reading needs more memory than allowed, or if no job is left.

    Notes
    -----
    Takes O(rows log rows) time. Sources of the layouts: those that `published` and `sacct` name;
    the README files of msr-fiddle/philly-traces and alibaba/clusterdata (cluster-trace-gpu-v2020);
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
    """Return the layout that matches a file best; `InputError` if no layout matches."""
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
        f"is not a job trace in a known layout{_nearest(text, header)}. Name its layout with "
        f"jobs.layout ({', '.join(LAYOUTS.all())}), or give the columns {', '.join(COLUMNS)}",
    )


def _nearest(text: str, header: Sequence[str]) -> str:
    """Return a hint on the columns that the most similar table layout requires, or ""."""
    tables, missing = {}, {}
    for name, layout in LAYOUTS.all().items():
        if isinstance(layout, TableLayout | OwnTable):
            tables[name] = layout.form.split(", ")
            found = layout.header(text, header) if isinstance(layout, TableLayout) else header
            missing[name] = [column for column in tables[name] if column not in found]
    name = min(missing, key=lambda each: len(missing[each]) / len(tables[each]))
    is_near = 0 < 2 * len(missing[name]) <= len(tables[name])
    return f" ({name} also requires {', '.join(missing[name])} in row 1)" if is_near else ""


def workload_of_frame(frame: pd.DataFrame, *, name: str = "data frame") -> Workload:
    """Return the workload of a pandas data frame, with the rules of `read_workload`.

    Parameters
    ----------
    frame
        A data frame with the columns of this project's traces: ``job_id``, ``submit_time_s`` or
        ``submit_time`` (date and time), ``duration_s``, ``gpus``, and optionally ``model``,
        ``batch_size``, ``weight``, ``priority``, ``deadline_s``, ``gpu_types``,
        ``gpu_thousandths`` and ``tenant`` (or ``vc``). Other columns and the index are ignored;
        errors count rows from 0.
    name
        The name of the workload in results and errors.

    Raises
    ------
    InputError
        If a column is missing, a value breaks its rule, or no job is left.

    Notes
    -----
    Takes O(rows log rows) time.
    """
    if "submit_time_s" in frame.select_dtypes(["datetime", "datetimetz"]):
        raise InputError(name, "column submit_time_s has dates; call the column submit_time")
    # pandas stores integers beside missing values or fractions as floats, and would write 8 as 8.0.
    text = frame.convert_dtypes().apply(_as_written).to_csv(index=False)
    try:
        return _workload_of(name, found_in(trace_of_text(name, text, first_row=0)))
    except InputError as error:
        raise InputError(name, error.reason.removeprefix("row 1: ")) from None  # the header


def _as_written(column: pd.Series) -> pd.Series:
    """Return a column with whole floats as the text of an integer."""
    if column.dtype.kind != "f":
        return column
    return column.astype(object).map(
        lambda value: f"{value:.17g}" if value.is_integer() else value, na_action="ignore"
    )


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
            priority=job.priority,
            deadline_s=None if job.deadline_ms is None else job.deadline_ms / MILLISECONDS,
            gpu_types=job.gpu_types,
            tenant=job.tenant,
            gpu_thousandths=job.gpu_thousandths,
            gpu_memory_mib=job.gpu_memory_mib,
        )
    except FieldError as error:  # such as too much work for a simulation
        raise InputError(source, f"job {show_value(job.job_id)}: {error}") from None
