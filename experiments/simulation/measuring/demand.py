"""How much work is requested of a cluster, by day and by GPU type, before the simulation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.commands.messages import say
from lyra_opt.core.errors import counted
from lyra_opt.experiments.simulation.measuring.measures import duration
from lyra_opt.experiments.simulation.scenario.setup import DAY_S
from lyra_opt.simulation.speed import Speed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lyra_opt.experiments.simulation.scenario.setup import Setup

MOST_DAYS_SHOWN = 31


@dataclass(frozen=True, slots=True)
class DayOfDemand:
    """A day of submissions.

    Parameters
    ----------
    load
        Work submitted on it, as a share of what all GPUs can do in a day.
    backlog_days
        Days that all GPUs need, after it, for what is left of all submissions until then even if
        none ever idles.
    """

    load: float
    backlog_days: float


def demand_by_day(setup: Setup) -> list[DayOfDemand]:
    """Return how much is submitted on each day, counted from the first submission.

    A lower bound on what becomes of the cluster: each job counts what it takes on the GPUs that
    suit it best, and GPUs on loan count as own ones of their speed. Time O(jobs + days).
    """
    workload, cluster = setup.workload, setup.cluster
    first_s = workload.jobs[0].submit_s
    days = max(1, math.ceil(workload.submission_span_s / DAY_S))
    speed = Speed(cluster)
    # Jobs that were measured nowhere run everywhere as fast as the GPUs are: their work is counted
    # on the reference GPU, and so is what the GPUs can do.
    is_measured = any(job.measured is not None for job in workload.jobs)
    work_gpu_s = np.zeros(days)
    for job in workload.jobs:
        place = min(days - 1, int((job.submit_s - first_s) // DAY_S))
        work_gpu_s[place] += (
            speed.least_gpu_s(job) if is_measured else job.work_worker_s * job.gpus_per_worker
        )
    own_gpus: float = cluster.gpus
    if not is_measured:
        own_gpus = sum(
            count * cluster.type_of[name].relative_speed for name, count in cluster.own_gpus.items()
        )
    capacity_gpu_s = np.full(days, own_gpus * DAY_S, dtype=float)
    if setup.plan is not None:
        capacity_gpu_s += _lent_gpu_s(setup, days)
    found = []
    backlog_gpu_s = 0.0
    for submitted, capacity in zip(work_gpu_s, capacity_gpu_s, strict=True):
        backlog_gpu_s = max(0.0, backlog_gpu_s + submitted - capacity)
        found.append(DayOfDemand(float(submitted / capacity), float(backlog_gpu_s / capacity)))
    return found


@dataclass(frozen=True, slots=True)
class TypeDemand:
    """The demand of the jobs that can run on GPUs of one own type alone.

    Parameters
    ----------
    load
        Their work, as a share of what the GPUs of the type can do from the first submission of all
        jobs to the last; infinite where all jobs are submitted at one moment.
    backlog_s
        Seconds that all GPUs of the type need, after the last submission, for the rest of this work
        even if none of them ever idles.
    longest_s
        Seconds that the longest of these jobs runs.
    """

    load: float
    backlog_s: float
    longest_s: float

    @property
    def is_overloaded(self) -> bool:
        """Whether the type cannot keep up: more is left than the longest job takes in the end."""
        return self.load > 1 and self.backlog_s > self.longest_s


def demand_by_type(setup: Setup) -> dict[str, TypeDemand]:
    """Return the demand for each own GPU type, where there are several; O(jobs * types).

    Jobs that can run on several types, or on borrowed GPUs, count for none of them.
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
    """Return the load of each GPU type that has one, as rows of a store carry it."""
    demand = demand_by_type(setup)
    return {name: each.load for name, each in demand.items() if math.isfinite(each.load)}


def types_in_words(demand: Mapping[str, TypeDemand]) -> str:
    """Return the demand by type as a clause to append to that of the whole cluster."""
    parts = [
        f"{100 * each.load:.0f} % of {name}{' (overloaded)' if each.is_overloaded else ''}"
        for name, each in demand.items()
        if math.isfinite(each.load)
    ]
    return f"; jobs that only one GPU type can run ask for {', '.join(parts)}" if parts else ""


def _lent_gpu_s(setup: Setup, days: int) -> np.ndarray:
    """Return what GPUs on loan can do on each day, in seconds of own GPUs."""
    plan, cluster = setup.plan, setup.cluster
    lent = cluster.lent_type
    assert plan is not None, "there are loans"
    assert lent is not None, "there are loans"
    gpus_of_server = cluster.inference_gpus / cluster.inference_servers
    found = np.zeros(days)
    for tick, servers in enumerate(plan.on_loan):
        place = int(tick * plan.interval_s // DAY_S)
        if place >= days:
            break
        found[place] += servers * plan.interval_s
    return found * gpus_of_server * lent.relative_speed


def say_demand(setup: Setup) -> None:
    """Tell how much is asked of the cluster, day by day, before time is spent."""
    of_types = demand_by_type(setup)
    say(f"{setup.demand_in_words}{types_in_words(of_types)}{_inference_in_words(setup)}")
    if setup.dropped:
        say(f"{counted(setup.dropped, 'job')} left out that can never run")
    days = demand_by_day(setup)
    if len(days) > 1:
        shown = " ".join(f"{100 * day.load:.0f}" for day in days[:MOST_DAYS_SHOWN])
        more = " ..." if len(days) > MOST_DAYS_SHOWN else ""
        say(f"demand by day of submission, in % of what the cluster can do: {shown}{more}")
    if days and days[-1].backlog_days >= 1:
        say(
            f"overloaded: at the last submission, work for {days[-1].backlog_days:.1f} days of all "
            "GPUs is left even if none ever idles"
        )
    for name, demand in of_types.items():
        if demand.is_overloaded:
            say(
                f"overloaded: at the last submission, work for {duration(demand.backlog_s)} of all "
                f"GPUs of type {name} is left even if none of them ever idles"
            )


def _inference_in_words(setup: Setup) -> str:
    if setup.loaning is None:
        return ""
    orchestrator, plan = setup.loaning.orchestrator, setup.loaning.plan
    mean = sum(plan.on_loan) / len(plan.on_loan)
    return f"; {mean:.0f} of {orchestrator.servers:,} inference servers can be borrowed on average"
