"""The policy of composed schemes such as Lyra: a queue, elastic scaling and loans.

Source: Lyra (EuroSys 2023), sections 4 to 6.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from heapq import merge
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.numbers import DAY_S, HOUR_S
from lyra_opt.core.seeding import derive_seed
from lyra_opt.simulation.gittins import GittinsOrder
from lyra_opt.simulation.hosts import Group
from lyra_opt.simulation.job_run import Part
from lyra_opt.simulation.policies.composition import IGNORE, RECLAIMING
from lyra_opt.simulation.policies.elastic import ElasticJobs
from lyra_opt.simulation.policies.fluid import FluidPrices, RecentWork
from lyra_opt.simulation.policies.parts import CapsInForce, PreemptionsInBudget
from lyra_opt.simulation.policies.pools import JobPools
from lyra_opt.simulation.policies.selection import FreeLater
from lyra_opt.simulation.policy import Policy
from lyra_opt.simulation.queue_orders import FIRST_COME, sort_key
from lyra_opt.simulation.queues import JobQueue
from lyra_opt.simulation.slices import BEST_FIT
from lyra_opt.simulation.tenants import FairQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from lyra_opt.simulation.decisions import ScalingRule
    from lyra_opt.simulation.hosts import PoolRoom
    from lyra_opt.simulation.job_run import JobRun
    from lyra_opt.simulation.policies.composition import Composition
    from lyra_opt.simulation.policies.fluid import PricedPreemption
    from lyra_opt.simulation.policies.parts import Candidate
    from lyra_opt.simulation.policies.selection import Backfill, Serving
    from lyra_opt.simulation.preempting import EmptiedServers, Pending, Preemption, PreemptionRule
    from lyra_opt.simulation.tenants import TenantLedger
    from lyra_opt.simulation.view import View

SCALING_INTERVAL_S = 60.0
"""Least time between two resizings of elastic jobs. Lyra does not state its interval."""


class ComposedPolicy(Policy):
    """Starts jobs in the order of a queue, resizes elastic jobs, and borrows servers.

    Parameters
    ----------
    name
        The name in results.
    parts
        The parts of the scheme.
    scaling
        How elastic jobs grow; None for not at all.
    scaling_interval_s
        Least time between two resizings of elastic jobs; 0 resizes at every event.

    Attributes
    ----------
    keeps_answers
        Whether the policy skips questions whose answer cannot have changed. Tests turn it off to
        compare.
    """

    keeps_answers = True

    def __init__(
        self,
        name: str,
        parts: Composition,
        *,
        scaling: ScalingRule | None = None,
        scaling_interval_s: float = SCALING_INTERVAL_S,
    ) -> None:
        super().__init__(name, reclaimer=parts.reclaimer, weighs_lost_work=parts.weighs_lost_work)
        self._composition = parts
        self._scaling = scaling
        self.tuned = None if scaling is None else scaling.tuned
        self._scaling_interval_s = scaling_interval_s

    def counted_pools(self, view: View) -> Collection[int]:
        """Return the own pools if the policy needs only their numbers of GPUs; else no pools.

        Numbers suffice without racks, if all workers have one whole GPU, no measured job runs
        slower when spread, and placement is by best fit. Replays are then faster.
        """
        parts = self._composition
        empties_servers = (
            view.cluster.tenants is not None
            and isinstance(parts.takes_back, str)
            and parts.takes_back.startswith(RECLAIMING)
        )
        chooses_hosts = parts.preempter is not None or parts.placement != BEST_FIT
        if view.cluster.topology is not None or chooses_hosts or empties_servers:
            return ()
        if any(
            job.gpus_per_worker > 1
            or job.is_slice
            or (job.measured is not None and job.measured.spread_throughput is not None)
            for job in view.workload.jobs
        ):
            return ()
        return [pool.number for pool in view.cluster.pools if not pool.is_lent]

    def begin(self, view: View) -> None:
        """Prepare for a run: create the queue, the pools and the optional parts of the scheme."""
        self._view = view
        self._next_scaling_s = view.now_s
        self._pools = JobPools(view, self._composition)
        self._key = key = sort_key(self._composition.queue, view)
        self._later: dict[int, FreeLater] = {}
        self._reserved = 0
        # Waiting jobs in order, as (sort key, index, job).
        self._line: list[tuple[tuple[float, ...], int, JobRun]] = []
        self._next_serving_s = self._next_pricing_s = view.now_s
        priced = self._composition.priced_preemption
        self._recent: RecentWork | None = None
        if priced is not None:
            self._recent = RecentWork(priced.window_days * DAY_S, view.now_s)
        self._keeps_line = bool(self._composition.serving or priced)

        def make_queue() -> JobQueue:
            return JobQueue(key, self._kind_of)

        parts = self._composition
        self._tenants: TenantLedger | None = None if parts.quotas == IGNORE else view.tenants
        if self._tenants is not None:
            self._tenants.limits = parts.limits(self._tenants.quotas)
        self._elastic = ElasticJobs(
            view,
            self._pools,
            self._scaling,
            shrinks_longer_only=parts.shrinks_longer_only,
            tenants=self._tenants,
        )
        self._queue: JobQueue | FairQueue = (
            make_queue()
            if self._tenants is None
            else FairQueue(self._tenants, make_queue, self._may_start, self._state)
        )
        self._caps = self._preemptions = None
        # Then `_rooms_for` contains every own pool, whatever the job.
        self._all_use_own_pools = (
            self.keeps_answers
            and self._tenants is None
            and parts.run_time_caps is None
            and not parts.confines_fungible
            and not any(map(self._pools.is_choosy, view.workload.jobs))
        )
        if parts.run_time_caps is not None:
            self._caps = CapsInForce(parts.run_time_caps, gpus=view.cluster.gpus, now_s=view.now_s)
        if parts.voluntary_preemption is not None:
            self._preemptions = PreemptionsInBudget(parts.voluntary_preemption, key)
        self._preempter: PreemptionRule | None = None
        self._taking_back: PreemptionRule | EmptiedServers | None = None
        self._refused: set[int] = set()
        seed = derive_seed(simulation=view.workload.name, seed=view.seed)
        if parts.preempter is not None:
            from lyra_opt.simulation.preempting import PreemptionRule

            self._preempter = PreemptionRule(
                parts.preempter, weighs_lost_work=parts.weighs_lost_work, seed=seed
            )
        if self._tenants is not None and parts.takes_back is not None:
            from lyra_opt.simulation.preempting import taking_back

            self._taking_back = taking_back(
                parts.takes_back, weighs_lost_work=parts.weighs_lost_work, seed=seed
            )

    def waits(self, view: View, run: JobRun) -> None:
        """Add a job to the queue, and notify the run-time caps and the preemption rule."""
        if self._caps is not None and not run.losses:
            self._caps.submitted(view.now_s, self._left_s(run), run.job.min_gpus)
        if self._recent is not None and not run.losses:
            self._recent.submitted(view.now_s, view.left_gpu_s(run))
        if self._preemptions is not None:
            self._preemptions.waits(run, view.now_s, self._left_s(run))
        self._queue.add(run)
        if self._keeps_line:
            insort(self._line, (self._key(run), run.order, run))

    def gives_back(self, view: View, run: JobRun) -> None:  # noqa: ARG002
        """Stop counting a job's GPUs towards the run-time caps, and stop resizing the job."""
        if self._caps is not None:
            self._caps.ends(run.order)
        self._elastic.remove(run)

    def completes(self, view: View, run: JobRun) -> None:  # noqa: ARG002
        """Learn the run time of a job for the order by Gittins index."""
        if isinstance(self._key, GittinsOrder):
            self._key.completes(run)

    def decide(self, view: View) -> None:
        """Start waiting jobs if anything has changed, and resize elastic jobs if that is due."""
        if view.has_news:
            if self._caps is not None:
                self._caps.advance(view.now_s)
            if (serving := self._composition.serving) and self._next_serving_s <= view.now_s:
                self._next_serving_s = view.now_s + serving.interval_s
                self._serve(serving)
            self._start_queued()
            if self._preemptions is not None:
                self._preempt(self._preemptions)
            priced = self._composition.priced_preemption
            if priced is not None and self._line and self._next_pricing_s <= view.now_s:
                self._next_pricing_s = view.now_s + priced.interval_s
                self._preempt_by_price(priced)
        if self._scaling is not None:
            if self._next_scaling_s <= view.now_s:
                self._next_scaling_s = view.now_s + self._scaling_interval_s
                if not (self._composition.grows_only_without_queue and len(self._queue)):
                    self._elastic.resize()
            else:
                self.wake_s = self._next_scaling_s

    def _start_queued(self) -> None:
        """Start jobs in the order of the queue until no further job can start."""
        queue = self._queue
        if not len(queue):
            return
        # The answers hold until jobs or GPUs arrive or leave, so a job is tried once until then.
        self._refused.clear()
        self._begin_pass()
        backfill = self._composition.backfill
        could_start = None
        while (run := queue.first()) is not None:
            if could_start is not None and not could_start(run):
                queue.block()
                continue
            if backfill and not any(self._pools.free_for_base(room) for room in self._pools.rooms):
                return
            homes = self._homes(run)
            if homes and self._delays_nobody(run, homes):
                queue.take()
                self._start(run, homes)
                could_start = self._possible_starts()
            elif not homes and self._starts_by_stopping(run):
                self._begin_pass()  # jobs that were stopped can start on the GPUs that are left
            else:
                if backfill:
                    self._reserve(run, backfill)
                queue.block()

    def _delays_nobody(self, run: JobRun, homes: Iterable[tuple[PoolRoom, int]]) -> bool:
        """Return whether no reservation is in the way of a start; the GPUs are then reserved."""
        now_s, left_s = self._view.now_s, self._left_s(run)
        taken = [
            (self._later[room.number], workers * run.job.gpus_per_worker)
            for room, workers in homes
            if room.number in self._later
        ]
        if any(later.start_s(gpus, left_s) > now_s for later, gpus in taken):
            return False
        for later, gpus in taken:
            later.reserve(now_s, gpus, left_s)
        return True

    def _reserve(self, run: JobRun, backfill: Backfill) -> None:
        """Reserve own GPUs for a waiting job at the earliest possible time, if it gets any."""
        view = self._view
        rooms = [room for room in self._rooms_for(run) if not room.is_lent]
        if (
            not rooms
            or view.now_s - run.waiting_since_s < backfill.waited_h * HOUR_S
            or self._reserved >= (backfill.reservations or math.inf)
        ):
            return
        self._reserved += 1
        if not self._later:
            ends: dict[int, list[tuple[float, int]]] = {room.number: [] for room in self._pools.own}
            for other in view.running.values():
                view.account(other)
                # A job that exceeds its estimate ends soon, but not now.
                end_s = view.now_s + max(1.0, self._left_s(other))
                for part in other.parts:
                    if part.pool in ends:
                        ends[part.pool].append((end_s, sum(part.gpus[Group.BASE].values())))
            self._later = {
                room.number: FreeLater(
                    view.now_s, self._pools.free_for_base(room), ends[room.number]
                )
                for room in self._pools.own
            }
        left_s = self._left_s(run)
        start_s, _, number = min(
            (self._later[room.number].start_s(run.job.min_gpus, left_s), place, room.number)
            for place, room in enumerate(rooms)
        )
        self._later[number].reserve(start_s, run.job.min_gpus, left_s)

    def _serve(self, serving: Serving) -> None:
        """Stop running jobs for waiting jobs that the rule of serving prefers, in each own pool."""
        for room in self._pools.own:
            running = [(self._key(run), run.order, run) for run in self._running_in(room)]
            gpus = self._pools.free_for_base(room) + sum(run.job.min_gpus for *_, run in running)
            ranked = list(merge(sorted(running), self._line_for(room)))
            places = set(serving.chosen((run.job.min_gpus for *_, run in ranked), gpus))
            able = [run for place, (*_, run) in enumerate(ranked) if place not in places]
            able = [run for run in able if run.is_running]
            come = [ranked[place][2] for place in places if not ranked[place][2].is_running]
            for run in sorted(come, key=lambda run: (-run.job.min_gpus, run.order)):
                self._serve_one(run, room, able)

    def _running_in(self, room: PoolRoom) -> Iterator[JobRun]:
        """Yield the running jobs that hold GPUs of this pool alone, with their work accounted."""
        for run in self._view.running.values():
            if len(run.parts) == 1 and run.parts[0].pool == room.number:
                self._view.account(run)
                yield run

    def _line_for(self, room: PoolRoom) -> list[tuple[tuple[float, ...], int, JobRun]]:
        """Return the entries of the waiting jobs that can use an own pool, in order."""
        if self._all_use_own_pools:
            return self._line
        return [entry for entry in self._line if room in self._rooms_for(entry[2])]

    def _serve_one(self, run: JobRun, room: PoolRoom, able: list[JobRun]) -> None:
        """Start a waiting job in a pool in place of the last jobs of `able`, if it then fits."""
        job, stopped = run.job, 0
        if self._pools.must_stay_together(job, room):
            return
        if not self._pools.has_room(room, job, job.min_workers) and not self._elastic.make_room(
            room, run
        ):
            for stopped in range(1, len(able) + 1):
                leaving = [other.gpus for other in able[-stopped:]]
                if room.fit.room_after(leaving, job.gpus_per_worker) >= job.min_workers:
                    break
            else:
                return
        for _ in range(stopped):
            self._view.stop(able.pop())
        assert isinstance(self._queue, JobQueue), "serving cannot be combined with quotas"
        self._queue.remove(run)
        self._start(run, [(room, job.min_workers)])

    def _begin_pass(self) -> None:
        self._later, self._reserved = {}, 0
        self._most_free = max(
            self._view.hosts.free_of_pool[room.number] for room in self._pools.own
        )
        if isinstance(self._queue, JobQueue):
            self._queue.begin(self._possible_starts())
        else:
            self._queue.begin()

    def _possible_starts(self) -> Callable[[JobRun], bool] | None:
        """Return a test that only jobs fail that cannot start before a job ends or is stopped.

        A start takes its GPUs from free GPUs, or from flexible workers, which then become free. So
        the sum of both in a pool does not grow during a pass. None if more decides.
        """
        others_end = self._preempter is not None or self._taking_back is not None
        is_counted = self._composition.backfill is None and self._view.slices is None
        if others_end or not is_counted or not self.keeps_answers:
            return None
        own = [self._pools.free_for_base(room) for room in self._pools.own]
        lent = [self._pools.free_for_base(room) for room in self._pools.lent]
        most_own = max(own)
        # A job on own and borrowed GPUs at once can need both together.
        most = sum(own) + sum(lent) if self._pools.mixes else max(*own, *lent, 0)

        def could_start(run: JobRun) -> bool:
            job = run.job
            can_borrow = job.fungible or job.heterogeneous
            return job.min_gpus <= (most if can_borrow else most_own)

        return could_start

    def _starts_by_stopping(self, run: JobRun) -> bool:
        """Start the first job of the queue in place of others, if its priority or quota allows it.

        The pools are tried in the order of preference of the job.
        """
        if (self._preempter is None and self._taking_back is None) or run.order in self._refused:
            return False
        for room in self._rooms_for(run):
            found = self._preempted_for(run, room)
            if found is None and (found := self._taken_back_for(run, room)) is not None:
                assert self._tenants is not None, "only quotas take back"
                for other in found.stopped:
                    self._tenants.note_taken_back(other)
            if found is not None:
                self._queue.take()
                for other in found.stopped:
                    self._view.stop(other)
                for other, gpus_of_host in found.shrunk:
                    self._elastic.give_up(other, room, gpus_of_host)
                self._view.hosts.take(found.gpus)
                self._start(run, [(room, run.job.min_workers)], found.gpus)
                return True
        self._refused.add(run.order)
        return False

    def _preempted_for(self, run: JobRun, room: PoolRoom) -> Preemption | None:
        """Return the jobs of lower priority that give way to a waiting job in a pool.

        With quotas, only jobs of the same tenant give way.
        """
        if self._preempter is None:
            return None
        victims = None
        if self._tenants is not None:
            from lyra_opt.simulation.preempting import lower_jobs

            victims = self._of_same_tenant(run, lower_jobs(self._view, run))
        return self._preempter.choose(self._view, self._pending(run, room), victims)

    def _of_same_tenant(self, run: JobRun, others: Iterable[JobRun]) -> list[JobRun]:
        assert self._tenants is not None, "only quotas distinguish tenants"
        path = self._tenants.path_of(run)
        return [other for other in others if self._tenants.path_of(other) == path]

    def _stoppable(self, run: JobRun, room: PoolRoom) -> Iterable[JobRun]:
        """Return the running jobs that voluntary preemption may stop for a waiting job.

        With quotas these are jobs of the same tenant, and jobs whose GPUs were borrowed.
        """
        running = self._view.running
        if self._tenants is None:
            return running.values()
        borrowed = self._tenants.victims(run, room.number)
        able = [*self._of_same_tenant(run, running.values()), *borrowed]
        orders = {other.order for other in able}
        return [other for order, other in running.items() if order in orders]

    def _taken_back_for(self, run: JobRun, room: PoolRoom) -> Preemption | None:
        """Return the jobs of other tenants that give way to a waiting job in a pool by quota."""
        if self._taking_back is None or self._tenants is None or room.is_lent:
            return None
        victims = self._tenants.victims(run, room.number)
        if not victims:
            return None
        return self._taking_back.choose(self._view, self._pending(run, room), victims)

    def _pending(self, run: JobRun, room: PoolRoom) -> Pending:
        """Return the GPUs that a waiting job needs in a pool."""
        from lyra_opt.simulation.preempting import Pending

        job = run.job
        if self._pools.must_stay_together(job, room):
            return Pending(run, room, 1, job.min_gpus)
        return Pending(run, room, job.min_workers * room.replicas, job.gpus_per_worker)

    def _start(
        self,
        run: JobRun,
        homes: Iterable[tuple[PoolRoom, int]],
        placed: dict[int, int] | None = None,
    ) -> None:
        """Start a waiting job in pools with room, or on the GPUs `placed` that it has taken."""
        job = run.job
        if self._keeps_line:
            del self._line[bisect_left(self._line, (self._key(run), run.order))]
        parts: list[Part] = []
        is_bound = False
        for room, workers in homes:
            if job.is_slice:
                thousandths = self._pools.slice_in(room, run)
                fit = self._pools.slice_fits[room.number]
                parts.append(fit.place_slice(thousandths, room.worker_speed))
                break
            is_bound = self._pools.must_stay_together(job, room)
            count, width = (
                (1, job.min_gpus) if is_bound else (workers * room.replicas, job.gpus_per_worker)
            )
            gpus = placed or room.fit.place(count, width, Group.BASE)
            parts.append(Part(room.number, gpus, workers, count * width, room.worker_speed))
        if self._caps is not None:
            own_gpus = sum(
                part.held for part in parts if not self._pools.room_of_pool[part.pool].is_lent
            )
            self._caps.starts(run.order, self._caps.class_of(self._left_s(run)), own_gpus)
        self._view.start(run, parts)
        if job.max_workers > job.min_workers and not is_bound:
            self._elastic.add(run)

    def _preempt(self, preemptions: PreemptionsInBudget) -> None:
        """Stop running jobs for jobs that have waited long, if the rule of preemption allows it."""
        view = self._view
        # The candidates of a pool hold at one time until jobs stop and others start.
        candidates: dict[int, list[Candidate]] = {}
        for run in preemptions.impatient(view):
            if run.is_running or self._pools.is_choosy(run.job):
                continue
            for room in self._rooms_for(run):
                if room.is_lent or self._pools.must_stay_together(run.job, room):
                    continue
                is_new = self._tenants is not None or not self.keeps_answers
                if is_new or room.number not in candidates:
                    able = self._stoppable(run, room)
                    candidates[room.number] = preemptions.candidates(view, room, able)
                stopped = preemptions.stopped_for(view, run, room, candidates[room.number])
                if stopped:
                    for other in stopped:
                        view.stop(other)
                    self._start_queued()
                    candidates.clear()
                    break

    def _preempt_by_price(self, priced: PricedPreemption) -> None:
        """Stop running jobs on own GPUs for waiting jobs, at the prices of the fluid model."""
        view = self._view
        assert self._recent is not None, "only schemes with prices look back"
        rates = self._recent.rates(view.now_s)
        for room in self._pools.own:
            running = list(self._running_in(room))
            waiting = [run for *_, run in self._line_for(room)]
            works_gpu_s = [view.left_gpu_s(run) for run in (*running, *waiting)]
            prices = FluidPrices(priced, view.cluster.gpus, works_gpu_s, rates)
            needed = np.array([run.job.min_gpus for run in (*running, *waiting)], np.float64)
            left_s = np.array(works_gpu_s) / needed
            now = len(running)
            is_best_now = prices.is_best_now(left_s[now:], needed[now:])
            come = [run for run, is_best in zip(waiting, is_best_now, strict=True) if is_best]
            if not come:
                continue
            lost_s = np.array([view.lost_gpu_s(run) for run in running]) / needed[:now]
            gains = prices.gain_of_stop(left_s[:now], left_s[:now] + lost_s, needed[:now])
            found = sorted(
                (gain, -run.order, run)
                for gain, run in zip(gains.tolist(), running, strict=True)
                if gain > 0
            )
            for run in come:
                able = [
                    other
                    for *_, other in found
                    if other.is_running and view.left_gpu_s(other) > view.left_gpu_s(run)
                ]
                self._serve_one(run, room, able)
        self._start_queued()

    def _left_s(self, run: JobRun) -> float:
        """Return a job's estimated remaining running time with its base demand, in seconds."""
        return self._view.speed.believed_left_worker_s(run) / run.job.min_workers

    def _kind_of(self, run: JobRun) -> object:
        """Return a job's kind; if a job does not fit, the queue skips all jobs of its kind.

        Jobs are of one kind if they need the same; under first-come, all jobs are of one kind.
        """
        job = run.job
        if self._composition.backfill is not None:
            return run.order  # whether a job delays a reservation depends on its own run time
        if self._composition.queue == FIRST_COME:
            return self._pools.is_confined(job)
        rooms: tuple[tuple[int, bool], ...] = ()
        if self._pools.is_choosy(job):
            own, lent = self._pools.rooms_of(job, run.order)
            rooms = tuple(
                (room.number, self._pools.must_stay_together(job, room)) for room in (*own, *lent)
            )
        asks: tuple[object, ...]
        asks = job.min_gpus, job.gpus_per_worker, job.fungible, job.heterogeneous, job.is_elastic
        if job.is_slice:
            asks = *asks, job.gpu_thousandths, job.gpu_memory_mib
        if self._composition.shrinks_longer_only:
            # `max_workers` is part of a job's kind, so jobs of a kind are tried by increasing work.
            # A blocked job must not hide another job that could scale in more running jobs.
            asks = *asks, job.max_workers
        caps, rule = self._caps, self._composition.loan_rule
        if caps is None and rule is None:  # a shortcut, because every waiting job gets here
            return *asks, rooms
        left_s = self._left_s(run)
        held_back = None if caps is None else caps.class_of(left_s)
        on_loan = None if rule is None else (rule.admits(left_s), rule.prefers(left_s))
        return *asks, rooms, held_back, on_loan

    def _homes(self, run: JobRun) -> list[tuple[PoolRoom, int]]:
        """Return the (pool, workers) pairs for a job's base demand; empty if it does not fit."""
        job = run.job
        rooms = self._rooms_for(run)
        for room in rooms:
            if self._pools.fits(run, room):
                return [(room, job.min_workers)]
        if job.heterogeneous and len(rooms) > 1 and self._pools.mixes:
            fits = [(room, room.fitting(job.gpus_per_worker, Group.BASE)) for room in rooms]
            if sum(workers for _, workers in fits) >= job.min_workers:
                homes, left = [], job.min_workers
                for room, fitting in fits:
                    workers = min(fitting, left)
                    if workers:
                        homes.append((room, workers))
                    left -= workers
                return homes
        if self._scaling is not None:
            for room in rooms:
                if self._elastic.make_room(room, run):
                    return [(room, job.min_workers)]
        return []

    def _rooms_for(self, run: JobRun) -> list[PoolRoom]:
        """Return the pools in which a job may start now, in order of preference."""
        rooms = self._preferred_rooms(run)
        caps, gpus = self._caps, run.job.min_gpus
        ledger = self._tenants
        if (ledger is None or ledger.may_take(ledger.path_of(run), gpus)) and (
            caps is None or caps.admits(caps.class_of(self._left_s(run)), gpus)
        ):
            return rooms
        return [room for room in rooms if room.is_lent]

    def _may_start(self, tenant: int, gpus: int) -> bool:
        """Return False if a tenant certainly cannot start a job of `gpus` GPUs or more now."""
        ledger = self._tenants
        assert ledger is not None, "only tenants have quotas"
        if self._pools.lent:
            return True
        if not ledger.may_take(ledger.quotas.paths[tenant], gpus):
            return False
        if self._scaling is not None or self._preempter is not None:
            return True
        return self._most_free >= gpus or (
            self._taking_back is not None and ledger.is_entitled(tenant, gpus)
        )

    def _state(self) -> object:
        """Return the state of own GPUs if it alone decides which jobs may start; otherwise None."""
        ledger = self._tenants
        parts = self._composition
        is_timed = parts.backfill is not None or self._caps is not None
        if ledger is None or self._pools.lent or self._scaling or self._preempter or is_timed:
            return None
        return ledger.changes, [
            self._view.hosts.free_of_pool[room.number] for room in self._pools.own
        ]

    def _preferred_rooms(self, run: JobRun) -> list[PoolRoom]:
        """Return the pools in which a job may run, ignoring caps, in order of preference.

        Elastic jobs prefer servers on loan; other jobs prefer own servers (Lyra, section 5.3)
        unless `prefers_loans` is set. Jobs that can use both kinds of GPUs have their base demand
        on own servers (section 6). Among own pools the fastest comes first.
        """
        job = run.job
        own, lent = self._pools.own, self._pools.lent
        if self._pools.is_choosy(job):
            own, lent = self._pools.rooms_of(job, run.order)
        if not lent or not (job.fungible or job.heterogeneous):
            return own
        if self._composition.confines_fungible:
            return lent if self._pools.is_confined(job) else own
        rule = self._composition.loan_rule
        if rule is not None:
            left_s = self._left_s(run)
            if not rule.admits(left_s):
                return own
            if rule.prefers(left_s):
                return [*lent, *own]
        if (job.is_elastic or self._composition.prefers_loans) and not job.heterogeneous:
            return [*lent, *own]
        return [*own, *lent]

    def reclaim(self, view: View, count: int) -> list[int]:
        """Vacate the borrowed servers that the reclaim solver chooses; return their hosts.

        A job with base workers on a vacated server is stopped. Any other job loses its flexible
        workers on that server, and replicas that no longer form a whole worker, from the servers
        that hold the fewest of them.
        """
        hosted = view.hosted()
        chosen = self.choose_reclaimed(view, count)
        vacated = set(chosen)
        for run in hosted:
            parts = [part for part in run.parts if view.cluster.pools[part.pool].is_lent]
            if any(not vacated.isdisjoint(part.gpus[Group.BASE]) for part in parts):
                view.stop(run)
                continue
            self._elastic.withdraw(run, vacated)
        return chosen
