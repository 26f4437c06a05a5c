"""Programmes with jobs that are alike made one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.heterogeneous.exact.shares.job_sets import JobSets
from lyra_opt.heterogeneous.exact.shares.programme import SharePrices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lyra_opt.heterogeneous.exact.shares.programme import ShareProgramme

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]


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
