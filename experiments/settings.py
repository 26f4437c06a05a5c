"""Where tasks run: what a command is told, or the ``lyra-opt.toml`` above its folder."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import parse_toml, read_text
from lyra_opt.core.errors import FieldError, InputError
from lyra_opt.core.fields import key, parsed
from lyra_opt.core.foreign import as_python
from lyra_opt.core.rules import Rule
from lyra_opt.core.validation import require_text
from lyra_opt.experiments.pool import LocalProcesses, available_processors

if TYPE_CHECKING:
    from lyra_opt.experiments.pool import Engine

SETTINGS_FILE = "lyra-opt.toml"
LARGEST_SETTINGS_BYTES = 2**16
_ADDRESS = re.compile(r"(tcp|tls)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):[0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class Address(Rule):
    """Where a Dask scheduler listens."""

    def check(self, path: str, value: Any) -> str:
        """See `lyra_opt.core.rules.Rule`."""
        address = require_text(path, as_python(value))
        if not _ADDRESS.fullmatch(address):
            rule = "must be tcp://HOST:PORT or tls://HOST:PORT, as the scheduler says that it is"
            raise FieldError(path, address, rule)
        return address

    def schema(self) -> dict[str, Any]:
        """See `lyra_opt.core.rules.Rule`."""
        return {"type": "string", "pattern": f"^{_ADDRESS.pattern}$"}

    def in_words(self) -> str:
        """See `lyra_opt.core.rules.Rule`."""
        return "address"


ADDRESS = Address()


@dataclass(frozen=True, kw_only=True)
class SettingsTable:
    """The whole of ``lyra-opt.toml``."""

    scheduler: str | None = key(
        ADDRESS, "Dask scheduler whose workers do the runs; see docs/many_machines.md", None
    )


def read_settings() -> SettingsTable:
    """Return what the nearest ``lyra-opt.toml`` says, of the working folder or one above.

    Raises
    ------
    InputError
        If it cannot be read, or breaks a rule; names file, key, value and rule.
    """
    here = Path.cwd()
    for folder in (here, *here.parents):
        path = folder / SETTINGS_FILE
        if path.is_file():
            shown = os.path.relpath(path)
            document = parse_toml(read_text(shown, LARGEST_SETTINGS_BYTES), shown, "settings")
            try:
                return parsed(SettingsTable, document)
            except FieldError as error:
                raise InputError(shown, str(error)) from None
    return SettingsTable()


def engine_of(scheduler: str | None, processes: int | None, *, spares_one: bool = False) -> Engine:
    """Return where a command's tasks run.

    Parameters
    ----------
    scheduler
        Address of a Dask scheduler whose workers do them.
    processes
        Worker processes on this machine instead. Without either ``lyra-opt.toml`` may name a
        scheduler; else there is a process for each processor.
    spares_one
        As of `lyra_opt.experiments.pool.LocalProcesses`.

    Raises
    ------
    UserError
        If an address is none, the file breaks a rule, or the extra ``cluster`` is missing.
    """
    if scheduler is None and processes is None:
        scheduler = read_settings().scheduler
    if scheduler is not None:
        from lyra_opt.experiments.machines.engine import Machines

        return Machines(ADDRESS.check("--scheduler", scheduler))
    return LocalProcesses(processes or available_processors(), spares_one=spares_one)
