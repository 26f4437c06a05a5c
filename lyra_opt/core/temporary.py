"""Temporary folders and unfinished files, which do not stay where their process is killed.

A killed process removes nothing. So each folder and file has a lock (flock) that is held until its
process ends, in whatever way. The next process that makes one in the same place removes those
whose lock is free. Ids of processes do not serve: containers that share a folder count processes
separately.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

FOLDER = "lyra-opt-"
UNFINISHED = ".lyra-opt-unfinished-"
"""How the names of folders and of files begin."""

LOCK = ".lyra-opt-lock"
"""The file in a folder whose lock is held; folders without it belong to somebody else."""


class TemporaryFolder:
    """A new folder among the temporary files; it goes with `remove`, or as a context.

    Attributes
    ----------
    path
        The folder.
    """

    def __init__(self) -> None:
        remove_leftovers(Path(tempfile.gettempdir()))
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=FOLDER))
            self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT)
            if _is_taken(self._lock):
                return
            os.close(self._lock)

    def remove(self) -> None:
        """Remove the folder with its files; call it once."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


def unfinished_file(folder: Path) -> tuple[int, str]:
    """Return descriptor and path of a new file, which is not left over while that is open."""
    remove_leftovers(folder)
    while True:
        descriptor, path = tempfile.mkstemp(dir=folder, prefix=UNFINISHED)
        if _is_taken(descriptor):
            return descriptor, path
        os.close(descriptor)


def _is_taken(descriptor: int) -> bool:
    """Take the lock of a new file; return False if another process has just removed the file."""
    with suppress(OSError):  # a file system without locks: there nobody removes anything
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return os.fstat(descriptor).st_nlink > 0


@cache
def remove_leftovers(folder: Path) -> None:
    """Remove, once per process and folder, what killed processes of this user left there."""
    with suppress(OSError), os.scandir(folder) as entries:
        for name in [each.name for each in entries if each.name.startswith((FOLDER, UNFINISHED))]:
            with suppress(OSError):  # in use, gone, or not ours
                _remove_if_left(folder / name)


def _remove_if_left(path: Path) -> None:
    """Remove a folder or file of this user if its lock is free; follow no link."""
    found = path.lstat()
    is_folder = path.name.startswith(FOLDER)
    if found.st_uid != os.geteuid() or stat.S_ISDIR(found.st_mode) != is_folder:
        return
    lock = os.open(path / LOCK if is_folder else path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if is_folder:
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
    finally:
        os.close(lock)
