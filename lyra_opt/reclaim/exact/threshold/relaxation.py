"""The linear relaxation of the threshold search, kept warm from node to node, and its prices.

HiGHS solves it, by the dual simplex method from the basis of the node before. A dense tableau of
our own took 1.5 times as long to the proof on interchangeable fleets of 300 servers (family
messy-dist, half of them reclaimed; 27.5 s of CPU time for seeds 0 to 4 against 17.9 s, with twice
the nodes), 1.35 times as long at 200 servers, and 0.8 times as long at 100: 0.09 s each.
Every row speaks of one job j and of some servers T on which it has workers: if at most `right` of
the sum of their coefficients fits into what the job survives, then

    sum of a_s x_s over T  <=  right + (sum of a_s over T - right) y_j.

Kept (y = 0), the job allows no more; paid for (y = 1), the row says nothing. Of all T the one that
a point (x, y) violates most is that of the servers with x_s > y_j, which is what makes these rows
so much stronger than those over all servers of the job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lyra_opt.core.kernels import kernel
from lyra_opt.core.stopwatch import loading
from lyra_opt.reclaim.exact.threshold.kernels import CHOSEN, FREE, KEPT, OPEN, PAID, SPARED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lyra_opt.reclaim.exact.threshold.bound import NodeBound, ThresholdProblem

    FloatArray = NDArray[np.float64]


LEAST_VIOLATION = 1e-4
"""By which a row must be violated to be worth having."""

LEAST_EXCESS = 1e-6
"""By which x must be more than y for its server to be in a row."""


class Rows(NamedTuple):
    """Rows, in arrays with room for all that one point can violate.

    Parameters
    ----------
    job, right
        Of each row.
    end
        Shape (rows + 1,): the entries of row i are those from ``end[i]`` to ``end[i + 1]``.
    entry, coefficient
        Which entry of the losses, and a_s.
    """

    job: Any
    right: Any
    end: Any
    entry: Any
    coefficient: Any


class Point(NamedTuple):
    """Where rows are looked for.

    Parameters
    ----------
    x, y
        Of each server and of each job.
    jobs
        Those that may have rows.
    is_free
        Whether a server may be in a row.
    residual
        How many workers each job survives to lose.
    """

    x: Any
    y: Any
    jobs: Any
    is_free: Any
    residual: Any


class CoverScratch(NamedTuple):
    """Space for the rows of one job: its entries in play by losses, and a table of covers.

    Parameters
    ----------
    by_losses, excess
        Entries in the order of their losses, and x_s - y_j of each: as long as the widest span.
    sums
        As long as the largest capacity for which covers are looked for, and two more.
    is_taken
        As long as `sums` times `by_losses`.
    """

    by_losses: Any
    excess: Any
    sums: Any
    is_taken: Any


@kernel
def put_entry(rows: Any, entries: int, entry: int, coefficient: int) -> int:
    """Put an entry into the last row; return how many there are then in all."""
    rows.entry[entries] = entry
    rows.coefficient[entries] = coefficient
    return entries + 1


@kernel
def close_row(rows: Any, count: int, entries: int, job: int, right: int) -> int:
    """Let the row end here; return how many rows there are then."""
    rows.job[count] = job
    rows.right[count] = right
    rows.end[count + 1] = entries
    return count + 1


@kernel
def put_cover(rows: Any, entries: int, losses: Any, scratch: Any, cover: Any) -> Any:
    """Put the entries of a cover and what is larger; `cover` is what `find_cover` returned.

    Returns how many entries there are then, and the right side.
    """
    last, items, capacity = cover
    for place in range(last + 1, items):
        entries = put_entry(rows, entries, scratch.by_losses[place], 1)
    size = 0
    missing = capacity + 1
    for back in range(last + 1):
        place = last - back
        if missing > 0 and scratch.is_taken[place * (capacity + 2) + missing]:
            entries = put_entry(rows, entries, scratch.by_losses[place], 1)
            size += 1
            missing = max(0, missing - losses.job_counts[scratch.by_losses[place]])
    return entries, size - 1


@kernel
def find_cover(capacity: int, paid: Any, items: int, losses: Any, scratch: Any) -> int:
    """Find the violated row of a cover and of all servers at least as large as its largest.

    A cover C is a set of servers with more than `capacity` workers together. Of C and any servers
    with at least as many workers as each of C, no |C| fit: at most |C| - 1 can be chosen while
    the job is kept. Among all covers whose largest server is given, that of the most violated row
    is a minimum knapsack, solved for all of them by one dynamic programme.

    Parameters
    ----------
    paid
        y_j.
    items
        How many entries there are in `scratch`.

    Returns
    -------
    int
        Place of the last server of the cover, -1 for none. From there and capacity + 1 on
        downwards, ``scratch.is_taken`` tells the members of the cover.
    """
    excess = scratch.excess
    sums = scratch.sums
    is_taken = scratch.is_taken
    goal = capacity + 1
    behind = 0.0
    for place in range(items):
        behind += excess[place]
    sums[0] = 0.0
    for reached in range(1, goal + 1):
        sums[reached] = 1e30
    best = 10 * LEAST_VIOLATION
    best_place = -1
    for place in range(items):
        lost = losses.job_counts[scratch.by_losses[place]]
        behind -= excess[place]
        gap = 1.0 - paid - excess[place]
        start = place * (capacity + 2)
        for back in range(goal):
            reached = goal - back
            other = sums[max(0, reached - lost)] + gap
            is_taken[start + reached] = 0
            if other < sums[reached] - 1e-12:
                sums[reached] = other
                is_taken[start + reached] = 1
        violation = 1.0 - paid - sums[goal] + behind
        if is_taken[start + goal] and violation > best:
            best = violation
            best_place = place
    return best_place


@kernel
def sort_in_play(job: int, point: Any, losses: Any, scratch: Any) -> int:
    """List the job's entries with x > y and losses that it survives, by losses; return how many."""
    paid = point.y[job]
    by_losses = scratch.by_losses
    items = 0
    for entry in range(losses.job_start[job], losses.job_start[job + 1]):
        s = losses.job_servers[entry]
        lost = losses.job_counts[entry]
        if not point.is_free[s] or lost > point.residual[job] or point.x[s] - paid <= LEAST_EXCESS:
            continue
        back = items
        while back > 0 and losses.job_counts[by_losses[back - 1]] > lost:
            by_losses[back] = by_losses[back - 1]
            back -= 1
        by_losses[back] = entry
        items += 1
    for place in range(items):
        scratch.excess[place] = point.x[losses.job_servers[by_losses[place]]] - paid
    return items


@kernel
def separate(is_first: int, losses: Any, point: Any, rows: Any, scratch: Any) -> Any:
    """Find the rows that a point violates; return how many there are, and the rows.

    For each job: a row for each server with more workers than it survives to lose, which cannot
    be chosen while it is kept (right side 0); a row with the losses over all others; a row with
    coefficients 1 over a cover and what is larger.

    Parameters
    ----------
    is_first
        Whether the servers of the first kind share one row, and covers are left out.
    """
    count = 0
    entries = 0
    for number in range(len(point.jobs)):
        job = point.jobs[number]
        paid = point.y[job]
        capacity = point.residual[job]
        before = entries
        for entry in range(losses.job_start[job], losses.job_start[job + 1]):
            s = losses.job_servers[entry]
            if (
                point.is_free[s]
                and losses.job_counts[entry] > capacity
                and point.x[s] - paid > LEAST_VIOLATION
            ):
                entries = put_entry(rows, entries, entry, 1)
                if not is_first:
                    count = close_row(rows, count, entries, job, 0)
        if is_first and entries > before:
            count = close_row(rows, count, entries, job, 0)

        items = sort_in_play(job, point, losses, scratch)
        total = 0
        violation = capacity * (paid - 1.0)
        for place in range(items):
            total += losses.job_counts[scratch.by_losses[place]]
            violation += losses.job_counts[scratch.by_losses[place]] * scratch.excess[place]
        if total <= capacity:
            continue
        if violation > LEAST_VIOLATION:
            for place in range(items):
                entry = scratch.by_losses[place]
                entries = put_entry(rows, entries, entry, losses.job_counts[entry])
            count = close_row(rows, count, entries, job, capacity)

        smallest = losses.job_counts[scratch.by_losses[0]]
        largest = losses.job_counts[scratch.by_losses[items - 1]]
        is_even = smallest == largest and capacity % smallest == 0
        if is_first or is_even or capacity + 2 > len(scratch.sums):
            continue
        last = find_cover(capacity, paid, items, losses, scratch)
        if last >= 0:
            entries, right = put_cover(rows, entries, losses, scratch, (last, items, capacity))
            count = close_row(rows, count, entries, job, right)
    return count, rows


LARGEST_COVERED_SLACK = 2**8
"""Largest slack for which covers are looked for."""

PERTURBATION = 1e-6
"""Of the largest weight: makes costs unequal, against the ties that a simplex method stalls at."""

OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "presolve": "off",
    "solver": "simplex",
    "simplex_strategy": 1,  # dual, as bounds and rows change
    "simplex_scale_strategy": 0,
    "dual_simplex_cost_perturbation_multiplier": 0.0,  # costs are unequal already
}

BYTES_OF_HIGHS = 2**20
BYTES_PER_ENTRY = 2**7
"""About: coefficients by row and by column, factors, and what HiGHS keeps beside them."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows that HiGHS has, but for the first one, which counts the servers.

    Parameters
    ----------
    number
        How many there are.
    row, entry, coefficient
        Which entries of the losses each row asks for.
    """

    number: int
    row: NDArray[np.int64]
    entry: NDArray[np.int64]
    coefficient: FloatArray

    def with_more(self, other: _Rows) -> _Rows:
        """Return these rows and those of `other`."""
        return _Rows(
            self.number + other.number,
            np.concatenate((self.row, other.row + self.number)),
            np.concatenate((self.entry, other.entry)),
            np.concatenate((self.coefficient, other.coefficient)),
        )

    def keeping(self, stays: NDArray[np.bool_]) -> _Rows:
        """Return the rows for which `stays`, shape (rows,), holds."""
        of_entry = stays[self.row]
        return _Rows(
            int(stays.sum()),
            (np.cumsum(stays) - 1)[self.row[of_entry]],
            self.entry[of_entry],
            self.coefficient[of_entry],
        )


_NO_ROWS = _Rows(0, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))


class Relaxation:
    """The servers and jobs that are open at the root, with rows that were violated so far.

    The rows (see the module) hold at every node; a node changes bounds only. So the last basis
    of any node is a start for any other. Everything is in floating point and nothing is a proof:
    `prices` are integers whose value `NodeBound.fix` computes exactly.

    Parameters
    ----------
    problem
        The problem.
    root
        The root, propagated.
    """

    def __init__(self, problem: ThresholdProblem, root: NodeBound) -> None:
        with loading():
            import highspy
        self._highspy = highspy
        self._highs = highspy.Highs()
        for option, value in OPTIONS.items():
            self._highs.setOptionValue(option, value)
        self._problem = problem
        self._servers = np.flatnonzero(np.asarray(root.decided.server_state) == FREE)
        self._jobs = np.flatnonzero(np.asarray(root.decided.job_state) <= KEPT)
        losses, servers = problem.losses, len(self._servers)
        self._columns = servers + len(self._jobs)
        self._server_column = np.full(losses.servers, -1, dtype=np.int64)
        self._server_column[self._servers] = np.arange(servers)
        self._job_column = np.full(losses.jobs, -1, dtype=np.int64)
        self._job_column[self._jobs] = servers + np.arange(len(self._jobs))
        self._residual = np.array(root.decided.residual, dtype=np.int64)
        self._wanted = root.decided.wanted
        self._constant = root.decided.constant
        # Weights beyond the incumbent's objective are as good as infinite; cut off there, they
        # do not blur the small ones.
        ceiling = problem.largest_price // problem.unit
        cost = problem.cost[self._servers].tolist() + problem.weight[self._jobs].tolist()
        self._scale = max([1, *(min(ceiling, value) for value in cost)])
        self._cost = np.array([min(ceiling, value) / self._scale for value in cost])
        self._cost += PERTURBATION * (1 + np.arange(self._columns) * 7919 % 1009 / 1009)
        self._solution = np.zeros(self._columns)
        self._row_duals = np.zeros(0)
        self._rows = _NO_ROWS
        self._purge_from = 0
        self.forget()

    @staticmethod
    def bytes_of(problem: ThresholdProblem) -> int:
        """Return about how much memory the relaxation of a problem takes."""
        losses = problem.losses
        return BYTES_OF_HIGHS + BYTES_PER_ENTRY * (losses.entries + losses.servers + losses.jobs)

    def forget(self) -> None:
        """Start anew from the first rows: one or two for each job, over all its servers."""
        servers, highs = len(self._servers), self._highs
        highs.clearModel()
        nothing = np.zeros(0, dtype=np.int32)
        zeros, ones = np.zeros(self._columns), np.ones(self._columns)
        highs.addCols(self._columns, self._cost, zeros, ones, 0, nothing, nothing, np.zeros(0))
        highs.addRow(self._wanted, self._wanted, servers, np.arange(servers), np.ones(servers))
        self._rows = _NO_ROWS
        self._separate(np.concatenate((np.ones(servers), zeros[servers:])), is_first=True)
        self._purge_from = 0

    def climb(
        self, node: NodeBound, threshold: int, remaining_s: float | None, most_pivots: int
    ) -> float:
        """Solve for the bounds of `node`; return the objective, in weights.

        It ends early above `threshold`, out of time and after `most_pivots` pivots; the prices are
        good for something even then, but the objective is not.
        """
        highs = self._highs
        server_state = np.asarray(node.decided.server_state)[self._servers]
        job_state = np.asarray(node.decided.job_state)[self._jobs]
        highs.changeColsBounds(
            self._columns,
            np.arange(self._columns, dtype=np.int32),
            np.concatenate((server_state == CHOSEN, job_state == PAID)).astype(np.float64),
            np.concatenate(
                (server_state != SPARED, (job_state == OPEN) | (job_state == PAID))
            ).astype(np.float64),
        )
        highs.setOptionValue("objective_bound", self._scaled(threshold) + PERTURBATION)
        highs.setOptionValue("simplex_iteration_limit", most_pivots)
        if remaining_s is not None:  # HiGHS counts the time of all solutions together
            highs.setOptionValue("time_limit", highs.getRunTime() + max(0.0, remaining_s))
        if highs.run() == self._highspy.HighsStatus.kError:
            # Threads are shared by all of a process: others may have asked for another number.
            self._highspy.Highs.resetGlobalScheduler(True)
            highs.run()
        solution = highs.getSolution()
        if len(solution.col_value) == self._columns:
            self._solution = np.array(solution.col_value)
        self._row_duals = np.array(solution.row_dual)
        objective = highs.getInfo().objective_function_value
        return float(objective * self._scale + self._constant / self._problem.unit)

    @property
    def is_optimal(self) -> bool:
        """Whether the last solution satisfies all rows."""
        return bool(self._highs.getModelStatus() == self._highspy.HighsModelStatus.kOptimal)

    def shares(self) -> tuple[list[float], list[float]]:
        """Return x of every server and y of every job; 0 for those decided at the root."""
        x, y = self._shares(self._solution)
        return x.tolist(), y.tolist()

    def prices(self) -> list[int]:
        """Return the prices that the multipliers of the rows are, rounded; by job.

        Where no choice was found the multipliers go on along the ray that proves it, as far as
        prices may go.
        """
        problem, rows = self._problem, self._rows
        most = float(problem.largest_price) / (self._scale * problem.unit)
        prices = np.zeros(problem.losses.entries)
        if len(self._row_duals) == 1 + rows.number:
            prices += self._asked(self._row_duals)
        if self._highs.getModelStatus() == self._highspy.HighsModelStatus.kInfeasible:
            _, is_known, ray = self._highs.getDualRay()
            along = self._asked(ray) if is_known else np.zeros_like(prices)
            rises = along > 0.0
            room = np.maximum(0.0, most - prices[rises]) / along[rises]
            prices += along * (room.min() if len(room) else 0.0)
        # Beyond this, any price is as good as another.
        prices = np.clip(np.nan_to_num(prices, nan=0.0), 0.0, most)
        return [int(price) for price in (prices * float(self._scale * problem.unit)).tolist()]

    def _asked(self, row_duals: FloatArray) -> FloatArray:
        """Return what the rows ask for each entry; the first one, of the count, asks nothing."""
        rows = self._rows
        multipliers = np.maximum(0.0, -row_duals[1:])
        prices = np.zeros(self._problem.losses.entries)
        np.add.at(prices, rows.entry, multipliers[rows.row] * rows.coefficient)
        return prices

    def add_rows(self) -> int:
        """Add the rows that the last solution violates, and return how many these are."""
        if self._rows.number > self._purge_from:
            self._drop_idle_rows()
            self._purge_from = max(self._rows.number + 100, self._columns * 2 // 3)
        return self._separate(self._solution, is_first=False)

    def _shares(self, solution: FloatArray) -> tuple[FloatArray, FloatArray]:
        x, y = np.zeros(self._problem.servers), np.zeros(self._problem.losses.jobs)
        shares = np.clip(solution, 0.0, 1.0)
        x[self._servers], y[self._jobs] = np.split(shares, [len(self._servers)])
        return x, y

    def _separate(self, solution: FloatArray, *, is_first: bool) -> int:
        losses = self._problem.losses
        x, y = self._shares(solution)
        point = Point(
            x=x, y=y, jobs=self._jobs, is_free=self._server_column >= 0, residual=self._residual
        )
        # Each entry is at most alone in a row, in one with the losses and in one of a cover.
        most_rows, most_entries = losses.entries + 2 * losses.jobs, 3 * losses.entries
        span = int(losses.span().max(initial=0))
        most_covered = min(int(self._problem.slack.max(initial=0)), LARGEST_COVERED_SLACK) + 2
        found: tuple[int, Rows] = separate.compiled(
            int(is_first),
            losses,
            point,
            Rows(
                *(np.zeros(size, dtype=np.int64) for size in (most_rows, most_rows, most_rows + 1)),
                *(np.zeros(most_entries, dtype=np.int64) for _ in range(2)),
            ),
            CoverScratch(
                np.zeros(span, dtype=np.int64),
                np.zeros(span),
                np.zeros(most_covered),
                np.zeros(most_covered * span, dtype=np.int64),
            ),
        )
        count, rows = found
        if count:
            self._add(count, rows)
        return count

    def _add(self, count: int, found: Rows) -> None:
        """Give the rows to HiGHS: of each the coefficients of its servers, then of its job."""
        end = found.end[: count + 1]
        entry = found.entry[: end[count]]
        coefficient = found.coefficient[: end[count]].astype(np.float64)
        row = np.repeat(np.arange(count), np.diff(end))
        right = found.right[:count].astype(np.float64)
        job_coefficient = right - np.bincount(row, coefficient, count)
        self._highs.addRows(
            count,
            np.full(count, -self._highspy.kHighsInf),
            right,
            len(entry) + count,
            (end[:-1] + np.arange(count)).astype(np.int32),
            np.insert(
                self._server_column[self._problem.losses.job_servers[entry]],
                end[1:],
                self._job_column[found.job[:count]],
            ).astype(np.int32),
            np.insert(coefficient, end[1:], job_coefficient),
        )
        self._rows = self._rows.with_more(_Rows(count, row, entry, coefficient))

    def _drop_idle_rows(self) -> None:
        """Drop the rows whose slack is basic: they do not bind. The others keep the basis."""
        highs, basic = self._highs, self._highspy.HighsBasisStatus.kBasic
        basis = highs.getBasis()
        status_of = list(basis.row_status)
        stays = np.array([True, *(status != basic for status in status_of[1:])])
        idle = np.flatnonzero(~stays).astype(np.int32)
        if not len(idle):
            return
        kept = self._highspy.HighsBasis()
        kept.col_status = list(basis.col_status)
        kept.row_status = [
            status for status, is_kept in zip(status_of, stays, strict=True) if is_kept
        ]
        kept.valid = True
        highs.deleteRows(len(idle), idle)
        highs.setBasis(kept)
        self._rows = self._rows.keeping(stays[1:])

    def _scaled(self, value: int) -> float:
        """Return a value in the unit of prices as an objective of the linear programme."""
        return float((value - self._constant) / (self._problem.unit * self._scale))
