"""Every registered solver, through one conformance suite."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from instances.family import generate
from lyra_opt.core.problem import find_problem
from lyra_opt.core.solver import find_solver, solver_names
from lyra_opt.core.solving import solve_and_check
from lyra_opt.testing.conformance import assert_conforms
from tests.lyra_opt.allocation.reference import best_allocation
from tests.lyra_opt.reclaim import reference

if TYPE_CHECKING:
    from lyra_opt.allocation import AllocationInstance, WorkerAllocation
    from lyra_opt.core.solving import Answer
    from lyra_opt.heterogeneous.instance import HeterogeneousInstance
    from lyra_opt.network.instance import NetworkInstance
    from lyra_opt.reclaim import ReclaimInstance, ReclaimSolution

RECLAIM_CASES = [
    *(
        {"family": family, "servers": 9, "reclaim": reclaim, "semantics": semantics}
        for family, reclaim, semantics in product(
            ("messy-dist", "rnd-trace", "hyp8"), (0, 3, 9), ("rigid", "interchangeable")
        )
        if reclaim == 3 or family == "messy-dist"
    ),
    *(
        {
            "family": "messy-dist",
            "servers": 12,
            "reclaim": 4,
            "semantics": semantics,
            "off_loan_percent": 30,
        }
        for semantics in ("rigid", "interchangeable")
    ),
    {"family": "grid", "servers": 9, "reclaim": 4},
    {"family": "decoy", "reclaim": 1},
]


def _case_name(case: dict[str, object]) -> str:
    return "-".join(str(value) for value in case.values())


@pytest.fixture(scope="module", params=RECLAIM_CASES, ids=_case_name)
def reclaim_case(request: pytest.FixtureRequest) -> tuple[ReclaimInstance, ReclaimSolution]:
    """A small instance and an optimal solution by looking at every choice."""
    instance = generate("reclaim", seed=1, **request.param)
    choices = reference.all_choices(instance)
    return instance, min(choices, key=lambda choice: reference.objective(instance, choice))


@pytest.mark.parametrize("name", [name for _, name in solver_names("reclaim")])
def test_reclaim_solver_conforms(
    name: str, reclaim_case: tuple[ReclaimInstance, ReclaimSolution]
) -> None:
    """Proofs, claims, seeds, warm starts and limits, as `assert_conforms` lists them."""
    instance, best = reclaim_case
    assert_conforms(
        find_solver("reclaim", name),
        find_problem("reclaim"),
        instance,
        optimum=reference.objective(instance, best),
        best_solution=best,
    )


ONE_SHOT = ("jct_reduction", "two_phase", "joint")
ALLOCATION_CASES = [
    *(
        {"family": "load", "jobs": 4, "objective": objective, **parameters}
        for objective, parameters in product(
            (*ONE_SHOT, "mean_jct"),
            (
                {"load_percent": 60},
                {"load_percent": 400, "gpus_per_worker": "mixed"},
                {"load_percent": 200, "scaling_loss_percent": 20, "release_percent": 100},
            ),
        )
    ),
    *({"family": "light", "jobs": 4, "objective": kind} for kind in (*ONE_SHOT, "mean_jct")),
    *(
        {"family": "load", "jobs": 3, "objective": objective, "extra_workers": 0}
        for objective in ONE_SHOT
    ),
    {"family": "load", "jobs": 3, "objective": "two_phase", "gpus": 1, "gpus_per_worker": "2"},
    {"family": "worst-case", "jobs": 4},
]


@pytest.fixture(scope="module", params=ALLOCATION_CASES, ids=_case_name)
def allocation_case(
    request: pytest.FixtureRequest,
) -> tuple[AllocationInstance, WorkerAllocation | None, float | None]:
    """A small instance and, of a one-shot one, an optimal solution by looking at every choice."""
    instance = generate("allocation", seed=1, **request.param)
    if instance.objective == "mean_jct":
        return instance, None, None
    return instance, *best_allocation(instance)


@pytest.mark.parametrize("name", [name for _, name in solver_names("allocation")])
def test_allocation_solver_conforms(
    name: str, allocation_case: tuple[AllocationInstance, WorkerAllocation | None, float | None]
) -> None:
    """The same rules, with objectives in seconds, one of them maximised."""
    instance, best, optimum = allocation_case
    assert_conforms(
        find_solver("allocation", name),
        find_problem("allocation"),
        instance,
        optimum=optimum,
        best_solution=best,
    )


def _two_gangs(objective: str, **fields: object) -> HeterogeneousInstance:
    """Two gangs, one of which may be on several servers, and a job that comes later."""
    is_one_round = objective == "round_progress"
    return find_problem("heterogeneous").parse_instance(
        {
            "format": "lyra-opt/heterogeneous",
            "version": 1,
            "name": f"two-gangs-{objective}",
            "objective": objective,
            "gpu_types": [{"name": "fast", "price_per_hour": 3.0}, {"name": "slow"}],
            "servers": [
                {"id": "s1", "gpus": {"fast": 2}},
                {"id": "s2", "gpus": {"fast": 1, "slow": 2}},
            ],
            "jobs": [
                {
                    "id": "spread",
                    "gang": 2,
                    "steps": 350.0,
                    "throughput": {"fast": 2.0, "slow": 1.0},
                    "spread_throughput": {"fast": 1.5, "slow": 0.75},
                },
                {"id": "small", "gang": 1, "steps": 150.0, "throughput": {"fast": 1.0}},
                {
                    "id": "later",
                    "gang": 1,
                    "steps": 300.0,
                    "throughput": {"fast": 1.0, "slow": 0.5},
                    "release_s": 0.0 if is_one_round or "share" in objective else 50.0,
                    "weight": 2.0,
                },
            ],
            "round_s": 100.0,
            "horizon_rounds": 1 if is_one_round else 4,
            **fields,
        }
    )


ROUND_OBJECTIVES = ("utility", "makespan", "mean_jct", "round_progress")
HETEROGENEOUS_CASES = [
    *((objective, forking) for objective in ROUND_OBJECTIVES for forking in (False, True)),
    *(
        (objective, False)
        for objective in ("max_min_share", "finish_time_fairness", "throughput", "cost")
    ),
]


@pytest.fixture(scope="module", params=HETEROGENEOUS_CASES, ids=str)
def heterogeneous_case(
    request: pytest.FixtureRequest,
) -> tuple[HeterogeneousInstance, Answer | None]:
    """A small instance and, of one in rounds, the best of all schedules."""
    objective, forking = request.param
    instance = _two_gangs(objective, **({"forking": True} if forking else {}))
    if objective not in ROUND_OBJECTIVES:
        return instance, None
    solver = find_solver("heterogeneous", "brute-force")
    return instance, solve_and_check(find_problem("heterogeneous"), instance, solver)


@pytest.mark.parametrize("name", [name for _, name in solver_names("heterogeneous")])
def test_heterogeneous_solver_conforms(
    name: str, heterogeneous_case: tuple[HeterogeneousInstance, Answer | None]
) -> None:
    """The same rules, of schedules in rounds and of shares of time."""
    instance, best = heterogeneous_case
    assert_conforms(
        find_solver("heterogeneous", name),
        find_problem("heterogeneous"),
        instance,
        optimum=None if best is None else best.objective,
        best_solution=None if best is None else best.solution,
    )


def _beside_a_busy_cluster(objective: str, **waiting: object) -> NetworkInstance:
    """Two racks, five gangs: one gains by spanning racks, two wait as long as `waiting` says."""
    falling = {"machine": 0.98, "rack": 0.9, "network": 0.7}
    return find_problem("network").parse_instance(
        {
            "format": "lyra-opt/network-placement",
            "version": 1,
            "name": f"busy-{objective}",
            "objective": objective,
            "machines": [
                {"id": f"r{rack}m{machine}", "rack": f"r{rack}", "gpus": 4, "free_gpus": free}
                for rack, machine, free in ((0, 0, 3), (0, 1, 2), (1, 0, 4), (1, 1, 1), (1, 2, 0))
            ],
            "jobs": [
                {"id": "hurt", "gang": 4, "efficiency": falling, "score": 0.2, **waiting},
                {
                    "id": "wide",
                    "gang": 2,
                    "efficiency": {"machine": 0.6, "rack": 0.4, "network": 0.9},
                    "score": 0.6,
                },
                {"id": "small", "gang": 1, "efficiency": {"machine": 1.0}, "weight": 2.0},
                {"id": "large", "gang": 5, "efficiency": falling, "score": 0.9, **waiting},
                {"id": "rack-only", "gang": 2, "efficiency": {"rack": 0.5}, "remaining_s": 60.0},
            ],
        }
    )


NETWORK_CASES = [
    ("epoch", 0.0),
    ("epoch", 3600.0),
    ("work_rate", 0.0),
    ("fewest_tiers", 3600.0),
    ("least_fragmentation", 0.0),
]


@pytest.fixture(scope="module", params=NETWORK_CASES, ids=str)
def network_case(request: pytest.FixtureRequest) -> tuple[NetworkInstance, Answer]:
    """A small instance, with timers that bind or that are over, and the best of all placements."""
    objective, timer_s = request.param
    timers = {"waiting_s": 1800.0, "rack_timer_s": timer_s, "network_timer_s": timer_s}
    instance = _beside_a_busy_cluster(objective, **timers)
    solver = find_solver("network", "brute-force")
    return instance, solve_and_check(find_problem("network"), instance, solver)


@pytest.mark.parametrize("name", [name for _, name in solver_names("network")])
def test_network_solver_conforms(name: str, network_case: tuple[NetworkInstance, Answer]) -> None:
    """The same rules, of gangs that start close together, or do not yet start."""
    instance, best = network_case
    assert_conforms(
        find_solver("network", name),
        find_problem("network"),
        instance,
        optimum=best.objective,
        best_solution=best.solution,
    )
