"""The inner loops of branch and bound for jobs that survive some losses.

A server is free (0), chosen (1) or spared, that is, excluded (2). A job is open (0); kept, so that
no choice below the node may preempt it (1); paid for, so that its weight is counted whatever is
chosen (2); or safe, so that no choice below the node can preempt it (3).

All arithmetic is in integers, so that interpreted and compiled runs agree exactly and the value of
any prices is a proof.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lyra_opt.core.kernels import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence


FREE, CHOSEN, SPARED = range(3)
OPEN, KEPT, PAID, SAFE = range(4)


class Dominance(NamedTuple):
    """Server pairs as two arrays, in which the first server of each pair dominates the second."""

    dominating: Any
    dominated: Any

    @classmethod
    def of(cls, pairs: Sequence[tuple[int, int]]) -> Dominance:
        """Convert a list of (dominating, dominated) pairs to arrays."""
        table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return cls(table[:, 0].copy(), table[:, 1].copy())


@kernel
def propagate(
    reclaim_servers: int,
    slack: Any,
    losses: Any,
    dominance: Any,
    server_state: Any,
    job_state: Any,
    residual: Any,
) -> Any:
    """Derive all implied decisions about servers and jobs, until no decision is new.

    Exactly N_R servers are chosen. A job that lost more than its slack is paid for, and a job that
    can no longer lose more is safe. A kept job excludes every server with more of its workers than
    it can still lose. A server that dominates a chosen server is chosen, and a server dominated by
    an excluded server is excluded.

    Parameters
    ----------
    losses, dominance
        An `Incidence` and a `Dominance`.
    server_state, job_state
        Shape (servers,) and (jobs,): the decisions, changed in place.
    residual
        Shape (jobs,), output: the number of workers that an open or kept job can still lose.

    Returns
    -------
    tuple
        ``(may be feasible, servers still to choose, server_state, job_state, residual)``.

    Notes
    -----
    Time O(entries + pairs) for each round, with at most one round per decision and in practice two
    or three rounds.
    """
    job_start = losses.job_start
    job_servers = losses.job_servers
    job_losses = losses.job_counts
    servers = len(server_state)
    changed = True
    wanted = 0
    while changed:
        changed = False
        wanted = reclaim_servers
        free = 0
        for s in range(servers):
            if server_state[s] == FREE:
                free += 1
            elif server_state[s] == CHOSEN:
                wanted -= 1
        if wanted < 0 or wanted > free:
            return False, wanted, server_state, job_state, residual
        if free > 0 and (wanted == 0 or wanted == free):
            for s in range(servers):
                if server_state[s] == FREE:
                    server_state[s] = SPARED if wanted == 0 else CHOSEN
            changed = True
            continue
        for j in range(len(slack)):
            if job_state[j] >= PAID:
                continue
            left = slack[j]
            at_risk = 0
            for entry in range(job_start[j], job_start[j + 1]):
                state = server_state[job_servers[entry]]
                if state == FREE:
                    at_risk += job_losses[entry]
                elif state == CHOSEN:
                    left -= job_losses[entry]
            if left < 0:
                if job_state[j] == KEPT:
                    return False, wanted, server_state, job_state, residual
                job_state[j] = PAID
                continue
            if at_risk <= left:
                job_state[j] = SAFE
                continue
            if job_state[j] == KEPT:
                for entry in range(job_start[j], job_start[j + 1]):
                    s = job_servers[entry]
                    if server_state[s] == FREE and job_losses[entry] > left:
                        server_state[s] = SPARED
                        changed = True
            residual[j] = left
        for pair in range(len(dominance.dominating)):
            s = dominance.dominating[pair]
            t = dominance.dominated[pair]
            if server_state[s] == SPARED and server_state[t] != SPARED:
                if server_state[t] == CHOSEN:
                    return False, wanted, server_state, job_state, residual
                server_state[t] = SPARED
                changed = True
            elif server_state[t] == CHOSEN and server_state[s] == FREE:
                server_state[s] = CHOSEN
                changed = True
    return True, wanted, server_state, job_state, residual


MOMENTUM = 77
"""Weight of the newest subgradient in the step direction, in parts of 256."""
PATIENCE = 20
"""Number of steps without progress after which steps get shorter."""
SHRINKAGE = 205
"""Factor by which steps get shorter, in parts of 256."""


class PricedProblem(NamedTuple):
    """The weights, costs and losses of the instance, which all nodes share.

    Parameters
    ----------
    weight, cost
        Shape (jobs,) and (servers,), in the unit of prices.
    losses
        An `Incidence`.
    largest_price
        Upper limit of every price.
    """

    weight: Any
    cost: Any
    losses: Any
    largest_price: int


class Decided(NamedTuple):
    """The decisions of a node and the servers and jobs that they leave open.

    Parameters
    ----------
    constant
        Weight of the paid jobs plus cost of the chosen servers, in the unit of prices.
    wanted, free
        Number of servers still to choose, and number of free servers.
    server_state, job_state, residual
        The states as `propagate` leaves them.
    jobs, active_jobs, active_start
        The number of open or kept jobs, their numbers, and where the entries of each job start in
        `Order.entries`: shape (jobs,) and (jobs + 1,).
    """

    constant: int
    wanted: int
    free: int
    server_state: Any
    job_state: Any
    residual: Any
    jobs: int
    active_jobs: Any
    active_start: Any


class Order(NamedTuple):
    """The open (job, server) entries and the free servers, kept almost sorted for fast sorting.

    Parameters
    ----------
    entries
        Entries of the active jobs on free servers, for each job by price per worker.
    servers
        The free servers, with the `wanted` cheapest first.
    """

    entries: Any
    servers: Any


class Valuation(NamedTuple):
    """The working arrays that `value_prices` fills, such as server prices and job decisions.

    Parameters
    ----------
    price
        Shape (servers,): the total price of each free server.
    taken
        Shape (entries,): the part of the server that counts as lost by its kept job, in parts of
        256.
    is_paid, if_kept, if_paid
        Shape (jobs,): whether paying is the better alternative for the job, and the contributions
        of both alternatives to the bound.
    most_given
        Scratch for knapsacks in whole servers, for jobs that can lose fewer workers than its
        length.
    """

    price: Any
    taken: Any
    is_paid: Any
    if_kept: Any
    if_paid: Any
    most_given: Any


class Ascent(NamedTuple):
    """The state of the subgradient ascent of the prices.

    Parameters
    ----------
    length, stale
        Step length in parts of 256, and number of steps without progress.
    value, best_prices
        The best bound so far, and its prices.
    prices
        Shape (entries,): the current prices.
    direction
        Shape (entries,): moving average of the subgradients.
    paid_share, chosen_share
        Shape (jobs,) and (servers,): moving averages, in parts of 2**16, of whether a job is paid
        for and whether a server is chosen. They estimate the solution of the linear programme.
    """

    length: int
    stale: int
    value: int
    best_prices: Any
    prices: Any
    direction: Any
    paid_share: Any
    chosen_share: Any


@kernel
def list_entries(
    losses: Any, server_state: Any, job_state: Any, active_jobs: Any, active_start: Any, order: Any
) -> Any:
    """List the jobs that may still be preempted, their entries on free servers, and free servers.

    Returns
    -------
    tuple
        ``(jobs, free servers, active_jobs, active_start, order)``, the last three filled in.
    """
    jobs = 0
    entries = 0
    active_start[0] = 0
    for j in range(len(job_state)):
        if job_state[j] >= PAID:
            continue
        for entry in range(losses.job_start[j], losses.job_start[j + 1]):
            if server_state[losses.job_servers[entry]] == FREE:
                order.entries[entries] = entry
                entries += 1
        active_jobs[jobs] = j
        jobs += 1
        active_start[jobs] = entries
    free = 0
    for s in range(len(server_state)):
        if server_state[s] == FREE:
            order.servers[free] = s
            free += 1
    return jobs, free, active_jobs, active_start, order


@kernel
def select_cheapest(wanted: int, free: int, price: Any, server_order: Any) -> None:
    """Move the `wanted` cheapest of the first `free` servers of `server_order` to its front.

    Hoare's selection with the middle as pivot, starting from the previous order: O(free) time in
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
def sort_by_price(first: int, end: int, entries: Any, prices: Any, job_losses: Any) -> None:
    """Sort the entries of a job by price per worker, the highest first."""
    for place in range(first + 1, end):
        entry = entries[place]
        back = place
        while back > first and (
            prices[entries[back - 1]] * job_losses[entry]
            < prices[entry] * job_losses[entries[back - 1]]
        ):
            entries[back] = entries[back - 1]
            back -= 1
        entries[back] = entry


@kernel
def most_for_whole_servers(
    capacity: int, first: int, end: int, entries: Any, prices: Any, job_losses: Any, most_given: Any
) -> Any:
    """Return the largest total price of a set of servers with at most `capacity` losses."""
    for c in range(capacity + 1):
        most_given[c] = 0
    for place in range(first, end):
        entry = entries[place]
        losses = job_losses[entry]
        if losses > capacity:
            continue
        for back in range(capacity - losses + 1):
            c = capacity - back
            most_given[c] = max(most_given[c], most_given[c - losses] + prices[entry])
    return most_given[capacity]


@kernel
def give_back(
    capacity: int, first: int, end: int, entries: Any, prices: Any, job_losses: Any, valuation: Any
) -> Any:
    """Return an upper bound on the total price of servers that a job can lose and survive.

    The bound is the value of the continuous knapsack, rounded up: servers by price per worker as
    long as the job can lose all their workers, then a part of the next server. If a part is taken
    and `most_given` is long enough, the knapsack is solved in whole servers, which is tighter.
    `taken` is filled with the continuous solution in both cases.
    """
    sort_by_price(first, end, entries, prices, job_losses)
    left = capacity
    given = 0
    for place in range(first, end):
        entry = entries[place]
        losses = job_losses[entry]
        if losses <= left:
            given += prices[entry]
            valuation.taken[entry] = 256
            left -= losses
        elif losses <= capacity:
            valuation.taken[entry] = 256 * left // losses
            if left > 0 and capacity < len(valuation.most_given):
                return most_for_whole_servers(
                    capacity, first, end, entries, prices, job_losses, valuation.most_given
                )
            return given + (prices[entry] * left + losses - 1) // losses
    return given


@kernel
def value_prices(problem: Any, node: Any, prices: Any, order: Any, valuation: Any) -> Any:
    """Return the lower bound that prices prove for all choices that respect the decisions.

    The bound is the sum of the `wanted` smallest prices of free servers (their cost plus their
    price for each job), minus what each job gives back. A kept job gives back the largest total
    price of servers that it survives (`give_back`). An open job gives back the larger of that and
    the total of all its prices minus its weight. `prices`, shape (entries,), are at least 0. Time
    O(entries + servers) plus the sorting.
    """
    job_losses = problem.losses.job_counts
    job_servers = problem.losses.job_servers
    price = valuation.price
    taken = valuation.taken
    entries = order.entries
    value = node.constant
    for place in range(node.free):
        s = order.servers[place]
        price[s] = problem.cost[s]
    for active in range(node.jobs):
        j = node.active_jobs[active]
        first = node.active_start[active]
        end = node.active_start[active + 1]
        asked = 0
        for place in range(first, end):
            entry = entries[place]
            asked += prices[entry]
            price[job_servers[entry]] += prices[entry]
            taken[entry] = 0
        given = 0
        if node.residual[j] > 0:
            given = give_back(node.residual[j], first, end, entries, prices, job_losses, valuation)
        if_paid = problem.weight[j] - asked
        valuation.if_kept[j] = -given
        valuation.if_paid[j] = if_paid
        valuation.is_paid[j] = 0
        if node.job_state[j] == OPEN and if_paid < -given:
            valuation.is_paid[j] = 1
            value += if_paid
            for place in range(first, end):
                taken[entries[place]] = 256
        else:
            value -= given
    select_cheapest(node.wanted, node.free, price, order.servers)
    for place in range(node.wanted):
        value += price[order.servers[place]]
    return value


@kernel
def update_direction(problem: Any, node: Any, order: Any, valuation: Any, ascent: Any) -> int:
    """Update the step direction with the newest subgradient; return the square of its length.

    The price of a server for a job should rise if the server is chosen but the job gives nothing
    back for it. It should fall if the job gives it back but the server is not chosen. The moving
    averages of the shares are updated as well.
    """
    price = valuation.price  # reused as scratch until the next valuation
    for place in range(node.free):
        s = order.servers[place]
        is_chosen = place < node.wanted
        price[s] = 256 if is_chosen else 0
        ascent.chosen_share[s] += ((65536 if is_chosen else 0) - ascent.chosen_share[s]) // 32
    square = 0
    for active in range(node.jobs):
        j = node.active_jobs[active]
        ascent.paid_share[j] += (65536 * valuation.is_paid[j] - ascent.paid_share[j]) // 32
        for place in range(node.active_start[active], node.active_start[active + 1]):
            entry = order.entries[place]
            difference = price[problem.losses.job_servers[entry]] - valuation.taken[entry]
            along = (MOMENTUM * difference + (256 - MOMENTUM) * ascent.direction[entry]) // 256
            ascent.direction[entry] = along
            if along > 0 or ascent.prices[entry] > 0:
                square += along * along
    return square


@kernel
def raise_prices(
    iterations: int,
    threshold: int,
    target: int,
    problem: Any,
    node: Any,
    order: Any,
    valuation: Any,
    ascent: Any,
) -> Any:
    """Raise the bound that the prices prove by steps along a deflected subgradient.

    Steps have Polyak's length towards `target`, which exceeds `threshold`, along a moving average
    of the subgradients. After `PATIENCE` steps without progress they become shorter and restart
    from the best prices. The ascent ends as soon as the value exceeds `threshold`.

    Returns
    -------
    tuple
        ``(length, stale, value, ascent, order)``: the first three fields of the new ascent, whose
        arrays are those of `ascent`.
    """
    prices = ascent.prices
    best_prices = ascent.best_prices
    entries = order.entries
    entry_count = node.active_start[node.jobs]
    length = ascent.length
    stale = ascent.stale
    best_value = ascent.value
    for _ in range(iterations):
        value = value_prices(problem, node, prices, order, valuation)
        stale += 1
        if value > best_value:
            if value - best_value > (target - best_value) // 256:
                stale = 0
            best_value = value
            for place in range(entry_count):
                best_prices[entries[place]] = prices[entries[place]]
        if best_value > threshold:
            break
        square = update_direction(problem, node, order, valuation, ascent)
        if square == 0:
            break
        if stale >= PATIENCE:
            stale = 0
            length = length * SHRINKAGE // 256
            for place in range(entry_count):
                prices[entries[place]] = best_prices[entries[place]]
            if length == 0:
                break
            continue
        # The step is counted in units of 1/256 of a price, and is at most the largest price.
        largest = problem.largest_price
        step = min((min(target - value, target) * length << 8) // square, largest << 8)
        for place in range(entry_count):
            entry = entries[place]
            raised = prices[entry] + (step * ascent.direction[entry] >> 8)
            prices[entry] = min(max(raised, 0), largest)
    return length, stale, best_value, ascent, order


@kernel
def fix_by_prices(
    threshold: int, problem: Any, node: Any, prices: Any, order: Any, valuation: Any
) -> Any:
    """Fix the jobs and servers whose opposite decision would raise the bound above `threshold`.

    The wrong alternative of an open job costs the difference of its two alternatives. `fix_servers`
    handles servers.

    Returns
    -------
    tuple
        ``(value of the prices, number of decisions, server_state, job_state, order)``; the first
        `wanted` of ``order.servers`` are the cheapest free servers.
    """
    value = value_prices(problem, node, prices, order, valuation)
    decisions = 0
    if value <= threshold:
        for active in range(node.jobs):
            j = node.active_jobs[active]
            if node.job_state[j] != OPEN:
                continue
            difference = valuation.if_paid[j] - valuation.if_kept[j]
            if value + difference > threshold:
                node.job_state[j] = KEPT
                decisions += 1
            elif value - difference > threshold:
                node.job_state[j] = PAID
                decisions += 1
        if 0 < node.wanted < node.free:
            decisions += fix_servers(threshold - value, node, order.servers, valuation.price)
    return value, decisions, node.server_state, node.job_state, order


@kernel
def fix_servers(most: int, node: Any, servers: Any, price: Any) -> int:
    """Fix the servers whose opposite decision would add more than `most`; return their number.

    Choosing a server that is not among the cheapest costs at least its price minus the highest
    price among the cheapest. Excluding one of the cheapest costs at least the price of the next
    server minus its own price.
    """
    dearest = price[servers[0]]
    for place in range(1, node.wanted):
        dearest = max(dearest, price[servers[place]])
    cheapest = price[servers[node.wanted]]
    for place in range(node.wanted + 1, node.free):
        cheapest = min(cheapest, price[servers[place]])
    decisions = 0
    for place in range(node.free):
        s = servers[place]
        if place < node.wanted:
            if cheapest - price[s] > most:
                node.server_state[s] = CHOSEN
                decisions += 1
        elif price[s] - dearest > most:
            node.server_state[s] = SPARED
            decisions += 1
    return decisions
