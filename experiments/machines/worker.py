"""Code that a Dask worker runs: unpack the files of a task, and run it in a child process."""

import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from distributed import Reschedule, Status, get_worker

from lyra_opt.core.documents import write_bytes
from lyra_opt.core.isolation.child import Child, ChildDiedError
from lyra_opt.core.own_files import copy_below
from lyra_opt.experiments.machines.answers import error_answer
from lyra_opt.experiments.machines.child import COPIES, OBJECTS
from lyra_opt.experiments.machines.parcels import Errand, Parcel, versions_here
from lyra_opt.experiments.pool import ROW, SHARE

SECONDS_BETWEEN_LOOKS = 0.5
"""Interval, in seconds, of checks whether a run is still wanted."""

KEPT_IDLE_S = 60.0
"""Time in seconds after which idle child processes, and the files of their call, are deleted."""

ATTEMPTS = 2
"""Attempts for a task that kills its process, as another process may have used up the memory."""

GONE = {"cancelled", "released", "forgotten"}
"""States of a task whose result is no longer needed."""


class VersionsDifferError(Exception):
    """The worker has other package versions than the machine that sent the task."""


class TaskKillsError(Exception):
    """A task has killed its process in every attempt."""


def kept(content: bytes) -> bytes:
    """Return `content` unchanged, as a Dask task whose result several other tasks read.

    Dask runs this task again if the worker with its result is lost.
    """
    return content


def carry_out(errand: Errand, parcel: Parcel, contents: Mapping[str, bytes]) -> bytes:
    """Run a task in a child process of this Dask worker.

    Parameters
    ----------
    contents
        File contents and pickled objects of the parcel, by SHA-256.

    Returns
    -------
    bytes
        The row of the run with its files, or an error such as a version mismatch; see
        `lyra_opt.experiments.machines.answers`.
    """
    try:
        _require_versions(errand)
        with _folder_of(errand) as folder:
            _lay_out(folder, parcel, contents)
            for _ in range(ATTEMPTS):
                with suppress(ChildDiedError, ConnectionError):
                    return _by_child(errand, folder, parcel.task)
            raise TaskKillsError
    except Reschedule:
        raise
    except Exception as error:
        return error_answer(error)


def _require_versions(errand: Errand) -> None:
    own = versions_here()
    for name, version in errand.versions.items():
        if own[name] != version:
            address = get_worker().address
            raise VersionsDifferError(
                f"worker {address} has {name} {own[name]}; this machine has {version}"
            )


def _lay_out(folder: Path, parcel: Parcel, contents: Mapping[str, bytes]) -> None:
    wanted = {copy_below(folder / COPIES, path): sha256 for path, sha256 in parcel.files.items()}
    wanted |= {folder / OBJECTS / sha256: sha256 for sha256 in parcel.objects}
    for path, sha256 in wanted.items():
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, contents[sha256])  # completely, as another task may write it now


class _Errands:
    """The idle child processes of this Dask worker, by the folder of the run that they serve."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[Path, list[Child]] = {}
        self._used_s: dict[Path, float] = {}
        self._in_use: dict[Path, int] = {}
        threading.Thread(target=self._tidy, daemon=True).start()

    @contextmanager
    def using(self, folder: Path) -> Iterator[None]:
        """Protect the folder of a run from deletion while tasks use it in this context."""
        with self._lock:
            self._in_use[folder] = self._in_use.get(folder, 0) + 1
            folder.joinpath(OBJECTS).mkdir(parents=True, exist_ok=True)
        try:
            yield
        finally:
            with self._lock:
                self._in_use[folder] -= 1
                self._used_s[folder] = time.monotonic()

    def _tidy(self) -> None:
        """End child processes and delete folders that have been idle for too long."""
        while True:
            time.sleep(KEPT_IDLE_S / 4)
            with self._lock:
                for folder, used_s in list(self._used_s.items()):
                    if not self._in_use[folder] and time.monotonic() - used_s > KEPT_IDLE_S:
                        del self._in_use[folder], self._used_s[folder]
                        for child in self._idle.pop(folder, []):
                            child.end()
                        shutil.rmtree(folder, ignore_errors=True)

    def take(self, errand: Errand, folder: Path) -> Child:
        """Return an idle child process, or a new one."""
        with self._lock:
            if idle := self._idle.get(folder):
                return idle.pop()
        child = Child("lyra_opt.experiments.machines.child")
        try:
            child.connection.send((errand, folder))
        except BaseException:
            child.end()
            raise
        return child

    def give_back(self, child: Child, folder: Path) -> None:
        """Keep a child process for a later task."""
        with self._lock:
            self._idle.setdefault(folder, []).append(child)


_errands = _Errands()


@contextmanager
def _folder_of(errand: Errand) -> Iterator[Path]:
    folder = Path(get_worker().local_directory) / errand.id
    with _errands.using(folder):
        yield folder


def _by_child(errand: Errand, folder: Path, task: bytes) -> bytes:
    """Run a task in a child process; return its row and files as JSON.

    Raises
    ------
    ChildDiedError, ConnectionError
        If the task kills the process.
    Reschedule
        If the result is no longer needed.
    RuntimeError
        If the process cannot read the task or write its row; the message gives the reason.
    """
    worker: Any = get_worker()
    key = worker.get_current_task()
    kind: str | None
    value: Any
    looked_s = float("-inf")
    child = _errands.take(errand, folder)
    try:
        child.connection.send(task)
        while True:
            kind, value = child.receive(time.monotonic() + SECONDS_BETWEEN_LOOKS) or (None, None)
            if kind not in (None, SHARE):
                break
            now_s = time.monotonic()
            if now_s - looked_s >= SECONDS_BETWEEN_LOOKS:
                looked_s = now_s
                state = worker.state.tasks.get(key)
                is_here = worker.status not in (Status.closing, Status.closed, Status.failed)
                if not is_here or state is None or state.state in GONE:
                    raise Reschedule
    except BaseException:
        child.end()
        raise
    _errands.give_back(child, folder)
    if kind == ROW:
        return bytes(value)
    raise RuntimeError(value)
