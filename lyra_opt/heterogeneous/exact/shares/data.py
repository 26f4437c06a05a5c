"""The scaled model of a share programme, written once for all backends.

The variables are ``x_sk >= 0``, the share of set s on type k, and last the free level ``v``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from lyra_opt.core.arrays import FloatArray, IntArray
from lyra_opt.heterogeneous.exact.shares.programme import SharePrices, ShareProgramme


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareData:
    """Scaled coefficients of a share programme, one column per set of jobs and usable type.

    Values are scaled to about 1. Rows ``needed_rate`` are divided by their largest coefficient,
    rows ``gpus_of_type`` by the GPUs of the type, and objective and level by their largest
    coefficient.

    Parameters
    ----------
    programme
        The programme that the data belong to.
    set_, kind
        Shape (columns,): set and type of each column, sorted by set, then by type.
    gain, use
        Shape (columns,): coefficients in the objective and in the row of the column's type.
    job, column, part, value
        Shape (entries,): a job of a column's set, and the column's coefficients in the job's time
        row and need row; sorted by job, then by column, without duplicates.
    needy
        Positions of the jobs with a need.
    level, need
        Shape (needy jobs,): scaled coefficient of the level, and scaled need.
    row_scale, gain_scale, level_scale
        Divisors of the need rows, of the objective and of the level.
    """

    programme: ShareProgramme
    set_: IntArray
    kind: IntArray
    gain: FloatArray
    use: FloatArray
    job: IntArray
    column: IntArray
    part: FloatArray
    value: FloatArray
    needy: IntArray
    level: FloatArray
    need: FloatArray
    row_scale: FloatArray
    gain_scale: float
    level_scale: float

    @classmethod
    def of(cls, programme: ShareProgramme) -> "ShareData":
        """Return the scaled coefficients of a programme; O(members types)."""
        sets, usable = programme.sets, programme.usable
        set_, kind = np.nonzero(usable)
        number = np.zeros(usable.shape, dtype=np.int64)
        number[set_, kind] = np.arange(len(set_))
        member, type_of_member = np.nonzero(usable[sets.of_set])
        # A merged pair of identical jobs lists one job twice, so both entries of the job are added.
        places, entry = np.unique(
            sets.job[member] * len(set_) + number[sets.of_set[member], type_of_member],
            return_inverse=True,
        )
        job, column = np.divmod(places, len(set_))
        needy = np.flatnonzero(programme.has_need)
        largest = np.where(usable[sets.of_set], programme.value, 0.0).max(axis=1)
        largest = sets.most_of_job(largest)
        largest = np.where(largest > 0, largest, 1.0)
        row_scale = largest[needy]
        level = programme.level[needy] / row_scale
        level_scale = 1.0 / float(level.max()) if programme.has_level else 1.0
        gain = programme.gain[set_, kind]
        gain_scale = level_scale if programme.has_level else float(gain.max()) or 1.0
        return cls(
            programme=programme,
            set_=set_,
            kind=kind,
            gain=gain / gain_scale,
            use=programme.gang[set_] / programme.gpus[kind],
            job=job,
            column=column,
            part=np.bincount(entry, weights=sets.part[member]).astype(np.float64),
            value=np.bincount(entry, weights=programme.value[member, type_of_member])
            / largest[job],
            needy=needy,
            level=level * level_scale,
            need=programme.need[needy] / row_scale,
            row_scale=row_scale,
            gain_scale=gain_scale,
            level_scale=level_scale,
        )

    @property
    def jobs(self) -> int:
        """Number of jobs."""
        return self.programme.sets.jobs

    @property
    def types(self) -> int:
        """Number of GPU types."""
        return len(self.programme.gpus)

    @property
    def groups(self) -> int:
        """Number of groups of types; each limits a job's time on its types."""
        return len(self.programme.limit)

    @property
    def group(self) -> IntArray:
        """Group of the GPU type of each matrix entry, shape (entries,)."""
        return self.programme.group[self.kind[self.column]]

    def shares(self, values: Sequence[float] | FloatArray) -> FloatArray:
        """Convert values of the LP columns to time shares, shape (sets, types)."""
        shares = np.zeros(self.programme.usable.shape)
        shares[self.set_, self.kind] = values
        return shares

    def prices(self, multipliers: Sequence[float] | FloatArray) -> SharePrices:
        """Convert multipliers of all rows, of either sign, to dual prices in unscaled units."""
        price = np.abs(np.asarray(multipliers)) * self.gain_scale
        time, gpus, of_needs = np.split(price, np.cumsum([self.jobs * self.groups, self.types]))
        need = np.zeros(self.jobs)
        need[self.needy] = of_needs / self.row_scale
        return SharePrices(need, gpus / self.programme.gpus, time.reshape(self.jobs, self.groups))


class Rows(NamedTuple):
    """The rows of one constraint, ``lower <= sum <= upper``.

    Parameters
    ----------
    name, labels
        The name of the constraint, and the label of each row.
    lower, upper
        Shape (rows,): bounds of the rows.
    row, column, value
        The nonzero coefficients, in any order.
    """

    name: str
    labels: Iterable[object]
    lower: FloatArray
    upper: FloatArray
    row: IntArray
    column: IntArray
    value: FloatArray


def share_of_time(data: ShareData) -> Rows:
    """Limit job j's time on group i of types: ``m_i >= sum_{s with j} sum_{k in K_i} x_sk``."""
    labels = (f"{j}_{i}" for j, i in product(range(data.jobs), range(data.groups)))
    lower = np.full(data.jobs * data.groups, -np.inf)
    upper = np.tile(data.programme.limit, data.jobs)
    row = data.job * data.groups + data.group
    return Rows("share_of_time", labels, lower, upper, row, data.column, data.part)


def gpus_of_type(data: ShareData) -> Rows:
    """Use no more GPUs of type k than exist: ``C_k >= sum_s n_s x_sk``."""
    lower, upper = np.full(data.types, -np.inf), np.ones(data.types)
    column = np.arange(len(data.set_))
    return Rows("gpus_of_type", range(data.types), lower, upper, data.kind, column, data.use)


def needed_rate(data: ShareData) -> Rows:
    """Give job j its needed rate: ``q_j v + d_j <= sum_{s with j} sum_k a_jsk x_sk``."""
    needs = len(data.needy)
    row_of_job = np.full(data.jobs, -1)
    row_of_job[data.needy] = np.arange(needs)
    asked = np.flatnonzero(row_of_job[data.job] >= 0)
    row = np.concatenate([row_of_job[data.job[asked]], np.arange(needs)])
    column = np.concatenate([data.column[asked], np.full(needs, len(data.set_))])
    value = np.concatenate([data.value[asked], -data.level])
    return Rows("needed_rate", data.needy, data.need, np.full(needs, np.inf), row, column, value)


CONSTRAINTS = (share_of_time, gpus_of_type, needed_rate)


def gain(data: ShareData) -> FloatArray:
    """Maximise the total ``sum_sk g_sk x_sk``, or the level ``v`` if the programme has one."""
    return np.append(data.gain, 1.0 if data.programme.has_level else 0.0)
