"""The inner loops of the rigid Lagrangian bound, which is computed by minimum cuts.

The network has an arc from the source to each server, an unbounded arc from a server to each job on
it, and an arc from each job to the sink. The flow on the entry (s, j) is the part of the weight of
job j that is charged to server s. Weights are integers in units of 1 / `unit`.

Entries are numbered by server; ``job_entries[e]`` is the number of the e-th entry in job order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lyra_opt.core.kernels import kernel


class Network(NamedTuple):
    """The flow network of a rigid instance: server costs, job weights and incidence arrays."""

    server_cost: Any
    job_weight: Any
    server_start: Any
    server_jobs: Any
    job_start: Any
    job_servers: Any
    job_entries: Any


class Flow(NamedTuple):
    """A flow on the (server, job) pairs, with the remaining capacities of servers and jobs."""

    on_entry: Any
    server_left: Any
    job_left: Any


class Ends(NamedTuple):
    """The server sets at both ends of a convex-envelope segment, and the servers still undecided.

    Parameters
    ----------
    is_lower, is_upper
        Shape (servers,): whether a server is in the lower end, and in the upper end.
    is_settled, is_open
        Shape (servers,): whether cuts have put the server into the lower end, and whether they have
        left it in the upper end. A server is undecided if it is open and not settled.
    is_paid
        Shape (jobs,): whether the lower end preempts the job.
    """

    is_lower: Any
    is_upper: Any
    is_settled: Any
    is_open: Any
    is_paid: Any


class CutScratch(NamedTuple):
    """Working arrays for minimum cuts: undecided servers, levels, next entries, queue and path."""

    active: Any
    server_level: Any
    job_level: Any
    server_next: Any
    job_next: Any
    queue: Any
    path_entry: Any
    path_back: Any


@kernel
def set_levels(actives: int, network: Any, flow: Any, ends: Any, scratch: Any) -> bool:
    """Compute the distance of servers and jobs from the source; return whether the sink is reached.

    The search is breadth first from the active servers with capacity left. Unreached servers and
    jobs get level -1. Paid jobs and settled servers get level 0, so that no path leads to them.
    """
    server_level = scratch.server_level
    job_level = scratch.job_level
    queue = scratch.queue
    tail = 0
    for j in range(len(job_level)):
        job_level[j] = ends.is_paid[j] - 1
        scratch.job_next[j] = network.job_start[j]
    for s in range(len(server_level)):
        server_level[s] = ends.is_settled[s] - 1
    for position in range(actives):
        s = scratch.active[position]
        scratch.server_next[s] = network.server_start[s]
        if flow.server_left[s] > 0:
            server_level[s] = 0
            queue[tail] = s
            tail += 1
    reached_sink = False
    head = 0
    while head < tail:
        s = queue[head]
        head += 1
        level = server_level[s] + 1
        for entry in range(network.server_start[s], network.server_start[s + 1]):
            j = network.server_jobs[entry]
            if job_level[j] >= 0:
                continue
            job_level[j] = level
            if flow.job_left[j] > 0:
                reached_sink = True
                continue
            for position in range(network.job_start[j], network.job_start[j + 1]):
                t = network.job_servers[position]
                if server_level[t] < 0 and flow.on_entry[network.job_entries[position]] > 0:
                    server_level[t] = level
                    queue[tail] = t
                    tail += 1
    return reached_sink


@kernel
def find_path(start: int, network: Any, flow: Any, scratch: Any) -> int:
    """Find a path in the level graph from a server to a job with capacity left; return its length.

    The result is -1 if there is no such path. The path alternates between an entry that leads to a
    job and an entry that leads back to a server.
    """
    server_jobs = network.server_jobs
    job_servers = network.job_servers
    server_level = scratch.server_level
    depth = 0
    s = start
    while True:
        # Local variables are faster than array elements during the scan of a row.
        level = server_level[s] + 1
        entry = scratch.server_next[s]
        end = network.server_start[s + 1]
        while entry < end and scratch.job_level[server_jobs[entry]] != level:
            entry += 1
        scratch.server_next[s] = entry
        if entry == end:
            if depth == 0:
                return -1
            # At a dead end, the search returns to the previous job and skips this server.
            depth -= 1
            scratch.job_next[server_jobs[scratch.path_entry[depth]]] += 1
            s = scratch.queue[depth]
            continue
        scratch.path_entry[depth] = entry
        scratch.queue[depth] = s
        j = server_jobs[entry]
        if flow.job_left[j] > 0:
            return depth
        position = scratch.job_next[j]
        end = network.job_start[j + 1]
        while position < end and (
            server_level[job_servers[position]] != level
            or flow.on_entry[network.job_entries[position]] == 0
        ):
            position += 1
        scratch.job_next[j] = position
        if position == end:
            scratch.server_next[s] += 1
            continue
        scratch.path_back[depth] = network.job_entries[position]
        depth += 1
        s = job_servers[position]


@kernel
def push_along(start: int, depth: int, network: Any, flow: Any, scratch: Any) -> None:
    """Send as much flow as fits along the path that `find_path` has found from server `start`."""
    last_job = network.server_jobs[scratch.path_entry[depth]]
    pushed = min(flow.server_left[start], flow.job_left[last_job])
    for step in range(depth):
        pushed = min(pushed, flow.on_entry[scratch.path_back[step]])
    flow.server_left[start] -= pushed
    flow.job_left[last_job] -= pushed
    for step in range(depth):
        flow.on_entry[scratch.path_entry[step]] += pushed
        flow.on_entry[scratch.path_back[step]] -= pushed
    flow.on_entry[scratch.path_entry[depth]] += pushed


@kernel
def augment(actives: int, network: Any, flow: Any, ends: Any, scratch: Any) -> None:
    """Make the flow from the active servers a maximum flow by Dinic's algorithm.

    The active servers are the first `actives` of ``scratch.active``. The flow of paid jobs and
    settled servers is not changed. No active server has flow to a paid job, and no settled server
    has flow to an unpaid job. At the end a level of at least 0 marks the source side of the
    smallest minimum cut, including paid jobs and settled servers; all others have level -1.

    Complexity O((servers + jobs)^2 entries) in the worst case; a few passes over the entries in
    practice.
    """
    while set_levels(actives, network, flow, ends, scratch):
        for position in range(actives):
            start = scratch.active[position]
            while flow.server_left[start] > 0:
                depth = find_path(start, network, flow, scratch)
                if depth < 0:
                    break
                push_along(start, depth, network, flow, scratch)


@kernel
def balance(passes: int, unit: int, network: Any, flow: Any, price: Any) -> Any:
    """Split the weight of each job over its servers so that server prices become more even.

    The split starts with equal shares. Each pass takes, for each job, the dearest server that it
    pays and the cheapest server that it could pay, and levels their prices. The more even the
    prices, the closer their order is to the order in which servers enter the best sets. `flow` and
    `price`, shape (servers,), are filled and returned.
    """
    server_cost = network.server_cost
    job_weight = network.job_weight
    job_start = network.job_start
    job_servers = network.job_servers
    job_entries = network.job_entries
    for s in range(len(server_cost)):
        price[s] = server_cost[s] * unit
    for j in range(len(job_weight)):
        left = job_weight[j] * unit
        share = left // (job_start[j + 1] - job_start[j])
        for position in range(job_start[j], job_start[j + 1]):
            if position == job_start[j + 1] - 1:
                share = left
            flow[job_entries[position]] = share
            price[job_servers[position]] += share
            left -= share
    for _ in range(passes):
        for j in range(len(job_weight)):
            low = high = job_start[j]
            low_price = price[job_servers[low]]
            high_price = -1
            for position in range(job_start[j], job_start[j + 1]):
                its_price = price[job_servers[position]]
                if its_price < low_price:
                    low = position
                    low_price = its_price
                if its_price > high_price and flow[job_entries[position]] > 0:
                    high = position
                    high_price = its_price
            moved = min(flow[job_entries[high]], (high_price - low_price) // 2)
            flow[job_entries[high]] -= moved
            flow[job_entries[low]] += moved
            price[job_servers[high]] -= moved
            price[job_servers[low]] += moved
    return flow, price


@kernel
def lowest_chord(wanted: int, network: Any, order: Any, first_weight: Any, place: Any) -> Any:
    """Find the two prefixes of the server order that interpolate to the least weight at `wanted`.

    The result is the two numbers of servers and the weights that these prefixes preempt. The
    arguments `first_weight` and `place` are zeros, used as working arrays.
    """
    servers = len(network.server_cost)
    # `first_weight[k]` becomes the weight that reclaiming the first k servers preempts.
    for position in range(servers):
        place[order[position]] = position
        first_weight[position + 1] = network.server_cost[order[position]]
    for j in range(len(network.job_weight)):
        first = servers
        for position in range(network.job_start[j], network.job_start[j + 1]):
            first = min(first, place[network.job_servers[position]])
        first_weight[first + 1] += network.job_weight[j]
    for position in range(servers):
        first_weight[position + 1] += first_weight[position]
    lower = 0
    upper = servers
    while lower < upper:
        run = upper - lower
        rise = first_weight[upper] - first_weight[lower]
        lowest = 0
        count = lower
        for position in range(lower + 1, upper):
            height = run * (first_weight[position] - first_weight[lower])
            height -= rise * (position - lower)
            if height < lowest:
                lowest = height
                count = position
        if lowest == 0:
            break
        if count <= wanted:
            lower = count
        else:
            upper = count
    return lower, upper, first_weight[lower], first_weight[upper]


@kernel
def start_flow(price: int, unit: int, network: Any, flow: Any, ends: Any, scratch: Any) -> int:
    """Adapt the flow to a new price per server; return the number of undecided servers.

    Each server gives back the flow above its new capacity, then takes flow that other servers gave
    back.
    """
    on_entry = flow.on_entry
    actives = 0
    for s in range(len(network.server_cost)):
        if ends.is_settled[s] == ends.is_open[s]:
            continue
        scratch.active[actives] = s
        actives += 1
        left = max(0, price - network.server_cost[s] * unit)
        for entry in range(network.server_start[s], network.server_start[s + 1]):
            kept = min(left, on_entry[entry])
            flow.job_left[network.server_jobs[entry]] += on_entry[entry] - kept
            on_entry[entry] = kept
            left -= kept
        flow.server_left[s] = left
    for position in range(actives):
        s = scratch.active[position]
        for entry in range(network.server_start[s], network.server_start[s + 1]):
            j = network.server_jobs[entry]
            pushed = min(flow.server_left[s], flow.job_left[j])
            on_entry[entry] += pushed
            flow.server_left[s] -= pushed
            flow.job_left[j] -= pushed
    return actives


@kernel
def weigh_cut(network: Any, scratch: Any) -> Any:
    """Return the number of servers on the source side of the cut, and the weight they preempt."""
    count = 0
    weight = 0
    for s in range(len(network.server_cost)):
        if scratch.server_level[s] >= 0:
            count += 1
            weight += network.server_cost[s]
    for j in range(len(network.job_weight)):
        if scratch.job_level[j] >= 0:
            weight += network.job_weight[j]
    return count, weight


@kernel
def envelope_segment(
    wanted: int,
    unit: int,
    network: Any,
    flow: Any,
    order: Any,
    ends: Any,
    first_weight: Any,
    scratch: Any,
) -> Any:
    """Find the segment of the convex envelope of weights around `wanted` servers, by minimum cuts.

    The first guess is the lowest chord of `order`. Then the slope of each chord, rounded down to a
    multiple of 1 / `unit`, is the price per server of a minimum cut, and a cut below the chord
    replaces one of its ends. The best sets grow with the price, so after a cut only servers that
    are not settled in the lower end and still open in the upper end are undecided, and only jobs
    that the lower end does not pay matter. `rigid_bound` gives the theory.

    `flow` is at first a flow that splits all weights. It is kept from cut to cut, and the last flow
    proves the bound. The other arrays are zeros; `first_weight` has one element more than there are
    servers. Returns the flow, the ends, their numbers of servers and weights, and the number of
    cuts.
    """
    servers = len(order)
    lower_count, upper_count, lower_weight, upper_weight = lowest_chord(
        wanted, network, order, first_weight, scratch.queue
    )
    for position in range(upper_count):
        ends.is_upper[order[position]] = 1
        ends.is_lower[order[position]] = int(position < lower_count)
    for s in range(servers):
        ends.is_open[s] = 1
    cuts = 0
    while lower_count < upper_count:
        run = upper_count - lower_count
        rise = upper_weight - lower_weight
        actives = start_flow(rise * unit // run, unit, network, flow, ends, scratch)
        augment(actives, network, flow, ends, scratch)
        cuts += 1
        count, weight = weigh_cut(network, scratch)
        if run * (weight - lower_weight) == rise * (count - lower_count):
            break  # the chord is a segment of the envelope
        if count <= wanted:
            lower_count = count
            lower_weight = weight
            for s in range(servers):
                ends.is_lower[s] = int(scratch.server_level[s] >= 0)
                ends.is_settled[s] = ends.is_lower[s]
            for j in range(len(network.job_weight)):
                ends.is_paid[j] = int(scratch.job_level[j] >= 0)
        if count >= wanted:
            upper_count = count
            upper_weight = weight
            for s in range(servers):
                ends.is_upper[s] = int(scratch.server_level[s] >= 0)
                ends.is_open[s] = ends.is_upper[s]
    return flow, ends, (lower_count, upper_count), (lower_weight, upper_weight), cuts
