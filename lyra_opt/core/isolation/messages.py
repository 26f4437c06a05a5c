"""What a process and the children that call solvers for it say to one another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from lyra_opt.core.execution import Call
    from lyra_opt.core.instance import ProblemInstance
    from lyra_opt.core.trajectory import TrajectoryPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a child is asked to do; None is what it has already.

    Each message that answers it comes after its number: threads of backends may speak after the
    end of a call.
    """

    number: int
    solver: str | None
    instance: ProblemInstance | None
    call: Call


@dataclass(frozen=True, slots=True)
class Turn:
    """Whose turn it is: the clock of a limit runs while it is the solver's.

    Parameters
    ----------
    of
        ``solver``, ``loading``: packages and compiled kernels, as happens once a process, or
        ``nobody``.
    cpu_time_s, memory_mib
        Of the child so far.
    """

    of: Literal["solver", "loading", "nobody"]
    cpu_time_s: float = 0.0
    memory_mib: float = 0.0


@dataclass(frozen=True, slots=True)
class Told:
    """What an observer is told, and the solution with it as a pickle."""

    point: TrajectoryPoint
    solution: bytes | None
