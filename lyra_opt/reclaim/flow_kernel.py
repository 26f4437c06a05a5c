"""Maximum flow from servers to jobs, in integers: the inner loop of the rigid bound.

The network has an arc from the source to each server, an unbounded arc from a server to each job
on it, and an arc from each job to the sink. The flow on the entry (s, j) is the part of job j's
weight that is charged to server s.
"""

from __future__ import annotations

from typing import Any

from lyra_opt.kernels import kernel


@kernel
def maximum_flow(
    server_capacity: Any,
    job_capacity: Any,
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
) -> Any:
    """Dinic's algorithm; return the flow of each entry and the source side of the least cut.

    `server_capacity` and `job_capacity` are used up: they end as what is left. Entries are
    numbered by server; ``job_entries[e]`` is the number of the e-th entry in job order. `flow`
    is a flow to start from, which keeps the capacities of jobs; where it exceeds that of a
    server it is cut. The arrays after it are scratch. In the returned `server_level`, a server
    that can still be reached from the source (the source side of the smallest minimum cut) has
    a level of at least 0, any other -1.

    Complexity O((servers + jobs)^2 entries) at worst; a few passes over the entries in practice.
    """
    servers = len(server_capacity)
    jobs = len(job_capacity)
    for s in range(servers):
        for entry in range(server_start[s], server_start[s + 1]):
            kept = min(server_capacity[s], flow[entry])
            flow[entry] = kept
            server_capacity[s] -= kept
            job_capacity[server_jobs[entry]] -= kept
    # Any maximal start saves most phases.
    for s in range(servers):
        for entry in range(server_start[s], server_start[s + 1]):
            j = server_jobs[entry]
            pushed = min(server_capacity[s], job_capacity[j])
            flow[entry] += pushed
            server_capacity[s] -= pushed
            job_capacity[j] -= pushed
    while True:
        head = 0
        tail = 0
        for j in range(jobs):
            job_level[j] = -1
            job_next[j] = job_start[j]
        for s in range(servers):
            server_next[s] = server_start[s]
            server_level[s] = -1
            if server_capacity[s] > 0:
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
                if job_capacity[j] > 0:
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
        for start in range(servers):
            while server_capacity[start] > 0:
                # Walk down the levels from `start`: entry to a job, entry back to a server, ...
                depth = 0
                s = start
                found = False
                while True:
                    j = -1
                    while server_next[s] < server_start[s + 1]:
                        candidate = server_jobs[server_next[s]]
                        if job_level[candidate] == server_level[s] + 1:
                            j = candidate
                            break
                        server_next[s] += 1
                    if j < 0:
                        if depth == 0:
                            break
                        # A dead end: go back to the job that led here, and past this server.
                        depth -= 1
                        previous = server_jobs[path_entry[depth]]
                        job_next[previous] += 1
                        s = queue[depth]
                        continue
                    path_entry[depth] = server_next[s]
                    queue[depth] = s
                    if job_capacity[j] > 0:
                        found = True
                        break
                    t = -1
                    while job_next[j] < job_start[j + 1]:
                        position = job_next[j]
                        candidate = job_servers[position]
                        if (
                            server_level[candidate] == job_level[j]
                            and flow[job_entries[position]] > 0
                        ):
                            t = candidate
                            break
                        job_next[j] += 1
                    if t < 0:
                        server_next[s] += 1
                        continue
                    path_back[depth] = job_entries[job_next[j]]
                    depth += 1
                    s = t
                if not found:
                    break
                last_job = server_jobs[path_entry[depth]]
                pushed = min(server_capacity[start], job_capacity[last_job])
                for step in range(depth):
                    pushed = min(pushed, flow[path_back[step]])
                server_capacity[start] -= pushed
                job_capacity[last_job] -= pushed
                for step in range(depth):
                    flow[path_entry[step]] += pushed
                    flow[path_back[step]] -= pushed
                flow[path_entry[depth]] += pushed
    return flow, server_level
