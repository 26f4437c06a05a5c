"""What trying everything is, whatever the problem: slow, plain, and right; the tests' oracle."""

from __future__ import annotations

import math
from abc import abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from lyra_opt.core.result import StoppedBy
from lyra_opt.core.solver import Solver, Unsupported
from lyra_opt.core.stopwatch import OutOfTimeError, grace
from lyra_opt.formulations.exact_solver import (
    concluded,
    valued,
    valued_start,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from lyra_opt.core.problem import Problem
    from lyra_opt.core.result import Limits, Number, SolveResult
    from lyra_opt.core.solver import Observer
    from lyra_opt.formulations.exact_solver import Incumbent


LONGEST_NUMBER = 10**15


class BruteForceSolver(Solver):
    """Try everything.

    Stopped by the time limit, it returns the best solution known, the warm start if that is
    better, with a bound that needs no search. Other limits are not kept.
    """

    name = engine = "brute-force"
    of: ClassVar[Problem]
    """The problem."""
    gives_bound = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.problem, cls.exact_variants = cls.of.name, cls.variants

    @abstractmethod
    def supports(self, instance: Any) -> Unsupported | None:
        """Return why there are too many choices, None if there are not."""

    @abstractmethod
    def improvements(self, instance: Any) -> Iterator[Any]:
        """Yield solutions, each better than the one before, the last optimal; none if none is.

        Raises
        ------
        OutOfTimeError
            When the time is over.
        """

    @abstractmethod
    def simple_bound(self, instance: Any) -> Number:
        """Return a bound on the objective that needs no search."""

    def without_search(self, instance: Any) -> Any:  # noqa: ARG002
        """Return what there is where the time is over before anything was found, if anything."""
        return None

    def solve(
        self,
        instance: Any,
        *,
        limits: Limits,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        warm_start: Any = None,
        observer: Observer | None = None,
    ) -> SolveResult[Any]:
        """Try everything; see `lyra_opt.core.solver.Solver.solve`.

        Raises
        ------
        ValueError
            If the warm start is no valid solution.
        """
        start = None if warm_start is None else valued_start(self.of, instance, warm_start)
        best: Incumbent[Any] | None = None
        bound: Number | None = None
        stopped_by = None

        def offer(found: Incumbent[Any] | None) -> None:
            nonlocal best
            if found is not None and (
                best is None or instance.variant.is_better(found[1], best[1])
            ):
                best = found
                if observer is not None:
                    observer("objective", found[1], found[0])

        try:
            for solution in self.improvements(instance):
                offer(valued(self.of, instance, solution))
        except OutOfTimeError:
            stopped_by = StoppedBy.TIME
            offer(start)
            if best is None and (nothing := self.without_search(instance)) is not None:
                offer(valued(self.of, instance, nothing))
            with grace(), suppress(OutOfTimeError):
                bound = self.simple_bound(instance)
        else:
            bound = math.inf if best is None else best[1]
        return concluded(instance, best, bound, stopped_by=stopped_by, observer=observer)


def too_many(choices: int, most: int, said: str) -> Unsupported | None:
    """Return why so many choices are not tried, None if they are not too many.

    As it is said of the number ``{}``, of which the magnitude is enough where it is long.
    """
    if choices <= most:
        return None
    number = str(choices) if choices < LONGEST_NUMBER else f"10^{math.log10(choices):.0f}"
    return Unsupported(f"{said.format(number)}; brute force tries at most {most}")
