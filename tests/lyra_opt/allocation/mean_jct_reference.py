"""Mean JCT in the plainest way: every order of events, one dense linear programme each.

Written apart from the package: absolute event times and worker-seconds as variables, no bounds,
no relaxations, SciPy. For up to three jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linprog

from lyra_opt.allocation import ElasticJob, Instance

if TYPE_CHECKING:
    from collections.abc import Iterator

Happening = tuple[str, int]


def orders(instance: Instance, releases: list[float]) -> Iterator[list[Happening]]:
    """Yield every order of starts, completions and releases that can be."""
    jobs = instance.jobs
    everything = [("completes", j) for j in range(len(jobs))]
    everything += [("starts", j) for j, job in enumerate(jobs) if not job.running]
    everything += [("release", k) for k in range(len(releases))]

    def before(event: Happening) -> list[Happening]:
        what, which = event
        if what == "completes":
            return [] if jobs[which].running else [("starts", which)]
        if what == "starts":
            released = jobs[which].release_s
            return [("release", releases.index(released))] if released > 0 else []
        return [("release", which - 1)] if which else []

    def extended(done: list[Happening]) -> Iterator[list[Happening]]:
        if len(done) == len(everything):
            yield done
        for event in everything:
            if event not in done and all(needed in done for needed in before(event)):
                yield from extended([*done, event])

    yield from extended([])


def value_of_order(instance: Instance, order: list[Happening], releases: list[float]) -> float:
    """Return the least sum of completions of an order, infinite if there is none."""
    jobs, intervals = instance.jobs, len(order)
    size = intervals * (1 + len(jobs))
    at_most: list[tuple[np.ndarray, float]] = []
    equal: list[tuple[np.ndarray, float]] = []

    def row(*terms: tuple[int, float]) -> np.ndarray:
        found = np.zeros(size)
        for column, value in terms:
            found[column] += value
        return found

    def work(j: int, k: int) -> int:
        return intervals * (1 + j) + k

    def length(k: int, factor: float) -> list[tuple[int, float]]:
        return [(k, factor)] + ([(k - 1, -factor)] if k else [])

    cost = np.zeros(size)
    for k, (what, which) in enumerate(order):
        at_most.append((row(*length(k, -1.0)), 0.0))
        held = [(work(j, k), float(job.gpus_per_worker)) for j, job in enumerate(jobs)]
        at_most.append((row(*held, *length(k, -float(instance.gpus))), 0.0))
        if what == "release":
            equal.append((row((k, 1.0)), releases[which]))
    for j, job in enumerate(jobs):
        ends = order.index(("completes", j))
        begins = -1 if job.running else order.index(("starts", j))
        cost[ends] += 1
        gain = 1 - job.scaling_loss
        done: list[tuple[int, float]] = []
        for k in range(intervals):
            if not begins < k <= ends:
                equal.append((row((work(j, k), 1.0)), 0.0))
                continue
            at_most.append((row((work(j, k), -1.0), *length(k, job.min_workers)), 0.0))
            at_most.append((row((work(j, k), 1.0), *length(k, -job.max_workers)), 0.0))
            done += [(work(j, k), gain), *length(k, job.min_workers * (1 - gain))]
        equal.append((row(*done), job.work_worker_s))
    answer = linprog(
        cost,
        A_ub=np.array([left for left, _ in at_most]),
        b_ub=[right for _, right in at_most],
        A_eq=np.array([left for left, _ in equal]),
        b_eq=[right for _, right in equal],
        method="highs",
    )
    return float(answer.fun) if answer.status == 0 else float("inf")


def optimum(instance: Instance) -> float:
    """Return the least mean JCT."""
    releases = sorted({job.release_s for job in instance.jobs if job.release_s > 0})
    best = min(value_of_order(instance, order, releases) for order in orders(instance, releases))
    return (best - sum(job.release_s for job in instance.jobs)) / len(instance.jobs)


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
