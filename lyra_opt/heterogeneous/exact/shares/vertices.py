r"""What each job does at prices of GPUs and a level: the cheapest of its vertices.

A job that needs :math:`q_j v + d_j` and may run for its time m gets it at least cost
:math:`n_j \sum_k p_k x_k` at a vertex: on one type k, where
:math:`x_k = (q_j v + d_j) / a_k \le m`, or on two, k and l, where :math:`x_k + x_l = m`. See
section 7 of `formulations/heterogeneous/shares/README.md`.
"""

from __future__ import annotations

from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lyra_opt.heterogeneous.exact.shares.programme import ShareProgramme

    FloatArray = NDArray[np.float64]
    BoolArray = NDArray[np.bool_]
    IntArray = NDArray[np.int64]

SAME_RATIOS = 1e10
"""Ratios of rates that differ by less than 1 over this are the same."""
ROUNDING = 1e-12
"""Part of its time by which a share may be more than that."""


class Vertices(NamedTuple):
    """One vertex of each job, the cheapest at some prices and a level.

    Parameters
    ----------
    prices
        Of one GPU, shape (types,).
    level
        v.
    need
        Shape (jobs,): what jobs need at the level.
    first, second
        Shape (jobs,): its types; the second is negative where there is but one.
    share
        Shape (jobs,): of the first type; the second has what is left of the time.
    per_need
        Shape (jobs,): by how much the share grows with one more of the need.
    cost
        Shape (jobs,); infinite where no share is enough.
    doubt
        Shape (jobs,): the least part by which prices must change for another vertex to be cheaper,
        up or down; 1 where there is no other.
    """

    prices: FloatArray
    level: float
    need: FloatArray
    first: IntArray
    second: IntArray
    share: FloatArray
    per_need: FloatArray
    cost: FloatArray
    doubt: FloatArray


class JobVertices:
    """The jobs of a programme with one level, without pairs.

    Parameters
    ----------
    programme
        With one group of types; each job that needs something can run somewhere.
    """

    def __init__(self, programme: ShareProgramme) -> None:
        self._gang, self._level, self._need = programme.gang, programme.level, programme.need
        self.time = float(programme.limit[0])
        types = len(programme.gpus)
        # By type, then job: all that follows goes through the jobs of one type after another.
        value = np.where(programme.usable, programme.value, 0.0).T
        self.value = value = np.ascontiguousarray(value)
        self.best_value = value.max(axis=0)
        pairs = list(combinations(range(types), 2))
        self._first = np.array([*range(types), *(pair[0] for pair in pairs)])
        self._second = np.array([-1] * types + [pair[1] for pair in pairs])
        with np.errstate(divide="ignore"):
            self.per_value = 1.0 / value
        one, other = self._first[types:], self._second[types:]
        apart = value[one] - value[other]
        is_pair = (value[one] > 0) & (value[other] > 0) & (apart != 0)
        self._per_apart = np.divide(1.0, apart, out=np.full(apart.shape, np.nan), where=is_pair)

    @cached_property
    def ratio(self) -> FloatArray:
        """Shape (types, jobs): rates over that of the best type."""
        return self.value / np.where(self.best_value > 0, self.best_value, 1.0)

    @cached_property
    def order(self) -> IntArray:
        """Shape (jobs,): positions, jobs of like ratios beside one another."""
        return np.lexsort(self.ratio)

    @cached_property
    def family(self) -> IntArray:
        """Shape (jobs,): the number of those whose ratios are the same, from 0."""
        ratio = np.round(self.ratio[:, self.order] * SAME_RATIOS)
        is_new = (ratio[:, 1:] != ratio[:, :-1]).any(axis=0)
        family = np.zeros(len(self.order), dtype=np.int64)
        family[self.order[1:]] = np.cumsum(is_new)
        return family

    @cached_property
    def enough(self) -> FloatArray:
        """Shape (jobs,): what the slowest type that a job can use gives it in all its time."""
        least = np.where(self.value > 0, self.value, np.inf).min(axis=0)
        found: FloatArray = least * self.time
        return found

    @cached_property
    def highest(self) -> FloatArray:
        """Shape (jobs,): the highest level at which a job's best type gives it enough."""
        most = self.best_value * self.time - self._need
        infinite = np.full(len(most), np.inf)
        found: FloatArray = np.divide(most, self._level, out=infinite, where=self._level > 0)
        return found

    def at(self, prices: FloatArray, level: float) -> Vertices:
        """Return the cheapest vertex of each job; O(jobs types^2)."""
        types, most = len(prices), self.time * (1 + ROUNDING)
        need = self._level * level + self._need
        cost = np.empty((len(self._first), len(need)))
        with np.errstate(invalid="ignore"):
            shares = need * self.per_value
            cost[:types] = np.where(shares <= most, shares * prices[:, None], np.inf)
            for row, per_apart in enumerate(self._per_apart, start=types):
                one, other = self._first[row], self._second[row]
                share = (need - self.time * self.value[other]) * per_apart
                rest = self.time - share
                is_there = (share > 0) & (rest > 0)
                paid = share * prices[one] + rest * prices[other]
                cost[row] = np.where(is_there, paid, np.inf)
        # Who needs nothing has no doubts, but may come to need something at another level.
        vertex, jobs = cost.argmin(axis=0), np.arange(len(need))
        best = cost[vertex, jobs]
        cost[vertex, jobs] = np.inf
        runner_up = cost.min(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            doubt = (runner_up - best) / (runner_up + best)
        doubt = np.where(runner_up < np.inf, doubt, 1.0)
        is_sure = (need > 0) & (best < np.inf) & np.isfinite(doubt)
        doubt = np.where(is_sure, doubt, 0.0)
        doubt[(self._level <= 0) & (need <= 0)] = 1.0
        return self._chosen(prices, level, need, vertex, best * self._gang, doubt)

    def _chosen(
        self,
        prices: FloatArray,
        level: float,
        need: FloatArray,
        vertex: IntArray,
        cost: FloatArray,
        doubt: FloatArray,
    ) -> Vertices:
        jobs = np.arange(len(need))
        first, second = self._first[vertex], self._second[vertex]
        per_need, above = self.per_value[first, jobs], need.copy()
        two = np.flatnonzero(second >= 0)
        per_need[two] = self._per_apart[vertex[two] - len(prices), two]
        above[two] -= self.time * self.value[second[two], two]
        return Vertices(
            prices=prices,
            level=level,
            need=need,
            first=first,
            second=second,
            share=above * per_need,
            per_need=per_need,
            cost=cost,
            doubt=doubt,
        )

    def share_at(self, vertices: Vertices, level: float) -> FloatArray:
        """Return the shares of the first types at the same vertices at another level."""
        more: FloatArray = self._level * (level - vertices.level) * vertices.per_need
        return vertices.share + more

    def need_price(self, vertices: Vertices, prices: FloatArray) -> FloatArray:
        """Return what one more of the need of each job costs at a vertex at other prices."""
        price = prices[vertices.first]
        price -= np.where(vertices.second >= 0, prices[vertices.second], 0.0)
        found: FloatArray = self._gang * vertices.per_need * price
        return found
