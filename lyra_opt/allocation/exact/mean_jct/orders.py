"""The linear programme for a fixed order of releases, starts and completions of jobs.

Its bound is safe from rounding. Between two events (releases, starts, completions) the set of
running jobs is constant, so constant numbers of workers lose nothing. Given the order of events,
only the lengths of the intervals and the workers in them remain to be chosen, and the problem is
linear in both. The proofs are in ``formulations/allocation/README.md``, section 9.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lyra_opt.allocation.instance import Instance, Schedule, SchedulePiece
from lyra_opt.core.arrays import FloatArray
from lyra_opt.core.stopwatch import loading, remaining_s, require_time, within_time

LEAST_ROW = 1e-9
"""Least divisor of a work row, in scaled worker-seconds; HiGHS refuses coefficients above 1e15."""


class Kind(IntEnum):
    """The kind of an event: a completion, a start or a release."""

    COMPLETION = 0
    START = 1
    RELEASE = 2


class Event(NamedTuple):
    """A point in time at which the set of running jobs may change.

    Parameters
    ----------
    kind
        The kind of the event.
    which
        The file position of the job; for a release, its index in `OrderData.releases`.
    """

    kind: Kind
    which: int


class OrderData:
    """The numbers of an instance for the linear programmes, with times scaled to near 1.

    Parameters
    ----------
    instance
        The instance.

    Attributes
    ----------
    unit_s : float
        Seconds per unit of time.
    releases : list[float]
        The distinct releases after 0, increasing.
    counted_work : FloatArray
        Divisor of the work rows: the work, or `LEAST_ROW` if that is more.
    """

    def __init__(self, instance: Instance) -> None:
        jobs = instance.jobs
        self.jobs = len(jobs)
        self.gpus = float(instance.gpus)
        self.base = np.array([job.min_gpus for job in jobs], dtype=float)
        self.extra = np.array([job.max_gpus - job.min_gpus for job in jobs], dtype=float)
        self.base_rate = np.array([job.min_workers for job in jobs], dtype=float)
        self.extra_rate = np.array(
            [(job.max_workers - job.min_workers) * (1 - job.scaling_loss) for job in jobs]
        )
        self.extra = np.where(self.extra_rate > 0, self.extra, 0.0)
        work = np.array([job.work_worker_s for job in jobs], dtype=float)
        release = np.array([job.release_s for job in jobs], dtype=float)
        # A job can use at most as many extra workers as fit into the cluster.
        share = np.minimum(1.0, (self.gpus - self.base) / np.where(self.extra > 0, self.extra, 1.0))
        self.extra = self.extra * share
        self.extra_rate = self.extra_rate * share
        self.top_rate = self.base_rate + self.extra_rate
        area = work * self.base / self.base_rate / self.gpus
        self.unit_s = float(max(area.sum(), (work / self.top_rate).max()))
        self.work = work / self.unit_s
        self.counted_work = np.maximum(self.work, LEAST_ROW)
        self.release = release / self.unit_s
        self.running = np.array([job.running for job in jobs], dtype=bool)
        self.height = self.work / self.top_rate
        self.releases = sorted({float(value) for value in self.release if value > 0})

    @property
    def order_of_releases(self) -> list[int]:
        """The index of each job's release in `releases`, or -1 for a release at 0."""
        place = {value: index for index, value in enumerate(self.releases)}
        return [place.get(float(value), -1) for value in self.release]


@dataclass(frozen=True, slots=True)
class StartRange:
    """The earliest and the latest event at which a job may start.

    The job starts at or after `after`, and at or before `before`. None means time 0 for `after`,
    and no known event for `before`.
    """

    after: Event | None = None
    before: Event | None = None
    known_at_zero: bool = False


class OrderSolution(NamedTuple):
    """The solution of the linear programme of an order.

    Parameters
    ----------
    bound
        A lower bound on the sum of completions of every schedule with this order, in units of time.
        It is computed from the multipliers, so the solver's rounding can raise it by no more than
        the rounding of one sum of doubles.
    value
        The objective value that the solver reports.
    lengths
        Shape (intervals,): lengths of the intervals; interval i ends at event i.
    run
        Shape (jobs, intervals): time for which the job runs in the interval.
    extra
        Shape (jobs, intervals): time for which the job holds all workers up to w_max.
    is_open
        Shape (jobs, intervals): whether the job may, but need not, run in the interval.
    """

    bound: float
    value: float
    lengths: FloatArray
    run: FloatArray
    extra: FloatArray
    is_open: NDArray[np.bool_]


class OrderProgramme:
    """The linear programmes for different event orders of one instance, with their LP solver.

    Parameters
    ----------
    data
        The instance.
    horizon
        A time by which every useful schedule is complete, such as the sum of completions of a known
        schedule.
    """

    def __init__(self, data: OrderData, horizon: float) -> None:
        with loading():
            import highspy

        self._highspy = highspy
        self.data = data
        self.horizon = horizon
        self.solved = 0
        self._solver = highspy.Highs()
        for option, value in (
            ("output_flag", False),
            ("threads", 1),
            ("presolve", "off"),
            ("primal_feasibility_tolerance", 1e-10),
            ("dual_feasibility_tolerance", 1e-10),
        ):
            self._solver.setOptionValue(option, value)

    def solve(
        self, events: Sequence[Event], starts: Sequence[StartRange | None]
    ) -> OrderSolution | None:
        """Solve the linear programme for an order of events, which may end before some completions.

        Jobs that do not complete in `events` complete in the tail, where mean busy times bound
        their completions.

        Parameters
        ----------
        events
            The events in order.
        starts
            Start range of each job; None for a job that is running at 0.

        Returns
        -------
        OrderSolution | None
            None if base demands that must run together do not fit.

        Raises
        ------
        OutOfTimeError
            If the time limit is reached.
        """
        rows = _Rows(self.data, self.horizon, events, starts)
        if not rows.fits:
            return None
        return self._solve(rows)

    def _solve(self, rows: "_Rows") -> OrderSolution:
        highspy, solver = self._highspy, self._solver
        cost, upper = np.array(rows.cost), np.array(rows.upper)
        row_lower, row_upper = np.array(rows.row_lower), np.array(rows.row_upper)
        begin = np.array(rows.begin, dtype=np.int32)
        index = np.array(rows.index, dtype=np.int32)
        value = np.array(rows.value)
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(cost), len(row_lower)
        model.col_cost_, model.col_lower_, model.col_upper_ = cost, np.zeros(len(cost)), upper
        model.row_lower_, model.row_upper_ = row_lower, row_upper
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = begin
        model.a_matrix_.index_ = index
        model.a_matrix_.value_ = value
        solver.passModel(model)
        time_s = remaining_s()
        # HiGHS counts the time of all its runs, so the time limit includes that of earlier runs.
        solver.setOptionValue(
            "time_limit", math.inf if time_s is None else solver.getRunTime() + time_s
        )
        solver.run()
        require_time()
        self.solved += 1
        solution = solver.getSolution()
        primal = np.array(solution.col_value)
        dual = np.array(solution.row_dual)
        if len(dual) != len(row_lower):
            dual = np.zeros(len(row_lower))
        if len(primal) != len(cost):
            primal = np.zeros(len(cost))
        # By weak duality, any multipliers of the right sign give a valid bound.
        # For the bound, each variable takes the value within its limits that is best for it.
        dual = np.where(np.isfinite(row_lower), dual, np.minimum(dual, 0.0))
        dual = np.where(np.isfinite(row_upper), dual, np.maximum(dual, 0.0))
        dual = np.nan_to_num(dual)
        side = np.where(dual > 0, row_lower, row_upper)
        of_row = np.repeat(np.arange(len(row_lower)), np.diff(begin))
        reduced = cost - np.bincount(index, weights=value * dual[of_row], minlength=len(cost))
        bound = math.fsum(np.where(dual != 0, dual * np.where(dual != 0, side, 0.0), 0.0))
        bound += math.fsum(np.minimum(reduced, 0.0) * upper)
        return rows.read(primal, bound, float(cost @ primal))


class _Rows:
    """The columns and rows of the linear programme for one order of events."""

    def __init__(
        self,
        data: OrderData,
        horizon: float,
        events: Sequence[Event],
        starts: Sequence[StartRange | None],
    ) -> None:
        self.data, self.horizon, self.events, self.starts = data, horizon, events, starts
        self.cost: list[float] = []
        self.upper: list[float] = []
        self.row_lower: list[float] = []
        self.row_upper: list[float] = []
        self.begin = [0]
        self.index: list[int] = []
        self.value: list[float] = []
        intervals = len(events)
        place = {event: position for position, event in enumerate(events)}
        self.completion = [place.get(Event(Kind.COMPLETION, job), -1) for job in range(data.jobs)]
        self.tail = [job for job in range(data.jobs) if self.completion[job] < 0]
        # For each job: the first interval in which it may run, and the first in which it must run.
        self.first, self.full = [], []
        for start in starts:
            if start is None or start.known_at_zero:
                self.first.append(0)
                self.full.append(0)
                continue
            self.first.append(0 if start.after is None else place.get(start.after, intervals) + 1)
            self.full.append(
                intervals if start.before is None else place.get(start.before, intervals) + 1
            )
        self.run_columns: dict[tuple[int, int], int] = {}
        self.extra_columns: dict[tuple[int, int], int] = {}
        self.fits = self._add_intervals()
        if self.fits:
            self._add_releases()
            self._add_tail()
            self._add_work()

    def _column(self, cost: float, upper: float) -> int:
        self.cost.append(cost)
        self.upper.append(upper)
        return len(self.cost) - 1

    def _row(self, terms: Sequence[tuple[int, float]], lower: float, upper: float) -> None:
        for column, value in terms:
            self.index.append(column)
            self.value.append(value)
        self.begin.append(len(self.index))
        self.row_lower.append(lower)
        self.row_upper.append(upper)

    def _last(self, job: int) -> int:
        place = self.completion[job]
        return place if place >= 0 else len(self.events) - 1

    def _add_intervals(self) -> bool:
        data, horizon = self.data, self.horizon
        unfinished = data.jobs
        for event in self.events:
            self._column(float(unfinished), horizon)
            unfinished -= event.kind is Kind.COMPLETION
        for interval in within_time(range(len(self.events))):
            held: list[tuple[int, float]] = []
            base = 0.0
            for job in range(data.jobs):
                if not self.first[job] <= interval <= self._last(job):
                    continue
                owner = interval
                if interval >= self.full[job]:
                    base += data.base[job]
                else:
                    owner = self._column(0.0, horizon)
                    self.run_columns[job, interval] = owner
                    self._row(((owner, 1.0), (interval, -1.0)), -math.inf, 0.0)
                    held.append((owner, data.base[job] / data.gpus))
                if data.extra[job] > 0:
                    column = self._column(0.0, horizon)
                    self.extra_columns[job, interval] = column
                    self._row(((column, 1.0), (owner, -1.0)), -math.inf, 0.0)
                    held.append((column, data.extra[job] / data.gpus))
            if base > data.gpus:
                return False
            held.append((interval, base / data.gpus - 1.0))
            self._row(held, -math.inf, 0.0)
        return True

    def _add_releases(self) -> None:
        """Add rows that fix the times of release events; priced lateness keeps the LP feasible."""
        data = self.data
        price = 10.0 * data.jobs
        following = 0
        for position, event in enumerate(self.events):
            if event.kind is Kind.RELEASE:
                following = event.which + 1
                late = self._column(price, self.horizon)
                lengths = [(interval, 1.0) for interval in range(position + 1)]
                due = data.releases[event.which]
                self._row(lengths, due, math.inf)
                self._row([*lengths, (late, -1.0)], -math.inf, due)
        self.next_release = math.inf
        if following < len(data.releases):
            self.next_release = data.releases[following]
            if self.events:
                late = self._column(price, self.horizon)
                lengths = [(interval, 1.0) for interval in range(len(self.events))]
                self._row([*lengths, (late, -1.0)], -math.inf, self.next_release)

    def _work_terms(self, job: int) -> list[tuple[int, float]]:
        """Return (column, coefficient) terms for the share of a job's work in the intervals."""
        data = self.data
        terms = []
        for interval in range(self.first[job], self._last(job) + 1):
            owner = self.run_columns.get((job, interval), interval)
            terms.append((owner, data.base_rate[job] / data.counted_work[job]))
            column = self.extra_columns.get((job, interval))
            if column is not None:
                terms.append((column, data.extra_rate[job] / data.counted_work[job]))
        return terms

    def _add_work(self) -> None:
        for job in within_time(range(self.data.jobs)):
            if self.completion[job] >= 0:
                self._row(self._work_terms(job), self._work_share(job), math.inf)

    def _work_share(self, job: int) -> float:
        """Return the right-hand side of a job's work rows, in scaled units."""
        return float(self.data.work[job] / self.data.counted_work[job])

    def _least_time(self) -> float:
        """Return a lower bound on the time of the last event."""
        data = self.data
        area = least = 0.0
        for event in self.events:
            if event.kind is Kind.RELEASE:
                least = max(least, data.releases[event.which])
            elif event.kind is Kind.COMPLETION:
                job = event.which
                area += data.work[job] * data.base[job] / data.base_rate[job] / data.gpus
                least = max(least, area, data.release[job] + data.height[job])
        return least

    def _add_tail(self) -> None:
        data, tail = self.data, self.tail
        if not tail:
            return
        intervals = range(len(self.events))
        least = self._least_time()
        latest = self.next_release if self.events else 0.0
        releases = np.array(
            [
                max(0.0, data.release[job] - latest)
                if data.release[job] >= self.next_release
                else 0
                for job in tail
            ]
        )
        length = max(
            float(
                sum(data.counted_work[job] * data.base[job] / data.base_rate[job] for job in tail)
            )
            / data.gpus,
            max(data.height[job] for job in tail),
        )
        nodes, weights, groups = tail_nodes(sorted(set(releases.tolist())), length, self.horizon)
        held: list[list[tuple[int, float]]] = [[] for _ in nodes]
        for job, release in zip(tail, releases, strict=True):
            done = self._work_terms(job)
            completion = self._column(1.0, self.horizon)
            left = 1.0  # largest share of its work left at the begin of the tail
            if self.full[job] == 0:
                left = max(1e-3, 1.0 - data.base_rate[job] * least / data.counted_work[job])
            work: list[tuple[int, float]] = []
            busy: list[tuple[int, float]] = []
            concave = data.extra[job] > 0 and not math.isclose(
                data.extra_rate[job] * data.base[job], data.base_rate[job] * data.extra[job]
            )
            segments = (
                ((data.base[job], data.base_rate[job]), (data.extra[job], data.extra_rate[job]))
                if concave
                else ((data.base[job] + data.extra[job], data.top_rate[job]),)
            )
            for place, (time, weight, group) in enumerate(zip(nodes, weights, groups, strict=True)):
                if group < release:
                    continue
                for gpus, rate in segments:
                    column = self._column(0.0, weight)
                    held[place].append((column, gpus / data.gpus))
                    work.append((column, rate / data.counted_work[job]))
                    busy.append((column, -time * rate / data.counted_work[job] / left))
            half = data.height[job] / 2
            halves = [
                (column, share * data.counted_work[job] / data.top_rate[job] / 2)
                for column, share in done
            ]
            self._row([*done, *work], self._work_share(job), math.inf)
            self._row([(completion, 1.0), *busy, *halves], half, math.inf)
            self._row(
                [(completion, 1.0), *((column, 2 * share) for column, share in halves)],
                2 * half,
                math.inf,
            )
            if data.release[job] >= self.next_release:
                self._row(
                    [(completion, 1.0), *((interval, 1.0) for interval in intervals)],
                    data.release[job] + data.height[job],
                    math.inf,
                )
        for terms, weight in zip(held, weights, strict=True):
            if terms:
                self._row(terms, -math.inf, weight)

    def read(self, primal: FloatArray, bound: float, value: float) -> OrderSolution:
        intervals = len(self.events)
        lengths = np.maximum(primal[:intervals], 0.0)
        run = np.zeros((self.data.jobs, intervals))
        extra = np.zeros((self.data.jobs, intervals))
        is_open = np.zeros((self.data.jobs, intervals), dtype=bool)
        for job in range(self.data.jobs):
            for interval in range(self.first[job], self._last(job) + 1):
                column = self.run_columns.get((job, interval))
                is_open[job, interval] = column is not None
                run[job, interval] = lengths[interval] if column is None else primal[column]
                column = self.extra_columns.get((job, interval))
                if column is not None:
                    extra[job, interval] = primal[column]
        return OrderSolution(
            bound, value, lengths, np.clip(run, 0.0, lengths), np.clip(extra, 0.0, run), is_open
        )


_FRACTIONS = (0.0, 0.04, 0.1, 0.18, 0.28, 0.4, 0.55, 0.75, 1.0, 1.3, 1.8, 2.7)


def tail_nodes(
    releases: Sequence[float], length: float, horizon: float
) -> tuple[list[float], list[float], list[float]]:
    """Return trapezoidal nodes on [0, horizon], their weights, and the last release before each.

    Between releases the price of the cluster's time is convex in time. So the rule, which is exact
    at its nodes, never underestimates it, and the result is a relaxation.
    """
    nodes: list[float] = []
    weights: list[float] = []
    groups: list[float] = []
    ends = [release for release in releases if release < horizon]
    if not ends or ends[0] > 0:
        ends.insert(0, 0.0)
    for group, (begin, end) in enumerate(zip(ends, [*ends[1:], math.inf], strict=True)):
        last = math.isinf(end)
        stop = max(horizon, begin + 1.001 * length) if last else end
        if last:
            points = [begin + share * length for share in _FRACTIONS]
            points = [point for point in points if point < stop]
            while points[-1] * 1.6 < stop:
                points.append(points[-1] * 1.6)
            points.append(stop)
        else:
            parts = max(1, min(4, math.ceil((end - begin) / (0.1 * length))))
            points = [begin + (end - begin) * part / parts for part in range(parts + 1)]
        half = [(after - before) / 2 for before, after in pairwise(points)]
        nodes += points
        weights += [
            (half[i - 1] if i else 0.0) + (half[i] if i < len(half) else 0.0)
            for i in range(len(points))
        ]
        groups += [ends[group]] * len(points)
    return nodes, weights, groups


class UnitSchedule(NamedTuple):
    """A schedule in scaled units of time: starts, completions and pieces of all jobs."""

    starts: list[float]
    completions: list[float]
    pieces: list[tuple[int, float, float, float]]
    """Tuples (job, begin, end, share of the range from w_min to w_max)."""

    @property
    def value(self) -> float:
        """The sum of completion times, in units of time."""
        return math.fsum(self.completions)

    def events(self, data: OrderData) -> list[Event]:
        """Return the events in order; at equal times completions, then releases, then starts."""
        found = [(time, 1, Event(Kind.RELEASE, place)) for place, time in enumerate(data.releases)]
        for job in range(data.jobs):
            found.append((self.completions[job], 0, Event(Kind.COMPLETION, job)))
            if not data.running[job]:
                found.append((self.starts[job], 2, Event(Kind.START, job)))
        return [event for _, _, event in sorted(found)]


def replay(
    data: OrderData, events: Sequence[Event], solution: OrderSolution
) -> UnitSchedule | None:
    """Convert the LP solution of a full event order to a feasible schedule; None if that fails.

    It goes interval by interval with the workers of the solution, scaled down if rounding put them
    above the cluster. An interval that ends with a completion lasts until the work is done. None if
    rounding makes a start so early that the base demands do not fit.
    """
    now = 0.0
    left = data.work.copy()
    starts = [0.0 if data.running[job] else -1.0 for job in range(data.jobs)]
    completions = [-1.0] * data.jobs
    pieces: list[tuple[int, float, float, float]] = []
    active = [job for job in range(data.jobs) if data.running[job]]
    planned = np.cumsum(solution.lengths)

    def advance(interval: int, until: float | None, target: int | None) -> None:
        nonlocal now
        while True:
            shares = {}
            base = sum(data.base[job] for job in active)
            for job in active:
                length = solution.lengths[interval]
                share = solution.extra[job, interval] / length if length > 1e-12 else 0.0
                shares[job] = min(1.0, max(0.0, float(share)))
            asked = sum(share * data.extra[job] for job, share in shares.items())
            room = data.gpus - base
            if asked > room:
                factor = room / asked * (1 - 1e-15) if room > 0 else 0.0
                shares = {job: share * factor for job, share in shares.items()}
            ends = {
                job: now + left[job] / (data.base_rate[job] + share * data.extra_rate[job])
                for job, share in shares.items()
            }
            first = min(ends, key=lambda job: (ends[job], job != target), default=None)
            if first is None:
                if until is not None:
                    now = max(now, until)
                return
            if until is not None and ends[first] > until:
                end = max(now, until)
                first_done = None
            else:
                end = ends[first]
                first_done = first
            for job, share in shares.items():
                if end > now:
                    pieces.append((job, now, end, share))
                rate = data.base_rate[job] + share * data.extra_rate[job]
                left[job] = max(0.0, left[job] - rate * (end - now))
            now = end
            if first_done is None:
                return
            left[first_done] = 0.0
            active.remove(first_done)
            completions[first_done] = now
            if first_done == target:
                return

    for interval, event in enumerate(events):
        if event.kind is Kind.COMPLETION:
            if completions[event.which] < 0:
                advance(interval, None, event.which)
            continue
        until = float(planned[interval])
        if event.kind is Kind.RELEASE:
            until = data.releases[event.which]
        else:
            until = max(until, float(data.release[event.which]))
        advance(interval, until, None)
        if event.kind is Kind.START:
            if sum(data.base[job] for job in active) + data.base[event.which] > data.gpus:
                return None
            active.append(event.which)
            starts[event.which] = now
    if min(completions) < 0:  # the order completes a job before its start
        return None
    return UnitSchedule(starts, completions, pieces)


def schedule_of(instance: Instance, data: OrderData, in_units: UnitSchedule) -> Schedule:
    """Convert a schedule to seconds, and merge adjacent pieces with equal workers."""
    scale = data.unit_s
    found: dict[int, list[list[float]]] = {}
    placed = {job for job, *_ in in_units.pieces}
    of_no_time = [
        (job, start, start, 0.0) for job, start in enumerate(in_units.starts) if job not in placed
    ]
    for job, begin, end, share in sorted(in_units.pieces + of_no_time, key=lambda each: each[:2]):
        data_job = instance.jobs[job]
        spread = data_job.max_workers - data_job.min_workers
        fit = min(float(spread), data.extra[job] / data_job.gpus_per_worker)
        workers = data_job.min_workers + share * fit
        pieces = found.setdefault(job, [])
        begin_s = pieces[-1][1] if pieces else max(begin * scale, data_job.release_s)
        if pieces and math.isclose(pieces[-1][2], workers, rel_tol=1e-12):
            pieces[-1][1] = max(pieces[-1][1], end * scale)
        elif end * scale > begin_s:
            pieces.append([begin_s, end * scale, workers])
        elif not pieces:  # too short for floats: give it the least length
            pieces.append([begin_s, math.nextafter(begin_s, math.inf), workers])
    pieces_s = [
        (piece[0], job, piece[1], piece[2]) for job, held in found.items() for piece in held
    ]
    return Schedule(
        tuple(
            SchedulePiece(job=instance.jobs[job].id, start_s=begin, end_s=end, workers=workers)
            for begin, job, end, workers in sorted(pieces_s)
        )
    )
