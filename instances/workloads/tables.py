"""Layouts that are CSV tables with a header."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.core.csv_text import csv_rows
from lyra_opt.core.errors import InputError
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
    Row,
    TraceLayout,
    of_cluster,
    require_width,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lyra_opt.instances.traces import Trace


@dataclass(frozen=True)
class TableLayout(TraceLayout):
    """A published CSV table with a header.

    Parameters
    ----------
    name
        Whose it is.
    columns
        The columns by which it is known, all of which are read.
    marks
        Further columns by which it is known, which are not read.
    optional
        Columns that are read if the file has them.
    is_whole
        Whether a file with any other column (but ``vc``) is not known to be of this layout.
    measured_on
        See `TraceLayout`.
    parse
        Returns a row's job, or the reason for which it is none.
    remarks
        See `Found`.
    note
        Returns what is to be said of a row that is a job, see `Found.noted`; None where that is
        nothing.
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
        """See `TraceLayout`."""
        return ", ".join((*self.columns, *self.marks))

    def likeness(self, text: str, header: Sequence[str]) -> int:  # noqa: ARG002
        """See `TraceLayout`."""
        known = {*self.columns, *self.marks}
        if not known <= set(header) or (self.is_whole and not set(header) <= {*known, "vc"}):
            return 0
        return len(known)

    def read(self, source: str, text: str, vc: str | None) -> Found:
        """See `TraceLayout`."""
        rows = csv_rows(source, text)
        header = [name.strip() for name in next(rows, [])]
        for column in (*self.columns, *self.optional):
            if header.count(column) > 1:
                raise InputError(source, f"row 1: column {column} occurs more than once")
        if missing := [column for column in self.columns if column not in header]:
            raise InputError(source, f"row 1: {_lacks(missing)}, which {self.name} has")
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
                require_width(source, number, values, len(header), "the header")
                row = Row(source, number, columns, values)
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
    """The table of this project."""

    name = "this project's CSV"
    form = ", ".join(COLUMNS)

    def likeness(self, text: str, header: Sequence[str]) -> int:  # noqa: ARG002
        """See `TraceLayout`; surer than tables of others that have as many columns."""
        columns = {*header, "submit_time_s"} if MOMENT_COLUMN in header else set(header)
        return 10 * len(COLUMNS) if set(COLUMNS) <= columns else 0

    def read(self, source: str, text: str, vc: str | None) -> Found:
        """See `TraceLayout`."""
        drops = DROPS_BAD_ROWS.get()
        return found_in(read_trace(source, vc=vc, text=text, drops_bad_rows=drops), vc)


def found_in(ours: Trace, vc: str | None = None) -> Found:
    """Return what is found in a trace of this project, whose ids are unique already.

    So the rows, which only mend them, do not matter.
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


def _seconds_job(submission: str, deadline: str = "") -> Callable[[Row], TraceJob | str]:
    """Return a parser of rows with seconds; a deadline is a moment on the clock of submissions."""

    def parse(row: Row) -> TraceJob | str:
        job_id, gpus = row.job_id(), row.count("num_gpu")
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

    return parse


_SLURM_COLUMNS = ("submit_time", "start_time", "end_time")

HELIOS = TableLayout(
    "Helios cluster_log.csv", ("job_id", "vc", "gpu_num", *_SLURM_COLUMNS), _slurm_job
)
ACME = TableLayout("Acme trace_*.csv", ("job_id", "gpu_num", "type", *_SLURM_COLUMNS), _slurm_job)
TIRESIAS = TableLayout(
    "Tiresias",
    ("job_id", "num_gpu", "submit_time", "duration"),
    _seconds_job("submit_time"),
    marks=("iterations", "model_name", "interval"),
)
ITP = TableLayout(
    "Microsoft ITP",
    ("job_id", "submission_time", "duration", "num_gpu"),
    _seconds_job("submission_time"),
    is_whole=True,
)
ELASTICFLOW = TableLayout(
    "ElasticFlow",
    ("job_id", "submission_time", "duration", "num_gpu", "deadline"),
    _seconds_job("submission_time", "deadline"),
    marks=("num_iteration", "model_name"),
    optional=("best_effort",),
)
ELASTICFLOW_SIMULATOR = TableLayout(
    "ElasticFlow's simulator",
    ("job_id", "submit_time", "duration", "num_gpu", "ddl"),
    _seconds_job("submit_time", "ddl"),
    marks=("iteration", "model_name"),
    optional=("best_effort",),
)
