"""Run one scheme on a network of tiers, check it, and keep what came of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.simulation.carried_out import carry_out, jobs_per_cpu_s, since
from lyra_opt.network.links import Tier
from lyra_opt.simulation.decisions import DecisionError
from lyra_opt.simulation.leases.engine import PolicyError as LeasePolicyError
from lyra_opt.simulation.leases.metrics import measure_network, require_leases_conserved
from lyra_opt.simulation.leases.network_schemes import LEASES, ROUNDS
from lyra_opt.simulation.rounds.engine import PolicyError as RoundPolicyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from experiments.simulation.network_setup import NetworkSetup
    from lyra_opt.simulation.leases.metrics import NetworkMetrics
    from lyra_opt.simulation.leases.network_schemes import NetworkScheme
    from lyra_opt.simulation.leases.record import NetworkRecord, NetworkRun


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkOutcomes:
    """What became of each job, in the order of the workload.

    Parameters
    ----------
    start_s, completion_s
        When it first started, and when it completed.
    queued_s
        How long it waited in all.
    jct_s
        From submission to completion.
    running_s
        Seconds in which it held GPUs and ran.
    computing_gpu_s
        GPU-seconds in which it computed.
    communication_share
        Share of its time on GPUs in which it waited for the network.
    leases, lease_losses, preemptions, migrations
        How often it got GPUs, lost them before it was complete, did not resume at once, and moved.
    machine_leases, rack_leases, network_leases
        How often its GPUs were on one machine, in one rack, and in several.
    """

    start_s: np.ndarray
    completion_s: np.ndarray
    queued_s: np.ndarray
    jct_s: np.ndarray
    running_s: np.ndarray
    computing_gpu_s: np.ndarray
    communication_share: np.ndarray
    leases: np.ndarray
    lease_losses: np.ndarray
    preemptions: np.ndarray
    migrations: np.ndarray
    machine_leases: np.ndarray
    rack_leases: np.ndarray
    network_leases: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSeries:
    """The state of the cluster over time; each row holds until the next.

    Parameters
    ----------
    time_s
        Since time 0 of the workload.
    queued_jobs, running_jobs
        Jobs that wait, and jobs that hold GPUs.
    gpus_held, gpus_computing
        GPUs that jobs hold, and how many of them compute: each counts by its gang's efficiency.
    gpus_handed_over
        GPUs that nobody holds and that are not free yet.
    machines_partly_free
        Machines with both free GPUs and others.
    """

    time_s: np.ndarray
    queued_jobs: np.ndarray
    running_jobs: np.ndarray
    gpus_held: np.ndarray
    gpus_computing: np.ndarray
    gpus_handed_over: np.ndarray
    machines_partly_free: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkReplay:
    """A finished and checked run of one scheme.

    Parameters
    ----------
    setup
        What was simulated.
    scheme
        Who decided.
    metrics
        Its figures.
    outcomes, series
        By job, and over time.
    wall_time_s, cpu_time_s
        Of the simulation alone; loading solvers and compiling their kernels not counted in the
        former.
    """

    setup: NetworkSetup
    scheme: NetworkScheme
    metrics: NetworkMetrics
    outcomes: NetworkOutcomes
    series: NetworkSeries
    wall_time_s: float
    cpu_time_s: float

    @property
    def first_submission_s(self) -> float:
        """When the first job is submitted."""
        return self.setup.workload.jobs[0].submit_s

    @property
    def last_submission_s(self) -> float:
        """When the last job is submitted."""
        return self.setup.workload.jobs[-1].submit_s

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is assumed, a sentence each; those of the setup, and of this run."""
        return (*self.setup.assumptions, self.setup.engine_in_words(self.scheme))

    def as_json_object(self) -> dict[str, Any]:
        """Return the object of ``simulate --json``."""
        setup, topology = self.setup, self.setup.cluster.topology
        leases = setup.options.leases if self.scheme.engine == LEASES else None
        rounds = setup.options.rounds if self.scheme.engine == ROUNDS else None
        return {
            "workload": setup.workload.name,
            "topology": topology.name,
            "network": setup.cluster.network,
            "scheme": self.scheme.name,
            "engine": self.scheme.engine,
            "seed": setup.options.leases.seed,
            "racks": len(topology.racks),
            "machines": topology.machines,
            "gpus": topology.gpus,
            "lease_s": leases and leases.lease_s,
            "hand_over_s_per_gpu": leases and leases.hand_over_s_per_gpu,
            "round_s": rounds and rounds.round_s,
            "restart_s": rounds and rounds.restart_s,
            "dropped": setup.dropped,
            **asdict(self.metrics),
            "wall_time_s": self.wall_time_s,
            "jobs_per_cpu_s": jobs_per_cpu_s(self.metrics.jobs, self.cpu_time_s),
            "assumptions": list(self.assumptions),
        }


def replay_network(
    setup: NetworkSetup,
    scheme: NetworkScheme,
    *,
    progress: Callable[[float], None] | None = None,
) -> NetworkReplay:
    """Run a scheme.

    Parameters
    ----------
    setup
        What is simulated.
    scheme
        Who decides.
    progress
        Is given the simulated seconds so far.

    Raises
    ------
    SimulationError
        If the scheme breaks a rule or leaves jobs waiting for ever, or GPU-seconds or work are not
        conserved.
    UserError
        If a job can never run.
    """
    records: list[NetworkRecord] = []
    tell = since(progress, setup.workload.jobs[0].submit_s)
    effort = carry_out(
        lambda: records.append(
            scheme.run(setup.workload, setup.cluster, options=setup.options, progress=tell)
        ),
        scheme=scheme.name,
        failures=(LeasePolicyError, RoundPolicyError, DecisionError),
        require_conserved=lambda: require_leases_conserved(records[0]),
    )
    record = records[0]
    return NetworkReplay(
        setup=setup,
        scheme=scheme,
        metrics=measure_network(record),
        outcomes=outcomes_of(record),
        series=series_of(record),
        wall_time_s=effort.wall_time_s,
        cpu_time_s=effort.cpu_time_s,
    )


def outcomes_of(record: NetworkRecord) -> NetworkOutcomes:
    """Return what became of each job."""

    def column(value: Callable[[NetworkRun], float], dtype: type = np.float64) -> np.ndarray:
        return np.array([value(run) for run in record.runs], dtype=dtype)

    running_s, gang = column(lambda run: run.running_s), column(lambda run: run.job.gang)
    computing_gpu_s = column(lambda run: run.computing_gpu_s)
    return NetworkOutcomes(
        start_s=column(lambda run: run.started_s),
        completion_s=column(lambda run: run.completion_s),
        queued_s=column(lambda run: run.queued_s),
        jct_s=column(lambda run: run.jct_s),
        running_s=running_s,
        computing_gpu_s=computing_gpu_s,
        # Rounding may leave a little below 0.
        communication_share=np.maximum(0.0, 1 - computing_gpu_s / (running_s * gang)),
        leases=column(lambda run: run.leases, np.int64),
        lease_losses=column(lambda run: run.lease_losses, np.int64),
        preemptions=column(lambda run: run.preemptions, np.int64),
        migrations=column(lambda run: run.migrations, np.int64),
        machine_leases=column(lambda run: run.leases_by_tier[Tier.MACHINE], np.int64),
        rack_leases=column(lambda run: run.leases_by_tier[Tier.RACK], np.int64),
        network_leases=column(lambda run: run.leases_by_tier[Tier.NETWORK], np.int64),
    )


def series_of(record: NetworkRecord) -> NetworkSeries:
    """Return the cluster over time."""
    rows = record.totals.series.rows
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    time_s, queued, running, held, computing, handed_over, partly_free = columns
    return NetworkSeries(
        time_s=time_s,
        queued_jobs=queued,
        running_jobs=running,
        gpus_held=held,
        gpus_computing=computing,
        gpus_handed_over=handed_over,
        machines_partly_free=partly_free,
    )
