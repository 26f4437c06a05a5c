"""A second, naive implementation of replays with parts of GPUs, and the best placement of a batch.

It keeps the free thousandths of every GPU in lists, recomputes everything at every step, takes the
fragmentation of a host from its definition, and shares no code with the simulation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

WHOLE = 1000


@dataclass
class Work:
    """A job of `workers` workers with `gpus` GPUs each, or of one slice, and what becomes of it.

    ``on`` lists (host, GPU, thousandths) while it runs.
    """

    order: int
    submit_s: int
    duration_s: int
    workers: int = 1
    gpus: int = 1
    part: int | None = None
    on: list[tuple[int, int, int]] = field(default_factory=list)
    ends_s: int | None = None
    completed_s: int | None = None

    @property
    def kind(self) -> tuple[int, int, int | None]:
        """Jobs of one kind need the same."""
        return self.workers, self.gpus, self.part


@dataclass
class Replay:
    """A cluster whose hosts have ``sizes`` GPUs; ``queue`` is an order, ``rule`` a placement."""

    sizes: Sequence[int]
    jobs: Sequence[Work]
    queue: str
    rule: str
    now_s: int = 0
    useless_gpu_s: int = 0
    opened_free_gpu_s: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        """All GPUs are free."""
        self.free = [[WHOLE] * size for size in self.sizes]
        self.opened: list[list[int]] = [[] for _ in self.sizes]

    def run(self) -> None:
        """Replay all jobs to their end."""
        self.now_s = self.jobs[0].submit_s
        while True:
            for job in self.jobs:
                if job.ends_s == self.now_s:
                    job.completed_s, job.ends_s = self.now_s, None
                    for host, gpu, part in job.on:
                        self.free[host][gpu] += part
                        if self.free[host][gpu] == WHOLE and part < WHOLE:
                            self.opened[host].remove(gpu)
            self._decide()
            if all(job.completed_s is not None for job in self.jobs):
                return
            later = [job.ends_s for job in self.jobs if job.ends_s is not None]
            later += [job.submit_s for job in self.jobs if job.submit_s > self.now_s]
            self._count(min(later) - self.now_s)
            self.now_s = min(later)

    def _waiting(self) -> list[Work]:
        return [
            job
            for job in self.jobs
            if job.submit_s <= self.now_s and job.ends_s is None and job.completed_s is None
        ]

    def _count(self, elapsed_s: int) -> None:
        waiting = self._waiting()
        divided = [free for gpus in self.free for free in gpus if 0 < free < WHOLE]
        self.opened_free_gpu_s += Fraction(sum(divided) * elapsed_s, WHOLE)
        if waiting:
            asked = [job.part for job in waiting if job.part is not None]
            self.useless_gpu_s += elapsed_s * sum(
                not any(part <= free for part in asked) for free in divided
            )

    def _decide(self) -> None:
        blocked: set[Any] = set()
        ordered = sorted(self._waiting(), key=lambda job: job.order)
        if self.queue == "shortest":
            ordered.sort(key=lambda job: job.duration_s)
        for job in ordered:
            if blocked and (self.queue == "first-come" or job.kind in blocked):
                continue
            if self._start(job):
                job.ends_s = self.now_s + job.duration_s
            else:
                blocked.add(job.kind)

    def _start(self, job: Work) -> bool:
        before = [list(gpus) for gpus in self.free]
        job.on = []
        for _ in range(job.workers):
            placed = self._place(job)
            if placed is None:
                self.free = before
                return False
            job.on += placed
        return True

    def _place(self, job: Work) -> list[tuple[int, int, int]] | None:
        """Take GPUs for one worker: of all choices, the one that the rule ranks first."""
        choices = []
        for host, gpus in enumerate(self.free):
            for place, taken in enumerate(self._choices_on(host, job)):
                after = list(gpus)
                for gpu, part in taken:
                    after[gpu] -= part
                rank = self._rank(gpus, after, taken)
                choices.append(((rank[0], host, rank[1], place), host, taken))
        if not choices:
            return None
        _, host, taken = min(choices)
        for gpu, part in taken:
            if part < WHOLE and gpu not in self.opened[host]:
                self.opened[host].append(gpu)
            self.free[host][gpu] -= part
        return [(host, gpu, part) for gpu, part in taken]

    def _choices_on(self, host: int, job: Work) -> Iterator[list[tuple[int, int]]]:
        """Yield where a worker fits a host: on GPUs as they were opened, then on a whole one."""
        gpus = self.free[host]
        whole = [gpu for gpu, free in enumerate(gpus) if free == WHOLE]
        if job.part is None:
            if len(whole) >= job.gpus:
                yield [(gpu, WHOLE) for gpu in whole[: job.gpus]]
            return
        for gpu in self.opened[host]:
            if job.part <= gpus[gpu]:
                yield [(gpu, job.part)]
        if whole:
            yield [(whole[0], job.part)]

    def _rank(
        self, before: Sequence[int], after: Sequence[int], taken: Sequence[tuple[int, int]]
    ) -> tuple[int, int]:
        """Return how the rule ranks the host, and the GPU on it."""
        free = before[taken[0][0]]
        if self.rule == "best-fit":
            return sum(before), free
        if self.rule == "spread":
            return -sum(before), -free
        if self.rule == "first-fit":
            return 0, 0
        grown = self._fragmentation(after) - self._fragmentation(before)
        return grown, grown

    def _fragmentation(self, gpus: Sequence[int]) -> int:
        """Return the free thousandths that workers cannot use, summed over all workers."""
        found = 0
        for job in self.jobs:
            count, part = (job.gpus, WHOLE) if job.part is None else (1, job.part)
            fits = sum(free >= part for free in gpus) >= count
            cannot = [free for free in gpus if free < part or not fits]
            found += job.workers * sum(cannot)
        return found


def most_placed(gpus: Sequence[Sequence[int]], asked: Sequence[tuple[int, int]]) -> int:
    """Return the most thousandths of the jobs asked for that fit at once, by trying everything.

    ``gpus`` are the free thousandths of each GPU by host; a job asks for (whole GPUs, 0) on one
    host or for (0, thousandths) of one GPU.
    """
    if not asked:
        return 0
    (count, part), *others = asked
    best = most_placed(gpus, others)
    for host, free in enumerate(gpus):
        if count:
            whole = [gpu for gpu, each in enumerate(free) if each == WHOLE][:count]
            choices = [whole] if len(whole) == count else []
        else:
            choices = [[gpu] for gpu, each in enumerate(free) if each >= part]
        for chosen in choices:
            after = [list(each) for each in gpus]
            for gpu in chosen:
                after[host][gpu] -= WHOLE if count else part
            best = max(best, (count * WHOLE or part) + most_placed(after, others))
    return best
