"""Reclaiming as exact models see it: two forms, what backends take of them, and where to begin."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.solver import Unsupported
from lyra_opt.formulations.exact_model import Formulation, best_of
from lyra_opt.formulations.reclaim.model_data import plain, strengthened
from lyra_opt.reclaim.heuristics.greedy import LyraGreedy, Peeling
from lyra_opt.reclaim.instance import Semantics
from lyra_opt.reclaim.problem import PROBLEM

if TYPE_CHECKING:
    from lyra_opt.reclaim.instance import Instance

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
