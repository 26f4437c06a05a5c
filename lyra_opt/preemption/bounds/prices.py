r"""A lower bound on the cost of making room for pods of one shape, from prices of nodes.

A gang on several nodes is lost at the same cost for one of its nodes as for all of them. The bound
splits this cost over the gang's pod groups in the domain: each group gets the cost of its own pods,
such as their GPUs, and an equal part of the rest. Each node then has a cost phi(t) of making room
for t pods, which does not depend on other nodes and is the optimum of a knapsack problem. If a
domain must hold d pods, every price p >= 0 per pod proves that its cost is at least

    p d + sum over its nodes of min over t of (phi(t) - p t).

The best price is the slope of the convex envelopes of all phi at which d pods are reached. All
arithmetic that the proof depends on is in integers. The bound is valid for all variants: it ignores
budgets and nodes to be emptied, and a moved pod costs only its move.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lyra_opt.preemption.costs import Costs
from lyra_opt.preemption.index import Flags, Integers, PreemptionIndex
from lyra_opt.preemption.instance import Instance

INFINITE = 2**60
"""The cost of an impossible action, such as the loss of a protected gang."""
MOST_UNITS = 64
"""Largest capacity of a knapsack; larger amounts are rounded so that the bound stays valid."""
BITS = 58
"""Number of bits of the largest sum of scaled costs."""
SHARE_BITS = 16
"""Costs are multiplied by at most 2**16 before they are split and rounded down."""
LARGEST_TABLE = 4_000_000
"""Largest number of pairs of node and number of pods for which prices are computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The costs of gangs, and the pods for which room must be made.

    Parameters
    ----------
    index
        The arrays of the instance.
    request, wanted
        Amount of each resource that one pod requests, (R,), and the number of pods.
    limit
        Largest number of pods on each node, apart from its capacity, (N,).
    domain, domains
        Domain of each node, or -1 for a node that cannot hold pending pods, (N,), and the number of
        domains.
    is_open
        Whether pods of gangs on the node can be lost or move; otherwise only its free capacity
        counts, (N,).
    loss, own
        Cost of losing a gang whole, (G,), `INFINITE` if it cannot be lost, and the part of this
        cost that is due to the pods of a group, (K,).
    pod, pods
        Cost of a pod of a group that is lost without the gang or moves, and the largest number of
        such pods, (K,).
    scale, divisor
        `scale` units of the costs stand for `divisor` units of the encoded objective.
    """

    index: PreemptionIndex
    request: Integers
    wanted: int
    limit: Integers
    domain: Integers
    domains: int
    is_open: Flags
    loss: Integers
    own: Integers
    pod: Integers
    pods: Integers
    scale: int
    divisor: int

    @classmethod
    def of(
        cls,
        instance: Instance,
        request: Integers,
        wanted: int,
        limit: Integers,
        domain: Integers,
        domains: int,
    ) -> "Task":
        """Return the task at the costs of an instance, with all nodes open."""
        index, largest = instance.index, instance.terms.largest
        excess = largest.bit_length() - (BITS - (2 * wanted).bit_length())
        divisor = 1 if excess <= 0 else 2 ** (excess + SHARE_BITS)
        scale = 2 ** (SHARE_BITS if excess > 0 else min(SHARE_BITS, -excess))
        costs = Costs.encoded(instance, scale)
        loss, lost_pod, move = (
            (cost // divisor).astype(np.int64) for cost in (costs.loss, costs.lost_pod, costs.move)
        )
        gang, count = index.group_gang, index.group_count
        surplus = np.where(index.may_lose, index.size - index.min_pods, 0)[gang]
        may_move = index.may_move[gang]
        return cls(
            index=index,
            request=request,
            wanted=wanted,
            limit=limit,
            domain=domain,
            domains=domains,
            is_open=np.ones(len(domain), dtype=bool),
            loss=np.where(index.may_lose, loss, INFINITE),
            own=lost_pod * count,
            pod=np.minimum(
                np.where(may_move, move[gang], INFINITE), np.where(surplus > 0, lost_pod, INFINITE)
            ),
            pods=np.where(may_move, count, np.minimum(count, surplus)),
            scale=scale,
            divisor=divisor,
        )

    def scaled(self, objective: int) -> int:
        """Convert an objective, one integer for all terms, to units of the costs; round down."""
        return objective * self.scale // self.divisor

    def encoded(self, bound: int) -> int:
        """Return a lower bound on the objective, given a lower bound on the costs.

        The objective is one integer that encodes the values of all terms. The costs are in units of
        this task.
        """
        return -(-bound * self.divisor // self.scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Lower bounds for each domain, with the costs that prove them.

    Parameters
    ----------
    bound
        Least cost of each domain, (D,); `INFINITE` if it cannot hold the pods.
    nodes, room
        The nodes that can hold pods, and their numbers of pods, (M,).
    cost, excess
        Least cost of making room for t pods on a node, (M, T + 1), and the amount by which the
        bound of its domain rises if the node holds t pods, (M, T + 1).
    chosen
        Number of pods on each node at the price of its domain, (M,).
    items
        The pod groups that can be lost or moved, by node.
    """

    bound: Integers
    nodes: Integers
    room: Integers
    cost: Integers
    excess: Integers
    chosen: Integers
    items: "Items"

    def placement(self, task: Task) -> Integers:
        """Return the number of pods to place on each node, (N,), `wanted` pods in all if they fit.

        Each node gets the number of pods that is best at the price. Further pods go where they
        raise the bound least per pod. If prices are rounded, the best numbers can exceed `wanted`;
        then the dearest nodes get fewer pods.
        """
        pods, placed = np.arange(self.excess.shape[1]), self.chosen.copy()
        missing = task.wanted - int(placed.sum())
        if missing < 0:
            dearest = np.argsort(-self.cost[np.arange(len(placed)), placed], kind="stable")
            before = np.cumsum(placed[dearest]) - placed[dearest]
            placed[dearest] -= np.clip(-missing - before, 0, placed[dearest])
        while missing > 0:
            more = pods - placed[:, None]
            ratio = self.excess / np.maximum(1, more)
            ratio[(more <= 0) | (pods > self.room[:, None])] = np.inf
            best = len(pods) - 1 - ratio[:, ::-1].argmin(axis=1)
            least = ratio[np.arange(len(best)), best]
            order = np.argsort(least, kind="stable")
            further = np.where(np.isfinite(least), best - placed, 0)[order]
            before = np.cumsum(further) - further
            placed[order] += np.clip(missing - before, 0, further)
            if not further.any():
                break
            missing = task.wanted - int(placed.sum())
        found = np.zeros(len(task.limit), dtype=np.int64)
        found[self.nodes] = placed
        return found

    def more_than(self, free: Integers) -> Flags:
        """Return whether t pods fit on a node but are more than `free`, (N,), (M, T + 1)."""
        pods = np.arange(self.cost.shape[1])
        return (pods > free[self.nodes, None]) & (pods <= self.room[:, None])

    def components(self, free: Integers, price: int) -> Flags:
        """Return the nodes that gangs connect to a node with room for less than `price`, (N,).

        `price` is per pod. `free` is the number of pods that fit on each node without losses, (N,).
        """
        more = np.arange(self.cost.shape[1]) - free[self.nodes, None]
        is_cheaper = self.more_than(free) & (self.cost < price * more)
        inside: Flags = np.asarray(is_cheaper.any(axis=1))
        row, gang = self.items.row, self.items.gang
        while True:
            joined = np.zeros(int(gang.max(initial=0)) + 1, dtype=bool)
            joined[gang[inside[row]]] = True
            before = int(inside.sum())
            inside[row[joined[gang]]] = True
            if int(inside.sum()) == before:
                break
        found = np.zeros(len(free), dtype=bool)
        found[self.nodes[inside]] = True
        return found


def prices(task: Task) -> Prices | None:
    """Return the bounds of all domains; None if the table of costs would be too large.

    Time O(pod groups * units + nodes * pods per node * log nodes).
    """
    index, request = task.index, task.request
    room = np.where(task.domain >= 0, np.minimum(task.limit, task.wanted), 0)
    leaves = (task.loss < INFINITE)[index.group_gang] | (task.pods > 0)
    leaves &= (task.is_open & (room > 0))[index.group_node]
    for resource in np.flatnonzero(request):
        amount = (index.group_request[:, resource] * index.group_count)[leaves]
        gone = np.bincount(index.group_node[leaves], amount, len(room)).astype(np.int64)
        room = np.minimum(room, (index.free[:, resource] + gone) // request[resource])
    nodes = np.flatnonzero(room)
    room = room[nodes]
    most = int(room.max(initial=0))
    if len(nodes) * (most + 1) > LARGEST_TABLE:
        return None
    pods = np.arange(most + 1)
    items = Items.of(task, np.flatnonzero(leaves), nodes)
    impossible = pods > room[:, None]
    cost = np.where(impossible, INFINITE, 0)
    for resource in np.flatnonzero(request):
        need = pods * request[resource] - index.free[nodes, resource][:, None]
        need = np.where(impossible, 0, np.maximum(0, need))
        np.maximum(cost, items.cost(int(resource), need), out=cost)
    return _bounded(task, nodes, room, cost, items)


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """The items of the knapsacks of all nodes: pod groups that can be lost or moved, by node.

    Parameters
    ----------
    group, gang, row
        Pod group, its gang, and the position of its node among the given nodes, (I,).
    rank
        Position of the item on its node, (I,).
    request, count
        Amount of each resource that one pod holds, (I, R), and number of pods, (I,).
    pods, pod, whole
        Number of pods that can be lost without the gang or move, cost of each such pod, and the
        part of the cost of losing the gang that falls to this group, (I,).
    """

    group: Integers
    gang: Integers
    row: Integers
    rank: Integers
    request: Integers
    count: Integers
    pods: Integers
    pod: Integers
    whole: Integers

    @classmethod
    def of(cls, task: Task, groups: Integers, nodes: Integers) -> "Items":
        """Build the items of the given pod groups on the given nodes."""
        index = task.index
        place = np.full(len(index.free), -1)
        place[nodes] = np.arange(len(nodes))
        groups = groups[place[index.group_node[groups]] >= 0]
        groups = groups[np.argsort(place[index.group_node[groups]], kind="stable")]
        row, gang = place[index.group_node[groups]], index.group_gang[groups]
        part = gang * task.domains + task.domain[index.group_node[groups]]
        _, place, parts = np.unique(part, return_inverse=True, return_counts=True)
        own = np.zeros(len(parts), dtype=np.int64)
        np.add.at(own, place, task.own[groups])
        rest = np.maximum(0, task.loss[gang] - own[place]) // parts[place]
        return cls(
            group=groups,
            gang=gang,
            row=row,
            rank=np.arange(len(row)) - np.searchsorted(row, row),
            request=index.group_request[groups],
            count=index.group_count[groups],
            pods=task.pods[groups],
            pod=task.pod[groups],
            whole=np.where(task.loss[gang] < INFINITE, task.own[groups] + rest, INFINITE),
        )

    def cost(self, resource: int, need: Integers) -> Integers:
        """Return the least cost of freeing the amounts `need` of a resource, (M, T + 1).

        The table of a node holds the least costs of freeing 0, 1, 2, ... units.
        """
        amount = self.request[:, resource]
        unit = max(1, int(np.gcd.reduce(np.append(amount[amount > 0], need[need > 0]))))
        most = need.max(axis=1, initial=0)
        units = unit * np.maximum(1, -(-most // (unit * MOST_UNITS)))
        need = -(-need // units[:, None])
        width = int(need.max(initial=0))
        table = np.full((len(need), width + 1), INFINITE)
        table[:, 0] = 0
        useful = np.flatnonzero((amount > 0) & (most[self.row] > 0))
        steps = np.arange(width + 1)
        for rank in range(int(self.rank[useful].max(initial=-1)) + 1):
            here = useful[self.rank[useful] == rank]
            rows = self.row[here]
            before = table[rows]
            after = before.copy()
            for pods, of, cost in self._options(here):
                freed = -(-amount[here[of]] * pods // units[rows[of]])
                source = np.maximum(0, steps - freed[:, None])
                found = np.take_along_axis(before[of], source, axis=1) + cost[:, None]
                after[of] = np.minimum(after[of], found)
            table[rows] = np.minimum(after, INFINITE)
        return np.take_along_axis(table, need, axis=1)

    def _options(self, here: Integers) -> Iterator[tuple[Integers, Integers, Integers]]:
        """Yield the options of the items `here`: numbers of pods, positions in `here`, and costs.

        An option frees the resources of some pods of an item.
        """
        whole = np.flatnonzero(self.whole[here] < INFINITE)
        yield self.count[here[whole]], whole, self.whole[here[whole]]
        for pods in range(1, min(MOST_UNITS, int(self.pods[here].max(initial=0))) + 1):
            of = np.flatnonzero(self.pods[here] >= pods)
            yield np.full(len(of), pods), of, pods * self.pod[here[of]]


def _bounded(task: Task, nodes: Integers, room: Integers, cost: Integers, items: Items) -> Prices:
    """Return the lower bounds that follow from the best price of each domain."""
    domain = task.domain[nodes]
    price = _best_prices(cost, domain, task)
    value = cost - price[domain][:, None] * np.arange(cost.shape[1])
    least = value.min(axis=1, initial=INFINITE)
    bound = price * task.wanted
    np.add.at(bound, domain, least)
    total = np.bincount(domain, room, task.domains)
    return Prices(
        bound=np.where(total < task.wanted, INFINITE, np.maximum(0, bound)),
        nodes=nodes,
        room=room,
        cost=cost,
        excess=value - least[:, None],
        chosen=value.argmin(axis=1),
        items=items,
    )


def _best_prices(cost: Integers, domain: Integers, task: Task) -> Integers:
    """Return the best price of each domain, (D,).

    It is the slope of the convex envelopes at which the domain reaches the wanted number of pods.
    """
    rows, at = np.arange(len(cost)), np.zeros(len(cost), dtype=np.int64)
    slopes, lengths, domains = [], [], []
    pods = np.arange(cost.shape[1])
    while len(rows):
        rise = (cost[rows] - cost[rows, at][:, None]).astype(np.float64)
        rise[cost[rows] >= INFINITE] = np.inf
        run = pods - at[:, None]
        slope = np.where(run > 0, rise / np.maximum(1, run), np.inf)
        best = slope.shape[1] - 1 - slope[:, ::-1].argmin(axis=1)
        steepness = slope[np.arange(len(rows)), best]
        goes = np.isfinite(steepness)
        slopes.append(steepness[goes])
        lengths.append((best - at)[goes])
        domains.append(domain[rows[goes]])
        rows, at = rows[goes], best[goes]
    price = np.zeros(task.domains, dtype=np.int64)
    if not slopes:
        return price
    slope, length, of = (np.concatenate(parts) for parts in (slopes, lengths, domains))
    order = np.lexsort((slope, of))
    slope, length, of = slope[order], length[order], of[order]
    starts = np.searchsorted(of, np.arange(task.domains + 1))
    total = np.append(0, np.cumsum(length))
    reached = np.searchsorted(total[1:], total[starts[:-1]] + task.wanted)
    inside = reached < starts[1:]
    price[inside] = slope[reached[inside]]
    return price
