"""Workloads by name: generators that ask for a cluster and a seed, and for nothing else.

`lyra_opt.registry` lists the built-in ones; other packages register theirs in the entry-point group
``lyra_opt.workloads``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, wraps
from inspect import signature
from typing import TYPE_CHECKING, Any

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
from lyra_opt.instances.network.jobs import (
    dally_batch,
    dally_distributed,
    dally_poisson,
)
from lyra_opt.instances.traces import TRACES_VARIABLE, locate
from lyra_opt.instances.workloads.load_shape import LoadShape
from lyra_opt.instances.workloads.lyra_like import (
    PUBLISHED_DAYS,
    lyra_like,
    lyra_shaped,
    lyra_testbed,
)
from lyra_opt.instances.workloads.pollux import POLLUX_FILES, pollux_jobs
from lyra_opt.instances.workloads.readers import read_workload
from lyra_opt.instances.workloads.transform import JobAssumptions
from lyra_opt.simulation.clairvoyant.gangs import Gangs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from lyra_opt.instances.heterogeneous.throughputs import ThroughputTable
    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.workload import Workload

GAVEL_LIKE_JOBS = 200
ARRIVALS_PER_HOUR_PER_GPU = 2 / 108
"""Two jobs an hour on Gavel's cluster: about as much work as it can do."""

_SHAPE = Settings(LoadShape)

NOTHING_ASSUMED = JobAssumptions(elastic_percent=0, fungible_percent=0)
"""Of what no public trace says: no job is elastic, fungible or heterogeneous."""


@dataclass(frozen=True)
class NamedWorkload(NamedMaker):
    """A generator of workloads: `make(cluster, seed)` returns the jobs.

    Arguments of `make` that may only be given by name are parameters that a scenario may set; but
    ``assumptions`` gets what the scenario assumes of jobs, which is drawn afterwards for generators
    that do not ask for it, and ``table`` its table of throughputs.

    Parameters
    ----------
    reads
        Traces that it looks for with `lyra_opt.instances.traces.locate`.
    gangs
        Returns the base demands of the same jobs as arrays, for the same arguments but for
        assumptions, much sooner; None where there is no such way.
    """

    reads: tuple[str, ...] = ()
    gangs: Callable[..., Gangs] | None = None

    @property
    def asks_for(self) -> tuple[str, ...]:
        """Names of what it can be given beside cluster and seed."""
        return tuple(
            each.name
            for each in signature(self.make).parameters.values()
            if each.kind is each.KEYWORD_ONLY and each.name != "seed"
        )

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of what may be set."""
        return tuple(name for name in self.asks_for if name not in ("assumptions", "table"))


WORKLOADS = Plugins("lyra_opt.workloads", "workload", NamedWorkload)
"""All workloads by name."""


def gangs_of(workload: Workload) -> Gangs:
    """Return the base demands of jobs as arrays, on GPUs of speed 1."""
    rows = [(job.submit_s, job.duration_s, job.min_gpus) for job in workload.jobs]
    return Gangs.of(*zip(*rows, strict=True))


def find_workload(name: str) -> NamedWorkload:
    """Return the workload called `name`; `UserError` that names all if there is none."""
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
    """Return jobs by the rules of Gavel's generator.

    Parameters
    ----------
    cluster
        For whose GPUs they get rates.
    seed
        Of the draws.
    jobs
        How many; None for `GAVEL_LIKE_JOBS`.
    arrivals_per_hour
        0 submits all at once; None is in proportion to the GPUs.
    high_priority_percent, slo_percent
        Shares of the jobs with weight 5, and with a deadline.
    table
        Of throughputs; None for Gavel's.
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
    """Return a generator that takes the cluster, as `NamedWorkload` asks, and ignores it."""

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
            f"workload hadar-480 draws from the trace {PHILLY_TRACE}, which is neither here nor in "
            f"the folder that {TRACES_VARIABLE} names; with jobs.parameters.stand_in_days=15 it "
            "draws from generated jobs"
        )
    return hadar_480(source, seed=seed, gpu_types=cluster.gpu_types, jobs=jobs)


@lru_cache(maxsize=1)
def _trace(path: Path) -> Workload:
    """Return a trace, kept because many draws share it."""
    return read_workload(path)


def _named_mix(jobs: int) -> NamedWorkload:
    def make(cluster: Cluster, seed: int) -> Workload:  # noqa: ARG001
        return mix(jobs, gpu_types=cluster.gpu_types)

    count = "a job" if jobs == 1 else f"{jobs} jobs at once"
    return NamedWorkload(f"mix-{jobs}", f"{count}, of a GPU each, as for HadarE", make)


def _pollux(cluster: Cluster, seed: int, *, number: int = 1) -> Workload:  # noqa: ARG001
    return pollux_jobs(number)


LYRA_LIKE = NamedWorkload(
    "lyra-like",
    "the published figures of Lyra's trace, for as many training GPUs",
    _lyra_like,
    gangs=_lyra_gangs,
)
LYRA_TESTBED = NamedWorkload(
    "lyra-testbed",
    "180 jobs of 2 minutes to 2 hours within 8 hours, as for Lyra's testbed",
    lyra_testbed,
)
GAVEL_LIKE = NamedWorkload("gavel-like", "rules of Gavel's generator", gavel_like_for)
POLLUX = NamedWorkload(
    "pollux",
    f"160 jobs within 8 hours, of Pollux's simulations; its artifact's {POLLUX_FILES[0]} to "
    f"{POLLUX_FILES[-1]} must be here or in the folder that {TRACES_VARIABLE} names",
    _pollux,
    reads=POLLUX_FILES,
)
HADAR_480 = NamedWorkload(
    "hadar-480",
    "480 jobs of the Philly trace by class of GPU time; "
    f"{PHILLY_TRACE} must be here or in the folder that {TRACES_VARIABLE} names",
    _hadar_480,
    reads=(PHILLY_TRACE,),
)
MIX_1, MIX_3, MIX_4, MIX_5, MIX_8, MIX_10, MIX_12 = map(_named_mix, MIX_SIZES)
DALLY_BATCH = NamedWorkload(
    "dally-batch", "500 jobs at once, with the numbers of Dally's", for_any_cluster(dally_batch)
)
DALLY_POISSON = NamedWorkload(
    "dally-poisson",
    "the jobs of dally-batch, one after the other",
    for_any_cluster(dally_poisson),
)
DALLY_DISTRIBUTED = NamedWorkload(
    "dally-distributed",
    "411 gangs of several GPUs, with the numbers of Dally's",
    for_any_cluster(dally_distributed),
)
