r"""The cheapest mix of one or two GPU types (vertex) for each job at given prices and a level.

A job needs :math:`q_j v + d_j` and may run for its time m. It meets this need at the least cost
:math:`n_j \sum_k p_k x_k` at a vertex. A vertex uses one type k with
:math:`x_k = (q_j v + d_j) / a_k \le m`, or two types k and l with :math:`x_k + x_l = m`. See
section 7 of `formulations/heterogeneous/shares/README.md`.
"""

from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np

from lyra_opt.core.arrays import FloatArray, IntArray
from lyra_opt.heterogeneous.exact.shares.programme import ShareProgramme

SAME_RATIOS = 1e10
"""Rate ratios that differ by less than 1 over this count as equal."""
ROUNDING = 1e-12
"""Fraction by which a share may exceed a job's time through rounding."""


class Vertices(NamedTuple):
    """The cheapest mix of one or two GPU types (vertex) of each job at given GPU prices.

    Parameters
    ----------
    prices
        Shape (types,): price of one GPU.
    level
        The level v.
    need
        Shape (jobs,): need of each job at the level.
    first, second
        Shape (jobs,): the types of the vertex; the second is negative if there is only one.
    share
        Shape (jobs,): share of the first type; the second type has the rest of the time.
    per_need
        Shape (jobs,): growth of the share per unit of need.
    cost
        Shape (jobs,): cost of the vertex; infinite if no share meets the need.
    doubt
        Shape (jobs,): smallest relative change of prices, up or down, at which another vertex is
        cheaper; 1 if there is no other vertex.
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
    """Finds the cheapest vertex of each job, for programmes with a level and without pairs.

    Parameters
    ----------
    programme
        A programme with one group of types; each job with a need can run on some type.
    """

    def __init__(self, programme: ShareProgramme) -> None:
        self._gang, self._level, self._need = programme.gang, programme.level, programme.need
        self.time = float(programme.limit[0])
        types = len(programme.gpus)
        # Arrays have one row per GPU type, because loops run over all jobs of one type at a time.
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
        """Rate on each GPU type divided by the rate on the job's best type, shape (types, jobs)."""
        return self.value / np.where(self.best_value > 0, self.best_value, 1.0)

    @cached_property
    def order(self) -> IntArray:
        """Positions of the jobs, sorted so that similar rate ratios are adjacent; shape (jobs,)."""
        return np.lexsort(self.ratio)

    @cached_property
    def family(self) -> IntArray:
        """Index, from 0, of each job's family of jobs with equal rate ratios, shape (jobs,)."""
        ratio = np.round(self.ratio[:, self.order] * SAME_RATIOS)
        is_new = (ratio[:, 1:] != ratio[:, :-1]).any(axis=0)
        family = np.zeros(len(self.order), dtype=np.int64)
        family[self.order[1:]] = np.cumsum(is_new)
        return family

    @cached_property
    def enough(self) -> FloatArray:
        """Value of each job that spends all its time on its slowest usable type, shape (jobs,)."""
        least = np.where(self.value > 0, self.value, np.inf).min(axis=0)
        found: FloatArray = least * self.time
        return found

    @cached_property
    def highest(self) -> FloatArray:
        """Highest level at which each job's best GPU type meets its need, shape (jobs,)."""
        most = self.best_value * self.time - self._need
        infinite = np.full(len(most), np.inf)
        found: FloatArray = np.divide(most, self._level, out=infinite, where=self._level > 0)
        return found

    def at(self, prices: FloatArray, level: float) -> Vertices:
        """Return each job's cheapest vertex at given GPU prices and a level; O(jobs types^2)."""
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
        # A job whose need is 0 at every level is never in doubt.
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
        """Return each job's share of its first GPU type if it keeps its vertex at another level."""
        more: FloatArray = self._level * (level - vertices.level) * vertices.per_need
        return vertices.share + more

    def need_price(self, vertices: Vertices, prices: FloatArray) -> FloatArray:
        """Return the marginal cost of each job's need at its vertex and the given prices."""
        price = prices[vertices.first]
        price -= np.where(vertices.second >= 0, prices[vertices.second], 0.0)
        found: FloatArray = self._gang * vertices.per_need * price
        return found
