"""Prices of GPUs at which as many places are asked for as there are: the inner loop."""

from __future__ import annotations

from typing import Any, NamedTuple

from lyra_opt.core.kernels import kernel


class Market(NamedTuple):
    """Who asks for GPUs, what is offered, and the prices.

    Gangs: ``gang`` is their GPUs, ``value`` what each is worth at ``3 gang + tier``, 0 or less
    where it may not be, and ``kind_of`` its place among the different ``sizes``, which rise.
    ``machines[f]`` is how many machines have f GPUs free. ``prices`` are those of a GPU: for gangs
    on one machine, by size, and last for gangs that span several. ``best_prices`` gets those of
    the least bound. The rest is scratch: what is asked for beyond what is offered, by price, and
    the best that a machine with so many GPUs earns, and the size that it then takes first.
    """

    gang: Any
    value: Any
    kind_of: Any
    sizes: Any
    machines: Any
    prices: Any
    best_prices: Any
    excess: Any
    fill: Any
    fill_kind: Any


@kernel
def demand(market: Any) -> Any:
    """Add up what gangs ask for at the prices; return what they gain."""
    prices = market.prices
    value = market.value
    excess = market.excess
    kinds = len(market.sizes)
    total = 0.0
    for job in range(len(market.gang)):
        kind = market.kind_of[job]
        gang = market.gang[job]
        near = value[3 * job]
        if near > 0.0:
            near -= prices[kind] * gang
        far = value[3 * job + 1]
        if value[3 * job + 2] > far:
            far = value[3 * job + 2]
        if far > 0.0:
            far -= prices[kinds] * gang
        if near > 0.0 and near >= far:
            total += near
            excess[kind] += gang
        elif far > 0.0:
            total += far
            excess[kinds] += gang
    return total


@kernel
def supply(total: Any, market: Any) -> Any:
    """Take off what machines offer at the prices; return the total and what they earn."""
    prices = market.prices
    sizes = market.sizes
    machines = market.machines
    excess = market.excess
    fill = market.fill
    fill_kind = market.fill_kind
    kinds = len(sizes)
    price = prices[kinds]
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
    return total


@kernel
def clear_market(steps: Any, market: Any) -> Any:
    """Bring prices to where as many places are asked for as there are; return the best found.

    Subgradient steps, of Polyak's length towards 0.95 of where they start, on the bound of
    `lyra_opt.network.bounds.prices` with each machine a rack.
    """
    prices = market.prices
    excess = market.excess
    kinds = len(market.sizes)
    best = -1.0
    target = 0.0
    stretch = 1.5
    stalled = 0
    for _ in range(steps):
        for kind in range(kinds + 1):
            excess[kind] = 0.0
        total = supply(demand(market), market)
        if best < 0.0:
            target = 0.95 * total
        if best < 0.0 or total < best:
            best = total
            stalled = 0
            for kind in range(kinds + 1):
                market.best_prices[kind] = prices[kind]
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
            prices[kind] = max(0.0, prices[kind] + step * excess[kind])
    return market
