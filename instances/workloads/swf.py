"""The Standard Workload Format: 18 numbers a line, -1 where one is not known; ``;`` begins remarks.

Source: the Parallel Workloads Archive (Feitelson), https://www.cs.huji.ac.il/labs/parallel/workload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.core.errors import InputError
from lyra_opt.instances.traces import TraceJob
from lyra_opt.instances.workloads.layout import (
    NOT_ENDED,
    Found,
    Row,
    TraceLayout,
    first_line,
    lines_of,
    require_width,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SWF_COLUMNS = (
    *("job_number", "submit_time", "wait_time", "run_time", "allocated_processors"),
    *("average_cpu_time", "used_memory", "requested_processors", "requested_time"),
    *("requested_memory", "status", "user", "group", "executable", "queue", "partition"),
    *("preceding_job", "think_time"),
)
READ_COLUMNS = frozenset(
    {
        *("job_number", "submit_time", "run_time", "allocated_processors"),
        *("requested_processors", "status"),
    }
)
NOT_KNOWN = "-1"
FAILED, CANCELLED = "0", "5"
PARTS = frozenset({"2", "3", "4"})
"""Statuses of parts of a job that was interrupted, whose whole has a line of its own."""

NO_PROCESSORS = "without processors"
PART_OF_A_JOB = "that are parts of one that has a row of its own"
ENDED_BADLY = "Jobs that failed or were cancelled are kept, for as long as they held processors"


class StandardWorkloadFormat(TraceLayout):
    """Lines of 18 numbers."""

    name = "Standard Workload Format (SWF)"
    form = f"{len(SWF_COLUMNS)} numbers a line, remarks begin with ;"

    def likeness(self, text: str, header: Sequence[str]) -> int:  # noqa: ARG002
        """See `TraceLayout`; no other one begins with a semicolon, or has 18 numbers a line."""
        first = first_line(text)
        if first.startswith(";"):
            return 1000
        values = first.split()
        is_one = len(values) == len(SWF_COLUMNS) and all(map(_is_number, values))
        return 1000 if is_one else 0

    def read(self, source: str, text: str, vc: str | None) -> Found:
        """See `TraceLayout`."""
        if vc is not None:
            raise InputError(source, "has no column vc: its jobs are not told apart by cluster")
        found = Found(
            remarks=[
                "Processors of the trace are taken for GPUs: those that a job was allocated, or "
                "asked for where that is not known."
            ]
        )
        found.ignore(column for column in SWF_COLUMNS if column not in READ_COLUMNS)
        for row in _rows(source, text):
            with found.bad_rows:
                require_width(source, row.number, row.values, len(SWF_COLUMNS), "the format")
                _require_known_or_not(row)
                ended_badly = row.text("status") in (FAILED, CANCELLED)
                found.add(row.number, _job(row), ENDED_BADLY if ended_badly else None)
        return found


SWF = StandardWorkloadFormat()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _rows(source: str, text: str) -> Iterator[Row]:
    places = {column: place for place, column in enumerate(SWF_COLUMNS)}
    for number, line in enumerate(lines_of(source, text), start=1):
        values = line.split()
        if values and not values[0].startswith(";"):
            yield Row(source, number, places, values)


def _require_known_or_not(row: Row) -> None:
    """Raise `InputError` for a negative number other than -1, which stands for an unknown value."""
    for column, value in zip(SWF_COLUMNS, row.values, strict=True):
        if value.startswith("-") and (not _is_number(value) or float(value) not in (-1, 0)):
            raise row.error(column, "must be at least 0, or -1 where it is not known")


def _job(row: Row) -> TraceJob | str:
    if row.text("status") in PARTS:
        return PART_OF_A_JOB
    submitted_ms = row.milliseconds("submit_time")
    processors = [
        row.count(column)
        for column in ("allocated_processors", "requested_processors")
        if row.text(column) != NOT_KNOWN
    ]
    gpus = next(filter(None, processors), 0)
    if row.text("run_time") == NOT_KNOWN:
        return NOT_ENDED
    run_ms = row.milliseconds("run_time")
    if not gpus:
        return NO_PROCESSORS
    return TraceJob(row.job_id("job_number"), submitted_ms, run_ms, gpus)
