"""The choice of where tasks run: on this machine, or on the workers of a Dask scheduler."""

import os
import re
from typing import Any

from lyra_opt.commands.messages import say
from lyra_opt.core.errors import FieldError
from lyra_opt.core.foreign import as_python
from lyra_opt.core.rules import require_text
from lyra_opt.experiments.pool import Engine, LocalProcesses, available_processors

SCHEDULER_VARIABLE = "LYRA_OPT_SCHEDULER"
_ADDRESS = re.compile(r"(tcp|tls)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):[0-9]{1,5}")


def checked_address(path: str, value: Any) -> str:
    """Return the address of a Dask scheduler; raise `FieldError` if it is not valid."""
    address = require_text(path, as_python(value))
    if not _ADDRESS.fullmatch(address):
        rule = "must be tls://HOST:PORT or tcp://HOST:PORT, as printed by the scheduler"
        raise FieldError(path, address, rule)
    return address


def engine_of(scheduler: str | None, processes: int | None, *, spares_one: bool = False) -> Engine:
    """Return the engine that runs the tasks of a command.

    Parameters
    ----------
    scheduler
        Address of a Dask scheduler whose workers run the tasks.
    processes
        Number of worker processes on this machine. Without `scheduler` and `processes`, the
        variable LYRA_OPT_SCHEDULER may name a scheduler; otherwise this machine runs one process
        per processor.
    spares_one
        As in `lyra_opt.experiments.pool.LocalProcesses`.

    Raises
    ------
    UserError
        If an address is invalid, the scheduler does not answer, or the extra ``cluster`` is not
        installed.
    """
    source = "--scheduler"
    if scheduler is None and processes is None:
        scheduler, source = os.environ.get(SCHEDULER_VARIABLE) or None, SCHEDULER_VARIABLE
    if scheduler is not None:
        from lyra_opt.experiments.machines.engine import Machines

        machines = Machines(checked_address(source, scheduler))
        say(f"runs are sent to the workers of scheduler {scheduler} ({source})")
        return machines
    return LocalProcesses(processes or available_processors(), spares_one=spares_one)
