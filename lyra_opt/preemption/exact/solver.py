"""The solver `exact`: a proved optimum, by counting, bounds, and one model per domain."""

from dataclasses import replace

import numpy as np

from lyra_opt.core.result import Limits, SolveResult, Status, StoppedBy
from lyra_opt.core.solver import Observer, Solver
from lyra_opt.core.stopwatch import is_out_of_time
from lyra_opt.preemption.bounds.dual_bound import Relaxation, domain_bounds
from lyra_opt.preemption.bounds.prices import prices
from lyra_opt.preemption.checker import check
from lyra_opt.preemption.costs import Costs
from lyra_opt.preemption.counting import Counting, Verdict, count, required_domains
from lyra_opt.preemption.exact.cover import cheapest_cover
from lyra_opt.preemption.exact.model import Model, Scope
from lyra_opt.preemption.exact.plan import Plan
from lyra_opt.preemption.exact.reduction import Reduction
from lyra_opt.preemption.heuristics.fast import Fast
from lyra_opt.preemption.instance import Instance, Moves, Solution

KEPT = 0.9
"""Nodes are closed again as long as this closes more than a tenth of the open ones."""
FIRST_GUESS = 2
GUESS_GROWTH = 8
"""The first guessed objective exceeds the bound by 2, and the next ones by 16, 128 and so on."""


class Exact(Solver):
    """Find a proved optimum, or prove that no solution exists.

    The steps run in this order:

    1. Counting (`lyra_opt.preemption.counting`), which proves most impossible demands.
    2. Dynamic programming (`lyra_opt.preemption.exact.cover`), if one node is left for the pods.
    3. Lower bounds for all domains of a required level (`lyra_opt.preemption.bounds`). Domains are
       searched in the order of their bounds, until a bound reaches the incumbent.
    4. In each domain, if the demand has one shape: a start solution, and the closing of nodes on
       which no better solution makes room, according to the bound.
    5. The model of the remaining nodes (`lyra_opt.preemption.exact.model`) with HiGHS, which
       minimises the terms of the objective one after the other.

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
        limits: Limits,
        rng: np.random.Generator,
        warm_start: Solution | None = None,
        observer: Observer | None = None,
    ) -> SolveResult[Solution]:
        """Solve an instance within the limits in force."""
        counting = count(instance)
        if counting.verdict is Verdict.IMPOSSIBLE:
            return SolveResult(status=Status.INFEASIBLE, message=counting.reason)
        report = None if warm_start is None else check(instance, warm_start)
        if report is not None and report.objective is None:
            raise ValueError(f"the warm start is not valid: {'; '.join(report.violations)}")
        plan = cheapest_cover(instance) if counting.verdict is Verdict.FITS else None
        if plan is not None:
            code = instance.terms.encode(plan.values(instance))
            best = plan.solution(instance)
            if observer is not None:
                observer("objective", code, best)
            return SolveResult(
                status=Status.OPTIMAL, solution=best, objective=code, dual_bound=code
            )
        search = _Search(instance, counting, observer)

        def start() -> None:
            found = Fast().solve(instance, limits=limits, rng=rng)
            if isinstance(found.objective, int) and found.solution is not None:
                search.offer(found.objective, found.solution)

        if warm_start is not None and report is not None and report.objective is not None:
            search.offer(report.objective, warm_start)
        if not search.is_reducible:
            start()
        search.run()
        if search.result().status is Status.UNKNOWN:  # a limit came before the first solution
            start()
        return search.result()


class _Search:
    """The state of a search: the incumbent, and a lower bound for each domain."""

    def __init__(self, instance: Instance, counting: Counting, observer: Observer | None) -> None:
        self._instance, self._observer = instance, observer
        self._costs = Costs.encoded(instance)
        self._relaxation = Relaxation.of(instance, counting)
        self._bounds = domain_bounds(self._relaxation)
        self._domain, _ = required_domains(instance)
        self._solution: Solution | None = None
        self._code: int | None = None
        self._stopped_by: StoppedBy | None = None
        self._counters = {"domains": 0, "models": 0, "nodes": 0}

    @property
    def is_reducible(self) -> bool:
        """Whether the demand has one shape and the number of its pods to place is known."""
        known = self._relaxation
        return len(known.least) == 1 and bool(known.least[0]) and known.is_all

    @property
    def _bound(self) -> int | None:
        """The least of the bounds of all domains and the incumbent; None if infeasible."""
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

    def offer(self, code: int, solution: Solution) -> None:
        """Keep a valid solution with this objective if it is better than the incumbent."""
        if self._code is None or code < self._code:
            self._code, self._solution = code, solution
            if self._observer is not None:
                self._observer("objective", code, solution)

    def _offer_plan(self, plan: Plan | None) -> None:
        """Keep a valid plan if it is better than the incumbent."""
        if plan is not None:
            code = self._instance.terms.encode(plan.values(self._instance))
            if self._code is None or code < self._code:
                self.offer(code, plan.solution(self._instance))

    def _raise_bound(self, domain: int, bound: int) -> None:
        self._bounds[domain] = max(self._bounds[domain], bound)
        if self._observer is not None and self._bound is not None:
            self._observer("dual_bound", self._bound)

    def _is_settled(self, domain: int) -> bool:
        return self._code is not None and self._bounds[domain] >= self._code

    def run(self) -> None:
        """Search the domains in the order of their bounds, and then of the file."""
        for domain in sorted(self._bounds, key=lambda each: (self._bounds[each], each)):
            if self._is_settled(domain):
                break
            if self._counters["domains"] and is_out_of_time():
                self._stopped_by = StoppedBy.TIME
                break
            self._counters["domains"] += 1
            self._search_domain(domain)

    def _search_domain(self, domain: int) -> None:
        """Solve a domain, or prove that it has no better solution than the incumbent.

        Without an incumbent, or with moves (for which starts are poor), only solutions up to a
        guessed objective are sought first, because a low limit closes many nodes.
        """
        instance = self._instance
        scope = Scope(
            instance=instance,
            allowed=instance.index.shape_allowed & (self._domain == domain),
            least=self._relaxation.least,
            is_open=np.ones(len(self._domain), dtype=bool),
        )
        if not self.is_reducible:
            self._solve(domain, scope, None)
            return
        reduction = Reduction.of(instance, self._relaxation, domain, self._costs)
        step = FIRST_GUESS
        while domain in self._bounds and not self._is_settled(domain):
            guess = None
            if self._code is None or instance.index.may_move.any():
                guess = self._bounds[domain] + step
            reduced = self._reduced(domain, reduction, scope, guess)
            if reduced is not None and not self._solve(domain, reduced, guess):
                break
            step *= GUESS_GROWTH

    def _limit(self, guess: int | None) -> int | None:
        """Return the largest objective of interest, which is below the incumbent, at most `guess`.

        None if all objectives are of interest.
        """
        known = None if self._code is None else self._code - 1
        known = min((each for each in (known, guess) if each is not None), default=None)
        return None if known is None or known >= self._instance.terms.largest else known

    def _reduced(
        self, domain: int, reduction: Reduction, scope: Scope, guess: int | None
    ) -> Scope | None:
        """Return a smaller scope with the best solution up to the limit; None if none exists."""
        task = reduction.task
        while True:
            found = prices(task)
            if found is None:
                return scope
            bound = self._relaxation.constant + task.encoded(int(found.bound[0]))
            for plan in reduction.plans(task, found):
                self._offer_plan(plan)
            limit = self._limit(guess)
            self._raise_bound(domain, bound if limit is None else min(bound, limit + 1))
            if self._is_settled(domain):
                return None
            if limit is None:
                return scope
            if bound > limit:
                return None
            scaled_limit = limit - self._relaxation.constant
            narrowed = reduction.narrowed(task, found, scaled_limit)
            if narrowed.is_open.sum() >= KEPT * task.is_open.sum():
                is_open = reduction.open_nodes(narrowed, found, scaled_limit)
                allowed = scope.allowed & (is_open | (reduction.free > 0))
                return replace(scope, allowed=allowed, is_open=is_open)
            task = narrowed

    def _solve(self, domain: int, scope: Scope, guess: int | None) -> bool:
        """Minimise over a scope up to the limit; return whether the run ended with a proof."""
        terms, limit = self._instance.terms, self._limit(guess)
        self._counters["models"] += 1
        model = Model(scope)
        cutoff = None if limit is None else terms.decode(limit + 1)
        outcome = model.programme.minimise(cutoff=cutoff)
        self._counters["nodes"] += outcome.nodes
        if outcome.values is not None:
            self._offer_plan(model.plan(outcome.values))
        if outcome.bound is not None:
            pairs = zip(outcome.bound, terms.terms, strict=True)
            bound = terms.encode([min(max(0, value), term.largest) for value, term in pairs])
            self._raise_bound(domain, bound if limit is None else min(bound, limit + 1))
        elif limit is not None:
            self._raise_bound(domain, limit + 1)
        else:
            del self._bounds[domain]  # the domain cannot hold the demand
        self._stopped_by = outcome.stopped_by or self._stopped_by
        return outcome.is_proved
