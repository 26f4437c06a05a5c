"""The linear relaxation of branch and bound for jobs with slack, re-solved from a warm basis.

HiGHS solves the relaxation by the dual simplex method from the basis of the previous node. A dense
tableau of this project's own needed 1.5 times the CPU time until the proof on interchangeable
fleets of 300 servers (family messy-dist, half of the servers reclaimed: 27.5 s against 17.9 s for
seeds 0 to 4, with twice the nodes). It needed 1.35 times the time at 200 servers and 0.8 times at
100 servers (0.09 s each).

Every row is about one job j and some servers T on which it has workers. If the job survives only
sets of servers in T with coefficients of at most `right` in total, then

    sum of a_s x_s over T  <=  right + (sum of a_s over T - right) y_j.

If the job is kept (y = 0), the row limits its losses; if it is paid for (y = 1), the row always
holds. Of all sets T, the row for the servers with x_s > y_j is the most violated at a point (x, y).
This makes these rows much stronger than rows over all servers of the job.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lyra_opt.core.arrays import FloatArray
from lyra_opt.core.kernels import kernel
from lyra_opt.core.stopwatch import loading
from lyra_opt.reclaim.exact.threshold.bound import NodeBound, ThresholdProblem
from lyra_opt.reclaim.exact.threshold.kernels import CHOSEN, FREE, KEPT, OPEN, PAID, SPARED

LEAST_VIOLATION = 1e-4
"""A row is added only if it is violated by more than this."""

LEAST_EXCESS = 1e-6
"""A server enters a row only if its x exceeds y by more than this."""


class Rows(NamedTuple):
    """The cuts of the relaxation as arrays, with space for all cuts that one point can violate.

    Parameters
    ----------
    job, right
        Shape (rows,): job and right-hand side of each row.
    end
        Shape (rows + 1,): the entries of row i are those from ``end[i]`` to ``end[i + 1]``.
    entry, coefficient
        The entry of the losses, and its coefficient a_s.
    """

    job: Any
    right: Any
    end: Any
    entry: Any
    coefficient: Any


class Point(NamedTuple):
    """A fractional point of the relaxation, for which violated cuts are sought.

    Parameters
    ----------
    x, y
        Shape (servers,) and (jobs,): the values of the variables.
    jobs
        The jobs that may have rows.
    is_free
        Shape (servers,): whether the server may be in a row.
    residual
        Shape (jobs,): the number of workers that the job survives to lose.
    """

    x: Any
    y: Any
    jobs: Any
    is_free: Any
    residual: Any


class CoverScratch(NamedTuple):
    """Working arrays for the cuts of one job: sorted entries and a dynamic-programming table.

    Parameters
    ----------
    by_losses, excess
        The entries in the order of their losses, and x_s - y_j of each; as long as the widest span.
    sums
        The table; its length is two more than the largest capacity for which covers are sought.
    is_taken
        The decisions of the table; its length is that of `sums` times that of `by_losses`.
    """

    by_losses: Any
    excess: Any
    sums: Any
    is_taken: Any


@kernel
def append_entry(rows: Any, entries: int, entry: int, coefficient: int) -> int:
    """Append a coefficient to the last cut; return the new number of coefficients."""
    rows.entry[entries] = entry
    rows.coefficient[entries] = coefficient
    return entries + 1


@kernel
def close_row(rows: Any, count: int, entries: int, job: int, right: int) -> int:
    """End the last cut; return the new number of cuts."""
    rows.job[count] = job
    rows.right[count] = right
    rows.end[count + 1] = entries
    return count + 1


@kernel
def append_cover(rows: Any, entries: int, losses: Any, scratch: Any, cover: Any) -> Any:
    """Append an extended cover cut; return the new number of coefficients and the right-hand side.

    `cover` is the result of `find_cover` with the number of items and the capacity.
    """
    last, items, capacity = cover
    for place in range(last + 1, items):
        entries = append_entry(rows, entries, scratch.by_losses[place], 1)
    size = 0
    missing = capacity + 1
    for back in range(last + 1):
        place = last - back
        if missing > 0 and scratch.is_taken[place * (capacity + 2) + missing]:
            entries = append_entry(rows, entries, scratch.by_losses[place], 1)
            size += 1
            missing = max(0, missing - losses.job_counts[scratch.by_losses[place]])
    return entries, size - 1


@kernel
def find_cover(capacity: int, paid: Any, items: int, losses: Any, scratch: Any) -> int:
    """Find the most violated cover cut of a job, extended by all servers at least as large.

    A cover C is a set of servers with more than `capacity` workers in total. Extend C by servers
    with at least as many workers as each member of C. While the job is kept, at most |C| - 1 of
    these servers can be chosen. For a given largest server, the cover with the most violated row
    solves a minimum knapsack. One dynamic programme solves these knapsacks for all largest servers.

    Parameters
    ----------
    paid
        y_j.
    items
        Number of entries in `scratch`.

    Returns
    -------
    int
        Index of the last server of the cover, or -1 if no row is violated. ``scratch.is_taken``
        gives the members of the cover, read backwards from that index and capacity + 1.
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
    """Sort the entries of a job that may enter a cut by losses; return their number."""
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
    """Find the cuts that a fractional point violates; return their number, and the cuts.

    Each job can have three kinds of rows. A server with more workers than the job survives to lose
    cannot be chosen while the job is kept (right side 0). One row has the losses of all other
    servers as coefficients. One row has coefficients 1 over an extended cover.

    Parameters
    ----------
    is_first
        Whether the servers of the first kind share one row and cover rows are omitted.
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
                entries = append_entry(rows, entries, entry, 1)
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
                entries = append_entry(rows, entries, entry, losses.job_counts[entry])
            count = close_row(rows, count, entries, job, capacity)

        smallest = losses.job_counts[scratch.by_losses[0]]
        largest = losses.job_counts[scratch.by_losses[items - 1]]
        is_even = smallest == largest and capacity % smallest == 0
        if is_first or is_even or capacity + 2 > len(scratch.sums):
            continue
        last = find_cover(capacity, paid, items, losses, scratch)
        if last >= 0:
            entries, right = append_cover(rows, entries, losses, scratch, (last, items, capacity))
            count = close_row(rows, count, entries, job, right)
    return count, rows


LARGEST_COVERED_SLACK = 2**8
"""Largest slack for which cover rows are sought."""

PERTURBATION = 1e-6
"""Perturbation of the costs, relative to the largest weight; it breaks ties that stall simplex."""

OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "presolve": "off",
    "solver": "simplex",
    "simplex_strategy": 1,  # dual simplex, because only bounds and rows change
    "simplex_scale_strategy": 0,
    "dual_simplex_cost_perturbation_multiplier": 0.0,  # PERTURBATION does this already
}

BYTES_OF_HIGHS = 2**20
BYTES_PER_ENTRY = 2**7
"""Approximate memory of HiGHS per entry: coefficients by row and column, factors and the rest."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """The cuts in the HiGHS model, without the row that fixes the number of chosen servers.

    Parameters
    ----------
    number
        Number of rows.
    row, entry, coefficient
        For each coefficient of a server: its row, its entry of the losses, and its value.
    """

    number: int
    row: NDArray[np.int64]
    entry: NDArray[np.int64]
    coefficient: FloatArray

    def with_more(self, other: "_Rows") -> "_Rows":
        """Return these cuts followed by the cuts of `other`."""
        return _Rows(
            self.number + other.number,
            np.concatenate((self.row, other.row + self.number)),
            np.concatenate((self.entry, other.entry)),
            np.concatenate((self.coefficient, other.coefficient)),
        )

    def keeping(self, stays: NDArray[np.bool_]) -> "_Rows":
        """Return the cuts for which `stays`, shape (rows,), is true."""
        of_entry = stays[self.row]
        return _Rows(
            int(stays.sum()),
            (np.cumsum(stays) - 1)[self.row[of_entry]],
            self.entry[of_entry],
            self.coefficient[of_entry],
        )


_NO_ROWS = _Rows(0, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))


class Relaxation:
    """The linear relaxation over the servers and jobs undecided at the root, with all cuts so far.

    The rows, which the module describes, hold at every node; a node changes only variable bounds.
    So the last basis of any node is a start for any other node. Everything is in floating point and
    proves nothing. `prices` returns integers, and `NodeBound.fix` computes the exact bound that
    they prove.

    Parameters
    ----------
    problem
        The problem.
    root
        The root node, propagated.
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
        # Weights are capped at the incumbent's objective, above which they act as infinite.
        # If large weights were not capped, they would hide small weights in floating-point sums.
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
        """Return the approximate memory, in bytes, of the relaxation of a problem."""
        losses = problem.losses
        return BYTES_OF_HIGHS + BYTES_PER_ENTRY * (losses.entries + losses.servers + losses.jobs)

    def forget(self) -> None:
        """Reset the relaxation to its first cuts: one or two for each job, over all its servers."""
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
        """Solve the relaxation with the variable bounds of `node`; return its objective.

        The solver stops early above `threshold`, at the time limit, or after `most_pivots` pivots.
        The prices are still useful then, but the objective is not.
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
        if remaining_s is not None:  # the time limit of HiGHS covers all runs together
            highs.setOptionValue("time_limit", highs.getRunTime() + max(0.0, remaining_s))
        if highs.run() == self._highspy.HighsStatus.kError:
            # HiGHS has one thread pool per process, which other code may have set up differently.
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
        """Whether the last run of HiGHS solved the relaxation to optimality."""
        return bool(self._highs.getModelStatus() == self._highspy.HighsModelStatus.kOptimal)

    def shares(self) -> tuple[list[float], list[float]]:
        """Return the relaxed values of all servers (x) and jobs (y), 0 if decided at the root."""
        x, y = self._shares(self._solution)
        return x.tolist(), y.tolist()

    def prices(self) -> list[int]:
        """Return the dual values of the cuts as integer prices of (job, server) pairs, by job.

        If no feasible choice was found, the multipliers are extended along the dual ray that proves
        infeasibility, up to the largest price.
        """
        problem, rows = self._problem, self._rows
        most = float(problem.largest_price) / (self._scale * problem.unit)
        prices = np.zeros(problem.losses.entries)
        if len(self._row_duals) == 1 + rows.number:
            prices += self._entry_prices(self._row_duals)
        if self._highs.getModelStatus() == self._highspy.HighsModelStatus.kInfeasible:
            _, is_known, ray = self._highs.getDualRay()
            along = self._entry_prices(ray) if is_known else np.zeros_like(prices)
            rises = along > 0.0
            room = np.maximum(0.0, most - prices[rises]) / along[rises]
            prices += along * (room.min() if len(room) else 0.0)
        # Prices are cut at the largest useful price, because higher prices give no better bound.
        prices = np.clip(np.nan_to_num(prices, nan=0.0), 0.0, most)
        return [int(price) for price in (prices * float(self._scale * problem.unit)).tolist()]

    def _entry_prices(self, row_duals: FloatArray) -> FloatArray:
        """Return the price of each (job, server) pair from the dual values of the cuts."""
        rows = self._rows
        multipliers = np.maximum(0.0, -row_duals[1:])
        prices = np.zeros(self._problem.losses.entries)
        np.add.at(prices, rows.entry, multipliers[rows.row] * rows.coefficient)
        return prices

    def add_rows(self) -> int:
        """Add the cuts that the last solution violates, and return their number."""
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
        # Each (job, server) pair is in at most three cuts: alone, with all losses, and in a cover.
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
        """Pass the cuts to HiGHS, each with the coefficients of its servers and then of its job."""
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
        """Delete the cuts that do not bind, and keep the basis of the remaining cuts."""
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
        """Convert a value in the unit of prices to an objective of the linear programme."""
        return float((value - self._constant) / (self._problem.unit * self._scale))
