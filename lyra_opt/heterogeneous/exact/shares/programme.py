r"""The linear programmes over time shares, and bounds that any dual prices prove.

All share objectives become programmes of one form. The variables are the shares
:math:`x_{sk} \ge 0` of a set s of jobs on type k and, for some objectives, a level v. A set is one
job, or two jobs on the same GPUs (`lyra_opt.heterogeneous.instance`):

.. math::
    \max\ \sum_{sk} g_{sk} x_{sk} + [v] \quad\text{s.t.}\quad
    \sum_{s \ni j} \sum_{k \in K_i} x_{sk} \le m_i,\quad \sum_s n_s x_{sk} \le C_k,\quad
    \sum_{s \ni j} \sum_k a_{jsk} x_{sk} \ge q_j v + d_j .

For time shares there is one group :math:`K_1` of all types, and :math:`m_1 = 1`. If copies of a job
run at once, there is one group per kind of server.

The following bound holds for *any* prices y >= 0 of the last rows, p >= 0 of the GPUs and z >= 0 of
the first rows with :math:`\sum_{j \in s} z_{ji} \ge \max_{k \in K_i} (w_{sk} - n_s p_k)` for all
sets:

.. math::
    \sum_{sk} w_{sk} x_{sk} \le \sum_{ji} m_i z_{ji} + \sum_k C_k p_k , \qquad
    w_{sk} = g_{sk} + \sum_{j \in s} y_j a_{jsk} ,

So a solver's own claim of optimality need not be trusted. The proofs are in
`formulations/heterogeneous/shares/README.md`.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lyra_opt.core.arithmetic import product
from lyra_opt.core.arrays import BoolArray, FloatArray, IntArray
from lyra_opt.heterogeneous.share_checker import SHARE_TOLERANCE


@dataclass(frozen=True)
class JobSets:
    """All single jobs and the pairs of jobs that may share GPUs, stored as a list of members.

    The first sets, and the first members, are the single jobs in order. Pairs follow, with two
    members each. All code treats single jobs and pairs alike.

    Parameters
    ----------
    jobs
        Number of jobs.
    job, of_set
        Shape (members,): the job and the set of each member.
    part
        Shape (members,): the fraction of the job's time that a full share of the set takes; 1,
        except where identical jobs are merged.
    """

    jobs: int
    job: IntArray
    of_set: IntArray
    part: FloatArray

    @classmethod
    def of(cls, jobs: int, pairs: IntArray | None = None) -> "JobSets":
        """Return the sets of single jobs and of the given pairs.

        Parameters
        ----------
        pairs
            Shape (pairs, 2): positions of the jobs; None for no pairs.
        """
        alone = np.arange(jobs)
        pairs = np.zeros((0, 2), dtype=np.int64) if pairs is None else pairs
        sets = jobs + np.repeat(np.arange(len(pairs)), 2)
        job = np.concatenate([alone, pairs.reshape(-1)])
        return cls(jobs, job, np.concatenate([alone, sets]), np.ones(len(job)))

    def __len__(self) -> int:
        """Return the number of sets."""
        return self.jobs + (len(self.job) - self.jobs) // 2

    @cached_property
    def pairs(self) -> IntArray:
        """Positions of the two jobs of each pair, shape (pairs, 2)."""
        return self.job[self.jobs :].reshape(-1, 2)

    @cached_property
    def is_paired(self) -> NDArray[np.bool_]:
        """Whether each job is in a pair that may share GPUs, shape (jobs,)."""
        return np.bincount(self.job[self.jobs :], minlength=self.jobs) > 0

    def of_job(self, values: FloatArray) -> FloatArray:
        """Return the sum of each job's values over all sets that contain it.

        `values` has shape (members, ...).
        """
        found = values[: self.jobs].copy()
        np.add.at(found, self.job[self.jobs :], values[self.jobs :])
        return found

    def most_of_job(self, values: FloatArray) -> FloatArray:
        """Return each job's largest value over all sets that contain it.

        `values` has shape (members, ...).
        """
        found = values[: self.jobs].copy()
        np.maximum.at(found, self.job[self.jobs :], values[self.jobs :])
        return found

    def of_sets(self, values: FloatArray) -> FloatArray:
        """Return the sum of the values of the one or two jobs in each set.

        `values` has shape (members, ...).
        """
        pairs = values[self.jobs :]
        return np.concatenate([values[: self.jobs], pairs[::2] + pairs[1::2]])

    def most_of_sets(self, values: FloatArray) -> FloatArray:
        """Return the largest value of the one or two jobs in each set.

        `values` has shape (members, ...).
        """
        pairs = values[self.jobs :]
        return np.concatenate([values[: self.jobs], np.maximum(pairs[::2], pairs[1::2])])


TOLERANCE = float(SHARE_TOLERANCE)
"""Tolerance of the checker; bounds hold for all shares that it accepts."""
SMALLEST_SHARE = 1e-13
"""Smaller shares are rounding errors of an engine and count as 0."""
DATA_ROUNDING = 1e-14
"""Relative error of the coefficients, each the result of a few float operations."""
MOST_EVEN = 1e-5
"""Largest weight of even shares in a repair; a larger one would cost more than the proof gap."""


@dataclass(frozen=True, slots=True)
class SharePrices:
    """Dual prices of a share programme's rows: needs of jobs, GPUs, and time of jobs.

    Any nonnegative prices prove a bound.

    Parameters
    ----------
    need
        Shape (jobs,): price of each job's need.
    gpus
        Shape (types,): price of one GPU.
    time
        Shape (jobs, groups): price of a job's time; None if it is to be derived from the other
        prices. Only values of jobs in pairs matter.
    """

    need: FloatArray
    gpus: FloatArray
    time: FloatArray | None = None

    def cleaned(self) -> "SharePrices":
        """Return a copy in which negative and non-finite prices are 0."""

        def clean(values: FloatArray) -> FloatArray:
            return np.where(np.isfinite(values), np.maximum(values, 0.0), 0.0)

        return SharePrices(
            clean(self.need), clean(self.gpus), None if self.time is None else clean(self.time)
        )

    def times(self, factor: float) -> "SharePrices":
        """Return all prices multiplied by a factor."""
        time = None if self.time is None else self.time * factor
        return SharePrices(self.need * factor, self.gpus * factor, time)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareProgramme:
    """A linear programme over time shares, given by its coefficients.

    The symbols are those of the module's docstring.

    Parameters
    ----------
    sets
        The sets of jobs; the single jobs come first.
    usable
        Shape (sets, types): where x may be above 0.
    gain
        g, shape (sets, types); 0 if there is a level.
    value
        a, shape (members, types).
    level
        q, shape (jobs,): above 0 if there is a level, else 0.
    need
        d, shape (jobs,).
    has_need
        Shape (jobs,): whether the job has a need row (the last kind of row).
    gang
        n, shape (sets,).
    gpus
        C, shape (types,), above 0. A type without GPUs is not usable; its entry is 1.
    has_level
        Whether v is a variable; if it is, v alone is maximised.
    group
        Shape (types,): the group of each type, from 0; at least one group.
    limit
        m, shape (groups,), above 0.
    kind
        Shape (jobs,): jobs with the same index have the same rates beside other jobs; negative for
        jobs that are in no pair.
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
        """Shape (types, groups): 1 if the type belongs to the group, else 0."""
        found: FloatArray = (self.group[:, None] == np.arange(len(self.limit))[None, :]) * 1.0
        return found

    def got(self, shares: FloatArray) -> FloatArray:
        """Return the value that each job gets from its shares, shape (jobs,); O(members types).

        This is the sum of ``a_jsk x_sk`` in the row of the job's need.
        """
        worth = np.where(self.usable[self.sets.of_set], self.value, 0.0) * shares[self.sets.of_set]
        return self.sets.of_job(worth.sum(axis=1))

    def most(self, prices: SharePrices, *, tolerance: float = TOLERANCE) -> float:
        """Return an upper bound on the priced value of all shares that the checker accepts.

        The priced value is ``sum_sk w_sk x_sk``.

        Parameters
        ----------
        prices
            Nonnegative, finite prices.
        tolerance
            Relative tolerance of the rules.
        """
        sets = self.sets
        need_price = np.where(self.has_need, prices.need, 0.0)
        worth = self.gain + sets.of_sets(need_price[sets.job][:, None] * self.value)
        worth = np.where(self.usable, worth, 0.0)
        paid = np.where(self.usable, self.gang[:, None] * prices.gpus[None, :], 0.0)
        left = np.where(self.usable, worth - paid, 0.0)
        most = math.fsum(self.gpus * prices.gpus)
        # A difference of floats loses digits, so its rounding error is relative to the operands.
        size = float(product(self.gpus, prices.gpus))
        of_set = sets.of_sets(sets.part)
        for group, limit in enumerate(self.limit.tolist()):
            inside = self.group == group
            given = np.zeros(sets.jobs)
            if prices.time is not None:
                given[sets.is_paired] = prices.time[sets.is_paired, group]
            # The time prices of the jobs of a set must add up to at least the worth of the set
            # less the price of its GPUs. If they do not, the bound raises them.
            short = left[:, inside].max(axis=1) - sets.of_sets(sets.part * given[sets.job])
            more = np.maximum(short, 0.0) / of_set
            paying = given + sets.most_of_job(more[sets.of_set])
            most += limit * math.fsum(paying)
            stakes = (np.abs(worth) + paid)[:, inside].max(axis=1)
            size += limit * float((sets.most_of_job(stakes[sets.of_set]) + given).sum())
        return (most + DATA_ROUNDING * size) * (1 + tolerance)

    def dual_bound(self, prices: SharePrices, *, tolerance: float = TOLERANCE) -> float:
        """Return an upper bound on the objective; infinite if the prices prove nothing."""
        prices = prices.cleaned()
        most = self.most(prices, tolerance=tolerance)
        needed = prices.need[self.has_need] * self.need[self.has_need]
        # The bound allows shares to fall short of a need by the checker's tolerance.
        most -= math.fsum(needed) - tolerance * math.fsum(np.abs(needed))
        if not self.has_level:
            return most
        priced = math.fsum(np.where(self.has_need, prices.need, 0.0) * self.level)
        return most / priced if priced > 0 else math.inf

    def repaired(self, shares: FloatArray, level: float = 0.0) -> FloatArray:
        """Return feasible time shares near the almost feasible shares of an LP engine.

        Rows of jobs, then of types, are scaled down; a job may then miss its need by about the
        earlier excess. Engines also lose needs that are small beside a job's possible value,
        through coefficients and tolerances of 1e-9. If a job misses more than 1e-6 of its need, a
        fraction of `even_shares` is mixed into all shares; no job loses more than that fraction.

        Parameters
        ----------
        shares
            Shares from an engine, shape (sets, types).
        level
            The level v reported by the engine.
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
        """Return feasible shares that give each of n jobs 1/n of its best type, without packing.

        A job that cannot run on any type alone gets nothing.
        """
        jobs = np.arange(self.sets.jobs)
        usable, value, gang = self.usable[jobs], self.value[jobs], self.gang[jobs]
        most = np.minimum(self.limit[self.group], self.gpus / gang[:, None])
        best = np.where(usable, value * most, 0.0).argmax(axis=1)
        even = np.zeros_like(self.gain)
        even[jobs, best] = np.where(usable, most, 0.0)[jobs, best] / len(jobs)
        return even

    def needs_met(self, shares: FloatArray) -> float:
        """Return the least fraction of its required rate that a job gets, 1 if no job has one."""
        asked = self.has_need & (self.need > 0)
        if not asked.any():
            return 1.0
        return float((self.got(shares)[asked] / self.need[asked]).min())


HASHING = np.uint64(0x9E3779B97F4A7C15)
"""Multiplier 2**64 over the golden ratio; its multiples and powers spread well (Knuth)."""


@dataclass(frozen=True, slots=True)
class Merged:
    """A share programme in which one merged job represents each group of identical jobs.

    The x of the merged job is the x of each of its jobs; its gang is their total gang. A merged
    pair stands for all pairs between two groups. The optimum does not change: averaging the x of
    identical jobs loses nothing.

    Parameters
    ----------
    programme
        The merged programme.
    job
        Shape (jobs,): the merged job of each job.
    alike
        Shape (merged jobs,): number of jobs that each merged job stands for.
    of_set
        Shape (sets,): the merged set of each set.
    share
        Shape (merged sets,): the share of each original set if the merged set has share 1.
    """

    programme: ShareProgramme
    job: IntArray
    alike: FloatArray
    of_set: IntArray
    share: FloatArray

    def shares(self, shares: FloatArray) -> FloatArray:
        """Convert shares of the merged programme to shares of the original one."""
        whole: FloatArray = (shares * self.share[:, None])[self.of_set]
        return whole

    def prices(self, prices: SharePrices) -> SharePrices:
        """Convert prices of the merged programme to prices of the original one."""
        time = None if prices.time is None else (prices.time / self.alike[:, None])[self.job]
        return SharePrices((prices.need / self.alike)[self.job], prices.gpus, time)


def merged(programme: ShareProgramme) -> Merged:
    """Return the programme with identical jobs merged; O(members types log members)."""
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
    if len(ends):  # with few jobs and no pairs, this alone would double the time
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
    # For a merged pair, a share of 1 is the full time of the smaller of its two groups of jobs.
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
    """Group equal rows; return each group's first row, each row's group, and the group sizes.

    Groups are in sorted order. Rows are sorted by a hash so that equal rows are adjacent. Groups
    are then sorted by the few columns in which they differ. O(rows (columns + log rows)).
    """
    rows = rows + 0.0  # turns -0.0 into 0.0
    bits = np.ascontiguousarray(rows).view(np.uint64)
    # High bits are folded into low bits, because multiplication carries bits upwards only.
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
