"""What users feel and what the cluster did, from a finished simulation on a network of tiers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from lyra_opt.network.links import Tier
from lyra_opt.simulation.percentiles import percentiles_s

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lyra_opt.simulation.leases.record import NetworkRecord

Count = TypeVar("Count", int, float)

TOLERANCE = 1e-6
"""Part by which sums of rounded times may differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkMetrics:
    """Figures of one simulation; percentiles interpolate linearly between jobs.

    Parameters
    ----------
    jobs, finished
        Jobs submitted, and how many completed.
    queue_mean_s, queue_p50_s, queue_p95_s, queue_p99_s, queue_max_s
        Of the queuing times: the sum of all waits of a job, those between its leases included, and
        so the hand-over of its own GPUs after each of them.
    jct_mean_s, jct_p50_s, jct_p95_s, jct_p99_s, jct_max_s
        Of the job completion times, from submission to completion.
    makespan_s
        From the first submission to the last completion.
    gpu_s
        GPU-seconds in which gangs ran.
    computing_gpu_s
        Those of them in which they computed: the work of all jobs.
    communication_s
        GPU-seconds in which gangs ran and waited for the network, in the mean over jobs.
    communication_share
        Share of `gpu_s` that is not computing.
    gpu_usage
        GPU-seconds held, as a share of what there are over the makespan.
    computing_usage
        GPU-seconds of computing, as such a share.
    hand_over_share
        GPU-seconds in which GPUs were idle between two gangs, as such a share.
    allocations_by_tier, gpu_s_by_tier
        How often GPUs were given, and GPU-seconds held, by what they spanned (`Tier.label`).
    fragmented_machines_mean
        Machines that are partly free, as a share of all, in the mean over time.
    stranded_share
        Of the GPU-seconds that were free, the share on machines that were partly free; 0 where
        none were.
    allocations, lease_losses
        How often a gang got GPUs, and lost them before it was complete.
    preemptions, preemptions_per_submission
        Losses after which a gang was not running again as soon as its GPUs were free, in all and
        for each job.
    migrations
        How often a gang got other GPUs than the last time (`NetworkRun.migrations`).
    decisions
        How often the rule was asked, None where it is not known.
    decision_mean_s, decision_p99_s, decision_max_s
        Wall time of a decision, None where it is not known; not part of equality.
    """

    jobs: int
    finished: int
    queue_mean_s: float
    queue_p50_s: float
    queue_p95_s: float
    queue_p99_s: float
    queue_max_s: float
    jct_mean_s: float
    jct_p50_s: float
    jct_p95_s: float
    jct_p99_s: float
    jct_max_s: float
    makespan_s: float
    gpu_s: float
    computing_gpu_s: float
    communication_s: float
    communication_share: float
    gpu_usage: float
    computing_usage: float
    hand_over_share: float
    allocations_by_tier: Mapping[str, int]
    gpu_s_by_tier: Mapping[str, float]
    fragmented_machines_mean: float
    stranded_share: float
    allocations: int
    lease_losses: int
    preemptions: int
    preemptions_per_submission: float
    migrations: int
    decisions: int | None
    decision_mean_s: float | None = field(compare=False)
    decision_p99_s: float | None = field(compare=False)
    decision_max_s: float | None = field(compare=False)


def measure_network(record: NetworkRecord) -> NetworkMetrics:
    """Return the figures of a finished simulation; O(jobs log jobs + decisions log decisions)."""
    runs, totals, topology = record.runs, record.totals, record.cluster.topology
    queue_s = np.array([run.queued_s for run in runs])
    jct_s = np.array([run.jct_s for run in runs])
    makespan_s = max(run.completion_s for run in runs) - runs[0].job.submit_s
    capacity_gpu_s = topology.gpus * makespan_s
    gpu_s = math.fsum(run.running_s * run.job.gang for run in runs)
    computing_gpu_s = math.fsum(run.computing_gpu_s for run in runs)
    # Rounding may leave a little below 0 where no gang ever waits for the network.
    communicating_gpu_s = max(0.0, gpu_s - computing_gpu_s)
    preemptions = sum(run.preemptions for run in runs)
    decision_s = totals.decision_s
    return NetworkMetrics(
        jobs=len(runs),
        finished=sum(run.completion_s >= 0 for run in runs),
        queue_mean_s=math.fsum(queue_s) / len(runs),
        **percentiles_s("queue", queue_s),
        queue_max_s=float(queue_s.max()),
        jct_mean_s=math.fsum(jct_s) / len(runs),
        **percentiles_s("jct", jct_s),
        jct_max_s=float(jct_s.max()),
        makespan_s=makespan_s,
        gpu_s=gpu_s,
        computing_gpu_s=computing_gpu_s,
        communication_s=communicating_gpu_s / len(runs),
        communication_share=communicating_gpu_s / gpu_s,
        gpu_usage=totals.held_gpu_s / capacity_gpu_s,
        computing_usage=computing_gpu_s / capacity_gpu_s,
        hand_over_share=totals.handed_over_gpu_s / capacity_gpu_s,
        allocations_by_tier=_by_label(
            map(sum, zip(*(run.leases_by_tier for run in runs), strict=True))
        ),
        gpu_s_by_tier=_by_label(
            map(math.fsum, zip(*(run.gpu_s_by_tier for run in runs), strict=True))
        ),
        fragmented_machines_mean=totals.partly_free_machine_s / (topology.machines * makespan_s),
        stranded_share=totals.stranded_gpu_s / totals.free_gpu_s if totals.free_gpu_s else 0.0,
        allocations=sum(run.leases for run in runs),
        lease_losses=sum(run.lease_losses for run in runs),
        preemptions=preemptions,
        preemptions_per_submission=preemptions / len(runs),
        migrations=sum(run.migrations for run in runs),
        decisions=totals.decisions or None,
        decision_mean_s=math.fsum(decision_s) / len(decision_s) if decision_s else None,
        decision_p99_s=float(np.percentile(decision_s, 99)) if decision_s else None,
        decision_max_s=max(decision_s, default=None),
    )


def _by_label(values: Iterable[Count]) -> dict[str, Count]:
    return {tier.label: value for tier, value in zip(Tier, values, strict=True)}


def require_leases_conserved(record: NetworkRecord) -> None:
    """Check that GPU-seconds and work are conserved.

    Raises
    ------
    AssertionError
        If the GPU-seconds that gangs held, and those handed over and free, are not those of the
        cluster; if a job did not complete, did not do its work, or waited for a negative time; or
        if its waits and its time on GPUs are not the time for which it was there.
    """
    runs, totals, topology = record.runs, record.totals, record.cluster.topology
    unfinished = [run.job.id for run in runs if run.completion_s < 0]
    if unfinished:
        raise AssertionError(f"{len(unfinished)} jobs did not complete, {unfinished[0]} first")
    held = math.fsum(run.held_gpu_s for run in runs)
    _require_close("held GPU-seconds of jobs and cluster", held, totals.held_gpu_s)
    makespan_s = max(run.completion_s for run in runs) - runs[0].job.submit_s
    passed = totals.held_gpu_s + totals.handed_over_gpu_s + totals.free_gpu_s
    _require_close("GPU-seconds of the cluster", passed, topology.gpus * makespan_s)
    for run in runs:
        job = run.job
        _require_close(f"work of job {job.id}", run.computing_gpu_s, job.work_gpu_s)
        tolerance_s = TOLERANCE * run.completion_s
        if run.queued_s < -tolerance_s:
            raise AssertionError(f"job {job.id} waited for {run.queued_s} s")
        if abs(run.queued_s + run.held_gpu_s / job.gang - run.jct_s) > tolerance_s:
            raise AssertionError(
                f"job {job.id} waited for {run.queued_s} s and held GPUs for "
                f"{run.held_gpu_s / job.gang} s of the {run.jct_s} s in which it was there"
            )
        _require_close(f"tiers of job {job.id}", math.fsum(run.gpu_s_by_tier), run.held_gpu_s)


def _require_close(what: str, found: float, expected: float) -> None:
    if not math.isclose(found, expected, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
        raise AssertionError(f"{what}: {found}, not {expected}")
