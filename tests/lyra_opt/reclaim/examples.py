"""Instances of reclaiming that tests write by hand, a line per job."""

from collections.abc import Iterable, Mapping

from lyra_opt.reclaim import Instance, Job, Server, WorkerGroup

Workers = Iterable[str] | Mapping[str, int | tuple[int, int]]
"""Servers with one base worker each, or base workers (base and flexible workers) by server."""


def job_on(name, workers, **fields):
    """Return a job: ``job_on("j", "ab")``, or ``job_on("j", {"a": 2, "b": (1, 3)})``."""
    numbers = workers if isinstance(workers, Mapping) else dict.fromkeys(workers, 1)
    groups = []
    for server, number in numbers.items():
        base, flexible = number if isinstance(number, tuple) else (number, 0)
        groups.append(WorkerGroup(server=server, base=base, flexible=flexible))
    return Job(id=name, workers=tuple(groups), **fields)


def fleet(on_loan, *jobs, reclaim=1, off_loan=(), gpus=1000, **fields):
    """Return an instance, rigid unless told otherwise, whose servers have `gpus` GPUs each."""
    servers = [Server(id=name, gpus=gpus) for name in on_loan]
    servers += [Server(id=name, gpus=gpus, on_loan=False) for name in off_loan]
    settings = {"name": "by-hand", "semantics": "rigid"} | fields
    return Instance(servers=tuple(servers), jobs=jobs, reclaim_servers=reclaim, **settings)
