"""What a policy sees of a simulation, and what it may do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lyra_opt.simulation.best_fit import BestFit, Group
from lyra_opt.simulation.run import NEVER, Part, Run
from lyra_opt.simulation.speed import Room
from lyra_opt.simulation.totals import Totals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.hosts import Hosts
    from lyra_opt.simulation.run import Copies
    from lyra_opt.simulation.speed import Speed
    from lyra_opt.simulation.tenure import Tenure
    from lyra_opt.simulation.workload import Workload


class PolicyError(Exception):
    """A policy broke a rule; names policy, time, job and rule."""


@dataclass(slots=True)
class Loans:
    """How it stands with loans.

    Parameters
    ----------
    is_planned, is_active
        Whether there are a plan and servers to lend, and whether the policy borrows any.
    is_final
        Whether no more servers will be lent or called back.
    on_loan
        Servers on loan.
    serving_gpus
        GPUs of the inference cluster that serve, in the mean.
    """

    is_planned: bool = False
    is_active: bool = False
    is_final: bool = True
    on_loan: int = 0
    serving_gpus: float = 0.0


class View(ABC):
    """A simulation as policies and observers see it.

    Attributes
    ----------
    name
        Of the policy.
    workload, cluster, speed, tenure, seed
        What is simulated.
    now_s
        The time.
    hosts
        Which GPUs are free.
    runs
        All jobs, by order of submission.
    running
        Those that hold GPUs, by their place in `runs`; the last to start is the last.
    jobs_there
        How many are submitted and not complete.
    has_news
        Whether jobs or GPUs have come or gone since the policy was asked last.
    is_all_submitted
        Whether no more jobs will come.
    loans
        How it stands with loans.
    totals
        What has been counted.
    """

    hosts: Hosts

    def __init__(
        self,
        name: str,
        workload: Workload,
        cluster: Cluster,
        *,
        speed: Speed,
        tenure: Tenure,
        seed: int,
    ) -> None:
        self.name = name
        self.workload, self.cluster = workload, cluster
        self.speed, self.tenure, self.seed = speed, tenure, seed
        self.now_s = workload.jobs[0].submit_s
        self.runs = [
            Run(job, order, speed.unit_of(job).work) for order, job in enumerate(workload.jobs)
        ]
        self.running: dict[int, Run] = {}
        self.jobs_there = 0
        self.is_all_submitted = self.has_news = False
        self.loans = Loans()
        pools = len(cluster.pools)
        self.totals = Totals(held_gpu_s=[0.0] * pools, there_gpu_s=[0.0] * pools)
        self._hosted: dict[int, Run] = {}
        self._notes_places = cluster.topology is not None
        self._fits: dict[int, BestFit] = {}

    # What is known.

    def account(self, run: Run) -> None:
        """Bring what is left of a job, and what it has had, up to date; O(1)."""
        now_s = self.now_s
        since_s = run.updated_s
        if now_s <= since_s:
            return
        if not run.parts:
            run.updated_s = now_s
            return
        held_gpu_s = run.held_gpus * (now_s - since_s)
        run.held_gpu_s += held_gpu_s
        begins_s = run.pauses_until_s
        if since_s >= begins_s:
            begins_s = since_s
        else:
            paused_s = min(begins_s, now_s) - since_s
            run.paused_s += paused_s
            run.paused_gpu_s += run.held_gpus * paused_s
        if now_s > begins_s:
            worked_s = now_s - begins_s
            run.running_s += worked_s
            if run.copies is None:
                left = run.left - run.rate * worked_s
                run.left = left if left > 0.0 else 0.0  # noqa: FURB136 (asked millions of times)
        if self._notes_places:
            run.gpu_s_by_tier[run.tier] += held_gpu_s
            if now_s > begins_s:
                run.distance_gpu_s += run.held_gpus * worked_s * (1.0 - run.efficiency)
        if run.copies is not None:
            run.left = run.copies.left_at(now_s)
        run.updated_s = now_s

    def left_gpu_s(self, run: Run) -> float:
        """Return the GPU-seconds on reference GPUs that a job has left, as far as it is known.

        Accounted for up to the last `account`.
        """
        return self.speed.believed_left_worker_s(run) * run.job.gpus_per_worker

    def hosted(self) -> list[Run]:
        """Return the jobs that hold GPUs of borrowed servers, by order of submission."""
        return [run for _, run in sorted(self._hosted.items())]

    def is_able(self, run: Run, pool: int) -> bool:
        """Whether a job can run in a pool that is there; for policies of one's own."""
        return self.hosts.gpus_of_pool[pool] > 0 and self.speed.relative_speed(run.job, pool) > 0

    # Reserving GPUs.

    def fit(self, run: Run) -> list[Part] | None:
        """Reserve GPUs for the base demand of a job, best fit; None if no pool has room.

        In the pool on which it is fastest, own GPUs before borrowed ones among equals.
        """
        job = run.job
        for speed, pool in self.speed.pools_of(job):
            if self.hosts.free_of_pool[pool] < job.min_gpus:
                continue
            fit = self._fits.get(pool)
            if fit is None:
                fit = self._fits[pool] = BestFit(self.hosts, pool)
            if self.speed.room_for(job, pool) is Room.TOGETHER:
                has_room = fit.holds_together(job.min_gpus)
                gpus = fit.place_together(job.min_gpus) if has_room else {}
            else:
                has_room = fit.room(job.gpus_per_worker, Group.BASE) >= job.min_workers
                gpus = (
                    fit.place(job.min_workers, job.gpus_per_worker, Group.BASE) if has_room else {}
                )
            if gpus:
                part = Part(pool, gpus, base=job.min_workers, held=job.min_gpus, worker_speed=speed)
                return [part]
        return None

    def reserve(self, run: Run, gpus: Mapping[int, int], *, copy: int = 0) -> list[Part]:
        """Reserve GPUs by host for the base demand of a job, or a copy of it.

        Raises
        ------
        PolicyError
            If they are not its gang, not free, or of a type on which it cannot run.
        """
        job = run.job
        hosts = self.hosts
        if sum(gpus.values()) != job.min_gpus or not hosts.holds(gpus):
            if sum(gpus.values()) != job.min_gpus or min(gpus.values()) < 1:
                raise self.error(run, f"has a gang of {job.min_gpus}, but gets {dict(gpus)}")
            raise self.error(run, f"gets GPUs that are not free: {dict(gpus)}")
        width = job.gpus_per_worker
        if width > 1 and any(count % width for count in gpus.values()):
            raise self.error(run, f"has workers of {width} GPUs each, but gets {dict(gpus)}")
        if len(hosts.held_of_pool) == 1:
            speed = self.speed.relative_speed(job, 0)
            hosts.take(gpus)
            return [
                Part(
                    0,
                    dict(gpus),
                    base=job.min_workers,
                    held=job.min_gpus,
                    worker_speed=speed,
                    copy=copy,
                )
            ]
        hosts.take(gpus)
        pool_of = hosts.pool_of
        parts: dict[int, Part] = {}
        for host, held in gpus.items():
            pool = pool_of[host]
            part = parts.get(pool)
            if part is None:
                speed = self.speed.relative_speed(job, pool)
                if speed <= 0:
                    raise self.error(run, f"cannot run where it is placed: {dict(gpus)}")
                part = parts[pool] = Part(pool, {}, worker_speed=speed, copy=copy)
            part.gpus[0][host] = held
            part.held += held
            part.base += held // job.gpus_per_worker
        if len(parts) > 1 and not job.heterogeneous:
            kinds = {self.cluster.pools[pool].is_lent for pool in parts}
            if len(kinds) > 1:
                raise self.error(run, f"takes own or borrowed GPUs alone, but gets {dict(gpus)}")
        return list(parts.values())

    def stuck(self, reason: str) -> PolicyError:
        """Return the error that the policy leaves jobs waiting for ever."""
        waiting = [run for run in self.runs if NEVER < run.waiting_since_s <= self.now_s]
        if not waiting:
            return self.error(None, f"lets nothing happen: {reason}")
        first = waiting[0].job.id
        return PolicyError(
            f"policy {self.name}, at {self.now_s:g} s: job {first} and "
            f"{len(waiting) - 1} others wait for ever: {reason}"
        )

    def error(self, run: Run | None, rule: str) -> PolicyError:
        """Return the error that the policy broke a rule, about a job or in general."""
        of_job = "" if run is None else f" job {run.job.id}"
        return PolicyError(f"policy {self.name}, at {self.now_s:g} s:{of_job} {rule}")

    @abstractmethod
    def captures(self, kind: str) -> bool:
        """Whether any observer wants the decisions of a kind as instances."""

    @abstractmethod
    def observed(self, kind: str, instance: Any) -> None:
        """Tell observers of a decision that is put to a solver."""

    @abstractmethod
    def sums_at(self, time_s: float, names: Sequence[str]) -> list[float]:
        """Return what some of the `Totals` come to at a moment until which nothing changes.

        Followed by the GPU-seconds held, by pool.
        """

    # What can be done.

    @abstractmethod
    def start(self, run: Run, parts: list[Part], copies: Copies | None = None) -> None:
        """Start a job that waits on GPUs that are reserved for it; see `Copies`."""

    @abstractmethod
    def stop(self, run: Run) -> None:
        """Interrupt a job: it gives up its GPUs, and what the tenure says of its work; it waits."""

    @abstractmethod
    def lift(self, run: Run) -> None:
        """Take a job off its GPUs, to `put` it elsewhere at this same moment."""

    @abstractmethod
    def put(
        self, run: Run, parts: list[Part], copies: Copies | None = None, *, restarts: bool = True
    ) -> None:
        """Let a job that was lifted go on elsewhere.

        Parameters
        ----------
        restarts
            Whether that costs it what it costs to start, unless `copies` say what it costs.
        """

    @abstractmethod
    def work_as_copies(self, run: Run, copies: Copies) -> None:
        """Let copies of a job share what is left of it from now on, on the GPUs that it has."""

    @abstractmethod
    def settle(self, run: Run) -> bool:
        """Complete a job of which no more is left than rounding leaves; return whether it is."""

    @abstractmethod
    def grow(self, run: Run, part: Part, workers: int, gpus: Mapping[int, int]) -> None:
        """Give a running job flexible workers on GPUs taken for it; `part` may be new to it."""

    @abstractmethod
    def shrink(self, run: Run, part: Part, workers: int, gpus: Mapping[int, int]) -> None:
        """Take flexible workers of a running job away, which are free for others at once."""
