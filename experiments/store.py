"""The store of results: one SQLite file with a study and all its runs.

The file has two tables. Table ``study`` has one row, which describes the study (`StudyRecord`).
Table ``run`` has one row per attempted run, including failed runs, with the columns of `RunRecord`
and of its kind. A column is a field of the record and is explained in its docstring. Each row of
``run`` can be understood without the other rows. ``PRAGMA application_id`` marks the file, and
``PRAGMA user_version`` is the version of the tables. Data too large for a row, such as the table of
all jobs, is stored next to the file as compressed CSV: ``runs/KEY/NAME.csv.gz``.

Only one process writes, with one transaction per run, so stored runs survive a kill of the process.
While a process writes, SQLite keeps the newest rows in a log next to the file (its name ends in
``-wal``). Storing a run therefore does not wait for the disk, and other processes can read. Closing
the store, or opening it after a kill, moves the rows of the log into the file.
"""

import fcntl
import gzip
import hashlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self
from urllib.parse import quote

from lyra_opt.core.csv_text import frame_text
from lyra_opt.core.documents import unwritable, write_bytes
from lyra_opt.core.errors import DiskFullError, InputError, UserError
from lyra_opt.core.nearest_names import nearest, one_of
from lyra_opt.experiments.records import KINDS, RunRecord, StudyRecord, columns_of, decoded, encoded

STORE_FILE = "results.sqlite"
STORE_VERSION = 5
APPLICATION_ID = 0x4C595241  # "LYRA" in ASCII
UNWRITABLE = "cannot be written"
DAMAGED = "is damaged"
LONGEST_WAIT_S = 60.0  # while another program locks the file
PRIMARY_CODE = 0xFF  # mask of SQLite's primary error code
LEAST_ROOM_BYTES = 2**17  # space for SQLite's temporary files

RUNS_FOLDER = "runs"
LONGEST_FOLDER_NAME = 150
GZIP_LEVEL = 6


def table_path(folder: Path, key: str, name: str) -> Path:
    """Return the path of the table `name` of the run `key`.

    The name of the run's folder is its key, with ``%`` and two hexadecimal digits for each byte
    that a file name should not contain. A long name is cut and ends in a hash.
    """
    shown = quote(key, safe=" =,+()")
    if len(shown) > LONGEST_FOLDER_NAME or not shown.strip("."):
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        shown = f"{shown[:LONGEST_FOLDER_NAME]}-{digest}"
    return folder / RUNS_FOLDER / shown / f"{name}.csv.gz"


def files_beside(record: RunRecord) -> dict[str, bytes]:
    """Return the content of each file that belongs to a run, by path.

    Paths are absolute or relative to the folder of the store.
    """
    files = {path: text.encode() for path, text in record.documents.items()}
    for name, table in record.tables.items():
        packed = gzip.compress(frame_text(table).encode(), GZIP_LEVEL, mtime=0)
        files[str(table_path(Path(), record.key, name))] = packed
    return files


def write_beside(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files that belong to a run; each file is written completely or not at all.

    Raises
    ------
    UserError
        If a file cannot be written.
    """
    for name, content in files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(path, error) from None
        write_bytes(path, content)


def _names(record: type[StudyRecord | RunRecord]) -> str:
    return ", ".join(column.name for column in columns_of(record))


def _insertion(table: str, record: type[StudyRecord | RunRecord]) -> str:
    places = ", ".join(f":{column.name}" for column in columns_of(record))
    return f"INSERT OR REPLACE INTO {table} ({_names(record)}) VALUES ({places})"  # noqa: S608


def _schema(study: StudyRecord) -> str:
    # Columns are declared without types, because SQLite stores a type with each value.
    return f"""
CREATE TABLE study ({_names(StudyRecord)});
CREATE TABLE run ({_names(KINDS[study.kind])}, PRIMARY KEY (key));
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {STORE_VERSION};
"""


class ResultStore:
    """An open store of results, to be used as a context manager.

    Parameters
    ----------
    path
        The SQLite file.
    connection
        An open connection to the file.
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
        with suppress(sqlite3.Error):  # fails harmlessly while another process reads
            self._connection.execute("PRAGMA journal_mode = DELETE")
        self._connection.close()
        if self._lock is not None:  # the operating system also releases it when the process ends
            self._lock.close()

    def start_writing(self) -> Self:
        """Lock the store for this process, and prepare it for many calls of `add`.

        Raises
        ------
        UserError
            If another process writes to the store.
        """
        self._lock = self.path.open("rb")
        try:
            _take(self._lock, self.path, "another process is writing to this store")
        except UserError:
            self._lock.close()
            raise
        for left in self.path.parent.glob(f"{RUNS_FOLDER}/*/.*.csv.gz.*"):
            left.unlink(missing_ok=True)  # left by a killed process
        with self._reporting_errors(UNWRITABLE):
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
        return self

    @classmethod
    def create(cls, folder: Path, study: StudyRecord) -> Self:
        """Create a new store in a folder, which is created if needed.

        Raises
        ------
        UserError
            If the folder already has a store, another process is creating one, or the file cannot
            be written.
        """
        path = folder / STORE_FILE
        unfinished = folder / f".{STORE_FILE}.new"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with unfinished.open("ab") as lock:
                _take(lock, path, "another process is making this store")
                if path.exists():
                    unfinished.unlink(missing_ok=True)
                    raise UserError(f"{path}: already exists")
                # Leftover logs are deleted, because SQLite would replay them into the new store.
                for name in (path.name, unfinished.name):
                    for leftover in ("-wal", "-shm", "-journal"):
                        (folder / f"{name}{leftover}").unlink(missing_ok=True)
                lock.truncate(0)  # may be the unfinished store of a killed process
                with (
                    cls(unfinished, _connect(unfinished)) as store,
                    store._reporting_errors(UNWRITABLE),
                ):
                    store._connection.executescript(_schema(study))
                    with store._connection:
                        store._connection.execute(_insertion("study", StudyRecord), encoded(study))
                unfinished.replace(path)  # the file appears only when it is complete
        except OSError as error:
            raise unwritable(path, error) from None
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open the store of a folder.

        Raises
        ------
        UserError
            If the folder has no store, or the store is damaged or of another version.
        """
        path = folder / STORE_FILE
        if not path.is_file():
            stores = folder.parent.glob(f"*/{STORE_FILE}")
            near = nearest(folder.name, (each.parent.name for each in stores if each.is_file()))
            hint = "" if near is None else f"; did you mean {folder.with_name(near)}?"
            raise InputError(str(folder), f"has no store of results ({STORE_FILE}){hint}")
        store = cls(path, _connect(path))
        with store._reporting_errors("is not a readable store of results"):
            application = store._pragma("application_id")
            version = store._pragma("user_version")
        if application != APPLICATION_ID:
            raise InputError(str(path), "is not a store of results of lyra-opt")
        if version != STORE_VERSION:
            raise InputError(
                str(path), f"has version {version}; this program reads only version {STORE_VERSION}"
            )
        return store

    @cached_property
    def study(self) -> StudyRecord:
        """The study to which the store belongs."""
        with self._reporting_errors(f"{DAMAGED}: table study"):
            rows = self._connection.execute("SELECT * FROM study").fetchall()
            if len(rows) != 1:
                raise ValueError(f"must have one row, not {len(rows)}")
            return decoded(StudyRecord, rows[0])

    @property
    def record_type(self) -> type[RunRecord]:
        """The record class of the stored runs; raises `InputError` if their kind is unknown."""
        found = KINDS.get(self.study.kind)
        if found is None:
            rule = one_of(self.study.kind, KINDS)
            raise InputError(str(self.path), f"kind of runs is {self.study.kind}: {rule}")
        return found

    def add(self, record: RunRecord) -> None:
        """Store a run permanently; it replaces an earlier run with the same key.

        Raises
        ------
        UserError
            If the row cannot be written; `DiskFullError` if the disk is full.
        """
        assert isinstance(record, self.record_type), "all runs of a store are of one kind"
        insertion = _insertion("run", self.record_type)
        with self._reporting_errors(UNWRITABLE), self._connection:
            self._connection.execute(insertion, encoded(record))

    def runs(self) -> list[Any]:
        """Return the records of all stored runs, in the order of the study."""
        kind = self.record_type
        records: list[Any] = []
        with self._reporting_errors(lambda: f"{DAMAGED}: table run, row {len(records) + 1}"):
            for row in self._connection.execute("SELECT * FROM run ORDER BY position"):
                records.append(decoded(kind, row))  # noqa: PERF401 - errors name the row
        return records

    def statuses(self) -> dict[str, str]:
        """Return the status of each stored run, by key."""
        with self._reporting_errors(DAMAGED):
            rows = self._connection.execute("SELECT key, status FROM run")
            return {row["key"]: row["status"] for row in rows}

    def _pragma(self, name: str) -> Any:
        return self._connection.execute(f"PRAGMA {name}").fetchone()[name]

    @contextmanager
    def _reporting_errors(self, what: str | Callable[[], str]) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, ValueError, TypeError, LookupError, OverflowError) as error:
            if _is_disk_full(error, self.path):
                raise DiskFullError(f"{self.path}: the disk is full ({error})") from None
            said = what if isinstance(what, str) else what()
            raise InputError(str(self.path), f"{said}: {error}") from None


def _is_disk_full(error: Exception, path: Path) -> bool:
    """Return whether SQLite failed because the disk is full or nearly full."""
    code = getattr(error, "sqlite_errorcode", 0) & PRIMARY_CODE
    if code == sqlite3.SQLITE_IOERR:
        return shutil.disk_usage(path.parent).free < LEAST_ROOM_BYTES
    return code == sqlite3.SQLITE_FULL


def _take(lock: BinaryIO, path: Path, otherwise: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(f"{path}: {otherwise}") from None


def _connect(path: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(path, timeout=LONGEST_WAIT_S)
    except sqlite3.Error as error:
        raise InputError(str(path), f"is not a readable store of results: {error}") from None
    connection.row_factory = lambda cursor, row: {
        column[0]: value for column, value in zip(cursor.description, row, strict=True)
    }
    return connection
