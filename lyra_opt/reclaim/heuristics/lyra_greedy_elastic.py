"""Lyra's rule made aware of slack: only jobs that would drop below ``min_workers`` cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.exact_sums import FractionTerms
from lyra_opt.reclaim.heuristics.base import ReclaimHeuristic
from lyra_opt.reclaim.heuristics.greedy_kernels import SHARE_UNIT, Shares, take_with_slack
from lyra_opt.reclaim.heuristics.lyra_greedy import no_standings
from lyra_opt.reclaim.instance import Semantics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.reclaim.incidence import IntArray
    from lyra_opt.reclaim.instance import Instance


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

    def choose(
        self,
        instance: Instance,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Sequence[int]:
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
