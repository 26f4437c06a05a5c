"""Peeling, the greedy in reverse: start from all servers, give back the one that rescues most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.exact_sums import exact_sum
from lyra_opt.core.kernels import LARGEST_COMPILED_INTEGER, read_only
from lyra_opt.reclaim.bounds.dual_bound import PASSES as BOUND_PASSES
from lyra_opt.reclaim.heuristics.base import ReclaimHeuristic
from lyra_opt.reclaim.heuristics.greedy_kernels import SHARE_UNIT, Tournament, peel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.reclaim.incidence import Incidence, IntArray
    from lyra_opt.reclaim.instance import Instance
    from lyra_opt.reclaim.reduction import ReducedReclaim


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

    def choose(
        self,
        instance: Instance,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Sequence[int]:
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
