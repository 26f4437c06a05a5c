"""The inner loops of the price bound: the cheapest schedule of each job at given prices.

Time is divided into intervals (cells). Within a cell, a GPU-second of a pool has one price. After
the last border, GPU-seconds cost nothing. An execution *mode* of a job is a pool, a number of GPUs
that the job holds in that pool, and the share of its work that it does per second. The payment of a
job is

- ``jct``: its weight for each second from its release to its completion, plus the price of the
  GPU-seconds that it holds;
- ``queue``: its weight for each second until its completion in which it holds no GPU, plus the
  price of the GPU-seconds that it holds, in any mode, whether it makes progress or not.

A *contiguous* job holds one mode from its start to its completion without a break; what it did
before that is lost. Any other job may hold any mode at any time, for as long as it likes, and all
its work counts.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from lyra_opt.core.kernels import kernel

JCT, QUEUE = 0, 1
"""The objectives."""

NOWHERE = -1

MARGIN = 1e-9
"""A cost must exceed that of the likely start by this share of one plus it to be too high."""


class PricedJobs(NamedTuple):
    """Jobs with their execution modes, as arrays with one entry per job or per mode.

    By job: ``release_s``, ``weight``, ``is_contiguous``, ``adds`` (whether a job may hold several
    modes at once, as copies of a job do), ``cell`` (the cell of the release), and ``first`` (one
    longer), where the modes of each job begin. By mode: ``pool``, ``gpus`` and ``rate`` (share of
    the job's work per second, above 0).
    """

    release_s: Any
    weight: Any
    is_contiguous: Any
    adds: Any
    first: Any
    pool: Any
    gpus: Any
    rate: Any
    cell: Any


class Prices(NamedTuple):
    """The prices of a GPU-second, by pool of GPUs and time interval (cell).

    ``border_s`` (cells + 2): begins of the cells, the horizon, and infinity. ``price`` (pools,
    cells + 1): 0 in the last cell. ``paid`` (pools, cells + 1): integral of the price up to each
    begin.
    """

    border_s: Any
    price: Any
    paid: Any


class Scratch(NamedTuple):
    """Working arrays of the pricing kernels, and their results.

    ``unit``, ``amount``: a heap of bought work, dearest first, as long as cells times points of a
    frontier. ``mode``, ``until``, ``rate``, ``cost``: one longer than the modes of a job, with
    twice as many modes if they add up. ``use``, ``change`` (pools, cells + 1): GPU-seconds in
    single cells, and changes of the number of GPUs at borders. ``paid``, ``size``, ``start_s``, by
    job: the least payment, the size of the numbers that it was computed from (for the rounding
    margin), and the first moment on GPUs, which is also the likely start of the next pass.
    """

    unit: Any
    amount: Any
    mode: Any
    until: Any
    rate: Any
    cost: Any
    use: Any
    change: Any
    paid: Any
    size: Any
    start_s: Any


@kernel
def find_cell(prices: Any, time_s: float, low: int, high: int) -> Any:
    """Return the cell (time interval) that contains `time_s`, searched from `low` to `high`."""
    border_s = prices.border_s
    if low < high:
        # Cells are usually equally long, so the first guess is usually right.
        cells = (time_s - border_s[low]) / (border_s[low + 1] - border_s[low])
        guess = low + int(max(0.0, min(cells, high - low)))
        if border_s[guess] > time_s:
            high = guess - 1
        elif guess == high or border_s[guess + 1] > time_s:
            return guess
        else:
            low = guess + 1
    while low < high:
        middle = (low + high + 1) // 2
        if border_s[middle] <= time_s:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def rent(prices: Any, pool: int, start_s: float, first: int, end_s: float, last: int) -> Any:
    """Return the price of a GPU from `start_s` in cell `first` to `end_s` in cell `last`."""
    border_s = prices.border_s
    return (
        prices.paid[pool, last]
        + (end_s - border_s[last]) * prices.price[pool, last]
        - prices.paid[pool, first]
        - (start_s - border_s[first]) * prices.price[pool, first]
    )


@kernel
def last_within(prices: Any, pool: int, most: float, low: int, high: int) -> Any:
    """Return the last cell from `low` to `high` before which a GPU costs at most `most`, or `low`.

    The integral of the price up to each cell never falls. The search doubles its steps, because the
    cell is usually near.
    """
    paid = prices.paid
    step = 1
    while low + step <= high and paid[pool, low + step] <= most:
        low += step
        step *= 2
    high = min(high, low + step - 1)
    while low < high:
        middle = (low + high + 1) // 2
        if paid[pool, middle] <= most:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def least_hold(jobs: Any, job: int, prices: Any, cell: int) -> Any:
    """Return a job's least cost per second of waiting or holding idle GPUs, in a time interval."""
    least = jobs.weight[job]
    for mode in range(jobs.first[job], jobs.first[job + 1]):
        cost = jobs.gpus[mode] * prices.price[jobs.pool[mode], cell]
        if cost < least:
            least = cost
    return least


@kernel
def use_hold(jobs: Any, job: int, prices: Any, cell: int, seconds: float, scratch: Any) -> Any:
    """Add the GPU-seconds of holding GPUs idly to the GPU use, if that is cheaper than waiting."""
    least = jobs.weight[job]
    found = NOWHERE
    for mode in range(jobs.first[job], jobs.first[job + 1]):
        cost = jobs.gpus[mode] * prices.price[jobs.pool[mode], cell]
        if cost < least:
            least = cost
            found = mode
    if found != NOWHERE:
        scratch.use[jobs.pool[found], cell] += seconds * jobs.gpus[found]
    return found


@kernel
def cheapest_run(jobs: Any, job: int, prices: Any, is_queue: int, likely_s: float) -> Any:
    """Find the cheapest contiguous run of a job; return its payment, start, end and mode.

    The cost is linear between two moments at which the start or the end of the run passes a border.
    So only those moments and the release must be examined. Many are skipped: a run that starts
    between s and t costs at least as much as waiting until s and GPUs from t to the end of a run
    from s. A likely start `likely_s` tells early which costs are too high. It does not affect the
    result, because costs are compared with its cost with a margin.
    """
    border_s = prices.border_s
    weight = jobs.weight[job]
    release_s = jobs.release_s[job]
    horizon = len(border_s) - 2
    best = math.inf
    likely = math.inf
    best_start_s = release_s
    best_end_s = release_s
    best_mode = NOWHERE
    for mode in range(jobs.first[job], jobs.first[job + 1]):
        pool = jobs.pool[mode]
        gpus = jobs.gpus[mode]
        length_s = 1.0 / jobs.rate[mode]
        start_s = release_s
        end_s = start_s + length_s
        here = jobs.cell[job]
        there = find_cell(prices, end_s, here, horizon)
        waited = 0.0
        per_second = least_hold(jobs, job, prices, here) if is_queue else weight
        if not is_queue:
            until_s = likely_s + length_s
            first = find_cell(prices, likely_s, here, horizon)
            last = find_cell(prices, until_s, there, horizon)
            cost = gpus * rent(prices, pool, likely_s, first, until_s, last)
            cost += weight * (until_s - release_s)
            likely = min(likely, cost + MARGIN * (1.0 + cost))
        while True:
            cost = waited + gpus * rent(prices, pool, start_s, here, end_s, there)
            if not is_queue:
                cost += weight * length_s
            if cost < best:
                best = cost
                best_start_s = start_s
                best_end_s = end_s
                best_mode = mode
            if here == horizon:
                break
            floor = waited if is_queue else waited + weight * length_s
            enough = min(best, likely)
            if floor >= enough:
                break
            most = rent(prices, pool, 0.0, 0, start_s, here) + (cost - enough) / gpus
            after = last_within(prices, pool, most, here, horizon)
            if after > here:
                if is_queue:
                    for cell in range(here, after):
                        waited += (border_s[cell + 1] - start_s) * per_second
                        start_s = border_s[cell + 1]
                        per_second = least_hold(jobs, job, prices, cell + 1)
                here = after
                start_s = border_s[here]
                end_s = start_s + length_s
                there = find_cell(prices, end_s, there, horizon)
            else:
                to_start = border_s[here + 1] - start_s
                to_end = border_s[there + 1] - end_s
                if to_start <= to_end:
                    if is_queue:
                        waited += to_start * per_second
                    here += 1
                    start_s = border_s[here]
                    end_s = start_s + length_s
                    if is_queue:
                        per_second = least_hold(jobs, job, prices, here)
                    if there < horizon and end_s >= border_s[there + 1]:
                        there += 1
                else:
                    if is_queue:
                        waited += to_end * per_second
                    there += 1
                    end_s = border_s[there]
                    start_s = end_s - length_s
                    if start_s >= border_s[here + 1]:
                        start_s = border_s[here + 1]
            if not is_queue:
                waited = weight * (start_s - release_s)
    return best, best_start_s, best_end_s, best_mode


@kernel
def use_run(
    jobs: Any,
    job: int,
    prices: Any,
    is_queue: int,
    start_s: float,
    end_s: float,
    mode: int,
    scratch: Any,
) -> Any:
    """Add the GPU-seconds of a contiguous run of a job to the GPU use."""
    border_s = prices.border_s
    horizon = len(border_s) - 2
    pool = jobs.pool[mode]
    gpus = jobs.gpus[mode]
    first = find_cell(prices, start_s, jobs.cell[job], horizon)
    last = find_cell(prices, end_s, first, horizon)
    if first == last:
        scratch.use[pool, first] += gpus * (end_s - start_s)
    else:
        scratch.use[pool, first] += gpus * (border_s[first + 1] - start_s)
        scratch.use[pool, last] += gpus * (end_s - border_s[last])
        scratch.change[pool, first + 1] += gpus
        scratch.change[pool, last] -= gpus
    if is_queue:
        from_s = jobs.release_s[job]
        for cell in range(jobs.cell[job], first + 1):
            until_s = border_s[cell + 1] if cell < first else start_s
            if until_s > from_s:
                use_hold(jobs, job, prices, cell, until_s - from_s, scratch)
                from_s = until_s
    return scratch


@kernel
def push(scratch: Any, points: int, rate: float, cost: float, until: int) -> Any:
    """Add a point to the lower hull, in order of rising rate; return the number of hull points.

    Among points with one rate, the cheapest must come first.
    """
    rates = scratch.rate
    costs = scratch.cost
    if rate == rates[points - 1]:
        return points
    while points > 1 and (costs[points - 1] - costs[points - 2]) * (rate - rates[points - 1]) >= (
        cost - costs[points - 1]
    ) * (rates[points - 1] - rates[points - 2]):
        points -= 1
    rates[points] = rate
    costs[points] = cost
    scratch.until[points] = until
    return points + 1


@kernel
def frontier(jobs: Any, job: int, prices: Any, cell: int, extra: float, scratch: Any) -> Any:
    """Compute a job's cost frontier in a time interval: the lower hull of all modes and idling.

    Holding any modes costs `extra` more than their GPUs. The rates and costs are left in `scratch`,
    from (0, 0) on, with rising cost per unit of work. The mode of a point is ``mode[until]``. If
    the modes of a job add up, a point holds all modes up to that one, cheapest work first; if
    `until` is negative, it holds only the mode with that number. Returns the number of points.
    """
    mode_of = scratch.mode
    rates = scratch.rate
    costs = scratch.cost
    adds = jobs.adds[job]
    modes = jobs.first[job + 1] - jobs.first[job]
    # The scratch arrays hold the points of the hull first, then the sorted modes.
    base = modes if adds else 0
    points = 1
    for mode in range(jobs.first[job], jobs.first[job + 1]):
        rate = jobs.rate[mode]
        cost = jobs.gpus[mode] * prices.price[jobs.pool[mode], cell]
        place = points
        while place > 1:
            before = base + place - 1
            if adds:  # cheapest work first
                is_before = costs[before] * rate > cost * rates[before]
            else:
                is_before = rates[before] > rate or (rates[before] == rate and costs[before] > cost)
            if not is_before:
                break
            rates[before + 1] = rates[before]
            costs[before + 1] = costs[before]
            mode_of[place] = mode_of[place - 1]
            place -= 1
        rates[base + place] = rate
        costs[base + place] = cost
        mode_of[place] = mode
        points += 1
    rates[0] = 0.0
    costs[0] = 0.0
    scratch.until[0] = 0
    kept = 1
    if adds and extra < 0.0:
        kept = push_singles(scratch, base, points, extra)
    for place in range(1, points):
        if adds and place > 1:
            rates[base + place] += rates[base + place - 1]
            costs[base + place] += costs[base + place - 1]
        kept = push(scratch, kept, rates[base + place], costs[base + place] + extra, place)
    return kept


@kernel
def push_singles(scratch: Any, base: int, points: int, extra: float) -> Any:
    """Add modes that a job may hold alone to the lower hull, if holding any GPU saves a cost.

    These modes do less work per second than the mode with the cheapest work, and cost less. Returns
    the number of points of the hull.
    """
    rates = scratch.rate
    costs = scratch.cost
    kept = 1
    last = 0
    while True:
        least = 0
        for place in range(2, points):
            rate = rates[base + place]
            if rates[base + 1] <= rate or (last and rate <= rates[base + last]):
                continue
            if (
                least == 0
                or rate < rates[base + least]
                or (rate == rates[base + least] and costs[base + place] < costs[base + least])
            ):
                least = place
        if least == 0:
            return kept
        kept = push(scratch, kept, rates[base + least], costs[base + least] + extra, -least)
        last = least


@kernel
def points_of(jobs: Any, job: int, prices: Any, cell: int, extra: float, scratch: Any) -> Any:
    """Return the number of points of a job's cost frontier in a time interval.

    For a job with one mode, the number is 2, and the points are not listed in `scratch`.
    """
    if jobs.first[job + 1] - jobs.first[job] == 1:
        return 2
    return frontier(jobs, job, prices, cell, extra, scratch)


@kernel
def piece(
    jobs: Any, job: int, prices: Any, cell: int, extra: float, place: int, scratch: Any
) -> Any:
    """Return the work per second that a frontier point adds to the previous, and its unit cost."""
    mode = jobs.first[job]
    if jobs.first[job + 1] - mode == 1:
        rate = jobs.rate[mode]
        return rate, (jobs.gpus[mode] * prices.price[jobs.pool[mode], cell] + extra) / rate
    rate = scratch.rate[place] - scratch.rate[place - 1]
    return rate, (scratch.cost[place] - scratch.cost[place - 1]) / rate


@kernel
def sift_up(unit: Any, amount: Any, place: int) -> Any:
    """Move the last entry of a max-heap up to its right position."""
    while place > 0:
        above = (place - 1) // 2
        if unit[above] >= unit[place]:
            break
        dearer = unit[place]
        unit[place] = unit[above]
        unit[above] = dearer
        moved = amount[place]
        amount[place] = amount[above]
        amount[above] = moved
        place = above
    return place


@kernel
def sift_down(unit: Any, amount: Any, size: int) -> Any:
    """Move the first entry of a max-heap down to its right position."""
    place = 0
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and unit[below + 1] > unit[below]:
            below += 1
        if unit[place] >= unit[below]:
            break
        cheaper = unit[place]
        unit[place] = unit[below]
        unit[below] = cheaper
        moved = amount[place]
        amount[place] = amount[below]
        amount[below] = moved
        place = below
    return place


@kernel
def evict(unit: Any, amount: Any, size: int, each: float, most: float) -> Any:
    """Remove up to `most` work with a unit cost above `each` from the heap, the dearest first.

    Returns (size of the heap, work removed, its cost).
    """
    taken = 0.0
    saved = 0.0
    while size > 0 and taken < most and unit[0] > each:
        left = most - taken
        if amount[0] > left:
            amount[0] -= left
            taken = most
            saved += left * unit[0]
        else:
            taken += amount[0]
            saved += amount[0] * unit[0]
            size -= 1
            unit[0] = unit[size]
            amount[0] = amount[size]
            sift_down(unit, amount, size)
    return size, taken, saved


@kernel
def cheapest_parts(jobs: Any, job: int, prices: Any, is_queue: int, scratch: Any) -> Any:
    """Find the cheapest set of work pieces that complete an interruptible job.

    Suppose that the job completes in a given cell. Then each second before that cell costs as much
    as waiting, and work in earlier cells is bought cheapest first. A second in the last cell is
    paid only if it is used, from the begin of the cell on. A heap, dearest first, holds the offers
    of earlier cells up to the work of the job. Work that is dearer than that of the last cell,
    including its seconds, is not needed for later completions either, because those seconds are
    then paid.

    Returns (payment, last cell, unit cost of the dearest work in earlier cells, work done in
    earlier cells, size of the numbers times the steps).
    """
    border_s = prices.border_s
    unit = scratch.unit
    amount = scratch.amount
    horizon = len(border_s) - 2
    from_s = jobs.release_s[job]
    waited = 0.0
    bought = 0.0
    paid = 0.0
    largest = 0.0
    steps = 1.0
    size = 0
    best = math.inf
    best_cell = NOWHERE
    best_unit = 0.0
    best_bought = 0.0
    cell = jobs.cell[job]
    while True:
        second = least_hold(jobs, job, prices, cell) if is_queue else jobs.weight[job]
        idle = second if is_queue else 0.0
        length_s = border_s[cell + 1] - from_s
        # Case 1: the job completes during the current time interval (cell).
        extra = second - idle
        points = points_of(jobs, job, prices, cell, extra, scratch)
        gap = 1.0 - bought
        cost = 0.0
        for place in range(1, points):
            rate, each = piece(jobs, job, prices, cell, extra, place, scratch)
            work = rate * length_s
            steps += 1.0
            if gap > 0.0:
                filled = min(work, gap)
                gap -= filled
                work -= filled
                cost += filled * each
            if gap <= 0.0 and size > 0 and unit[0] > each:
                size, taken, saved = evict(unit, amount, size, each, work)
                bought -= taken
                paid -= saved
                cost += taken * each
        if gap <= 0.0 and waited + paid + cost < best:
            best = waited + paid + cost
            best_cell = cell
            best_unit = unit[0] if size > 0 else 0.0
            best_bought = bought
        if cell == horizon:
            break
        waited += second * length_s
        if waited >= best:
            break
        # Case 2: the job completes in a later time interval (cell).
        extra = -idle
        points = points_of(jobs, job, prices, cell, extra, scratch)
        for place in range(1, points):
            rate, each = piece(jobs, job, prices, cell, extra, place, scratch)
            work = rate * length_s
            gap = 1.0 - bought
            taken = 0.0
            if gap > 0.0:
                taken = min(work, gap)
            more = 0.0
            if taken < work and size > 0 and unit[0] > each:
                size, more, saved = evict(unit, amount, size, each, work - taken)
                paid -= saved
                bought -= more
            taken += more
            if taken > 0.0:
                unit[size] = each
                amount[size] = taken
                sift_up(unit, amount, size)
                size += 1
                bought += taken
                paid += taken * each
                steps += 1.0
                if each > largest:
                    largest = each
        cell += 1
        from_s = border_s[cell]
    return best, best_cell, best_unit, best_bought, steps * (largest + best)


@kernel
def use_point(jobs: Any, cell: int, until: int, adds: int, seconds: float, scratch: Any) -> Any:
    """Add the GPU-seconds of a frontier point, held for `seconds` seconds, to the GPU use."""
    first = 1 if adds and until > 0 else abs(until)
    if until != 0:
        for place in range(first, abs(until) + 1):
            mode = scratch.mode[place]
            scratch.use[jobs.pool[mode], cell] += seconds * jobs.gpus[mode]
    return until


@kernel
def use_piece(
    jobs: Any, cell: int, place: int, idle_mode: int, adds: int, seconds: float, scratch: Any
) -> Any:
    """Add the GPU-seconds by which a frontier point exceeds the previous point to the GPU use."""
    use_point(jobs, cell, scratch.until[place], adds, seconds, scratch)
    before = use_point(jobs, cell, scratch.until[place - 1], adds, -seconds, scratch)
    if before == 0 and idle_mode != NOWHERE:
        scratch.use[jobs.pool[idle_mode], cell] -= seconds * jobs.gpus[idle_mode]
    return before


@kernel
def use_parts(
    jobs: Any,
    job: int,
    prices: Any,
    is_queue: int,
    last: int,
    threshold: float,
    bought: float,
    scratch: Any,
) -> Any:
    """Add the GPU-seconds of a job's cheapest work to the GPU use; return the job's first use.

    The first use is the moment, in seconds, from which the job holds GPUs.
    """
    border_s = prices.border_s
    adds = jobs.adds[job]
    start_s = math.inf
    at_threshold = bought
    # The cost frontier of a job with one execution mode does not depend on the time interval, so
    # it is computed only once.
    frontier(jobs, job, prices, jobs.cell[job], 0.0, scratch)
    for turn in range(2):
        from_s = jobs.release_s[job]
        for cell in range(jobs.cell[job], last + turn):
            is_last = cell == last
            second = least_hold(jobs, job, prices, cell) if is_queue else jobs.weight[job]
            idle = second if is_queue else 0.0
            length_s = border_s[cell + 1] - from_s
            idle_mode = NOWHERE
            if is_last:
                at_threshold = 1.0 - bought
            elif is_queue and turn == 1:
                idle_mode = use_hold(jobs, job, prices, cell, length_s, scratch)
            extra = second - idle if is_last else -idle
            points = points_of(jobs, job, prices, cell, extra, scratch)
            for place in range(1, points):
                rate, each = piece(jobs, job, prices, cell, extra, place, scratch)
                if each > threshold and not is_last:
                    break
                taken = rate * length_s
                if turn == 0:
                    if each < threshold:
                        at_threshold -= taken
                    continue
                if each == threshold or is_last:
                    taken = max(0.0, min(taken, at_threshold))
                    at_threshold -= taken
                if taken > 0.0:
                    start_s = min(start_s, from_s)
                    use_piece(jobs, cell, place, idle_mode, adds, taken / rate, scratch)
            from_s = border_s[cell + 1]
    return start_s


@kernel
def price_jobs(jobs: Any, prices: Any, is_queue: int, counts: int, scratch: Any) -> Any:
    """Compute the least payment of each job, and with `counts` the GPU-seconds used."""
    for job in range(len(jobs.release_s)):
        if jobs.is_contiguous[job]:
            paid, start_s, end_s, mode = cheapest_run(
                jobs, job, prices, is_queue, scratch.start_s[job]
            )
            if counts:
                use_run(jobs, job, prices, is_queue, start_s, end_s, mode, scratch)
            scratch.size[job] = 1.0
        else:
            paid, last, threshold, bought, size = cheapest_parts(
                jobs, job, prices, is_queue, scratch
            )
            start_s = jobs.release_s[job]
            if counts:
                start_s = use_parts(jobs, job, prices, is_queue, last, threshold, bought, scratch)
            scratch.size[job] = size
        scratch.paid[job] = paid
        scratch.start_s[job] = start_s
    return scratch
