r"""Bounds on schedules from linear programmes in which GPU time is a fluid.

*The relaxation.* A gang of g that runs at rate v does v round_s steps in a round. Each of its GPUs
is of a type r with X_r >= v, where X_r is the better of the job's two rates on that type. So its
steps are at most the sum over its GPUs of X_r round_s / g. Hence the GPU-rounds h_jr of each type
bound the steps of a job, whatever its placements. They are themselves bounded by the GPUs of each
type; without forking by g per round for each job; with forking by the most steps of all copies.

*The proof.* Coefficients are floats, rounded to the side that relaxes the programme. A backend
solves min c x, A x <= b, 0 <= x <= u in floats. Only its multipliers y are used, with negative ones
set to 0. For every feasible x

    c x >= c x + y (A x - b) >= sum_i min(0, c_i + (A^T y)_i) u_i - y b,

The right-hand side is computed in rational numbers, so it is a bound whatever the backend returns.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from lyra_opt.core.arithmetic import float_up
from lyra_opt.heterogeneous.bounds.fastest import earliest_completion, most_steps_a_round
from lyra_opt.heterogeneous.checker import due_steps, jct_s, worth
from lyra_opt.heterogeneous.instance import GangJob, Instance, Objective

MOST_VARIABLES = 12_000
MOST_SEGMENTS = 64
MOST_RELEASES = 8
TIME_LIMIT_S = 10.0
MULTIPLIER_UNIT = 2**40
"""Multipliers are rounded to multiples of 1 over this unit, which keeps exact sums short."""


class FluidProgramme:
    """A linear programme min c x, A x <= b, 0 <= x <= u, built row by row."""

    def __init__(self) -> None:
        self.costs: list[Fraction] = []
        self.largest: list[Fraction] = []
        self.rows: list[tuple[dict[int, float], Fraction]] = []

    def variable(self, cost: Fraction | int, largest: Fraction | int) -> int:
        """Add a variable with a cost and an upper bound, and return its index."""
        self.costs.append(Fraction(cost))
        self.largest.append(Fraction(largest))
        return len(self.costs) - 1

    def at_most(self, row: Mapping[int, float], right: Fraction | int) -> None:
        """Add the constraint ``row x <= right`` to the linear programme.

        The caller rounds the floats of `row` to the side that relaxes the programme.
        """
        self.rows.append((dict(row), Fraction(right)))

    def bound(self) -> Fraction | None:
        """Return a proved lower bound on the optimum; None if the backend has no solution."""
        if not self.costs:
            return Fraction(0)
        import numpy as np
        from scipy.optimize import linprog
        from scipy.sparse import csr_array

        numbers: list[float] = []
        columns: list[int] = []
        starts = [0]
        for row, _ in self.rows:
            columns += row.keys()
            numbers += row.values()
            starts.append(len(columns))
        shape = (len(self.rows), len(self.costs))
        matrix = csr_array((numbers, columns, starts), shape=shape)
        result = linprog(
            np.array([float(cost) for cost in self.costs]),
            A_ub=matrix,
            b_ub=np.array([float(right) for _, right in self.rows]),
            bounds=np.array([(0.0, float(largest)) for largest in self.largest]),
            method="highs",
            options={"time_limit": TIME_LIMIT_S},
        )
        if result.status != 0:
            return None
        return self._weak_dual([-float(value) for value in result.ineqlin.marginals])

    def _weak_dual(self, multipliers: Sequence[float]) -> Fraction:
        """Return the lower bound that row multipliers y prove by weak duality.

        The bound is ``sum_i min(0, c_i + (A^T y)_i) u_i - y b``, computed in rational numbers.
        """
        reduced = list(self.costs)
        total = Fraction(0)
        for (row, right), multiplier in zip(self.rows, multipliers, strict=True):
            units = round(max(0.0, multiplier) * MULTIPLIER_UNIT)
            if not units:
                continue
            exact = Fraction(units, MULTIPLIER_UNIT)
            total -= exact * right
            for column, number in row.items():
                reduced[column] += exact * Fraction(number)
        for cost, largest in zip(reduced, self.largest, strict=True):
            if cost < 0:
                total += cost * largest
        return total


def fluid_bound(instance: Instance) -> Fraction | None:
    """Return a proved bound on a schedule objective; None if no linear programme was solved."""
    if instance.objective is Objective.ROUND_PROGRESS:
        return _progress_bound(instance)
    if len(instance.jobs) * (len(instance.gpu_types) + 1) > MOST_VARIABLES:
        return None
    never = any(earliest_completion(instance, job) is None for job in instance.jobs)
    if never and instance.objective is not Objective.UTILITY:
        return None
    if instance.objective is Objective.MAKESPAN:
        return _makespan_bound(instance)
    return _completion_bound(instance)


def _steps_of_gpu(job: GangJob, name: str) -> Fraction:
    """Return the most steps per second that one GPU of a type contributes to a job."""
    rates = [job.throughput.get(name, 0.0)]
    if job.spread_throughput is not None:
        rates.append(job.spread_throughput.get(name, 0.0))
    return Fraction(max(rates)) / job.gang


def _progress_bound(instance: Instance) -> Fraction | None:
    jobs = [job for job in instance.jobs if instance.first_round(job) == 0]
    if len(jobs) * (len(instance.gpu_types) + 1) > MOST_VARIABLES:
        return None
    programme = FluidProgramme()
    run_s = Fraction(instance.round_s) - Fraction(instance.restart_s)
    held: dict[str, dict[int, float]] = {name: {} for name in instance.gpus_of_type}
    scale = max((Fraction(job.weight) for job in jobs), default=Fraction(1))
    for job in jobs:
        done = programme.variable(-Fraction(job.weight) / scale, 1)
        row, parallel = {done: 1.0}, {}
        current_types = {name for types in job.current.values() for name in types}
        for name, gpus in instance.gpus_of_type.items():
            steps = _steps_of_gpu(job, name) * run_s
            if name in current_types:
                stays = Fraction(job.rate_of(job.current)) / job.gang * Fraction(instance.round_s)
                steps = max(steps, stays)
            if steps and gpus:
                gpu = programme.variable(0, gpus)
                row[gpu] = -float_up(steps / Fraction(job.steps))
                parallel[gpu] = held[name][gpu] = 1.0
        programme.at_most(row, 0)
        if not instance.forking:
            programme.at_most(parallel, job.gang)
        progress = most_steps_a_round(instance, job) / Fraction(job.steps)
        programme.at_most({done: 1.0}, min(Fraction(1), progress))
    for name, gpus in instance.gpus_of_type.items():
        programme.at_most(held[name], gpus)
    bound = programme.bound() if jobs else Fraction(0)
    return None if bound is None else -bound * scale


def _makespan_bound(instance: Instance) -> Fraction | None:
    """Return a lower bound on the makespan, in seconds; None if the programme was not solved.

    The bound is the least T such that the work released from time f on fits into ``T - f``, for
    some release times f.
    """
    programme = FluidProgramme()
    rounds = programme.variable(1, instance.horizon_rounds)
    releases = sorted({instance.first_round(job) for job in instance.jobs})
    step = -(-len(releases) // MOST_RELEASES)
    held: dict[tuple[str, int], dict[int, float]] = {}
    for job in instance.jobs:
        first = instance.first_round(job)
        work, parallel = {}, {rounds: -float(job.gang)}
        for name, gpus in instance.gpus_of_type.items():
            steps = _steps_of_gpu(job, name) * Fraction(instance.round_s)
            if not steps or not gpus:
                continue
            gpu = programme.variable(0, gpus * instance.horizon_rounds)
            work[gpu] = -float_up(steps / due_steps(job))
            parallel[gpu] = 1.0
            for release in releases[::step]:
                if first >= release:
                    held.setdefault((name, release), {})[gpu] = 1.0
        programme.at_most(work, -1)
        if not instance.forking:
            programme.at_most(parallel, -job.gang * first)
    for (name, release), row in held.items():
        gpus = instance.gpus_of_type[name]
        programme.at_most({**row, rounds: -float(gpus)}, -gpus * release)
    bound = programme.bound()
    return None if bound is None else math.ceil(bound) * Fraction(instance.round_s)


def _completion_bound(instance: Instance) -> Fraction | None:
    r"""Return a bound on the total utility or the mean JCT, with rounds grouped into segments.

    ``z_jk`` says whether job j completes in segment k. Its value is that of the first round of the
    segment in which the job could complete. The constraint is ``steps up to the end of k >= due
    sum_{i <= k} z_ji``.
    """
    minimises = instance.objective is Objective.MEAN_JCT
    starts = _segments(instance)
    ends = [*starts[1:], instance.horizon_rounds]
    programme = FluidProgramme()
    values = _values(instance, starts, ends)
    scale = max((abs(value) for of in values for value in of.values()), default=Fraction(1)) or 1
    held: dict[tuple[str, int], dict[int, float]] = {}
    for job, of_job in zip(instance.jobs, values, strict=True):
        if not of_job and minimises:
            return None
        sign = 1 if minimises else -1
        completes = {k: programme.variable(sign * v / scale, 1) for k, v in of_job.items()}
        largest = most_steps_a_round(instance, job) / due_steps(job)
        work: dict[int, float] = {}
        for k, (start, end) in enumerate(zip(starts, ends, strict=True)):
            length = end - max(start, instance.first_round(job))
            if length <= 0 or not of_job:
                continue
            parallel, most_steps, least_steps = {}, {}, {}
            for name, gpus in instance.gpus_of_type.items():
                steps = _steps_of_gpu(job, name) * Fraction(instance.round_s)
                if not steps or not gpus:
                    continue
                gpu = programme.variable(0, gpus * length)
                parallel[gpu] = 1.0
                most_steps[gpu] = -float_up(steps / due_steps(job))
                least_steps[gpu] = -float_up(-steps / due_steps(job))
                held.setdefault((name, k), {})[gpu] = 1.0
            if not instance.forking:
                programme.at_most(parallel, job.gang * length)
            # The number of steps has its own limit, because a gang may not fit on its fast types.
            programme.at_most(least_steps, largest * length)
            work |= most_steps
            if k in completes:
                work[completes[k]] = 1.0
                programme.at_most(work, 0)
        once = dict.fromkeys(completes.values(), 1.0)
        programme.at_most(once, 1)
        if minimises:
            programme.at_most(dict.fromkeys(once, -1.0), -1)
    for (name, k), row in held.items():
        programme.at_most(row, instance.gpus_of_type[name] * (ends[k] - starts[k]))
    bound = programme.bound()
    if bound is None:
        return None
    return bound * scale / len(instance.jobs) if minimises else -bound * scale


def _segments(instance: Instance) -> list[int]:
    """Return the first round of each time segment.

    Early segments are shorter, because early completions matter more.
    """
    by_size = MOST_VARIABLES // (len(instance.jobs) * (len(instance.gpu_types) + 1))
    rounds, most = instance.horizon_rounds, max(1, min(MOST_SEGMENTS, by_size))
    if rounds <= most:
        return list(range(rounds))
    return sorted({int(rounds * (k / most) ** 2) for k in range(most)})


def _values(
    instance: Instance, starts: Sequence[int], ends: Sequence[int]
) -> list[dict[int, Fraction]]:
    """Return each job's best utility, or least JCT, by the time segment in which it completes."""
    value = jct_s if instance.objective is Objective.MEAN_JCT else worth
    values = []
    for job in instance.jobs:
        earliest = earliest_completion(instance, job)
        values.append(
            {
                k: value(instance, job, max(start, earliest))
                for k, (start, end) in enumerate(zip(starts, ends, strict=True))
                if earliest is not None and earliest < end
            }
        )
    return values
