"""Inner loops of the price bound of the threshold search: value prices, raise them, fix by them.

All is in integers, so that interpreted and compiled runs agree to the last digit and the value of
any prices is a proof. Numbers of states as in ``threshold_propagation.py``.
"""

from __future__ import annotations

from typing import Any

from lyra_opt.core.kernels import kernel
from lyra_opt.reclaim.exact.threshold.propagation import CHOSEN, FREE, KEPT, OPEN, PAID, SPARED


@kernel
def list_entries(
    job_start: Any,
    job_servers: Any,
    server_state: Any,
    job_state: Any,
    active_jobs: Any,
    active_start: Any,
    order: Any,
    server_order: Any,
) -> Any:
    """List the jobs that are open or kept, their entries on free servers, and the free servers.

    Parameters
    ----------
    active_jobs, active_start
        Shape (jobs,) and (jobs + 1,): results, the jobs and where the entries of each start.
    order
        Shape (entries,): result, the entries.
    server_order
        Shape (servers,): result, the free servers.

    Returns
    -------
    tuple
        ``(jobs, free servers, active_jobs, active_start, order, server_order)``.
    """
    jobs = 0
    entries = 0
    active_start[0] = 0
    for j in range(len(job_state)):
        if job_state[j] >= PAID:
            continue
        for entry in range(job_start[j], job_start[j + 1]):
            if server_state[job_servers[entry]] == FREE:
                order[entries] = entry
                entries += 1
        active_jobs[jobs] = j
        jobs += 1
        active_start[jobs] = entries
    free = 0
    for s in range(len(server_state)):
        if server_state[s] == FREE:
            server_order[free] = s
            free += 1
    return jobs, free, active_jobs, active_start, order, server_order


@kernel
def select_cheapest(wanted: int, free: int, price: Any, server_order: Any) -> None:
    """Move the `wanted` cheapest of the first `free` servers of `server_order` to its front.

    Hoare's selection with the middle as pivot, from the order that it left before: O(free) in
    practice.
    """
    low = 0
    high = free - 1
    while low < high:
        pivot = price[server_order[(low + high) // 2]]
        left = low
        right = high
        while left <= right:
            while price[server_order[left]] < pivot:
                left += 1
            while price[server_order[right]] > pivot:
                right -= 1
            if left <= right:
                swapped = server_order[left]
                server_order[left] = server_order[right]
                server_order[right] = swapped
                left += 1
                right -= 1
        if wanted - 1 <= right:
            high = right
        elif wanted - 1 >= left:
            low = left
        else:
            return


@kernel
def value_prices(
    constant: int,
    wanted: int,
    jobs: int,
    free: int,
    weight: Any,
    cost: Any,
    job_servers: Any,
    job_losses: Any,
    job_state: Any,
    residual: Any,
    active_jobs: Any,
    active_start: Any,
    prices: Any,
    order: Any,
    server_order: Any,
    price: Any,
    taken: Any,
    is_paid: Any,
    if_kept: Any,
    if_paid: Any,
    most_given: Any,
    most_capacity: int,
) -> int:
    """Return what prices prove: no choice that keeps to the decisions costs less.

    The cheapest `wanted` free servers, at their own cost and what the jobs ask for them, less
    what each job gives back: an open job the larger of the prices of all its servers less its
    weight, and of what the prices of servers that it survives can sum to; a kept job only the
    latter. That sum is the continuous knapsack's, rounded up: servers by price for a worker as
    long as the job can lose all their workers, then a part of the next one.

    Parameters
    ----------
    constant
        Weight of the jobs paid for and cost of the servers chosen, scaled as the prices are.
    wanted, free
        Free servers to choose, of how many.
    weight, cost
        Shape (jobs,) and (servers,), scaled as the prices are.
    prices
        Shape (entries,), by job: at least 0.
    order
        Entries of the active jobs; sorted here by price for a worker, so that the next sorting
        has little to do.
    server_order
        The free servers; here the cheapest come to the front.
    price
        Shape (servers,): result, what each free server costs in all.
    taken
        Shape (entries,): result, how much of each server the job gives back for, of 256.
    is_paid, if_kept, if_paid
        Shape (jobs,): results, the alternative of each job, and what both add to the bound.
    most_given, most_capacity
        Scratch of that size: where the continuous knapsack takes a part of a server, it is
        solved in whole ones, which is tighter, for jobs that can lose less than that. `taken`
        stays that of the continuous one.

    Notes
    -----
    Time O(entries + servers) plus the sorting.
    """
    value = constant
    for place in range(free):
        s = server_order[place]
        price[s] = cost[s]
    for active in range(jobs):
        j = active_jobs[active]
        first = active_start[active]
        end = active_start[active + 1]
        asked = 0
        for place in range(first, end):
            entry = order[place]
            asked += prices[entry]
            price[job_servers[entry]] += prices[entry]
            taken[entry] = 0
        left = residual[j]
        given = 0
        if left > 0:
            for place in range(first + 1, end):
                entry = order[place]
                back = place
                while back > first and (
                    prices[order[back - 1]] * job_losses[entry]
                    < prices[entry] * job_losses[order[back - 1]]
                ):
                    order[back] = order[back - 1]
                    back -= 1
                order[back] = entry
            for place in range(first, end):
                entry = order[place]
                losses = job_losses[entry]
                if losses <= left:
                    given += prices[entry]
                    taken[entry] = 256
                    left -= losses
                elif losses <= residual[j]:
                    given += (prices[entry] * left + losses - 1) // losses
                    taken[entry] = 256 * left // losses
                    if left > 0 and residual[j] < most_capacity:
                        # No part of a server: the most that c losses can give, for each c.
                        for c in range(residual[j] + 1):
                            most_given[c] = 0
                        for item in range(first, end):
                            entry = order[item]
                            losses = job_losses[entry]
                            if losses > residual[j]:
                                continue
                            for back in range(residual[j] - losses + 1):
                                c = residual[j] - back
                                most_given[c] = max(
                                    most_given[c], most_given[c - losses] + prices[entry]
                                )
                        given = most_given[residual[j]]
                    break
        if_kept[j] = -given
        if_paid[j] = weight[j] - asked
        is_paid[j] = 0
        if job_state[j] == OPEN and weight[j] - asked < -given:
            is_paid[j] = 1
            value += weight[j] - asked
            for place in range(first, end):
                taken[order[place]] = 256
        else:
            value -= given
    select_cheapest(wanted, free, price, server_order)
    for place in range(wanted):
        value += price[server_order[place]]
    return value


@kernel
def raise_prices(
    iterations: int,
    threshold: int,
    target: int,
    largest_price: int,
    patience: int,
    momentum: int,
    shrink: int,
    step: int,
    stale: int,
    best_value: int,
    constant: int,
    wanted: int,
    jobs: int,
    free: int,
    weight: Any,
    cost: Any,
    job_servers: Any,
    job_losses: Any,
    job_state: Any,
    residual: Any,
    active_jobs: Any,
    active_start: Any,
    order: Any,
    server_order: Any,
    prices: Any,
    best_prices: Any,
    direction: Any,
    price: Any,
    taken: Any,
    is_paid: Any,
    if_kept: Any,
    if_paid: Any,
    is_chosen: Any,
    paid_share: Any,
    chosen_share: Any,
) -> Any:
    """Raise what the prices prove by steps along a deflected subgradient.

    Where a server is chosen for which a job gives nothing back, its price for the job rises;
    where a job gives back for a server that is not chosen, it falls. Steps are Polyak's towards
    `target`, along a moving average of these differences; after `patience` steps without
    progress they shrink to `shrink` and start from the best prices again.

    Parameters
    ----------
    iterations
        Steps at most.
    threshold
        It ends as soon as the value is larger.
    target
        Value that the steps aim at, more than `threshold`.
    patience, shrink
        See above; `shrink` of 256.
    momentum
        Share of the newest difference in the average, of 256.
    step, stale
        Length of the steps, of 256, and how many were made without progress.
    best_value, best_prices
        What was reached before, and with what.
    direction
        Shape (entries,): the average.
    paid_share, chosen_share
        Shape (jobs,) and (servers,): moving averages of whether a job is paid for and a server
        chosen, of 2**16: they estimate the solution of the linear programme.

    Returns
    -------
    tuple
        ``(step, stale, best_value, order, server_order, prices, best_prices, direction,
        paid_share, chosen_share)``.
    """
    for _ in range(iterations):
        value = value_prices(
            constant,
            wanted,
            jobs,
            free,
            weight,
            cost,
            job_servers,
            job_losses,
            job_state,
            residual,
            active_jobs,
            active_start,
            prices,
            order,
            server_order,
            price,
            taken,
            is_paid,
            if_kept,
            if_paid,
            active_start,
            0,
        )
        if value > best_value:
            if value - best_value > (target - best_value) // 256:
                stale = 0
            else:
                stale += 1
            best_value = value
            for place in range(active_start[jobs]):
                best_prices[order[place]] = prices[order[place]]
        else:
            stale += 1
        if best_value > threshold:
            break
        for place in range(free):
            s = server_order[place]
            is_chosen[s] = 256 if place < wanted else 0
            chosen_share[s] += ((65536 if place < wanted else 0) - chosen_share[s]) // 32
        square = 0
        for active in range(jobs):
            j = active_jobs[active]
            paid_share[j] += (65536 * is_paid[j] - paid_share[j]) // 32
            for place in range(active_start[active], active_start[active + 1]):
                entry = order[place]
                difference = is_chosen[job_servers[entry]] - taken[entry]
                along = (momentum * difference + (256 - momentum) * direction[entry]) // 256
                direction[entry] = along
                if along > 0 or prices[entry] > 0:
                    square += along * along
        if square == 0:
            break
        if stale >= patience:
            stale = 0
            step = step * shrink // 256
            for place in range(active_start[jobs]):
                prices[order[place]] = best_prices[order[place]]
            if step == 0:
                break
            continue
        # In units of 2**-8 of a price; no longer than what takes a price from 0 to the largest.
        length = min((min(target - value, target) * step << 8) // square, largest_price << 8)
        for place in range(active_start[jobs]):
            entry = order[place]
            raised = prices[entry] + (length * direction[entry] >> 8)
            prices[entry] = min(max(raised, 0), largest_price)
    return (
        step,
        stale,
        best_value,
        order,
        server_order,
        prices,
        best_prices,
        direction,
        paid_share,
        chosen_share,
    )


@kernel
def fix_by_prices(
    threshold: int,
    constant: int,
    wanted: int,
    jobs: int,
    free: int,
    weight: Any,
    cost: Any,
    job_servers: Any,
    job_losses: Any,
    server_state: Any,
    job_state: Any,
    residual: Any,
    active_jobs: Any,
    active_start: Any,
    prices: Any,
    order: Any,
    server_order: Any,
    price: Any,
    taken: Any,
    is_paid: Any,
    if_kept: Any,
    if_paid: Any,
    most_given: Any,
) -> Any:
    """Decide what the prices decide: the opposite would prove more than `threshold`.

    Choosing a server that is not among the cheapest costs at least its price less that of the
    dearest of them; sparing one of the cheapest at least the price of the next one less its own;
    and an open job costs the difference of its two alternatives where it takes the worse.

    Parameters
    ----------
    server_state, job_state
        Changed in place.

    Returns
    -------
    tuple
        ``(value of the prices, how many decisions, server_state, job_state, server_order)``; the
        first `wanted` of `server_order` are the cheapest free servers.
    """
    value = value_prices(
        constant,
        wanted,
        jobs,
        free,
        weight,
        cost,
        job_servers,
        job_losses,
        job_state,
        residual,
        active_jobs,
        active_start,
        prices,
        order,
        server_order,
        price,
        taken,
        is_paid,
        if_kept,
        if_paid,
        most_given,
        len(most_given),
    )
    decisions = 0
    if value > threshold:
        return value, decisions, server_state, job_state, server_order
    for active in range(jobs):
        j = active_jobs[active]
        if job_state[j] != OPEN:
            continue
        difference = if_paid[j] - if_kept[j]
        if value + difference > threshold:
            job_state[j] = KEPT
            decisions += 1
        elif value - difference > threshold:
            job_state[j] = PAID
            decisions += 1
    if 0 < wanted < free:
        dearest = price[server_order[0]]
        for place in range(1, wanted):
            dearest = max(dearest, price[server_order[place]])
        cheapest = price[server_order[wanted]]
        for place in range(wanted + 1, free):
            cheapest = min(cheapest, price[server_order[place]])
        for place in range(free):
            s = server_order[place]
            if place < wanted:
                if value + cheapest - price[s] > threshold:
                    server_state[s] = CHOSEN
                    decisions += 1
            elif value + price[s] - dearest > threshold:
                server_state[s] = SPARED
                decisions += 1
    return value, decisions, server_state, job_state, server_order
