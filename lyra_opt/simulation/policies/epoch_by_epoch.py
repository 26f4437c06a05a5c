"""Pollux: at the start of each epoch, the GPUs are reallocated to all jobs together.

There is no queue. Elastic jobs start on one GPU and may shrink to one GPU, below their base demand.
They get at most twice the most workers that they have had, and at most their maximum. All other
jobs run as their users set them up. They are gangs in the same allocation: they run with their base
demand or not at all, and a running gang keeps its GPUs unless it can restart.

Optionally, gangs queue, which is not part of Pollux. Then, at the start of an epoch, they start in
the order of a queue on the free GPUs, and elastic jobs share the remaining GPUs and those that they
already hold. Elastic jobs never give up GPUs for a gang in this mode.

Source: Pollux (OSDI 2021), section 4, and its public artifact (petuum/adaptdl, branch
osdi21-artifact, simulator/simulator.py and pollux.py), whose jobs are all elastic.
"""

import math
from collections.abc import Sequence

import numpy as np

from lyra_opt.core.arrays import FloatArray
from lyra_opt.core.result import Limits
from lyra_opt.core.stopwatch import Stopwatch, limited_to
from lyra_opt.simulation.decisions import LONGEST_DECISION_S
from lyra_opt.simulation.goodput.allocation import PolluxEpoch, best_allocation, restart_factor
from lyra_opt.simulation.goodput.tuning import NEAR, SPREAD, GoodputSpeed, stage_of
from lyra_opt.simulation.job_run import JobRun
from lyra_opt.simulation.policy import Policy
from lyra_opt.simulation.queue_orders import FIRST_COME, sort_key
from lyra_opt.simulation.queues import JobQueue
from lyra_opt.simulation.tenure import Epochs
from lyra_opt.simulation.view import View

MOST_GROWTH = 2
"""Factor by which a job may exceed the most workers that it has had."""


class EpochByEpoch(Policy):
    """Maximises Pollux's fitness of all jobs at the start of each epoch.

    Parameters
    ----------
    name
        The name in results.
    tuned
        The speed model of tuned jobs.
    queue
        Order in which gangs wait, one of `queue_orders.ORDERS`; None for no queue.
    """

    asks_at_events = False
    sizes_jobs = True

    def __init__(self, name: str, tuned: GoodputSpeed, queue: str | None = None) -> None:
        super().__init__(name)
        self._queue_name = queue
        self.tuned: GoodputSpeed = tuned
        self._active: dict[int, JobRun] = {}
        self._most_workers: dict[int, int] = {}
        self._stage: dict[int, int] = {}
        self._is_carrying_out = False

    def begin(self, view: View) -> None:
        """Prepare for a run: find the own servers, and create the queue, if any."""
        assert isinstance(view.tenure, Epochs), "this policy needs epochs"
        self._tenure = view.tenure
        (pool,) = (pool for pool in view.cluster.pools if not pool.is_lent)
        self._servers = len(pool.hosts)
        self._gpus = sum(pool.gpus)
        self._queue: JobQueue | None = None
        if self._queue_name is not None:
            overtakes = self._queue_name != FIRST_COME
            self._queue = JobQueue(
                sort_key(self._queue_name, view),
                lambda run: (run.job.min_workers, run.job.gpus_per_worker) if overtakes else None,
            )

    def waits(self, view: View, run: JobRun) -> None:
        """Add a waiting job, and wake up at the start of the next epoch."""
        if not self._is_carrying_out:
            self._active[run.order] = run
            if self._queue is not None and not run.job.is_elastic:
                self._queue.add(run)
            self.wake_s = min(self.wake_s, self._tenure.decides_at_s(view.now_s))

    def completes(self, view: View, run: JobRun) -> None:  # noqa: ARG002
        """Remove a completed job."""
        del self._active[run.order]
        if not self._active:
            self.wake_s = math.inf

    def decide(self, view: View) -> None:
        """Find the allocation of highest fitness, and carry it out."""
        for run in list(view.running.values()):
            view.settle(run)
        if not self._active:
            return
        self.wake_s = view.now_s + self._tenure.epoch_s
        if self._queue is not None:
            self._start_queued(view, self._queue)
        runs = [run for run in self._active.values() if not self._is_pinned(run)]
        if runs:
            # Jobs with the fewest GPU-seconds so far come first, as in Pollux's repair step.
            runs.sort(key=lambda run: (run.held_gpu_s, run.order))
            stopwatch = Stopwatch()
            with limited_to(Limits(time_s=LONGEST_DECISION_S)):
                rows = best_allocation(self.epoch(view, runs))
            view.totals.decisions += 1
            view.totals.decision_s.append(stopwatch.elapsed_s)
            self._is_carrying_out = True
            self._carry_out(view, runs, rows)
            self._is_carrying_out = False
        for run in view.running.values():
            if run.job.is_elastic and stage_of(run) != self._stage[run.order]:
                self._stage[run.order] = stage_of(run)
                view.renew_rate(run)

    def _is_pinned(self, run: JobRun) -> bool:
        """Return whether a job is not reallocated: it queues, or runs and cannot restart."""
        if run.job.is_elastic:
            return False
        return self._queue is not None or (run.is_running and not run.job.checkpoints)

    @staticmethod
    def _start_queued(view: View, queue: JobQueue) -> None:
        """Start gangs in the order of the queue until no further gang can start."""
        queue.begin()
        while (run := queue.first()) is not None:
            parts = view.fit(run)
            if parts is None:
                queue.block()
            else:
                queue.take()
                view.start(run, parts)

    def epoch(self, view: View, runs: Sequence[JobRun]) -> PolluxEpoch:
        """Return Pollux's allocation problem in the current epoch for the jobs in `runs`."""
        restart_s = self._tenure.restart_s
        width = np.array([run.job.gpus_per_worker for run in runs], dtype=np.int64)
        gpus = view.hosts.array[: self._servers].copy()
        held = [self._held(run) for run in runs]
        for run in runs:
            for host, count in run.gpus.items():
                gpus[host] += count
        most = [self._most(run) for run in runs]
        speed_up = np.zeros((2, len(runs), max(most) + 1))
        for job, run in enumerate(runs):
            speed_up[:, job, : most[job] + 1] = self._speed_up(run, most[job], len(self._active))
        factors = [
            restart_factor(
                view.now_s - run.job.submit_s, max(run.allocations - 1, 0), restart_s or 1.0
            )
            for run in runs
        ]
        return PolluxEpoch(
            gpus=gpus,
            gpus_per_worker=width,
            least=np.array([view.best_rates.of(run.job).least_workers for run in runs]),
            most=np.array(most),
            speed_up=speed_up * (width * (self._servers / self._gpus))[:, None],
            held=held,
            restart_factor=np.array(factors),
        )

    @staticmethod
    def _held(run: JobRun) -> dict[int, int]:
        """Return the number of workers of a job by host."""
        width = run.job.gpus_per_worker
        return {host: count // width for host, count in run.gpus.items()}

    def _most(self, run: JobRun) -> int:
        """Return the most workers that a job may get in this epoch."""
        job = run.job
        if not job.is_elastic:
            return job.min_workers
        had = self._most_workers.get(run.order, 0)
        return min(max(MOST_GROWTH * had, 1), job.max_workers)

    def _speed_up(self, run: JobRun, most: int, jobs: int) -> FloatArray:
        """Return a job's speed-ups with 0 to `most` workers, relative to its fair share.

        The speed-up is taken as linear in the number of workers if the job's goodput is unknown,
        because it has never run or runs as its user set it up.
        """
        job = run.job
        fair_workers = max(1, -(-self._gpus // (jobs * job.gpus_per_worker)))
        if not job.is_elastic or run.order not in self._most_workers:
            linear = np.arange(most + 1) / fair_workers
            return np.stack((linear, linear))
        rates = self.tuned.rates(job)[stage_of(run)]
        found: FloatArray = rates[[NEAR, SPREAD], : most + 1]
        found /= rates[NEAR, min(fair_workers, job.max_workers)]
        return found

    def _carry_out(
        self, view: View, runs: Sequence[JobRun], rows: Sequence[dict[int, int]]
    ) -> None:
        """Stop, move and start jobs so that each has the workers by server of its row in `rows`."""
        changed = [
            (run, row) for run, row in zip(runs, rows, strict=True) if row != self._held(run)
        ]
        lifted = []
        for run, row in changed:
            if run.is_running and row:
                view.lift(run)
                lifted.append(run.order)
            elif run.is_running:
                view.stop(run)
        for run, row in changed:
            if not row:
                continue
            width = run.job.gpus_per_worker
            parts = view.reserve(run, {host: count * width for host, count in row.items()})
            # The rate of a tuned job depends on its training progress.
            self._stage[run.order] = stage_of(run)
            if run.order in lifted:
                view.put(run, parts)
            else:
                view.start(run, parts)
            workers = sum(row.values())
            self._most_workers[run.order] = max(self._most_workers.get(run.order, 0), workers)
