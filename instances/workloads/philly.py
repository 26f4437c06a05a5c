"""The layout of Microsoft's Philly trace: a JSON list of jobs, each with its attempts."""

from collections.abc import Iterator, Sequence

from lyra_opt.core.documents import Record, join_path, parse_json
from lyra_opt.core.errors import FieldError, InputError, in_file, show_value
from lyra_opt.core.numbers import HOUR_MS
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

READ_KEYS = frozenset({"attempts", "jobid", "submitted_time", "vc"})
MOMENT_RULE = "must be a date and time such as 2017-10-07 01:12:09"


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
        with found.bad_rows, in_file(source):
            record = Record(entry, f"[{number}]", entry)
            keys.update(entry)
            if clusters.take([text_of(record, "vc")]):
                found.add(number, _philly_job(record))
    found.ignore(sorted(keys.difference(READ_KEYS)))
    clusters.require_some()
    return found


def records_of(record: Record, key: str) -> Iterator[Record]:
    """Yield the objects of the list at a key."""
    for path, value in record.items_of(key):
        yield Record(value, path, value)


def text_of(record: Record, key: str) -> str:
    """Return the text at a key, which must not be empty."""
    return require_text(join_path(record.path, key), record.required(key))


def moment_of(record: Record, key: str) -> int | None:
    """Return a date and time as milliseconds since 1970; None if the log has no value."""
    value = record.required(key)
    if value is None or (isinstance(value, str) and value.lower() in NO_VALUE):
        return None

    def error() -> FieldError:
        return FieldError(join_path(record.path, key), value, MOMENT_RULE)

    if not isinstance(value, str):
        raise error()
    return moment_ms(value, error)


def _philly_job(record: Record) -> TraceJob | str:
    job_id, submission = text_of(record, "jobid"), moment_of(record, "submitted_time")
    if submission is None:
        path = join_path(record.path, "submitted_time")
        raise FieldError(path, record.required("submitted_time"), MOMENT_RULE)
    duration_ms = most_gpus = attempts = 0
    end = None
    for attempt in records_of(record, "attempts"):
        start, end = moment_of(attempt, "start_time"), moment_of(attempt, "end_time")
        gpus = sum(len(list(server.items_of("gpus"))) for server in records_of(attempt, "detail"))
        most_gpus = max(most_gpus, gpus)
        if start is None or end is None:
            continue
        # The log is in local time, and clocks went back by one hour in November 2017.
        if end < start - HOUR_MS:
            path = join_path(attempt.path, "end_time")
            raise FieldError(path, attempt.required("end_time"), "must not be before start_time")
        duration_ms += max(0, end - start)
        attempts += 1
    if not attempts or end is None:  # the last attempt was still running at the end of the log
        return NOT_ENDED
    if not most_gpus:
        return NO_GPUS
    return TraceJob(job_id, submission, duration_ms, most_gpus, tenant=text_of(record, "vc"))
