"""What a simulation is of: jobs, cluster, loans and options; and what is assumed of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from lyra_opt.core.errors import counted
from lyra_opt.experiments.simulation.scenario.keys import DEFAULT_FORECASTER, DEFAULT_HEADROOM
from lyra_opt.instances.workloads.lyra_like import (
    PUBLISHED_INFERENCE_SERVERS,
    PUBLISHED_TRAINING_GPUS,
)
from lyra_opt.simulation.cluster import TRAINING_GPU
from lyra_opt.simulation.scheme import EPOCHS, LEASES, ROUNDS
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.tenure import RESTART_S

if TYPE_CHECKING:
    from pathlib import Path

    from lyra_opt.simulation.cluster import Cluster, GpuType, LoanPlan
    from lyra_opt.simulation.loaning import Orchestrator
    from lyra_opt.simulation.scheme import Options
    from lyra_opt.simulation.workload import InferenceDemand, Workload

HOUR_S = 3600

DAY_S = 86_400

LOAN_INTERVAL_S = 300.0

LEAST_DRAIN_DAYS = 10

LONGEST_PLAN_DAYS = 1000

POOLS, TYPES, RACKS = "pools", "types", "racks"
"""What a simulation is about: servers of its own and on loan, unlike GPUs, or a network."""


class SimulationError(Exception):
    """A simulation came to no result, or to one that cannot be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What is simulated, whatever the scheme.

    Parameters
    ----------
    workload, cluster, options
        What is submitted, where it runs, and how the cluster behaves.
    scenario
        Name of the scenario; empty where there is none.
    dropped
        Jobs that were left out, for they could never run.
    loaning
        The inference cluster and the plan of its loans; None without inference servers.
    """

    workload: Workload
    cluster: Cluster
    options: Options
    scenario: str = ""
    dropped: int = 0
    loaning: Loaning | None = None

    @property
    def kind(self) -> str:
        """What it is about: `POOLS`, `TYPES` or `RACKS`, by what the cluster is.

        `RACKS` where distance costs speed, else `TYPES` where the own GPUs are unlike or jobs were
        measured on some.
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
        """Loans over time; None without inference servers."""
        return None if self.loaning is None else self.loaning.plan

    @property
    def demand_in_words(self) -> str:
        """How much is asked of the cluster, on one line."""
        from lyra_opt.instances.workloads.transform import demand_in_words

        workload, cluster = self.workload, self.cluster
        kind = self.kind
        if kind == POOLS:
            return demand_in_words(workload, cluster.gpus)
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
        """Return what is assumed, a sentence each, where jobs have a tenure."""
        from lyra_opt.instances.heterogeneous.clusters import speeds_in_words

        of_loans = () if self.loaning is None else self._loans_in_words(self.loaning)
        of_tenure = self.tenure_in_words(tenure)
        return (
            *self.workload.assumptions,
            *self.cluster.assumptions,
            *speeds_in_words(self.workload, self.cluster),
            *((*of_loans, of_tenure) if self.kind == RACKS else (of_tenure, *of_loans)),
        )

    def tenure_in_words(self, tenure: str) -> str:
        """Return how a tenure is simulated, the same sentence for all schemes that share it."""
        options, is_network = self.options, self.kind == RACKS
        if tenure == LEASES:
            leases = options.leases
            return (
                "Simulated, schemes with leases (after Dally's public simulator): a gang gives all "
                f"its GPUs back after {leases.lease_s:g} s and competes again; released GPUs stay "
                f"idle for {leases.hand_over_s_per_gpu:g} s for each GPU of the gang. Ours: time "
                "is continuous, and a scheme is asked again when one of its timers runs out."
            )
        if tenure == ROUNDS:
            rounds = options.rounds
            if is_network:
                return (
                    f"Simulated, schemes that decide in rounds of {rounds.round_s:g} s: a gang "
                    f"that starts or moves loses {rounds.restart_s:g} s. A scheme knows two speeds "
                    "of a gang, on one machine and on several, the latter that of the nearest "
                    "tier; it runs at the speed of where it is placed."
                )
            is_published = rounds.restart_s == RESTART_S
            source = " (as in Hadar's simulation, from memory)" if is_published else ""
            return (
                f"Simulated: who runs where is decided every {rounds.round_s:g} s; a job that ends "
                "before keeps its GPUs until then, but its completion counts when it is. A gang "
                f"that starts, or goes on elsewhere, loses {rounds.restart_s:g} s{source}. A gang "
                "on unlike GPUs runs at the speed of the slowest."
            )
        if tenure == EPOCHS:
            epochs = options.epochs
            return (
                f"Simulated: who runs where is decided every {epochs.epoch_s:g} s (Pollux's "
                "epochs); a job that ends before keeps its GPUs until then, but its completion "
                "counts when it is. A job that gets other GPUs than it had, or its first ones, "
                f"keeps its progress and loses {epochs.restart_s:g} s. Elastic jobs run at the "
                "speed of their goodput, all others at their own wherever they are."
            )
        if is_network:
            return (
                "Simulated, schemes under which gangs keep their GPUs until they complete or are "
                "preempted: those in the manner of Lyra put them where best fit does, which looks "
                "at no racks, and nothing is handed over."
            )
        return (
            "Simulated: a preempted job starts again from its last checkpoint, or from the "
            f"beginning if it has none, and holds its GPUs for {options.forever.preemption_s:g} s "
            f"before; elastic jobs are resized every {options.scaling_interval_s:g} s at most."
        )

    def _loans_in_words(self, loaning: Loaning) -> tuple[str, ...]:
        orchestrator = loaning.orchestrator
        pools = self.cluster.pools
        lent = self.cluster.lent_type
        assert lent is not None, "there are loans"
        own = {pool.gpu_type.relative_speed for pool in pools if not pool.is_lent}
        reference = "training GPU" if own == {1.0} else TRAINING_GPU.name
        return (
            *loaning.demand.assumptions,
            f"{_replicas_in_words(lent, reference)}, and a job on both kinds reaches "
            f"{100 * self.options.mixed_efficiency:g} % of the ideal.",
            f"Servers are lent and called back every {LOAN_INTERVAL_S:g} s by forecast "
            f"({orchestrator.forecaster.name}), with {100 * orchestrator.headroom:g} % of the "
            "inference cluster kept.",
        )


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
        from lyra_opt.simulation.loaning import shortfalls

        intervals = max(1, math.ceil(duration_s / self.plan.interval_s))
        loans = self.plan.on_loan[:intervals]
        lacking = shortfalls(
            self.demand, loans, servers=self.orchestrator.servers, interval_s=self.plan.interval_s
        )
        return sum(servers > 0 for servers in lacking) / len(loans)


def _replicas_in_words(gpu: GpuType, reference: str) -> str:
    """Return how GPUs of the inference cluster make up for being slower."""
    if gpu.worker_speed == 1:
        work = f"do what one {reference} does"
    else:
        work = f"take the place of one {reference} and are {gpu.worker_speed:.3g} times as fast"
    return f"Assumed: {gpu.replicas} inference GPUs {work}"


def proportional_inference_servers(gpus: int) -> int:
    """Return how many inference servers go with so many training GPUs in Lyra's clusters."""
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
        Of the `Orchestrator`.
    usage
        File with a series of GPU usage that stands for the demand; None generates demand like
        that of Lyra's inference cluster.
    day_s
        Seconds within which a day of generated demand passes.

    Raises
    ------
    UserError
        If there is no such forecaster, or the file is no usage series.
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
    """Return loans of generated demand; kept, because many runs share them and fits take time."""
    from lyra_opt.instances.workloads.lyra_like import inference_demand

    demand = inference_demand(days=days, seed=seed, servers=servers)
    if day_s != DAY_S:
        demand = replace(
            demand,
            name=f"{demand.name}-day-{day_s:g}s",
            step_s=demand.step_s * day_s / DAY_S,
            assumptions=(
                *demand.assumptions,
                f"A day of demand passes within {day_s / HOUR_S:g} hours.",
            ),
        )
    return _loaning(demand, days * day_s, servers, forecaster, headroom)


def _loaning(
    demand: InferenceDemand, planned_s: float, servers: int, forecaster: str, headroom: float
) -> Loaning:
    from lyra_opt.simulation.forecast import find_forecaster
    from lyra_opt.simulation.loaning import Orchestrator

    orchestrator = Orchestrator(
        servers=servers,
        forecaster=find_forecaster(forecaster),
        headroom=headroom,
        interval_s=LOAN_INTERVAL_S,
    )
    plan = orchestrator.plan(demand, math.ceil(planned_s / LOAN_INTERVAL_S))
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
