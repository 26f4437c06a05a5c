"""What is proved of the variants and seeds of a scenario, no scheme being replayed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lyra_opt.experiments.simulation.bounds import cluster_bound
from lyra_opt.experiments.simulation.building import make_schemes, make_setup
from lyra_opt.experiments.simulation.scenario import variants
from lyra_opt.simulation.bounds.ways import Reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lyra_opt.experiments.simulation.scenario import Scenario
    from lyra_opt.experiments.simulation.setup import Setup
    from lyra_opt.simulation.bounds.whole import ClusterBound


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
    """

    point: Mapping[str, Any]
    seed: int
    setup: Setup
    bound: ClusterBound

    def as_json_object(self) -> dict[str, Any]:
        """Return the object of ``bound --json``."""
        bound = self.bound
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
        }


def prove(scenario: Scenario, readings: Sequence[Reading] = tuple(Reading)) -> Iterator[Proved]:
    """Yield what is proved: variant by variant, seed by seed, reading by reading.

    Parameters
    ----------
    scenario
        What is submitted, where it runs, and by which schemes: jobs under which one of them cannot
        run are treated as in a replay.
    readings
        What schedules may do.

    Raises
    ------
    UserError
        If something that the scenario names is not there or wrong.
    """
    for point, variant in variants(scenario):
        schemes = make_schemes(variant)
        for seed in variant.table.seeds:
            setup = make_setup(variant, schemes, seed)
            for reading in readings:
                bound = cluster_bound(setup, schemes, reading)
                yield Proved(point=point, seed=seed, setup=setup, bound=bound)
