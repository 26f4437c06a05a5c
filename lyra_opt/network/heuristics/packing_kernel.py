"""The inner loops of packing: prices, a first packing, and its improvement.

Units are where gangs can be: machines, then racks, then the network, from ``first_unit[tier]`` on.
Each has a ``parent``, -1 for the network. ``left[unit]`` is what of its GPUs no gang at it or
below it uses, so a gang fits a unit if what is left of it, and of all above it, is no less. The
gangs at a unit are a list: ``head[unit]``, then ``following[gang]``, both ways, -1 at its ends.
``value`` has an entry for (gang, tier), at ``3 gang + tier``; 0 or less where it may not be.
"""

from __future__ import annotations

from typing import Any

from lyra_opt.core.kernels import kernel


@kernel
def put(
    job: Any,
    unit: Any,
    gang: Any,
    parent: Any,
    left: Any,
    head: Any,
    following: Any,
    previous: Any,
    unit_of: Any,
) -> Any:
    """Let a gang start at a unit that has room."""
    unit_of[job] = unit
    following[job] = head[unit]
    previous[job] = -1
    if head[unit] >= 0:
        previous[head[unit]] = job
    head[unit] = job
    while unit >= 0:
        left[unit] -= gang[job]
        unit = parent[unit]
    return 0


@kernel
def take_off(
    job: Any,
    gang: Any,
    parent: Any,
    left: Any,
    head: Any,
    following: Any,
    previous: Any,
    unit_of: Any,
) -> Any:
    """Take a gang off its unit; return the unit."""
    unit = unit_of[job]
    unit_of[job] = -1
    if previous[job] >= 0:
        following[previous[job]] = following[job]
    else:
        head[unit] = following[job]
    if following[job] >= 0:
        previous[following[job]] = previous[job]
    above = unit
    while above >= 0:
        left[above] += gang[job]
        above = parent[above]
    return unit


@kernel
def tightest_unit(size: Any, tier: Any, first_unit: Any, parent: Any, left: Any, parts: Any) -> Any:
    """Find the unit of a tier with room for a gang and least left, -1 for none.

    Among equals the one whose rack has least left, then the first. ``parts`` is how many machines,
    or racks, of a unit had GPUs free: a gang across machines needs two.
    """
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
def insert(
    job: Any,
    too_large: Any,
    gang: Any,
    value: Any,
    first_unit: Any,
    parent: Any,
    parts: Any,
    left: Any,
    head: Any,
    following: Any,
    previous: Any,
    unit_of: Any,
) -> Any:
    """Let a gang start where it is worth most of where there is room; return what it is worth.

    For gangs of ``too_large[tier]`` or more there is none; where none is found, that is noted.
    """
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
        if gang[job] < too_large[tier]:
            unit = tightest_unit(gang[job], tier, first_unit, parent, left, parts)
            if unit >= 0:
                put(job, unit, gang, parent, left, head, following, previous, unit_of)
                return value[3 * job + tier]
            too_large[tier] = gang[job]
        tried = tier
    return 0.0


@kernel
def forget_sizes(too_large: Any, first_unit: Any, left: Any) -> Any:
    """Forget which gangs are too large, but for what is left in all."""
    for tier in range(3):
        too_large[tier] = left[first_unit[2]] + 1
    return 0


@kernel
def pack_in_order(
    orders: Any,
    first: Any,
    too_large: Any,
    gang: Any,
    value: Any,
    first_unit: Any,
    parent: Any,
    parts: Any,
    left: Any,
    head: Any,
    following: Any,
    previous: Any,
    unit_of: Any,
) -> Any:
    """Let gangs choose in an order, from ``first`` on; return what those that start are worth."""
    total = 0.0
    forget_sizes(too_large, first_unit, left)
    for place in range(len(gang)):
        job = orders[first + place]
        if unit_of[job] < 0 and gang[job] <= left[first_unit[2]]:
            total += insert(
                job,
                too_large,
                gang,
                value,
                first_unit,
                parent,
                parts,
                left,
                head,
                following,
                previous,
                unit_of,
            )
    return total


@kernel
def loss_of(job: Any, unit: Any, relocates: Any, value: Any, first_unit: Any) -> Any:
    """Return what is lost if a gang leaves its unit, for another tier at best if it relocates."""
    tier = 0
    if unit >= first_unit[1]:
        tier = 1 if unit < first_unit[2] else 2
    worth = value[3 * job + tier]
    loss = worth
    if relocates == 1:
        for other in range(3):
            if other != tier and worth - value[3 * job + other] < loss:
                loss = worth - value[3 * job + other]
    return max(0.0, loss)


@kernel
def cheapest_exit(
    unit: Any,
    tier: Any,
    size: Any,
    limit: Any,
    relocates: Any,
    gang: Any,
    value: Any,
    first_unit: Any,
    parent: Any,
    left: Any,
    head: Any,
    following: Any,
    first_machine: Any,
    leaving: Any,
    marked: Any,
) -> Any:
    """Find gangs to take off so that one of ``size`` fits a unit; return what is lost with them.

    From the unit up, at each level that lacks room: of the gangs at the unit or below it (above
    the first level: at the unit alone), the cheapest single one that is enough, or the cheapest for
    each GPU one by one. ``leaving`` gets their number and then them. Returns ``limit`` or more if
    there are no such gangs that cost less. ``relocates`` is 1 if they may hope for another tier.
    """
    leaving[0] = 0
    cost = 0.0
    freed = 0
    at = unit
    while at >= 0:
        lacking = size - left[at] - freed
        if lacking > 0:
            # The unit itself, and what is below it.
            base = at
            lists = 1
            if at == unit and tier == 1:
                base = first_machine[at - first_unit[1]]
                lists = 1 + first_machine[at - first_unit[1] + 1] - base
            elif at == unit and tier == 2:
                base = 0
                lists = first_unit[3]
            # One gang that is enough.
            single = -1
            single_cost = limit
            for entry in range(lists):
                job = head[at if entry == 0 else base + entry - 1]
                while job >= 0:
                    if gang[job] >= lacking and marked[job] == 0:
                        where = at if entry == 0 else base + entry - 1
                        loss = loss_of(job, where, relocates, value, first_unit)
                        if loss < single_cost:
                            single = job
                            single_cost = loss
                    job = following[job]
            # Several, the cheapest for each GPU first.
            start = leaving[0]
            missing = lacking
            total = 0.0
            while missing > 0 and total < single_cost:
                best = -1
                best_loss = 0.0
                for entry in range(lists):
                    job = head[at if entry == 0 else base + entry - 1]
                    while job >= 0:
                        if marked[job] == 0:
                            where = at if entry == 0 else base + entry - 1
                            loss = loss_of(job, where, relocates, value, first_unit)
                            if best < 0 or loss * gang[best] < best_loss * gang[job]:
                                best = job
                                best_loss = loss
                        job = following[job]
                if best < 0:
                    break
                marked[best] = 1
                leaving[0] += 1
                leaving[leaving[0]] = best
                total += best_loss
                missing -= gang[best]
            if missing > 0 or total >= single_cost:
                while leaving[0] > start:
                    marked[leaving[leaving[0]]] = 0
                    leaving[0] -= 1
                if single < 0:
                    cost = limit
                    break
                leaving[0] += 1
                leaving[leaving[0]] = single
                marked[single] = 1
                total = single_cost
            cost += total
            if cost >= limit:
                break
            for entry in range(start, leaving[0]):
                freed += gang[leaving[entry + 1]]
        at = parent[at]
    for entry in range(leaving[0]):
        marked[leaving[entry + 1]] = 0
    return cost


@kernel
def exchange(
    job: Any,
    unit: Any,
    gang: Any,
    value: Any,
    first_unit: Any,
    parent: Any,
    parts: Any,
    left: Any,
    head: Any,
    following: Any,
    previous: Any,
    unit_of: Any,
    leaving: Any,
    came_from: Any,
    too_large: Any,
) -> Any:
    """Put a gang at a unit, and those of ``leaving`` where else there is room, or nowhere.

    Returns what all of them are worth more than before, the gang itself being nowhere;
    ``came_from`` gets where the others were.
    """
    tier = 0
    if unit >= first_unit[1]:
        tier = 1 if unit < first_unit[2] else 2
    gain = value[3 * job + tier]
    for entry in range(leaving[0]):
        other = leaving[entry + 1]
        gain -= loss_of(other, unit_of[other], 0, value, first_unit)
        came_from[entry] = take_off(other, gang, parent, left, head, following, previous, unit_of)
    put(job, unit, gang, parent, left, head, following, previous, unit_of)
    forget_sizes(too_large, first_unit, left)
    for entry in range(leaving[0]):
        gain += insert(
            leaving[entry + 1],
            too_large,
            gang,
            value,
            first_unit,
            parent,
            parts,
            left,
            head,
            following,
            previous,
            unit_of,
        )
    return gain


@kernel
def improve(
    orders: Any,
    first: Any,
    budget: Any,
    gang: Any,
    value: Any,
    first_unit: Any,
    parent: Any,
    parts: Any,
    first_machine: Any,
    capacity: Any,
    left: Any,
    head: Any,
    following: Any,
    previous: Any,
    unit_of: Any,
    leaving: Any,
    chosen: Any,
    came_from: Any,
    marked: Any,
    too_large: Any,
) -> Any:
    """Let gangs that could be worth more take the places of others; return how much that gives.

    In turn each gang that does not start, or not where it is worth most, is put where that costs
    least, and the gangs that have to go look for other places; all is taken back unless it pays.
    It is tried in the hope that they find some at their best other tier, then without. Until a pass
    changes nothing, or ``budget`` units were looked at.
    """
    gained = 0.0
    network = first_unit[2]
    changes = 1
    while changes > 0:
        changes = 0
        for place in range(len(gang)):
            if budget <= 0:
                return gained
            job = orders[first + place]
            size = gang[job]
            home = unit_of[job]
            own = 0.0
            if home >= 0:
                own = loss_of(job, home, 0, value, first_unit)
            most = own
            for tier in range(3):
                if value[3 * job + tier] > most:
                    most = value[3 * job + tier]
            # Rounding is no gain.
            least = own + 1e-9 * most
            if most <= least:
                continue
            if home >= 0:
                take_off(job, gang, parent, left, head, following, previous, unit_of)
            is_placed = False
            for attempt in range(2):
                relocates = 1 - attempt
                if is_placed or (relocates == 1 and left[network] < size):
                    continue
                best_gain = 0.0
                best_unit = -1
                for tier in range(3):
                    worth = value[3 * job + tier]
                    if worth <= least + best_gain:
                        continue
                    for unit in range(first_unit[tier], first_unit[tier + 1]):
                        if capacity[unit] < size or (tier > 0 and parts[unit] < 2):
                            continue
                        budget -= 1
                        if tier > 0:
                            budget -= capacity[unit] // size
                        limit = worth - least - best_gain
                        cost = cheapest_exit(
                            unit,
                            tier,
                            size,
                            limit,
                            relocates,
                            gang,
                            value,
                            first_unit,
                            parent,
                            left,
                            head,
                            following,
                            first_machine,
                            leaving,
                            marked,
                        )
                        if cost < limit:
                            best_gain = worth - least - cost
                            best_unit = unit
                            for entry in range(leaving[0] + 1):
                                chosen[entry] = leaving[entry]
                            if cost == 0.0:
                                break
                if best_unit < 0:
                    continue
                gain = exchange(
                    job,
                    best_unit,
                    gang,
                    value,
                    first_unit,
                    parent,
                    parts,
                    left,
                    head,
                    following,
                    previous,
                    unit_of,
                    chosen,
                    came_from,
                    too_large,
                )
                if gain > least:
                    gained += gain - own
                    changes += 1
                    is_placed = True
                    continue
                for entry in range(chosen[0]):
                    other = chosen[entry + 1]
                    if unit_of[other] >= 0:
                        take_off(other, gang, parent, left, head, following, previous, unit_of)
                take_off(job, gang, parent, left, head, following, previous, unit_of)
                for entry in range(chosen[0]):
                    put(
                        chosen[entry + 1],
                        came_from[entry],
                        gang,
                        parent,
                        left,
                        head,
                        following,
                        previous,
                        unit_of,
                    )
            if home >= 0 and not is_placed:
                put(job, home, gang, parent, left, head, following, previous, unit_of)
    return gained


@kernel
def clear_market(
    steps: Any,
    gang: Any,
    value: Any,
    size_of: Any,
    sizes: Any,
    machines: Any,
    prices: Any,
    best_prices: Any,
    excess: Any,
    fill: Any,
    fill_kind: Any,
) -> Any:
    """Bring prices to where as many places are asked for as there are; return the best found.

    Subgradient steps, of Polyak's length towards 0.95 of where they start, on the bound of
    `lyra_opt.network.bounds.prices` with each machine a rack. ``machines[f]`` is how many have f
    GPUs free. ``prices`` are those of a GPU: for gangs on one machine, by size, and last for gangs
    that span several. ``best_prices`` gets those of the least bound.
    """
    kinds = len(sizes)
    best = -1.0
    target = 0.0
    stretch = 1.5
    stalled = 0
    for _ in range(steps):
        price = prices[kinds]
        total = 0.0
        for kind in range(kinds + 1):
            excess[kind] = 0.0
        for job in range(len(gang)):
            kind = size_of[job]
            near = value[3 * job]
            if near > 0.0:
                near -= prices[kind] * gang[job]
            far = value[3 * job + 1]
            if value[3 * job + 2] > far:
                far = value[3 * job + 2]
            if far > 0.0:
                far -= price * gang[job]
            if near > 0.0 and near >= far:
                total += near
                excess[kind] += gang[job]
            elif far > 0.0:
                total += far
                excess[kinds] += gang[job]
        # What a machine earns from gangs beyond the price for those that span several.
        fill[0] = 0.0
        for used in range(1, len(machines)):
            fill[used] = fill[used - 1]
            fill_kind[used] = -1
            for kind in range(kinds):
                size = sizes[kind]
                if size > used:
                    break
                found = fill[used - size] + size * (prices[kind] - price)
                if found > fill[used]:
                    fill[used] = found
                    fill_kind[used] = kind
        for free in range(1, len(machines)):
            if machines[free] == 0:
                continue
            total += machines[free] * (fill[free] + free * price)
            used = free
            while used > 0:
                kind = fill_kind[used]
                if kind < 0:
                    excess[kinds] -= machines[free]
                    used -= 1
                else:
                    excess[kind] -= machines[free] * sizes[kind]
                    used -= sizes[kind]
        if best < 0.0:
            target = 0.95 * total
        if best < 0.0 or total < best:
            best = total
            stalled = 0
            for kind in range(kinds + 1):
                best_prices[kind] = prices[kind]
        else:
            stalled += 1
            if stalled == 5:
                stalled = 0
                stretch *= 0.5
        norm = 0.0
        for kind in range(kinds + 1):
            norm += excess[kind] * excess[kind]
        if norm == 0.0 or total <= target:
            break
        step = stretch * (total - target) / norm
        for kind in range(kinds + 1):
            prices[kind] += step * excess[kind]
            if prices[kind] < 0.0:
                prices[kind] = 0.0
    return best_prices


@kernel
def best_packing(
    orders: Any,
    budget: Any,
    gang: Any,
    value: Any,
    first_unit: Any,
    parent: Any,
    parts: Any,
    first_machine: Any,
    capacity: Any,
    left: Any,
    head: Any,
    following: Any,
    previous: Any,
    unit_of: Any,
    leaving: Any,
    chosen: Any,
    came_from: Any,
    marked: Any,
    too_large: Any,
    best_unit_of: Any,
) -> Any:
    """Let gangs choose in several orders, improve each packing; return the units of the best.

    ``orders`` has one after the other; ``budget`` units are looked at to improve all of them. The
    last scratch array is returned. Gangs that do not start have the unit -1.
    """
    jobs = len(gang)
    packings = len(orders) // jobs
    best = -1.0
    for packing in range(packings):
        for unit in range(len(capacity)):
            left[unit] = capacity[unit]
            head[unit] = -1
        for job in range(jobs):
            unit_of[job] = -1
        first = packing * jobs
        worth = pack_in_order(
            orders,
            first,
            too_large,
            gang,
            value,
            first_unit,
            parent,
            parts,
            left,
            head,
            following,
            previous,
            unit_of,
        )
        worth += improve(
            orders,
            first,
            budget // packings,
            gang,
            value,
            first_unit,
            parent,
            parts,
            first_machine,
            capacity,
            left,
            head,
            following,
            previous,
            unit_of,
            leaving,
            chosen,
            came_from,
            marked,
            too_large,
        )
        if worth > best:
            best = worth
            for job in range(jobs):
                best_unit_of[job] = unit_of[job]
    return best_unit_of
