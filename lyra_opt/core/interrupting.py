"""Ctrl-C while a solver runs: the first ends the run with what it knows, the second at once."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from lyra_opt.core.stopwatch import Interruption, heeding, interruption_in_force

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S = 1.0
"""How long an interrupted solver of the toolkit may take to end before it is cut off."""


class CtrlC(Interruption):
    """What signals ask of the runs of this process.

    Attributes
    ----------
    is_repeated
        Whether a second signal came, which raises KeyboardInterrupt wherever the process is.
    """

    def __init__(self) -> None:
        super().__init__()
        self.process = os.getpid()
        self.is_repeated = False
        self._patience_s: float | None = None
        self._is_cut_off = False
        self._waiting: threading.Timer | None = None

    def hear(self, previous: Any, number: int, frame: Any) -> None:
        """Take a signal, or the end of the patience with the first one."""
        if self._is_cut_off:
            self._is_cut_off = False
            if self._patience_s is not None:
                raise KeyboardInterrupt
            return
        if self.is_asked:
            self.is_repeated = True
            if callable(previous):
                previous(number, frame)
            raise KeyboardInterrupt
        try:
            self.ask()
        finally:
            self._cut_off_later(number)

    def _cut_off_later(self, number: int) -> None:
        if self._patience_s == 0:
            raise KeyboardInterrupt
        if self._patience_s is not None:
            self._waiting = threading.Timer(self._patience_s, self._cut_off, [number])
            self._waiting.daemon = True
            self._waiting.start()

    def _cut_off(self, number: int) -> None:
        if self._patience_s is not None:
            self._is_cut_off = True
            signal.pthread_kill(threading.main_thread().ident or 0, number)

    @contextmanager
    def cutting_off(self, patience_s: float) -> Iterator[None]:
        """Raise KeyboardInterrupt in what has not ended so long after the first signal."""
        self._patience_s = patience_s
        try:
            if self.is_asked:  # before it began
                raise KeyboardInterrupt
            yield
        finally:
            self._patience_s = None
            if self._waiting is not None:  # no signal of its may come when handlers are restored
                self._waiting.cancel()
                self._waiting.join()


@contextmanager
def heeding_signals(*numbers: signal.Signals) -> Iterator[Interruption]:
    """Let the first of these signals ask the runs within to end, and a second one end them at once.

    Signals that the process ignores stay ignored, and other handlers come back afterwards. Only the
    main thread hears signals. Within another such block of this process, that one counts.
    """
    around = interruption_in_force()
    if isinstance(around, CtrlC) and around.process == os.getpid():
        yield around
        return
    ctrl_c, before = CtrlC(), {}
    with heeding(ctrl_c):
        try:
            if threading.current_thread() is threading.main_thread():
                for number in numbers:
                    previous = signal.getsignal(number)
                    if previous not in (signal.SIG_IGN, None):
                        before[number] = previous
                        signal.signal(number, partial(ctrl_c.hear, previous))
            yield ctrl_c
        finally:
            for number, previous in before.items():
                signal.signal(number, previous)
