"""Empty as many nodes as possible by moving their pods into the free room of other nodes.

Only pods of emptied nodes move, because the commands of a plan drain these nodes and touch no
others. The model has a column b for each node that can be emptied, and a column i for the pods of
each kind that come to each node. Pods of a kind have equal requests and selectors.

```
sum_n i_kn                        >=  sum_n (pods of kind k on n) b_n   for each kind k
sum_k request_kr i_kn             <=  free_nr (1 - b_n)                 for each node n, resource r
sum_k floor(request_kr / s) i_kn  <=  floor(free_nr / s) (1 - b_n)      for each amount s of r
```

The rows of the last line follow from those before, in integers; they tighten the relaxation.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from lyra_opt.core.result import Limits
from lyra_opt.core.stopwatch import limited_to
from lyra_opt.preemption import Instance, Solution
from lyra_opt.preemption.exact.kinds import matched_moves, pod_kinds
from lyra_opt.preemption.exact.programme import Linear, Programme

MOST_SIZES = 12
"""Most different amounts of a resource for which rows are rounded down."""

MOVES_S = 2.0
"""Time in seconds to reduce the number of moves."""

NONE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Emptied:
    """The largest known number of nodes that can be emptied.

    Parameters
    ----------
    solution
        The nodes to empty and the moves of their pods; None if no node can be emptied, or if none
        was found within the time limit.
    most
        A proved upper bound on the number of nodes.
    """

    solution: Solution | None
    most: int


def most_emptied(
    instance: Instance,
    *,
    most_moves: int | None = None,
    forced: Collection[str] = (),
    excluded: Collection[str] = (),
    time_limit_s: float = 60.0,
) -> Emptied:
    """Return the largest number of nodes that can be emptied, with few moves.

    Parameters
    ----------
    instance
        Its nodes that can be chosen to be emptied, its gangs and their movability count; the number
        of nodes to empty does not.
    most_moves
        Largest number of pods that move; None for any number.
    forced, excluded
        Names of nodes that must be emptied, and of nodes that must not.
    """
    index, names = instance.index, [node.id for node in instance.nodes]
    moves = index.may_move[index.group_gang]
    is_held = np.zeros(len(names), dtype=bool)
    is_held[index.group_node[~moves]] = True
    barred = np.array([name in excluded for name in names])
    chosen = np.flatnonzero(index.can_be_chosen_empty & ~is_held & ~barred)
    programme = Programme()
    b = programme.columns(np.ones(len(chosen)))
    b_of = np.full(len(names), NONE)
    b_of[chosen] = b
    groups = np.flatnonzero(b_of[index.group_node] != NONE)
    kinds, first, rooms = pod_kinds(instance, groups, index.free)
    kind, node = np.nonzero(rooms)
    i = programme.columns(rooms[kind, node])
    request = index.group_request[first]
    count, b_here = index.group_count[groups], b_of[index.group_node[groups]]
    programme.at_most(np.zeros(len(rooms)), (kinds, b_here, count), (kind, i, -1))
    for r in range(index.free.shape[1]):
        sizes = np.unique(request[:, r])
        units = sizes[sizes > 0].tolist() if len(sizes) <= MOST_SIZES else []
        for unit in {1, *units}:
            free = index.free[:, r] // unit
            closing = (chosen, b, free[chosen])
            programme.at_most(free, (node, i, request[kind, r] // unit), closing)
    if most_moves is not None:
        programme.at_most([most_moves], (0, b_here, count))
    for name in forced:
        column = b_of[names.index(name)]
        if column == NONE:
            return Emptied(solution=None, most=0)
        programme.at_most([-1], (0, column, -1))
    programme.terms.append(Linear(b, np.full(len(b), -1), len(b)))
    with limited_to(Limits(time_s=time_limit_s)):
        outcome = programme.minimise()
    if outcome.bound is None:
        return Emptied(solution=None, most=0)
    most = len(b) - outcome.bound[0]
    if outcome.values is None or not outcome.values[b].any():
        return Emptied(solution=None, most=most)
    values = _with_fewer_moves(programme, b, Linear(b_here, count), outcome.values)
    into: dict[int, dict[int, int]] = {}
    for k, n, pods in zip(kind.tolist(), node.tolist(), values[i].tolist(), strict=True):
        into.setdefault(k, {})[n] = pods
    emptied = chosen[values[b] > 0]
    leaving = np.isin(index.group_node[groups], emptied)
    columns = (each[leaving].tolist() for each in (groups, kinds, count))
    nothing = np.zeros(len(index.group_count), dtype=np.int64)
    solution = Solution.of_counts(
        instance,
        lost=nothing.tolist(),
        placed=np.zeros((0, len(names)), dtype=np.int64),
        moved=matched_moves(zip(*columns, strict=True), into),
        emptied=emptied.tolist(),
    )
    return Emptied(solution=solution, most=most)


def _with_fewer_moves(
    programme: Programme, b: np.ndarray, moves: Linear, values: np.ndarray
) -> np.ndarray:
    """Return values with as many empty nodes and with fewer moves, as far as time allows.

    A sum of both terms as one objective would take HiGHS a thousand times as long.
    """
    size = int(values[b].sum())
    programme.between(size, size, b)
    programme.terms[:] = [moves]
    with limited_to(Limits(time_s=MOVES_S)):
        found = programme.minimise().values
    return values if found is None else found
