"""The interface between a simulation and its policies and observers."""

import gc
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heappush
from typing import Any

from lyra_opt.core.errors import counted
from lyra_opt.network.links import Tier
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.hosts import BestFit, Group, Hosts
from lyra_opt.simulation.job_run import NEVER, Copies, JobRun, Part, Totals
from lyra_opt.simulation.least_run import BestRates, note_slowness
from lyra_opt.simulation.slices import SlicePart, Slices
from lyra_opt.simulation.speed import Room, Speed
from lyra_opt.simulation.tenants import TenantLedger
from lyra_opt.simulation.tenure import Tenure
from lyra_opt.simulation.workload import WHOLE_GPU, Job, Workload

WORK_TOLERANCE = 1e-9
"""A job completes if at most this fraction of its work is left at the end of a lease or round.
Rounding over a million leases or rounds adds up to less.
"""


class PolicyError(Exception):
    """A policy broke a rule; the message names the policy, the time, the job and the rule."""


@dataclass(slots=True)
class Loans:
    """The state of the loans of inference servers.

    Parameters
    ----------
    is_planned, is_active
        Whether the cluster has a plan and servers to lend; whether the policy also borrows them.
    is_final
        Whether no more servers will be lent or reclaimed.
    on_loan
        Number of servers on loan.
    serving_gpus
        Mean number of inference GPUs that serve requests.
    """

    is_planned: bool = False
    is_active: bool = False
    is_final: bool = True
    on_loan: int = 0
    serving_gpus: float = 0.0


class Observer:
    """Receives the events of a simulation and never changes it; subclass it to record or draw."""

    def begins(self, view: "View") -> None:
        """Observe a simulation before its first event."""

    def passes(self, view: "View", until_s: float) -> None:
        """Note that nothing changes from `View.now_s` until `until_s`."""

    def captures(self, kind: str) -> bool:  # noqa: ARG002
        """Return whether this observer wants every decision of a kind as an instance.

        A policy may otherwise skip the instance when the answer is obvious.
        """
        return False

    def decided(self, kind: str, instance: Any) -> None:
        """Note a decision that was passed to a solver, as an instance of the problem `kind`."""

    def ends(self, view: "View") -> None:
        """Observe a simulation after its last job has completed."""


class Listener(ABC):
    """Receives the events of jobs; base class of `lyra_opt.simulation.policy.Policy`."""

    name: str
    forks = False
    """Whether the policy may run several copies of a job at once, if the tenure allows copies."""

    packs = False
    """Whether the policy may let two jobs share GPUs; then no lower bound on times applies to
    it.
    """

    sizes_jobs = False
    """Whether the policy chooses how many workers an elastic job starts with; otherwise a job
    starts with its base demand.
    """

    def counted_pools(self, view: "View") -> Collection[int]:  # noqa: ARG002
        """Return the pools whose GPUs the policy only counts, without choosing hosts."""
        return ()

    @abstractmethod
    def waits(self, view: "View", run: JobRun) -> None:
        """Note that a job has been submitted or has lost its GPUs, and now waits."""

    def gives_back(self, view: "View", run: JobRun) -> None:  # noqa: B027
        """Note that a job is about to give up its GPUs, for whatever reason."""

    def completes(self, view: "View", run: JobRun) -> None:  # noqa: B027
        """Note that a job has completed."""


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Disable garbage collection while many objects are created, which halves the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class View:
    """The state of a simulation, and the actions that a policy can take in it.

    Attributes
    ----------
    workload, cluster, policy, speed, tenure, seed
        The parts of the simulation.
    best_rates
        The highest rates at which jobs can run in this simulation.
    now_s
        The current time.
    hosts
        The free GPUs by host.
    runs
        The state of every job, in order of submission.
    running
        The jobs that hold GPUs, by index in `runs`, in the order in which they started.
    jobs_there
        Number of jobs that are submitted and not complete.
    has_news
        Whether jobs or GPUs have arrived or left since the last call of the policy.
    is_all_submitted
        Whether all jobs have been submitted.
    loans
        The state of the loans of inference servers.
    tenants
        What each tenant holds; None if the cluster has no quotas.
    slices
        The GPUs that jobs share in parts; None if no job asks for part of a GPU.
    totals
        The sums counted so far.
    """

    def __init__(
        self,
        workload: Workload,
        cluster: Cluster,
        policy: Listener,
        *,
        speed: Speed,
        tenure: Tenure,
        borrows: bool,
        observers: Sequence[Observer],
        seed: int,
    ) -> None:
        self.workload, self.cluster, self.policy = workload, cluster, policy
        self.speed, self.tenure, self.seed = speed, tenure, seed
        self.now_s = workload.jobs[0].submit_s
        self.best_rates = BestRates(
            speed, borrows=borrows, copy_efficiency=tenure.copy_efficiency if policy.forks else None
        )
        with _without_garbage_collection():
            self.runs = [
                JobRun(job, order, speed.unit_of(job).work, rates)
                for order, (job, rates) in enumerate(
                    zip(workload.jobs, self.best_rates.of_all(workload.jobs), strict=True)
                )
            ]
        self.running: dict[int, JobRun] = {}
        self.jobs_there = 0
        self.is_all_submitted = self.has_news = False
        self.loans = Loans()
        pools = len(cluster.pools)
        self.totals = Totals(held_gpu_s=[0.0] * pools, there_gpu_s=[0.0] * pools)
        self.hosts = Hosts(cluster, policy.counted_pools(self))
        self.slices: Slices | None = None
        if any(job.is_slice for job in workload.jobs):
            self.slices = Slices(cluster, self.hosts, workload.jobs)
        self._there_since_s = self.now_s
        # Total loss of speed by distance: the lost share of speed, summed over all held GPUs.
        self._distant_gpus = 0.0
        # `_more_copies` is the number of running copies beyond the first copy of each job.
        self._more_copies = 0
        # If only numbers of GPUs matter and GPUs become free at once, most totals stay 0.
        self._counts_little = (
            all(self.hosts.is_counted)
            and speed.communication is None
            and tenure.frees_at_once
            and math.isinf(tenure.length_s)
        )
        # While identical leases are skipped, `_skipped` is (totals before, end of the last lease).
        self._skipped: tuple[Totals, float] | None = None
        self._observers = observers
        self._hosted: dict[int, JobRun] = {}
        self._lifted: dict[int, JobRun] = {}
        self._fits: dict[int, BestFit] = {}
        # Each distinct base demand is stored once, as (speed, pool, pieces, GPUs per piece).
        # The fastest pool comes first; a job's pools and speeds never change during a simulation.
        # `_demand_of` is the index of a job's demand; None means that `fit` has not seen the job.
        self._demands: list[list[tuple[float, int, int, int]]] = []
        self._numbers: dict[tuple[tuple[float, int, int, int], ...], int] = {}
        self._demand_of: list[int | None] = [None] * len(self.runs)
        self._without_room = self.hosts.without_room
        # The event that a job's hold ends is (time, sequence number, job, version of the job).
        # The event that GPUs become free is (time, sequence number, None, GPUs by host).
        self._events: list[tuple[float, int, JobRun | None, Any]] = []
        self._sequence = 0
        # GPUs that pass from one job to the next, by sequence number of the event. Their servers
        # may be reclaimed before they are free.
        self._handed_over: dict[int, dict[int, int]] = {}
        self._running_gpus = 0
        self._is_reclaiming = False
        self._length_s = tenure.length_s
        self.tenants: TenantLedger | None = None
        if cluster.tenants is not None:
            self.tenants = TenantLedger(cluster.tenants, workload, cluster, self.now_s)
        self._notes_places = cluster.topology is not None
        if self._notes_places:
            for run in self.runs:
                run.count_tiers()
        self._price_per_s = cluster.price_per_s_of_pool
        self._counts_speeds = self._notes_places or tenure.copy_efficiency is not None

    def account(self, run: JobRun) -> None:
        """Update a job's remaining work and its times to the current time; O(1)."""
        now_s = self.now_s
        since_s = run.updated_s
        if now_s <= since_s:
            return
        if not run.parts:
            run.updated_s = now_s
            return
        is_whole = run.beside is None and run.thousandths == WHOLE_GPU
        own_gpus = run.held_gpus if is_whole else run.own_gpus
        held_gpu_s = own_gpus * (now_s - since_s)
        run.held_gpu_s += held_gpu_s
        begins_s = run.pauses_until_s
        if since_s >= begins_s:
            begins_s = since_s
        else:
            paused_s = min(begins_s, now_s) - since_s
            run.paused_s += paused_s
            run.paused_gpu_s += own_gpus * paused_s
        if now_s > begins_s:
            worked_s = now_s - begins_s
            run.running_s += worked_s
            if run.copies is None:
                left = run.left - run.rate * worked_s
                run.left = left if left > 0.0 else 0.0  # noqa: FURB136 (runs millions of times)
        if self._price_per_s is not None:
            share_s = (now_s - since_s) * (1.0 if is_whole else own_gpus / run.held_gpus)
            for part in run.parts:
                run.cost += self._price_per_s[part.pool] * part.held * share_s
        if self._notes_places:
            run.gpu_s_by_tier[run.tier] += held_gpu_s
            if now_s > begins_s:
                run.distance_gpu_s += own_gpus * worked_s * (1.0 - run.efficiency)
        if run.copies is not None:
            run.left = run.copies.left_at(now_s)
        run.updated_s = now_s

    def left_gpu_s(self, run: JobRun) -> float:
        """Return a job's estimated remaining GPU-seconds on reference GPUs.

        The progress since the last `account` is not included.
        """
        job = run.job
        left_gpu_s = self.speed.believed_left_worker_s(run) * job.gpus_per_worker
        return left_gpu_s if job.gpu_thousandths is None else left_gpu_s * job.share

    def lost_gpu_s(self, run: JobRun) -> float:
        """Return the GPU-seconds, on reference GPUs, that a job would lose if it were stopped now.

        The progress since the last `account` is not included.
        """
        lost = self.tenure.left_when_stopped(run) - run.left
        if not lost:
            return 0.0
        return lost * self.speed.worker_s(run.job) * run.job.gpus_per_worker * run.job.share

    def hosted(self) -> list[JobRun]:
        """Return the jobs that hold GPUs of borrowed servers, in order of submission."""
        return [run for _, run in sorted(self._hosted.items())]

    def tier_of(self, run: JobRun) -> Tier:
        """Return the tier that a running job spans, even if distance does not affect its speed."""
        if self._notes_places:
            return run.tier
        return self.speed.spans.of(run.gpus, run.held_gpus)[0]

    def is_able(self, run: JobRun, pool: int) -> bool:
        """Return whether a job can run on the GPUs that are present in a pool."""
        return self.hosts.gpus_of_pool[pool] > 0 and self.speed.relative_speed(run.job, pool) > 0

    def captures(self, kind: str) -> bool:
        """Return whether any observer wants the decisions of a kind as instances."""
        return any(observer.captures(kind) for observer in self._observers)

    def observed(self, kind: str, instance: Any) -> None:
        """Tell the observers that an instance is passed to a solver."""
        for observer in self._observers:
            observer.decided(kind, instance)

    def stuck(self, reason: str) -> PolicyError:
        """Return the error that the policy leaves jobs waiting for ever."""
        waiting = [run for run in self.runs if NEVER < run.waiting_since_s <= self.now_s]
        if not waiting:
            return self.error(None, f"the simulation cannot go on: {reason}")
        others = f"and {counted(len(waiting) - 1, 'other')} wait" if waiting[1:] else "waits"
        return self.error(waiting[0], f"{others} for ever: {reason}")

    def error(self, run: JobRun | None, rule: str) -> PolicyError:
        """Return the error that the policy broke a rule, either for one job or in general.

        Without a job, the message names the first job that is submitted and not complete.
        """
        if run is not None:
            rule = f"job {run.job.id} {rule}"
        else:
            there = (
                each for each in self.runs if each.left > 0 and each.job.submit_s <= self.now_s
            )
            first = next(there, None)
            rule += "" if first is None else f"; the first job is {first.job.id}"
        return PolicyError(f"policy {self.policy.name}, at {self.now_s:g} s: {rule}")

    def fit(self, run: JobRun) -> list[Part] | None:
        """Reserve GPUs for a job's base demand by best fit; None if no pool has room.

        The pool is the one on which the job runs fastest; among equally fast pools, own GPUs come
        before borrowed GPUs.

        Notes
        -----
        O(1) for a demand that already found no room since GPUs last became free.
        """
        number = self._demand_of[run.order]
        if number in self._without_room:
            return None
        if number is None:
            number = self._demand_of[run.order] = self._number_of(run.job)
        for speed, pool, count, width in self._demands[number]:
            if self.hosts.free_of_pool[pool] < count * width:
                continue
            fit = self._fits.get(pool)
            if fit is None:
                fit = self._fits[pool] = BestFit(self.hosts, pool)
            if fit.room(width, Group.BASE) >= count:
                gpus = fit.place(count, width, Group.BASE)
                return [Part(pool, gpus, run.job.min_workers, count * width, speed)]
        self._without_room.add(number)
        return None

    def _number_of(self, job: Job) -> int:
        """Return the number of a job's base demand; jobs with equal demands share a number."""
        demand = []
        for speed, pool in self.speed.pools_of(job):
            is_bound = self.speed.room_for(job, pool) is Room.TOGETHER
            size = (1, job.min_gpus) if is_bound else (job.min_workers, job.gpus_per_worker)
            demand.append((speed, pool, *size))
        number = self._numbers.setdefault(tuple(demand), len(self._demands))
        if number == len(self._demands):
            self._demands.append(demand)
        return number

    def reserve(
        self, run: JobRun, gpus: Mapping[int, int], *, copy: int = 0, beside: JobRun | None = None
    ) -> list[Part]:
        """Reserve the given GPUs by host for a job's base demand, or for a copy of the job.

        A policy with `sizes_jobs` may reserve another number of workers.

        Parameters
        ----------
        beside
            The running job that holds exactly these GPUs and will share them; None for free GPUs.

        Raises
        ------
        PolicyError
            If the number of GPUs is not the job's gang, they are not free, or the job cannot run on
            their type.
        """
        job, hosts, width = run.job, self.hosts, run.job.gpus_per_worker
        is_gang = sum(gpus.values()) == job.min_gpus or (self.policy.sizes_jobs and gpus)
        if not is_gang or min(gpus.values()) < 1:
            raise self.error(run, f"has a gang of {job.min_gpus} GPUs, but gets {dict(gpus)}")
        if beside is not None:
            if beside.beside is not None or beside.gpus != gpus:
                raise self.error(run, f"cannot share the GPUs of {beside.job.id}: {dict(gpus)}")
        elif not hosts.holds(gpus):
            raise self.error(run, f"gets GPUs that are not free: {dict(gpus)}")
        if width > 1 and any(held % width for held in gpus.values()):
            raise self.error(run, f"has workers of {width} GPUs each, but gets {dict(gpus)}")
        if beside is None:
            hosts.take(gpus)
        of_pools: dict[int, dict[int, int]] = {}
        for host, held in gpus.items():
            of_pools.setdefault(hosts.pool_of[host], {})[host] = held
        parts = []
        for pool, of_pool in of_pools.items():
            speed = self.speed.relative_speed(job, pool)
            if speed <= 0:
                raise self.error(run, f"cannot run where it is placed: {dict(gpus)}")
            held = sum(of_pool.values())
            parts.append(Part(pool, of_pool, held // width, held, speed, copy))
        if len(parts) > 1 and not job.heterogeneous:
            kinds = {self.cluster.pools[part.pool].is_lent for part in parts}
            if len(kinds) > 1:
                raise self.error(run, f"takes either own or borrowed GPUs, not both: {dict(gpus)}")
        return parts

    def start(
        self,
        run: JobRun,
        parts: list[Part],
        copies: Copies | None = None,
        *,
        beside: JobRun | None = None,
    ) -> None:
        """Start a waiting job on reserved GPUs, as a single gang or as copies.

        Parameters
        ----------
        copies
            How several copies of the job work together; None for a single gang.
        beside
            The job that runs on these GPUs and shares them from now on; None for no such job.
        """
        now_s = self.now_s
        if not NEVER < run.waiting_since_s <= now_s:
            raise self.error(run, "is started, but is not waiting")
        if run.start_s == NEVER:
            run.start_s = now_s
        elif run.resumes_by_s == math.inf:
            run.restarts += 1
        if self.slices is not None and run.job.is_slice:
            self.slices.starts(run)
        run.queued_s += now_s - run.waiting_since_s
        run.waiting_since_s = NEVER
        if now_s > run.resumes_by_s:
            run.preemptions += 1
        run.resumes_by_s = math.inf
        self._hold(run, parts, self.tenure.start_pause_s(run), copies, beside)

    def stop(self, run: JobRun) -> None:
        """Preempt a job: it gives up its GPUs, loses the work that the tenure specifies, and waits.

        A job whose copies have done all steps and are only being merged completes instead.
        """
        if not run.parts:
            raise self.error(run, "is stopped, but does not run")
        if run.copies is not None:
            self.settle(run)
            if not run.parts:
                return
        self._release(run)
        left = self.tenure.left_when_stopped(run)
        run.lost_work += left - run.left
        run.left = left
        run.losses += 1
        run.preemptions += 1
        run.waiting_since_s = self.now_s
        self.await_gpus(run)

    def lift(self, run: JobRun) -> None:
        """Take a job off its GPUs, so that `put` can place it elsewhere at the same time."""
        if not run.parts:
            raise self.error(run, "is moved, but does not run")
        self._release(run, as_event=not self.tenure.swaps)
        self._lifted[run.order] = run

    def put(
        self,
        run: JobRun,
        parts: list[Part],
        copies: Copies | None = None,
        *,
        restarts: bool = True,
        beside: JobRun | None = None,
    ) -> None:
        """Place a job, which `lift` has taken off its GPUs, on other reserved GPUs.

        Parameters
        ----------
        copies, beside
            See `start`.
        restarts
            Whether the job pays the tenure's cost of a move; `copies` carry their own costs.
        """
        if self._lifted.pop(run.order, None) is None:
            raise self.error(run, "is placed elsewhere by `put`, but `lift` did not take its GPUs")
        run.restarts += restarts
        pause_s = self.tenure.move_pause_s(run) if restarts else 0.0
        self._hold(run, parts, pause_s, copies, beside)

    def work_as_copies(self, run: JobRun, copies: Copies) -> None:
        """Let copies of a job, on the GPUs that it holds, share its remaining work from now on."""
        if run.copies is not None:
            note_slowness(run, self.best_rates)
        run.copies = copies
        run.rated_s = run.running_s
        run.restarting_s += math.fsum(copies.lost_s)
        self._schedule(run)

    def settle(self, run: JobRun) -> None:
        """Complete a job if its remaining work is within the rounding tolerance."""
        self.account(run)
        if run.left <= WORK_TOLERANCE * run.work:
            self._release(run)
            self._finish(run)

    def _hold(
        self,
        run: JobRun,
        parts: list[Part],
        pause_s: float,
        copies: Copies | None,
        beside: JobRun | None,
    ) -> None:
        if not parts:
            raise self.error(run, "is started without GPUs")
        if not isinstance(parts, list) or not isinstance(parts[0], Part):
            rule = f"must get GPUs that `view.fit` or `view.reserve` returned, not {parts}"
            raise self.error(run, rule)
        if len(parts) == 1:
            part = parts[0]
            gpus, workers = part.held, part.base + part.flexible
        else:
            gpus = sum(part.held for part in parts)
            workers = sum(part.base + part.flexible for part in parts if part.copy == 0)
        least = most = run.job.min_workers
        if self.policy.sizes_jobs:
            least, most = run.best_rates.least_workers, run.job.max_workers
        if not least <= workers <= most:
            asked = f"{least}" if least == most else f"{least} to {most}"
            raise self.error(run, f"has {asked} workers, but gets GPUs for {workers}")
        if copies is None and parts[-1].copy:
            raise self.error(run, "has several copies; `copies` must say how they work together")
        if copies is not None and not run.best_rates.of_copies:
            rule = f"has {len(copies.rates)} copies, but the policy does not set forks = True"
            raise self.error(run, rule)
        if isinstance(parts[0], SlicePart) != run.job.is_slice:
            raise self.error(run, "asks for part of a GPU, but gets whole GPUs, or the reverse")
        if isinstance(parts[0], SlicePart):
            assert self.slices is not None, "a slice is taken from opened GPUs"
            run.thousandths = parts[0].thousandths
            self.slices.running += run.thousandths
        elif beside is None:
            self._running_gpus += gpus
        else:
            if not self.policy.packs:
                rule = "shares GPUs, but the policy does not set packs = True"
                raise self.error(run, rule)
            if copies is not None or beside.copies is not None:
                raise self.error(run, "shares GPUs, but jobs with several copies cannot share")
            run.beside = beside
        run.parts = parts
        run.workers = workers
        run.held_gpus = gpus
        run.updated_s = run.began_s = now_s = self.now_s
        run.pauses_until_s = begins_s = now_s + pause_s
        run.lease_ends_s = begins_s + self._length_s
        run.allocations += 1
        if parts[-1].copy >= run.most_copies:
            run.most_copies = parts[-1].copy + 1
        self.running[run.order] = run
        if copies is None:
            run.restarting_s += pause_s
            run.rated_s = run.running_s
            self.speed.set_rate(run)
        elif self.speed.communication is not None:
            self.speed.note_copies(run)
        if self._notes_places:
            placed = run.gpus
            self._note_span(run, placed)
            run.allocations_by_tier[run.tier] += 1
            if run.last_gpus is not None and run.last_gpus != placed:
                run.migrations += 1
            run.last_gpus = placed
        if self.tenants is not None:
            self.tenants.note(run, now_s)
        if self.loans.is_active:
            self._note_hosted(run)
        if self._counts_speeds:
            self._count_speed(run, +1)
        if copies is None:
            self._schedule(run)
        else:
            self.work_as_copies(run, copies)
        if beside is not None:
            self._go_on_beside(beside, run)

    def _go_on_beside(self, run: JobRun, other: JobRun | None) -> None:
        """Let a job keep its GPUs, and share them with `other`; None means that it runs alone."""
        self._end_rate(run)
        run.beside = other
        self._set_rate(run)

    def _note_hosted(self, run: JobRun) -> None:
        if any(self.cluster.pools[part.pool].is_lent for part in run.parts):
            self._hosted[run.order] = run
            run.ran_on_loan = True
        else:
            self._hosted.pop(run.order, None)

    def _note_span(self, run: JobRun, gpus: Mapping[int, int]) -> None:
        if self.speed.communication is None:
            run.tier, _ = self.speed.spans.of(gpus, run.held_gpus)
        if len(gpus) == 1 and run.most_racks:
            return
        racks = self.cluster.rack_of_host
        pools, pool_of = self.cluster.pools, self.hosts.pool_of
        own = {racks[host] for host in gpus if not pools[pool_of[host]].is_lent}
        run.most_racks = max(run.most_racks, len(own))

    def _schedule(self, run: JobRun) -> None:
        """Schedule the event at which a job completes or its tenure ends, at its current rate."""
        run.version += 1
        if run.copies is not None:
            after_s = run.copies.completes_after_s(WORK_TOLERANCE * run.work)
            run.completes = after_s is not None
            if after_s is None:
                return
            end_s = run.copies.began_s + after_s
        else:
            if run.rate <= 0:
                raise self.error(run, "cannot run where it is placed")
            begins_s = run.pauses_until_s
            if begins_s < self.now_s:
                begins_s = self.now_s
            left_s = run.left / run.rate
            length_s = self._length_s
            if run.began_s < self.now_s:
                length_s = run.lease_ends_s - begins_s
            run.completes = run.left <= run.rate * length_s + WORK_TOLERANCE * run.work
            end_s = begins_s + (left_s if run.completes else length_s)
        self._sequence += 1
        heappush(self._events, (end_s, self._sequence, run, run.version))

    def _release(self, run: JobRun, *, as_event: bool = False) -> float:
        """Take a job off its GPUs and return when they become free.

        Parameters
        ----------
        as_event
            Whether GPUs become free through an event even if they are free now.
        """
        self.account(run)
        self.policy.gives_back(self, run)
        if run.rate < run.best_rates.best:
            note_slowness(run, self.best_rates)
        now_s, gpus = self.now_s, run.gpus
        free_s = now_s if self._is_reclaiming else self.tenure.free_s(run, now_s)
        if self._counts_speeds:
            self._count_speed(run, -1)
        stays = run.beside
        if stays is not None:  # the other job keeps the shared GPUs
            run.beside = None
            self._go_on_beside(stays, None)
            free_s = now_s
        elif isinstance(part := run.parts[0], SlicePart):
            assert self.slices is not None, "a slice is part of an opened GPU"
            self.slices.give(part)
            free_s = now_s
        else:
            self._running_gpus -= run.held_gpus
            self._hand_over(gpus, free_s, as_event=as_event)
        run.version += 1
        run.parts = []
        run.kept_gpus = None
        run.workers = run.held_gpus = 0
        run.rate = 0.0
        run.copies = None
        del self.running[run.order]
        self._hosted.pop(run.order, None)
        if self.tenants is not None:
            self.tenants.note(run, now_s)
        return free_s

    def await_gpus(self, run: JobRun) -> None:
        """Let a job wait from now on, and tell the policy."""
        if self.tenants is not None:
            self.tenants.note(run, self.now_s)
        if self.slices is not None and run.job.is_slice:
            self.slices.waits(run)
        self.policy.waits(self, run)

    def _hand_over(self, gpus: dict[int, int], free_s: float, *, as_event: bool) -> None:
        """Free the GPUs that a job gave up, at once or through an event at `free_s`."""
        if free_s <= self.now_s and not as_event:
            self.hosts.free_up(gpus)
            return
        self.hosts.release(gpus)
        self._sequence += 1
        if self.loans.is_active:
            # The dictionary is copied, because reclaiming servers removes hosts from it.
            self._handed_over[self._sequence] = gpus = dict(gpus)
        heappush(self._events, (free_s, self._sequence, None, gpus))

    def _finish(self, run: JobRun) -> None:
        run.rest, run.left = run.left, 0.0
        run.completion_s = self.now_s
        self.jobs_there -= 1
        self.policy.completes(self, run)

    def grow(self, run: JobRun, part: Part, workers: int, gpus: Mapping[int, int]) -> None:
        """Give a running job flexible workers on GPUs that are already taken for it.

        Parameters
        ----------
        part
            The part that grows; a new part is added to the job.
        """
        if not run.parts:
            raise self.error(run, "is scaled out, but does not run")
        job, count = run.job, sum(gpus.values())
        if workers < 1 or count < workers * job.gpus_per_worker:
            raise self.error(run, f"is scaled out by {workers} workers, but gets {count} GPUs")
        if run.workers + workers > job.max_workers:
            raise self.error(run, f"can use at most {job.max_workers} workers")
        if part not in run.parts:
            kinds = {self.cluster.pools[each.pool].is_lent for each in (*run.parts, part)}
            if len(kinds) > 1 and not job.heterogeneous:
                raise self.error(run, "takes either own or borrowed GPUs, not both")
        self._end_rate(run)
        if part not in run.parts:
            run.parts.append(part)
        flexible = part.gpus[Group.FLEXIBLE]
        for host, held in gpus.items():
            flexible[host] = flexible.get(host, 0) + held
        self._resize(run, part, workers, count)

    def shrink(self, run: JobRun, part: Part, workers: int, gpus: Mapping[int, int]) -> None:
        """Remove flexible workers from a running job; their GPUs are free at once."""
        flexible = part.gpus[Group.FLEXIBLE]
        if (
            part not in run.parts
            or not 1 <= workers <= part.flexible
            or not all(1 <= count <= flexible.get(host, 0) for host, count in gpus.items())
        ):
            raise self.error(run, "is scaled in by flexible workers that it does not have")
        self._end_rate(run)
        for host, count in gpus.items():
            left = flexible[host] - count
            if left:
                flexible[host] = left
            else:
                del flexible[host]
        self.hosts.free_up(gpus)
        self._resize(run, part, -workers, -sum(gpus.values()))

    def _resize(self, run: JobRun, part: Part, workers: int, gpus: int) -> None:
        if self._notes_places:
            self._count_speed(run, -1)
        part.flexible += workers
        part.held += gpus
        if not part.base and not part.flexible:
            run.parts.remove(part)
        if self.tenants is not None:
            self.tenants.note(run, self.now_s)
        if self.loans.is_active:
            self._note_hosted(run)
        run.kept_gpus = None
        run.workers += workers
        run.held_gpus += gpus
        self._running_gpus += gpus
        self._set_rate(run)
        if self._notes_places:
            self._count_speed(run, +1)
            self._note_span(run, run.gpus)

    def renew_rate(self, run: JobRun) -> None:
        """Let a tuned job keep its GPUs, at the rate that fits its current progress."""
        self._end_rate(run)
        self._set_rate(run)

    def _end_rate(self, run: JobRun) -> None:
        """Account for the work that a job did, and the time it lost, at its rate until now."""
        self.account(run)
        if run.rate < run.best_rates.best:
            note_slowness(run, self.best_rates)

    def _set_rate(self, run: JobRun) -> None:
        """Set a job's rate from the GPUs that it holds, and schedule its completion."""
        run.rated_s = run.running_s
        self.speed.set_rate(run)
        self._schedule(run)

    def _count_speed(self, run: JobRun, sign: int) -> None:
        """Add (`sign` 1) or subtract (`sign` -1) a job in the sums of lost speed and of copies."""
        self._distant_gpus += sign * run.held_gpus * (1.0 - run.efficiency)
        self._more_copies += sign * run.parts[-1].copy

    def _count(self, totals: Totals, elapsed_s: float) -> None:
        """Add `elapsed_s` seconds, in which nothing changes, to the totals."""
        hosts, loans = self.hosts, self.loans
        held = totals.held_gpu_s
        for pool, gpus in enumerate(hosts.held_of_pool):
            held[pool] += gpus * elapsed_s
        running = len(self.running)
        totals.running_job_s += running * elapsed_s
        totals.waiting_job_s += (self.jobs_there - running) * elapsed_s
        if self._counts_little:
            return
        if self.slices is not None:
            for pool, unused in enumerate(self.slices.unused_of_pool):
                unused_gpu_s = unused * elapsed_s / WHOLE_GPU
                held[pool] -= unused_gpu_s
                totals.opened_free_gpu_s += unused_gpu_s
            if self.jobs_there > running:
                totals.useless_gpu_s += self.slices.useless() * elapsed_s
        totals.handed_over_gpu_s += hosts.handed_over * elapsed_s
        totals.stranded_gpu_s += hosts.stranded_gpus * elapsed_s
        totals.partly_free_host_s += hosts.partly_free * elapsed_s
        totals.busy_server_s += hosts.busy_servers * elapsed_s
        totals.distance_gpu_s += self._distant_gpus * elapsed_s
        totals.more_copy_s += self._more_copies * elapsed_s
        if loans.is_planned:
            totals.serving_gpu_s += loans.serving_gpus * elapsed_s
            totals.on_loan_server_s += loans.on_loan * elapsed_s

    def _count_there(self) -> None:
        """Count the GPUs that were present until now, before their number changes."""
        elapsed_s = self.now_s - self._there_since_s
        self._there_since_s = self.now_s
        for pool, gpus in enumerate(self.hosts.gpus_of_pool):
            self.totals.there_gpu_s[pool] += gpus * elapsed_s

    def sums_at(self, time_s: float, names: Sequence[str]) -> list[float]:
        """Return the named totals at a time `time_s` up to which no event happens.

        The GPU-seconds held by pool follow the named totals.
        """
        now_s, totals = self.now_s, self.totals
        if self._skipped is None:
            if time_s > now_s:
                totals = totals.copy()
                self._count(totals, time_s - now_s)
            return totals.sums(names)
        before, until_s = self._skipped
        part = (time_s - now_s) / (until_s - now_s)
        return [
            low + part * (high - low)
            for low, high in zip(before.sums(names), totals.sums(names), strict=True)
        ]
