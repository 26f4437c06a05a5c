"""What the machines of a rack do best at given prices: three dynamic programmes, one on another.

Prices and values are integers, so that nothing is rounded. Arrays are flat. The machines of a class
of racks are neighbours, from ``first_machine[class]`` on. ``sizes`` are the different gangs, in
rising order, and ``counts`` and ``prices`` have an entry for (tier, size) at ``tier sizes + size``,
tier 0 for gangs on one machine and 1 for gangs in one rack.
"""

from __future__ import annotations

from typing import Any

from lyra_opt.core.kernels import kernel

NONE = -(2**62)
"""Value of what cannot be; below that of anything that can."""


@kernel
def fill_exactly(
    room: Any, sizes: Any, counts: Any, prices: Any, offset: Any, best: Any, taken: Any
) -> Any:
    """Earn most from gangs that use exactly u of the GPUs, for each u up to ``room``.

    ``best[u]`` is what they earn, `NONE` if there are none, and ``taken[size (room + 1) + u]`` how
    many of a size the best choice among it and the smaller ones has. At most ``counts`` of each.
    """
    for used in range(room + 1):
        best[used] = NONE
    best[0] = 0
    for size in range(len(sizes)):
        gang = sizes[size]
        row = size * (room + 1)
        count = counts[offset + size]
        price = prices[offset + size]
        for used in range(room, -1, -1):
            taken[row + used] = 0
            most = used // gang
            if count < most:
                most = count
            value = best[used]
            for copies in range(1, most + 1):
                rest = best[used - copies * gang]
                if rest > NONE and rest + copies * price > value:
                    value = rest + copies * price
                    taken[row + used] = copies
            best[used] = value
    return 0


@kernel
def fill_racks(
    first_machine: Any,
    free: Any,
    gpus: Any,
    spans: Any,
    sizes: Any,
    counts: Any,
    prices: Any,
    network_price: Any,
    penalty: Any,
    largest: Any,
    machine_best: Any,
    machine_taken: Any,
    most_within: Any,
    where_within: Any,
    rack_best: Any,
    rack_taken: Any,
    passed_best: Any,
    before: Any,
    passed_by: Any,
    columns: Any,
) -> Any:
    """Find what each class of racks does best; return a column for each.

    A machine fills itself with gangs, passes some of its GPUs to its rack, and leaves the rest
    idle, for ``penalty`` if that is neither none nor all of ``gpus``. What it passes is used up:
    by gangs in the rack if ``spans``, and by the network at ``network_price`` each.

    Column of a class, at ``class (2 sizes + 3)``: gangs of each size on machines, then in the
    rack, GPUs for the network, machines that cost the penalty, and what all of it earns.

    The other arrays are scratch space: ``largest`` is the most GPUs free on a machine, and the
    sizes follow from it and the most GPUs free in a rack.
    """
    kinds = len(sizes)
    width = 2 * kinds + 3
    row_length = len(passed_best)
    fill_exactly(largest, sizes, counts, prices, 0, machine_best, machine_taken)
    # The best that uses at most so many.
    at = 0
    for used in range(largest + 1):
        if machine_best[used] > machine_best[at]:
            at = used
        most_within[used] = machine_best[at]
        where_within[used] = at
    fill_exactly(row_length - 1, sizes, counts, prices, kinds, rack_best, rack_taken)
    for group in range(len(first_machine) - 1):
        begin = first_machine[group]
        machines = first_machine[group + 1] - begin
        reach = 0
        passed_best[0] = 0
        for machine in range(machines):
            room = free[begin + machine]
            for passed in range(reach + 1):
                before[passed] = passed_best[passed]
            for passed in range(reach + room + 1):
                passed_best[passed] = NONE
            for own in range(room + 1):
                kept = room - own
                value = machine_best[kept]
                if kept > 0:
                    # At least one idle: that is free of charge only if the whole machine is.
                    idle = most_within[kept - 1] - penalty
                    if idle > value:
                        value = idle
                    if own == 0 and room == gpus[begin + machine] and value < 0:
                        value = 0
                if value == NONE:
                    continue
                for passed in range(reach + 1):
                    if before[passed] > NONE and before[passed] + value > passed_best[passed + own]:
                        passed_best[passed + own] = before[passed] + value
                        passed_by[machine * row_length + passed + own] = own
            reach += room
        value = NONE
        passed_on = 0
        in_rack = 0
        for passed in range(reach + 1):
            if passed_best[passed] == NONE:
                continue
            for used in range(passed + 1):
                if rack_best[used] == NONE or (used > 0 and not spans[group]):
                    continue
                found = passed_best[passed] + rack_best[used] + network_price * (passed - used)
                if found > value:
                    value = found
                    passed_on = passed
                    in_rack = used
        # Read off the choices.
        column = group * width
        for entry in range(width):
            columns[column + entry] = 0
        columns[column + 2 * kinds] = passed_on - in_rack
        columns[column + 2 * kinds + 2] = value
        used = in_rack
        for size in range(kinds - 1, -1, -1):
            copies = rack_taken[size * row_length + used]
            columns[column + kinds + size] = copies
            used -= copies * sizes[size]
        passed = passed_on
        for machine in range(machines - 1, -1, -1):
            room = free[begin + machine]
            own = passed_by[machine * row_length + passed]
            passed -= own
            kept = room - own
            value = machine_best[kept]
            used = kept
            is_partly_idle = False
            if kept > 0:
                idle = most_within[kept - 1] - penalty
                if idle > value:
                    value = idle
                    used = where_within[kept - 1]
                    is_partly_idle = True
                if own == 0 and room == gpus[begin + machine] and value < 0:
                    used = 0
                    is_partly_idle = False
            if is_partly_idle:
                columns[column + 2 * kinds + 1] += 1
            for size in range(kinds - 1, -1, -1):
                copies = machine_taken[size * (largest + 1) + used]
                columns[column + size] += copies
                used -= copies * sizes[size]
    return columns


@kernel
def fill_cluster(room: Any, gang: Any, gain: Any, copies: Any, best: Any) -> Any:
    """Return the most that gangs gain together that use at most ``room`` GPUs; whole gangs."""
    for used in range(room + 1):
        best[used] = 0
    for job in range(len(gang)):
        size = gang[job]
        most = room // size
        if copies[job] < most:
            most = copies[job]
        for _ in range(most):
            for used in range(room, size - 1, -1):
                if best[used - size] + gain[job] > best[used]:
                    best[used] = best[used - size] + gain[job]
    return best[room]
