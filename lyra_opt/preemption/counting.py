"""Decide by counting whether the pending pods fit without all gangs that may lose or move pods.

These gangs are called touchable. Without moves and hard budgets, feasibility is monotone: losing
more pods never hurts. A solution therefore exists if and only if the demand fits the cluster
without all touchable gangs. For one pod shape this is a sum over nodes, and the table of the sums
is a certificate that a person can check. For several shapes, hard budgets, or gangs that may only
move, the same sums can still prove that no solution exists, but not that one exists.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from lyra_opt.core.errors import counted
from lyra_opt.preemption.index import Flags, Integers
from lyra_opt.preemption.instance import Instance


class Verdict(StrEnum):
    """The result of counting."""

    FITS = "fits"
    """A solution exists."""
    IMPOSSIBLE = "impossible"
    """No solution exists."""
    UNDECIDED = "undecided"
    """Counting does not decide whether a solution exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """The verdict of counting, with the table that proves it.

    Parameters
    ----------
    verdict
        Whether a solution exists.
    reason
        Why no solution exists, in words; empty for other verdicts.
    room
        Number of pods of each shape that fit in each domain of a required level, (S, D); one domain
        if no level is required. The room on `empty_nodes` nodes is subtracted, those that reduce it
        least.
    domain_fits
        Whether the required pods of every shape, each shape considered alone, fit in the domain,
        (D,).
    """

    verdict: Verdict
    reason: str
    room: Integers
    domain_fits: Flags


def count(instance: Instance) -> Counting:
    """Return how many pending pods fit without all gangs that may lose or move pods.

    Time O(pod groups * resources + nodes * (shapes * resources + log nodes)).
    """
    index = instance.index
    return _count(instance, index.may_lose | index.may_move)


def blocking_gangs(instance: Instance) -> tuple[str, ...] | None:
    """Return the ids of gangs that block an impossible demand, in file order.

    These gangs are not touchable, because of their protection or priority. The demand would fit if
    all of them left, and not if any one of them stayed. There may be smaller sets with this
    property. Gangs of low priority are preferred. None if even the empty cluster cannot hold the
    demand, or if counting does not decide either question.
    """
    index = instance.index
    touchable = index.may_lose | index.may_move
    everything = np.ones_like(touchable)
    if (
        _count(instance, touchable).verdict is not Verdict.IMPOSSIBLE
        or _count(instance, everything).verdict is not Verdict.FITS
    ):
        return None
    released = np.flatnonzero(~touchable)
    released = released[np.argsort(index.priority[released], kind="stable")]
    size = len(released)
    while size := size // 2:  # at last single gangs, so that the set is minimal
        for start in range(0, len(released), size)[::-1]:
            fewer = np.delete(released, slice(start, start + size))
            touchable_too = touchable.copy()
            touchable_too[fewer] = True
            if _count(instance, touchable_too).verdict is Verdict.FITS:
                released = fewer
    return tuple(instance.gangs[gang].id for gang in np.sort(released))


def required_domains(instance: Instance) -> tuple[Integers, int]:
    """Return the domain of each node, (N,), and the number of domains of a required level.

    There is one domain if no level is required. Nodes on which the level allows no pods have domain
    -1.
    """
    index, demand = instance.index, instance.demand
    if demand is None or (demand.level is not None and demand.is_level_required):
        return index.domain, index.domains
    return np.where(index.domain < 0, -1, 0), 1


def emptied(instance: Instance, touchable: Flags) -> Integers:
    """Return the free amount of each resource on each node once `touchable` gangs are gone, (N, R).

    `touchable`, shape (G,), marks these gangs.
    """
    index = instance.index
    leaves = touchable[index.group_gang]
    amount = index.group_request[leaves] * index.group_count[leaves, None]
    node, found = index.group_node[leaves], index.free.copy()
    for resource in range(found.shape[1]):
        # A sum of floats is exact, because the capacities of all nodes sum to less than 2**53.
        sums = np.bincount(node, amount[:, resource], len(found))
        found[:, resource] += sums.astype(np.int64)
    return found


def node_room(instance: Instance, shape: int, available: Integers) -> Integers:
    """Return the number of pods of a shape that fit on each node, (N,).

    `available`, shape (N, R), is the amount of each resource that is free for the pods.
    """
    index = instance.index
    room = np.where(index.shape_allowed[shape], index.shape_per_node[shape], 0)
    for resource in np.flatnonzero(index.shape_request[shape]):
        request = index.shape_request[shape, resource]
        room = np.minimum(room, available[:, resource] // request)
    return room


def _count(instance: Instance, touchable: Flags) -> Counting:
    """Return the counts and the verdict if the `touchable` gangs, (G,), may lose or move pods."""
    index = instance.index
    available = emptied(instance, touchable)
    cannot = np.zeros(len(index.free), dtype=bool)
    cannot[index.group_node[~touchable[index.group_gang]]] = True
    emptiable = index.can_be_chosen_empty & ~cannot
    domain, domains = required_domains(instance)
    in_domain = np.zeros((len(index.shape_min), domains), dtype=np.int64)
    for shape in range(len(in_domain)):
        room = node_room(instance, shape, available)
        in_domain[shape] = _sums(domain, room, domains)
        if instance.empty_nodes:
            in_domain[shape] -= _least_loss(instance, room, domain, domains, emptiable)
    fits: Flags = np.asarray((in_domain >= index.shape_min[:, None]).all(axis=0))
    reason = _obstacle(instance, touchable, cannot, int(emptiable.sum()))
    if not reason and not fits.any():
        reason = _shortage(instance, in_domain)
    if not reason:
        reason = _lack_of_volume(instance, available)
    return Counting(
        verdict=Verdict.IMPOSSIBLE if reason else _verdict(instance, touchable),
        reason=reason,
        room=in_domain,
        domain_fits=fits,
    )


def _verdict(instance: Instance, touchable: Flags) -> Verdict:
    """Return the verdict if the sums do not prove that no solution exists."""
    index = instance.index
    empties = bool(instance.empty_nodes or index.must_be_empty.any())
    shapes = int((index.shape_min > 0).sum())
    if not shapes and not empties:
        return Verdict.FITS  # without any loss
    is_decided = shapes <= 1 and is_monotone(instance, touchable)
    return Verdict.FITS if is_decided else Verdict.UNDECIDED


def is_monotone(instance: Instance, touchable: Flags) -> bool:
    """Return whether all `touchable` gangs, (G,), may be lost together.

    They may not if a hard budget exists or if one of them may only move.
    """
    index = instance.index
    has_budget = any(budget.is_hard for budget in instance.budgets)
    return not has_budget and not (index.may_move & ~index.may_lose & touchable).any()


def _sums(domain: Integers, values: Integers, domains: int) -> Integers:
    """Return the sum of `values`, shape (N,), in each domain."""
    inside = domain >= 0
    return np.bincount(domain[inside], values[inside], domains).astype(np.int64)


def _least_loss(
    instance: Instance, room: Integers, domain: Integers, domains: int, emptiable: Flags
) -> Integers:
    """Return the least number of pods by which emptying nodes reduces the room of a domain, (D,).

    Nodes outside the domain are emptied first, which does not reduce its room. Inside it, the nodes
    with the least room are chosen.
    """
    inside = np.flatnonzero(emptiable & (domain >= 0))
    outside = int(emptiable.sum()) - np.bincount(domain[inside], minlength=domains)
    chosen = np.maximum(0, instance.empty_nodes - outside)
    ordered = inside[np.lexsort((room[inside], domain[inside]))]
    of = domain[ordered]
    rank = np.arange(len(ordered)) - np.searchsorted(of, np.arange(domains))[of]
    taken = ordered[rank < chosen[of]]
    return _sums(domain[taken], room[taken], domains)


def _obstacle(instance: Instance, touchable: Flags, cannot: Flags, emptiable: int) -> str:
    """Return why nodes cannot be emptied; an empty string if they can."""
    index = instance.index
    stuck = np.flatnonzero(index.must_be_empty & cannot)
    if len(stuck):
        on_node = (index.group_node == stuck[0]) & ~touchable[index.group_gang]
        gang = instance.gangs[index.group_gang[np.argmax(on_node)]]
        return (
            f"node {instance.nodes[stuck[0]].id!r} must be empty, but pods of gang {gang.id!r} "
            "can neither be lost nor move"
        )
    if emptiable < instance.empty_nodes:
        return (
            f"{counted(instance.empty_nodes, 'node')} must be chosen to be emptied, but only "
            f"{emptiable} of {index.can_be_chosen_empty.sum()} can be; pods that can neither be "
            "lost nor move hold the others"
        )
    return ""


def _shortage(instance: Instance, room: Integers) -> str:
    """Return which shape does not fit in the `room` of each domain, (S, D), and by how much."""
    assert instance.demand is not None
    index, demand = instance.index, instance.demand
    fits_nowhere = (room < index.shape_min[:, None]).all(axis=1)
    if not fits_nowhere.any():
        return f"no {demand.level} has room for the required pods of every shape"
    position = int(np.argmax(fits_nowhere))
    shape = demand.shapes[position]
    whole = emptied(instance, np.ones(len(index.size), dtype=bool))
    allowed = index.shape_allowed[position]
    if not node_room(instance, position, whole).any():
        request = (f"{amount} {name}" for name, amount in shape.request.items() if amount)
        where = "" if allowed.all() else " that the demand allows"
        return f"no node{where} has {' and '.join(request) or 'room'}, even when empty"
    best = int(np.argmax(room[position]))
    where, largest = "the cluster", ""
    if demand.level and demand.is_level_required:
        node = instance.nodes[int(np.argmax(index.domain == best))]
        where = f"{demand.level} {node.domains[demand.level]!r}"
        largest = f"; the largest of {counted(index.domains, demand.level)}"
    of_shape = f" of shape {shape.id!r}" if len(room) > 1 else ""
    nodes = counted(instance.empty_nodes, "node")
    also = f" and {nodes} emptied" if instance.empty_nodes else ""
    return (
        f"{where} has room for {room[position, best]} of {counted(shape.min_count, 'pod')}"
        f"{of_shape} when all gangs that may lose or move pods are gone{also}{largest}"
    )


def _lack_of_volume(instance: Instance, available: Integers) -> str:
    """Return which resource is too scarce for the pending pods and the pods that may only move.

    An empty string if none is.
    """
    index = instance.index
    kept = (index.may_move & ~index.may_lose)[index.group_gang]
    if not kept.any():
        return ""
    # Pods move only to usable nodes, so pods on usable nodes stay somewhere on these nodes.
    stays = kept & (index.may_use | index.must_be_empty)[index.group_node]
    for resource, name in enumerate(instance.resources):
        wanted = int((index.shape_min * index.shape_request[:, resource]).sum())
        amount = index.group_request[stays, resource] * index.group_count[stays]
        left = int(available[index.may_use, resource].sum()) - int(amount.sum())
        if wanted > left:
            return (
                f"the pending pods request {wanted} {name}, but the usable nodes have only {left} "
                "beside the pods that cannot be lost"
            )
    return ""
