"""The store of results: one SQLite file that holds a study and every run of it.

The file has two tables. ``study`` has one row: what is run (`StudyRecord`). ``run`` has one row
for each pair of instance and solver that has been tried (`RunRecord`), failures too. A column is
a field of the record, whose docstring says what it holds; a row of ``run`` can be understood
without any other row. ``PRAGMA application_id`` marks the file, ``PRAGMA user_version`` is the
version of these tables.

One process writes, a transaction for each run, so that whatever kills it loses no stored run.
While it writes, SQLite keeps the newest rows in a log beside the file (the name ends in
``-wal``): a run is stored without waiting for the disk, and others can read. Closing the store,
or opening it after a kill, moves them into the file.
"""

from __future__ import annotations

import fcntl
import json
import sqlite3
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from lyra_opt.errors import InputError, UserError
from lyra_opt.result import Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from lyra_opt.result import Number

STORE_FILE = "results.sqlite"
STORE_VERSION = 2
APPLICATION_ID = 0x4C595241  # "LYRA" in ASCII
UNWRITABLE = "cannot be written"
LONGEST_WAIT_S = 60.0  # for another program that holds the file
LARGEST_STORED_INTEGER = 2**63 - 1
NUMBER_COLUMNS = ("known_optimum", "objective", "dual_bound")
"""Columns with numbers of any size; beyond 64 bits they are stored as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRecord:
    """The study that a store belongs to; None stands for NULL.

    Parameters
    ----------
    name, problem, description, headline
        As in the study file.
    text
        The study file, word for word, below a comment for each key that was changed.
    meaning_hash
        SHA-256 of what the file means, its trace included; comments and layout do not count.
    runs
        How many runs the study has when it is complete.
    """

    name: str
    problem: str
    description: str
    headline: Sequence[str]
    text: str
    meaning_hash: str
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run of one solver on one instance; None stands for NULL.

    Parameters
    ----------
    study, problem
        Names.
    position
        Place of the run in its study, from 0: tables and plots keep the order of the study.
    cell
        What instance the study asks for, in words, such as ``bf-trace servers=20
        reclaim_percent=10 seed=0``.
    configuration
        The solver and, where the study runs it with several time limits, its limit. With `cell`
        it identifies the row.
    family_group
        What the study calls the families that it sums up with this one; empty without a name.
    family, family_parameters, instance_seed
        What the instance was generated from, or the file that it was read from.
    axes
        The names of those parameters of which the study lists several values.
    size
        Of the instance, as its problem counts it; None if the generator failed.
    trace_name, trace_sha256
        The job trace that the instance was cut from, where there is one.
    instance_name, content_sha256, variant
        The instance as generated; None if the generator failed.
    known_optimum
        Its optimum, where the family knows it by construction; no proof, but a check.
    solver, solver_seed
        Name and seed of the solver. The seed reproduces the run with ``lyra-opt solve --seed``.
    time_limit_s
        Seconds that the solver may use, None without a limit.
    certify
        Whether the problem's own bound was computed beside the solver's.
    reference
        Whether the study names the solver as one that is there to prove the optimum.
    status
        A value of `lyra_opt.result.Status`.
    stopped_by, objective, dual_bound
        As in `lyra_opt.solving.Answer`.
    wall_time_s
        Seconds of the solver alone, after an untimed call that loads what it needs.
    certify_time_s
        Seconds of the problem's own bound.
    peak_memory_mib
        Peak resident memory of the process during the run, loaded libraries included.
    message
        Why the run failed or was skipped.
    counters
        Effort of the solver by name.
    solution
        The solution as a document that ``lyra-opt verify`` reads.
    versions, cpu, cores, platform
        As in `experiments.environment.Environment`.
    started_at
        When the run began, UTC, ISO 8601.
    """

    study: str
    problem: str
    position: int
    cell: str
    configuration: str
    family_group: str
    family: str
    family_parameters: Mapping[str, str | int]
    axes: Sequence[str]
    instance_seed: int
    trace_name: str | None
    trace_sha256: str | None
    size: int | None = None
    instance_name: str | None = None
    content_sha256: str | None = None
    variant: str | None = None
    known_optimum: Number | None = None
    solver: str
    solver_seed: int
    time_limit_s: float | None
    certify: bool
    reference: bool
    status: Status
    stopped_by: str | None = None
    objective: Number | None = None
    dual_bound: Number | None = None
    wall_time_s: float | None = None
    certify_time_s: float | None = None
    peak_memory_mib: float | None = None
    message: str | None = None
    counters: Mapping[str, int] | None = None
    solution: Mapping[str, Any] | None = None
    versions: Mapping[str, str | None]
    cpu: str
    cores: int
    platform: str
    started_at: str


JSON_COLUMNS = frozenset({"axes", "family_parameters", "counters", "solution", "versions"})
FLAG_COLUMNS = frozenset({"certify", "reference"})


def _columns(record: type[StudyRecord | RunRecord]) -> list[str]:
    return [field.name for field in fields(record)]


def _insertion(table: str, record: type[StudyRecord | RunRecord]) -> str:
    names = _columns(record)
    places = ", ".join(f":{name}" for name in names)
    return f"INSERT OR REPLACE INTO {table} ({', '.join(names)}) VALUES ({places})"  # noqa: S608


# SQLite types values, not columns: integers and floats come back as they went in.
_SCHEMA = f"""
CREATE TABLE study ({", ".join(_columns(StudyRecord))});
CREATE TABLE run ({", ".join(_columns(RunRecord))}, PRIMARY KEY (cell, configuration));
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {STORE_VERSION};
"""


class ResultStore:
    """An open store; use as a context manager.

    Parameters
    ----------
    path
        The SQLite file.
    connection
        An open connection to it.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._lock: BinaryIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with suppress(sqlite3.Error):  # fails, harmlessly, while somebody else reads
            self._connection.execute("PRAGMA journal_mode = DELETE")
        self._connection.close()
        if self._lock is not None:  # ends with the process too, however that ends
            self._lock.close()

    def start_writing(self) -> Self:
        """Prepare for many calls of `add`; refuse while another process does.

        Raises
        ------
        UserError
            If another process writes to the store.
        """
        self._lock = self.path.open("rb")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{self.path}: another process writes to it") from None
        with self._reporting_errors(UNWRITABLE):
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
        return self

    @classmethod
    def create(cls, folder: Path, study: StudyRecord) -> ResultStore:
        """Make the folder and a new store in it.

        Raises
        ------
        UserError
            If there is a store already, or the file cannot be written.
        """
        path = folder / STORE_FILE
        unfinished = folder / f".{STORE_FILE}.new"
        if path.exists():
            raise UserError(f"{path}: exists already")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # SQLite would replay what a store of the same name, deleted since, has left behind.
            for name in (path.name, unfinished.name):
                for leftover in ("", "-wal", "-shm", "-journal"):
                    (folder / f"{name}{leftover}").unlink(missing_ok=True)
            with (
                cls(unfinished, _connect(unfinished)) as store,
                store._reporting_errors(UNWRITABLE),
            ):
                store._connection.executescript(_SCHEMA)
                with store._connection:
                    row = asdict(study) | {"headline": json.dumps(study.headline)}
                    store._connection.execute(_insertion("study", StudyRecord), row)
            unfinished.replace(path)  # so that a store is whole from its first moment
        except OSError as error:
            raise UserError(f"{path}: {UNWRITABLE}: {error.strerror or error}") from None
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> ResultStore:
        """Open the store of a folder.

        Raises
        ------
        UserError
            If the folder has none, or it is damaged, or of another version.
        """
        path = folder / STORE_FILE
        if not path.is_file():
            raise InputError(str(folder), f"holds no store of results ({STORE_FILE})")
        store = cls(path, _connect(path))
        with store._reporting_errors("is no readable store of results"):
            application = store._pragma("application_id")
            version = store._pragma("user_version")
        if application != APPLICATION_ID:
            raise InputError(str(path), "is no store of results of this project")
        if version != STORE_VERSION:
            raise InputError(
                str(path), f"has version {version}, but this program reads version {STORE_VERSION}"
            )
        return store

    def study(self) -> StudyRecord:
        """Return the study that the store belongs to."""
        with self._reporting_errors("is damaged"):
            rows = self._connection.execute("SELECT * FROM study").fetchall()
            (row,) = rows
            return StudyRecord(**row | {"headline": json.loads(row["headline"])})

    def add(self, record: RunRecord) -> None:
        """Store a run for good, in place of an earlier one of the same cell and configuration.

        Raises
        ------
        UserError
            If it cannot be written, for example because the disk is full.
        """
        row = asdict(record)
        for column in JSON_COLUMNS:
            if row[column] is not None:
                row[column] = json.dumps(row[column], separators=(",", ":"))
        for column in NUMBER_COLUMNS:
            row[column] = _storable(row[column])
        row["status"] = str(record.status)
        if record.message is not None:  # may hold anything that a solver's error holds
            row["message"] = record.message.encode("utf-8", "backslashreplace").decode()
        with self._reporting_errors(UNWRITABLE), self._connection:
            self._connection.execute(_insertion("run", RunRecord), row)

    def runs(self) -> list[RunRecord]:
        """Return every stored run, in the order of the study."""
        with self._reporting_errors("is damaged"):
            rows = self._connection.execute("SELECT * FROM run ORDER BY position")
            return [_decoded(row) for row in rows]

    def statuses(self) -> dict[tuple[str, str], Status]:
        """Return the status of every stored run by cell and configuration."""
        with self._reporting_errors("is damaged"):
            rows = self._connection.execute("SELECT cell, configuration, status FROM run")
            return {(row["cell"], row["configuration"]): Status(row["status"]) for row in rows}

    def _pragma(self, name: str) -> Any:
        return self._connection.execute(f"PRAGMA {name}").fetchone()[name]

    @contextmanager
    def _reporting_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, ValueError, TypeError, LookupError, OverflowError) as error:
            raise InputError(str(self.path), f"{what}: {error}") from None


def _connect(path: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(path, timeout=LONGEST_WAIT_S)
    except sqlite3.Error as error:
        raise InputError(str(path), f"is no readable store of results: {error}") from None
    connection.row_factory = lambda cursor, row: {
        column[0]: value for column, value in zip(cursor.description, row, strict=True)
    }
    return connection


def _storable(number: Number | None) -> Number | str | None:
    """Return the number, as text where it is an integer of more than 64 bits."""
    if isinstance(number, int) and not -LARGEST_STORED_INTEGER <= number <= LARGEST_STORED_INTEGER:
        return str(number)
    return number


def _decoded(row: dict[str, Any]) -> RunRecord:
    for column in NUMBER_COLUMNS:
        if isinstance(row[column], str):
            row[column] = int(row[column])
    for column in JSON_COLUMNS:
        if row[column] is not None:
            row[column] = json.loads(row[column])
    for column in FLAG_COLUMNS:
        row[column] = bool(row[column])
    row["status"] = Status(row["status"])
    return RunRecord(**row)
