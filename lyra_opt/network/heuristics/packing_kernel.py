"""The inner loops of packing: build a packing in a given order, then improve it.

A unit is a machine, a rack or the network; units of a tier start at ``first_unit[tier]``.
``left[unit]`` is the number of its GPUs that no gang at the unit or below uses. A gang fits a unit
if this number is large enough for the unit and all units above it. The gangs at a unit form a
doubly linked list, ``head[unit]`` and then ``following[gang]``, with -1 at the ends.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lyra_opt.core.kernels import kernel


class Tree(NamedTuple):
    """The tree of the machines, racks and network, which are called units, as arrays.

    Arrays are by unit, except for ``first_unit`` (by tier) and ``first_machine`` (by rack).

    ``parent`` is -1 for the network. ``parts`` is the number of machines, or racks, of a unit that
    had free GPUs; a gang on several machines needs two. ``capacity`` is the number of free GPUs.
    """

    first_unit: Any
    parent: Any
    parts: Any
    first_machine: Any
    capacity: Any


class Gangs(NamedTuple):
    """The size of each gang in GPUs, and its value at each tier, as flat arrays.

    The value is at ``3 gang + tier``; it is 0 or less where the gang must not start.
    """

    size: Any
    value: Any


class Packing(NamedTuple):
    """A packing of gangs: the machine, rack or network (unit) of each gang, -1 if it must wait.

    ``left`` and ``head`` are by unit, ``following``, ``previous`` and ``unit_of`` by gang.

    Gangs of ``too_large[tier]`` GPUs or more are known not to fit at a tier.
    """

    left: Any
    head: Any
    following: Any
    previous: Any
    unit_of: Any
    too_large: Any


class Exchange(NamedTuple):
    """Scratch arrays for gangs that make room for another gang.

    ``leaving`` and ``chosen`` hold the number of gangs, then the gangs, for the current unit and
    for the best unit. ``came_from`` is the unit of each chosen gang. ``marked`` is 1 for leaving
    gangs.
    """

    leaving: Any
    chosen: Any
    came_from: Any
    marked: Any


@kernel
def put(job: Any, unit: Any, gangs: Any, tree: Any, packing: Any) -> Any:
    """Start a gang on a unit (a machine or a rack) that has enough free GPUs."""
    head = packing.head
    packing.unit_of[job] = unit
    packing.following[job] = head[unit]
    packing.previous[job] = -1
    if head[unit] >= 0:
        packing.previous[head[unit]] = job
    head[unit] = job
    while unit >= 0:
        packing.left[unit] -= gangs.size[job]
        unit = tree.parent[unit]
    return 0


@kernel
def take_off(job: Any, gangs: Any, tree: Any, packing: Any) -> Any:
    """Remove a gang from its unit and return the unit."""
    following = packing.following
    previous = packing.previous
    unit = packing.unit_of[job]
    packing.unit_of[job] = -1
    if previous[job] >= 0:
        following[previous[job]] = following[job]
    else:
        packing.head[unit] = following[job]
    if following[job] >= 0:
        previous[following[job]] = previous[job]
    above = unit
    while above >= 0:
        packing.left[above] += gangs.size[job]
        above = tree.parent[above]
    return unit


@kernel
def tightest_unit(size: Any, tier: Any, tree: Any, left: Any) -> Any:
    """Return the unit of a tier, such as a rack, that fits a gang most tightly; -1 if no unit fits.

    Ties go to the machine whose rack has the fewest free GPUs, then to the first unit.
    """
    first_unit = tree.first_unit
    parent = tree.parent
    parts = tree.parts
    found = -1
    found_left = 0
    found_rack_left = 0
    if left[first_unit[2]] < size:
        return -1
    for unit in range(first_unit[tier], first_unit[tier + 1]):
        own = left[unit]
        if own < size or (found >= 0 and own > found_left):
            continue
        if tier == 0:
            rack_left = left[parent[unit]]
            if rack_left < size or (
                found >= 0 and own == found_left and rack_left >= found_rack_left
            ):
                continue
            found_rack_left = rack_left
        elif parts[unit] < 2 or (found >= 0 and own == found_left):
            continue
        found = unit
        found_left = own
    return found


@kernel
def insert(job: Any, gangs: Any, tree: Any, packing: Any) -> Any:
    """Start a gang at its most valuable tier with room; return its value there, 0 without room.

    A tier without room is recorded in ``too_large``.
    """
    value = gangs.value
    size = gangs.size[job]
    tried = -1
    for _ in range(3):
        tier = -1
        for other in range(3):
            worth = value[3 * job + other]
            if worth <= 0.0:
                continue
            if tried >= 0 and (
                worth > value[3 * job + tried]
                or (worth == value[3 * job + tried] and other <= tried)
            ):
                continue
            if tier < 0 or worth > value[3 * job + tier]:
                tier = other
        if tier < 0:
            return 0.0
        if size < packing.too_large[tier]:
            unit = tightest_unit(size, tier, tree, packing.left)
            if unit >= 0:
                put(job, unit, gangs, tree, packing)
                return value[3 * job + tier]
            packing.too_large[tier] = size
        tried = tier
    return 0.0


@kernel
def forget_sizes(tree: Any, packing: Any) -> Any:
    """Forget the gang sizes that were found not to fit at each tier.

    ``too_large`` becomes one more than the total number of free GPUs.
    """
    for tier in range(3):
        packing.too_large[tier] = packing.left[tree.first_unit[2]] + 1
    return 0


@kernel
def pack_in_order(orders: Any, first: Any, gangs: Any, tree: Any, packing: Any) -> Any:
    """Place gangs in a given order, each at its most valuable tier; return their total value.

    The order starts at ``orders[first]``.
    """
    left = packing.left
    network = tree.first_unit[2]
    total = 0.0
    forget_sizes(tree, packing)
    for place in range(len(gangs.size)):
        job = orders[first + place]
        if packing.unit_of[job] < 0 and gangs.size[job] <= left[network]:
            total += insert(job, gangs, tree, packing)
    return total


@kernel
def tier_of(unit: Any, first_unit: Any) -> Any:
    """Return the tier of a unit: 0 for a machine, 1 for a rack, 2 for the network."""
    if unit < first_unit[1]:
        return 0
    return 1 if unit < first_unit[2] else 2


@kernel
def loss_of(job: Any, unit: Any, relocates: Any, value: Any, first_unit: Any) -> Any:
    """Return the value that a gang loses if it must leave its machine, rack or the network.

    If ``relocates`` is 1, the gang may move to its best other tier.
    """
    tier = tier_of(unit, first_unit)
    worth = value[3 * job + tier]
    loss = worth
    if relocates == 1:
        for other in range(3):
            if other != tier and worth - value[3 * job + other] < loss:
                loss = worth - value[3 * job + other]
    return max(0.0, loss)


@kernel
def first_below(at: Any, begins: Any, tree: Any) -> Any:
    """Return the first unit below a unit in the tree, and the number of units below it.

    The number is 0 if ``begins`` is 0, because the search for gangs began at a lower unit.

    Above its start, a search considers only gangs at the unit itself.
    """
    first_unit = tree.first_unit
    tier = tier_of(at, first_unit)
    if begins == 0 or tier == 0:
        return 0, 0
    if tier == 2:
        return 0, at
    rack = at - first_unit[1]
    first = tree.first_machine[rack]
    return first, tree.first_machine[rack + 1] - first


@kernel
def cheapest(
    at: Any,
    begins: Any,
    least_size: Any,
    per_gpu: Any,
    relocates: Any,
    gangs: Any,
    tree: Any,
    packing: Any,
    marked: Any,
) -> Any:
    """Return the gang at or below a unit whose exit loses the least value, and this loss.

    Only gangs of at least ``least_size`` GPUs count.

    With ``per_gpu`` the loss per GPU counts. Ties go to the first gang; -1 if no gang qualifies.
    """
    first, count = first_below(at, begins, tree)
    size = gangs.size
    best = -1
    best_loss = 0.0
    for entry in range(count + 1):
        unit = at if entry == 0 else first + entry - 1
        job = packing.head[unit]
        while job >= 0:
            if marked[job] == 0 and size[job] >= least_size:
                loss = loss_of(job, unit, relocates, gangs.value, tree.first_unit)
                if best < 0 or (
                    loss * size[best] < best_loss * size[job] if per_gpu else loss < best_loss
                ):
                    best = job
                    best_loss = loss
            job = packing.following[job]
    return best, best_loss


@kernel
def cheapest_several(
    at: Any,
    begins: Any,
    lacking: Any,
    limit: Any,
    relocates: Any,
    gangs: Any,
    tree: Any,
    packing: Any,
    exchange: Any,
) -> Any:
    """Choose gangs that leave, least loss per GPU first, until ``lacking`` GPUs are free.

    Returns their total loss. If it reaches ``limit``, or the gangs do not suffice, no gang leaves
    and ``limit`` is returned.
    """
    leaving = exchange.leaving
    marked = exchange.marked
    start = leaving[0]
    missing = lacking
    total = 0.0
    while missing > 0 and total < limit:
        job, loss = cheapest(at, begins, 1, 1, relocates, gangs, tree, packing, marked)
        if job < 0:
            break
        marked[job] = 1
        leaving[0] += 1
        leaving[leaving[0]] = job
        total += loss
        missing -= gangs.size[job]
    if missing > 0 or total >= limit:
        while leaving[0] > start:
            marked[leaving[leaving[0]]] = 0
            leaving[0] -= 1
        return limit
    return total


@kernel
def cheapest_exit(
    unit: Any,
    size: Any,
    limit: Any,
    relocates: Any,
    gangs: Any,
    tree: Any,
    packing: Any,
    exchange: Any,
) -> Any:
    """Find the cheapest gangs to displace so that a new gang fits a unit; return the lost value.

    The search goes from the unit upwards and stops at each level that lacks room. It considers
    gangs at the unit or below; above the first level, only gangs at the unit itself. It compares
    the cheapest sufficient single gang with the cheapest gangs per GPU. ``leaving`` receives the
    result. Returns ``limit`` or more if no gangs cost less. ``relocates`` is 1 if the gangs may
    move to another tier.
    """
    leaving = exchange.leaving
    marked = exchange.marked
    leaving[0] = 0
    cost = 0.0
    freed = 0
    at = unit
    while at >= 0:
        lacking = size - packing.left[at] - freed
        if lacking > 0:
            begins = 1 if at == unit else 0
            single, single_cost = cheapest(
                at, begins, lacking, 0, relocates, gangs, tree, packing, marked
            )
            if single < 0 or single_cost >= limit:
                single = -1
                single_cost = limit
            start = leaving[0]
            total = cheapest_several(
                at, begins, lacking, single_cost, relocates, gangs, tree, packing, exchange
            )
            if leaving[0] == start:
                if single < 0:
                    cost = limit
                    break
                leaving[0] += 1
                leaving[leaving[0]] = single
                marked[single] = 1
            cost += total
            if cost >= limit:
                break
            for entry in range(start, leaving[0]):
                freed += gangs.size[leaving[entry + 1]]
        at = tree.parent[at]
    for entry in range(leaving[0]):
        marked[leaving[entry + 1]] = 0
    return cost


@kernel
def put_chosen(job: Any, unit: Any, gangs: Any, tree: Any, packing: Any, exchange: Any) -> Any:
    """Start a gang at a unit, and move the gangs that it displaces to other units, if they fit.

    Returns the change in total value, if the gang itself did not run before.
    """
    value = gangs.value
    chosen = exchange.chosen
    first_unit = tree.first_unit
    gain = value[3 * job + tier_of(unit, first_unit)]
    for entry in range(chosen[0]):
        other = chosen[entry + 1]
        gain -= loss_of(other, packing.unit_of[other], 0, value, first_unit)
        exchange.came_from[entry] = take_off(other, gangs, tree, packing)
    put(job, unit, gangs, tree, packing)
    forget_sizes(tree, packing)
    for entry in range(chosen[0]):
        gain += insert(chosen[entry + 1], gangs, tree, packing)
    return gain


@kernel
def put_back(job: Any, gangs: Any, tree: Any, packing: Any, exchange: Any) -> Any:
    """Undo `put_chosen`: remove the gang, and return the chosen gangs to their units."""
    chosen = exchange.chosen
    for entry in range(chosen[0]):
        other = chosen[entry + 1]
        if packing.unit_of[other] >= 0:
            take_off(other, gangs, tree, packing)
    take_off(job, gangs, tree, packing)
    for entry in range(chosen[0]):
        put(chosen[entry + 1], exchange.came_from[entry], gangs, tree, packing)
    return 0


@kernel
def best_place(
    job: Any, least: Any, relocates: Any, gangs: Any, tree: Any, packing: Any, exchange: Any
) -> Any:
    """Find the unit where a gang gains most after the losses of the gangs that it displaces.

    Only the gain above ``least`` counts.

    Returns the unit, -1 if none, and the number of units searched; ``chosen`` receives the leaving
    gangs.
    """
    size = gangs.size[job]
    capacity = tree.capacity
    leaving = exchange.leaving
    best_gain = 0.0
    best_unit = -1
    searched = 0
    for tier in range(3):
        worth = gangs.value[3 * job + tier]
        if worth <= least + best_gain:
            continue
        for unit in range(tree.first_unit[tier], tree.first_unit[tier + 1]):
            if capacity[unit] < size or (tier > 0 and tree.parts[unit] < 2):
                continue
            searched += 1
            if tier > 0:
                searched += capacity[unit] // size
            limit = worth - least - best_gain
            cost = cheapest_exit(unit, size, limit, relocates, gangs, tree, packing, exchange)
            if cost < limit:
                best_gain = worth - least - cost
                best_unit = unit
                for entry in range(leaving[0] + 1):
                    exchange.chosen[entry] = leaving[entry]
                if cost == 0.0:
                    break
    return best_unit, searched


@kernel
def improve(
    orders: Any, first: Any, budget: Any, gangs: Any, tree: Any, packing: Any, exchange: Any
) -> Any:
    """Let gangs replace other gangs where this increases the total value; return the increase.

    Each gang that is not at its best tier is put, in turn, where the lost value is least. The
    displaced gangs look for other units, and the move is undone unless it pays. A first attempt
    assumes that displaced gangs find their best other tier; a second assumes that they do not. The
    search ends when a pass changes nothing or ``budget`` units were searched.
    """
    value = gangs.value
    gained = 0.0
    changes = 1
    while changes > 0:
        changes = 0
        for place in range(len(gangs.size)):
            if budget <= 0:
                return gained
            job = orders[first + place]
            home = packing.unit_of[job]
            own = 0.0
            if home >= 0:
                own = loss_of(job, home, 0, value, tree.first_unit)
            most = max(own, value[3 * job], value[3 * job + 1], value[3 * job + 2])
            # Gains below this limit may be rounding errors.
            least = own + 1e-9 * most
            if most <= least:
                continue
            if home >= 0:
                take_off(job, gangs, tree, packing)
            is_placed = False
            for attempt in range(2):
                relocates = 1 - attempt
                if relocates == 1 and packing.left[tree.first_unit[2]] < gangs.size[job]:
                    continue
                unit, searched = best_place(job, least, relocates, gangs, tree, packing, exchange)
                budget -= searched
                if unit < 0:
                    continue
                gain = put_chosen(job, unit, gangs, tree, packing, exchange)
                if gain > least:
                    gained += gain - own
                    changes += 1
                    is_placed = True
                    break
                put_back(job, gangs, tree, packing, exchange)
            if home >= 0 and not is_placed:
                put(job, home, gangs, tree, packing)
    return gained


@kernel
def best_packing(
    orders: Any, budget: Any, gangs: Any, tree: Any, packing: Any, exchange: Any, best_unit_of: Any
) -> Any:
    """Pack gangs in several orders, improve each packing, and return the units of the best one.

    ``orders`` lists the orders one after the other. ``budget`` is the number of units searched over
    all packings. Gangs that do not start have the unit -1.
    """
    jobs = len(gangs.size)
    packings = len(orders) // jobs
    best = -1.0
    for number in range(packings):
        for unit in range(len(tree.capacity)):
            packing.left[unit] = tree.capacity[unit]
            packing.head[unit] = -1
        for job in range(jobs):
            packing.unit_of[job] = -1
        first = number * jobs
        worth = pack_in_order(orders, first, gangs, tree, packing)
        worth += improve(orders, first, budget // packings, gangs, tree, packing, exchange)
        if worth > best:
            best = worth
            for job in range(jobs):
                best_unit_of[job] = packing.unit_of[job]
    return best_unit_of
