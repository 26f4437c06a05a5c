"""The inner loops of packing: a first packing, and its improvement.

Units are where gangs can be: machines, then racks, then the network, from ``first_unit[tier]`` on.
``left[unit]`` is what of its GPUs no gang at it or below it uses, so a gang fits a unit if what is
left of it, and of all above it, is no less. The gangs at a unit are a list: ``head[unit]``, then
``following[gang]``, both ways, -1 at its ends.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lyra_opt.core.kernels import kernel


class Tree(NamedTuple):
    """Where gangs can be: arrays by unit, but for ``first_unit`` and each rack's ``first_machine``.

    ``parent`` is -1 for the network. ``parts`` is how many machines, or racks, of a unit had GPUs
    free (a gang across machines needs two), and ``capacity`` how many GPUs.
    """

    first_unit: Any
    parent: Any
    parts: Any
    first_machine: Any
    capacity: Any


class Gangs(NamedTuple):
    """GPUs of each gang, and its value at ``3 gang + tier``; 0 or less where it may not be."""

    size: Any
    value: Any


class Packing(NamedTuple):
    """Which gangs are where: two arrays by unit, three by gang; -1 for gangs that are nowhere.

    For gangs of ``too_large[tier]`` or more there is known to be no room at a tier.
    """

    left: Any
    head: Any
    following: Any
    previous: Any
    unit_of: Any
    too_large: Any


class Exchange(NamedTuple):
    """Gangs that make room for another: scratch space.

    ``leaving`` and ``chosen`` have the number of gangs, then the gangs, of the unit that is looked
    at and of the best. ``came_from`` is where the chosen were; ``marked`` is 1 for those leaving.
    """

    leaving: Any
    chosen: Any
    came_from: Any
    marked: Any


@kernel
def put(job: Any, unit: Any, gangs: Any, tree: Any, packing: Any) -> Any:
    """Let a gang start at a unit that has room."""
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
    """Take a gang off its unit; return the unit."""
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
    """Find the unit of a tier with room for a gang and least left, -1 for none.

    Among equals the one whose rack has least left, then the first.
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
    """Let a gang start where it is worth most of where there is room; return what it is worth.

    Where none is found, that is noted in ``too_large``.
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
    """Forget which gangs are too large, but for what is left in all."""
    for tier in range(3):
        packing.too_large[tier] = packing.left[tree.first_unit[2]] + 1
    return 0


@kernel
def pack_in_order(orders: Any, first: Any, gangs: Any, tree: Any, packing: Any) -> Any:
    """Let gangs choose in an order, from ``first`` on; return what those that start are worth."""
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
    """Return the tier of gangs at a unit."""
    if unit < first_unit[1]:
        return 0
    return 1 if unit < first_unit[2] else 2


@kernel
def loss_of(job: Any, unit: Any, relocates: Any, value: Any, first_unit: Any) -> Any:
    """Return what is lost if a gang leaves its unit, for another tier at best if it relocates."""
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
    """Return the first of the units below a unit, and their number, if the search begins there.

    Above where it begins, only gangs at the unit itself are of interest: there are none.
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
    """Return the gang of ``least_size`` GPUs or more that is cheapest to take off, and its loss.

    For each GPU if ``per_gpu``; of equals the first; -1 if there is none.
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
    """Let gangs leave, the cheapest for each GPU first, until ``lacking`` GPUs are free.

    Returns their loss; if it is ``limit`` or more, or they are too few, ``limit``, and none leaves.
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
    """Find gangs to take off so that one of ``size`` fits a unit; return what is lost with them.

    From the unit up, at each level that lacks room: of the gangs at the unit or below it (above
    the first level: at the unit alone), the cheapest single one that is enough, or the cheapest for
    each GPU one by one. ``leaving`` gets them. Returns ``limit`` or more if there are no such gangs
    that cost less. ``relocates`` is 1 if they may hope for another tier.
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
    """Put a gang at a unit, and those ``chosen`` where else there is room, or nowhere.

    Returns what all of them are worth more than before, the gang itself being nowhere.
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
    """Undo `put_chosen`: the gang is nowhere, and the chosen are where they were."""
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
    """Find where a gang brings most beyond ``least``, less what is lost with those that go.

    Returns the unit, -1 for none, and how many were looked at; ``chosen`` gets those that go.
    """
    size = gangs.size[job]
    capacity = tree.capacity
    leaving = exchange.leaving
    best_gain = 0.0
    best_unit = -1
    looked_at = 0
    for tier in range(3):
        worth = gangs.value[3 * job + tier]
        if worth <= least + best_gain:
            continue
        for unit in range(tree.first_unit[tier], tree.first_unit[tier + 1]):
            if capacity[unit] < size or (tier > 0 and tree.parts[unit] < 2):
                continue
            looked_at += 1
            if tier > 0:
                looked_at += capacity[unit] // size
            limit = worth - least - best_gain
            cost = cheapest_exit(unit, size, limit, relocates, gangs, tree, packing, exchange)
            if cost < limit:
                best_gain = worth - least - cost
                best_unit = unit
                for entry in range(leaving[0] + 1):
                    exchange.chosen[entry] = leaving[entry]
                if cost == 0.0:
                    break
    return best_unit, looked_at


@kernel
def improve(
    orders: Any, first: Any, budget: Any, gangs: Any, tree: Any, packing: Any, exchange: Any
) -> Any:
    """Let gangs that could be worth more take the places of others; return how much that gives.

    In turn each gang that does not start, or not where it is worth most, is put where that costs
    least, and the gangs that have to go look for other places; all is taken back unless it pays.
    It is tried in the hope that they find some at their best other tier, then without. Until a pass
    changes nothing, or ``budget`` units were looked at.
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
            # Rounding is no gain.
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
                unit, looked_at = best_place(job, least, relocates, gangs, tree, packing, exchange)
                budget -= looked_at
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
    """Let gangs choose in several orders, improve each packing; return the units of the best.

    ``orders`` has one after the other; ``budget`` units are looked at to improve all of them. Gangs
    that do not start have the unit -1.
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
