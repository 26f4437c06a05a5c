"""Trace layouts with one job per line: Gavel's traces, and the Standard Workload Format.

Lines of Gavel's traces are separated by tabs, without a header. Source: ``parse_trace`` of
scheduler/utils.py in the public repository stanford-futuredata/gavel. Its versions have read seven,
nine and ten columns.

The Standard Workload Format (SWF) of batch systems has 18 numbers per line; -1 stands for a value
that is not known, and ``;`` begins a comment.
Source: the Parallel Workloads Archive (Feitelson),
https://www.cs.huji.ac.il/labs/parallel/workload.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache

from lyra_opt.core.errors import InputError
from lyra_opt.instances.heterogeneous.throughput_files import gavel_throughputs
from lyra_opt.instances.heterogeneous.throughputs import JobType
from lyra_opt.instances.rows import MILLISECONDS, Row
from lyra_opt.instances.traces import Clusters, TraceJob, model_name
from lyra_opt.instances.workloads.layout import (
    NO_GPUS,
    NOT_ENDED,
    Found,
    TraceLayout,
    first_line,
    line_rows,
)

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
"""The columns of Gavel's traces, by their number."""

_IGNORED = frozenset({"command", "working_directory", "num_steps_arg", "needs_data_dir"})

V100 = "v100"
"""The reference GPU type of Gavel's throughput table: every job type was measured on it."""

NOT_MEASURED = "of a job type that was never measured"
DEADLINE = "A deadline is the SLO factor of the trace times the running time"
SCALED = "Rates of a job type measured only on fewer GPUs are scaled in proportion to the GPUs"

_JOB_TYPE = re.compile(r"(?P<model>[^\s()]+)(?: \(batch size (?P<batch>[1-9][0-9]{0,8})\))?")


class GavelTrace(TraceLayout):
    """Gavel's traces: lines of seven, nine or ten fields, as Gavel's generator writes them."""

    name = "Gavel *.trace"
    measured_on = V100
    form = f"{', '.join(map(str, GAVEL_COLUMNS))} columns separated by tabs, no header"

    def likeness(self, text: str, header: Sequence[str]) -> int:  # noqa: ARG002
        """Return 1000 if the first line has 7, 9 or 10 fields and a job type first, else 0."""
        values = first_line(text).split("\t")
        is_one = len(values) in GAVEL_COLUMNS and _JOB_TYPE.fullmatch(values[0]) is not None
        return 1000 if is_one else 0

    def read(self, source: str, text: str, vc: str | None) -> Found:
        """Return the jobs of a Gavel trace; running times follow from measured throughputs."""
        Clusters(source, (), vc)
        found = Found(
            remarks=[
                "The trace has the training steps of jobs, but no running times. These follow from "
                "Gavel's measured throughput on V100 GPUs of one server.",
            ]
        )
        columns = GAVEL_COLUMNS.get(len(first_line(text).split("\t")), ())
        if not columns:
            raise InputError(source, f"must have {self.form}")
        found.ignore(column for column in columns if column in _IGNORED)
        for row in line_rows(source, text, columns, _gavel_fields):
            with found.bad_rows:
                row.require_width(len(columns), "the first line")
                job = _gavel_job(row)
                found.add(row.number, job, *_notes(job))
        return found


GAVEL = GavelTrace()


def _gavel_fields(line: str) -> list[str]:
    return line.rstrip("\r").split("\t") if line.strip() else []


def _gavel_job(row: Row) -> TraceJob | str:
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
    """Yield the remarks for results that apply to a job of a Gavel trace."""
    if isinstance(job, str):
        return
    if job.deadline_ms is not None:
        yield DEADLINE
    measured = None if job.model is None else _measured(job.model, job.gpus)
    if measured is not None and measured.gang != job.gpus:
        yield SCALED


@cache
def _measured(model: str, gpus: int) -> JobType | None:
    """Return the job type of a model on `gpus` GPUs, or on the next smaller measured number."""
    found = gavel_throughputs().types_named(model, gpus)
    return next((job_type for job_type in found if job_type.name == model), None)


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
"""Statuses of lines that are parts of an interrupted job; another line has the whole job."""

NO_PROCESSORS = "without processors"
PART_OF_A_JOB = "that are parts of a job with a row of its own"
ENDED_BADLY = "Jobs that failed or were cancelled are kept, for as long as they held processors"


class StandardWorkloadFormat(TraceLayout):
    """The Standard Workload Format: lines of 18 numbers."""

    name = "Standard Workload Format (SWF)"
    form = f"{len(SWF_COLUMNS)} numbers per line, comments begin with ;"

    def likeness(self, text: str, header: Sequence[str]) -> int:  # noqa: ARG002
        """Return 1000 if the first line begins with a semicolon or has 18 numbers, else 0."""
        first = first_line(text)
        if first.startswith(";"):
            return 1000
        values = first.split()
        is_one = len(values) == len(SWF_COLUMNS) and all(map(_is_number, values))
        return 1000 if is_one else 0

    def read(self, source: str, text: str, vc: str | None) -> Found:
        """Return the jobs of an SWF file; processors count as GPUs."""
        Clusters(source, (), vc)
        found = Found(
            remarks=[
                "Processors of the trace count as GPUs: the allocated processors of a job, or the "
                "requested ones if the allocation is not known."
            ]
        )
        found.ignore(column for column in SWF_COLUMNS if column not in READ_COLUMNS)
        for row in line_rows(source, text, SWF_COLUMNS, _swf_fields):
            with found.bad_rows:
                row.require_width(len(SWF_COLUMNS), "the format")
                _require_known_or_not(row)
                ended_badly = row.text("status") in (FAILED, CANCELLED)
                found.add(row.number, _swf_job(row), ENDED_BADLY if ended_badly else None)
        return found


SWF = StandardWorkloadFormat()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _swf_fields(line: str) -> list[str]:
    return [] if line.lstrip().startswith(";") else line.split()


def _require_known_or_not(row: Row) -> None:
    """Raise `InputError` for negative numbers other than -1, the sign of an unknown value."""
    for column, value in zip(SWF_COLUMNS, row.values, strict=True):
        if value.startswith("-") and (not _is_number(value) or float(value) not in (-1, 0)):
            raise row.error(column, "must be at least 0, or -1 if not known")


def _swf_job(row: Row) -> TraceJob | str:
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
    return TraceJob(row.required("job_number"), submitted_ms, run_ms, gpus)
