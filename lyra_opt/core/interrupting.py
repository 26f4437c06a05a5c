"""Ctrl-C during a run: the first keeps the best result, the second ends the run without delay."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from lyra_opt.core.stopwatch import Interruption, heeding, interruption_in_force

PATIENCE_S = 1.0
"""Seconds that a solver of the toolkit has to stop by itself after Ctrl-C."""


class CtrlC(Interruption):
    """An interruption by signals such as Ctrl-C.

    Attributes
    ----------
    is_repeated
        Whether a second signal came; it raises KeyboardInterrupt in the main thread.
    """

    def __init__(self) -> None:
        super().__init__()
        self.process = os.getpid()
        self.is_repeated = False
        self._patience_s: float | None = None
        self._is_cut_off = False
        self._waiting: threading.Timer | None = None

    def hear(self, previous: Any, number: int, frame: Any) -> None:
        """Handle a signal, or the end of the waiting time after the first signal."""
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
        """Raise KeyboardInterrupt in a ``with`` block `patience_s` seconds after a first signal."""
        self._patience_s = patience_s
        try:
            if self.is_asked:  # the signal came before the block began
                raise KeyboardInterrupt
            yield
        finally:
            self._patience_s = None
            if self._waiting is not None:  # its signal must not arrive after handlers are restored
                self._waiting.cancel()
                self._waiting.join()


@contextmanager
def heeding_signals(*numbers: signal.Signals) -> Iterator[Interruption]:
    """Let the first signal stop the runs in a ``with`` block, and the second end them at once.

    Signals that the process ignores stay ignored, and the previous handlers are restored
    afterwards. Only the main thread receives signals. Inside another such block of this process,
    the outer block handles the signals.
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
