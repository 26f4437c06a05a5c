"""Temporary folders and unfinished files, which are removed even if their process is killed.

A killed process cannot remove its files. Each folder and file therefore has a lock (flock) that the
system releases when the process ends. The next process that creates one in the same place removes
those whose lock is free. Process ids would not work, because containers that share a folder number
their processes separately.
"""

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
"""The prefixes of the names of temporary folders and unfinished files."""

LOCK = ".lyra-opt-lock"
"""The locked file in each temporary folder; a folder without it belongs to another program."""


class TemporaryFolder:
    """A new temporary folder; `remove`, or the end of its context, deletes it.

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
        """Remove the folder with its files; must be called only once."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


def unfinished_file(folder: Path) -> tuple[int, str]:
    """Create a temporary file and return its descriptor and path.

    Another process may remove the file once it is closed.
    """
    remove_leftovers(folder)
    while True:
        descriptor, path = tempfile.mkstemp(dir=folder, prefix=UNFINISHED)
        if _is_taken(descriptor):
            return descriptor, path
        os.close(descriptor)


def _is_taken(descriptor: int) -> bool:
    """Lock a new file; return False if another process has just removed it."""
    with suppress(OSError):  # on a file system without locks, leftovers are never removed
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return os.fstat(descriptor).st_nlink > 0


@cache
def remove_leftovers(folder: Path) -> None:
    """Remove, once per process, the files in `folder` that killed processes left behind."""
    with suppress(OSError), os.scandir(folder) as entries:
        for name in [each.name for each in entries if each.name.startswith((FOLDER, UNFINISHED))]:
            with suppress(OSError):  # in use, already removed, or owned by another user
                _remove_if_left(folder / name)


def _remove_if_left(path: Path) -> None:
    """Remove a folder or file of this user if its lock is free; symbolic links are not followed."""
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
