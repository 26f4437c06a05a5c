"""The Gittins index of jobs whose run times are not known, learned from completed jobs."""

import math
from collections import deque

import numpy as np

from lyra_opt.core.arrays import FloatArray
from lyra_opt.simulation.job_run import JobRun
from lyra_opt.simulation.view import View

LATEST = 500
"""Number of the latest run times that a distribution has."""

ENOUGH = 50
"""Number of completed gangs of one size from which their size has a distribution of its own."""


def gittins_rank(run_times_s: FloatArray, known_s: float, kept_s: float) -> float:
    """Return the least expected time per completion that running a job any further takes.

    The time is counted until the job completes or its progress reaches a limit y, for the best y.
    Smaller is better. The Gittins index is 1 / rank. O(run times).

    Parameters
    ----------
    run_times_s
        The distribution: equally likely run times, ascending.
    known_s
        The run time is longer than this; infinity is returned if no run time is.
    kept_s
        Progress of the job, at most `known_s`; less if the job was stopped and begins again.
    """
    longer_s = run_times_s[np.searchsorted(run_times_s, known_s, "right") :]
    if not len(longer_s):
        return math.inf
    ended = np.arange(1, len(longer_s) + 1)
    spent_s = np.cumsum(longer_s) + longer_s * (len(longer_s) - ended) - len(longer_s) * kept_s
    return float(np.min(spent_s / ended))


class GittinsOrder:
    """The order of ServerFilling-Gittins: the rank of a job's run time multiplied by its GPUs.

    The distribution is that of the latest completed jobs with the same number of GPUs, or of all
    completed jobs if these are too few. The job's own estimate is not used. A waiting job keeps the
    rank that it had when it began to wait.

    Notes
    -----
    Source: Grosof, Scully, Harchol-Balter and Scheller-Wolf, "Optimal scheduling in the
    multiserver-job model under heavy traffic", POMACS 6(3), 2022. They know the distribution.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        # Latest run times by number of GPUs, those of all jobs under 0, and the same in order.
        self._latest_s: dict[int, deque[float]] = {}
        self._sorted_s: dict[int, FloatArray] = {}
        self._known_s: dict[int, float] = {}
        self._waiting: dict[int, tuple[int, float]] = {}

    def completes(self, run: JobRun) -> None:
        """Learn the run time of a completed job."""
        for gpus in (0, run.job.min_gpus):
            self._latest_s.setdefault(gpus, deque(maxlen=LATEST)).append(
                self._seconds(run, run.work)
            )
            self._sorted_s.pop(gpus, None)

    def __call__(self, run: JobRun) -> tuple[float, ...]:
        """Return the sort key of a job whose work is accounted until now."""
        if run.is_running:
            return (self._rank(run),)
        losses, rank = self._waiting.get(run.order, (-1, 0.0))
        if losses != run.losses:
            rank = self._rank(run)
            self._waiting[run.order] = run.losses, rank
        return (rank,)

    def _seconds(self, run: JobRun, work: float) -> float:
        """Return the seconds that work of a job takes with its base demand."""
        return work * self._view.speed.worker_s(run.job) / run.job.min_workers

    def _rank(self, run: JobRun) -> float:
        kept_s = self._seconds(run, run.work - run.left)
        known_s = self._known_s[run.order] = max(kept_s, self._known_s.get(run.order, 0.0))
        gpus = run.job.min_gpus
        if len(self._latest_s.get(gpus, ())) < ENOUGH:
            gpus = 0
        if gpus not in self._sorted_s:
            self._sorted_s[gpus] = np.sort(self._latest_s.get(gpus, ()))
        return gittins_rank(self._sorted_s[gpus], known_s, kept_s) * run.job.min_gpus
