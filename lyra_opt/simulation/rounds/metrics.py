"""What users feel and what the cluster did, from a finished simulation in rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.simulation.percentiles import percentiles_s

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lyra_opt.heterogeneous.instance import GangJob
    from lyra_opt.simulation.rounds.engine import RoundSimulation
    from lyra_opt.simulation.rounds.setup import HeterogeneousCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundMetrics:
    """Figures of one simulation; percentiles interpolate linearly between jobs.

    Parameters
    ----------
    jobs, finished
        Jobs submitted, and how many completed.
    queue_mean_s, queue_p50_s, queue_p95_s, queue_p99_s
        Of the queuing times: the sum of all waits of a job, that for its first round and those
        after preemptions included.
    jct_mean_s, jct_p50_s, jct_p95_s, jct_p99_s, jct_min_s, jct_max_s
        Of the job completion times, from submission to completion.
    makespan_s
        From the first submission to the last completion; `ttd_s` in Hadar.
    cru
        Cluster resource utilisation: time for which a server works, over servers and makespan, 0
        to 1. Source: HadarE, from memory.
    gpu_usage, gpu_usage_by_type
        GPU-seconds in which GPUs work, restarts and merges included, as a share of what they have
        over the makespan; of all, and of each type.
    fairness_mean, fairness_max
        Of the finish-time fairness rho: the JCT of a job over the JCT that it would have on an
        equal n-th part of the cluster of its own, where n is the mean number of jobs that are
        there while it is. Below 1, it fares better. Source: Themis (NSDI 2020), from memory; the
        speed on an n-th part is Gavel's (see `isolated_rate`).
    restarts
        How often a job began elsewhere than in the round before, or after a wait; first starts
        not counted.
    preemptions, preemptions_per_submission
        How often a job did not run after a round in which it did, in all and for each job.
    copies_mean, copies_max
        Copies of a job in a round in which it runs; 1 without forking.
    rounds
        Rounds in which jobs were there.
    restarting_s, merging_s
        Seconds that gangs and copies lost by starts and restarts, and jobs by merging.
    decision_mean_s, decision_max_s
        Wall time of a decision; not part of equality.
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
    jct_min_s: float
    jct_max_s: float
    makespan_s: float
    cru: float
    gpu_usage: float
    gpu_usage_by_type: Mapping[str, float]
    fairness_mean: float
    fairness_max: float
    restarts: int
    preemptions: int
    preemptions_per_submission: float
    copies_mean: float
    copies_max: int
    rounds: int
    restarting_s: float
    merging_s: float
    decision_mean_s: float = field(compare=False)
    decision_max_s: float = field(compare=False)

    @property
    def ttd_s(self) -> float:
        """Total time duration, as Hadar calls the makespan."""
        return self.makespan_s


def measure_rounds(simulation: RoundSimulation) -> RoundMetrics:
    """Return the figures of a finished simulation."""
    runs, totals, cluster = simulation.runs, simulation.totals, simulation.cluster
    queue_s = np.array([run.queued_s for run in runs])
    jct_s = np.array([run.jct_s for run in runs])
    makespan_s = max(run.completion_s for run in runs) - simulation.workload.first_submission_s
    fairness = finish_time_fairness(simulation)
    preemptions = sum(run.preemptions for run in runs)
    return RoundMetrics(
        jobs=len(runs),
        finished=sum(run.completion_s >= 0 for run in runs),
        queue_mean_s=math.fsum(queue_s) / len(runs),
        **percentiles_s("queue", queue_s),
        jct_mean_s=math.fsum(jct_s) / len(runs),
        **percentiles_s("jct", jct_s),
        jct_min_s=float(jct_s.min()),
        jct_max_s=float(jct_s.max()),
        makespan_s=makespan_s,
        cru=totals.busy_server_s / (len(cluster.servers) * makespan_s),
        gpu_usage=math.fsum(totals.working_gpu_s.values()) / (cluster.gpus * makespan_s),
        gpu_usage_by_type={
            name: totals.working_gpu_s[name] / (count * makespan_s)
            for name, count in cluster.gpus_of_type.items()
            if count
        },
        fairness_mean=math.fsum(fairness) / len(runs),
        fairness_max=float(fairness.max()),
        restarts=sum(run.restarts for run in runs),
        preemptions=preemptions,
        preemptions_per_submission=preemptions / len(runs),
        copies_mean=sum(run.copy_rounds for run in runs) / sum(run.rounds for run in runs),
        copies_max=max(run.most_copies for run in runs),
        rounds=totals.rounds,
        restarting_s=totals.restarting_s,
        merging_s=totals.merging_s,
        decision_mean_s=math.fsum(totals.decision_s) / len(totals.decision_s),
        decision_max_s=max(totals.decision_s),
    )


def isolated_rate(job: GangJob, cluster: HeterogeneousCluster, jobs: float) -> float:
    """Return the steps a second of a job on an equal part of the cluster of its own.

    It spends the share c_r / (n gang) of its time on the GPUs of type r, of which there are c_r,
    scaled down where these shares are more than 1 in all. Source: Gavel (OSDI 2020), its policy
    for finish-time fairness. On each type it has the best rate at which it fits there.

    Parameters
    ----------
    job
        Which `cluster` can run.
    cluster
        Of which it has a part.
    jobs
        n, at least 1.
    """
    shares = {name: count / (jobs * job.gang) for name, count in cluster.gpus_of_type.items()}
    scale = max(1.0, math.fsum(shares.values()))
    rates = cluster.rates_of(job)
    return math.fsum(rates.get(name, 0.0) * share for name, share in shares.items()) / scale


def finish_time_fairness(simulation: RoundSimulation) -> np.ndarray:
    """Return rho of each job; see `RoundMetrics`. O(jobs (log jobs + types))."""
    runs, cluster = simulation.runs, simulation.cluster
    submitted_s = np.array([run.active.submitted_s for run in runs])
    completed_s = np.array([run.completion_s for run in runs])
    jct_s = completed_s - submitted_s
    there_s = _integral(submitted_s, completed_s) - _integral(submitted_s, submitted_s)
    gone_s = _integral(completed_s, completed_s) - _integral(completed_s, submitted_s)
    mean_jobs = np.maximum(1.0, (there_s - gone_s) / jct_s)
    isolated_s = [
        run.job.steps / isolated_rate(run.job, cluster, float(jobs))
        for run, jobs in zip(runs, mean_jobs, strict=True)
    ]
    fairness: np.ndarray = jct_s / np.array(isolated_s)
    return fairness


def _integral(steps_s: np.ndarray, until_s: np.ndarray) -> np.ndarray:
    """Return, for each moment, the integral up to it of how many of the steps are before."""
    ordered = np.sort(steps_s)
    sums = np.concatenate(([0.0], np.cumsum(ordered)))
    counts = np.searchsorted(ordered, until_s)
    areas: np.ndarray = counts * until_s - sums[counts]
    return areas


def require_rounds_conserved(simulation: RoundSimulation) -> None:
    """Check that GPU-seconds and steps are conserved.

    Raises
    ------
    AssertionError
        If the GPU-seconds in which jobs worked are not those in which GPUs did, a job did not
        complete, or has not done its steps, or waited for a negative time.
    """
    given = math.fsum(simulation.totals.working_gpu_s.values())
    held = math.fsum(run.working_gpu_s for run in simulation.runs)
    if not math.isclose(given, held, rel_tol=1e-6, abs_tol=1e-6):
        raise AssertionError(f"jobs had {held} GPU-seconds, but the cluster gave {given}")
    unfinished = [run.job.id for run in simulation.runs if run.completion_s < 0]
    if unfinished:
        raise AssertionError(f"{len(unfinished)} jobs did not complete, {unfinished[0]} first")
    for run in simulation.runs:
        if not math.isclose(run.steps_done, run.job.steps, rel_tol=1e-6):
            raise AssertionError(
                f"job {run.job.id} did {run.steps_done} steps, but has {run.job.steps}"
            )
        if run.jct_s < run.active.executed_s - 1e-6 * run.completion_s:
            raise AssertionError(
                f"job {run.job.id} ran for {run.active.executed_s} s of the {run.jct_s} s in which "
                "it was there"
            )
