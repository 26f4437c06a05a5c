"""The figures of shares of time: Gavel's linear programmes at the size that its paper scales to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lyra_opt.experiments.bench.timing import Figure, timed_figure
from lyra_opt.experiments.bench.trials import interleaved, proved_within
from lyra_opt.heterogeneous.instance import Instance, Objective
from lyra_opt.instances.heterogeneous.clusters import find_cluster
from lyra_opt.instances.heterogeneous.generated_jobs import gavel_like

if TYPE_CHECKING:
    from collections.abc import Iterator

JOBS = 2_048
TYPES = 3
RUNS = 3
MAX_MIN_TARGET_S = 0.1
SOLVERS = ("lp-sifting", "lp-highs", "lp-glop")
"""The first, the default, is held to the target; rounds use the second; the third is another's."""


def share_instance(
    objective: Objective | str, *, jobs: int, seed: int, all_unlike: bool = False
) -> Instance:
    """Return jobs of Gavel's generator, a fifth of them of weight 5, on its simulated cluster.

    Parameters
    ----------
    objective
        Of shares.
    jobs, seed
        Of the generator.
    all_unlike
        Whether no two weights are equal: many jobs have the same model, batch size and gang, and
        solvers solve jobs that differ in nothing as one.
    """
    cluster = find_cluster("gavel-108")
    workload = gavel_like(
        jobs=jobs,
        seed=seed,
        gpu_types=cluster.gpu_types,
        high_priority_percent=20,
    )
    drawn = tuple(job.measured for job in workload.jobs if job.measured is not None)
    if all_unlike:
        drawn = tuple(
            replace(job, weight=job.weight * (1 + number / jobs))
            for number, job in enumerate(drawn)
        )
    return Instance(
        name=f"{objective}-{workload.name}{'-unlike' if all_unlike else ''}",
        objective=Objective(objective),
        gpu_types=cluster.problem_types,
        servers=cluster.problem_servers(),
        jobs=drawn,
    )


def share_figures(seeds: int) -> Iterator[Figure]:
    """Time the greatest least share, model building included."""
    for all_unlike, kind in ((False, "Gavel's job types"), (True, "no two jobs alike")):
        instances = [
            share_instance(Objective.MAX_MIN_SHARE, jobs=JOBS, seed=seed, all_unlike=all_unlike)
            for seed in range(seeds)
        ]
        what = f"max-min shares, {kind}, {JOBS} jobs x {TYPES} types"
        runs = interleaved(what, "heterogeneous", SOLVERS, instances, runs=RUNS)
        held, *others = (runs[runs.solver == name] for name in SOLVERS)
        yield proved_within(f"{SOLVERS[0]}, {what}", held, MAX_MIN_TARGET_S)
        for name, other in zip(SOLVERS[1:], others, strict=True):
            yield timed_figure(f"{name}, {what}", list(other.proof_s))
