"""The cluster over time, and how far a simulation is."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.simulation.view import Observer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.view import View
    from lyra_opt.simulation.workload import Workload

ROUNDING = 1e-6
"""Part of a step that is no step of its own."""

STEPS = 4000
"""Steps into which the expected length of a simulation is divided."""
MOST_STEPS = 2 * STEPS
"""Steps beyond which neighbours become one."""


def expected_makespan_s(workload: Workload, cluster: Cluster) -> float:
    """Return a lower bound of the makespan on reference GPUs without scaling, for estimates."""
    first_s = workload.jobs[0].submit_s
    latest_s = max(job.submit_s + job.duration_s for job in workload.jobs) - first_s
    return max(latest_s, workload.gpu_work_s / cluster.gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The cluster over time: each value is the mean from its moment to the next.

    Parameters
    ----------
    time_s
        Since time 0 of the workload; the last one is the end, when nothing is left. Shape (n,), as
        of all.
    queued_jobs, running_jobs, running_copies
        Jobs that wait, that hold GPUs, and the latter counted by copies.
    gpus_held
        GPUs that jobs hold, by pool: by the name of the GPU type.
    gpus_held_on_loan
        Those of them on borrowed servers.
    gpus_computing
        GPUs that jobs hold, each counted by what distance leaves of its speed.
    gpus_handed_over
        GPUs that nobody holds and that are not free yet.
    machines_partly_free, busy_servers
        Hosts with both free GPUs and others, and servers of which jobs hold any GPU.
    servers_on_loan
        Inference servers on loan.
    gpus_serving
        GPUs of the inference cluster that serve.
    """

    time_s: np.ndarray
    queued_jobs: np.ndarray
    running_jobs: np.ndarray
    running_copies: np.ndarray
    gpus_held: Mapping[str, np.ndarray]
    gpus_held_on_loan: np.ndarray
    gpus_computing: np.ndarray
    gpus_handed_over: np.ndarray
    machines_partly_free: np.ndarray
    busy_servers: np.ndarray
    servers_on_loan: np.ndarray
    gpus_serving: np.ndarray

    @property
    def own_gpus_held(self) -> np.ndarray:
        """GPUs that jobs hold on own servers."""
        held: np.ndarray = np.sum(list(self.gpus_held.values()), axis=0) - self.gpus_held_on_loan
        return held


_MEANS = {
    "queued_jobs": "waiting_job_s",
    "running_jobs": "running_job_s",
    "gpus_handed_over": "handed_over_gpu_s",
    "machines_partly_free": "partly_free_host_s",
    "busy_servers": "busy_server_s",
    "servers_on_loan": "on_loan_server_s",
    "gpus_serving": "serving_gpu_s",
}
"""Fields of `Series` by the sum of which they are the mean over time."""

_SUMS = (*_MEANS.values(), "more_copy_s", "distance_gpu_s")


class SeriesObserver(Observer):
    """Notes what the cluster did, in steps of equal length, exactly; O(1) an event.

    Parameters
    ----------
    step_s
        Length of a step; None for a part of the expected makespan. Doubled when steps are many.
    """

    def __init__(self, step_s: float | None = None) -> None:
        self._step_s = step_s or math.nan
        self._rows: list[list[float]] = []
        self._times_s: list[float] = []
        self._next_s = math.inf

    def begins(self, view: View) -> None:
        """See `Observer`."""
        if math.isnan(self._step_s):
            self._step_s = expected_makespan_s(view.workload, view.cluster) / STEPS
        self._note(view, view.now_s)
        self._next_s = view.now_s + self._step_s

    def passes(self, view: View, until_s: float) -> None:
        """See `Observer`."""
        while self._next_s <= until_s:
            self._note(view, self._next_s)
            if len(self._rows) > MOST_STEPS:
                del self._rows[1::2], self._times_s[1::2]
                self._step_s *= 2
            self._next_s = self._times_s[-1] + self._step_s

    def ends(self, view: View) -> None:
        """See `Observer`."""
        if view.now_s > self._times_s[-1]:
            if view.now_s - self._times_s[-1] < ROUNDING * self._step_s and len(self._rows) > 1:
                # Over next to no time, a mean would be what rounding leaves.
                del self._rows[-1], self._times_s[-1]
            self._note(view, view.now_s)
        time_s = np.array(self._times_s)
        rows = np.array(self._rows)
        means = np.diff(rows, axis=0) / np.diff(time_s)[:, None]
        columns = np.vstack([means, np.zeros(rows.shape[1])]).T
        found = dict(zip(_SUMS, columns, strict=False))
        # The inference cluster goes on.
        found["serving_gpu_s"][-1] = view.loans.serving_gpus
        held = columns[len(_SUMS) :]
        pools = view.cluster.pools
        on_loan = [of_pool for pool, of_pool in zip(pools, held, strict=True) if pool.is_lent]
        self.series = Series(
            time_s=time_s,
            **{name: found[total] for name, total in _MEANS.items()},
            running_copies=found["running_job_s"] + found["more_copy_s"],
            gpus_held={
                pool.gpu_type.name: of_pool for pool, of_pool in zip(pools, held, strict=True)
            },
            gpus_held_on_loan=sum(on_loan, np.zeros(len(time_s))),
            gpus_computing=np.sum(held, axis=0) - found["distance_gpu_s"],
        )

    def _note(self, view: View, time_s: float) -> None:
        """Note what has been counted up to a moment from `View.now_s` on."""
        self._times_s.append(time_s)
        self._rows.append(view.sums_at(time_s, _SUMS))


class ProgressObserver(Observer):
    """Tells now and then how far a simulation is.

    Parameters
    ----------
    show
        Is told the simulated seconds since the first submission, and how many jobs are submitted
        and complete.
    """

    def __init__(self, show: Callable[[float, int, int], None]) -> None:
        self._show = show
        self._first_s = self._step_s = self._next_s = 0.0
        self._submissions_s: list[float] = []

    def begins(self, view: View) -> None:
        """See `Observer`."""
        self._first_s = self._next_s = view.now_s
        self._step_s = expected_makespan_s(view.workload, view.cluster) / STEPS
        self._submissions_s = [job.submit_s for job in view.workload.jobs]

    def passes(self, view: View, until_s: float) -> None:
        """See `Observer`."""
        if until_s >= self._next_s:
            submitted = bisect_right(self._submissions_s, view.now_s)
            self._show(until_s - self._first_s, submitted, submitted - view.jobs_there)
            self._next_s = until_s + self._step_s


class CaptureObserver(Observer):
    """Is given decisions as instances of the problem that they are.

    Parameters
    ----------
    take
        Is given the kind and the instance.
    kinds
        Of ``reclaim``, ``allocation``, ``heterogeneous`` and ``network``.
    """

    def __init__(self, take: Callable[[str, object], None], kinds: frozenset[str]) -> None:
        self._take, self._kinds = take, kinds

    def captures(self, kind: str) -> bool:
        """See `Observer`."""
        return kind in self._kinds

    def decided(self, kind: str, instance: object) -> None:
        """See `Observer`."""
        if kind in self._kinds:
            self._take(kind, instance)
