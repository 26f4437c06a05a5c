"""The trace of Alibaba's PAI cluster of 2020: a task table and a job table, without headers."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lyra_opt.core.csv_text import csv_rows
from lyra_opt.core.documents import read_text
from lyra_opt.core.errors import InputError
from lyra_opt.instances.rows import LARGEST_COUNT, Row
from lyra_opt.instances.traces import LARGEST_TRACE_BYTES, Clusters, TraceJob
from lyra_opt.instances.workloads.layout import (
    NO_GPUS,
    NOT_ENDED,
    Found,
    TraceLayout,
    count_memory,
    first_row,
)

PAI_JOB_COLUMNS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
PAI_TASK_COLUMNS = (
    *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
    *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
)
_PAI_STATUSES = frozenset({"Running", "Terminated", "Failed", "Waiting"})
_IGNORED = ("plan_cpu", "plan_mem", "gpu_type", "inst_id")
SUBMISSION_BYTES, TASK_BYTES = 300, 300
"""Memory in bytes of a row of the job table, and of a row of the task table."""

_PAI_STATUS = PAI_JOB_COLUMNS.index("status")


class PaiTables(TraceLayout):
    """The layout of Alibaba's task table and job table; the user names one of the two files."""

    name = "Alibaba PAI 2020 pai_task_table and pai_job_table"
    form = f"{len(PAI_TASK_COLUMNS)} and {len(PAI_JOB_COLUMNS)} columns, no header"

    def likeness(self, text: str, header: Sequence[str]) -> int:  # noqa: ARG002
        """Return 20 if the first row matches one of the two tables, else 0."""
        return 2 * len(PAI_TASK_COLUMNS) if _is_pai(header) else 0

    def read(self, source: str, text: str, vc: str | None) -> Found:
        """Return the jobs of both tables; the second table must be in the same folder."""
        if not _is_pai(header := first_row(text)):
            raise InputError(source, f"is not one of Alibaba's tables, which have {self.form}")
        return _read_pai(source, text, header, vc)


PAI = PaiTables()


def _is_pai(header: Sequence[str]) -> bool:
    row = tuple(header)
    if row in (PAI_JOB_COLUMNS, PAI_TASK_COLUMNS):  # somebody added a header
        return True
    return len(row) in (len(PAI_JOB_COLUMNS), len(PAI_TASK_COLUMNS)) and (
        row[_PAI_STATUS] in _PAI_STATUSES
    )


def _read_pai(source: str, text: str, header: Sequence[str], vc: str | None) -> Found:
    Clusters(source, (), vc)
    path = Path(source)
    is_task_table = len(header) == len(PAI_TASK_COLUMNS)
    here, there = ("task", "job") if is_task_table else ("job", "task")
    other = path.with_name(path.name.replace(f"{here}_table", f"{there}_table"))
    has_other = other != path and other.is_file()
    if not is_task_table and not has_other:
        raise InputError(
            source,
            "is Alibaba's job table, which has no GPUs; pai_task_table.csv must be beside it",
        )
    other_text = ""
    if has_other:
        other_text = read_text(str(other), LARGEST_TRACE_BYTES)
        count_memory(sys.getsizeof(other_text))
    tables = [(source, text), (str(other), other_text)]
    (task_source, task_text), (job_source, job_text) = tables if is_task_table else tables[::-1]
    found = Found()
    submissions: dict[str, _Submission] = {}
    for row in _pai_rows(job_source, job_text, PAI_JOB_COLUMNS):
        with found.bad_rows:
            row.require_width(len(PAI_JOB_COLUMNS), "the table")
            submitted_ms = row.milliseconds("start_time") if row.has("start_time") else None
            user = row.text("user") or None
            submissions[row.required("job_name")] = _Submission(submitted_ms, user)
            count_memory(SUBMISSION_BYTES)
    _add_pai_jobs(found, _pai_rows(task_source, task_text, PAI_TASK_COLUMNS), submissions)
    found.ignore(_IGNORED if job_text else _IGNORED[:3])
    found.remarks.append(
        "The GPUs of a job are the sum over all its tasks, including shares of GPUs, rounded up. "
        "A job with one instance can have part of a GPU. "
        "The job holds them from the start of its first task with GPUs to the end of its last."
    )
    if job_text:
        found.remarks.append("The user of a job is its tenant.")
    else:
        found.remarks.append(
            "There is no job table, so the submission time of a job is the start of its first "
            "task, and tenants are not known."
        )
    return found


class _Submission(NamedTuple):
    """The submission time of a job and its user; None for each that is not known."""

    submitted_ms: int | None = None
    user: str | None = None


@dataclass(slots=True)
class _PaiJob:
    """The tasks of a job that use GPUs.

    ``row`` is the row of the first of these tasks in the trace. ``gpu_percent`` is the sum of their
    GPUs, where 100 is one GPU, and ``instances`` the number of their instances. ``start_ms`` and
    ``end_ms`` are the start of the first task and the end of the last.
    """

    row: int
    gpu_percent: int = 0
    instances: int = 0
    start_ms: int | None = None
    end_ms: int = 0
    has_ended: bool = True

    @property
    def is_slice(self) -> bool:
        """Whether the only instance of the job requests part of a GPU."""
        return self.instances == 1 and self.gpu_percent < 100


def _add_pai_jobs(found: Found, rows: Iterable[Row], submissions: dict[str, _Submission]) -> None:
    """Add the jobs of a task table; a job with a dropped row is dropped completely."""
    tasks_of: dict[str, _PaiJob] = {}
    names, bad = set(), set()
    counted = 0
    for row in rows:
        count = found.bad_rows.count
        with found.bad_rows:
            row.require_width(len(PAI_TASK_COLUMNS), "the table")
            name = row.required("job_name")
            names.add(name)
            count_memory(TASK_BYTES)
            counted += TASK_BYTES
            _add_task(tasks_of, name, row)
        if found.bad_rows.count > count:
            bad.add(row.values[0].strip())
    # The task rows are freed before the jobs are built, so their memory no longer counts.
    count_memory(-counted)
    without = len(names - tasks_of.keys() - bad)
    if without:
        found.left_out[NO_GPUS] = without
    for name, job in tasks_of.items():
        if name in bad:
            continue
        if not job.has_ended or job.start_ms is None:
            found.add(job.row, NOT_ENDED)
            continue
        submitted_ms, user = submissions.get(name, _Submission())
        trace_job = TraceJob(
            name,
            job.start_ms if submitted_ms is None else submitted_ms,
            job.end_ms - job.start_ms,
            -(-job.gpu_percent // 100),
            tenant=user,
            gpu_thousandths=10 * job.gpu_percent if job.is_slice else None,
        )
        found.add(job.row, trace_job)


def _add_task(tasks_of: dict[str, _PaiJob], name: str, row: Row) -> None:
    thousandths = row.thousandths("plan_gpu") if row.has("plan_gpu") else 0
    instances = row.count("inst_num") if row.has("inst_num") else None
    if not thousandths or instances == 0:
        return
    job = tasks_of.setdefault(name, _PaiJob(row.number))
    if instances is None:
        job.has_ended = False
        return
    job.instances += instances
    job.gpu_percent += -(-thousandths // 1000) * instances
    if job.gpu_percent > 100 * LARGEST_COUNT:
        raise row.error("plan_gpu", f"must give a job {LARGEST_COUNT} GPUs at most")
    if not (row.has("start_time") and row.has("end_time")):
        job.has_ended = False
        return
    start_ms, end_ms = row.milliseconds("start_time"), row.milliseconds("end_time")
    if end_ms < start_ms:
        raise row.error("end_time", "must not be before start_time")
    job.start_ms = start_ms if job.start_ms is None else min(job.start_ms, start_ms)
    job.end_ms = max(job.end_ms, end_ms)


def _pai_rows(source: str, text: str, columns: tuple[str, ...]) -> Iterator[Row]:
    places = {name: place for place, name in enumerate(columns)}
    for number, values in enumerate(csv_rows(source, text.removeprefix("\ufeff")), start=1):
        if values and not (number == 1 and tuple(values) == columns):
            yield Row(source, number, places, values)
