"""Small clusters and jobs for the tests of round policies."""

import numpy as np

import lyra_opt as lo
from lyra_opt.core.solver import find_solver
from lyra_opt.heterogeneous import GangJob, GpuServer, GpuType, Instance, check
from lyra_opt.heterogeneous.heuristics.policy import ActiveJob, RoundState
from lyra_opt.heterogeneous.heuristics.policy_solver import ROUND_POLICIES, run_policy


def job(name, steps, gang=1, **changes):
    """Return a job that does a step a second on type ``a``, unless told otherwise."""
    return GangJob(**{"id": name, "gang": gang, "steps": steps, "throughput": {"a": 1.0}} | changes)


def instance_of(servers, jobs, **changes):
    """Return an instance in rounds of a second, many of them, unless told otherwise."""
    types = sorted({name for gpus in servers for name in gpus})
    settings = {
        "gpu_types": tuple(GpuType(name=name) for name in types),
        "objective": "mean_jct",
        "round_s": 1.0,
        "horizon_rounds": 1_000,
    }
    return Instance(
        name="case",
        servers=tuple(GpuServer(id=f"s{n}", gpus=gpus) for n, gpus in enumerate(servers)),
        jobs=tuple(jobs),
        **settings | changes,
    )


def state_of(instance, **changes):
    """Return what a policy sees first of all jobs of an instance."""
    jobs = [
        ActiveJob(job=each, order=order, steps_left=each.steps, submitted_s=each.release_s)
        for order, each in enumerate(instance.jobs)
    ]
    settings = {"now_s": 0.0, "horizon_s": instance.horizon_s, "jobs": jobs} | changes
    return RoundState(
        gpu_types=instance.gpu_types, servers=instance.servers, round_s=instance.round_s, **settings
    )


def decided(policy, state):
    """Return the first decision of a policy."""
    policy.prepare(state, np.random.default_rng(0))
    return policy.decide(state)


def run(policy, instance):
    """Run a policy; its schedule is checked, but for jobs that do not complete."""
    made = ROUND_POLICIES[policy]() if isinstance(policy, str) else policy
    found = run_policy(made, instance, np.random.default_rng(0))
    violations = check(instance, found.schedule).violations
    assert [each for each in violations if "does not complete" not in each] == []
    return found


def running(found, number):
    """Return who runs in a round."""
    return {entry.job for entry in found.schedule.entries if entry.round == number}


def proved_optimum(instance):
    """Return the optimum by trying all schedules, or by CP-SAT where there are too many."""
    brute_force = find_solver("heterogeneous", "brute-force")
    name = "brute-force" if brute_force.supports(instance) is None else "cpsat"
    found = lo.solve(instance, name)
    assert found.status is lo.Status.OPTIMAL
    return found.objective
