"""Greedy rules for reclaiming: Lyra's rule and its variants, two baselines, and `peeling`.

`peeling` starts from all servers on loan, and gives back one after the other until N_R are left.
"""

from collections.abc import Sequence
from enum import StrEnum
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np

from lyra_opt.core.arithmetic import FractionTerms, exact_sum
from lyra_opt.core.arrays import IntArray
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
from lyra_opt.reclaim.incidence import Incidence
from lyra_opt.reclaim.instance import Instance, Semantics
from lyra_opt.reclaim.reduction import ReducedReclaim


class RandomChoice(ReclaimHeuristic):
    """Choose N_R servers on loan uniformly at random.

    Source: the baseline "Random" of Lyra (EuroSys 2023), section 7.1. Complexity O(servers).
    Guarantee: none. If the only free choice is one group of N_R idle servers, it is almost surely
    arbitrarily worse than the optimum of 0.
    """

    name = "random"

    def choose(self, instance: Instance, rng: np.random.Generator) -> Sequence[int]:
        """Return N_R servers on loan, sampled uniformly without replacement."""
        on_loan = instance.index.on_loan
        chosen = rng.permutation(len(on_loan))[: instance.reclaim_servers]
        return [int(position) for position in on_loan[chosen]]

    def quick_choice(
        self,
        servers: int,
        idle: Sequence[int],  # noqa: ARG002
        count: int,
        rng: np.random.Generator,
    ) -> Sequence[int]:
        """Return the sample of `choose`; see `lyra_opt.reclaim.heuristics.base.QuickChoice`."""
        chosen: list[int] = rng.permutation(servers)[:count].tolist()
        return chosen


class SmallestCountFirst(ReclaimHeuristic):
    """Choose the N_R servers on loan that host the fewest jobs, counted once at the start.

    In a rigid instance only jobs with a base worker on the server count. Weights are ignored. Ties
    are broken by file order.

    Source: the baseline "SCF" of Lyra (EuroSys 2023), section 7.1. Complexity O(servers log
    servers). Guarantee: none, because the rule ignores that servers share jobs. If n servers share
    two jobs and n other servers have one private job each, it preempts n jobs where 2 suffice.
    """

    name = "scf"

    def choose(self, instance: Instance, rng: np.random.Generator) -> Sequence[int]:  # noqa: ARG002
        """Return the first N_R servers on loan in the order of job count."""
        index = instance.index
        counted = index.base if instance.semantics is Semantics.RIGID else index.gpus
        jobs = np.diff(counted.server_start)[index.on_loan]
        in_order = index.on_loan[np.argsort(jobs, kind="stable")]
        return [int(position) for position in in_order[: instance.reclaim_servers]]


class TieRule(StrEnum):
    """The rule that picks among servers of equal cost; remaining ties are broken by file order."""

    MOST_VACATED = "most-vacated"
    """Take the server whose jobs would vacate the most GPUs on other free servers."""
    FEWEST_VACATED = "fewest-vacated"
    """Take the server whose jobs would vacate the fewest GPUs elsewhere (collateral damage)."""
    FILE_ORDER = "file-order"
    """Take the first server in the file."""


_TIE_SIGN = {TieRule.MOST_VACATED: -1, TieRule.FEWEST_VACATED: 1, TieRule.FILE_ORDER: 0}


class LyraGreedy(ReclaimHeuristic):
    """Repeatedly take the server with the least preemption cost, and preempt its jobs everywhere.

    The cost of server s is the sum of w_j / |S_j| over the running jobs j with a base worker on s.
    S_j are the servers, on loan or not, that host a base worker of j. Costs are updated after each
    of the N_R choices, so a server without running jobs costs 0. In an interchangeable instance the
    rule stays the same and ignores slack; `LyraGreedyElastic` takes slack into account.

    Parameters
    ----------
    tie_rule
        The rule for equal costs, which are compared exactly, without rounding. The paper says that
        it considers collateral damage, but gives no formula. The default prefers the server whose
        jobs vacate the most GPUs elsewhere, because the rule takes those servers next. On the
        paper's Figure 5 it gives 1, 1, 2, 3, 3 preemptions for N_R = 1..5, all optimal; preferring
        the fewest vacated GPUs gives 2 for N_R = 2.

    Notes
    -----
    Source: Lyra (EuroSys 2023), section 4. Complexity O((worker groups) log(servers)) without
    flexible workers. With flexible workers, a server whose tie-breaking key has become worse is
    examined again when it reaches the top, each time in O(its jobs + log(servers)). Arithmetic uses
    Python's integers if the least common multiple of the spans exceeds 122 bits.
    Guarantee (rigid): at most sqrt(E OPT) with E = sum of w_j |S_j|, for any tie rule, and even
    sqrt(E L) with L the value of the linear relaxation. Neither bound holds with a constant factor
    below 1. There is no constant ratio: on the family ``decoy`` the rule pays 8 N_R where 1 is
    optimal. Proof and examples: ``formulations/reclaim/README.md``, section 6. Guarantee
    (interchangeable): none.
    """

    name = "lyra-greedy"

    def __init__(self, tie_rule: TieRule = TieRule.MOST_VACATED) -> None:
        self.tie_rule = tie_rule

    def choose(self, instance: Instance, rng: np.random.Generator) -> Sequence[int]:  # noqa: ARG002
        """Return the chosen servers in the order in which Lyra's greedy takes them."""
        span = instance.index.base.span()
        return ShareRule(instance, span, self.tie_rule).take()

    def quick_choice(
        self,
        servers: int,  # noqa: ARG002
        idle: Sequence[int],
        count: int,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Sequence[int]:
        """Return the first idle servers: they alone cost 0, and no job of theirs breaks ties.

        See `lyra_opt.reclaim.heuristics.base.QuickChoice`.
        """
        return idle[:count]


def server_preemption_costs(instance: Instance) -> list[Fraction]:
    """Return Lyra's initial preemption cost of each server, in file order.

    The cost is the sum of w_j / |S_j| over the jobs with a base worker on the server; Lyra (EuroSys
    2023), section 4, Table 1.
    """
    base = instance.index.base
    span, weight = base.span().tolist(), instance.index.weight.tolist()
    return [
        sum((Fraction(weight[job], span[job]) for job, _ in base.column(server)), Fraction(0))
        for server in range(base.servers)
    ]


class ShareRule:
    """A greedy that takes the server with the least sum of w_j / denominator_j over running jobs.

    The exact terms do not depend on the servers taken before, so they are computed once.

    Parameters
    ----------
    denominators
        Shape (jobs,): the denominator of each job's share.
    tie_rule
        The rule for servers with equal sums.
    """

    def __init__(self, instance: Instance, denominators: IntArray, tie_rule: TieRule) -> None:
        base = instance.index.base
        self._instance = instance
        self._tie_sign = _TIE_SIGN[tie_rule]
        self._work = base.entries + base.servers
        terms = FractionTerms.of(instance.index.weight, denominators)
        self._shares = Shares(*terms.limbs(take_by_share, self._work))
        self._largest = max(terms.total // self._shares.radix, self._shares.radix)

    def take(self, taken_before: Sequence[int] = ()) -> list[int]:
        """Return the positions of all N_R servers in the order in which they are taken.

        `taken_before` holds at most N_R servers on loan. They come first, and the rule adds the
        rest.
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
            *empty_tournament(base.servers),
            np.zeros(picks, dtype=np.int64),
            work=self._work,
            largest=self._largest,
        )
        return [*taken_before, *np.asarray(chosen, dtype=np.int64).tolist()]


def empty_tournament(servers: int) -> tuple[Tournament, Touched]:
    """Return zero arrays for a tournament tree and for the list of touched servers."""
    keys = (np.zeros(servers, dtype=np.int64) for _ in range(5))
    return Tournament(np.zeros(2 * servers, dtype=np.int64), *islice(keys, 3)), Touched(*keys)


class LyraGreedyElastic(ReclaimHeuristic):
    """Lyra's greedy with slack: only jobs that would drop below ``min_workers`` add to a cost.

    The cost of server s is the sum of w_j / |S_j| over the running jobs j that would drop below
    ``min_workers``. S_j are the servers, on loan or not, that host a worker of j. Ties are broken
    by the price of the slack that the surviving jobs would lose: the sum of w_j * (workers lost) /
    (slack left + 1) in multiples of 2^-20. Remaining ties are broken by file order.

    Source: this project, after Lyra (EuroSys 2023), section 4; the paper scales in flexible workers
    first, but does not model slack. Complexity O((sum over jobs of span squared) log servers).
    Guarantee: none; without slack it equals Lyra's rule except in ties, and has the same worst
    cases.
    """

    name = "lyra-greedy-elastic"
    variants = (str(Semantics.INTERCHANGEABLE),)

    def choose(self, instance: Instance, rng: np.random.Generator) -> Sequence[int]:  # noqa: ARG002
        """Return the chosen servers in the order in which the slack-aware greedy takes them."""
        return take_servers_with_slack(instance, instance.index.gpus.span())


def take_servers_with_slack(instance: Instance, denominators: IntArray) -> list[int]:
    """Run the slack-aware greedy with the job shares w_j / denominator_j; return its servers."""
    index = instance.index
    losses = index.losses
    work = losses.entries + losses.servers
    terms = FractionTerms.of(index.weight, denominators)
    shares = Shares(*terms.limbs(take_with_slack, work))
    largest_price = instance.total_weight * SHARE_UNIT * int(losses.job_counts.max(initial=1))
    chosen = take_with_slack.run(
        shares,
        index.weight,
        index.slack.copy(),  # the kernel decreases it
        index.is_on_loan,
        losses,
        *empty_tournament(losses.servers),
        np.zeros(instance.reclaim_servers, dtype=np.int64),
        work=work,
        largest=max(terms.total // shares.radix, shares.radix, largest_price),
    )
    return [int(position) for position in chosen]


class Marginal(ReclaimHeuristic):
    """Repeatedly take the server that newly preempts the least weight of jobs, N_R times.

    Rigid: the newly preempted jobs are the running jobs with a base worker on the server. Ties are
    broken by the most GPUs that those jobs would vacate on other free servers. Interchangeable: the
    newly preempted jobs are those that would drop below ``min_workers``. Ties are broken by the
    least price of used slack, the sum of w_j * (workers lost) / (slack left + 1). Remaining ties
    are broken by file order.

    Complexity: rigid as `LyraGreedy`; interchangeable O((sum over jobs of span squared) log
    servers). Guarantee (rigid): at most N_R times the optimum, and the order of this factor is
    tight. Take k servers with one private job each, k servers that share two jobs, and N_R = k: the
    rule pays k, where 2 is optimal; ``formulations/reclaim/README.md``, section 6.2. Guarantee
    (interchangeable): none known.
    """

    name = "marginal"

    def choose(self, instance: Instance, rng: np.random.Generator) -> Sequence[int]:  # noqa: ARG002
        """Return the chosen servers in the order in which the marginal rule takes them."""
        whole_weight = np.ones(len(instance.jobs), dtype=np.int64)
        if instance.semantics is Semantics.RIGID:
            return ShareRule(instance, whole_weight, TieRule.MOST_VACATED).take()
        return take_servers_with_slack(instance, whole_weight)


class Peeling(ReclaimHeuristic):
    """Choose all servers on loan, then give back one server at a time until N_R are left.

    Each step gives back the server that rescues the most weight of preempted jobs. Ties are broken
    by the larger share, the sum over the server's preempted jobs of w_j * min(losses, excess) /
    excess in multiples of 2^-20. The excess is the number of lost workers beyond the job's slack
    (rigid: the number of chosen servers that host the job). Remaining ties are broken by file
    order.

    Source: this project; the reverse greedy known from densest-subgraph peeling, applied to the
    complement of minimum k-union. Complexity O((sum over jobs of span squared) log servers).
    Guarantee: none known. On the family ``net`` it pays several times the optimum. It is also weak
    for unequal weights: on a fleet of 40 servers with jobs of weight 1 and 11 it pays 13, where
    Lyra's rule finds the optimum of 4. The reason is that a heavy job is rescued only when the last
    of its servers is given back. Peeling itself uses no bound; `fast` peels from the upper end of
    the bound's segment, and the cost of any N_R servers of that set is bounded in
    ``formulations/reclaim/README.md``, section 6.3.
    """

    name = "peeling"

    def choose(self, instance: Instance, rng: np.random.Generator) -> Sequence[int]:  # noqa: ARG002
        """Return the N_R servers that are left after peeling."""
        return peel_servers(instance, instance.index.is_on_loan)


def peel_servers(instance: Instance, is_chosen: IntArray, *, by_share: bool = False) -> list[int]:
    """Give back chosen servers until N_R are left, and return the positions of those N_R.

    Parameters
    ----------
    is_chosen
        Shape (servers,): 1 for a chosen server on loan; at least N_R servers are chosen.
    by_share
        Whether to ignore the rescued weight and give back the server with the largest share.
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
    """Give back chosen servers of a reduced instance until N_R are left; return their indices.

    In a rigid instance the result can differ from `peel_servers` only by the rounding of shares,
    because merged jobs have one share. In an interchangeable instance the capped counts give other
    shares. The peeling runs compiled wherever the bound, which is computed first, ran compiled: the
    machine code is loaded by then.
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
    """Run the peeling kernel on arrays, and return the indices of the servers that are left.

    Giving back a server also rescues its `server_cost`.
    """
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
