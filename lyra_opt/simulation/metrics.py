"""The metrics of a finished simulation: queuing time, JCT, usage, fairness, preemptions, costs."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from lyra_opt.network.links import Tier
from lyra_opt.simulation.job_run import JobRun
from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.least_run import time_parts
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.workload import Job

Count = TypeVar("Count", int, float)

TOLERANCE = 1e-6
"""Relative tolerance for sums of rounded times."""

ROUNDING = 1e-12
"""Tolerance, relative to the time of an event, for rounding the event's time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The metrics of one simulation; percentiles interpolate linearly between jobs.

    Parameters
    ----------
    jobs, finished
        Number of jobs submitted and completed.
    queue_mean_s, queue_p50_s, queue_p95_s, queue_p99_s, queue_max_s
        Queuing times: the sum of all waits of a job, including waits after preemptions and between
        leases, and thus the hand-over of its own GPUs after a lease.
    jct_mean_s, jct_p50_s, jct_p95_s, jct_p99_s, jct_min_s, jct_max_s
        Job completion times, from submission to completion.
    least_run_mean_s
        Mean of the shortest possible running times, each at the job's best rate. This mean and the
        seven means that follow add up to the mean JCT; see `lyra_opt.simulation.least_run`.
    queue_first_mean_s, queue_again_mean_s
        Mean queuing time before and after a job's first start.
    lost_work_mean_s
        Mean time, at the best rate, for work that preemptions lost.
    fewer_workers_mean_s, slower_type_mean_s, slower_placement_mean_s
        Mean time lost by running with fewer workers or copies, on slower or mixed GPU types, and
        further apart than possible.
    pause_mean_s
        Mean time in which a job holds GPUs without working: restarts, moves, merges of copies.
    jct_weighted_mean_s
        Mean JCT weighted by the jobs' weights; None if all weights are 1.
    deadlines, missed_deadlines, missed_deadline_share
        Number of jobs with a deadline; number and share of these that missed it; None if no job has
        a deadline.
    cost
        Cost of all held GPUs, including borrowed ones, in the unit of
        `lyra_opt.simulation.cluster.GpuType.price_per_hour`; None if every type has the default
        price.
    makespan_s
        Seconds from the first submission to the last completion; Hadar's total time duration.
    gpu_usage, gpu_usage_by_type
        Held GPU-seconds of own servers, divided by the GPU-seconds that these servers have over the
        makespan; overall and by GPU type. Pauses count as held.
    overall_usage
        Held GPU-seconds of training and inference servers, divided by all their GPU-seconds.
        Inference GPUs that serve requests count as held.
    loan_usage
        Held GPU-seconds on servers on loan, divided by all their GPU-seconds on loan; None without
        loans.
    cru
        Cluster resource utilisation: server-seconds in which jobs hold any GPU of a server, divided
        by all server-seconds of own servers and servers on loan over the makespan. Source: HadarE,
        from memory. None if servers are only counted.
    fairness_mean, fairness_max
        Mean and maximum of the finish-time fairness rho: a job's JCT divided by its JCT alone on
        1/n of the cluster, where n is the mean number of jobs present during its JCT. A job with
        rho below 1 fares better than that. Source: Themis (NSDI 2020), from memory; the speed on
        1/n is Gavel's (see `isolated_rate`).
    preemptions, preemptions_per_submission
        Number of times that jobs were stopped, or did not go on when the GPUs of their ended lease
        became free; in total and per job.
    lost_gpu_s
        GPU-seconds of work, on reference GPUs, that preemptions lost.
    queue_mean_s_by_priority, queue_p95_s_by_priority
        Mean and 95th percentile of the queuing times of the jobs of each priority; None if all jobs
        have one priority.
    preemptions_by_priority, lost_gpu_s_by_priority
        The parts of `preemptions` and `lost_gpu_s` at each priority; None if all jobs have one
        priority.
    queue_mean_s_by_tenant, jct_mean_s_by_tenant
        Mean queuing time and mean JCT of the jobs of each tenant or group of tenants with jobs;
        None without quotas.
    above_quota_gpu_s_by_tenant, below_quota_s_by_tenant, taken_back_by_tenant
        See `lyra_opt.simulation.tenants.TenantUse`; None without quotas.
    jain_index
        Jain's fairness index (sum x)^2 / (n sum x^2) of the n tenants with jobs, from 1/n to 1,
        where x is the mean share of its JCT for which a job of the tenant would run at its best
        rate; None without quotas. Source of the index: Jain, Chiu and Hawe (1984).
    losses
        Number of times that jobs had to give up their GPUs before completion.
    restarts, restarting_s
        Number of times that jobs began again elsewhere or after being stopped; seconds that jobs
        and their copies lost by starts and restarts.
    migrations
        Number of times that jobs got other hosts, or other numbers of GPUs on them, than before;
        None if racks do not matter.
    allocations, allocations_by_tier
        Number of times that jobs got GPUs, in total and by the tier that they spanned
        (`Tier.label`); the latter is None if racks do not matter.
    copies_mean, copies_max
        Mean and largest number of copies of a running job; 1 without forking.
    rounds, merging_s
        Number of rounds in which jobs were present; seconds that jobs lost by merging copies.
    scaling_operations
        Number of times that an elastic job was resized, except to admit another job.
    loans, reclaims, returned_servers
        Number of times that servers were lent and reclaimed; number of servers reclaimed.
    hosted_at_reclaims
        Jobs that held GPUs on loan when servers were reclaimed, summed over the reclaims.
    collateral_share
        GPUs vacated on servers that were not given back, divided by those on servers that were
        given back; None without reclaims.
    gpu_s, computing_gpu_s
        GPU-seconds in which jobs ran, and those of them that were not lost to distance.
    communication_s, communication_share
        GPU-seconds in which running jobs waited for the network: mean per job, and as a share of
        `gpu_s`.
    computing_usage
        GPU-seconds of computing, divided by all GPU-seconds present over the makespan.
    hand_over_share
        GPU-seconds in which GPUs were neither held nor free, divided by all GPU-seconds present.
    gpu_s_by_tier
        Held GPU-seconds by the tier that the jobs spanned; None if racks do not matter.
    fragmented_machines_mean
        Mean share of hosts (the GPUs of one type on a server) that are partly free, over time and
        over all hosts, on loan or not; None if servers are only counted.
    stranded_share
        Share of the free GPU-seconds that were on partly used hosts; 0 if no GPU was free, None if
        servers are only counted.
    opened_free_share
        GPU-seconds of the free parts of GPUs on which slices ran, divided by all GPU-seconds of own
        servers over the makespan; None if no job asks for part of a GPU.
    useless_gpus_mean
        Mean number of GPUs, over the makespan, that were partly free although jobs waited, because
        no waiting job asked for as little; None if no job asks for part of a GPU.
    decisions
        Number of decisions of the policy; None if decisions are not counted.
    decision_mean_s, decision_p99_s, decision_max_s
        Wall time of a decision, None if unknown; ignored when metrics are compared.
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
    queue_mean_s_by_priority: Mapping[int, float] | None
    queue_p95_s_by_priority: Mapping[int, float] | None
    preemptions_by_priority: Mapping[int, int] | None
    lost_gpu_s_by_priority: Mapping[int, float] | None
    queue_mean_s_by_tenant: Mapping[str, float] | None
    jct_mean_s_by_tenant: Mapping[str, float] | None
    above_quota_gpu_s_by_tenant: Mapping[str, float] | None
    below_quota_s_by_tenant: Mapping[str, float] | None
    taken_back_by_tenant: Mapping[str, int] | None
    jain_index: float | None
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
    opened_free_share: float | None
    useless_gpus_mean: float | None
    decisions: int | None
    decision_mean_s: float | None = field(compare=False)
    decision_p99_s: float | None = field(compare=False)
    decision_max_s: float | None = field(compare=False)


def measure(simulation: Kernel, fairness: np.ndarray | None = None) -> Metrics:
    """Return the metrics of a finished simulation; O(jobs log jobs + decisions log decisions).

    Parameters
    ----------
    simulation
        The simulation, after its run.
    fairness
        Its `finish_time_fairness`, if it is known already.
    """
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
    # If no job communicates over the network, rounding could make this difference negative.
    communicating_gpu_s = max(0.0, gpu_s - computing_gpu_s)
    fairness = finish_time_fairness(simulation) if fairness is None else fairness
    tells_apart = not any(simulation.hosts.is_counted)
    has_racks, has_slices = cluster.topology is not None, simulation.slices is not None
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
        lost_gpu_s=_lost_gpu_s(simulation, runs),
        **_by_priority(simulation),
        **_by_tenant(simulation),
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
        opened_free_share=totals.opened_free_gpu_s / own_gpu_s if has_slices else None,
        useless_gpus_mean=totals.useless_gpu_s / makespan_s if has_slices else None,
        decisions=totals.decisions or None,
        decision_mean_s=_share(math.fsum(decision_s), len(decision_s)),
        decision_p99_s=float(np.percentile(decision_s, 99)) if decision_s else None,
        decision_max_s=max(decision_s, default=None),
    )


def _lost_gpu_s(simulation: Kernel, runs: Iterable[JobRun]) -> float:
    return math.fsum(
        run.lost_work * simulation.speed.worker_s(run.job) * run.job.gpus_per_worker * run.job.share
        for run in runs
        if run.lost_work
    )


def _by_priority(simulation: Kernel) -> dict[str, Any]:
    """Return the fields of `Metrics` with a value for each priority, highest first."""
    runs_of = _grouped(simulation.runs, lambda run: run.job.priority)
    levels = sorted(runs_of.items(), reverse=True) if len(runs_of) > 1 else []
    return _columns(
        _FIGURES_BY_PRIORITY,
        {
            level: (
                _mean(run.queued_s for run in runs),
                float(np.percentile([run.queued_s for run in runs], 95)),
                sum(run.preemptions for run in runs),
                _lost_gpu_s(simulation, runs),
            )
            for level, runs in levels
        },
    )


def _by_tenant(simulation: Kernel) -> dict[str, Any]:
    """Return the fields of `Metrics` about tenants and groups with jobs, in quota order."""
    ledger = simulation.tenants
    if ledger is None:
        return dict.fromkeys((*_FIGURES_BY_TENANT, "jain_index"))
    runs_of: dict[str, list[JobRun]] = {}
    for run in simulation.runs:
        for place in ledger.path_of(run):
            runs_of.setdefault(ledger.quotas.quotas[place].name, []).append(run)
    use = {name: each for name, each in ledger.use_of_tenants().items() if name in runs_of}
    progress = [
        _mean(run.work / run.best_rates.best / run.jct_s for run in runs_of[name])
        for name in ledger.quotas.tenants
        if name in use
    ]
    return {
        **_columns(
            _FIGURES_BY_TENANT,
            {
                name: (
                    _mean(run.queued_s for run in runs_of[name]),
                    _mean(run.jct_s for run in runs_of[name]),
                    *each,
                )
                for name, each in use.items()
            },
        ),
        "jain_index": math.fsum(progress) ** 2
        / (len(progress) * math.fsum(share**2 for share in progress)),
    }


def _grouped(runs: Iterable[JobRun], level_of: Callable[[JobRun], Any]) -> dict[Any, list[JobRun]]:
    found: dict[Any, list[JobRun]] = {}
    for run in runs:
        found.setdefault(level_of(run), []).append(run)
    return found


def _columns(names: Sequence[str], rows: Mapping[Any, Sequence[Any]]) -> dict[str, Any]:
    """Return the values of each level (a priority or a tenant) as a dictionary per name."""
    return {
        name: {level: values[place] for level, values in rows.items()} or None
        for place, name in enumerate(names)
    }


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return math.fsum(known) / len(known)


_FIGURES_BY_TENANT = (
    *("queue_mean_s_by_tenant", "jct_mean_s_by_tenant", "above_quota_gpu_s_by_tenant"),
    *("below_quota_s_by_tenant", "taken_back_by_tenant"),
)
_FIGURES_BY_PRIORITY = (
    *("queue_mean_s_by_priority", "queue_p95_s_by_priority"),
    *("preemptions_by_priority", "lost_gpu_s_by_priority"),
)
_COUNTS_OF_RUNS = ("preemptions", "losses", "restarts", "allocations")
_TOTALS = (
    *("rounds", "merging_s", "scaling_operations", "loans", "reclaims", "returned_servers"),
    "hosted_at_reclaims",
)
"""Fields of `Metrics` that are sums over jobs, and fields that are copied from `Totals`."""


def _distribution(name: str, values_s: np.ndarray) -> dict[str, Any]:
    """Return mean, percentiles and maximum of times, as fields of `Metrics`."""
    tail = dict(zip((50, 95, 99), np.percentile(values_s, (50, 95, 99)), strict=True))
    return {
        f"{name}_mean_s": math.fsum(values_s) / len(values_s),
        **{f"{name}_p{rank}_s": float(value) for rank, value in tail.items()},
        f"{name}_max_s": float(values_s.max()),
    }


def _part_means(runs: Sequence[JobRun]) -> dict[str, Any]:
    """Return the mean of each part of the JCT, as fields of `Metrics`."""
    return {
        # Rounding may make the mean of a part slightly negative.
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


def isolated_rate(job: Job, speed: Speed, jobs: float) -> float:
    """Return a job's work per second on 1/n of the cluster, with n equal shares of each GPU type.

    The job spends the share c_r / (n * gang) of its time on the c_r own GPUs of type r; the shares
    are scaled down if they exceed 1 in total. On each type it has the best rate that fits there.
    Source: Gavel (OSDI 2020), its policy for finish-time fairness.

    Parameters
    ----------
    job
        A job that the cluster can run.
    speed
        The speed of jobs on the cluster.
    jobs
        The number n of jobs that share the cluster, at least 1.
    """
    counts = speed.cluster.gpus_of_type
    gang = job.min_gpus * job.share
    shares = {name: count / (jobs * gang) for name, count in counts.items()}
    scale = max(1.0, math.fsum(shares.values()))
    rates = speed.rates_of(job)
    return math.fsum(rates.get(name, 0.0) * share for name, share in shares.items()) / scale


def finish_time_fairness(simulation: Kernel) -> np.ndarray:
    """Return the finish-time fairness of each job: its JCT over its JCT on 1/n of the cluster.

    See `Metrics`. Complexity O(jobs (log jobs + types)).
    """
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
    """Integrate, up to each time in `until_s`, the number of times in `steps_s` that are past."""
    ordered = np.sort(steps_s)
    sums = np.concatenate(([0.0], np.cumsum(ordered)))
    counts = np.searchsorted(ordered, until_s)
    areas: np.ndarray = counts * until_s - sums[counts]
    return areas


def require_conserved(simulation: Kernel) -> None:
    """Check that a finished simulation conserves GPU-seconds, work and time.

    Raises
    ------
    AssertionError
        If a job did not complete or has work left; if its waits are negative, or waits and time on
        GPUs do not add up to its JCT; if the parts of its JCT (`lyra_opt.simulation.least_run`) do
        not add up; if a part of a GPU is still taken; or if the GPU-seconds that are held, handed
        over, free in parts and free as a whole do not add up to those of the cluster.
    """
    runs, totals, slices = simulation.runs, simulation.totals, simulation.slices
    unfinished = [run.job.id for run in runs if not is_complete(run)]
    if unfinished:
        raise AssertionError(f"{len(unfinished)} jobs did not complete; first: {unfinished[0]}")
    if slices is not None and (slices.opened or slices.held or any(slices.free)):
        raise AssertionError(f"{slices.opened} GPUs are still divided after the last job")
    given = math.fsum(totals.held_gpu_s)
    _require_close("GPU-seconds held by jobs", math.fsum(run.held_gpu_s for run in runs), given)
    _require_close(
        "GPU-seconds of the cluster",
        given + totals.handed_over_gpu_s + totals.opened_free_gpu_s + totals.free_gpu_s,
        math.fsum(totals.there_gpu_s),
    )
    if (prices := simulation.cluster.price_per_s_of_pool) is not None:
        cost = _cost(prices, totals.held_gpu_s)
        _require_close("cost of jobs", math.fsum(run.cost for run in runs), cost)
    for run in runs:
        job = run.job
        tolerance_s = TOLERANCE * run.completion_s
        if abs(run.rest) > TOLERANCE * run.work:
            raise AssertionError(f"job {job.id} completed with {run.rest} of {run.work} work left")
        if run.queued_s < -tolerance_s:
            raise AssertionError(f"job {job.id} has a negative queuing time of {run.queued_s} s")
        if abs(run.queued_s + run.on_gpus_s - run.jct_s) > tolerance_s:
            raise AssertionError(
                f"job {job.id} waited for {run.queued_s} s and held GPUs for {run.on_gpus_s} s, "
                f"which do not add up to its completion time of {run.jct_s} s"
            )
        if simulation.cluster.topology is not None:
            _require_close(f"tiers of job {job.id}", math.fsum(run.gpu_s_by_tier), run.held_gpu_s)
    _require_split(runs)


def _require_split(runs: Sequence[JobRun]) -> None:
    """Check that the parts of each JCT are not negative and add up to the JCT."""
    parts = time_parts(runs)
    jct_s = np.array([run.jct_s for run in runs])
    # The later a job completes, the larger are the rounding errors of its event times.
    tolerance_s = TOLERANCE * jct_s + ROUNDING * np.array([run.completion_s for run in runs])
    for name, part_s in parts.items():
        if (is_wrong := part_s < -tolerance_s).any():
            worst = int(is_wrong.argmax())
            raise AssertionError(f"job {runs[worst].job.id}: {name} is negative: {part_s[worst]} s")
    sums_s = np.sum(list(parts.values()), axis=0)
    if (is_wrong := ~(np.abs(sums_s - jct_s) <= tolerance_s)).any():
        worst = int(is_wrong.argmax())
        raise AssertionError(
            f"job {runs[worst].job.id} has a completion time of {jct_s[worst]} s, but its parts "
            f"add up to {sums_s[worst]} s"
        )


def is_complete(run: JobRun) -> bool:
    """Return whether a job has completed."""
    return run.completion_s >= 0 and run.left == 0


def _require_close(what: str, found: float, expected: float) -> None:
    if not math.isclose(found, expected, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
        raise AssertionError(f"{what}: expected {expected}, found {found}")
