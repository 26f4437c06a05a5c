"""Read job traces: what was submitted when, for how long and on how many GPUs.

A trace is a CSV file, plain or gzip (told apart by content), with a header row and the columns
``job_id, submit_time_s, duration_s, gpus`` in any order. Times are decimal seconds on any clock
that starts at 0 or later; in place of ``submit_time_s`` there may be ``submit_time``, a date and
time. The columns of `OPTIONAL_COLUMNS` are read where there are any, with an empty field where
nothing is known of a job. Other columns are ignored, and named by `Trace.passed_over`; a column of
`DEMAND_COLUMNS` is refused.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.core.csv_text import csv_rows
from lyra_opt.core.documents import read_text
from lyra_opt.core.errors import InputError, show_value
from lyra_opt.core.own_files import stand_in
from lyra_opt.core.reading_memory import ReadingMemory
from lyra_opt.instances.rows import BadRows, Row, require_columns, require_once

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

COLUMNS = ("job_id", "submit_time_s", "duration_s", "gpus")
MOMENT_COLUMN = "submit_time"
"""In place of ``submit_time_s``: a date and time."""

OPTIONAL_COLUMNS = ("model", "batch_size", "weight", "deadline_s", "gpu_types")
TRACES_VARIABLE = "LYRA_OPT_TRACES"
"""Of the environment: the folder in which traces are looked for that are not where they are named.
"""

NOT_THERE = f"neither here nor in the folder that {TRACES_VARIABLE} names"
"""What errors say of a file that nobody finds."""

LARGEST_TRACE_BYTES = 512 * 2**20
LISTED_CLUSTERS = 20

JOB_BYTES = 900
"""Memory of a job that was read, from its row to the workload."""

DEMAND_COLUMNS = frozenset(
    {
        *("num_inst", "inst_num", "num_instances", "instances", "instance_num"),
        *("num_worker", "num_workers", "worker_num", "workers", "n_workers"),
        *("num_replicas", "replicas", "replica_num", "scale_factor", "gang_size"),
    }
)
"""Columns that multiply the GPUs of a row. A layout applies such a column, or refuses the file."""


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One row of a trace.

    Parameters
    ----------
    job_id
        As in the file, and made unique by its row where the file has it more than once.
    submit_time_ms, duration_ms
        Rounded to the nearest millisecond, ties to even.
    gpus
        At least 1.
    model
        What it trains, as `model_name` names it; None where the file does not say.
    steps
        Training steps that it does, above 0; None where the file does not say.
    weight
        What it counts for, above 0.
    deadline_ms
        After its submission, above 0; None without a deadline.
    gpu_types
        The types of GPUs that it asks for; empty for any.
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


@dataclass(frozen=True, slots=True, eq=False)  # equal only to itself, which is quick to tell
class Trace:
    """A job trace, in the order of submission (equal times: of rows).

    Parameters
    ----------
    name
        The file's name without directory and without ``.csv`` and ``.gz``.
    jobs
        At least one.
    passed_over
        Columns of the file that were not read.
    bad_rows, first_bad_row
        How many rows were dropped because a value breaks its rule, and why the first one was.
    renamed
        How many jobs had an id that occurs more than once.
    """

    name: str
    jobs: tuple[TraceJob, ...]
    passed_over: tuple[str, ...] = ()
    bad_rows: int = 0
    first_bad_row: str = ""
    renamed: int = 0


def require_no_demand_column(source: str, header: Iterable[str], applied: Iterable[str]) -> None:
    """Raise `InputError` if the header has a demand column that the layout does not apply."""
    used = set(applied)
    for name in header:
        if name.lower() in DEMAND_COLUMNS and name not in used:
            raise InputError(
                source,
                f"row 1: column {name} multiplies the GPUs of a row, and this layout does not read "
                "it. Multiply the GPUs and remove the column, or name another layout with "
                "jobs.layout",
            )


def locate(file: str) -> Path:
    """Return where a file is: as given, or else in the folder of LYRA_OPT_TRACES.

    As given too if it is in neither place, so that whoever reads it says what is wrong.
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

    Rows that are equal throughout are kept, for real traces have them. Where a job id occurs
    more than once, all its jobs get ``#`` and their row appended. The last trace that was read
    is kept in memory, for as long as its file does not change.

    Parameters
    ----------
    path
        The file; its name appears in every error as given.
    vc
        Only the jobs of this virtual cluster, by the column ``vc``; None reads all.
    text
        The content of the file, if the caller has read it already.
    drops_bad_rows
        Whether rows that break a rule are dropped and counted in place of refused.

    Raises
    ------
    InputError
        If the file cannot be read, is larger than 512 MiB once unpacked, is a damaged gzip
        file, is not UTF-8, has no rows or lacks a column, if a value breaks its rule (the error
        names the row, counted from the header as row 1, and the column), or if no row has `vc`.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - a string too, as typed
        state = status.st_ino, status.st_size, status.st_mtime_ns
    except (OSError, ValueError):
        state = None  # reading it says what is wrong
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
    """Return the trace that a text holds, as CSV; see `read_trace` for errors.

    Parameters
    ----------
    source
        Where it is from.
    vc, drops_bad_rows
        As of `read_trace`.
    first_row
        What the row after the header is called in errors.
    """
    rows = csv_rows(source, text.removeprefix("\ufeff"))
    names = [name.strip() for name in next(rows, [])]
    columns = _Columns(source, names)
    clusters = Clusters(source, names, vc)
    memory = ReadingMemory(source, sys.getsizeof(text))
    bad_rows = BadRows(drops_bad_rows)
    jobs = []
    for number, row in enumerate(rows, start=first_row):
        if not row or not clusters.take(row):  # or an empty line
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
    """Which rows are of a virtual cluster.

    Parameters
    ----------
    source
        The file, for errors.
    header
        The columns.
    vc
        The virtual cluster; None takes all rows.

    Raises
    ------
    InputError
        If `vc` is given and there is no column ``vc``.
    """

    def __init__(self, source: str, header: Sequence[str], vc: str | None) -> None:
        if vc is not None and "vc" not in header:
            raise InputError(source, "has no column vc: its jobs are not told apart by cluster")
        self._source, self._vc = source, vc
        self._position = header.index("vc") if vc is not None else 0
        self._seen: set[str] = set()

    def take(self, row: Sequence[str]) -> bool:
        """Return whether a row is of the virtual cluster."""
        if self._vc is None:
            return True
        # A row too short is passed on: its own error says so.
        name = row[self._position].strip() if self._position < len(row) else self._vc
        self._seen.add(name)
        return name == self._vc

    def require_some(self) -> None:
        """Raise `InputError` if no row was of the virtual cluster."""
        if self._vc is not None and self._vc not in self._seen:
            known = ", ".join(sorted(self._seen)[:LISTED_CLUSTERS])
            more = ", ..." if len(self._seen) > LISTED_CLUSTERS else ""
            asked = show_value(self._vc)
            raise InputError(self._source, f"has no jobs of vc {asked}; it has {known}{more}")


def name_of(source: str) -> str:
    """Return a file's name without directory, ``.csv`` and the endings of compressed files."""
    name = Path(source).name
    for ending in (".gz", ".bz2", ".xz", ".csv"):
        name = name.removesuffix(ending)
    return name


class _Columns:
    """Where the columns of a trace are, and how their rows are read.

    Parameters
    ----------
    source
        The file, for errors.
    names
        Its header.

    Raises
    ------
    InputError
        If a column is missing, or one that is read occurs more than once.
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
            rule = "needs the column model, whose batch size it is"
            raise InputError(source, f"row 1: column batch_size {rule}")
        self._places = {name: place for place, name in enumerate(names)}
        self._optional = optional
        read = {*needed, *optional, "vc"}
        require_no_demand_column(source, names, read)
        self.passed_over = tuple(name for name in names if name not in read)

    def job(self, number: int, values: list[str]) -> TraceJob:
        """Return the job of a row."""
        row = Row(self._source, number, self._places, values)
        row.require_width(self._width, "the header")
        job_id = row.job_id()
        if self._has_moments:
            submitted_ms = row.moment(MOMENT_COLUMN)
        else:
            submitted_ms = row.milliseconds("submit_time_s")
        duration_ms, gpus = row.milliseconds("duration_s"), row.number_from_1("gpus")
        return TraceJob(job_id, submitted_ms, duration_ms, gpus, **self._wishes(row))

    def _wishes(self, row: Row) -> dict[str, Any]:
        """Return what the optional columns say of a job, fields of `TraceJob`."""
        texts = {column: text for column in self._optional if (text := row.text(column))}
        found: dict[str, Any] = {}
        if "batch_size" in texts and "model" not in texts:
            raise row.error("batch_size", "must be empty where the column model is")
        if "model" in texts:
            size = row.number_from_1("batch_size") if "batch_size" in texts else None
            found["model"] = model_name(texts["model"], size)
        if "weight" in texts:
            found["weight"] = row.weight("weight")
        if "deadline_s" in texts:
            found["deadline_ms"] = row.milliseconds("deadline_s")
            if not found["deadline_ms"]:
                raise row.error("deadline_s", "must be at least a millisecond")
        if "gpu_types" in texts:
            found["gpu_types"] = row.gpu_types("gpu_types")
        return found


def model_name(model: str, batch_size: int | None) -> str:
    """Return what a job trains, in the form in which tables of throughput know it.

    >>> model_name("ResNet-18", 128), model_name("CycleGAN", None)
    ('ResNet-18-128', 'CycleGAN')
    """
    return model if batch_size is None else f"{model}-{batch_size}"


def with_unique_ids(jobs: list[tuple[int, TraceJob]]) -> Iterable[TraceJob]:
    """Yield the jobs of (row, job) pairs; those whose id is not unique get their row appended."""
    count: dict[str, int] = {}
    for _, job in jobs:
        count[job.job_id] = count.get(job.job_id, 0) + 1
    for number, job in jobs:
        if count[job.job_id] == 1:
            yield job
            continue
        unique = f"{job.job_id}#{number}"
        while unique in count:  # another job of the file is called so
            unique += "#"
        yield replace(job, job_id=unique)


def renamed_of(jobs: Iterable[tuple[int, TraceJob]], unique: Iterable[TraceJob]) -> int:
    """Return how many (row, job) pairs got another id from `with_unique_ids`."""
    return sum(
        before.job_id != after.job_id for (_, before), after in zip(jobs, unique, strict=True)
    )
