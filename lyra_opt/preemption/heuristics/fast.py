"""The heuristic `fast`: place pods where they cost least, then exchange nodes."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice, product
from typing import Any, NamedTuple

import numpy as np

from lyra_opt.core.result import SolveResult, Status, StoppedBy
from lyra_opt.core.solver import HeuristicSolver
from lyra_opt.core.stopwatch import (
    OutOfTimeError,
    is_out_of_time,
    limited_to,
    limits_in_force,
    remaining_s,
)
from lyra_opt.preemption.bounds.dual_bound import Relaxation, domain_bounds
from lyra_opt.preemption.costs import Costs, Effect, sum_by_gang
from lyra_opt.preemption.counting import Counting, Verdict, count
from lyra_opt.preemption.heuristics import fast_kernels as kernels
from lyra_opt.preemption.heuristics.base import (
    NOTHING_FOUND,
    PreemptionHeuristic,
    State,
    complete,
    has_required_level,
    result_of,
)
from lyra_opt.preemption.heuristics.karpenter import Karpenter
from lyra_opt.preemption.heuristics.rehoming import rehome
from lyra_opt.preemption.index import Flags, Integers
from lyra_opt.preemption.instance import Instance, Moves, Solution
from lyra_opt.preemption.put_back import let_pods_return

RULE_SHARE = 0.25
"""Largest share of the time that a rule may take before the searches."""
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
MOST_LEVELS = 8
"""The largest number of pods that are placed on a node at once."""
SCALE = 16
"""The factor by which small costs are multiplied, so that an additional 1 only breaks ties."""
BITS = 48
"""Number of bits of the largest sum of costs; costs are rounded if they need more."""
FORBIDDEN = 2**52
"""Cost of losing a gang that may not be lost whole."""
SLOTS = 2**40
"""Number of slots of a node. Each pod holds one, so a node is empty if all slots are free."""
PARTS = 2**10
"""Number of parts of an average node; the size of a gang is measured in such parts."""


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
    searches move into free capacity where that is better. Without pending pods, the rule of
    `Karpenter` is tried first, because it often empties nodes by moves alone. If budgets are
    exceeded, the search is repeated with fewer gangs that may be lost. If the objective counts
    domains, single domains are tried after the whole cluster. Costs are the encoded objective
    without budgets and domains, rounded to 48 bits.

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
        run.follow(Karpenter())
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


class _Base(NamedTuple):
    """The arrays of an instance, and the state of a search that has not begun.

    Parameters
    ----------
    data, search
        The arrays for the kernels.
    shapes
        The shapes of the demand, the largest first. In the arrays, they come after the shapes that
        represent nodes to be emptied.
    scale, shift
        Costs in the arrays are those of the objective times `scale`, without the last `shift` bits.
    """

    data: kernels.Data
    search: kernels.Search
    shapes: Integers
    scale: int
    shift: int


class _Start:
    """A search in one area, such as a rack, which ends when its cost reaches `bound`.

    `within`, (N,), marks the nodes of the area; `wanted`, (S,), is the number of pods by shape.
    """

    def __init__(self, base: _Base, within: Flags, wanted: Integers, bound: int) -> None:
        self.base, self.wanted, self.bound = base, wanted, bound
        first = len(base.search.missing) - len(wanted)
        limit = base.data.limit.reshape(-1, len(within)).copy()
        limit[first:, ~within] = 0
        self.data = base.data._replace(limit=limit.ravel())
        self.active = active = np.flatnonzero(limit.any(axis=0))
        arrays = base.search._asdict().items()
        own = {name: each.copy() for name, each in arrays if name != "journal"}
        own["missing"][first:] = wanted[base.shapes]
        own["numbers"][kernels.DIRTY] = len(active)
        own["dirty"][: len(active)] = active
        own["is_dirty"][active] = 1
        self.search = base.search._replace(**own)
        nothing = np.zeros(0, dtype=np.int64)
        self.is_done = self._improve(0, nothing, nothing)

    @property
    def cost(self) -> int:
        return int(self.search.numbers[kernels.COST])

    def _improve(self, rounds: int, gangs: Integers, extras: Integers) -> bool:
        given = rounds, self.bound, self.active, gangs, extras, self.data, self.search
        work = (rounds + 1) * (len(self.active) + 20)
        is_done, self.search = kernels.improve.run(*given, work=work, largest=LARGEST)
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
        self.names = [term.name for term in instance.terms.terms]
        self.counts_domains = "extra_domains" in self.names

    def follow(self, rule: PreemptionHeuristic) -> None:
        """Begin with the solution of a rule, if the rule handles the instance in time."""
        if rule.supports(self.instance) is None:
            left_s = remaining_s()
            time_s = None if left_s is None else left_s * RULE_SHARE
            with suppress(OutOfTimeError), limited_to(replace(limits_in_force(), time_s=time_s)):
                self._keep(rule.apply(self.instance, np.random.default_rng(self.seed)))

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

        `_base_of` explains the flags.
        """
        given = self.instance, moves, is_frozen
        bases = [_base_of(*given, by_size=each, seed=self.seed + each) for each in (True, False)]
        count, units = self.instance.index.shape_count, self.instance.terms.units
        unplaced = units[0] if self.names[:1] == ["unplaced"] else 0
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
            if start.is_done and start.cost <= goal and not self.counts_domains:
                break
        state = None
        for *_, start in sorted(starts)[BEST_STARTS - 1 :: -1]:
            start.exchange()
            state = self._offer(start)
        return state

    def _areas(self) -> Iterator[tuple[int, Flags, Integers]]:
        """Yield the lower bound of each area, its nodes as flags, and the pods to place there."""
        index = self.instance.index
        is_split = has_required_level(self.instance)
        for d, bound in sorted(self.bounds.items(), key=lambda item: item[::-1]):
            most = np.clip(self.counting.room[:, d], index.shape_min, index.shape_count)
            within = index.domain == d if is_split else np.ones_like(index.may_use)
            yield bound, within, most
            if (most > index.shape_min).any():
                yield bound, within, index.shape_min
        if self.counts_domains:
            yield from ((bound, index.domain == d, most) for d in range(index.domains))

    def _offer(self, start: _Start) -> State:
        """Complete the solution of a search, and keep it if it is the best; return its state."""
        index = self.instance.index
        state = State(self.instance, start.wanted)
        lost = np.array(start.search.lost, dtype=np.int64)
        placed = np.array(start.search.placed, dtype=np.int64)
        groups = np.flatnonzero(lost)
        state.evict_groups(groups, lost[groups])
        by_shape = placed.reshape(-1, len(index.free))
        first = len(by_shape) - len(start.wanted)
        for n in np.flatnonzero(by_shape[:first].any(axis=0) & ~index.must_be_empty):
            state.choose_empty(int(n))
        chosen = np.zeros_like(state.placed)
        chosen[start.base.shapes] = by_shape[first:]
        rehome(state, chosen)
        let_pods_return(state, chosen)
        if complete(state) is None:
            self._keep(result_of(state))
        return state

    def _keep(self, found: SolveResult[Solution]) -> None:
        if found.objective is not None and found.objective < self.objective:
            self.best, self.objective = found, int(found.objective)


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


def _base_of(
    instance: Instance, moves: Flags, is_frozen: Flags, *, by_size: bool, seed: int
) -> _Base:
    """Build the arrays of an instance. Time O(pod groups * resources).

    Parameters
    ----------
    moves
        Whether any number of the gang's pods may leave, each at the cost of a move, (G,).
    is_frozen
        Whether all pods of the gang stay, (G,).
    by_size
        Whether gangs return to a node in decreasing order of cost relative to size, instead of
        cost.
    """
    index, terms = instance.index, instance.terms
    bits = terms.largest.bit_length()
    scale, shift = SCALE if bits < BITS - 8 else 1, max(0, bits - BITS)
    costs = Costs.encoded(instance, scale)
    loss, pod, move = (
        (-(-cost >> shift)).astype(np.int64) for cost in (costs.loss, costs.lost_pod, costs.move)
    )
    gang, count, node = index.group_gang, index.group_count, index.group_node
    whole = index.may_lose & ~is_frozen
    slack = np.where(moves, index.size, np.where(whole, index.size - index.min_pods, 0))
    pod = np.where(moves[gang], move[gang] + 1, pod)
    rest = np.maximum(0, loss - sum_by_gang(instance, pod * count))

    empties = np.array([index.must_be_empty, index.can_be_chosen_empty])
    wanted = np.array([index.must_be_empty.sum(), instance.empty_nodes])
    if not wanted.any():
        empties, wanted = empties[:0], wanted[:0]
    columns = np.flatnonzero(index.shape_request.any(axis=0))
    if len(wanted) or not len(columns):
        columns = np.append(columns, -1)  # the slots
    pods = np.bincount(node, count, len(index.free)).astype(np.int64)
    free = np.column_stack((index.free, SLOTS - pods))[:, columns]
    request, of_shape = (
        np.column_stack((each, np.ones(len(each), dtype=np.int64)))[:, columns]
        for each in (index.group_request, index.shape_request)
    )
    held = request * count[:, None]
    total = np.maximum(1, free.sum(axis=0) + held.sum(axis=0))
    shapes = np.argsort(-(of_shape / total).max(axis=1), kind="stable")
    of_empty = np.where(columns == -1, SLOTS, 0)
    shape_request = np.vstack((*(of_empty for _ in wanted), of_shape[shapes]))
    allowed = np.where(index.shape_allowed, index.shape_per_node[:, None], 0)
    limit = np.vstack((empties, allowed[shapes]))

    share = (sum_by_gang(instance, held) / total).max(axis=1, initial=0)
    size = 1 + share * (len(free) * PARTS if by_size else 0)
    worth = loss * PARTS // size.astype(np.int64)
    order = np.lexsort((gang, -loss[gang], -worth[gang], node))
    order = order[(whole | moves)[gang[order]]]
    first = np.searchsorted(node[order], np.arange(len(free) + 1))
    data = kernels.Data(
        nodes=len(free),
        resources=len(columns),
        levels=max(1, min(MOST_LEVELS, int(limit.max(initial=1)))),
        node_start=first,
        node_groups=order,
        first_group=index.first_group,
        group_gang=gang,
        group_node=node,
        group_cost=pod,
        request=request,
        fixed=np.where(whole, rest, FORBIDDEN),
        shape_request=shape_request,
        limit=limit,
    )
    search = kernels.Search(
        numbers=np.where(np.arange(7) == kernels.RANDOM, seed, 0),
        free=free,
        stay=count,
        lost=np.zeros(len(gang)),
        slack=slack,
        placed=np.zeros(limit.size),
        missing=np.append(wanted, index.shape_count),
        price=np.full(limit.size * data.levels, kernels.NEVER),
        journal=np.zeros(24 * len(gang) + 6 * limit.size),
        **dict.fromkeys(("dirty", "is_dirty", "is_tabu"), np.zeros(len(free))),
    )
    return _Base(_flat(data), _flat(search), shapes, scale, shift)


def _flat(arrays: Any) -> Any:
    """Return a named tuple of integers and arrays with new, flat arrays of int64."""
    flat = (
        each if isinstance(each, int) else np.array(each, dtype=np.int64).ravel() for each in arrays
    )
    return type(arrays)(*flat)
