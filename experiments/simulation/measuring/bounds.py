"""What no schedule of a scenario can beat, and how much a scheme could still win."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lyra_opt.core.gaps import percent_text
from lyra_opt.experiments.simulation.measuring.measures import duration, unit_of
from lyra_opt.experiments.simulation.scenario.setup import RACKS, SimulationError
from lyra_opt.heterogeneous.bounds.divisible_makespan import divisible_makespan
from lyra_opt.heterogeneous.instance import Instance, Objective
from lyra_opt.simulation.bounds.scope import ALL, weights_of
from lyra_opt.simulation.bounds.whole import makespan_bound_s, whole_bound
from lyra_opt.simulation.speed import Speed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lyra_opt.experiments.simulation.measuring.measures import VariantRuns
    from lyra_opt.experiments.simulation.scenario.setup import Setup
    from lyra_opt.simulation.bounds.scope import Reading
    from lyra_opt.simulation.bounds.whole import ClusterBound
    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.workload import Workload

MAKESPAN, MEAN_JCT, MEAN_QUEUE = "makespan_bound_s", "jct_mean_bound_s", "queue_mean_bound_s"
"""Figures of a replay."""

TOLERANCE, MOST_ROUNDINGS = 1e-9, 4
"""For the rounding of what is measured: relative, and of moments as floats have them."""

DECISIONS: Mapping[str, tuple[str, ...]] = {
    "order: waits to start": ("queue_first_mean_s",),
    "preemption, reclaiming: waits again, lost work, pauses": (
        *("queue_again_mean_s", "lost_work_mean_s", "pause_mean_s"),
    ),
    "allocation: fewer workers than most": ("fewer_workers_mean_s",),
    "types: slower GPUs": ("slower_type_mean_s",),
    "placement: further apart": ("slower_placement_mean_s",),
}
"""Parts of the mean JCT above the least run time by the decision that they follow from."""

COLUMNS = ("Mean JCT", "No schedule is below", "At most to be won")


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
        Of which jobs the means are, one of `lyra_opt.simulation.bounds.scope.JOB_CLASSES`.
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

    In a network of GPUs that are alike it is `lyra_opt.simulation.bounds.whole`, which does not
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
    from lyra_opt.heterogeneous.exact.shares.highs_model import LpHighs

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Winnable:
    """What a scheme leaves to be won.

    Parameters
    ----------
    variant, scheme
        Of the scenario, in words, and its label.
    readings
        What schedules may do that the bound holds for.
    jct_mean_s, bound_s
        Means over seeds: of the mean JCT, and of what no schedule can beat.
    shares
        How far the mean JCT is above the bound with each seed, relative to the JCT.
    parts_s
        The mean JCT above the least run time, by decision.
    """

    variant: str
    scheme: str
    readings: tuple[str, ...]
    jct_mean_s: float
    bound_s: float
    shares: tuple[float, ...]
    parts_s: Mapping[str, float]

    @property
    def most(self) -> str:
        """The share of the mean JCT that can be won at most, with its spread over seeds."""
        text = percent_text(statistics.fmean(self.shares))
        if len(self.shares) == 1:
            return text
        return f"{text} ({percent_text(min(self.shares))} to {percent_text(max(self.shares))})"

    def in_words(self) -> tuple[str, str]:
        """Return who, and how much could be won beside him."""
        where = f"{self.scheme} with {self.variant}" if self.variant else self.scheme
        unit = unit_of(self.jct_mean_s)
        largest = max(self.parts_s.items(), key=lambda part: part[1])
        above_s = sum(self.parts_s.values())
        text = (
            f"no scheduler, whatever it knows, can win more than {self.most} of its mean JCT of "
            f"{duration(self.jct_mean_s, unit)}, as none is below {duration(self.bound_s, unit)} "
            f"({' or '.join(self.readings)})"
        )
        if above_s > 0:
            text += (
                f". It is {duration(above_s, unit)} above the least run time, "
                f"{percent_text(largest[1] / above_s)} of that by {largest[0]}"
            )
        return where, f"{text}."

    def cells(self, decisions: Sequence[str]) -> list[str]:
        """Return the row of a table, behind the scheme: `COLUMNS`, and some decisions."""
        unit = unit_of(self.jct_mean_s)
        parts = [duration(self.parts_s[name], unit) for name in decisions]
        return [duration(self.jct_mean_s, unit), duration(self.bound_s, unit), self.most, *parts]


def winnable(variants: Iterable[VariantRuns]) -> Iterator[Winnable]:
    """Yield what each scheme leaves to be won, variant by variant, of those that have bounds."""
    for variant in variants:
        for scheme, runs in variant.by_scheme.items():
            figures = [run.figures for run in runs if run.figures and MEAN_JCT in run.figures]
            if not figures:
                continue
            yield Winnable(
                variant=variant.name,
                scheme=scheme,
                readings=tuple(dict.fromkeys(str(each["bound_reading"]) for each in figures)),
                jct_mean_s=statistics.fmean(each["jct_mean_s"] for each in figures),
                bound_s=statistics.fmean(each[MEAN_JCT] for each in figures),
                shares=tuple(max(0.0, 1 - each[MEAN_JCT] / each["jct_mean_s"]) for each in figures),
                parts_s={
                    name: statistics.fmean(
                        sum(each.get(part, 0.0) for part in parts) for each in figures
                    )
                    for name, parts in DECISIONS.items()
                },
            )


def decisions_of(left: Sequence[Winnable]) -> list[str]:
    """Return the decisions that cost anybody anything."""
    return [name for name in DECISIONS if any(each.parts_s[name] > 0 for each in left)]
