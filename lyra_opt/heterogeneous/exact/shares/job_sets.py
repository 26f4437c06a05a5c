"""Who runs together: jobs alone, and pairs of jobs on the same GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]


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
