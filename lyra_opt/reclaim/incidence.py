"""The array form of a reclaim instance, in which jobs and servers are numbered in file order."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lyra_opt.core.arrays import IntArray


class Incidence(NamedTuple):
    """A sparse job-by-server matrix of positive integers, stored by row and by column.

    It is a named tuple of read-only arrays because kernels accept named tuples without conversion.

    Parameters
    ----------
    job_start
        Shape (jobs + 1,): job j owns the entries from ``job_start[j]`` to ``job_start[j + 1]``,
        ordered by server.
    job_servers, job_counts
        Shape (entries,): server and value of each entry, ordered by job.
    server_start
        Shape (servers + 1,): where the entries of each server start in `server_jobs`.
    server_jobs, server_counts
        Shape (entries,): job and value of each entry, ordered by server, then by job.
    """

    job_start: IntArray
    job_servers: IntArray
    job_counts: IntArray
    server_start: IntArray
    server_jobs: IntArray
    server_counts: IntArray

    @classmethod
    def of_entries(
        cls, jobs: int, servers: int, entries: Iterable[tuple[int, int, int]]
    ) -> "Incidence":
        """Build the matrix from distinct (job, server, value) triples in O(n log n) time."""
        table = np.array(sorted(entries), dtype=np.int64).reshape(-1, 3)
        return cls.of_rows(
            _starts(table[:, 0], jobs), table[:, 1].copy(), table[:, 2].copy(), servers
        )

    @classmethod
    def of_rows(
        cls, job_start: IntArray, job_servers: IntArray, job_counts: IntArray, servers: int
    ) -> "Incidence":
        """Build the matrix from its rows, each ordered by server, in O(entries + servers) time."""
        jobs = np.repeat(np.arange(len(job_start) - 1), np.diff(job_start))
        by_server = stable_order(job_servers, servers)
        return cls._read_only(
            job_start,
            job_servers,
            job_counts,
            _starts(job_servers, servers),
            jobs[by_server],
            job_counts[by_server],
        )

    def keeping(self, is_kept: NDArray[np.bool_]) -> "Incidence":
        """Return a copy of the matrix in which the rows of all jobs not in `is_kept` are empty.

        `is_kept` has shape (jobs,). Jobs keep their numbers. Time O(entries).
        """
        by_job = np.repeat(is_kept, self.span())
        by_server = is_kept[self.server_jobs]
        return self._read_only(
            _first_of(by_job, self.job_start),
            self.job_servers[by_job],
            self.job_counts[by_job],
            _first_of(by_server, self.server_start),
            self.server_jobs[by_server],
            self.server_counts[by_server],
        )

    @classmethod
    def _read_only(cls, *arrays: IntArray) -> "Incidence":
        for array in arrays:
            array.flags.writeable = False
        return cls(*arrays)

    @property
    def jobs(self) -> int:
        """Number of jobs, the rows of the matrix."""
        return len(self.job_start) - 1

    @property
    def servers(self) -> int:
        """Number of servers, the columns of the matrix."""
        return len(self.server_start) - 1

    @property
    def entries(self) -> int:
        """Number of positive entries of the matrix."""
        return len(self.job_servers)

    def span(self) -> IntArray:
        """Return the number of servers that each job has entries on, shape (jobs,)."""
        return self.job_start[1:] - self.job_start[:-1]

    def row_sums(self, of_servers: IntArray) -> IntArray:
        """Return the matrix times the vector `of_servers` of shape (servers,)."""
        return sums_of_runs(self.job_counts * of_servers[self.job_servers], self.job_start)

    def row(self, job: int) -> list[tuple[int, int]]:
        """Return the (server, value) pairs of one job."""
        entries = slice(self.job_start[job], self.job_start[job + 1])
        return list(
            zip(self.job_servers[entries].tolist(), self.job_counts[entries].tolist(), strict=True)
        )

    def column(self, server: int) -> list[tuple[int, int]]:
        """Return the (job, value) pairs of one server."""
        entries = slice(self.server_start[server], self.server_start[server + 1])
        return list(
            zip(
                self.server_jobs[entries].tolist(),
                self.server_counts[entries].tolist(),
                strict=True,
            )
        )


def partial_sums(values: NDArray[Any]) -> NDArray[Any]:
    """Return the sums of the first 0, 1, 2, ... values, with the dtype of `values`."""
    sums = np.zeros(len(values) + 1, dtype=values.dtype)
    np.cumsum(values, out=sums[1:])
    return sums


def sums_of_runs(values: NDArray[Any], starts: IntArray) -> NDArray[Any]:
    """Return the sum of each run of consecutive values between neighbouring `starts`.

    The array `starts` has the start of each run and the end of the last run.
    """
    sums = partial_sums(values)[starts]
    differences: NDArray[Any] = sums[1:] - sums[:-1]
    return differences


def stable_order(groups: IntArray, size: int) -> IntArray:
    """Return the indices of a stable sort of `groups`, an array of integers below `size`."""
    # NumPy sorts 16-bit integers stably by radix sort, ten times as fast as 64-bit integers.
    small = groups.astype(np.uint16) if size <= 2**16 else groups
    return np.argsort(small, kind="stable")


def _first_of(is_kept: NDArray[np.bool_], starts: IntArray) -> IntArray:
    return partial_sums(is_kept.astype(np.int64))[starts]


def _starts(positions: IntArray, size: int) -> IntArray:
    return partial_sums(np.bincount(positions, minlength=size).astype(np.int64, copy=False))


@dataclass(frozen=True, slots=True)
class ReclaimIndex:
    """The arrays of one reclaim instance, built once when the instance is constructed.

    Parameters
    ----------
    on_loan
        Positions of the servers on loan, in file order.
    is_on_loan
        Shape (servers,): 1 for a server on loan, else 0.
    weight
        Shape (jobs,): cost of preempting each job.
    losses
        What each job loses with each server *on loan*. Rigid: 1 for each server with a base
        worker of the job. Interchangeable: the number of its workers on the server.
    slack
        Shape (jobs,): a job is preempted when the chosen servers cost it more than `slack`
        losses. Rigid: 0. Interchangeable: all its workers less ``min_workers``.
    base
        For each server, on loan or not, with a base worker of the job: the GPUs that all its
        workers hold on the server. The length of a row is Lyra's span |S_j|.
    gpus
        GPUs that the workers of a job, base and flexible, hold on each server, on loan or not.
    """

    on_loan: IntArray
    is_on_loan: IntArray
    weight: IntArray
    losses: Incidence
    slack: IntArray
    base: Incidence
    gpus: Incidence

    def __post_init__(self) -> None:
        for name in ("on_loan", "is_on_loan", "weight", "slack"):
            getattr(self, name).flags.writeable = False
