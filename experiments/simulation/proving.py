"""What is proved of the variants and seeds of a scenario, no scheme being replayed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import UserError
from lyra_opt.experiments.simulation.bounds import cluster_bound, speed_of
from lyra_opt.experiments.simulation.building import make_schemes, make_setup
from lyra_opt.experiments.simulation.scenario import variants
from lyra_opt.simulation.bounds.ways import Reading
from lyra_opt.simulation.clairvoyant.of_workload import obstacle, schedule_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lyra_opt.experiments.simulation.scenario import Scenario
    from lyra_opt.experiments.simulation.setup import Setup
    from lyra_opt.simulation.bounds.whole import ClusterBound
    from lyra_opt.simulation.clairvoyant.best import CheckedSchedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Proved:
    """What is proved of a variant of a scenario with a seed, by a reading.

    Parameters
    ----------
    point
        What the variant has of each axis.
    seed
        Of all that is drawn.
    setup
        What it is proved of.
    bound
        The bound.
    schedule
        The best schedule found; None where none was asked for, or searched.
    """

    point: Mapping[str, Any]
    seed: int
    setup: Setup
    bound: ClusterBound
    schedule: CheckedSchedule | None = None

    @property
    def gap(self) -> float | None:
        """How far the schedule is above the bound, as a share of the latter; None without one."""
        if self.schedule is None:
            return None
        return self.schedule.jct_mean_s / self.bound.jct_mean_bound_s - 1

    def as_json_object(self) -> dict[str, Any]:
        """Return the object of ``bound --json``."""
        bound, schedule = self.bound, self.schedule
        found = {}
        if schedule is not None:
            found = {
                "jct_mean_found_s": schedule.jct_mean_s,
                "found_above_bound_share": self.gap,
                "schedule_cpu_s": schedule.cpu_s,
            }
        return {
            **({"axes": dict(self.point)} if self.point else {}),
            "scenario": self.setup.scenario,
            "workload": self.setup.workload.name,
            "cluster": self.setup.cluster.name,
            "seed": self.seed,
            "reading": bound.reading.value,
            "jct_mean_bound_s": bound.jct_mean_bound_s,
            "least_run_mean_s": bound.least_run_mean_s,
            "excess_mean_bound_s": bound.excess_mean_bound_s,
            "queue_mean_bound_s": bound.queue_mean_bound_s,
            "cpu_s": bound.cpu_s,
            "jobs": bound.jobs,
            "cell_s": bound.cell_s,
            **found,
        }


def prove(
    scenario: Scenario,
    readings: Sequence[Reading] = tuple(Reading),
    *,
    searches: bool = False,
) -> Iterator[Proved]:
    """Yield what is proved: variant by variant, seed by seed, reading by reading.

    Parameters
    ----------
    scenario
        What is submitted, where it runs, and by which schemes: jobs under which one of them cannot
        run are treated as in a replay.
    readings
        What schedules may do.
    searches
        Whether to search a schedule too, one in which no job is stopped: so it is one of all
        readings.

    Raises
    ------
    UserError
        If something that the scenario names is not there or wrong, or no schedule can be searched.
    """
    for point, variant in variants(scenario):
        schemes = make_schemes(variant)
        for seed in variant.table.seeds:
            setup = make_setup(variant, schemes, seed)
            speed, schedule = speed_of(setup), None
            if searches and (reason := obstacle(setup.workload, speed)) is not None:
                raise UserError(
                    f"scenario {setup.scenario}: no schedule is searched where {reason}"
                )
            for reading in readings:
                bound = cluster_bound(setup, schemes, reading)
                if searches and schedule is None:
                    schedule = schedule_of(
                        setup.workload, speed, bound.jct.border_s, seed=setup.options.seed
                    )
                yield Proved(point=point, seed=seed, setup=setup, bound=bound, schedule=schedule)
