"""The inner loops of the greedy heuristics: flat integer arrays in, chosen positions out.

The least server is kept in a tournament tree (`play_up`) and not in a heap. Most key changes affect
only one or two matches, while a heap would need a new entry for each change.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lyra_opt.core.kernels import kernel

SHARE_UNIT = 2**20
"""Tie-breaking shares of slack are rounded down to multiples of 1 / SHARE_UNIT."""


class Tournament(NamedTuple):
    """A tournament tree over servers: the least first key wins, then the second, then the third.

    Parameters
    ----------
    winner
        Shape (2 servers,): the winner of each match, with the root at ``winner[1]``. The leaf of
        server s is ``winner[servers + s]``, which is -1 if s does not take part.
    first_key, second_key, third_key
        Shape (servers,). If costs have two limbs (`lyra_opt.core.arithmetic`), the first two keys
        are those limbs.
    """

    winner: Any
    first_key: Any
    second_key: Any
    third_key: Any


class Touched(NamedTuple):
    """The servers whose tournament keys change in one greedy step, each listed once.

    Parameters
    ----------
    is_in
        Shape (servers,): whether the server is listed.
    servers
        Shape (servers,): the listed servers, at the beginning of the array.
    """

    is_in: Any
    servers: Any


class Shares(NamedTuple):
    """The share of each job in the cost of its servers, as high and low limbs over `radix`."""

    high: Any
    low: Any
    radix: int


@kernel
def winner_of(best: int, other: int, keys: Any) -> int:
    """Return the winner of two servers, -1 meaning no server; file order breaks full ties."""
    if other < 0:
        return best
    if best < 0:
        return other
    if keys.first_key[other] != keys.first_key[best]:
        return other if keys.first_key[other] < keys.first_key[best] else best
    if keys.second_key[other] != keys.second_key[best]:
        return other if keys.second_key[other] < keys.second_key[best] else best
    if keys.third_key[other] != keys.third_key[best]:
        return other if keys.third_key[other] < keys.third_key[best] else best
    return min(best, other)


@kernel
def play_all(takes_part: Any, tournament: Any) -> None:
    """Play all matches of the tournament, from the leaves to the root."""
    winner = tournament.winner
    servers = len(takes_part)
    for s in range(servers):
        winner[servers + s] = s if takes_part[s] else -1
    for node in range(servers - 1, 0, -1):
        winner[node] = winner_of(winner[2 * node], winner[2 * node + 1], tournament)


@kernel
def play_up(s: int, tournament: Any) -> None:
    """Replay the matches of server s from its leaf upwards until no winner changes.

    If the keys of several servers have changed, all winners are right after each of these servers
    has replayed its matches.
    """
    winner = tournament.winner
    node = (len(winner) // 2 + s) // 2
    while node > 0:
        best = winner_of(winner[2 * node], winner[2 * node + 1], tournament)
        if best == winner[node] and best != s:
            break
        winner[node] = best
        node //= 2


@kernel
def leave(s: int, tournament: Any) -> None:
    """Remove server s from the tournament."""
    tournament.winner[len(tournament.winner) // 2 + s] = -1
    play_up(s, tournament)


@kernel
def touch(s: int, touches: int, tournament: Any, touched: Any) -> int:
    """Add server s to the list of changed servers if it takes part; return the list's length."""
    if tournament.winner[len(tournament.winner) // 2 + s] < 0 or touched.is_in[s]:
        return touches
    touched.is_in[s] = 1
    touched.servers[touches] = s
    return touches + 1


@kernel
def change_cost(s: int, sign: int, j: int, shares: Any, tournament: Any) -> None:
    """Add `sign` times the share of job j to the cost of server s."""
    low = tournament.second_key[s] + sign * shares.low[j]
    high = tournament.first_key[s] + sign * shares.high[j]
    if low < 0:
        low += shares.radix
        high -= 1
    elif low >= shares.radix:
        low -= shares.radix
        high += 1
    tournament.second_key[s] = low
    tournament.first_key[s] = high


class Gpus(NamedTuple):
    """The GPUs that the jobs of each server would vacate on other servers not yet taken.

    The number is stored in two parts, because taking one server with a flexible worker of a running
    job lowers it for all servers of the job. ``elsewhere`` counts running jobs in full, and
    ``scaled_in`` is subtracted only when a tie must be broken.

    Parameters
    ----------
    of_job
        Shape (jobs,): all GPUs of each job, without those on servers taken before.
    elsewhere
        Shape (servers,): GPUs of the server's running jobs on other servers.
    scaled_in
        Shape (jobs,): GPUs of the job's workers that have been scaled in.
    """

    of_job: Any
    elsewhere: Any
    scaled_in: Any


@kernel
def tie_of(s: int, tie_sign: int, any_scaled_in: Any, base: Any, is_dead: Any, gpus: Any) -> Any:
    """Return `tie_sign` times the GPUs that the running jobs of server s would vacate elsewhere."""
    vacated = gpus.elsewhere[s]
    if any_scaled_in:
        for job_entry in range(base.server_start[s], base.server_start[s + 1]):
            j = base.server_jobs[job_entry]
            if not is_dead[j]:
                vacated -= gpus.scaled_in[j]
    return tie_sign * vacated


@kernel
def take_by_share(
    tie_sign: int,
    shares: Any,
    is_free: Any,
    base: Any,
    placed: Any,
    is_dead: Any,
    gpus: Any,
    tournament: Any,
    touched: Any,
    chosen: Any,
) -> Any:
    """Repeatedly choose the free server with the least sum of shares of its running jobs.

    A taken server preempts every running job with a base worker on it, on all servers. Ties are
    broken by `tie_sign` times the GPUs that those jobs would vacate on other free servers, then by
    position. The stored tie-breaking key of a server may be better than its true one; it is
    corrected when the server wins.

    Parameters
    ----------
    base, placed
        `Incidence` of the base workers and of all workers, with GPUs as values.
    is_dead
        Marks the jobs that are preempted from the start.
    gpus, tournament, touched
        Zeros, except for ``gpus.of_job``.
    chosen
        Output array, as long as the number of servers to take.
    """
    tie = tournament.third_key
    for j in range(len(is_dead)):
        if is_dead[j]:
            continue
        for entry in range(base.job_start[j], base.job_start[j + 1]):
            s = base.job_servers[entry]
            change_cost(s, 1, j, shares, tournament)
            gpus.elsewhere[s] += gpus.of_job[j] - base.job_counts[entry]
    for s in range(len(is_free)):
        tie[s] = tie_sign * gpus.elsewhere[s]
    play_all(is_free, tournament)
    any_scaled_in = False
    taken = 0
    while taken < len(chosen):
        best = tournament.winner[1]
        its_tie = tie_of(best, tie_sign, any_scaled_in, base, is_dead, gpus)
        if its_tie != tie[best]:
            tie[best] = its_tie
            play_up(best, tournament)
            continue
        chosen[taken] = best
        taken += 1
        leave(best, tournament)
        touches = 0
        for job_entry in range(base.server_start[best], base.server_start[best + 1]):
            j = base.server_jobs[job_entry]
            if is_dead[j]:
                continue
            is_dead[j] = 1
            for entry in range(base.job_start[j], base.job_start[j + 1]):
                s = base.job_servers[entry]
                change_cost(s, -1, j, shares, tournament)
                gpus.elsewhere[s] -= gpus.of_job[j] - base.job_counts[entry]
                touches = touch(s, touches, tournament, touched)
        # Surviving jobs lose flexible workers, so they can vacate fewer GPUs on other servers.
        for job_entry in range(placed.server_start[best], placed.server_start[best + 1]):
            j = placed.server_jobs[job_entry]
            if is_dead[j]:
                continue
            any_scaled_in = True
            gpus.scaled_in[j] += placed.server_counts[job_entry]
            if tie_sign > 0:  # only then do keys improve, which is not corrected later
                for entry in range(base.job_start[j], base.job_start[j + 1]):
                    touches = touch(base.job_servers[entry], touches, tournament, touched)
        for position in range(touches):
            s = touched.servers[position]
            touched.is_in[s] = 0
            tie[s] = tie_of(s, tie_sign, any_scaled_in, base, is_dead, gpus)
            play_up(s, tournament)
    return chosen


@kernel
def add_threat(
    s: int, sign: int, j: int, lost: int, slack: int, weight: Any, shares: Any, tournament: Any
) -> None:
    """Add `sign` times the cost of losing `lost` workers of job j to the keys of server s.

    If the loss exceeds `slack`, the job's share is added to the cost, else the price of the lost
    slack to the third key.
    """
    if lost > slack:
        change_cost(s, sign, j, shares, tournament)
    else:
        price = weight[j] * lost * SHARE_UNIT // (slack + 1)
        tournament.third_key[s] += sign * price


@kernel
def take_with_slack(
    shares: Any,
    weight: Any,
    slack: Any,
    is_free: Any,
    losses: Any,
    tournament: Any,
    touched: Any,
    chosen: Any,
) -> Any:
    """Repeatedly choose the free server with the least sum of shares of jobs that it would preempt.

    A job dies when it loses more workers than its slack. Ties are broken by the price of the slack
    that survivors would lose, the sum of weight * losses / (slack + 1) in multiples of 1 /
    SHARE_UNIT, then by position. `slack` becomes -1 for a dead job. `tournament` and `touched` are
    zeros, and `chosen` is as long as the number of servers to take.
    """
    for j in range(len(slack)):
        for entry in range(losses.job_start[j], losses.job_start[j + 1]):
            s = losses.job_servers[entry]
            add_threat(s, 1, j, losses.job_counts[entry], slack[j], weight, shares, tournament)
    play_all(is_free, tournament)
    for taken in range(len(chosen)):
        best = tournament.winner[1]
        chosen[taken] = best
        leave(best, tournament)
        touches = 0
        for job_entry in range(losses.server_start[best], losses.server_start[best + 1]):
            j = losses.server_jobs[job_entry]
            if slack[j] < 0:
                continue
            before = slack[j]
            after = max(before - losses.server_counts[job_entry], -1)
            slack[j] = after
            for entry in range(losses.job_start[j], losses.job_start[j + 1]):
                s = losses.job_servers[entry]
                lost = losses.job_counts[entry]
                if lost > before and after >= 0:
                    continue  # the loss preempts the job before and after
                add_threat(s, -1, j, lost, before, weight, shares, tournament)
                if after >= 0:
                    add_threat(s, 1, j, lost, after, weight, shares, tournament)
                touches = touch(s, touches, tournament, touched)
        for position in range(touches):
            s = touched.servers[position]
            touched.is_in[s] = 0
            play_up(s, tournament)
    return chosen


@kernel
def peel(
    returns: int,
    by_share: int,
    weight: Any,
    excess: Any,
    is_chosen: Any,
    losses: Any,
    tournament: Any,
) -> Any:
    """Give back, `returns` times, the chosen server that rescues the most weight of jobs.

    ``excess[j]`` is the number of workers that job j has lost beyond its slack; the job is
    preempted while the excess is positive. Ties are broken by the larger share, the sum over
    preempted jobs of weight * min(losses, excess) / excess in multiples of 1 / SHARE_UNIT, then by
    position. Both keys are stored negated, and start with the weight that each server rescues
    besides the jobs. With `by_share` only the share counts: the first key is not changed. Returns
    `is_chosen`.
    """
    minus_saving = tournament.first_key
    minus_share = tournament.second_key
    for j in range(len(excess)):
        if excess[j] <= 0:
            continue
        for entry in range(losses.job_start[j], losses.job_start[j + 1]):
            s = losses.job_servers[entry]
            saving, share = rescued(losses.job_counts[entry], excess[j], weight[j])
            minus_share[s] -= share
            if not by_share:
                minus_saving[s] -= saving
    play_all(is_chosen, tournament)
    for _ in range(returns):
        best = tournament.winner[1]
        is_chosen[best] = 0
        leave(best, tournament)
        for job_entry in range(losses.server_start[best], losses.server_start[best + 1]):
            j = losses.server_jobs[job_entry]
            before = excess[j]
            if before <= 0:
                continue
            after = before - losses.server_counts[job_entry]
            excess[j] = after
            lost = 0
            saving_change = 0
            share_change = 0
            for entry in range(losses.job_start[j], losses.job_start[j + 1]):
                s = losses.job_servers[entry]
                if not is_chosen[s]:
                    continue
                if lost != losses.job_counts[entry]:  # losses are mostly equal: divide once
                    lost = losses.job_counts[entry]
                    saving_before, share_before = rescued(lost, before, weight[j])
                    saving_after, share_after = rescued(lost, after, weight[j])
                    saving_change = saving_after - saving_before
                    share_change = share_after - share_before
                if not by_share:
                    minus_saving[s] -= saving_change
                minus_share[s] -= share_change
                play_up(s, tournament)
    return is_chosen


@kernel
def rescued(lost: int, excess: int, weight: Any) -> Any:
    """Return the weight and tie-breaking share rescued by giving back `lost` workers of a job."""
    if excess <= 0:
        return 0, 0
    if lost >= excess:
        return weight, weight * SHARE_UNIT
    return 0, weight * lost * SHARE_UNIT // excess
