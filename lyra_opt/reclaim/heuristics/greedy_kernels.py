"""The inner loops of the greedy heuristics: flat integer arrays in, chosen positions out.

`take_by_share` and `peel` let their servers play a tournament (`play_up`): most changes of a key
are of no consequence after a match or two, where a heap would take a new entry for each.
`take_with_slack` keeps its servers in a heap with stale entries: whenever the key of a server
changes, the new key is pushed; an entry that no longer equals the server's key is skipped when it
comes up. In its `state` 1 marks a server whose key changed in the current round, 2 one that has
been taken.
"""

from __future__ import annotations

import heapq
from typing import Any

from lyra_opt.core.kernels import kernel, kernel_with_lists

SHARE_UNIT = 2**20
"""Resolution of the shares of slack: tie-breaking shares are rounded down to 1 / SHARE_UNIT."""


@kernel
def winner_of(best: int, other: int, first_key: Any, second_key: Any, third_key: Any) -> int:
    """Return which of two servers wins; -1 stands for none.

    The least first key wins, then the least second key, the least third, the first in the file.
    """
    if other < 0:
        return best
    if best < 0:
        return other
    if first_key[other] != first_key[best]:
        return other if first_key[other] < first_key[best] else best
    if second_key[other] != second_key[best]:
        return other if second_key[other] < second_key[best] else best
    if third_key[other] != third_key[best]:
        return other if third_key[other] < third_key[best] else best
    return min(best, other)


@kernel
def play_all(
    servers: int, takes_part: Any, winner: Any, first_key: Any, second_key: Any, third_key: Any
) -> None:
    """Play the whole tournament, shape (2 servers,).

    Its root is ``winner[1]``; the leaf of server s is ``winner[servers + s]``, -1 where it does
    not take part.
    """
    for s in range(servers):
        winner[servers + s] = s if takes_part[s] else -1
    for node in range(servers - 1, 0, -1):
        winner[node] = winner_of(
            winner[2 * node], winner[2 * node + 1], first_key, second_key, third_key
        )


@kernel
def play_up(
    s: int, servers: int, winner: Any, first_key: Any, second_key: Any, third_key: Any
) -> None:
    """Play the matches of server s again, as far up as that can change a winner.

    Several keys may have changed: once all their servers have played, all winners are right.
    """
    node = (servers + s) // 2
    while node > 0:
        best = winner_of(winner[2 * node], winner[2 * node + 1], first_key, second_key, third_key)
        if best == winner[node] and best != s:
            break
        winner[node] = best
        node //= 2


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
    tie: Any,
    is_touched: Any,
    touched: Any,
    winner: Any,
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
    full, and ``scaled_in_gpus`` of them is taken off where a tie is needed. So the `tie` that a
    server plays with may be better than it has become; it is corrected when the server wins.
    """
    servers = len(is_free)
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
    for s in range(servers):
        tie[s] = tie_sign * gpus_elsewhere[s]
    play_all(servers, is_free, winner, cost_high, cost_low, tie)
    any_scaled_in = False
    taken = 0
    while taken < picks:
        best = winner[1]
        vacated = gpus_elsewhere[best]
        if any_scaled_in:
            for job_entry in range(base_server_start[best], base_server_start[best + 1]):
                j = base_server_jobs[job_entry]
                if not is_dead[j]:
                    vacated -= scaled_in_gpus[j]
        if tie_sign * vacated != tie[best]:
            tie[best] = tie_sign * vacated
            play_up(best, servers, winner, cost_high, cost_low, tie)
            continue
        chosen[taken] = best
        taken += 1
        winner[servers + best] = -1
        play_up(best, servers, winner, cost_high, cost_low, tie)
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
                if winner[servers + s] >= 0 and not is_touched[s]:
                    is_touched[s] = 1
                    touched[touches] = s
                    touches += 1
        # Flexible workers of survivors are scaled in: there is less left for them to vacate.
        for job_entry in range(gpus_server_start[best], gpus_server_start[best + 1]):
            j = gpus_server_jobs[job_entry]
            if is_dead[j]:
                continue
            any_scaled_in = True
            scaled_in_gpus[j] += gpus_server_gpus[job_entry]
            if tie_sign > 0:  # only then do ties get better, which nothing would correct
                for entry in range(base_job_start[j], base_job_start[j + 1]):
                    s = base_job_servers[entry]
                    if winner[servers + s] >= 0 and not is_touched[s]:
                        is_touched[s] = 1
                        touched[touches] = s
                        touches += 1
        for position in range(touches):
            s = touched[position]
            is_touched[s] = 0
            vacated = gpus_elsewhere[s]
            if any_scaled_in:
                for job_entry in range(base_server_start[s], base_server_start[s + 1]):
                    j = base_server_jobs[job_entry]
                    if not is_dead[j]:
                        vacated -= scaled_in_gpus[j]
            tie[s] = tie_sign * vacated
            play_up(s, servers, winner, cost_high, cost_low, tie)
    return chosen


@kernel_with_lists
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
    minus_saving: Any,
    minus_share: Any,
    job_start: Any,
    job_servers: Any,
    job_losses: Any,
    server_start: Any,
    server_jobs: Any,
    server_losses: Any,
    winner: Any,
) -> Any:
    """Return `returns` times the chosen server that rescues the most weight of jobs.

    ``excess[j]`` is how many workers job j has lost beyond its slack; it is preempted while that
    is positive. Ties go by the larger share, the sum over preempted jobs of
    weight * min(losses, excess) / excess in multiples of 1 / SHARE_UNIT, then by position. With
    `by_share` the share decides alone, and the weight rescued does not count. Both
    keys are kept negative, and come with what each server rescues beside the jobs. `winner`,
    shape (2 servers,), is scratch. Gives back `is_chosen`.
    """
    servers = len(is_chosen)
    for j in range(len(excess)):
        if excess[j] <= 0:
            continue
        for entry in range(job_start[j], job_start[j + 1]):
            s = job_servers[entry]
            if job_losses[entry] >= excess[j]:
                minus_saving[s] -= weight[j]
                minus_share[s] -= weight[j] * SHARE_UNIT
            else:
                minus_share[s] -= weight[j] * job_losses[entry] * SHARE_UNIT // excess[j]
    first_key = minus_share if by_share else minus_saving
    play_all(servers, is_chosen, winner, first_key, minus_share, minus_share)
    for _ in range(returns):
        best = winner[1]
        is_chosen[best] = 0
        winner[servers + best] = -1
        play_up(best, servers, winner, first_key, minus_share, minus_share)
        for job_entry in range(server_start[best], server_start[best + 1]):
            j = server_jobs[job_entry]
            before = excess[j]
            if before <= 0:
                continue
            after = before - server_losses[job_entry]
            excess[j] = after
            losses = 0
            saving_change = 0
            share_change = 0
            for entry in range(job_start[j], job_start[j + 1]):
                s = job_servers[entry]
                if not is_chosen[s]:
                    continue
                if losses != job_losses[entry]:  # mostly equal: divide once for all
                    losses = job_losses[entry]
                    saving_change = 0
                    share_change = 0
                    if losses >= before:
                        saving_change -= weight[j]
                        share_change -= weight[j] * SHARE_UNIT
                    else:
                        share_change -= weight[j] * losses * SHARE_UNIT // before
                    if after > 0:
                        if losses >= after:
                            saving_change += weight[j]
                            share_change += weight[j] * SHARE_UNIT
                        else:
                            share_change += weight[j] * losses * SHARE_UNIT // after
                minus_saving[s] -= saving_change
                minus_share[s] -= share_change
                play_up(s, servers, winner, first_key, minus_share, minus_share)
    return is_chosen
