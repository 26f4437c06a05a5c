"""Layouts that are CSV tables with a header."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.core.errors import InputError
from lyra_opt.instances.traces import (
    COLUMNS,
    MOMENT_COLUMN,
    Clusters,
    TraceJob,
    parse_gpus,
    read_trace,
)
from lyra_opt.instances.workloads.layout import (
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

    @property
    def form(self) -> str:  # type: ignore[override]
        """See `TraceLayout`."""
        return ", ".join(self.columns)

    def likeness(self, text: str, header: Sequence[str]) -> int:  # noqa: ARG002
        """See `TraceLayout`."""
        return len(self.columns) if set(self.columns) <= set(header) else 0

    def read(self, source: str, text: str, vc: str | None) -> Found:
        """See `TraceLayout`."""
        rows = csv.reader(io.StringIO(text, newline=""), strict=True)
        header = [name.strip() for name in next(rows, [])]
        for column in self.columns:
            if header.count(column) > 1:
                raise InputError(source, f"row 1: column {column} occurs more than once")
        columns = {name: place for place, name in enumerate(header)}
        clusters = Clusters(source, header, vc)
        found = Found(remarks=[*self.remarks, *([] if vc is None else [of_cluster(vc)])])
        for number, values in enumerate(rows, start=2):
            if not values or not clusters.take(values):
                continue
            require_width(source, number, values, len(header), "the header")
            row = Row(source, number, columns, values)
            job = self.parse(row)
            said = None
            if self.note is not None and not isinstance(job, str):
                said = self.note(row)
            found.add(number, job, said)
        clusters.require_some()
        return found


class OwnTable(TraceLayout):
    """The table of this project."""

    name = "this project's CSV"
    form = ", ".join(COLUMNS)

    def likeness(self, text: str, header: Sequence[str]) -> int:  # noqa: ARG002
        """See `TraceLayout`; surer than tables of others that have as many columns."""
        columns = {*header, "submit_time_s"} if MOMENT_COLUMN in header else set(header)
        return 10 * len(COLUMNS) if set(COLUMNS) <= columns else 0

    def read(self, source: str, text: str, vc: str | None) -> Found:  # noqa: ARG002
        """See `TraceLayout`."""
        return found_in(read_trace(source, vc=vc), vc)


def found_in(ours: Trace, vc: str | None = None) -> Found:
    """Return what is found in a trace of this project, whose ids are unique already.

    So the rows, which only mend them, do not matter.
    """
    remarks = [] if vc is None else [of_cluster(vc)]
    if ours.passed_over:
        remarks.append(f"Columns passed over: {', '.join(ours.passed_over)}.")
    return Found(list(enumerate(ours.jobs)), remarks=remarks)


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


def _seconds_job(submission: str) -> Callable[[Row], TraceJob | str]:
    def parse(row: Row) -> TraceJob | str:
        gpus = parse_gpus(row.source, row.number, row.text("num_gpu"), "num_gpu")
        return TraceJob(
            row.job_id(), row.milliseconds(submission), row.milliseconds("duration"), gpus
        )

    return parse


_SLURM_COLUMNS = ("submit_time", "start_time", "end_time")

HELIOS = TableLayout(
    "Helios cluster_log.csv", ("job_id", "vc", "gpu_num", *_SLURM_COLUMNS), _slurm_job
)
ACME = TableLayout("Acme trace_*.csv", ("job_id", "gpu_num", "type", *_SLURM_COLUMNS), _slurm_job)
TIRESIAS = TableLayout(
    "Tiresias", ("job_id", "num_gpu", "submit_time", "duration"), _seconds_job("submit_time")
)
ITP = TableLayout(
    "Microsoft ITP (ElasticFlow)",
    ("job_id", "submission_time", "duration", "num_gpu"),
    _seconds_job("submission_time"),
)
