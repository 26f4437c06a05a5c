"""Small instances with a known optimum, each of which misleads one kind of rule.

Family ``rule-trap`` generates them. Each function takes the scale k. Its docstring states the
optimum with a proof, and the cost of the misled rule. Unless it says otherwise, nodes have 8 GPUs,
gangs have priority 1 and need all their pods, the pending gang has priority 3, and the objective is
the default: lost gangs first, then lost GPUs. `lyra_opt.preemption.heuristics` describes the rules
and their sources.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from lyra_opt.instances.preemption.family import GPUS_PER_NODE, OBJECTIVES, gang_on
from lyra_opt.preemption.instance import (
    GPU,
    Demand,
    Gang,
    LostPods,
    MovedPods,
    Node,
    PlacedPods,
    PodGroup,
    Shape,
    Solution,
)

YOUNG_S = 86_400.0
"""The start time of young gangs; old gangs start at 0."""


class Solved(NamedTuple):
    """The nodes, gangs and other fields of an instance, and its optimum; None if infeasible."""

    nodes: list[Node]
    gangs: list[Gang]
    question: dict[str, Any]
    optimum: Solution | None


def nodes_of(names: Iterable[str], **others: Any) -> list[Node]:
    """Return nodes of 8 GPUs with the given names."""
    return [Node(id=name, capacity={GPU: GPUS_PER_NODE}, **others) for name in names]


def numbered(name: str, count: int) -> list[str]:
    """Return the names NAME-1 to NAME-COUNT."""
    return [f"{name}-{number}" for number in range(1, count + 1)]


def pending(pods: int, gpus: int = GPUS_PER_NODE, **others: Any) -> Demand:
    """Return a pending gang of priority 3 with one shape."""
    return Demand(priority=3, shapes=[Shape(count=pods, request={GPU: gpus})], **others)


def single_pods(nodes: Iterable[str], gpus: int = GPUS_PER_NODE, **others: Any) -> list[Gang]:
    """Return a gang of one pod for each node, with the name of the node."""
    return [gang_on(node, [(node, 1, gpus)], **others) for node in nodes]


def losing(gangs: Iterable[str], on: Iterable[str], **others: Any) -> Solution:
    """Return a solution that loses `gangs` and places a pending pod on each of the nodes `on`."""
    placements = [PlacedPods(node=node) for node in on]
    return Solution(lost_gangs=list(gangs), placements=placements, **others)


def _gang_blind(k: int) -> Solved:
    """Trap for rules that see pods instead of gangs, such as kube-scheduler's preemption.

    The k pods of gang ``block`` fill k nodes. Each of k further nodes holds one pod of 8 GPUs of a
    different young gang, which has 7 more pods elsewhere. Every node costs one pod of equal
    priority, so the rule takes the young pods: k gangs with 15 k GPUs. The optimum is to lose
    ``block`` alone, 1 gang with 8 k GPUs: no node has room for a pending pod, and k pending pods
    need 8 k GPUs.
    """
    blocks, wides, rests = (numbered(name, k) for name in ("block", "wide", "rest"))
    gangs = [gang_on("block", [(node, 1, 8) for node in blocks])]
    for wide, rest in zip(wides, rests, strict=True):
        gangs.append(gang_on(wide, [(wide, 1, 8), (rest, 7, 1)], start_s=YOUNG_S))
    gangs.append(gang_on("anchor", [(rest, 1, 1) for rest in rests], is_protected=True))
    optimum = losing(["block"], on=blocks)
    return Solved(nodes_of([*wides, *rests, *blocks]), gangs, {"demand": pending(k)}, optimum)


def _safe_bundle(k: int) -> Solved:
    """Trap for rules that take all surplus pods of a gang at once, such as Volcano's SAFE bundles.

    One pod with one GPU is pending. The only gang has 8 k pods on k full nodes and needs one pod,
    so its bundle has 8 k - 1 pods. The optimum loses one pod, and no gang.
    """
    names = numbered("node", k)
    gangs = [gang_on("elastic", [(node, 8, 1) for node in names], min_pods=1)]
    optimum = losing([], on=names[:1], lost_pods=[LostPods(gang="elastic")])
    return Solved(nodes_of(names), gangs, {"demand": pending(1, 1)}, optimum)


def _safe_first(k: int) -> Solved:
    """Trap for rules that take surplus pods before whole gangs of lower priority, as Volcano does.

    The objective counts lost pods by priority. Gang ``elastic`` of priority 2 has 2 k pods of 8
    GPUs and needs k of them; k gangs of priority 1 each fill a node with 8 pods. For k pending
    pods, the rule takes k pods of priority 2. The optimum takes the 8 k pods of priority 1: without
    losses of priority 2, only their nodes can be emptied.
    """
    small, large = numbered("small", k), numbered("large", 2 * k)
    gangs = [gang_on("elastic", [(node, 1, 8) for node in large], priority=2, min_pods=k)]
    gangs += [gang_on(node, [(node, 8, 1)]) for node in small]
    question = {"demand": pending(k), "objective": OBJECTIVES["pods"]}
    return Solved(nodes_of([*large, *small]), gangs, question, losing(small, on=small))


def _youngest_first(k: int) -> Solved:
    """Trap for rules that take whole gangs from the youngest to the oldest, such as Kueue's.

    Eight young gangs have one pod with one GPU on each of k + 1 nodes; an old gang has one pod with
    4 GPUs on a node with 4 free GPUs. The rule makes room for one pod of 8 GPUs once it has taken
    all young gangs, and none of them can return: 8 gangs with 8 (k + 1) GPUs. The optimum is to
    lose the old gang, 1 gang with 4 GPUs: no node has 8 free GPUs, and a young gang frees only 1
    GPU per node.
    """
    young, names = numbered("young", 8), numbered("node", k + 1)
    gangs = single_pods(["old"], 4)
    gangs += [gang_on(gang, [(node, 1, 1) for node in names], start_s=YOUNG_S) for gang in young]
    optimum = losing(["old"], on=["old"])
    return Solved(nodes_of([*names, "old"]), gangs, {"demand": pending(1)}, optimum)


def _few_nodes_first(k: int) -> Solved:
    """Trap for rules that take gangs on few nodes before gangs on many, such as Slurm's.

    Four gangs with one pod of 2 GPUs fill each of 2 k nodes; k gangs have 4 GPUs on each of two
    nodes with 4 free GPUs. For 2 k pods of 8 GPUs the rule takes all 8 k small gangs with 16 k
    GPUs. The optimum is to lose the k wide gangs with 8 k GPUs: a node of small gangs costs 4
    gangs, and a wide gang frees two nodes.
    """
    small, wide = numbered("small", 2 * k), numbered("wide", 2 * k)
    gangs = [gang_on(name, [(node, 1, 2)]) for node in small for name in numbered(node, 4)]
    pairs = zip(numbered("pair", k), wide[:k], wide[k:], strict=True)
    gangs += [gang_on(pair, [(one, 1, 4), (other, 1, 4)]) for pair, one, other in pairs]
    optimum = losing(numbered("pair", k), on=wide)
    return Solved(nodes_of([*small, *wide]), gangs, {"demand": pending(2 * k)}, optimum)


def _whole_gangs(k: int) -> Solved:
    """Trap for rules that never take a part of a gang, such as Kueue's and Slurm's.

    The only gang fills k nodes with two pods of 4 GPUs each, and needs k of its pods. For k pending
    pods of 4 GPUs the rules lose the gang, with 8 k GPUs. The optimum loses one pod on each node,
    no gang and 4 k GPUs, because no GPU is free.
    """
    names = numbered("node", k)
    gangs = [gang_on("elastic", [(node, 2, 4) for node in names], min_pods=k)]
    lost = [LostPods(gang="elastic", group=group) for group in range(k)]
    optimum = losing([], on=names, lost_pods=lost)
    return Solved(nodes_of(names), gangs, {"demand": pending(k, 4)}, optimum)


def _fewest_pods(k: int) -> Solved:
    """Trap of people who drain the nodes with the fewest pods first.

    One gang fills k + 1 nodes with 8 pods of one GPU each. Each of k + 1 further nodes holds one
    pod, which is a gang of its own. To empty k + 1 nodes, the rule loses k + 1 gangs. The optimum
    is to lose the one gang with its 8 (k + 1) GPUs: every node holds 8 GPUs of some gang.
    """
    blocks, lone = numbered("block", k + 1), numbered("lone", k + 1)
    gangs = [gang_on("block", [(node, 8, 1) for node in blocks]), *single_pods(lone)]
    optimum = losing(["block"], on=[], emptied_nodes=blocks)
    return Solved(nodes_of([*lone, *blocks]), gangs, {"empty_nodes": k + 1}, optimum)


def _prefix(k: int) -> Solved:
    """Trap for rules that drain the nodes in the order of their pods, such as Karpenter's.

    No pod may be lost, and all pods may move. Node ``stuck`` holds a single pod of 8 GPUs, which
    fits nowhere else; 2 k nodes each hold two pods of 2 GPUs. To empty k nodes, Karpenter's
    multi-node consolidation begins with the node with the fewest pods, ``stuck``, and finds
    nothing; only its single-node consolidation then helps. The optimum moves the 2 k pods of half
    of the other nodes to the other half. Fewer moves are impossible, because ``stuck`` cannot be
    emptied.
    """
    half = numbered("half", 2 * k)
    gangs = [*single_pods(["stuck"]), *(gang_on(node, [(node, 2, 2)]) for node in half)]
    pairs = zip(half[:k], half[k:], strict=True)
    moves = [MovedPods(gang=source, to=target, count=2) for source, target in pairs]
    optimum = losing([], on=[], moved_pods=moves, emptied_nodes=half[:k])
    question = {"empty_nodes": k, "victims": "none", "moves": "any"}
    return Solved(nodes_of(["stuck", *half]), gangs, question, optimum)


def _gpu_blind(k: int) -> Solved:
    """Trap for rules that compare pods and ages but not their GPUs, such as kube-scheduler's.

    An old gang without GPUs holds all CPUs on each of k nodes whose 8 GPUs are free; a young gang
    with 8 GPUs runs on each of k nodes whose CPUs are free. For k pods with 8 GPUs and all CPUs of
    a node, the rules of kube-scheduler, Kueue and Slurm lose the k young gangs with 8 k GPUs. The
    optimum loses the k old gangs, and no GPU: each of the k nodes must be cleared of its gang.
    """
    old, young = numbered("old", k), numbered("young", k)
    everything = {GPU: GPUS_PER_NODE, "cpu": 64_000}
    nodes = [Node(id=name, capacity=everything) for name in (*old, *young)]
    gangs = single_pods(young, start_s=YOUNG_S)
    for name in old:
        pods = [PodGroup(node=name, request={"cpu": 64_000})]
        gangs.append(Gang(id=name, priority=1, pods=pods))
    demand = Demand(priority=3, shapes=[Shape(count=k, request=everything)])
    return Solved(nodes, gangs, {"demand": demand}, losing(old, on=old))


_TRAPS = (
    *(_gang_blind, _safe_bundle, _safe_first, _youngest_first, _few_nodes_first, _whole_gangs),
    *(_fewest_pods, _prefix, _gpu_blind),
)

BUILDERS: Mapping[str, Callable[[int], Solved]] = {
    build.__name__.strip("_").replace("_", "-"): build for build in _TRAPS
}
"""The function that builds each trap, by the name of the trap."""
