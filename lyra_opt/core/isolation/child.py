"""A child process that works for this process and can be killed at any moment."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import pickle
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from lyra_opt.core.isolation.memory import family
from lyra_opt.core.temporary import TemporaryFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from resource import struct_rusage

LONGEST_SLICE_S = 0.1
"""Longest single wait for a child, in seconds.

A child may die while a process that it started still holds its end of the pipe.
"""

GONE_WITHIN_S = 2.0
"""Seconds within which a dying child is gone after its end of the pipe is closed."""

ASKED_FOR_STACK = signal.SIGUSR1

FIRST_TO_BE_KILLED = "500"
"""The value of oom_score_adj with which Linux kills the child before its parent."""


_LENGTH = struct.Struct("!Q")
_READ_BYTES = 1 << 18


_ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)


class ChildDiedError(Exception):
    """An error for a child process that ended by itself; the message says how it ended."""


class Child:
    """A child process, either forked from this process or started to run a Python module.

    A fork takes about ten milliseconds and has all objects of this process, including objects that
    cannot be pickled and classes of an interactive session. A process with threads that hold locks
    must not be forked; its children run a module.

    A child leads a process group, which is killed with it: all processes that it started end, and
    its temporary files are removed. On Linux this includes processes that left the group, such as
    daemons. If the child crashes, they are recognised by the temporary folder in their environment,
    or were seen before. A child ends when this process ends, however that happens, as soon as its
    machine code lets Python threads run. Ctrl-C in a terminal does not reach a child.

    Parameters
    ----------
    serve
        The function that the child runs with its end of a pipe; the child ends when it returns. A
        string is the name of a module to run, which calls `live`.
    """

    def __init__(self, serve: Callable[[Connection[Any, Any]], None] | str) -> None:
        self._stack = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        self._folder = TemporaryFolder()
        self.connection, other_end = Pipe()
        ours, theirs = os.pipe()  # only this process holds `theirs`, so it closes when we end
        stack, folder = self._stack.fileno(), str(self._folder.path)
        if isinstance(serve, str):
            self.process = _started(serve, (other_end.fileno(), ours, stack), folder)
        else:
            self.process = _forked()
            if self.process == 0:
                os.close(theirs)
                self.connection.close()
                _live(serve, other_end, ours, stack, folder)
        os.close(ours)
        other_end.close()
        self._lifeline: int | None = theirs
        self._received = bytearray()
        with suppress(OSError):  # the child may have done it already, or be gone
            os.setpgid(self.process, self.process)

    def receive(self, until_s: float | None = None) -> Any:
        """Return the next message of the child; None if no message comes before `until_s`.

        Parameters
        ----------
        until_s
            A time of `time.monotonic`; None means no limit.

        Raises
        ------
        ChildDiedError
            If the child has ended; then only `end` may be called.
        """
        latest_s = max(until_s or 0.0, time.monotonic()) + LONGEST_SLICE_S
        while True:
            left_s = LONGEST_SLICE_S if until_s is None else until_s - time.monotonic()
            if (data := self._next_message()) is not None:
                return pickle.loads(data)  # noqa: S301 - our child's
            if self.connection.poll(max(0.0, min(left_s, LONGEST_SLICE_S))):
                try:
                    received = os.read(self.connection.fileno(), _READ_BYTES)
                except OSError:
                    received = b""
                if not received:
                    raise ChildDiedError(self._how_it_ended())
                self._received += received
                if time.monotonic() < latest_s:  # read everything that waits, but not for ever
                    continue
            if until_s is not None and left_s <= 0:
                return None
            if self._has_ended(os.WNOHANG) and not self.connection.poll():  # nothing left to read
                raise ChildDiedError(self._how_it_ended())

    def _next_message(self) -> bytes | None:
        """Return the next message; None if it has not arrived completely.

        The method never waits for the rest of a message. A solver that is stopped while it sends,
        or that writes into the pipe itself, is therefore still killed at its limit.
        """
        if len(self._received) < _LENGTH.size:
            return None
        end = _LENGTH.size + _LENGTH.unpack_from(self._received)[0]
        if len(self._received) < end:
            return None
        data = bytes(self._received[_LENGTH.size : end])
        del self._received[:end]
        return data

    def _has_ended(self, options: int = 0) -> Any:
        """Return how the child ended, without reaping it; None if it still runs."""
        return os.waitid(os.P_PID, self.process, os.WEXITED | os.WNOWAIT | options)

    def _how_it_ended(self) -> str:
        """Return in words how the child ended, or that it runs on without a connection."""
        until_s = time.monotonic() + GONE_WITHIN_S
        while (ended := self._has_ended(os.WNOHANG)) is None:
            if time.monotonic() > until_s:
                return "its process closed its connection and went on"
            time.sleep(LONGEST_SLICE_S / 20)
        if ended.si_code == os.CLD_EXITED:
            return f"its process exited with code {ended.si_status}"
        words = signal.strsignal(ended.si_status) or "unknown"
        return f"its process was ended by signal {ended.si_status} ({words})"

    def stack(self) -> str:
        """Return the Python stack of the child as text; empty if it is unknown.

        The stack is also available after the child died of a signal.

        The stack has Python lines only, of all threads; it also works while compiled code runs.
        """
        if self._has_ended(os.WNOHANG) is None:
            os.kill(self.process, ASKED_FOR_STACK)
            until_s = time.monotonic() + LONGEST_SLICE_S
            while not os.fstat(self._stack.fileno()).st_size and time.monotonic() < until_s:
                time.sleep(LONGEST_SLICE_S / 20)
        self._stack.seek(0)
        return self._stack.read().decode(errors="replace")

    def end(self) -> struct_rusage | None:
        """Kill the child and its descendants; return its resource usage (None at a second call)."""
        if self._lifeline is None:
            return None
        if self._has_ended(os.WNOHANG) is None:
            with suppress(ProcessLookupError):
                os.kill(self.process, signal.SIGSTOP)  # it must not start further processes
            _kill_descendants(self.process)
        else:
            _kill_processes_of(str(self._folder.path))
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)
        _, _, usage = os.wait4(self.process, 0)
        self.connection.close()
        self._stack.close()
        os.close(self._lifeline)
        self._lifeline = None
        self._folder.remove()
        return usage


def send(connection: Connection[Any, Any], message: object) -> None:
    """Send a message from the child process to its parent, which calls `Child.receive`.

    Raises
    ------
    OSError
        If no process can receive it.
    """
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    unsent = memoryview(_LENGTH.pack(len(data)) + data)
    while unsent:
        unsent = unsent[os.write(connection.fileno(), unsent) :]


def _forked() -> int:
    """Fork this process; return the process id of the child, or 0 in the child."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError, OSError):  # closed, or None
            stream.flush()  # buffered text would be written twice
    with warnings.catch_warnings():
        # Python warns that threads exist at a fork; the child neither runs nor waits for them.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _started(module: str, descriptors: tuple[int, ...], folder: str) -> int:
    """Start a process that runs a module, with the descriptors as arguments; return its id."""
    # A Dask worker is a daemon process, in which `multiprocessing.Process` cannot start children.
    child = subprocess.Popen(  # noqa: S603
        [sys.executable, "-P", "-m", module, *map(str, descriptors), folder],
        pass_fds=descriptors,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    child.returncode = 0  # only `Child.end` waits for it
    return child.pid


def live(serve: Callable[[Connection[Any, Any]], None]) -> NoReturn:
    """Serve the parent process from a module that was started as a child process."""
    connection, lifeline, stack, folder = sys.argv[1:]
    _live(serve, Connection(int(connection)), int(lifeline), int(stack), folder)


def _live(
    serve: Callable[[Connection[Any, Any]], None],
    connection: Connection[Any, Any],
    lifeline: int,
    stack: int,
    folder: str,
) -> NoReturn:
    """Set up the child process, run `serve`, and then end the process."""
    status = 1
    try:
        with suppress(OSError):
            os.setpgid(0, 0)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the parent passes Ctrl-C on
        faulthandler.enable(stack)
        faulthandler.register(ASKED_FOR_STACK, stack)
        _read_nothing()
        with suppress(OSError):  # only Linux has this file
            Path("/proc/self/oom_score_adj").write_text(FIRST_TO_BE_KILLED, encoding="ascii")
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        threading.Thread(target=_end_with_parent, args=(lifeline, folder), daemon=True).start()
        serve(connection)
        status = 0
    finally:
        with suppress(Exception):
            sys.stdout.flush()
        shutil.rmtree(folder, ignore_errors=True)  # the parent may have ended
        os._exit(status)


def _read_nothing() -> None:
    """Replace the standard input by an empty one; reading a terminal would stop the process."""
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)


def _end_with_parent(lifeline: int, folder: str) -> None:
    os.read(lifeline, 1)  # returns when the other end is closed
    shutil.rmtree(folder, ignore_errors=True)
    _kill_descendants(os.getpid())
    os.killpg(0, signal.SIGKILL)


def _kill_descendants(process: int) -> None:
    """Kill all descendants of a process, including those started meanwhile."""
    killed = {process}
    while found := set(family(process)) - killed:
        for each in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(each, signal.SIGKILL)
        killed |= found


def _kill_processes_of(folder: str) -> None:
    """Kill the processes that a dead child left, recognised by its temporary folder."""
    mark = f"TMPDIR={folder}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in path.read_bytes().split(b"\0"):
                os.kill(int(path.parent.name), signal.SIGKILL)
