"""Epochs on small clusters, all of their allocation matrices, and Pollux's own search of them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.simulation.goodput.allocation import PolluxEpoch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lyra_opt.allocation.knapsack.data import FloatArray, IntArray
    from lyra_opt.simulation.goodput.allocation import Row

POPULATION = GENERATIONS = 40
"""Of Pollux each is 100; it finds little more in them."""


def drawn_epoch(
    rng: np.random.Generator, *, jobs: int, servers: int, gpus: int, most: int, concave: bool
) -> PolluxEpoch:
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
    return PolluxEpoch(
        gpus=epoch.gpus,
        gpus_per_worker=width,
        least=least,
        most=most_workers,
        speed_up=speed_up,
        held=drawn_rows(rng, epoch),
        restart_factor=epoch.restart_factor,
    )


def drawn_rows(rng: np.random.Generator, epoch: PolluxEpoch) -> list[dict[int, int]]:
    """Return rows that are possible together."""
    rows: list[dict[int, int]] = [{} for _ in range(epoch.jobs)]
    for job in rng.permutation(epoch.jobs).tolist():
        for row in rng.permutation(np.array(list(rows_of(epoch, job)), dtype=object)).tolist():
            rows[job] = row
            if is_possible(epoch, rows):
                break
            rows[job] = {}
    return rows


def rows_of(epoch: PolluxEpoch, job: int) -> Iterator[dict[int, int]]:
    """Yield all rows of a job that fit when nobody else is there."""
    width = int(epoch.gpus_per_worker[job])
    ranges = [range(gpus // width + 1) for gpus in epoch.gpus.tolist()]
    for counts in itertools.product(*ranges):
        if sum(counts) == 0 or epoch.least[job] <= sum(counts) <= epoch.most[job]:
            yield {server: count for server, count in enumerate(counts) if count}


def is_possible(epoch: PolluxEpoch, rows: Sequence[Row]) -> bool:
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


def fitness_as_written(epoch: PolluxEpoch, rows: Sequence[Row]) -> float:
    """Return the fitness, without the costs of the epoch."""
    terms = [_term(epoch, job, row) ** -1 for job, row in enumerate(rows)]
    return float((sum(terms) / len(terms)) ** -1)


def greatest_fitness(epoch: PolluxEpoch) -> float:
    """Return that of the best of all matrices."""
    rows_of_job = [
        [(row, 1 / _term(epoch, job, row)) for row in rows_of(epoch, job)]
        for job in range(epoch.jobs)
    ]
    free, is_spread = epoch.gpus.tolist(), [False] * len(epoch.gpus)

    def least(job: int) -> float:
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


def _term(epoch: PolluxEpoch, job: int, row: Row) -> float:
    """Return what a job's row counts for, without the costs of the epoch."""
    speed_up = 0.0
    if row:
        speed_up = float(epoch.speed_up[int(len(row) > 1), job, sum(row.values())])
    if row != epoch.held[job]:
        speed_up *= float(epoch.restart_factor[job])
    return speed_up + 0.001


def evolved_fitness(epoch: PolluxEpoch, rng: np.random.Generator) -> float:
    """Return that of the best matrix that a genetic algorithm finds.

    A generation has as many children as parents; the fittest of both survive.

    * Crossover of two parents at one point in the order of the jobs.
    * Mutation: the row of a job goes back to what it has (1 in 10), single entries vanish (in a
      tenth of the rows, 1 in 10), and about one entry of those with room, and one of those that
      have workers already, grow to a number drawn above theirs.
    * Repair: of spread jobs on a server the first one keeps its workers; no job has more than it
      may, its servers taken in an order drawn; and jobs keep theirs while a server has GPUs.

    Source: Pollux (OSDI 2021), section 4.2.1, and its public artifact, for jobs of one GPU a
    worker; there NSGA-II selects, by a second objective beside the fitness.
    """
    assert np.all(epoch.gpus_per_worker == 1)
    base = np.zeros((epoch.jobs, len(epoch.gpus)), np.int64)
    for job, row in enumerate(epoch.held):
        for server, workers in row.items():
            base[job, server] = workers
    people = np.repeat(base[None], POPULATION, axis=0)
    scores = _scores(epoch, people, base)
    for _ in range(GENERATIONS):
        drawn = rng.integers(POPULATION, size=(2, 2, POPULATION))
        mothers, fathers = people[np.where(scores[drawn[0]] >= scores[drawn[1]], *drawn)]
        points = rng.integers(epoch.jobs, size=(POPULATION, 1, 1))
        children = np.where(np.arange(epoch.jobs)[:, None] < points, mothers, fathers)
        children = _repaired(epoch, _mutated(epoch, children, base, rng), rng)
        everyone = np.concatenate((people, children))
        of_all = np.concatenate((scores, _scores(epoch, children, base)))
        kept = np.argsort(-of_all, kind="stable")[:POPULATION]
        people, scores = everyone[kept], of_all[kept]
    return float(scores.max())


def _mutated(
    epoch: PolluxEpoch, people: IntArray, base: IntArray, rng: np.random.Generator
) -> IntArray:
    reset = rng.random(people.shape[:2]) < 0.1
    people = np.where(reset[:, :, None], base, people)
    thinned = np.where(rng.random(people.shape[:2]) < 0.1, 0.1, 0.0)
    people[rng.random(people.shape) < thinned[:, :, None]] = 0
    has_room = np.broadcast_to((epoch.gpus > people.sum(axis=1))[:, None], people.shape)
    chances = [
        mask / np.maximum(mask.sum(axis=1, keepdims=True), 1)
        for mask in (has_room, has_room & (people > 0))
    ]
    grows = rng.random(people.shape) < chances[0] + chances[1] - chances[0] * chances[1]
    most = np.broadcast_to(epoch.gpus, people.shape)
    grown: IntArray = np.where(grows, rng.integers(people, np.maximum(most, people) + 1), people)
    return grown


def _repaired(epoch: PolluxEpoch, people: IntArray, rng: np.random.Generator) -> IntArray:
    is_spread = np.count_nonzero(people, axis=2) > 1
    counted = np.cumsum((people > 0) & is_spread[:, :, None], axis=1)
    people = np.where((people > 0) & is_spread[:, :, None] & (counted > 1), 0, people)
    order = np.argsort(rng.random(people.shape), axis=2)
    taken = np.take_along_axis(people, order, axis=2)
    taken = np.minimum(np.cumsum(taken, axis=2), epoch.most[:, None])
    taken = np.diff(taken, axis=2, prepend=0)
    people = np.take_along_axis(taken, np.argsort(order, axis=2), axis=2)
    people = np.diff(np.minimum(np.cumsum(people, axis=1), epoch.gpus), axis=1, prepend=0)
    people[people.sum(axis=2) < epoch.least] = 0
    return people


def _scores(epoch: PolluxEpoch, people: IntArray, base: IntArray) -> FloatArray:
    place = (np.count_nonzero(people, axis=2) > 1).astype(int)
    speed_up = epoch.speed_up[place, np.arange(epoch.jobs), people.sum(axis=2)]
    speed_up = np.where(people.sum(axis=2) > 0, speed_up, 0.0)
    restarts = np.any(people != base, axis=2)
    speed_up = speed_up * np.where(restarts, epoch.restart_factor, 1.0)
    scores: FloatArray = 1 / np.mean(1 / (speed_up + 0.001), axis=1)
    return scores
