"""The best loans for one who knows the demand: the yardstick of every forecast.

Given how many servers can be lent in each interval, c_t, the loans L_t in {0, ..., c_t} that
maximise

    interval * sum_t L_t  -  return cost * sum_t max(0, L_t - L_{t+1}),

in server-seconds. Servers still on loan after the last interval have not been returned and cost
nothing.

*The problem falls apart by level.* With x_kt = 1 where L_t >= k, L_t is the sum over k of x_kt,
and max(0, L_t - L_{t+1}) that of max(0, x_kt - x_{k,t+1}), as the x_kt fall with k. So the optimum
is at most the sum of the optima of the levels k = 1, 2, ..., where level k may be lent while
c_t >= k.

*A level is lent for a whole run or not at all.* Within a maximal run of intervals with c_t >= k,
two loans joined into one, or one extended to the ends of the run, last longer and are returned
no more often. The whole run is worth its length less one return, or its length alone if it
reaches the last interval. It is lent where that is above 0.

*The levels fit together.* A run of level k + 1 lies within one of level k, which is at least as
long, and reaches the last interval if the other does. Hence where level k + 1 is lent, so is
level k, the levels make up one series of loans, and the bound is attained. It holds for
fractional loans too, by the same argument with a continuous k.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from lyra_opt.core.validation import require_integer, require_number

if TYPE_CHECKING:
    from collections.abc import Sequence


def clairvoyant_loans(
    lendable: Sequence[int], *, interval_s: float, return_cost_s: float
) -> list[int]:
    """Return loans of the greatest value; where a run is worth 0 it is not lent.

    Parameters
    ----------
    lendable
        Servers that can be lent in each interval, at least 0.
    interval_s
        Length of an interval, above 0.
    return_cost_s
        Server-seconds that a returned server costs, at least 0: work lost to the preemption that
        it may cause, and overhead (Lyra's simulator counts 63 s a preemption).

    Raises
    ------
    FieldError
        If an argument breaks its rule.

    Notes
    -----
    Source: this project; for the proof see the module. Complexity O(intervals): the runs of all
    levels are the rectangles of a histogram, found with a stack.
    """
    for position, limit in enumerate(lendable):
        require_integer(f"lendable[{position}]", limit, minimum=0)
    _require_costs(interval_s, return_cost_s)
    # The fewest intervals that are worth more than a return, whatever the rounding of the quotient.
    shortest = math.floor(Fraction(return_cost_s) / Fraction(interval_s)) + 1
    changes = [0] * (len(lendable) + 1)
    # (first interval, level): the levels above that of the entry below began at this interval.
    runs: list[tuple[int, int]] = []
    for end, limit in enumerate(lendable):
        start = end
        while runs and runs[-1][1] > limit:
            start, level = runs.pop()
            below = max(limit, runs[-1][1] if runs else 0)
            if end - start >= shortest:
                changes[start] += level - below
                changes[end] -= level - below
        if limit > (runs[-1][1] if runs else 0):
            runs.append((start, limit))
    below = 0
    for start, level in runs:
        changes[start] += level - below
        below = level
    return list(accumulate(changes[:-1]))


def value(loans: Sequence[int], *, interval_s: float, return_cost_s: float) -> float:
    """Return what loans are worth in server-seconds; see `clairvoyant_loans`."""
    _require_costs(interval_s, return_cost_s)
    return interval_s * sum(loans) - return_cost_s * returned_servers(loans)


def returned_servers(loans: Sequence[int]) -> int:
    """Return how many servers are returned, each as often as it is."""
    return sum(max(0, before - after) for before, after in pairwise(loans))


def _require_costs(interval_s: float, return_cost_s: float) -> None:
    require_number("interval_s", interval_s, minimum=0, above=True)
    require_number("return_cost_s", return_cost_s, minimum=0)
