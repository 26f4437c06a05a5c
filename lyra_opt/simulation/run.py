"""A job on its way through the cluster: queued, running, preempted, done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.simulation.pools import Group

if TYPE_CHECKING:
    from collections.abc import Collection

    from lyra_opt.simulation.pools import Placement, Pool
    from lyra_opt.simulation.workload import TrainingJob

NEVER = -1.0


class Share:
    """What a running job holds in one pool.

    Parameters
    ----------
    pool
        The pool.
    base, flexible
        Workers of the base demand and beyond it, counted as training workers.
    placements
        Where they are, by group.
    """

    __slots__ = ("base", "flexible", "placements", "pool")

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.base = self.flexible = 0
        self.placements: tuple[Placement, Placement] = ({}, {})

    @property
    def workers(self) -> int:
        """Workers of both groups."""
        return self.base + self.flexible


class JobRun:
    """A job with its state; times are NEVER while they are not known.

    Parameters
    ----------
    job
        As submitted.
    order
        Its place in the workload, by which ties are broken.
    """

    __slots__ = (
        "completion_s",
        "held_gpu_s",
        "held_gpus",
        "job",
        "min_gpus",
        "most_racks",
        "order",
        "pauses_until_s",
        "preemptions",
        "queued_s",
        "queued_since_s",
        "ran_on_loan",
        "rate",
        "remaining_worker_s",
        "shares",
        "start_s",
        "updated_s",
        "version",
        "workers",
    )

    def __init__(self, job: TrainingJob, order: int) -> None:
        self.job = job
        self.order = order
        self.min_gpus = job.min_workers * job.gpus_per_worker
        self.remaining_worker_s = job.work_worker_s
        self.queued_since_s = job.submit_s
        self.queued_s = 0.0
        self.start_s = self.completion_s = self.updated_s = self.pauses_until_s = NEVER
        self.rate = 0.0
        self.workers = 0
        self.shares: list[Share] = []
        self.preemptions = 0
        self.version = 0
        self.held_gpu_s = 0.0
        self.held_gpus = 0  # of whatever kind
        self.ran_on_loan = False
        self.most_racks = 0  # that its workers on training servers have spanned at once

    @property
    def is_running(self) -> bool:
        """Whether it holds GPUs."""
        return self.workers > 0

    @property
    def flexible_workers(self) -> int:
        """Workers beyond the base demand."""
        return self.workers - self.job.min_workers if self.workers else 0

    def share_in(self, pool: Pool) -> Share:
        """Return what it holds in a pool, where it holds something."""
        return next(share for share in self.shares if share.pool is pool)

    @property
    def mean_worker_speed(self) -> float:
        """How fast its workers are, on average over them, beside training GPUs."""
        first = self.shares[0]
        if len(self.shares) == 1:
            return first.pool.worker_speed
        return sum(share.workers * share.pool.worker_speed for share in self.shares) / self.workers

    @property
    def believed_remaining_worker_s(self) -> float:
        """What is left of its work as far as the scheduler knows, above 0 until it completes."""
        job = self.job
        if job.estimated_work_worker_s is None:
            return self.remaining_worker_s
        done = job.work_worker_s - self.remaining_worker_s
        # A job that outlives its estimate is taken to be nearly done.
        return max(job.estimated_work_worker_s - done, 0.01 * job.estimated_work_worker_s)

    def advance(self, now_s: float) -> None:
        """Account for the work done since the last call."""
        if self.workers:
            self.held_gpu_s += self.held_gpus * (now_s - self.updated_s)
            started = max(self.updated_s, self.pauses_until_s)
            if now_s > started:
                self.remaining_worker_s = max(
                    0.0, self.remaining_worker_s - self.rate * (now_s - started)
                )
        self.updated_s = now_s

    def expected_completion_s(self, now_s: float) -> float:
        """Return when it completes if nothing changes."""
        return max(now_s, self.pauses_until_s) + self.remaining_worker_s / self.rate

    def hold(self, pool: Pool, workers: int, group: Group) -> Share:
        """Place workers in a pool; return what it now holds there."""
        placed = pool.place(workers, self.job.gpus_per_worker, group)
        share = next((share for share in self.shares if share.pool is pool), None)
        if share is None:
            share = Share(pool)
            self.shares.append(share)
        merged = share.placements[group]
        for server, replicas in placed.items():
            merged[server] = merged.get(server, 0) + replicas
        if group is Group.BASE:
            share.base += workers
        else:
            share.flexible += workers
        self.workers += workers
        self.held_gpus += workers * pool.replicas * self.job.gpus_per_worker
        return share

    def drop_flexible(
        self, share: Share, workers: int, first: Collection[int] = frozenset()
    ) -> None:
        """Take flexible workers away: from some servers first, then where there are fewest of them.

        So servers are emptied that can be given to others, or back. A share of which nothing is
        left is given up.
        """
        placement = share.placements[Group.FLEXIBLE]
        left = workers * share.pool.replicas
        removed: Placement = {}
        for server in sorted(
            placement, key=lambda server: (server not in first, placement[server], -server)
        ):
            taken = min(left, placement[server])
            removed[server] = taken
            placement[server] -= taken
            if not placement[server]:
                del placement[server]
            left -= taken
            if not left:
                break
        share.pool.remove(removed, workers, self.job.gpus_per_worker)
        share.flexible -= workers
        if not share.workers:
            self.shares.remove(share)
        self.workers -= workers
        self.held_gpus -= workers * share.pool.replicas * self.job.gpus_per_worker

    def release_all(self) -> None:
        """Give up all that it holds."""
        for share in self.shares:
            for group, workers in ((Group.BASE, share.base), (Group.FLEXIBLE, share.flexible)):
                if workers:
                    share.pool.remove(share.placements[group], workers, self.job.gpus_per_worker)
        self.shares = []
        self.workers = self.held_gpus = 0
        self.rate = 0.0
