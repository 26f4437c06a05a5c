"""Observers that record the cluster over time, show progress, and capture decisions."""

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.view import Observer, View
from lyra_opt.simulation.workload import Workload

ROUNDING = 1e-6
"""A last step shorter than this fraction of a step is merged with the step before."""

STEPS = 4000
"""Number of steps into which the expected length of a simulation is divided."""
MOST_STEPS = 2 * STEPS
"""Number of steps beyond which pairs of neighbouring steps are merged."""


def expected_makespan_s(workload: Workload, cluster: Cluster) -> float:
    """Estimate the makespan, in seconds, by a lower bound for reference GPUs without scaling."""
    first_s = workload.jobs[0].submit_s
    latest_s = max(job.submit_s + job.duration_s for job in workload.jobs) - first_s
    return max(latest_s, workload.gpu_work_s / cluster.gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The state of a simulated cluster over time; each value is the mean over one time step.

    Parameters
    ----------
    time_s
        Seconds since time 0 of the workload. The last one is the end, when all jobs are complete.
        All arrays have shape (n,).
    queued_jobs, running_jobs, running_copies
        Number of jobs that wait and that hold GPUs; number of running copies.
    gpus_held
        GPUs that jobs hold, by name of the GPU type.
    gpus_held_on_loan
        GPUs that jobs hold on borrowed servers.
    gpus_computing
        GPUs that jobs hold, each weighted by the share of its speed that distance leaves.
    gpus_handed_over
        GPUs that no job holds and that are not yet free.
    machines_partly_free, busy_servers
        Number of hosts with some but not all GPUs free; number of servers on which jobs hold GPUs.
    servers_on_loan
        Number of inference servers on loan.
    gpus_serving
        Number of inference GPUs that serve requests.
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
        """The number of GPUs that jobs hold on own servers."""
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
"""Fields of `Series`, each with the sum in `Totals` from which its mean is computed."""

_SUMS = (*_MEANS.values(), "more_copy_s", "distance_gpu_s")


class SeriesObserver(Observer):
    """Records a `Series` in steps of equal length, with exact means; O(1) per event.

    Parameters
    ----------
    step_s
        Length of a step; None for a fraction of the expected makespan. It doubles when there are
        too many steps.
    """

    def __init__(self, step_s: float | None = None) -> None:
        self._step_s = step_s or math.nan
        self._rows: list[list[float]] = []
        self._times_s: list[float] = []
        self._next_s = math.inf

    def begins(self, view: View) -> None:
        """Choose the length of a step, and record the first one."""
        if math.isnan(self._step_s):
            self._step_s = expected_makespan_s(view.workload, view.cluster) / STEPS
        self._note(view, view.now_s)
        self._next_s = view.now_s + self._step_s

    def passes(self, view: View, until_s: float) -> None:
        """Record every step that ends until `until_s`."""
        while self._next_s <= until_s:
            self._note(view, self._next_s)
            if len(self._rows) > MOST_STEPS:
                del self._rows[1::2], self._times_s[1::2]
                self._step_s *= 2
            self._next_s = self._times_s[-1] + self._step_s

    def ends(self, view: View) -> None:
        """Record the last step, and build `series`."""
        if view.now_s > self._times_s[-1]:
            if view.now_s - self._times_s[-1] < ROUNDING * self._step_s and len(self._rows) > 1:
                # The mean over a very short step would consist mostly of rounding errors.
                del self._rows[-1], self._times_s[-1]
            self._note(view, view.now_s)
        time_s = np.array(self._times_s)
        rows = np.array(self._rows)
        means = np.diff(rows, axis=0) / np.diff(time_s)[:, None]
        columns = np.vstack([means, np.zeros(rows.shape[1])]).T
        found = dict(zip(_SUMS, columns, strict=False))
        # The inference cluster still serves requests after the last training job has completed.
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
        """Record the totals counted until `time_s`."""
        self._times_s.append(time_s)
        self._rows.append(view.sums_at(time_s, _SUMS))


class ProgressObserver(Observer):
    """Reports the progress of a simulation from time to time.

    Parameters
    ----------
    show
        Called with the simulated seconds since the first submission, and the numbers of jobs
        submitted and completed.
    """

    def __init__(self, show: Callable[[float, int, int], None]) -> None:
        self._show = show
        self._first_s = self._step_s = self._next_s = 0.0
        self._submissions_s: list[float] = []

    def begins(self, view: View) -> None:
        """Choose the interval between two reports."""
        self._first_s = self._next_s = view.now_s
        self._step_s = expected_makespan_s(view.workload, view.cluster) / STEPS
        self._submissions_s = [job.submit_s for job in view.workload.jobs]

    def passes(self, view: View, until_s: float) -> None:
        """Report the progress if the interval has passed."""
        if until_s >= self._next_s:
            submitted = bisect_right(self._submissions_s, view.now_s)
            self._show(until_s - self._first_s, submitted, submitted - view.jobs_there)
            self._next_s = until_s + self._step_s


class CaptureObserver(Observer):
    """Captures decisions of a simulation: it passes their instances to a function.

    Parameters
    ----------
    take
        Called with the kind and the instance of each decision.
    kinds
        The kinds to capture: any of ``reclaim``, ``allocation``, ``heterogeneous``, ``network`` and
        ``preemption``.
    """

    def __init__(self, take: Callable[[str, object], None], kinds: frozenset[str]) -> None:
        self._take, self._kinds = take, kinds

    def captures(self, kind: str) -> bool:
        """Return whether decisions of this kind are captured."""
        return kind in self._kinds

    def decided(self, kind: str, instance: object) -> None:
        """Pass an instance on if its kind is captured."""
        if kind in self._kinds:
            self._take(kind, instance)
