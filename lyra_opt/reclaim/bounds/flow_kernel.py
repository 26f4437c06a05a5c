"""The segment of the convex envelope around N_R by minimum cuts, in integers: inner loops.

The network has an arc from the source to each server, an unbounded arc from a server to each job
on it, and an arc from each job to the sink. The flow on the entry (s, j) is the part of job j's
weight that is charged to server s. Weights are counted in units of 1 / `unit`.

Entries are numbered by server; ``job_entries[e]`` is the number of the e-th entry in job order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lyra_opt.core.kernels import kernel


class Network(NamedTuple):
    """Servers and jobs with their weights, and who is on whom; `job_entries` as said above."""

    server_cost: Any
    job_weight: Any
    server_start: Any
    server_jobs: Any
    job_start: Any
    job_servers: Any
    job_entries: Any


class Flow(NamedTuple):
    """A flow on the entries, and the capacities that it leaves, of servers and of jobs."""

    on_entry: Any
    server_left: Any
    job_left: Any


class Ends(NamedTuple):
    """The two ends of the segment, and what is in play between them.

    Parameters
    ----------
    is_lower, is_upper
        Whether a server is in the lower and in the upper end.
    is_settled, is_open
        Whether it is settled by cuts: in the lower end; still open in the upper one. In play are
        those that are open and not settled.
    is_paid
        Whether the lower end pays for a job.
    """

    is_lower: Any
    is_upper: Any
    is_settled: Any
    is_open: Any
    is_paid: Any


class CutScratch(NamedTuple):
    """Scratch for minimum cuts: the servers in play, levels, places looked at next, a path."""

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
    """Set the distance of servers and jobs from the source; say whether the sink is reached.

    Breadth first from the active servers with capacity left. All others get -1, but for what is
    paid or settled: level 0 is above every server, so that nothing goes there.
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
    """Walk down the levels from a server to a job with capacity left: the path's length, or -1.

    Along the path an entry leads to a job, another one back to a server, and so on.
    """
    server_jobs = network.server_jobs
    job_servers = network.job_servers
    server_level = scratch.server_level
    depth = 0
    s = start
    while True:
        # (Positions are kept in locals while a row is scanned: memory is slower.)
        level = server_level[s] + 1
        entry = scratch.server_next[s]
        end = network.server_start[s + 1]
        while entry < end and scratch.job_level[server_jobs[entry]] != level:
            entry += 1
        scratch.server_next[s] = entry
        if entry == end:
            if depth == 0:
                return -1
            # A dead end: go back to the job that led here, and past this server.
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
    """Send as much flow as fits along the path that `find_path` has found from `start`."""
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
    """Dinic's algorithm: make a flow from the first `actives` of the active servers maximum.

    Jobs that are paid and servers that are settled keep their flow and are not looked at; no
    active server has flow to a paid job, nor a settled one to a job that is not. At the end a
    level of at least 0 marks the source side of the smallest minimum cut, the paid and the
    settled among it; any other is -1.

    Complexity O((servers + jobs)^2 entries) at worst; a few passes over the entries in practice.
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
    """Split the jobs over their servers so that prices get closer; return the flow and the prices.

    From equal shares on, each pass levels, for each job, the dearest server that it pays with
    the cheapest that it could. The more even the prices, the closer their order is to that in
    which servers enter the best sets. `flow` and `price`, shape (servers,), are filled here.
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
    """Return the two beginnings of `order` that make the lowest chord at `wanted` servers.

    Their numbers of servers, and what they preempt. The last two arguments are scratch, zero.
    """
    servers = len(network.server_cost)
    # What the first 0, 1, 2, ... servers of the order preempt.
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
    """Make the flow one of the network at a price per server; return how many are in play.

    What a server charges beyond its capacity it gives back; then it takes what others left.
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
    """Return how many servers are on the source side of the cut, and what they preempt."""
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
    """Find the ends of the segment of the envelope around `wanted` servers; see `rigid_bound`.

    The first guess is the lowest chord of `order`. Then each chord's slope, rounded down to a
    multiple of 1 / `unit`, is the price per server of a minimum cut, and a cut below the chord
    takes the place of one of its ends. Best sets for growing prices grow, so after a cut only the
    servers that are not settled in the lower end and still open in the upper end stay in play, and
    only jobs that are not paid by the lower end. `flow` comes with a flow that splits all weights;
    it is kept from cut to cut, and is at last what proves the bound. The other arrays come as
    zeros; `first_weight` is one longer than the servers. Returns the flow, the ends, their
    numbers of servers and weights, and the number of cuts.
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
