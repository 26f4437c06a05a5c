"""A child process of a Dask worker, which runs the worker's tasks one after another.

A task can crash, use up memory or block Python's lock without harming the worker, and modules
loaded by one call are not visible to the next call.
"""

from __future__ import annotations

import io
import os
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.messages import as_loud_as
from lyra_opt.core.isolation.child import live, send
from lyra_opt.core.own_files import work_as_in
from lyra_opt.experiments.machines.answers import answer_of
from lyra_opt.experiments.machines.parcels import Unpickler
from lyra_opt.experiments.pool import WORKER_DIED, attempt, in_words
from lyra_opt.instances.traces import TRACES_VARIABLE

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

    from lyra_opt.experiments.machines.parcels import Errand

COPIES, OBJECTS = "copies", "objects"
"""Sub-folders of a call's folder: files by path, and pickled objects by SHA-256."""

OBJECTS_KEPT = 16
"""Number of cached objects; consecutive tasks often share a scenario."""

RUN, HAS_DIED = "run", "has died"
"""Kinds of requests: run a task, or return the row of a task that killed its process."""

SHARE, ROW, FAULT = "share", "row", "fault"
"""Kinds of answers: progress of a task, its row with its files, or an error."""


def serve(connection: Connection[Any, Any]) -> None:
    """Run the tasks that arrive over a connection, and send back their rows, until it closes."""
    errand, folder = connection.recv()
    work_as_in(errand.working_folder, folder / COPIES)
    _take_environment(errand)
    answer: tuple[str, bytes | str]
    with as_loud_as(errand.loudness), suppress(EOFError, ConnectionError):
        while True:
            what, data = connection.recv()
            try:
                answer = ROW, _row(what, data, folder / OBJECTS, connection)
            except BaseException as error:  # errors of the task itself are in its row
                answer = FAULT, in_words(error)
            send(connection, answer)


def _take_environment(errand: Errand) -> None:
    if errand.traces_folder is None:
        os.environ.pop(TRACES_VARIABLE, None)
    else:
        os.environ[TRACES_VARIABLE] = errand.traces_folder


def _row(what: str, data: bytes, objects: Path, connection: Connection[Any, Any]) -> bytes:
    task = Unpickler(io.BytesIO(data), lambda digest: _object(objects, digest)).load()
    beside: dict[str, bytes] = {}
    if what == HAS_DIED:
        row = task.failed(datetime.now(UTC), WORKER_DIED)
    else:
        row = attempt(
            task, beside.update, lambda share: send(connection, (SHARE, share)), BaseException
        )
    return answer_of(row, beside)


@lru_cache(maxsize=OBJECTS_KEPT)
def _object(folder: Path, digest: str) -> Any:
    data = (folder / digest).read_bytes()
    return Unpickler(io.BytesIO(data), lambda inner: _object(folder, inner)).load()


if __name__ == "__main__":
    live(serve)
