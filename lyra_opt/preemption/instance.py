"""The data classes of a preemption instance and of its solution; both check their values.

The terms are those of Kubernetes. A gang is a group of pods that run and stop together, like a job
of Slurm. The problem is the common core of the preemption of kube-scheduler (for gangs KEP-5710),
Volcano, Kueue, KAI and Slurm.
"""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.errors import FieldError, counted
from lyra_opt.core.fields import Table, declared, key
from lyra_opt.core.frozen import FrozenDict
from lyra_opt.core.problem import ProblemInstance, Variant
from lyra_opt.core.rules import (
    LARGEST_INTEGER,
    Choice,
    Flag,
    Integer,
    ListOf,
    Named,
    Number,
    OrNull,
    Text,
    require_choice,
)
from lyra_opt.preemption.costs import LOST, Effect
from lyra_opt.preemption.index import PreemptionIndex
from lyra_opt.preemption.objective import BUDGET_COUNTS, TERMS, Objective

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import networkx

    from lyra_opt.core.fields import TablesOf, TupleOf, VariantOf
    from lyra_opt.preemption.index import Integers

GPU = "gpu"
"""The resource whose loss the default objective counts."""

GPU_NAMES = ("nvidia.com/", "amd.com/", "gpu.intel.com/", "habana.ai/", "gres/gpu:")
"""The beginnings of the names of other resources that count GPUs or parts of GPUs."""

PRIORITY = Integer(-(2**31), 2**31 - 1)
"""The rule for priorities: 32-bit integers, as in Kubernetes. A larger one is more important."""

AMOUNTS = Named(Integer())
"""The rule for amounts of resources by name; a resource that is left out has the amount 0."""

LABELS = Named(Text())
"""The rule for labels of nodes, and for selectors, which list the labels that a node must have."""


class Moves(Variant):
    """Which gangs may move pods to other nodes; a pod that moves is restarted, not lost."""

    NONE = "none", "min"
    """No pod moves."""
    VICTIMS = "victims", "min"
    """Pods of movable gangs may move if the gang may also lose pods."""
    ANY = "any", "min"
    """Pods of all movable gangs may move, including protected gangs."""


VICTIMS = ("lower", "lower-or-equal", "other-queue", "any", "none")
"""The rules that decide which gangs may lose pods; protected gangs never do."""


class _TermOf(Text):
    """One of the given names, or ``lost:`` and the name of a resource."""

    def check(self, path: str, value: Any) -> str:
        """Return the name if it is known; the resource is checked by the instance."""
        if isinstance(value, str) and value.startswith(LOST) and value != LOST:
            return Text().check(path, value)
        return require_choice(path, value, (*self.choices, f"{LOST}RESOURCE"))

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the names and of the pattern for resources."""
        return {"anyOf": [{"enum": list(self.choices)}, {"type": "string", "pattern": "^lost:."}]}

    def in_words(self) -> str:
        """Return the names, joined by commas."""
        return ", ".join((*self.choices, f"{LOST}RESOURCE"))


@declared()
class Node:
    """A node of the cluster with the resources that pods can use."""

    id: str = key(Text(), "unique in the instance")
    capacity: Mapping[str, int] = key(
        AMOUNTS,
        "amount of each resource for gangs and pending pods, such as gpu, cpu (milli-CPUs) or "
        "memory (bytes); pods that cannot leave, such as those of a DaemonSet, are subtracted",
    )
    domains: Mapping[str, str] = key(
        Named(Text()), "name of the node's domain at each level, such as rack or block", default={}
    )
    labels: Mapping[str, str] = key(LABELS, "labels, for selectors", default={})
    is_usable: bool = key(
        Flag(),
        "whether pending and moved pods can be placed on the node; false for a cordoned node, "
        "whose pods may stay",
        default=True,
    )
    must_be_empty: bool = key(
        Flag(), "whether all pods must leave the node, and none may be placed on it", default=False
    )


@declared()
class PodGroup:
    """Pods of one gang that are alike: they run on one node and request the same resources."""

    node: str = key(Text(), "id of the node")
    request: Mapping[str, int] = key(AMOUNTS, "amount of each resource that one pod holds")
    count: int = key(Integer(1, 1_000_000), "number of pods", default=1)
    selector: Mapping[str, str] = key(
        LABELS, "labels of the nodes to which the pods may move", default={}
    )


@declared()
class Gang:
    """A running gang: pods that are useful only as long as enough of them remain."""

    id: str = key(Text(), "unique in the instance")
    priority: int = key(PRIORITY, "priority; a larger number is more important", default=0)
    pods: TablesOf[PodGroup] = key(ListOf(Table(PodGroup), parent="gang"), "its pods by group")
    min_pods: int = key(
        Integer(1),
        "number of pods that must remain, or else the whole gang is lost; at most the number of "
        "its pods",
        default=None,
        computed=attrgetter("size"),
        shown="all its pods",
    )
    is_protected: bool = key(Flag(), "whether the gang may never lose pods", default=False)
    is_movable: bool = key(Flag(), "whether its pods may move, if moves are allowed", default=True)
    queue: str = key(Text(), "name of its queue", default="default")
    weight: int = key(Integer(), "cost of losing the gang, for the term weighted_gangs", default=1)
    start_s: float = key(
        Number(-1e12, 1e12), "start time, for rules that prefer young victims", default=0.0
    )

    def __post_init__(self) -> None:
        if self.min_pods > self.size:
            raise FieldError(
                "min_pods", self.min_pods, f"must be at most the gang's {self.size} pods"
            )

    @property
    def size(self) -> int:
        """The number of pods of the gang."""
        return sum(group.count for group in self.pods)


@declared()
class Shape:
    """Pending pods that are alike: each requests the same resources."""

    id: str = key(Text(), "unique in the demand", default="pod")
    count: int = key(Integer(1, 1_000_000), "number of pods")
    request: Mapping[str, int] = key(AMOUNTS, "amount of each resource that one pod requests")
    min_count: int = key(
        Integer(0),
        "number of pods that must be placed; the term unplaced counts further pods that are not",
        default=None,
        computed=attrgetter("count"),
        shown="count",
    )
    max_per_node: int | None = key(
        OrNull(Integer(1), "any number"), "largest number of these pods on one node", default=None
    )
    selector: Mapping[str, str] = key(
        LABELS, "labels of the nodes on which the pods may be placed", default={}
    )

    def __post_init__(self) -> None:
        if self.min_count > self.count:
            raise FieldError(
                "min_count", self.min_count, f"must be at most the count, {self.count}"
            )


@declared()
class Demand:
    """The pending gang for which room must be made."""

    priority: int = key(PRIORITY, "priority of the pending gang", default=0)
    queue: str = key(Text(), "name of its queue, for victims of other queues", default="default")
    shapes: TablesOf[Shape] = key(ListOf(Table(Shape), unique="id"), "its pods by shape")
    level: str | None = key(
        OrNull(Text(), "any nodes"),
        "level of domains, such as rack, at which its pods should be together; pods are placed "
        "only on nodes that have a domain at this level",
        default=None,
    )
    is_level_required: bool = key(
        Flag(),
        "whether all its pods must be in one domain of the level; if not, the term extra_domains "
        "counts the domains beyond the first",
        default=True,
    )


@declared()
class Budget:
    """A limit on the pods of some gangs that are lost or moved, such as a PodDisruptionBudget."""

    id: str = key(Text(), "unique in the instance")
    gangs: TupleOf[str] = key(ListOf(Text(), distinct=True), "ids of the gangs that it counts")
    counts: str = key(
        _TermOf(BUDGET_COUNTS),
        "the quantity that is limited; disrupted pods are those that are lost or moved",
        default="disrupted_pods",
    )
    most: int = key(Integer(), "the largest allowed quantity")
    used: int = key(Integer(), "the quantity that earlier disruptions have already used", default=0)
    is_hard: bool = key(
        Flag(),
        "whether a solution must keep the budget; if not, the term budget_excess counts the excess",
        default=True,
    )

    def __post_init__(self) -> None:
        if self.is_hard and self.used > self.most:
            rule = (
                f"must be at most {self.most}, the most of the hard budget, which is broken already"
            )
            raise FieldError("used", self.used, rule)


def _default_victims(instance: Instance) -> str:
    return "any" if instance.demand is None else "lower"


def _default_objective(instance: Instance) -> tuple[str, ...]:
    has_gpus = any(GPU in node.capacity for node in instance.nodes)
    excess = () if all(budget.is_hard for budget in instance.budgets) else ("budget_excess",)
    lost = f"{LOST}{GPU}" if has_gpus else "lost_pods"
    return ("unplaced", *excess, "lost_gangs_by_priority", lost, "moved_pods", "extra_domains")


@declared(slots=False)
class Instance(ProblemInstance["Solution"]):
    """Choose which running pods are lost or move so that a gang fits or nodes become empty.

    A pod stays, is lost, or moves to another usable node that matches its selector. A gang keeps
    at least `min_pods` pods, or is lost whole. Afterwards the pods of each node fit its capacity:
    those that stay, those that move in, and the pending pods. The order of these events in time is
    not part of the problem.

    Notes
    -----
    `index` holds the instance as arrays. It is built once, in time linear in the file.
    """

    problem = "preemption"

    moves: VariantOf[Moves] = key(
        Choice(Moves),
        "which gangs may move pods to other nodes",
        default=Moves.NONE,
        always_written=True,
    )
    nodes: TablesOf[Node] = key(ListOf(Table(Node), unique="id"), "the nodes, in file order")
    gangs: TablesOf[Gang] = key(
        ListOf(Table(Gang), least=0, unique="id"), "the running gangs, in file order", default=()
    )
    demand: Demand | None = key(
        OrNull(Table(Demand), "no pending gang"), "the pending gang", default=None
    )
    empty_nodes: int = key(
        Integer(),
        "number of nodes to empty, besides those that must be empty; the solution chooses them",
        default=0,
    )
    empty_selector: Mapping[str, str] = key(
        LABELS, "labels of the nodes that can be chosen to be emptied", default={}
    )
    victims: str = key(
        Text(VICTIMS),
        "which gangs may lose pods: those with a lower priority than the demand, or a lower or "
        "equal one, those of other queues, any, or none; protected gangs never lose pods",
        default=None,
        computed=_default_victims,
        shown="lower if something is pending, otherwise any",
    )
    budgets: TablesOf[Budget] = key(
        ListOf(Table(Budget), least=0, unique="id"), "limits on disruptions", default=()
    )
    objective: TupleOf[str] = key(
        ListOf(_TermOf(TERMS), distinct=True),
        "the terms that are minimised, the most important one first",
        default=None,
        computed=_default_objective,
        shown="unplaced, budget_excess (with soft budgets), lost_gangs_by_priority, lost:gpu (or "
        "lost_pods without GPUs), moved_pods, extra_domains",
    )
    index: PreemptionIndex = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._require_capacities_to_sum()
        self._require_pods_to_fit()
        self._require_references()
        object.__setattr__(self, "index", PreemptionIndex.of(self))

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        object.__setattr__(self, "index", PreemptionIndex.of(self))

    def _require_capacities_to_sum(self) -> None:
        totals: dict[str, int] = {}
        for n, node in enumerate(self.nodes):
            for resource, amount in node.capacity.items():
                totals[resource] = totals.get(resource, 0) + amount
                if totals[resource] > LARGEST_INTEGER:
                    rule = f"all nodes up to this one must have at most {LARGEST_INTEGER} of it"
                    raise FieldError(f"nodes[{n}].capacity.{resource}", amount, rule)

    def _require_pods_to_fit(self) -> None:
        free = {node.id: dict(node.capacity) for node in self.nodes}
        for g, gang in enumerate(self.gangs):
            for p, group in enumerate(gang.pods):
                path = f"gangs[{g}].pods[{p}]"
                if group.node not in free:
                    rule = "must be the id of a node of the instance"
                    raise FieldError(f"{path}.node", group.node, rule)
                left = free[group.node]
                for resource, amount in group.request.items():
                    held = amount * group.count
                    available = left.get(resource, 0)
                    if held > available:
                        is_one = group.count == 1
                        rule = (
                            f"gang {gang.id!r} has {counted(group.count, 'pod')} on node "
                            f"{group.node!r}, which hold{'s' * is_one} {held} {resource}"
                            f"{' in all' * (not is_one)}, but only {available} are free"
                        )
                        raise FieldError(f"{path}.request.{resource}", amount, rule)
                    left[resource] = available - held

    def _require_references(self) -> None:
        demand = self.demand
        if demand is None:
            if not self.empty_nodes and not any(node.must_be_empty for node in self.nodes):
                rule = "must be given, because no node must be empty and empty_nodes is 0"
                raise FieldError("demand", None, rule)
            if self.victims not in ("any", "none"):
                rule = "must be any or none if nothing is pending"
                raise FieldError("victims", self.victims, rule)
        elif not any(demand.level in (None, *node.domains) for node in self.nodes):
            rule = "must be a level at which at least one node has a domain"
            raise FieldError("demand.level", demand.level, rule)
        candidates = sum(self.can_be_chosen_empty(node) for node in self.nodes)
        if self.empty_nodes > candidates:
            rule = f"must be at most the {candidates} nodes that can be chosen to be emptied"
            raise FieldError("empty_nodes", self.empty_nodes, rule)
        counted_terms = {f"objective[{place}]": term for place, term in enumerate(self.objective)}
        for b, budget in enumerate(self.budgets):
            counted_terms[f"budgets[{b}].counts"] = budget.counts
            for position, name in enumerate(budget.gangs):
                if name not in self.gang_position:
                    rule = "must be the id of a gang of the instance"
                    raise FieldError(f"budgets[{b}].gangs[{position}]", name, rule)
        for path, term in counted_terms.items():
            resource = term.removeprefix(LOST)
            if resource != term and not any(resource in node.capacity for node in self.nodes):
                raise FieldError(path, term, "must name a resource that at least one node has")

    def can_be_chosen_empty(self, node: Node) -> bool:
        """Return whether a solution can choose a node as one of the `empty_nodes`."""
        return not node.must_be_empty and matches(node, self.empty_selector)

    def may_lose_pods(self, gang: Gang) -> bool:
        """Return whether the rule `victims` allows a gang to lose pods."""
        if gang.is_protected or self.victims == "none":
            return False
        if self.demand is None or self.victims == "any":
            return True
        if self.victims == "other-queue":
            return gang.queue != self.demand.queue
        if self.victims == "lower":
            return gang.priority < self.demand.priority
        return gang.priority <= self.demand.priority

    def may_move_pods(self, gang: Gang) -> bool:
        """Return whether pods of a gang may move to other nodes."""
        if not gang.is_movable or self.moves is Moves.NONE:
            return False
        return self.moves is Moves.ANY or self.may_lose_pods(gang)

    def can_place(self, shape: Shape, node: Node) -> bool:
        """Return whether the demand allows pods of a shape on a node, apart from its capacity."""
        has_domain = self.demand is None or self.demand.level in (None, *node.domains)
        is_open = node.is_usable and not node.must_be_empty
        return is_open and has_domain and matches(node, shape.selector)

    @property
    def variant(self) -> Moves:
        """Which gangs may move pods; the objective is minimised in all variants."""
        return self.moves

    @cached_property
    def terms(self) -> Objective:
        """The terms of the objective, with the encoding of their values as one integer."""
        return Objective.of(self)

    @cached_property
    def node_position(self) -> Mapping[str, int]:
        """The position of each node in the file, by id."""
        return FrozenDict({node.id: position for position, node in enumerate(self.nodes)})

    @cached_property
    def gang_position(self) -> Mapping[str, int]:
        """The position of each gang in the file, by id."""
        return FrozenDict({gang.id: position for position, gang in enumerate(self.gangs)})

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """The names of all resources, in order of first appearance, nodes first."""
        found = dict.fromkeys(name for node in self.nodes for name in node.capacity)
        for gang in self.gangs:
            for group in gang.pods:
                found.update(dict.fromkeys(group.request))
        for shape in self.demand.shapes if self.demand else ():
            found.update(dict.fromkeys(shape.request))
        return tuple(found)

    def to_networkx(self) -> networkx.Graph:
        """Return the bipartite graph of nodes and gangs, with an edge if a gang has pods on a node.

        Nodes are ``("node", id)`` with ``capacity``, ``is_usable`` and ``must_be_empty``, and
        ``("gang", id)`` with ``priority``, ``size``, ``min_pods`` and ``may_lose_pods``. The
        attribute ``bipartite`` is 0 for nodes and 1 for gangs. An edge has ``pods``, the number of
        pods of the gang on the node. The graph has ``name``. Complexity O(nodes + pod groups).
        """
        import networkx

        graph = networkx.Graph(name=self.name)
        for node in self.nodes:
            graph.add_node(
                ("node", node.id),
                bipartite=0,
                capacity=dict(node.capacity),
                is_usable=node.is_usable,
                must_be_empty=node.must_be_empty,
            )
        for gang in self.gangs:
            graph.add_node(
                ("gang", gang.id),
                bipartite=1,
                priority=gang.priority,
                size=gang.size,
                min_pods=gang.min_pods,
                may_lose_pods=self.may_lose_pods(gang),
            )
            pods: dict[str, int] = {}
            for group in gang.pods:
                pods[group.node] = pods.get(group.node, 0) + group.count
            for node_id, count in pods.items():
                graph.add_edge(("node", node_id), ("gang", gang.id), pods=count)
        return graph


def matches(node: Node, selector: Mapping[str, str]) -> bool:
    """Return whether a node has all labels of a selector."""
    return all(node.labels.get(name) == value for name, value in selector.items())


@declared()
class LostPods:
    """Pods of a gang that are lost although the gang survives."""

    gang: str = key(Text(), "id of the gang")
    group: int = key(Integer(), "position of the pods in the gang's list pods, from 0", default=0)
    count: int = key(Integer(1), "number of pods that are lost", default=1)


@declared()
class MovedPods:
    """Pods of a gang that move to another node."""

    gang: str = key(Text(), "id of the gang")
    group: int = key(Integer(), "position of the pods in the gang's list pods, from 0", default=0)
    to: str = key(Text(), "id of the node to which the pods move")
    count: int = key(Integer(1), "number of pods that move", default=1)


@declared()
class PlacedPods:
    """Pending pods of one shape that are placed on one node."""

    shape: str = key(Text(), "id of the shape", default="pod")
    node: str = key(Text(), "id of the node")
    count: int = key(Integer(1), "number of pods", default=1)


@declared()
class Solution:
    """The lost and moved pods, the nodes of the pending pods, and the nodes chosen to be emptied.

    Lists are in file order. `lyra_opt.preemption.checker.check` verifies the solution.
    """

    lost_gangs: TupleOf[str] = key(
        ListOf(Text(), least=0, distinct=True), "ids of the gangs that are lost whole"
    )
    lost_pods: TablesOf[LostPods] = key(
        ListOf(Table(LostPods), least=0), "lost pods of gangs that survive", default=()
    )
    moved_pods: TablesOf[MovedPods] = key(
        ListOf(Table(MovedPods), least=0), "pods that move to other nodes", default=()
    )
    placements: TablesOf[PlacedPods] = key(
        ListOf(Table(PlacedPods), least=0), "places of the pending pods", default=()
    )
    emptied_nodes: TupleOf[str] = key(
        ListOf(Text(), least=0, distinct=True),
        "ids of the nodes chosen to be emptied, without those that must be empty",
        default=(),
    )

    @classmethod
    def of_counts(
        cls,
        instance: Instance,
        *,
        lost: Sequence[int] | Integers,
        placed: Integers,
        moved: Iterable[tuple[int, int, int]] = (),
        emptied: Iterable[int] = (),
    ) -> Solution:
        """Build the solution with given numbers of pods; a gang below its minimum is lost whole.

        Parameters
        ----------
        lost
            Number of lost pods of each pod group, numbered as in `Instance.index`, (K,).
        placed
            Number of pending pods of each shape on each node, (S, N).
        moved
            Triples of pod group, position of the target node and number of pods. Moves of gangs
            that are lost whole are left out.
        emptied
            Positions of the nodes chosen to be emptied.
        """
        index, gangs, nodes = instance.index, instance.gangs, instance.nodes
        shapes = instance.demand.shapes if instance.demand else ()
        moved = sorted(moved)
        effect = Effect.of(instance, np.asarray(lost, dtype=np.int64), moved)

        def pods_of(k: int, count: int) -> dict[str, Any]:
            g = int(index.group_gang[k])
            return {"gang": gangs[g].id, "group": k - int(index.first_group[g]), "count": count}

        return cls(
            lost_gangs=[gangs[g].id for g in np.flatnonzero(effect.is_whole)],
            lost_pods=[
                LostPods(**pods_of(k, int(effect.lost[k])))
                for k in np.flatnonzero(effect.lost).tolist()
            ],
            moved_pods=[
                MovedPods(to=nodes[node].id, **pods_of(int(k), int(count)))
                for k, node, count in moved
                if not effect.is_whole[index.group_gang[k]]
            ],
            placements=[
                PlacedPods(shape=shapes[s].id, node=nodes[n].id, count=int(placed[s, n]))
                for s, n in np.argwhere(placed)
            ],
            emptied_nodes=[nodes[node].id for node in sorted(emptied)],
        )

    def in_file_order(self, instance: Instance) -> Solution:
        """Return the solution with each list sorted by the file order of gangs, shapes, nodes."""
        gangs, nodes = instance.gang_position, instance.node_position
        shapes = [shape.id for shape in instance.demand.shapes] if instance.demand else []

        def place(pods: Any) -> tuple[int, ...]:
            if isinstance(pods, PlacedPods):
                return shapes.index(pods.shape), nodes[pods.node]
            to = nodes[pods.to] if isinstance(pods, MovedPods) else 0
            return gangs[pods.gang], pods.group, to

        return Solution(
            lost_gangs=sorted(self.lost_gangs, key=gangs.__getitem__),
            lost_pods=sorted(self.lost_pods, key=place),
            moved_pods=sorted(self.moved_pods, key=place),
            placements=sorted(self.placements, key=place),
            emptied_nodes=sorted(self.emptied_nodes, key=nodes.__getitem__),
        )
