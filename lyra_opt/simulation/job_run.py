"""The state of each job in a simulation from submission to completion, and totals of all jobs."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import neg
from typing import NamedTuple

from lyra_opt.network.links import Tier
from lyra_opt.simulation.workload import WHOLE_GPU, Job

NEVER = -1.0

TIME_TOLERANCE = 1e-9
"""Relative error that is allowed for a sum of rounded times."""


class Part:
    """The GPUs and workers of a running job in one pool.

    Parameters
    ----------
    pool
        Number of the pool.
    gpus
        GPUs of the base demand by host.
    base, held
        Workers of the base demand, counted as on reference GPUs, and their GPUs.
    worker_speed
        Speed of a worker in this pool relative to reference GPUs. Where several `replicas` of a
        slower GPU replace one reference GPU, it is their joint speed.
    copy
        Index of the job's copy that this part belongs to; 0 for a job without copies.

    Attributes
    ----------
    flexible
        Workers beyond the base demand.
    gpus
        A pair of GPUs by host: those of the base demand and those of flexible workers.
    held
        All GPUs of the part.
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
        """The workers of the base demand and the flexible workers together."""
        return self.base + self.flexible

    def by_host(self) -> dict[int, int]:
        """Return all GPUs of the part by host."""
        base, flexible = self.gpus
        return added(self.gpus) if flexible else base


def added(several: Iterable[dict[int, int]]) -> dict[int, int]:
    """Return the sum of several dictionaries of GPUs by host."""
    found: dict[int, int] = {}
    for gpus in several:
        for host, count in gpus.items():
            found[host] = found.get(host, 0) + count
    return found


# If racks do not matter, all jobs share these lists; otherwise each job has its own lists.
_NO_TIERS, _NO_GPU_S = [0] * len(Tier), [0.0] * len(Tier)


@dataclass(slots=True, eq=False)
class JobRun:
    """The state of a job during a simulation; times that are not yet known are `NEVER` (-1).

    Parameters
    ----------
    job
        The job as submitted.
    order
        Index of the job in the workload, which breaks ties.
    work
        All work of the job, in the unit of the speed model.
    best_rates
        The highest rates that the job can have in this simulation.

    Attributes
    ----------
    left, rest, lost_work
        Remaining work; work left by rounding at completion; work done and lost to preemptions.
    rate
        Work per second where the job runs.
    tier, efficiency
        Tier that the job spans, and the share of its speed that it keeps there; unchanged while it
        waits.
    parts
        The GPUs that the job holds, by pool and copy; empty while it waits.
    copies
        How several copies of the job work together; None if it has one.
    beside
        The job that shares these GPUs at the same time; None if no job does.
    workers, held_gpus
        Workers of one copy, counted as on reference GPUs; GPUs of any type of all copies, of which
        a slice has one.
    thousandths
        Thousandths that the job holds, or held last, of each of its GPUs.
    updated_s, began_s, pauses_until_s, lease_ends_s
        When the job was last accounted for, when it got its GPUs, when it starts to work on them,
        and when its lease ends.
    completes, version
        Whether the job completes when its hold ends; a counter by which an outdated event is
        recognised.
    waiting_since_s, resumes_by_s
        When the job began to wait, NEVER while it runs; the time until which a start is not a
        preemption.
    queued_s
        Total waiting time.
    running_s, paused_s, restarting_s
        Seconds in which the job ran; in which it held GPUs without running; and the planned length
        of its pauses after starts and moves.
    rated_s
        `running_s` when the current rate was set.
    fewer_workers_s, slower_type_s, slower_placement_s
        Seconds of `running_s`, until the current rate was set, that the job lost below its best
        rate: by fewer workers or copies, by slower GPU types, and by placement. See
        `lyra_opt.simulation.least_run`.
    idle_copies_s
        Seconds of `running_s` in which all copies were idle, less the seconds of `paused_s` in
        which a copy worked.
    held_gpu_s, paused_gpu_s, distance_gpu_s
        GPU-seconds that the job held, that it paused, and that it lost to distance; shared GPUs
        count half, and a slice counts by its share.
    cost
        Cost of the held GPUs at the prices of their types; 0 if every type has the default price.
    allocations
        Number of times that the job got GPUs.
    losses
        Number of times that its tenure ended or it was stopped before completion.
    preemptions
        Number of times that it was stopped, or did not go on when the GPUs of its ended tenure
        became free.
    restarts
        Number of times that it began again, either by moving or after being stopped. First starts
        and starts after a lease do not count.
    migrations
        Number of times that it got other hosts, or other numbers of GPUs on them, than before.
    ran_on_loan
        Whether it has ever held GPUs of borrowed servers.
    most_racks, most_copies
        Most racks spanned, and most copies run, at one time.
    allocations_by_tier, gpu_s_by_tier
        `allocations` and `held_gpu_s` by `Tier`, if racks matter.
    last_gpus, kept_gpus
        GPUs of the previous allocation, if racks matter; cached value of `gpus`.
    """

    job: Job
    order: int
    work: float
    best_rates: "JobRates"
    left: float = 0.0
    rest: float = 0.0
    lost_work: float = 0.0
    rate: float = 0.0
    tier: Tier = Tier.MACHINE
    efficiency: float = 1.0
    parts: list[Part] = field(default_factory=list)
    copies: "Copies | None" = None
    beside: "JobRun | None" = None
    workers: int = 0
    held_gpus: int = 0
    thousandths: int = WHOLE_GPU
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
        """Give the job its own counters by tier; see `allocations_by_tier`."""
        self.allocations_by_tier, self.gpu_s_by_tier = [0] * len(Tier), [0.0] * len(Tier)

    @property
    def own_gpus(self) -> float:
        """The GPUs that the job holds; shared GPUs count half, and a slice counts by its share."""
        if self.thousandths != WHOLE_GPU:
            return self.held_gpus * self.thousandths / WHOLE_GPU
        return self.held_gpus if self.beside is None else self.held_gpus / 2

    @property
    def is_running(self) -> bool:
        """Whether the job holds GPUs."""
        return bool(self.parts)

    @property
    def flexible_workers(self) -> int:
        """The number of workers beyond the base demand."""
        return self.workers - self.job.min_workers if self.parts else 0

    @property
    def jct_s(self) -> float:
        """The job completion time: seconds from submission to completion."""
        return self.completion_s - self.job.submit_s

    @property
    def missed_deadline(self) -> bool | None:
        """Whether the job missed its deadline (rounding errors aside); None without a deadline."""
        deadline_s = self.job.deadline_s
        return None if deadline_s is None else self.jct_s > deadline_s * (1 + TIME_TOLERANCE)

    @property
    def on_gpus_s(self) -> float:
        """The seconds in which the job held GPUs, running or paused."""
        return self.running_s + self.paused_s

    @property
    def ran_gpu_s(self) -> float:
        """The GPU-seconds in which the job ran."""
        return self.held_gpu_s - self.paused_gpu_s

    @property
    def done_gpu_s(self) -> float:
        """The GPU-seconds in which the job ran, less those lost to communication."""
        return self.ran_gpu_s - self.distance_gpu_s

    @property
    def gpus(self) -> dict[int, int]:
        """All GPUs that the job holds, by host; do not change the dictionary."""
        found = self.kept_gpus
        if found is None:
            parts = self.parts
            if not parts:
                return {}  # not cached, because `parts` may change without clearing the cache
            found = self.kept_gpus = (
                parts[0].by_host() if len(parts) == 1 else added(part.by_host() for part in parts)
            )
        return found


@dataclass(slots=True, eq=False)
class Copies:
    """Copies of a job that share its work for a period, each after its own start delay.

    Parameters
    ----------
    rates
        Work per second of each copy.
    lost_s
        Start delay of each copy, in seconds from the beginning of the period.
    trains_s
        Longest time for which the copies work before they are merged.
    merge_s
        Seconds that merging takes.
    began_s, left
        When the period began, and the remaining work at that time.
    """

    rates: list[float]
    lost_s: list[float]
    trains_s: float
    merge_s: float
    began_s: float
    left: float

    def left_at(self, now_s: float) -> float:
        """Return the work that is left at time `now_s`."""
        time_s = min(now_s - self.began_s, self.trains_s)
        return max(0.0, self.left - steps_within(time_s, self.rates, self.lost_s))

    def completes_after_s(self, tolerance: float) -> float | None:
        """Return the seconds until all work is done and merged; None if the period is too short."""
        if steps_within(self.trains_s, self.rates, self.lost_s) < self.left - tolerance:
            return None
        trained_s = min(self.trains_s, time_of_steps(self.left, self.rates, self.lost_s))
        return trained_s + self.merge_s


def steps_within(time_s: float, rates: list[float], lost_s: list[float]) -> float:
    """Return the steps that copies complete within a time, each after its start delay.

    >>> steps_within(10.0, [1.0, 2.0], [0.0, 4.0])
    22.0
    """
    return math.fsum(
        rate * max(0.0, time_s - lost) for rate, lost in zip(rates, lost_s, strict=True)
    )


def time_of_steps(steps: float, rates: list[float], lost_s: list[float]) -> float:
    """Return the seconds in which copies do `steps` steps, divided so that all end together.

    Source: HadarE's throughput-proportional division, from memory. Steps are not rounded to whole
    steps. O(copies log copies).

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
    """The highest rates of a job, in its unit of work per second.

    Parameters
    ----------
    best
        The highest rate of all.
    least_workers
        The fewest workers with which the job may run: its base demand, or fewer if it is tuned.
    of_workers
        Highest rate with `least_workers` workers, with one more, and so on; 0 if the cluster cannot
        hold so many.
    of_copies
        Highest rate of 1, 2, ... copies, each on its own server; empty if the job may have only
        one.
    """

    best: float
    least_workers: int
    of_workers: tuple[float, ...]
    of_copies: tuple[float, ...]


@dataclass(slots=True)
class Totals:
    """The sums over all jobs and servers that a simulation counts from the first submission on.

    Parameters
    ----------
    held_gpu_s, there_gpu_s
        GPU-seconds held by jobs, and GPU-seconds present, by pool.
    stranded_gpu_s
        GPU-seconds that were free on partly used hosts.
    handed_over_gpu_s
        GPU-seconds in which GPUs were neither held nor free.
    opened_free_gpu_s, useless_gpu_s
        GPU-seconds of the free parts of opened GPUs; seconds of GPUs that were partly free, but not
        enough for any waiting job, while jobs waited.
    partly_free_host_s, busy_server_s
        Host-seconds in which hosts were partly free; server-seconds in which jobs held any GPU of a
        server.
    distance_gpu_s
        Held GPU-seconds, each weighted by the share of its speed that is lost to distance.
    serving_gpu_s, on_loan_server_s
        GPU-seconds in which the inference cluster served; server-seconds on loan.
    waiting_job_s, running_job_s, more_copy_s
        Job-seconds of waiting, of holding GPUs, and of copies beyond each job's first.
    loans, reclaims, returned_servers
        Number of times that servers were lent; number of reclaims; number of servers reclaimed.
    hosted_at_reclaims
        Jobs that held GPUs on loan when servers were reclaimed, summed over the reclaims.
    vacated_gpus, collateral_gpus
        GPUs of the servers given back; GPUs vacated on other servers for it (collateral damage).
    scaling_operations
        Number of times that a job was resized, except to admit another job.
    rounds, merging_s
        Rounds in which jobs were present; seconds that jobs lost by merging copies.
    decisions, decision_s
        Number of calls of a policy of another problem; wall time of each call.
    """

    held_gpu_s: list[float]
    there_gpu_s: list[float]
    stranded_gpu_s: float = 0.0
    handed_over_gpu_s: float = 0.0
    opened_free_gpu_s: float = 0.0
    useless_gpu_s: float = 0.0
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
        """The GPU-seconds in which whole GPUs were free; valid after the end of the simulation."""
        taken = -self.handed_over_gpu_s, -self.opened_free_gpu_s, *map(neg, self.held_gpu_s)
        return math.fsum((*self.there_gpu_s, *taken))

    def copy(self) -> "Totals":
        """Return a copy of the totals without the decision times."""
        held_gpu_s, there_gpu_s = list(self.held_gpu_s), list(self.there_gpu_s)
        return replace(self, held_gpu_s=held_gpu_s, there_gpu_s=there_gpu_s, decision_s=[])

    def sums(self, names: Sequence[str]) -> list[float]:
        """Return the named totals, followed by the GPU-seconds held in each pool."""
        return [*(getattr(self, name) for name in names), *self.held_gpu_s]


NUMBERS = tuple(
    each.name
    for each in fields(Totals)
    if each.name not in ("held_gpu_s", "there_gpu_s", "decision_s")
)
"""The names of the totals that are single numbers."""
