"""Small clusters and jobs for the tests of round policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.result import Limits, Status
from lyra_opt.core.solver import find_solver
from lyra_opt.heterogeneous import GangJob, GpuServer, GpuType, Instance, check
from lyra_opt.heterogeneous.heuristics.policy import ActiveJob, RoundState
from lyra_opt.heterogeneous.heuristics.policy_solver import ROUND_POLICIES, run_policy

if TYPE_CHECKING:
    from lyra_opt.core.result import SolveResult
    from lyra_opt.heterogeneous.heuristics.policy import Decision, RoundPolicy
    from lyra_opt.heterogeneous.heuristics.policy_solver import Run


def job(name: str, steps: float, gang: int = 1, **changes: Any) -> GangJob:
    """Return a job that does a step a second on type ``a``, unless told otherwise."""
    return GangJob(**{"id": name, "gang": gang, "steps": steps, "throughput": {"a": 1.0}} | changes)


def instance_of(servers: list[dict[str, int]], jobs: list[GangJob], **changes: Any) -> Instance:
    """Return an instance in rounds of a second, many of them, unless told otherwise."""
    types = sorted({name for gpus in servers for name in gpus})
    settings = {"objective": "mean_jct", "round_s": 1.0, "horizon_rounds": 1_000} | changes
    return Instance(
        name="case",
        gpu_types=tuple(GpuType(name=name) for name in types),
        servers=tuple(GpuServer(id=f"s{n}", gpus=gpus) for n, gpus in enumerate(servers)),
        jobs=tuple(jobs),
        **settings,
    )


def state_of(instance: Instance, **changes: Any) -> RoundState:
    """Return what a policy sees first of all jobs of an instance."""
    jobs = [
        ActiveJob(job=each, order=order, steps_left=each.steps, submitted_s=each.release_s)
        for order, each in enumerate(instance.jobs)
    ]
    settings = {"now_s": 0.0, "horizon_s": instance.horizon_s, "jobs": jobs} | changes
    return RoundState(
        gpu_types=instance.gpu_types,
        servers=instance.servers,
        round_s=instance.round_s,
        **settings,
    )


def decided(policy: RoundPolicy, state: RoundState) -> Decision:
    """Return the first decision of a policy."""
    policy.prepare(state, np.random.default_rng(0))
    return policy.decide(state)


def run(name: str, instance: Instance) -> Run:
    """Run a registered policy; its schedule is checked, but for jobs that do not complete."""
    found = run_policy(ROUND_POLICIES[name](), instance, np.random.default_rng(0))
    violations = [
        violation
        for violation in check(instance, found.schedule).violations
        if "does not complete" not in violation
    ]
    assert violations == []
    return found


def solved(name: str, instance: Instance) -> SolveResult[Any]:
    """Return what a registered solver says."""
    solver = find_solver("heterogeneous", name)
    assert solver.supports(instance) is None
    return solver.solve(instance, limits=Limits(), rng=np.random.default_rng(0))


def running(found: Run, number: int) -> set[str]:
    """Return who runs in a round."""
    return {entry.job for entry in found.schedule.entries if entry.round == number}


def proved_optimum(instance: Instance) -> float:
    """Return the optimum by trying all schedules, or by CP-SAT where there are too many."""
    brute_force = find_solver("heterogeneous", "brute-force")
    name = "brute-force" if brute_force.supports(instance) is None else "cpsat"
    found = solved(name, instance)
    assert found.status is Status.OPTIMAL
    assert found.objective is not None
    return found.objective
