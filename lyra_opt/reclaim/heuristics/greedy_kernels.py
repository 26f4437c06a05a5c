"""The inner loops of the greedy heuristics: flat integer arrays in, chosen positions out.

Their servers play a tournament (`play_up`): most changes of a key are of no consequence after a
match or two, where a heap would take a new entry for each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lyra_opt.core.kernels import kernel

SHARE_UNIT = 2**20
"""Resolution of the shares of slack: tie-breaking shares are rounded down to 1 / SHARE_UNIT."""


class Tournament(NamedTuple):
    """Who is best, by three keys: the least first key wins, then the least second, then third.

    Parameters
    ----------
    winner
        Shape (2 servers,). Its root is ``winner[1]``; the leaf of server s is
        ``winner[servers + s]``, -1 where it does not take part.
    first_key, second_key, third_key
        Shape (servers,). Where keys are costs of two limbs (`lyra_opt.core.arithmetic`), these are
        the first two.
    """

    winner: Any
    first_key: Any
    second_key: Any
    third_key: Any


class Touched(NamedTuple):
    """The servers whose keys change in a round, each once.

    Parameters
    ----------
    is_in
        Of each server, whether it is one of them.
    servers
        They themselves, first.
    """

    is_in: Any
    servers: Any


class Shares(NamedTuple):
    """What each job adds to the cost of its servers: high and low limbs over `radix`."""

    high: Any
    low: Any
    radix: int


@kernel
def winner_of(best: int, other: int, keys: Any) -> int:
    """Return which of two servers wins, the first in the file if all keys are equal; -1 is none."""
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
    """Play the whole tournament."""
    winner = tournament.winner
    servers = len(takes_part)
    for s in range(servers):
        winner[servers + s] = s if takes_part[s] else -1
    for node in range(servers - 1, 0, -1):
        winner[node] = winner_of(winner[2 * node], winner[2 * node + 1], tournament)


@kernel
def play_up(s: int, tournament: Any) -> None:
    """Play the matches of server s again, as far up as that can change a winner.

    Several keys may have changed: once all their servers have played, all winners are right.
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
    """Let server s take part no more."""
    tournament.winner[len(tournament.winner) // 2 + s] = -1
    play_up(s, tournament)


@kernel
def touch(s: int, touches: int, tournament: Any, touched: Any) -> int:
    """Note that the keys of a server that takes part change; return how many there are then."""
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
    """The GPUs that the jobs of a server would vacate on other servers not yet taken.

    In two parts, because one taken server with a flexible worker of a living job lowers them for
    all servers of that job: ``elsewhere`` counts living jobs in full, and ``scaled_in`` of them is
    taken off where a tie is needed.

    Parameters
    ----------
    of_job
        All GPUs of each job, but for those on servers taken before.
    elsewhere
        Of each server.
    scaled_in
        Of each job.
    """

    of_job: Any
    elsewhere: Any
    scaled_in: Any


@kernel
def tie_of(s: int, tie_sign: int, any_scaled_in: Any, base: Any, is_dead: Any, gpus: Any) -> Any:
    """Return `tie_sign` times the GPUs that the living jobs of server s would vacate elsewhere."""
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
    """Choose the free server with the least sum of shares of its living jobs, over and over.

    A taken server kills every living job with a base worker on it, on all servers. Ties go by
    `tie_sign` times the GPUs that those jobs would vacate on other servers not yet taken, then by
    position. The tie that a server plays with may be better than it has become; it is corrected
    when the server wins.

    Parameters
    ----------
    base, placed
        `Incidence` of base workers and of all, with GPUs.
    is_dead
        Marks the jobs that are dead from the start.
    gpus, tournament, touched
        Zeros, but for ``gpus.of_job``.
    chosen
        To be filled: as long as servers are to be taken.
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
        # Flexible workers of survivors are scaled in: there is less left for them to vacate.
        for job_entry in range(placed.server_start[best], placed.server_start[best + 1]):
            j = placed.server_jobs[job_entry]
            if is_dead[j]:
                continue
            any_scaled_in = True
            gpus.scaled_in[j] += placed.server_counts[job_entry]
            if tie_sign > 0:  # only then do ties get better, which nothing would correct
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
    """Add `sign` times what losing `lost` workers of job j, with that slack, counts for server s.

    Its share if that preempts it, else the price of the slack.
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
    """Choose the free server with the least sum of shares of jobs that would die, over and over.

    A job dies when more workers than its slack are lost. Ties go by the price of the slack that
    survivors would lose, the sum of weight * losses / (slack + 1) in multiples of
    1 / SHARE_UNIT, then by position. `slack` becomes -1 for a dead job; `tournament` and `touched`
    are zeros, and `chosen` is as long as servers are to be taken.
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
                    continue  # it would die before, and will
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
    """Return `returns` times the chosen server that rescues the most weight of jobs.

    ``excess[j]`` is how many workers job j has lost beyond its slack; it is preempted while that
    is positive. Ties go by the larger share, the sum over preempted jobs of
    weight * min(losses, excess) / excess in multiples of 1 / SHARE_UNIT, then by position. Both
    keys are kept negative, and come with what each server rescues beside the jobs. With `by_share`
    the share decides alone: the first key stays as it comes. Gives back `is_chosen`.
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
                if lost != losses.job_counts[entry]:  # mostly equal: divide once for all
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
    """Return the weight that giving back `lost` workers of a job rescues, and its share of it."""
    if excess <= 0:
        return 0, 0
    if lost >= excess:
        return weight, weight * SHARE_UNIT
    return 0, weight * lost * SHARE_UNIT // excess
