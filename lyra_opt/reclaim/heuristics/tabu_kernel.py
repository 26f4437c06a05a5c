"""The inner loop of the tabu search: swap one chosen for one free server, over and over."""

from __future__ import annotations

from typing import Any

from lyra_opt.core.kernels import kernel


@kernel
def swap_servers(
    moves: int,
    first_move: int,
    target: int,
    chosen_count: int,
    longest_chosen_ban: int,
    longest_free_ban: int,
    objective: int,
    best_objective: int,
    weight: Any,
    largest_loss: Any,
    job_start: Any,
    job_servers: Any,
    job_losses: Any,
    server_start: Any,
    server_jobs: Any,
    server_losses: Any,
    draws: Any,
    order: Any,
    is_chosen: Any,
    excess: Any,
    change: Any,
    ban_end: Any,
    best_is_chosen: Any,
) -> Any:
    """Make `moves` swaps, fewer if a choice of at most `target` is found on the way.

    A swap removes the chosen server whose removal lowers the objective most, then adds the free
    server, not the same one, whose addition then raises it least. ``change[s]`` is what removing
    the chosen, or adding the free, server s would add to the objective. Each half of a swap
    corrects it for all servers that share a job with the one that moves, so that the change of
    the pair is exact, jobs of both included. Of equal servers the first one in `order` from a
    random place on is taken, cyclically.

    A server that was added may not be removed in the next moves, nor one that was removed be
    added, unless that makes the best objective so far. `draws` says in how many: from none to
    `longest_chosen_ban` and `longest_free_ban`, which must be less than the chosen and than the
    free servers, so that there always is a swap.

    Parameters
    ----------
    moves, first_move
        How many swaps to make, and how many were made before.
    objective, best_objective
        Of the current choice and of `best_is_chosen`.
    largest_loss
        Shape (jobs,): the most workers that the job loses to one server.
    draws
        Shape (3 * moves,): integers of at least 0. Three for each move: the places from which
        removals and additions are looked at, and the length of the bans.
    order
        Shape (servers,): the chosen servers, then the free ones.
    excess
        Shape (jobs,): how many workers the job has lost beyond its slack; it is preempted while
        that is positive.
    ban_end
        Shape (servers,): the first move in which the server may be moved.

    Returns
    -------
    tuple
        ``(moves made in all, objective, best_objective, order, is_chosen, excess, change,
        ban_end, best_is_chosen)``, with which the search can be continued.

    Notes
    -----
    Time of a move O(servers + sum of spans of the jobs on the two servers). Jobs that are
    preempted, or safe, whichever one server is moved, cost only O(1) of that.
    """
    servers = len(is_chosen)
    move = first_move
    draw = 0
    while move < first_move + moves and best_objective > target:
        removed_place = -1
        added_place = -1
        for is_addition in range(2):
            # The best server that may be moved, among the chosen or among the free.
            first = chosen_count if is_addition else 0
            end = servers if is_addition else chosen_count
            place = first + draws[draw + is_addition] % (end - first)
            best_place = -1
            least = 0
            for _ in range(end - first):
                s = order[place]
                if (best_place < 0 or change[s] < least) and (
                    ban_end[s] <= move or (is_addition and objective + change[s] < best_objective)
                ):
                    best_place = place
                    least = change[s]
                place += 1
                if place == end:
                    place = first
            if is_addition:
                added_place = best_place
            else:
                removed_place = best_place
            # Move it, and correct the changes of the servers with which it shares jobs.
            moved = order[best_place]
            objective += change[moved]
            change[moved] = -change[moved]
            is_chosen[moved] = is_addition
            for job_entry in range(server_start[moved], server_start[moved + 1]):
                j = server_jobs[job_entry]
                before = excess[j]
                after = before - server_losses[job_entry]
                if is_addition:
                    after = before + server_losses[job_entry]
                excess[j] = after
                if min(before, after) > largest_loss[j] or max(before, after) <= -largest_loss[j]:
                    continue
                for entry in range(job_start[j], job_start[j + 1]):
                    s = job_servers[entry]
                    if s == moved:
                        continue
                    losses = -job_losses[entry] if is_chosen[s] else job_losses[entry]
                    # Whether moving s preempts the job (1), rescues it (-1) or neither (0).
                    effect_before = (before + losses > 0) - (before > 0)
                    effect_after = (after + losses > 0) - (after > 0)
                    if effect_before != effect_after:
                        change[s] += weight[j] * (effect_after - effect_before)
        removed = order[removed_place]
        added = order[added_place]
        order[removed_place] = added
        order[added_place] = removed
        ban_end[added] = move + 1 + draws[draw + 2] % (longest_chosen_ban + 1)
        ban_end[removed] = move + 1 + draws[draw + 2] % (longest_free_ban + 1)
        draw += 3
        move += 1
        if objective < best_objective:
            best_objective = objective
            for s in range(servers):
                best_is_chosen[s] = is_chosen[s]
    return (
        move,
        objective,
        best_objective,
        order,
        is_chosen,
        excess,
        change,
        ban_end,
        best_is_chosen,
    )
