"""Workloads by name: generators of jobs for a given cluster and seed.

`lyra_opt.registry` lists the built-in workloads; other packages register workloads in the
entry-point group ``lyra_opt.workloads``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, wraps
from inspect import signature
from pathlib import Path
from typing import Any

from lyra_opt.core.errors import UserError
from lyra_opt.core.fields import Settings
from lyra_opt.core.plugins import NamedMaker, Plugins
from lyra_opt.instances.heterogeneous.generated_jobs import (
    HADAR_JOBS,
    MIX_SIZES,
    PHILLY_TRACE,
    gavel_like,
    hadar_480,
    mix,
)
from lyra_opt.instances.heterogeneous.throughputs import ThroughputTable
from lyra_opt.instances.network.jobs import dally_batch, dally_distributed, dally_poisson
from lyra_opt.instances.traces import TRACES_VARIABLE, locate, not_there
from lyra_opt.instances.workloads.load_shape import LoadShape
from lyra_opt.instances.workloads.lyra_like import (
    PUBLISHED_DAYS,
    lyra_like,
    lyra_shaped,
    lyra_testbed,
)
from lyra_opt.instances.workloads.openb_like import LONGEST_H, OPENB_JOBS, OPENB_PODS, openb_like
from lyra_opt.instances.workloads.pollux import POLLUX_FILES, pollux_jobs
from lyra_opt.instances.workloads.readers import read_workload
from lyra_opt.instances.workloads.transform import JobAssumptions
from lyra_opt.simulation.clairvoyant.gangs import Gangs
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.workload import Workload

GAVEL_LIKE_JOBS = 200
ARRIVALS_PER_HOUR_PER_GPU = 2 / 108
"""Two jobs per hour on Gavel's 108 GPUs, which is about the capacity of the cluster."""

_SHAPE = Settings(LoadShape)

NOTHING_ASSUMED = JobAssumptions(elastic_percent=0, fungible_percent=0)
"""The assumptions under which no job is elastic, fungible or heterogeneous."""


@dataclass(frozen=True)
class NamedWorkload(NamedMaker):
    """A registered generator of workloads, whose `make(cluster, seed)` returns the jobs.

    Keyword-only arguments of `make` are parameters that a scenario may set, with two exceptions.
    ``assumptions`` receives the scenario's assumptions on jobs; they are applied afterwards if
    `make` lacks the argument. ``table`` receives the scenario's throughput table.

    Parameters
    ----------
    reads
        The trace files that the generator reads, found by `lyra_opt.instances.traces.locate`.
    gangs
        A faster function that returns only the base demands of the jobs, as arrays. It takes the
        arguments of `make` except assumptions. None if there is no such function.
    """

    reads: tuple[str, ...] = ()
    gangs: Callable[..., Gangs] | None = None

    @property
    def asks_for(self) -> tuple[str, ...]:
        """Names of the keyword-only arguments of `make`, except ``seed``."""
        return tuple(
            each.name
            for each in signature(self.make).parameters.values()
            if each.kind is each.KEYWORD_ONLY and each.name != "seed"
        )

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters that a scenario may set."""
        return tuple(name for name in self.asks_for if name not in ("assumptions", "table"))


WORKLOADS = Plugins("lyra_opt.workloads", "workload", NamedWorkload)
"""All registered workloads by name."""


def gangs_of(workload: Workload) -> Gangs:
    """Return submission time, running time and base demand of all jobs, on GPUs of speed 1.

    Raises
    ------
    UserError
        If a job asks for part of a GPU.
    """
    if (sliced := next((job for job in workload.jobs if job.is_slice), None)) is not None:
        raise UserError(
            f"workload {workload.name}: job {sliced.id} asks for part of a GPU, but here only "
            "whole GPUs count; use a workload without such jobs"
        )
    rows = [(job.submit_s, job.duration_s, job.min_gpus) for job in workload.jobs]
    return Gangs.of(*zip(*rows, strict=True))


def find_workload(name: str) -> NamedWorkload:
    """Return the workload with this name; `UserError` if the name is unknown."""
    workload: NamedWorkload = WORKLOADS.find(name)
    return workload


def gavel_like_for(
    cluster: Cluster,
    seed: int,
    *,
    jobs: int | None = None,
    arrivals_per_hour: float | None = None,
    high_priority_percent: int = 0,
    slo_percent: int = 0,
    table: ThroughputTable | None = None,
) -> Workload:
    """Return jobs by the rules of Gavel's generator, with rates for the GPUs of a cluster.

    Parameters
    ----------
    cluster
        The cluster; jobs get rates on its GPU types.
    seed
        The random seed.
    jobs
        The number of jobs; None for `GAVEL_LIKE_JOBS`.
    arrivals_per_hour
        The arrival rate. 0 submits all jobs at once; None is 2/108 per GPU.
    high_priority_percent, slo_percent
        The percentages of jobs with weight 5, and with a deadline.
    table
        The throughput table; None for Gavel's.
    """
    if arrivals_per_hour is None:
        arrivals_per_hour = ARRIVALS_PER_HOUR_PER_GPU * cluster.gpus
    return gavel_like(
        jobs=GAVEL_LIKE_JOBS if jobs is None else jobs,
        seed=seed,
        gpu_types=cluster.gpu_types,
        arrivals_per_hour=arrivals_per_hour or None,
        high_priority_percent=high_priority_percent,
        slo_percent=slo_percent,
        table=table,
    )


def _lyra_like(
    cluster: Cluster,
    seed: int,
    *,
    days: int = PUBLISHED_DAYS,
    jobs: int | None = None,
    shape: Mapping[str, int] | None = None,
    assumptions: JobAssumptions | None = None,
) -> Workload:
    return lyra_like(
        days=days,
        seed=seed,
        training_gpus=cluster.gpus,
        jobs=jobs,
        assumptions=assumptions or NOTHING_ASSUMED,
        shape=None if shape is None else _SHAPE.check("shape", shape),
    )


def _lyra_gangs(
    cluster: Cluster,
    seed: int,
    *,
    days: int = PUBLISHED_DAYS,
    jobs: int | None = None,
    shape: Mapping[str, int] | None = None,
) -> Gangs:
    if shape is None:
        return gangs_of(_lyra_like(cluster, seed, days=days, jobs=jobs))
    found = lyra_shaped(
        _SHAPE.check("shape", shape), days=days, seed=seed, training_gpus=cluster.gpus, jobs=jobs
    )
    return Gangs.of(found.submit_ms / 1000, found.duration_ms / 1000, found.gpus)


def for_any_cluster(generate: Callable[..., Workload]) -> Callable[..., Workload]:
    """Wrap a workload generator so that it takes a cluster as its first argument and ignores it."""

    @wraps(generate)
    def make(cluster: Cluster, seed: int, **parameters: Any) -> Workload:  # noqa: ARG001
        return generate(seed=seed, **parameters)

    return make


def _hadar_480(
    cluster: Cluster, seed: int, *, jobs: int = HADAR_JOBS, stand_in_days: int = 0
) -> Workload:
    path = locate(PHILLY_TRACE)
    if path.is_file():
        source = _trace(path)
    elif stand_in_days:
        source = lyra_like(days=stand_in_days)
    else:
        raise UserError(
            f"workload hadar-480 draws from the trace {PHILLY_TRACE}, which is {not_there()}; set "
            "jobs.parameters.stand_in_days=15 to draw from generated jobs"
        )
    return hadar_480(source, seed=seed, gpu_types=cluster.gpu_types, jobs=jobs)


def _openb_like(
    cluster: Cluster, seed: int, *, jobs: int = OPENB_JOBS, longest_h: float = LONGEST_H
) -> Workload:
    path = locate(OPENB_PODS)
    pods = _trace(path) if path.is_file() else None
    return openb_like(seed=seed, gpus=cluster.gpus, jobs=jobs, longest_h=longest_h, pods=pods)


@lru_cache(maxsize=1)
def _trace(path: Path) -> Workload:
    """Return the workload of a trace, cached because several seeds use the same trace."""
    return read_workload(path)


def _named_mix(jobs: int) -> NamedWorkload:
    def make(cluster: Cluster, seed: int) -> Workload:  # noqa: ARG001
        return mix(jobs, gpu_types=cluster.gpu_types)

    count = "one job on one GPU" if jobs == 1 else f"{jobs} one-GPU jobs submitted at once"
    return NamedWorkload(f"mix-{jobs}", f"{count}, like HadarE's mixes", make)


def _pollux(cluster: Cluster, seed: int, *, number: int = 1) -> Workload:  # noqa: ARG001
    return pollux_jobs(number)


LYRA_LIKE = NamedWorkload(
    "lyra-like",
    "jobs with the published statistics of Lyra's trace, scaled to the training GPUs",
    _lyra_like,
    gangs=_lyra_gangs,
)
LYRA_TESTBED = NamedWorkload(
    "lyra-testbed",
    "180 jobs of 2 minutes to 2 hours, submitted within 8 hours, as for Lyra's testbed",
    lyra_testbed,
)
GAVEL_LIKE = NamedWorkload("gavel-like", "jobs by the rules of Gavel's generator", gavel_like_for)
POLLUX = NamedWorkload(
    "pollux",
    f"160 jobs within 8 hours, from Pollux's simulations; needs {POLLUX_FILES[0]} to "
    f"{POLLUX_FILES[-1]} of its artifact in the working folder or in the folder that "
    f"{TRACES_VARIABLE} names",
    _pollux,
    reads=POLLUX_FILES,
)
HADAR_480 = NamedWorkload(
    "hadar-480",
    "480 jobs of the Philly trace, drawn by class of GPU time; needs "
    f"{PHILLY_TRACE} in the working folder or in the folder that {TRACES_VARIABLE} names",
    _hadar_480,
    reads=(PHILLY_TRACE,),
)
OPENB_LIKE = NamedWorkload(
    "openb-like",
    f"{OPENB_JOBS:,} jobs with the mix of Alibaba's openb, 41 % of which ask for part of "
    f"a GPU; drawn from {OPENB_PODS} if that is in the working folder or in the folder that "
    f"{TRACES_VARIABLE} names, else from its published mix",
    _openb_like,
    reads=(OPENB_PODS,),
)
MIX_1, MIX_3, MIX_4, MIX_5, MIX_8, MIX_10, MIX_12 = map(_named_mix, MIX_SIZES)
DALLY_BATCH = NamedWorkload(
    "dally-batch", "Dally's batch set: 500 jobs, submitted at once", for_any_cluster(dally_batch)
)
DALLY_POISSON = NamedWorkload(
    "dally-poisson",
    "the jobs of dally-batch, submitted by a Poisson process",
    for_any_cluster(dally_poisson),
)
DALLY_DISTRIBUTED = NamedWorkload(
    "dally-distributed",
    "Dally's distributed set: 411 gangs of several GPUs, submitted by a Poisson process",
    for_any_cluster(dally_distributed),
)
