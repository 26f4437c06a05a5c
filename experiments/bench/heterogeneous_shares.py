"""The figures of shares of time: Gavel's linear programmes at the size that its paper scales to."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from experiments.bench.timing import Figure, timed_figure
from experiments.bench.trials import interleaved, proved_within
from instances.heterogeneous.clusters import gavel_108
from instances.heterogeneous.generated_jobs import gavel_like
from lyra_opt.heterogeneous.exact.shares.programme import ShareArrays
from lyra_opt.heterogeneous.exact.shares.water_filling import fill
from lyra_opt.heterogeneous.instance import HeterogeneousInstance, Objective

if TYPE_CHECKING:
    from collections.abc import Iterator

JOBS = 2_048
TYPES = 3
RUNS = 3
MAX_MIN_TARGET_S = 0.5
SOLVERS = ("lp-highs", "lp-glop", "lp-pdlp")
"""The first, which rounds use, is held to the target; the others are timed."""
OTHER_OBJECTIVES = (Objective.FINISH_TIME_FAIRNESS, Objective.THROUGHPUT, Objective.COST)
FILLED_JOBS = 100
"""Fewer jobs than GPUs, so that levels differ: of 2,048 jobs all are saturated at once."""


def share_instance(
    objective: Objective | str, *, jobs: int, seed: int, all_unlike: bool = False
) -> HeterogeneousInstance:
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
    cluster = gavel_108()
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
    return HeterogeneousInstance(
        name=f"{objective}-{workload.name}{'-unlike' if all_unlike else ''}",
        objective=Objective(objective),
        gpu_types=cluster.problem_types,
        servers=cluster.problem_servers(),
        jobs=drawn,
    )


def share_figures(seeds: int) -> Iterator[Figure]:
    """Measure all figures of shares of time, one at a time."""
    yield from max_min_figures(seeds)
    yield from objective_figures(seeds)
    yield from filling_figures(seeds)


def max_min_figures(seeds: int) -> Iterator[Figure]:
    """Time the greatest least share, model building included."""
    for all_unlike, kind in ((False, "Gavel's job types"), (True, "no two jobs alike")):
        instances = [
            share_instance(Objective.MAX_MIN_SHARE, jobs=JOBS, seed=seed, all_unlike=all_unlike)
            for seed in range(seeds)
        ]
        runs = interleaved(
            f"max-min shares, {kind}", "heterogeneous", SOLVERS, instances, runs=RUNS
        )
        what = f"max-min shares, {kind}, {JOBS} jobs x {TYPES} types"
        for name in SOLVERS:
            of_name = runs[runs.solver == name]
            if name == SOLVERS[0]:
                yield proved_within(f"{name}, {what}", of_name, MAX_MIN_TARGET_S)
            else:
                yield timed_figure(f"{name}, {what}", list(of_name.proof_s))


def objective_figures(seeds: int) -> Iterator[Figure]:
    """Time the other objectives."""
    for objective in OTHER_OBJECTIVES:
        instances = [share_instance(objective, jobs=JOBS, seed=seed) for seed in range(seeds)]
        runs = interleaved(f"{objective} shares", "heterogeneous", SOLVERS[:2], instances)
        for name in SOLVERS[:2]:
            of_name = runs[runs.solver == name]
            yield timed_figure(
                f"{name}, {objective}, {JOBS} jobs x {TYPES} types",
                list(of_name.proof_s),
                remark=f"programmes: at most {of_name.programmes.max():g}",
            )


def filling_figures(seeds: int) -> Iterator[Figure]:
    """Time water filling of one entity."""
    from lyra_opt.core.stopwatch import Stopwatch

    times_s, rounds, rise = [], [], 0.0
    for seed in range(seeds):
        arrays = ShareArrays.of(
            share_instance(Objective.MAX_MIN_SHARE, jobs=FILLED_JOBS, seed=seed)
        )
        stopwatch = Stopwatch()
        filled = fill(arrays)
        times_s.append(stopwatch.elapsed_s)
        rounds.append(filled.rounds)
        rise = max(rise, filled.largest_rise)
    yield timed_figure(
        f"water filling, {FILLED_JOBS} jobs x {TYPES} types",
        times_s,
        remark=f"programmes: median {median(rounds):g}, at most {max(rounds)}; a job frozen could "
        f"have risen by at most {rise:.1e} of the value of its best type",
    )
