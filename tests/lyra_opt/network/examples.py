"""Small instances that tests of the network problem share."""

from lyra_opt.network.instance import GangPlacement, Instance, Machine, Solution, WaitingJob

EFFICIENCY = {"machine": 1.0, "rack": 0.5, "network": 0.25}
MACHINES = tuple(
    Machine(id=name, rack=name[:2], gpus=4, free_gpus=free)
    for name, free in (("r0m0", 4), ("r0m1", 2), ("r1m0", 4), ("r1m1", 0))
)
"""Two racks of two machines of 4 GPUs; 10 GPUs are free."""


def job(name="a", gang=2, **fields):
    """Return a gang that computes all the time, half of it or a quarter of it, by tier."""
    tiers = EFFICIENCY if gang > 1 else {"machine": 1.0}
    return WaitingJob(**{"id": name, "gang": gang, "efficiency": tiers, **fields})


def instance(*jobs, **fields):
    """Return an instance on two racks with 6 and 4 GPUs free."""
    return Instance(
        **{
            "name": "example",
            "objective": "work_rate",
            "machines": MACHINES,
            "jobs": jobs or (job(),),
            **fields,
        }
    )


def placement(name, tier, **gpus):
    """Return a placement: ``placement("a", "rack", r0m0=1, r0m1=1)``."""
    return GangPlacement(job=name, tier=tier, gpus=gpus)


def solution(*placements):
    """Return a solution."""
    return Solution(placements)
