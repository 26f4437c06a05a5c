"""Greedy rules that choose servers: Lyra's and its variants, the paper's baselines, and peeling."""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.arithmetic import FractionTerms, exact_sum
from lyra_opt.core.kernels import LARGEST_COMPILED_INTEGER, read_only
from lyra_opt.reclaim.bounds.dual_bound import PASSES as BOUND_PASSES
from lyra_opt.reclaim.heuristics.base import ReclaimHeuristic
from lyra_opt.reclaim.heuristics.greedy_kernels import (
    SHARE_UNIT,
    Gpus,
    Shares,
    Touched,
    Tournament,
    peel,
    take_by_share,
    take_with_slack,
)
from lyra_opt.reclaim.instance import Semantics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.reclaim.incidence import Incidence, IntArray
    from lyra_opt.reclaim.instance import Instance
    from lyra_opt.reclaim.reduction import ReducedReclaim


class RandomChoice(ReclaimHeuristic):
    """Choose N_R servers on loan uniformly at random.

    Source: the baseline "Random" of Lyra (EuroSys 2023), section 7.1. Complexity O(servers).
    Guarantee: none; on an instance with one idle block of N_R servers it is almost surely
    arbitrarily worse than the optimum of 0.
    """

    name = "random"

    def choose(self, instance: Instance, rng: np.random.Generator) -> Sequence[int]:
        """Return a uniform sample without replacement."""
        on_loan = instance.index.on_loan
        chosen = rng.permutation(len(on_loan))[: instance.reclaim_servers]
        return [int(position) for position in on_loan[chosen]]


class SmallestCountFirst(ReclaimHeuristic):
    """Choose the N_R servers on loan with the fewest jobs, counted once at the start.

    In a rigid instance only jobs with a base worker on the server count. Weights play no part.
    Ties go by file order.

    Source: the baseline "SCF" of Lyra (EuroSys 2023), section 7.1. Complexity
    O(servers log servers). Guarantee: none; it cannot see that two servers share their jobs, so
    n servers that hold the same two jobs lose against n servers with one private job each: n
    preemptions where 2 suffice.
    """

    name = "scf"

    def choose(self, instance: Instance, rng: np.random.Generator) -> Sequence[int]:  # noqa: ARG002
        """Return the first N_R servers in order of job count."""
        index = instance.index
        counted = index.base if instance.semantics is Semantics.RIGID else index.gpus
        jobs = np.diff(counted.server_start)[index.on_loan]
        in_order = index.on_loan[np.argsort(jobs, kind="stable")]
        return [int(position) for position in in_order[: instance.reclaim_servers]]


class TieRule(StrEnum):
    """Which of several servers of equal cost is taken; file order decides what is left."""

    MOST_VACATED = "most-vacated"
    """The one whose jobs would vacate the most GPUs on other servers not yet chosen."""
    FEWEST_VACATED = "fewest-vacated"
    """The one whose jobs would vacate the fewest GPUs there: least collateral damage at once."""
    FILE_ORDER = "file-order"
    """The first in the file."""


_TIE_SIGN = {TieRule.MOST_VACATED: -1, TieRule.FEWEST_VACATED: 1, TieRule.FILE_ORDER: 0}


class LyraGreedy(ReclaimHeuristic):
    """Take N_R times the server of least preemption cost, and preempt its jobs everywhere.

    The cost of server s is the sum of w_j / |S_j| over the living jobs j with a base worker on
    s, where S_j are the servers, on loan or not, that host a base worker of j. Costs are updated
    after each choice: a server that was left empty costs 0. In an interchangeable instance this
    is the literal rule, blind to slack; `LyraGreedyElastic` is the one that sees it.

    Parameters
    ----------
    tie_rule
        What decides between equal costs (compared exactly, without rounding). The paper says
        that collateral damage is looked at, but gives no formula. The default prefers the
        server whose jobs vacate the most GPUs elsewhere, because those servers come next; it
        gives 1, 1, 2, 3, 3 preemptions on the paper's Figure 5 for N_R = 1..5, all optimal,
        where the fewest vacated GPUs first would pay 2 for N_R = 2.

    Notes
    -----
    Source: Lyra (EuroSys 2023), section 4. Complexity O((worker groups) log(servers)) without
    flexible workers; with them, a server whose tie got worse meanwhile is looked at again when it
    comes up, each time in O(its jobs + log(servers)). Steps are on big integers if the least
    common multiple of the spans exceeds 122 bits.
    Guarantee (rigid): at most sqrt(E OPT) with E = sum of w_j |S_j|, for any tie rule, and even
    sqrt(E L) with L the value of the linear relaxation; no constant factor below 1 can be put
    before either. There is no constant ratio: on the family ``decoy`` it pays 8 N_R where 1 is
    optimal. Proof and examples: ``formulations/reclaim/README.md``, section 6. Interchangeable:
    none.
    """

    name = "lyra-greedy"

    def __init__(self, tie_rule: TieRule = TieRule.MOST_VACATED) -> None:
        self.tie_rule = tie_rule

    def choose(self, instance: Instance, rng: np.random.Generator) -> Sequence[int]:  # noqa: ARG002
        """Return the servers in the order in which the rule takes them."""
        span = instance.index.base.span()
        return ShareRule(instance, span, self.tie_rule).take()


def server_preemption_costs(instance: Instance) -> list[Fraction]:
    """Return Lyra's cost of each server before any is taken, in file order.

    The sum of w_j / |S_j| over the jobs with a base worker on the server; Lyra (EuroSys 2023),
    section 4, Table 1.
    """
    base = instance.index.base
    span, weight = base.span().tolist(), instance.index.weight.tolist()
    return [
        sum((Fraction(weight[job], span[job]) for job, _ in base.column(server)), Fraction(0))
        for server in range(base.servers)
    ]


class ShareRule:
    """Take servers by the least sum of w_j / denominator_j over their living jobs.

    The exact terms are the same for every start: they are computed once.

    Parameters
    ----------
    denominators
        Shape (jobs,).
    tie_rule
        What decides between equal sums.
    """

    def __init__(self, instance: Instance, denominators: IntArray, tie_rule: TieRule) -> None:
        base = instance.index.base
        self._instance = instance
        self._tie_sign = _TIE_SIGN[tie_rule]
        self._work = base.entries + base.servers
        terms = FractionTerms.of(instance.index.weight, denominators)
        self._shares = Shares(*terms.limbs(take_by_share, self._work))
        self._largest = terms.total // self._shares.radix

    def take(self, taken_before: Sequence[int] = ()) -> list[int]:
        """Return the positions of all N_R servers in the order in which they are taken.

        At most N_R servers on loan are `taken_before`; they come first, and the others complete
        them.
        """
        index = self._instance.index
        base, gpus = index.base, index.gpus
        is_taken = np.zeros(base.servers, dtype=np.int64)
        is_taken[list(taken_before)] = 1
        picks = self._instance.reclaim_servers - len(taken_before)
        chosen = take_by_share.run(
            self._tie_sign,
            self._shares,
            index.is_on_loan - is_taken,
            base,
            gpus,
            (base.row_sums(is_taken) > 0).astype(np.int64),
            Gpus(
                of_job=gpus.row_sums(1 - is_taken),
                elsewhere=np.zeros(base.servers, dtype=np.int64),
                scaled_in=np.zeros(base.jobs, dtype=np.int64),
            ),
            *no_standings(base.servers),
            np.zeros(picks, dtype=np.int64),
            work=self._work,
            largest=self._largest,
        )
        return [*taken_before, *np.asarray(chosen, dtype=np.int64).tolist()]


def no_standings(servers: int) -> tuple[Tournament, Touched]:
    """Return a tournament before the first match, and no servers that are touched."""
    keys = (np.zeros(servers, dtype=np.int64) for _ in range(5))
    return Tournament(np.zeros(2 * servers, dtype=np.int64), *islice(keys, 3)), Touched(*keys)


class LyraGreedyElastic(ReclaimHeuristic):
    """Take N_R times the server of least cost, where only jobs that would be preempted cost.

    The cost of server s is the sum of w_j / |S_j| over the living jobs j that would drop below
    ``min_workers``, with S_j all servers, on loan or not, that host a worker of j. Ties go by
    the price of the slack that the surviving jobs would lose, the sum of
    w_j * (workers lost) / (slack left + 1) in multiples of 2^-20, then by file order.

    Source: this project, after Lyra (EuroSys 2023), section 4; the paper scales in flexible
    workers first, but counts no slack. Complexity O((sum over jobs of span squared) log
    servers). Guarantee: none; without slack it is Lyra's rule up to ties, with the same worst
    cases.
    """

    name = "lyra-greedy-elastic"
    variants = (str(Semantics.INTERCHANGEABLE),)

    def choose(self, instance: Instance, rng: np.random.Generator) -> Sequence[int]:  # noqa: ARG002
        """Return the servers in the order in which the rule takes them."""
        return take_servers_with_slack(instance, instance.index.gpus.span())


def take_servers_with_slack(instance: Instance, denominators: IntArray) -> list[int]:
    """Take servers by the least sum of w_j / denominator_j over the jobs that would die."""
    index = instance.index
    losses = index.losses
    work = losses.entries + losses.servers
    terms = FractionTerms.of(index.weight, denominators)
    shares = Shares(*terms.limbs(take_with_slack, work))
    largest_price = instance.total_weight * SHARE_UNIT * int(losses.job_counts.max(initial=1))
    chosen = take_with_slack.run(
        shares,
        index.weight,
        index.slack.copy(),  # the kernel counts it down
        index.is_on_loan,
        losses,
        *no_standings(losses.servers),
        np.zeros(instance.reclaim_servers, dtype=np.int64),
        work=work,
        largest=max(terms.total // shares.radix, largest_price),
    )
    return [int(position) for position in chosen]


class Marginal(ReclaimHeuristic):
    """Take N_R times the server whose reclaiming newly preempts the least weight of jobs.

    Rigid: all living jobs with a base worker on the server; ties go by the most GPUs that those
    jobs would vacate on other servers not yet chosen. Interchangeable: the jobs that would drop
    below ``min_workers``; ties go by the least price of used slack, the sum of
    w_j * (workers lost) / (slack left + 1). File order decides what is left.

    Complexity as `LyraGreedy` rigid; O((sum over jobs of span squared) log
    servers) interchangeable. Guarantee (rigid): at most N_R times the optimum, and of that
    order: with N_R = k it pays k on k servers with one private job each beside k servers that
    share two jobs, where 2 is optimal; ``formulations/reclaim/README.md``, section 6.2.
    Interchangeable: none known.
    """

    name = "marginal"

    def choose(self, instance: Instance, rng: np.random.Generator) -> Sequence[int]:  # noqa: ARG002
        """Return the servers in the order in which the rule takes them."""
        whole_weight = np.ones(len(instance.jobs), dtype=np.int64)
        if instance.semantics is Semantics.RIGID:
            return ShareRule(instance, whole_weight, TieRule.MOST_VACATED).take()
        return take_servers_with_slack(instance, whole_weight)


class Peeling(ReclaimHeuristic):
    """Choose all servers on loan, then return one at a time until N_R are left.

    Each time the server is returned whose return rescues the most weight of preempted jobs. Ties
    go by the larger share, the sum over its preempted jobs of
    w_j * min(losses, excess) / excess, where the excess is how many lost workers the job is
    beyond its slack (rigid: how many chosen servers host it), in multiples of 2^-20; then by
    file order.

    Source: this project; the reverse greedy known from densest-subgraph peeling, for the
    complement of minimum k-union. Complexity O((sum over jobs of span squared) log servers).
    Guarantee: none known; on the family ``net`` it enters the net and pays several times the
    optimum. Nor is it close where weights are unequal: on a fleet of 40 servers with jobs of weight
    1 and 11 it pays 13, and Lyra's rule the optimum, 4. A heavy job whose servers host light jobs
    too is rescued by the return of its last server only. It uses no bound; what any N_R servers of
    a set cost at most, where that set is the upper end of the bound's segment, from which `fast`
    peels, is in ``formulations/reclaim/README.md``, section 6.3.
    """

    name = "peeling"

    def choose(self, instance: Instance, rng: np.random.Generator) -> Sequence[int]:  # noqa: ARG002
        """Return the servers that are left."""
        return peel_servers(instance, instance.index.is_on_loan)


def peel_servers(instance: Instance, is_chosen: IntArray, *, by_share: bool = False) -> list[int]:
    """Return servers from the chosen ones until N_R are left; give their positions.

    Parameters
    ----------
    is_chosen
        Shape (servers,): 1 for a chosen server on loan; at least N_R of them.
    by_share
        Whether the largest share decides alone, instead of the most weight rescued.
    """
    index = instance.index
    no_cost = np.zeros(index.losses.servers, dtype=np.int64)
    returns = int(is_chosen.sum()) - instance.reclaim_servers
    work = index.losses.entries + index.losses.servers
    return _peel(
        returns, is_chosen, index.losses, index.slack, index.weight, no_cost, by_share, work
    )


def peel_places(
    reduced: ReducedReclaim, is_chosen: IntArray, *, by_share: bool = False
) -> list[int]:
    """Do as `peel_servers` in a reduced instance, with places instead of positions.

    In a rigid instance only shares can differ, and only by rounding: merged jobs have one. (The
    capped counts of an interchangeable one are other shares.) It is peeled compiled wherever the
    bound, which comes first, is: machine code is loaded then.
    """
    losses = reduced.losses
    returns = int(is_chosen.sum()) - reduced.reclaim_servers
    return _peel(
        returns,
        is_chosen,
        losses,
        reduced.slack,
        reduced.weight,
        reduced.server_cost,
        by_share,
        BOUND_PASSES * (losses.entries + losses.servers),
    )


def _peel(
    returns: int,
    is_chosen: IntArray,
    losses: Incidence,
    slack: IntArray,
    weight: IntArray,
    server_cost: IntArray,
    by_share: bool,
    work: int,
) -> list[int]:
    """Run the kernel; `server_cost` is what each server rescues beside the jobs."""
    total = exact_sum(weight) + exact_sum(server_cost)
    largest = total * SHARE_UNIT * int(losses.job_counts.max(initial=1))
    integers: Any = np.int64 if largest < LARGEST_COMPILED_INTEGER else object
    minus_saving = -server_cost.astype(integers)
    left = peel.run(
        returns,
        int(by_share),
        read_only(weight),
        losses.row_sums(is_chosen) - slack,
        is_chosen.copy(),
        losses,
        Tournament(
            winner=np.zeros(2 * losses.servers, dtype=np.int64),
            first_key=np.zeros_like(minus_saving) if by_share else minus_saving,
            second_key=minus_saving * SHARE_UNIT,
            third_key=np.zeros(losses.servers, dtype=np.int64),
        ),
        work=work,
        largest=largest,
    )
    positions: list[int] = np.flatnonzero(left).tolist()
    return positions
