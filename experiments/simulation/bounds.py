"""What no schedule of a scenario can beat, whatever its rule: proved, beside what was measured."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import UserError
from lyra_opt.experiments.simulation.carried_out import SimulationError
from lyra_opt.experiments.simulation.setup import RACKS
from lyra_opt.heterogeneous.bounds.divisible_makespan import divisible_makespan
from lyra_opt.heterogeneous.instance import Instance, Objective
from lyra_opt.simulation.bounds.job_classes import ALL, weights_of
from lyra_opt.simulation.bounds.reading import Reading
from lyra_opt.simulation.bounds.whole import ClusterBound, whole_bound
from lyra_opt.simulation.makespan_bound import makespan_bound_s
from lyra_opt.simulation.speed import Speed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.experiments.simulation.setup import Setup
    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.scheme import Scheme
    from lyra_opt.simulation.workload import Workload

MAKESPAN, MEAN_JCT, MEAN_QUEUE = "makespan_bound_s", "jct_mean_bound_s", "queue_mean_bound_s"
"""Figures of a replay."""

TOLERANCE, MOST_ROUNDINGS = 1e-9, 4
"""For the rounding of what is measured: relative, and of moments as floats have them."""


def common_reading(schemes: Sequence[Scheme]) -> Reading:
    """Return what all of some schemes keep to: what is proved of it holds for each of them.

    Raises
    ------
    UserError
        If no bound holds for one of them.
    """
    for scheme in schemes:
        if scheme.reading is None:
            raise UserError(
                f"bounds: none holds for scheme {scheme.name}, whose jobs are tuned while they run "
                "and then are faster than the workload says"
            )
    is_restart = all(scheme.reading is Reading.RESTART for scheme in schemes)
    return Reading.RESTART if is_restart else Reading.CONSERVED


def speed_of(setup: Setup) -> Speed:
    """Return how fast jobs of a setup run, whatever the scheme."""
    return Speed(setup.cluster, mixed_efficiency=setup.options.mixed_efficiency)


def copy_efficiency_of(setup: Setup, schemes: Sequence[Scheme]) -> Sequence[float] | None:
    """Return what copies of jobs are worth, where any of some schemes runs some; else None."""
    has_copies = any(scheme.has_copies for scheme in schemes)
    return setup.options.rounds.copy_efficiency if has_copies else None


def cluster_bound(
    setup: Setup, schemes: Sequence[Scheme], reading: Reading, *, job_class: str = ALL
) -> ClusterBound:
    """Return what no schedule of a setup can beat.

    Parameters
    ----------
    schemes
        Under which it is to hold: with copies of jobs if any of them runs some.
    reading
        What schedules may do.
    job_class
        Of which jobs the means are, one of `lyra_opt.simulation.bounds.job_classes.JOB_CLASSES`.
    """
    return whole_bound(
        setup.workload,
        setup.cluster,
        reading=reading,
        plan=setup.plan,
        speed=speed_of(setup),
        copy_efficiency=copy_efficiency_of(setup, schemes),
        weight=weights_of(setup.workload, job_class),
    )


def figures_of(bound: ClusterBound) -> dict[str, Any]:
    """Return what is proved as figures of a replay."""
    return {
        "bound_reading": bound.reading.value,
        MEAN_JCT: bound.jct_mean_bound_s,
        "excess_mean_bound_s": bound.excess_mean_bound_s,
        MEAN_QUEUE: bound.queue_mean_bound_s,
    }


def above_bound(figures: Mapping[str, Any]) -> dict[str, float | None]:
    """Return how far a replay is above what is proved, as a share of it; None where that is 0."""
    bound_s = figures[MEAN_JCT]
    share = figures["jct_mean_s"] / bound_s - 1 if bound_s > 0 else None
    return {"jct_above_bound_share": share}


def makespan_bounds(setup: Setup, *, forking: bool) -> Mapping[str, float]:
    """Return what is proved of the makespan, where anything is: a figure of a replay, or none.

    In a network of GPUs that are alike that of `lyra_opt.simulation.makespan_bound`. On unlike GPUs
    that of the same work as a fluid (`lyra_opt.heterogeneous.bounds.divisible_makespan`), costs,
    rounds and submissions after the first left out; on one-GPU servers and with one-GPU jobs that
    are all there at once some schedule is that short, one that may change at any time.

    Parameters
    ----------
    forking
        Whether copies of a job may run at once, on unlike GPUs.
    """
    cluster, jobs = setup.cluster, setup.workload.jobs
    if any(pool.is_lent for pool in cluster.pools):
        return {}
    if setup.kind == RACKS:
        if len(cluster.pools) > 1 or any(job.is_elastic for job in jobs):
            return {}
        return {MAKESPAN: makespan_bound_s(setup.workload, cluster)}
    if all(job.measured is not None for job in jobs):
        return _of_types(setup.workload, cluster, forking=forking)
    return {}


def require_kept(figures: Mapping[str, Any], *, latest_s: float = 0.0) -> None:
    """Check that a replay is not better than what is proved.

    Parameters
    ----------
    figures
        Of the replay, bounds among them.
    latest_s
        A moment that none of the replay is after: times as of a clock are rounded by more.

    Raises
    ------
    SimulationError
        If it is: one of the two is wrong then.
    """
    for bound, figure in (
        (MAKESPAN, "makespan_s"),
        (MEAN_JCT, "jct_mean_s"),
        (MEAN_QUEUE, "queue_mean_s"),
    ):
        least_s = figures.get(bound, 0.0) * (1 - TOLERANCE) - MOST_ROUNDINGS * math.ulp(latest_s)
        if figures[figure] < least_s:
            raise SimulationError(
                f"{figure} is {figures[figure]}, but proved to be at least {figures[bound]}"
            )


def _of_types(workload: Workload, cluster: Cluster, *, forking: bool) -> Mapping[str, float]:
    from lyra_opt.formulations.heterogeneous.shares.highs_model import LpHighs

    engine = LpHighs()
    engine.load()
    instance = Instance(
        name=workload.name,
        objective=Objective.MAKESPAN,
        gpu_types=cluster.problem_types,
        servers=cluster.problem_servers(),
        jobs=tuple(job.measured for job in workload.jobs if job.measured is not None),
    )
    found = divisible_makespan(instance, engine.point_of, forking=forking)
    return {MAKESPAN: found.least_s}
