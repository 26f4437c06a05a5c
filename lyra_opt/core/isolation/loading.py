"""Load a user's own code first in a child process, so that a crash does no harm."""

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import UserError
from lyra_opt.core.isolation.child import Child, ChildDiedError, send
from lyra_opt.core.solver import SOLVERS, Solver, find_solver

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

LONGEST_LOADING_S = 60.0


def require_loadable(name: str, problem: str | None = None) -> None:
    """Load a user's solver in a child process, and raise `UserError` if the child dies.

    Loading a solver runs the code of its file.

    Exceptions while loading are ignored here; the caller gets them when it loads the solver itself.

    Raises
    ------
    UserError
        If the child dies, or takes longer than `LONGEST_LOADING_S` seconds.
    """
    if not SOLVERS.is_foreign(name, problem):
        return

    def load(connection: "Connection[Any, Any]") -> None:
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
    """Return a solver by name, after a child process has loaded it without dying."""
    require_loadable(name, problem)
    return find_solver(problem, name)
