"""The inner loop of the tree search: take the most promising node, bound it, branch on a job."""

from __future__ import annotations

from typing import Any

from lyra_opt.core.kernels import kernel
from lyra_opt.reclaim.exact.tree.price_kernel import price_bound

OPEN, PAID, KEPT = 0, 1, 2
"""What a node has decided about a job: nothing, that it is preempted, that it is not."""

ROUNDS_AT_NODE = 8
ROUNDS_AT_CHILD = 6


@kernel
def push_node(
    size: int, bound: int, depth: int, slot: int, bounds: Any, depths: Any, slots: Any
) -> None:
    """Add a node to a heap of `size`: the least bound first, then the deepest."""
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
def drop_first_node(size: int, bounds: Any, depths: Any, slots: Any) -> None:
    """Remove the first node of a heap of `size`."""
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
def explore(
    node_budget: int,
    picks: int,
    unit: int,
    forbidden_price: int,
    weight: Any,
    cost: Any,
    job_start: Any,
    job_servers: Any,
    server_start: Any,
    server_jobs: Any,
    objective: int,
    open_nodes: int,
    free_slots: int,
    is_chosen: Any,
    warm_share: Any,
    bounds: Any,
    depths: Any,
    slots: Any,
    unused_slots: Any,
    decisions: Any,
    decision: Any,
    is_banned: Any,
    number: Any,
    server: Any,
    price: Any,
    child_price: Any,
    without: Any,
    scratch: Any,
    is_preempted: Any,
    job: Any,
    start: Any,
    job_weight: Any,
    child_weight: Any,
    entry_of: Any,
    entry_server: Any,
    share: Any,
    child_share: Any,
) -> Any:
    """Process up to `node_budget` nodes, fewer if the tree is done or the slots are used up.

    Everything that weighs is in multiples of 1 / `unit`: `weight`, `cost`, `objective`, bounds.

    A node is a row of `decisions`, one for each job. Its bound is that of the prices of the
    servers without a kept job, in the instance from which paid jobs are taken out. It is branched
    on an open job: paid, its weight is due at once and drops out of the prices; kept, its servers
    can not be chosen. Nothing is ever decided about a server alone, so interchangeable servers
    are never told apart.

    Parameters
    ----------
    objective, is_chosen
        The incumbent.
    open_nodes, bounds, depths, slots
        The heap of open nodes; ``slots`` says which row of `decisions` is whose.
    free_slots, unused_slots
        The rows that no node uses.
    warm_share
        The shares of the node before, which the next starts from.

    The arrays after `decisions` are scratch, sized for all servers, jobs or entries.

    Returns
    -------
    tuple
        ``(nodes, objective, open_nodes, free_slots, is_chosen, warm_share, bounds, depths,
        slots, unused_slots, decisions)``.
    """
    servers = len(cost)
    jobs = len(weight)
    nodes = 0
    dearest = 0
    dues_at_most = 0
    for s in range(servers):
        due = cost[s]
        for entry in range(server_start[s], server_start[s + 1]):
            due += weight[server_jobs[entry]]
        dues_at_most = max(dues_at_most, due)
    while nodes < node_budget and open_nodes > 0 and free_slots >= 1:
        bound = bounds[0]
        target = objective - unit  # a bound above it leaves nothing better
        if bound > target:
            open_nodes = 0
            break
        nodes += 1
        depth = depths[0]
        slot = slots[0]
        drop_first_node(open_nodes, bounds, depths, slots)
        open_nodes -= 1
        unused_slots[free_slots] = slot
        free_slots += 1

        # What the decisions leave.
        paid = 0
        for s in range(servers):
            is_banned[s] = 0
        for j in range(jobs):
            decision[j] = decisions[slot * jobs + j]
            if decision[j] == PAID:
                paid += weight[j]
            elif decision[j] == KEPT:
                for entry in range(job_start[j], job_start[j + 1]):
                    is_banned[job_servers[entry]] = 1
        allowed = 0
        for s in range(servers):
            number[s] = -1
            if is_banned[s]:
                continue
            if paid + dues_at_most > target:
                due = paid + cost[s]
                for entry in range(server_start[s], server_start[s + 1]):
                    if decision[server_jobs[entry]] == OPEN:
                        due += weight[server_jobs[entry]]
                if due > target:
                    continue  # with this server alone nothing better is left
            number[s] = allowed
            server[allowed] = s
            price[allowed] = cost[s]
            allowed += 1
        if allowed < picks:
            continue
        shared = 0
        entries = 0
        start[0] = 0
        for j in range(jobs):
            if decision[j] != OPEN:
                continue
            first = entries
            for entry in range(job_start[j], job_start[j + 1]):
                s = number[job_servers[entry]]
                if s >= 0:
                    entry_of[entries] = entry
                    entry_server[entries] = s
                    entries += 1
            if entries == first + 1:  # on one server only: part of its cost
                price[entry_server[first]] += weight[j]
                entries = first
            elif entries > first:
                left = weight[j]
                for entry in range(first, entries):
                    share[entry] = min(left, warm_share[entry_of[entry]])
                    left -= share[entry]
                    price[entry_server[entry]] += share[entry]
                job[shared] = j
                job_weight[shared] = weight[j]
                shared += 1
                start[shared] = entries

        total, dearest = price_bound(
            ROUNDS_AT_NODE,
            picks,
            dearest,
            target - paid,
            allowed,
            shared,
            forbidden_price,
            job_weight,
            start,
            entry_server,
            share,
            price,
            without,
            scratch,
        )
        for entry in range(entries):
            warm_share[entry_of[entry]] = share[entry]
        bound = max(bound, paid + total)
        if bound > target:
            continue

        # The cheapest servers as a solution.
        for j in range(jobs):
            is_preempted[j] = 0
        due = 0
        ties = picks
        for s in range(allowed):
            if price[s] < dearest:
                ties -= 1
        for s in range(allowed):
            scratch[s] = 0
            if price[s] < dearest or (price[s] == dearest and ties > 0):
                if price[s] == dearest:
                    ties -= 1
                scratch[s] = 1
                due += cost[server[s]]
                for entry in range(server_start[server[s]], server_start[server[s] + 1]):
                    j = server_jobs[entry]
                    if is_preempted[j] == 0:
                        is_preempted[j] = 1
                        due += weight[j]
        if due < objective:
            objective = due
            target = objective - unit
            for s in range(servers):
                is_chosen[s] = 0
            for s in range(allowed):
                is_chosen[server[s]] = scratch[s]
            if bound > target:
                continue

        # Servers dearer than what is left to gain.
        for s in range(allowed):
            if paid + total + price[s] - dearest > target:
                price[s] = forbidden_price

        # The job with the most weight on cheap servers.
        branch = -1
        most = 0
        near = dearest + unit // NEAR
        for j in range(shared):
            cheap = 0
            for entry in range(start[j], start[j + 1]):
                if price[entry_server[entry]] <= near:
                    cheap += 1
            if cheap * job_weight[j] > most:
                most = cheap * job_weight[j]
                branch = j
        if branch < 0:
            continue  # the cheapest servers share no open job: the solution above is best here

        for choice in range(PAID, KEPT + 1):
            for s in range(allowed):
                child_price[s] = price[s]
            for entry in range(entries):
                child_share[entry] = share[entry]
            for j in range(shared):
                child_weight[j] = job_weight[j]
            child_paid = paid
            if choice == PAID:
                child_paid += job_weight[branch]
                child_weight[branch] = 0
            else:
                for entry in range(start[branch], start[branch + 1]):
                    child_price[entry_server[entry]] = forbidden_price
            child_total, _ = price_bound(
                ROUNDS_AT_CHILD,
                picks,
                dearest,
                target - child_paid,
                allowed,
                shared,
                forbidden_price,
                child_weight,
                start,
                entry_server,
                child_share,
                child_price,
                without,
                scratch,
            )
            # Rounded up, as every objective is whole: of equal nodes the deepest comes next, so
            # that prices mostly go on from those of its parent.
            child_bound = max(bound, -(-(child_paid + child_total) // unit) * unit)
            if child_bound > target:
                continue
            free_slots -= 1
            slot = unused_slots[free_slots]
            for j in range(jobs):
                decisions[slot * jobs + j] = decision[j]
            decisions[slot * jobs + job[branch]] = choice
            push_node(open_nodes, child_bound, depth + 1, slot, bounds, depths, slots)
            open_nodes += 1
    return (
        nodes,
        objective,
        open_nodes,
        free_slots,
        is_chosen,
        warm_share,
        bounds,
        depths,
        slots,
        unused_slots,
        decisions,
    )


NEAR = 64
"""A server is cheap if it is dearer by at most 1 / 64 than the dearest of the cheapest."""
