"""A child process that runs tasks one after another, and the loop that all such processes share.

A task can crash, use up memory or block Python's lock without harming the process that waits for
its row.
"""

from __future__ import annotations

import pickle
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.messages import as_loud_as, forgiving_stderr
from lyra_opt.core.errors import DiskFullError
from lyra_opt.core.isolation.child import live, send
from lyra_opt.experiments.pool import DISK_FULL, FAULT, ROW, SHARE, attempt, in_words
from lyra_opt.experiments.store import write_beside

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from lyra_opt.experiments.records import RunRecord


def run_received(
    connection: Connection[Any, Any], run: Callable[[bytes, Callable[[float], None]], object]
) -> None:
    """Run the tasks that arrive over a connection, and send back their rows, until it closes.

    Parameters
    ----------
    run
        Runs a pickled task, and returns its row. It calls its second argument with the progress.
    """
    with suppress(EOFError, ConnectionError):
        while True:
            data = connection.recv()
            try:
                answer = ROW, run(data, lambda share: send(connection, (SHARE, share)))
                send(connection, answer)
            except DiskFullError as error:
                send(connection, (DISK_FULL, str(error)))
            except BaseException as error:  # errors of the task itself are in its row
                send(connection, (FAULT, in_words(error)))


def serve(connection: Connection[Any, Any]) -> None:
    """Run the tasks of a process on this machine."""
    sys.path[:], loudness = connection.recv()
    with forgiving_stderr(), as_loud_as(loudness):
        run_received(connection, _record)


def _record(data: bytes, show: Callable[[float], None]) -> RunRecord:
    task, folder = pickle.loads(data)  # noqa: S301 - our parent's
    return attempt(task, partial(write_beside, folder), show, BaseException)


if __name__ == "__main__":
    live(serve)
