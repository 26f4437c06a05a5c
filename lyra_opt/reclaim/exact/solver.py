"""The solver `exact`: a proved optimum, by cheap steps first and tree searches last."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from lyra_opt.core.result import Limits, SolveResult, Status, StoppedBy
from lyra_opt.core.solver import Observer, Solver
from lyra_opt.core.stopwatch import is_out_of_time, limited_to, limits_in_force, remaining_s
from lyra_opt.core.trajectory import Improvements
from lyra_opt.reclaim.bounds.pair_certificate import pair_form
from lyra_opt.reclaim.bounds.semidefinite import ascent_s, semidefinite_bound
from lyra_opt.reclaim.exact.components import search_components
from lyra_opt.reclaim.exact.pairs import PairSearch
from lyra_opt.reclaim.exact.threshold.search import search_thresholds
from lyra_opt.reclaim.exact.tree.search import TreeSearch
from lyra_opt.reclaim.heuristics.fast import Fast
from lyra_opt.reclaim.heuristics.greedy import LyraGreedy, LyraGreedyElastic, Marginal
from lyra_opt.reclaim.heuristics.tabu import search_by_swaps
from lyra_opt.reclaim.instance import Instance, Semantics, Solution
from lyra_opt.reclaim.reduction import BestKnown, ReducedReclaim, SearchResult, reduce_instance

SHORT_WALK = 500
LONG_WALK = 20_000
"""Swaps of the tabu search from each start: before the tree search, and during a long one."""
SHORT_SEARCH = 300
"""A tree search with more nodes counts as long."""
TRIAL_S = 10.0
TRIAL_SHARE = 0.25
"""The long tree search is checked for progress after 10 s or this share of the time left."""
MOST_SERVERS = 600
"""Most servers for `PairSearch`: each step of its bound computes all eigenvalues of a matrix."""


class Exact(Solver):
    """Find a proved optimum, or an incumbent and a bound if a limit is reached.

    The steps run in this order, each only while bound and incumbent differ:

    1. `Fast`, and a short tabu search from its answer, Lyra's rule and `Marginal`.
    2. Rigid: the components of the graph of servers and jobs, combined by a knapsack
       (`lyra_opt.reclaim.exact.components`).
    3. Rigid: best-first branch and bound on jobs (`lyra_opt.reclaim.exact.tree.search`). After 300
       nodes a longer tabu search follows, and then the branch and bound continues. After a quarter
       of the time, or 10 s, branch and bound on servers replaces it if every job is on two servers
       (`lyra_opt.reclaim.exact.pairs`). Else a semidefinite bound
       (`lyra_opt.reclaim.bounds.semidefinite`) is computed if two fifths of the gap that the linear
       bound left are still open.
    4. Interchangeable: a longer tabu search, then branch and bound with the bound of
       `lyra_opt.reclaim.exact.threshold.search`.

    A proved objective and its bound depend neither on the order of the file nor on ids. Which of
    several optimal choices is returned may depend on them.

    Notes
    -----
    Source: this project. Complexity: exponential in the worst case, as the problem is minimum
    k-union; realistic fleets take milliseconds. Limits: time, checked about every 0.05 s; nodes;
    memory for the open nodes.
    """

    name = "exact"
    problem = "reclaim"
    variants = tuple(Semantics)
    exact_variants = variants
    gives_bound = True

    def solve(
        self,
        instance: Instance,
        *,
        limits: Limits,
        rng: np.random.Generator,
        warm_start: Solution | None = None,
        observer: Observer | None = None,
    ) -> SolveResult[Solution]:
        """Search for a proved optimum within the limits."""
        known = BestKnown(None if observer is None else Improvements(observer, instance.semantics))
        quick = Fast().solve(
            instance, limits=limits, rng=rng, warm_start=warm_start, observer=known.observer
        )
        if quick.status is Status.OPTIMAL:
            return quick
        assert quick.solution is not None
        assert isinstance(quick.objective, int)
        assert isinstance(quick.dual_bound, int)
        reduced = reduce_instance(instance)
        place = {int(server): place for place, server in enumerate(reduced.servers)}
        known.take(
            SearchResult(
                places=[place[position] for position in quick.solution.positions(instance)],
                objective=quick.objective,
                bound=quick.dual_bound,
                stopped_by=quick.stopped_by,
            )
        )
        if known.stopped_by is None:
            rules = (
                LyraGreedy() if instance.semantics is Semantics.RIGID else LyraGreedyElastic(),
                Marginal(),
            )
            starts = (
                [place[position] for position in rule.choose(instance, rng)] for rule in rules
            )
            _walk(known, reduced, starts, SHORT_WALK, rng)
            if instance.semantics is Semantics.RIGID:
                _search_rigid(known, reduced, rng)
            else:
                _search_interchangeable(known, reduced, rng)
        return SolveResult(
            status=Status.OPTIMAL if known.is_proved else Status.FEASIBLE,
            stopped_by=None if known.is_proved else known.stopped_by,
            solution=reduced.solution(instance, known.places),
            objective=known.objective,
            dual_bound=known.bound,
            counters={**quick.counters, "nodes": known.nodes},
        )

    def quick_choice(
        self, servers: int, idle: Sequence[int], count: int, rng: np.random.Generator
    ) -> Sequence[int]:
        """Return the choice of `Fast`, which is proved if it preempts no job."""
        return Fast().quick_choice(servers, idle, count, rng)


def _left(known: BestKnown) -> Limits:
    """Return the current limits, with the nodes already used subtracted."""
    limits = limits_in_force()
    nodes = None if limits.nodes is None else max(0, limits.nodes - known.nodes)
    return replace(limits, nodes=nodes)


def _walk(
    known: BestKnown,
    reduced: ReducedReclaim,
    more_starts: Iterable[list[int]],
    moves: int,
    rng: np.random.Generator,
) -> None:
    """Run the tabu search from the incumbent and from `more_starts`."""
    known.take(
        search_by_swaps(
            reduced,
            chain([known.places], more_starts),
            moves_per_start=moves,
            rng=rng,
            bound=known.bound,
            observer=known.observer,
        )
    )


def _search_rigid(known: BestKnown, reduced: ReducedReclaim, rng: np.random.Generator) -> None:
    linear_bound = known.bound
    if not known.is_proved:
        known.take(search_components(reduced, known.places, dual_bound=known.bound))
    if known.is_proved:
        return
    tree, limits = TreeSearch(reduced, known.places, known.bound, known.observer), _left(known)
    nodes = SHORT_SEARCH if limits.nodes is None else min(SHORT_SEARCH, limits.nodes)
    with limited_to(replace(limits, nodes=nodes)):
        found = tree.search()
    known.take(found)
    if known.is_proved or found.stopped_by is not StoppedBy.NODES or nodes < SHORT_SEARCH:
        return
    _walk(known, reduced, (), LONG_WALK, rng)
    if known.is_proved:
        return
    tree.take(known.places, known.bound)
    left_s = remaining_s()
    trial_s = TRIAL_S if left_s is None else min(TRIAL_S, TRIAL_SHARE * left_s)
    with limited_to(replace(limits, time_s=trial_s)):
        found = tree.search()
    known.take(found)
    if known.is_proved or found.stopped_by is not StoppedBy.TIME or is_out_of_time():
        return
    assert known.objective is not None
    if ascent_s(reduced) != 0:
        form = pair_form(reduced) if len(reduced.servers) <= MOST_SERVERS else None
        if form is not None:
            pairs = PairSearch(reduced, form, known.places, known.bound, known.observer)
            with limited_to(_left(known)):
                known.take(pairs.search())
            return
        if 5 * known.bound < 2 * linear_bound + 3 * known.objective:
            bound = semidefinite_bound(reduced, known.objective, rng)
            tree.take(known.places, bound)
            if known.observer is not None and bound > known.bound:
                known.observer("dual_bound", min(bound, known.objective))
    with limited_to(limits):
        known.take(tree.search())


def _search_interchangeable(
    known: BestKnown, reduced: ReducedReclaim, rng: np.random.Generator
) -> None:
    if not known.is_proved:
        _walk(known, reduced, (), LONG_WALK, rng)
    if not known.is_proved:
        known.take(search_thresholds(reduced, known.places, rng=rng, observer=known.observer))
