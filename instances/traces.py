"""Read job traces: CSV files with the submission time, duration and GPUs of each job.

A trace is a plain or gzip CSV file (recognised by content) with a header row and the columns
``job_id, submit_time_s, duration_s, gpus`` in any order. Times are decimal seconds on a clock that
starts at 0 or later. Instead of ``submit_time_s`` a file may have ``submit_time``, a date and time.
The columns of `OPTIONAL_COLUMNS` are read if the file has them; an empty field means that the value
is not known. Other columns are ignored, and `Trace.passed_over` names them. A column of
`DEMAND_COLUMNS` is refused.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lyra_opt.core.csv_text import csv_rows
from lyra_opt.core.documents import hint_at_similar_file, read_text
from lyra_opt.core.errors import InputError, show_value
from lyra_opt.core.nearest_names import suggestion
from lyra_opt.core.own_files import stand_in
from lyra_opt.core.reading_memory import ReadingMemory
from lyra_opt.instances.rows import BadRows, Row, require_columns, require_once
from lyra_opt.simulation.workload import WHOLE_GPU

COLUMNS = ("job_id", "submit_time_s", "duration_s", "gpus")
MOMENT_COLUMN = "submit_time"
"""The column with a date and time that may replace ``submit_time_s``."""

OPTIONAL_COLUMNS = (
    *("model", "batch_size", "weight", "priority", "deadline_s", "gpu_types"),
    *("tenant", "vc", "gpu_thousandths", "gpu_memory_mib"),
)
TRACES_VARIABLE = "LYRA_OPT_TRACES"
"""The environment variable that names the folder of traces, searched if a path does not exist."""


def not_there(file: str = "") -> str:
    """Return the end of errors about a trace file that does not exist.

    If the name of the `file` is given, the text suggests a file with a similar name.
    """
    folder = os.environ.get(TRACES_VARIABLE)
    if not folder:
        rule = f"not in the working folder; set {TRACES_VARIABLE} to the folder of your traces"
        return f"{rule}{hint_at_similar_file(file)}"
    hint = hint_at_similar_file(file) or hint_at_similar_file(Path(folder, file))
    return f"neither in the working folder nor in {folder}, which {TRACES_VARIABLE} names{hint}"


LARGEST_TRACE_BYTES = 512 * 2**20
LISTED_CLUSTERS = 20

JOB_BYTES = 900
"""Memory in bytes that reading one job needs, from its row to the workload."""

DEMAND_COLUMNS = frozenset(
    {
        *("num_inst", "inst_num", "num_instances", "instances", "instance_num"),
        *("num_worker", "num_workers", "worker_num", "workers", "n_workers"),
        *("num_replicas", "replicas", "replica_num", "scale_factor", "gang_size"),
    }
)
"""Columns that multiply the GPUs of a row; a layout that does not read such a column refuses it."""


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace, read from one row.

    Parameters
    ----------
    job_id
        The id in the file; if several rows have this id, the row number is appended.
    submit_time_ms, duration_ms
        Rounded to the nearest millisecond, ties to even.
    gpus
        The number of GPUs, at least 1.
    model
        The model that the job trains, named by `model_name`; None if the file does not name one.
    steps
        The number of training steps, above 0; None if the file does not state it.
    weight
        The weight of the job in weighted objectives, above 0.
    priority
        The priority of the job; a larger number is more important.
    deadline_ms
        The time from submission to the deadline, above 0; None without a deadline.
    gpu_types
        The GPU types that the job accepts; empty for any type.
    tenant
        The user, team or virtual cluster of the job; None if the file does not name one.
    gpu_thousandths
        The part of its only GPU that the job requests, from 1 to 999; None for whole GPUs.
    gpu_memory_mib
        The part of its only GPU that the job requests, in MiB of memory; None for whole GPUs.
    """

    job_id: str
    submit_time_ms: int
    duration_ms: int
    gpus: int
    model: str | None = None
    steps: float | None = None
    weight: float = 1.0
    deadline_ms: int | None = None
    gpu_types: tuple[str, ...] = ()
    priority: int = 0
    tenant: str | None = None
    gpu_thousandths: int | None = None
    gpu_memory_mib: int | None = None


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity, which is fast
class Trace:
    """A job trace; its jobs are ordered by submission time, with ties in file order.

    Parameters
    ----------
    name
        The file's name without directory and without ``.csv`` and ``.gz``.
    jobs
        The jobs, at least one.
    passed_over
        The columns of the file that were ignored.
    bad_rows, first_bad_row
        The number of rows dropped because of a bad value, and the error of the first one.
    renamed
        The number of jobs whose id is not unique in the file.
    """

    name: str
    jobs: tuple[TraceJob, ...]
    passed_over: tuple[str, ...] = ()
    bad_rows: int = 0
    first_bad_row: str = ""
    renamed: int = 0


def require_no_demand_column(source: str, header: Iterable[str], applied: Iterable[str]) -> None:
    """Raise `InputError` if an ignored column, such as ``num_inst``, multiplies a row's GPUs."""
    used = set(applied)
    for name in header:
        if name.lower() in DEMAND_COLUMNS and name not in used:
            raise InputError(
                source,
                f"row 1: column {name} multiplies the GPUs of a row, and this layout does not read "
                "it. Multiply the GPUs and remove the column, or set jobs.layout to another layout",
            )


def locate(file: str) -> Path:
    """Return the path of a file: as given, or else in the folder that LYRA_OPT_TRACES names.

    If the file exists in neither place, the given path is returned, and reading it raises the
    error.
    """
    folder = os.environ.get(TRACES_VARIABLE)
    given = stand_in(file)
    if folder and not given.exists() and (in_folder := stand_in(Path(folder, file))).is_file():
        return in_folder
    return given


def read_trace(
    path: str | Path,
    *,
    vc: str | None = None,
    text: str | None = None,
    drops_bad_rows: bool = False,
) -> Trace:
    """Read a job trace.

    Duplicate rows are kept, because real traces have them. If several jobs share an id, ``#`` and
    the row number are appended to the id of each. The last trace read stays in memory until its
    file changes.

    Parameters
    ----------
    path
        The file, as named in errors.
    vc
        Read only the jobs of this virtual cluster, by the column ``vc``; None reads all jobs.
    text
        The content of the file, if the caller has already read it.
    drops_bad_rows
        Whether rows with a bad value are dropped and counted instead of refused.

    Raises
    ------
    InputError
        If the file cannot be read, is larger than 512 MiB once unpacked, is a damaged gzip
        file, is not UTF-8, has no rows or lacks a column, if a value breaks its rule (the error
        names the row, counted from the header as row 1, and the column), or if no row has `vc`.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - path may be a string
        state = status.st_ino, status.st_size, status.st_mtime_ns
    except (OSError, ValueError):
        state = None  # reading the file raises the error
    key = str(path), vc, state, drops_bad_rows
    if _last_read.get("key") != key:
        _last_read.clear()
        if text is None:
            text = read_text(path, LARGEST_TRACE_BYTES)
        trace = trace_of_text(str(path), text, vc=vc, drops_bad_rows=drops_bad_rows)
        _last_read.update(key=key, trace=trace)
    found: Trace = _last_read["trace"]
    return found


_last_read: dict[str, Any] = {}


def trace_of_text(
    source: str,
    text: str,
    *,
    vc: str | None = None,
    first_row: int = 2,
    drops_bad_rows: bool = False,
) -> Trace:
    """Return the job trace that a CSV text contains.

    Errors are those of `read_trace`.

    Parameters
    ----------
    source
        The name of the file, for errors.
    vc, drops_bad_rows
        As for `read_trace`.
    first_row
        The number that errors give to the row after the header.
    """
    rows = csv_rows(source, text.removeprefix("\ufeff"))
    names = [name.strip() for name in next(rows, [])]
    columns = _Columns(source, names)
    clusters = Clusters(source, names, vc)
    memory = ReadingMemory(source, sys.getsizeof(text))
    bad_rows = BadRows(drops_bad_rows)
    jobs = []
    for number, row in enumerate(rows, start=first_row):
        if not row or not clusters.take(row):  # an empty line or another virtual cluster
            continue
        with bad_rows:
            jobs.append((number, columns.job(number, row)))
        memory.add(JOB_BYTES)
    clusters.require_some()
    if not jobs:
        raise InputError(source, bad_rows.first or "has a header, but no rows")
    unique = list(with_unique_ids(jobs))
    return Trace(
        name_of(source),
        tuple(sorted(unique, key=lambda job: job.submit_time_ms)),
        columns.passed_over,
        bad_rows.count,
        bad_rows.first,
        renamed_of(jobs, unique),
    )


class Clusters:
    """Selects the rows of one virtual cluster from a table.

    Parameters
    ----------
    source
        The file, for errors.
    header
        The names of the columns.
    vc
        The virtual cluster; None selects all rows.
    column
        The column that names the virtual cluster.

    Raises
    ------
    InputError
        If `vc` is given and there is no such column.
    """

    def __init__(
        self, source: str, header: Sequence[str], vc: str | None, *, column: str = "vc"
    ) -> None:
        if vc is not None and column not in header:
            rule = "so its jobs cannot be selected by virtual cluster"
            raise InputError(source, f"has no column {column}, {rule}")
        self._source, self._vc = source, vc
        self._position = header.index(column) if vc is not None else 0
        self._seen: set[str] = set()

    def take(self, row: Sequence[str]) -> bool:
        """Return whether a row belongs to the selected virtual cluster."""
        if self._vc is None:
            return True
        # A row without this field is selected, so that reading the row raises the error.
        name = row[self._position].strip() if self._position < len(row) else self._vc
        self._seen.add(name)
        return name == self._vc

    def require_some(self) -> None:
        """Raise `InputError` if no row belongs to the selected virtual cluster."""
        if self._vc is not None and self._vc not in self._seen:
            known = ", ".join(sorted(self._seen)[:LISTED_CLUSTERS])
            more = ", ..." if len(self._seen) > LISTED_CLUSTERS else ""
            asked = show_value(self._vc)
            hint = suggestion(self._vc, self._seen)
            reason = f"has no jobs of vc {asked}; it has {known}{more}{hint}"
            raise InputError(self._source, reason)


def name_of(source: str) -> str:
    """Return a file's name without folder and without ``.csv``, ``.gz``, ``.bz2`` and ``.xz``."""
    name = Path(source).name
    for ending in (".gz", ".bz2", ".xz", ".csv"):
        name = name.removesuffix(ending)
    return name


class _Columns:
    """The positions of a trace's columns, used to read its rows.

    Parameters
    ----------
    source
        The file, for errors.
    names
        Its header.

    Raises
    ------
    InputError
        If a required column is missing, or a column that is read occurs more than once.
    """

    def __init__(self, source: str, names: list[str]) -> None:
        self._source, self._width = source, len(names)
        self._has_moments = "submit_time_s" not in names and MOMENT_COLUMN in names
        submission = MOMENT_COLUMN if self._has_moments else "submit_time_s"
        needed = ("job_id", submission, "duration_s", "gpus")
        expected = f"a trace has {', '.join(COLUMNS)}"
        require_columns(source, names, needed, expected)
        optional = [column for column in OPTIONAL_COLUMNS if column in names]
        require_once(source, names, optional)
        if "batch_size" in optional and "model" not in optional:
            rule = "requires the column model"
            raise InputError(source, f"row 1: column batch_size {rule}")
        self._places = {name: place for place, name in enumerate(names)}
        self._optional = optional
        read = {*needed, *optional}
        require_no_demand_column(source, names, read)
        self.passed_over = tuple(name for name in names if name not in read)

    def job(self, number: int, values: list[str]) -> TraceJob:
        """Return the job that a row describes."""
        row = Row(self._source, number, self._places, values)
        row.require_width(self._width, "the header")
        job_id = row.required("job_id")
        if self._has_moments:
            submitted_ms = row.moment(MOMENT_COLUMN)
        else:
            submitted_ms = row.milliseconds("submit_time_s")
        duration_ms, gpus = row.milliseconds("duration_s"), row.number_from_1("gpus")
        return TraceJob(job_id, submitted_ms, duration_ms, gpus, **self._wishes(row))

    def _wishes(self, row: Row) -> dict[str, Any]:
        """Return the optional fields of a `TraceJob`, such as weight and deadline, from a row."""
        texts = {column: text for column in self._optional if (text := row.text(column))}
        found: dict[str, Any] = {}
        if "batch_size" in texts and "model" not in texts:
            raise row.error("batch_size", "must be empty if the column model is empty")
        if "model" in texts:
            size = row.number_from_1("batch_size") if "batch_size" in texts else None
            found["model"] = model_name(texts["model"], size)
        if "weight" in texts:
            found["weight"] = row.weight("weight")
        if "priority" in texts:
            found["priority"] = row.priority("priority")
        if "deadline_s" in texts:
            found["deadline_ms"] = row.milliseconds("deadline_s")
            if not found["deadline_ms"]:
                raise row.error("deadline_s", "must be at least a millisecond")
        if "gpu_types" in texts:
            found["gpu_types"] = row.gpu_types("gpu_types")
        if "gpu_thousandths" in texts:
            found["gpu_thousandths"] = row.count("gpu_thousandths")
            if not 1 <= found["gpu_thousandths"] < WHOLE_GPU or row.number_from_1("gpus") > 1:
                rule = f"must be from 1 to {WHOLE_GPU - 1}, or empty for whole GPUs, and gpus 1"
                raise row.error("gpu_thousandths", rule)
        if "gpu_memory_mib" in texts:
            found["gpu_memory_mib"] = row.number_from_1("gpu_memory_mib")
            if "gpu_thousandths" in texts or row.number_from_1("gpus") > 1:
                rule = "must be empty for a job with gpu_thousandths or several gpus"
                raise row.error("gpu_memory_mib", rule)
        found["tenant"] = texts.get("tenant", texts.get("vc"))
        return found


def model_name(model: str, batch_size: int | None) -> str:
    """Return the name of a model with its batch size, as used in throughput tables.

    >>> model_name("ResNet-18", 128), model_name("CycleGAN", None)
    ('ResNet-18-128', 'CycleGAN')
    """
    return model if batch_size is None else f"{model}-{batch_size}"


def with_unique_ids(jobs: list[tuple[int, TraceJob]]) -> Iterable[TraceJob]:
    """Yield the jobs of (row, job) pairs, with row numbers appended to ids that are not unique."""
    count: dict[str, int] = {}
    for _, job in jobs:
        count[job.job_id] = count.get(job.job_id, 0) + 1
    for number, job in jobs:
        if count[job.job_id] == 1:
            yield job
            continue
        unique = f"{job.job_id}#{number}"
        while unique in count:  # the file already has this id
            unique += "#"
        yield replace(job, job_id=unique)


def renamed_of(jobs: Iterable[tuple[int, TraceJob]], unique: Iterable[TraceJob]) -> int:
    """Return the number of jobs whose id was changed to make all ids unique."""
    return sum(
        before.job_id != after.job_id for (_, before), after in zip(jobs, unique, strict=True)
    )
