"""Run somebody else's machine code so that Ctrl-C is heard while it runs."""

from __future__ import annotations

import threading
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar

from lyra_opt.core.stopwatch import OutOfTimeError, interruption_in_force

if TYPE_CHECKING:
    from collections.abc import Callable

ResultT = TypeVar("ResultT")

PATIENCE_S = 0.2
"""How long an interrupted run may take to end before it is left to itself."""


def interruptible(
    run: Callable[[], ResultT], interrupt: Callable[[], object] | None = None
) -> ResultT:
    """Return what `run` does, in a thread of its own while this one waits for it.

    Python hears Ctrl-C between its own steps alone, and of a backend's run all is one step. The
    time limit in force is that of the thread too. In other threads than the main one, which hear
    no Ctrl-C, it is run at once. Where Ctrl-C asks the run to end
    (`lyra_opt.core.interrupting`), the run is interrupted and its result returned.

    Parameters
    ----------
    run
        Calls machine code that lets other threads run.
    interrupt
        Makes it end soon. Without it, it goes on unheeded until its limit or the process ends.

    Raises
    ------
    OutOfTimeError
        If Ctrl-C asks a run to end that cannot be interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        return run()
    results: list[ResultT] = []
    errors: list[BaseException] = []
    is_done = threading.Event()  # a thread whose `join` was interrupted counts as ended

    def keep() -> None:
        try:
            results.append(run())
        except BaseException as error:  # raised where somebody waits for it
            errors.append(error)
        finally:
            is_done.set()

    def end_soon() -> None:
        if interrupt is None:
            raise OutOfTimeError
        with suppress(Exception):
            interrupt()

    listeners = interruption_in_force().listeners
    thread = threading.Thread(target=copy_context().run, args=(keep,), daemon=True)
    try:
        listeners.append(end_soon)
        thread.start()
        is_done.wait()
    except BaseException:
        if interrupt is not None:
            with suppress(Exception):
                interrupt()
        is_done.wait(PATIENCE_S)
        raise
    finally:
        listeners.remove(end_soon)
    if errors:
        raise errors[0]
    return results[0]
