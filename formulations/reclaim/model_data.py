"""The coefficients of the reclaim model in two forms, and the instances that backends accept.

Both forms give the same `ReclaimModel`, so each backend states its model only once. The README in
this folder defines the symbols.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from lyra_opt.core.solver import Unsupported
from lyra_opt.formulations.backends.backend import CostUnit, Values
from lyra_opt.formulations.exact_model import Formulation, best_of
from lyra_opt.formulations.exact_solver import Incumbent, next_multiple
from lyra_opt.reclaim.heuristics.greedy import LyraGreedy, Peeling
from lyra_opt.reclaim.instance import Instance, Semantics, Solution
from lyra_opt.reclaim.problem import PROBLEM
from lyra_opt.reclaim.reduction import dominance_pairs, reduce_instance, respect_dominance


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelJob:
    """A job of the reclaim model, preempted if it loses more than `slack` workers.

    Parameters
    ----------
    weight
        w_j, the cost of preempting the job.
    slack
        b_j, the number of workers that the job can lose without preemption.
    losses
        Pairs (s, n_js) for each server s whose choice costs the job n_js >= 1 workers.
    """

    weight: int
    slack: int
    losses: tuple[tuple[int, int], ...]

    @property
    def all_losses(self) -> int:
        """n_j, the number of workers that the job loses if all servers are chosen."""
        return sum(count for _, count in self.losses)

    def is_preempted(self, chosen: Collection[int]) -> bool:
        """Whether choosing these servers preempts the job."""
        return sum(count for server, count in self.losses if server in chosen) > self.slack


@dataclass(frozen=True, slots=True, kw_only=True)
class ReclaimModel:
    """A reclaim model: choose N_R servers so that the jobs preempted have the least total weight.

    The cost is ``sum_s c_s x_s + sum_j w_j y_j`` over binary x (server chosen) and y (job
    preempted).

    Parameters
    ----------
    instance
        The instance.
    is_settled
        Whether the start solution costs 0 and is therefore optimal, as weights are not negative.
    positions
        The file position of each server that has a variable. All other fields number the servers by
        their index in this tuple.
    reclaim_servers
        N_R, the number of servers to reclaim.
    server_cost
        c_s for each server s.
    jobs
        The jobs that have a variable.
    preempting
        Pairs (j, s), one for each constraint y_j >= x_s.
    thresholds
        The jobs that have a loss-threshold constraint.
    dominance
        Pairs (s, t), one for each constraint x_s >= x_t.
    """

    instance: Instance
    is_settled: bool
    positions: tuple[int, ...]
    reclaim_servers: int
    server_cost: tuple[int, ...]
    jobs: tuple[ModelJob, ...]
    preempting: tuple[tuple[int, int], ...]
    thresholds: tuple[int, ...]
    dominance: tuple[tuple[int, int], ...] = ()

    def start(self, solution: Solution) -> tuple[int, ...]:
        """Return the values of all variables for a solution.

        A solution that violates dominance is first replaced by one that respects it and costs no
        more, because backends reject an infeasible start.
        """
        place = {position: place for place, position in enumerate(self.positions)}
        wanted = [place[position] for position in solution.positions(self.instance)]
        chosen = set(respect_dominance(self.dominance, wanted))
        return (
            *(int(server in chosen) for server in range(len(self.positions))),
            *(int(job.is_preempted(chosen)) for job in self.jobs),
        )

    def solution(self, values: Values) -> Solution:
        """Return the solution that chooses the servers whose variables round to 1.

        Raises
        ------
        RuntimeError
            If the number of chosen servers differs from N_R.
        """
        x = values[: len(self.positions)]
        chosen = [p for p, value in zip(self.positions, x, strict=True) if round(value) == 1]
        if len(chosen) != self.reclaim_servers:
            raise RuntimeError(
                f"the backend chose {len(chosen)} servers instead of {self.reclaim_servers}"
            )
        return Solution.of_positions(self.instance, chosen)

    def dual_bound(self, cost: Fraction) -> int:
        """Round a bound on the cost up to a multiple of the costs' greatest common divisor."""
        return next_multiple(cost, math.gcd(*(job.weight for job in self.jobs), *self.server_cost))

    @property
    def unit(self) -> CostUnit:
        """The identity, because the model's cost is the objective."""
        return CostUnit()

    @property
    def largest(self) -> "Variables":
        """The upper bound of each variable, which is 1."""
        return Variables(
            x=dict.fromkeys(range(len(self.positions)), 1),
            y=dict.fromkeys(range(len(self.jobs)), 1),
        )


class Variables(NamedTuple):
    """A backend's variables: x[s] if server s is chosen, y[j] if job j is preempted."""

    x: Mapping[int, Any]
    y: Mapping[int, Any]


def plain(instance: Instance, start: Incumbent[Solution] | None = None) -> ReclaimModel:
    """Return the textbook form: a variable per on-loan server and per job that could be preempted.

    A job has a variable only if choosing all servers would preempt it. Under rigid semantics the
    constraints are y_j >= x_s for each server with a base worker. Under interchangeable semantics
    each job has one loss threshold.
    """
    index = instance.index
    place = {position: place for place, position in enumerate(index.on_loan.tolist())}
    all_jobs = (
        ModelJob(
            weight=weight,
            slack=slack,
            losses=tuple((place[server], count) for server, count in index.losses.row(job)),
        )
        for job, (weight, slack) in enumerate(
            zip(index.weight.tolist(), index.slack.tolist(), strict=True)
        )
    )
    jobs = tuple(job for job in all_jobs if job.is_preempted(range(len(place))))
    rigid = instance.semantics is Semantics.RIGID
    return ReclaimModel(
        instance=instance,
        is_settled=start is not None and start[1] == 0,
        positions=tuple(place),
        reclaim_servers=instance.reclaim_servers,
        server_cost=(0,) * len(place),
        jobs=jobs,
        preempting=tuple(
            (j, server) for j, job in enumerate(jobs) for server, _ in job.losses if rigid
        ),
        thresholds=() if rigid else tuple(range(len(jobs))),
    )


def strengthened(instance: Instance, start: Incumbent[Solution] | None = None) -> ReclaimModel:
    """Return the strengthened form: server costs, merged jobs, capped losses and dominance.

    The constraint y_j >= x_s is added wherever choosing s alone preempts j. If that holds for every
    server of j, as in the rigid semantics, the loss threshold is redundant and is left out.
    """
    reduced = reduce_instance(instance)
    jobs = tuple(
        ModelJob(weight=weight, slack=slack, losses=tuple(reduced.losses.row(job)))
        for job, (weight, slack) in enumerate(
            zip(reduced.weight.tolist(), reduced.slack.tolist(), strict=True)
        )
    )
    return ReclaimModel(
        instance=instance,
        is_settled=start is not None and start[1] == 0,
        positions=tuple(reduced.servers.tolist()),
        reclaim_servers=instance.reclaim_servers,
        server_cost=tuple(reduced.server_cost.tolist()),
        jobs=jobs,
        preempting=tuple(
            (j, server)
            for j, job in enumerate(jobs)
            for server, count in job.losses
            if count > job.slack
        ),
        thresholds=tuple(
            j for j, job in enumerate(jobs) if any(count <= job.slack for _, count in job.losses)
        ),
        dominance=tuple(dominance_pairs(reduced)),
    )


LARGEST_LOSSES_IN_FLOATS = 10**5
LARGEST_WEIGHT_IN_FLOATS = 10**13
INT64_LIMIT = 2**62
LARGEST_LOSSES_OF_CPSAT = 2**30


def float_limits(instance: Instance) -> Unsupported | None:
    """Return why floating-point backends could report a wrong optimum; None if they cannot.

    Such a backend accepts a variable within 1e-6 of an integer. In a threshold constraint these
    errors add up to at most 2e-6 times the losses of the job, which must stay well below one
    worker. If weights sum to more than 10^13, different objectives agree within the relative
    precision of the sums. CBC even reports some of those instances as infeasible.
    """
    if instance.total_weight > LARGEST_WEIGHT_IN_FLOATS:
        return Unsupported(
            "the model is exact in floating point only up to a total weight of "
            f"{LARGEST_WEIGHT_IN_FLOATS}; this instance has {instance.total_weight}"
        )
    if instance.semantics is Semantics.RIGID:  # in this case all coefficients are 1
        return None
    return _losses_above(instance, LARGEST_LOSSES_IN_FLOATS, "the model is exact in floating point")


def int64_limits(instance: Instance) -> Unsupported | None:
    """Return why 64-bit integer backends could report a wrong optimum; None if they cannot.

    Sums of weights must not overflow. CP-SAT's presolve has proved a wrong optimum, without
    overflow, where one job loses up to 2^45 workers in a row. Up to 2^36 it has never done so.
    """
    if instance.total_weight >= INT64_LIMIT:
        return Unsupported(
            "the total weight must be below 2**62 to fit 64-bit integers; this instance has "
            f"{instance.total_weight}"
        )
    if instance.semantics is Semantics.RIGID:  # in this case all coefficients are 1
        return None
    return _losses_above(instance, LARGEST_LOSSES_OF_CPSAT, "CP-SAT is known to be correct")


def _losses_above(instance: Instance, limit: int, claim: str) -> Unsupported | None:
    losses = instance.index.losses
    jobs = np.repeat(np.arange(losses.jobs), losses.span())
    # Sums are computed as floats, because sums in 64-bit integers could overflow.
    all_losses = np.bincount(jobs, weights=losses.job_counts, minlength=losses.jobs)
    above = np.flatnonzero(all_losses > limit)
    if not len(above):
        return None
    workers = sum(count for _, count in losses.row(above[0]))
    return Unsupported(
        f"{claim} only up to {limit} workers per job on on-loan servers; "
        f"job {instance.jobs[above[0]].id!r} has {workers}"
    )


PLAIN = Formulation(
    problem=PROBLEM,
    variants=tuple(Semantics),
    supports=lambda instance, in_floats: (
        float_limits(instance) if in_floats else int64_limits(instance)
    ),
    data=lambda instance, start, _: plain(instance, start),
    begin=best_of(LyraGreedy(), Peeling()),
    simple_bound=lambda _: 0,
    summary="Textbook model",
    margin=1e-9,
)
STRENGTHENED = replace(
    PLAIN,
    data=lambda instance, start, _: strengthened(instance, start),
    summary="Strengthened model: merged jobs, server costs, dominance",
    suffix="-strengthened",
)
