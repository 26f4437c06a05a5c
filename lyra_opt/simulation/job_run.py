"""The state of a job in a simulation, from submission to completion, and the totals of all."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from operator import neg
from typing import TYPE_CHECKING, NamedTuple

from lyra_opt.network.links import Tier

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lyra_opt.simulation.workload import Job


NEVER = -1.0

TIME_TOLERANCE = 1e-9
"""Part of a time by which the sum of rounded ones may be off."""


class Part:
    """What a running job holds in one pool.

    Parameters
    ----------
    pool
        Number of the pool.
    gpus
        Where its workers of the base demand are, GPUs by host.
    base, held
        How many workers these are, counted as on reference GPUs, and how many GPUs.
    worker_speed
        What a worker does there beside one on reference GPUs, the `replicas` that make one up
        taken together.
    copy
        Which copy of the job it belongs to; jobs without copies have number 0 alone.

    Attributes
    ----------
    flexible
        Workers beyond the base demand.
    gpus
        GPUs by host: those of the base demand, and those beyond it.
    held
        GPUs of both groups.
    """

    __slots__ = ("base", "copy", "flexible", "gpus", "held", "pool", "worker_speed")

    def __init__(
        self,
        pool: int,
        gpus: dict[int, int],
        base: int = 0,
        held: int = 0,
        worker_speed: float = 1.0,
        copy: int = 0,
    ) -> None:
        self.pool = pool
        self.gpus: tuple[dict[int, int], dict[int, int]] = (gpus, {})
        self.base = base
        self.flexible = 0
        self.held = held
        self.worker_speed = worker_speed
        self.copy = copy

    @property
    def workers(self) -> int:
        """Workers of both groups."""
        return self.base + self.flexible

    def by_host(self) -> dict[int, int]:
        """Return the GPUs of both groups by host."""
        base, flexible = self.gpus
        return added(self.gpus) if flexible else base


def added(several: Iterable[dict[int, int]]) -> dict[int, int]:
    """Return the sum of GPUs by host."""
    found: dict[int, int] = {}
    for gpus in several:
        for host, count in gpus.items():
            found[host] = found.get(host, 0) + count
    return found


# Of all jobs where racks do not matter; where they do, each gets lists of its own.
_NO_TIERS, _NO_GPU_S = [0] * len(Tier), [0.0] * len(Tier)


@dataclass(slots=True, eq=False)
class JobRun:
    """A job with its state; times are NEVER while they are not known.

    Parameters
    ----------
    job
        As submitted.
    order
        Its place in the workload, by which ties are broken.
    work
        All of its work, in the unit of the model of speed.
    best_rates
        The best that it can have in this simulation.

    Attributes
    ----------
    left, rest, lost_work
        What is left of its work, what was left by rounding when it completed, and what it did and
        lost, in that unit.
    rate
        Work a second where it runs.
    tier, efficiency
        What it spans, and the share of its speed that this leaves it; of the last place it had.
    parts
        What it holds; empty while it waits.
    copies
        How its copies work together; None where there is but one.
    beside
        Who holds the same GPUs and runs there at the same time; None where nobody does.
    workers, held_gpus
        Counted as on reference GPUs, of one copy; and GPUs of whatever kind, of all copies.
    updated_s, began_s, pauses_until_s, lease_ends_s
        When it was accounted for last, when it got its GPUs, from when on it works there, and until
        when it may.
    completes, version
        Whether it completes when its hold ends, and by what an event knows that it still does.
    waiting_since_s, resumes_by_s
        NEVER while it runs; and until when a start is no preemption.
    queued_s
        The sum of all waits.
    running_s, paused_s, restarting_s
        Seconds in which it ran, and held GPUs without running, after a start or a move; and the
        latter as they were to be.
    rated_s
        `running_s` when its rate was set.
    fewer_workers_s, slower_type_s, slower_placement_s
        Seconds that it lost in `running_s` by running below its best rate, up to when its rate was
        set: with fewer workers or copies than most; by the types of its GPUs; and by where they
        are. See `lyra_opt.simulation.least_run`.
    idle_copies_s
        Seconds in `running_s` in which its copies did nothing, less those in `paused_s` in which
        one of them worked.
    held_gpu_s, paused_gpu_s, distance_gpu_s
        GPU-seconds in which it held GPUs, those of pauses, and those lost to distance; half of them
        while another one holds them too.
    cost
        What the GPUs that it held cost, by the prices of their types; 0 where none has any.
    allocations
        How often it got GPUs.
    losses
        How often its tenure ended, or it was stopped, before it was complete.
    preemptions
        How often it was stopped, or did not go on as soon as the GPUs of its ended tenure were
        free.
    restarts
        How often it began again, at once elsewhere or after it was stopped; first starts, and
        starts after a lease, left out.
    migrations
        How often it got GPUs on other hosts, or other numbers of them, than the last time.
    ran_on_loan
        Whether it ever held GPUs of borrowed servers.
    most_racks, most_copies
        Racks that it has spanned, and copies that it has had, at once.
    allocations_by_tier, gpu_s_by_tier
        `allocations` and `held_gpu_s` by `Tier`, where racks matter.
    last_gpus, kept_gpus
        What it got the last time where racks matter, and `gpus` once it was asked for.
    """

    job: Job
    order: int
    work: float
    best_rates: JobRates
    left: float = 0.0
    rest: float = 0.0
    lost_work: float = 0.0
    rate: float = 0.0
    tier: Tier = Tier.MACHINE
    efficiency: float = 1.0
    parts: list[Part] = field(default_factory=list)
    copies: Copies | None = None
    beside: JobRun | None = None
    workers: int = 0
    held_gpus: int = 0
    updated_s: float = NEVER
    began_s: float = NEVER
    pauses_until_s: float = NEVER
    lease_ends_s: float = NEVER
    completes: bool = False
    version: int = 0
    waiting_since_s: float = NEVER
    resumes_by_s: float = math.inf
    start_s: float = NEVER
    completion_s: float = NEVER
    queued_s: float = 0.0
    running_s: float = 0.0
    paused_s: float = 0.0
    restarting_s: float = 0.0
    rated_s: float = 0.0
    fewer_workers_s: float = 0.0
    slower_type_s: float = 0.0
    slower_placement_s: float = 0.0
    idle_copies_s: float = 0.0
    held_gpu_s: float = 0.0
    paused_gpu_s: float = 0.0
    distance_gpu_s: float = 0.0
    cost: float = 0.0
    allocations: int = 0
    losses: int = 0
    preemptions: int = 0
    restarts: int = 0
    migrations: int = 0
    ran_on_loan: bool = False
    most_racks: int = 0
    most_copies: int = 0
    allocations_by_tier: list[int] = field(default_factory=lambda: _NO_TIERS)
    gpu_s_by_tier: list[float] = field(default_factory=lambda: _NO_GPU_S)
    last_gpus: dict[int, int] | None = None
    kept_gpus: dict[int, int] | None = None

    def __post_init__(self) -> None:
        self.left = self.work
        self.waiting_since_s = self.job.submit_s

    def count_tiers(self) -> None:
        """Have numbers by tier of its own; see `allocations_by_tier`."""
        self.allocations_by_tier, self.gpu_s_by_tier = [0] * len(Tier), [0.0] * len(Tier)

    @property
    def own_gpus(self) -> float:
        """GPUs that it holds, by half where another one holds them too."""
        return self.held_gpus if self.beside is None else self.held_gpus / 2

    @property
    def is_running(self) -> bool:
        """Whether it holds GPUs."""
        return bool(self.parts)

    @property
    def flexible_workers(self) -> int:
        """Workers beyond the base demand."""
        return self.workers - self.job.min_workers if self.parts else 0

    @property
    def jct_s(self) -> float:
        """From submission to completion."""
        return self.completion_s - self.job.submit_s

    @property
    def missed_deadline(self) -> bool | None:
        """Whether it completed after its deadline, by more than rounding; None if it has none."""
        deadline_s = self.job.deadline_s
        return None if deadline_s is None else self.jct_s > deadline_s * (1 + TIME_TOLERANCE)

    @property
    def on_gpus_s(self) -> float:
        """Seconds in which it held GPUs."""
        return self.running_s + self.paused_s

    @property
    def ran_gpu_s(self) -> float:
        """GPU-seconds in which it ran."""
        return self.held_gpu_s - self.paused_gpu_s

    @property
    def done_gpu_s(self) -> float:
        """GPU-seconds in which it ran that were not lost to distance."""
        return self.ran_gpu_s - self.distance_gpu_s

    @property
    def gpus(self) -> dict[int, int]:
        """All that it holds, GPUs by host; not to be changed."""
        found = self.kept_gpus
        if found is None:
            parts = self.parts
            if not parts:
                return {}  # not kept: it may start without notice
            found = self.kept_gpus = (
                parts[0].by_host() if len(parts) == 1 else added(part.by_host() for part in parts)
            )
        return found


@dataclass(slots=True, eq=False)
class Copies:
    """How copies of a job work together for a while: each after what its start costs it.

    Parameters
    ----------
    rates
        Of each, in work a second.
    lost_s
        What its start costs each, from the beginning of the while.
    trains_s
        For how long they work at most, before they are merged.
    merge_s
        What that takes.
    began_s, left
        When the while began, and what was left then.
    """

    rates: list[float]
    lost_s: list[float]
    trains_s: float
    merge_s: float
    began_s: float
    left: float

    def left_at(self, now_s: float) -> float:
        """Return what is left at a moment."""
        time_s = min(now_s - self.began_s, self.trains_s)
        return max(0.0, self.left - steps_within(time_s, self.rates, self.lost_s))

    def completes_after_s(self, tolerance: float) -> float | None:
        """Return after how long the job is complete and merged; None if it is not by then."""
        if steps_within(self.trains_s, self.rates, self.lost_s) < self.left - tolerance:
            return None
        trained_s = min(self.trains_s, time_of_steps(self.left, self.rates, self.lost_s))
        return trained_s + self.merge_s


def steps_within(time_s: float, rates: list[float], lost_s: list[float]) -> float:
    """Return the steps that copies do within a time, each after what it loses.

    >>> steps_within(10.0, [1.0, 2.0], [0.0, 4.0])
    22.0
    """
    return math.fsum(
        rate * max(0.0, time_s - lost) for rate, lost in zip(rates, lost_s, strict=True)
    )


def time_of_steps(steps: float, rates: list[float], lost_s: list[float]) -> float:
    """Return how long copies take that share steps by their speed, so that all end at once.

    Source: HadarE's throughput-proportional division, from memory. Steps are not rounded to whole
    ones. O(copies log copies).

    >>> time_of_steps(22.0, [1.0, 2.0], [0.0, 4.0])
    10.0
    """
    rate = done = at_s = 0.0
    for lost, gained in sorted(zip(lost_s, rates, strict=True)):
        if rate > 0 and done + rate * (lost - at_s) >= steps:
            break
        done += rate * (lost - at_s)
        rate += gained
        at_s = lost
    return at_s + (steps - done) / rate


class JobRates(NamedTuple):
    """The best rates of a job, in its unit of work a second.

    Parameters
    ----------
    best
        The highest of all.
    least_workers
        With how few it may run: its base demand, unless it is tuned for less.
    of_workers
        With these, with a worker more, and so on; 0 where nothing holds so many.
    of_copies
        Of one copy on a server of its own, of two, and so on; empty where it may have one alone.
    """

    best: float
    least_workers: int
    of_workers: tuple[float, ...]
    of_copies: tuple[float, ...]


@dataclass(slots=True)
class Totals:
    """What is counted while a simulation runs; times are from the first submission on.

    Parameters
    ----------
    held_gpu_s, there_gpu_s
        GPU-seconds that jobs held, and that there were, by pool.
    stranded_gpu_s
        GPU-seconds that were free on hosts that were not wholly free.
    handed_over_gpu_s
        GPU-seconds in which GPUs were neither held nor free.
    partly_free_host_s, busy_server_s
        Host-seconds in which hosts were partly free, and server-seconds in which jobs held any
        GPU of a server.
    distance_gpu_s
        GPU-seconds that jobs held, each counted by what distance takes of its speed.
    serving_gpu_s, on_loan_server_s
        GPU-seconds in which the inference cluster served, and server-seconds on loan.
    waiting_job_s, running_job_s, more_copy_s
        Job-seconds of waiting and of holding GPUs, and those of copies beyond the first.
    loans, reclaims, returned_servers
        How often servers were lent and called back, and how many were called back.
    hosted_at_reclaims
        Jobs that held GPUs on loan when servers were called back, added up over the reclaims.
    vacated_gpus, collateral_gpus
        GPUs of the servers given back, and GPUs that were vacated elsewhere for it.
    scaling_operations
        How often a job was resized, to admit another job not counted.
    rounds, merging_s
        Rounds in which jobs were there, and seconds that jobs lost by merging copies.
    decisions, decision_s
        How often a rule of another problem was asked, and the wall time of each answer.
    """

    held_gpu_s: list[float]
    there_gpu_s: list[float]
    stranded_gpu_s: float = 0.0
    handed_over_gpu_s: float = 0.0
    partly_free_host_s: float = 0.0
    busy_server_s: float = 0.0
    distance_gpu_s: float = 0.0
    serving_gpu_s: float = 0.0
    on_loan_server_s: float = 0.0
    waiting_job_s: float = 0.0
    running_job_s: float = 0.0
    more_copy_s: float = 0.0
    loans: int = 0
    reclaims: int = 0
    returned_servers: int = 0
    hosted_at_reclaims: int = 0
    vacated_gpus: int = 0
    collateral_gpus: int = 0
    scaling_operations: int = 0
    rounds: int = 0
    merging_s: float = 0.0
    decisions: int = 0
    decision_s: list[float] = field(default_factory=list)

    @property
    def free_gpu_s(self) -> float:
        """GPU-seconds that were free, once the simulation has ended."""
        return math.fsum((*self.there_gpu_s, -self.handed_over_gpu_s, *map(neg, self.held_gpu_s)))

    def copy(self) -> Totals:
        """Return what has been counted so far, decision times left out."""
        copied = Totals.__new__(Totals)
        for name in _NUMBERS:
            setattr(copied, name, getattr(self, name))
        copied.held_gpu_s, copied.there_gpu_s = list(self.held_gpu_s), list(self.there_gpu_s)
        copied.decision_s = []
        return copied

    def sums(self, names: Sequence[str]) -> list[float]:
        """Return some of them, and the GPU-seconds held by pool."""
        return [*(getattr(self, name) for name in names), *self.held_gpu_s]


_NUMBERS = tuple(
    each.name
    for each in fields(Totals)
    if each.name not in ("held_gpu_s", "there_gpu_s", "decision_s")
)
