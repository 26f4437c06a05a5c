"""What users feel and what the cluster did, from a finished simulation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lyra_opt.network.links import Tier
from lyra_opt.simulation.least_run import time_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lyra_opt.simulation.job_run import JobRun
    from lyra_opt.simulation.kernel import Kernel
    from lyra_opt.simulation.speed import Speed
    from lyra_opt.simulation.workload import Job

Count = TypeVar("Count", int, float)

TOLERANCE = 1e-6
"""Part by which sums of rounded times may differ."""

ROUNDING = 1e-12
"""The same of the moments that they are differences of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Figures of one simulation; percentiles interpolate linearly between jobs.

    Parameters
    ----------
    jobs, finished
        Jobs submitted, and how many completed.
    queue_mean_s, queue_p50_s, queue_p95_s, queue_p99_s, queue_max_s
        Of the queuing times: the sum of all waits of a job, those after preemptions and between
        its leases included, and so the hand-over of its own GPUs after each of them.
    jct_mean_s, jct_p50_s, jct_p95_s, jct_p99_s, jct_min_s, jct_max_s
        Of the job completion times, from submission to completion.
    least_run_mean_s
        Of the least run times, at the best rate that a job can have. This and the seven means that
        follow add up to that of the job completion times; see `lyra_opt.simulation.least_run`.
    queue_first_mean_s, queue_again_mean_s
        Of the queuing times before jobs start, and of those after.
    lost_work_mean_s
        Of the times that the work lost at preemptions takes at the best rate.
    fewer_workers_mean_s, slower_type_mean_s, slower_placement_mean_s
        Of the times lost by running with fewer workers or copies than most, on slower GPUs or
        several kinds of them, and where these are further from one another than they might be.
    pause_mean_s
        Of the times in which jobs hold GPUs and do nothing: restarts, moves, merges of copies.
    jct_weighted_mean_s
        The mean of the job completion times by the weights of the jobs; None where all are 1.
    deadlines, missed_deadlines, missed_deadline_share
        Jobs with a deadline, and how many of them completed after it; None where there are none.
    cost
        What the GPUs that jobs held cost, borrowed ones too, in the unit of
        `lyra_opt.simulation.cluster.GpuType.price_per_hour`; None where no type has a price.
    makespan_s
        From the first submission to the last completion; the total time duration of Hadar.
    gpu_usage, gpu_usage_by_type
        GPU-seconds that jobs hold on own servers, as a share of what these have over the makespan;
        of all, and of each type. Pauses after starts are held.
    overall_usage
        The same over both clusters, busy inference GPUs counted.
    loan_usage
        GPU-seconds held on servers on loan, as a share of theirs; None without loans.
    cru
        Cluster resource utilisation: server-seconds in which jobs hold any GPU of a server, as a
        share of those of own servers over the makespan and of servers on loan. Source: HadarE,
        from memory. None where servers are not told apart.
    fairness_mean, fairness_max
        Of the finish-time fairness rho: the JCT of a job over the JCT that it would have on an
        equal n-th part of the cluster of its own, where n is the mean number of jobs that are
        there while it is. Below 1, it fares better. Source: Themis (NSDI 2020), from memory; the
        speed on an n-th part is Gavel's (see `isolated_rate`).
    preemptions, preemptions_per_submission
        How often jobs were stopped, or did not go on as soon as the GPUs of their ended lease were
        free, in all and for each job.
    lost_gpu_s
        GPU-seconds on reference GPUs that preemptions made vain.
    losses
        How often jobs had to give their GPUs back before they were complete.
    restarts, restarting_s
        How often jobs began again elsewhere, or after they were stopped; and seconds that they and
        their copies lost by starts and restarts.
    migrations
        How often a job got other GPUs than the last time; None where racks do not matter.
    allocations, allocations_by_tier
        How often jobs got GPUs, and that by what they spanned (`Tier.label`), None where racks do
        not matter.
    copies_mean, copies_max
        Copies of a job while it runs; 1 without forking.
    rounds, merging_s
        Rounds in which jobs were there, and seconds that jobs lost by merging copies.
    scaling_operations
        How often an elastic job was resized, to admit another job not counted.
    loans, reclaims, returned_servers
        How often servers were lent and called back, and how many were called back.
    hosted_at_reclaims
        Jobs that held GPUs on loan when servers were called back, added up over the reclaims.
    collateral_share
        GPUs vacated on servers that were not given back, as a share of those on servers that were;
        None without reclaims.
    gpu_s, computing_gpu_s
        GPU-seconds in which jobs ran, and those of them that were not lost to distance.
    communication_s, communication_share
        GPU-seconds in which jobs ran and waited for the network, in the mean over jobs, and as a
        share of `gpu_s`.
    computing_usage
        GPU-seconds of computing, as a share of what there are over the makespan.
    hand_over_share
        GPU-seconds in which GPUs were neither held nor free, as such a share.
    gpu_s_by_tier
        GPU-seconds held, by what they spanned; None where racks do not matter.
    fragmented_machines_mean
        Hosts (what a server has of one type) that are partly free, as a share of all, lent or not,
        in the mean over time; None where servers are not told apart.
    stranded_share
        Of the GPU-seconds that were free, the share on hosts that were partly free; 0 where
        none were, None where servers are not told apart.
    decisions
        How often the rule was asked, None where that is not counted.
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
    jct_min_s: float
    jct_max_s: float
    least_run_mean_s: float
    queue_first_mean_s: float
    queue_again_mean_s: float
    lost_work_mean_s: float
    fewer_workers_mean_s: float
    slower_type_mean_s: float
    slower_placement_mean_s: float
    pause_mean_s: float
    jct_weighted_mean_s: float | None
    deadlines: int | None
    missed_deadlines: int | None
    missed_deadline_share: float | None
    cost: float | None
    makespan_s: float
    gpu_usage: float
    gpu_usage_by_type: Mapping[str, float]
    overall_usage: float
    loan_usage: float | None
    cru: float | None
    fairness_mean: float
    fairness_max: float
    preemptions: int
    preemptions_per_submission: float
    lost_gpu_s: float
    losses: int
    restarts: int
    restarting_s: float
    migrations: int | None
    allocations: int
    allocations_by_tier: Mapping[str, int] | None
    copies_mean: float
    copies_max: int
    rounds: int
    merging_s: float
    scaling_operations: int
    loans: int
    reclaims: int
    returned_servers: int
    hosted_at_reclaims: int
    collateral_share: float | None
    gpu_s: float
    computing_gpu_s: float
    communication_s: float
    communication_share: float
    computing_usage: float
    hand_over_share: float
    gpu_s_by_tier: Mapping[str, float] | None
    fragmented_machines_mean: float | None
    stranded_share: float | None
    decisions: int | None
    decision_mean_s: float | None = field(compare=False)
    decision_p99_s: float | None = field(compare=False)
    decision_max_s: float | None = field(compare=False)


def measure(simulation: Kernel) -> Metrics:
    """Return the figures of a finished simulation; O(jobs log jobs + decisions log decisions)."""
    runs, totals, cluster = simulation.runs, simulation.totals, simulation.cluster
    queue_s = np.array([run.queued_s for run in runs])
    jct_s = np.array([run.jct_s for run in runs])
    makespan_s = max(run.completion_s for run in runs) - runs[0].job.submit_s
    held_gpu_s = [0.0, 0.0]
    there_gpu_s = [0.0, 0.0]
    by_type: dict[str, float] = {}
    for pool, held, there in zip(cluster.pools, totals.held_gpu_s, totals.there_gpu_s, strict=True):
        held_gpu_s[pool.is_lent] += held
        there_gpu_s[pool.is_lent] += there
        if not pool.is_lent:
            name = pool.gpu_type.name
            by_type[name] = held / (cluster.gpus_of_type[name] * makespan_s)
    own_gpu_s = cluster.gpus * makespan_s
    server_s = len(cluster.own_servers) * makespan_s + totals.on_loan_server_s
    whole_gpu_s = own_gpu_s + cluster.inference_gpus * makespan_s
    gpu_s = math.fsum(run.ran_gpu_s for run in runs)
    computing_gpu_s = math.fsum(run.done_gpu_s for run in runs)
    # Rounding may leave a little below 0 where no gang ever waits for the network.
    communicating_gpu_s = max(0.0, gpu_s - computing_gpu_s)
    fairness = finish_time_fairness(simulation)
    tells_apart = not any(simulation.hosts.is_counted)
    has_racks = cluster.topology is not None
    decision_s = totals.decision_s
    weights = np.array([run.job.weight for run in runs])
    missed = [run.missed_deadline for run in runs if run.missed_deadline is not None]
    prices = cluster.price_per_s_of_pool
    return Metrics(
        jobs=len(runs),
        finished=sum(run.completion_s >= 0 for run in runs),
        **_distribution("queue", queue_s),
        **_distribution("jct", jct_s),
        jct_min_s=float(jct_s.min()),
        **_part_means(runs),
        jct_weighted_mean_s=(
            math.fsum(weights * jct_s) / math.fsum(weights) if np.any(weights != 1) else None
        ),
        deadlines=len(missed) or None,
        missed_deadlines=sum(missed) if missed else None,
        missed_deadline_share=_share(sum(missed), len(missed)),
        cost=None if prices is None else _cost(prices, totals.held_gpu_s),
        makespan_s=makespan_s,
        gpu_usage=held_gpu_s[0] / own_gpu_s,
        gpu_usage_by_type=by_type,
        overall_usage=(math.fsum(held_gpu_s) + totals.serving_gpu_s) / whole_gpu_s,
        loan_usage=_share(held_gpu_s[1], there_gpu_s[1]),
        cru=totals.busy_server_s / server_s if tells_apart else None,
        fairness_mean=math.fsum(fairness) / len(runs),
        fairness_max=float(fairness.max()),
        preemptions_per_submission=sum(run.preemptions for run in runs) / len(runs),
        lost_gpu_s=math.fsum(
            run.lost_work * simulation.speed.worker_s(run.job) * run.job.gpus_per_worker
            for run in runs
            if run.lost_work
        ),
        **{name: sum(getattr(run, name) for run in runs) for name in _COUNTS_OF_RUNS},
        restarting_s=math.fsum(run.restarting_s for run in runs),
        migrations=sum(run.migrations for run in runs) if has_racks else None,
        allocations_by_tier=(
            _by_tier(sum, [run.allocations_by_tier for run in runs]) if has_racks else None
        ),
        copies_mean=1 + totals.more_copy_s / totals.running_job_s,
        copies_max=max(1, *(run.most_copies for run in runs)),
        **{name: getattr(totals, name) for name in _TOTALS},
        collateral_share=_share(totals.collateral_gpus, totals.vacated_gpus),
        gpu_s=gpu_s,
        computing_gpu_s=computing_gpu_s,
        communication_s=communicating_gpu_s / len(runs),
        communication_share=communicating_gpu_s / gpu_s,
        computing_usage=computing_gpu_s / (own_gpu_s + there_gpu_s[1]),
        hand_over_share=totals.handed_over_gpu_s / (own_gpu_s + there_gpu_s[1]),
        gpu_s_by_tier=_by_tier(math.fsum, [run.gpu_s_by_tier for run in runs])
        if has_racks
        else None,
        fragmented_machines_mean=(
            totals.partly_free_host_s / (len(simulation.hosts.size) * makespan_s)
            if tells_apart
            else None
        ),
        stranded_share=(
            (_share(totals.stranded_gpu_s, totals.free_gpu_s) or 0.0) if tells_apart else None
        ),
        decisions=totals.decisions or None,
        decision_mean_s=_share(math.fsum(decision_s), len(decision_s)),
        decision_p99_s=float(np.percentile(decision_s, 99)) if decision_s else None,
        decision_max_s=max(decision_s, default=None),
    )


_COUNTS_OF_RUNS = ("preemptions", "losses", "restarts", "allocations")
_TOTALS = (
    *("rounds", "merging_s", "scaling_operations", "loans", "reclaims", "returned_servers"),
    "hosted_at_reclaims",
)
"""Fields of `Metrics` that are sums over runs, and that have been counted as such."""


def _distribution(name: str, values_s: np.ndarray) -> dict[str, Any]:
    """Return mean, median, tail and maximum as fields of metrics."""
    tail = dict(zip((50, 95, 99), np.percentile(values_s, (50, 95, 99)), strict=True))
    return {
        f"{name}_mean_s": math.fsum(values_s) / len(values_s),
        **{f"{name}_p{rank}_s": float(value) for rank, value in tail.items()},
        f"{name}_max_s": float(values_s.max()),
    }


def _part_means(runs: Sequence[JobRun]) -> dict[str, Any]:
    """Return the means of the parts of JCTs as fields of metrics."""
    return {
        # Rounding may leave a little below 0.
        f"{name.removesuffix('_s')}_mean_s": max(0.0, math.fsum(part_s) / len(runs))
        for name, part_s in time_parts(runs).items()
    }


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _cost(price_per_s: Sequence[float], held_gpu_s: Sequence[float]) -> float:
    return math.fsum(price * held for price, held in zip(price_per_s, held_gpu_s, strict=True))


def _by_tier(
    add: Callable[[Iterable[Count]], Count], of_runs: list[list[Count]]
) -> dict[str, Count]:
    return {
        tier.label: add(values)
        for tier, values in zip(Tier, zip(*of_runs, strict=True), strict=True)
    }


# Finish-time fairness.


def isolated_rate(job: Job, speed: Speed, jobs: float) -> float:
    """Return the work a second of a job on an equal part of the cluster of its own.

    It spends the share c_r / (n gang) of its time on the own GPUs of type r, of which there are
    c_r, scaled down where these shares are more than 1 in all. Source: Gavel (OSDI 2020), its
    policy for finish-time fairness. On each type it has the best rate at which it fits there.

    Parameters
    ----------
    job
        Which the cluster can run.
    speed
        How fast jobs run there.
    jobs
        n, at least 1.
    """
    counts = speed.cluster.gpus_of_type
    shares = {name: count / (jobs * job.min_gpus) for name, count in counts.items()}
    scale = max(1.0, math.fsum(shares.values()))
    rates = speed.rates_of(job)
    return math.fsum(rates.get(name, 0.0) * share for name, share in shares.items()) / scale


def finish_time_fairness(simulation: Kernel) -> np.ndarray:
    """Return rho of each job; see `Metrics`. O(jobs (log jobs + types))."""
    runs, speed = simulation.runs, simulation.speed
    submitted_s = np.array([run.job.submit_s for run in runs])
    completed_s = np.array([run.completion_s for run in runs])
    jct_s = completed_s - submitted_s
    there_s = _integral(submitted_s, completed_s) - _integral(submitted_s, submitted_s)
    gone_s = _integral(completed_s, completed_s) - _integral(completed_s, submitted_s)
    mean_jobs = np.maximum(1.0, (there_s - gone_s) / jct_s)
    isolated_s = [
        run.work / isolated_rate(run.job, speed, float(jobs))
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


# What must be true of any simulation.


def require_conserved(simulation: Kernel) -> None:
    """Check that GPU-seconds, work and time are conserved.

    Raises
    ------
    AssertionError
        If a job did not complete, did not do its work, or waited for a negative time; if its waits
        and its time on GPUs are not the time for which it was there, or the parts of that time
        (`lyra_opt.simulation.least_run`) do not add up to it; or if the GPU-seconds that jobs
        held, and those handed over and free, are not those of the cluster.
    """
    runs, totals = simulation.runs, simulation.totals
    unfinished = [run.job.id for run in runs if not is_complete(run)]
    if unfinished:
        raise AssertionError(f"{len(unfinished)} jobs did not complete, {unfinished[0]} first")
    given = math.fsum(totals.held_gpu_s)
    _require_close("GPU-seconds held by jobs", math.fsum(run.held_gpu_s for run in runs), given)
    _require_close(
        "GPU-seconds of the cluster",
        given + totals.handed_over_gpu_s + totals.free_gpu_s,
        math.fsum(totals.there_gpu_s),
    )
    if (prices := simulation.cluster.price_per_s_of_pool) is not None:
        cost = _cost(prices, totals.held_gpu_s)
        _require_close("cost of jobs", math.fsum(run.cost for run in runs), cost)
    for run in runs:
        job = run.job
        tolerance_s = TOLERANCE * run.completion_s
        if abs(run.rest) > TOLERANCE * run.work:
            raise AssertionError(f"job {job.id} is complete with {run.rest} of {run.work} to do")
        if run.queued_s < -tolerance_s:
            raise AssertionError(f"job {job.id} waited for {run.queued_s} s")
        if abs(run.queued_s + run.on_gpus_s - run.jct_s) > tolerance_s:
            raise AssertionError(
                f"job {job.id} waited for {run.queued_s} s and held GPUs for {run.on_gpus_s} s of "
                f"the {run.jct_s} s in which it was there"
            )
        if simulation.cluster.topology is not None:
            _require_close(f"tiers of job {job.id}", math.fsum(run.gpu_s_by_tier), run.held_gpu_s)
    _require_split(runs)


def _require_split(runs: Sequence[JobRun]) -> None:
    """Check that the parts of each JCT are at least 0 and add up to it."""
    parts = time_parts(runs)
    jct_s = np.array([run.jct_s for run in runs])
    # Of times that count from long ago a little is lost in rounding.
    tolerance_s = TOLERANCE * jct_s + ROUNDING * np.array([run.completion_s for run in runs])
    for name, part_s in parts.items():
        if (is_wrong := part_s < -tolerance_s).any():
            worst = int(is_wrong.argmax())
            raise AssertionError(f"job {runs[worst].job.id} has a {name} of {part_s[worst]} s")
    sums_s = np.sum(list(parts.values()), axis=0)
    if (is_wrong := ~(np.abs(sums_s - jct_s) <= tolerance_s)).any():
        worst = int(is_wrong.argmax())
        raise AssertionError(
            f"job {runs[worst].job.id} was there for {jct_s[worst]} s, but the parts of that are "
            f"{sums_s[worst]} s"
        )


def is_complete(run: JobRun) -> bool:
    """Whether a job has completed."""
    return run.completion_s >= 0 and run.left == 0


def _require_close(what: str, found: float, expected: float) -> None:
    if not math.isclose(found, expected, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
        raise AssertionError(f"{what}: {found}, not {expected}")
