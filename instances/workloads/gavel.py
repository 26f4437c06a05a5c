"""Gavel's traces: a job a line, tab separated, without a header.

Source: the public repository stanford-futuredata/gavel, ``parse_trace`` of scheduler/utils.py,
which has read seven, nine and ten columns in turn.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from lyra_opt.core.errors import InputError
from lyra_opt.instances.heterogeneous.throughput_files import gavel_throughputs
from lyra_opt.instances.traces import MILLISECONDS, TraceJob, model_name
from lyra_opt.instances.workloads.layout import (
    NO_GPUS,
    Found,
    Row,
    TraceLayout,
    first_line,
    lines_of,
    require_width,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lyra_opt.instances.heterogeneous.throughputs import JobType

_COMMAND = ("job_type", "command")
_STEPS = ("num_steps_arg", "needs_data_dir", "total_steps")
_ASKED = ("scale_factor", "priority_weight", "SLO", "arrival_time")
GAVEL_COLUMNS = {
    len(columns): columns
    for columns in (
        (*_COMMAND, *_STEPS, "arrival_time", "scale_factor"),
        (*_COMMAND, *_STEPS, *_ASKED),
        (*_COMMAND, "working_directory", *_STEPS, *_ASKED),
    )
}
"""By how many there are."""

_IGNORED = frozenset({"command", "working_directory", "num_steps_arg", "needs_data_dir"})

V100 = "v100"
"""The reference of Gavel's table: each of its types was measured there."""

NOT_MEASURED = "of a type that was never measured"
DEADLINE = "A deadline is the trace's SLO times that running time"
SCALED = (
    "Steps a second of a type that was measured on fewer GPUs alone are taken to grow with the GPUs"
)

_JOB_TYPE = re.compile(r"(?P<model>[^\s()]+)(?: \(batch size (?P<batch>[1-9][0-9]{0,8})\))?")


class GavelTrace(TraceLayout):
    """Lines of seven, nine or ten fields, as Gavel's generator writes them."""

    name = "Gavel *.trace"
    measured_on = V100
    form = f"{', '.join(map(str, GAVEL_COLUMNS))} columns separated by tabs, no header"

    def likeness(self, text: str, header: Sequence[str]) -> int:  # noqa: ARG002
        """See `TraceLayout`; a line with so many tabs begins with a type of jobs."""
        values = first_line(text).split("\t")
        is_one = len(values) in GAVEL_COLUMNS and _JOB_TYPE.fullmatch(values[0]) is not None
        return 1000 if is_one else 0

    def read(self, source: str, text: str, vc: str | None) -> Found:
        """See `TraceLayout`."""
        if vc is not None:
            raise InputError(source, "has no column vc: its jobs are not told apart by cluster")
        found = Found(
            remarks=[
                "The trace says how many steps its jobs do, and not for how long they run: running "
                "times are those of Gavel's measured throughput on V100 GPUs of one server.",
            ]
        )
        columns = GAVEL_COLUMNS.get(len(first_line(text).split("\t")), ())
        if not columns:
            raise InputError(source, f"must have {self.form}")
        found.ignore(column for column in columns if column in _IGNORED)
        for row in _rows(source, text, columns):
            with found.bad_rows:
                require_width(source, row.number, row.values, len(columns), "the first one")
                job = _job(row)
                found.add(row.number, job, *_notes(job))
        return found


GAVEL = GavelTrace()


def _rows(source: str, text: str, columns: Sequence[str]) -> Iterator[Row]:
    """Yield the lines that are not empty."""
    places = {column: place for place, column in enumerate(columns)}
    for number, line in enumerate(lines_of(source, text), start=1):
        if line.strip():
            yield Row(source, number, places, line.rstrip("\r").split("\t"))


def _job(row: Row) -> TraceJob | str:
    matched = _JOB_TYPE.fullmatch(row.text("job_type"))
    if matched is None:
        raise row.error("job_type", "must be such as CycleGAN or ResNet-18 (batch size 128)")
    model = model_name(matched["model"], int(matched["batch"]) if matched["batch"] else None)
    steps, gpus = row.count("total_steps"), row.count("scale_factor")
    submitted_ms = row.milliseconds("arrival_time")
    weight = row.weight("priority_weight") if "priority_weight" in row.columns else 1.0
    slo = row.decimal("SLO") if "SLO" in row.columns else -1.0
    if not gpus:
        return NO_GPUS
    measured = _measured(model, gpus)
    if measured is None:
        return NOT_MEASURED
    run_ms = MILLISECONDS * steps / (measured.throughput[V100] * gpus / measured.gang)
    return TraceJob(
        f"row-{row.number}",
        submitted_ms,
        round(run_ms),
        gpus,
        model=model,
        steps=float(steps) if steps else None,
        weight=weight,
        deadline_ms=max(1, round(slo * run_ms)) if slo >= 0 else None,
    )


def _notes(job: TraceJob | str) -> Iterator[str]:
    """Yield what is to be said of a job."""
    if isinstance(job, str):
        return
    if job.deadline_ms is not None:
        yield DEADLINE
    measured = None if job.model is None else _measured(job.model, job.gpus)
    if measured is not None and measured.gang != job.gpus:
        yield SCALED


@cache
def _measured(model: str, gpus: int) -> JobType | None:
    """Return what was measured on as many GPUs, or on the next smaller number of them."""
    found = gavel_throughputs().types_named(model, gpus)
    return next((job_type for job_type in found if job_type.name == model), None)
