"""The figures of round policies: how long one decision takes with many jobs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.experiments.bench.timing import Figure, decision_figure
from lyra_opt.heterogeneous.heuristics.policy import ActiveJob, RoundState
from lyra_opt.heterogeneous.heuristics.policy_solver import ROUND_POLICIES
from lyra_opt.instances.heterogeneous.clusters import cluster_of
from lyra_opt.instances.heterogeneous.generated_jobs import gavel_like

if TYPE_CHECKING:
    from collections.abc import Iterator

JOBS = 2_048
TYPES = ("v100", "p100", "k80")
GPUS_OF_TYPE = (20, 200)
ROUND_S = 360.0
RUNS = 3
TARGETS_S = {("hadar", 20): 0.2, ("hadar", 200): 1.0}
POLICIES = ("hadar", "priced-progress", "gavel-las", "tiresias", "yarn-cs")


def crowded_round(gpus_of_type: int, seed: int, jobs: int = JOBS) -> RoundState:
    """Return a round that begins with many jobs of Gavel's generator, none of which runs.

    Parameters
    ----------
    gpus_of_type
        GPUs of each of three types, four on a server.
    seed, jobs
        Of the generator.
    """
    cluster = cluster_of(dict.fromkeys(TYPES, gpus_of_type))
    drawn = gavel_like(jobs=jobs, seed=seed, gpu_types=cluster.gpu_types).jobs
    gangs = [job.measured for job in drawn if job.measured is not None]
    return RoundState(
        gpu_types=cluster.problem_types,
        servers=cluster.problem_servers(),
        now_s=0.0,
        round_s=ROUND_S,
        jobs=[
            ActiveJob(job=gang, order=order, steps_left=gang.steps, submitted_s=0.0)
            for order, gang in enumerate(gangs)
        ],
    )


def decide_once(name: str, state: RoundState) -> None:
    """Make one decision with a policy that has seen none of the jobs before."""
    policy = ROUND_POLICIES[name]()
    policy.prepare(state, np.random.default_rng(0))
    policy.decide(state)


def decision_figures(seeds: int) -> Iterator[Figure]:
    """Time a first decision of each policy; loading of compiled kernels is not counted."""
    for gpus in GPUS_OF_TYPE:
        states = [crowded_round(gpus, seed) for seed in range(seeds)]
        for name in POLICIES:
            yield decision_figure(
                f"{name}, {JOBS} jobs, {gpus * len(TYPES)} GPUs",
                partial(decide_once, name),
                states,
                runs=RUNS,
                target_s=TARGETS_S.get((name, gpus)),
            )
