"""What no schedule of a scenario can beat, whatever its rule: proved, beside what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import FieldError
from lyra_opt.experiments.simulation.carried_out import SimulationError
from lyra_opt.experiments.simulation.setup import RACKS, TYPES
from lyra_opt.heterogeneous.bounds.divisible_makespan import divisible_makespan
from lyra_opt.heterogeneous.instance import Instance, Objective
from lyra_opt.simulation.clairvoyant_bounds import makespan_bound_s, mean_jct_bound_s

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lyra_opt.experiments.simulation.setup import Setup
    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.workload import Workload

MAKESPAN, MEAN_JCT = "makespan_bound_s", "jct_mean_bound_s"
"""Figures of a replay."""

TOLERANCE = 1e-9
"""Relative; for the rounding of what is measured."""


def require_bounds(setup: Setup) -> None:
    """Check that bounds are known.

    Raises
    ------
    FieldError
        If none hold there: with servers on loan, elastic jobs, or jobs that nobody measured on
        unlike GPUs.
    """
    cluster, jobs = setup.cluster, setup.workload.jobs
    if setup.kind == RACKS:
        is_known = len(cluster.pools) == 1 and all(
            job.min_workers == job.max_workers for job in jobs
        )
    else:
        is_known = (
            setup.kind == TYPES
            and not any(pool.is_lent for pool in cluster.pools)
            and all(job.measured is not None for job in jobs)
        )
    if not is_known:
        raise FieldError(
            "bounds",
            True,
            "must be false but for measured jobs on unlike GPUs, and for jobs that are not elastic "
            "in a network of GPUs that are alike, both without loans",
        )


def bounds_of(setup: Setup, *, forking: bool) -> Mapping[str, float]:
    """Return what is proved of a setup that `require_bounds` accepts, by figure.

    In a network makespan and mean JCT (`lyra_opt.simulation.clairvoyant_bounds`). On unlike GPUs
    the makespan of the same work as a fluid (`lyra_opt.heterogeneous.bounds.divisible_makespan`),
    costs, rounds and submissions after the first left out; on one-GPU servers and with one-GPU jobs
    that are all there at once some schedule is that short, one that may change at any time.

    Parameters
    ----------
    forking
        Whether copies of a job may run at once, on unlike GPUs.
    """
    if setup.kind == RACKS:
        return {
            MAKESPAN: makespan_bound_s(setup.workload, setup.cluster),
            MEAN_JCT: mean_jct_bound_s(setup.workload, setup.cluster),
        }
    return _of_types(setup.workload, setup.cluster, forking=forking)


def require_kept(figures: Mapping[str, Any], bounds: Mapping[str, float]) -> None:
    """Check that a replay is not better than what is proved.

    Raises
    ------
    SimulationError
        If it is: one of the two is wrong then.
    """
    for bound, figure in ((MAKESPAN, "makespan_s"), (MEAN_JCT, "jct_mean_s")):
        if bound in bounds and figures[figure] < bounds[bound] * (1 - TOLERANCE):
            raise SimulationError(
                f"{figure} is {figures[figure]}, but proved to be at least {bounds[bound]}"
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
