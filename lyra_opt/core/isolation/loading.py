"""Load somebody's own code where it can do no harm first."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import UserError
from lyra_opt.core.isolation.child import Child, ChildDiedError, send
from lyra_opt.core.solver import SOLVERS, find_solver

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from lyra_opt.core.solver import Solver

LONGEST_LOADING_S = 60.0


def require_loadable(name: str, problem: str | None = None) -> None:
    """Load a solver that is not the toolkit's in a child, as loading runs whatever its file holds.

    What is an error here too, such as an exception, is left to whoever finds it here.

    Raises
    ------
    UserError
        If the child dies of it, or takes longer than `LONGEST_LOADING_S`.
    """
    if not SOLVERS.is_foreign(name, problem):
        return

    def load(connection: Connection[Any, Any]) -> None:
        with suppress(UserError):
            SOLVERS.find(name, problem)
        send(connection, True)

    reason = None
    child = Child(load)
    try:
        if child.receive(time.monotonic() + LONGEST_LOADING_S) is None:
            reason = f"did not end within {LONGEST_LOADING_S:g} s"
    except ChildDiedError as died:
        reason = str(died)
    finally:
        child.end()
    if reason is not None:
        raise UserError(f"solver {name!r}: cannot be loaded: {reason}")


def find_solver_safely(problem: str, name: str) -> Solver:
    """Return a solver by name: as `find_solver`, once `require_loadable` lets it pass."""
    require_loadable(name, problem)
    return find_solver(problem, name)
