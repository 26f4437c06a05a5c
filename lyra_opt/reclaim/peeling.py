"""Peeling, the greedy in reverse: start from all servers, give back the one that rescues most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.reclaim.greedy_kernels import SHARE_UNIT, peel
from lyra_opt.reclaim.heuristic import ReclaimHeuristic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.reclaim.instance import ReclaimInstance


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
    optimum. What any N_R servers of a set cost at most, where that set is the upper end of the
    bound's segment, is in ``formulations/reclaim/README.md``, section 6.3.
    """

    name = "peeling"

    def choose(
        self,
        instance: ReclaimInstance,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Sequence[int]:
        """Return the servers that are left."""
        return peel_servers(instance, instance.index.is_on_loan)


def peel_servers(
    instance: ReclaimInstance, is_chosen: np.ndarray, *, by_share: bool = False
) -> list[int]:
    """Return servers from the chosen ones until N_R are left; give their positions.

    Parameters
    ----------
    is_chosen
        Shape (servers,): 1 for a chosen server on loan; at least N_R of them.
    by_share
        Whether the largest share decides alone, instead of the most weight rescued.
    """
    index = instance.index
    losses = index.losses
    left = peel.run(
        int(is_chosen.sum()) - instance.reclaim_servers,
        int(by_share),
        index.weight,
        losses.row_sums(is_chosen) - index.slack,
        is_chosen.copy(),
        losses.job_start,
        losses.job_servers,
        losses.job_counts,
        losses.server_start,
        losses.server_jobs,
        losses.server_counts,
        *(np.zeros(losses.servers, dtype=np.int64) for _ in range(4)),  # scratch
        work=losses.entries + losses.servers,
        largest=instance.total_weight * SHARE_UNIT * int(losses.job_counts.max(initial=1)),
    )
    return [int(position) for position in np.flatnonzero(left)]
