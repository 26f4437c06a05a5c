"""The figures of schedules in rounds: proofs of Hadar's offline problem on small instances."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lyra_opt.core.result import Status
from lyra_opt.experiments.bench.timing import Figure, timed_figure
from lyra_opt.experiments.bench.trials import interleaved, proved_within
from lyra_opt.heterogeneous.instance import (
    GangJob,
    GpuServer,
    GpuType,
    Instance,
    Objective,
)
from lyra_opt.heterogeneous.utility import Deadline, InverseJct, Utility
from lyra_opt.instances.randomness import IntegerStream

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

JOBS, ROUNDS = 6, 10
TYPES = ("v100", "p100", "k80")
ROUND_S = 360.0
PROOF_TARGET_S = 60.0
SOLVERS = ("cpsat", "mathopt-gscip")
GANGS = (1, 2, 2, 3, 4)
LATEST_RELEASE = 3

SHAPES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("4 GPUs of each type", {}),
    ("2 GPUs of each type", {"gpus_of_server": 2}),
    (
        "2 servers of 2 GPUs of each type, spread gangs at 80 %",
        {"servers_of_type": 2, "gpus_of_server": 2, "spread_percent": 80},
    ),
)


def offline_instance(
    seed: int,
    *,
    servers_of_type: int = 1,
    gpus_of_server: int = 4,
    spread_percent: int = 100,
    objective: Objective = Objective.UTILITY,
    jobs: int = JOBS,
    rounds: int = ROUNDS,
) -> Instance:
    """Return jobs that compete for three types of GPUs within a few rounds.

    Half of the jobs are worth their mean throughput, half a value until a deadline. Gangs of 1 to
    4 need 1 to 6 rounds on V100, are 35 to 70 % as fast on P100 and 10 to 35 % on K80.

    Parameters
    ----------
    seed
        Of all draws.
    servers_of_type, gpus_of_server
        The cluster: servers with GPUs of one type each.
    spread_percent
        Speed of a gang on several servers; below 100 the servers of the cluster play a part.
    objective, jobs, rounds
        Of the instance.
    """
    draws = IntegerStream(family="offline-rounds", seed=seed)
    made = []
    for number in range(jobs):
        rate = (40 + draws.below(161)) / 10
        rates = {
            TYPES[0]: rate,
            TYPES[1]: rate * (35 + draws.below(36)) / 100,
            TYPES[2]: rate * (10 + draws.below(26)) / 100,
        }
        steps = float(round(rate * ROUND_S * (10 + draws.below(51)) / 10))
        value = 10.0 * (1 + draws.below(5))
        utility: Utility = Deadline(
            deadline_s=ROUND_S * (4 + draws.below(6)), value=value, late_value=value / 5
        )
        if draws.below(2):
            utility = InverseJct(scale=steps)
        made.append(
            GangJob(
                id=f"j{number}",
                gang=GANGS[draws.below(len(GANGS))],
                steps=steps,
                throughput=rates,
                spread_throughput=None
                if spread_percent == 100
                else {name: of * spread_percent / 100 for name, of in rates.items()},
                release_s=ROUND_S * draws.below(LATEST_RELEASE + 1),
                utility=utility,
            )
        )
    return Instance(
        name=f"offline-{objective}-{seed}",
        objective=objective,
        gpu_types=tuple(GpuType(name=name) for name in TYPES),
        servers=tuple(
            GpuServer(id=f"{name}-{number}", gpus={name: gpus_of_server})
            for name in TYPES
            for number in range(servers_of_type)
        ),
        jobs=tuple(made),
        round_s=ROUND_S,
        horizon_rounds=rounds,
    )


def offline_figures(seeds: int) -> Iterator[Figure]:
    """Measure proofs of the offline optimum of utility."""
    for label, shape in SHAPES:
        instances = [offline_instance(seed, **shape) for seed in range(seeds)]
        what = f"utility, {JOBS} jobs, {len(TYPES)} types, {ROUNDS} rounds, {label}"
        runs = interleaved(what, "heterogeneous", SOLVERS, instances, limit_s=PROOF_TARGET_S)
        runs["is_open"] = runs.status != Status.OPTIMAL
        first = runs.sort_values(["place", "is_open", "time_s"]).drop_duplicates("place")
        figure = proved_within(
            f"the quicker of {' and '.join(SOLVERS)}, {what}", first, PROOF_TARGET_S
        )
        yield replace(figure, remark=figure.remark or f"instances: {len(instances)}")
        for name in SOLVERS:
            yield timed_figure(
                f"{name}, {what}",
                list(runs.proof_s[runs.solver == name]),
                remark="a run without a proof counts as the limit",
            )
