"""Pollux's own search, a genetic algorithm: the exact one is held against it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from lyra_opt.allocation.knapsack.data import FloatArray, IntArray
    from lyra_opt.simulation.goodput.pollux import PolluxEpoch

POPULATION = 100
GENERATIONS = 250
"""Lyra (EuroSys 2023), section 7.1, found Pollux's preset of 100 too few."""

RESET_SHARE = 0.1
REDUCE_SHARE = 0.01
GROWTHS = 2.0


def evolve(
    epoch: PolluxEpoch,
    rng: np.random.Generator,
    *,
    population: int = POPULATION,
    generations: int = GENERATIONS,
) -> IntArray:
    """Return the fittest allocation that the genetic algorithm finds.

    A generation has as many children as parents; the fittest of both, without twins, survive.

    * Parents: the fitter of two drawn ones.
    * Crossover: at one point in the order of the jobs.
    * Mutation, for each job: it goes back to what it has at present (1 in 10) or to a lower
      number of workers (1 in 100); about two jobs of a child grow to a number drawn above theirs.
    * Repair: jobs in an order drawn for each child keep their workers while GPUs last.

    Parameters
    ----------
    epoch
        The jobs.
    rng
        For all draws.
    population, generations
        At least 2, and at least 0.

    Notes
    -----
    Source: Pollux (OSDI 2021), section 4.2.1, and the policy of its artifact, whose individuals
    place workers on servers; here they count them. There, repair keeps one order of the jobs.
    Complexity O(generations * population * (jobs + log population)). Guarantee: never less fit
    than the present allocation where that fits.
    """
    jobs = epoch.jobs
    if not jobs:
        return np.zeros(0, dtype=np.int64)
    people = _repair(epoch, np.repeat(epoch.current[None, :], population, axis=0), rng)
    fitness = _fitness(epoch, people)
    for _ in range(generations):
        drawn = rng.integers(population, size=(2, population))
        parents = people[np.where(fitness[drawn[0]] >= fitness[drawn[1]], *drawn)]
        points = rng.integers(jobs, size=(population, 1))
        children = np.where(np.arange(jobs) < points, parents, np.roll(parents, 1, axis=0))
        children = _repair(epoch, _mutate(epoch, children, rng), rng)
        everyone = np.concatenate((people, children))
        scores = np.concatenate((fitness, _fitness(epoch, children)))
        survivors = _fittest(everyone, scores, population)
        people, fitness = everyone[survivors], scores[survivors]
    best: IntArray = people[int(np.argmax(fitness))]
    return best


def _fitness(epoch: PolluxEpoch, people: IntArray) -> FloatArray:
    """Return the fitness of individuals, shape (population,)."""
    fitness: FloatArray = epoch.jobs / epoch.cost[epoch.start[:-1] + people].sum(axis=1)
    return fitness


def _mutate(epoch: PolluxEpoch, people: IntArray, rng: np.random.Generator) -> IntArray:
    """Return children with changes."""
    shape = people.shape
    people = np.where(rng.random(shape) < RESET_SHARE, epoch.current, people)
    people = np.where(rng.random(shape) < REDUCE_SHARE, rng.integers(0, people + 1), people)
    grows = rng.random(shape) < min(0.5, GROWTHS / epoch.jobs)
    grown: IntArray = np.where(grows, rng.integers(people, epoch.most + 1), people)
    return grown


def _repair(epoch: PolluxEpoch, people: IntArray, rng: np.random.Generator) -> IntArray:
    """Return individuals that fit."""
    order = np.argsort(rng.random(people.shape), axis=1)
    size = epoch.gpus_per_worker[order]
    asked = np.take_along_axis(people, order, axis=1) * size
    given = np.diff(np.minimum(np.cumsum(asked, axis=1), epoch.gpus), axis=1, prepend=0)
    repaired = np.empty_like(people)
    np.put_along_axis(repaired, order, given // size, axis=1)
    return repaired


def _fittest(everyone: IntArray, scores: FloatArray, population: int) -> IntArray:
    """Return the positions of the fittest, twins only where there are not enough others."""
    _, first = np.unique(everyone, axis=0, return_index=True)
    is_twin = np.ones(len(everyone), dtype=np.bool_)
    is_twin[first] = False
    order: IntArray = np.lexsort((-scores, is_twin))[:population]
    return order
