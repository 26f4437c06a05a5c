"""The inner loops of `lyra_opt.network.packing`: prices, a first packing, and its improvement.

Units are where gangs can be: machines, then racks, then the network, from ``first_unit[tier]`` on.
Each has a ``parent``, -1 for the network. ``left[unit]`` is what of its GPUs no gang at it or
below it uses, so a gang fits a unit if what is left of it, and of all above it, is no less. The
gangs at a unit are a list: ``head[unit]``, then ``following[gang]``, both ways, -1 at its ends.
``value`` has an entry for (gang, tier), at ``3 gang + tier``; 0 or less where it may not be.
"""

from __future__ import annotations

from typing import Any

from lyra_opt.kernels import kernel


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
    for unit in range(first_unit[tier], first_unit[tier + 1]):
        if left[unit] < size or (tier > 0 and parts[unit] < 2):
            continue
        fits = True
        above = parent[unit]
        while above >= 0:
            if left[above] < size:
                fits = False
            above = parent[above]
        if not fits:
            continue
        if found >= 0:
            if left[unit] > left[found]:
                continue
            if left[unit] == left[found] and (
                parent[unit] < 0 or left[parent[unit]] >= left[parent[found]]
            ):
                continue
        found = unit
        if left[unit] == size and (parent[unit] < 0 or left[parent[unit]] == size):
            break
    return found


@kernel
def insert(
    job: Any,
    above_value: Any,
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

    Only if that is more than ``above_value``; else return 0.
    """
    tried = -1
    for _ in range(3):
        tier = -1
        for other in range(3):
            worth = value[3 * job + other]
            if worth <= above_value:
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
        unit = tightest_unit(gang[job], tier, first_unit, parent, left, parts)
        if unit >= 0:
            put(job, unit, gang, parent, left, head, following, previous, unit_of)
            return value[3 * job + tier]
        tried = tier
    return 0.0


@kernel
def pack_in_order(
    orders: Any,
    first: Any,
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
    root = first_unit[2]
    for place in range(len(gang)):
        job = orders[first + place]
        if unit_of[job] < 0 and gang[job] <= left[root]:
            total += insert(
                job,
                0.0,
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
def cheapest_exit(
    unit: Any,
    tier: Any,
    size: Any,
    limit: Any,
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
    """Find gangs to take off so that one of ``size`` fits a unit; return what they are worth.

    From the unit up, at each level that lacks room: of the gangs at the unit or below it (above
    the first level: at the unit alone), the cheapest single one that is enough, or the cheapest for
    each GPU one by one. ``leaving`` gets their number and then them. Returns ``limit`` or more if
    there are no such gangs of less worth.
    """
    leaving[0] = 0
    cost = 0.0
    freed = 0
    at = unit
    level = tier
    while at >= 0:
        lacking = size - left[at] - freed
        if lacking > 0:
            # One gang that is enough.
            single = -1
            single_cost = limit
            total = 0.0
            start = leaving[0]
            lists = 1
            base = at
            if at == unit and level == 1:
                base = first_machine[at - first_unit[1]]
                lists = 1 + first_machine[at - first_unit[1] + 1] - base
            elif at == unit and level == 2:
                base = 0
                lists = first_unit[3]
            for entry in range(lists):
                where = at if entry == 0 else base + entry - 1
                if at == unit and level == 2:
                    where = entry
                job = head[where]
                while job >= 0:
                    if gang[job] >= lacking:
                        own = 0
                        if where >= first_unit[1]:
                            own = 1 if where < first_unit[2] else 2
                        worth = value[3 * job + own]
                        if worth < single_cost:
                            single = job
                            single_cost = worth
                    job = following[job]
            # Several, the cheapest for each GPU first.
            missing = lacking
            while missing > 0 and total < single_cost:
                best = -1
                best_worth = 0.0
                for entry in range(lists):
                    where = at if entry == 0 else base + entry - 1
                    if at == unit and level == 2:
                        where = entry
                    job = head[where]
                    while job >= 0:
                        if marked[job] == 0:
                            own = 0
                            if where >= first_unit[1]:
                                own = 1 if where < first_unit[2] else 2
                            worth = value[3 * job + own]
                            if best < 0 or worth * gang[best] < best_worth * gang[job]:
                                best = job
                                best_worth = worth
                        job = following[job]
                if best < 0:
                    break
                marked[best] = 1
                leaving[0] += 1
                leaving[leaving[0]] = best
                total += best_worth
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
    marked: Any,
) -> Any:
    """Let gangs that could be worth more take the places of others; return how much that gives.

    In turn each gang that does not start, or not where it is worth most, is put where it is worth
    more than the gangs that have to go; these look for other places.
    Until a pass changes nothing, or ``budget`` units were looked at.
    """
    gained = 0.0
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
                own_tier = 0
                if home >= first_unit[1]:
                    own_tier = 1 if home < first_unit[2] else 2
                own = value[3 * job + own_tier]
            most = own
            for tier in range(3):
                if value[3 * job + tier] > most:
                    most = value[3 * job + tier]
            if most <= own:
                continue
            if home >= 0:
                take_off(job, gang, parent, left, head, following, previous, unit_of)
            best_gain = 0.0
            best_unit = -1
            for tier in range(3):
                worth = value[3 * job + tier]
                if worth <= own + best_gain:
                    continue
                for unit in range(first_unit[tier], first_unit[tier + 1]):
                    if capacity[unit] < size or (tier > 0 and parts[unit] < 2):
                        continue
                    budget -= 1
                    limit = worth - own - best_gain
                    cost = cheapest_exit(
                        unit,
                        tier,
                        size,
                        limit,
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
                        best_gain = worth - own - cost
                        best_unit = unit
                        for entry in range(leaving[0] + 1):
                            chosen[entry] = leaving[entry]
                        if cost == 0.0:
                            break
            if best_unit < 0:
                if home >= 0:
                    put(job, home, gang, parent, left, head, following, previous, unit_of)
                continue
            for entry in range(chosen[0]):
                take_off(chosen[entry + 1], gang, parent, left, head, following, previous, unit_of)
            put(job, best_unit, gang, parent, left, head, following, previous, unit_of)
            gained += best_gain
            changes += 1
            for entry in range(chosen[0]):
                gained += insert(
                    chosen[entry + 1],
                    0.0,
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
    `lyra_opt.network.price_bound` with each machine a rack. ``machines[f]`` is how many have f GPUs
    free. ``prices`` are those of a GPU: for gangs on one machine, by size, and last for gangs that
    span several. ``best_prices`` gets those of the least bound.
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
    marked: Any,
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
            marked,
        )
        if worth > best:
            best = worth
            for job in range(jobs):
                best_unit_of[job] = unit_of[job]
    return best_unit_of
