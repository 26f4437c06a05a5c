"""The layout of Microsoft's Philly trace: a JSON list of jobs, each with its attempts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import parse_json
from lyra_opt.core.errors import FieldError, InputError, show_value
from lyra_opt.core.rules import require_text
from lyra_opt.instances.rows import NO_VALUE, moment_ms
from lyra_opt.instances.traces import Clusters, TraceJob
from lyra_opt.instances.workloads.layout import (
    NO_GPUS,
    NOT_ENDED,
    Found,
    TraceLayout,
    first_line,
    of_cluster,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

READ_KEYS = frozenset({"attempts", "jobid", "submitted_time", "vc"})
HOUR_MS = 3_600_000


class PhillyLog(TraceLayout):
    """The layout of ``cluster_job_log``, the job log of the Philly trace."""

    name = "Microsoft Philly cluster_job_log"
    form = "a JSON list"

    def likeness(self, text: str, header: Sequence[str]) -> int:  # noqa: ARG002
        """Return 1000 if the file begins with a bracket, as a JSON list does, else 0."""
        return 1000 if first_line(text).startswith("[") else 0

    def read(self, source: str, text: str, vc: str | None) -> Found:
        """Return the jobs of a Philly log."""
        return _read_philly(source, text, vc)


PHILLY = PhillyLog()


def _read_philly(source: str, text: str, vc: str | None) -> Found:
    document = parse_json(text, source)
    if not isinstance(document, list):
        raise InputError(source, f"must be a JSON list, not {show_value(document)}")
    found = Found(
        remarks=[
            "The running time of a job is the sum over its attempts; its GPUs are the most of any."
        ]
    )
    if vc is not None:
        found.remarks.append(of_cluster(vc))
    # `Clusters` reads table rows. Each job is therefore passed to it as a row that has only the
    # column vc (the virtual cluster).
    clusters = Clusters(source, ["vc"], vc)
    keys: set[str] = set()
    for number, entry in enumerate(document):
        with found.bad_rows:
            record = _PhillyRecord(source, f"[{number}]", entry)
            keys.update(entry)
            if clusters.take([record.text("vc")]):
                found.add(number, _philly_job(record))
    found.ignore(sorted(keys.difference(READ_KEYS)))
    clusters.require_some()
    return found


@dataclass(frozen=True, slots=True)
class _PhillyRecord:
    """A JSON object of the Philly log, whose errors name the file and the path of the field."""

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
            raise self.error(key, value, "must be a non-empty string") from None

    def records(self, key: str) -> Iterator[_PhillyRecord]:
        values = self.value(key)
        if not isinstance(values, list):
            raise self.error(key, values, "must be a list")
        for number, value in enumerate(values):
            yield _PhillyRecord(self.source, f"{self.path}.{key}[{number}]", value)

    def moment(self, key: str) -> int | None:
        """Return a date and time as milliseconds since 1970; None if the log has no value."""
        value = self.value(key)
        if value is None or (isinstance(value, str) and value.lower() in NO_VALUE):
            return None
        rule = "must be a date and time such as 2017-10-07 01:12:09"
        if not isinstance(value, str):
            raise self.error(key, value, rule)
        return moment_ms(value, lambda: self.error(key, value, rule))


def _philly_job(record: _PhillyRecord) -> TraceJob | str:
    job_id, submission = record.text("jobid"), record.moment("submitted_time")
    if submission is None:
        rule = "must be a date and time such as 2017-10-07 01:12:09"
        raise record.error("submitted_time", record.value("submitted_time"), rule)
    duration_ms = most_gpus = attempts = 0
    end = None
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
        # The log is in local time, and clocks went back by one hour in November 2017.
        if end < start - HOUR_MS:
            raise attempt.error(
                "end_time", attempt.value("end_time"), "must not be before start_time"
            )
        duration_ms += max(0, end - start)
        attempts += 1
    if not attempts or end is None:  # the last attempt was still running at the end of the log
        return NOT_ENDED
    if not most_gpus:
        return NO_GPUS
    return TraceJob(job_id, submission, duration_ms, most_gpus)
