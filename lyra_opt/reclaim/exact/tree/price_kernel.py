"""Prices of servers that prove a bound, by coordinate ascent: the inner loop of the tree search.

Split each job's weight over its servers, and no choice can pay less than its servers' shares
together: the sum of the N_R smallest prices is a lower bound. The best split makes prices as even
as the jobs allow, so each job in turn pours its weight onto its cheapest servers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lyra_opt.core.kernels import kernel


class Split(NamedTuple):
    """Jobs that split their weight over servers.

    Parameters
    ----------
    weight, job_start, job_servers
        Of each job; by job, the servers that it may charge.
    share
        What each entry adds to the price of its server. The shares of a job never add up to more
        than its weight, whatever is rounded.
    price
        Of each server.
    without
        Scratch, as long as `price`: the prices of one job's servers without its own shares.
    """

    weight: Any
    job_start: Any
    job_servers: Any
    share: Any
    price: Any
    without: Any


@kernel
def split_weights(jobs: int, forbidden_price: int, split: Any) -> None:
    """Let each job in turn split its weight anew, so that the cheapest of its servers are level.

    Changes `share` and `price` in place. A server of at least `forbidden_price` can not be chosen
    and gets nothing.

    One round is a step of block coordinate descent for the sum of squared prices, whose minimum
    is the min-norm point of the base polytope of f(X), the weight that a set X preempts: it gives
    the best bound for every N_R at once (Fujishige 1980; linear convergence of the descent: Ene
    and Nguyen, ICML 2015). Time O(entries), times the few passes that find a job's level.
    """
    weight = split.weight
    job_start = split.job_start
    job_servers = split.job_servers
    share = split.share
    price = split.price
    without = split.without
    for j in range(jobs):
        if weight[j] == 0:
            for entry in range(job_start[j], job_start[j + 1]):
                if price[job_servers[entry]] < forbidden_price:
                    price[job_servers[entry]] -= share[entry]
                share[entry] = 0
            continue
        # No branches within the loops below: half of them would be foretold wrongly.
        first = job_start[j]
        size = job_start[j + 1] - first
        free = 0
        free_total = weight[j]
        filled = 0
        filled_total = weight[j]
        for place in range(size):
            s = job_servers[first + place]
            is_free = price[s] < forbidden_price
            is_filled = is_free & (share[first + place] > 0)
            without[place] = price[s] - is_free * share[first + place]
            free += is_free
            free_total += is_free * without[place]
            filled += is_filled
            filled_total += is_filled * without[place]
        if free == 0:
            for place in range(size):
                share[first + place] = 0
            continue
        # Mostly the servers below the level are those of the round before.
        level = -1
        if filled > 0:
            level = filled_total // filled
            below = 0
            below_total = weight[j]
            for place in range(size):
                is_below = without[place] < level
                below += is_below
                below_total += is_below * without[place]
            if below != filled or below_total != filled_total:
                level = -1
        if level < 0:
            # Servers above the level of all drop out, which lowers the level of the others.
            level = free_total // free
            while True:
                below = 0
                below_total = weight[j]
                for place in range(size):
                    is_below = without[place] < level
                    below += is_below
                    below_total += is_below * without[place]
                if below == free or below == 0 or below_total // below >= level:
                    break
                level = below_total // below
                free = below
        for place in range(size):
            s = job_servers[first + place]
            share[first + place] = max(level - without[place], 0)
            price[s] = without[place] + share[first + place]


@kernel
def level_prices(rounds: int, jobs: int, forbidden_price: int, split: Any) -> Any:
    """Return `split` after so many rounds of `split_weights`."""
    for _ in range(rounds):
        split_weights(jobs, forbidden_price, split)
    return split


@kernel
def smallest_prices(
    servers: int, picks: int, forbidden_price: int, price: Any, scratch: Any
) -> Any:
    """Return the sum of the `picks` smallest prices, and the largest of these.

    Both are `forbidden_price` if there are fewer that are smaller than that. `picks` is at least
    1 and at most `servers`. Hoare's selection, O(servers) expected.
    """
    for s in range(servers):
        scratch[s] = price[s]
    last = picks - 1
    low = 0
    high = servers - 1
    while low < high:
        pivot = scratch[(low + high) // 2]
        left = low
        right = high
        while left <= right:
            while scratch[left] < pivot:
                left += 1
            while scratch[right] > pivot:
                right -= 1
            if left <= right:
                swapped = scratch[left]
                scratch[left] = scratch[right]
                scratch[right] = swapped
                left += 1
                right -= 1
        if last <= right:
            high = right
        elif last >= left:
            low = left
        else:
            break
    if scratch[last] >= forbidden_price:
        return forbidden_price, forbidden_price
    total = 0
    for s in range(picks):
        total += scratch[s]
    return total, scratch[last]


@kernel
def price_bound(
    rounds: int,
    picks: int,
    guess: int,
    target: int,
    servers: int,
    jobs: int,
    forbidden_price: int,
    split: Any,
    scratch: Any,
) -> Any:
    """Return the sum of the smallest prices after up to `rounds` rounds, and the last of these.

    It stops early above `target`, and when the last round gained so little that `target` is out
    of reach. Until then the sum is not computed but bounded from below, by
    picks * c - sum of max(0, c - price) with c the `guess` of the last of them: the two are equal
    where the guess is right, and this takes a tenth of the time. Both returned are
    `forbidden_price` if no `picks` servers can be chosen.
    """
    before = 0
    for done in range(rounds):
        split_weights(jobs, forbidden_price, split)
        saved = 0
        for s in range(servers):
            saved += max(guess - split.price[s], 0)
        about = picks * guess - saved
        # Gains shrink geometrically, slowly at worst.
        if about > target or (
            done > 0 and (about - before) * HOPE * (rounds - done) < target - about
        ):
            break
        before = about
    return smallest_prices(servers, picks, forbidden_price, split.price, scratch)


HOPE = 2
"""How much more than in the last round a later one may be expected to gain."""
