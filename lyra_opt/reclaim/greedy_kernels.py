"""The inner loops of the greedy heuristics: flat integer arrays in, chosen positions out.

Each keeps its servers in a heap with stale entries: whenever the key of a server changes, the new
key is pushed; an entry that no longer equals the server's key is skipped when it comes up. In
`state` 1 marks a server whose key changed in the current round, 2 one that has been taken.
"""

from __future__ import annotations

import heapq
from typing import Any

from lyra_opt.kernels import kernel

SHARE_UNIT = 2**20
"""Resolution of the shares of slack: tie-breaking shares are rounded down to 1 / SHARE_UNIT."""


@kernel
def take_by_share(
    picks: int,
    radix: int,
    tie_sign: int,
    share_high: Any,
    share_low: Any,
    is_free: Any,
    base_job_start: Any,
    base_job_servers: Any,
    base_job_gpus: Any,
    base_server_start: Any,
    base_server_jobs: Any,
    gpus_server_start: Any,
    gpus_server_jobs: Any,
    gpus_server_gpus: Any,
    all_gpus: Any,
    is_dead: Any,
    cost_high: Any,
    cost_low: Any,
    gpus_elsewhere: Any,
    state: Any,
    touched: Any,
    scaled_in_gpus: Any,
    chosen: Any,
) -> Any:
    """Take `picks` times the free server with the least sum of shares of its living jobs.

    A taken server kills every living job with a base worker on it, on all servers. Ties go by
    `tie_sign` times the GPUs that those jobs would vacate on other servers not yet taken, then
    by position. Costs are two-limb integers (`exact_sums`). `is_dead` marks the jobs that are
    dead from the start; it and `all_gpus` leave out what servers taken before hold. The arrays
    from `cost_high` on are scratch, all zero.

    The GPUs of a tie are kept in two parts, because one taken server with a flexible worker of a
    living job lowers them for all servers of that job: ``gpus_elsewhere`` counts living jobs in
    full, and ``scaled_in_gpus`` of them is taken off where a tie is needed. An entry in the heap
    may so be better than its server has become; it is corrected when it comes up.
    """
    for j in range(len(share_low)):
        if is_dead[j]:
            continue
        for entry in range(base_job_start[j], base_job_start[j + 1]):
            s = base_job_servers[entry]
            low = cost_low[s] + share_low[j]
            high = cost_high[s] + share_high[j]
            if low >= radix:
                low -= radix
                high += 1
            cost_low[s] = low
            cost_high[s] = high
            gpus_elsewhere[s] += all_gpus[j] - base_job_gpus[entry]
    heap = [
        (cost_high[s], cost_low[s], tie_sign * gpus_elsewhere[s], s)
        for s in range(len(is_free))
        if is_free[s]
    ]
    heapq.heapify(heap)
    any_scaled_in = False
    taken = 0
    while taken < picks:
        high, low, tie, best = heapq.heappop(heap)
        if state[best] == 2 or cost_high[best] != high or cost_low[best] != low:
            continue
        vacated = gpus_elsewhere[best]
        if any_scaled_in:
            for job_entry in range(base_server_start[best], base_server_start[best + 1]):
                j = base_server_jobs[job_entry]
                if not is_dead[j]:
                    vacated -= scaled_in_gpus[j]
        if tie_sign * vacated != tie:
            heapq.heappush(heap, (high, low, tie_sign * vacated, best))
            continue
        state[best] = 2
        chosen[taken] = best
        taken += 1
        touches = 0
        for job_entry in range(base_server_start[best], base_server_start[best + 1]):
            j = base_server_jobs[job_entry]
            if is_dead[j]:
                continue
            is_dead[j] = 1
            for entry in range(base_job_start[j], base_job_start[j + 1]):
                s = base_job_servers[entry]
                low = cost_low[s] - share_low[j]
                high = cost_high[s] - share_high[j]
                if low < 0:
                    low += radix
                    high -= 1
                cost_low[s] = low
                cost_high[s] = high
                gpus_elsewhere[s] -= all_gpus[j] - base_job_gpus[entry]
                if is_free[s] and state[s] == 0:
                    state[s] = 1
                    touched[touches] = s
                    touches += 1
        # Flexible workers of survivors are scaled in: there is less left for them to vacate.
        for job_entry in range(gpus_server_start[best], gpus_server_start[best + 1]):
            j = gpus_server_jobs[job_entry]
            if is_dead[j]:
                continue
            any_scaled_in = True
            scaled_in_gpus[j] += gpus_server_gpus[job_entry]
            if tie_sign > 0:  # only then do ties get better, which no entry in the heap shows
                for entry in range(base_job_start[j], base_job_start[j + 1]):
                    s = base_job_servers[entry]
                    if is_free[s] and state[s] == 0:
                        state[s] = 1
                        touched[touches] = s
                        touches += 1
        for position in range(touches):
            s = touched[position]
            state[s] = 0
            vacated = gpus_elsewhere[s]
            if any_scaled_in:
                for job_entry in range(base_server_start[s], base_server_start[s + 1]):
                    j = base_server_jobs[job_entry]
                    if not is_dead[j]:
                        vacated -= scaled_in_gpus[j]
            heapq.heappush(heap, (cost_high[s], cost_low[s], tie_sign * vacated, s))
    return chosen


@kernel
def take_with_slack(
    picks: int,
    radix: int,
    share_high: Any,
    share_low: Any,
    weight: Any,
    slack: Any,
    is_free: Any,
    job_start: Any,
    job_servers: Any,
    job_losses: Any,
    server_start: Any,
    server_jobs: Any,
    server_losses: Any,
    cost_high: Any,
    cost_low: Any,
    slack_price: Any,
    state: Any,
    touched: Any,
    chosen: Any,
) -> Any:
    """Take `picks` times the free server with the least sum of shares of jobs that would die.

    A job dies when more workers than its slack are lost. Ties go by the price of the slack that
    survivors would lose, the sum of weight * losses / (slack + 1) in multiples of
    1 / SHARE_UNIT, then by position. `slack` becomes -1 for a dead job.
    """
    servers = len(is_free)
    for j in range(len(slack)):
        for entry in range(job_start[j], job_start[j + 1]):
            s = job_servers[entry]
            if job_losses[entry] > slack[j]:
                low = cost_low[s] + share_low[j]
                high = cost_high[s] + share_high[j]
                if low >= radix:
                    low -= radix
                    high += 1
                cost_low[s] = low
                cost_high[s] = high
            else:
                slack_price[s] += weight[j] * job_losses[entry] * SHARE_UNIT // (slack[j] + 1)
    heap = [(cost_high[s], cost_low[s], slack_price[s], s) for s in range(servers) if is_free[s]]
    heapq.heapify(heap)
    taken = 0
    while taken < picks:
        high, low, price, best = heapq.heappop(heap)
        if (
            state[best] == 2
            or cost_high[best] != high
            or cost_low[best] != low
            or slack_price[best] != price
        ):
            continue
        state[best] = 2
        chosen[taken] = best
        taken += 1
        touches = 0
        for job_entry in range(server_start[best], server_start[best + 1]):
            j = server_jobs[job_entry]
            if slack[j] < 0:
                continue
            before = slack[j]
            after = before - server_losses[job_entry]
            if after < 0:
                after = -1
            slack[j] = after
            for entry in range(job_start[j], job_start[j + 1]):
                s = job_servers[entry]
                losses = job_losses[entry]
                low = cost_low[s]
                high = cost_high[s]
                if losses > before:
                    if after < 0:
                        low -= share_low[j]
                        high -= share_high[j]
                else:
                    slack_price[s] -= weight[j] * losses * SHARE_UNIT // (before + 1)
                    if after >= 0:
                        if losses > after:
                            low += share_low[j]
                            high += share_high[j]
                        else:
                            slack_price[s] += weight[j] * losses * SHARE_UNIT // (after + 1)
                if low < 0:
                    low += radix
                    high -= 1
                elif low >= radix:
                    low -= radix
                    high += 1
                cost_low[s] = low
                cost_high[s] = high
                if is_free[s] and state[s] == 0:
                    state[s] = 1
                    touched[touches] = s
                    touches += 1
        for position in range(touches):
            s = touched[position]
            state[s] = 0
            heapq.heappush(heap, (cost_high[s], cost_low[s], slack_price[s], s))
    return chosen


@kernel
def peel(
    returns: int,
    by_share: int,
    weight: Any,
    excess: Any,
    is_chosen: Any,
    job_start: Any,
    job_servers: Any,
    job_losses: Any,
    server_start: Any,
    server_jobs: Any,
    server_losses: Any,
    saving: Any,
    share: Any,
    state: Any,
    touched: Any,
) -> Any:
    """Return `returns` times the chosen server that rescues the most weight of jobs.

    ``excess[j]`` is how many workers job j has lost beyond its slack; it is preempted while that
    is positive. Ties go by the larger share, the sum over preempted jobs of
    weight * min(losses, excess) / excess in multiples of 1 / SHARE_UNIT, then by position. With
    `by_share` the share decides alone, and the weight rescued does not count. Gives back
    `is_chosen`.
    """
    for j in range(len(excess)):
        if excess[j] <= 0:
            continue
        for entry in range(job_start[j], job_start[j + 1]):
            s = job_servers[entry]
            if job_losses[entry] >= excess[j]:
                saving[s] += weight[j]
                share[s] += weight[j] * SHARE_UNIT
            else:
                share[s] += weight[j] * job_losses[entry] * SHARE_UNIT // excess[j]
    counts_saving = 1 - by_share
    heap = [
        (-saving[s] * counts_saving, -share[s], s) for s in range(len(is_chosen)) if is_chosen[s]
    ]
    heapq.heapify(heap)
    returned = 0
    while returned < returns:
        minus_saving, minus_share, best = heapq.heappop(heap)
        if (
            not is_chosen[best]
            or saving[best] * counts_saving != -minus_saving
            or share[best] != -minus_share
        ):
            continue
        is_chosen[best] = 0
        returned += 1
        touches = 0
        for job_entry in range(server_start[best], server_start[best + 1]):
            j = server_jobs[job_entry]
            before = excess[j]
            if before <= 0:
                continue
            after = before - server_losses[job_entry]
            excess[j] = after
            for entry in range(job_start[j], job_start[j + 1]):
                s = job_servers[entry]
                losses = job_losses[entry]
                if losses >= before:
                    saving[s] -= weight[j]
                    share[s] -= weight[j] * SHARE_UNIT
                else:
                    share[s] -= weight[j] * losses * SHARE_UNIT // before
                if after > 0:
                    if losses >= after:
                        saving[s] += weight[j]
                        share[s] += weight[j] * SHARE_UNIT
                    else:
                        share[s] += weight[j] * losses * SHARE_UNIT // after
                if is_chosen[s] and state[s] == 0:
                    state[s] = 1
                    touched[touches] = s
                    touches += 1
        for position in range(touches):
            s = touched[position]
            state[s] = 0
            heapq.heappush(heap, (-saving[s] * counts_saving, -share[s], s))
    return is_chosen
