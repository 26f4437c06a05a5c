"""The inner loop of Hadar: a bounded dynamic programme over the queue that places the jobs.

For each job it calls `find_allocation`, the paper's FIND_ALLOC.

A cell is a pair of a server and a GPU type that it has; the cells of a server are adjacent. All
arrays are flat.
"""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

from lyra_opt.core.kernels import kernel


class Market(NamedTuple):
    """GPUs of the cluster and their prices, by cell: a server and one of its GPU types.

    Parameters
    ----------
    types
        Number of GPU types.
    first_cell
        Shape (servers + 1,): cells of server h run from ``first_cell[h]`` up to ``first_cell[h +
        1]``.
    capacity
        Shape (cells,): number of GPUs.
    first_price
        Shape (cells,): the price of a cell's next GPU is at ``first_price[cell] + used``.
    prices
        Shape (GPUs,): price of each GPU of a cell, in the order of sale.
    group
        Shape (cells,): the group of the cell. Cells of one type and size form a group; their prices
        are equal.
    first_of_group
        Shape (groups,): a cell of each group.
    spread_cost
        Factor on the cost of a gang that is spread over several servers.
    """

    types: Any
    first_cell: Any
    capacity: Any
    first_price: Any
    prices: Any
    group: Any
    first_of_group: Any
    spread_cost: Any


class Buyers(NamedTuple):
    """The jobs in queue order, with the values that they place on GPUs.

    Parameters
    ----------
    gangs
        Shape (jobs,): size of each gang.
    rates, values
        Entry (2 job + spread) types + type: the speed of the gang if that type is its slowest, on
        one server (spread 0) or several (spread 1), and the utility of the job at that speed.
    densities
        Entry types job + type: the best value per GPU that this job or a later one has on the type;
        0 after the last job.
    """

    gangs: Any
    rates: Any
    values: Any
    densities: Any


class Offer(NamedTuple):
    """The free GPUs of the current state and their prices; all arrays have shape (cells,).

    Parameters
    ----------
    home, kind
        Server and GPU type of the cell.
    left
        Number of free GPUs.
    price
        Price of each free GPU, if any are free.
    estimate
        Shape (groups, levels): what the free GPUs of a cell add to the promise of a state, by group
        and number of free GPUs.
    """

    home: Any
    kind: Any
    left: Any
    price: Any
    estimate: Any


class Basket(NamedTuple):
    """Scratch arrays for two placements of a job: the current trial and the best so far.

    Parameters
    ----------
    trial
        The placement under construction.
    best
        The best placement so far.
    """

    trial: Any
    best: Any


class Beam(NamedTuple):
    """States of the dynamic programme: up to ``width`` kept states, and their successors.

    Parameters
    ----------
    width
        Number of states that are kept.
    row
        Shape (2 width + 1,): the row of the state in ``free`` and ``tally``.
    free
        Shape (2 width + 1, cells): free GPUs.
    tally
        Shape (2 width + 1, groups, levels): number of cells by group and number of free GPUs.
    left
        Shape (2 width + 1, types): free GPUs by type. States with equal rows are merged.
    gains, optimism
        Shape (2 width + 1,): payoff so far, and an estimate of the final payoff.
    is_exact
        Shape (2 width + 1,): 1 if ``optimism`` has been added up GPU by GPU, in order.
    last_take
        Shape (2 width + 1,): the take that led to the state, -1 if none. Job j from state s has the
        take j width + s.
    take_before
        Shape (jobs width,): the take before each take.
    placement
        Shape (jobs width, pairs of a basket): the placement of each take, padded with zeros.
    """

    width: Any
    row: Any
    free: Any
    tally: Any
    left: Any
    gains: Any
    optimism: Any
    is_exact: Any
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
    """Choose the cheapest GPUs on which a gang reaches a given rate, and return their cost.

    Returns the number of cells (a server and a GPU type) that are used, and the cost.

    Cells from ``begin`` to ``end`` are considered; they must hold the gang. Among equal prices the
    cell with the most free GPUs comes first. A gang to be spread takes at most gang - 1 GPUs of a
    cell. The number of cells is -1 if the gang cannot be spread.
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
    """Store the placement with the largest payoff; return its number of cells and its payoff.

    The candidates for each slowest type are the cheapest GPUs of each server with enough GPUs, and
    the cheapest GPUs of all servers. The result goes to ``basket.best``. The number of cells is 0
    if no placement is worth more than it costs. No free GPU may cost less than ``least_price``.
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
                room = 0
                cheapest = inf
                for cell in range(begin, end):
                    if offer.left[cell] > 0 and buyers.rates[base + offer.kind[cell]] >= rate:
                        room += offer.left[cell]
                        cheapest = min(cheapest, offer.price[cell])
                # Most servers cost at least as much as the best one so far; this test rejects them.
                if room < gang or value - gang * cheapest <= payoff:
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
    """Return the slot of the new state; -1 if a state with equal free GPUs gains as much.

    States are equal if they have equal numbers of free GPUs by type. States below ``states`` still
    have to be extended by this job and are never overwritten; later states are its successors.
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
    """Add the search state in which a job runs, if the job's payoff is above 0.

    Returns the number of states, with the new one, and whether the old state had free GPUs.

    The states from ``states`` to ``grown`` are successors in which the job runs.
    """
    cells = len(offer.left)
    first = beam.row[state] * cells
    total = 0
    least_price = inf
    for cell in range(cells):
        left = beam.free[first + cell]
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
    first = beam.row[slot] * cells
    for cell in range(cells):
        beam.free[first + cell] = offer.left[cell]
    counts = len(offer.estimate)
    levels = counts // len(market.first_of_group)
    tally = beam.row[slot] * counts
    for column in range(counts):
        beam.tally[tally + column] = beam.tally[beam.row[state] * counts + column]
    for place in range(found):
        cell = basket.best[2 * place]
        column = tally + market.group[cell] * levels + beam.free[first + cell]
        beam.tally[column] -= 1
        beam.tally[column - basket.best[2 * place + 1]] += 1
        beam.free[first + cell] -= basket.best[2 * place + 1]
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
def exact_optimism(state: Any, job: Any, buyers: Any, market: Any, offer: Any, beam: Any) -> Any:
    """Return the promise of a state, added up GPU by GPU."""
    cells = len(market.capacity)
    first = beam.row[state] * cells
    most = beam.gains[state]
    for cell in range(cells):
        density = buyers.densities[job * market.types + offer.kind[cell]]
        end = market.first_price[cell] + market.capacity[cell]
        for place in range(end - beam.free[first + cell], end):
            most += max(0.0, density - market.prices[place])
    return most


@kernel
def estimate_optimism(
    states: Any, job: Any, buyers: Any, market: Any, offer: Any, beam: Any
) -> None:
    """Store the promise of each state up to rounding, from its numbers of cells by free GPUs."""
    counts = len(offer.estimate)
    levels = counts // len(market.first_of_group)
    for group in range(len(market.first_of_group)):
        cell = market.first_of_group[group]
        density = buyers.densities[job * market.types + offer.kind[cell]]
        last = market.first_price[cell] + market.capacity[cell] - 1
        worth = 0.0
        for free in range(1, market.capacity[cell] + 1):
            worth += max(0.0, density - market.prices[last - free + 1])
            offer.estimate[group * levels + free] = worth
    for state in range(states):
        first = beam.row[state] * counts
        most = beam.gains[state]
        for column in range(counts):
            most += beam.tally[first + column] * offer.estimate[column]
        beam.optimism[state] = most
        beam.is_exact[state] = 0


@kernel
def keep_best(states: Any, job: Any, buyers: Any, market: Any, offer: Any, beam: Any) -> Any:
    """Move the most promising states to the front, older states first; return how many are kept.

    The promise of a state is its gain plus an estimate for its free GPUs. The estimate sells them
    one by one, at rising prices, each to the job from ``job`` on that values its type most. The
    estimate must separate types and raise prices: otherwise states that sell nothing look best, and
    GPUs idle while jobs wait.

    The sum over all GPUs is slow. It is computed only if rounding could decide between two states.
    """
    # A sum of n numbers of at least 0 is off by at most a share n 2**-53 of it.
    rounding = 1e-15 * (len(market.prices) + 100)
    estimate_optimism(states, job, buyers, market, offer, beam)
    kept = min(beam.width, states)
    for place in range(kept):
        chosen = place
        for other in range(place + 1, states):
            most = max(beam.optimism[other], beam.optimism[chosen])
            if abs(beam.optimism[other] - beam.optimism[chosen]) <= rounding * most:
                for state in (chosen, other):
                    if beam.is_exact[state] == 0:
                        beam.optimism[state] = exact_optimism(
                            state, job, buyers, market, offer, beam
                        )
                        beam.is_exact[state] = 1
            if beam.optimism[other] > beam.optimism[chosen]:
                chosen = other
        if chosen != place:
            swap(beam.row, 1, place, chosen)
            swap(beam.left, market.types, place, chosen)
            swap(beam.gains, 1, place, chosen)
            swap(beam.optimism, 1, place, chosen)
            swap(beam.is_exact, 1, place, chosen)
            swap(beam.last_take, 1, place, chosen)
    return kept


@kernel
def allocate_queue(buyers: Any, market: Any, offer: Any, beam: Any, basket: Any, path: Any) -> Any:
    """Choose the jobs that run, and their GPUs, by a bounded dynamic programme over the queue.

    A take is the choice that a job runs. Returns the takes (last job first), their number, and the
    placements of all takes.

    At each job a state takes or skips it. State 0 holds the initial free GPUs. ``path`` has room
    for one take per job.
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
