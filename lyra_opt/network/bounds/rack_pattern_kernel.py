"""Best use of the machines of a rack at given prices, by three nested dynamic programmes.

Prices and values are integers, so nothing is rounded. Arrays are flat.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lyra_opt.core.kernels import kernel

NONE = -(2**62)
"""Value of an impossible choice, below every possible value."""


class Racks(NamedTuple):
    """Free GPUs and all GPUs of the machines in each class of equal racks.

    The machines of a class start at ``first_machine[class]``.

    ``spans`` says whether gangs may span several machines of the rack.
    """

    first_machine: Any
    free: Any
    gpus: Any
    spans: Any


class Demand(NamedTuple):
    """The price that gangs of each size pay for a place, and the number of these gangs.

    Sizes are in increasing order.

    ``counts`` and ``prices`` have an entry for (tier, size) at ``tier sizes + size``, where tier 0
    is for gangs on one machine and tier 1 for gangs in one rack. The network pays ``network_price``
    per GPU. A machine that is left partly free costs the ``penalty``.
    """

    sizes: Any
    counts: Any
    prices: Any
    network_price: int
    penalty: int


class Fills(NamedTuple):
    """Scratch arrays for the best ways to fill a machine or rack with gangs, by GPUs used.

    ``most_within`` is the most that a machine earns with at most a given number of GPUs, and
    ``where_within`` the number used. Machine arrays have one entry more than the most free GPUs on
    a machine, rack arrays one more than the most in a rack.
    """

    machine_best: Any
    machine_taken: Any
    most_within: Any
    where_within: Any
    rack_taken: Any
    rack_best: Any


class Passing(NamedTuple):
    """Scratch arrays for the best earnings of a rack's machines, by GPUs passed to the rack.

    ``passed_by`` is the number of these GPUs that the last machine passes; it has one row per
    machine, as long as the other arrays.
    """

    best: Any
    before: Any
    passed_by: Any


@kernel
def fill_exactly(room: Any, offset: Any, demand: Any, best: Any, taken: Any) -> Any:
    """Maximise the income from gangs that use exactly u GPUs, for each u up to ``room``.

    ``best[u]`` is that income, or `NONE` if no gangs use exactly u GPUs. ``taken[size (room + 1) +
    u]`` is the number of gangs of a size in the best choice among this size and smaller sizes.
    ``offset`` is the tier's offset in counts and prices.
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
    """Return the best income of a machine from the GPUs that it does not pass to its rack.

    Also returns the number of GPUs used, and 1 if the machine stays partly free, else 0.

    ``is_whole`` says whether all GPUs of the machine are free and it keeps all of them.
    """
    value = fills.machine_best[kept]
    used = kept
    in_pieces = 0
    if kept > 0:
        # An idle GPU costs the penalty, unless the whole machine idles.
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
    """Compute the best earnings of a rack's machines for each number of GPUs passed to the rack.

    Returns the largest number that the machines can pass.
    """
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
    """Split the GPUs that machines pass between gangs in the rack and the network.

    Returns the income of the rack, the GPUs passed, and those that gangs in the rack use.
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
    """Add to a column the number of gangs of each size in a fill that uses ``used`` GPUs."""
    for size in range(len(sizes) - 1, -1, -1):
        copies = taken[size * length + used]
        columns[column + size] += copies
        used -= copies * sizes[size]
    return 0


@kernel
def fill_racks(racks: Any, demand: Any, fills: Any, passing: Any, columns: Any) -> Any:
    """Find the best pattern of each class of racks; return one column per class.

    A machine fills itself with gangs, passes some of its GPUs to its rack, and leaves the rest
    idle. It pays ``penalty`` if some but not all of ``gpus`` are idle. Passed GPUs are used up: by
    gangs in the rack if ``spans``, and by the network at ``network_price`` each.

    The column of a class starts at ``class (2 sizes + 3)``. It lists gangs of each size on
    machines, then in the rack, GPUs for the network, penalised machines, and the total income.
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
    """Return the largest total gain of whole gangs that use at most ``room`` GPUs."""
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
