"""A child process of a Dask worker, which runs the worker's tasks one after another.

A task can crash, use up memory or block Python's lock without harming the worker, and modules
loaded by one call are not visible to the next call.
"""

from __future__ import annotations

import io
import os
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.messages import as_loud_as
from lyra_opt.core.isolation.child import live
from lyra_opt.core.own_files import work_as_in
from lyra_opt.experiments.child import run_received
from lyra_opt.experiments.machines.answers import answer_of
from lyra_opt.experiments.machines.parcels import Unpickler
from lyra_opt.experiments.pool import attempt
from lyra_opt.instances.traces import TRACES_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from pathlib import Path

    from lyra_opt.experiments.machines.parcels import Errand

COPIES, OBJECTS = "copies", "objects"
"""Sub-folders of a call's folder: files by path, and pickled objects by SHA-256."""

OBJECTS_KEPT = 16
"""Number of cached objects; consecutive tasks often share a scenario."""


def serve(connection: Connection[Any, Any]) -> None:
    """Run the tasks of one call, and send back their rows with their files."""
    errand, folder = connection.recv()
    work_as_in(errand.working_folder, folder / COPIES)
    _take_environment(errand)
    with as_loud_as(errand.loudness):
        run_received(connection, partial(_row, folder / OBJECTS))


def _take_environment(errand: Errand) -> None:
    if errand.traces_folder is None:
        os.environ.pop(TRACES_VARIABLE, None)
    else:
        os.environ[TRACES_VARIABLE] = errand.traces_folder


def _row(objects: Path, data: bytes, show: Callable[[float], None]) -> bytes:
    task = Unpickler(io.BytesIO(data), lambda digest: _object(objects, digest)).load()
    beside: dict[str, bytes] = {}
    return answer_of(attempt(task, beside.update, show, BaseException), beside)


@lru_cache(maxsize=OBJECTS_KEPT)
def _object(folder: Path, digest: str) -> Any:
    data = (folder / digest).read_bytes()
    return Unpickler(io.BytesIO(data), lambda inner: _object(folder, inner)).load()


if __name__ == "__main__":
    live(serve)
