"""Base class of all solvers of share objectives, which differ only in their LP engine.

An engine returns a primal point and dual prices of a `ShareProgramme`. Neither is trusted: the
shares are repaired until they are feasible, and the bound is recomputed from the prices.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from lyra_opt.core.arrays import FloatArray
from lyra_opt.core.result import Limits, SolveResult, Status, StoppedBy, same_value
from lyra_opt.core.solver import Observer, Solver
from lyra_opt.core.stopwatch import is_out_of_time
from lyra_opt.heterogeneous.checker import check
from lyra_opt.heterogeneous.exact.shares.arrays import ShareArrays
from lyra_opt.heterogeneous.exact.shares.programme import (
    DATA_ROUNDING,
    TOLERANCE,
    SharePrices,
    ShareProgramme,
    merged,
)
from lyra_opt.heterogeneous.instance import SHARE_OBJECTIVES, Instance, Objective, TimeShares

Engine = Callable[[ShareProgramme], "SharePoint"]
"""Function that solves a programme within the current time limit."""


@dataclass(frozen=True, slots=True)
class SharePoint:
    """An LP engine's unverified primal and dual solution of a share programme.

    Parameters
    ----------
    shares
        Shape (sets, types); None if the engine has no shares.
    prices
        Dual prices; None if the engine has no prices.
    iterations
        Number of the engine's iterations.
    level
        The level v; 0 if the programme has no level.
    """

    shares: FloatArray | None
    prices: SharePrices | None
    iterations: int = 0
    level: float = 0.0


@dataclass(slots=True)
class _Run:
    """State of a share solver's run: the best solution and bound so far, and effort counters.

    `value` and `bound` are multiplied by `sign`, so that larger values are better.
    """

    arrays: ShareArrays
    objective: Objective
    engine: Engine
    observer: Observer | None
    solution: TimeShares | None = None
    shares: FloatArray | None = None
    value: float = -math.inf
    bound: float = math.inf
    programmes: int = 0
    iterations: int = 0

    @property
    def sign(self) -> int:
        """1 if the objective is maximised, else -1."""
        return 1 if self.objective.sense == "max" else -1

    def point_of(self, programme: ShareProgramme) -> SharePoint:
        """Solve a programme with the engine and count the effort."""
        point = self.engine(programme)
        self.programmes += 1
        self.iterations += point.iterations
        return point

    def offer(self, shares: FloatArray) -> None:
        """Keep feasible shares if they improve on the best value."""
        value = self.sign * self.arrays.objective(self.objective, shares)
        if math.isfinite(value) and value > self.value:
            self.shares, self.value, self.solution = shares, value, None
            if self.observer is not None:
                self.observer("objective", self.sign * value)

    def start_from(self, instance: Instance, solution: TimeShares) -> None:
        """Use a given solution unchanged as the first incumbent."""
        report = check(instance, solution)
        if report.objective is None:
            raise ValueError(f"the warm start is not valid: {'; '.join(report.violations)}")
        self.solution, self.value = solution, self.sign * report.objective
        if self.observer is not None:
            self.observer("objective", report.objective)

    def offer_bound(self, bound: float) -> None:
        """Keep a bound on the objective if it is tighter than the best bound."""
        if math.isfinite(bound) and self.sign * bound < self.bound:
            self.bound = self.sign * bound
            if self.observer is not None:
                self.observer("dual_bound", bound)

    @property
    def is_proved(self) -> bool:
        """Whether the bound meets the objective within the proof gap."""
        return (
            math.isfinite(self.value)
            and math.isfinite(self.bound)
            and same_value(self.value, self.bound, tolerance=self.objective.proof_gap)
        )

    def counters(self) -> dict[str, int]:
        """Return the number of programmes and iterations."""
        return {"programmes": self.programmes, "iterations": self.iterations}


def fractions_of_cluster(arrays: ShareArrays) -> FloatArray:
    """Return Gavel's X_iso: an equal part of the cluster for each job, on types where it can run.

    It is feasible for all objectives, deadlines aside: gangs hold at most sum_j n_j C_k / (m n_j) =
    C_k GPUs of type k.
    """
    shares = arrays.gpus[None, :] / (len(arrays.gang) * arrays.gang)[:, None]
    shares = shares / np.maximum(1.0, shares.sum(axis=1))[:, None]
    alone = np.where(arrays.usable, shares, 0.0)
    return np.concatenate([alone, np.zeros((len(arrays.sets.pairs), alone.shape[1]))])


class ShareSolver(Solver):
    """Solver of share objectives by linear programmes.

    ``max_min_share``, ``makespan_share``, ``throughput`` and ``cost`` take one programme each. With
    deadlines there are two: the first decides whether they can be met. ``finish_time_fairness`` is
    convex. Each of its programmes replaces the needs by tangents at the last ratio, so its value is
    a lower bound and its shares are feasible. The ratios rise to the optimum like Newton's
    iterates, in about five programmes.

    A result is optimal if the objective and the bound recomputed from the prices are within the
    proof gap. Bounds hold for all shares that the checker accepts, which may break rules by 1e-6.
    """

    problem = "heterogeneous"
    variants = tuple(objective for objective in Objective if objective in SHARE_OBJECTIVES)
    exact_variants = variants
    gives_bound = True

    @abstractmethod
    def merged_point_of(self, programme: ShareProgramme) -> SharePoint:
        """Solve a feasible programme within the current time limit."""

    def point_of(self, programme: ShareProgramme) -> SharePoint:
        """Solve a feasible programme with identical jobs merged, so that they get equal shares."""
        small = merged(programme)
        point = self.merged_point_of(small.programme)
        return replace(
            point,
            shares=None if point.shares is None else small.shares(point.shares),
            prices=None if point.prices is None else small.prices(point.prices),
        )

    def solve(
        self,
        instance: Instance,
        *,
        limits: Limits,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        warm_start: TimeShares | None = None,
        observer: Observer | None = None,
    ) -> SolveResult[TimeShares]:
        """Solve a share instance by one or more linear programmes.

        Raises
        ------
        ValueError
            If the warm start is not a valid solution.
        """
        self.load()
        run = _Run(ShareArrays.of(instance), instance.objective, self.point_of, observer)
        if warm_start is not None:
            run.start_from(instance, warm_start)
        if instance.objective is Objective.COST:
            infeasible = _solve_with_deadlines(run)
            if infeasible:
                return SolveResult(status=Status.INFEASIBLE, counters=run.counters())
        else:
            run.offer(fractions_of_cluster(run.arrays))
            if instance.objective is Objective.FINISH_TIME_FAIRNESS:
                _solve_finish_times(run)
            elif instance.objective is Objective.MAX_MIN_SHARE:
                _solve_once(run, run.arrays.max_min_share())
            elif instance.objective is Objective.MAKESPAN_SHARE:
                _solve_once(run, run.arrays.completions(), lambda rate: (1 - DATA_ROUNDING) / rate)
            else:
                _solve_once(run, run.arrays.total(instance.objective))
        return _concluded(run)


def _concluded(run: _Run) -> SolveResult[TimeShares]:
    """Return the `SolveResult` for the best solution and bound of a run."""
    stopped = StoppedBy.TIME if is_out_of_time() and not run.is_proved else None
    bound = run.sign * run.bound if math.isfinite(run.bound) else None
    solution = run.solution
    if run.shares is not None and solution is None:
        solution = run.arrays.solution(run.shares)
    if solution is None:
        return SolveResult(
            status=Status.UNKNOWN, stopped_by=stopped, dual_bound=bound, counters=run.counters()
        )
    message = None
    if not run.is_proved and stopped is None:
        message = "the LP engine finished, but its prices do not prove this objective"
    return SolveResult(
        status=Status.OPTIMAL if run.is_proved else Status.FEASIBLE,
        stopped_by=stopped,
        solution=solution,
        objective=run.sign * run.value,
        dual_bound=bound,
        counters=run.counters(),
        message=message,
    )


MOST_TANGENTS = 60
"""Most programmes for one finish-time fairness; about five are usual."""
CONVERGED = 1e-9
LEAST_SLACK = 1e-9
MISSED = (1.0 - TOLERANCE) * (1 - 1e-12)
"""Deadlines cannot be met if at most this fraction of their needs is possible, up to rounding."""


def _solve_once(
    run: _Run, programme: ShareProgramme, bound_of: Callable[[float], float] = float
) -> None:
    """Solve the single programme of an objective without deadlines.

    Parameters
    ----------
    bound_of
        Converts a bound on the programme's value to a bound on the objective.
    """
    if is_out_of_time():
        return
    point = run.point_of(programme)
    if point.shares is not None:
        run.offer(programme.repaired(point.shares, point.level))
    if point.prices is not None:
        run.offer_bound(bound_of(programme.dual_bound(point.prices)))


def _solve_finish_times(run: _Run) -> None:
    """Minimise the finish-time ratio by linear programmes with tangents at successive ratios."""
    arrays = run.arrays
    run.offer_bound(arrays.least_ratio * (1 - TOLERANCE))
    # At the least ratio, a job would have to finish in no time, so the search starts above.
    least = arrays.least_ratio * (1 + LEAST_SLACK)
    ratio = max(least, -run.value)
    for _ in range(MOST_TANGENTS):
        if is_out_of_time():
            return
        programme = arrays.finish_times(ratio)
        point = run.point_of(programme)
        if point.shares is not None:
            run.offer(programme.repaired(point.shares, point.level))
        if point.prices is None:
            return
        run.offer_bound(arrays.ratio_bound(point.prices))
        following = max(least, -programme.dual_bound(point.prices, tolerance=0.0))
        if not abs(following - ratio) > CONVERGED * ratio:
            return
        ratio = following


def _solve_with_deadlines(run: _Run) -> bool:
    """Solve the objective ``cost``; return whether the deadlines are proved infeasible."""
    arrays = run.arrays
    if not np.isfinite(arrays.least_rate).all():
        return True
    programme = arrays.total(Objective.COST)
    safe: FloatArray | None = None
    if programme.has_need.any():
        first = arrays.deadlines()
        if is_out_of_time():
            return False
        point = run.point_of(first)
        if point.prices is not None and first.dual_bound(point.prices) < MISSED:
            return True
        if point.shares is None:
            return False
        safe = first.repaired(point.shares, point.level)
        met = programme.needs_met(safe)
        if met < 1.0 - TOLERANCE:
            return False
        run.offer(safe)
        # Deadlines that can barely be met leave no interior, so half of the tolerance relaxes them.
        engine_programme = replace(
            programme, need=programme.need * min(1.0, met * (1 - TOLERANCE / 2))
        )
    else:
        run.offer(fractions_of_cluster(arrays))
        engine_programme = programme
    if is_out_of_time():
        return False
    point = run.point_of(engine_programme)
    if point.shares is not None:
        shares = programme.repaired(point.shares)
        if safe is not None:
            shares = _mixed(programme, shares, safe)
        run.offer(shares)
    if point.prices is not None:
        run.offer_bound(programme.dual_bound(point.prices))
    return False


def _mixed(programme: ShareProgramme, shares: FloatArray, safe: FloatArray) -> FloatArray:
    """Mix `shares` with just enough of the feasible shares `safe` to meet all deadlines."""
    enough = 1.0 - TOLERANCE / 2
    if programme.needs_met(shares) >= enough:
        return shares
    asked = programme.has_need & (programme.need > 0)
    need = programme.need[asked]
    got = programme.got(shares)[asked] / need
    spare = programme.got(safe)[asked] / need
    late = got < enough
    with np.errstate(divide="ignore", invalid="ignore"):
        part = (enough - got[late]) / (spare[late] - got[late])
    part = np.where(np.isfinite(part), np.clip(part, 0.0, 1.0), 1.0)
    share = float(part.max())
    mixed: FloatArray = (1.0 - share) * shares + share * safe
    return mixed
