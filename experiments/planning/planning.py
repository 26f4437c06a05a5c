"""Answer an operator's question: solve its instance, and compare with the scheduler's own rule."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from lyra_opt.commands.progress import solving
from lyra_opt.core.result import Limits, SolveResult, Status
from lyra_opt.core.solver import Observer, Solver
from lyra_opt.core.solving import Answer, solve_and_check
from lyra_opt.core.stopwatch import Stopwatch
from lyra_opt.experiments.planning.emptying import most_emptied
from lyra_opt.experiments.planning.questions import (
    CANDIDATE,
    Case,
    Choices,
    Consolidate,
    Drain,
    Fit,
    Question,
    case_of,
    gpu_resources,
    require_node,
)
from lyra_opt.instances.snapshots.snapshot import RunningGang, RunningPod, Snapshot
from lyra_opt.preemption import PROBLEM, Instance, Moves, Solution, check
from lyra_opt.preemption.counting import blocking_gangs
from lyra_opt.preemption.exact.solver import Exact
from lyra_opt.preemption.heuristics.drain import FewestPodsFirst
from lyra_opt.preemption.heuristics.kai import KAI
from lyra_opt.preemption.heuristics.kubernetes import KubeGang, KubePods
from lyra_opt.preemption.heuristics.kueue import Kueue
from lyra_opt.preemption.heuristics.slurm import Slurm
from lyra_opt.preemption.heuristics.volcano import VolcanoGang

RULES: Mapping[str, type[Solver]] = {
    "scheduling.k8s.io": KubeGang,
    "scheduling.volcano.sh": VolcanoGang,
    "scheduling.run.ai": KAI,
    "kueue.x-k8s.io": Kueue,
}
"""The imitation of the scheduler's rule, by the API group that makes pending pods a gang."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disruption:
    """A gang that loses pods, or whose pods move.

    Parameters
    ----------
    gang
        The gang.
    lost
        The pods that it loses: all of its pods if it is lost whole.
    moved
        Pairs of a pod that moves and the name of its new node.
    is_whole
        Whether the whole gang is lost.
    lost_gpus
        Number of GPUs of the lost and moved pods.
    lost_gpu_s
        GPU seconds since the start of the gang that these pods have used.
    can_return
        Whether another open node, if it were free, would do for each lost pod.
    restarts_on
        The nodes with room on which the lost pods can start again at once; empty if they must wait.
    rivals
        Number of pending pods, in Slurm of pending jobs, that would fit into the room on these
        nodes and may take it.
    is_drained
        Whether the drain before a `Fit` takes the pods.
    """

    gang: RunningGang
    lost: tuple[RunningPod, ...]
    moved: tuple[tuple[RunningPod, str], ...]
    is_whole: bool
    lost_gpus: int
    lost_gpu_s: float
    can_return: bool = True
    restarts_on: tuple[str, ...] = ()
    rivals: int = 0
    is_drained: bool = False


@dataclass(frozen=True, kw_only=True)
class ClusterPlan:
    """The answer to an operator's question.

    Parameters
    ----------
    case
        The question with its instance.
    answer
        The checked answer of `exact`.
    nodes
        The nodes that become empty, or those that receive the pending pods, in file order.
    placements
        Number of pending pods of each shape on each node, as triples of shape, node and count.
    disruptions
        The gangs that lose or move pods, most important first.
    blocking
        If no plan exists: a minimal set of gangs whose release would make one possible.
    rule
        The checked answer of the imitated scheduler's rule; None if there is nothing to compare.
    most_nodes
        For `Consolidate`, an upper bound on the number of nodes that can be empty.
    before
        The drain that a `Fit` assumes, whose disruptions are also in `disruptions`; None without.
    """

    case: Case
    answer: Answer[Solution]
    nodes: tuple[str, ...] = ()
    placements: tuple[tuple[int, str, int], ...] = ()
    disruptions: tuple[Disruption, ...] = ()
    blocking: tuple[RunningGang, ...] = ()
    rule: Answer[Solution] | None = None
    most_nodes: int | None = None
    before: "ClusterPlan | None" = None

    @property
    def exists(self) -> bool:
        """Whether a plan was found."""
        return self.answer.solution is not None

    @property
    def status(self) -> Status:
        """Whether the plan is proved to be best (optimal), or only known to work (feasible)."""
        if self.exists and self.most_nodes is not None:
            is_proved = self.most_nodes <= len(self.nodes)
            return Status.OPTIMAL if is_proved else Status.FEASIBLE
        return self.answer.status


def plan(
    snapshot: Snapshot,
    question: Question,
    choices: Choices | None = None,
    *,
    time_limit_s: float = 60.0,
    shows_progress: bool = False,
) -> ClusterPlan:
    """Return the plan that answers a question about a cluster.

    Parameters
    ----------
    snapshot
        The state of the cluster.
    question
        What to do.
    choices
        What a loss costs, and what may be touched.
    time_limit_s
        Time for all solvers together, in seconds. After it the plan has a bound instead of a proof.
    shows_progress
        Whether a terminal shows the incumbent and the proved bound while the search runs.

    Raises
    ------
    UserError
        If the question names something that the cluster does not have.
    """
    watch = Stopwatch()
    before = None
    if isinstance(question, Fit) and question.drained:
        drain = Drain(nodes=question.drained)
        before = plan(snapshot, drain, choices, time_limit_s=time_limit_s)
        if not before.exists:
            return before
        snapshot = _after(before)
    case = case_of(snapshot, question, choices or Choices())
    most_nodes = None
    if isinstance(question, Consolidate):
        case, answer, most_nodes = _most_emptied(case, time_limit_s)
    else:
        variant, terms = case.instance.variant, PROBLEM.terms_of(case.instance)
        shown = solving("the best plan", variant, time_limit_s, 0, terms)
        with shown if shows_progress else nullcontext() as observer:
            answer = _solved(case.instance, Exact(), time_limit_s, observer)
    if answer.status is Status.ERROR:
        raise RuntimeError(answer.message)
    if answer.solution is None:
        names = blocking_gangs(case.instance) or ()
        blocking = tuple(snapshot.gang[name] for name in names)
        return ClusterPlan(case=case, answer=answer, blocking=blocking, most_nodes=most_nodes)
    left = max(1.0, time_limit_s - watch.elapsed_s)
    rule = _rule_for(case)
    return ClusterPlan(
        case=case,
        answer=answer,
        nodes=_nodes_of(case, answer.solution),
        placements=tuple(
            (int(each.shape.removeprefix("pods-")), each.node, each.count)
            for each in answer.solution.placements
        ),
        disruptions=_disruptions(case, answer.solution, before.disruptions if before else ()),
        rule=None if rule is None else _solved(case.instance, rule, left),
        most_nodes=most_nodes,
        before=before,
    )


def _after(drain: ClusterPlan) -> Snapshot:
    """Return the snapshot after a drain: its nodes are closed, and the pods that it takes are gone.

    The costs of the drain and of a later plan add up, term by term: a gang is lost in one of them,
    and a budget allows the later plan what the drain leaves of it. So the best plan for this
    snapshot is also best for both together.
    """
    snapshot = drain.case.snapshot
    lost = {each.gang.id: each.lost for each in drain.disruptions}
    taken = Counter({name: len(pods) for name, pods in lost.items()})
    remaining = [
        replace(gang, pods=pods)
        for gang in snapshot.gangs
        if (pods := tuple(pod for pod in gang.pods if pod not in lost.get(gang.id, ())))
    ]
    nodes = [
        replace(node, closed_because="to be drained") if node.name in drain.nodes else node
        for node in snapshot.nodes
    ]
    budgets = [
        replace(budget, most=max(0, budget.most - sum(taken[name] for name in budget.gangs)))
        for budget in snapshot.budgets
    ]
    return replace(snapshot, nodes=tuple(nodes), gangs=tuple(remaining), budgets=tuple(budgets))


def _solved(
    instance: Instance, solver: Solver, time_limit_s: float, observer: Observer | None = None
) -> Answer[Solution]:
    limits = Limits(time_s=time_limit_s)
    return solve_and_check(PROBLEM, instance, solver, limits=limits, observer=observer)


def _rule_for(case: Case) -> Solver | None:
    """Return the imitation of the rule that would decide without a plan."""
    question = case.question
    if isinstance(question, Consolidate):
        return None
    if isinstance(question, Drain):
        return FewestPodsFirst() if question.count else None
    if case.snapshot.system == "slurm":
        return Slurm()
    rule: Solver = RULES.get(question.gang.grouped_by, KubePods)()
    return rule


class _Given(Solver):
    """A solver that returns a known solution, so that the checker recomputes its terms."""

    name = "emptying"
    problem = "preemption"
    variants = tuple(Moves)

    def __init__(self, solution: Solution) -> None:
        self._solution = solution

    def solve(self, instance: Instance, **_: Any) -> SolveResult[Solution]:
        """Return the known solution."""
        objective = check(instance, self._solution).objective
        return SolveResult(status=Status.FEASIBLE, solution=self._solution, objective=objective)


def _most_emptied(case: Case, time_limit_s: float) -> tuple[Case, Answer[Solution], int]:
    """Return the case with the largest number of empty nodes, its answer, and an upper bound."""
    assert isinstance(case.question, Consolidate)
    found = most_emptied(
        case.instance, most_moves=case.question.most_moves, time_limit_s=time_limit_s
    )
    if found.solution is None:
        status = Status.UNKNOWN if found.most else Status.INFEASIBLE
        answer = Answer(
            problem=PROBLEM, instance=case.instance, solver="emptying", seed=0, status=status
        )
        return case, answer, found.most
    instance = replace(case.instance, empty_nodes=len(found.solution.emptied_nodes))
    answer = _solved(instance, _Given(found.solution), time_limit_s)
    return replace(case, instance=instance), answer, found.most


def _nodes_of(case: Case, solution: Solution) -> tuple[str, ...]:
    """Return the nodes that become empty, or those that receive pending pods, in file order."""
    chosen = set(solution.emptied_nodes) | {each.node for each in solution.placements}
    return tuple(node.id for node in case.instance.nodes if node.id in chosen or node.must_be_empty)


def _disruptions(
    case: Case, solution: Solution, earlier: Sequence[Disruption]
) -> tuple[Disruption, ...]:
    """Return the earlier effects, and those on each gang of the solution, by falling priority."""
    snapshot, gpus = case.snapshot, gpu_resources(case.snapshot)
    lost: dict[str, list[RunningPod]] = {
        name: list(snapshot.gang[name].pods) for name in solution.lost_gangs
    }
    taken: Counter[tuple[str, int]] = Counter()
    for each in solution.lost_pods:
        pods = case.pods[each.gang][each.group]
        lost.setdefault(each.gang, []).extend(pods[: each.count])
        taken[each.gang, each.group] += each.count
    moved: dict[str, list[tuple[RunningPod, str]]] = {}
    for move in solution.moved_pods:
        first = taken[move.gang, move.group]
        pods = case.pods[move.gang][move.group][first : first + move.count]
        moved.setdefault(move.gang, []).extend((pod, move.to) for pod in pods)
        taken[move.gang, move.group] += move.count
    now = snapshot.newest_s or 0.0
    found = [replace(each, is_drained=True) for each in earlier]
    for name in lost.keys() | moved.keys():
        gang, leaving = snapshot.gang[name], lost.get(name, [])
        restarted = [*leaving, *(pod for pod, _ in moved.get(name, ()))]
        lost_gpus = sum(pod.request.get(gpu, 0) for pod in restarted for gpu in gpus)
        found.append(
            Disruption(
                gang=gang,
                lost=tuple(leaving),
                moved=tuple(moved.get(name, ())),
                is_whole=name in solution.lost_gangs,
                lost_gpus=lost_gpus,
                lost_gpu_s=lost_gpus * max(0.0, now - gang.start_s),
            )
        )
    place = {gang.id: place for place, gang in enumerate(snapshot.gangs)}
    found.sort(key=lambda each: (-each.gang.priority, -each.lost_gpus, place.get(each.gang.id, -1)))
    return tuple(_with_restarts(case, solution, found))


def _with_restarts(
    case: Case, solution: Solution, disruptions: list[Disruption]
) -> list[Disruption]:
    """Return the disruptions with the nodes on which lost pods can start again at once.

    The room is what is free after the plan on open nodes that stay in use. Gangs are placed in
    order of priority by best fit, each whole or not at all, so more may fit than is found.
    """
    snapshot, gpus = case.snapshot, gpu_resources(case.snapshot)
    chosen = set(_nodes_of(case, solution))
    free = {}
    for node in snapshot.nodes:
        if not node.closed_because and node.name not in chosen:
            free[node.name] = Counter(node.capacity)
            free[node.name].subtract(node.held)
    leaving = {(each.gang.id, pod.name) for each in disruptions for pod in each.lost}
    target = {pod.name: to for each in disruptions for pod, to in each.moved}
    for gang in snapshot.gangs:
        for pod in gang.pods:
            place = target.get(pod.name, pod.node)
            if (gang.id, pod.name) not in leaving and place in free:
                free[place].subtract(pod.request)
    found = []
    for each in disruptions:
        starts_again = bool(each.lost) and each.gang.can_be_requeued
        pods = each.lost if starts_again else ()
        nodes = [_best_node(snapshot, free, pod, gpus) for pod in pods]
        if not all(nodes):
            for pod, name in zip(pods, nodes, strict=True):
                if name is not None:
                    free[name].update(pod.request)
            nodes = []
        found.append(
            replace(
                each,
                can_return=_can_return(snapshot, free, each),
                restarts_on=tuple(filter(None, nodes)),
                rivals=_rivals(case, free, list(zip(pods, nodes, strict=False))),
            )
        )
    return found


def _rivals(
    case: Case, free: Mapping[str, Counter[str]], restarts: Sequence[tuple[RunningPod, str | None]]
) -> int:
    """Return `rivals` of `Disruption` from the free amounts beside pods that start again."""
    snapshot, question = case.snapshot, case.question
    room = {name: Counter(free[name]) for _, name in restarts if name is not None}
    for pod, name in restarts:
        if name is not None:
            room[name].update(pod.request)
    wanted = {name for pod, _ in restarts for name in pod.request} & set(gpu_resources(snapshot))
    planned = question.gang if isinstance(question, Fit) else None
    fitting = [
        (gang.id, len(shape.names))
        for gang in snapshot.pending
        for shape in gang.shapes
        if gang is not planned
        and wanted <= shape.request.keys()
        and any(
            shape.placement.allows(snapshot.node[name])
            and all(amounts[key] >= amount for key, amount in shape.request.items())
            for name, amounts in room.items()
        )
    ]
    if snapshot.system == "slurm":
        return len({name for name, _ in fitting})
    return sum(count for _, count in fitting)


def _can_return(snapshot: Snapshot, open_nodes: Iterable[str], each: Disruption) -> bool:
    """Return whether every lost pod may run on an open node that has its resources when empty."""
    nodes = [snapshot.node[name] for name in open_nodes]
    kinds = {(pod.placement, tuple(pod.request.items())) for pod in each.lost}
    return all(
        any(
            placement.allows(node)
            and all(node.capacity.get(name, 0) >= amount for name, amount in request)
            for node in nodes
        )
        for placement, request in kinds
    )


def _best_node(
    snapshot: Snapshot, free: dict[str, Counter[str]], pod: RunningPod, gpus: Sequence[str]
) -> str | None:
    """Return the node on which a pod fits most tightly, and take its room; None if it fits none."""
    fitting = [
        name
        for name, amounts in free.items()
        if all(amounts[resource] >= amount for resource, amount in pod.request.items())
        and pod.placement.allows(snapshot.node[name])
    ]
    if not fitting:
        return None
    asked = [gpu for gpu in gpus if gpu in pod.request]
    best = min(fitting, key=lambda name: sum(free[name][gpu] for gpu in asked))
    free[best].subtract(pod.request)
    return best


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a plan uses a node or does not.

    Parameters
    ----------
    node
        The name of the node.
    is_used
        Whether the plan empties the node or places pending pods on it.
    reason
        Why the node could not be chosen, such as "cordoned"; empty if it could.
    other
        The best plan with the opposite decision for this node; None if it could not be chosen.
    other_nodes
        For `Consolidate`, the largest number of empty nodes with the opposite decision.
    """

    node: str
    is_used: bool
    reason: str = ""
    other: Answer[Solution] | None = None
    other_nodes: int | None = None


def explain(found: ClusterPlan, name: str, *, time_limit_s: float = 60.0) -> Explanation:
    """Return why a plan uses a node or does not, by solving the case with the opposite decision.

    If no plan exists, nothing is solved.

    Raises
    ------
    UserError
        If the snapshot has no such node.
    """
    case, question = found.case, found.case.question
    require_node(case.snapshot, name)
    instance, node = case.instance, case.snapshot.node[name]
    is_used = name in found.nodes
    reason = node.closed_because
    if isinstance(question, Fit):
        changed = _without(instance, name) if is_used else _with_pod_on(instance, name)
        if not reason and not is_used and changed is None:
            closed = "closed to the pending pods by its labels, taints, GPU type or the options"
            reason = node.not_chosen_because or closed
    else:
        is_candidate = CANDIDATE in instance.nodes[instance.node_position[name]].labels
        if not is_candidate and not reason and not is_used:
            reason = node.not_chosen_because or "not among the nodes that can be chosen"
        if isinstance(question, Consolidate) and not reason and found.exists:
            return _explained_moves(found, question, name, is_used, time_limit_s)
        changed = _uncandidate(instance, name) if is_used else _forced(instance, name)
    if reason or changed is None or not found.exists:
        return Explanation(node=name, is_used=is_used, reason=reason)
    other = _solved(changed, Exact(), time_limit_s)
    return Explanation(node=name, is_used=is_used, other=other)


def _explained_moves(
    found: ClusterPlan, question: Consolidate, name: str, is_used: bool, time_limit_s: float
) -> Explanation:
    """Return why a node is emptied or not, from the number of nodes with the opposite decision."""
    other = most_emptied(
        found.case.instance,
        most_moves=question.most_moves,
        forced=() if is_used else (name,),
        excluded=(name,) if is_used else (),
        time_limit_s=time_limit_s,
    )
    nodes = len(other.solution.emptied_nodes) if other.solution is not None else 0
    return Explanation(node=name, is_used=is_used, other_nodes=nodes)


def _without(instance: Instance, name: str) -> Instance:
    """Return the instance with a node that takes no pending pods."""
    nodes = [replace(node, is_usable=False) if node.id == name else node for node in instance.nodes]
    return replace(instance, nodes=nodes)


def _with_pod_on(instance: Instance, name: str) -> Instance | None:
    """Return the instance with one pending pod on a certain node; None if no pod may be there."""
    demand = instance.demand
    assert demand is not None
    node = instance.nodes[instance.node_position[name]]
    allowed = [shape for shape in demand.shapes if instance.can_place(shape, node)]
    if not allowed:
        return None
    label = {"lyra-opt/here": "yes"}
    shapes = []
    for shape in demand.shapes:
        if shape is not allowed[0]:
            shapes.append(shape)
            continue
        here = replace(shape, id=f"{shape.id}-here", count=1, min_count=1, selector=label)
        shapes.append(here)
        if shape.count > 1:
            least = max(0, shape.min_count - 1)
            shapes.append(replace(shape, count=shape.count - 1, min_count=least))
    nodes = [
        replace(each, labels={**each.labels, **label}) if each.id == name else each
        for each in instance.nodes
    ]
    return replace(instance, nodes=nodes, demand=replace(demand, shapes=shapes))


def _uncandidate(instance: Instance, name: str) -> Instance | None:
    """Return the instance in which a node is not emptied; None if it was named or is needed."""
    node = instance.nodes[instance.node_position[name]]
    candidates = sum(CANDIDATE in each.labels for each in instance.nodes)
    if node.must_be_empty or candidates <= instance.empty_nodes:
        return None
    nodes = [replace(each, labels={}) if each.id == name else each for each in instance.nodes]
    return replace(instance, nodes=nodes)


def _forced(instance: Instance, name: str) -> Instance | None:
    """Return the instance in which a node is emptied; None if no node can be chosen."""
    if not instance.empty_nodes:
        return None
    nodes = [
        replace(node, must_be_empty=True) if node.id == name else node for node in instance.nodes
    ]
    return replace(instance, nodes=nodes, empty_nodes=instance.empty_nodes - 1)
