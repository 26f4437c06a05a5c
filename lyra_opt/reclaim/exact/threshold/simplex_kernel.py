"""Inner loops of a dual simplex method with bounded variables, on a dense tableau of floats.

It proves nothing: what it finds are multipliers, from which prices are made. So its tolerances
decide how good the prices are, never whether a bound holds.
"""

from __future__ import annotations

from typing import Any

from lyra_opt.core.kernels import kernel

NO_BOUND = 1e30
"""Upper bound of a variable without one."""

INFEASIBILITY = 1e-7
"""By which a basic variable must be beyond a bound to leave the basis."""

LEAST_PIVOT = 1e-9

FINISHED, NO_CHOICE, ABOVE, UNFINISHED = range(4)
"""Optimal; infeasible; the objective is above the threshold; too many pivots."""


@kernel
def pivot(
    width: int,
    rows: int,
    row: int,
    column: int,
    tableau: Any,
    norm: Any,
    nonzero: Any,
    buffer: Any,
) -> None:
    """Exchange the basic variable of `row` for that of `column`.

    `norm` are the reference weights of devex pricing (Harris 1973). The row is copied to `buffer`
    for that lets the compiler use vector instructions. Time O(rows * nonzeros of the row).
    """
    base = row * width
    inverse = 1.0 / tableau[base + column]
    own = norm[row] * inverse * inverse
    tableau[base + column] = 1.0
    count = 0
    for c in range(width):
        value = tableau[base + c] * inverse
        if abs(value) > 1e-12:
            nonzero[count] = c
            count += 1
        else:
            value = 0.0
        tableau[base + c] = value
        buffer[c] = value
    norm[row] = max(1.0, own)
    for other in range(rows):
        start = other * width
        factor = tableau[start + column]
        if other == row or factor == 0.0:
            continue
        norm[other] = max(norm[other], factor * factor * own)
        tableau[start + column] = 0.0
        if count * 3 > width:
            for c in range(width):
                tableau[start + c] -= factor * buffer[c]
        else:
            for k in range(count):
                tableau[start + nonzero[k]] -= factor * buffer[nonzero[k]]


@kernel
def climb(
    most_pivots: int,
    columns: int,
    rows: int,
    threshold: Any,
    tableau: Any,
    lower: Any,
    upper: Any,
    nonbasic: Any,
    is_upper: Any,
    basic: Any,
    basic_value: Any,
    norm: Any,
    is_candidate: Any,
    nonzero: Any,
    buffer: Any,
) -> Any:
    """Raise the dual objective from any basis until it is optimal or above the threshold.

    Nonbasic variables stand at that bound which their reduced cost asks for, so each basis is
    dual feasible for all bounds: after a change of bounds the method goes on from where it was.
    Leaving: the variable that is furthest out, by devex weights. Entering: the ratio test that
    lets variables go to their other bound as long as that is not enough.

    Parameters
    ----------
    columns, rows
        Of the tableau, without its last column, with row 0. Row 0 holds the reduced costs and,
        in the last column, minus the objective; row i says that its basic variable is the last
        column less the sum of the other entries times their variables.
    threshold
        Shape (1,).
    lower, upper
        Bounds of all variables: columns at the beginning, then the slack of each row.
    nonbasic, basic
        Shape (columns,) and (rows,): the variables.
    is_upper
        Shape (columns,): whether the nonbasic variable stands at its upper bound.

    Returns
    -------
    tuple
        ``(FINISHED, NO_CHOICE, ABOVE or UNFINISHED; pivots; row that proves NO_CHOICE; whether
        its variable is below its lower bound)``.
    """
    width = columns + 1
    for c in range(columns):
        variable = nonbasic[c]
        if upper[variable] >= NO_BOUND or tableau[c] > 0.0:
            is_upper[c] = 0
        elif tableau[c] < 0.0:
            is_upper[c] = 1
        buffer[c] = upper[variable] if is_upper[c] else lower[variable]
    for row in range(rows):
        value = tableau[row * width + columns]
        for c in range(columns):
            value -= tableau[row * width + c] * buffer[c]
        basic_value[row] = value
        norm[row] = 1.0
    pivots = 0
    while pivots < most_pivots:
        if -basic_value[0] > threshold[0]:
            return ABOVE, pivots, 0, False
        leaving = -1
        distance = 0.0
        score = 0.0
        is_below = False
        for row in range(1, rows):
            below = lower[basic[row]] - basic_value[row]
            above = basic_value[row] - upper[basic[row]]
            out = max(below, above)
            if out > INFEASIBILITY and out * out > score * norm[row]:
                score = out * out / norm[row]
                leaving = row
                distance = out
                is_below = below > above
        if leaving < 0:
            return FINISHED, pivots, 0, False
        base = leaving * width
        for c in range(columns):
            variable = nonbasic[c]
            toward = tableau[base + c] if is_below else -tableau[base + c]
            if is_upper[c]:
                toward = -toward
            is_candidate[c] = (
                1 if toward < -LEAST_PIVOT and upper[variable] > lower[variable] else 0
            )
        entering = -1
        while True:
            least = NO_BOUND
            for c in range(columns):
                if is_candidate[c]:
                    # A little more than the ratio, so that larger pivots count as equal.
                    least = min(least, (abs(tableau[c]) + 1e-10) / abs(tableau[base + c]))
            entering = -1
            size = 0.0
            for c in range(columns):
                if is_candidate[c]:
                    entry = abs(tableau[base + c])
                    if entry > size and abs(tableau[c]) <= least * entry:
                        size = entry
                        entering = c
            if entering < 0:
                return NO_CHOICE, pivots, leaving, is_below
            variable = nonbasic[entering]
            reach = upper[variable] - lower[variable]
            if upper[variable] >= NO_BOUND or size * reach >= distance - LEAST_PIVOT:
                break
            distance -= size * reach
            move = -reach if is_upper[entering] else reach
            is_upper[entering] = 1 - is_upper[entering]
            is_candidate[entering] = 0
            for row in range(rows):
                basic_value[row] -= tableau[row * width + entering] * move
        left = basic[leaving]
        bound = lower[left] if is_below else upper[left]
        variable = nonbasic[entering]
        move = (basic_value[leaving] - bound) / tableau[base + entering]
        start = upper[variable] if is_upper[entering] else lower[variable]
        for row in range(rows):
            basic_value[row] -= tableau[row * width + entering] * move
        basic_value[leaving] = start + move
        pivot(width, rows, leaving, entering, tableau, norm, nonzero, buffer)
        basic[leaving] = variable
        nonbasic[entering] = left
        is_upper[entering] = 0 if is_below else 1
        pivots += 1
    return UNFINISHED, pivots, 0, False
