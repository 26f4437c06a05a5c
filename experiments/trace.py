"""The job trace that a study's instances are cut from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from lyra_opt.core.errors import InputError
from lyra_opt.instances.traces import NOT_THERE, locate, read_trace


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace file.

    Parameters
    ----------
    path
        Where it is on this machine.
    sha256
        SHA-256 of its bytes.
    """

    path: str
    sha256: str

    @property
    def name(self) -> str:
        """Its name without folders, for rows that are read on other machines."""
        return Path(self.path).name


def find_trace(file: str) -> Trace:
    """Return the trace `file`, looked up as given and then in the folder of LYRA_OPT_TRACES.

    Raises
    ------
    InputError
        If it is in neither place or is no job trace; names row and column.
    """
    path = locate(file)
    if not path.is_file():
        raise InputError(file, f"is no file, {NOT_THERE}")
    read_trace(path)  # a damaged trace is one error now, not one in every row
    try:
        with path.open("rb") as stream:
            return Trace(str(path), hashlib.file_digest(stream, "sha256").hexdigest())
    except OSError as error:
        raise InputError(file, f"cannot be read: {error.strerror or error}") from None
