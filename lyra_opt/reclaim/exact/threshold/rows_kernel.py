"""Inner loops that add rows to the relaxation of the threshold search, and read prices off it.

Every row speaks of one job j and of some servers T on which it has workers: if at most `right` of
the sum of their coefficients fits into what the job survives, then

    sum of a_s x_s over T  <=  right + (sum of a_s over T - right) y_j.

Kept (y = 0), the job allows no more; paid for (y = 1), the row says nothing. Of all T the one that
a point (x, y) violates most is that of the servers with x_s > y_j, which is what makes these rows
so much stronger than those over all servers of the job.
"""

from __future__ import annotations

from typing import Any

from lyra_opt.core.kernels import kernel

LEAST_VIOLATION = 1e-4
"""By which a row must be violated to be worth having."""

LEAST_EXCESS = 1e-6
"""By which x must be more than y for its server to be in a row."""


@kernel
def append_row(
    columns: int,
    rows: int,
    job: int,
    right: int,
    is_unit: int,
    member_width: int,
    members: Any,
    job_column: Any,
    server_column: Any,
    job_start: Any,
    job_servers: Any,
    job_losses: Any,
    tableau: Any,
    basic: Any,
    where: Any,
    row_job: Any,
    row_is_unit: Any,
    row_members: Any,
    buffer: Any,
) -> None:
    """Append the row of `job` over its entries flagged in `members`, its slack basic.

    Parameters
    ----------
    is_unit
        Whether all coefficients are 1; else they are the losses.
    where
        Shape (columns + most rows,): the row in which a variable is basic, or -1 less the column
        in which it is not.
    row_job, row_is_unit, row_members
        What each row says, by its number; filled in here.
    """
    width = columns + 1
    number = rows - 1
    base = rows * width
    for column in range(width):
        tableau[base + column] = 0.0
    tableau[base + columns] = right
    total = 0
    first = job_start[job]
    span = job_start[job + 1] - first
    # The last round is for the job itself, once the total is known.
    for k in range(span + 1):
        if k < span:
            row_members[number * member_width + k] = members[k]
            if not members[k]:
                continue
            variable = server_column[job_servers[first + k]]
            coefficient = 1 if is_unit else job_losses[first + k]
            total += coefficient
        else:
            variable = job_column[job]
            coefficient = right - total
        place = where[variable]
        if place < 0:
            tableau[base - 1 - place] += coefficient
        else:
            for column in range(width):
                buffer[column] = coefficient * tableau[place * width + column]
            for column in range(width):
                tableau[base + column] -= buffer[column]
    row_job[number] = job
    row_is_unit[number] = is_unit
    basic[rows] = columns + number
    where[columns + number] = rows


@kernel
def find_cover(
    capacity: int,
    paid: Any,
    items: int,
    by_losses: Any,
    excess: Any,
    job_losses: Any,
    sums: Any,
    is_taken: Any,
) -> Any:
    """Find the violated row of a cover and of all servers at least as large as its largest.

    A cover C is a set of servers with more than `capacity` workers together. Of C and any servers
    with at least as many workers as each of C, no |C| fit: at most |C| - 1 can be chosen while
    the job is kept. Among all covers whose largest server is given, that of the most violated row
    is a minimum knapsack, solved for all of them by one dynamic programme.

    Parameters
    ----------
    by_losses
        The first `items` are entries of one job in the order of their losses.
    excess
        Shape (entries of a job,): x_s - y_j of each of these entries, in that order.
    sums, is_taken
        Scratch, (capacity + 2,) and (items * (capacity + 2),).

    Returns
    -------
    tuple
        ``(place of the last server of the cover, -1 for none; is_taken)``. From that place and
        capacity + 1 on downwards, `is_taken` tells the members of the cover.
    """
    goal = capacity + 1
    behind = 0.0
    for place in range(items):
        behind += excess[place]
    sums[0] = 0.0
    for losses in range(1, goal + 1):
        sums[losses] = 1e30
    best = 10 * LEAST_VIOLATION
    best_place = -1
    for place in range(items):
        losses = job_losses[by_losses[place]]
        behind -= excess[place]
        gap = 1.0 - paid - excess[place]
        start = place * (capacity + 2)
        for back in range(goal):
            reached = goal - back
            other = sums[max(0, reached - losses)] + gap
            is_taken[start + reached] = 0
            if other < sums[reached] - 1e-12:
                sums[reached] = other
                is_taken[start + reached] = 1
        violation = 1.0 - paid - sums[goal] + behind
        if is_taken[start + goal] and violation > best:
            best = violation
            best_place = place
    return best_place, is_taken


@kernel
def separate(
    columns: int,
    rows: int,
    most_rows: int,
    is_first: int,
    member_width: int,
    jobs: Any,
    job_column: Any,
    server_column: Any,
    job_start: Any,
    job_servers: Any,
    job_losses: Any,
    residual: Any,
    solution: Any,
    tableau: Any,
    basic: Any,
    where: Any,
    row_job: Any,
    row_is_unit: Any,
    row_members: Any,
    members: Any,
    by_losses: Any,
    excess: Any,
    sums: Any,
    is_taken: Any,
    buffer: Any,
) -> Any:
    """Append the rows that a point violates, and return how many rows there are then.

    For each job: a row for each server with more workers than it survives to lose, which cannot
    be chosen while it is kept (right side 0); a row with the losses over all others; a row with
    coefficients 1 over a cover and what is larger.

    Parameters
    ----------
    is_first
        Whether the servers of the first kind share one row, and covers are left out.
    solution
        Shape (columns,): the point.
    """
    for number in range(len(jobs)):
        job = jobs[number]
        first = job_start[job]
        span = job_start[job + 1] - first
        paid = solution[job_column[job]]
        capacity = residual[job]
        for k in range(span):
            members[k] = 0
        alone = 0
        for k in range(span):
            column = server_column[job_servers[first + k]]
            if column < 0 or job_losses[first + k] <= capacity:
                continue
            if solution[column] - paid <= LEAST_VIOLATION:
                continue
            members[k] = 1
            alone += 1
            if not is_first and rows <= most_rows:
                append_row(
                    columns,
                    rows,
                    job,
                    0,
                    1,
                    member_width,
                    members,
                    job_column,
                    server_column,
                    job_start,
                    job_servers,
                    job_losses,
                    tableau,
                    basic,
                    where,
                    row_job,
                    row_is_unit,
                    row_members,
                    buffer,
                )
                rows += 1
                members[k] = 0
        if is_first and alone > 0 and rows <= most_rows:
            append_row(
                columns,
                rows,
                job,
                0,
                1,
                member_width,
                members,
                job_column,
                server_column,
                job_start,
                job_servers,
                job_losses,
                tableau,
                basic,
                where,
                row_job,
                row_is_unit,
                row_members,
                buffer,
            )
            rows += 1
        # The other servers with x > y, by losses.
        items = 0
        total = 0
        violation = capacity * (paid - 1.0)
        for k in range(span):
            members[k] = 0
            losses = job_losses[first + k]
            column = server_column[job_servers[first + k]]
            if column < 0 or losses > capacity or solution[column] - paid <= LEAST_EXCESS:
                continue
            members[k] = 1
            total += losses
            violation += losses * (solution[column] - paid)
            back = items
            while back > 0 and job_losses[by_losses[back - 1]] > losses:
                by_losses[back] = by_losses[back - 1]
                back -= 1
            by_losses[back] = first + k
            items += 1
        if total <= capacity or rows > most_rows:
            continue
        if violation > LEAST_VIOLATION:
            append_row(
                columns,
                rows,
                job,
                capacity,
                0,
                member_width,
                members,
                job_column,
                server_column,
                job_start,
                job_servers,
                job_losses,
                tableau,
                basic,
                where,
                row_job,
                row_is_unit,
                row_members,
                buffer,
            )
            rows += 1
        smallest = job_losses[by_losses[0]]
        is_even = smallest == job_losses[by_losses[items - 1]] and capacity % smallest == 0
        if is_first or is_even or capacity + 2 > len(sums) or rows > most_rows:
            continue
        for place in range(items):
            excess[place] = solution[server_column[job_servers[by_losses[place]]]] - paid
        last, is_taken = find_cover(
            capacity, paid, items, by_losses, excess, job_losses, sums, is_taken
        )
        if last < 0:
            continue
        for k in range(span):
            members[k] = 0
        for place in range(last + 1, items):
            members[by_losses[place] - first] = 1
        size = 0
        missing = capacity + 1
        for back in range(last + 1):
            place = last - back
            if missing > 0 and is_taken[place * (capacity + 2) + missing]:
                members[by_losses[place] - first] = 1
                size += 1
                missing = max(0, missing - job_losses[by_losses[place]])
        append_row(
            columns,
            rows,
            job,
            size - 1,
            1,
            member_width,
            members,
            job_column,
            server_column,
            job_start,
            job_servers,
            job_losses,
            tableau,
            basic,
            where,
            row_job,
            row_is_unit,
            row_members,
            buffer,
        )
        rows += 1
    return rows


@kernel
def sum_prices(
    member_width: int,
    numbers: Any,
    multipliers: Any,
    job_start: Any,
    job_losses: Any,
    row_job: Any,
    row_is_unit: Any,
    row_members: Any,
    prices: Any,
) -> Any:
    """Return what the rows ask for each entry: coefficients times multipliers.

    Row 0 counts the servers, and asks nothing for a job.
    """
    for place in range(len(numbers)):
        number = numbers[place]
        if number == 0:
            continue
        job = row_job[number]
        first = job_start[job]
        for k in range(job_start[job + 1] - first):
            if row_members[number * member_width + k]:
                coefficient = 1 if row_is_unit[number] else job_losses[first + k]
                prices[first + k] += multipliers[place] * coefficient
    return prices
