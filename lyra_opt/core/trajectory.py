"""Incumbents and dual bounds over the time of a run, as the solver reports them."""

from __future__ import annotations

import math
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lyra_opt.core.foreign import as_python
from lyra_opt.core.result import is_finite_number
from lyra_opt.core.texts import words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lyra_opt.core.problem import Variant
    from lyra_opt.core.result import Number
    from lyra_opt.core.solver import Observer
    from lyra_opt.core.stopwatch import Stopwatch


class TrajectoryPoint(NamedTuple):
    """An objective or a dual bound that a run knew from a certain time on.

    Parameters
    ----------
    elapsed_s
        Seconds since the call of the solver, on the clock of `Answer.wall_time_s`.
    kind
        Whether `value` is an objective or a dual bound.
    value
        A value that is better than the one before it of the same kind, or the final value.
    is_checked
        Whether the checker recomputed the value and compared objective and bound. This holds for
        the last point of each kind; earlier points are the solver's own claims.
    """

    elapsed_s: float
    kind: Literal["objective", "dual_bound"]
    value: Number
    is_checked: bool = False


def is_improvement(variant: Variant, kind: str, value: Number, known: Number | None) -> bool:
    """Return whether an objective is better, or a bound tighter, than the known value, if any."""
    if known is None:
        return True
    first, second = (value, known) if kind == "objective" else (known, value)
    return bool(variant.is_better(first, second))


class Improvements:
    """An observer that forwards only objectives and bounds better than all earlier ones.

    Backends may call it from their own threads.
    """

    def __init__(self, observer: Observer, variant: Variant) -> None:
        self._observer, self._variant = observer, variant
        self._known: dict[str, Number] = {}
        self._lock = Lock()

    def __call__(self, kind: str, value: Number, solution: Any = None) -> None:
        """Pass on a finite objective or dual bound if it is an improvement."""
        with self._lock:
            is_new = is_improvement(self._variant, kind, value, self._known.get(kind))
            if is_new and math.isfinite(value):
                self._known[kind] = value
                self._observer(kind, value, solution)


class Recorder:
    """An observer that records each improved objective or dual bound with its time.

    It passes every reported value on to another observer, if one is given.

    Parameters
    ----------
    stopwatch
        The clock of the run.
    observer
        Another observer to call, if any.

    Attributes
    ----------
    best
        The best solution that was reported, with its objective.
    bound
        The best dual bound that was reported.
    """

    def __init__(
        self, variant: Variant, stopwatch: Stopwatch, observer: Observer | None = None
    ) -> None:
        self._stopwatch, self._observer = stopwatch, observer
        self._points: list[TrajectoryPoint] = []
        self.best: tuple[Any, Number] | None = None
        self.bound: Number | None = None
        self._keep = Improvements(self._record, variant)

    def __call__(self, kind: str, value: Number, solution: Any = None) -> None:
        """Record an objective or a dual bound if it is an improvement.

        Raises
        ------
        ValueError
            If the value is not a finite number; this is an error of the solver.
        """
        told = as_python(value)
        if not is_finite_number(told):
            raise ValueError(f"the reported {words(kind)} must be a finite number, not {value!r}")
        self._keep(kind, told, solution)
        if self._observer is not None:
            self._observer(kind, told, solution)

    def _record(self, kind: Any, value: Number, solution: Any = None) -> None:
        if kind == "dual_bound":
            self.bound = value
        elif solution is not None:
            self.best = solution, value
        self._points.append(TrajectoryPoint(self._stopwatch.elapsed_s, kind, value))

    @property
    def points(self) -> tuple[TrajectoryPoint, ...]:
        """The incumbents and dual bounds recorded so far."""
        return tuple(self._points)


def ended(
    points: Iterable[TrajectoryPoint],
    variant: Variant,
    elapsed_s: float,
    objective: Number | None,
    dual_bound: Number | None,
) -> tuple[TrajectoryPoint, ...]:
    """Return the points that a run reported, followed by the checked values of its result.

    Reported values that the result does not confirm are left out: better objectives and tighter
    bounds.
    """
    better = variant.is_better
    kept = [
        point
        for point in points
        if not (
            objective is None or better(point.value, objective)
            if point.kind == "objective"
            else dual_bound is None or better(dual_bound, point.value)
        )
    ]
    if objective is not None:
        kept.append(TrajectoryPoint(elapsed_s, "objective", objective, is_checked=True))
    if dual_bound is not None:
        kept.append(TrajectoryPoint(elapsed_s, "dual_bound", dual_bound, is_checked=True))
    return tuple(kept)
