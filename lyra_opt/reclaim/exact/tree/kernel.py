"""The inner loop of the tree search: take the most promising node, bound it, branch on a job."""

from __future__ import annotations

from typing import Any, NamedTuple

from lyra_opt.core.kernels import kernel
from lyra_opt.reclaim.exact.tree.price_kernel import price_bound

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
