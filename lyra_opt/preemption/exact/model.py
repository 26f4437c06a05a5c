"""The general model of a preemption instance, or of a part of it, built from arrays.

The columns of the programme are: z (gangs lost whole; gangs that differ in nothing share a column),
e (lost pods of gangs that survive), o and i (pods that move out of a node, and into one), x
(pending pods on a node), b (nodes chosen to be emptied), u (domains used) and s (the excess over a
soft budget). Pods that move are alike if request and selector are equal; alike pods are matched
afterwards, so that none moves from a node to itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.preemption.counting import node_room
from lyra_opt.preemption.exact.plan import Plan, budget_counts
from lyra_opt.preemption.exact.programme import Linear, Programme
from lyra_opt.preemption.instance import matches

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lyra_opt.preemption.costs import Costs
    from lyra_opt.preemption.instance import Budget, Instance

    IntArray = NDArray[np.int64]
    Flags = NDArray[np.bool_]

NONE = -1
NOTHING = Linear(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The part of an instance that a model covers.

    Parameters
    ----------
    instance, costs
        The instance, and its costs as arrays.
    allowed
        Whether pods of a shape can be placed on a node, (S, N).
    least
        Number of pods of each shape that must be placed, (S,).
    is_open
        Whether pods may be lost on the node or move away from it, (N,).
    """

    instance: Instance
    costs: Costs
    allowed: Flags
    least: IntArray
    is_open: Flags


class Model:
    """The programme of a scope, and the meaning of its columns.

    Arrays over pod groups have one entry for each group in play. ``_z_of``, ``_e_of`` and ``_o_of``
    hold the columns of a group, or -1.
    """

    def __init__(self, scope: Scope) -> None:
        instance, index = scope.instance, scope.instance.index
        self._scope, self._instance, self._index = scope, instance, index
        self.programme = Programme()
        touchable = (index.may_lose | index.may_move)[index.group_gang]
        is_held = np.zeros(len(index.free), dtype=bool)
        is_held[index.group_node[~touchable]] = True
        self._choosable = index.can_be_chosen_empty & ~is_held & (instance.empty_nodes > 0)
        leaves = scope.is_open | index.must_be_empty | self._choosable
        groups = np.flatnonzero(touchable & leaves[index.group_node])
        amount = index.group_request[groups] * index.group_count[groups, None]
        self._available = index.free.copy()
        np.add.at(self._available, index.group_node[groups], amount)
        self._room = np.zeros(scope.allowed.shape, dtype=np.int64)
        for shape, allowed in enumerate(scope.allowed):
            self._room[shape] = np.where(allowed, node_room(instance, shape, self._available), 0)
        target = self._room.any(axis=0) | index.must_be_empty | self._choosable
        target |= index.may_use & index.may_move.any()
        self._budgets = [(budget, budget_counts(instance, budget)) for budget in instance.budgets]
        self._add_groups(groups[target[index.group_node[groups]]])
        self._add_moves()
        self._add_gang_rows()
        self._add_demand()
        self._add_capacities()
        self._add_choice()
        self._excess = [self._add_budget(*each) for each in self._budgets]
        terms = instance.terms.terms
        has_domains = "extra_domains" in instance.objective
        self._extra = self._add_domains() if has_domains else NOTHING
        self.programme.terms += [self._term(t, term.name) for t, term in enumerate(terms)]

    def _add_groups(self, groups: IntArray) -> None:
        """Add the columns z and e of the pod groups in play.

        Of gangs that share a column z, only the first one's group is kept, with their number.
        """
        index = self._index
        gangs = np.unique(index.group_gang[groups])
        losers = gangs[index.may_lose[gangs]]
        first, self._z_place, sizes = _alike(self._features(losers))
        self._losers, self._z_gang, self._z = losers, losers[first], self.programme.columns(sizes)
        z_of, copies = np.full(len(index.size), NONE), np.ones(len(index.size), dtype=np.int64)
        z_of[self._z_gang], copies[self._z_gang] = self._z, sizes
        gang = index.group_gang[groups]
        self._k = k = groups[~index.may_lose[gang] | (z_of[gang] != NONE)]
        self._gang, self._node = index.group_gang[k], index.group_node[k]
        self._count, self._request = index.group_count[k], index.group_request[k]
        self._z_of, self._copies = z_of[self._gang], copies[self._gang]
        surplus = (index.size - index.min_pods)[self._gang]
        self._e_most = np.where(self._z_of != NONE, np.minimum(self._count, surplus), 0)
        self._e_of = np.full(len(k), NONE)
        self._e_of[self._e_most > 0] = self.programme.columns(self._e_most[self._e_most > 0])

    def _features(self, losers: IntArray) -> IntArray:
        """Return a row for each gang that may lose pods; gangs with equal rows share a column.

        They are rigid, stay, are in no budget, and hold as much on the same node at the same cost.
        """
        index, loss = self._index, self._scope.costs.loss
        first = index.first_group[losers]
        is_alike = (index.first_group[losers + 1] - first == 1) & ~index.may_move[losers]
        is_alike &= (index.min_pods == index.size)[losers]
        for _, (used, _, _) in self._budgets:
            is_alike &= used[losers] == 0
        amount = index.group_request[first] * index.group_count[first, None]
        rows = np.column_stack((index.group_node[first], amount, loss[:, losers].T))
        rows[~is_alike] = 0
        rows[~is_alike, 0] = -1 - losers[~is_alike]
        return rows

    def _add_moves(self) -> None:
        """Add the columns o and i, and require that all pods that move out move in."""
        index, programme = self._index, self.programme
        movable = np.flatnonzero(index.may_move[self._gang])
        kind, kinds = self._kinds(self._k[movable])
        # Pods that can only move share a column with alike pods on the same node.
        shares = (self._z_of[movable] == NONE) & ~self._leaves()[movable]
        for _, (_, _, used) in self._budgets:
            shares &= used[self._gang[movable]] == 0
        cost = self._scope.costs.move[:, self._gang[movable]].T
        own = np.where(shares, NONE, movable)
        first, place, _ = _alike(np.column_stack((self._node[movable], kind, own, cost)))
        most = _sums(place, self._count[movable], len(first))
        self._o, self._o_kind, self._o_first = programme.columns(most), kind[first], movable[first]
        self._o_of = np.full(len(self._k), NONE)
        self._o_of[movable] = self._o[place]
        self._o_is_shared = np.zeros(len(self._k), dtype=bool)
        self._o_is_shared[movable] = shares
        total = _sums(self._o_kind, most, len(kinds))
        inward = [np.zeros((3, 0), dtype=np.int64)]
        for number, (request, fits) in enumerate(kinds):
            room = np.where(index.may_use & fits, total[number], 0)
            for resource in np.flatnonzero(request):
                room = np.minimum(room, self._available[:, resource] // request[resource])
            nodes = np.flatnonzero(room)
            inward.append(np.stack((np.full(len(nodes), number), nodes, room[nodes])))
        self._i_kind, self._i_node, self._i_most = np.hstack(inward)
        self._i = programme.columns(self._i_most)
        self._i_request = np.zeros((len(self._i), index.free.shape[1]), dtype=np.int64)
        for number, (request, _) in enumerate(kinds):
            self._i_request[self._i_kind == number] = request
        out, into = (self._o_kind, self._o, 1), (self._i_kind, self._i, -1)
        programme.at_most(np.zeros(len(kinds)), out, into)

    def _kinds(self, groups: IntArray) -> tuple[IntArray, list[tuple[IntArray, Flags]]]:
        """Return the kind of each pod group, and the request and the nodes of each kind."""
        instance, index = self._instance, self._index
        numbers: dict[Any, int] = {}
        kinds: list[tuple[IntArray, Flags]] = []
        found = np.zeros(len(groups), dtype=np.int64)
        for position, k in enumerate(groups.tolist()):
            gang = index.group_gang[k]
            selector = instance.gangs[gang].pods[k - index.first_group[gang]].selector
            key = index.group_request[k].tobytes(), tuple(sorted(selector.items()))
            if key not in numbers:
                numbers[key] = len(numbers)
                fits = [matches(node, selector) for node in instance.nodes]
                kinds.append((index.group_request[k], np.array(fits)))
            found[position] = numbers[key]
        return found, kinds

    def _leaves(self) -> Flags:
        """Return whether the pods of a group are on a node that is or may be emptied."""
        leaves: Flags = (self._index.must_be_empty | self._choosable)[self._node]
        return leaves

    def _gone(self, groups: IntArray, sign: int) -> list[tuple[Any, Any, Any]]:
        """Return entries that count the pods of each group that are lost or moved, times `sign`."""
        rows, parts = np.arange(len(groups)), []
        for of, value in ((self._z_of, self._count), (self._e_of, 1), (self._o_of, 1)):
            has = of[groups] != NONE
            values = np.broadcast_to(value, len(of))[groups[has]]
            parts.append((rows[has], of[groups[has]], sign * values))
        return parts

    def _add_gang_rows(self) -> None:
        """Limit the pods that leave each group, and the losses of each gang that survives."""
        index, programme = self._index, self.programme
        own = np.flatnonzero(~self._o_is_shared)
        programme.at_most((self._count * self._copies)[own], *self._gone(own, 1))
        surplus = (index.size - index.min_pods)[self._z_gang]
        lost = np.flatnonzero(self._e_of != NONE)
        row = np.searchsorted(self._z, self._z_of[lost])
        entries = (np.arange(len(surplus)), self._z, surplus)
        programme.at_most(surplus, (row, self._e_of[lost], 1), entries)
        leaving = np.flatnonzero(index.must_be_empty[self._node])
        programme.at_most(-(self._count * self._copies)[leaving], *self._gone(leaving, -1))

    def _add_demand(self) -> None:
        """Add the columns x; a gang that must be lost for more than t pods limits x to t + U z."""
        index, programme = self._index, self.programme
        self._x_shape, self._x_node = np.nonzero(self._room)
        most = self._room[self._x_shape, self._x_node]
        self._x = programme.columns(most)
        x_of = np.full(self._room.shape, NONE)
        x_of[self._x_shape, self._x_node] = self._x
        stays = np.flatnonzero((self._z_of != NONE) & (self._o_of == NONE))
        first, place, _ = _alike(np.column_stack((self._z_of[stays], self._node[stays])))
        amount = (self._count * self._copies - self._e_most)[stays, None] * self._request[stays]
        kept = np.zeros((len(first), amount.shape[1]), dtype=np.int64)
        np.add.at(kept, place, amount)
        z, node = self._z_of[stays[first]], self._node[stays[first]]
        for shape, request in enumerate(index.shape_request):
            columns = self._x[self._x_shape == shape]
            programme.between(self._scope.least[shape], index.shape_count[shape], columns)
            room = self._room[shape, node]
            fits = room.copy()
            for resource in np.flatnonzero(request):
                left = (self._available[node] - kept)[:, resource] // request[resource]
                fits = np.minimum(fits, np.maximum(0, left))
            cut = np.flatnonzero(fits < room)
            row, x = np.arange(len(cut)), x_of[shape, node[cut]]
            programme.at_most(fits[cut], (row, x, 1), (row, z[cut], (fits - room)[cut]))

    def _add_capacities(self) -> None:
        """Limit the use of each resource on each node that pods can come to."""
        index, out = self._index, self._o_first
        z, e = self._z_of != NONE, self._e_of != NONE
        for resource in range(index.free.shape[1]):
            request = self._request[:, resource]
            self.programme.at_most(
                index.free[:, resource],
                (self._x_node, self._x, index.shape_request[self._x_shape, resource]),
                (self._i_node, self._i, self._i_request[:, resource]),
                (self._node[z], self._z_of[z], -(request * self._count)[z]),
                (self._node[e], self._e_of[e], -request[e]),
                (self._node[out], self._o, -request[out]),
            )

    def _add_choice(self) -> None:
        """Add the columns b, and keep the chosen nodes empty."""
        programme, nodes = self.programme, np.flatnonzero(self._choosable)
        self._b, self._b_node = programme.columns(np.ones(len(nodes))), nodes
        if not self._instance.empty_nodes:
            return
        b_of = np.full(len(self._choosable), NONE)
        b_of[nodes] = self._b
        programme.between(self._instance.empty_nodes, self._instance.empty_nodes, self._b)
        leaving = np.flatnonzero(self._choosable[self._node])
        pods = (self._count * self._copies)[leaving]
        chosen = np.arange(len(leaving)), b_of[self._node[leaving]], pods
        programme.at_most(np.zeros(len(leaving)), chosen, *self._gone(leaving, -1))
        for node, column, most in (
            (self._x_node, self._x, self._room[self._x_shape, self._x_node]),
            (self._i_node, self._i, self._i_most),
        ):
            open_ = np.flatnonzero(self._choosable[node])
            row = np.arange(len(open_))
            entries = (row, column[open_], 1), (row, b_of[node[open_]], most[open_])
            programme.at_most(most[open_], *entries)

    def _use(self, counts: tuple[IntArray, IntArray, IntArray]) -> tuple[IntArray, IntArray]:
        """Return columns and values of a cost of gangs, lost pods and moved pods."""
        loss, lost_pod, move = counts
        e = np.flatnonzero(self._e_of != NONE)
        columns = (self._z, self._e_of[e], self._o)
        values = (loss[self._z_gang], lost_pod[self._k[e]], move[self._gang[self._o_first]])
        return np.concatenate(columns), np.concatenate(values)

    def _add_budget(self, budget: Budget, counts: tuple[IntArray, IntArray, IntArray]) -> IntArray:
        """Limit the use of a budget; return the excess over a soft one."""
        columns, values = self._use(counts)
        limit, excess = budget.most - budget.used, NOTHING
        if not budget.is_hard:
            if "budget_excess" not in self._instance.objective:
                return excess
            limits = [self.programme.upper[column] for column in columns]
            most = sum(a * u for a, u in zip(values.tolist(), limits, strict=True)) - limit
            excess = self.programme.wide(max(0, most))
        entries = (0, columns, values), (0, excess.columns, -excess.values)
        self.programme.at_most([limit], *entries)
        return excess

    def _add_domains(self) -> Linear:
        """Add the columns u, and return the column that counts the domains beyond the first."""
        index, programme = self._index, self.programme
        used, place = np.unique(index.domain[self._x_node], return_inverse=True)
        u = programme.columns(np.ones(len(used)))
        extra = programme.columns([max(0, len(used) - 1)])
        most = self._room[self._x_shape, self._x_node]
        row = np.arange(len(self._x))
        programme.at_most(np.zeros(len(row)), (row, self._x, 1), (row, u[place], -most))
        programme.at_most([1], (0, u, 1), (0, extra, -1))
        return Linear(extra, np.ones(1, dtype=np.int64))

    def _term(self, t: int, name: str) -> Linear:
        """Return a term of the objective as a sum of columns."""
        if name == "unplaced":
            return Linear(self._x, np.full(len(self._x), -1), int(self._index.shape_count.sum()))
        if name in ("budget_excess", "extra_domains"):
            parts = self._excess if name == "budget_excess" else [self._extra]
            return Linear(
                *(np.concatenate(each) for each in zip(*((p.columns, p.values) for p in parts)))
            )
        costs = self._scope.costs
        return Linear(*self._use((costs.loss[t], costs.lost_pod[t], costs.move[t])))

    def plan(self, values: IntArray) -> Plan:
        """Return the plan that feasible values of the columns mean."""
        index = self._index
        lost = np.zeros(len(index.group_gang), dtype=np.int64)
        e = self._e_of != NONE
        lost[self._k[e]] = values[self._e_of[e]]
        rank = _rank(self._z_place)  # of gangs that share a column, the first ones are lost
        gone = np.zeros(len(index.size), dtype=bool)
        gone[self._losers[rank < values[self._z][self._z_place]]] = True
        lost = np.where(gone[index.group_gang], index.group_count, lost)
        placed = np.zeros(self._room.shape, dtype=np.int64)
        placed[self._x_shape, self._x_node] = values[self._x]
        return Plan(
            lost=lost,
            placed=placed,
            moved=tuple(self._moved(values)),
            emptied=tuple(self._b_node[values[self._b] > 0].tolist()),
        )

    def _moved(self, values: IntArray) -> list[tuple[int, int, int]]:
        """Match the pods of each kind that move out with the places into which they move."""
        outward: dict[int, list[list[int]]] = {}
        left = dict(zip(self._o.tolist(), values[self._o].tolist(), strict=True))
        kind_of = dict(zip(self._o.tolist(), self._o_kind.tolist(), strict=True))
        for position in np.flatnonzero(self._o_of != NONE).tolist():
            column = int(self._o_of[position])
            number = min(left[column], int(self._count[position]))
            left[column] -= number
            if number:
                entry = [int(self._k[position]), int(self._node[position]), number]
                outward.setdefault(kind_of[column], []).append(entry)
        moved = []
        into = np.flatnonzero(values[self._i])
        for kind, entries in outward.items():
            here = into[self._i_kind[into] == kind]
            places = dict(
                zip(self._i_node[here].tolist(), values[self._i[here]].tolist(), strict=True)
            )
            for entry in entries:  # a pod that would move to its own node stays
                stays = min(entry[2], places.get(entry[1], 0))
                if stays:
                    entry[2] -= stays
                    places[entry[1]] -= stays
            for group, _, number in entries:
                while number:
                    node, room = next((n, room) for n, room in places.items() if room)
                    step = min(number, room)
                    moved.append((group, node, step))
                    places[node] -= step
                    number -= step
        return moved


def _alike(rows: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return the first of each set of equal rows, the set of each row, and the sizes of the sets."""
    if not len(rows):
        return (np.zeros(0, dtype=np.int64),) * 3
    _, first, place, sizes = np.unique(
        rows, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    return first, place.reshape(-1), sizes


def _sums(place: IntArray, values: IntArray, size: int) -> IntArray:
    """Return the sum of the values at each place."""
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, place, values)
    return sums


def _rank(place: IntArray) -> IntArray:
    """Return the position of each element among those of the same place."""
    order = np.argsort(place, kind="stable")
    ordered = place[order]
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    return rank
