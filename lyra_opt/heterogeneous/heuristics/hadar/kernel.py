"""The inner loop of `hadar`: a bounded dynamic programme over the queue, and FIND_ALLOC in it.

A cell is a type of which a server has GPUs; those of a server are neighbours. Arrays are flat.
"""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

from lyra_opt.core.kernels import kernel


class Market(NamedTuple):
    """The cluster, and what its GPUs cost.

    Parameters
    ----------
    types
        How many types there are.
    first_cell
        Shape (servers + 1,): those of server h are from ``first_cell[h]`` to ``first_cell[h + 1]``.
    capacity
        Shape (cells,): GPUs.
    first_price
        Shape (cells,): the price of a cell's next GPU is at ``first_price[cell] + used``.
    prices
        Shape (GPUs,).
    spread_cost
        What GPUs on several servers cost, over what they cost on one.
    """

    types: Any
    first_cell: Any
    capacity: Any
    first_price: Any
    prices: Any
    spread_cost: Any


class Buyers(NamedTuple):
    """The queue, in order.

    Parameters
    ----------
    gangs
        Shape (jobs,).
    rates, values
        At (2 job + spread) types + type: the speed of the gang where that type is its slowest, on
        one server or spread over several, and what the job is worth then.
    densities
        At types job + type: the best value for a GPU of the gang that this job or a later one has
        on GPUs of the type; 0 after the last.
    """

    gangs: Any
    rates: Any
    values: Any
    densities: Any


class Offer(NamedTuple):
    """What the state that is looked at has to sell; all of shape (cells,).

    Parameters
    ----------
    home, kind
        Server and type.
    left
        GPUs that are free.
    price
        Of each of them, where there are any.
    """

    home: Any
    kind: Any
    left: Any
    price: Any


class Basket(NamedTuple):
    """Placements of one job: pairs of cell and number, as many as its gang at most.

    Parameters
    ----------
    trial
        The one that is made.
    best
        The best of them.
    """

    trial: Any
    best: Any


class Beam(NamedTuple):
    """States of the dynamic programme: up to ``width`` that are kept, and what they become.

    Parameters
    ----------
    width
        How many are kept.
    free
        Shape (2 width + 1, cells): GPUs not taken.
    left
        Shape (2 width + 1, types): the same by type. States in which it is the same are one.
    gains, optimism
        Shape (2 width + 1,): payoff so far, and what it may become.
    last_take
        Shape (2 width + 1,): by which a state came about, -1 for none. That of job j from state s
        is j width + s.
    take_before
        Shape (jobs width,): the take before each.
    placement
        Shape (jobs width, pairs of a basket): what each takes, then zeros.
    """

    width: Any
    free: Any
    left: Any
    gains: Any
    optimism: Any
    last_take: Any
    take_before: Any
    placement: Any


@kernel
def fill_basket(
    base: Any,
    rate: Any,
    begin: Any,
    end: Any,
    gang: Any,
    spread: Any,
    rates: Any,
    offer: Any,
    trial: Any,
) -> Any:
    """Take a gang of the cheapest GPUs of at least a rate; return how many cells, and the cost.

    Those of cells from ``begin`` to ``end``, which are enough; among equals from the cell with most
    free GPUs first. A gang to be spread has at most one less than itself in a cell. Cells are -1 if
    it cannot be spread.
    """
    cost = 0.0
    taken = 0
    missing = gang
    is_spread = False
    while missing > 0:
        chosen = -1
        least = inf
        for cell in range(begin, end):
            left = offer.left[cell]
            if left == 0 or rates[base + offer.kind[cell]] < rate:
                continue
            price = offer.price[cell]
            if price > least or (price == least and left <= offer.left[chosen]):
                continue
            is_new = True
            for place in range(taken):
                if trial[2 * place] == cell:
                    is_new = False
            if is_new:
                chosen = cell
                least = price
        if chosen < 0:
            return -1, 0.0
        count = min(gang - spread, missing, offer.left[chosen])
        trial[2 * taken] = chosen
        trial[2 * taken + 1] = count
        is_spread = is_spread or offer.home[chosen] != offer.home[trial[0]]
        taken += 1
        cost += count * least
        missing -= count
    if spread == 1 and not is_spread:
        return -1, 0.0
    return taken, cost


@kernel
def find_allocation(
    job: Any, buyers: Any, market: Any, offer: Any, least_price: Any, basket: Any
) -> Any:
    """Find the placement of most payoff; return how many cells of ``basket.best``, and the payoff.

    Candidates: for each slowest type, the cheapest GPUs of each server that has enough, and the
    cheapest of all servers. No cells where none is worth more than it costs, if no GPU costs less
    than ``least_price``.
    """
    gang = buyers.gangs[job]
    servers = len(market.first_cell) - 1
    payoff = 0.0
    found = 0
    for spread in range(2 if gang > 1 else 1):
        base = (2 * job + spread) * market.types
        for slowest in range(market.types):
            rate = buyers.rates[base + slowest]
            value = buyers.values[base + slowest]
            most = value - gang * least_price
            if rate <= 0.0 or most <= payoff:
                continue
            for server in range(1 if spread == 1 else servers):
                begin = 0 if spread == 1 else market.first_cell[server]
                end = len(offer.kind) if spread == 1 else market.first_cell[server + 1]
                there = 0
                cheapest = inf
                for cell in range(begin, end):
                    if offer.left[cell] > 0 and buyers.rates[base + offer.kind[cell]] >= rate:
                        there += offer.left[cell]
                        cheapest = min(cheapest, offer.price[cell])
                # Most servers are as idle as the last one, and cost the same.
                if there < gang or value - gang * cheapest <= payoff:
                    continue
                taken, cost = fill_basket(
                    base, rate, begin, end, gang, spread, buyers.rates, offer, basket.trial
                )
                if spread == 1:
                    cost *= market.spread_cost
                if taken > 0 and value - cost > payoff:
                    payoff = value - cost
                    found = taken
                    for place in range(2 * taken):
                        basket.best[place] = basket.trial[place]
                    if payoff >= most:
                        break
    return found, payoff


@kernel
def slot_of_taking(
    state: Any, gain: Any, found: Any, states: Any, grown: Any, kind: Any, beam: Any, best: Any
) -> Any:
    """Return where what a state becomes by taking ``best`` is kept; -1 if a state is as good.

    What is left decides which state it is. Those below ``states`` are yet to be extended by this
    job, and stay; the others are what it made of them.
    """
    types = len(beam.left) // (2 * beam.width + 1)
    for column in range(types):
        beam.left[grown * types + column] = beam.left[state * types + column]
    for place in range(found):
        beam.left[grown * types + kind[best[2 * place]]] -= best[2 * place + 1]
    slot = grown
    for other in range(grown):
        is_same = True
        for column in range(types):
            if beam.left[other * types + column] != beam.left[grown * types + column]:
                is_same = False
        if is_same and beam.gains[other] >= gain:
            return -1
        if is_same and other >= states:
            slot = other
    return slot


@kernel
def take(
    job: Any,
    state: Any,
    states: Any,
    grown: Any,
    buyers: Any,
    market: Any,
    offer: Any,
    beam: Any,
    basket: Any,
) -> Any:
    """Let a state take a job if that is worth it; return the states there are, and if it had GPUs.

    The states from ``states`` to ``grown`` are those in which others have taken it.
    """
    cells = len(offer.left)
    total = 0
    least_price = inf
    for cell in range(cells):
        left = beam.free[state * cells + cell]
        offer.left[cell] = left
        if left > 0:
            price = market.prices[market.first_price[cell] + market.capacity[cell] - left]
            offer.price[cell] = price
            least_price = min(least_price, price)
            total += left
    if total < buyers.gangs[job]:
        return grown, total > 0
    found, payoff = find_allocation(job, buyers, market, offer, least_price, basket)
    if found == 0:
        return grown, True
    gain = beam.gains[state] + payoff
    slot = slot_of_taking(state, gain, found, states, grown, offer.kind, beam, basket.best)
    if slot < 0:
        return grown, True
    this = job * beam.width + state
    for cell in range(cells):
        beam.free[slot * cells + cell] = offer.left[cell]
    for place in range(found):
        beam.free[slot * cells + basket.best[2 * place]] -= basket.best[2 * place + 1]
    for place in range(2 * found):
        beam.placement[this * len(basket.best) + place] = basket.best[place]
    beam.gains[slot] = gain
    beam.take_before[this] = beam.last_take[state]
    beam.last_take[slot] = this
    return max(grown, slot + 1), True


@kernel
def swap(values: Any, width: Any, first: Any, second: Any) -> None:
    """Exchange two rows of a flat array."""
    for column in range(width):
        held = values[first * width + column]
        values[first * width + column] = values[second * width + column]
        values[second * width + column] = held


@kernel
def keep_best(states: Any, job: Any, buyers: Any, market: Any, offer: Any, beam: Any) -> Any:
    """Move the states of most optimism to the front, older ones first; return how many stay.

    What a state may come to is what it gains if the GPUs that are left are sold one by one, at
    prices that rise, to whoever of the jobs from ``job`` on values GPUs of their type most. Were a
    slow GPU thought to be worth what a fast one is, or the last of a server to be as cheap as the
    first, states that sell nothing would seem best, and GPUs idle while jobs wait.
    """
    cells = len(market.capacity)
    for state in range(states):
        most = beam.gains[state]
        for cell in range(cells):
            density = buyers.densities[job * market.types + offer.kind[cell]]
            end = market.first_price[cell] + market.capacity[cell]
            for place in range(end - beam.free[state * cells + cell], end):
                most += max(0.0, density - market.prices[place])
        beam.optimism[state] = most
    kept = min(beam.width, states)
    for place in range(kept):
        chosen = place
        for other in range(place + 1, states):
            if beam.optimism[other] > beam.optimism[chosen]:
                chosen = other
        if chosen != place:
            swap(beam.free, cells, place, chosen)
            swap(beam.left, market.types, place, chosen)
            swap(beam.gains, 1, place, chosen)
            swap(beam.optimism, 1, place, chosen)
            swap(beam.last_take, 1, place, chosen)
    return kept


@kernel
def allocate_queue(buyers: Any, market: Any, offer: Any, beam: Any, basket: Any, path: Any) -> Any:
    """Return which takes are best, last one first, how many, and the placements of all.

    The best path over take and skip at each job; state 0 holds what is free at first. ``path`` has
    room for the jobs.
    """
    states = 1
    for job in range(len(buyers.gangs)):
        grown = states
        has_room = False
        for state in range(states):
            grown, is_left = take(job, state, states, grown, buyers, market, offer, beam, basket)
            has_room = has_room or is_left
        if not has_room:
            break
        states = keep_best(grown, job + 1, buyers, market, offer, beam)
    winner = 0
    for state in range(1, states):
        if beam.gains[state] > beam.gains[winner]:
            winner = state
    length = 0
    this = beam.last_take[winner]
    while this >= 0:
        path[length] = this
        this = beam.take_before[this]
        length += 1
    return path, length, beam.placement
