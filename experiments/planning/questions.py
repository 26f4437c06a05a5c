"""Turn a snapshot of a real cluster and an operator's question into a preemption instance.

Three questions exist: `Drain`, `Fit` and `Consolidate`. Only the resources that matter to a
question enter its instance. A drain without moves needs GPUs alone, because it frees whole nodes.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TypeAlias

from lyra_opt.core.errors import UserError, counted, show_value
from lyra_opt.core.nearest_names import meant, suggestion
from lyra_opt.instances.snapshots.placement import ANYWHERE, Placement, Toleration
from lyra_opt.instances.snapshots.snapshot import (
    GPU,
    PendingGang,
    PendingPods,
    RunningGang,
    RunningPod,
    Snapshot,
    SnapshotNode,
)
from lyra_opt.preemption import Budget, Demand, Gang, Instance, Moves, Node, PodGroup, Shape
from lyra_opt.preemption.instance import GPU_NAMES

CANDIDATE = "lyra-opt/candidate"
"""The label of nodes in an instance that may be chosen to be emptied."""

PLACEMENT = "lyra-opt/placement-"
"""The label of nodes in an instance on which pods with a certain placement may run."""

COSTS = ("gangs", "pods", "gpus", "time")
"""The costs of a loss that can be chosen, besides ``annotation:KEY``."""

ANNOTATION = "annotation:"
"""The prefix of a cost that an annotation names."""

LARGEST_PRIORITY = 2**31 - 1

MOST_EXAMPLES = 6
"""The most names that a message lists as examples."""

DRAWN_LEVELS = ("rack", "switch", "block", "zone")
"""The ends of node labels by which a picture groups the nodes, if no level is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Which nodes to empty: named nodes, a number of nodes to choose, or both.

    Parameters
    ----------
    nodes
        Names of nodes that must be emptied.
    count
        Number of further nodes to choose.
    among
        Conditions on labels of the nodes that can be chosen, as `selector_of` returns them. Without
        any, open nodes with GPUs can be chosen, or all open nodes if no node has GPUs.
    excluding
        Names of nodes that are not chosen.
    """

    nodes: tuple[str, ...] = ()
    count: int = 0
    among: "tuple[Condition, ...]" = ()
    excluding: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Whom to preempt so that pending pods fit.

    Parameters
    ----------
    gang
        The pending gang.
    gpu_type
        A part of the GPU type that its nodes must have, such as ``h100``; empty for any type.
    level
        The level at which its pods must be together, by the name or the end of the name of a node
        label, such as ``rack``; empty for the gang's own level.
    among
        Conditions on labels of the nodes that take pending pods; without any, all open nodes.
    excluding
        Names of nodes that take no pending pods.
    drained
        Names of nodes that are drained first.
    """

    gang: PendingGang
    gpu_type: str = ""
    level: str = ""
    among: "tuple[Condition, ...]" = ()
    excluding: tuple[str, ...] = ()
    drained: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidate:
    """How many nodes can be empty if pods may move and nobody is lost.

    Parameters
    ----------
    most_moves
        Largest number of pods that may move; None for any number.
    among
        As in `Drain`.
    """

    most_moves: int | None = None
    among: "tuple[Condition, ...]" = ()


Question: TypeAlias = Drain | Fit | Consolidate


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a label selector: ``key=value``, ``key!=value``, ``key`` or ``!key``."""

    key: str
    value: str | None = None
    is_negated: bool = False

    def holds(self, node: SnapshotNode) -> bool:
        """Return whether a node meets the condition."""
        found = node.labels.get(self.key)
        is_equal = found is not None if self.value is None else found == self.value
        return is_equal != self.is_negated


def selector_of(text: str) -> tuple[Condition, ...]:
    """Return the conditions of a label selector as ``kubectl --selector`` takes it.

    Sets (``key in (a,b)``) are not supported.

    Raises
    ------
    UserError
        If a condition is empty or has an unknown form.
    """
    found = []
    for part in text.split(","):
        key, operator, value = part.strip().partition("=")
        negated = key.endswith("!") if operator else key.startswith("!")
        key = key.strip("!").strip()
        value = value.removeprefix("=").strip()
        if not key or " " in key or " " in value:
            rule = "must be key=value, key!=value, key or !key, separated by commas"
            raise UserError(f"selector is {show_value(text)}: {rule}")
        found.append(Condition(key, value if operator else None, negated))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """An operator's choices for all questions.

    Parameters
    ----------
    cost
        What a loss costs: a member of `COSTS`, or ``annotation:KEY``.
    is_forced
        Whether pods that need ``--force`` may be touched.
    keeps_budgets
        Whether disruption budgets must be kept. If not, the excess is minimised first.
    """

    cost: str = "gangs"
    is_forced: bool = False
    keeps_budgets: bool = False


def choices_of(*, cost: str, is_forced: bool, keeps_budgets: bool) -> Choices:
    """Return an operator's choices; `UserError` for an unknown cost."""
    if cost not in COSTS and not (cost.startswith(ANNOTATION) and cost != ANNOTATION):
        rule = f"must be {', '.join(COSTS)} or annotation:KEY"
        raise UserError(f"cost is {show_value(cost)}: {rule}{suggestion(cost, COSTS)}")
    return Choices(cost=cost, is_forced=is_forced, keeps_budgets=keeps_budgets)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A question about a snapshot, with its preemption instance.

    Parameters
    ----------
    snapshot, question, choices
        The snapshot, the question and the operator's choices.
    instance
        The preemption instance; its gangs and nodes have the names of the snapshot.
    pods
        The pods of each pod group of each gang, by gang id.
    level
        The node label of the required level; empty without a level.
    notes
        Sentences on decisions that were made to build the instance.
    """

    snapshot: Snapshot
    question: Question
    choices: Choices
    instance: Instance
    pods: Mapping[str, tuple[tuple[RunningPod, ...], ...]]
    level: str = ""
    notes: tuple[str, ...] = ()


def case_of(snapshot: Snapshot, question: Question, choices: Choices) -> Case:
    """Return the case of a question about a snapshot.

    Raises
    ------
    UserError
        If the question names a node, label, GPU type or resource that the cluster does not have,
        or asks for more nodes than can be chosen.
    """
    return _Builder(snapshot, question, choices).case()


class _Builder:
    """The state in which the instance of one question is built."""

    def __init__(self, snapshot: Snapshot, question: Question, choices: Choices) -> None:
        self._snapshot, self._question, self._choices = snapshot, question, choices
        self._placements: dict[Placement, str] = {}
        self._notes: list[str] = []
        self._moves = isinstance(question, Consolidate)
        self._pods: dict[str, tuple[tuple[RunningPod, ...], ...]] = {}

    def case(self) -> Case:
        """Return the case."""
        question = self._question
        self._require_known_names()
        demand, level = self._demand(question) if isinstance(question, Fit) else (None, "")
        gangs = [self._gang(gang) for gang in self._snapshot.gangs]
        budgets = self._budgets(gangs)
        nodes = [self._node(node, level) for node in self._snapshot.nodes]
        count = question.count if isinstance(question, Drain) else int(self._moves)
        candidates = sum(CANDIDATE in node.labels for node in nodes)
        if count > candidates and not isinstance(question, Fit) and question.among:
            rule = f"the selector leaves {counted(candidates, 'open node')} to choose from"
            raise UserError(f"nodes is {count}: {rule}")
        if count > candidates:
            rule = f"only {counted(candidates, 'node')} can be chosen"
            raise UserError(f"nodes is {count}: {rule}; see among and not (in Python without)")
        if self._moves and self._snapshot.system == "slurm":
            self._notes.append(
                "Jobs of Slurm cannot move, so only nodes without jobs can be empty."
            )
        instance = Instance(
            name=self._snapshot.system,
            moves=Moves.ANY if self._moves else Moves.NONE,
            nodes=nodes,
            gangs=gangs,
            demand=demand,
            empty_nodes=count,
            empty_selector={CANDIDATE: "yes"},
            victims="none" if self._moves else "lower" if demand else "any",
            budgets=budgets,
            objective=self._objective(nodes, budgets),
        )
        return Case(
            snapshot=self._snapshot,
            question=question,
            choices=self._choices,
            instance=instance,
            pods=self._pods,
            level=level,
            notes=tuple(self._notes),
        )

    def _require_known_names(self) -> None:
        key = self._choices.cost.removeprefix(ANNOTATION)
        if key != self._choices.cost:
            known = sorted({name for gang in self._snapshot.gangs for name in gang.annotations})
            if key not in known:
                rule = f"no pod has this annotation with a number or a time; {hint_for(key, known)}"
                raise UserError(f"cost is {show_value(self._choices.cost)}: {rule}")
        if not isinstance(self._question, Consolidate):
            named = self._question.nodes if isinstance(self._question, Drain) else ()
            for name in (*named, *self._question.excluding):
                require_node(self._snapshot, name)

    @cached_property
    def _resources(self) -> frozenset[str] | None:
        """The resources that matter; None for all of them."""
        if isinstance(self._question, Fit):
            asked = {name for shape in self._question.gang.shapes for name in shape.request}
            return frozenset(asked | set(self._gpus))
        return None if self._moves else frozenset(self._gpus)

    @cached_property
    def _gpus(self) -> tuple[str, ...]:
        """The resources that count GPUs or parts of them, in order of first appearance."""
        return gpu_resources(self._snapshot)

    def _amounts(self, amounts: Mapping[str, int]) -> dict[str, int]:
        wanted = self._resources
        return {name: n for name, n in amounts.items() if n and (wanted is None or name in wanted)}

    def _label(self, placement: Placement) -> dict[str, str]:
        """Return the selector of a placement; it is empty if every node will do."""
        if placement == ANYWHERE and not any(node.taints for node in self._snapshot.nodes):
            return {}
        number = len(self._placements)
        return {self._placements.setdefault(placement, f"{PLACEMENT}{number}"): "yes"}

    def _gang(self, gang: RunningGang) -> Gang:
        groups: dict[tuple[object, ...], list[RunningPod]] = defaultdict(list)
        for pod in gang.pods:
            group = (pod.node, *pod.request.items(), pod.placement if self._moves else None)
            groups[group].append(pod)
        self._pods[gang.id] = tuple(tuple(pods) for pods in groups.values())
        return Gang(
            id=gang.id,
            priority=max(-LARGEST_PRIORITY, min(gang.priority, LARGEST_PRIORITY)),
            pods=[
                PodGroup(
                    node=pods[0].node,
                    request=self._amounts(pods[0].request),
                    count=len(pods),
                    selector=self._label(pods[0].placement) if self._moves else {},
                )
                for pods in groups.values()
            ],
            min_pods=gang.min_pods,
            is_protected=self._is_protected(gang),
            is_movable=not self._is_protected(gang) and self._can_move(gang),
            queue=gang.queue,
            weight=self._weight(gang),
            start_s=gang.start_s,
        )

    def _can_move(self, gang: RunningGang) -> bool:
        """Return whether pods start again elsewhere; a job of Slurm would be restarted whole."""
        return gang.can_be_requeued and self._snapshot.system != "slurm"

    def _is_protected(self, gang: RunningGang) -> bool:
        if isinstance(self._question, Fit) and gang.not_preempted_because:
            return True
        is_lifted = gang.needs_force and self._choices.is_forced
        return bool(gang.protected_because) and not is_lifted

    def _weight(self, gang: RunningGang) -> int:
        """Return the cost of losing a gang, for the costs time and annotation."""
        cost = self._choices.cost
        if cost == "time":
            return self._lost_gpu_s(gang, gang.start_s)
        if not cost.startswith(ANNOTATION):
            return 1
        text = gang.annotations.get(cost.removeprefix(ANNOTATION))
        if text is None:
            return self._lost_gpu_s(gang, gang.start_s)
        try:
            return max(0, int(text))
        except ValueError:
            return self._lost_gpu_s(gang, datetime.fromisoformat(text).timestamp())

    def _lost_gpu_s(self, gang: RunningGang, since_s: float) -> int:
        now = self._snapshot.newest_s or 0.0
        gpus = sum(pod.request.get(name, 0) for pod in gang.pods for name in self._gpus)
        return max(1, gpus) * max(0, round(now - since_s))

    def _budgets(self, gangs: Sequence[Gang]) -> list[Budget]:
        """Return the budgets that can be exceeded, and the limit on moves."""
        size = {gang.id: gang.size for gang in gangs}
        touched = {gang.id for gang in gangs if not gang.is_protected}
        found = []
        for budget in self._snapshot.budgets:
            counting = [name for name in budget.gangs if name in touched]
            if sum(size[name] for name in counting) > budget.most:
                is_hard = self._choices.keeps_budgets
                found.append(
                    Budget(id=budget.id, gangs=counting, most=budget.most, is_hard=is_hard)
                )
        if isinstance(self._question, Consolidate) and self._question.most_moves is not None:
            most = self._question.most_moves
            found.append(Budget(id="lyra-opt/moves", gangs=[each.id for each in gangs], most=most))
        return found

    def _node(self, node: SnapshotNode, level: str) -> Node:
        held, used = Counter(self._amounts(node.held)), self._used[node.name]
        capacity = {}
        for name, amount in self._amounts(node.capacity).items():
            capacity[name] = max(amount - held[name], used[name])
        for name in used.keys() - capacity.keys():
            capacity[name] = used[name]
        if any(used[name] + held[name] > node.capacity.get(name, 0) for name in used):
            self._notes.append(f"Node {node.name} holds more than it can allocate.")
        question = self._question
        labels = {
            label: "yes" for placement, label in self._placements.items() if placement.allows(node)
        }
        if not isinstance(question, Fit) and self._can_be_chosen(node):
            labels[CANDIDATE] = "yes"
        return Node(
            id=node.name,
            capacity=capacity,
            domains={
                each: node.labels[each] for each in (level or self._drawn,) if each in node.labels
            },
            labels=labels,
            is_usable=not node.closed_because and self._may_take_pods(node),
            must_be_empty=isinstance(question, Drain) and node.name in question.nodes,
        )

    @cached_property
    def _drawn(self) -> str:
        """The node label by which pictures group the nodes; empty without one."""
        labels = dict.fromkeys(label for node in self._snapshot.nodes for label in node.labels)
        ends = {label.rpartition("/")[2]: label for label in labels}
        return next((ends[end] for end in DRAWN_LEVELS if end in ends), "")

    @cached_property
    def _used(self) -> Mapping[str, Counter[str]]:
        """The amount of each resource that the pods of gangs hold on each node."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for gang in self._snapshot.gangs:
            for pod in gang.pods:
                found[pod.node].update(self._amounts(pod.request))
        return found

    def _can_be_chosen(self, node: SnapshotNode) -> bool:
        question = self._question
        if isinstance(question, Drain) and node.name in (*question.nodes, *question.excluding):
            return False
        if isinstance(question, Fit) or node.not_chosen_because:
            return False
        if self._among:
            return all(condition.holds(node) for condition in self._among)
        return not self._gpus or any(node.capacity.get(name) for name in self._gpus)

    @cached_property
    def _among(self) -> tuple[Condition, ...]:
        """The conditions on the nodes that can be chosen, with the labels in full."""
        question = self._question
        return tuple(_with_known_names(self._snapshot, each) for each in question.among)

    def _has_type(self, node: SnapshotNode) -> bool:
        wanted = self._question.gpu_type if isinstance(self._question, Fit) else ""
        return wanted.lower() in node.gpu_type.lower()

    def _may_take_pods(self, node: SnapshotNode) -> bool:
        question = self._question
        if not isinstance(question, Fit):
            return True
        is_among = all(condition.holds(node) for condition in self._among)
        return is_among and node.name not in question.excluding and self._has_type(node)

    def _demand(self, question: Fit) -> tuple[Demand, str]:
        gang = question.gang
        types = {node.gpu_type for node in self._snapshot.nodes if node.gpu_type}
        if question.gpu_type and not any(map(self._has_type, self._snapshot.nodes)):
            hint = hint_for(question.gpu_type, sorted(types))
            rule = f"{hint}; --type takes a part of the name" if types else "no label names a type"
            raise UserError(f"no node has GPUs of type {show_value(question.gpu_type)}; {rule}")
        known = dict.fromkeys(name for node in self._snapshot.nodes for name in node.capacity)
        for shape in gang.shapes:
            for name in shape.request:
                if name not in known:
                    names = filter(None, (*known, self._snapshot.gpu_name))
                    raise UserError(f"no node has the resource {name}; {hint_for(name, names)}")
        level = gang.level
        if question.level:
            level = label_named(self._snapshot, question.level, "level")
        counts = [len(shape.names) for shape in gang.shapes]
        is_one = len(counts) == 1
        shapes = [
            Shape(
                id=f"pods-{number}",
                count=len(shape.names),
                request=shape.request,
                min_count=gang.min_pods if is_one else len(shape.names),
                max_per_node=shape.max_per_node,
                selector=self._label(shape.placement),
            )
            for number, shape in enumerate(gang.shapes)
        ]
        if not is_one and gang.min_pods < sum(counts):
            self._notes.append("All pending pods are placed, because they request unlike amounts.")
        if gang.never_preempts:
            self._notes.append(
                f"The scheduler preempts nobody for {gang.id}, by its priority class."
            )
        priority = min(gang.priority, LARGEST_PRIORITY)
        demand = Demand(priority=priority, queue=gang.queue, shapes=shapes, level=level or None)
        return demand, level

    def _objective(self, nodes: Iterable[Node], budgets: Iterable[Budget]) -> tuple[str, ...]:
        held = {name for node in nodes for name in node.capacity}
        gpus = [f"lost:{name}" for name in self._gpus if name in held]
        excess = [] if all(budget.is_hard for budget in budgets) else ["budget_excess"]
        first = ["unplaced", *excess]
        if self._moves:
            return (*first, "moved_pods")
        cost = self._choices.cost
        by_gang = "lost_gangs_by_priority"
        # Jobs of Slurm are always lost whole, so the number of their parts says nothing.
        pods = [] if self._snapshot.system == "slurm" else ["lost_pods"]
        if cost == "gangs":
            terms = [by_gang, *gpus, *pods]
        elif cost == "pods":
            terms = ["lost_pods_by_priority", "lost_gangs", *gpus]
        elif cost == "gpus":
            terms = [*gpus, by_gang, *pods]
        else:
            terms = ["weighted_gangs", by_gang, *gpus, *pods]
        return (*first, *terms)


def _with_known_names(snapshot: Snapshot, condition: Condition) -> Condition:
    """Return a condition with its label in full; `UserError` if no node has the label or value."""
    key = label_named(snapshot, condition.key, "selector")
    labels = (node.labels.get(key) for node in snapshot.nodes)
    values = dict.fromkeys(each for each in labels if each is not None)
    if condition.value is not None and condition.value not in values:
        rule = f"no node has the value {show_value(condition.value)} of the label {key}"
        raise UserError(f"selector {condition.key}: {rule}; {hint_for(condition.value, values)}")
    return replace(condition, key=key)


def label_named(snapshot: Snapshot, name: str, role: str) -> str:
    """Return the node label that a name means, in full or by its end.

    Parameters
    ----------
    role
        The word for the label in messages.

    Raises
    ------
    UserError
        If no node has such a label, or several labels have this end.
    """
    labels = dict.fromkeys(label for node in snapshot.nodes for label in node.labels)
    if name in labels:
        return name
    ends = [label for label in labels if label.rpartition("/")[2] == name]
    ends = ends or [label for label in labels if label.endswith(("-" + name, "." + name))]
    if len(ends) == 1:
        return ends[0]
    if ends:
        raise UserError(f"{role} {name} fits several labels: {', '.join(ends)}; name one")
    hint = hint_for(name, labels)
    raise UserError(f"no node has a label for the {role} {show_value(name)}; {hint}")


def require_node(snapshot: Snapshot, name: str) -> None:
    """Raise `UserError` if a snapshot has no node with this name."""
    if name not in snapshot.node:
        hint = hint_for(name, snapshot.node)
        raise UserError(f"the snapshot has no node {show_value(name)}; {hint}")


def hint_for(name: str, known: Iterable[str]) -> str:
    """Return the similar known name or end of a name, or a few known names as examples."""
    names = list(known)
    listing = "known:" if len(names) <= MOST_EXAMPLES else "for example"
    ends = [each.rpartition("/")[2] for each in names]
    return meant(name, names[:MOST_EXAMPLES], listing, also=[*names, *ends])


def gpu_resources(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the resources that count GPUs or parts of them, in order of first appearance."""
    names = dict.fromkeys(name for node in snapshot.nodes for name in node.capacity)
    return tuple(name for name in names if name == GPU or name.startswith(GPU_NAMES))


def pods_like(count: int, request: Mapping[str, int], tolerated: Iterable[str] = ()) -> PendingPods:
    """Return pending pods that an operator describes.

    They tolerate taints whose key is a resource that they request, as the admission controller
    ExtendedResourceToleration arranges, and the taint keys in `tolerated`.
    """
    keys = (*request, "nvidia.com/gpu", "amd.com/gpu", *tolerated) if GPU in request else tolerated
    return PendingPods(
        names=tuple(f"pod-{number}" for number in range(count)),
        request=request,
        placement=Placement(
            tolerations=tuple(Toleration(key=name, operator="Exists") for name in keys)
        ),
    )
