"""What no schedule of a scenario can beat, whatever its rule: proved, beside what was measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
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

    from lyra_opt.experiments.records import ReplayRecord
    from lyra_opt.experiments.simulation.setup import Setup
    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.scheme import Scheme
    from lyra_opt.simulation.workload import Workload

MAKESPAN, MEAN_JCT, MEAN_QUEUE = "makespan_bound_s", "jct_mean_bound_s", "queue_mean_bound_s"
"""Figures of a replay."""

TOLERANCE, MOST_ROUNDINGS = 1e-9, 4
"""For the rounding of what is measured: relative, and of moments as floats have them."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What the schedules of one scheme, or of several together, may do.

    Parameters
    ----------
    reading
        The strictest reading that covers them; None where no bound applies.
    has_copies
        Whether they may run several copies of a job at once.
    """

    reading: Reading | None
    has_copies: bool

    def as_setting(self) -> dict[str, Any]:
        """Return the keys by which the row of a run carries them."""
        reading = None if self.reading is None else self.reading.value
        return {"reading": reading, "has_copies": self.has_copies}


def abilities_of(scheme: Scheme, setup: Setup) -> Abilities:
    """Return what a scheme may do in a setup; its policy counts, whatever the scheme says."""
    policy = scheme.policy(setup.cluster, setup.options)
    reading = None if policy.tuned is not None or policy.packs else scheme.reading
    return Abilities(reading, scheme.has_copies or policy.forks)


def recorded_abilities(run: ReplayRecord) -> Abilities | None:
    """Return what the row of a run says of its scheme; None for rows of version 0.2.0 and before.

    Raises
    ------
    UserError
        If the row says what no version writes.
    """
    if "has_copies" not in run.setting:
        return None
    reading, has_copies = run.setting.get("reading"), run.setting["has_copies"]
    if not isinstance(has_copies, bool) or reading not in (None, *(each.value for each in Reading)):
        raise UserError(f"run {run.key}: its row is damaged: reading {reading!r} is not known")
    return Abilities(None if reading is None else Reading(reading), has_copies)


def common_abilities(by_scheme: Mapping[str, Abilities]) -> Abilities:
    """Return what some schemes may do together; a bound for it applies to each of them.

    Raises
    ------
    UserError
        If no bound applies to one of them.
    """
    for name, each in by_scheme.items():
        if each.reading is None:
            raise UserError(
                f"no bound applies to scheme {name}: its jobs are tuned while they run, or share "
                "GPUs, so they can run faster than the workload says. Leave this scheme out."
            )
    is_restart = all(each.reading is Reading.RESTART for each in by_scheme.values())
    return Abilities(
        Reading.RESTART if is_restart else Reading.CONSERVED,
        any(each.has_copies for each in by_scheme.values()),
    )


def applicable_readings(
    by_scheme: Mapping[str, Abilities], wanted: Sequence[Reading] = ()
) -> Sequence[Reading]:
    """Return the readings whose bounds apply to all of some schemes.

    Parameters
    ----------
    wanted
        Those that are asked for; empty for all that apply.

    Raises
    ------
    UserError
        If no bound applies to one of the schemes, or not that of a reading that is asked for.
    """
    common = common_abilities(by_scheme)
    if common.reading is Reading.CONSERVED:
        if Reading.RESTART in wanted:
            name = next(name for name, each in by_scheme.items() if each.reading != Reading.RESTART)
            raise UserError(
                f"reading restart: no such bound applies to scheme {name}, which may stop jobs and "
                "resume them without loss. Use the reading conserved, or leave this scheme out."
            )
        return [Reading.CONSERVED]
    return wanted or tuple(Reading)


def speed_of(setup: Setup) -> Speed:
    """Return how fast jobs of a setup run, whatever the scheme."""
    return Speed(setup.cluster, mixed_efficiency=setup.options.mixed_efficiency)


def copy_efficiency_of(setup: Setup, *, has_copies: bool) -> Sequence[float] | None:
    """Return what copies of jobs are worth; None where schemes run none."""
    return setup.options.rounds.copy_efficiency if has_copies else None


def cluster_bound(
    setup: Setup, reading: Reading, *, has_copies: bool, job_class: str = ALL
) -> ClusterBound:
    """Return what no schedule of a setup can beat.

    Parameters
    ----------
    reading
        What schedules may do.
    has_copies
        Whether they may run several copies of a job at once.
    job_class
        Of which jobs the means are, one of `lyra_opt.simulation.bounds.job_classes.JOB_CLASSES`.
    """
    return whole_bound(
        setup.workload,
        setup.cluster,
        reading=reading,
        plan=setup.plan,
        speed=speed_of(setup),
        copy_efficiency=copy_efficiency_of(setup, has_copies=has_copies),
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

    In a network of GPUs that are alike it is `lyra_opt.simulation.makespan_bound`, which does not
    apply to copies of jobs. On unlike GPUs it is that of the same work as a fluid
    (`lyra_opt.heterogeneous.bounds.divisible_makespan`), costs, rounds and submissions after the
    first left out; on one-GPU servers and with one-GPU jobs that are all there at once some
    schedule is that short, one that may change at any time.

    Parameters
    ----------
    forking
        Whether copies of a job may run at once.
    """
    cluster, jobs = setup.cluster, setup.workload.jobs
    if any(pool.is_lent for pool in cluster.pools):
        return {}
    if setup.kind == RACKS:
        if len(cluster.pools) > 1 or any(job.is_elastic for job in jobs) or forking:
            return {}
        return {MAKESPAN: makespan_bound_s(setup.workload, cluster)}
    if all(job.measured is not None for job in jobs):
        return _of_types(setup.workload, cluster, forking=forking)
    return {}


def require_kept(figures: Mapping[str, Any], *, scheme: str, latest_s: float = 0.0) -> None:
    """Check that a replay is not better than what is proved.

    Parameters
    ----------
    figures
        Of the replay, bounds among them.
    scheme
        The name of its scheme.
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
                f"scheme {scheme}: {figure} is {figures[figure]}, but proved to be at least "
                f"{figures[bound]}"
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
