"""The figures of gangs in a network of tiers: one decision, proofs, and whole simulations."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.experiments.bench.replays import lease_figures
from lyra_opt.experiments.bench.timing import Figure, decision_figure
from lyra_opt.experiments.bench.trials import interleaved, proved_within
from lyra_opt.instances.network.epoch import epoch_instance
from lyra_opt.network.heuristics.policy_solver import PLACEMENT_POLICIES, state_of
from lyra_opt.simulation.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lyra_opt.network.heuristics.policy import PlacementState

LARGE = Topology.uniform(racks=64, machines_per_rack=8)
WAITING = 500
RUNS = 5
LEASE_S = 3600.0
DECISION_TARGETS_S = {"dally": 5e-3, "priced-placement": 10e-3}

MIDDLE = Topology.uniform(racks=8, machines_per_rack=8)
PROVED_JOBS = 40
PROOF_TARGET_S = 5.0
PROVING = ("cpsat-patterns", "mathopt-highs-patterns", "pulp-highs-patterns", "cpsat")


def network_figures(seeds: int) -> Iterator[Figure]:
    """Measure all of them."""
    yield from decision_figures(seeds)
    yield from proof_figures(seeds)
    yield from lease_figures()


def decision_figures(seeds: int) -> Iterator[Figure]:
    """Time the decision of each rule; nothing that it remembers of another one helps it."""
    for busy_percent in (0, 60, 95):
        states = [
            state_of(
                epoch_instance(LARGE, jobs=WAITING, seed=seed, busy_percent=busy_percent)
            ).state
            for seed in range(seeds)
        ]
        for name in PLACEMENT_POLICIES:
            yield decision_figure(
                f"{name}, {LARGE.gpus:,} GPUs, {busy_percent} % of them busy, {WAITING} waiting",
                partial(_decide_once, name),
                states,
                runs=RUNS,
                target_s=DECISION_TARGETS_S.get(name),
            )


def _decide_once(name: str, state: PlacementState) -> None:
    policy = PLACEMENT_POLICIES[name]()
    policy.prepare(state.machines, LEASE_S, np.random.default_rng(0))
    policy.decide(state)


def proof_figures(seeds: int) -> Iterator[Figure]:
    """Measure proofs of the epoch's optimum, with and without timers."""
    cases: tuple[tuple[str, dict[str, Any]], ...] = (
        ("timers of 6 and 12 hours", {}),
        ("timers 0", {"timers_s": None}),
    )
    for label, timers in cases:
        instances = [
            epoch_instance(MIDDLE, jobs=PROVED_JOBS, seed=seed, **timers) for seed in range(seeds)
        ]
        what = f"epoch, {MIDDLE.machines} machines, {PROVED_JOBS} waiting, {label}"
        runs = interleaved(what, "network", PROVING, instances, limit_s=PROOF_TARGET_S)
        for name in PROVING:
            yield proved_within(f"{name}, {what}", runs[runs.solver == name], PROOF_TARGET_S)
