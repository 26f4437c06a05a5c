"""Files of the machine that asks for a run, on the machine that does it: their copies.

At home a path means what it says. Elsewhere copies of what a run reads lie below one folder, in
which each has its path of home, so that modules stay beside one another and names what they are.
"""

from __future__ import annotations

import os
from pathlib import Path

_copies: list[Path] = []


def stand_in(path: str | Path) -> Path:
    """Return where a file is to be read: its copy, if one came along, else where it is."""
    if not _copies:
        return Path(path)
    path = Path(os.path.normpath(path))  # of "a/../b" there is no "a" among copies
    if path.is_absolute() and (copy := copy_below(_copies[0], path)).exists():
        return copy
    return path


def copy_below(folder: Path, path: str | Path) -> Path:
    """Return where below a folder the copy of a file of another machine is; paths are absolute."""
    return folder / Path(path).relative_to("/")


def work_as_in(working_folder: str, copies: Path) -> None:
    """Let this process, until it ends, read copies, and relative paths as in another's folder."""
    here = copy_below(copies, working_folder)
    here.mkdir(parents=True, exist_ok=True)
    os.chdir(here)
    _copies[:] = [copies]
