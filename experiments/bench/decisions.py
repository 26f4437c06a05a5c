"""Benchmarks of single decisions: round-based policies, network placement, and time shares."""

from dataclasses import replace
from functools import cache, partial
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from lyra_opt.core.result import Limits, Status
from lyra_opt.core.seeding import generator
from lyra_opt.core.solver import find_solver
from lyra_opt.experiments.bench.timing import sized, timed
from lyra_opt.front_door.solving import solve
from lyra_opt.heterogeneous.heuristics.policy import ActiveJob, RoundState
from lyra_opt.heterogeneous.heuristics.policy_solver import ROUND_POLICIES
from lyra_opt.heterogeneous.instance import GangJob, Instance, Objective
from lyra_opt.instances.family import generate
from lyra_opt.instances.heterogeneous.clusters import cluster_of
from lyra_opt.instances.heterogeneous.generated_jobs import gavel_like
from lyra_opt.instances.network.epoch import epoch_instance
from lyra_opt.network.heuristics.policy import PlacementState
from lyra_opt.network.heuristics.policy_solver import PLACEMENT_POLICIES, state_of
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.topology import Topology

SEEDS = range(sized(5, 1))
JOBS = sized(2_048, 20)

TYPES = ("v100", "p100", "k80")
ROUND_BASED = ("hadar", "priced-progress", "gavel-las", "tiresias", "yarn-cs")
ROUND_S = 360.0

CLUSTER = Topology.uniform(racks=sized(64, 2), machines_per_rack=8)
WAITING = sized(500, 10)
LEASE_S = 3600.0

SHARE_SOLVERS = ("lp-sifting", "lp-highs", "lp-glop")
"""The default solver, the solver that rounds use, and a solver of another library."""
FLEETS = {"10,000 jobs": (10_000, 33_336), "100,000 jobs": (100_000, 267_952)}
"""Jobs and GPUs of each type: 100,008 GPUs in all, and 100,482 servers of 8 GPUs."""
FLEET_SOLVERS = ("lp-sifting", "pop-2", "pop-4", "pop-8", "pop-16", "dede")
FLEET_GANG = sized(32, 1)


def gavel_gangs(cluster: Cluster, jobs: int, seed: int) -> list[GangJob]:
    """Return Gavel-like jobs that are submitted at once, with rates on the GPUs of a cluster."""
    drawn = gavel_like(jobs=jobs, seed=seed, gpu_types=cluster.gpu_types).jobs
    return [job.measured for job in drawn if job.measured is not None]


def crowded_round(gpus_of_type: int, seed: int) -> RoundState:
    """Return the state of a scheduling round in which many Gavel-like jobs all wait for GPUs."""
    cluster = cluster_of(dict.fromkeys(TYPES, gpus_of_type))
    gangs = gavel_gangs(cluster, JOBS, seed)
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


def decide_round(policy: str, state: RoundState) -> None:
    """Make one decision of a round-based policy without memory of earlier rounds."""
    fresh = ROUND_POLICIES[policy]()
    fresh.prepare(state, np.random.default_rng(0))
    fresh.decide(state)


def decide_placement(policy: str, state: PlacementState) -> None:
    """Make one decision of a placement policy without memory of earlier decisions."""
    fresh = PLACEMENT_POLICIES[policy]()
    fresh.prepare(state.machines, LEASE_S, np.random.default_rng(0))
    fresh.decide(state)


@pytest.mark.parametrize("gpus_of_type", [20, 200])
@pytest.mark.parametrize("policy", ROUND_BASED)
def test_round(benchmark: BenchmarkFixture, policy: str, gpus_of_type: int) -> None:
    """Time the first decision of a round-based policy on three GPU types."""
    turns = cycle([crowded_round(gpus_of_type, seed) for seed in SEEDS])
    timed(benchmark, lambda: decide_round(policy, next(turns)), rounds=3 * len(SEEDS))


@pytest.mark.parametrize("busy_percent", [0, 60, 95])
@pytest.mark.parametrize("policy", PLACEMENT_POLICIES)
def test_placement(benchmark: BenchmarkFixture, policy: str, busy_percent: int) -> None:
    """Time a decision of a placement policy on a partly busy cluster."""
    drawn = partial(epoch_instance, CLUSTER, jobs=WAITING, busy_percent=busy_percent)
    turns = cycle([state_of(drawn(seed=seed)).state for seed in SEEDS])
    timed(benchmark, lambda: decide_placement(policy, next(turns)), rounds=5 * len(SEEDS))


def share_instance(seed: int, kind: str) -> Instance:
    """Return an instance of Gavel's job kinds on 108 GPUs; a fifth of the jobs has weight 5.

    Solvers merge equal jobs. With kind "no two alike" all weights differ, so no jobs are merged.
    """
    drawn: Instance = generate(
        "heterogeneous", "offline", seed=seed, jobs=JOBS, gpus_of_type=36, objective="max_min_share"
    )
    spread = 1 / JOBS if kind == "no two alike" else 0.0
    jobs = [
        replace(job, weight=(1.0 if number % 5 else 5.0) * (1 + spread * number))
        for number, job in enumerate(drawn.jobs)
    ]
    return replace(drawn, jobs=tuple(jobs))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["Gavel's kinds", "no two alike"])
@pytest.mark.parametrize("solver", SHARE_SOLVERS)
def test_shares(benchmark: BenchmarkFixture, solver: str, kind: str, seed: int) -> None:
    """Time a max-min-share solver with model building; check its objective with another solver."""
    instance = share_instance(seed, kind)
    first, second = (solve(instance, name) for name in (solver, "lp-highs"))
    assert first.status is second.status is Status.OPTIMAL
    assert first.objective == pytest.approx(second.objective, rel=1e-6)
    called = partial(find_solver("heterogeneous", solver).solve, limits=Limits())
    timed(benchmark, partial(called, rng=generator(seed=0)), instance, rounds=3)


@cache
def fleet_instance(fleet: str, seed: int) -> Instance:
    """Return jobs with different rates and weights, in gangs of 32 to 256 GPUs, on a large fleet.

    The rates are Gavel's, each multiplied by a random factor between 1/2 and 2.
    """
    jobs, gpus_of_type = (sized(size, 24) for size in FLEETS[fleet])
    cluster = cluster_of(dict.fromkeys(TYPES, gpus_of_type))
    gangs = gavel_gangs(cluster, jobs, seed)
    factors = 2.0 ** np.random.default_rng(seed).uniform(-1, 1, (jobs, len(TYPES)))
    return Instance(
        name=f"fleet-{jobs}-jobs-seed{seed}",
        objective=Objective.MAX_MIN_SHARE,
        gpu_types=cluster.problem_types,
        servers=cluster.problem_servers(),
        jobs=tuple(
            replace(
                gang,
                gang=FLEET_GANG * gang.gang,
                weight=1 + number / jobs,
                throughput={
                    name: rate * factor
                    for (name, rate), factor in zip(
                        gang.throughput.items(), of_job.tolist(), strict=True
                    )
                },
            )
            for number, (gang, of_job) in enumerate(zip(gangs, factors, strict=True))
        ),
        round_s=ROUND_S,
    )


@cache
def fleet_optimum(fleet: str, seed: int) -> float:
    """Return the proved optimal level of a fleet."""
    best: Any = solve(fleet_instance(fleet, seed), "lp-sifting")
    assert best.status is Status.OPTIMAL
    return float(best.objective)


@pytest.mark.parametrize("seed", range(sized(3, 1)))
@pytest.mark.parametrize("fleet", FLEETS)
@pytest.mark.parametrize("solver", FLEET_SOLVERS)
def test_fleet_shares(benchmark: BenchmarkFixture, solver: str, fleet: str, seed: int) -> None:
    """Time max-min shares of a fleet, and record how far the level is below the optimum."""
    method = find_solver("heterogeneous", solver)
    method.load()
    called = partial(method.solve, limits=Limits(), rng=generator(seed=0))
    found: Any = timed(benchmark, called, fleet_instance(fleet, seed), warms_up=False)
    benchmark.extra_info |= {
        "below_optimum_percent": 100 * (1 - found.objective / fleet_optimum(fleet, seed)),
        "case": f"{solver}, {fleet}",
    }
