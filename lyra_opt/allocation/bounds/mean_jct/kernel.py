"""The inner loop of the bound of mean busy times: a fractional knapsack at each point of time."""

from __future__ import annotations

from typing import Any, NamedTuple

from lyra_opt.core.kernels import kernel


class Segments(NamedTuple):
    """Segments of jobs, by release: each is worth ``(reach - time) / cost`` a GPU, up to capacity.

    Scratch, as long: ``active`` lists segments that are worth something, ``worth`` is how much.
    """

    reach: Any
    cost: Any
    capacity: Any
    active: Any
    worth: Any


@kernel
def gather(known: int, added: int, released: int, time: float, segments: Any) -> Any:
    """List what is worth something now: of the `known`, and of what has been released since.

    Return how many those are, and their capacity.
    """
    active = segments.active
    while added < released:
        active[known] = added
        known += 1
        added += 1
    kept = 0
    wanted = 0.0
    for place in range(known):
        segment = active[place]
        value = (segments.reach[segment] - time) / segments.cost[segment]
        if value > 0.0:  # else it never is again
            active[kept] = segment
            segments.worth[kept] = value
            wanted += segments.capacity[segment]
            kept += 1
    return kept, wanted


@kernel
def fill(actives: int, room: float, segments: Any) -> Any:
    """Put in front what is worth most, until the room is used up; as in quickselect.

    Returns ``(full, shares, room, steps)``: up to ``full`` each segment gets its capacity; if
    ``shares``, those from there on are worth equally much and share the room that is left.
    """
    active = segments.active
    worth = segments.worth
    capacity = segments.capacity
    steps = 0.0
    low = 0
    high = actives
    while low < high:
        steps += high - low
        first = worth[low]
        middle = worth[(low + high) // 2]
        last = worth[high - 1]
        pivot = max(min(first, middle), min(max(first, middle), last))
        above = low  # from `low` on worth more than the pivot, then equal, unseen, less
        unseen = low
        below = high
        wanted = 0.0
        equal = 0.0
        while unseen < below:
            value = worth[unseen]
            segment = active[unseen]
            if value > pivot:
                wanted += capacity[segment]
                worth[unseen] = worth[above]
                active[unseen] = active[above]
                worth[above] = value
                active[above] = segment
                above += 1
                unseen += 1
            elif value < pivot:
                below -= 1
                worth[unseen] = worth[below]
                active[unseen] = active[below]
                worth[below] = value
                active[below] = segment
            else:
                equal += capacity[segment]
                unseen += 1
        if wanted >= room:
            high = above
        elif wanted + equal >= room:
            return above, True, room - wanted, steps
        else:
            room -= wanted + equal
            low = below
    return low, False, room, steps


@kernel
def fill_nodes(
    first: int,
    most_steps: float,
    times: Any,
    weights: Any,
    released: Any,
    gpus: int,
    segments: Any,
    held: Any,
    totals: Any,
) -> Any:
    """Give the GPUs at each node of time to the segments that are worth most there.

    Goes on at node `first` with what it has returned for those before, about so many steps.

    The first `released` of a node are released. Times do not decrease.

    Returns ``(node, held, totals)``: the first node that is left; the GPU-seconds held by each
    segment; and the sum of worth times GPU-seconds, the number of steps taken, and of segments that
    are still worth something and that were released.

    Complexity O(segments worth something) expected a node, by partitioning as in quickselect.
    """
    active = segments.active
    worth = segments.worth
    capacity = segments.capacity
    earned = totals[0]
    steps = totals[1]
    actives = int(totals[2])
    added = int(totals[3])
    most_steps += steps
    node = first
    while node < len(times) and steps <= most_steps:
        steps += actives + released[node] - added
        actives, wanted = gather(actives, added, released[node], times[node], segments)
        added = max(added, released[node])
        room = 1.0 * gpus
        full = actives
        shares = False
        if wanted > room:
            full, shares, room, taken = fill(actives, room, segments)
            steps += taken
        here = 0.0
        weight = weights[node]
        for place in range(full):
            segment = active[place]
            here += worth[place] * capacity[segment]
            held[segment] += weight * capacity[segment]
        place = full
        while shares and place < actives and room > 0.0:
            segment = active[place]
            given = min(room, capacity[segment])
            here += worth[place] * given
            held[segment] += weight * given
            room -= given
            place += 1
        steps += full
        earned += weight * here
        node += 1
    totals[0] = earned
    totals[1] = steps
    totals[2] = actives
    totals[3] = added
    return node, held, totals
