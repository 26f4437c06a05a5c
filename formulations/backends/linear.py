"""Linear programmes in HiGHS, with a bound that is proved in exact arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lyra_opt.core.result import StoppedBy
from lyra_opt.formulations.backends.backend import Backend, BackendRun, added

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lyra_opt.formulations.backends.backend import Built, KindsT, Settings, Values

MULTIPLIER_BITS = 40
"""Multipliers and costs are rounded to multiples of 2**-40, and are exact from there on."""


class Row(NamedTuple):
    """``sum coefficient x <= limit``, or ``=``."""

    name: str
    terms: Sequence[tuple[int, int]]
    """Coefficient and column."""
    limit: int
    is_equation: bool


@dataclass(slots=True)
class Programme:
    """Minimise costs over columns from 0 to `most`, subject to rows."""

    most: list[int] = field(default_factory=list)
    cost: list[float] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def column(self, most: int) -> int:
        """Add a column; return its position."""
        self.most.append(most)
        self.cost.append(0.0)
        return len(self.most) - 1

    def at_most(self, name: str, terms: Iterable[tuple[int, int]], limit: int = 0) -> None:
        """Add a row that is at most `limit`."""
        self.rows.append(Row(name, tuple(terms), limit, is_equation=False))

    def equal(self, name: str, terms: Iterable[tuple[int, int]], limit: int = 0) -> None:
        """Add a row that is `limit`."""
        self.rows.append(Row(name, tuple(terms), limit, is_equation=True))

    def least(self, multipliers: Sequence[float]) -> Fraction:
        """Return the bound on the cost that multipliers of the rows prove, in exact arithmetic.

        For any y, at most 0 where a row may be less than its limit, a point x that keeps the rows
        a x has c x >= c x + y (b - a x) = y b + (c - y a) x, and each column is least at one of its
        ends. So it does not matter how y was found; where it is no number it counts as 0.
        """
        scale = 2**MULTIPLIER_BITS
        reduced = [math.floor(Fraction(cost) * scale) for cost in self.cost]
        total = 0
        for row, multiplier in zip(self.rows, multipliers, strict=True):
            y = round(Fraction(multiplier) * scale) if math.isfinite(multiplier) else 0
            y = y if row.is_equation else min(0, y)
            total += y * row.limit
            if y:
                for coefficient, k in row.terms:
                    reduced[k] -= y * coefficient
        total += sum(min(0, cost) * most for cost, most in zip(reduced, self.most, strict=True))
        return Fraction(total, scale)


def columns(model: Programme, largest: KindsT) -> KindsT:
    """Add columns from 0 to what `largest`, a named tuple of mappings, says."""
    return added(largest, lambda _, most: model.column(most))


def run_highs(
    built: Built,
    start: Values | None,  # noqa: ARG001
    settings: Settings,
) -> BackendRun:
    """Solve a programme on one thread; the bound is exact, the values are those of HiGHS.

    Raises
    ------
    RuntimeError
        If HiGHS ends in anything but an optimum or the time limit.
    """
    import highspy

    programme: Programme = built.model
    model = highspy.Highs()
    model.silent()
    model.setOptionValue("threads", 1)
    if settings.time_s is not None:
        model.setOptionValue("time_limit", settings.time_s)
    size, rows = len(programme.most), programme.rows
    model.addVars(size, np.zeros(size), np.array(programme.most, np.float64))
    model.changeColsCost(
        size, np.arange(size, dtype=np.int32), np.array(programme.cost, np.float64)
    )
    limits = np.array([row.limit for row in rows], np.float64)
    is_equation = np.array([row.is_equation for row in rows])
    starts = np.cumsum([0, *(len(row.terms) for row in rows)])
    terms = [term for row in rows for term in row.terms]
    model.addRows(
        len(rows),
        np.where(is_equation, limits, -np.inf),
        limits,
        len(terms),
        starts[:-1].astype(np.int32),
        np.array([column for _, column in terms], np.int32),
        np.array([coefficient for coefficient, _ in terms], np.float64),
    )
    model.run()
    status, solution = model.getModelStatus(), model.getSolution()
    limited = status == highspy.HighsModelStatus.kTimeLimit
    if not limited and status != highspy.HighsModelStatus.kOptimal:
        raise RuntimeError(f"HiGHS ended with {model.modelStatusToString(status)}")
    return BackendRun(
        values=list(solution.col_value) if solution.value_valid else None,
        bound=programme.least(list(solution.row_dual)) if solution.dual_valid else None,
        stopped_by=StoppedBy.TIME if limited else None,
        counters={"iterations": max(0, model.getInfo().simplex_iteration_count)},
    )


BACKEND = Backend(
    name="lp-highs", new_model=Programme, run=run_highs, in_floats=True, modules=("highspy",)
)
