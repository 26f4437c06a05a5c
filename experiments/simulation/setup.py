"""From the options of ``lyra-opt simulate`` to what is simulated: jobs, cluster and loans."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from experiments.simulation.scenarios import BASIC, PLAIN, find_scenario
from lyra_opt.errors import InputError
from lyra_opt.simulation.cluster import Cluster, LoanPlan, Options

if TYPE_CHECKING:
    from pathlib import Path

    from lyra_opt.simulation.cluster import GpuType
    from lyra_opt.simulation.loaning import Orchestrator
    from lyra_opt.simulation.workload import InferenceDemand, Workload

DAY_S = 86_400

LYRA_LIKE_SERVERS = 443
LYRA_LIKE_GPUS_PER_SERVER = 8
LYRA_LIKE_INFERENCE_SERVERS = 520
LYRA_LIKE_DAYS = 15

DEFAULT_FORECASTER = "autoregressive"
"""Of those that do not know the future the one with the least error on the generated demand."""

DEFAULT_HEADROOM = 0.02
LOAN_INTERVAL_S = 300.0

LEAST_DRAIN_DAYS = 10
LONGEST_PLAN_DAYS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What is simulated, whatever the scheme.

    Parameters
    ----------
    workload
        What is submitted.
    scenario
        Name of the scenario.
    cluster
        Where it runs.
    options
        How the cluster behaves.
    dropped
        Jobs larger than the cluster that were left out.
    loaning
        The inference cluster and the plan of its loans; None without inference servers.
    """

    workload: Workload
    scenario: str
    cluster: Cluster
    options: Options
    dropped: int = 0
    loaning: Loaning | None = None

    @property
    def plan(self) -> LoanPlan | None:
        """Loans over time; None without inference servers."""
        return None if self.loaning is None else self.loaning.plan

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is assumed, a sentence each."""
        options, cluster = self.options, self.cluster
        sentences = [
            *self.workload.assumptions,
            f"Simulated: a preempted job starts again from its last checkpoint, or from the "
            f"beginning if it has none, and holds its GPUs for {options.preemption_s:g} s before; "
            f"elastic jobs are resized every {options.scaling_interval_s:g} s at most.",
        ]
        if self.loaning is not None:
            sentences += [
                *self.loaning.demand.assumptions,
                f"{_replicas_in_words(cluster.inference_gpu)}, and a job on both kinds reaches "
                f"{100 * options.mixed_efficiency:g} % of the ideal.",
                f"Servers are lent and called back every {LOAN_INTERVAL_S:g} s by forecast "
                f"({self.loaning.orchestrator.forecaster.name}), with "
                f"{100 * self.loaning.orchestrator.headroom:g} % of the inference cluster kept.",
            ]
        return tuple(sentences)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaning:
    """The inference cluster's side of a simulation.

    Parameters
    ----------
    demand
        What it needs over time.
    orchestrator
        The rule by which it lends.
    plan
        What that comes to.
    """

    demand: InferenceDemand
    orchestrator: Orchestrator
    plan: LoanPlan

    def shortfall_share(self, duration_s: float) -> float:
        """Return the share of the run's intervals in which lent servers are missed.

        Those in which the inference cluster's need and the servers on loan together exceed it.
        """
        from lyra_opt.simulation.loaning.capacity import shortfalls

        intervals = max(1, math.ceil(duration_s / self.plan.interval_s))
        loans = self.plan.on_loan[:intervals]
        lacking = shortfalls(
            self.demand,
            loans,
            servers=self.orchestrator.servers,
            interval_s=self.plan.interval_s,
        )
        return sum(servers > 0 for servers in lacking) / len(loans)


def _replicas_in_words(gpu: GpuType) -> str:
    """Return how GPUs of the inference cluster make up for being slower."""
    if gpu.worker_speed == 1:
        work = "do what one training GPU does"
    else:
        work = f"take the place of one training GPU and are {gpu.worker_speed:.3g} times as fast"
    return f"Assumed: {gpu.replicas} inference GPUs {work}"


def proportional_inference_servers(gpus: int) -> int:
    """Return how many inference servers go with so many training GPUs in Lyra's clusters."""
    published = LYRA_LIKE_SERVERS * LYRA_LIKE_GPUS_PER_SERVER
    return max(1, round(LYRA_LIKE_INFERENCE_SERVERS * gpus / published))


def generated_workload(
    *, days: int = LYRA_LIKE_DAYS, seed: int, gpus: int, scenario: str = BASIC
) -> Workload:
    """Return a workload with the published figures of Lyra's trace, for so many training GPUs."""
    from instances.workloads.lyra_like import lyra_like

    shares = find_scenario(scenario).shares
    return lyra_like(days=days, seed=seed, training_gpus=gpus, **shares)


def trace_workload(
    path: str | Path,
    *,
    cluster: Cluster,
    seed: int,
    vc: str | None = None,
    days: int | None = None,
    scenario: str = PLAIN,
    drop_oversized: bool = False,
) -> tuple[Workload, int]:
    """Read a job trace; return its jobs and how many were dropped.

    Parameters
    ----------
    path
        The file.
    cluster
        Which the jobs have to fit.
    seed
        Of what the scenario draws.
    vc
        Only the jobs of this virtual cluster.
    days
        Only the jobs of the first days; None for all.
    scenario
        What is assumed of the jobs; `PLAIN` leaves them as they are.
    drop_oversized
        Whether jobs larger than the cluster are left out.

    Raises
    ------
    InputError
        If the file is no job trace, or holds a job larger than the cluster that is not to be
        left out, or holds no other.
    """
    from instances.workloads.readers import read_workload
    from instances.workloads.transform import first_days, with_elasticity, without_oversized

    workload = read_workload(path, vc=vc)
    if days is not None:
        workload = first_days(workload, days)
    dropped = 0
    oversized = [job for job in workload.jobs if not cluster.holds(job)]
    if oversized:
        largest = max(oversized, key=lambda job: job.min_gpus)
        remark = (
            f"job {largest.id} asks for {largest.min_gpus:,} GPUs, but the cluster has "
            f"{cluster.gpus:,}"
        )
        if len(oversized) == len(workload.jobs):
            raise InputError(str(path), f"no job fits the cluster: {remark}")
        if not drop_oversized:
            others = f" ({len(oversized):,} jobs are too large)" if len(oversized) > 1 else ""
            raise InputError(str(path), f"{remark}{others}; --drop-oversized leaves out such jobs")
        workload, dropped = without_oversized(workload, cluster.gpus)
    if scenario != PLAIN:
        workload = with_elasticity(workload, seed=seed, **find_scenario(scenario).shares)
    return workload, dropped


def make_options(*, seed: int, scenario: str) -> Options:
    """Return how a cluster behaves in a scenario."""
    efficiency = find_scenario(scenario).mixed_efficiency
    return (
        Options(seed=seed)
        if efficiency is None
        else Options(seed=seed, mixed_efficiency=efficiency)
    )


def make_loaning(
    workload: Workload,
    cluster: Cluster,
    *,
    seed: int,
    forecaster: str = DEFAULT_FORECASTER,
    headroom: float = DEFAULT_HEADROOM,
    usage: str | Path | None = None,
) -> Loaning | None:
    """Return the inference cluster's side of a simulation; None without inference servers.

    Parameters
    ----------
    workload
        Whose run is to be covered; time 0 of the demand is its first submission.
    cluster
        With the inference servers.
    seed
        Of the generated demand.
    forecaster, headroom
        Of the `lyra_opt.simulation.loaning.Orchestrator`.
    usage
        File with a series of GPU usage that stands for the demand; None generates demand like
        that of Lyra's inference cluster.

    Raises
    ------
    UserError
        If there is no such forecaster, or the file is no usage series.
    """
    from instances.workloads.usage import read_usage
    from lyra_opt.simulation.loaning import find_forecaster

    find_forecaster(forecaster)
    servers = cluster.inference_servers
    if not servers:
        return None
    days = plan_days(workload, cluster)
    if usage is None:
        return generated_loaning(
            days=days, servers=servers, seed=seed, forecaster=forecaster, headroom=headroom
        )
    return _loaning(read_usage(usage), days, servers, forecaster, headroom)


@lru_cache(maxsize=16)
def generated_loaning(
    *,
    days: int,
    servers: int,
    seed: int,
    forecaster: str = DEFAULT_FORECASTER,
    headroom: float = DEFAULT_HEADROOM,
) -> Loaning:
    """Return loans of generated demand; kept, because many runs share them and fits take time.

    Parameters as in `make_loaning`.
    """
    from instances.workloads.lyra_like import inference_demand

    demand = inference_demand(days=days, seed=seed, servers=servers)
    return _loaning(demand, days, servers, forecaster, headroom)


def _loaning(
    demand: InferenceDemand, days: int, servers: int, forecaster: str, headroom: float
) -> Loaning:
    from lyra_opt.simulation.loaning import Orchestrator, find_forecaster

    orchestrator = Orchestrator(
        servers=servers,
        forecaster=find_forecaster(forecaster),
        headroom=headroom,
        interval_s=LOAN_INTERVAL_S,
    )
    intervals = math.ceil(days * DAY_S / LOAN_INTERVAL_S)
    plan = LoanPlan(
        interval_s=LOAN_INTERVAL_S,
        on_loan=tuple(orchestrator.loans(demand, intervals)),
        busy_share=tuple(demand.at(tick * LOAN_INTERVAL_S) for tick in range(intervals)),
    )
    return Loaning(demand=demand, orchestrator=orchestrator, plan=plan)


def plan_days(workload: Workload, cluster: Cluster) -> int:
    """Return for how many days loans are planned: the submissions, and long enough to drain.

    That is twice as long as all work takes on all GPUs and the longest job alone, at least
    `LEAST_DRAIN_DAYS`; `LONGEST_PLAN_DAYS` in all at most.
    """
    longest_s = max(job.duration_s for job in workload.jobs)
    drain_s = 2 * (workload.gpu_work_s / cluster.gpus + longest_s)
    days = workload.submission_span_s / DAY_S + max(LEAST_DRAIN_DAYS, drain_s / DAY_S)
    return min(LONGEST_PLAN_DAYS, math.ceil(days))


def expected_makespan_s(workload: Workload, cluster: Cluster) -> float:
    """Return a lower bound of the makespan without scaling, from which progress is estimated."""
    first_s = workload.jobs[0].submit_s
    latest_s = max(job.submit_s + job.duration_s for job in workload.jobs) - first_s
    return max(latest_s, workload.gpu_work_s / cluster.gpus)
