"""Sparse, scaled coefficients of a share programme, in the form that backends need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.heterogeneous.exact.shares.programme import SharePrices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lyra_opt.heterogeneous.exact.shares.programme import ShareProgramme

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]


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
    def of(cls, programme: ShareProgramme) -> ShareData:
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

    def prices(
        self,
        of_needs: Sequence[float] | FloatArray,
        of_gpus: Sequence[float] | FloatArray,
        of_time: Sequence[float] | FloatArray,
    ) -> SharePrices:
        """Convert multipliers of the LP rows, of either sign, to dual prices in unscaled units."""
        need = np.zeros(self.jobs)
        need[self.needy] = np.abs(np.asarray(of_needs)) * self.gain_scale / self.row_scale
        gpus = np.abs(np.asarray(of_gpus)) * self.gain_scale / self.programme.gpus
        time = np.abs(np.asarray(of_time)) * self.gain_scale
        return SharePrices(need, gpus, time.reshape(self.jobs, self.groups))
