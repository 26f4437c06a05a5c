"""Trace layouts that are CSV tables with a header."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lyra_opt.core.csv_text import csv_rows
from lyra_opt.core.errors import InputError
from lyra_opt.instances.rows import Row, require_once
from lyra_opt.instances.traces import (
    COLUMNS,
    MOMENT_COLUMN,
    Clusters,
    TraceJob,
    read_trace,
    require_no_demand_column,
)
from lyra_opt.instances.workloads.layout import (
    DROPS_BAD_ROWS,
    NO_GPUS,
    NOT_ENDED,
    Found,
    TraceLayout,
    of_cluster,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lyra_opt.instances.traces import Trace


@dataclass(frozen=True)
class TableLayout(TraceLayout):
    """The layout of a published CSV table with a header.

    Parameters
    ----------
    name
        The name of the layout.
    columns
        The columns that identify the layout and are read.
    marks
        Further columns that identify the layout and are not read.
    optional
        Columns that are read if the file has them.
    is_whole
        Whether a file with any other column, except ``vc``, does not match the layout.
    measured_on
        The GPU type on which the running times were measured; None if not known.
    parse
        Returns the job of a row, or the reason why the row is left out.
    remarks
        Sentences for results on how the layout interprets the file.
    note
        Returns the note that applies to the job of a row, as in `Found.noted`; None for no note.
    """

    name: str
    columns: tuple[str, ...]
    parse: Callable[[Row], TraceJob | str]
    remarks: tuple[str, ...] = ()
    note: Callable[[Row], str | None] | None = None
    marks: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    is_whole: bool = False
    measured_on: str | None = None

    @property
    def form(self) -> str:  # type: ignore[override]
        """The columns that identify the layout, separated by commas."""
        return ", ".join((*self.columns, *self.marks))

    def likeness(self, text: str, header: Sequence[str]) -> int:  # noqa: ARG002
        """Return the number of identifying columns if the header has all of them, else 0."""
        known = {*self.columns, *self.marks}
        if not known <= set(header) or (self.is_whole and not set(header) <= {*known, "vc"}):
            return 0
        return len(known)

    def read(self, source: str, text: str, vc: str | None) -> Found:
        """Return the jobs of a table, with remarks on ignored columns and rows left out."""
        rows = csv_rows(source, text)
        header = [name.strip() for name in next(rows, [])]
        require_once(source, header, (*self.columns, *self.optional))
        if missing := [column for column in self.columns if column not in header]:
            raise InputError(source, f"row 1: {_lacks(missing)} of layout {self.name}")
        read = {*self.columns, *self.optional, "vc"}
        require_no_demand_column(source, header, read)
        columns = {name: place for place, name in enumerate(header)}
        clusters = Clusters(source, header, vc)
        found = Found(remarks=[*self.remarks, *([] if vc is None else [of_cluster(vc)])])
        found.ignore(name for name in header if name not in read)
        for number, values in enumerate(rows, start=2):
            if not values or not clusters.take(values):
                continue
            with found.bad_rows:
                row = Row(source, number, columns, values)
                row.require_width(len(header), "the header")
                job = self.parse(row)
                said = None
                if self.note is not None and not isinstance(job, str):
                    said = self.note(row)
                found.add(number, job, said)
        clusters.require_some()
        return found


def _lacks(columns: Sequence[str]) -> str:
    return f"lacks the column{'s' * (len(columns) > 1)} {', '.join(columns)}"


class OwnTable(TraceLayout):
    """The layout of this project's own traces, a CSV table."""

    name = "this project's CSV"
    form = ", ".join(COLUMNS)

    def likeness(self, text: str, header: Sequence[str]) -> int:  # noqa: ARG002
        """Return 40, more than other tables, if the header has all required columns, else 0."""
        columns = {*header, "submit_time_s"} if MOMENT_COLUMN in header else set(header)
        return 10 * len(COLUMNS) if set(COLUMNS) <= columns else 0

    def read(self, source: str, text: str, vc: str | None) -> Found:
        """Return the jobs of a trace in this project's layout."""
        drops = DROPS_BAD_ROWS.get()
        return found_in(read_trace(source, vc=vc, text=text, drops_bad_rows=drops), vc)


def found_in(ours: Trace, vc: str | None = None) -> Found:
    """Return the jobs and remarks of a trace in this project's layout.

    Row numbers are not kept, because they only serve to make ids unique, which these ids already
    are.
    """
    found = Found(
        list(enumerate(ours.jobs)),
        remarks=[] if vc is None else [of_cluster(vc)],
        renamed=ours.renamed,
    )
    found.bad_rows.count, found.bad_rows.first = ours.bad_rows, ours.first_bad_row
    found.ignore(ours.passed_over)
    return found


OWN = OwnTable()


def _slurm_job(row: Row) -> TraceJob | str:
    """Return the job of a row of the Helios or the Acme trace, or why it is left out.

    The running time is the end minus the start, because Acme's column ``duration`` includes the
    queuing time for one of its clusters.
    """
    job_id, gpus, submission = (
        row.required("job_id"),
        row.count("gpu_num"),
        row.moment("submit_time"),
    )
    if not gpus:
        return NO_GPUS
    if not (row.has("start_time") and row.has("end_time")):
        return NOT_ENDED
    start, end = row.moment("start_time"), row.moment("end_time")
    if end < start:
        raise row.error("end_time", "must not be before start_time")
    tenant = row.text("vc") if "vc" in row.columns else None
    return TraceJob(job_id, submission, end - start, gpus, tenant=tenant or None)


def _of_seconds(name: str, submission: str, deadline: str = "", **known_by: Any) -> TableLayout:
    """Return the layout of a table with times in seconds and the columns job_id, duration, num_gpu.

    Parameters
    ----------
    name
        The name of the layout.
    submission, deadline
        The columns of the submission time and of the deadline, on the same clock.
    known_by
        Further arguments of `TableLayout`.
    """

    def parse(row: Row) -> TraceJob | str:
        job_id, gpus = row.required("job_id"), row.count("num_gpu")
        submitted_ms, run_ms = row.milliseconds(submission), row.milliseconds("duration")
        deadline_ms = None
        has_one = deadline and row.has(deadline)
        if has_one and not ("best_effort" in row.columns and row.count("best_effort")):
            deadline_ms = row.milliseconds(deadline) - submitted_ms
            if deadline_ms <= 0:
                raise row.error(deadline, f"must be after {submission}")
        if not gpus:
            return NO_GPUS
        return TraceJob(job_id, submitted_ms, run_ms, gpus, deadline_ms=deadline_ms)

    columns = ("job_id", submission, "duration", "num_gpu", *((deadline,) if deadline else ()))
    optional = ("best_effort",) if deadline else ()
    return TableLayout(name, columns, parse, optional=optional, **known_by)


_SLURM_COLUMNS = ("submit_time", "start_time", "end_time")

HELIOS = TableLayout(
    "Helios cluster_log.csv", ("job_id", "vc", "gpu_num", *_SLURM_COLUMNS), _slurm_job
)
ACME = TableLayout("Acme trace_*.csv", ("job_id", "gpu_num", "type", *_SLURM_COLUMNS), _slurm_job)
TIRESIAS = _of_seconds("Tiresias", "submit_time", marks=("iterations", "model_name", "interval"))
ITP = _of_seconds("Microsoft ITP", "submission_time", is_whole=True)
ELASTICFLOW = _of_seconds(
    "ElasticFlow", "submission_time", "deadline", marks=("num_iteration", "model_name")
)
ELASTICFLOW_SIMULATOR = _of_seconds(
    "ElasticFlow's simulator", "submit_time", "ddl", marks=("iteration", "model_name")
)


CREATED, SCHEDULED, DELETED = "creation_time", "scheduled_time", "deletion_time"

WHOLE_GPU = 1000
"""The value of column ``gpu_milli`` for a whole GPU."""

SHARE = "Pods that request a share of a GPU get a whole GPU"


def _pod(row: Row) -> TraceJob | str:
    name, gpus, created_ms = row.required("name"), row.count("num_gpu"), row.milliseconds(CREATED)
    if row.count("gpu_milli") > WHOLE_GPU:
        raise row.error("gpu_milli", f"must be an integer from 0 to {WHOLE_GPU}")
    gpu_types: tuple[str, ...] = ()
    if row.has("gpu_spec"):
        gpu_types = row.gpu_types("gpu_spec")
    if not gpus:
        return NO_GPUS
    if not (row.has(SCHEDULED) and row.has(DELETED)):
        return NOT_ENDED
    run_ms = row.milliseconds(DELETED) - row.milliseconds(SCHEDULED)
    if run_ms < 0:
        raise row.error(DELETED, f"must not be before {SCHEDULED}")
    return TraceJob(name, created_ms, run_ms, gpus, gpu_types=gpu_types)


def _share(row: Row) -> str | None:
    return SHARE if row.count("gpu_milli") < WHOLE_GPU else None


OPENB = TableLayout(
    "Alibaba 2023 openb_pod_list_*.csv",
    ("name", "num_gpu", "gpu_milli", "gpu_spec", CREATED, SCHEDULED, DELETED),
    _pod,
    remarks=(
        "Pods of every final phase are kept, and hold their GPUs from scheduling to deletion; "
        "processors and memory are not considered.",
    ),
    note=_share,
)
