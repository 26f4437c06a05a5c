"""Read published job traces as workloads.

`read_workload` tells the layout by what the file holds, plain or gzip. Every layout is read into
the same thing: jobs of one-GPU workers, with as many as the trace says, from the first submission
on. What a trace does not say (elasticity above all) is not made up here; see
`instances.workloads.transform.with_elasticity`.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instances.traces import (
    COLUMNS,
    LARGEST_GPUS,
    LARGEST_TRACE_BYTES,
    MILLISECONDS,
    Clusters,
    Trace,
    TraceJob,
    bad_value,
    name_of,
    parse_gpus,
    parse_milliseconds,
    read_trace,
    with_unique_ids,
)
from lyra_opt.documents import parse_json, read_text
from lyra_opt.errors import FieldError, InputError, show_value
from lyra_opt.simulation.workload import TrainingJob, Workload
from lyra_opt.validation import require_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

HOUR_MS = 3_600_000

# Reasons for which rows of a published trace are no jobs of a workload.
NO_GPUS = "without GPUs"
NOT_ENDED = "that never ran or had not ended"
NO_TIME = "that ran for no time"

_NO_VALUE = frozenset({"", "none", "nan", "nat", "null"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

PAI_JOB_COLUMNS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
PAI_TASK_COLUMNS = (
    *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
    *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
)
_PAI_STATUSES = frozenset({"Running", "Terminated", "Failed", "Waiting"})
_PAI_STATUS = PAI_JOB_COLUMNS.index("status")


@dataclass(slots=True)
class _Found:
    """What a file holds.

    Parameters
    ----------
    jobs
        (row, job) pairs, in file order.
    left_out
        How many rows were left out, by reason.
    remarks
        A sentence on each choice that the layout asks for.
    """

    jobs: list[tuple[int, TraceJob]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a table with a header; every error names file, row and column."""

    source: str
    number: int
    columns: dict[str, int]
    values: Sequence[str]

    def text(self, column: str) -> str:
        return self.values[self.columns[column]].strip()

    def error(self, column: str, rule: str) -> InputError:
        return bad_value(self.source, self.number, column, self.text(column), rule)

    def job_id(self, column: str = "job_id") -> str:
        value = self.text(column)
        if not value:
            raise self.error(column, "must not be empty")
        return value

    def milliseconds(self, column: str) -> int:
        return parse_milliseconds(self.source, self.number, column, self.text(column))

    def has(self, column: str) -> bool:
        return self.text(column).lower() not in _NO_VALUE

    def count(self, column: str) -> int:
        """Return an integer of at least 0, which some sources write as a decimal."""
        value = self.text(column)
        whole, _, decimals = value.partition(".")
        if not (whole.isascii() and whole.isdigit() and len(whole) <= 9) or decimals.strip("0"):
            raise self.error(column, "must be an integer of at least 0")
        return int(whole)

    def moment(self, column: str) -> int:
        """Return a date and time as milliseconds since 1970."""
        rule = "must be a date and time such as 2020-06-09 18:41:01"
        return _moment_ms(self.text(column), lambda: self.error(column, rule))


def _moment_ms(text: str, error: Callable[[], InputError]) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise error() from None
    if moment.tzinfo is None:  # one clock in a file: only differences matter
        moment = moment.replace(tzinfo=UTC)
    milliseconds = (moment - _EPOCH) // _MILLISECOND
    if milliseconds < 0:
        raise error()
    return milliseconds


@dataclass(frozen=True, slots=True)
class _TableLayout:
    """A published CSV table with a header.

    Parameters
    ----------
    name
        Whose it is.
    columns
        The columns by which it is known, all of which are read.
    parse
        Returns a row's job, or the reason for which it is none.
    """

    name: str
    columns: tuple[str, ...]
    parse: Callable[[_Row], TraceJob | str]


def _slurm_job(row: _Row) -> TraceJob | str:
    """Return a job of Helios or Acme.

    The running time is the end less the start: Acme's column ``duration`` counts the queuing time
    of one of its clusters too.
    """
    job_id, gpus, submission = row.job_id(), row.count("gpu_num"), row.moment("submit_time")
    if not gpus:
        return NO_GPUS
    if not (row.has("start_time") and row.has("end_time")):
        return NOT_ENDED
    start, end = row.moment("start_time"), row.moment("end_time")
    if end < start:
        raise row.error("end_time", "must not be before start_time")
    return TraceJob(job_id, submission, end - start, gpus)


def _seconds_job(submission: str) -> Callable[[_Row], TraceJob | str]:
    def parse(row: _Row) -> TraceJob | str:
        gpus = parse_gpus(row.source, row.number, row.text("num_gpu"), "num_gpu")
        return TraceJob(
            row.job_id(), row.milliseconds(submission), row.milliseconds("duration"), gpus
        )

    return parse


_SLURM_COLUMNS = ("submit_time", "start_time", "end_time")
_TABLES = (
    _TableLayout(
        "Helios cluster_log.csv", ("job_id", "vc", "gpu_num", *_SLURM_COLUMNS), _slurm_job
    ),
    _TableLayout("Acme trace_*.csv", ("job_id", "gpu_num", "type", *_SLURM_COLUMNS), _slurm_job),
    _TableLayout(
        "Tiresias",
        ("job_id", "num_gpu", "submit_time", "duration"),
        _seconds_job("submit_time"),
    ),
    _TableLayout(
        "Microsoft ITP (ElasticFlow)",
        ("job_id", "submission_time", "duration", "num_gpu"),
        _seconds_job("submission_time"),
    ),
)
KNOWN_LAYOUTS = (
    f"this project's CSV ({', '.join(COLUMNS)})",
    "Microsoft Philly cluster_job_log (a JSON list)",
    *(f"{table.name} ({', '.join(table.columns)})" for table in _TABLES),
    f"Alibaba PAI 2020 pai_task_table and pai_job_table ({len(PAI_TASK_COLUMNS)} and "
    f"{len(PAI_JOB_COLUMNS)} columns, no header)",
)


def read_workload(path: str | Path, *, vc: str | None = None) -> Workload:
    """Read a job trace in any of the `KNOWN_LAYOUTS`.

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
    S-Lab-System-Group/HeliosData, InternLM/AcmeTrace, alibaba/clusterdata (cluster-trace-gpu-v2020)
    and microsoft/elasticflow-traces, and SymbioticLab/Tiresias, simulator/60_job.csv.
    """
    source = str(path)
    text = read_text(source, LARGEST_TRACE_BYTES).removeprefix("\ufeff")
    if text.lstrip()[:1] == "[":
        found = _read_philly(source, text, vc)
    else:
        found = _read_table(source, text, vc)
    return _workload_of(source, found)


def _workload_of(source: str, found: _Found) -> Workload:
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
        jobs=tuple(
            TrainingJob(
                id=job.job_id,
                submit_s=(job.submit_time_ms - first_ms) / MILLISECONDS,
                work_worker_s=job.duration_ms * job.gpus / MILLISECONDS,
                min_workers=job.gpus,
                max_workers=job.gpus,
                model=job.model,
            )
            for job in trace.jobs
        ),
        assumptions=(
            "Each worker of the trace's jobs holds one GPU, and no job is elastic "
            "unless the opposite is said below.",
            *found.remarks,
            *((f"Jobs of the trace left out: {left_out}.",) if left_out else ()),
        ),
    )


# --- tables -----------------------------------------------------------------------------------


def _read_table(source: str, text: str, vc: str | None) -> _Found:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [name.strip() for name in next(rows, [])]
        if set(COLUMNS) <= set(header):
            ours = read_trace(source, vc=vc)
            # Ids are unique already, so that the rows, which only mend them, do not matter.
            remarks = [] if vc is None else [_of_cluster(vc)]
            return _Found(list(enumerate(ours.jobs)), remarks=remarks)
        if _is_pai(header):
            return _read_pai(source, header, vc)
        return _read_known_table(source, header, rows, vc)
    except csv.Error as error:
        raise InputError(source, f"is not valid CSV: {error} (line {rows.line_num})") from None


def _read_known_table(
    source: str, header: list[str], rows: Iterator[list[str]], vc: str | None
) -> _Found:
    layout = next((table for table in _TABLES if set(table.columns) <= set(header)), None)
    if layout is None:
        raise InputError(source, _unknown_layout(header))
    for column in layout.columns:
        if header.count(column) > 1:
            raise InputError(source, f"row 1: column {column} occurs more than once")
    columns = {name: place for place, name in enumerate(header)}
    clusters = Clusters(source, header, vc)
    found = _Found(remarks=[] if vc is None else [_of_cluster(vc)])
    for number, values in enumerate(rows, start=2):
        if not values or not clusters.take(values):
            continue
        _require_width(source, number, values, len(header), "the header")
        job = layout.parse(_Row(source, number, columns, values))
        if isinstance(job, str):
            found.left_out[job] += 1
        else:
            found.jobs.append((number, job))
    clusters.require_some()
    return found


def _require_width(source: str, number: int, values: Sequence[str], width: int, other: str) -> None:
    if len(values) != width:
        fields = f"{len(values)} field" + "s" * (len(values) != 1)
        raise InputError(source, f"row {number} has {fields}, but {other} has {width}")


def _unknown_layout(header: Sequence[str]) -> str:
    """Say what is missing for the nearest layout, and which layouts there are."""
    layouts = [("this project's CSV", COLUMNS)] + [(table.name, table.columns) for table in _TABLES]
    name, columns = max(layouts, key=lambda layout: len(set(layout[1]) & set(header)))
    missing = [column for column in columns if column not in header]
    near = ""
    if len(missing) * 2 <= len(columns):
        plural = "s" * (len(missing) > 1)
        near = f" (for {name}, row 1 lacks the column{plural} {', '.join(missing)})"
    return f"is no trace in a known layout{near}; known are: {'; '.join(KNOWN_LAYOUTS)}"


def _of_cluster(vc: str) -> str:
    return f"Only the jobs of virtual cluster {vc}."


# --- Alibaba PAI 2020 -------------------------------------------------------------------------


def _is_pai(first_row: Sequence[str]) -> bool:
    row = tuple(first_row)
    if row in (PAI_JOB_COLUMNS, PAI_TASK_COLUMNS):  # a header put in front
        return True
    return len(row) in (len(PAI_JOB_COLUMNS), len(PAI_TASK_COLUMNS)) and (
        row[_PAI_STATUS] in _PAI_STATUSES
    )


def _read_pai(source: str, first_row: Sequence[str], vc: str | None) -> _Found:
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


def _pai_jobs(source: str, submissions: dict[str, int]) -> _Found:
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
    found = _Found()
    if len(names) > len(tasks_of):
        found.left_out[NO_GPUS] = len(names) - len(tasks_of)
    for name, job in tasks_of.items():
        if not job.has_ended or job.start_ms is None:
            found.left_out[NOT_ENDED] += 1
            continue
        trace_job = TraceJob(
            name,
            submissions.get(name, job.start_ms),
            job.end_ms - job.start_ms,
            -(-job.gpu_percent // 100),
        )
        found.jobs.append((job.row, trace_job))
    return found


def _pai_rows(source: str, columns: tuple[str, ...]) -> Iterator[_Row]:
    text = read_text(source, LARGEST_TRACE_BYTES).removeprefix("\ufeff")
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    places = {name: place for place, name in enumerate(columns)}
    try:
        for number, values in enumerate(rows, start=1):
            if not values or (number == 1 and tuple(values) == columns):
                continue
            _require_width(source, number, values, len(columns), "the table")
            yield _Row(source, number, places, values)
    except csv.Error as error:
        raise InputError(source, f"is not valid CSV: {error} (line {rows.line_num})") from None


# --- Microsoft Philly -------------------------------------------------------------------------


def _read_philly(source: str, text: str, vc: str | None) -> _Found:
    document = parse_json(text, source)
    found = _Found(
        remarks=["Running time is the sum over a job's attempts, GPUs the most of any of them."]
    )
    if vc is not None:
        found.remarks.append(_of_cluster(vc))
    # The shape that `Clusters` looks at: a row of one column.
    clusters = Clusters(source, ["vc"], vc)
    for number, entry in enumerate(document):
        record = _PhillyRecord(source, f"[{number}]", entry)
        if not clusters.take([record.text("vc")]):
            continue
        job = _philly_job(record)
        if isinstance(job, str):
            found.left_out[job] += 1
        else:
            found.jobs.append((number, job))
    clusters.require_some()
    return found


@dataclass(frozen=True, slots=True)
class _PhillyRecord:
    """An object of the JSON list; every error names file and path of the field."""

    source: str
    path: str
    record: Any

    def __post_init__(self) -> None:
        if not isinstance(self.record, dict):
            raise self.error("", self.record, "must be an object")

    def error(self, key: str, value: object, rule: str) -> InputError:
        where = f"{self.path}.{key}" if key else self.path
        return InputError(self.source, f"{where} is {show_value(value)}: {rule}")

    def value(self, key: str) -> Any:
        if key not in self.record:
            raise InputError(self.source, f"{self.path}.{key} is missing")
        return self.record[key]

    def text(self, key: str) -> str:
        value = self.value(key)
        try:
            return require_text(key, value)
        except FieldError:
            raise self.error(key, value, "must be text that is not empty") from None

    def records(self, key: str) -> Iterator[_PhillyRecord]:
        values = self.value(key)
        if not isinstance(values, list):
            raise self.error(key, values, "must be a list")
        for number, value in enumerate(values):
            yield _PhillyRecord(self.source, f"{self.path}.{key}[{number}]", value)

    def moment(self, key: str) -> int | None:
        """Return milliseconds since 1970; None where the log has no value."""
        value = self.value(key)
        if value is None or (isinstance(value, str) and value.lower() in _NO_VALUE):
            return None
        rule = "must be a date and time such as 2017-10-07 01:12:09"
        if not isinstance(value, str):
            raise self.error(key, value, rule)
        return _moment_ms(value, lambda: self.error(key, value, rule))


def _philly_job(record: _PhillyRecord) -> TraceJob | str:
    job_id, submission = record.text("jobid"), record.moment("submitted_time")
    if submission is None:
        rule = "must be a date and time such as 2017-10-07 01:12:09"
        raise record.error("submitted_time", record.value("submitted_time"), rule)
    duration_ms = most_gpus = attempts = 0
    for attempt in record.records("attempts"):
        start, end = attempt.moment("start_time"), attempt.moment("end_time")
        gpus = 0
        for server in attempt.records("detail"):
            held = server.value("gpus")
            if not isinstance(held, list):
                raise server.error("gpus", held, "must be a list")
            gpus += len(held)
        most_gpus = max(most_gpus, gpus)
        if start is None or end is None:
            continue
        # The log has local time, whose clock was put back by an hour in November 2017.
        if end < start - HOUR_MS:
            raise attempt.error(
                "end_time", attempt.value("end_time"), "must not be before start_time"
            )
        duration_ms += max(0, end - start)
        attempts += 1
    if not attempts:
        return NOT_ENDED
    if not most_gpus:
        return NO_GPUS
    return TraceJob(job_id, submission, duration_ms, most_gpus)
