"""The solver `fast`: a bound, then constructive heuristics until one of them meets the bound."""

from collections.abc import Iterator, Sequence

import numpy as np

from lyra_opt.core.result import Limits, SolveResult, Status, StoppedBy
from lyra_opt.core.solver import Observer, Solver
from lyra_opt.core.stopwatch import is_out_of_time
from lyra_opt.reclaim.bounds.dual_bound import RigidBound, interchangeable_bound, rigid_bound
from lyra_opt.reclaim.heuristics.base import preempted_weight
from lyra_opt.reclaim.heuristics.greedy import (
    LyraGreedy,
    LyraGreedyElastic,
    Marginal,
    ShareRule,
    TieRule,
    peel_places,
    peel_servers,
)
from lyra_opt.reclaim.instance import Instance, Semantics, Solution
from lyra_opt.reclaim.reduction import BestKnown, ReducedReclaim, reduce_with_rows


class Fast(Solver):
    """A certified answer in milliseconds: the best of several heuristics, with a proved bound.

    Rigid: jobs on one server are folded into server costs, and jobs on the same servers are merged
    (`reduce_with_rows`). On the reduced instance `rigid_bound` finds the segment of the convex
    envelope around N_R. It gives the bound and two sets of servers, one of at most and one of at
    least N_R servers. The upper set is peeled to N_R servers, by rescued weight and by share. The
    lower set is completed by Lyra's rule and by `Marginal`, and both rules also run from the empty
    set.

    Interchangeable: the candidates are the slack-aware Lyra rule, `Marginal`, peeling and Lyra's
    literal rule. The bound of the linear relaxation follows unless nothing is preempted. For both
    semantics the search stops as soon as an answer meets the bound.

    Dominated choices are not dropped. Dominance orders pairs of servers but rules out no server, so
    no cut and no rule becomes cheaper. Making the final answer respect `dominance_pairs` takes 6 ms
    at 520 servers. It improved none of the 41 unproved answers on which it was tried (families rnd
    and messy, trace and dist).

    Source: this project. Complexity: a few minimum cuts and heuristics, near-linear in practice;
    interchangeable, a linear programme. Guarantee: never worse than `LyraGreedy`, `Marginal` and,
    in an interchangeable instance, `Peeling`; each answer carries its own certificate.
    """

    name = "fast"
    problem = "reclaim"
    variants = tuple(Semantics)
    gives_bound = True

    def solve(
        self,
        instance: Instance,
        *,
        limits: Limits,  # noqa: ARG002
        rng: np.random.Generator,
        warm_start: Solution | None = None,
        observer: Observer | None = None,
    ) -> SolveResult[Solution]:
        """Return the best heuristic solution and a proved bound.

        The time limit is checked between heuristics and by the linear programme.
        """
        known = BestKnown(observer)

        def offer(positions: Sequence[int]) -> None:
            known.keep_if_better(positions, preempted_weight(instance.index, positions))

        if warm_start is not None:
            offer(warm_start.positions(instance))
        segment = None
        if instance.semantics is Semantics.RIGID:
            reduction = reduce_with_rows(instance)
            segment = rigid_bound(instance, reduction)
            known.bound = segment.bound
            candidates = _around_segment(instance, reduction[0], segment)
        else:
            candidates = _aware_of_slack(instance, rng)
        offers = 0
        while not known.is_proved and known.stopped_by is None:
            positions = next(candidates, None)
            if positions is None:
                break
            offers += 1
            offer(positions)
            if is_out_of_time():
                known.stopped_by = StoppedBy.TIME
        if segment is None and known.stopped_by is None and not known.is_proved:
            known.bound = interchangeable_bound(instance)
            if is_out_of_time() and not known.is_proved:
                known.stopped_by = StoppedBy.TIME
        if observer is not None:
            observer("dual_bound", known.bound)
        return SolveResult(
            status=Status.OPTIMAL if known.is_proved else Status.FEASIBLE,
            stopped_by=known.stopped_by,
            solution=Solution.of_positions(instance, known.places),
            objective=known.objective,
            dual_bound=known.bound,
            counters={
                "heuristics": offers,
                "minimum_cuts": 0 if segment is None else segment.minimum_cuts,
            },
        )

    def quick_choice(
        self,
        servers: int,  # noqa: ARG002
        idle: Sequence[int],
        count: int,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Sequence[int]:
        """Return the last idle servers; see `lyra_opt.reclaim.heuristics.base.QuickChoice`.

        The upper set of the bound is then the set of idle servers. They alone have the price 0,
        because levelling two prices never lowers the smaller one. Peeling gives back the first of
        servers that rescue nothing, and the first answer costs 0, so it is proved.
        """
        return idle[len(idle) - count :]


def _around_segment(
    instance: Instance, reduced: ReducedReclaim, segment: RigidBound
) -> Iterator[Sequence[int]]:
    """Yield choices made by shrinking or completing the two server sets of the Lagrangian bound.

    The best guesses come first.
    """
    span, lower = instance.index.base.span(), segment.lower_servers
    is_upper = np.zeros(len(instance.servers), dtype=np.int64)
    is_upper[list(segment.upper_servers)] = 1
    in_upper = is_upper[reduced.servers]
    yield reduced.servers[peel_places(reduced, in_upper)].tolist()
    lyra = ShareRule(instance, span, TieRule.MOST_VACATED)
    yield lyra.take(lower)
    if lower:  # an empty lower set gives the choice above again
        yield lyra.take()
    yield reduced.servers[peel_places(reduced, in_upper, by_share=True)].tolist()
    marginal = ShareRule(instance, np.ones_like(span), TieRule.MOST_VACATED)
    yield marginal.take(lower)
    if lower:
        yield marginal.take()


def _aware_of_slack(instance: Instance, rng: np.random.Generator) -> Iterator[Sequence[int]]:
    """Yield the choices for an interchangeable instance, from the slack-aware rules first."""
    yield LyraGreedyElastic().choose(instance, rng)
    yield peel_servers(instance, instance.index.is_on_loan)
    yield Marginal().choose(instance, rng)
    yield peel_servers(instance, instance.index.is_on_loan, by_share=True)
    yield LyraGreedy().choose(instance, rng)
