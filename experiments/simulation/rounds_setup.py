"""What a simulation in rounds is of: workload, cluster and options."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lyra_opt.errors import UserError
from lyra_opt.simulation.rounds.setup import RESTART_S, HeterogeneousWorkload

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lyra_opt.heterogeneous.policy import RoundPolicy
    from lyra_opt.simulation.rounds.setup import HeterogeneousCluster, RoundOptions

GAVEL_LIKE = "gavel-like"
HADAR_480 = "hadar-480"
MIX = "mix-"

PHILLY_TRACE = "philly_jobs.csv.gz"
"""From which Hadar's jobs are drawn, as in Hadar."""

GAVEL_LIKE_JOBS = 200
ARRIVALS_PER_HOUR_PER_GPU = 2 / 108
"""Two jobs an hour on Gavel's cluster: about as much work as it can do."""

DEFAULT_CLUSTERS = {GAVEL_LIKE: "gavel-108", HADAR_480: "hadar-60", MIX: "hadare-aws"}
"""By workload, the cluster of the paper that it comes from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSetup:
    """What is simulated, whatever the scheme.

    Parameters
    ----------
    workload
        What is submitted.
    cluster
        Where it runs.
    options
        How the cluster behaves.
    dropped
        Jobs that were left out, for they could never run.
    """

    workload: HeterogeneousWorkload
    cluster: HeterogeneousCluster
    options: RoundOptions
    dropped: int = 0

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is assumed, a sentence each."""
        options = self.options
        source = "as in Hadar's simulation, from memory" if options.restart_s == RESTART_S else ""
        return (
            *self.workload.assumptions,
            *self.cluster.assumptions,
            f"Simulated: who runs where is decided every {options.round_s:g} s; a job that ends "
            "before keeps its GPUs until then, but its completion counts when it is. A gang that "
            f"starts, or goes on elsewhere, loses {options.restart_s:g} s"
            f"{f' ({source})' if source else ''}. A gang on unlike GPUs runs at the speed of the "
            "slowest.",
        )

    @property
    def expected_makespan_s(self) -> float:
        """A lower bound of the makespan without forking, from which progress is estimated."""
        first_s = self.workload.first_submission_s
        best_s = [
            (job, job.steps / max(self.cluster.rates_of(job).values()))
            for job in self.workload.jobs
        ]
        latest_s = max(job.release_s + time_s for job, time_s in best_s) - first_s
        work_gpu_s = math.fsum(job.gang * time_s for job, time_s in best_s)
        return max(latest_s, work_gpu_s / self.cluster.gpus)

    @property
    def demand_in_words(self) -> str:
        """How much is asked of the cluster, on one line."""
        jobs, cluster = self.workload.jobs, self.cluster
        work_gpu_h = (
            math.fsum(job.gang * job.steps / max(cluster.rates_of(job).values()) for job in jobs)
            / 3600
        )
        span_h = (self.workload.last_submission_s - self.workload.first_submission_s) / 3600
        when = f"over {span_h:,.1f} hours" if span_h > 0 else "at one moment"
        asks = "asks" if len(jobs) == 1 else "ask"
        return (
            f"{len(jobs):,} job{'s' * (len(jobs) != 1)} {when} {asks} for {work_gpu_h:,.1f} GPU "
            f"hours, each on the type that suits it best, of {cluster.gpus:,} GPUs "
            f"({cluster.name})"
        )


def default_cluster(workload: str) -> str:
    """Return the name of the cluster that a generated workload runs on unless told otherwise."""
    return next(
        cluster for start, cluster in DEFAULT_CLUSTERS.items() if workload.startswith(start)
    )


def generated_workload(
    name: str,
    *,
    cluster: HeterogeneousCluster,
    seed: int,
    jobs: int | None = None,
    arrivals_per_hour: float | None = None,
) -> HeterogeneousWorkload:
    """Return a workload by name.

    Parameters
    ----------
    name
        ``gavel-like``, ``hadar-480`` or ``mix-K``.
    cluster
        For whose GPUs the jobs get rates.
    seed
        Of the draws; mixes draw nothing.
    jobs
        Of ``gavel-like``; None for `GAVEL_LIKE_JOBS`.
    arrivals_per_hour
        Of ``gavel-like``; 0 submits all at once, None is in proportion to the GPUs.

    Raises
    ------
    UserError
        If there is no such mix, or the trace of ``hadar-480`` is not there.
    """
    from instances.heterogeneous.generated_jobs import gavel_like, mix

    gpu_types = [gpu_type.name for gpu_type in cluster.gpu_types]
    if name == GAVEL_LIKE:
        if arrivals_per_hour is None:
            arrivals_per_hour = ARRIVALS_PER_HOUR_PER_GPU * cluster.gpus
        return gavel_like(
            jobs=jobs or GAVEL_LIKE_JOBS,
            seed=seed,
            gpu_types=gpu_types,
            arrivals_per_hour=arrivals_per_hour or None,
        )
    if name == HADAR_480:
        from experiments.trace import TRACES_VARIABLE, locate
        from instances.heterogeneous.trace_jobs import hadar_480
        from instances.workloads.readers import read_workload

        path = locate(PHILLY_TRACE)
        if not path.is_file():
            raise UserError(
                f"--workload {HADAR_480} draws from the trace {PHILLY_TRACE}, which is neither "
                f"here nor in the folder that {TRACES_VARIABLE} names"
            )
        return hadar_480(read_workload(path), seed=seed, gpu_types=gpu_types)
    return mix(int(name.removeprefix(MIX)), gpu_types=gpu_types)


def trace_workload(
    path: str | Path,
    *,
    cluster: HeterogeneousCluster,
    seed: int,
    vc: str | None = None,
    days: int | None = None,
) -> HeterogeneousWorkload:
    """Read a job trace, and draw what its jobs train.

    Raises
    ------
    InputError
        If the file is no job trace.
    """
    from instances.heterogeneous.trace_jobs import assigned_models
    from instances.workloads.readers import read_workload
    from instances.workloads.transform import first_days

    trace = read_workload(path, vc=vc)
    if days is not None:
        trace = first_days(trace, days)
    return assigned_models(
        trace, seed=seed, gpu_types=[gpu_type.name for gpu_type in cluster.gpu_types]
    )


def without_oversized(
    workload: HeterogeneousWorkload,
    cluster: HeterogeneousCluster,
    policies: Sequence[RoundPolicy],
    *,
    drop: bool,
) -> tuple[HeterogeneousWorkload, int]:
    """Return the jobs that a cluster can run under each policy, and how many were left out.

    Raises
    ------
    UserError
        If there are others that are not to be left out, or none is left.
    """
    from lyra_opt.simulation.rounds.engine import obstacle

    kept = []
    remark = ""
    for job in workload.jobs:
        reasons = (obstacle(job, cluster, policy) for policy in policies)
        reason = next(filter(None, reasons), None)
        if reason is None:
            kept.append(job)
        remark = remark or reason or ""
    dropped = len(workload.jobs) - len(kept)
    if not dropped:
        return workload, 0
    if not kept:
        raise UserError(f"{workload.name}: no job fits the cluster: {remark}")
    if not drop:
        others = f" ({dropped:,} jobs are too large)" if dropped > 1 else ""
        raise UserError(f"{workload.name}: {remark}{others}; --drop-oversized leaves out such jobs")
    sentence = f"{dropped:,} job{'s' * (dropped != 1)} left out that would wait for ever: {remark}."
    return (
        replace(workload, jobs=tuple(kept), assumptions=(*workload.assumptions, sentence)),
        dropped,
    )
