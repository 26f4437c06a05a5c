"""What is proved of the instances of a study by all runs together."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Status, same_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.core.result import Number
    from lyra_opt.experiments.records import SolverRecord


class Proofs:
    """The proved optimum and the best bound of each instance, by cell.

    Values are compared as the numbers that they are: integers exactly, of any size.

    Parameters
    ----------
    runs
        All stored runs.
    """

    def __init__(self, runs: Sequence[SolverRecord]) -> None:
        self._runs = runs
        self._gaps = {
            run.cell: find_problem(run.problem).variants(run.variant).proof_gap
            for run in runs
            if run.variant is not None
        }
        """The relative gap within which values prove one another."""

    @cached_property
    def bounds(self) -> Mapping[str, Number]:
        """The best dual bound."""
        return self._best("dual_bound")

    @cached_property
    def optima(self) -> Mapping[str, Number]:
        """The best objective, where the best bound meets it.

        Or the optimum that the family knows by construction.
        """
        known = {run.cell: run.known_optimum for run in self._runs if run.known_optimum is not None}
        objectives = self._best("objective")
        return known | {
            cell: objectives[cell]
            for cell, bound in self.bounds.items()
            if cell in objectives and self._prove(cell, objectives[cell], bound)
        }

    @cached_property
    def witnesses(self) -> Mapping[str, frozenset[str]]:
        """The methods that prove the optimum, each by itself, where it is proved.

        A reference stands for itself, all other solvers for the problem's own bound, and a
        family that knows the optimum for its construction.
        """
        found: dict[str, set[str]] = {cell: set() for cell in self.optima}
        for run in self._runs:
            optimum = self.optima.get(run.cell)
            if optimum is None:
                continue
            if run.known_optimum is not None:
                found[run.cell].add("construction")
            if run.status is Status.ERROR or run.dual_bound is None:
                continue
            if self._prove(run.cell, run.dual_bound, optimum):
                found[run.cell].add(run.solver if run.reference else "the problem's own bound")
        return {cell: frozenset(methods) for cell, methods in found.items()}

    def excess_percent(self, run: SolverRecord) -> float:
        """Return how far a run's objective is from the proved optimum; infinity if that is 0.

        NaN without a solution or without a proved optimum.
        """
        return self._excess_percent(run, self.optima.get(run.cell), math.nan)

    def largest_excess_percent(self, run: SolverRecord) -> float:
        """Return how far a run's objective can at most be from the optimum, proved or not.

        NaN without a solution; infinity without a bound.
        """
        return self._excess_percent(run, self.bounds.get(run.cell), math.inf)

    def _excess_percent(self, run: SolverRecord, yardstick: Number | None, without: float) -> float:
        if run.objective is None or run.status is Status.ERROR:
            return math.nan
        if yardstick is None:
            return without
        if self._prove(run.cell, run.objective, yardstick):
            return 0.0
        return 100 * abs(run.objective - yardstick) / abs(yardstick) if yardstick else math.inf

    def _prove(self, cell: str, value: Number, other: Number) -> bool:
        return same_value(value, other, tolerance=self._gaps[cell])

    def _best(self, column: Literal["objective", "dual_bound"]) -> dict[str, Number]:
        """Return the best value of a column by cell; runs that failed claim nothing."""
        found: dict[str, Number] = {}
        for run in self._runs:
            value = getattr(run, column)
            if value is not None and run.status is not Status.ERROR:
                better = min if minimises(run) == (column == "objective") else max
                found[run.cell] = better(value, found.get(run.cell, value))
        return found


def minimises(run: SolverRecord) -> bool:
    """Return whether the objective of the run's instance is minimised, not maximised."""
    return run.variant is None or find_problem(run.problem).variants(run.variant).sense == "min"
