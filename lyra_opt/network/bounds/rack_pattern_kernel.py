"""What the machines of a rack do best at given prices: three dynamic programmes, one on another.

Prices and values are integers, so that nothing is rounded. Arrays are flat.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lyra_opt.core.kernels import kernel

NONE = -(2**62)
"""Value of what cannot be; below that of anything that can."""


class Racks(NamedTuple):
    """Machines of each class of racks, from ``first_machine[class]`` on: GPUs free, and in all.

    ``spans`` is whether gangs may span machines of the rack.
    """

    first_machine: Any
    free: Any
    gpus: Any
    spans: Any


class Demand(NamedTuple):
    """What gangs pay: the different ``sizes`` in rising order, and at most how many of each.

    ``counts`` and ``prices`` have an entry for (tier, size) at ``tier sizes + size``, tier 0 for
    gangs on one machine and 1 for gangs in one rack. The network pays ``network_price`` a GPU, and
    a machine that is left in pieces costs the ``penalty``.
    """

    sizes: Any
    counts: Any
    prices: Any
    network_price: int
    penalty: int


class Fills(NamedTuple):
    """Scratch: the best fills of a machine and of a rack with exactly so many GPUs used.

    ``most_within`` is what a machine earns with at most so many, and ``where_within`` how many
    those are. The lengths of the first and the last are the most GPUs free on a machine, and in a
    rack, and one more.
    """

    machine_best: Any
    machine_taken: Any
    most_within: Any
    where_within: Any
    rack_taken: Any
    rack_best: Any


class Passing(NamedTuple):
    """Scratch: what machines earn that pass so many GPUs in all to their rack.

    ``passed_by`` is how many of those the last machine passes, a row of the length of the others
    for each machine.
    """

    best: Any
    before: Any
    passed_by: Any


@kernel
def fill_exactly(room: Any, offset: Any, demand: Any, best: Any, taken: Any) -> Any:
    """Earn most from gangs that use exactly u of the GPUs, for each u up to ``room``.

    ``best[u]`` is what they earn, `NONE` if there are none, and ``taken[size (room + 1) + u]`` how
    many of a size the best choice among it and the smaller ones has. ``offset`` is that of the tier
    in counts and prices.
    """
    sizes = demand.sizes
    for used in range(room + 1):
        best[used] = NONE
    best[0] = 0
    for size in range(len(sizes)):
        gang = sizes[size]
        row = size * (room + 1)
        count = demand.counts[offset + size]
        price = demand.prices[offset + size]
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
def use_of(kept: Any, is_whole: Any, penalty: Any, fills: Any) -> Any:
    """Return what the GPUs that a machine keeps earn, how many gangs use, and if it is in pieces.

    ``is_whole`` is whether the machine has all its GPUs, and keeps them.
    """
    value = fills.machine_best[kept]
    used = kept
    in_pieces = 0
    if kept > 0:
        # At least one idle: that is free of charge only if the whole machine is.
        idle = fills.most_within[kept - 1] - penalty
        if idle > value:
            value = idle
            used = fills.where_within[kept - 1]
            in_pieces = 1
        if is_whole and value < 0:
            value = 0
            used = 0
            in_pieces = 0
    return value, used, in_pieces


@kernel
def pass_on(group: Any, racks: Any, penalty: Any, fills: Any, passing: Any) -> Any:
    """Let the machines of a rack pass GPUs to it, one after the other; return how many at most."""
    best = passing.best
    before = passing.before
    begin = racks.first_machine[group]
    reach = 0
    best[0] = 0
    for machine in range(racks.first_machine[group + 1] - begin):
        room = racks.free[begin + machine]
        row = machine * len(best)
        for passed in range(reach + 1):
            before[passed] = best[passed]
        for passed in range(reach + room + 1):
            best[passed] = NONE
        for own in range(room + 1):
            is_whole = own == 0 and room == racks.gpus[begin + machine]
            value, _, _ = use_of(room - own, is_whole, penalty, fills)
            if value == NONE:
                continue
            for passed in range(reach + 1):
                if before[passed] > NONE and before[passed] + value > best[passed + own]:
                    best[passed + own] = before[passed] + value
                    passing.passed_by[row + passed + own] = own
        reach += room
    return reach


@kernel
def split_passed(reach: Any, spans: Any, network_price: Any, fills: Any, best: Any) -> Any:
    """Split what is passed among gangs in the rack and the network.

    Returns what the rack earns, the GPUs passed, and those of them that its gangs use.
    """
    rack_best = fills.rack_best
    value = NONE
    passed_on = 0
    in_rack = 0
    for passed in range(reach + 1):
        if best[passed] == NONE:
            continue
        for used in range(passed + 1):
            if rack_best[used] == NONE or (used > 0 and not spans):
                continue
            found = best[passed] + rack_best[used] + network_price * (passed - used)
            if found > value:
                value = found
                passed_on = passed
                in_rack = used
    return value, passed_on, in_rack


@kernel
def count_gangs(used: Any, column: Any, sizes: Any, taken: Any, length: Any, columns: Any) -> Any:
    """Add the gangs of a fill that uses so many GPUs to a column."""
    for size in range(len(sizes) - 1, -1, -1):
        copies = taken[size * length + used]
        columns[column + size] += copies
        used -= copies * sizes[size]
    return 0


@kernel
def fill_racks(racks: Any, demand: Any, fills: Any, passing: Any, columns: Any) -> Any:
    """Find what each class of racks does best; return a column for each.

    A machine fills itself with gangs, passes some of its GPUs to its rack, and leaves the rest
    idle, for ``penalty`` if that is neither none nor all of ``gpus``. What it passes is used up:
    by gangs in the rack if ``spans``, and by the network at ``network_price`` each.

    Column of a class, at ``class (2 sizes + 3)``: gangs of each size on machines, then in the
    rack, GPUs for the network, machines that cost the penalty, and what all of it earns.
    """
    sizes = demand.sizes
    kinds = len(sizes)
    width = 2 * kinds + 3
    machine_row = len(fills.machine_best)
    rack_row = len(fills.rack_best)
    fill_exactly(machine_row - 1, 0, demand, fills.machine_best, fills.machine_taken)
    at = 0
    for used in range(machine_row):
        if fills.machine_best[used] > fills.machine_best[at]:
            at = used
        fills.most_within[used] = fills.machine_best[at]
        fills.where_within[used] = at
    fill_exactly(rack_row - 1, kinds, demand, fills.rack_best, fills.rack_taken)
    for group in range(len(racks.first_machine) - 1):
        reach = pass_on(group, racks, demand.penalty, fills, passing)
        value, passed, in_rack = split_passed(
            reach, racks.spans[group], demand.network_price, fills, passing.best
        )
        # Read off the choices.
        column = group * width
        for entry in range(width):
            columns[column + entry] = 0
        columns[column + 2 * kinds] = passed - in_rack
        columns[column + 2 * kinds + 2] = value
        count_gangs(in_rack, column + kinds, sizes, fills.rack_taken, rack_row, columns)
        begin = racks.first_machine[group]
        for machine in range(racks.first_machine[group + 1] - begin - 1, -1, -1):
            room = racks.free[begin + machine]
            own = passing.passed_by[machine * rack_row + passed]
            passed -= own
            is_whole = own == 0 and room == racks.gpus[begin + machine]
            _, used, in_pieces = use_of(room - own, is_whole, demand.penalty, fills)
            columns[column + 2 * kinds + 1] += in_pieces
            count_gangs(used, column, sizes, fills.machine_taken, machine_row, columns)
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
