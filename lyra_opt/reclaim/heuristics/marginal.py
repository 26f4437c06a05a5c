"""Marginal greedy: the server whose reclaiming preempts the least weight now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.reclaim.heuristics.base import ReclaimHeuristic
from lyra_opt.reclaim.heuristics.lyra_greedy import TieRule, take_servers_by_share
from lyra_opt.reclaim.heuristics.lyra_greedy_elastic import take_servers_with_slack
from lyra_opt.reclaim.instance import Semantics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.reclaim.instance import Instance


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

    def choose(
        self,
        instance: Instance,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Sequence[int]:
        """Return the servers in the order in which the rule takes them."""
        whole_weight = np.ones(len(instance.jobs), dtype=np.int64)
        if instance.semantics is Semantics.RIGID:
            return take_servers_by_share(instance, whole_weight, TieRule.MOST_VACATED)
        return take_servers_with_slack(instance, whole_weight)
