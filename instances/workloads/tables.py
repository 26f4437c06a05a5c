"""Layouts that are CSV tables with a header."""

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
        require_once(source, header, (*self.columns, *self.optional))
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
    job_id, gpus, submission = (
        row.job_id(),
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
    return TraceJob(job_id, submission, end - start, gpus)


def _of_seconds(name: str, submission: str, deadline: str = "", **known_by: Any) -> TableLayout:
    """Return the layout of a table with seconds, most of whose columns are called alike.

    Parameters
    ----------
    name
        Whose it is.
    submission, deadline
        The columns of both moments, which are on one clock.
    known_by
        As of `TableLayout`.
    """

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
"""Of ``gpu_milli``."""

SHARE = "Pods that ask for a share of a GPU are given a whole one"


def _pod(row: Row) -> TraceJob | str:
    name, gpus, created_ms = row.job_id("name"), row.count("num_gpu"), row.milliseconds(CREATED)
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
        "Pods are kept whatever phase they were seen in last, and hold their GPUs from scheduling "
        "to deletion; what they ask of processors and memory is passed over.",
    ),
    note=_share,
)
