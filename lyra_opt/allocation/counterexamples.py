"""The small allocation instances among which `lyra_opt.testing.counterexamples` searches."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations, combinations_with_replacement, product
from typing import TYPE_CHECKING

from lyra_opt.allocation.instance import AllocationInstance, ElasticJob, Objective
from lyra_opt.allocation.problem import PROBLEM
from lyra_opt.core.errors import FieldError
from lyra_opt.core.validation import require_choice, require_integer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np

LEAST_JOBS = 2
MOST_JOBS = 16
MOST_GPUS = 64
MOST_WORK = 1_000_000
"""In worker-seconds; and in seconds, the latest release."""

DEFAULT_MAX_JOBS = 4
DEFAULT_MAX_GPUS = 6
DEFAULT_MAX_WORK = 24
DEFAULT_MAX_RELEASE = 8

LARGEST_PLAIN_WORK = 3
MOST_GPUS_PER_WORKER = 3
DRAWN_WORKS = (3, 6, MOST_WORK)
"""Most work of the jobs of one drawn instance, in worker-seconds: like jobs are hard to rank."""

SCALING_LOSSES = (10, 20, 50, 100)
"""In percent; those that drawn jobs have."""


@dataclass(frozen=True, slots=True)
class JobSketch:
    """A job without its name: work in worker-seconds, release in seconds, loss in percent."""

    min_workers: int
    max_workers: int
    work: int
    gpus_per_worker: int = 1
    release: int = 0
    running: bool = False
    scaling_loss: int = 0

    @property
    def min_gpus(self) -> int:
        """GPUs of the base demand."""
        return self.min_workers * self.gpus_per_worker


@dataclass(frozen=True, slots=True)
class AllocationSketch:
    """An allocation instance without names."""

    gpus: int
    jobs: tuple[JobSketch, ...]


class AllocationSpace:
    """Small allocation instances; implements `lyra_opt.testing.counterexamples.InstanceSpace`.

    An instance is smaller than another if it has fewer jobs, or as many and fewer GPUs, then
    fewer workers (of all w_max together), smaller base demands, less work, earlier releases,
    fewer running jobs, fewer GPUs that jobs can use, less scaling loss. An instance has at least
    two jobs, for one alone shares with nobody, and no job can use more GPUs than there are; of
    `jct_reduction`, no more beyond its base demand, which is at most as large.

    In *plain* instances a worker holds one GPU, work is 1 to 3 worker-seconds, and there are no
    releases, running jobs or scaling losses. All base demands and most workers are among them; of
    instances that differ in the order of their jobs one is. Drawn instances may have more work,
    more GPUs a worker, scaling losses and, where these play a part, releases (`mean_jct`) and
    running jobs (all but `jct_reduction`).

    Parameters
    ----------
    objective
        Of all instances.
    max_jobs, max_gpus
        Up to 16 and 64.
    max_work
        Most work of a job in worker-seconds, up to 1,000,000.
    max_release
        Latest release in seconds; 0 is none. With releases no rule that learns of a job only
        when it is released keeps up with an optimum that knows of it before.

    Raises
    ------
    FieldError
        If a parameter is out of its range.
    """

    problem = PROBLEM
    size_names = ("jobs", "gpus")

    def __init__(
        self,
        objective: Objective | str = Objective.MEAN_JCT,
        *,
        max_jobs: int = DEFAULT_MAX_JOBS,
        max_gpus: int = DEFAULT_MAX_GPUS,
        max_work: int = DEFAULT_MAX_WORK,
        max_release: int = DEFAULT_MAX_RELEASE,
    ) -> None:
        self._objective = Objective(
            require_choice("objective", objective, list(map(str, Objective)))
        )
        self._max_jobs = _in_range("max_jobs", max_jobs, 1, MOST_JOBS)
        self._max_gpus = _in_range("max_gpus", max_gpus, 1, MOST_GPUS)
        self._max_work = _in_range("max_work", max_work, 1, MOST_WORK)
        self._max_release = _in_range("max_release", max_release, 0, MOST_WORK)
        self._plain_works = range(1, min(LARGEST_PLAIN_WORK, max_work) + 1)
        self._reduces = self._objective is Objective.JCT_REDUCTION
        self._is_scheduled = self._objective is Objective.MEAN_JCT
        self._has_releases = self._is_scheduled and max_release > 0

    @property
    def variant(self) -> str:
        """The objective."""
        return str(self._objective)

    @property
    def prover(self) -> str:
        """The exact solver of the objective."""
        return "exact" if self._is_scheduled else "mckp-core"

    @property
    def plain(self) -> str:
        """Which instances are plain."""
        largest = self._plain_works[-1]
        ranges = "w_min and extra workers" if self._reduces else "w_min and w_max"
        return (
            f"one GPU a worker, {ranges} up to the GPUs, "
            f"work {'1' if largest == 1 else f'1 to {largest}'}, "
            "no releases, running jobs or scaling losses, jobs in one order"
        )

    @property
    def extent(self) -> str:
        """The most jobs and GPUs."""
        return f"{_count(self._max_jobs, 'job')} and {_count(self._max_gpus, 'GPU')}"

    def sizes(self) -> Iterator[tuple[int, int]]:
        """Yield the numbers of jobs and GPUs."""
        yield from product(range(LEAST_JOBS, self._max_jobs + 1), range(1, self._max_gpus + 1))

    def count_plain(self, size: tuple[int, ...]) -> int:
        """Return how many plain instances have that many jobs and GPUs."""
        jobs, gpus = size
        ranges = gpus * (gpus + 1) if self._reduces else gpus * (gpus + 1) // 2
        return math.comb(ranges * len(self._plain_works) + jobs - 1, jobs)

    def plain_of(self, size: tuple[int, ...]) -> list[AllocationSketch]:
        """Return all plain instances of that many jobs and GPUs, the smallest first."""
        jobs, gpus = size
        kinds = [
            JobSketch(min_workers, max_workers, work)
            for min_workers in range(1, gpus + 1)
            for max_workers in range(min_workers, self._most_workers(min_workers, 1, gpus) + 1)
            for work in self._plain_works
        ]
        found = [
            AllocationSketch(gpus, chosen) for chosen in combinations_with_replacement(kinds, jobs)
        ]
        return sorted(found, key=self._order)

    def draw(self, size: tuple[int, ...], rng: np.random.Generator) -> AllocationSketch:
        """Return an instance at random, with few peculiarities at once."""
        jobs, gpus = size
        style = self._style(rng)
        drawn = tuple(style.draw(gpus, rng) for _ in range(jobs))
        return self._mended(AllocationSketch(gpus, drawn))

    def vary(
        self, sketch: AllocationSketch, size: tuple[int, ...], rng: np.random.Generator
    ) -> AllocationSketch:
        """Return an instance of `size` with one to three random changes to `sketch`."""
        jobs, gpus = size
        kept = list(sketch.jobs)
        while len(kept) > jobs:
            del kept[int(rng.integers(len(kept)))]
        style = self._style(rng)
        while len(kept) < jobs:
            kept.insert(int(rng.integers(len(kept) + 1)), style.draw(gpus, rng))
        sketch = AllocationSketch(gpus, tuple(kept))
        for _ in range(int(rng.integers(1, 4))):
            sketch = self._changed(sketch, rng)
        return self._mended(sketch)

    def reductions(self, sketch: AllocationSketch) -> Iterator[AllocationSketch]:
        """Yield what is left without a job, a GPU, workers, work or a peculiarity."""
        order = self._order(sketch)
        seen = set()
        for smaller in self._candidates(sketch):
            mended = self._mended(smaller)
            if mended not in seen and self._order(mended) < order:
                seen.add(mended)
                yield mended

    def measures(self, sketch: AllocationSketch) -> Mapping[str, int]:
        """Return what is counted, most important first."""
        jobs = sketch.jobs
        return {
            "jobs": len(jobs),
            "gpus": sketch.gpus,
            "workers": sum(job.max_workers for job in jobs),
            "base_workers": sum(job.min_workers for job in jobs),
            "work_worker_s": sum(job.work for job in jobs),
            "release_s": sum(job.release for job in jobs),
            "running_jobs": sum(job.running for job in jobs),
            "usable_gpus": sum(job.max_workers * job.gpus_per_worker for job in jobs),
            "scaling_loss_percent": sum(job.scaling_loss for job in jobs),
        }

    def instance(self, sketch: AllocationSketch, name: str) -> AllocationInstance:
        """Return the instance, with jobs j1, j2, ..."""
        return AllocationInstance(
            name=name,
            objective=self._objective,
            gpus=sketch.gpus,
            jobs=tuple(
                ElasticJob(
                    id=f"j{number}",
                    min_workers=job.min_workers,
                    max_workers=job.max_workers,
                    work_worker_s=job.work,
                    gpus_per_worker=job.gpus_per_worker,
                    release_s=job.release,
                    running=job.running,
                    scaling_loss=job.scaling_loss / 100,
                )
                for number, job in enumerate(sketch.jobs, start=1)
            ),
        )

    def _order(self, sketch: AllocationSketch) -> tuple[int, ...]:
        return tuple(self.measures(sketch).values())

    def _most_workers(self, min_workers: int, gpus_per_worker: int, gpus: int) -> int:
        """Return the largest w_max that makes a difference."""
        return (min_workers if self._reduces else 0) + gpus // gpus_per_worker

    def _mended(self, sketch: AllocationSketch) -> AllocationSketch:
        """Return `sketch` with each job within the GPUs, and without what plays no part."""
        held = 0
        jobs = []
        first_release = min(job.release for job in sketch.jobs)
        for job in sketch.jobs:
            gpus_per_worker = min(job.gpus_per_worker, sketch.gpus)
            min_workers = min(job.min_workers, sketch.gpus // gpus_per_worker)
            most = self._most_workers(min_workers, gpus_per_worker, sketch.gpus)
            max_workers = max(min_workers, min(job.max_workers, most))
            running = job.running and not self._reduces
            if running and held + min_workers * gpus_per_worker > sketch.gpus:
                running = False
            if running:
                held += min_workers * gpus_per_worker
            releases = self._has_releases and not running
            jobs.append(
                JobSketch(
                    min_workers,
                    max_workers,
                    job.work,
                    gpus_per_worker,
                    job.release - first_release if releases else 0,
                    running,
                    job.scaling_loss if max_workers > min_workers else 0,
                )
            )
        return AllocationSketch(sketch.gpus, tuple(jobs))

    def _style(self, rng: np.random.Generator) -> _JobStyle:
        """Return one style for all jobs: what makes an instance hard is rarely mixed."""
        return _JobStyle(
            max_work=min(DRAWN_WORKS[int(rng.integers(len(DRAWN_WORKS)))], self._max_work),
            max_release=self._max_release if self._has_releases and rng.integers(2) else 0,
            has_small_bases=bool(rng.integers(4)),
            has_running=not self._reduces and bool(rng.integers(3) == 0),
            # With one GPU size for all workers knapsacks are easy.
            has_wide_workers=bool(rng.integers(2 if self._is_scheduled else 8)),
            has_losses=bool(rng.integers(3) == 0),
            reduces=self._reduces,
        )

    def _changed(self, sketch: AllocationSketch, rng: np.random.Generator) -> AllocationSketch:
        """Return `sketch` with one thing changed at random, to be mended."""
        jobs = sketch.jobs
        number = int(rng.integers(len(jobs)))
        job = jobs[number]
        step = (-1, 1)[int(rng.integers(2))]
        kind = int(rng.integers(8))
        if kind == 0:
            return _with_job(sketch, number, self._style(rng).draw(sketch.gpus, rng))
        if kind == 1:  # ties go in file order
            other = int(rng.integers(len(jobs)))
            return _with_job(_with_job(sketch, number, jobs[other]), other, job)
        if kind == 2:
            return _with_job(sketch, number, replace(job, max_workers=job.max_workers + 1))
        if kind == 3:
            most = max(job.min_workers, job.max_workers - 1)
            return _with_job(sketch, number, replace(job, max_workers=most))
        if kind == 4:
            least = min(max(1, job.min_workers + step), job.max_workers)
            return _with_job(sketch, number, replace(job, min_workers=least))
        if kind == 5 and self._has_releases:
            release = min(max(0, job.release + step), self._max_release)
            return _with_job(sketch, number, replace(job, release=release))
        if kind == 6:
            loss = (0, *SCALING_LOSSES)[int(rng.integers(len(SCALING_LOSSES) + 1))]
            return _with_job(sketch, number, replace(job, scaling_loss=loss))
        work = (max(1, job.work + step), job.work * 2, (job.work + 1) // 2)[int(rng.integers(3))]
        return _with_job(sketch, number, replace(job, work=min(work, self._max_work)))

    def _candidates(self, sketch: AllocationSketch) -> Iterator[AllocationSketch]:
        """Yield reductions, to be mended; some are not smaller."""
        jobs = sketch.jobs
        if len(jobs) > LEAST_JOBS:
            for number in range(len(jobs)):
                yield replace(sketch, jobs=jobs[:number] + jobs[number + 1 :])
        if sketch.gpus > 1:
            yield replace(sketch, gpus=sketch.gpus - 1)
            for narrower in _each(sketch, _narrower):
                yield replace(narrower, gpus=sketch.gpus - 1)
        yield from _each(sketch, _narrower)
        divisor = math.gcd(*(job.work for job in jobs), *(job.release for job in jobs))
        yield _all(
            sketch,
            lambda job: replace(job, work=job.work // divisor, release=job.release // divisor),
        )
        yield _all(sketch, lambda job: replace(job, work=(job.work + 1) // 2))
        yield _all(
            sketch,
            lambda job: replace(job, work=(job.work + 1) // 2, release=job.release // 2),
        )
        yield _all(sketch, _lighter)
        yield _all(sketch, lambda job: _earlier(_lighter(job)))
        for first, second in combinations(range(len(jobs)), 2):
            lighter = _with_job(sketch, first, _lighter(jobs[first]))
            yield _with_job(lighter, second, _lighter(jobs[second]))
        for first, second in product(range(len(jobs)), repeat=2):
            lighter = _with_job(sketch, first, _lighter(jobs[first]))
            yield _with_job(lighter, second, _earlier(lighter.jobs[second]))
        yield from _each(sketch, _less_work)
        yield from _each(sketch, _less_peculiar)
        yield _all(sketch, _earlier)


@dataclass(frozen=True, slots=True, kw_only=True)
class _JobStyle:
    """How the jobs of one drawn instance look."""

    max_work: int
    max_release: int
    has_small_bases: bool
    has_running: bool
    has_wide_workers: bool
    has_losses: bool
    reduces: bool

    def draw(self, gpus: int, rng: np.random.Generator) -> JobSketch:
        """Return a job at random, to be mended."""
        widest = min(MOST_GPUS_PER_WORKER, gpus) if self.has_wide_workers else 1
        gpus_per_worker = int(rng.integers(1, widest + 1))
        most = gpus // gpus_per_worker
        min_workers = 1 if self.has_small_bases else int(rng.integers(1, most + 1))
        most += min_workers if self.reduces else 0
        running = self.has_running and bool(rng.integers(2))
        releases = self.max_release > 0 and not running and bool(rng.integers(2))
        return JobSketch(
            min_workers,
            int(rng.integers(min_workers, most + 1)),
            int(rng.integers(1, self.max_work + 1)),
            gpus_per_worker,
            int(rng.integers(1, self.max_release + 1)) if releases else 0,
            running,
            SCALING_LOSSES[int(rng.integers(len(SCALING_LOSSES)))] if self.has_losses else 0,
        )


def _with_job(sketch: AllocationSketch, number: int, job: JobSketch) -> AllocationSketch:
    return replace(sketch, jobs=(*sketch.jobs[:number], job, *sketch.jobs[number + 1 :]))


def _each(
    sketch: AllocationSketch, changes: Callable[[JobSketch], Sequence[JobSketch]]
) -> Iterator[AllocationSketch]:
    """Yield `sketch` with each change of each job."""
    for number, job in enumerate(sketch.jobs):
        for changed in changes(job):
            yield _with_job(sketch, number, changed)


def _all(sketch: AllocationSketch, change: Callable[[JobSketch], JobSketch]) -> AllocationSketch:
    return replace(sketch, jobs=tuple(map(change, sketch.jobs)))


def _narrower(job: JobSketch) -> list[JobSketch]:
    """Return `job` with fewer workers."""
    least, most = job.min_workers, job.max_workers
    ranges = [
        *((1, fewer) for fewer in range(1, most)),
        *((least, fewer) for fewer in range(least, most)),
        (least - 1, most - 1),
        (1, most),
        (least - 1, most),
    ]
    return [
        replace(job, min_workers=fewest, max_workers=fewer)
        for fewest, fewer in ranges
        if 1 <= fewest <= fewer
    ]


def _less_work(job: JobSketch) -> list[JobSketch]:
    """Return `job` with half the work or less first."""
    found = []
    step = job.work - 1
    while step:
        found.append(replace(job, work=job.work - step))
        step //= 2
    return found


def _less_peculiar(job: JobSketch) -> list[JobSketch]:
    """Return `job` with an earlier release, not running, with fewer GPUs or a smaller loss."""
    found = [replace(job, release=job.release // 2**halvings) for halvings in (20, 2, 1)]
    found.append(_earlier(job))
    found.append(replace(job, running=False))
    found += [replace(job, gpus_per_worker=gpus) for gpus in range(1, job.gpus_per_worker)]
    found += [
        replace(job, scaling_loss=loss) for loss in (0, *SCALING_LOSSES) if loss < job.scaling_loss
    ]
    return found


def _lighter(job: JobSketch) -> JobSketch:
    return replace(job, work=max(1, job.work - 1))


def _earlier(job: JobSketch) -> JobSketch:
    return replace(job, release=max(0, job.release - 1))


def _in_range(field: str, value: int, least: int, most: int) -> int:
    if require_integer(field, value, minimum=least) > most:
        raise FieldError(field, value, f"must be at most {most}")
    return value


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
