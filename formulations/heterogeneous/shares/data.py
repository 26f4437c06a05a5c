"""The numbers of a share programme as the backends take them: sparse, scaled, made once."""

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
    """A programme over the pairs of a job and a type that it can use, coefficients at most 1.

    Rows ``needed_rate`` are divided by the largest of their coefficients, rows ``gpus_of_type`` by
    the GPUs of the type, the objective and the level by their largest coefficient.

    Parameters
    ----------
    programme
        What it was made of.
    job, kind
        Shape (pairs,): by job, then by type.
    gain, value, use
        Shape (pairs,): what the pair adds to the objective, to its job's need, to its type's GPUs.
    needy
        Positions of the jobs that have a need.
    level, need
        Shape (needy jobs,).
    row_scale, gain_scale, level_scale
        What rows of needs, the objective and the level were divided by.
    """

    programme: ShareProgramme
    job: IntArray
    kind: IntArray
    gain: FloatArray
    value: FloatArray
    use: FloatArray
    needy: IntArray
    level: FloatArray
    need: FloatArray
    row_scale: FloatArray
    gain_scale: float
    level_scale: float

    @classmethod
    def of(cls, programme: ShareProgramme) -> ShareData:
        """Return the numbers of a programme; O(jobs types)."""
        job, kind = np.nonzero(programme.usable)
        needy = np.flatnonzero(programme.has_need)
        largest = np.where(programme.usable, programme.value, 0.0).max(axis=1)
        largest = np.where(largest > 0, largest, 1.0)
        row_scale = largest[needy]
        level = programme.level[needy] / row_scale
        level_scale = 1.0 / float(level.max()) if programme.has_level else 1.0
        gain = programme.gain[job, kind]
        gain_scale = level_scale if programme.has_level else float(gain.max()) or 1.0
        return cls(
            programme=programme,
            job=job,
            kind=kind,
            gain=gain / gain_scale,
            value=programme.value[job, kind] / largest[job],
            use=programme.gang[job] / programme.gpus[kind],
            needy=needy,
            level=level * level_scale,
            need=programme.need[needy] / row_scale,
            row_scale=row_scale,
            gain_scale=gain_scale,
            level_scale=level_scale,
        )

    @property
    def jobs(self) -> int:
        """How many jobs there are."""
        return len(self.programme.gang)

    @property
    def types(self) -> int:
        """How many types there are."""
        return len(self.programme.gpus)

    @property
    def groups(self) -> int:
        """How many groups of types there are, each with a limit on a job's time there."""
        return len(self.programme.limit)

    @property
    def group(self) -> IntArray:
        """Shape (pairs,): the group of each pair's type."""
        return self.programme.group[self.kind]

    def shares(self, values: Sequence[float] | FloatArray) -> FloatArray:
        """Return the values of the pairs as an array of shape (jobs, types)."""
        shares = np.zeros((self.jobs, self.types))
        shares[self.job, self.kind] = values
        return shares

    def prices(
        self, of_needs: Sequence[float] | FloatArray, of_gpus: Sequence[float] | FloatArray
    ) -> SharePrices:
        """Return the multipliers of the rows, of either sign, in the programme's units."""
        need = np.zeros(self.jobs)
        need[self.needy] = np.abs(np.asarray(of_needs)) * self.gain_scale / self.row_scale
        gpus = np.abs(np.asarray(of_gpus)) * self.gain_scale / self.programme.gpus
        return SharePrices(need, gpus)
