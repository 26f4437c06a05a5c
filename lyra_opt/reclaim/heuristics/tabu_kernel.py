"""The inner loop of the tabu search: swap one chosen for one free server, over and over."""

from __future__ import annotations

from typing import Any, NamedTuple

from lyra_opt.core.kernels import kernel


class SwapProblem(NamedTuple):
    """What stays the same.

    Parameters
    ----------
    weight, losses
        Of a reduced instance.
    largest_loss
        Shape (jobs,): the most workers that the job loses to one server.
    chosen_count
        N_R.
    longest_chosen_ban, longest_free_ban
        Less than the chosen and than the free servers, so that there always is a swap.
    """

    weight: Any
    losses: Any
    largest_loss: Any
    chosen_count: int
    longest_chosen_ban: int
    longest_free_ban: int


class Walk(NamedTuple):
    """A choice of servers, what moving each of them does, and the best choice met.

    Parameters
    ----------
    order
        Shape (servers,): the chosen servers, then the free ones.
    is_chosen, best_is_chosen
        Of each server.
    excess
        Shape (jobs,): how many workers the job has lost beyond its slack; it is preempted while
        that is positive.
    change
        What removing the chosen, or adding the free, server would add to the objective.
    ban_end
        The first move in which the server may be moved.
    """

    order: Any
    is_chosen: Any
    best_is_chosen: Any
    excess: Any
    change: Any
    ban_end: Any


@kernel
def best_place(first: int, end: int, draw: int, move: int, less_than: Any, walk: Any) -> int:
    """Return the place of the server that is best to move, of those from `first` to `end`.

    Of equal ones the first from a random place on, cyclically. A ban does not count where the
    change is less than `less_than`.
    """
    change = walk.change
    place = first + draw % (end - first)
    best = -1
    least = 0
    for _ in range(end - first):
        s = walk.order[place]
        if (best < 0 or change[s] < least) and (walk.ban_end[s] <= move or change[s] < less_than):
            best = place
            least = change[s]
        place += 1
        if place == end:
            place = first
    return best


@kernel
def move_server(moved: int, is_addition: int, problem: Any, walk: Any) -> None:
    """Add or remove a server, and correct the changes of those with which it shares jobs.

    Time O(sum of spans of its jobs). Jobs that are preempted, or safe, whichever one server is
    moved, cost only O(1) of that.
    """
    losses = problem.losses
    change = walk.change
    change[moved] = -change[moved]
    walk.is_chosen[moved] = is_addition
    for job_entry in range(losses.server_start[moved], losses.server_start[moved + 1]):
        j = losses.server_jobs[job_entry]
        before = walk.excess[j]
        after = before - losses.server_counts[job_entry]
        if is_addition:
            after = before + losses.server_counts[job_entry]
        walk.excess[j] = after
        largest = problem.largest_loss[j]
        if min(before, after) > largest or max(before, after) <= -largest:
            continue
        for entry in range(losses.job_start[j], losses.job_start[j + 1]):
            s = losses.job_servers[entry]
            if s == moved:
                continue
            lost = -losses.job_counts[entry] if walk.is_chosen[s] else losses.job_counts[entry]
            # Whether moving s preempts the job (1), rescues it (-1) or neither (0).
            effect_before = (before + lost > 0) - (before > 0)
            effect_after = (after + lost > 0) - (after > 0)
            if effect_before != effect_after:
                change[s] += problem.weight[j] * (effect_after - effect_before)


@kernel
def swap_servers(
    moves: int,
    first_move: int,
    target: int,
    objective: int,
    best_objective: int,
    draws: Any,
    problem: Any,
    walk: Any,
) -> Any:
    """Make `moves` swaps, fewer if a choice of at most `target` is found on the way.

    A swap removes the chosen server whose removal lowers the objective most, then adds the free
    server, not the same one, whose addition then raises it least. Each half of a swap corrects
    the changes of all others, so that the change of the pair is exact, jobs of both included.

    A server that was added may not be removed in the next moves, nor one that was removed be
    added, unless that makes the best objective so far.

    Parameters
    ----------
    moves, first_move
        How many swaps to make, and how many were made before.
    objective, best_objective
        Of the current choice and of the best one.
    draws
        Shape (3 * moves,): integers of at least 0. Three for each move: the places from which
        removals and additions are looked at, and the length of the bans, from none to the longest.

    Returns
    -------
    tuple
        ``(moves made in all, objective, best_objective, walk)``, with which the search can be
        continued.

    Notes
    -----
    Time of a move O(servers) and that of `move_server`.
    """
    servers = len(walk.order)
    chosen_count = problem.chosen_count
    order = walk.order
    move = first_move
    draw = 0
    while move < first_move + moves and best_objective > target:
        removed_place = best_place(0, chosen_count, draws[draw], move, -objective - 1, walk)
        removed = order[removed_place]
        objective += walk.change[removed]
        move_server(removed, 0, problem, walk)
        added_place = best_place(
            chosen_count, servers, draws[draw + 1], move, best_objective - objective, walk
        )
        added = order[added_place]
        objective += walk.change[added]
        move_server(added, 1, problem, walk)
        order[removed_place] = added
        order[added_place] = removed
        ban = draws[draw + 2]
        walk.ban_end[added] = move + 1 + ban % (problem.longest_chosen_ban + 1)
        walk.ban_end[removed] = move + 1 + ban % (problem.longest_free_ban + 1)
        draw += 3
        move += 1
        if objective < best_objective:
            best_objective = objective
            for s in range(servers):
                walk.best_is_chosen[s] = walk.is_chosen[s]
    return move, objective, best_objective, walk
