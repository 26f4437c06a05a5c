"""Integer programmes as arrays, minimised term by term with HiGHS.

All data are integers. HiGHS computes in floating point, so the product of a coefficient and the
upper limit of its column must be small. Larger rows are split into rows for their digits, with
carries. Larger terms and columns are represented by digits. Neither changes the feasible set or the
order of the values. Each solution is rounded and checked against all rows in integers. A margin is
subtracted from a dual bound before it is rounded up.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lyra_opt.core.result import StoppedBy
from lyra_opt.core.stopwatch import is_out_of_time, limits_in_force, loading, remaining_s
from lyra_opt.preemption.index import Integers

Numbers = NDArray[Any] | Sequence[int]

BITS = 10
BASE = 2**BITS
"""The base of the digits."""
LARGEST_PRODUCT = 2**26
"""Largest product of a coefficient and the upper limit of its column that is passed to HiGHS."""
LARGEST_MERGED = 2**24
"""Consecutive digits form one objective of HiGHS if it has at most this number of values."""
LARGEST_EXACT_SUM = 2.0**50
MARGIN = 1e-4
RELATIVE_MARGIN = 1e-8
"""A dual bound d of HiGHS proves the integer ceil(d - 1e-4 - 1e-8 |d|)."""

OPTIONS: dict[str, str | int | float | bool] = {
    "output_flag": False,
    "threads": 1,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 0.0,
    "mip_feasibility_tolerance": 1e-9,
    "primal_feasibility_tolerance": 1e-9,
    "presolve": "off",  # it takes seconds for thousands of alike columns, and ignores time limits
}


@dataclass(frozen=True, slots=True)
class Linear:
    """A sum of columns with integer coefficients, plus an offset."""

    columns: Integers
    values: Integers
    offset: int = 0


class _Digit(NamedTuple):
    """A digit of a term, from 0 to `most`; the term grows by `weight` if the digit grows by 1."""

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
        A lexicographic lower bound on the values of the terms; None if no solution exists.
    is_proved
        Whether the bound equals the terms of `values`, or no solution exists.
    stopped_by
        The limit that ended the minimisation.
    nodes
        Number of nodes of the search trees.
    """

    values: Integers | None
    bound: tuple[int, ...] | None
    is_proved: bool
    stopped_by: StoppedBy | None = None
    nodes: int = 0


class Programme:
    """Integer columns from 0 to an upper limit, rows, and terms to minimise in this order."""

    def __init__(self) -> None:
        self.terms: list[Linear] = []
        self.upper: list[int] = []
        self._limits: list[tuple[NDArray[np.float64], Integers]] = []
        self._entries: list[tuple[Integers, Integers, Integers]] = []
        self._rows = 0

    def columns(self, upper: Numbers) -> Integers:
        """Add integer columns from 0 to `upper`, and return their positions."""
        first = len(self.upper)
        self.upper += np.asarray(upper, dtype=np.int64).tolist()
        return np.arange(first, len(self.upper))

    def wide(self, most: int) -> Linear:
        """Add columns for the digits of an integer from 0 to at least `most`, the lowest first."""
        digits = max(1, -(-most.bit_length() // BITS))
        columns = self.columns([min(most, BASE - 1)] * digits)
        return Linear(columns, BASE ** np.arange(digits))

    def at_most(self, high: Numbers, *entries: tuple[Any, Any, Any]) -> None:
        """Add one row for each number in `high`, which is the upper limit of the row.

        `entries` are triples of arrays (row, column, value); the first new row is 0. Entries with
        the same row and column are summed.
        """
        self._add(np.full(len(high), -np.inf), np.asarray(high, dtype=np.int64), entries)

    def between(self, low: int, high: int, columns: Integers) -> None:
        """Require that the sum of some columns is from `low` to `high`."""
        self._add(np.array([float(low)]), np.array([high]), [(0, columns, 1)])

    def _add(self, low: NDArray[np.float64], high: Integers, entries: Sequence[Any]) -> None:
        for row, column, value in entries:
            parts = np.broadcast_arrays(row + np.int64(self._rows), column, value)
            where, which, what = (np.atleast_1d(part).astype(np.int64) for part in parts)
            self._entries.append((where, which, what))
        self._limits.append((low, high))
        self._rows += len(high)

    def minimise(self, cutoff: Sequence[int] | None = None) -> Outcome:
        """Minimise the terms in lexicographic order, within the limits in force.

        With `cutoff`, which has a value for each term, only solutions that are better than these
        values count. If none is better, the outcome is that of an infeasible programme.
        """
        size, least, digits = len(self.upper), [], []
        for number, term in enumerate(self.terms):
            linear = _summed(term)
            limits = [self.upper[column] for column in linear.columns]
            ranges = [a * u for a, u in zip(linear.values.tolist(), limits, strict=True)]
            least.append(term.offset + sum(min(0, each) for each in ranges))
            digits += self._digits(number, linear, ranges)
        return _Minimisation(self, size, self._small_rows(), least, digits).run(cutoff)

    def _digits(self, term: int, linear: Linear, ranges: list[int]) -> list[_Digit]:
        """Return the digits of a term, the highest one first.

        `ranges` has the product of the coefficient and the upper limit of each of its columns.
        """
        if not ranges:
            return []
        unit, most = int(np.gcd.reduce(linear.values)), sum(map(abs, ranges))
        if max(map(abs, ranges)) < LARGEST_PRODUCT * unit:
            offset = -sum(min(0, each) for each in ranges) // unit
            small = Linear(linear.columns, linear.values // unit, offset)
            return [_Digit(small, most // unit, term, unit)]
        wide = self.wide(most // unit)
        entries = (0, linear.columns, linear.values // unit), (0, wide.columns, -wide.values)
        self.at_most([0], *entries)
        return [
            _Digit(Linear(wide.columns[i : i + 1], np.array([1])), most, term, unit * weight)
            for i, weight in reversed(list(enumerate(wide.values.tolist())))
            for most in [self.upper[wide.columns[i]]]
        ]

    def _small_rows(self) -> "_Rows":
        """Return the rows, where each large row is replaced by one row for each digit.

        Write the coefficients of a row sum a x <= f as a = a' B + a'', and f = f' B + f''. The row
        holds if and only if an integer k exists with sum a'' x <= f'' + B k and sum a' x + k <= f'.
        """
        rows, upper = self._assembled(), np.array(self.upper)
        with np.errstate(over="ignore"):
            products = np.abs(rows.value) * upper[rows.column].astype(np.float64)
        large = np.unique(rows.row[products >= LARGEST_PRODUCT])
        for position in large.tolist():
            inside = rows.row == position
            linear = Linear(rows.column[inside], rows.value[inside])
            limit = int(rows.high[position])
            while np.abs(linear.values).max() >= BASE:
                sign = np.sign(linear.values)
                high, low = (sign * part for part in np.divmod(sign * linear.values, BASE))
                limits = [self.upper[column] for column in linear.columns]
                ranges = [a * u for a, u in zip(low.tolist(), limits, strict=True)]
                limit, low_limit = divmod(limit, BASE)
                # Columns are at least 0, but k can be negative; the column holds k + shift instead.
                shift = -(sum(min(0, each) for each in ranges) - low_limit) // BASE + 1
                most = sum(max(0, each) for each in ranges) // BASE + 1 + shift
                columns = np.append(linear.columns, self.columns([most]))
                low_row = Linear(columns, np.append(low, -BASE))
                rows = rows.with_row(low_row, low_limit - BASE * shift)
                linear, limit = Linear(columns, np.append(high, 1)), limit + shift
            rows = rows.with_row(linear, limit)
        return rows.without(large)

    def _assembled(self) -> "_Rows":
        """Return the rows with sorted entries, divided by their common factors.

        Columns that can only be 0 are left out. So are rows that all values of the columns satisfy.
        """
        row, column, value = (_joined(parts) for parts in zip(*self._entries, strict=True))
        size, upper = max(1, len(self.upper)), np.array(self.upper, dtype=np.float64)
        keys, place = np.unique(row * size + column, return_inverse=True)
        value = _sums(place, value, len(keys))
        counts = (value != 0) & (upper[keys % size] > 0)
        keys, value = keys[counts], value[counts]
        row, column = np.divmod(keys, size)
        low, high = (_joined(parts) for parts in zip(*self._limits, strict=True))
        starts = np.flatnonzero(np.diff(row, prepend=-1))
        factor = np.ones(len(high), dtype=np.int64)
        if len(starts):
            factor[row[starts]] = np.gcd.reduceat(np.abs(value), starts)
        low, high, value = np.ceil(low / factor), high // factor, value // factor[row]
        most = np.bincount(row, np.maximum(value, 0) * upper[column], len(high))
        idle = (most <= np.minimum(high, LARGEST_EXACT_SUM)) & np.isneginf(low)
        return _Rows(low, high, row, column, value).without(np.flatnonzero(idle))


_NOTHING = np.zeros(0, dtype=np.int64)


def _joined(parts: Sequence[Any]) -> Any:
    return np.concatenate(parts) if parts else _NOTHING


def _sums(place: Integers, values: Integers, size: int) -> Integers:
    """Return the sum of the values at each place."""
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, place, values)
    return sums


def _summed(linear: Linear) -> Linear:
    """Return the sum with each column only once, and without coefficients of 0."""
    columns, place = np.unique(linear.columns, return_inverse=True)
    values = _sums(place, linear.values, len(columns))
    return Linear(columns[values != 0], values[values != 0], linear.offset)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows with limits, and their entries in order of rows."""

    low: NDArray[np.float64]
    high: Integers
    row: Integers
    column: Integers
    value: Integers

    def allow(self, values: Integers) -> bool:
        """Return whether integer values of the columns satisfy all rows."""
        sums = _sums(self.row, self.value * values[self.column], len(self.high))
        return bool(((self.low <= sums) & (sums <= self.high)).all())

    def with_row(self, linear: Linear, high: int) -> "_Rows":
        """Return the rows and one more, with the upper limit `high` for a sum."""
        return _Rows(
            np.append(self.low, -np.inf),
            np.append(self.high, high),
            np.append(self.row, np.full(len(linear.columns), len(self.high))),
            np.append(self.column, linear.columns),
            np.append(self.value, linear.values),
        )

    def without(self, positions: Integers) -> "_Rows":
        """Return the rows without those at the given positions."""
        stays = np.ones(len(self.high), dtype=bool)
        stays[positions] = False
        kept, number = stays[self.row], np.cumsum(stays) - 1
        entries = number[self.row[kept]], self.column[kept], self.value[kept]
        return _Rows(self.low[stays], self.high[stays], *entries)


class _Step(NamedTuple):
    """The result of one run of HiGHS: a lower bound on its objective, and values of columns."""

    bound: int = 0
    values: Integers | None = None
    is_infeasible: bool = False
    stopped_by: StoppedBy | None = None


class _Group(NamedTuple):
    """Consecutive digits that are minimised as one number, from 0 to `radix` - 1.

    `low` is the number of combinations of values of all later digits.
    """

    linear: Linear
    radix: int
    low: int


class _Minimisation:
    """A programme in HiGHS, and the digits that are minimised group by group.

    All digits together encode the values of the terms as one integer, the code. Of two solutions,
    the better one has the smaller code.
    """

    def __init__(
        self, programme: Programme, size: int, rows: _Rows, least: list[int], digits: list[_Digit]
    ) -> None:
        self._terms, self._upper, self._size = programme.terms, programme.upper, size
        self._rows, self._least, self._digits = rows, least, digits
        self._nodes = 0
        self._highs: Any = None

    def run(self, cutoff: Sequence[int] | None) -> Outcome:
        """Minimise the digits group by group; see `Programme.minimise`."""
        limit = math.inf if cutoff is None else self._largest_code(cutoff, is_strict=True)
        best, code, prefix = None, None, 0
        for group in self._groups():
            base = prefix * group.radix
            most = limit if limit == math.inf else int(limit) // group.low - base
            if code is not None and most >= group.radix - 1 and code // group.low == base:
                step = _Step()
            else:
                step = self._solve(group, most)
            if step.is_infeasible and (most < group.radix - 1 or code is None):
                return Outcome(values=None, bound=None, is_proved=True, nodes=self._nodes)
            if step.values is not None:
                sums = [_value(term, step.values) for term in self._terms]
                found = self._largest_code(sums, is_strict=False)
                if code is None or found < code:
                    best, code = step.values, found
            if code is None or base + step.bound < code // group.low:
                return Outcome(
                    values=best,
                    bound=self._terms_of((base + step.bound) * group.low),
                    is_proved=False,
                    stopped_by=step.stopped_by,
                    nodes=self._nodes,
                )
            prefix = code // group.low
            self._add_row(group.linear, prefix - base)
        bound = self._terms_of(prefix)
        return Outcome(values=best, bound=bound, is_proved=True, nodes=self._nodes)

    def _largest_code(self, terms: Sequence[int], *, is_strict: bool) -> int:
        """Return the largest code of values that are at most `terms`, or below if `is_strict`.

        Values are compared in lexicographic order. The result is negative if no such code exists.
        """
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
        return code - (is_strict and not is_less)

    def _terms_of(self, code: int) -> tuple[int, ...]:
        """Return the values of the terms that a code encodes."""
        found = list(self._least)
        for position, digit in reversed(list(enumerate(self._digits))):
            code, value = divmod(code, digit.most + 1) if position else (0, code)
            found[digit.term] += digit.weight * value
        return tuple(found)

    def _groups(self) -> Iterator[_Group]:
        """Yield the groups of digits, at least one; `LARGEST_MERGED` limits groups of several."""
        left, low = list(self._digits), math.prod(digit.most + 1 for digit in self._digits)
        while True:
            linear, radix = Linear(_NOTHING, _NOTHING), 1
            while left and (radix == 1 or radix * (left[0].most + 1) <= LARGEST_MERGED):
                next_, most, _, _ = left.pop(0)
                columns = np.append(linear.columns, next_.columns)
                values = np.append(linear.values * (most + 1), next_.values)
                linear = Linear(columns, values, linear.offset * (most + 1) + next_.offset)
                radix *= most + 1
            low //= radix
            yield _Group(_summed(linear), radix, low)
            if not left:
                return

    def _solve(self, group: _Group, most: float) -> _Step:
        """Minimise a group of digits with HiGHS, for solutions in which it is at most `most`."""
        if is_out_of_time():
            return _Step(stopped_by=StoppedBy.TIME)
        if most < 0:
            return _Step(is_infeasible=True)
        size = len(self._upper)
        if not size:
            is_feasible = self._rows.allow(_NOTHING)
            return _Step(values=_NOTHING if is_feasible else None, is_infeasible=not is_feasible)
        if self._highs is None:
            self._load()
        highs, objective = self._highs, group.linear
        costs = np.zeros(size)
        costs[objective.columns] = objective.values
        highs.changeColsCost(size, np.arange(size, dtype=np.int32), costs)
        highs.changeObjectiveOffset(float(objective.offset))
        if most < group.radix - 1:
            self._add_row(objective, int(most))
        left_s, nodes = remaining_s(), limits_in_force().nodes
        if left_s is not None:  # the time limit of HiGHS covers all runs together
            highs.setOptionValue("time_limit", highs.getRunTime() + left_s)
        if nodes is not None:
            highs.setOptionValue("mip_max_nodes", max(0, nodes - self._nodes))
        if highs.run() == self._module.HighsStatus.kError:
            # The run fails if other code has set up HiGHS's thread pool, of which a process has
            # only one, with other options.
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
        """Require in HiGHS, if it is loaded, that a sum of columns is at most `most`."""
        if self._highs is None:
            return
        columns, values = linear.columns.astype(np.int32), linear.values.astype(np.float64)
        limit = float(most - linear.offset)
        self._highs.addRow(-self._module.kHighsInf, limit, len(columns), columns, values)

    def _read(self) -> _Step:
        """Return the values and the bound of the last run of HiGHS."""
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
                values = rounded[: self._size]
        stops = {statuses.kTimeLimit: StoppedBy.TIME, statuses.kSolutionLimit: StoppedBy.NODES}
        return _Step(bound=bound, values=values, stopped_by=stops.get(status))


def _value(linear: Linear, values: Integers) -> int:
    """Return the exact value of a sum for given values of the columns."""
    pairs = zip(linear.values.tolist(), values[linear.columns].tolist(), strict=True)
    total: int = sum(coefficient * value for coefficient, value in pairs)
    return linear.offset + total
