"""A process that works for this one and can be ended at any moment."""

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
"""Of waiting: a child may die while processes that it has started hold its end of the pipe."""

GONE_WITHIN_S = 2.0
"""A child that dies is gone so soon after its end of the pipe; one that lives on has closed it."""

ASKED_FOR_STACK = signal.SIGUSR1

FIRST_TO_BE_KILLED = "500"
"""As Linux counts when memory runs out: the solver that takes it, not the one who asked it."""


_LENGTH = struct.Struct("!Q")
_READ_BYTES = 1 << 18


_ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)


class ChildDiedError(Exception):
    """A child has ended by itself; the message says how."""


class Child:
    """A process that is forked from this one, or runs a module of its own.

    A forked child costs some ten milliseconds and has all that this process has: objects that no
    pickle can carry, and classes of an interactive session. A process with threads that hold locks
    must not be forked: its children run a module.

    A child leads a process group, which ends with it: what it has started is ended too, and its
    temporary files go. On Linux that holds for processes that left the group too (daemons, for
    example). If the child crashes, they are recognised by the temporary folder in their
    environment, or were seen before. A child ends when this process does, whatever ends that, as
    soon as its machine code lets threads of Python run. Ctrl-C in a terminal does not reach it.

    Parameters
    ----------
    serve
        What the child does with its end of a pipe; when that returns, it ends. A module to run is
        given by its name, and calls `live`.
    """

    def __init__(self, serve: Callable[[Connection[Any, Any]], None] | str) -> None:
        self._stack = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        self._folder = TemporaryFolder()
        self.connection, other_end = Pipe()
        ours, theirs = os.pipe()  # of which one end is here alone, so that it closes with us
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
        with suppress(OSError):  # the child may have done so itself, or be gone
            os.setpgid(self.process, self.process)

    def receive(self, until_s: float | None = None) -> Any:
        """Return what the child sends next; None if it sends nothing until then.

        Parameters
        ----------
        until_s
            As `time.monotonic` counts; None is for ever.

        Raises
        ------
        ChildDiedError
            If it has ended; there is nothing left to do but `end`.
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
                if time.monotonic() < latest_s:  # all that lies there, unless it never ends
                    continue
            if until_s is not None and left_s <= 0:
                return None
            if self._has_ended(os.WNOHANG) and not self.connection.poll():  # no last words
                raise ChildDiedError(self._how_it_ended())

    def _next_message(self) -> bytes | None:
        """Return the next message; None if it has not come as a whole.

        Nothing waits here for the rest of one: a solver that is stopped while it is sent, or writes
        into descriptors that are not its own, is still ended at its limit.
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
        """Return how it has ended, and leave it to `end` to take note; None if it has not."""
        return os.waitid(os.P_PID, self.process, os.WEXITED | os.WNOWAIT | options)

    def _how_it_ended(self) -> str:
        """Return in words how it has ended, or that it lives on but can send nothing more."""
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
        """Return where it is or, if it was ended by a signal, where that was; empty if unknown.

        Python's lines alone, of all threads; also where compiled code never returns.
        """
        if self._has_ended(os.WNOHANG) is None:
            os.kill(self.process, ASKED_FOR_STACK)
            until_s = time.monotonic() + LONGEST_SLICE_S
            while not os.fstat(self._stack.fileno()).st_size and time.monotonic() < until_s:
                time.sleep(LONGEST_SLICE_S / 20)
        self._stack.seek(0)
        return self._stack.read().decode(errors="replace")

    def end(self) -> struct_rusage | None:
        """End it with all that it has started; return what it took, None if it is gone."""
        if self._lifeline is None:
            return None
        if self._has_ended(os.WNOHANG) is None:
            with suppress(ProcessLookupError):
                os.kill(self.process, signal.SIGSTOP)  # else it could go on starting others
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
    """Send a message to `Child.receive`; the child's side.

    Raises
    ------
    OSError
        If nobody is there to receive it.
    """
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    unsent = memoryview(_LENGTH.pack(len(data)) + data)
    while unsent:
        unsent = unsent[os.write(connection.fileno(), unsent) :]


def _forked() -> int:
    """Return the process of a fork of this one, 0 in the child."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError, OSError):  # closed, or none
            stream.flush()  # else what waits there would be written twice
    with warnings.catch_warnings():
        # Of threads in this process: the child runs none of theirs, and waits for none.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _started(module: str, descriptors: tuple[int, ...], folder: str) -> int:
    """Return the process that runs a module, with its end of everything as arguments."""
    # No `multiprocessing.Process`: a Dask worker under a nanny is a daemon, which may have none.
    child = subprocess.Popen(  # noqa: S603
        [sys.executable, "-P", "-m", module, *map(str, descriptors), folder],
        pass_fds=descriptors,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    child.returncode = 0  # only `Child.end` waits for it
    return child.pid


def live(serve: Callable[[Connection[Any, Any]], None]) -> NoReturn:
    """Be a child that runs a module; what the module does when it is run."""
    connection, lifeline, stack, folder = sys.argv[1:]
    _live(serve, Connection(int(connection)), int(lifeline), int(stack), folder)


def _live(
    serve: Callable[[Connection[Any, Any]], None],
    connection: Connection[Any, Any],
    lifeline: int,
    stack: int,
    folder: str,
) -> NoReturn:
    """Be the child; never return to what this process did before it was one."""
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
        with suppress(OSError):  # other systems have their own ways
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
        shutil.rmtree(folder, ignore_errors=True)  # where nobody is left to do so
        os._exit(status)


def _read_nothing() -> None:
    """Let the standard input be empty: a process in the background is stopped where it reads."""
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)


def _end_with_parent(lifeline: int, folder: str) -> None:
    os.read(lifeline, 1)  # returns when the other end is closed
    shutil.rmtree(folder, ignore_errors=True)
    _kill_descendants(os.getpid())
    os.killpg(0, signal.SIGKILL)


def _kill_descendants(process: int) -> None:
    """Kill whatever a process has started, and what these have started meanwhile."""
    killed = {process}
    while found := set(family(process)) - killed:
        for each in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(each, signal.SIGKILL)
        killed |= found


def _kill_processes_of(folder: str) -> None:
    """Kill the processes that a child left behind, which have its temporary folder."""
    mark = f"TMPDIR={folder}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in path.read_bytes().split(b"\0"):
                os.kill(int(path.parent.name), signal.SIGKILL)
