"""What all exact models share: the clock, the rounding of bounds, and what may be claimed.

A backend (HiGHS, CBC, SCIP, CP-SAT) computes in floats or calls optimal what it has not proved.
So nothing it says is passed on as it is: the values of its variables are rounded and paid for in
integers by the caller, and its bound is weakened before it is rounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lyra_opt.core.result import SolveResult, Status, StoppedBy, same_value
from lyra_opt.core.solver import Unsupported
from lyra_opt.core.stopwatch import Stopwatch, loading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lyra_opt.core.result import Number

SolutionT = TypeVar("SolutionT")
NumberT = TypeVar("NumberT", int, float)

ABSOLUTE_TOLERANCE = 1e-6  # the backends' own feasibility and integrality tolerances
RELATIVE_TOLERANCE = 1e-9
LARGEST_SEED = 2**31 - 1  # the largest that all backends take
LONGEST_TIME_LIMIT_S = 1e9  # some backends cannot represent more, and 30 years is no limit


class Countdown:
    """The time that is left of a limit, from the moment of construction.

    As in `lyra_opt.core.stopwatch`, what a process loads once does not count.

    Parameters
    ----------
    time_s
        Wall-clock seconds, None for no limit.
    """

    def __init__(self, time_s: float | None) -> None:
        limited = time_s is not None and time_s < LONGEST_TIME_LIMIT_S
        self._time_s = time_s if limited else None
        self._stopwatch = Stopwatch()

    @property
    def remaining_s(self) -> float | None:
        """Seconds left, at least 0; None without a limit."""
        return None if self._time_s is None else max(0.0, self._time_s - self._stopwatch.elapsed_s)

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return self.remaining_s == 0.0


class BuiltModel(Protocol):
    """A backend's model with its variables, as ``formulations.backends`` runs it."""

    @property
    def model(self) -> Any:
        """The model, in the backend's own type."""

    @property
    def hinted(self) -> Sequence[Any]:
        """All variables, in the order of the values of a `StartValues`."""

    @property
    def decisions(self) -> Sequence[Any]:
        """The variables whose values make a solution."""


class StartValues(Protocol):
    """The solution that a backend starts from."""

    @property
    def values(self) -> Sequence[int]:
        """The value of each of the `BuiltModel.hinted` variables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendRun:
    """What a backend says of one run of a minimisation, not believed yet.

    Parameters
    ----------
    values
        The values of `BuiltModel.decisions`, not rounded; None without a solution.
    bound
        Its lower bound on the optimum: an int if it was computed in exact arithmetic, else a
        float; None, infinite or NaN if it has none.
    stopped_by
        The limit that ended the run, None if it ran to its end.
    counters
        Effort spent, by name.
    """

    values: Sequence[float] | None = None
    bound: Number | None = None
    stopped_by: StoppedBy | None = None
    counters: Mapping[str, int] = field(default_factory=dict)


def missing_module(modules: Iterable[str]) -> Unsupported | None:
    """Return which module's package is not installed, None if all are; imports none of them."""
    for module in modules:
        package = module.partition(".")[0]
        if find_spec(package) is None:
            return Unsupported(f"the Python package {package} is not installed")
    return None


def load_modules(modules: Iterable[str]) -> None:
    """Import the modules; what that takes is not a solver's time."""
    with loading():
        for module in modules:
            import_module(module)


def safe_lower_bound(bound: Number | None, *, step: int = 1) -> int:
    """Return an integer lower bound on an objective that takes multiples of `step` >= 1 only.

    The smallest multiple of `step` that is at least 0 and at least the bound; of a float,
    max(1e-6, 1e-9 * bound) and one unit in the last place are taken off first. A float may exceed
    the optimum by the backend's tolerances, and just then rounding up would carry it a whole step
    beyond. Where the margin is above a step, from bounds of 10^9 steps on, proofs get lost but
    none gets wrong.

    >>> safe_lower_bound(6.86), safe_lower_bound(7.0000001), safe_lower_bound(-math.inf)
    (7, 7, 0)
    >>> safe_lower_bound(6.86, step=5), safe_lower_bound(2e9), safe_lower_bound(2 * 10**9)
    (10, 1999999998, 2000000000)
    """
    if bound is None or not math.isfinite(bound) or bound <= 0:
        return 0
    if isinstance(bound, float):
        exact = Fraction(bound)  # from 2^53 on, sums of floats are rounded themselves
        margin = max(Fraction(ABSOLUTE_TOLERANCE), exact * Fraction(RELATIVE_TOLERANCE))
        bound = math.ceil(exact - margin - Fraction(math.ulp(bound)))
    return max(0, -(-bound // step) * step)


def better(
    start: tuple[SolutionT, int], found: tuple[SolutionT, int] | None
) -> tuple[SolutionT, int]:
    """Return what was found if its objective is lower than that of the start, else the start."""
    return found if found is not None and found[1] < start[1] else start


def concluded(
    incumbent: tuple[SolutionT, NumberT],
    bound: NumberT,
    *,
    stopped_by: StoppedBy | None = None,
    counters: Mapping[str, int] | None = None,
    observer: Callable[[str, int | float], None] | None = None,
    proof_gap: float = RELATIVE_TOLERANCE,
) -> SolveResult[SolutionT]:
    """Return what is known: optimal only where the bound meets the objective.

    Integers meet where they are equal, floats within `proof_gap`, relatively. A bound beyond the
    objective is passed on as it is; whoever checks the result reports it as a contradiction.
    """
    solution, objective = incumbent
    message = None
    is_proved = same_value(bound, objective, tolerance=proof_gap)
    if stopped_by is None and not is_proved:
        message = (
            f"the backend was done, but its bound, rounded to the safe side, is {bound}: "
            "floating point does not prove this objective"
        )
    if observer is not None:
        observer("dual_bound", bound)
    return SolveResult(
        status=Status.OPTIMAL if is_proved else Status.FEASIBLE,
        stopped_by=stopped_by,
        solution=solution,
        objective=objective,
        dual_bound=bound,
        counters=counters or {},
        message=message,
    )
