"""The general model of a preemption instance, or of a part of it, built from arrays.

The columns of the programme are z for gangs lost whole, e for lost pods of gangs that survive, o
and i for pods that move out of a node and into one, and x for pending pods on a node. Further
columns are b for nodes chosen to be emptied, u for used domains, and s for the excess over a soft
budget. Pods that move are of one kind if their requests and selectors are equal. The model does not
say which pod of a kind moves where; a solution of the model is converted to moves afterwards.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from lyra_opt.preemption.costs import Costs
from lyra_opt.preemption.counting import node_room
from lyra_opt.preemption.exact.kinds import matched_moves, pod_kinds
from lyra_opt.preemption.exact.plan import Plan
from lyra_opt.preemption.exact.programme import Linear, Programme
from lyra_opt.preemption.index import Flags, Integers
from lyra_opt.preemption.instance import Budget, Instance
from lyra_opt.preemption.objective import Term

MOST_SIZES = 12
"""Most different amounts of a resource for which capacities are rounded."""

NONE = -1
NOTHING = Linear(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The part of an instance that a model covers.

    Parameters
    ----------
    instance
        The instance.
    allowed
        Whether the model may place pods of a shape on a node, (S, N).
    least
        Number of pods of each shape that must be placed, (S,).
    is_open
        Whether the model may lose pods on the node or move them away from it, (N,).
    """

    instance: Instance
    allowed: Flags
    least: Integers
    is_open: Flags


class Model:
    """The programme of a scope, and the meaning of its columns.

    Arrays over pod groups have one entry for each group that may leave a node which pods can come
    to. ``_z_of``, ``_e_of`` and ``_o_of`` hold the columns of a group, or -1.
    """

    def __init__(self, scope: Scope) -> None:
        instance, index = scope.instance, scope.instance.index
        self._scope, self._instance, self._index = scope, instance, index
        self.programme = Programme()
        can_leave = (index.may_lose | index.may_move)[index.group_gang]
        is_held = np.zeros(len(index.free), dtype=bool)
        is_held[index.group_node[~can_leave]] = True
        self._choosable = index.can_be_chosen_empty & ~is_held & (instance.empty_nodes > 0)
        leaves = scope.is_open | index.must_be_empty | self._choosable
        groups = np.flatnonzero(can_leave & leaves[index.group_node])
        amount = index.group_request[groups] * index.group_count[groups, None]
        self._available = index.free.copy()
        np.add.at(self._available, index.group_node[groups], amount)
        rooms = [node_room(instance, s, self._available) for s in range(len(scope.allowed))]
        room = np.where(scope.allowed, np.reshape(rooms, scope.allowed.shape), 0).astype(np.int64)
        target = room.any(axis=0) | index.must_be_empty | self._choosable
        target |= index.may_use & index.may_move.any()
        self._add_groups(groups[target[index.group_node[groups]]])
        self._add_moves()
        self._add_gang_rows()
        self._add_demand(room)
        self._add_capacities()
        self._add_choice()
        if index.may_move.any():
            self._add_rounded_capacities()
        self._excess = [self._add_budget(budget) for budget in instance.budgets]
        has_domains = "extra_domains" in instance.objective
        self._extra = self._add_domains() if has_domains else NOTHING
        self.programme.terms += map(self._term, instance.terms.terms)

    def _add_groups(self, groups: Integers) -> None:
        """Add the columns z, e and o of the pod groups."""
        index = self._index
        self._k, self._gang = groups, index.group_gang[groups]
        self._node, self._count = index.group_node[groups], index.group_count[groups]
        self._request = index.group_request[groups]
        self._z_gang = np.unique(self._gang[index.may_lose[self._gang]])
        self._z = self.programme.columns(np.ones(len(self._z_gang)))
        z_of = np.full(len(index.size), NONE)
        z_of[self._z_gang] = self._z
        self._z_of = z_of[self._gang]
        surplus = np.where(index.may_lose, index.size - index.min_pods, 0)[self._gang]
        self._e_most = np.minimum(self._count, surplus)
        self._e_of = self._columns_for(self._e_most)
        self._o_of = self._columns_for(self._count * index.may_move[self._gang])

    def _columns_for(self, most: Integers) -> Integers:
        """Add a column for each positive upper limit; return the column of each limit, or -1."""
        found = np.full(len(most), NONE)
        found[most > 0] = self.programme.columns(most[most > 0])
        return found

    def _add_moves(self) -> None:
        """Add the columns i, and require that as many pods of a kind move in as move out."""
        movable = np.flatnonzero(self._o_of != NONE)
        kinds, first, rooms = pod_kinds(self._instance, self._k[movable], self._available)
        self._kind = np.full(len(self._k), NONE)
        self._kind[movable] = kinds
        self._i_kind, self._i_node = np.nonzero(rooms)
        self._i_most = rooms[self._i_kind, self._i_node]
        self._i_request = self._index.group_request[first[self._i_kind]]
        self._i = self.programme.columns(self._i_most)
        out = kinds, self._o_of[movable], 1
        self.programme.at_most(np.zeros(len(rooms)), out, (self._i_kind, self._i, -1))

    def _gone(self, groups: Integers, sign: int) -> list[tuple[Any, Any, Any]]:
        """Return matrix entries for `sign` times the lost and moved pods of each group."""
        parts = []
        for of, value in ((self._z_of, self._count), (self._e_of, 1), (self._o_of, 1)):
            rows = np.flatnonzero(of[groups] != NONE)
            values = np.broadcast_to(value, len(of))[groups[rows]]
            parts.append((rows, of[groups[rows]], sign * values))
        return parts

    def _add_gang_rows(self) -> None:
        """Limit the leaving pods of each group, and the lost pods of each gang that survives."""
        index, programme = self._index, self.programme
        programme.at_most(self._count, *self._gone(np.arange(len(self._k)), 1))
        surplus = (index.size - index.min_pods)[self._z_gang]
        lost = np.flatnonzero(self._e_of != NONE)
        row = np.searchsorted(self._z, self._z_of[lost])
        entries = (np.arange(len(surplus)), self._z, surplus)
        programme.at_most(surplus, (row, self._e_of[lost], 1), entries)
        leaving = np.flatnonzero(index.must_be_empty[self._node])
        programme.at_most(-self._count[leaving], *self._gone(leaving, -1))

    def _add_demand(self, room: Integers) -> None:
        """Add the columns x for the pending pods, and stronger rows for their number on a node.

        If only t pods fit on a node while a gang keeps its pods there, and U pods without the gang,
        then x <= t + (U - t) z.
        """
        index, programme = self._index, self.programme
        self._x_shape, self._x_node = np.nonzero(room)
        self._x_most = room[self._x_shape, self._x_node]
        x_of = np.full(room.shape, NONE)
        x_of[self._x_shape, self._x_node] = self._x = programme.columns(self._x_most)
        stays = np.flatnonzero((self._z_of != NONE) & (self._o_of == NONE))
        key = self._z_of[stays] * len(index.free) + self._node[stays]
        _, first, place = np.unique(key, return_index=True, return_inverse=True)
        kept = np.zeros((len(first), index.free.shape[1]), dtype=np.int64)
        amount = (self._count - self._e_most)[stays, None] * self._request[stays]
        np.add.at(kept, place, amount)
        z, node = self._z_of[stays[first]], self._node[stays[first]]
        for shape, request in enumerate(index.shape_request):
            columns = self._x[self._x_shape == shape]
            programme.between(self._scope.least[shape], index.shape_count[shape], columns)
            most = room[shape, node]
            fits = most.copy()
            for resource in np.flatnonzero(request):
                left = (self._available[node] - kept)[:, resource] // request[resource]
                fits = np.minimum(fits, np.maximum(0, left))
            cut = np.flatnonzero(fits < most)
            row, x = np.arange(len(cut)), x_of[shape, node[cut]]
            programme.at_most(fits[cut], (row, x, 1), (row, z[cut], (fits - most)[cut]))

    def _add_capacities(self) -> None:
        """Limit the amount of each resource that pods hold on each node."""
        gone = self._gone(np.arange(len(self._k)), -1)
        for resource in range(self._index.free.shape[1]):
            request = self._request[:, resource]
            leave = ((self._node[k], columns, pods * request[k]) for k, columns, pods in gone)
            shape_request = self._index.shape_request[self._x_shape, resource]
            self.programme.at_most(
                self._index.free[:, resource],
                (self._x_node, self._x, shape_request),
                (self._i_node, self._i, self._i_request[:, resource]),
                *leave,
            )

    def _add_choice(self) -> None:
        """Add the columns b, and keep the chosen nodes empty."""
        programme, wanted = self.programme, self._instance.empty_nodes
        b_of = self._columns_for(self._choosable.astype(np.int64))
        self._b_node = np.flatnonzero(self._choosable)
        self._b = b_of[self._b_node]
        if not wanted:
            return
        programme.between(wanted, wanted, self._b)
        leaving = np.flatnonzero(self._choosable[self._node])
        chosen = np.arange(len(leaving)), b_of[self._node[leaving]], self._count[leaving]
        programme.at_most(np.zeros(len(leaving)), chosen, *self._gone(leaving, -1))
        for node, column, most in (
            (self._x_node, self._x, self._x_most),
            (self._i_node, self._i, self._i_most),
        ):
            here = np.flatnonzero(self._choosable[node])
            row = np.arange(len(here))
            entries = (row, column[here], 1), (row, b_of[node[here]], most[here])
            programme.at_most(most[here], *entries)

    def _add_rounded_capacities(self) -> None:
        """Limit the pods of at least each size that are on each node, in units of this size.

        If the amounts of a resource are divided by a size and rounded down, pods still fit, and a
        chosen node holds none. Without these rows, fractions of large pods would fill small gaps.
        They are Chvatal-Gomory cuts of the capacities. The row of the smallest unit tightens them
        only if nodes are chosen to be emptied.
        """
        index = self._index
        b_of = np.full(len(index.free), NONE)
        b_of[self._b_node] = self._b
        for resource in range(index.free.shape[1]):
            requests = self._request[:, resource], self._i_request[:, resource]
            x_request = index.shape_request[self._x_shape, resource]
            sizes = np.unique(np.concatenate((*requests, x_request)))
            if len(sizes) > MOST_SIZES:
                continue
            least = 0 if len(self._b) else np.gcd.reduce(sizes)
            for size in sizes[sizes > least].tolist():
                units = requests[0] // size
                most = self._available[:, resource] // size
                held = np.bincount(self._node, units * self._count, len(most)).astype(np.int64)
                leave = (
                    (self._node[of != NONE], of[of != NONE], -(units * pods)[of != NONE])
                    for of, pods in ((self._z_of, self._count), (self._e_of, 1), (self._o_of, 1))
                )
                chosen = np.flatnonzero(b_of != NONE)
                self.programme.at_most(
                    most - held,
                    (self._x_node, self._x, x_request // size),
                    (self._i_node, self._i, requests[1] // size),
                    (chosen, b_of[chosen], most[chosen]),
                    *leave,
                )

    def _use(self, costs: Costs) -> Linear:
        """Return the total cost of lost gangs, lost pods and moved pods as a sum of columns."""
        e, o = np.flatnonzero(self._e_of != NONE), np.flatnonzero(self._o_of != NONE)
        columns = self._z, self._e_of[e], self._o_of[o]
        values = costs.loss[self._z_gang], costs.lost_pod[self._k[e]], costs.move[self._gang[o]]
        return Linear(np.concatenate(columns), np.concatenate(values))

    def _add_budget(self, budget: Budget) -> Linear:
        """Limit the use of a budget; return the excess over a soft budget as a sum of columns."""
        use = self._use(Costs.of_budget(self._instance, budget))
        limit, excess = budget.most - budget.used, NOTHING
        if not budget.is_hard:
            if "budget_excess" not in self._instance.objective:
                return excess
            limits = [self.programme.upper[column] for column in use.columns]
            most = sum(a * u for a, u in zip(use.values.tolist(), limits, strict=True)) - limit
            excess = self.programme.wide(max(0, most))
        entries = (0, use.columns, use.values), (0, excess.columns, -excess.values)
        self.programme.at_most([limit], *entries)
        return excess

    def _add_domains(self) -> Linear:
        """Add the columns u, and return the column that counts the domains beyond the first."""
        programme = self.programme
        used, place = np.unique(self._index.domain[self._x_node], return_inverse=True)
        u = programme.columns(np.ones(len(used)))
        extra = programme.columns([max(0, len(used) - 1)])
        row = np.arange(len(self._x))
        entries = (row, self._x, 1), (row, u[place], -self._x_most)
        programme.at_most(np.zeros(len(row)), *entries)
        programme.at_most([1], (0, u, 1), (0, extra, -1))
        return Linear(extra, np.ones(1, dtype=np.int64))

    def _term(self, term: Term) -> Linear:
        """Return a term of the objective as a sum of columns."""
        if term.name == "unplaced":
            return Linear(self._x, np.full(len(self._x), -1), int(self._index.shape_count.sum()))
        if term.name == "extra_domains":
            return self._extra
        if term.name == "budget_excess":
            columns = np.concatenate([each.columns for each in self._excess])
            return Linear(columns, np.concatenate([each.values for each in self._excess]))
        return self._use(term.costs)

    def plan(self, values: Integers) -> Plan:
        """Return the plan that feasible values of the columns describe."""
        index = self._index
        lost = np.zeros(len(index.group_gang), dtype=np.int64)
        e = self._e_of != NONE
        lost[self._k[e]] = values[self._e_of[e]]
        is_lost = np.zeros(len(index.size), dtype=bool)
        is_lost[self._z_gang[values[self._z] > 0]] = True
        placed = np.zeros(self._scope.allowed.shape, dtype=np.int64)
        placed[self._x_shape, self._x_node] = values[self._x]
        return Plan(
            lost=np.where(is_lost[index.group_gang], index.group_count, lost),
            placed=placed,
            moved=tuple(self._moved(values)),
            emptied=tuple(self._b_node[values[self._b] > 0].tolist()),
        )

    def _moved(self, values: Integers) -> list[tuple[int, int, int]]:
        """Return moves (pod group, target node, pods) that match the pods moving out and in."""
        into: dict[int, dict[int, int]] = {}
        for i in np.flatnonzero(values[self._i]).tolist():
            places = into.setdefault(int(self._i_kind[i]), {})
            places[int(self._i_node[i])] = int(values[self._i[i]])
        out = np.flatnonzero(self._o_of != NONE)
        number = dict(zip(out.tolist(), values[self._o_of[out]].tolist(), strict=True))
        for position in number:  # a pod that would move to its own node stays
            places, node = into.get(int(self._kind[position]), {}), int(self._node[position])
            stays = min(number[position], places.get(node, 0))
            number[position] -= stays
            if stays:
                places[node] -= stays
        leaving = (
            (int(self._k[position]), int(self._kind[position]), pods)
            for position, pods in number.items()
        )
        return matched_moves(leaving, into)
