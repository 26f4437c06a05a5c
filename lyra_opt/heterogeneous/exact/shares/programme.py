r"""The linear programmes over shares of time, and bounds that any prices prove.

All objectives of shares become programmes of one form, over the shares :math:`x_{sk} \ge 0` of a
set s of jobs on type k and, where there is one, a level v. A set is a job alone, or two that run on
the same GPUs (`lyra_opt.heterogeneous.instance`):

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
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.arithmetic import product
from lyra_opt.heterogeneous.share_checker import SHARE_TOLERANCE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]
    BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class JobSets:
    """Sets of jobs, as a list of their members.

    The first sets are the jobs alone, in order, and so are the first members; then come pairs, of
    two members each. A set of one is not told apart from others anywhere.

    Parameters
    ----------
    jobs
        How many there are.
    job, of_set
        Shape (members,): who it is, in which set.
    part
        Shape (members,): how much of the job's time a share of the set is; 1, but where jobs alike
        are made one.
    """

    jobs: int
    job: IntArray
    of_set: IntArray
    part: FloatArray

    @classmethod
    def of(cls, jobs: int, pairs: IntArray | None = None) -> JobSets:
        """Return the jobs alone, and pairs of them.

        Parameters
        ----------
        pairs
            Shape (pairs, 2); None for none.
        """
        alone = np.arange(jobs)
        pairs = np.zeros((0, 2), dtype=np.int64) if pairs is None else pairs
        sets = jobs + np.repeat(np.arange(len(pairs)), 2)
        job = np.concatenate([alone, pairs.reshape(-1)])
        return cls(jobs, job, np.concatenate([alone, sets]), np.ones(len(job)))

    def __len__(self) -> int:
        """How many sets there are."""
        return self.jobs + (len(self.job) - self.jobs) // 2

    @cached_property
    def pairs(self) -> IntArray:
        """Shape (pairs, 2): the jobs of each."""
        return self.job[self.jobs :].reshape(-1, 2)

    @cached_property
    def is_paired(self) -> NDArray[np.bool_]:
        """Shape (jobs,): who is in a pair."""
        return np.bincount(self.job[self.jobs :], minlength=self.jobs) > 0

    def of_job(self, values: FloatArray) -> FloatArray:
        """Return the sum over the members that each job is; values (members, ...)."""
        found = values[: self.jobs].copy()
        np.add.at(found, self.job[self.jobs :], values[self.jobs :])
        return found

    def most_of_job(self, values: FloatArray) -> FloatArray:
        """Return the greatest over the members that each job is; values (members, ...)."""
        found = values[: self.jobs].copy()
        np.maximum.at(found, self.job[self.jobs :], values[self.jobs :])
        return found

    def of_sets(self, values: FloatArray) -> FloatArray:
        """Return the sum over the members of each set; values (members, ...)."""
        pairs = values[self.jobs :]
        return np.concatenate([values[: self.jobs], pairs[::2] + pairs[1::2]])

    def most_of_sets(self, values: FloatArray) -> FloatArray:
        """Return the greatest over the members of each set; values (members, ...)."""
        pairs = values[self.jobs :]
        return np.concatenate([values[: self.jobs], np.maximum(pairs[::2], pairs[1::2])])


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


HASHING = np.uint64(0x9E3779B97F4A7C15)
"""2**64 over the golden ratio, of which multiples and powers spread well (Knuth)."""


@dataclass(frozen=True, slots=True)
class Merged:
    """A programme in which one job stands for some that differ in nothing.

    Its x is that of each of them, its gang is that of all together. A pair stands for all pairs of
    the jobs that its two stand for. The optimum stays: the mean of the x of jobs alike is as good.

    Parameters
    ----------
    programme
        The merged one.
    job
        Shape (jobs,): who stands for each.
    alike
        Shape (merged jobs,): for how many.
    of_set
        Shape (sets,): which set stands for each.
    share
        Shape (merged sets,): the share of each that it stands for, where its own is 1.
    """

    programme: ShareProgramme
    job: IntArray
    alike: FloatArray
    of_set: IntArray
    share: FloatArray

    def shares(self, shares: FloatArray) -> FloatArray:
        """Return shares of the merged programme as shares of the whole one."""
        whole: FloatArray = (shares * self.share[:, None])[self.of_set]
        return whole

    def prices(self, prices: SharePrices) -> SharePrices:
        """Return prices of the merged programme as prices of the whole one."""
        time = None if prices.time is None else (prices.time / self.alike[:, None])[self.job]
        return SharePrices((prices.need / self.alike)[self.job], prices.gpus, time)


def merged(programme: ShareProgramme) -> Merged:
    """Return the programme with jobs alike made one; O(members types log members)."""
    sets = programme.sets
    alone = np.arange(sets.jobs)
    rows = np.column_stack(
        [
            *(programme.usable[alone], programme.gain[alone], programme.value[alone]),
            *(programme.level, programme.need, programme.has_need),
            *(programme.gang[alone], programme.kind),
        ]
    )
    first, job, alike = rows_alike(rows)
    jobs = len(first)
    ends = np.sort(job[sets.pairs], axis=1)
    codes, first_pair, pair, pairs = [np.zeros(0, dtype=np.int64)] * 4
    if len(ends):  # else it takes as long as all else where jobs are few
        codes, first_pair, pair, pairs = np.unique(
            ends[:, 0] * jobs + ends[:, 1],
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
    couples = np.column_stack([codes // jobs, codes % jobs])
    is_turned = job[sets.pairs[first_pair, 0]] != couples[:, 0]
    members = sets.jobs + 2 * first_pair[:, None] + np.array([0, 1])
    members = np.where(is_turned[:, None], members[:, ::-1], members).reshape(-1)
    # So that shares of a pair are about 1 at most: one of it is all the time of the fewer jobs.
    size = alike[couples].min(axis=1) / np.where(couples[:, 0] == couples[:, 1], 2, 1)
    whole = np.concatenate([alike, size])
    kept = np.concatenate([first, sets.jobs + first_pair])
    part = np.concatenate([np.ones(jobs), (size[:, None] / alike[couples]).reshape(-1)])
    value = programme.value[np.concatenate([first, members])] * part[:, None]
    small = replace(
        programme,
        sets=replace(JobSets.of(jobs, couples), part=part),
        usable=programme.usable[kept],
        gain=programme.gain[kept] * whole[:, None],
        value=value,
        level=programme.level[first],
        need=programme.need[first],
        has_need=programme.has_need[first],
        gang=programme.gang[kept] * whole,
        kind=programme.kind[first],
    )
    of_set = np.concatenate([job, jobs + pair.reshape(-1)])
    return Merged(small, job, alike, of_set, np.concatenate([np.ones(jobs), size / pairs]))


def rows_alike(rows: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the first row of each kind, kinds in order, the kind of each row, and how many it has.

    Rows are sorted by a hash, so that equal ones come together; then kinds by the columns in which
    they differ, which are few. O(rows (columns + log rows)).
    """
    rows = rows + 0.0  # where -0 is 0
    bits = np.ascontiguousarray(rows).view(np.uint64)
    # Doubles of few digits differ in their high bits alone, and products carry upwards.
    folded = (bits ^ (bits >> np.uint64(32))) * (
        HASHING ** np.arange(1, 1 + rows.shape[1], dtype=np.uint64)
    )
    order = np.argsort(folded.sum(axis=1), kind="stable")
    ordered = rows[order]
    is_first = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))
    firsts = order[is_first]
    kinds = rows[firsts]
    differ = kinds[:, (kinds != kinds[0]).any(axis=0)]
    ranked = np.lexsort(differ.T[::-1]) if differ.size else np.zeros(1, dtype=np.int64)
    rank = np.empty(len(ranked), dtype=np.int64)
    rank[ranked] = np.arange(len(ranked))
    kind = np.empty(len(rows), dtype=np.int64)
    kind[order] = rank[np.cumsum(is_first) - 1]
    return firsts[ranked], kind, np.bincount(kind).astype(np.float64)
