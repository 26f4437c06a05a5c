r"""Approximations of max-min shares from the literature: POP partitions, DeDe alternates.

Both are yardsticks for the exact linear programmes (`lyra_opt.heterogeneous.exact.shares`). They
return feasible shares without a bound. The comparison is in section 10 of
`formulations/heterogeneous/shares/README.md`.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Self

import numpy as np

from lyra_opt.core.arithmetic import product
from lyra_opt.core.arrays import FloatArray
from lyra_opt.core.result import SolveResult, Status, StoppedBy
from lyra_opt.core.solver import HeuristicSolver, Unsupported
from lyra_opt.core.stopwatch import require_time
from lyra_opt.heterogeneous.exact.shares.arrays import ShareArrays
from lyra_opt.heterogeneous.exact.shares.highs_model import LpSifting
from lyra_opt.heterogeneous.exact.shares.programme import ShareProgramme
from lyra_opt.heterogeneous.exact.shares.sifting import of_jobs
from lyra_opt.heterogeneous.exact.shares.solver import fractions_of_cluster
from lyra_opt.heterogeneous.instance import Instance, Objective, TimeShares


class ApproximateShares(HeuristicSolver):
    """Base class of approximations of ``max_min_share`` for jobs that share no GPUs in pairs."""

    problem = "heterogeneous"
    variants = (Objective.MAX_MIN_SHARE,)

    def supports(self, instance: Instance) -> Unsupported | None:
        """Return why the method does not support an instance; None if it does."""
        if instance.packed:
            return Unsupported(f"{self.name} supports no instances with packed rates of two jobs")
        return super().supports(instance)

    def apply(self, instance: Instance, rng: np.random.Generator) -> SolveResult[TimeShares]:
        """Return approximate shares, scaled to feasible ones."""
        arrays = ShareArrays.of(instance)
        programme = arrays.max_min_share()
        return _result(arrays, programme.repaired(self.shares(arrays, programme, rng)))

    def stopped(self, instance: Instance) -> SolveResult[TimeShares]:
        """Return an equal part of the cluster for each job."""
        arrays = ShareArrays.of(instance)
        return replace(_result(arrays, fractions_of_cluster(arrays)), stopped_by=StoppedBy.TIME)

    @abstractmethod
    def shares(
        self, arrays: ShareArrays, programme: ShareProgramme, rng: np.random.Generator
    ) -> FloatArray:
        """Return almost feasible shares of the programme of an instance, shape (jobs, types)."""


def _result(arrays: ShareArrays, shares: FloatArray) -> SolveResult[TimeShares]:
    return SolveResult(
        status=Status.FEASIBLE,
        solution=arrays.solution(shares),
        objective=arrays.objective(Objective.MAX_MIN_SHARE, shares),
    )


class Pop(ApproximateShares):
    """POP: divide jobs at random and GPUs equally into parts, and solve each part exactly.

    Source: D. Narayanan et al., *Solving Large-Scale Granular Resource Allocation Problems
    Efficiently with POP*, SOSP 2021. Each part has a k-th of the jobs, drawn at random, and of the
    GPUs of each type. The parts are solved by `LpSifting`, one after another. The least level of
    any part is the level. It has no guarantee: the jobs that need a scarce type may all be drawn
    into one part.
    """

    parts: int
    modules, engine = LpSifting.modules, LpSifting.engine

    def shares(
        self, arrays: ShareArrays, programme: ShareProgramme, rng: np.random.Generator
    ) -> FloatArray:
        """Solve the parts one after another."""
        del arrays
        found = np.zeros(programme.gain.shape)
        solver = LpSifting()
        for jobs in np.array_split(rng.permutation(programme.sets.jobs), self.parts):
            if len(jobs):
                require_time()
                part = replace(of_jobs(programme, jobs), gpus=programme.gpus / self.parts)
                point = solver.point_of(part)
                if point.shares is not None:
                    found[jobs] = point.shares
        return found


class Pop2(Pop):
    """POP with 2 parts."""

    name, parts = "pop-2", 2


class Pop4(Pop):
    """POP with 4 parts."""

    name, parts = "pop-4", 4


class Pop8(Pop):
    """POP with 8 parts."""

    name, parts = "pop-8", 8


class Pop16(Pop):
    """POP with 16 parts."""

    name, parts = "pop-16", 16


STEPS, CHECKED = 200, 10
"""Number of alternations, and after how many of them the shares are scaled and compared."""
PENALTY = 100.0
"""Penalty of the augmented Lagrangian, multiplied by the number of jobs."""
UNIT = 5.0
"""Unit of the level: so many times the level that equal parts of the cluster reach."""
NEWTON_STEPS = 60
CONVERGED = 1e-9
LEAST_GOT = 1e-9
"""A job that gets less than this fraction of the median gets even shares before the scaling."""


class DeDe(ApproximateShares):
    r"""DeDe: alternate between all GPU types and all jobs by the method of multipliers (ADMM).

    Source: Z. Xu, M. Yu, F. Y. Yan, *Decouple and Decompose: Scaling Resource Allocation with
    DeDe*, OSDI 2025, and its example for Gavel's policies (illinois-nsai/dede). The shares have
    two copies, x for the types and z for the jobs, and the level v has one copy for each job. Each
    alternation minimises the augmented Lagrangian over x (one problem for each type), over the
    level, and over z and the copies of the level (one problem for each job). The source calls a
    conic solver for each of these problems, in parallel processes. Here all of them are solved at
    once by Newton's method on their multipliers. The rows are divided by their norms. Every tenth
    time, each job keeps its mix of types, and all jobs are scaled to the highest common level; the
    best such shares are the result.

    It has no guarantee after a fixed number of alternations. O(jobs types) for each Newton step.
    """

    name = "dede"

    def shares(
        self, arrays: ShareArrays, programme: ShareProgramme, rng: np.random.Generator
    ) -> FloatArray:
        """Alternate a fixed number of times, and scale all jobs to one level."""
        del rng
        by_job = _JobProblems.of(programme, fractions_of_cluster(arrays))
        norm = float(np.linalg.norm(programme.gang))
        gang, gpus = programme.gang / norm, programme.gpus / norm
        jobs, types = programme.gain.shape
        z, price_of_copy = np.zeros((jobs, types)), np.zeros((jobs, types))
        v, price_of_level = np.zeros(jobs), np.zeros(jobs)
        price_of_gpus, prices = np.zeros(types), np.zeros((2, jobs))
        best = _at_one_level(programme, programme.even_shares())
        for step in range(STEPS):
            require_time()
            x, price_of_gpus = _solve_types(z - price_of_copy, gang, gpus, price_of_gpus)
            level = max(0.0, float((v - price_of_level).mean()) + 1.0 / PENALTY)
            z, v, prices = by_job.solve(x + price_of_copy, level + price_of_level, prices)
            price_of_copy += x - z
            price_of_level += level - v
            if (step + 1) % CHECKED == 0:
                best = max(best, _at_one_level(programme, z), key=itemgetter(0))
        return best[1]


def _solve_types(
    target: FloatArray, gang: FloatArray, gpus: FloatArray, price: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Minimise ``|x - target|^2 + max(0, gang x - gpus + price)^2`` over x >= 0 for each type.

    Returns x, shape (jobs, types), and the new prices, shape (types,).
    """
    old = price
    for _ in range(NEWTON_STEPS):
        x = np.maximum(0.0, target - price * gang[:, None])
        over = product(gang, x) - gpus + old
        slope = 1.0 + np.where(over > 0, product(gang**2, (x > 0) * 1.0), 0.0)
        step = (price - np.maximum(0.0, over)) / slope
        price = price - step
        if np.abs(step).max() <= CONVERGED:
            break
    return x, price


@dataclass(frozen=True, slots=True)
class _JobProblems:
    """The problems of the jobs, each with two rows that are divided by their norms.

    Parameters
    ----------
    value
        Shape (jobs, types): rates in the row that asks for the level. A type that a job cannot use
        has the rate 0; the repair of the solution takes its shares away.
    level
        Shape (jobs,): factor of the level in that row, in units of the level (`UNIT`).
    time, limit
        Coefficient and right side of the row of a job's time.
    """

    value: FloatArray
    level: FloatArray
    time: float
    limit: float

    @classmethod
    def of(cls, programme: ShareProgramme, equal: FloatArray) -> Self:
        """Return the problems of the jobs of a programme, whose unit the shares `equal` give."""
        value = np.where(programme.usable, programme.value, 0.0)
        limit = float(programme.limit[0])
        level = programme.level * UNIT * (programme.got(equal) / programme.level).min()
        norm = np.sqrt((value**2).sum(axis=1) + level**2)
        time = value.shape[1] ** -0.5
        return cls(value / norm[:, None], level / norm, time, limit * time)

    def solve(
        self, target: FloatArray, level: FloatArray, prices: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Minimise the augmented Lagrangian of each job, given targets of its shares and level.

        Returns the shares, the levels, and the prices of the two rows, shape (2, jobs).
        """
        old = prices
        for _ in range(NEWTON_STEPS):
            need, time = prices
            pull = need[:, None] * self.value - time[:, None] * self.time
            z = np.maximum(0.0, target + pull)
            v = np.maximum(0.0, level - need * self.level)
            short = self.level * v - (self.value * z).sum(axis=1) + old[0]
            late = self.time * z.sum(axis=1) - self.limit + old[1]
            # Each price must equal max(0, excess of its row). a to d are the derivatives.
            runs, is_short, is_late = z > 0, short > 0, late > 0
            both = (self.value * runs).sum(axis=1) * self.time
            a = 1.0 + is_short * ((self.value**2 * runs).sum(axis=1) + self.level**2 * (v > 0))
            b, c = -both * is_short, -both * is_late
            d = 1.0 + is_late * self.time**2 * runs.sum(axis=1)
            p, q = need - np.maximum(0.0, short), time - np.maximum(0.0, late)
            step = np.array([d * p - b * q, a * q - c * p]) / (a * d - b * c)
            prices = prices - step
            if np.abs(step).max() <= CONVERGED:
                break
        return z, v, prices


def _at_one_level(programme: ShareProgramme, shares: FloatArray) -> tuple[float, FloatArray]:
    """Scale each job's shares so that all jobs have the highest common level; return it too."""
    got = programme.got(shares) / programme.level
    has_little = got <= LEAST_GOT * np.median(got)
    mix = np.where(has_little[:, None], programme.even_shares(), shares)
    mix /= (programme.got(mix) / programme.level)[:, None]
    busiest = (product(programme.gang, mix) / programme.gpus).max()
    level = 1.0 / float(max(busiest, mix.sum(axis=1).max() / programme.limit[0]))
    return level, level * mix
