"""The work that jobs request from a cluster, by day and by GPU type, computed before a run."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lyra_opt.commands.messages import say
from lyra_opt.core.errors import counted
from lyra_opt.core.numbers import DAY_S, duration
from lyra_opt.experiments.simulation.scenario.setup import Setup
from lyra_opt.simulation.speed import Speed

MOST_DAYS_SHOWN = 31


class DayOfDemand(NamedTuple):
    """The work submitted on one day, and the backlog at the end of the day.

    ``load`` is the submitted work as a share of the cluster's capacity on that day;
    ``backlog_days`` is the number of days for which all GPUs have work left if none ever idles.
    """

    load: float
    backlog_days: float


def demand_by_day(setup: Setup) -> list[DayOfDemand]:
    """Return the requested work and the backlog of each day since the first submission.

    The demand is a lower bound: each job counts with its work on the GPU type that suits it best,
    and GPUs on loan count as own GPUs of their speed. Time O(jobs + days).
    """
    workload, cluster = setup.workload, setup.cluster
    days = max(1, math.ceil(workload.submission_span_s / DAY_S))
    speed = Speed(cluster)
    # Without measured speeds, work and capacity are counted in GPU-seconds of the reference GPU.
    is_measured = any(job.measured is not None for job in workload.jobs)
    work_gpu_s = np.zeros(days)
    for job in workload.jobs:
        day = min(days - 1, int((job.submit_s - workload.jobs[0].submit_s) // DAY_S))
        reference_gpu_s = job.work_worker_s * job.gpus_per_worker * job.share
        work_gpu_s[day] += speed.least_gpu_s(job) if is_measured else reference_gpu_s
    own_gpus = cluster.gpus if is_measured else setup.reference_gpus
    capacity_gpu_s = own_gpus * DAY_S + _lent_gpu_s(setup, days)
    found = []
    backlog_gpu_s = 0.0
    for submitted, capacity in zip(work_gpu_s, capacity_gpu_s, strict=True):
        backlog_gpu_s = max(0.0, backlog_gpu_s + submitted - capacity)
        found.append(DayOfDemand(float(submitted / capacity), float(backlog_gpu_s / capacity)))
    return found


def _lent_gpu_s(setup: Setup, days: int) -> np.ndarray:
    """Return the capacity of the GPUs on loan on each day, in seconds of the reference GPU."""
    plan, lent = setup.plan, setup.cluster.lent_type
    found = np.zeros(days)
    if plan is None or lent is None:
        return found
    for tick, servers in enumerate(plan.on_loan):
        day = int(tick * plan.interval_s // DAY_S)
        if day >= days:
            break
        found[day] += servers * plan.interval_s
    gpus_of_server = setup.cluster.inference_gpus / setup.cluster.inference_servers
    return found * gpus_of_server * lent.relative_speed


@dataclass(frozen=True, slots=True)
class TypeDemand:
    """The work requested by the jobs that can run on only one GPU type of the cluster.

    Parameters
    ----------
    load
        Their work as a share of the capacity of these GPUs from the first submission of any job to
        the last; infinite if all jobs are submitted at one moment.
    backlog_s
        Seconds for which all GPUs of the type still have such work after the last submission, even
        if none of them ever idles.
    longest_s
        Run time of the longest of these jobs in seconds.
    """

    load: float
    backlog_s: float
    longest_s: float

    @property
    def is_overloaded(self) -> bool:
        """Whether jobs arrive faster than the GPUs of the type can complete them.

        One long job at the end is not an overload, so the backlog must exceed the longest job.
        """
        return self.load > 1 and self.backlog_s > self.longest_s


def demand_by_type(setup: Setup) -> dict[str, TypeDemand]:
    """Return the work that only one GPU type can do, by type; empty for a cluster with one type.

    Jobs that can run on several types, or on borrowed GPUs, are not counted. Time O(jobs * types).
    """
    cluster, jobs = setup.cluster, setup.workload.jobs
    counts = cluster.own_gpus
    if len(counts) < 2:
        return {}
    speed = Speed(cluster)
    span_s = setup.workload.submission_span_s
    work_gpu_s, backlog_gpu_s, longest_s = (dict.fromkeys(counts, 0.0) for _ in range(3))
    since_s = dict.fromkeys(counts, jobs[0].submit_s)
    for job in jobs:
        types = list(speed.rates_of(job)) if job.measured else list(filter(job.takes, counts))
        if len(types) != 1 or (setup.plan is not None and job.fungible):
            continue
        (name,) = types
        work = speed.least_gpu_s(job)
        drained = (job.submit_s - since_s[name]) * counts[name]
        work_gpu_s[name] += work
        backlog_gpu_s[name] = max(0.0, backlog_gpu_s[name] - drained) + work
        longest_s[name] = max(longest_s[name], work / job.min_gpus)
        since_s[name] = job.submit_s
    found = {}
    for name, count in counts.items():
        drained = (jobs[-1].submit_s - since_s[name]) * count
        load = work_gpu_s[name] / (count * span_s) if span_s else math.inf
        backlog_s = max(0.0, backlog_gpu_s[name] - drained) / count
        if work_gpu_s[name]:
            found[name] = TypeDemand(load, backlog_s, longest_s[name])
    return found


def load_by_type(setup: Setup) -> dict[str, float]:
    """Return the load of each GPU type from jobs that can run only on it; omit infinite loads."""
    demand = demand_by_type(setup)
    return {name: each.load for name, each in demand.items() if math.isfinite(each.load)}


def types_in_words(demand: Mapping[str, TypeDemand]) -> str:
    """Return the demand by GPU type as a clause to append to a sentence; empty without demand."""
    parts = [
        f"{100 * each.load:.0f} % of {name}{' (overloaded)' if each.is_overloaded else ''}"
        for name, each in demand.items()
        if math.isfinite(each.load)
    ]
    return f"; jobs that run on only one GPU type ask for {', '.join(parts)}" if parts else ""


def say_demand(setup: Setup) -> None:
    """Print the demand and any overload to stderr, before time is spent on the run."""
    of_types = demand_by_type(setup)
    loans = ""
    if setup.loaning is not None:
        servers, on_loan = setup.loaning.orchestrator.servers, setup.loaning.plan.on_loan
        mean = sum(on_loan) / len(on_loan)
        loans = f"; {mean:.0f} of {servers:,} inference servers can be borrowed on average"
    say(f"{setup.demand_in_words}{types_in_words(of_types)}{loans}")
    if setup.dropped:
        say(f"left out: {counted(setup.dropped, 'job')} that can never run")
    days = demand_by_day(setup)
    if len(days) > 1:
        shown = " ".join(f"{100 * day.load:.0f}" for day in days[:MOST_DAYS_SHOWN])
        more = " ..." if len(days) > MOST_DAYS_SHOWN else ""
        say(f"demand by day of submission, in % of the cluster's capacity: {shown}{more}")
    backlogs = [
        f"{duration(each.backlog_s)} of all GPUs of type {name}"
        for name, each in of_types.items()
        if each.is_overloaded
    ]
    if days[-1].backlog_days >= 1:
        backlogs.insert(0, f"{days[-1].backlog_days:.1f} days of all GPUs")
    for backlog in backlogs:
        say(
            f"overloaded: at the last submission, work for {backlog} is left, even if no GPU ever "
            "idles"
        )
