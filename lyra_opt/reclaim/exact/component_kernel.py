"""List all choices of a few servers: the exact curve of a small component."""

from __future__ import annotations

from typing import Any

from lyra_opt.core.kernels import kernel


@kernel
def enumerate_choices(
    servers: int,
    weight: Any,
    cost: Any,
    server_start: Any,
    server_jobs: Any,
    hosts: Any,
    least: Any,
    chosen: Any,
) -> Any:
    """Return the least weight of each number of servers, and a choice of it as a bit mask.

    The choices follow a Gray code, so that one server changes at a time. `hosts`, zeros, counts
    the chosen servers of each job. Time O(2^servers * jobs on a server).
    """
    for picks in range(servers + 1):
        least[picks] = -1
    least[0] = 0
    mask = 0
    picks = 0
    total = 0
    for step in range(1, 2**servers):
        # The lowest bit that is set in the number of the step says which server changes.
        s = 0
        while step >> s & 1 == 0:
            s += 1
        if mask >> s & 1:
            total -= cost[s]
            picks -= 1
            for entry in range(server_start[s], server_start[s + 1]):
                hosts[server_jobs[entry]] -= 1
                if hosts[server_jobs[entry]] == 0:
                    total -= weight[server_jobs[entry]]
        else:
            total += cost[s]
            picks += 1
            for entry in range(server_start[s], server_start[s + 1]):
                if hosts[server_jobs[entry]] == 0:
                    total += weight[server_jobs[entry]]
                hosts[server_jobs[entry]] += 1
        mask = mask ^ (1 << s)
        if least[picks] < 0 or total < least[picks]:
            least[picks] = total
            chosen[picks] = mask
    return least, chosen
