"""The segment of the convex envelope around N_R by minimum cuts, in integers: inner loops.

The network has an arc from the source to each server, an unbounded arc from a server to each job
on it, and an arc from each job to the sink. The flow on the entry (s, j) is the part of job j's
weight that is charged to server s. Weights are counted in units of 1 / `unit`.

Entries are numbered by server; ``job_entries[e]`` is the number of the e-th entry in job order.
"""

from __future__ import annotations

from typing import Any

from lyra_opt.core.kernels import kernel


@kernel
def augment(
    active: Any,
    actives: int,
    is_settled: Any,
    is_paid: Any,
    server_left: Any,
    job_left: Any,
    server_start: Any,
    server_jobs: Any,
    job_start: Any,
    job_servers: Any,
    job_entries: Any,
    flow: Any,
    server_level: Any,
    job_level: Any,
    server_next: Any,
    job_next: Any,
    queue: Any,
    path_entry: Any,
    path_back: Any,
) -> None:
    """Dinic's algorithm: make a flow from the first `actives` of the `active` servers maximum.

    `server_left` and `job_left` are the capacities that the flow leaves; all three are brought
    up to date. Jobs that are paid and servers that are settled keep their flow and are not
    looked at; no active server has flow to a paid job, nor a settled one to a job that is not.
    The arrays after `flow` are scratch. At the end a level of at least 0 marks the source side of
    the smallest minimum cut, the paid and the settled among it; any other is -1.

    Complexity O((servers + jobs)^2 entries) at worst; a few passes over the entries in practice.
    """
    jobs = len(job_left)
    servers = len(server_left)
    while True:
        head = 0
        tail = 0
        for j in range(jobs):
            job_level[j] = is_paid[j] - 1  # level 0 is above every server: never gone to
            job_next[j] = job_start[j]
        for s in range(servers):
            server_level[s] = is_settled[s] - 1
        for position in range(actives):
            s = active[position]
            server_next[s] = server_start[s]
            if server_left[s] > 0:
                server_level[s] = 0
                queue[tail] = s
                tail += 1
        reached_sink = False
        while head < tail:
            s = queue[head]
            head += 1
            level = server_level[s] + 1
            for entry in range(server_start[s], server_start[s + 1]):
                j = server_jobs[entry]
                if job_level[j] >= 0:
                    continue
                job_level[j] = level
                if job_left[j] > 0:
                    reached_sink = True
                    continue
                for position in range(job_start[j], job_start[j + 1]):
                    t = job_servers[position]
                    if server_level[t] < 0 and flow[job_entries[position]] > 0:
                        server_level[t] = level
                        queue[tail] = t
                        tail += 1
        if not reached_sink:
            break
        for active_position in range(actives):
            start = active[active_position]
            while server_left[start] > 0:
                # Walk down the levels from `start`: entry to a job, entry back to a server, ...
                depth = 0
                s = start
                found = False
                while True:
                    # (Positions are kept in locals while a row is scanned: memory is slower.)
                    level = server_level[s] + 1
                    entry = server_next[s]
                    end = server_start[s + 1]
                    while entry < end and job_level[server_jobs[entry]] != level:
                        entry += 1
                    server_next[s] = entry
                    if entry == end:
                        if depth == 0:
                            break
                        # A dead end: go back to the job that led here, and past this server.
                        depth -= 1
                        previous = server_jobs[path_entry[depth]]
                        job_next[previous] += 1
                        s = queue[depth]
                        continue
                    path_entry[depth] = entry
                    queue[depth] = s
                    j = server_jobs[entry]
                    if job_left[j] > 0:
                        found = True
                        break
                    position = job_next[j]
                    end = job_start[j + 1]
                    while position < end and (
                        server_level[job_servers[position]] != level
                        or flow[job_entries[position]] == 0
                    ):
                        position += 1
                    job_next[j] = position
                    if position == end:
                        server_next[s] += 1
                        continue
                    path_back[depth] = job_entries[position]
                    depth += 1
                    s = job_servers[position]
                if not found:
                    break
                last_job = server_jobs[path_entry[depth]]
                pushed = min(server_left[start], job_left[last_job])
                for step in range(depth):
                    pushed = min(pushed, flow[path_back[step]])
                server_left[start] -= pushed
                job_left[last_job] -= pushed
                for step in range(depth):
                    flow[path_entry[step]] += pushed
                    flow[path_back[step]] -= pushed
                flow[path_entry[depth]] += pushed


@kernel
def balance(
    passes: int,
    unit: int,
    server_cost: Any,
    job_weight: Any,
    job_start: Any,
    job_servers: Any,
    job_entries: Any,
    flow: Any,
    price: Any,
) -> Any:
    """Split the jobs over their servers so that prices get closer; return the flow and the prices.

    From equal shares on, each pass levels, for each job, the dearest server that it pays with
    the cheapest that it could. The more even the prices, the closer their order is to that in
    which servers enter the best sets. `flow` and `price`, shape (servers,), are filled here.
    """
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
def envelope_segment(
    wanted: int,
    unit: int,
    server_cost: Any,
    job_weight: Any,
    server_start: Any,
    server_jobs: Any,
    job_start: Any,
    job_servers: Any,
    job_entries: Any,
    flow: Any,
    order: Any,
    is_lower: Any,
    is_upper: Any,
    is_settled: Any,
    is_open: Any,
    is_paid: Any,
    first_weight: Any,
    server_left: Any,
    job_left: Any,
    active: Any,
    server_level: Any,
    job_level: Any,
    server_next: Any,
    job_next: Any,
    queue: Any,
    path_entry: Any,
    path_back: Any,
) -> Any:
    """Find the ends of the segment of the envelope around `wanted` servers; see `rigid_bound`.

    The first guess are two beginnings of `order`, those that make the lowest chord there. Then
    each chord's slope, rounded down to a multiple of 1 / `unit`, is the price per server of a
    minimum cut, and a cut below the chord takes the place of one of its ends. Best sets for
    growing prices grow, so after a cut only the servers that are not settled in the lower end
    and still open in the upper end stay in play, and only jobs that are not paid by the lower
    end. `flow` comes with a flow that splits all weights; it is kept from cut to cut, and is at
    last what proves the bound. The arrays from `is_lower` on are zero at first;
    ``first_weight``, shape (servers + 1,), is scratch like those after it. Gives back the flow,
    the two ends as 0 and 1 by server, their weights and the number of cuts.
    """
    servers = len(server_cost)
    jobs = len(job_weight)
    # What the first 0, 1, 2, ... servers of the order preempt.
    for position in range(servers):
        queue[order[position]] = position
        first_weight[position + 1] = server_cost[order[position]]
    for j in range(jobs):
        first = servers
        for position in range(job_start[j], job_start[j + 1]):
            first = min(first, queue[job_servers[position]])
        first_weight[first + 1] += job_weight[j]
    for position in range(servers):
        first_weight[position + 1] += first_weight[position]
    lower_count = 0
    upper_count = servers
    while lower_count < upper_count:
        lower_weight = first_weight[lower_count]
        run = upper_count - lower_count
        rise = first_weight[upper_count] - lower_weight
        lowest = 0
        count = lower_count
        for position in range(lower_count + 1, upper_count):
            height = run * (first_weight[position] - lower_weight) - rise * (position - lower_count)
            if height < lowest:
                lowest = height
                count = position
        if lowest == 0:
            break
        if count <= wanted:
            lower_count = count
        else:
            upper_count = count
    lower_weight = first_weight[lower_count]
    upper_weight = first_weight[upper_count]
    for position in range(upper_count):
        is_upper[order[position]] = 1
        is_lower[order[position]] = int(position < lower_count)
    for s in range(servers):
        is_open[s] = 1
    cuts = 0
    while lower_count < upper_count:
        run = upper_count - lower_count
        rise = upper_weight - lower_weight
        price = rise * unit // run
        actives = 0
        for s in range(servers):
            if is_settled[s] == is_open[s]:
                continue
            active[actives] = s
            actives += 1
            left = max(0, price - server_cost[s] * unit)
            for entry in range(server_start[s], server_start[s + 1]):
                kept = min(left, flow[entry])
                job_left[server_jobs[entry]] += flow[entry] - kept
                flow[entry] = kept
                left -= kept
            server_left[s] = left
        for position in range(actives):
            s = active[position]
            for entry in range(server_start[s], server_start[s + 1]):
                j = server_jobs[entry]
                pushed = min(server_left[s], job_left[j])
                flow[entry] += pushed
                server_left[s] -= pushed
                job_left[j] -= pushed
        augment(
            active,
            actives,
            is_settled,
            is_paid,
            server_left,
            job_left,
            server_start,
            server_jobs,
            job_start,
            job_servers,
            job_entries,
            flow,
            server_level,
            job_level,
            server_next,
            job_next,
            queue,
            path_entry,
            path_back,
        )
        cuts += 1
        count = 0
        weight = 0
        for s in range(servers):
            if server_level[s] >= 0:
                count += 1
                weight += server_cost[s]
        for j in range(jobs):
            if job_level[j] >= 0:
                weight += job_weight[j]
        if run * (weight - lower_weight) == rise * (count - lower_count):
            break  # the chord is a segment of the envelope
        if count <= wanted:
            lower_count = count
            lower_weight = weight
            for s in range(servers):
                is_lower[s] = int(server_level[s] >= 0)
                is_settled[s] = is_lower[s]
            for j in range(jobs):
                is_paid[j] = int(job_level[j] >= 0)
        if count >= wanted:
            upper_count = count
            upper_weight = weight
            for s in range(servers):
                is_upper[s] = int(server_level[s] >= 0)
                is_open[s] = is_upper[s]
    # A breakpoint is the whole segment.
    if lower_count == wanted:
        return flow, is_lower, is_lower, lower_weight, lower_weight, cuts
    if upper_count == wanted:
        return flow, is_upper, is_upper, upper_weight, upper_weight, cuts
    return flow, is_lower, is_upper, lower_weight, upper_weight, cuts
