"""Instances that tests of allocation share: examples of the paper, and small random ones."""

from dataclasses import replace

import numpy as np

from lyra_opt.allocation import ElasticJob, Instance, Schedule, SchedulePiece


def job(name, least, most, work, **more):
    """Return a job by its range of workers and its work in worker-seconds."""
    return ElasticJob(id=name, min_workers=least, max_workers=most, work_worker_s=work, **more)


def instance_of(gpus, *jobs, **fields):
    """Return an instance, of objective mean_jct unless told otherwise."""
    return Instance(
        **{"name": "by-hand", "objective": "mean_jct", "gpus": gpus, "jobs": jobs, **fields}
    )


SHORT = job("B", 2, 6, 120)
LONG = job("A", 2, 6, 300)
NARROW = job("A", 2, 3, 300)

EXAMPLE_ROWS = {
    (LONG, 2, 6): (63 + 1 / 3, 20, 41 + 2 / 3),
    (LONG, 3, 5): (62, 24, 43),
    (LONG, 4, 4): (60, 30, 45),
    (LONG, 5, 3): (56 + 2 / 3, 40, 48 + 1 / 3),
    (LONG, 6, 2): (50, 53 + 1 / 3, 51 + 2 / 3),
    (NARROW, 3, 5): (100, 24, 62),
    (NARROW, 2, 6): (106 + 2 / 3, 20, 63 + 1 / 3),
}
"""Lyra, section 5.1: job A and the first workers of A and B, then completions and mean JCT."""


def example(first=LONG, objective="mean_jct", gpus=8):
    """Return Lyra's first example, or its second with `NARROW`."""
    return instance_of(gpus, first, SHORT, name="example", objective=objective)


def piece(name, start_s, end_s, workers):
    """Return a piece of a schedule."""
    return SchedulePiece(job=name, start_s=start_s, end_s=end_s, workers=workers)


def example_schedule(long, first, second):
    """Return the schedule of a row: when one job ends, the other has all that it can use."""
    jobs = {long.id: (long, first), SHORT.id: (SHORT, second)}
    ends = {name: task.work_worker_s / workers for name, (task, workers) in jobs.items()}
    earlier, later = sorted(ends, key=ends.__getitem__)
    end_s, (task, workers) = ends[earlier], jobs[later]
    left_s = (task.work_worker_s - end_s * workers) / task.max_workers
    return Schedule(
        (
            piece(earlier, 0, end_s, jobs[earlier][1]),
            piece(later, 0, end_s, workers),
            piece(later, end_s, end_s + left_s, task.max_workers),
        )
    )


def in_other_units(instance, factor):
    """Return the instance with work and releases times a factor."""
    jobs = tuple(
        replace(each, work_worker_s=each.work_worker_s * factor, release_s=each.release_s * factor)
        for each in instance.jobs
    )
    return replace(instance, jobs=jobs)


def drawn(jobs, seed, *, fit, releases=False, loss=False, wide=False):
    """Return a small random instance.

    Parameters
    ----------
    fit
        Whether all base demands fit together; if not, they are up to four times the cluster.
    wide
        Whether some workers hold two GPUs.
    """
    rng = np.random.default_rng((seed, jobs, fit, releases, loss, wide))
    least = rng.integers(1, 4, jobs)
    most = least + rng.integers(0, 6, jobs)
    work = rng.integers(5, 200, jobs)
    per_worker = rng.choice([1, 1, 2], jobs) if wide else np.ones(jobs, dtype=int)
    base = int((least * per_worker).sum())
    if fit:
        gpus = int(rng.integers(base, max(base + 1, int((most * per_worker).sum()))))
    else:
        gpus = max(int((least * per_worker).max()), int(base / rng.uniform(1.2, 4)))
    latest = int(0.7 * work.sum() / gpus)
    drawn_jobs = (
        job(
            *(f"job-{j}", int(least[j]), int(most[j]), float(work[j])),
            gpus_per_worker=int(per_worker[j]),
            release_s=float(rng.integers(0, latest + 1)) if releases and j else 0.0,
            running=fit and not releases and seed % 2 == 0,
            scaling_loss=float(rng.choice([0, 0.2, 0.5])) if loss else 0.0,
        )
        for j in range(jobs)
    )
    return instance_of(gpus, *drawn_jobs, name=f"drawn-{jobs}-{seed}")
