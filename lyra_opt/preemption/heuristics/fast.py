"""The heuristic `fast`: place pods where they cost least, then exchange nodes."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, product
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.result import SolveResult, Status, StoppedBy
from lyra_opt.core.solver import HeuristicSolver
from lyra_opt.core.stopwatch import is_out_of_time
from lyra_opt.preemption.bounds.dual_bound import Relaxation, domain_bounds
from lyra_opt.preemption.costs import Costs, Effect
from lyra_opt.preemption.counting import Verdict, count
from lyra_opt.preemption.heuristics.base import (
    NOTHING_FOUND,
    State,
    complete,
    objective_of,
    result_of,
)
from lyra_opt.preemption.heuristics.fast_data import FORBIDDEN, Base, base_of
from lyra_opt.preemption.heuristics.fast_kernels import COST, improve
from lyra_opt.preemption.heuristics.rehoming import rehome
from lyra_opt.preemption.instance import Moves
from lyra_opt.preemption.put_back import let_pods_return

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lyra_opt.preemption.counting import Counting
    from lyra_opt.preemption.index import Flags, Integers
    from lyra_opt.preemption.instance import Instance, Solution

ROUNDS, BATCH = 1000, 100
"""Exchanges for each of the best starts, and for each check of the time limit."""
MOST_STARTS, BEST_STARTS = 12, 3
"""Starts that are constructed, and those that are improved."""
MOST_EXTRAS = 6
"""The largest number of nodes from which pods are taken when an exchange loses a gang."""
MOST_REPAIRS = 6
"""The most searches; after each in which budgets are exceeded, fewer gangs may be lost."""
LARGEST = 2**61
"""A bound on the integers in the kernels."""


class Fast(HeuristicSolver):
    """Place the pending pods where they cost least, then exchange nodes; with a proved bound.

    1. Counting (`lyra_opt.preemption.counting`) proves most impossible demands infeasible. The
       toolkit's lower bounds rank the domains of a required level, in which the steps below are
       tried one after the other, until a bound reaches the incumbent.
    2. Each pending pod is placed on the node where it costs least. All gangs on the node that may
       be lost leave it, and return if they fit together with the pending pods. Gangs that cost most
       relative to their size return first; in a second run, gangs that cost most. A gang that is
       already lost costs nothing on its other nodes. In the end, all gangs that fit again return.
    3. Random exchanges: the pending pods leave one to four nodes, running pods that fit again
       return, and the pending pods are placed again, but not on all of these nodes. In every second
       exchange a gang on several nodes is lost first. Exchanges that increase the cost are undone.
    4. Pods return as in `lyra_opt.preemption.put_back`.

    A node to be emptied is treated as a pending pod that needs a whole node. If moves are allowed,
    a second search lets movable pods leave at the cost of a move, and the lost pods of both
    searches move into free capacity where that is better. If budgets are exceeded, the search is
    repeated with fewer gangs that may be lost. If the objective counts domains, single domains are
    tried after the whole cluster. Costs are the encoded objective without budgets and domains,
    rounded to 48 bits.

    Source: this project. Complexity: O(exchanges * (nodes + pod groups on the touched nodes)) after
    O(pod groups). Guarantee: none for the solution; the bound and infeasibility are proved.
    """

    name = "fast"
    problem = "preemption"
    variants = tuple(Moves)
    gives_bound = True

    def apply(self, instance: Instance, rng: np.random.Generator) -> SolveResult[Solution]:
        """Return the best solution of all searches, with a lower bound."""
        counting = count(instance)
        if counting.verdict is Verdict.IMPOSSIBLE:
            return SolveResult(status=Status.INFEASIBLE, message=counting.reason)
        run = _Run(instance, counting, rng)
        run.search_all()
        found = run.best or SolveResult(status=Status.UNKNOWN, message=NOTHING_FOUND)
        bound = min(run.bounds.values())
        is_optimal = found.objective == bound
        return replace(
            found,
            status=Status.OPTIMAL if is_optimal else found.status,
            stopped_by=StoppedBy.TIME if is_out_of_time() and not is_optimal else None,
            dual_bound=bound,
            counters={"starts": run.starts},
        )


class _Start:
    """A search in one area, such as a rack, which ends when its cost reaches `bound`."""

    def __init__(self, base: Base, within: Flags, wanted: Integers, bound: int) -> None:
        self.data, self.search, self.active = base.start(within, wanted)
        self.base, self.wanted, self.bound = base, wanted, bound
        nothing = np.zeros(0, dtype=np.int64)
        self.is_done = self._improve(0, nothing, nothing)

    @property
    def cost(self) -> int:
        return int(self.search.numbers[COST])

    def _improve(self, rounds: int, gangs: Integers, extras: Integers) -> bool:
        given = rounds, self.bound, self.active, gangs, extras, self.data, self.search
        work = (rounds + 1) * (len(self.active) + 20)
        is_done, self.search = improve.run(*given, work=work, largest=LARGEST)
        return bool(is_done)

    def exchange(self) -> None:
        """Improve the search by random exchanges, until the time limit at the latest."""
        data = self.data
        groups = data.node_groups[np.isin(data.group_node[data.node_groups], self.active)]
        pairs = np.unique(data.group_gang[groups] * data.nodes + data.group_node[groups])
        spans = np.bincount(pairs // data.nodes, minlength=len(data.fixed))
        gangs = np.flatnonzero((spans > 1) & (data.fixed < FORBIDDEN))
        cost = data.fixed.copy()
        np.add.at(cost, data.group_gang, data.group_cost * np.asarray(self.search.stay))
        gangs = gangs[np.argsort(cost[gangs] // spans[gangs], kind="stable")]
        extras = np.minimum(spans[gangs], MOST_EXTRAS)
        for _ in range(0, ROUNDS, BATCH):
            if is_out_of_time() or self.cost <= self.bound:
                break
            self._improve(BATCH, gangs, extras)


class _Run:
    """All searches for one instance, and the best solution that they found."""

    def __init__(self, instance: Instance, counting: Counting, rng: np.random.Generator) -> None:
        self.instance, self.counting = instance, counting
        self.bounds = domain_bounds(Relaxation.of(instance, counting))
        self.seed = int(rng.integers(2**31))
        self.best: SolveResult[Solution] | None = None
        self.objective = instance.terms.largest + 1
        self.starts = 0

    def search_all(self) -> None:
        """Search without moves, then with moves; search again while budgets are exceeded."""
        index = self.instance.index
        nobody = np.zeros_like(index.may_move)
        for moves in (nobody, index.may_move) if index.may_move.any() else (nobody,):
            is_frozen = nobody.copy()
            for _ in range(MOST_REPAIRS):
                state = self._search(moves & ~is_frozen, is_frozen)
                if is_out_of_time():
                    return
                if state is None or not _freeze(state, is_frozen):
                    break

    def _search(self, moves: Flags, is_frozen: Flags) -> State | None:
        """Search all areas, and keep the best solution; return the state with the least cost.

        `lyra_opt.preemption.heuristics.fast_data.base_of` explains the flags.
        """
        given = self.instance, moves, is_frozen
        bases = [base_of(*given, by_size=each, seed=self.seed + each) for each in (True, False)]
        count, units = self.instance.index.shape_count, self.instance.terms.units
        names = [term.name for term in self.instance.terms.terms]
        unplaced = units[0] if names[:1] == ["unplaced"] else 0
        starts: list[tuple[int, int, int, _Start]] = []
        for (bound, within, wanted), base in islice(product(self._areas(), bases), MOST_STARTS):
            if self.objective <= bound or (starts and is_out_of_time()):
                break
            left_out = int((count - wanted).sum())
            goal = (bound - unplaced * left_out) * base.scale >> base.shift
            start = _Start(base, within, wanted, min(goal, LARGEST))
            if start.is_done:
                starts.append((left_out if unplaced else 0, start.cost, self.starts, start))
            self.starts += 1
            if start.is_done and start.cost <= goal and "extra_domains" not in names:
                break
        state = None
        for *_, start in sorted(starts)[BEST_STARTS - 1 :: -1]:
            start.exchange()
            state = self._offer(start)
        return state

    def _areas(self) -> Iterator[tuple[int, Flags, Integers]]:
        """Yield the lower bound of each area, its nodes as flags, and the pods to place there."""
        index, demand, terms = self.instance.index, self.instance.demand, self.instance.terms
        is_split = demand is not None and demand.level is not None and demand.is_level_required
        for d, bound in sorted(self.bounds.items(), key=lambda item: item[::-1]):
            most = np.clip(self.counting.room[:, d], index.shape_min, index.shape_count)
            within = index.domain == d if is_split else np.ones_like(index.may_use)
            yield bound, within, most
            if (most > index.shape_min).any():
                yield bound, within, index.shape_min
        if any(term.name == "extra_domains" for term in terms.terms):
            yield from ((bound, index.domain == d, most) for d in range(index.domains))

    def _offer(self, start: _Start) -> State:
        """Complete the solution of a search, and keep it if it is the best; return its state."""
        index = self.instance.index
        state = State(self.instance, start.wanted)
        lost, placed = np.array(start.search.lost), np.array(start.search.placed)
        state.evict_groups(np.flatnonzero(lost == index.group_count))
        for k in np.flatnonzero(lost % index.group_count):
            state.evict(int(k), int(lost[k]))
        by_shape = placed.reshape(-1, len(index.free))
        first = len(by_shape) - len(start.wanted)
        for n in np.flatnonzero(by_shape[:first].any(axis=0) & ~index.must_be_empty):
            state.choose_empty(int(n))
        chosen = np.zeros_like(state.placed)
        chosen[start.base.shapes] = by_shape[first:]
        rehome(state, chosen)
        let_pods_return(state, chosen)
        if complete(state) is None:
            objective = objective_of(state)
            if objective < self.objective:
                self.best, self.objective = result_of(state), objective
        return state


def _freeze(state: State, is_frozen: Flags) -> bool:
    """Mark gangs that must stay so that budgets are kept; return whether any budget is exceeded.

    The gangs that use least of an exceeded budget may use it again, as long as it lasts. All other
    gangs of the budget are marked, including those that have not used it.
    """
    is_any = False
    effect = Effect.of(state.instance, state.lost, state.moves)
    for budget in state.instance.budgets:
        gangs = np.array([state.instance.gang_position[name] for name in budget.gangs])
        used = Costs.of_budget(state.instance, budget).by_gang(state.instance, effect)[gangs]
        order = np.argsort(used, kind="stable")
        total = budget.used + np.cumsum(used[order])
        if total[-1] > budget.most:
            is_frozen[gangs[order[(total > budget.most) | (used[order] == 0)]]] = True
            is_any = True
    return is_any
