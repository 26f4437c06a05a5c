"""The simulations behind the tables, and what comes of them.

Tables share runs: each case is run once, in worker processes, and every table picks its numbers
from the results.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from instances.network.generated_jobs import (
    DISTRIBUTED_DAYS,
    dally_batch,
    dally_distributed,
    dally_poisson,
)
from instances.network.job_sets import BATCH, DISTRIBUTED
from instances.network.trace_jobs import assigned_models
from instances.traces import locate
from instances.workloads.readers import read_workload
from instances.workloads.transform import rescaled, without_oversized
from lyra_opt.network.communication import ClosedForm
from lyra_opt.network.links import LINK_SETS, Link, LinkSet
from lyra_opt.network.topology import Topology
from lyra_opt.simulation.clairvoyant_bounds import makespan_bound_s, mean_jct_bound_s
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.policies.placing_gangs import PlacingGangs
from lyra_opt.simulation.scheme import Options, scheme_names
from lyra_opt.simulation.tenure import HAND_OVER_S_PER_GPU, LEASE_S
from paper_figures.dally.schemes import CONSOLIDATION, DALLY, NAMES
from paper_figures.runs import CaseResults, simulated

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lyra_opt.network.policy import PlacementPolicy
    from lyra_opt.simulation.metrics import Metrics
    from lyra_opt.simulation.workload import Workload

RACKS, MACHINES_PER_RACK, GPUS_PER_MACHINE = 4, 8, 8
SMALL_MACHINES_PER_RACK, GPUS_PER_SMALL_MACHINE = 4, 4
LEAST_RACKS = 2
"""So that there is a network between racks."""

_COSTS_NOTHING = Link(bandwidth_gb_per_s=1e12, latency_s=0.0)

NETWORKS = tuple(LINK_SETS)
"""In the order of congestion, as they are meant: each has less bandwidth than the one before."""

LEAST_JOBS_OF_LOAD = 10
"""Of which a trace has two moments of submission, so that there is a load."""

FREE_NETWORK = "free"
LINKS: Mapping[str, LinkSet] = {
    **LINK_SETS,
    FREE_NETWORK: LinkSet(
        name=FREE_NETWORK, **dict.fromkeys(("machine", "rack", "network"), _COSTS_NOTHING)
    ),
}
"""By name, those on which communication takes no time among them."""

SLOWEST = NETWORKS[-1]
"""On which gangs across machines run for years, so that a simulation has ten times the leases."""

SCHEMES_IN_SLOWEST = (DALLY, *CONSOLIDATION)
"""Which are simulated there."""

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
    def small_machines(self) -> Topology:
        """As many GPUs, on smaller machines in smaller racks."""
        gpus_per_rack = SMALL_MACHINES_PER_RACK * GPUS_PER_SMALL_MACHINE
        return Topology.uniform(
            racks=self.topology.gpus // gpus_per_rack,
            machines_per_rack=SMALL_MACHINES_PER_RACK,
            gpus_per_machine=GPUS_PER_SMALL_MACHINE,
        )

    @property
    def rate_share(self) -> float:
        """Share of the cluster's GPUs, by which rates of submission shrink too."""
        return self.topology.gpus / (RACKS * MACHINES_PER_RACK * GPUS_PER_MACHINE)

    def in_words(self) -> str:
        """Return the sizes in a sentence."""
        topology, small = self.topology, self.small_machines
        return (
            f"Simulated at scale {self.scale:g}: {self.jobs} jobs on {topology.gpus} GPUs "
            f"({len(topology.racks)} racks of {MACHINES_PER_RACK} machines of {GPUS_PER_MACHINE}; "
            f"where tables say so {len(small.racks)} racks of {SMALL_MACHINES_PER_RACK} small "
            f"machines of {GPUS_PER_SMALL_MACHINE}), {self.seeds} "
            f"draw{'s' * (self.seeds != 1)} of jobs by seed. At scale 1 there are {BATCH.jobs} "
            f"jobs, as in the paper, on {RACKS * MACHINES_PER_RACK * GPUS_PER_MACHINE} GPUs, which "
            "is assumed. Rates of submission follow the size of the cluster, and stand in the "
            "tables as at scale 1."
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
    is_distributed
        Whether the jobs are those of the set of gangs of several GPUs, at its own rate.
    has_small_machines
        Whether machines and racks are smaller.
    """

    network: str
    jobs_per_day: float | None = None
    is_distributed: bool = False
    has_small_machines: bool = False

    @property
    def is_there(self) -> bool:
        """Whether it can be simulated; always."""
        return True

    @property
    def in_words(self) -> str:
        """What it is called in tables."""
        if self.is_distributed:
            jobs = "distributed"
        else:
            jobs = "batch" if self.jobs_per_day is None else f"{self.jobs_per_day:g} jobs a day"
        return f"{jobs}, {self.network}" + ", small machines" * self.has_small_machines

    def workload(self, setting: Setting, seed: int) -> Workload:
        """Return its jobs."""
        if self.is_distributed:
            rate = DISTRIBUTED.jobs / DISTRIBUTED_DAYS[0] * setting.rate_share
            jobs = max(1, round(DISTRIBUTED.jobs * setting.scale))
            return dally_distributed(seed=seed, jobs=jobs, jobs_per_day=rate)
        if self.jobs_per_day is None:
            return dally_batch(seed=seed, jobs=setting.jobs)
        rate = self.jobs_per_day * setting.rate_share
        return dally_poisson(jobs_per_day=rate, seed=seed, jobs=setting.jobs)

    def cluster(self, setting: Setting) -> Cluster:
        """Return where they run."""
        topology = setting.small_machines if self.has_small_machines else setting.topology
        return cluster_with(self.network, topology)


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

    JOBS = 1000
    """At scale 1: more than elsewhere, since few of them have several GPUs."""
    LOAD = 2.0
    """GPU-seconds of computing that are submitted over those that the cluster has in that time."""

    @property
    def is_there(self) -> bool:
        """Whether the trace is."""
        return locate(self.trace).is_file()

    @property
    def in_words(self) -> str:
        """What it is called in tables."""
        return f"{self.called}, {self.network}"

    def workload(self, setting: Setting, seed: int) -> Workload:
        """Return jobs from all over it that fit, so close together that they load the cluster.

        A stretch of the trace need not be typical: Philly's first weeks have few jobs, and long
        ones, and later hundreds of short ones with a GPU each come at once.
        """
        gpus = setting.topology.gpus
        fitting, _ = without_oversized(_trace(self.trace), gpus)
        wanted = max(LEAST_JOBS_OF_LOAD, round(self.JOBS * setting.scale))
        jobs = min(len(fitting.jobs), wanted)
        every = len(fitting.jobs) // jobs
        taken = replace(
            fitting,
            jobs=fitting.jobs[::every][:jobs],
            assumptions=(*fitting.assumptions, f"Only one in {every:,} jobs."),
        )
        return assigned_models(rescaled(taken, load=self.LOAD, gpus=gpus), seed=seed)

    def cluster(self, setting: Setting) -> Cluster:
        """Return where they run."""
        return cluster_with(self.network, setting.topology)


@cache
def _trace(name: str) -> Workload:
    return read_workload(locate(name))


AnySituation: TypeAlias = Situation | TraceSituation


def cluster_with(network: str, topology: Topology) -> Cluster:
    """Return a cluster with links by name."""
    return Cluster.of_racks(topology, ClosedForm(links=LINKS[network]), network=network)


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
        return self.scheme in scheme_names() and self.situation.is_there

    @property
    def cost(self) -> float:
        """See `Case`."""
        return 30.0 if self.situation.network == SLOWEST else 1.0

    def run(self, setting: Setting) -> Metrics:
        """Simulate it."""
        workload = self.situation.workload(setting, self.seed)
        cluster = self.situation.cluster(setting)
        return simulated(self.scheme, workload, cluster, Options(seed=self.seed)).metrics


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


def run_rule(rule: PlacementPolicy, workload: Workload, cluster: Cluster, options: Options) -> None:
    """Run a placement rule that is no scheme by name, and that keeps what is wanted of the run."""
    policy = PlacingGangs(lambda: rule, reclaimer=None)
    Kernel(workload, cluster, policy, tenure=options.leases, seed=options.seed).run()


class Results(CaseResults[Setting]):
    """What came of the cases of a setting."""

    def over_seeds(self, scheme: str, situation: AnySituation) -> list[Metrics]:
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
        if situation.network != SLOWEST or scheme in SCHEMES_IN_SLOWEST
        for seed in range(setting.seeds)
    ]


def bounds_of(situations: Iterable[AnySituation], setting: Setting) -> list[BoundCase]:
    """Return the bounds of situations, with each seed."""
    return [
        BoundCase(situation=situation, seed=seed)
        for situation in situations
        for seed in range(setting.seeds)
    ]


def notes_on_jobs() -> tuple[str, ...]:
    """Return what is simulated, a sentence each."""
    return (
        "Models, gangs and how long jobs work have the figures of the job files of the author's "
        "public simulator; which goes with which is drawn by seed.",
        "Communication is a ring over the slowest tier that a gang spans, from sums of that "
        "simulator's profiles, none of it hidden behind computing; the paper runs ASTRA-sim. Which "
        "profiles were live is not known, so that efficiencies are orders of magnitude.",
        "The shape of the paper's clusters is not known. Machines of 8 GPUs are those of the "
        "shipped file; small machines of 4 are those of a sample configuration.",
        f"Leases last {LEASE_S / HOUR_S:g} h (derived from a README); each GPU given back idles "
        f"{HAND_OVER_S_PER_GPU:g} s for each GPU of its gang.",
    )


def note_on_slowest() -> str:
    """Return what is particular about the slowest links, in a sentence."""
    there = [NAMES[scheme] for scheme in SCHEMES_IN_SLOWEST]
    return (
        f"On {SLOWEST} a message between machines takes 5 ms and one between racks 50 ms, for each "
        "layer and step of the ring: gangs that no machine holds compute for a few per cent of "
        "their time at most, whatever the scheme, and decide all means. A simulation takes twenty "
        f"times as long there; only {', '.join(there[:-1])} and {there[-1]} were run."
    )
