r"""The linear programmes over shares of time, and bounds that any prices prove.

All objectives of shares become programmes of one form, over the shares :math:`x_{sk} \ge 0` of a
set s of jobs on type k and, where there is one, a level v. A set is a job alone, or two that run on
the same GPUs (`lyra_opt.heterogeneous.packing`):

.. math::
    \max\ \sum_{sk} g_{sk} x_{sk} + [v] \quad\text{s.t.}\quad
    \sum_{s \ni j} \sum_{k \in K_i} x_{sk} \le m_i,\quad \sum_s n_s x_{sk} \le C_k,\quad
    \sum_{s \ni j} \sum_k a_{jsk} x_{sk} \ge q_j v + d_j .

For shares of time there is one group :math:`K_1` of all types and :math:`m_1 = 1`; where copies of
a job run at once, a group for each kind of server.

For *any* prices y of the last rows, p of the GPUs and z of the first rows, at least 0, of which
:math:`\sum_{j \in s} z_{ji} \ge \max_{k \in K_i} (w_{sk} - n_s p_k)` for all sets,

.. math::
    \sum_{sk} w_{sk} x_{sk} \le \sum_{ji} m_i z_{ji} + \sum_k C_k p_k , \qquad
    w_{sk} = g_{sk} + \sum_{j \in s} y_j a_{jsk} ,

so that what a solver says of its own optimality need not be believed. See
`formulations/heterogeneous/shares/README.md`, where the proofs are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.fixed_order import product
from lyra_opt.heterogeneous.share_checker import SHARE_TOLERANCE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lyra_opt.heterogeneous.exact.shares.job_sets import JobSets

    FloatArray = NDArray[np.float64]
    BoolArray = NDArray[np.bool_]
    IntArray = NDArray[np.int64]

TOLERANCE = float(SHARE_TOLERANCE)
"""By how much the checker lets a rule be broken; bounds hold for all that it accepts."""
SMALLEST_SHARE = 1e-13
"""What engines leave of a share that is 0."""
DATA_ROUNDING = 1e-14
"""Relative error of the coefficients, each the result of a few operations on doubles."""
MOST_EVEN = 1e-5
"""The largest part of even shares that repairs shares; more would cost more than the proof gap."""


@dataclass(frozen=True, slots=True)
class SharePrices:
    """Multipliers of a programme, in its own units; any values of at least 0 prove a bound.

    Parameters
    ----------
    need
        Shape (jobs,).
    gpus
        Shape (types,): of one GPU.
    time
        Shape (jobs, groups): of a job's time; None for what the others make of it. Only what it
        says of jobs that are in pairs matters.
    """

    need: FloatArray
    gpus: FloatArray
    time: FloatArray | None = None

    def cleaned(self) -> SharePrices:
        """Return the same with what is negative or no number set to 0."""

        def clean(values: FloatArray) -> FloatArray:
            return np.where(np.isfinite(values), np.maximum(values, 0.0), 0.0)

        return SharePrices(
            clean(self.need), clean(self.gpus), None if self.time is None else clean(self.time)
        )

    def times(self, factor: float) -> SharePrices:
        """Return all prices times a factor."""
        time = None if self.time is None else self.time * factor
        return SharePrices(self.need * factor, self.gpus * factor, time)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareProgramme:
    """The numbers of a programme; symbols as above.

    Parameters
    ----------
    sets
        Who runs together; its first sets are the jobs alone.
    usable
        Shape (sets, types): where x may be above 0.
    gain
        g, shape (sets, types); 0 where there is a level.
    value
        a, shape (members, types).
    level
        q, shape (jobs,): above 0 where there is a level, else 0.
    need
        d, shape (jobs,).
    has_need
        Shape (jobs,): which jobs have the last row at all.
    gang
        n, shape (sets,).
    gpus
        C, shape (types,), above 0 (a type without GPUs is usable to nobody: there it is 1).
    has_level
        Whether v is a variable, which is then all that is maximised.
    group
        Shape (types,): which group a type belongs to, from 0; one at least.
    limit
        m, shape (groups,), above 0.
    kind
        Shape (jobs,): jobs of the same number from 0 are the same beside others; negative for
        those that are in no pair.
    """

    sets: JobSets
    usable: BoolArray
    gain: FloatArray
    value: FloatArray
    level: FloatArray
    need: FloatArray
    has_need: BoolArray
    gang: FloatArray
    gpus: FloatArray
    has_level: bool
    group: IntArray
    limit: FloatArray
    kind: IntArray

    @property
    def in_group(self) -> FloatArray:
        """Shape (types, groups): 1 where a type belongs to a group, else 0."""
        found: FloatArray = (self.group[:, None] == np.arange(len(self.limit))[None, :]) * 1.0
        return found

    def got(self, shares: FloatArray) -> FloatArray:
        """Return what jobs have of what they need, shape (jobs,); O(members types)."""
        worth = np.where(self.usable[self.sets.of_set], self.value, 0.0) * shares[self.sets.of_set]
        return self.sets.of_job(worth.sum(axis=1))

    def most(self, prices: SharePrices, *, tolerance: float = TOLERANCE) -> float:
        """Return an upper bound on sum_sk w_sk x_sk over all shares that the checker accepts.

        Parameters
        ----------
        prices
            Clean ones.
        tolerance
            By how much rules may be broken.
        """
        sets = self.sets
        need_price = np.where(self.has_need, prices.need, 0.0)
        worth = self.gain + sets.of_sets(need_price[sets.job][:, None] * self.value)
        worth = np.where(self.usable, worth, 0.0)
        paid = np.where(self.usable, self.gang[:, None] * prices.gpus[None, :], 0.0)
        left = np.where(self.usable, worth - paid, 0.0)
        most = math.fsum(self.gpus * prices.gpus)
        # Differences lose digits: what they are made of is what the rounding is relative to.
        size = float(product(self.gpus, prices.gpus))
        of_set = sets.of_sets(sets.part)
        for group, limit in enumerate(self.limit.tolist()):
            inside = self.group == group
            given = np.zeros(sets.jobs)
            if prices.time is not None:
                given[sets.is_paired] = prices.time[sets.is_paired, group]
            # Where the members of a set pay less than it is worth, all of them pay more.
            short = left[:, inside].max(axis=1) - sets.of_sets(sets.part * given[sets.job])
            more = np.maximum(short, 0.0) / of_set
            paying = given + sets.most_of_job(more[sets.of_set])
            most += limit * math.fsum(paying)
            stakes = (np.abs(worth) + paid)[:, inside].max(axis=1)
            size += limit * float((sets.most_of_job(stakes[sets.of_set]) + given).sum())
        return (most + DATA_ROUNDING * size) * (1 + tolerance)

    def dual_bound(self, prices: SharePrices, *, tolerance: float = TOLERANCE) -> float:
        """Return what no valid shares exceed; infinite where these prices prove nothing."""
        prices = prices.cleaned()
        most = self.most(prices, tolerance=tolerance)
        needed = prices.need[self.has_need] * self.need[self.has_need]
        # A need may be missed by the checker's tolerance too.
        most -= math.fsum(needed) - tolerance * math.fsum(np.abs(needed))
        if not self.has_level:
            return most
        priced = math.fsum(np.where(self.has_need, prices.need, 0.0) * self.level)
        return most / priced if priced > 0 else math.inf

    def repaired(self, shares: FloatArray, level: float = 0.0) -> FloatArray:
        """Return nearly feasible shares as feasible ones.

        Each row of jobs, then of types, is cut; what a job needs may be missed then by about as
        much as the rows were exceeded. Engines also lose needs that are small beside what a job
        could have, by coefficients and tolerances of 1e-9: where a job misses more than 1e-6 of its
        need, all get a part of `even_shares`, at which none loses more than that part.

        Parameters
        ----------
        shares
            Shape (sets, types).
        level
            v, as the engine has it.
        """
        sets = self.sets
        is_there = self.usable & np.isfinite(shares) & (shares > SMALLEST_SHARE)
        kept = np.where(is_there, shares, 0.0)
        held = sets.of_job(sets.part[:, None] * product(kept, self.in_group)[sets.of_set])
        over = np.maximum(1.0, held / self.limit)
        kept /= sets.most_of_sets(over[sets.job])[:, self.group]
        kept /= np.maximum(1.0, product(self.gang, kept) / self.gpus)[None, :]
        if not self.has_need.any():
            return kept
        even = self.even_shares()
        got, spare = self.got(kept), self.got(even)
        due = self.need + (self.level * level if self.has_level else 0.0)
        late = self.has_need & (got < due * (1.0 - TOLERANCE)) & (due < spare)
        parts = (due - got)[late] / (spare - got)[late]
        part = float(parts[parts <= MOST_EVEN].max(initial=0.0))
        return (1.0 - part) * kept + part * even

    def even_shares(self) -> FloatArray:
        """Return feasible shares: of all that a job alone can have of its best type an equal part.

        A job that alone can run nowhere gets nothing.
        """
        jobs = np.arange(self.sets.jobs)
        usable, value, gang = self.usable[jobs], self.value[jobs], self.gang[jobs]
        most = np.minimum(self.limit[self.group], self.gpus / gang[:, None])
        best = np.where(usable, value * most, 0.0).argmax(axis=1)
        even = np.zeros_like(self.gain)
        even[jobs, best] = np.where(usable, most, 0.0)[jobs, best] / len(jobs)
        return even

    def needs_met(self, shares: FloatArray) -> float:
        """Return the least part of its need that a job gets; 1 where nobody needs anything."""
        asked = self.has_need & (self.need > 0)
        if not asked.any():
            return 1.0
        return float((self.got(shares)[asked] / self.need[asked]).min())
