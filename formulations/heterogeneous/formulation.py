"""Schedules in rounds as exact models see them: what is too large, and where to begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.core.arithmetic import float_up
from lyra_opt.core.solver import Unsupported
from lyra_opt.formulations.exact_model import Formulation, best_of
from lyra_opt.formulations.heterogeneous.round_model import RoundModel
from lyra_opt.heterogeneous.bounds.dual_bound import simple_bound
from lyra_opt.heterogeneous.heuristics.list_schedule import ListSchedule, without_waste
from lyra_opt.heterogeneous.instance import SHARE_OBJECTIVES, Objective
from lyra_opt.heterogeneous.problem import PROBLEM

if TYPE_CHECKING:
    from lyra_opt.heterogeneous.instance import Instance

MOST_RUNS = 200_000


def supports(instance: Instance, _: bool) -> Unsupported | None:
    """Return why the objective is not the model's, or the model would be too large."""
    if instance.objective in SHARE_OBJECTIVES:
        return Unsupported(f"the model is of schedules in rounds, not of {instance.objective}")
    servers = 1 if not instance.forking else len(instance.servers)
    if any(job.spread_throughput is not None for job in instance.jobs):
        servers = len(instance.servers)
    runs = len(instance.jobs) * servers * len(instance.gpu_types) * instance.horizon_rounds
    if runs <= MOST_RUNS:
        return None
    return Unsupported(
        f"jobs x servers x types x rounds is {runs}; the model is built up to {MOST_RUNS}"
    )


def rounded_bound(instance: Instance) -> float:
    """Return the bound that no model is needed for, rounded to the safe side."""
    bound = simple_bound(instance)
    return float_up(bound) if instance.variant.sense == "max" else -float_up(-bound)


ROUNDS = Formulation(
    problem=PROBLEM,
    variants=tuple(str(objective) for objective in Objective if objective not in SHARE_OBJECTIVES),
    supports=supports,
    data=lambda instance, start, in_floats: RoundModel.of(instance, start, in_floats=in_floats),
    whole=lambda instance, in_floats: RoundModel.of(
        instance, in_floats=in_floats, must_complete=True
    ),
    begin=best_of(ListSchedule()),
    simple_bound=rounded_bound,
    summary="Model of jobs, rounds and servers",
    tidied=without_waste,
)
