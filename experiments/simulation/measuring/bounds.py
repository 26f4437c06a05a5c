"""Compute bounds that no schedule of a scenario can beat, and each scheme's gap to them."""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lyra_opt.core.gaps import percent_text
from lyra_opt.core.numbers import DOWN, UP, duration, unit_of
from lyra_opt.experiments.simulation.measuring.measures import VariantRuns
from lyra_opt.experiments.simulation.scenario.setup import RACKS, Setup, SimulationError
from lyra_opt.heterogeneous.bounds.divisible_makespan import divisible_makespan
from lyra_opt.heterogeneous.instance import Instance, Objective
from lyra_opt.simulation.bounds.scope import ALL, Reading, weights_of
from lyra_opt.simulation.bounds.whole import ClusterBound, makespan_bound_s, whole_bound
from lyra_opt.simulation.speed import Speed

MAKESPAN, MEAN_JCT, MEAN_QUEUE = "makespan_bound_s", "jct_mean_bound_s", "queue_mean_bound_s"
"""Keys of the bounds among the figures of a replay."""

TOLERANCE, MOST_ROUNDINGS = 1e-9, 4
"""Rounding that a comparison with a bound allows: relative, and in units in the last place."""

DECISIONS: Mapping[str, tuple[str, ...]] = {
    "order: waits to start": ("queue_first_mean_s",),
    "preemption, reclaiming: waits again, lost work, pauses": (
        *("queue_again_mean_s", "lost_work_mean_s", "pause_mean_s"),
    ),
    "allocation: fewer workers than most": ("fewer_workers_mean_s",),
    "types: slower GPUs": ("slower_type_mean_s",),
    "placement: further apart": ("slower_placement_mean_s",),
}
"""Parts of the mean JCT above the least run time, by the decision that causes them."""

COLUMNS = ("Mean JCT", "No schedule is below", "At most to be won")


def speed_of(setup: Setup) -> Speed:
    """Return the model of job speeds on the cluster of a setup."""
    return Speed(setup.cluster, mixed_efficiency=setup.options.mixed_efficiency)


def copy_efficiency_of(setup: Setup, *, has_copies: bool) -> Sequence[float] | None:
    """Return the efficiency of 1, 2, ... copies of a job; None if schedules run no copies."""
    return setup.options.rounds.copy_efficiency if has_copies else None


def cluster_bound(
    setup: Setup, reading: Reading, *, has_copies: bool, job_class: str = ALL
) -> ClusterBound:
    """Return lower bounds on mean JCT and mean queuing time for all schedules of a setup.

    Parameters
    ----------
    reading
        Whether preempted jobs lose their work.
    has_copies
        Whether schedules may run several copies of a job at once.
    job_class
        The jobs over which the means are taken, one of
        `lyra_opt.simulation.bounds.scope.JOB_CLASSES`.
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
    """Return the lower bounds on mean JCT and queuing time as entries of a replay's results."""
    return {
        "bound_reading": bound.reading.value,
        MEAN_JCT: bound.jct_mean_bound_s,
        "excess_mean_bound_s": bound.excess_mean_bound_s,
        MEAN_QUEUE: bound.queue_mean_bound_s,
    }


def makespan_bounds(setup: Setup, *, forking: bool) -> Mapping[str, float]:
    """Return a lower bound on the makespan in seconds, by its key; empty if no bound applies.

    No bound applies with servers on loan. For gangs in a network of identical GPUs it is
    `lyra_opt.simulation.bounds.whole`; elastic jobs and copies have no bound there. For measured
    jobs on heterogeneous GPUs it is that of divisible work
    (`lyra_opt.heterogeneous.bounds.divisible_makespan`), which ignores costs, rounds and later
    submissions. For one-GPU servers and one-GPU jobs that are all submitted at once this bound is
    reached by a schedule that may change at any time.

    ``forking`` says whether several copies of a job may run at once.
    """
    cluster, jobs = setup.cluster, setup.workload.jobs
    if any(pool.is_lent for pool in cluster.pools):
        return {}
    if setup.kind == RACKS:
        if len(cluster.pools) > 1 or any(job.is_elastic for job in jobs) or forking:
            return {}
        return {MAKESPAN: makespan_bound_s(setup.workload, cluster)}
    measured = tuple(job.measured for job in jobs if job.measured is not None)
    if len(measured) < len(jobs):
        return {}
    from lyra_opt.heterogeneous.exact.shares.highs_model import LpHighs

    engine = LpHighs()
    engine.load()
    instance = Instance(
        name=setup.workload.name,
        objective=Objective.MAKESPAN,
        gpu_types=cluster.problem_types,
        servers=cluster.problem_servers(),
        jobs=measured,
    )
    return {MAKESPAN: divisible_makespan(instance, engine.point_of, forking=forking)}


def require_kept(figures: Mapping[str, Any], *, scheme: str, first_s: float = 0.0) -> None:
    """Check that a replay is not better than a proved bound.

    Parameters
    ----------
    figures
        Figures of the replay, including its bounds.
    scheme
        Label of the scheme.
    first_s
        First submission, in seconds. Clock times of later moments are rounded by more, so the
        tolerance grows with them.

    Raises
    ------
    SimulationError
        If the replay is better than a bound; either the replay or the bound is wrong then.
    """
    latest_s = first_s + figures["makespan_s"]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Winnable:
    """The gap between the mean JCT of a scheme and its proved lower bound.

    Parameters
    ----------
    variant, scheme
        Name of the variant, and label of the scheme.
    name
        The label of the scheme, with its number of seeds if it lacks some.
    readings
        The readings of the bounds.
    jct_mean_s, bound_s
        The mean JCT and its bound, each averaged over seeds.
    shares
        For each seed the distance from the bound, as a share of the mean JCT.
    parts_s
        Parts of the mean JCT above the least run time, by decision.
    """

    variant: str
    scheme: str
    name: str
    readings: tuple[str, ...]
    jct_mean_s: float
    bound_s: float
    shares: tuple[float, ...]
    parts_s: Mapping[str, float]

    @property
    def most(self) -> str:
        """The largest possible saving in % of the mean JCT, rounded up, with its range over seeds.

        It is that of the means over seeds, so that it agrees with them.
        """
        text = percent_text(max(0.0, 1 - self.bound_s / self.jct_mean_s), UP)
        if len(self.shares) == 1:
            return text
        low, high = (percent_text(end(self.shares), UP) for end in (min, max))
        return f"{text} (by seed {low} to {high})"

    def in_words(self) -> tuple[str, str]:
        """Return the scheme's name and variant, and sentences on how much JCT it could save."""
        where = f"{self.name} with {self.variant}" if self.variant else self.name
        unit = unit_of(self.jct_mean_s)
        largest = max(self.parts_s.items(), key=lambda part: part[1])
        above_s = sum(self.parts_s.values())
        bound = duration(self.bound_s, unit, rounding=DOWN)
        text = (
            f"no scheduler, whatever it knows, can win more than {self.most} of its mean JCT of "
            f"{duration(self.jct_mean_s, unit)}, as none is below {bound} "
            f"({' or '.join(self.readings)})"
        )
        if above_s > 0:
            text += (
                f". It is {duration(above_s, unit)} above the least run time, "
                f"{percent_text(largest[1] / above_s)} of that by {largest[0]}"
            )
        return where, f"{text}."

    def cells(self, decisions: Sequence[str]) -> list[str]:
        """Return the cells of a table row: mean JCT, bound, possible saving, then each decision."""
        unit = unit_of(self.jct_mean_s)
        parts = [duration(self.parts_s[name], unit) for name in decisions]
        bound = duration(self.bound_s, unit, rounding=DOWN)
        return [duration(self.jct_mean_s, unit), bound, self.most, *parts]


def winnable(variants: Iterable[VariantRuns]) -> Iterator[Winnable]:
    """Yield the gap between mean JCT and proved bound for each variant and scheme with a bound."""
    for variant in variants:
        for scheme, runs in variant.by_scheme.items():
            figures = [run.figures for run in runs if run.figures and MEAN_JCT in run.figures]
            if not figures:
                continue
            yield Winnable(
                variant=variant.name,
                scheme=scheme,
                name=variant.label(scheme),
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
    """Return the kinds of decisions, such as preemption, that cost at least one scheme time."""
    return [name for name in DECISIONS if any(each.parts_s[name] > 0 for each in left)]
