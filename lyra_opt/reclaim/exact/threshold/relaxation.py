"""The linear relaxation of the threshold search, kept warm from node to node, and its prices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.reclaim.exact.threshold.propagation import CHOSEN, FREE, KEPT, OPEN, PAID, SPARED
from lyra_opt.reclaim.exact.threshold.rows_kernel import separate, sum_prices
from lyra_opt.reclaim.exact.threshold.simplex_kernel import (
    FINISHED,
    NO_BOUND,
    NO_CHOICE,
    UNFINISHED,
    climb,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from lyra_opt.reclaim.exact.threshold.bound import NodeBound
    from lyra_opt.reclaim.exact.threshold.reduced_problem import ThresholdProblem

LARGEST_TABLEAU = 2**24
"""Entries; 128 MiB."""

LARGEST_COVERED_SLACK = 2**8
"""Largest slack for which covers are looked for."""

PERTURBATION = 1e-6
"""Of the largest weight: makes costs unequal, against the ties that a simplex method stalls at."""

PIVOTS_BETWEEN_CLOCK_READINGS = 500
MOST_PIVOTS = 10_000
"""In one solution; a method that needs more goes round in circles."""

_BYTES = 8


class Relaxation:
    """The servers and jobs that are open at the root, with rows that were violated so far.

    The rows (see ``threshold_rows_kernel.py``) hold at every node; a node changes bounds only.
    So the last basis of any node is a start for any other. Everything is in floating point and
    nothing is a proof: `prices` are integers whose value `NodeBound.fix` computes exactly.

    Parameters
    ----------
    problem
        The problem.
    root
        The root, propagated.
    """

    def __init__(self, problem: ThresholdProblem, root: NodeBound) -> None:
        losses = problem.losses
        self._problem = problem
        self._servers = np.flatnonzero(np.asarray(root.server_state) == FREE)
        self._jobs = np.flatnonzero(np.asarray(root.job_state) <= KEPT)
        servers, columns = len(self._servers), self.columns_at(root)
        self._columns = columns
        self._most_rows = _most_rows(columns)
        self._server_column = np.full(losses.servers, -1, dtype=np.int64)
        self._server_column[self._servers] = np.arange(servers)
        self._job_column = np.full(losses.jobs, -1, dtype=np.int64)
        self._job_column[self._jobs] = servers + np.arange(len(self._jobs))
        self._residual = np.array(root.residual, dtype=np.int64)
        self._wanted = root.wanted
        self._constant = root.constant
        # Weights beyond the incumbent's objective are as good as infinite; cut off there, they
        # do not blur the small ones.
        ceiling = problem.largest_price // problem.unit
        cost = problem.cost[self._servers].tolist() + problem.weight[self._jobs].tolist()
        self._scale = max([1, *(min(ceiling, value) for value in cost)])
        self._cost = np.array([min(ceiling, value) / self._scale for value in cost])
        self._cost += PERTURBATION * (1 + np.arange(columns) * 7919 % 1009 / 1009)

        most_rows, span = self._most_rows, max(1, int(losses.span().max(initial=1)))
        self._member_width = span
        self._tableau = np.zeros((most_rows + 1) * (columns + 1))
        self._lower = np.zeros(columns + most_rows)
        self._upper = np.full(columns + most_rows, NO_BOUND)
        self._upper[columns] = 0.0  # row 0 counts the servers: an equation
        self._nonbasic = np.arange(columns)
        self._is_upper = np.zeros(columns, dtype=np.int64)
        self._basic = np.zeros(most_rows + 1, dtype=np.int64)
        self._basic_value = np.zeros(most_rows + 1)
        self._norm = np.ones(most_rows + 1)
        self._row_job = np.zeros(most_rows, dtype=np.int64)
        self._row_is_unit = np.zeros(most_rows, dtype=np.int64)
        self._row_members = np.zeros(most_rows * span, dtype=np.int64)
        most_covered = min(int(problem.slack.max(initial=0)), LARGEST_COVERED_SLACK) + 2
        self._row_scratch = (
            np.zeros(span, dtype=np.int64),
            np.zeros(span, dtype=np.int64),
            np.zeros(span),
            np.zeros(most_covered),
            np.zeros(most_covered * span, dtype=np.int64),
            np.zeros(columns + 1),
        )
        self._pivot_scratch = (
            np.zeros(columns, dtype=np.int64),
            np.zeros(columns + 1, dtype=np.int64),
            np.zeros(columns + 1),
        )
        self._solution = np.zeros(columns)
        self._outcome = FINISHED
        self._ray_row, self._ray_is_below = 0, False
        self._rows = 0
        self._purge_from = 0
        self.pivots = 0
        self.forget()

    @staticmethod
    def columns_at(root: NodeBound) -> int:
        """Return how many columns the relaxation has: free servers, open and kept jobs."""
        return root.free_servers + len(root.active_jobs)

    @classmethod
    def bytes_at(cls, root: NodeBound, problem: ThresholdProblem) -> int:
        """Return about how much memory it takes."""
        columns = cls.columns_at(root)
        span = int(problem.losses.span().max(initial=1))
        return _BYTES * (_most_rows(columns) + 1) * (columns + 1 + span)

    def forget(self) -> None:
        """Start anew from the first rows: one or two for each job, over all its servers."""
        columns, servers = self._columns, len(self._servers)
        table = self._table()
        table[:2] = 0.0
        table[0, :columns] = self._cost
        table[1, :servers] = 1.0
        table[1, columns] = self._wanted
        self._basic[1] = columns
        self._nonbasic[:] = np.arange(columns)
        self._rows = 2
        everywhere = np.concatenate((np.ones(servers), np.zeros(columns - servers)))
        self._separate(everywhere, is_first=True)
        self._purge_from = 0

    def climb(
        self, node: NodeBound, threshold: int, out_of_time: Callable[[], bool], most_pivots: int
    ) -> float:
        """Solve for the bounds of `node`; return the objective, in weights.

        It ends early above `threshold`, out of time and after about `most_pivots` pivots; the
        prices are good for something even then.
        """
        problem, servers, columns = self._problem, len(self._servers), self._columns
        server_state = np.asarray(node.server_state)[self._servers]
        job_state = np.asarray(node.job_state)[self._jobs]
        self._lower[:servers] = server_state == CHOSEN
        self._upper[:servers] = server_state != SPARED
        self._lower[servers:columns] = job_state == PAID
        self._upper[servers:columns] = (job_state == OPEN) | (job_state == PAID)
        limit = np.array([self._scaled(threshold) + PERTURBATION])
        pivots = 0
        while True:
            self._outcome, more, self._ray_row, self._ray_is_below = climb.compiled(
                min(most_pivots, PIVOTS_BETWEEN_CLOCK_READINGS),
                columns,
                self._rows,
                limit,
                self._tableau,
                self._lower,
                self._upper,
                self._nonbasic,
                self._is_upper,
                self._basic,
                self._basic_value,
                self._norm,
                *self._pivot_scratch,
            )
            pivots += more
            if self._outcome != UNFINISHED or pivots >= most_pivots or out_of_time():
                break
        self.pivots += pivots
        at = np.where(self._is_upper == 1, self._upper[self._nonbasic], self._lower[self._nonbasic])
        is_column = self._nonbasic < columns
        self._solution[self._nonbasic[is_column]] = at[is_column]
        basic = self._basic[1 : self._rows]
        is_column = basic < columns
        self._solution[basic[is_column]] = self._basic_value[1 : self._rows][is_column]
        return float(-self._basic_value[0] * self._scale + self._constant / problem.unit)

    @property
    def is_optimal(self) -> bool:
        """Whether the last solution satisfies all rows."""
        return bool(self._outcome == FINISHED)

    def shares(self) -> tuple[list[float], list[float]]:
        """Return x of every server and y of every job; 0 for those decided at the root."""
        x = np.zeros(self._problem.servers)
        y = np.zeros(self._problem.losses.jobs)
        servers = len(self._servers)
        x[self._servers] = np.clip(self._solution[:servers], 0.0, 1.0)
        y[self._jobs] = np.clip(self._solution[servers:], 0.0, 1.0)
        return x.tolist(), y.tolist()

    def prices(self, threshold: int) -> list[int]:
        """Return the prices that the multipliers of the rows are, rounded; by job.

        Where no choice was found the multipliers go on along the ray that proves it, as far as
        lifts the objective above `threshold`.
        """
        problem, columns = self._problem, self._columns
        multipliers = self._tableau[:columns].copy()
        variables = self._nonbasic
        if self._outcome == NO_CHOICE:
            base = self._ray_row * (columns + 1)
            ray = self._tableau[base : base + columns]
            leaving = self._basic[self._ray_row]
            value = self._basic_value[self._ray_row]
            out = (
                self._lower[leaving] - value if self._ray_is_below else value - self._upper[leaving]
            )
            missing = self._scaled(threshold) + self._basic_value[0]
            length = 1.0 + 2.0 * max(0.0, missing) / max(out, 1e-7)
            variables = np.append(variables, leaving)
            multipliers = np.append(
                multipliers + (length if self._ray_is_below else -length) * ray,
                length if self._ray_is_below else 0.0,
            )
        is_row = (variables >= columns) & (multipliers > 0.0)
        prices = sum_prices.compiled(
            self._member_width,
            variables[is_row] - columns,
            multipliers[is_row],
            problem.losses.job_start,
            problem.losses.job_counts,
            self._row_job,
            self._row_is_unit,
            self._row_members,
            np.zeros(problem.losses.entries),
        )
        # Beyond this, and where the tableau is spoilt, any price is as good as another.
        most = float(problem.largest_price) / (self._scale * problem.unit)
        prices = np.clip(np.nan_to_num(prices, nan=0.0), 0.0, most)
        resolution = 2**52
        unit = self._scale * problem.unit
        return [int(price * resolution) * unit // resolution for price in prices.tolist()]

    def add_rows(self) -> int:
        """Add the rows that the last solution violates, and return how many these are."""
        if self._rows > self._purge_from:
            self._drop_idle_rows()
            self._purge_from = max(self._rows + 100, self._columns * 2 // 3)
        return self._separate(self._solution, is_first=False)

    def _separate(self, point: Any, *, is_first: bool) -> int:
        columns, losses, before = self._columns, self._problem.losses, self._rows
        where = np.zeros(columns + self._most_rows, dtype=np.int64)
        where[self._basic[1:before]] = np.arange(1, before)
        where[self._nonbasic] = -1 - np.arange(columns)
        self._rows = separate.compiled(
            columns,
            before,
            self._most_rows,
            int(is_first),
            self._member_width,
            self._jobs,
            self._job_column,
            self._server_column,
            losses.job_start,
            losses.job_servers,
            losses.job_counts,
            self._residual,
            point,
            self._tableau,
            self._basic,
            where,
            self._row_job,
            self._row_is_unit,
            self._row_members,
            *self._row_scratch,
        )
        return self._rows - before

    def _drop_idle_rows(self) -> None:
        """Drop the rows whose slack is basic: they do not bind, and no other row knows of them."""
        columns = self._columns
        basic = self._basic[: self._rows]
        stays = basic <= columns
        stays[0] = True
        slacks = np.concatenate((basic[1:][stays[1:]], self._nonbasic))
        numbers = np.sort(slacks[slacks >= columns]) - columns
        new_number = np.zeros(self._most_rows, dtype=np.int64)
        new_number[numbers] = np.arange(len(numbers))
        rows = np.flatnonzero(stays)
        table = self._table()
        table[: len(rows)] = table[rows]
        self._basic[: len(rows)] = basic[rows]
        is_slack = self._nonbasic >= columns
        self._nonbasic[is_slack] = columns + new_number[self._nonbasic[is_slack] - columns]
        members = self._row_members.reshape(-1, self._member_width)
        members[: len(numbers)] = members[numbers]
        self._row_job[: len(numbers)] = self._row_job[numbers]
        self._row_is_unit[: len(numbers)] = self._row_is_unit[numbers]
        self._rows = len(rows)

    def _table(self) -> Any:
        return self._tableau.reshape(-1, self._columns + 1)

    def _scaled(self, value: int) -> float:
        """Return a value in the unit of prices as an objective of the tableau."""
        return float((value - self._constant) / (self._problem.unit * self._scale))


def _most_rows(columns: int) -> int:
    return columns + columns // 2 + 100
