"""Inner loops that find the rows of the threshold search's relaxation that a point violates.

Every row speaks of one job j and of some servers T on which it has workers: if at most `right` of
the sum of their coefficients fits into what the job survives, then

    sum of a_s x_s over T  <=  right + (sum of a_s over T - right) y_j.

Kept (y = 0), the job allows no more; paid for (y = 1), the row says nothing. Of all T the one that
a point (x, y) violates most is that of the servers with x_s > y_j, which is what makes these rows
so much stronger than those over all servers of the job.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lyra_opt.core.kernels import kernel

LEAST_VIOLATION = 1e-4
"""By which a row must be violated to be worth having."""

LEAST_EXCESS = 1e-6
"""By which x must be more than y for its server to be in a row."""


class Rows(NamedTuple):
    """Rows, in arrays with room for all that one point can violate.

    Parameters
    ----------
    job, right
        Of each row.
    end
        Shape (rows + 1,): the entries of row i are those from ``end[i]`` to ``end[i + 1]``.
    entry, coefficient
        Which entry of the losses, and a_s.
    """

    job: Any
    right: Any
    end: Any
    entry: Any
    coefficient: Any


class Point(NamedTuple):
    """Where rows are looked for.

    Parameters
    ----------
    x, y
        Of each server and of each job.
    jobs
        Those that may have rows.
    is_free
        Whether a server may be in a row.
    residual
        How many workers each job survives to lose.
    """

    x: Any
    y: Any
    jobs: Any
    is_free: Any
    residual: Any


class CoverScratch(NamedTuple):
    """Space for the rows of one job: its entries in play by losses, and a table of covers.

    Parameters
    ----------
    by_losses, excess
        Entries in the order of their losses, and x_s - y_j of each: as long as the widest span.
    sums
        As long as the largest capacity for which covers are looked for, and two more.
    is_taken
        As long as `sums` times `by_losses`.
    """

    by_losses: Any
    excess: Any
    sums: Any
    is_taken: Any


@kernel
def put_entry(rows: Any, entries: int, entry: int, coefficient: int) -> int:
    """Put an entry into the last row; return how many there are then in all."""
    rows.entry[entries] = entry
    rows.coefficient[entries] = coefficient
    return entries + 1


@kernel
def close_row(rows: Any, count: int, entries: int, job: int, right: int) -> int:
    """Let the row end here; return how many rows there are then."""
    rows.job[count] = job
    rows.right[count] = right
    rows.end[count + 1] = entries
    return count + 1


@kernel
def put_cover(rows: Any, entries: int, losses: Any, scratch: Any, cover: Any) -> Any:
    """Put the entries of a cover and what is larger; `cover` is what `find_cover` returned.

    Returns how many entries there are then, and the right side.
    """
    last, items, capacity = cover
    for place in range(last + 1, items):
        entries = put_entry(rows, entries, scratch.by_losses[place], 1)
    size = 0
    missing = capacity + 1
    for back in range(last + 1):
        place = last - back
        if missing > 0 and scratch.is_taken[place * (capacity + 2) + missing]:
            entries = put_entry(rows, entries, scratch.by_losses[place], 1)
            size += 1
            missing = max(0, missing - losses.job_counts[scratch.by_losses[place]])
    return entries, size - 1


@kernel
def find_cover(capacity: int, paid: Any, items: int, losses: Any, scratch: Any) -> int:
    """Find the violated row of a cover and of all servers at least as large as its largest.

    A cover C is a set of servers with more than `capacity` workers together. Of C and any servers
    with at least as many workers as each of C, no |C| fit: at most |C| - 1 can be chosen while
    the job is kept. Among all covers whose largest server is given, that of the most violated row
    is a minimum knapsack, solved for all of them by one dynamic programme.

    Parameters
    ----------
    paid
        y_j.
    items
        How many entries there are in `scratch`.

    Returns
    -------
    int
        Place of the last server of the cover, -1 for none. From there and capacity + 1 on
        downwards, ``scratch.is_taken`` tells the members of the cover.
    """
    excess = scratch.excess
    sums = scratch.sums
    is_taken = scratch.is_taken
    goal = capacity + 1
    behind = 0.0
    for place in range(items):
        behind += excess[place]
    sums[0] = 0.0
    for reached in range(1, goal + 1):
        sums[reached] = 1e30
    best = 10 * LEAST_VIOLATION
    best_place = -1
    for place in range(items):
        lost = losses.job_counts[scratch.by_losses[place]]
        behind -= excess[place]
        gap = 1.0 - paid - excess[place]
        start = place * (capacity + 2)
        for back in range(goal):
            reached = goal - back
            other = sums[max(0, reached - lost)] + gap
            is_taken[start + reached] = 0
            if other < sums[reached] - 1e-12:
                sums[reached] = other
                is_taken[start + reached] = 1
        violation = 1.0 - paid - sums[goal] + behind
        if is_taken[start + goal] and violation > best:
            best = violation
            best_place = place
    return best_place


@kernel
def sort_in_play(job: int, point: Any, losses: Any, scratch: Any) -> int:
    """List the job's entries with x > y and losses that it survives, by losses; return how many."""
    paid = point.y[job]
    by_losses = scratch.by_losses
    items = 0
    for entry in range(losses.job_start[job], losses.job_start[job + 1]):
        s = losses.job_servers[entry]
        lost = losses.job_counts[entry]
        if not point.is_free[s] or lost > point.residual[job] or point.x[s] - paid <= LEAST_EXCESS:
            continue
        back = items
        while back > 0 and losses.job_counts[by_losses[back - 1]] > lost:
            by_losses[back] = by_losses[back - 1]
            back -= 1
        by_losses[back] = entry
        items += 1
    for place in range(items):
        scratch.excess[place] = point.x[losses.job_servers[by_losses[place]]] - paid
    return items


@kernel
def separate(is_first: int, losses: Any, point: Any, rows: Any, scratch: Any) -> Any:
    """Find the rows that a point violates; return how many there are, and the rows.

    For each job: a row for each server with more workers than it survives to lose, which cannot
    be chosen while it is kept (right side 0); a row with the losses over all others; a row with
    coefficients 1 over a cover and what is larger.

    Parameters
    ----------
    is_first
        Whether the servers of the first kind share one row, and covers are left out.
    """
    count = 0
    entries = 0
    for number in range(len(point.jobs)):
        job = point.jobs[number]
        paid = point.y[job]
        capacity = point.residual[job]
        before = entries
        for entry in range(losses.job_start[job], losses.job_start[job + 1]):
            s = losses.job_servers[entry]
            if (
                point.is_free[s]
                and losses.job_counts[entry] > capacity
                and point.x[s] - paid > LEAST_VIOLATION
            ):
                entries = put_entry(rows, entries, entry, 1)
                if not is_first:
                    count = close_row(rows, count, entries, job, 0)
        if is_first and entries > before:
            count = close_row(rows, count, entries, job, 0)

        items = sort_in_play(job, point, losses, scratch)
        total = 0
        violation = capacity * (paid - 1.0)
        for place in range(items):
            total += losses.job_counts[scratch.by_losses[place]]
            violation += losses.job_counts[scratch.by_losses[place]] * scratch.excess[place]
        if total <= capacity:
            continue
        if violation > LEAST_VIOLATION:
            for place in range(items):
                entry = scratch.by_losses[place]
                entries = put_entry(rows, entries, entry, losses.job_counts[entry])
            count = close_row(rows, count, entries, job, capacity)

        smallest = losses.job_counts[scratch.by_losses[0]]
        largest = losses.job_counts[scratch.by_losses[items - 1]]
        is_even = smallest == largest and capacity % smallest == 0
        if is_first or is_even or capacity + 2 > len(scratch.sums):
            continue
        last = find_cover(capacity, paid, items, losses, scratch)
        if last >= 0:
            entries, right = put_cover(rows, entries, losses, scratch, (last, items, capacity))
            count = close_row(rows, count, entries, job, right)
    return count, rows
