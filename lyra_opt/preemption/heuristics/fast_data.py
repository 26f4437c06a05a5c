"""The arrays of an instance and of a search, on which the kernels of the heuristic `fast` work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.preemption.costs import Costs, sum_by_gang
from lyra_opt.preemption.heuristics.fast_kernels import (
    DIRTY,
    NEVER,
    RANDOM,
    Data,
    Search,
)

if TYPE_CHECKING:
    from lyra_opt.preemption.index import Flags, Integers
    from lyra_opt.preemption.instance import Instance

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


@dataclass(frozen=True, slots=True)
class Base:
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

    data: Data
    search: Search
    shapes: Integers
    scale: int
    shift: int

    def start(self, within: Flags, wanted: Integers) -> tuple[Data, Search, Integers]:
        """Return the arrays of a search on some nodes, and the positions of these nodes.

        `within` marks the nodes, (N,), and `wanted` is the number of pods of each shape, (S,).
        """
        search, first = self.search, len(self.search.missing) - len(wanted)
        limit = self.data.limit.reshape(-1, len(within)).copy()
        limit[first:, ~within] = 0
        active = np.flatnonzero(limit.any(axis=0))
        own = {name: each.copy() for name, each in search._asdict().items() if name != "journal"}
        own["missing"][first:] = wanted[self.shapes]
        own["numbers"][DIRTY] = len(active)
        own["dirty"][: len(active)] = active
        own["is_dirty"][active] = 1
        return self.data._replace(limit=limit.ravel()), search._replace(**own), active


def base_of(
    instance: Instance, moves: Flags, is_frozen: Flags, *, by_size: bool, seed: int
) -> Base:
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
    data = Data(
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
    search = Search(
        numbers=np.where(np.arange(7) == RANDOM, seed, 0),
        free=free,
        stay=count,
        lost=np.zeros(len(gang)),
        slack=slack,
        placed=np.zeros(limit.size),
        missing=np.append(wanted, index.shape_count),
        price=np.full(limit.size * data.levels, NEVER),
        journal=np.zeros(24 * len(gang) + 6 * limit.size),
        **dict.fromkeys(("dirty", "is_dirty", "is_tabu"), np.zeros(len(free))),
    )
    return Base(_flat(data), _flat(search), shapes, scale, shift)


def _flat(arrays: Any) -> Any:
    """Return a named tuple of integers and arrays with new, flat arrays of int64."""
    flat = (
        each if isinstance(each, int) else np.array(each, dtype=np.int64).ravel() for each in arrays
    )
    return type(arrays)(*flat)
