"""The inner loop of the tree search: take the best open node, bound it, and branch on a job.

The bound comes from server prices, found by coordinate ascent. If each job splits its weight over
its servers, no choice can pay less than the sum of the shares on its servers. So the sum of the N_R
smallest prices is a lower bound. The best split makes prices as even as the jobs allow, so each job
in turn moves its weight to its cheapest servers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lyra_opt.core.kernels import kernel


class Split(NamedTuple):
    """A split of the weight of each job over its servers, with the resulting server prices.

    Parameters
    ----------
    weight, job_start, job_servers
        The weight of each job, and by job the servers that it may charge.
    share
        Shape (entries,): what each entry adds to the price of its server. The shares of a job never
        exceed its weight in total, even after rounding.
    price
        Shape (servers,): price of each server.
    without
        Scratch, as long as `price`: prices of the servers of one job without its own shares.
    """

    weight: Any
    job_start: Any
    job_servers: Any
    share: Any
    price: Any
    without: Any


@kernel
def split_weights(jobs: int, forbidden_price: int, split: Any) -> None:
    """Let each job in turn move its weight to its cheapest servers until their prices are equal.

    Changes `share` and `price` in place. A server with a price of at least `forbidden_price` cannot
    be chosen and gets no share.

    One round is a step of block coordinate descent on the sum of squared prices. Its minimum is the
    min-norm point of the base polytope of f(X), the weight that a set X preempts, and gives the
    best bound for every N_R at once (Fujishige 1980; linear convergence of the descent: Ene and
    Nguyen, ICML 2015). Time O(entries), times the few passes that find the level of a job.
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
        # These loops contain no branches, because processors would mispredict half of them.
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
        # The servers below the price level rarely change between rounds, so these are tried first.
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
            # Dropping servers above the price level lowers the level of the remaining servers.
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
    """Level the prices by `rounds` rounds of `split_weights`, and return the split."""
    for _ in range(rounds):
        split_weights(jobs, forbidden_price, split)
    return split


@kernel
def smallest_prices(
    servers: int, picks: int, forbidden_price: int, price: Any, scratch: Any
) -> Any:
    """Return the sum of the `picks` smallest prices, and the largest of these prices.

    Both are `forbidden_price` if fewer than `picks` prices are below it. `picks` is at least 1 and
    at most `servers`. Hoare's selection, O(servers) expected time.
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
    """Level server prices for up to `rounds` rounds; return sum and maximum of the N_R smallest.

    The rounds stop early above `target`, and when the last round gained so little that `target` is
    out of reach. Until then the sum is not computed but bounded from below by picks * c - sum of
    max(0, c - price), where c is the `guess` of the largest of these prices. The two are equal if
    the guess is right, and the bound takes a tenth of the time. Both results are `forbidden_price`
    if fewer than `picks` servers can be chosen.
    """
    before = 0
    for done in range(rounds):
        split_weights(jobs, forbidden_price, split)
        saved = 0
        for s in range(servers):
            saved += max(guess - split.price[s], 0)
        about = picks * guess - saved
        # Stop if the remaining rounds are unlikely to reach the target.
        if about > target or (
            done > 0 and (about - before) * HOPE * (rounds - done) < target - about
        ):
            break
        before = about
    return smallest_prices(servers, picks, forbidden_price, split.price, scratch)


HOPE = 2
"""A later round is expected to gain at most this many times the gain of the last round."""

OPEN, PAID, KEPT = 0, 1, 2
"""Decisions of a node about a job: undecided, preempted (paid) or not preempted (kept)."""

ROUNDS_AT_NODE = 8
ROUNDS_AT_CHILD = 6


NEAR = 64
"""A server counts as cheap if its price exceeds the N_R-th smallest by at most 1 / NEAR."""


class TreeInstance(NamedTuple):
    """A rigid instance whose weights, costs and prices are integers in units of 1 / `unit`.

    Parameters
    ----------
    picks
        N_R.
    unit, forbidden_price
        A weight of 1, and the price of servers that cannot be chosen.
    weight, cost
        Weights of the jobs and costs of the servers.
    job_start, job_servers, server_start, server_jobs
        The servers of each job and the jobs of each server, as in `Incidence`.
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
    """The open nodes of the tree search as a heap, with their decisions.

    Parameters
    ----------
    bounds, depths, slots
        The heap; the slot of a node is its row in `decisions`.
    unused_slots
        The rows that no node uses.
    decisions
        A row for each node, with one decision per job.
    warm_share
        The shares of the previous node, from which the next node starts.
    """

    bounds: Any
    depths: Any
    slots: Any
    unused_slots: Any
    decisions: Any
    warm_share: Any


class Restricted(NamedTuple):
    """Working arrays for the smaller instance that the decisions of a node leave.

    Parameters
    ----------
    decision
        Shape (jobs,): the decision about each job.
    number, server
        The new number of each remaining server, -1 for others; and the server of each new number.
    job
        The remaining jobs: open, and on at least two servers. Their weights, servers, shares and
        prices are a `Split`.
    entry_of
        The entry of the whole instance for each remaining entry.
    is_picked, is_preempted
        The choice of the cheapest servers, and the jobs that it preempts. The first is also used to
        sort prices.
    saved_weight, saved_share, saved_price
        The values of the node while its children change them.
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
    """Add a node to a heap of `size` nodes, ordered by least bound, then by greatest depth."""
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
    """Remove the first node of a heap of `size` nodes."""
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
    """Return the largest weight that choosing any single server preempts."""
    most = 0
    for s in range(len(instance.cost)):
        due = instance.cost[s]
        for entry in range(instance.server_start[s], instance.server_start[s + 1]):
            due += instance.weight[instance.server_jobs[entry]]
        most = max(most, due)
    return most


@kernel
def restrict_servers(slot: int, target: int, most: int, instance: Any, tree: Any, node: Any) -> Any:
    """List the servers that a node can still choose; return its preempted weight and their number.

    Servers of kept jobs are excluded, and so are servers that alone would cost more than `target`.
    `most` is the largest cost of a single server.
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
    """Fill `split` with the open jobs on the remaining servers; return the number of jobs.

    Shares start from those of the previous node. A job on only one remaining server becomes part of
    the cost of that server.
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
    """Choose the N_R cheapest servers, up to the price `dearest`; return the objective."""
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
    """Return the job with the most weight on servers with prices of at most `near`, or -1."""
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
    """Mark a job as preempted or kept in `split`; return the weight that this costs."""
    if choice == PAID:
        paid = split.weight[branch]
        split.weight[branch] = 0
        return paid
    for entry in range(split.job_start[branch], split.job_start[branch + 1]):
        split.price[split.job_servers[entry]] = forbidden_price
    return 0


@kernel
def save_split(servers: int, jobs: int, entries: int, split: Any, node: Any) -> None:
    """Save the prices, shares and weights that the first child will change."""
    for s in range(servers):
        node.saved_price[s] = split.price[s]
    for entry in range(entries):
        node.saved_share[entry] = split.share[entry]
    for j in range(jobs):
        node.saved_weight[j] = split.weight[j]


@kernel
def restore_split(servers: int, jobs: int, entries: int, split: Any, node: Any) -> None:
    """Restore the prices, shares and weights that `save_split` saved."""
    for s in range(servers):
        split.price[s] = node.saved_price[s]
    for entry in range(entries):
        split.share[entry] = node.saved_share[entry]
    for j in range(jobs):
        split.weight[j] = node.saved_weight[j]


# `explore` is long because each step of a node needs numbers from the steps before.
# Independent steps of `explore` are separate functions above.
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
    """Process up to `node_budget` nodes, fewer if the tree is complete or its space is full.

    The bound of a node comes from the prices of the servers without a kept job, in the instance
    without the paid jobs. The node branches on an open job. If the job is paid, its weight is added
    at once and leaves the prices; if it is kept, its servers cannot be chosen. Nothing is decided
    about a single server, so interchangeable servers are never distinguished.

    Parameters
    ----------
    objective, is_chosen
        The incumbent.
    open_nodes, free_slots
        Number of nodes in the heap, and number of unused slots of `tree`.
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
        target = objective - unit  # a node with a higher bound cannot improve the incumbent
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

        # Rule out every server whose price exceeds the remaining gap to the target.
        for s in range(servers):
            if paid + total + price[s] - dearest > target:
                price[s] = forbidden_price
        branch = heaviest_job(shared, dearest + unit // NEAR, split)
        if branch < 0:
            continue  # the cheapest servers share no open job: their choice is optimal here

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
            # Every objective is a multiple of `unit`, so bounds are rounded up to a multiple of it.
            # Among nodes with equal bounds, take the deepest: its prices start near its parent's.
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
