"""The variables and rows of the preemption model, as numbers; the README defines the symbols."""

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from lyra_opt.core.rules import LARGEST_INTEGER
from lyra_opt.core.stopwatch import within_time
from lyra_opt.preemption.costs import Costs
from lyra_opt.preemption.instance import Instance, matches
from lyra_opt.preemption.objective import Term

Terms = list[tuple[int, str, Any]]
"""A sum, as triples: the coefficient, the kind and the key of each variable."""
Row = tuple[str, Terms, int]
"""Name, terms, and the number that their sum is at most, or equals."""


class Variables(NamedTuple):
    """The variables of the model in a backend, or a number for each of them, such as its bound.

    Parameters
    ----------
    lost
        ``z_g``: the number of gangs in the set g of alike gangs that are lost whole.
    shrunk
        ``e_k``: lost pods of pod group k, whose gang survives.
    left
        ``o_k``: pods of pod group k that move to other nodes.
    entered
        ``i_mn``: pods of kind m that move to node n.
    placed
        ``x_sn``: pending pods of shape s on node n.
    unplaced
        ``u_s``: pending pods of shape s that are not placed.
    used
        ``w_d``: whether pending pods are in domain d.
    extra
        ``t``: used domains beyond the first.
    emptied
        ``v_n``: whether node n is chosen to be emptied.
    excess
        ``y_b``: excess over the soft budget b.
    """

    lost: Mapping[int, Any]
    shrunk: Mapping[int, Any]
    left: Mapping[int, Any]
    entered: Mapping[tuple[int, int], Any]
    placed: Mapping[tuple[int, int], Any]
    unplaced: Mapping[int, Any]
    used: Mapping[int, Any]
    extra: Mapping[tuple[()], Any]
    emptied: Mapping[int, Any]
    excess: Mapping[int, Any]


class ModelRows:
    """The upper bounds of the variables, the rows of each constraint, and the costs of each term.

    Attributes
    ----------
    largest
        The upper bound of each variable, by kind and key.
    alike
        The sets of alike gangs, as positions of gangs. Gangs that cannot help are left out.
    kind_of
        The kind of each pod group whose pods may move. Pods of one kind have the same request and
        selector.
    rows_of
        The rows of each constraint, by its name.
    costs
        For each term of the objective, the sum that equals its value.
    """

    def __init__(self, instance: Instance) -> None:
        """Build the bounds, rows and costs in time linear in their size."""
        self._instance, self._index = instance, instance.index
        index = self._index
        self._node, self._count = index.group_node.tolist(), index.group_count.tolist()
        can_leave = (index.may_lose | index.may_move)[index.group_gang]
        self._room = index.free.copy()
        held = index.group_request * index.group_count[:, None]
        np.add.at(self._room, index.group_node[can_leave], held[can_leave])
        chosen = index.can_be_chosen_empty & (instance.empty_nodes > 0)
        self._is_vacated = index.must_be_empty | chosen
        self.largest: Any = Variables(*({} for _ in Variables._fields))
        self.rows_of: dict[str, list[Row]] = defaultdict(list)
        self._place()
        self.kind_of = self._enter()
        self.alike = self._alike()
        self._set_of: dict[int, int] = {}
        for add in (self._lose, self._empty, self._keep_budgets, self._fit):
            add()
        rows = [row for of_constraint in self.rows_of.values() for row in of_constraint]
        in_rows = {key for _, terms, _ in rows for _, kind, key in terms if kind == "lost"}
        lost: Any = self.largest.lost
        for c in lost.keys() - in_rows:  # PuLP leaves out variables without a row
            del lost[c]
        self.costs = [self._costs_of(term) for term in instance.terms.terms]

    def _row(self, constraint: str, key: object, terms: Terms, most: int) -> None:
        name = constraint if key == "" else f"{constraint}_{key}"
        self.rows_of[constraint].append((name, terms, most))

    def _divided_row(self, constraint: str, key: object, terms: Terms, most: int) -> None:
        """Add a row, divided by the greatest common divisor of its coefficients.

        Its right-hand side is rounded down, because all variables are integers.
        """
        divisor = math.gcd(*(a for a, _, _ in terms))
        divided = [(a // divisor, kind, key) for a, kind, key in terms]
        self._row(constraint, key, divided, most // divisor)

    def _arrivals(self) -> np.ndarray:
        """Return the largest amount of each resource that may come to each node, (N, R).

        Amounts are capped above all capacities, so that sums fit 64-bit integers.
        """
        index, most = self._index, np.zeros_like(self._room)
        request_of = {m: index.group_request[k] for k, m in self.kind_of.items()}
        arriving = [
            (n, pods, index.shape_request[s]) for (s, n), pods in self.largest.placed.items()
        ]
        arriving += [(n, pods, request_of[m]) for (m, n), pods in self.largest.entered.items()]
        for n, pods, request in arriving:
            most[n] = np.minimum(most[n] + pods * request, LARGEST_INTEGER + 1)
        return most

    def _alike(self) -> list[list[int]]:
        """Return the sets of gangs that can help, each set with gangs that are alike.

        A gang can help if a pod of it is on a node to be emptied, or holds a resource that can
        become scarce on its node. Gangs are alike if they cannot move or shrink and have one pod
        group each, with the same node, count and request, and if no term and no budget
        distinguishes them.
        """
        index, alike = self._index, defaultdict(list)
        is_scarce = (self._arrivals() > index.free)[index.group_node]
        can_help = self._is_vacated[index.group_node]
        can_help = can_help | (is_scarce & (index.group_request > 0)).any(axis=1)
        budgets = defaultdict(list)
        for b, budget in enumerate(self._instance.budgets):
            for name in budget.gangs:
                budgets[name].append(b)
        for g in np.unique(index.group_gang[can_help]).tolist():
            gang, k = self._instance.gangs[g], int(index.first_group[g])
            is_vacated = self._is_vacated[index.group_node[k : index.first_group[g + 1]]].any()
            may_lose, may_move = bool(index.may_lose[g]), bool(index.may_move[g])
            if may_lose and not may_move and len(gang.pods) == 1 and gang.min_pods == gang.size:
                request = index.group_request[k].tobytes()
                same = (self._node[k], self._count[k], request, gang.priority, gang.weight)
                alike[(*same, *budgets[gang.id])].append(g)
            elif may_lose or may_move or is_vacated:
                alike[g].append(g)
        return list(alike.values())

    def _fitting(self, request: np.ndarray, most: int) -> list[int]:
        """Return how many pods fit on each node once all running pods that may leave are gone."""
        fits = np.full(len(self._room), most)
        for r in np.flatnonzero(request):
            np.minimum(fits, self._room[:, r] // request[r], out=fits)
        return fits.tolist()

    def _enter(self) -> dict[int, int]:
        """Add variables ``i_mn`` for entering pods; return the kind of each group that may move."""
        index, instance = self._index, self._instance
        kinds: dict[Any, list[int]] = defaultdict(list)
        for g in np.flatnonzero(index.may_move).tolist():
            for k, group in enumerate(instance.gangs[g].pods, int(index.first_group[g])):
                selector = tuple(sorted(group.selector.items()))
                kinds[index.group_request[k].tobytes(), selector].append(k)
        for m, ((_, selector), groups) in enumerate(within_time(kinds.items())):
            pods = sum(self._count[k] for k in groups)
            fits = self._fitting(index.group_request[groups[0]], pods)
            for n in np.flatnonzero(index.may_use).tolist():
                if fits[n] and matches(instance.nodes[n], dict(selector)):
                    self.largest.entered[m, n] = fits[n]
        return {k: m for m, groups in enumerate(kinds.values()) for k in groups}

    def _lose(self) -> None:
        """Add variables for the pods that leave nodes, and the rows for their gangs."""
        index, largest = self._index, self.largest
        moves: dict[int, Terms] = defaultdict(list)
        for c, members in enumerate(within_time(self.alike, every=1000)):
            g = members[0]
            groups = range(index.first_group[g], index.first_group[g + 1])
            spare = int(index.size[g] - index.min_pods[g]) if index.may_lose[g] else 0
            largest.lost[c] = len(members) * int(index.may_lose[g])
            for k in groups:
                self._set_of[k] = c
                if spare:
                    largest.shrunk[k] = min(spare, self._count[k])
                if k in self.kind_of:
                    largest.left[k] = self._count[k]
                    moves[self.kind_of[k]].append((1, "left", k))
                    self._row("leaving", k, self._gone(k), self._count[k])
            if spare:
                shrunk: Terms = [(1, "shrunk", k) for k in groups]
                self._row("minimum", c, [*shrunk, (spare, "lost", c)], spare)
        for m, n in list(largest.entered):
            if m in moves:
                moves[m].append((-1, "entered", (m, n)))
            else:
                del largest.entered[m, n]
        for m, terms in moves.items():
            self._row("moves", m, terms, 0)

    def _gone(self, k: int, unit: int = 1) -> Terms:
        """Return `unit` times the number of pods of group k that leave its node, as a sum."""
        found: Terms = [(unit * self._count[k], "lost", self._set_of[k])]
        if k in self.largest.shrunk:
            found.append((unit, "shrunk", k))
        if k in self.largest.left:
            found.append((unit, "left", k))
        return found

    def _place(self) -> None:
        """Add variables for the pending pods, and the rows for their number and their domains."""
        index, largest, demand = self._index, self.largest, self._instance.demand
        extra = [t.largest for t in self._instance.terms.terms if t.name == "extra_domains"]
        is_required = demand is not None and demand.is_level_required
        has_domains = index.domains > 1 and (is_required or bool(extra))
        for s, count in enumerate(index.shape_count.tolist()):
            fits = self._fitting(index.shape_request[s], int(index.shape_per_node[s]))
            is_open = index.shape_allowed[s] & (np.array(fits) > 0)
            if is_required and has_domains:
                room = np.bincount(index.domain[is_open], np.array(fits)[is_open], index.domains)
                is_open &= room[index.domain] >= index.shape_min[s]
            nodes = np.flatnonzero(is_open).tolist()
            largest.placed.update({(s, n): fits[n] for n in nodes})
            largest.unplaced[s] = count - int(index.shape_min[s])
            pods: Terms = [(1, "placed", (s, n)) for n in nodes]
            self._row("demand", s, [*pods, (1, "unplaced", s)], count)
            for n in nodes if has_domains else ():
                d = int(index.domain[n])
                largest.used[d] = 1
                terms: Terms = [(1, "placed", (s, n)), (-fits[n], "used", d)]
                self._row("domain", f"{s}_{n}", terms, 0)
        if largest.used:
            largest.extra[()] = extra[0] if extra else 0
            used: Terms = [(1, "used", d) for d in largest.used]
            self._row("used_domains", "", [*used, (-1, "extra", ())], 1)

    def _empty(self) -> None:
        """Add the choice of the nodes to be emptied, and the rows for all nodes that get empty."""
        index, largest = self._index, self.largest
        if self._instance.empty_nodes:
            chosen = np.flatnonzero(index.can_be_chosen_empty).tolist()
            largest.emptied.update(dict.fromkeys(chosen, 1))
            terms: Terms = [(1, "emptied", n) for n in chosen]
            self._row("emptied_nodes", "", terms, self._instance.empty_nodes)
        for k, c in self._set_of.items():
            pods, n = self._count[k] * len(self.alike[c]), self._node[k]
            if n in largest.emptied:
                self._row("vacated", k, [*self._gone(k, -1), (pods, "emptied", n)], 0)
            elif self._is_vacated[n]:
                self._row("vacated", k, self._gone(k, -1), -pods)
        for kind in ("placed", "entered"):
            for (a, n), most in getattr(largest, kind).items():
                if n in largest.emptied:
                    terms = [(1, kind, (a, n)), (most, "emptied", n)]
                    self._row("closed", f"{kind}_{a}_{n}", terms, most)

    def _keep_budgets(self) -> None:
        """Add the rows for budgets, and variables for the excess over soft budgets if it counts."""
        counts_excess = any(term.name == "budget_excess" for term in self._instance.terms.terms)
        for b, budget in enumerate(self._instance.budgets):
            terms = self._uses_of(Costs.of_budget(self._instance, budget))
            most = budget.most - budget.used
            if not budget.is_hard and counts_excess:
                self.largest.excess[b] = max(0, self._most(terms) - most)
                self._row("budget", b, [*terms, (-1, "excess", b)], most)
            elif budget.is_hard and terms:
                self._divided_row("budget", b, terms, most)

    def _most(self, terms: Terms) -> int:
        """Return the largest value of a sum within the bounds of its variables."""
        return sum(max(0, a) * getattr(self.largest, kind)[key] for a, kind, key in terms)

    def _fit(self) -> None:
        """Add a row for the capacity of each node and resource; leave out rows that always hold."""
        index = self._index
        loads: dict[int, list[tuple[list[int], int, str, Any]]] = defaultdict(list)
        for s, n in self.largest.placed:
            loads[n].append((index.shape_request[s].tolist(), 1, "placed", (s, n)))
        request_of = {m: index.group_request[k].tolist() for k, m in self.kind_of.items()}
        for m, n in self.largest.entered:
            loads[n].append((request_of[m], 1, "entered", (m, n)))
        for k in self._set_of:
            if (n := self._node[k]) in loads:
                request = index.group_request[k].tolist()
                loads[n] += [(request, *term) for term in self._gone(k, -1)]
        for n, load in within_time(sorted(loads.items()), every=100):
            for r, free in enumerate(index.free[n].tolist()):
                terms = [(a[r] * unit, kind, key) for a, unit, kind, key in load if a[r]]
                if self._most(terms) > free:
                    self._divided_row("capacity", f"{n}_{r}", terms, free)

    def _uses_of(self, costs: Costs) -> Terms:
        """Return a quantity that gangs lose or move, such as a budget counts, as a sum."""
        found: Terms = []
        for c, members in enumerate(self.alike):
            g = members[0]
            if self.largest.lost.get(c):
                found.append((int(costs.loss[g]), "lost", c))
            for k in range(self._index.first_group[g], self._index.first_group[g + 1]):
                if k in self.largest.shrunk:
                    found.append((int(costs.lost_pod[k]), "shrunk", k))
                if k in self.largest.left:
                    found.append((int(costs.move[g]), "left", k))
        return [each for each in found if each[0]]

    def _costs_of(self, term: Term) -> Terms:
        """Return the sum that equals the value of a term of the objective."""
        kinds = {"unplaced": "unplaced", "extra_domains": "extra", "budget_excess": "excess"}
        if (kind := kinds.get(term.name)) is None:
            return self._uses_of(term.costs)
        return [(1, kind, key) for key, most in getattr(self.largest, kind).items() if most]
