"""Alibaba's PAI trace of 2020: two tables without a header."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lyra_opt.core.documents import read_text
from lyra_opt.core.errors import InputError
from lyra_opt.instances.traces import LARGEST_GPUS, LARGEST_TRACE_BYTES, MILLISECONDS, TraceJob
from lyra_opt.instances.workloads.layout import (
    NO_GPUS,
    NOT_ENDED,
    Found,
    Row,
    TraceLayout,
    require_width,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PAI_JOB_COLUMNS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
PAI_TASK_COLUMNS = (
    *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
    *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
)
_PAI_STATUSES = frozenset({"Running", "Terminated", "Failed", "Waiting"})
_PAI_STATUS = PAI_JOB_COLUMNS.index("status")


class PaiTables(TraceLayout):
    """Alibaba's task table and job table, of which either one is named."""

    name = "Alibaba PAI 2020 pai_task_table and pai_job_table"
    form = f"{len(PAI_TASK_COLUMNS)} and {len(PAI_JOB_COLUMNS)} columns, no header"

    def likeness(self, text: str, header: Sequence[str]) -> int:  # noqa: ARG002
        """See `TraceLayout`."""
        return 2 * len(PAI_TASK_COLUMNS) if _is_pai(header) else 0

    def read(self, source: str, text: str, vc: str | None) -> Found:
        """See `TraceLayout`."""
        first_row = [name.strip() for name in next(csv.reader(io.StringIO(text, newline="")), [])]
        return _read_pai(source, first_row, vc)


PAI = PaiTables()


def _is_pai(first_row: Sequence[str]) -> bool:
    row = tuple(first_row)
    if row in (PAI_JOB_COLUMNS, PAI_TASK_COLUMNS):  # a header put in front
        return True
    return len(row) in (len(PAI_JOB_COLUMNS), len(PAI_TASK_COLUMNS)) and (
        row[_PAI_STATUS] in _PAI_STATUSES
    )


def _read_pai(source: str, first_row: Sequence[str], vc: str | None) -> Found:
    if vc is not None:
        raise InputError(source, "has no column vc: its jobs are not told apart by cluster")
    path = Path(source)
    is_task_table = len(first_row) == len(PAI_TASK_COLUMNS)
    here, there = ("task", "job") if is_task_table else ("job", "task")
    other = path.with_name(path.name.replace(f"{here}_table", f"{there}_table"))
    has_other = other != path and other.is_file()
    if not is_task_table and not has_other:
        raise InputError(
            source,
            "is Alibaba's job table, which has no GPUs: pai_task_table.csv must be beside it",
        )
    task_source = source if is_task_table else str(other)
    job_source = source if not is_task_table else str(other) if has_other else None
    submissions = {}
    if job_source is not None:
        submissions = {
            row.job_id("job_name"): row.milliseconds("start_time")
            for row in _pai_rows(job_source, PAI_JOB_COLUMNS)
            if row.has("start_time")
        }
    found = _pai_jobs(task_source, submissions)
    found.remarks.append(
        "GPUs of a job are those of all its tasks, shares of a GPU added up and rounded up to "
        "whole ones; it holds them from the start of its first task with GPUs to the end of its "
        "last one."
    )
    if job_source is None:
        found.remarks.append(
            "A job is submitted when its first task starts, for lack of a job table."
        )
    return found


@dataclass(slots=True)
class _PaiJob:
    """The tasks with GPUs of a job: the first row, GPUs in percent, and when they ran."""

    row: int
    gpu_percent: int = 0
    start_ms: int | None = None
    end_ms: int = 0
    has_ended: bool = True


def _pai_jobs(source: str, submissions: dict[str, int]) -> Found:
    tasks_of: dict[str, _PaiJob] = {}
    names = set()
    for row in _pai_rows(source, PAI_TASK_COLUMNS):
        name = row.job_id("job_name")
        names.add(name)
        gpu_ms = row.milliseconds("plan_gpu") if row.has("plan_gpu") else 0
        instances = row.count("inst_num") if row.has("inst_num") else None
        if not gpu_ms or instances == 0:
            continue
        job = tasks_of.setdefault(name, _PaiJob(row.number))
        if instances is None:
            job.has_ended = False
            continue
        job.gpu_percent += math.ceil(gpu_ms / MILLISECONDS) * instances
        if job.gpu_percent > 100 * LARGEST_GPUS:
            raise row.error("plan_gpu", f"must give a job {LARGEST_GPUS} GPUs at most")
        if not (row.has("start_time") and row.has("end_time")):
            job.has_ended = False
            continue
        start_ms, end_ms = row.milliseconds("start_time"), row.milliseconds("end_time")
        if end_ms < start_ms:
            raise row.error("end_time", "must not be before start_time")
        job.start_ms = start_ms if job.start_ms is None else min(job.start_ms, start_ms)
        job.end_ms = max(job.end_ms, end_ms)
    found = Found()
    if len(names) > len(tasks_of):
        found.left_out[NO_GPUS] = len(names) - len(tasks_of)
    for name, job in tasks_of.items():
        if not job.has_ended or job.start_ms is None:
            found.add(job.row, NOT_ENDED)
            continue
        trace_job = TraceJob(
            name,
            submissions.get(name, job.start_ms),
            job.end_ms - job.start_ms,
            -(-job.gpu_percent // 100),
        )
        found.add(job.row, trace_job)
    return found


def _pai_rows(source: str, columns: tuple[str, ...]) -> Iterator[Row]:
    text = read_text(source, LARGEST_TRACE_BYTES).removeprefix("\ufeff")
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    places = {name: place for place, name in enumerate(columns)}
    try:
        for number, values in enumerate(rows, start=1):
            if not values or (number == 1 and tuple(values) == columns):
                continue
            require_width(source, number, values, len(columns), "the table")
            yield Row(source, number, places, values)
    except csv.Error as error:
        raise InputError(source, f"is not valid CSV: {error} (line {rows.line_num})") from None
