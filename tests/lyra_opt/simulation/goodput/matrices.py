"""Epochs on small clusters, and all of their allocation matrices."""

import itertools
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from lyra_opt.simulation.goodput.allocation import PolluxEpoch

Row = Mapping[int, int]


def drawn_epoch(rng, *, jobs, servers, gpus, most, concave):
    """Return an epoch, of speed-ups without any shape or as those of goodput.

    Parameters
    ----------
    gpus, most
        Most GPUs of a server, and most workers of a job.
    """
    width = rng.choice([1, 1, 1, 2], jobs)
    most_workers = rng.integers(1, most + 1, jobs)
    least = np.where(rng.random(jobs) < 0.25, most_workers, 1)
    if concave:
        workers = np.arange(most + 1)
        near = workers ** rng.uniform(0.4, 1.0, (jobs, 1))
        spread = near * rng.uniform(0.5, 0.95, (jobs, 1))
        speed_up = np.stack((near, spread)) * rng.uniform(0.2, 1.0, (jobs, 1))
    else:
        speed_up = rng.uniform(0.0, 3.0, (2, jobs, most + 1))
    epoch = PolluxEpoch(
        gpus=rng.integers(1, gpus + 1, servers),
        gpus_per_worker=width,
        least=least,
        most=most_workers,
        speed_up=speed_up,
        held=[{}] * jobs,
        restart_factor=rng.choice([0.0, 0.3, 0.9, 0.99], jobs),
    )
    return replace(epoch, held=drawn_rows(rng, epoch))


def drawn_rows(rng, epoch):
    """Return rows that are possible together."""
    rows = [{} for _ in range(epoch.jobs)]
    for job in rng.permutation(epoch.jobs).tolist():
        for row in rng.permutation(np.array(list(rows_of(epoch, job)), dtype=object)).tolist():
            rows[job] = row
            if is_possible(epoch, rows):
                break
            rows[job] = {}
    return rows


def rows_of(epoch, job):
    """Yield all rows of a job that fit when nobody else is there."""
    width = int(epoch.gpus_per_worker[job])
    ranges = [range(gpus // width + 1) for gpus in epoch.gpus.tolist()]
    for counts in itertools.product(*ranges):
        if sum(counts) == 0 or epoch.least[job] <= sum(counts) <= epoch.most[job]:
            yield {server: count for server, count in enumerate(counts) if count}


def is_possible(epoch, rows):
    """Whether rows fit together, with at most one spread job on a server."""
    used = np.zeros(len(epoch.gpus), np.int64)
    spread_on = np.zeros(len(epoch.gpus), np.int64)
    for job, row in enumerate(rows):
        count = sum(row.values())
        if count and not epoch.least[job] <= count <= epoch.most[job]:
            return False
        for server, workers in row.items():
            used[server] += workers * epoch.gpus_per_worker[job]
            spread_on[server] += len(row) > 1
    return bool(np.all(used <= epoch.gpus) and np.all(spread_on <= 1))


def fitness_as_written(epoch, rows):
    """Return the fitness, without the costs of the epoch."""
    terms = [_term(epoch, job, row) ** -1 for job, row in enumerate(rows)]
    return float((sum(terms) / len(terms)) ** -1)


def greatest_fitness(epoch):
    """Return that of the best of all matrices."""
    rows_of_job = [
        [(row, 1 / _term(epoch, job, row)) for row in rows_of(epoch, job)]
        for job in range(epoch.jobs)
    ]
    free, is_spread = epoch.gpus.tolist(), [False] * len(epoch.gpus)

    def least(job):
        """Return the least sum of the jobs from this one on, beside those before."""
        if job == epoch.jobs:
            return 0.0
        best, width = np.inf, int(epoch.gpus_per_worker[job])
        for row, cost in rows_of_job[job]:
            spreads = len(row) > 1
            if any(
                workers * width > free[server] or (spreads and is_spread[server])
                for server, workers in row.items()
            ):
                continue
            for server, workers in row.items():
                free[server] -= workers * width
                is_spread[server] |= spreads
            best = min(best, cost + least(job + 1))
            for server, workers in row.items():
                free[server] += workers * width
                is_spread[server] &= not spreads
        return best

    return epoch.jobs / least(0)


def _term(epoch, job, row):
    """Return what a job's row counts for, without the costs of the epoch."""
    speed_up = 0.0
    if row:
        speed_up = float(epoch.speed_up[int(len(row) > 1), job, sum(row.values())])
    if row != epoch.held[job]:
        speed_up *= float(epoch.restart_factor[job])
    return speed_up + 0.001
