"""Read job traces: what was submitted when, for how long and on how many GPUs.

A trace is a CSV file, plain or gzip (told apart by content), with a header row and the columns
``job_id, submit_time_s, duration_s, gpus`` in any order, and ``model`` if the file says what jobs
train; further columns are passed over.
Times are decimal seconds on any clock that starts at 0 or later.
"""

from __future__ import annotations

import csv
import io
import os
import re
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN, Decimal
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from lyra_opt.documents import read_text
from lyra_opt.errors import InputError, show_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

COLUMNS = ("job_id", "submit_time_s", "duration_s", "gpus")
MODEL_COLUMN = "model"
TRACES_VARIABLE = "LYRA_OPT_TRACES"
"""Of the environment: the folder in which traces are looked for that are not where they are named.
"""

LARGEST_TRACE_BYTES = 512 * 2**20
LARGEST_SECONDS = 10**11  # some 3,000 years: a clock since 1970 fits, a typing error does not
LARGEST_GPUS = 10**9
MILLISECONDS = 1000
LISTED_CLUSTERS = 20

_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


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
        What it trains; None where the file does not say.
    """

    job_id: str
    submit_time_ms: int
    duration_ms: int
    gpus: int
    model: str | None = None


@dataclass(frozen=True, slots=True, eq=False)  # equal only to itself, which is quick to tell
class Trace:
    """A job trace, in the order of submission (equal times: of rows).

    Parameters
    ----------
    name
        The file's name without directory and without ``.csv`` and ``.gz``.
    jobs
        At least one.
    """

    name: str
    jobs: tuple[TraceJob, ...]


def locate(file: str) -> Path:
    """Return where a file is: as given, or else in the folder of LYRA_OPT_TRACES.

    As given too if it is in neither place, so that whoever reads it says what is wrong.
    """
    folder = os.environ.get(TRACES_VARIABLE)
    given = Path(file)
    if folder and not given.exists() and (Path(folder) / file).is_file():
        return Path(folder) / file
    return given


def read_trace(path: str | Path, *, vc: str | None = None) -> Trace:
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
    return _read_trace(str(path), vc, state)


@lru_cache(maxsize=1)
def _read_trace(
    source: str,
    vc: str | None,
    state: object,  # noqa: ARG001 - part of the cache's key
) -> Trace:
    text = read_text(source, LARGEST_TRACE_BYTES).removeprefix("\ufeff")
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(rows, [])
        positions = _column_positions(source, header)
        clusters = Clusters(source, [name.strip() for name in header], vc)
        jobs = [
            (number, _parse_row(source, number, row, positions, len(header)))
            for number, row in enumerate(rows, start=2)
            if row and clusters.take(row)  # or an empty line
        ]
    except csv.Error as error:
        raise InputError(source, f"is not valid CSV: {error} (line {rows.line_num})") from None
    clusters.require_some()
    if not jobs:
        raise InputError(source, "has a header, but no rows")
    by_submission = sorted(with_unique_ids(jobs), key=lambda job: job.submit_time_ms)
    return Trace(name_of(source), tuple(by_submission))


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
    """Return a file's name without directory and without ``.csv`` and ``.gz``."""
    return Path(source).name.removesuffix(".gz").removesuffix(".csv")


def _column_positions(source: str, header: list[str]) -> tuple[int, ...]:
    names = [name.strip() for name in header]
    for column in COLUMNS:
        if names.count(column) != 1:
            found = "is missing" if column not in names else "occurs more than once"
            expected = ", ".join(COLUMNS)
            raise InputError(source, f"row 1: column {column} {found}; a trace has {expected}")
    if names.count(MODEL_COLUMN) > 1:
        raise InputError(source, f"row 1: column {MODEL_COLUMN} occurs more than once")
    columns = (*COLUMNS, MODEL_COLUMN) if MODEL_COLUMN in names else COLUMNS
    return tuple(names.index(column) for column in columns)


def _parse_row(
    source: str, number: int, row: list[str], positions: tuple[int, ...], width: int
) -> TraceJob:
    if len(row) != width:
        fields = f"{len(row)} field" + "s" * (len(row) != 1)
        raise InputError(source, f"row {number} has {fields}, but the header has {width}")
    job_id, submit_time, duration, gpus, *model = (row[position].strip() for position in positions)
    if not job_id:
        raise bad_value(source, number, "job_id", job_id, "must not be empty")
    return TraceJob(
        job_id,
        parse_milliseconds(source, number, "submit_time_s", submit_time),
        parse_milliseconds(source, number, "duration_s", duration),
        parse_gpus(source, number, gpus),
        (model[0] or None) if model else None,
    )


def parse_milliseconds(source: str, number: int, column: str, text: str) -> int:
    """Return decimal seconds of a row as milliseconds; `InputError` where they are none."""
    if text.isascii() and text.isdigit() and len(text) <= 11:
        return int(text) * MILLISECONDS
    rule = f"must be a number of seconds from 0 to {LARGEST_SECONDS}"
    if not _DECIMAL.fullmatch(text):
        raise bad_value(source, number, column, text, rule)
    seconds = Decimal(text)
    if not 0 <= seconds <= LARGEST_SECONDS:
        raise bad_value(source, number, column, text, rule)
    return int((seconds * MILLISECONDS).to_integral_value(rounding=ROUND_HALF_EVEN))


def parse_gpus(source: str, number: int, text: str, column: str = "gpus") -> int:
    """Return a row's number of GPUs, at least 1; `InputError` where it is none."""
    if not _INTEGER.fullmatch(text) or not 1 <= int(text) <= LARGEST_GPUS:
        rule = f"must be an integer from 1 to {LARGEST_GPUS}"
        raise bad_value(source, number, column, text, rule)
    return int(text)


def bad_value(source: str, number: int, column: str, text: str, rule: str) -> InputError:
    """Return the error that a value of a row breaks its rule."""
    return InputError(source, f"row {number}, column {column} is {show_value(text)}: {rule}")


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
