"""The inner loop of `hadar`: a bounded dynamic programme over the queue, and FIND_ALLOC in it.

Arrays are flat. A cell is a type of which a server has GPUs; those of a server are neighbours,
from ``first_cell[server]`` on, and ``kind`` is the type of each. ``rates`` and ``values`` have an
entry for (job, spread or not, type), at (2 job + spread) types + type: the speed of the gang where
that type is its slowest, and what the job is worth then. ``prices`` has the price of a GPU at
``first_price[cell] + used``.
"""

from __future__ import annotations

from typing import Any

from lyra_opt.core.kernels import kernel


@kernel
def find_allocation(
    job: Any,
    gang: Any,
    types: Any,
    cells: Any,
    first_cell: Any,
    kind: Any,
    home: Any,
    rates: Any,
    values: Any,
    capacity: Any,
    first_price: Any,
    prices: Any,
    communication: Any,
    free: Any,
    start: Any,
    trial: Any,
    best: Any,
    payoff: Any,
) -> Any:
    """Find the placement of a job of most payoff; return how many cells it has, 0 for none.

    Candidates: for each slowest type and each server with enough GPUs at least as fast, the
    cheapest of them; and for each slowest type the cheapest GPUs of all servers, fuller cells
    first among equals, at most one less than the gang of a cell, unless they are all on one
    server. ``best`` gets pairs of cell and number, ``payoff[0]`` what it is worth less what it
    costs; ``payoff[1]`` is no more than the least price of a free GPU. ``free`` is read from
    ``start`` on.
    """
    payoff[0] = 0.0
    found = 0
    servers = len(first_cell) - 1
    for spread in range(2 if gang > 1 else 1):
        base = (2 * job + spread) * types
        for slowest in range(types):
            rate = rates[base + slowest]
            # Nothing costs less than the gang at the least price of all.
            most = values[base + slowest] - gang * payoff[1]
            if rate <= 0.0 or most <= payoff[0]:
                continue
            for server in range(1 if spread == 1 else servers):
                # Of one server, or of all at once.
                begin = 0 if spread == 1 else first_cell[server]
                end = cells if spread == 1 else first_cell[server + 1]
                there = 0
                for cell in range(begin, end):
                    if rates[base + kind[cell]] >= rate:
                        there += free[start + cell]
                if there >= gang:
                    widest = gang - 1 if spread == 1 else gang
                    missing = gang
                    cost = 0.0
                    taken = 0
                    while missing > 0:
                        chosen = -1
                        least = 0.0
                        for cell in range(begin, end):
                            left = free[start + cell]
                            if left == 0 or rates[base + kind[cell]] < rate:
                                continue
                            is_taken = False
                            for place in range(taken):
                                if trial[2 * place] == cell:
                                    is_taken = True
                            if is_taken:
                                continue
                            price = prices[first_price[cell] + capacity[cell] - left]
                            if (
                                chosen < 0
                                or price < least
                                or (price == least and left > free[start + chosen])
                            ):
                                chosen = cell
                                least = price
                        if chosen < 0:
                            break
                        count = min(widest, missing, free[start + chosen])
                        trial[2 * taken] = chosen
                        trial[2 * taken + 1] = count
                        taken += 1
                        cost += count * least
                        missing -= count
                    is_valid = missing == 0
                    if spread == 1 and is_valid:
                        cost *= 1.0 + communication[0]
                        is_valid = False
                        for place in range(1, taken):
                            if home[trial[2 * place]] != home[trial[0]]:
                                is_valid = True
                    if is_valid and values[base + slowest] - cost > payoff[0]:
                        payoff[0] = values[base + slowest] - cost
                        found = taken
                        for place in range(2 * taken):
                            best[place] = trial[place]
                        if payoff[0] >= most:
                            break
    return found


@kernel
def allocate_queue(
    jobs: Any,
    width: Any,
    types: Any,
    cells: Any,
    first_cell: Any,
    kind: Any,
    home: Any,
    gangs: Any,
    rates: Any,
    values: Any,
    densities: Any,
    capacity: Any,
    first_price: Any,
    prices: Any,
    communication: Any,
    free: Any,
    left: Any,
    gains: Any,
    optimism: Any,
    last_take: Any,
    take_job: Any,
    take_before: Any,
    trial: Any,
    best: Any,
    payoff: Any,
    path: Any,
) -> Any:
    """Return which jobs to take: the best path of a beam over take and skip, last job first.

    Scratch for up to 2 width + 1 states, each ``cells`` of ``free``, ``types`` of ``left`` and one
    entry of ``gains``, ``optimism`` and ``last_take``; state 0 holds what is free at first.
    ``take_job`` and ``take_before`` have room for jobs times width, ``path`` for the jobs. States
    of the same numbers left of each type are one, that of most payoff; the ``width`` are kept that
    could reach most if the next job's best utility a GPU were had for all that is left, at what
    it costs now.
    """
    states = 1
    takes = 0
    gains[0] = 0.0
    last_take[0] = -1
    prices_end = 1e300
    for job in range(jobs):
        gang = gangs[job]
        grown = states
        has_room = False
        for state in range(states):
            total = 0
            payoff[1] = prices_end
            for cell in range(cells):
                unsold = free[state * cells + cell]
                if unsold > 0:
                    total += unsold
                    price = prices[first_price[cell] + capacity[cell] - unsold]
                    payoff[1] = min(payoff[1], price)
            if total > 0:
                has_room = True
            if total < gang:
                continue
            found = find_allocation(
                job,
                gang,
                types,
                cells,
                first_cell,
                kind,
                home,
                rates,
                values,
                capacity,
                first_price,
                prices,
                communication,
                free,
                state * cells,
                trial,
                best,
                payoff,
            )
            if found == 0:
                continue
            gain = gains[state] + payoff[0]
            # What would be left decides which state this is.
            target = grown
            for gpu_type in range(types):
                left[target * types + gpu_type] = left[state * types + gpu_type]
            for place in range(found):
                left[target * types + kind[best[2 * place]]] -= best[2 * place + 1]
            is_beaten = False
            for other in range(grown):
                is_same = True
                for gpu_type in range(types):
                    if left[other * types + gpu_type] != left[target * types + gpu_type]:
                        is_same = False
                if is_same and gains[other] >= gain:
                    is_beaten = True
                elif is_same and other >= states:
                    # Older ones are yet to be extended by this job, and stay.
                    target = other
            if is_beaten:
                continue
            for cell in range(cells):
                free[target * cells + cell] = free[state * cells + cell]
            for place in range(found):
                free[target * cells + best[2 * place]] -= best[2 * place + 1]
            gains[target] = gain
            take_job[takes] = job
            take_before[takes] = last_take[state]
            last_take[target] = takes
            takes += 1
            if target == grown:
                grown += 1
        if not has_room:
            break
        density = densities[job + 1]
        for state in range(grown):
            optimism[state] = gains[state]
            for cell in range(cells):
                unsold = free[state * cells + cell]
                if unsold > 0:
                    price = prices[first_price[cell] + capacity[cell] - unsold]
                    optimism[state] += unsold * max(0.0, density - price)
        # Keep the best, in place, in order of optimism and then of age.
        kept = min(width, grown)
        for place in range(kept):
            chosen = place
            for other in range(place + 1, grown):
                if optimism[other] > optimism[chosen]:
                    chosen = other
            if chosen != place:
                for cell in range(cells):
                    held = free[place * cells + cell]
                    free[place * cells + cell] = free[chosen * cells + cell]
                    free[chosen * cells + cell] = held
                for gpu_type in range(types):
                    held = left[place * types + gpu_type]
                    left[place * types + gpu_type] = left[chosen * types + gpu_type]
                    left[chosen * types + gpu_type] = held
                value = gains[place]
                gains[place] = gains[chosen]
                gains[chosen] = value
                value = optimism[place]
                optimism[place] = optimism[chosen]
                optimism[chosen] = value
                held = last_take[place]
                last_take[place] = last_take[chosen]
                last_take[chosen] = held
        states = kept
    winner = 0
    for state in range(1, states):
        if gains[state] > gains[winner]:
            winner = state
    length = 0
    take = last_take[winner]
    while take >= 0:
        path[length] = take_job[take]
        take = take_before[take]
        length += 1
    return length, path
