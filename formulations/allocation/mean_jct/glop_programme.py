"""The linear relaxation of mean JCT for a fixed order of the first events, solved by GLOP.

Its dual values are prices, from which `OrderPriceBound` computes a bound. Its primal values suggest
a schedule with this order.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from lyra_opt.allocation.exact.mean_jct.orders import Kind
from lyra_opt.core.arrays import FloatArray
from lyra_opt.core.stopwatch import remaining_s, require_time, within_time
from lyra_opt.formulations.allocation.mean_jct.partial_orders import (
    PartialOrder,
    Shares,
    Tail,
    WholeNumbers,
)

PRICE_OF_LATENESS = 1e3
"""The price of missing a release date, in multiples of the price of all completions."""
LEAST_WORK = 1e-9
"""The least work by which the rows of a job are scaled, as a fraction of the total work."""
PARAMETERS = "primal_feasibility_tolerance:1e-9 dual_feasibility_tolerance:1e-9"


class Point(NamedTuple):
    """A solution of the linear relaxation: dual values, interval lengths and run times.

    Parameters
    ----------
    shares
        The dual values.
    lengths
        The lengths of the intervals, in units of time.
    run
        How long each job runs in each interval, shape (jobs, intervals).
    extra
        GPU-time beyond the base demand, as a fraction of the cluster; shape (jobs, intervals).
    """

    shares: Shares
    lengths: FloatArray
    run: FloatArray
    extra: FloatArray


class GlopProgramme:
    """Builds and solves linear relaxations of one instance, each for an order of the first events.

    Parameters
    ----------
    numbers
        The instance in integers.

    Attributes
    ----------
    unit : int
        Ticks per unit of time. One unit is the time in which the whole cluster does all base work,
        or the least time of the longest job if that is longer.
    solved : int
        The number of programmes solved so far.
    """

    def __init__(self, numbers: WholeNumbers) -> None:
        self.numbers = numbers
        self.unit = max(1, sum(numbers.area) // numbers.gpus, max(numbers.height))
        self.area = [each / self.unit / numbers.gpus for each in numbers.area]
        self.height = [each / self.unit for each in numbers.height]
        self.yields = [each / (1 << numbers.yield_bits) for each in numbers.yields]
        self.solved = 0

    def solve(self, order: PartialOrder, tail: Tail | None) -> Point | None:
        """Solve the linear relaxation of an order; return None if GLOP finds no solution.

        Raises
        ------
        OutOfTimeError
            If the time limit in force is used up.
        """
        from ortools.linear_solver.python import model_builder_helper
        from scipy.sparse import csr_matrix

        rows = _Rows(self, order, tail)
        shape = (len(rows.lower), len(rows.cost))
        matrix = csr_matrix((rows.values, rows.columns, rows.begins), shape=shape)
        model: Any = model_builder_helper.ModelBuilderHelper()
        model.fill_model_from_sparse_data(
            np.zeros(shape[1]),
            np.array(rows.most),
            np.array(rows.cost),
            np.array(rows.lower),
            np.array(rows.upper),
            matrix,
        )
        solver = model_builder_helper.ModelSolverHelper("glop")
        solver.set_solver_specific_parameters(PARAMETERS)
        time_s = remaining_s()
        if time_s is not None:
            solver.set_time_limit_in_seconds(max(time_s, 1e-3))
        solver.solve(model)
        require_time()
        self.solved += 1
        if not solver.has_solution():
            return None
        return rows.read(np.asarray(solver.variable_values()), np.asarray(solver.dual_values()))


class _Rows:
    """The rows and columns of one linear programme for GLOP; all variables are at least 0."""

    def __init__(self, programme: GlopProgramme, order: PartialOrder, tail: Tail | None) -> None:
        self.programme, self.order = programme, order
        self.numbers = numbers = order.numbers
        self.cost: list[float] = []
        self.most: list[float] = []
        self.lower: list[float] = []
        self.upper: list[float] = []
        self.begins = [0]
        self.columns: list[int] = []
        self.values: list[float] = []
        jobs = range(numbers.jobs)
        self.lengths = [self.column(float(each.unfinished)) for each in order.intervals]
        self.run: dict[tuple[int, int], int] = {}
        self.extra: dict[tuple[int, int], int] = {}
        self.done: list[list[tuple[int, float]]] = [[] for _ in jobs]
        """Per job, the terms that sum to the share of its work done before the last event."""
        self.row_of_work: list[int] = [-1 for _ in jobs]
        self.rows_of_completion: dict[int, tuple[int, int, int]] = {}
        self.share_of = [1 / max(area, LEAST_WORK) for area in programme.area]
        for place in range(len(order.intervals)):
            self.add_interval(place)
        self.add_releases()
        ahead: list[list[tuple[int, float]]] = [[] for _ in jobs]
        if tail is not None:
            ahead = self.add_tail(tail)
        for job in jobs:
            due = min(1.0, programme.area[job] / LEAST_WORK)
            terms = [*self.done[job], *ahead[job]]
            self.row_of_work[job] = self.row(terms, due, math.inf)

    def column(self, cost: float, most: float = math.inf) -> int:
        self.cost.append(cost)
        self.most.append(most)
        return len(self.cost) - 1

    def row(self, terms: Sequence[tuple[int, float]], lower: float, upper: float) -> int:
        for column, value in terms:
            self.columns.append(column)
            self.values.append(value)
        self.begins.append(len(self.columns))
        self.lower.append(lower)
        self.upper.append(upper)
        return len(self.lower) - 1

    def add_interval(self, place: int) -> None:
        """Add the rows that limit each job's workers, and all GPUs used, in an interval."""
        numbers, interval, length = self.numbers, self.order.intervals[place], self.lengths[place]
        held, base = [], 0
        for job in (*interval.forced, *interval.allowed):
            owner = length
            if job in interval.forced:
                base += numbers.base[job]
            else:
                owner = self.run[job, place] = self.column(0.0)
                self.row([(owner, 1.0), (length, -1.0)], -math.inf, 0.0)
                held.append((owner, numbers.base[job] / numbers.gpus))
            share = self.share_of[job]
            self.done[job].append((owner, numbers.base[job] / numbers.gpus * share))
            if numbers.extra[job] and numbers.yields[job]:
                extra = self.extra[job, place] = self.column(0.0)
                most = numbers.extra[job] / numbers.gpus
                self.row([(extra, 1.0), (owner, -most)], -math.inf, 0.0)
                held.append((extra, 1.0))
                self.done[job].append((extra, self.programme.yields[job] * share))
        self.row([*held, (length, base / numbers.gpus - 1.0)], -math.inf, 0.0)

    def add_releases(self) -> None:
        """Add the rows that fix the time of each release; being late has a high cost."""
        unit = self.programme.unit
        price = PRICE_OF_LATENESS * self.numbers.jobs
        due, passed = 0, [(column, 1.0) for column in self.lengths]
        for length, places in self.order.spans:
            if length is None or not len(places):
                continue
            due += length
            terms = passed[: places.stop]
            if places.stop < len(passed) or self.order.events[-1].kind is Kind.RELEASE:
                self.row(terms, due / unit, math.inf)
            self.row([*terms, (self.column(price), -1.0)], -math.inf, due / unit)

    def add_tail(self, tail: Tail) -> list[list[tuple[int, float]]]:
        """Add variables and rows for the time after the last event; return the work terms.

        The terms of a job sum to the share of its work done in that time.
        """
        numbers, programme = self.numbers, self.programme
        ahead: list[list[tuple[int, float]]] = [[] for _ in range(numbers.jobs)]
        busy: list[list[tuple[int, float]]] = [[] for _ in range(numbers.jobs)]
        for times, jobs in within_time(tail.stretches):
            at = [time / programme.unit for time in times]
            for place, time in enumerate(at):
                weight = (at[min(place + 1, len(at) - 1)] - at[max(place - 1, 0)]) / 2
                held = []
                for job in within_time(jobs, every=1000):
                    parts = [(numbers.base[job], 1.0)]
                    if numbers.extra[job] and numbers.yields[job]:
                        parts.append((numbers.extra[job], programme.yields[job]))
                    for gpus, gained in parts:
                        column = self.column(0.0, gpus / numbers.gpus * weight)
                        share = gained * self.share_of[job]
                        held.append((column, 1.0))
                        ahead[job].append((column, share))
                        busy[job].append((column, -time * share))
                self.row(held, -math.inf, weight)
        passed = [(column, 1.0) for column in self.lengths]
        for job in self.order.following:
            completion, height = self.column(1.0), programme.height[job]
            done = [(column, height * share) for column, share in self.done[job]]
            half = [(column, share / 2) for column, share in done]
            first = self.row([(completion, 1.0), *busy[job], *half], height / 2, math.inf)
            second = self.row([(completion, 1.0), *done], height, math.inf)
            third = -1
            if self.order.waits_for_release(job):
                due = (numbers.release[job] + numbers.height[job]) / programme.unit
                third = self.row([(completion, 1.0), *passed], due, math.inf)
            self.rows_of_completion[job] = first, second, third
        return ahead

    def read(self, values: FloatArray, multipliers: FloatArray) -> Point:
        numbers = self.numbers
        jobs, intervals = numbers.jobs, len(self.lengths)
        values = np.nan_to_num(values)
        multipliers = np.nan_to_num(multipliers)
        work = [
            Fraction(float(multipliers[row]) * share) / numbers.gpus
            for row, share in zip(self.row_of_work, self.share_of, strict=True)
        ]
        of_completion = np.zeros((3, jobs))
        for job, rows in self.rows_of_completion.items():
            for place, row in enumerate(rows):
                of_completion[place, job] = multipliers[row] if row >= 0 else 0.0
        run, extra = np.zeros((jobs, intervals)), np.zeros((jobs, intervals))
        lengths = np.maximum(values[self.lengths], 0.0) if intervals else np.zeros(0)
        for place, interval in enumerate(self.order.intervals):
            run[list(interval.forced), place] = lengths[place]
        for (job, place), column in self.run.items():
            run[job, place] = min(max(values[column], 0.0), lengths[place])
        for (job, place), column in self.extra.items():
            extra[job, place] = max(values[column], 0.0)
        return Point(Shares(work, *of_completion.tolist()), lengths, run, extra)
