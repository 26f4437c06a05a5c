"""Lyra's rule: least server preemption cost, a job's weight shared equally by its servers."""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.exact_sums import FractionTerms
from lyra_opt.reclaim.heuristics.base import ReclaimHeuristic
from lyra_opt.reclaim.heuristics.greedy_kernels import (
    Gpus,
    Shares,
    Touched,
    Tournament,
    take_by_share,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.reclaim.incidence import IntArray
    from lyra_opt.reclaim.instance import Instance


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

    def choose(
        self,
        instance: Instance,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Sequence[int]:
        """Return the servers in the order in which the rule takes them."""
        span = instance.index.base.span()
        return take_servers_by_share(instance, span, self.tie_rule)


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


def take_servers_by_share(
    instance: Instance,
    denominators: IntArray,
    tie_rule: TieRule,
    taken_before: Sequence[int] = (),
) -> list[int]:
    """Take servers by the least sum of w_j / denominator_j over their living jobs.

    Parameters
    ----------
    denominators
        Shape (jobs,).
    tie_rule
        What decides between equal sums.
    taken_before
        Positions of servers on loan that are chosen already, at most N_R; the others complete
        them.

    Returns
    -------
    list of int
        The positions of all N_R servers, those taken before first, the others as they were
        taken.
    """
    return ShareRule(instance, denominators, tie_rule).take(taken_before)


class ShareRule:
    """Take servers by the least sum of w_j / denominator_j, from several starts.

    The exact terms are the same for all starts: they are computed once. Parameters as for
    `take_servers_by_share`.
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
        """Return the positions of all N_R servers, those taken before first."""
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
