"""Define the instances and solutions of the network problem.

It decides which waiting gangs start now, and how close together their GPUs are.

Source: Dally (arXiv 2401.16492), as implemented in the public simulator of its first author. The
simulator contains only a heuristic; the optimisation problem is ours. The mathematics are in
`formulations/network/README.md`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from lyra_opt.core.errors import FieldError
from lyra_opt.core.fields import Table, declared, key
from lyra_opt.core.frozen import FrozenDict
from lyra_opt.core.problem import ProblemInstance, Variant
from lyra_opt.core.rules import (
    Choice,
    Flag,
    Integer,
    ListOf,
    Named,
    Number,
    OrNull,
    Text,
    require_sum,
)
from lyra_opt.network.links import TIER_OF_LABEL, Tier

if TYPE_CHECKING:
    from collections.abc import Mapping

    import networkx

    from lyra_opt.core.fields import TablesOf, VariantOf

MOST_GPUS = 1_000_000
LARGEST_NUMBER = 1e12
"""Largest waiting time or weight; with larger ones, sums lose precision."""


class Objective(Variant):
    """The objective of an instance; every variant is maximised."""

    EPOCH = "epoch", "max", 1e-6
    """Maximise the GPUs that compute, weighted by slowdown suffered and waiting time."""
    WORK_RATE = "work_rate", "max", 1e-6
    """Maximise the weighted number of GPUs that compute, that is the work done per second."""
    FEWEST_TIERS = "fewest_tiers", "max"
    """Maximise the number of GPUs in use; among those solutions, cross the fewest tiers."""
    LEAST_FRAGMENTATION = "least_fragmentation", "max"
    """Maximise the number of GPUs in use, then minimise the number of partly free machines."""


COUNTING_OBJECTIVES = frozenset({Objective.FEWEST_TIERS, Objective.LEAST_FRAGMENTATION})
"""Objectives with integer values."""


@declared()
class Machine:
    """A machine with its GPUs and its free GPUs."""

    id: str = key(Text(), "unique in the instance")
    rack: str = key(Text(), "name of the machine's rack")
    gpus: int = key(Integer(1, MOST_GPUS), "number of GPUs; at most 1,000,000 over all machines")
    free_gpus: int = key(Integer(0, MOST_GPUS), "number of free GPUs, at most gpus")
    affinity: int | None = key(
        OrNull(Integer(1)),
        "gang size for which the machine is reserved; used by gandiva-affinity only",
        default=None,
    )

    def __post_init__(self) -> None:
        if self.free_gpus > self.gpus:
            rule = f"must be at most the machine's gpus, {self.gpus}"
            raise FieldError("free_gpus", self.free_gpus, rule)


_TIMER = OrNull(Number(0, LARGEST_NUMBER), "no end")


@declared()
class WaitingJob:
    """A gang that waits for GPUs."""

    id: str = key(Text(), "unique in the instance")
    gang: int = key(Integer(1, MOST_GPUS), "number of GPUs, all of which the job needs at once")
    efficiency: Mapping[str, float] = key(
        Named(Number(0, 1, above=True), least=1, names=tuple(TIER_OF_LABEL)),
        "fraction of time in which the gang computes, by the tier that it spans; it cannot run at "
        "a tier that is left out, and a gang of 1 can only span a machine",
    )
    score: float = key(
        Number(0, 1),
        "Dally's Nw_sens: 0 for a job that has not run, near 0 for a job that the network has "
        "slowed down much, 1 for a job that the network has not slowed down; see "
        "`lyra_opt.simulation.policies.placing_gangs`",
        default=0.0,
    )
    waiting_s: float = key(Number(0, LARGEST_NUMBER), "time that the job has waited", default=0.0)
    rack_timer_s: float | None = key(
        _TIMER,
        "waiting time after which the job accepts several machines of one rack; ignored if the "
        "gang is larger than every machine",
        default=0.0,
    )
    network_timer_s: float | None = key(
        _TIMER,
        "waiting time after which the job accepts several racks; ignored if the gang is larger "
        "than every rack",
        default=0.0,
    )
    weight: float = key(
        Number(0, LARGEST_NUMBER, above=True),
        "weight of the job's computing GPUs (epoch, work_rate)",
        default=1.0,
    )
    remaining_s: float = key(
        Number(0, LARGEST_NUMBER, above=True),
        "remaining run time without network costs, for policies that use it",
        default=3600.0,
    )
    attained_gpu_s: float = key(
        Number(0, LARGEST_NUMBER),
        "GPU-seconds received so far, for policies that use it",
        default=0.0,
    )
    needs_consolidation: bool = key(
        Flag(),
        "whether Tiresias must keep the gang together, for policies that use it",
        default=True,
    )

    def __post_init__(self) -> None:
        if self.gang == 1:
            for label, share in self.efficiency.items():
                if label != Tier.MACHINE.label:
                    rule = "must be left out for a gang of 1, because it runs on one machine"
                    raise FieldError(f"efficiency.{label}", share, rule)


@declared(slots=False)
class Instance(ProblemInstance["Solution"]):
    """A cluster with free GPUs, its waiting gangs, and the objective of their placement."""

    problem = "network"

    objective: VariantOf[Objective] = key(
        Choice(Objective),
        "the objective, which is maximised",
        default=Objective.EPOCH,
        always_written=True,
    )
    waiting_weight_per_s: float = key(
        Number(0, 1),
        "weight that a job gains per second of waiting (epoch)",
        default=1e-6,
        always_written=True,
    )
    machines: TablesOf[Machine] = key(
        ListOf(Table(Machine), unique="id"), "machines of the cluster"
    )
    jobs: TablesOf[WaitingJob] = key(ListOf(Table(WaitingJob), unique="id"), "gangs that wait")

    def __post_init__(self) -> None:
        require_sum(
            ((machine.gpus, machine.gpus) for machine in self.machines),
            "machines[{}].gpus",
            most=MOST_GPUS,
            rule=f"all machines up to this one must have at most {MOST_GPUS} GPUs",
        )

    @property
    def variant(self) -> Objective:
        """The objective of the instance."""
        return self.objective

    def to_networkx(self) -> networkx.Graph:
        """Return a tree of network, racks and machines, with the waiting jobs as isolated nodes.

        Nodes are ``("network",)``, ``("rack", name)``, ``("machine", id)`` with ``gpus`` and
        ``free_gpus``, and ``("job", id)`` with ``gang``, ``weight``, ``waiting_s`` and ``tiers``,
        the labels of the tiers that the job accepts now. Edges have ``tier``, the tier of gangs
        that cross them: ``rack`` between machine and rack, ``network`` above. The graph has
        ``name`` and ``objective``. Complexity O(racks + machines + jobs).
        """
        import networkx

        graph = networkx.Graph(name=self.name, objective=str(self.objective))
        root = (Tier.NETWORK.label,)
        graph.add_node(root)
        for rack, positions in self.racks.items():
            graph.add_edge(root, (Tier.RACK.label, rack), tier=Tier.NETWORK.label)
            for machine in (self.machines[position] for position in positions):
                node = (Tier.MACHINE.label, machine.id)
                graph.add_node(node, gpus=machine.gpus, free_gpus=machine.free_gpus)
                graph.add_edge((Tier.RACK.label, rack), node, tier=Tier.RACK.label)
        for job in self.jobs:
            graph.add_node(
                ("job", job.id),
                gang=job.gang,
                weight=job.weight,
                waiting_s=job.waiting_s,
                tiers=tuple(tier.label for tier in self.tiers_of(job)),
            )
        return graph

    @cached_property
    def job_position(self) -> Mapping[str, int]:
        """File position of each job, by id."""
        return FrozenDict({job.id: position for position, job in enumerate(self.jobs)})

    @cached_property
    def machine_position(self) -> Mapping[str, int]:
        """File position of each machine, by id."""
        return FrozenDict({machine.id: position for position, machine in enumerate(self.machines)})

    @cached_property
    def racks(self) -> Mapping[str, tuple[int, ...]]:
        """File positions of the machines in each rack, by rack name in order of appearance."""
        found: dict[str, list[int]] = {}
        for position, machine in enumerate(self.machines):
            found.setdefault(machine.rack, []).append(position)
        return FrozenDict({rack: tuple(positions) for rack, positions in found.items()})

    @cached_property
    def largest_machine_gpus(self) -> int:
        """Number of GPUs of the largest machine, free or not (Dally's g_m)."""
        return max(machine.gpus for machine in self.machines)

    @cached_property
    def largest_rack_gpus(self) -> int:
        """Number of GPUs of the largest rack, free or not (Dally's g_r)."""
        return max(
            sum(self.machines[position].gpus for position in positions)
            for positions in self.racks.values()
        )

    @cached_property
    def free_gpus(self) -> int:
        """Number of free GPUs in the whole cluster."""
        return sum(machine.free_gpus for machine in self.machines)

    def tier_of(self, machines: Mapping[str, int]) -> Tier:
        """Return the tier that a gang on the given machines spans."""
        if len(machines) == 1:
            return Tier.MACHINE
        racks = {self.machines[self.machine_position[machine]].rack for machine in machines}
        return Tier.RACK if len(racks) == 1 else Tier.NETWORK

    def tiers_of(self, job: WaitingJob) -> tuple[Tier, ...]:
        """Return the tiers that a job accepts now, given its efficiencies and its timers.

        Source: Dally's placement, in its simulator. A timer ends exactly at its time. Whether
        enough GPUs are free is not checked.
        """
        return tuple(
            tier
            for tier in Tier
            if tier.label in job.efficiency and not self._is_held_back(job, tier)
        )

    def _is_held_back(self, job: WaitingJob, tier: Tier) -> bool:
        if tier is Tier.MACHINE:
            return False
        if tier is Tier.RACK:
            timer_s, size = job.rack_timer_s, self.largest_machine_gpus
        else:
            timer_s, size = job.network_timer_s, self.largest_rack_gpus
        if job.gang > size:
            return False
        return timer_s is None or job.waiting_s < timer_s

    @cached_property
    def gpu_points(self) -> int:
        """Value of a GPU in use under a counting objective, above the sum of all other terms."""
        if self.objective is Objective.FEWEST_TIERS:
            return 2 * len(self.jobs) + 1
        return len(self.machines) + 1


@declared()
class GangPlacement:
    """The GPUs on which a gang starts."""

    job: str = key(Text(), "id of the job")
    tier: str = key(Text(tuple(TIER_OF_LABEL)), "tier that its machines span")
    gpus: Mapping[str, int] = key(
        Named(Integer(1), least=1), "GPUs by machine, in total the size of the gang"
    )


@declared(kw_only=False)
class Solution:
    """The placements of all gangs that start; all other gangs keep waiting.

    `check` verifies a solution.
    """

    placements: TablesOf[GangPlacement] = key(
        ListOf(Table(GangPlacement), least=0),
        "placements of the gangs that start, in file order of jobs",
    )
