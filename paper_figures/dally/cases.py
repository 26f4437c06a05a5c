"""The simulations behind the tables, and what comes of them.

Tables share runs: each case is run once, in worker processes, and every table picks its numbers
from the results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from experiments.simulation.network_replay import replay_network
from experiments.simulation.network_setup import NetworkSetup
from experiments.trace import locate
from instances.network.generated_jobs import dally_batch, dally_poisson
from instances.network.job_sets import BATCH
from instances.network.trace_jobs import assigned_models
from instances.workloads.readers import read_workload
from instances.workloads.transform import limited, rescaled, without_oversized
from lyra_opt.network.communication import ClosedForm
from lyra_opt.network.links import LINK_SETS
from lyra_opt.network.topology import Topology
from lyra_opt.simulation.leases.clairvoyant_bounds import makespan_bound_s, mean_jct_bound_s
from lyra_opt.simulation.leases.network_schemes import (
    NETWORK_SCHEMES,
    NetworkOptions,
    find_network_scheme,
)
from lyra_opt.simulation.leases.setup import (
    HAND_OVER_S_PER_GPU,
    LEASE_S,
    LeaseOptions,
    NetworkCluster,
)
from paper_figures.runs import CaseResults, found_of_cases

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lyra_opt.simulation.leases.metrics import NetworkMetrics
    from lyra_opt.simulation.leases.setup import NetworkWorkload

RACKS, MACHINES_PER_RACK, GPUS_PER_MACHINE = 4, 8, 8
LEAST_RACKS = 2
"""So that there is a network between racks."""

NETWORKS = tuple(LINK_SETS)
"""In the order of congestion, as they are meant: each has less bandwidth than the one before."""

LEAST_JOBS_OF_LOAD = 10
"""Of which a trace has two moments of submission, so that there is a load."""

SLOWEST = NETWORKS[-1]
"""On which gangs across machines run for years, and a simulation has as many leases."""

HOUR_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How much is simulated.

    Parameters
    ----------
    scale
        Jobs, and racks (two at least), as a share of the 500 jobs and 4 racks of the full size;
        above 0, at most 1.
    seeds
        Draws of jobs that means are over, at least 1.
    """

    scale: float
    seeds: int

    @property
    def jobs(self) -> int:
        """Of each workload."""
        return max(1, round(BATCH.jobs * self.scale))

    @property
    def topology(self) -> Topology:
        """Where they run."""
        return Topology.uniform(
            racks=max(LEAST_RACKS, round(RACKS * self.scale)),
            machines_per_rack=MACHINES_PER_RACK,
            gpus_per_machine=GPUS_PER_MACHINE,
        )

    @property
    def rate_share(self) -> float:
        """Share of the cluster's GPUs, by which rates of submission shrink too."""
        return self.topology.gpus / (RACKS * MACHINES_PER_RACK * GPUS_PER_MACHINE)

    def in_words(self) -> str:
        """Return the sizes in a sentence."""
        topology = self.topology
        return (
            f"Simulated at scale {self.scale:g}: {self.jobs} jobs on {topology.gpus} GPUs "
            f"({len(topology.racks)} racks of {MACHINES_PER_RACK} machines of {GPUS_PER_MACHINE}; "
            f"at scale 1 {BATCH.jobs} jobs, as in the paper, on {RACKS} racks, which is assumed), "
            f"{self.seeds} draw{'s' * (self.seeds != 1)} of jobs by seed. Rates of submission are "
            "by the cluster's size too, and stand in the tables as at scale 1."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a scheme is put into.

    Parameters
    ----------
    network
        Name of the links.
    jobs_per_day
        At scale 1; None submits all jobs at once.
    """

    network: str
    jobs_per_day: float | None = None

    @property
    def is_there(self) -> bool:
        """Whether it can be simulated; always."""
        return True

    @property
    def jobs_in_words(self) -> str:
        """Which jobs there are."""
        if self.jobs_per_day is None:
            return "batch"
        return f"{self.jobs_per_day:.3g} jobs a day"

    @property
    def in_words(self) -> str:
        """What it is called in tables."""
        return f"{self.jobs_in_words}, {self.network}"

    def workload(self, setting: Setting, seed: int) -> NetworkWorkload:
        """Return its jobs."""
        if self.jobs_per_day is None:
            return dally_batch(seed=seed, jobs=setting.jobs)
        rate = self.jobs_per_day * setting.rate_share
        return dally_poisson(jobs_per_day=rate, seed=seed, jobs=setting.jobs)

    def cluster(self, setting: Setting) -> NetworkCluster:
        """Return where they run."""
        return cluster_with(self.network, setting)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSituation:
    """Jobs of a trace, with models that are assigned to them.

    Parameters
    ----------
    trace
        Name of its file.
    called
        What tables call it.
    network
        Name of the links.
    """

    trace: str
    called: str
    network: str

    LOAD = 1.0
    """GPU-seconds of computing that are submitted over those that the cluster has in that time."""

    @property
    def is_there(self) -> bool:
        """Whether the trace is."""
        return locate(self.trace).is_file()

    @property
    def in_words(self) -> str:
        """What it is called in tables."""
        return f"{self.called}, {self.network}"

    def workload(self, setting: Setting, seed: int) -> NetworkWorkload:
        """Return its first jobs that fit the cluster, so close together that they load it."""
        gpus = setting.topology.gpus
        fitting, _ = without_oversized(read_workload(locate(self.trace)), gpus)
        first = limited(fitting, max(LEAST_JOBS_OF_LOAD, setting.jobs))
        return assigned_models(rescaled(first, load=self.LOAD, gpus=gpus), seed=seed)

    def cluster(self, setting: Setting) -> NetworkCluster:
        """Return where they run."""
        return cluster_with(self.network, setting)


AnySituation: TypeAlias = Situation | TraceSituation


def cluster_with(network: str, setting: Setting) -> NetworkCluster:
    """Return the cluster of a setting with links by name."""
    return NetworkCluster(
        topology=setting.topology,
        communication=ClosedForm(links=LINK_SETS[network]),
        network=network,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SituationCase:
    """A scheme in a situation.

    Parameters
    ----------
    scheme
        Who decides.
    situation
        What is simulated.
    seed
        Of the jobs.
    """

    scheme: str
    situation: AnySituation
    seed: int = 0

    @property
    def is_known(self) -> bool:
        """Whether there is such a scheme, and what it is to be simulated on."""
        return self.scheme in NETWORK_SCHEMES and self.situation.is_there

    @property
    def cost(self) -> float:
        """See `Case`."""
        return 30.0 if self.situation.network == SLOWEST else 1.0

    def run(self, setting: Setting) -> NetworkMetrics:
        """Simulate it."""
        situation = self.situation
        workload = situation.workload(setting, self.seed)
        return simulated(self.scheme, workload, situation.cluster(setting), seed=self.seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundCase:
    """What no scheme can beat in a situation: makespan and mean JCT, in seconds.

    Parameters
    ----------
    situation
        What is simulated.
    seed
        Of the jobs.
    """

    situation: AnySituation
    seed: int = 0

    @property
    def is_known(self) -> bool:
        """Whether what is simulated is there."""
        return self.situation.is_there

    @property
    def cost(self) -> float:
        """See `Case`."""
        return 1.0

    def run(self, setting: Setting) -> dict[str, float]:
        """Return the bounds, by the name of the metric that they are of."""
        workload = self.situation.workload(setting, self.seed)
        cluster = self.situation.cluster(setting)
        return {
            "makespan_s": makespan_bound_s(workload, cluster),
            "jct_mean_s": mean_jct_bound_s(workload, cluster),
        }


def simulated(
    scheme: str, workload: NetworkWorkload, cluster: NetworkCluster, *, seed: int
) -> NetworkMetrics:
    """Return what comes of a simulation.

    Raises
    ------
    SimulationError
        If it comes to no result, or to one that cannot be right.
    """
    options = NetworkOptions(leases=LeaseOptions(seed=seed))
    setup = NetworkSetup(workload=workload, cluster=cluster, options=options)
    return replay_network(setup, find_network_scheme(scheme)).metrics


class Results(CaseResults[Setting]):
    """What came of the cases of a setting."""

    def over_seeds(self, scheme: str, situation: AnySituation) -> list[NetworkMetrics]:
        """Return what came of a scheme with each seed; empty if it was not run."""
        found = [self.of(case) for case in cases_of([scheme], [situation], self.setting)]
        return [metrics for metrics in found if metrics is not None]


def cases_of(
    schemes: Iterable[str], situations: Iterable[AnySituation], setting: Setting
) -> list[SituationCase]:
    """Return the runs of schemes in situations, with each seed."""
    places = list(situations)
    return [
        SituationCase(scheme=scheme, situation=situation, seed=seed)
        for scheme in schemes
        for situation in places
        for seed in range(setting.seeds)
    ]


def bounds_of(situations: Iterable[AnySituation], setting: Setting) -> list[BoundCase]:
    """Return the bounds of situations, with each seed."""
    return [
        BoundCase(situation=situation, seed=seed)
        for situation in situations
        for seed in range(setting.seeds)
    ]


def run_cases(cases: Iterable[Any], setting: Setting, *, processes: int) -> Results:
    """Run every case once, those that ask for what is not there left out.

    Parameters
    ----------
    processes
        Cases at the same time; 1 runs them in this process.

    Raises
    ------
    SimulationError
        If a case comes to no result, or to one that cannot be right.
    """
    return Results(setting, found_of_cases(cases, setting, processes=processes))


def notes_on_jobs() -> tuple[str, ...]:
    """Return what is simulated, a sentence each."""
    return (
        "Models, gangs and how long jobs work have the figures of the job files of the author's "
        "public simulator; which goes with which is drawn by seed.",
        "Communication is a ring over the slowest tier that a gang spans, from sums of that "
        "simulator's profiles, none of it hidden behind computing; the paper runs ASTRA-sim. Which "
        "profiles were live is not known, so that efficiencies are orders of magnitude.",
        f"Leases last {LEASE_S / HOUR_S:g} h (derived from a README); each GPU given back idles "
        f"{HAND_OVER_S_PER_GPU:g} s for each GPU of its gang.",
    )
