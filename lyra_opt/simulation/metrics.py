"""What users feel and what the cluster did, from a finished simulation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.simulation.percentiles import percentiles_s

if TYPE_CHECKING:
    from lyra_opt.simulation.engine import Simulation
    from lyra_opt.simulation.run import JobRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Figures of one simulation; percentiles interpolate linearly between jobs.

    Parameters
    ----------
    jobs, finished
        Jobs admitted, and how many completed.
    queue_mean_s, queue_p50_s, queue_p95_s, queue_p99_s
        Of the queuing times: the sum of all waits of a job, those after preemptions included.
    jct_mean_s, jct_p50_s, jct_p95_s, jct_p99_s
        Of the job completion times, from submission to completion.
    makespan_s
        From the first submission to the last completion.
    training_usage
        GPU-seconds held on training servers, as a share of what they have over the makespan.
    overall_usage
        The same over both clusters, busy inference GPUs counted.
    preemptions, preemptions_per_submission
        Jobs sent back to the queue, in all and for each job.
    collateral_share
        GPUs vacated on servers that were not given back, as a share of those on servers that were;
        None without reclaims.
    loans, reclaims
        How often servers were lent, and called back.
    returned_servers
        Servers called back in all.
    scaling_operations
        How often an elastic job was resized, to admit another job not counted.
    loan_usage
        GPU-seconds held on servers on loan, as a share of theirs; None without loans.
    """

    jobs: int
    finished: int
    queue_mean_s: float
    queue_p50_s: float
    queue_p95_s: float
    queue_p99_s: float
    jct_mean_s: float
    jct_p50_s: float
    jct_p95_s: float
    jct_p99_s: float
    makespan_s: float
    training_usage: float
    overall_usage: float
    preemptions: int
    preemptions_per_submission: float
    collateral_share: float | None
    loans: int
    reclaims: int
    returned_servers: int
    scaling_operations: int
    loan_usage: float | None


def measure(simulation: Simulation) -> Metrics:
    """Return the figures of a finished simulation."""
    runs, totals, cluster = simulation.runs, simulation.totals, simulation.cluster
    queue = np.array([run.queued_s for run in runs])
    jct = np.array([run.completion_s - run.job.submit_s for run in runs])
    makespan_s = max(run.completion_s for run in runs) - runs[0].job.submit_s
    training_s = cluster.gpus * makespan_s
    training_usage = totals.training_gpu_s / training_s
    overall_usage = training_usage
    if cluster.inference_servers:
        inference_gpus = cluster.inference_servers * cluster.inference_gpus_per_server
        held_s = totals.training_gpu_s + totals.loan_gpu_s + totals.serving_gpu_s
        overall_usage = held_s / (training_s + inference_gpus * makespan_s)
    return Metrics(
        jobs=len(runs),
        finished=sum(run.completion_s >= 0 for run in runs),
        queue_mean_s=math.fsum(queue) / len(runs),
        **percentiles_s("queue", queue),
        jct_mean_s=math.fsum(jct) / len(runs),
        **percentiles_s("jct", jct),
        makespan_s=makespan_s,
        training_usage=training_usage,
        overall_usage=overall_usage,
        preemptions=totals.preemptions,
        preemptions_per_submission=totals.preemptions / len(runs),
        collateral_share=(
            totals.collateral_gpus / totals.vacated_gpus if totals.vacated_gpus else None
        ),
        loans=totals.loans,
        reclaims=totals.reclaims,
        returned_servers=totals.returned_servers,
        scaling_operations=totals.scaling_operations,
        loan_usage=(
            totals.loan_gpu_s / totals.loan_capacity_gpu_s if totals.loan_capacity_gpu_s else None
        ),
    )


def require_conserved(simulation: Simulation) -> None:
    """Check that GPU-seconds are conserved.

    Raises
    ------
    AssertionError
        If the GPU-seconds that jobs held are not those that the cluster gave, or a job did not
        complete.
    """
    totals = simulation.totals
    given = totals.training_gpu_s + totals.loan_gpu_s
    held = math.fsum(run.held_gpu_s for run in simulation.runs)
    if not math.isclose(given, held, rel_tol=1e-6, abs_tol=1e-6):
        raise AssertionError(f"jobs held {held} GPU-seconds, but the cluster gave {given}")
    unfinished = [run.job.id for run in simulation.runs if not is_complete(run)]
    if unfinished:
        raise AssertionError(f"{len(unfinished)} jobs did not complete, {unfinished[0]} first")


def is_complete(run: JobRun) -> bool:
    """Whether a job has completed."""
    return run.completion_s >= 0 and run.remaining_worker_s == 0
