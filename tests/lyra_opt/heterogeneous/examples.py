"""Small instances that tests of the heterogeneous problem share."""

from lyra_opt.heterogeneous import GangJob, GpuServer, GpuType, Instance
from lyra_opt.heterogeneous.instance import RoundEntry, RoundSchedule

TYPES = (GpuType(name="fast"), GpuType(name="slow"))
SERVERS = (GpuServer(id="s1", gpus={"fast": 2, "slow": 1}), GpuServer(id="s2", gpus={"slow": 2}))
RATES = {"fast": 4.0, "slow": 1.0}


def job(name="a", gang=1, steps=8.0, **fields):
    """Return a job of 4 steps a second on fast GPUs, 1 on slow ones."""
    return GangJob(**{"id": name, "gang": gang, "steps": steps, "throughput": RATES, **fields})


def instance(*jobs, **fields):
    """Return an instance on 2 fast and 3 slow GPUs, with 4 rounds of a second."""
    return Instance(
        **{
            "name": "example",
            "objective": "utility",
            "gpu_types": TYPES,
            "servers": SERVERS,
            "jobs": jobs or (job(),),
            "round_s": 1.0,
            "horizon_rounds": 4,
            **fields,
        }
    )


def entry(name, number, **gpus):
    """Return an entry: ``entry("a", 0, s1={"fast": 2})``."""
    return RoundEntry(job=name, round=number, gpus=gpus)


def schedule(*entries):
    """Return a schedule."""
    return RoundSchedule(entries)
