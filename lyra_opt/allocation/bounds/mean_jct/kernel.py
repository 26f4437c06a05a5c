"""The inner loop of the bound of mean busy times: a fractional knapsack at each point of time."""

from __future__ import annotations

from typing import Any

from lyra_opt.core.kernels import kernel


@kernel
def fill_nodes(
    times: Any,
    weights: Any,
    available: Any,
    reach: Any,
    cost: Any,
    capacity: Any,
    gpus: int,
    active: Any,
    worth: Any,
    held: Any,
    totals: Any,
) -> Any:
    """Give the GPUs at each node of time to the segments that are worth most there.

    A segment is worth ``(reach - time) / cost`` a GPU, up to its capacity. Segments stand by
    release; the first `available` of a node are released. Times do not decrease.

    Returns ``(held, totals)``: the GPU-seconds held by each segment, and the sum of worth times
    GPU-seconds with the number of steps taken. `active` and `worth` are scratch.

    Complexity O(segments worth something) expected a node, by partitioning as in quickselect.
    """
    actives = 0
    added = 0
    earned = 0.0
    steps = 0.0
    for node in range(len(times)):
        time = times[node]
        while added < available[node]:
            active[actives] = added
            actives += 1
            added += 1
        kept = 0
        wanted = 0.0
        for place in range(actives):
            segment = active[place]
            value = (reach[segment] - time) / cost[segment]
            if value > 0.0:  # else it never is again
                active[kept] = segment
                worth[kept] = value
                wanted += capacity[segment]
                kept += 1
        steps += actives
        actives = kept
        room = 1.0 * gpus
        low = 0  # what stands before is given all that it can hold
        high = actives
        if wanted <= room:
            low = actives
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
                room -= wanted
                low = above
                break
            else:
                room -= wanted + equal
                low = below
        here = 0.0
        weight = weights[node]
        for place in range(low):
            segment = active[place]
            here += worth[place] * capacity[segment]
            held[segment] += weight * capacity[segment]
        place = low  # those that stand here are worth equally much, as far as there is room
        while place < actives and room > 0.0 and low < high:
            segment = active[place]
            given = min(room, capacity[segment])
            here += worth[place] * given
            held[segment] += weight * given
            room -= given
            place += 1
        steps += low
        earned += weight * here
    totals[0] = earned
    totals[1] = steps
    return held, totals
