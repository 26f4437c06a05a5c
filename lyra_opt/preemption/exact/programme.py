"""Integer programmes as arrays, minimised term by term with HiGHS.

All data are integers. HiGHS computes in floating point with a tolerance of 1e-6, so coefficients
must be small. A row or a term with coefficients of 2**20 or more is split into digits in base 2**20
with carries, which changes neither the feasible set nor the order of the values. Each solution is
rounded and compared with all rows in integers. A dual bound is rounded up after a margin is
subtracted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.result import StoppedBy
from lyra_opt.core.stopwatch import is_out_of_time, limits_in_force, loading, remaining_s

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]
    Entries = Iterable[tuple[Any, Any, Any]]

BASE = 2**20
"""Coefficients in HiGHS are smaller than this."""
LARGEST_MERGED = 2**24
"""Consecutive digits become one objective while the product of their ranges is at most this."""
LARGEST_EXACT_SUM = 2.0**50
MARGIN = 1e-4
RELATIVE_MARGIN = 1e-8
"""A dual bound d of HiGHS proves the integer ceil(d - 1e-4 - 1e-8 |d|)."""

OPTIONS: dict[str, str | int | float | bool] = {
    "output_flag": False,
    "threads": 1,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 0.0,
    "presolve": "off",
}


@dataclass(frozen=True, slots=True)
class Linear:
    """A sum of columns with integer coefficients, plus an offset."""

    columns: IntArray
    values: IntArray
    offset: int = 0

    def at(self, values: IntArray) -> int:
        """Return the exact sum for given values of the columns."""
        pairs = zip(self.values.tolist(), values[self.columns].tolist(), strict=True)
        return self.offset + sum(coefficient * value for coefficient, value in pairs)


@dataclass(frozen=True, slots=True)
class _Digit:
    """One digit of a term, from 0 to `most`; the term grows by `weight` with each unit of it."""

    linear: Linear
    most: int
    term: int
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a minimisation.

    Parameters
    ----------
    values
        The best known values of the columns, (C,); None if none are known.
    bound
        The values of the terms in a lexicographic lower bound; None if no solution exists.
    is_proved
        Whether the bound equals the terms of `values`, or no solution exists.
    stopped_by
        The limit that ended the minimisation.
    nodes
        Number of nodes of the search trees.
    """

    values: IntArray | None
    bound: tuple[int, ...] | None
    is_proved: bool
    stopped_by: StoppedBy | None = None
    nodes: int = 0


class Programme:
    """Integer columns from 0 to an upper limit, rows, and terms to minimise in this order."""

    def __init__(self) -> None:
        self.terms: list[Linear] = []
        self.size = 0
        self._rows = 0
        self._upper: list[IntArray] = []
        self._limits: list[tuple[NDArray[np.float64], IntArray]] = []
        self._entries: list[tuple[IntArray, IntArray, IntArray]] = []

    def columns(self, upper: IntArray | Sequence[int]) -> IntArray:
        """Add integer columns from 0 to `upper`, and return their positions."""
        added = np.arange(self.size, self.size + len(upper))
        self._upper.append(np.asarray(upper, dtype=np.int64))
        self.size += len(upper)
        return added

    def at_most(self, high: IntArray | Sequence[int], *entries: tuple[Any, Any, Any]) -> None:
        """Add one row for each number in `high`, which limits the row from above.

        `entries` are triples of arrays (row, column, value), with rows from 0. Entries of the same
        row and column are summed.
        """
        limits = np.asarray(high, dtype=np.int64)
        self._add(np.full(len(limits), -np.inf), limits, entries)

    def between(self, low: int, high: int, columns: IntArray) -> None:
        """Require that the sum of some columns is from `low` to `high`."""
        self._add(np.array([float(low)]), np.array([high]), [(0, columns, 1)])

    def _add(self, low: NDArray[np.float64], high: IntArray, entries: Entries) -> None:
        for row, column, value in entries:
            shape = np.shape(column)
            rows = np.broadcast_to(row, shape) + self._rows
            self._entries.append((rows, np.asarray(column), np.broadcast_to(value, shape)))
        self._limits.append((low, high))
        self._rows += len(high)

    @property
    def upper(self) -> IntArray:
        """The upper limits of the columns, (C,)."""
        return _joined(self._upper)

    def assembled(self) -> _Rows:
        """Return the rows with entries in order, divided by common factors.

        Rows that all values of the columns satisfy are left out.
        """
        row, column, value = (_joined(part) for part in zip(*self._entries, strict=True))
        keys, place = np.unique(row * self.size + column, return_inverse=True)
        sums = np.zeros(len(keys), dtype=np.int64)
        np.add.at(sums, place, value)
        keys, sums = keys[sums != 0], sums[sums != 0]
        row, column = np.divmod(keys, max(1, self.size))
        low, high = (_joined(part) for part in zip(*self._limits, strict=True))
        starts = np.flatnonzero(np.diff(row, prepend=-1))
        factor = np.ones(len(high), dtype=np.int64)
        if len(starts):
            factor[row[starts]] = np.gcd.reduceat(np.abs(sums), starts)
        low, high = np.ceil(low / factor), high // factor
        sums = sums // factor[row]
        most = np.bincount(row, np.maximum(sums, 0.0) * self.upper[column], len(high))
        stays = (most > np.minimum(high, LARGEST_EXACT_SUM)) | np.isfinite(low)
        kept, number = stays[row], np.cumsum(stays) - 1
        return _Rows(low[stays], high[stays], number[row[kept]], column[kept], sums[kept])

    def minimise(
        self, start: IntArray | None = None, cutoff: Sequence[int] | None = None
    ) -> Outcome:
        """Minimise the terms in lexicographic order, within the limits in force.

        Parameters
        ----------
        start
            Feasible values of the columns, (C,), to start from.
        cutoff
            Values of the terms: only better solutions are of interest. If none is better, the
            outcome has no bound, as if no solution existed.
        """
        return _Minimisation(self).run(start, cutoff)


def _joined(parts: Sequence[Any]) -> Any:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _summed(linear: Linear) -> Linear:
    """Return the same sum with each column once and without zeros."""
    columns, place = np.unique(linear.columns, return_inverse=True)
    values = np.zeros(len(columns), dtype=np.int64)
    np.add.at(values, place, linear.values)
    return Linear(columns[values != 0], values[values != 0], linear.offset)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows with limits, and their entries in order of rows."""

    low: NDArray[np.float64]
    high: IntArray
    row: IntArray
    column: IntArray
    value: IntArray

    def allow(self, values: IntArray) -> bool:
        """Return whether integer values of the columns satisfy all rows."""
        sums = np.zeros(len(self.high), dtype=np.int64)
        np.add.at(sums, self.row, self.value * values[self.column])
        return bool(((self.low <= sums) & (sums <= self.high)).all())

    def with_row(self, linear: Linear, high: int) -> _Rows:
        """Return the rows and one more, which limits a sum from above."""
        return _Rows(
            np.append(self.low, -np.inf),
            np.append(self.high, high),
            np.append(self.row, np.full(len(linear.columns), len(self.high))),
            np.append(self.column, linear.columns),
            np.append(self.value, linear.values),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """The result of one run of HiGHS: a lower bound on its objective, and values of columns."""

    bound: int = 0
    values: IntArray | None = None
    is_infeasible: bool = False
    stopped_by: StoppedBy | None = None


class _Minimisation:
    """A programme in HiGHS, and the digits that are minimised one after the other."""

    def __init__(self, programme: Programme) -> None:
        self._programme = programme
        self._upper = programme.upper.tolist()
        self._rows = self._with_small_rows(programme.assembled())
        self._least: list[int] = []
        self._digits: list[_Digit] = []
        for term in programme.terms:
            self._add_digits(_summed(term))
        self._nodes = 0
        self._highs: Any = None

    def run(self, start: IntArray | None, cutoff: Sequence[int] | None) -> Outcome:
        """Minimise the digits group by group; see `Programme.minimise`."""
        best, digits = start, None if start is None else self._digits_at(start)
        limit = None if cutoff is None else self._largest_below(cutoff)
        if cutoff is not None and limit is None:
            return Outcome(values=None, bound=None, is_proved=True)
        proved: list[int] = []
        groups = self._groups()
        for group in groups:
            is_last = group is groups[-1]
            most = None if limit is None else self._code(group, limit)
            if digits is not None and most is None and self._code(group, digits) == 0:
                step = _Step()
            else:
                step = self._solve(group, best, most)
            if step.is_infeasible and (limit is not None or digits is None):
                return Outcome(values=None, bound=None, is_proved=True, nodes=self._nodes)
            if step.values is not None:
                found = self._digits_at(step.values)
                if digits is None or found < digits:
                    best, digits = step.values, found
            if digits is None or step.bound < self._code(group, digits):
                bound = [*proved, *self._decoded(group, step.bound)]
                bound += [0] * (len(self._digits) - len(bound))
                return Outcome(
                    values=best,
                    bound=self._terms_of(bound),
                    is_proved=False,
                    stopped_by=step.stopped_by,
                    nodes=self._nodes,
                )
            if limit is not None and self._code(group, digits) < self._code(group, limit):
                limit = None
            proved += [digits[position] for position in group]
            if not is_last and self._highs is not None:
                for position in group:
                    self._add_row(self._digits[position].linear, digits[position])
        return Outcome(values=best, bound=self._terms_of(proved), is_proved=True, nodes=self._nodes)

    def _with_small_rows(self, rows: _Rows) -> _Rows:
        """Replace each row with large coefficients by one row for each digit.

        A row sum a x <= f with a = a' B + a'' and f = f' B + f'' holds if and only if an integer k
        exists with sum a'' x <= f'' + B k and sum a' x + k <= f'.
        """
        is_large = np.zeros(len(rows.high), dtype=bool)
        is_large[rows.row[np.abs(rows.value) >= BASE]] = True
        if not is_large.any():
            return rows
        stays, number = ~is_large[rows.row], np.cumsum(~is_large) - 1
        found = _Rows(
            *(rows.low[~is_large], rows.high[~is_large], number[rows.row[stays]]),
            *(rows.column[stays], rows.value[stays]),
        )
        for position in np.flatnonzero(is_large):
            inside = rows.row == position
            linear = Linear(rows.column[inside], rows.value[inside])
            limit = int(rows.high[position])
            while np.abs(linear.values).max() >= BASE:
                limit, low_limit = divmod(limit, BASE)
                low, linear = self._split(linear)
                found = found.with_row(low, low_limit)
            found = found.with_row(linear, limit)
        return found

    def _split(self, linear: Linear) -> tuple[Linear, Linear]:
        """Return the lowest digit of a sum, minus its carry, and the other digits plus the carry.

        The carry is a new column.
        """
        high, low = np.divmod(linear.values, BASE)
        limits = (self._upper[column] for column in linear.columns)
        most = sum(value * limit for value, limit in zip(low.tolist(), limits, strict=True))
        columns = np.append(linear.columns, len(self._upper))
        self._upper.append(most // BASE + 1)
        return Linear(columns, np.append(low, -BASE)), Linear(columns, np.append(high, 1))

    def _add_digits(self, term: Linear) -> None:
        """Add the digits of the next term, the highest one first."""
        number = len(self._least)
        limits = [self._upper[column] for column in term.columns]
        ranges = [value * limit for value, limit in zip(term.values.tolist(), limits, strict=True)]
        least = sum(min(0, each) for each in ranges)
        self._least.append(term.offset + least)
        if not ranges:
            return
        unit = int(np.gcd.reduce(term.values))
        linear = Linear(term.columns, term.values // unit, -least // unit)
        most = sum(map(abs, ranges)) // unit
        digits: list[_Digit] = []
        while np.abs(linear.values).max() >= BASE:
            # With the digit v as a column: sum a x <= B V + v if sum a'' x <= B k + v, V >= a' x + k
            low, linear = self._split(linear)
            digit = np.array([len(self._upper)])
            self._upper.append(BASE - 1)
            columns, values = np.append(low.columns, digit), np.append(low.values, -1)
            self._rows = self._rows.with_row(Linear(columns, values), 0)
            digits.append(_Digit(Linear(digit, np.array([1])), BASE - 1, number, unit))
            unit, most = unit * BASE, most // BASE
        digits.append(_Digit(linear, most, number, unit))
        self._digits += reversed(digits)

    def _digits_of(self, terms: Sequence[int]) -> list[int]:
        """Return the digits of the values of the terms."""
        left = [value - least for value, least in zip(terms, self._least, strict=True)]
        found = []
        for digit in self._digits:
            value, left[digit.term] = divmod(left[digit.term], digit.weight)
            found.append(value)
        return found

    def _largest_below(self, terms: Sequence[int]) -> list[int] | None:
        """Return the largest digits whose terms are less than the given ones; None without any."""
        code, is_less = 0, False
        for number, (value, least) in enumerate(zip(terms, self._least, strict=True)):
            left = value - least
            if left < 0 and not is_less:
                code, is_less = code - 1, True
            for digit in self._digits:
                if digit.term == number:
                    here, left = divmod(max(0, left), digit.weight)
                    is_less = is_less or here > digit.most
                    code = code * (digit.most + 1) + (digit.most if is_less else here)
            is_less = is_less or left > 0
        code -= not is_less
        return None if code < 0 else self._decoded(range(len(self._digits)), code)

    def _digits_at(self, values: IntArray) -> list[int]:
        """Return the digits of feasible values of the columns of the programme."""
        return self._digits_of([term.at(values) for term in self._programme.terms])

    def _terms_of(self, digits: Sequence[int]) -> tuple[int, ...]:
        """Return the values of the terms with the given digits."""
        found = list(self._least)
        for digit, value in zip(self._digits, digits, strict=True):
            found[digit.term] += digit.weight * value
        return tuple(found)

    def _groups(self) -> list[range]:
        """Return the runs of digits that are minimised together, at least one."""
        groups, first, radix = [], 0, 1
        for position, digit in enumerate(self._digits):
            if position > first and radix * (digit.most + 1) > LARGEST_MERGED:
                groups.append(range(first, position))
                first, radix = position, 1
            radix *= digit.most + 1
        return [*groups, range(first, len(self._digits))]

    def _code(self, group: range, digits: Sequence[int]) -> int:
        """Return the objective of a group of digits, which has the order of their tuples."""
        code = 0
        for position in group:
            code = code * (self._digits[position].most + 1) + digits[position]
        return code

    def _decoded(self, group: range, code: int) -> list[int]:
        """Return digits that bound those of a group from below, from a bound on its objective."""
        found: list[int] = []
        for position in reversed(group):
            radix = self._digits[position].most + 1
            code, value = divmod(code, radix) if position > group.start else (0, code)
            found.append(value)
        return found[::-1]

    def _objective(self, group: range) -> Linear:
        """Return the objective of a group as a sum of columns."""
        columns, values, offset, weight = [], [], 0, 1
        for position in reversed(group):
            linear = self._digits[position].linear
            columns.append(linear.columns)
            values.append(linear.values * weight)
            offset += linear.offset * weight
            weight *= self._digits[position].most + 1
        return _summed(Linear(_joined(columns), _joined(values), offset))

    def _solve(self, group: range, start: IntArray | None, most: int | None) -> _Step:
        """Minimise a group of digits with HiGHS, among solutions with at most `most`."""
        if is_out_of_time():
            return _Step(stopped_by=StoppedBy.TIME)
        size = len(self._upper)
        if not size:
            is_feasible = self._rows.allow(np.zeros(0, dtype=np.int64))
            values = np.zeros(0, dtype=np.int64) if is_feasible else None
            return _Step(values=values, is_infeasible=not is_feasible or most is not None)
        if self._highs is None:
            self._load()
        highs = self._highs
        objective = self._objective(group)
        costs = np.zeros(size)
        costs[objective.columns] = objective.values
        highs.changeColsCost(size, np.arange(size, dtype=np.int32), costs)
        highs.changeObjectiveOffset(float(objective.offset))
        if most is not None:
            self._add_row(objective, most)
        if start is not None and size == self._programme.size:  # without carries
            solution = self._module.HighsSolution()
            solution.col_value = start.tolist()
            highs.setSolution(solution)
        left_s, nodes = remaining_s(), limits_in_force().nodes
        if left_s is not None:  # the time limit of HiGHS covers all runs together
            highs.setOptionValue("time_limit", highs.getRunTime() + left_s)
        if nodes is not None:
            highs.setOptionValue("mip_max_nodes", max(0, nodes - self._nodes))
        if highs.run() == self._module.HighsStatus.kError:
            # HiGHS has one thread pool per process, which other code may have set up differently.
            self._module.Highs.resetGlobalScheduler(True)
            highs.run()
        return self._read()

    def _load(self) -> None:
        """Pass the columns and rows to HiGHS."""
        with loading():
            import highspy
        self._module = highspy
        self._highs = highspy.Highs()
        for option, value in OPTIONS.items():
            self._highs.setOptionValue(option, value)
        size, rows = len(self._upper), self._rows
        self._highs.passModel(
            *(size, len(rows.high), len(rows.row)),
            *(highspy.MatrixFormat.kRowwise.value, highspy.ObjSense.kMinimize.value, 0.0),
            *(np.zeros(size), np.zeros(size), np.array(self._upper, dtype=np.float64)),
            *(rows.low, rows.high.astype(np.float64)),
            np.searchsorted(rows.row, np.arange(len(rows.high))).astype(np.int32),
            rows.column.astype(np.int32),
            rows.value.astype(np.float64),
            np.full(size, highspy.HighsVarType.kInteger.value, dtype=np.int32),
        )

    def _add_row(self, linear: Linear, most: int) -> None:
        """Require in HiGHS that a sum of columns is at most `most`."""
        self._highs.addRow(
            -self._module.kHighsInf,
            float(most - linear.offset),
            len(linear.columns),
            linear.columns.astype(np.int32),
            linear.values.astype(np.float64),
        )

    def _read(self) -> _Step:
        """Return what the last run of HiGHS found and proved."""
        statuses = self._module.HighsModelStatus
        status, info = self._highs.getModelStatus(), self._highs.getInfo()
        self._nodes += max(0, info.mip_node_count)
        if status == statuses.kInfeasible:
            return _Step(is_infeasible=True)
        bound, values, dual = 0, None, info.mip_dual_bound
        if math.isfinite(dual):
            bound = max(0, math.ceil(dual - MARGIN - RELATIVE_MARGIN * abs(dual)))
        if info.primal_solution_status == self._module.SolutionStatus.kSolutionStatusFeasible:
            rounded = np.rint(np.array(self._highs.getSolution().col_value)).astype(np.int64)
            if self._rows.allow(rounded):
                values = rounded[: self._programme.size]
        stops = {
            statuses.kTimeLimit: StoppedBy.TIME,
            statuses.kSolutionLimit: StoppedBy.NODES,
        }
        return _Step(bound=bound, values=values, stopped_by=stops.get(status))
