"""The solver `exact`: a proved optimum, by counting, bounds, and one model per domain."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.result import SolveResult, Status, StoppedBy
from lyra_opt.core.solver import Solver
from lyra_opt.core.stopwatch import is_out_of_time
from lyra_opt.preemption.bounds.dual_bound import Relaxation, domain_bounds
from lyra_opt.preemption.bounds.prices import INFINITE, prices
from lyra_opt.preemption.checker import check
from lyra_opt.preemption.costs import Costs
from lyra_opt.preemption.counting import Verdict, count, node_room, required_domains
from lyra_opt.preemption.exact.model import Model, Scope
from lyra_opt.preemption.exact.start import first_plan, losses_for, put_back
from lyra_opt.preemption.instance import Moves

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lyra_opt.core.result import Limits
    from lyra_opt.core.solver import Observer
    from lyra_opt.preemption.bounds.prices import Prices, Task
    from lyra_opt.preemption.counting import Counting
    from lyra_opt.preemption.exact.plan import Plan
    from lyra_opt.preemption.instance import Instance, Solution

    IntArray = NDArray[np.int64]
    Flags = NDArray[np.bool_]

KEPT = 0.9
"""Nodes are removed again as long as more than a tenth of them can be removed."""


class Exact(Solver):
    """Find a proved optimum, or prove that no solution exists.

    The steps run in this order:

    1. Counting (`lyra_opt.preemption.counting`), which proves most impossible demands.
    2. Lower bounds for all domains of a required level (`lyra_opt.preemption.bounds`). Domains are
       searched in the order of their bounds, until a bound reaches the incumbent.
    3. In each domain, a start, and with one shape the removal of nodes on which no better solution
       makes room, by the bound.
    4. The model of what is left (`lyra_opt.preemption.exact.model`) with HiGHS, which minimises the
       terms of the objective one after the other.

    Notes
    -----
    Source: this project. Complexity: exponential in the worst case, as the problem is NP-hard.
    Limits: time, and nodes of HiGHS's search trees.
    """

    name = "exact"
    problem = "preemption"
    variants = tuple(Moves)
    exact_variants = variants
    gives_bound = True
    modules, engine = ("highspy",), "highs"

    def solve(
        self,
        instance: Instance,
        *,
        limits: Limits,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        warm_start: Solution | None = None,
        observer: Observer | None = None,
    ) -> SolveResult[Solution]:
        """Search the domains within the limits in force."""
        counting = count(instance)
        if counting.verdict is Verdict.IMPOSSIBLE:
            return SolveResult(status=Status.INFEASIBLE, message=counting.reason)
        search = _Search(instance, counting, observer)
        if warm_start is not None:
            search.start_from(warm_start)
        search.run()
        return search.result()


class _Search:
    """The state of a search: the incumbent, and a lower bound for each domain."""

    def __init__(self, instance: Instance, counting: Counting, observer: Observer | None) -> None:
        self._instance, self._observer = instance, observer
        self._costs = costs = Costs.of(instance)
        self._relaxation = Relaxation.of(instance, counting, costs)
        self._bounds = domain_bounds(self._relaxation)
        terms = instance.terms
        self._loss, self._lost_pod, _ = costs.encoded(terms.units, terms.largest)
        self._domain, _ = required_domains(instance)
        self._values: tuple[int, ...] | None = None
        self._solution: Solution | None = None
        self._code: int | None = None
        self._stopped_by: StoppedBy | None = None
        self._counters = {"domains": 0, "models": 0, "nodes": 0}

    @property
    def _bound(self) -> int | None:
        """The least bound of all domains, at most the incumbent; None without a solution."""
        known = [*self._bounds.values(), *([] if self._code is None else [self._code])]
        return min(known, default=None)

    def result(self) -> SolveResult[Solution]:
        """Return the incumbent and the bound."""
        if self._solution is None:
            status = Status.INFEASIBLE if self._bound is None else Status.UNKNOWN
        else:
            status = Status.OPTIMAL if self._bound == self._code else Status.FEASIBLE
        is_open = status in (Status.FEASIBLE, Status.UNKNOWN)
        return SolveResult(
            status=status,
            stopped_by=self._stopped_by if is_open else None,
            solution=self._solution,
            objective=self._code,
            dual_bound=self._bound,
            counters=self._counters,
        )

    def start_from(self, solution: Solution) -> None:
        """Use a given solution as the first incumbent."""
        report = check(self._instance, solution)
        if report.objective is None or report.terms is None:
            raise ValueError(f"the warm start is not valid: {'; '.join(report.violations)}")
        self._keep(tuple(report.terms.values()), solution)

    def _keep(self, values: tuple[int, ...], solution: Solution) -> None:
        self._values, self._solution = values, solution
        self._code = self._instance.terms.encode(values)
        if self._observer is not None:
            self._observer("objective", self._code, solution)

    def _offer(self, plan: Plan | None) -> None:
        """Keep a valid plan if it is better than the incumbent."""
        if plan is not None:
            values = plan.values(self._instance, self._costs)
            if self._values is None or values < self._values:
                self._keep(values, plan.solution(self._instance))

    def _raise_bound(self, domain: int, bound: int) -> None:
        self._bounds[domain] = max(self._bounds[domain], bound)
        if self._observer is not None:
            self._observer("dual_bound", self._bound)

    def _is_settled(self, domain: int) -> bool:
        return self._code is not None and self._bounds[domain] >= self._code

    def run(self) -> None:
        """Search the domains in the order of their bounds, and then of the file."""
        for domain in sorted(self._bounds, key=lambda each: (self._bounds[each], each)):
            if self._is_settled(domain):
                break
            if self._values is not None and is_out_of_time():
                self._stopped_by = StoppedBy.TIME
                break
            self._counters["domains"] += 1
            self._search_domain(domain)

    def _search_domain(self, domain: int) -> None:
        index = self._instance.index
        scope = Scope(
            instance=self._instance,
            costs=self._costs,
            allowed=index.shape_allowed & (self._domain == domain),
            least=self._relaxation.least,
            may_lose=index.may_lose,
            may_move=index.may_move,
        )
        if self._is_simple:
            scope = self._reduced(domain, scope)
        else:
            self._offer(first_plan(self._instance, self._loss, self._lost_pod, scope.allowed))
        if self._is_settled(domain):
            return
        self._counters["models"] += 1
        model = Model(scope)
        outcome = model.programme.minimise(cutoff=self._values)
        self._counters["nodes"] += outcome.nodes
        if outcome.values is not None:
            self._offer(model.plan(outcome.values))
        if outcome.bound is not None:
            bound = [max(0, value) for value in outcome.bound]
            self._raise_bound(domain, self._instance.terms.encode(bound))
        elif self._code is None:
            del self._bounds[domain]  # the domain cannot hold the demand
        else:
            self._raise_bound(domain, self._code)
        self._stopped_by = outcome.stopped_by or self._stopped_by

    @property
    def _is_simple(self) -> bool:
        """Whether a node only loses pods to make room for pods of the only shape.

        The number of these pods is known then, and the nodes to be emptied keep all their columns.
        """
        known = self._relaxation
        is_single = len(known.least) == 1 and bool(known.least[0])
        return is_single and known.is_all and not self._instance.index.may_move.any()

    def _put_back(self, placed: IntArray) -> Plan | None:
        return put_back(self._instance, self._loss, self._lost_pod, placed[None, :])

    @property
    def _is_exchangeable(self) -> bool:
        """Whether only costs of gangs and pods matter, so that cheaper nodes can replace others."""
        instance, terms = self._instance, self._instance.terms.terms
        is_plain = not instance.budgets and all(term.name != "extra_domains" for term in terms)
        return is_plain and not instance.empty_nodes and not instance.index.must_be_empty.any()

    def _reduced(self, domain: int, scope: Scope) -> Scope:
        """Return the scope without nodes on which no better solution makes room.

        A node is removed if the bound of the solutions that make room there reaches the incumbent.
        """
        index = self._instance.index
        task, scaled = self._relaxation.tasks[0]
        task = replace(task, domain=np.where(task.domain == domain, 0, -1), domains=1)
        free = np.where(task.domain == 0, node_room(self._instance, 0, index.free), 0)
        while True:
            found = prices(task)
            if found is None:
                return scope
            bound = int(found.bound[0])
            self._raise_bound(domain, self._relaxation.constant + scaled.encoded(bound))
            self._offer(self._put_back(found.placement(task)))
            supply, price = self._supply(task, found, free)
            if price < INFINITE:
                self._offer(self._put_back(free + supply))
            if self._code is None or self._is_settled(domain):
                return scope
            limit = (self._code - 1 - self._relaxation.constant) * scaled.scale // scaled.divisor
            is_open = np.zeros_like(task.is_open)
            more = found.more_than(free)
            is_open[found.nodes] = (more & (found.excess + bound <= limit)).any(axis=1)
            is_open &= task.is_open
            before = int(task.is_open.sum())
            loss = np.where(task.loss <= limit, task.loss, INFINITE)
            task = replace(task, is_open=is_open, loss=loss)
            if is_open.sum() >= KEPT * before:
                break
        price = -(-price * scaled.scale // scaled.divisor)
        if self._is_exchangeable and price <= limit:
            is_open &= supply | found.components(free, price)
        leaves = index.must_be_empty | (
            index.can_be_chosen_empty & (self._instance.empty_nodes > 0)
        )
        may_lose = np.zeros_like(scope.may_lose)
        may_lose[index.group_gang[(is_open | leaves)[index.group_node]]] = True
        allowed = scope.allowed & (is_open | (free > 0))
        return replace(scope, allowed=allowed, may_lose=may_lose & scope.may_lose)

    def _supply(self, task: Task, found: Prices, free: IntArray) -> tuple[Flags, int]:
        """Return nodes with room for one more pod each, as many as lack room, and their price.

        Gangs on these nodes hold nothing else, so that the cost of a node is exact and independent
        of other nodes. The price is the largest of the costs; `INFINITE` if there are too few.

        A gang on several nodes joins them into a component of the nodes that a solution uses. If no
        node of a component makes room for less than the price for each pod, nodes of the supply can
        replace the component. So an optimal solution exists on the supply and the components with a
        cheaper node.
        """
        index = self._instance.index
        wanted = task.wanted - int(free.sum())
        is_alone = index.first_group[1:] - index.first_group[:-1] == 1
        is_local = task.is_open[found.nodes] & found.more_than(free).any(axis=1)
        is_local[found.items.row[~is_alone[index.group_gang[found.items.group]]]] = False
        rows = np.flatnonzero(is_local)
        rows = rows[np.argsort(found.cost[rows, free[found.nodes[rows]] + 1], kind="stable")]
        nodes = found.nodes[rows[: max(0, 2 * wanted)]]
        supply = np.zeros(len(free), dtype=bool)
        if not 0 < wanted <= len(nodes):
            return supply, INFINITE
        placed = np.zeros_like(free)
        placed[nodes] = free[nodes] + 1
        lost = losses_for(self._instance, self._loss, self._lost_pod, placed[None, :], supply)
        assert lost is not None
        groups = np.flatnonzero(lost)
        gang = index.group_gang[groups]
        whole = index.size[gang] - lost[groups] < index.min_pods[gang]
        cost = np.zeros(len(free), dtype=self._loss.dtype)
        pods = self._lost_pod[groups] * lost[groups]
        np.add.at(cost, index.group_node[groups], np.where(whole, self._loss[gang], pods))
        nodes = nodes[np.argsort(cost[nodes], kind="stable")][:wanted]
        supply[nodes] = True
        return supply, int(cost[nodes[-1]])
