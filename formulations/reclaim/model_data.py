"""Reclaiming as exact models see it: numbers in two forms, what backends take, where to begin.

Both forms give the same `ReclaimModel`, so that each backend states its model once. The symbols
are those of the README beside this file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lyra_opt.core.solver import Unsupported
from lyra_opt.formulations.backends.backend import CostUnit
from lyra_opt.formulations.exact_model import Formulation, best_of
from lyra_opt.formulations.exact_solver import next_multiple
from lyra_opt.reclaim.heuristics.greedy import LyraGreedy, Peeling
from lyra_opt.reclaim.instance import Semantics, Solution
from lyra_opt.reclaim.problem import PROBLEM
from lyra_opt.reclaim.reduction import dominance_pairs, reduce_instance, respect_dominance

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from fractions import Fraction

    from lyra_opt.formulations.backends.backend import Values
    from lyra_opt.formulations.exact_solver import Incumbent
    from lyra_opt.reclaim.instance import Instance


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelJob:
    """A job of the model: preempted when more than `slack` of its losses are chosen.

    Parameters
    ----------
    weight
        w_j.
    slack
        b_j.
    losses
        (s, n_js) for each server s whose choice costs the job n_js >= 1 workers.
    """

    weight: int
    slack: int
    losses: tuple[tuple[int, int], ...]

    @property
    def all_losses(self) -> int:
        """n_j, the workers it loses when all servers are chosen."""
        return sum(count for _, count in self.losses)

    def is_preempted(self, chosen: Collection[int]) -> bool:
        """Whether choosing these servers preempts the job."""
        return sum(count for server, count in self.losses if server in chosen) > self.slack


@dataclass(frozen=True, slots=True, kw_only=True)
class ReclaimModel:
    """min sum_s c_s x_s + sum_j w_j y_j over binary x (server chosen) and y (job preempted).

    Parameters
    ----------
    instance
        The instance.
    is_settled
        Whether the start costs nothing, so that nothing is better: no weight is negative.
    positions
        File position of each server that has a variable; everything else numbers servers by
        their place here.
    reclaim_servers
        N_R.
    server_cost
        c_s for each server.
    jobs
        The jobs that have a variable.
    preempting
        (j, s) for each implication y_j >= x_s.
    thresholds
        The jobs whose threshold is a constraint.
    dominance
        (s, t) for each implication x_s >= x_t.
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
        """Return the variables' values where these servers are chosen.

        Where the choice does not respect dominance it is moved to one that does and costs no
        more, or no backend would accept it.
        """
        place = {position: place for place, position in enumerate(self.positions)}
        wanted = [place[position] for position in solution.positions(self.instance)]
        chosen = set(respect_dominance(self.dominance, wanted))
        return (
            *(int(server in chosen) for server in range(len(self.positions))),
            *(int(job.is_preempted(chosen)) for job in self.jobs),
        )

    def solution(self, values: Values) -> Solution:
        """Return the servers that are chosen where the variables have these values, rounded.

        Raises
        ------
        RuntimeError
            If they are not as many as are to be reclaimed.
        """
        x = values[: len(self.positions)]
        chosen = [p for p, value in zip(self.positions, x, strict=True) if round(value) == 1]
        if len(chosen) != self.reclaim_servers:
            raise RuntimeError(
                f"the backend chooses {len(chosen)} servers, not {self.reclaim_servers}"
            )
        return Solution.of_positions(self.instance, chosen)

    def dual_bound(self, cost: Fraction) -> int:
        """Return the least objective that there may be: a multiple of the weights' divisor."""
        return next_multiple(cost, math.gcd(*(job.weight for job in self.jobs), *self.server_cost))

    @property
    def unit(self) -> CostUnit:
        """The cost is the objective."""
        return CostUnit()

    @property
    def largest(self) -> Variables:
        """The largest value of each variable."""
        return Variables(
            x=dict.fromkeys(range(len(self.positions)), 1),
            y=dict.fromkeys(range(len(self.jobs)), 1),
        )


class Variables(NamedTuple):
    """A backend's variables; x[s]: server s is chosen, y[j]: job j is preempted."""

    x: Mapping[int, Any]
    y: Mapping[int, Any]


def plain(instance: Instance, start: Incumbent[Solution] | None = None) -> ReclaimModel:
    """Return the textbook form: a variable for each server on loan and each endangered job.

    Endangered is a job that some choice preempts, however many servers are chosen. Rigid:
    y_j >= x_s for each server with a base worker. Interchangeable: one threshold for each job.
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
    """Return the form with server costs, merged jobs, capped counts and dominance.

    y_j >= x_s wherever the choice of s alone preempts j. Where that holds for every server of j,
    as in the rigid semantics, the threshold follows from those and is left out.
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
    """Return why a backend that computes in floats would not be exact on `instance`.

    It takes a variable within 1e-6 of an integer for that integer. In a threshold row such
    errors add up to at most 2e-6 times the job's losses, which must stay well below one worker.
    Weights that sum to more than 10^13 have optima that differ by less than the relative
    precision of its sums; CBC then even calls instances infeasible.
    """
    if instance.total_weight > LARGEST_WEIGHT_IN_FLOATS:
        return Unsupported(
            f"the weights sum to {instance.total_weight}; floating-point arithmetic is exact "
            f"enough up to {LARGEST_WEIGHT_IN_FLOATS}"
        )
    if instance.semantics is Semantics.RIGID:  # all coefficients are 1
        return None
    return _losses_above(instance, LARGEST_LOSSES_IN_FLOATS, "exact in floating-point arithmetic")


def int64_limits(instance: Instance) -> Unsupported | None:
    """Return why a backend that computes in 64-bit integers would not be exact on `instance`.

    Weights must not overflow. Of losses CP-SAT's presolve has been seen to prove a wrong optimum
    with up to 2^45 of a job in a row, without any overflow; never with up to 2^36.
    """
    if instance.total_weight >= INT64_LIMIT:
        return Unsupported(
            f"the weights sum to {instance.total_weight}; 64-bit integers need less than 2**62"
        )
    if instance.semantics is Semantics.RIGID:  # all coefficients are 1
        return None
    return _losses_above(instance, LARGEST_LOSSES_OF_CPSAT, "solved by CP-SAT without mistakes")


def _losses_above(instance: Instance, limit: int, rule: str) -> Unsupported | None:
    losses = instance.index.losses
    jobs = np.repeat(np.arange(losses.jobs), losses.span())
    # In floats, because 64-bit integers may overflow, which is what this is to find out.
    all_losses = np.bincount(jobs, weights=losses.job_counts, minlength=losses.jobs)
    above = np.flatnonzero(all_losses > limit)
    if not len(above):
        return None
    workers = sum(count for _, count in losses.row(above[0]))
    return Unsupported(
        f"job {instance.jobs[above[0]].id!r} has {workers} workers on servers on loan; "
        f"the model is {rule} up to {limit}"
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
    summary="Model folded, merged and ordered",
    suffix="-strengthened",
)
