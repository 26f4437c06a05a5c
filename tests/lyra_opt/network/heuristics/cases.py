"""Small clusters and gangs that tests of placement policies share."""

from dataclasses import replace

import numpy as np

from lyra_opt.network.checker import check
from lyra_opt.network.heuristics.policy_solver import solution_of, state_of
from lyra_opt.network.instance import Instance, Machine, WaitingJob

LEASE_S = 3600.0
ALL_TIERS = {"machine": 0.9, "rack": 0.6, "network": 0.3}


def gang(gpus, name="x", **fields):
    """Return a gang that can run at every tier, slower the further apart."""
    efficiency = {"machine": 1.0} if gpus == 1 else ALL_TIERS
    return WaitingJob(**{"id": name, "gang": gpus, "efficiency": efficiency, **fields})


def instance_of(racks, jobs, *, gpus=8, **fields):
    """Return an instance whose racks have machines with so many free GPUs of `gpus`."""
    machines = [
        Machine(id=f"r{rack}m{number}", rack=f"r{rack}", gpus=gpus, free_gpus=free)
        for rack, counts in enumerate(racks)
        for number, free in enumerate(counts)
    ]
    return Instance(
        **{
            "name": "example",
            "objective": "work_rate",
            "machines": tuple(machines),
            "jobs": tuple(jobs),
            **fields,
        }
    )


def epoch_of(racks, *jobs, gpus=8):
    """Return what a policy sees of such a cluster; leases last an hour."""
    return state_of(instance_of(racks, jobs, gpus=gpus))


def state_for(racks, *jobs, gpus=8):
    """Return the state alone."""
    return epoch_of(racks, *jobs, gpus=gpus).state


def decided(policy, state):
    """Return tier and GPUs by id of who starts, in the order in which the policy says so."""
    policy.prepare(state.machines, state.lease_s, np.random.default_rng(0))
    return {
        state.waiting.ids[grant.job]: (grant.tier.label, grant.gpus)
        for grant in policy.decide(state)
    }


def without_timers(instance):
    """Return the instance with all timers over."""
    jobs = tuple(replace(job, rack_timer_s=0.0, network_timer_s=0.0) for job in instance.jobs)
    return replace(instance, jobs=jobs)


def assert_valid(instance, epoch, grants):
    """Assert what the checker asks of a decision, timers left out."""
    assert check(without_timers(instance), solution_of(instance, epoch, grants)).violations == ()
