"""Instances that tests of allocation share: examples of the paper, and small random ones."""

from __future__ import annotations

import numpy as np

from lyra_opt.allocation import ElasticJob, Instance, Schedule, SchedulePiece

SHORT = ElasticJob(id="B", min_workers=2, max_workers=6, work_worker_s=120)
LONG = ElasticJob(id="A", min_workers=2, max_workers=6, work_worker_s=300)
NARROW = ElasticJob(id="A", min_workers=2, max_workers=3, work_worker_s=300)

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


def example(job: ElasticJob = LONG, objective: str = "mean_jct", gpus: int = 8) -> Instance:
    """Return Lyra's first example, or its second with `NARROW`."""
    return Instance(name="example", objective=objective, gpus=gpus, jobs=(job, SHORT))


def example_schedule(job: ElasticJob, first: int, second: int) -> Schedule:
    """Return the schedule of a row: when one job ends, the other has all that it can use."""
    jobs = {job.id: (job, first), SHORT.id: (SHORT, second)}
    ends = {name: task.work_worker_s / workers for name, (task, workers) in jobs.items()}
    earlier, later = sorted(ends, key=ends.__getitem__)
    task, workers = jobs[later]
    left = task.work_worker_s - ends[earlier] * workers
    pieces = [
        SchedulePiece(job=earlier, start_s=0, end_s=ends[earlier], workers=jobs[earlier][1]),
        SchedulePiece(job=later, start_s=0, end_s=ends[earlier], workers=workers),
        SchedulePiece(
            job=later,
            start_s=ends[earlier],
            end_s=ends[earlier] + left / task.max_workers,
            workers=task.max_workers,
        ),
    ]
    return Schedule(tuple(pieces))


def elastic_jobs(
    least: np.ndarray, most: np.ndarray, work: np.ndarray, release: np.ndarray
) -> tuple[ElasticJob, ...]:
    """Return jobs by number; each argument has shape (jobs,)."""
    return tuple(
        ElasticJob(
            id=f"{j}",
            min_workers=int(least[j]),
            max_workers=int(most[j]),
            work_worker_s=float(work[j]),
            release_s=float(release[j]),
        )
        for j in range(len(least))
    )


def drawn(
    jobs: int,
    seed: int,
    *,
    fit: bool,
    releases: bool = False,
    loss: bool = False,
    wide: bool = False,
) -> Instance:
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
    return Instance(
        name=f"drawn-{jobs}-{seed}",
        objective="mean_jct",
        gpus=gpus,
        jobs=tuple(
            ElasticJob(
                id=f"job-{j}",
                min_workers=int(least[j]),
                max_workers=int(most[j]),
                work_worker_s=float(work[j]),
                gpus_per_worker=int(per_worker[j]),
                release_s=float(rng.integers(0, latest + 1)) if releases and j else 0.0,
                running=fit and not releases and seed % 2 == 0,
                scaling_loss=float(rng.choice([0, 0.2, 0.5])) if loss else 0.0,
            )
            for j in range(jobs)
        ),
    )
