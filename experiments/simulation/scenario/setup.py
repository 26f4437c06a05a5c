"""The setup of a simulation: jobs, cluster, loans, options, and the assumptions about them."""

import math
import tomllib
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from lyra_opt.core.errors import counted
from lyra_opt.core.numbers import DAY_S, HOUR_S
from lyra_opt.experiments.intervals import Resampling
from lyra_opt.experiments.simulation.scenario.keys import DEFAULT_FORECASTER, DEFAULT_HEADROOM
from lyra_opt.instances.workloads.lyra_like import (
    PUBLISHED_INFERENCE_SERVERS,
    PUBLISHED_TRAINING_GPUS,
    inference_demand,
)
from lyra_opt.simulation.cluster import TRAINING_GPU, Cluster, GpuType, LoanPlan
from lyra_opt.simulation.loaning import Orchestrator, shortfalls
from lyra_opt.simulation.scheme import Options
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.tenure import RESTART_S
from lyra_opt.simulation.workload import InferenceDemand, Workload

LOAN_INTERVAL_S = 300.0
LEAST_DRAIN_DAYS = 10
LONGEST_PLAN_DAYS = 1000
POOLS, TYPES, RACKS = "pools", "types", "racks"
"""Kinds of setups: own servers and servers on loan, heterogeneous GPUs, or a network."""

_ASSUMPTIONS = files("lyra_opt.experiments.simulation.scenario").joinpath("assumptions.toml")
TENURE_SENTENCES = tomllib.loads(_ASSUMPTIONS.read_text("utf-8"))


class SimulationError(Exception):
    """A simulation failed, or returned a result that cannot be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The inputs of a simulation apart from the scheme.

    Parameters
    ----------
    workload, cluster, options
        The jobs, the cluster, and the behaviour of the cluster.
    scenario
        Name of the scenario; may be empty.
    dropped
        Number of jobs that were left out because they can never run.
    loaning
        The inference cluster and its plan of loans; None without inference servers.
    resampling
        How the jobs were drawn from the days of other jobs; None if they were not.
    """

    workload: Workload
    cluster: Cluster
    options: Options
    scenario: str = ""
    dropped: int = 0
    loaning: "Loaning | None" = None
    resampling: Resampling | None = None

    @property
    def kind(self) -> str:
        """The kind of setup, which decides which figures of a replay are reported.

        `RACKS` with a network; else `TYPES` with several own GPU types or with measured jobs; else
        `POOLS`.
        """
        if self.cluster.communication is not None:
            return RACKS
        if len(self.cluster.own_gpus) > 1 or any(
            job.measured is not None for job in self.workload.jobs
        ):
            return TYPES
        return POOLS

    @property
    def plan(self) -> LoanPlan | None:
        """The plan of loans over time; None without inference servers."""
        return None if self.loaning is None else self.loaning.plan

    @property
    def reference_gpus(self) -> float:
        """The number of reference GPUs that together are as fast as all own GPUs."""
        type_of = self.cluster.type_of
        return math.fsum(
            n * type_of[name].relative_speed for name, n in self.cluster.own_gpus.items()
        )

    @property
    def demand_in_words(self) -> str:
        """The work that the jobs request from the cluster, as one sentence without a full stop."""
        from lyra_opt.instances.workloads.transform import demand_in_words

        workload, cluster = self.workload, self.cluster
        kind = self.kind
        if kind == POOLS:
            return demand_in_words(workload, cluster.gpus, self.reference_gpus)
        span_h = workload.submission_span_s / HOUR_S
        when = f"over {span_h:,.1f} hours" if span_h > 0 else "at one moment"
        jobs = counted(len(workload.jobs), "job")
        asks = "asks" if len(workload.jobs) == 1 else "ask"
        if kind == RACKS:
            assert cluster.topology is not None, "distance is that of a topology"
            return (
                f"{jobs} {when} {asks} for {workload.gpu_work_s / HOUR_S:,.1f} GPU hours of "
                f"computing of {counted(cluster.gpus, 'GPU')} ({cluster.topology.name}, network "
                f"{cluster.network})"
            )
        speed = Speed(cluster)
        work_gpu_s = math.fsum(speed.least_gpu_s(job) for job in workload.jobs)
        return (
            f"{jobs} {when} {asks} for {work_gpu_s / HOUR_S:,.1f} GPU hours, each on the type that "
            f"suits it best, of {cluster.gpus:,} GPUs ({cluster.name})"
        )

    def assumptions_under(self, tenure: str) -> tuple[str, ...]:
        """Return one sentence per assumption of a simulation, given how long jobs keep GPUs."""
        from lyra_opt.instances.heterogeneous.clusters import speeds_in_words

        of_loans = () if self.loaning is None else self._loans_in_words(self.loaning)
        of_tenure = self._tenure_in_words(tenure)
        return (
            *self.workload.assumptions,
            *self.cluster.assumptions,
            *speeds_in_words(self.workload, self.cluster),
            *((*of_loans, of_tenure) if self.kind == RACKS else (of_tenure, *of_loans)),
        )

    def _tenure_in_words(self, tenure: str) -> str:
        options, sentences = self.options, TENURE_SENTENCES[tenure]
        is_published = options.rounds.restart_s == RESTART_S
        sentence: str = sentences["text"]
        if self.kind == RACKS:
            sentence = sentences.get("network", sentence)
        return sentence.format(
            forever=options.forever,
            leases=options.leases,
            rounds=options.rounds,
            epochs=options.epochs,
            scaling_interval_s=options.scaling_interval_s,
            source=" (as in Hadar's simulation, from memory)" if is_published else "",
        )

    def _loans_in_words(self, loaning: "Loaning") -> tuple[str, ...]:
        orchestrator = loaning.orchestrator
        pools = self.cluster.pools
        lent = self.cluster.lent_type
        assert lent is not None, "there are loans"
        own = {pool.gpu_type.relative_speed for pool in pools if not pool.is_lent}
        reference = "training GPU" if own == {1.0} else TRAINING_GPU.name
        return (
            *loaning.demand.assumptions,
            f"{_replicas_in_words(lent, reference)}, and a job on own and borrowed GPUs reaches "
            f"{100 * self.options.mixed_efficiency:g} % of its ideal throughput.",
            f"Servers are lent and called back every {LOAN_INTERVAL_S:g} s by forecast "
            f"({orchestrator.forecaster.name}); {100 * orchestrator.headroom:g} % of the inference "
            "cluster is never lent.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaning:
    """The inference cluster of a simulation, with its demand, its lending rule and its loans.

    Parameters
    ----------
    demand
        Its own demand over time.
    orchestrator
        The rule by which it lends servers.
    plan
        The loans that result from the rule.
    """

    demand: InferenceDemand
    orchestrator: Orchestrator
    plan: LoanPlan

    def shortfall_share(self, duration_s: float) -> float:
        """Return the share of a run's intervals in which the inference cluster lacks servers.

        It lacks servers if its demand and the servers on loan together exceed its size.
        """
        intervals = max(1, math.ceil(duration_s / self.plan.interval_s))
        loans = self.plan.on_loan[:intervals]
        lacking = shortfalls(
            self.demand, loans, servers=self.orchestrator.servers, interval_s=self.plan.interval_s
        )
        return sum(servers > 0 for servers in lacking) / len(loans)


def _replicas_in_words(gpu: GpuType, reference: str) -> str:
    """Return a clause on the number and speed of inference GPUs that replace one own GPU."""
    if gpu.worker_speed == 1:
        work = f"do the work of one {reference}"
    else:
        work = f"replace one {reference} and are {gpu.worker_speed:.3g} times as fast"
    return f"Assumed: {gpu.replicas} inference GPUs {work}"


def proportional_inference_servers(gpus: int) -> int:
    """Return the number of inference servers for `gpus` training GPUs at Lyra's ratio."""
    return max(1, round(PUBLISHED_INFERENCE_SERVERS * gpus / PUBLISHED_TRAINING_GPUS))


def make_loaning(
    workload: Workload,
    cluster: Cluster,
    *,
    seed: int,
    forecaster: str = DEFAULT_FORECASTER,
    headroom: float = DEFAULT_HEADROOM,
    usage: str | Path | None = None,
    day_s: float = DAY_S,
) -> Loaning | None:
    """Return the inference cluster of a simulation; None without inference servers.

    Parameters
    ----------
    workload
        The jobs whose run the plan covers; the demand starts at their first submission.
    cluster
        The cluster with the inference servers.
    seed
        Seed of the generated demand.
    forecaster, headroom
        See `lyra_opt.simulation.loaning.Orchestrator`.
    usage
        File with a series of GPU usage to use as the demand; None generates demand like that of
        Lyra's inference cluster.
    day_s
        Length of a day of generated demand in simulated seconds.

    Raises
    ------
    UserError
        If the forecaster does not exist, or the file is not a usage series.
    """
    from lyra_opt.instances.workloads.usage import read_usage
    from lyra_opt.simulation.forecast import find_forecaster

    find_forecaster(forecaster)
    servers = cluster.inference_servers
    if not servers:
        return None
    days = plan_days(workload, cluster)
    if usage is not None:
        return _loaning(read_usage(usage), days * DAY_S, servers, forecaster, headroom)
    days = math.ceil(days * DAY_S / day_s)
    return _generated_loaning(days, servers, seed, forecaster, headroom, day_s)


@lru_cache(maxsize=16)
def _generated_loaning(
    days: int, servers: int, seed: int, forecaster: str, headroom: float, day_s: float
) -> Loaning:
    """Return the loans for generated demand; cached because many runs share a slow forecast."""
    demand = inference_demand(days=days, seed=seed, servers=servers)
    if day_s != DAY_S:
        demand = replace(
            demand,
            name=f"{demand.name}-day-{day_s:g}s",
            step_s=demand.step_s * day_s / DAY_S,
            assumptions=(
                *demand.assumptions,
                f"A day of inference demand lasts {day_s / HOUR_S:g} hours.",
            ),
        )
    return _loaning(demand, days * day_s, servers, forecaster, headroom)


def _loaning(
    demand: InferenceDemand, planned_s: float, servers: int, forecaster: str, headroom: float
) -> Loaning:
    from lyra_opt.simulation.forecast import find_forecaster

    orchestrator = Orchestrator(
        servers=servers,
        forecaster=find_forecaster(forecaster),
        headroom=headroom,
        interval_s=LOAN_INTERVAL_S,
    )
    plan = orchestrator.plan(demand, math.ceil(planned_s / LOAN_INTERVAL_S))
    return Loaning(demand=demand, orchestrator=orchestrator, plan=plan)


def plan_days(workload: Workload, cluster: Cluster) -> int:
    """Return the number of days for which loans are planned: submissions, then time to drain.

    The time to drain is twice the time of all work on all GPUs plus the longest job, and at least
    `LEAST_DRAIN_DAYS`. The whole plan has at most `LONGEST_PLAN_DAYS`.
    """
    longest_s = max(job.duration_s for job in workload.jobs)
    drain_s = 2 * (workload.gpu_work_s / cluster.gpus + longest_s)
    days = workload.submission_span_s / DAY_S + max(LEAST_DRAIN_DAYS, drain_s / DAY_S)
    return min(LONGEST_PLAN_DAYS, math.ceil(days))
