"""The inner loop of the tree search: take the most promising node, bound it, branch on a job.

The bound comes from prices of servers, by coordinate ascent. Split each job's weight over its
servers, and no choice can pay less than its servers' shares together: the sum of the N_R smallest
prices is a lower bound. The best split makes prices as even as the jobs allow, so each job in turn
pours its weight onto its cheapest servers.
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

OPEN, PAID, KEPT = 0, 1, 2
"""What a node has decided about a job: nothing, that it is preempted, that it is not."""

ROUNDS_AT_NODE = 8
ROUNDS_AT_CHILD = 6


NEAR = 64
"""A server is cheap if it is dearer by at most 1 / 64 than the dearest of the cheapest."""


class TreeInstance(NamedTuple):
    """The instance, in which everything that weighs is in multiples of 1 / `unit`.

    Parameters
    ----------
    picks
        N_R.
    unit, forbidden_price
        A weight of 1; the price of servers that can not be chosen.
    weight, cost
        Of each job and of each server.
    job_start, job_servers, server_start, server_jobs
        Who is where, by job and by server.
    """

    picks: int
    unit: int
    forbidden_price: int
    weight: Any
    cost: Any
    job_start: Any
    job_servers: Any
    server_start: Any
    server_jobs: Any


class Tree(NamedTuple):
    """The open nodes, as a heap by bound, and what goes from one node to the next.

    Parameters
    ----------
    bounds, depths, slots
        The heap; a slot says which row of `decisions` is the node's.
    unused_slots
        The rows that no node uses.
    decisions
        A row for each node, in it one decision for each job.
    warm_share
        The shares of the node before, which the next starts from.
    """

    bounds: Any
    depths: Any
    slots: Any
    unused_slots: Any
    decisions: Any
    warm_share: Any


class Restricted(NamedTuple):
    """Scratch for the instance that the decisions of a node leave.

    Parameters
    ----------
    decision
        Of each job.
    number, server
        The number of each server among those left, -1 for none; and the other way round.
    job
        Which jobs are left: open, on at least two servers. Their weights, servers, shares and
        prices are a `Split`.
    entry_of
        Which entry each of its entries is.
    is_picked, is_preempted
        The choice of the cheapest servers, and what it preempts; the first also to sort prices.
    saved_weight, saved_share, saved_price
        Of the node while its children change them.
    """

    decision: Any
    number: Any
    server: Any
    job: Any
    entry_of: Any
    is_picked: Any
    is_preempted: Any
    saved_weight: Any
    saved_share: Any
    saved_price: Any


@kernel
def push_node(size: int, bound: int, depth: int, slot: int, tree: Any) -> None:
    """Add a node to a heap of `size`: the least bound first, then the deepest."""
    bounds = tree.bounds
    depths = tree.depths
    slots = tree.slots
    place = size
    while place > 0:
        parent = (place - 1) // 2
        if bounds[parent] < bound or (bounds[parent] == bound and depths[parent] >= depth):
            break
        bounds[place] = bounds[parent]
        depths[place] = depths[parent]
        slots[place] = slots[parent]
        place = parent
    bounds[place] = bound
    depths[place] = depth
    slots[place] = slot


@kernel
def drop_first_node(size: int, tree: Any) -> None:
    """Remove the first node of a heap of `size`."""
    bounds = tree.bounds
    depths = tree.depths
    slots = tree.slots
    last = size - 1
    bound = bounds[last]
    depth = depths[last]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= last:
            break
        other = child + 1
        if other < last and (
            bounds[other] < bounds[child]
            or (bounds[other] == bounds[child] and depths[other] > depths[child])
        ):
            child = other
        if bound < bounds[child] or (bound == bounds[child] and depth >= depths[child]):
            break
        bounds[place] = bounds[child]
        depths[place] = depths[child]
        slots[place] = slots[child]
        place = child
    bounds[place] = bound
    depths[place] = depth
    slots[place] = slots[last]


@kernel
def most_due(instance: Any) -> int:
    """Return the most that choosing one server alone costs."""
    most = 0
    for s in range(len(instance.cost)):
        due = instance.cost[s]
        for entry in range(instance.server_start[s], instance.server_start[s + 1]):
            due += instance.weight[instance.server_jobs[entry]]
        most = max(most, due)
    return most


@kernel
def restrict_servers(slot: int, target: int, most: int, instance: Any, tree: Any, node: Any) -> Any:
    """Find the servers that a node leaves: without a kept job, nor alone too dear for `target`.

    `most` is what a server alone costs at most. Returns the weight of the paid jobs, and how
    many servers are left.
    """
    jobs = len(instance.weight)
    number = node.number
    paid = 0
    for s in range(len(number)):
        number[s] = 0
    for j in range(jobs):
        decision = tree.decisions[slot * jobs + j]
        node.decision[j] = decision
        if decision == PAID:
            paid += instance.weight[j]
        elif decision == KEPT:
            for entry in range(instance.job_start[j], instance.job_start[j + 1]):
                number[instance.job_servers[entry]] = -1
    left = 0
    for s in range(len(number)):
        if number[s] < 0:
            continue
        if paid + most > target:
            due = paid + instance.cost[s]
            for entry in range(instance.server_start[s], instance.server_start[s + 1]):
                if node.decision[instance.server_jobs[entry]] == OPEN:
                    due += instance.weight[instance.server_jobs[entry]]
            if due > target:
                number[s] = -1
                continue
        number[s] = left
        node.server[left] = s
        left += 1
    return paid, left


@kernel
def restrict_jobs(servers: int, instance: Any, tree: Any, node: Any, split: Any) -> int:
    """Fill `split` with the open jobs on the servers left, shares as warm as they are known.

    A job on one server only becomes part of its cost. Returns how many jobs there are.
    """
    for s in range(servers):
        split.price[s] = instance.cost[node.server[s]]
    jobs = 0
    entries = 0
    split.job_start[0] = 0
    for j in range(len(instance.weight)):
        if node.decision[j] != OPEN:
            continue
        first = entries
        for entry in range(instance.job_start[j], instance.job_start[j + 1]):
            s = node.number[instance.job_servers[entry]]
            if s >= 0:
                node.entry_of[entries] = entry
                split.job_servers[entries] = s
                entries += 1
        if entries == first + 1:
            split.price[split.job_servers[first]] += instance.weight[j]
            entries = first
        elif entries > first:
            left = instance.weight[j]
            for entry in range(first, entries):
                split.share[entry] = min(left, tree.warm_share[node.entry_of[entry]])
                left -= split.share[entry]
                split.price[split.job_servers[entry]] += split.share[entry]
            node.job[jobs] = j
            split.weight[jobs] = instance.weight[j]
            jobs += 1
            split.job_start[jobs] = entries
    return jobs


@kernel
def pick_cheapest(servers: int, dearest: int, instance: Any, node: Any, price: Any) -> Any:
    """Pick the cheapest servers, none dearer than `dearest`; return what that choice costs."""
    for j in range(len(instance.weight)):
        node.is_preempted[j] = 0
    ties = instance.picks
    for s in range(servers):
        if price[s] < dearest:
            ties -= 1
    due = 0
    for s in range(servers):
        node.is_picked[s] = 0
        if price[s] > dearest or (price[s] == dearest and ties <= 0):
            continue
        if price[s] == dearest:
            ties -= 1
        node.is_picked[s] = 1
        picked = node.server[s]
        due += instance.cost[picked]
        for entry in range(instance.server_start[picked], instance.server_start[picked + 1]):
            j = instance.server_jobs[entry]
            if node.is_preempted[j] == 0:
                node.is_preempted[j] = 1
                due += instance.weight[j]
    return due


@kernel
def heaviest_job(jobs: int, near: int, split: Any) -> int:
    """Return the job with the most weight on servers not dearer than `near`, -1 for none."""
    heaviest = -1
    most = 0
    for j in range(jobs):
        cheap = 0
        for entry in range(split.job_start[j], split.job_start[j + 1]):
            if split.price[split.job_servers[entry]] <= near:
                cheap += 1
        if cheap * split.weight[j] > most:
            most = cheap * split.weight[j]
            heaviest = j
    return heaviest


@kernel
def decide_job(choice: int, branch: int, forbidden_price: int, split: Any) -> Any:
    """Make one decision about a job in a split; return the weight that is due for it."""
    if choice == PAID:
        paid = split.weight[branch]
        split.weight[branch] = 0
        return paid
    for entry in range(split.job_start[branch], split.job_start[branch + 1]):
        split.price[split.job_servers[entry]] = forbidden_price
    return 0


@kernel
def save_split(servers: int, jobs: int, entries: int, split: Any, node: Any) -> None:
    """Keep what the first child is going to change."""
    for s in range(servers):
        node.saved_price[s] = split.price[s]
    for entry in range(entries):
        node.saved_share[entry] = split.share[entry]
    for j in range(jobs):
        node.saved_weight[j] = split.weight[j]


@kernel
def restore_split(servers: int, jobs: int, entries: int, split: Any, node: Any) -> None:
    """Bring back what `save_split` kept."""
    for s in range(servers):
        split.price[s] = node.saved_price[s]
    for entry in range(entries):
        split.share[entry] = node.saved_share[entry]
    for j in range(jobs):
        split.weight[j] = node.saved_weight[j]


# More than 100 lines: the steps of one node in order, whose numbers each step needs from those
# before. What can stand alone is a function above.
@kernel
def explore(
    node_budget: int,
    objective: int,
    open_nodes: int,
    free_slots: int,
    is_chosen: Any,
    instance: Any,
    tree: Any,
    node: Any,
    split: Any,
) -> Any:
    """Process up to `node_budget` nodes, fewer if the tree is done or the slots are used up.

    A node's bound is that of the prices of the servers without a kept job, in the instance from
    which paid jobs are taken out. It is branched on an open job: paid, its weight is due at once
    and drops out of the prices; kept, its servers can not be chosen. Nothing is ever decided
    about a server alone, so interchangeable servers are never told apart.

    Parameters
    ----------
    objective, is_chosen
        The incumbent.
    open_nodes, free_slots
        Sizes of the heap and of the unused slots of `tree`.
    node, split
        Scratch, sized for all servers, jobs or entries.

    Returns
    -------
    tuple
        ``(nodes, objective, open_nodes, free_slots, is_chosen, tree)``.
    """
    jobs = len(instance.weight)
    picks = instance.picks
    unit = instance.unit
    forbidden_price = instance.forbidden_price
    price = split.price
    most = most_due(instance)
    nodes = 0
    dearest = 0
    while nodes < node_budget and open_nodes > 0 and free_slots >= 1:
        bound = tree.bounds[0]
        target = objective - unit  # a bound above it leaves nothing better
        if bound > target:
            open_nodes = 0
            break
        nodes += 1
        depth = tree.depths[0]
        slot = tree.slots[0]
        drop_first_node(open_nodes, tree)
        open_nodes -= 1
        tree.unused_slots[free_slots] = slot
        free_slots += 1

        paid, servers = restrict_servers(slot, target, most, instance, tree, node)
        if servers < picks:
            continue
        shared = restrict_jobs(servers, instance, tree, node, split)
        entries = split.job_start[shared]
        total, dearest = price_bound(
            ROUNDS_AT_NODE,
            picks,
            dearest,
            target - paid,
            servers,
            shared,
            forbidden_price,
            split,
            node.is_picked,
        )
        for entry in range(entries):
            tree.warm_share[node.entry_of[entry]] = split.share[entry]
        bound = max(bound, paid + total)
        if bound > target:
            continue

        due = pick_cheapest(servers, dearest, instance, node, price)
        if due < objective:
            objective = due
            target = objective - unit
            for s in range(len(is_chosen)):
                is_chosen[s] = 0
            for s in range(servers):
                is_chosen[node.server[s]] = node.is_picked[s]
            if bound > target:
                continue

        # Servers dearer than what is left to gain.
        for s in range(servers):
            if paid + total + price[s] - dearest > target:
                price[s] = forbidden_price
        branch = heaviest_job(shared, dearest + unit // NEAR, split)
        if branch < 0:
            continue  # the cheapest servers share no open job: the solution above is best here

        for choice in range(PAID, KEPT + 1):
            if choice == PAID:
                save_split(servers, shared, entries, split, node)
            else:
                restore_split(servers, shared, entries, split, node)
            child_paid = paid + decide_job(choice, branch, forbidden_price, split)
            child_total, _ = price_bound(
                ROUNDS_AT_CHILD,
                picks,
                dearest,
                target - child_paid,
                servers,
                shared,
                forbidden_price,
                split,
                node.is_picked,
            )
            # Rounded up, as every objective is whole: of equal nodes the deepest comes next, so
            # that prices mostly go on from those of its parent.
            child_bound = max(bound, -(-(child_paid + child_total) // unit) * unit)
            if child_bound > target:
                continue
            free_slots -= 1
            slot = tree.unused_slots[free_slots]
            for j in range(jobs):
                tree.decisions[slot * jobs + j] = node.decision[j]
            tree.decisions[slot * jobs + node.job[branch]] = choice
            push_node(open_nodes, child_bound, depth + 1, slot, tree)
            open_nodes += 1
    return nodes, objective, open_nodes, free_slots, is_chosen, tree
