"""What a simulation on a network of tiers is of: workload, cluster and options."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from experiments.simulation.measures import counted
from lyra_opt.errors import UserError
from lyra_opt.simulation.leases.network_schemes import ELASTIC, LEASES
from lyra_opt.simulation.leases.setup import NetworkCluster

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from lyra_opt.simulation.leases.network_schemes import NetworkOptions, NetworkScheme
    from lyra_opt.simulation.leases.setup import NetworkWorkload

BATCH, POISSON, DISTRIBUTED = "dally-batch", "dally-poisson", "dally-distributed"
DEFAULT_JOBS_PER_DAY = 100.0
"""Of ``dally-poisson``: the busiest of the published rates."""

HOUR_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSetup:
    """What is simulated, whatever the scheme.

    Parameters
    ----------
    workload
        What is submitted.
    cluster
        Where it runs.
    options
        How the engines behave.
    dropped
        Jobs larger than the cluster that were left out.
    """

    workload: NetworkWorkload
    cluster: NetworkCluster
    options: NetworkOptions
    dropped: int = 0

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is assumed of jobs and cluster, a sentence each."""
        return (*self.workload.assumptions, *self.cluster.assumptions)

    def engine_in_words(self, scheme: NetworkScheme) -> str:
        """Return how a scheme is simulated, the same sentence for all that share an engine."""
        leases, rounds = self.options.leases, self.options.rounds
        if scheme.engine == LEASES:
            return (
                "Simulated, schemes with leases (after Dally's public simulator): a gang gives all "
                f"its GPUs back after {leases.lease_s:g} s and competes again; released GPUs stay "
                f"idle for {leases.hand_over_s_per_gpu:g} s for each GPU of the gang. Ours: time "
                "is continuous, and a scheme is asked again when one of its timers runs out."
            )
        if scheme.engine == ELASTIC:
            return (
                "Simulated, schemes in the manner of Lyra: gangs run to completion where best fit "
                "puts them, which looks at no racks; there are no elastic jobs and no loans, and "
                "nothing is handed over."
            )
        return (
            f"Simulated, schemes that decide in rounds of {rounds.round_s:g} s: a gang that starts "
            f"or moves loses {rounds.restart_s:g} s. A scheme knows two speeds of a gang, on one "
            "machine and on several, the latter that of the nearest tier; it runs at the speed of "
            "where it is placed."
        )

    @property
    def expected_makespan_s(self) -> float:
        """A lower bound of the makespan, from which progress is estimated."""
        jobs = self.workload.jobs
        first_s = jobs[0].submit_s
        best_s = [job.ideal_s / self._best_efficiency(job.model, job.gang) for job in jobs]
        latest_s = max(job.submit_s + time_s for job, time_s in zip(jobs, best_s, strict=True))
        work_gpu_s = math.fsum(job.gang * time_s for job, time_s in zip(jobs, best_s, strict=True))
        return max(latest_s - first_s, work_gpu_s / self.cluster.topology.gpus)

    def _best_efficiency(self, model: str, gang: int) -> float:
        cluster = self.cluster
        return max(cluster.communication.tier_efficiency(model, gang, cluster.topology))

    @property
    def demand_in_words(self) -> str:
        """How much is asked of the cluster, on one line."""
        jobs, topology = self.workload.jobs, self.cluster.topology
        span_h = (jobs[-1].submit_s - jobs[0].submit_s) / HOUR_S
        when = f"over {span_h:,.1f} hours" if span_h > 0 else "at one moment"
        asks = "asks" if len(jobs) == 1 else "ask"
        return (
            f"{counted(len(jobs), 'job')} {when} {asks} for "
            f"{self.workload.gpu_work_s / HOUR_S:,.1f} GPU hours of computing of "
            f"{counted(topology.gpus, 'GPU')} ({topology.name}, network {self.cluster.network})"
        )


def make_cluster(
    path: str | Path,
    *,
    network: str | None = None,
    slowdowns: str | Path | None = None,
    overlap: float | None = None,
) -> NetworkCluster:
    """Return a cluster and how its links work out.

    Parameters
    ----------
    path
        TOML file with the racks.
    network
        Name of the links that take the place of the file's; None leaves those.
    slowdowns
        CSV file with measured slowdowns in place of the closed form over links.
    overlap
        Of the closed form; see `lyra_opt.network.communication.ClosedForm`.

    Raises
    ------
    UserError
        If a file is wrong, there are no such links, or links are given beside slowdowns.
    """
    from lyra_opt.network.communication import ClosedForm, read_slowdowns
    from lyra_opt.network.links import find_link_set
    from lyra_opt.network.topology import read_topology

    links = None if network is None else find_link_set(network)
    topology, links = read_topology(path, network=links)
    if slowdowns is None:
        communication = ClosedForm(links=links, overlap=overlap or 0.0)
        hidden = (
            f"; {100 * communication.overlap:g} % of an iteration's computing can hide it"
            if communication.overlap
            else ", none of which hides behind computing"
        )
        return NetworkCluster(
            topology=topology,
            communication=communication,
            network=links.name,
            assumptions=(
                "Assumed in place of ASTRA-sim: gradients are reduced in a ring over the slowest "
                f"tier that a gang spans, layer by layer{hidden}; compute times and bytes of the "
                "models are the sums of the profiles in Dally's public simulator, which look odd: "
                "orders of magnitude.",
            ),
        )
    for option, value in (("network", network), ("overlap", overlap)):
        if value is not None:
            raise UserError(f"--{option} says nothing with --slowdowns, which stand for the links")
    return NetworkCluster(
        topology=topology,
        communication=read_slowdowns(slowdowns),
        network="measured slowdowns",
        assumptions=("Slowdowns by model, gang and tier are those of a file.",),
    )


def generated_workload(
    name: str, *, seed: int, jobs: int | None = None, jobs_per_day: float | None = None
) -> NetworkWorkload:
    """Return a workload by name.

    Parameters
    ----------
    name
        ``dally-batch``, ``dally-poisson`` or ``dally-distributed``.
    seed
        Of the draws.
    jobs
        How many; None for as many as were published.
    jobs_per_day
        Of the latter two; None for `DEFAULT_JOBS_PER_DAY`, or as published.
    """
    from instances.network import job_sets
    from instances.network.generated_jobs import (
        DISTRIBUTED_JOBS_PER_DAY,
        dally_batch,
        dally_distributed,
        dally_poisson,
    )

    if name == BATCH:
        return dally_batch(seed=seed, jobs=jobs or job_sets.BATCH.jobs)
    if name == POISSON:
        return dally_poisson(
            seed=seed,
            jobs=jobs or job_sets.BATCH.jobs,
            jobs_per_day=jobs_per_day or DEFAULT_JOBS_PER_DAY,
        )
    return dally_distributed(
        seed=seed,
        jobs=jobs or job_sets.DISTRIBUTED.jobs,
        jobs_per_day=jobs_per_day or DISTRIBUTED_JOBS_PER_DAY,
    )


def trace_workload(
    path: str | Path,
    *,
    models: Collection[str],
    seed: int,
    vc: str | None = None,
    days: int | None = None,
) -> NetworkWorkload:
    """Read a job trace, and draw what its jobs train where it does not say.

    Parameters
    ----------
    path
        Of the trace.
    models
        Those that can be drawn.
    seed
        Of the draws.
    vc, days
        The virtual cluster, and how many of the first days; None for all.

    Raises
    ------
    InputError
        If the file is no job trace.
    """
    from instances.network.trace_jobs import assigned_models, shares_of
    from instances.workloads.readers import read_workload
    from instances.workloads.transform import first_days

    trace = read_workload(path, vc=vc)
    return assigned_models(
        trace if days is None else first_days(trace, days), seed=seed, shares=shares_of(models)
    )


def without_oversized(
    workload: NetworkWorkload, gpus: int, *, drop: bool
) -> tuple[NetworkWorkload, int]:
    """Return the jobs that so many GPUs can hold, and how many were left out.

    Raises
    ------
    UserError
        If there are others that are not to be left out, or none is left.
    """
    kept = tuple(job for job in workload.jobs if job.gang <= gpus)
    dropped = len(workload.jobs) - len(kept)
    if not dropped:
        return workload, 0
    largest = max(workload.jobs, key=lambda job: job.gang)
    there_are = counted(gpus, "GPU")
    remark = f"job {largest.id} has a gang of {largest.gang:,}, but the cluster {there_are}"
    if not kept:
        raise UserError(f"{workload.name}: no job fits the cluster: {remark}")
    if not drop:
        others = f" ({dropped:,} jobs are too large)" if dropped > 1 else ""
        raise UserError(f"{workload.name}: {remark}{others}; --drop-oversized leaves out such jobs")
    sentence = f"{counted(dropped, 'job')} larger than {there_are} left out."
    assumptions = (*workload.assumptions, sentence)
    return replace(workload, jobs=kept, assumptions=assumptions), dropped
