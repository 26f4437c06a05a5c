"""The network problem: which waiting gangs start now, and how close together.

Source: Dally (arXiv 2401.16492) as its first author's public simulator has it; that publishes a
heuristic alone, the optimisation problem is ours. See `formulations/network/README.md`.
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
"""Of waits and weights; beyond, sums lose what they are made of."""


class Objective(Variant):
    """What is maximised; the variants of the problem."""

    EPOCH = "epoch", "max", 1e-6
    """Computing GPUs, weighted by how much the network has hurt a job and how long it waits."""
    WORK_RATE = "work_rate", "max", 1e-6
    """Computing GPUs: work that is done a second."""
    FEWEST_TIERS = "fewest_tiers", "max"
    """As many GPUs at work as can be, and gangs across as few tiers as can be for that."""
    LEAST_FRAGMENTATION = "least_fragmentation", "max"
    """As many GPUs at work as can be, and as few machines partly free as can be for that."""


COUNTING_OBJECTIVES = frozenset({Objective.FEWEST_TIERS, Objective.LEAST_FRAGMENTATION})
"""Whose values are integers."""


@declared()
class Machine:
    """A machine and what is free on it."""

    id: str = key(Text(), "unique in the instance")
    rack: str = key(Text(), "the rack that it stands in")
    gpus: int = key(
        Integer(1, MOST_GPUS), "all of them; all machines together have at most 1,000,000"
    )
    free_gpus: int = key(Integer(0, MOST_GPUS), "those that are free, at most gpus")
    affinity: int | None = key(
        OrNull(Integer(1)),
        "size of the gangs that it is kept for; only gandiva-affinity asks",
        default=None,
    )

    def __post_init__(self) -> None:
        if self.free_gpus > self.gpus:
            rule = f"must be at most the machine's gpus, {self.gpus}"
            raise FieldError("free_gpus", self.free_gpus, rule)


_TIMER = OrNull(Number(0, LARGEST_NUMBER), "ever")


@declared()
class WaitingJob:
    """A gang that holds no GPUs."""

    id: str = key(Text(), "unique in the instance")
    gang: int = key(Integer(1, MOST_GPUS), "its GPUs, all or none")
    efficiency: Mapping[str, float] = key(
        Named(Number(0, 1, above=True), least=1, names=tuple(TIER_OF_LABEL)),
        "share of the time in which it computes, by what it spans; it cannot run at tiers that are "
        "left out, and a gang of 1 spans nothing but its machine",
    )
    score: float = key(
        Number(0, 1),
        "Dally's Nw_sens: 0 for a job that has not run, near 0 for one that the network has "
        "slowed, 1 for one that it has not; `lyra_opt.simulation.policies.placing_gangs`",
        default=0.0,
    )
    waiting_s: float = key(Number(0, LARGEST_NUMBER), "how long it has waited", default=0.0)
    rack_timer_s: float | None = key(
        _TIMER,
        "how long it waits before it accepts several machines of a rack; gangs that no machine "
        "could hold do not wait for one",
        default=0.0,
    )
    network_timer_s: float | None = key(
        _TIMER,
        "how long it waits before it accepts several racks; gangs that no rack could hold do not "
        "wait for one",
        default=0.0,
    )
    weight: float = key(
        Number(0, LARGEST_NUMBER, above=True),
        "what its computing counts for (epoch, work_rate)",
        default=1.0,
    )
    remaining_s: float = key(
        Number(0, LARGEST_NUMBER, above=True),
        "how long it would still run if the network cost nothing, for rules that ask",
        default=3600.0,
    )
    attained_gpu_s: float = key(
        Number(0, LARGEST_NUMBER), "GPU-seconds that it has had, for rules that ask", default=0.0
    )
    needs_consolidation: bool = key(
        Flag(), "whether Tiresias keeps its model together, for rules that ask", default=True
    )

    def __post_init__(self) -> None:
        if self.gang == 1:
            for label, share in self.efficiency.items():
                if label != Tier.MACHINE.label:
                    rule = "must not be there: a gang of 1 spans nothing"
                    raise FieldError(f"efficiency.{label}", share, rule)


@declared(slots=False)
class Instance(ProblemInstance["Solution"]):
    """Which waiting gangs start now, and where."""

    problem = "network"

    objective: VariantOf[Objective] = key(
        Choice(Objective), "what is maximised", default=Objective.EPOCH, always_written=True
    )
    waiting_weight_per_s: float = key(
        Number(0, 1),
        "what a second of waiting adds to the weight of a job (epoch)",
        default=1e-6,
        always_written=True,
    )
    machines: TablesOf[Machine] = key(
        ListOf(Table(Machine), unique="id"), "the machines, in file order"
    )
    jobs: TablesOf[WaitingJob] = key(
        ListOf(Table(WaitingJob), unique="id"), "the gangs that wait, in file order"
    )

    def __post_init__(self) -> None:
        require_sum(
            ((machine.gpus, machine.gpus) for machine in self.machines),
            "machines[{}].gpus",
            most=MOST_GPUS,
            rule=f"all machines up to this one must have at most {MOST_GPUS} GPUs",
        )

    @property
    def variant(self) -> Objective:
        """The objective; it has its sense."""
        return self.objective

    def to_networkx(self) -> networkx.Graph:
        """Return the tree of network, racks and machines, and beside it the waiting jobs.

        Nodes are ``("network",)``, ``("rack", name)``, ``("machine", id)`` with ``gpus`` and
        ``free_gpus``, and ``("job", id)`` with ``gang``, ``weight``, ``waiting_s`` and ``tiers``,
        the labels of those at which it accepts to run now; waiting jobs have no edges. Edges have
        ``tier``, that of gangs that go across them: ``rack`` between machine and rack, ``network``
        above. The graph has ``name`` and ``objective``. Complexity O(racks + machines + jobs).
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
        """File position of each job by id."""
        return FrozenDict({job.id: position for position, job in enumerate(self.jobs)})

    @cached_property
    def machine_position(self) -> Mapping[str, int]:
        """File position of each machine by id."""
        return FrozenDict({machine.id: position for position, machine in enumerate(self.machines)})

    @cached_property
    def racks(self) -> Mapping[str, tuple[int, ...]]:
        """File positions of the machines of each rack, by name in order of appearance."""
        found: dict[str, list[int]] = {}
        for position, machine in enumerate(self.machines):
            found.setdefault(machine.rack, []).append(position)
        return FrozenDict({rack: tuple(positions) for rack, positions in found.items()})

    @cached_property
    def largest_machine_gpus(self) -> int:
        """GPUs of the largest machine, free or not; Dally's g_m."""
        return max(machine.gpus for machine in self.machines)

    @cached_property
    def largest_rack_gpus(self) -> int:
        """GPUs of the largest rack, free or not; Dally's g_r."""
        return max(
            sum(self.machines[position].gpus for position in positions)
            for positions in self.racks.values()
        )

    @cached_property
    def free_gpus(self) -> int:
        """All GPUs that are free."""
        return sum(machine.free_gpus for machine in self.machines)

    def tier_of(self, machines: Mapping[str, int]) -> Tier:
        """Return what a gang on these machines, at least one, spans."""
        if len(machines) == 1:
            return Tier.MACHINE
        racks = {self.machines[self.machine_position[machine]].rack for machine in machines}
        return Tier.RACK if len(racks) == 1 else Tier.NETWORK

    def tiers_of(self, job: WaitingJob) -> tuple[Tier, ...]:
        """Return the tiers at which a job accepts to run now: it can, and its timers allow it.

        Source: Dally's placement (its simulator); a timer that has run for exactly its time is
        over. Whether GPUs are free is another matter.
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
        """What a GPU at work counts for in the objectives that count: more than all else does."""
        if self.objective is Objective.FEWEST_TIERS:
            return 2 * len(self.jobs) + 1
        return len(self.machines) + 1


@declared()
class GangPlacement:
    """Where a gang starts."""

    job: str = key(Text(), "its id")
    tier: str = key(Text(tuple(TIER_OF_LABEL)), "what its machines span")
    gpus: Mapping[str, int] = key(
        Named(Integer(1), least=1), "GPUs by machine, as many as its gang"
    )


@declared(kw_only=False)
class Solution:
    """Which gangs start where; `check` judges it. Jobs left out go on waiting."""

    placements: TablesOf[GangPlacement] = key(
        ListOf(Table(GangPlacement), least=0), "the gangs that start, in file order of jobs"
    )
