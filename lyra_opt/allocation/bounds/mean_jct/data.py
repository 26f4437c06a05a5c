"""Arrays of job data that the lower bounds on mean JCT share."""

import heapq
import math

import numpy as np

from lyra_opt.allocation.instance import Instance
from lyra_opt.core.arrays import FloatArray
from lyra_opt.core.stopwatch import require_time

MARGIN = 1e-11
"""Safety margin of a bound, relative to the sums whose difference it is."""
LEAST_WORK = 1e-250
"""Least work of a job relative to the largest work; smaller work is raised to keep quotients
finite, which changes a bound by less than rounding."""
STEPS_BETWEEN_LOOKS_AT_THE_CLOCK = 1000
EPSILON = float(np.finfo(float).eps)


class BoundData:
    """The jobs as sorted arrays, so that no bound depends on the file order.

    Parameters
    ----------
    instance
        The instance.

    Attributes
    ----------
    release, work : FloatArray
        Releases in seconds, and work in worker-seconds.
    base, extra : FloatArray
        GPUs of the base demand, and of the workers beyond it that fit into the cluster.
    base_rate, top_rate : FloatArray
        Work per second with w_min and with all workers.
    gpus_per_work, efficiency : FloatArray
        GPUs per unit of work per second in the base demand, and the speed of an extra worker
        relative to a base worker, at most 1.
    height : FloatArray
        Running time at the top rate, in seconds.
    """

    def __init__(self, instance: Instance) -> None:
        self.jobs = len(instance.jobs)
        self.gpus = float(instance.gpus)
        table = np.array(
            [
                (
                    job.release_s,
                    job.work_worker_s,
                    job.gpus_per_worker,
                    job.min_workers,
                    job.max_workers,
                    1 - job.scaling_loss,
                    job.running,
                )
                for job in instance.jobs
            ],
            dtype=float,
        )
        by_number = table[np.lexsort(table.T[::-1])].T.copy()
        self.release, work, self.gpus_per_work, least, most, efficiency, running = by_number
        self.running = running.astype(np.bool_)
        self.work = np.maximum(work, LEAST_WORK * work.max())
        most = np.minimum(most, self.gpus / self.gpus_per_work)
        self.base_rate = least
        self.efficiency = efficiency
        self.base = least * self.gpus_per_work
        self.extra = (most - least) * self.gpus_per_work
        self.top_rate = least + (most - least) * efficiency
        self.height = self.work / self.top_rate


def safe_difference(total: float, less: float, terms: int) -> float:
    """Return `total - less`, at least 0, lowered by the possible rounding errors of both sums.

    Each sum has at most `terms` terms.
    """
    margin = MARGIN + 4 * EPSILON * terms
    return max(0.0, total - less - margin * (abs(total) + abs(less)))


def smallest_area_first(data: BoundData) -> tuple[FloatArray, FloatArray]:
    """Return each job's completion time on one fast machine, and the number of jobs then waiting.

    The machine is as fast as all GPUs together. It always runs the job with the smallest remaining
    area, with preemption.
    """
    area = data.work * data.gpus_per_work / data.gpus
    order = np.argsort(data.release, kind="stable")
    waiting: list[tuple[float, int]] = []
    completions, queue = np.zeros(data.jobs), np.zeros(data.jobs)
    now, following, steps = 0.0, 0, 0
    while waiting or following < data.jobs:
        if not waiting:
            now = max(now, float(data.release[order[following]]))
        while following < data.jobs and data.release[order[following]] <= now:
            job = int(order[following])
            heapq.heappush(waiting, (float(area[job]), job))
            following += 1
        until = float(data.release[order[following]]) if following < data.jobs else math.inf
        steps += 1
        if steps % STEPS_BETWEEN_LOOKS_AT_THE_CLOCK == 0:
            require_time()
        left, job = heapq.heappop(waiting)
        if now + left <= until:
            now += left
            completions[job], queue[job] = now, len(waiting)
        else:
            heapq.heappush(waiting, (left - (until - now), job))
            now = until
    return completions, queue
