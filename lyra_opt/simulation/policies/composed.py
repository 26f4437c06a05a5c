"""Lyra's shape of a scheme: a queue, elastic scaling, and loans, each a part of its own.

GPUs of a slower kind may make up for it by number: `replicas` workers on borrowed ones do what one
worker does on a reference GPU, with the same GPUs each (more workers, the same global batch; three
inference servers count as one training server). Where no whole number makes up for it exactly, so
many are taken that they are faster.

Source: Lyra (EuroSys 2023), sections 2.1, 4 to 6 and 7.5.
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING

from lyra_opt.simulation.hosts import Group, PoolRoom
from lyra_opt.simulation.job_run import Part
from lyra_opt.simulation.policies.parts import CapsInForce, PreemptionsInBudget
from lyra_opt.simulation.policy import Policy
from lyra_opt.simulation.queues import FIRST_COME, ORDERS, JobQueue
from lyra_opt.simulation.speed import Room

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from lyra_opt.simulation.decisions import ScalingRule
    from lyra_opt.simulation.job_run import JobRun
    from lyra_opt.simulation.policies.composition import Composition
    from lyra_opt.simulation.view import View
    from lyra_opt.simulation.workload import Job

SCALING_INTERVAL_S = 60.0
"""How often elastic jobs are resized at most. Lyra does not state its own interval."""


class ComposedPolicy(Policy):
    """Starts jobs in the order of a queue, resizes elastic ones, and borrows servers.

    Parameters
    ----------
    name
        What it is called.
    parts
        What it is put together from.
    scaling
        How elastic jobs grow; None: not at all.
    scaling_interval_s
        Least time between two resizings of elastic jobs; 0 resizes at every event.
    """

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
        self._elastic: dict[int, JobRun] = {}

    def counted_pools(self, view: View) -> Collection[int]:
        """Return the own pools whose servers make no difference: to one-GPU workers, without racks.

        See `Policy`.
        """
        if view.cluster.topology is not None:
            return ()
        if any(
            job.gpus_per_worker > 1
            or (job.measured is not None and job.measured.spread_throughput is not None)
            for job in view.workload.jobs
        ):
            return ()
        return [pool.number for pool in view.cluster.pools if not pool.is_lent]

    def begin(self, view: View) -> None:
        """See `Policy`."""
        self._view = view
        self._borrows = view.loans.is_active
        self._next_scaling_s = view.now_s
        pools = view.cluster.pools
        has_types = sum(not pool.is_lent for pool in pools) > 1
        self._rooms = [
            PoolRoom(
                pool,
                view.hosts,
                kind="loan" if pool.is_lent else pool.gpu_type.name if has_types else "training",
                mixes_groups=not (pool.is_lent and self._composition.keeps_groups_apart),
            )
            for pool in pools
            if self._borrows or not pool.is_lent
        ]
        self._own = [room for room in self._rooms if not room.is_lent]
        self._lent = [room for room in self._rooms if room.is_lent]
        self._room_of_pool = {room.number: room for room in self._rooms}
        # What is left of jobs is in worker-seconds then, so that both kinds add up.
        self._mixes = (
            len(self._own) == len(self._lent) == 1
            and view.speed.communication is None
            and all(job.measured is None for job in view.workload.jobs)
        )
        self._rooms_of_choosy: dict[int, tuple[list[PoolRoom], list[PoolRoom]]] = {}
        order = ORDERS[self._composition.queue]

        def key(run: JobRun) -> tuple[float, ...]:
            return order(run, view.speed)

        self._queue = JobQueue(key, self._kind_of)
        parts = self._composition
        self._caps = self._preemptions = None
        if parts.run_time_caps is not None:
            self._caps = CapsInForce(parts.run_time_caps, gpus=view.cluster.gpus, now_s=view.now_s)
        if parts.voluntary_preemption is not None:
            self._preemptions = PreemptionsInBudget(
                parts.voluntary_preemption,
                lambda one, other: (key(one), one.order) < (key(other), other.order),
            )

    # What happens.

    def waits(self, view: View, run: JobRun) -> None:
        """See `Policy`."""
        if self._caps is not None and not run.losses:
            self._caps.submitted(view.now_s, self._left_s(run), run.job.min_gpus)
        if self._preemptions is not None:
            self._preemptions.waits(run, view.now_s, self._left_s(run))
        self._queue.add(run)

    def gives_back(self, view: View, run: JobRun) -> None:  # noqa: ARG002
        """See `Policy`."""
        if self._caps is not None:
            self._caps.ends(run.order)
        if self._elastic.pop(run.order, None) is not None:
            for part in run.parts:
                room = self._room_of_pool[part.pool]
                room.flexible_gpus -= part.flexible * room.replicas * run.job.gpus_per_worker

    def decide(self, view: View) -> None:
        """Carry out a scheduling pass, and resize elastic jobs if that is due."""
        if view.has_news:
            if self._caps is not None:
                self._caps.advance(view.now_s)
            self._start_queued()
            if self._preemptions is not None:
                self._preempt(self._preemptions)
        if self._scaling is not None:
            if self._next_scaling_s <= view.now_s:
                self._resize()
            else:
                self.wake_s = self._next_scaling_s

    # The queue.

    def _start_queued(self) -> None:
        """Start jobs in the order of the queue, until nobody who may start fits."""
        queue = self._queue
        if not len(queue):
            return
        queue.begin()
        while (run := queue.first()) is not None:
            homes = self._homes(run)
            if homes:
                queue.take()
                self._start(run, homes)
            else:
                queue.block()

    def _start(self, run: JobRun, homes: Iterable[tuple[PoolRoom, int]]) -> None:
        job = run.job
        parts = []
        is_bound = False
        for room, workers in homes:
            is_bound = self._must_stay_together(job, room)
            count, width = (
                (1, job.min_gpus) if is_bound else (workers * room.replicas, job.gpus_per_worker)
            )
            gpus = room.fit.place(count, width, Group.BASE)
            parts.append(Part(room.number, gpus, workers, count * width, room.worker_speed))
        if self._caps is not None:
            own_gpus = sum(part.held for part in parts if not self._room_of_pool[part.pool].is_lent)
            self._caps.starts(run.order, self._caps.class_of(self._left_s(run)), own_gpus)
        self._view.start(run, parts)
        if job.max_workers > job.min_workers and not is_bound:
            self._elastic[run.order] = run

    def _preempt(self, preemptions: PreemptionsInBudget) -> None:
        """Stop running jobs for those that have waited long, where that pays."""
        view = self._view
        for run in preemptions.impatient(view):
            if run.is_running or self._is_choosy(run.job):
                continue
            for room in self._rooms_for(run):
                if room.is_lent or self._must_stay_together(run.job, room):
                    continue
                if stopped := preemptions.stopped_for(view, run, room):
                    for other in stopped:
                        view.stop(other)
                    self._start_queued()
                    break

    def _left_s(self, run: JobRun) -> float:
        """Return how long a job still runs on its base demand, as far as it is known."""
        return self._view.speed.believed_left_worker_s(run) / run.job.min_workers

    def _must_stay_together(self, job: Job, room: PoolRoom) -> bool:
        """Whether a gang runs on a single server of a pool alone.

        A measured one does so on borrowed GPUs too, as many as were measured, without replicas.
        """
        speed = self._view.speed
        if job.measured is None or not speed.unit_of(job).is_measured:
            return False
        return room.replicas > 1 or speed.room_for(job, room.number) is Room.TOGETHER

    def _kind_of(self, run: JobRun) -> object:
        """Return with whom a job is blocked: who needs the same, or all where none overtakes."""
        job = run.job
        if self._composition.queue == FIRST_COME:
            return self._is_confined(job)
        rooms: tuple[tuple[int, bool], ...] = ()
        if self._is_choosy(job):
            own, lent = self._rooms_of(job, run.order)
            rooms = tuple(
                (room.number, self._must_stay_together(job, room)) for room in (*own, *lent)
            )
        asks: tuple[object, ...]
        asks = job.min_gpus, job.gpus_per_worker, job.fungible, job.heterogeneous, job.is_elastic
        if self._composition.shrinks_longer_only:
            # Among jobs with equal most workers the queue tries those with less work first, so that
            # a blocked job hides no job that may scale in more of the running ones.
            asks = *asks, job.max_workers
        caps, rule = self._caps, self._composition.loan_rule
        if caps is None and rule is None:  # asked for every job that waits
            return *asks, rooms
        left_s = self._left_s(run)
        held_back = None if caps is None else caps.class_of(left_s)
        on_loan = None if rule is None else (rule.admits(left_s), rule.prefers(left_s))
        return *asks, rooms, held_back, on_loan

    def _homes(self, run: JobRun) -> list[tuple[PoolRoom, int]]:
        """Return where the base demand goes, as (pool, workers); empty if there is no room."""
        job = run.job
        rooms = self._rooms_for(run)
        for room in rooms:
            if self._has_room(room, job, job.min_workers):
                return [(room, job.min_workers)]
        if job.heterogeneous and len(rooms) > 1 and self._mixes:
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
                if self._make_room(room, run):
                    return [(room, job.min_workers)]
        return []

    def _rooms_for(self, run: JobRun) -> list[PoolRoom]:
        """Return the pools that a job may run in now, the preferred one first."""
        rooms = self._preferred_rooms(run)
        caps = self._caps
        if caps is None or caps.admits(caps.class_of(self._left_s(run)), run.job.min_gpus):
            return rooms
        return [room for room in rooms if room.is_lent]

    def _preferred_rooms(self, run: JobRun) -> list[PoolRoom]:
        """Return the pools that a job may run in if no cap holds it back.

        Elastic jobs prefer servers on loan, others own servers (Lyra, section 5.3) unless all are
        to fill loans first; jobs on both kinds have their base demand on own servers (section 6).
        Among own ones the fastest comes first.
        """
        job = run.job
        own, lent = self._own, self._lent
        if self._is_choosy(job):
            own, lent = self._rooms_of(job, run.order)
        if not lent or not (job.fungible or job.heterogeneous):
            return own
        if self._composition.confines_fungible:
            return lent if self._is_confined(job) else own
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

    @staticmethod
    def _is_choosy(job: Job) -> bool:
        """Whether there may be pools with room for a job in which it cannot run."""
        return job.measured is not None or bool(job.gpu_types)

    def _rooms_of(self, job: Job, order: int) -> tuple[list[PoolRoom], list[PoolRoom]]:
        """Return the own and the borrowed pools in which a choosy job can run; kept.

        The fastest first, if its throughput was measured.
        """
        found = self._rooms_of_choosy.get(order)
        if found is None:
            if job.measured is None:
                rooms = [room for room in self._rooms if self._takes(job, room)]
            else:
                pools = self._view.speed.pools_of(job)
                rooms = [
                    self._room_of_pool[pool] for _, pool in pools if pool in self._room_of_pool
                ]
            found = self._rooms_of_choosy[order] = (
                [room for room in rooms if not room.is_lent],
                [room for room in rooms if room.is_lent],
            )
        return found

    def _takes(self, job: Job, room: PoolRoom) -> bool:
        """Whether a job may run in a pool, as far as it asks for types."""
        return job.takes(self._view.cluster.pools[room.number].gpu_type.name)

    def _is_confined(self, job: Job) -> bool:
        """Whether a job of a scheme that confines fungible jobs waits for borrowed servers.

        It must be small enough to find room there before long, at most a tenth of the inference
        cluster, so that a workload has no job that waits for a loan that is never large enough.
        Once loans change no more, those on loan must hold it.
        """
        if not (self._composition.confines_fungible and self._borrows and job.fungible):
            return False
        view = self._view
        if self._is_choosy(job) and not view.speed.pools_of(job, is_lent=True):
            return False
        pool = view.cluster.pools[self._lent[0].number]
        per_server = view.cluster.gpus_of_host[pool.hosts.start] // job.gpus_per_worker
        replicas = job.min_workers * self._lent[0].replicas
        if per_server == 0 or 10 * replicas * job.gpus_per_worker > view.cluster.inference_gpus:
            return False
        loans = view.loans
        return not loans.is_final or per_server * loans.on_loan >= replicas

    def _has_room(self, room: PoolRoom, job: Job, workers: int) -> bool:
        gpus_per_worker = job.gpus_per_worker
        free = self._view.hosts.free_of_pool[room.number]
        if room.is_counted:
            return free >= workers * gpus_per_worker
        if self._must_stay_together(job, room):
            return room.fit.room(job.min_gpus, Group.BASE) > 0
        if free < workers * room.replicas * gpus_per_worker:
            return False
        return room.fitting(gpus_per_worker, Group.BASE) >= workers

    def _make_room(self, room: PoolRoom, run: JobRun) -> bool:
        """Scale jobs in until a base demand fits, if it can; return whether it fits now.

        Base demands come before flexible workers (Lyra, section 5.2). Those go first whose loss
        delays their job least.
        """
        job, view = run.job, self._view
        needed = job.min_workers * room.replicas * job.gpus_per_worker
        free = view.hosts.free_of_pool[room.number]
        if not room.flexible_gpus or free + room.flexible_gpus < needed:
            return False
        if self._must_stay_together(job, room):
            return False
        parts: list[tuple[Part, JobRun]] = []
        staying: list[int] = []
        for other in self._elastic.values():
            is_free = self._may_be_scaled_in(other, run)
            for part in other.parts:
                if part.pool == room.number and part.flexible:
                    if is_free:
                        parts.append((part, other))
                    else:
                        staying += part.gpus[Group.FLEXIBLE]
        # Fragments of servers may hold fewer workers than their GPUs add up to; then no job is to
        # be scaled in for nothing.
        leaving = [part.gpus[Group.FLEXIBLE] for part, _ in parts]
        after = room.fit.room_after(leaving, job.gpus_per_worker, staying)
        if after // room.replicas < job.min_workers:
            return False
        for _, other in parts:
            view.account(other)
        losses = [
            (self._delay_s(other), other.order, number) for number, (_, other) in enumerate(parts)
        ]
        heapify(losses)
        while not self._has_room(room, job, job.min_workers):
            _, order, number = losses[0]
            part, other = parts[number]
            self._scale(other, room, -1)
            if part.flexible:
                heapreplace(losses, (self._delay_s(other), order, number))
            else:
                heappop(losses)
        for _, other in parts:
            self._gather(other)
        return True

    def _may_be_scaled_in(self, other: JobRun, run: JobRun) -> bool:
        """Whether a running job may lose flexible workers to the base demand of a waiting one."""
        if not self._composition.shrinks_longer_only:
            return True
        view = self._view
        view.account(other)
        return view.left_gpu_s(other) > view.left_gpu_s(run)

    # Elastic scaling.

    def _delay_s(self, run: JobRun) -> float:
        """Return by how much a job would complete later with one worker less."""
        speed = self._view.speed
        left = speed.believed_left_worker_s(run)
        job, workers = run.job, run.workers
        return left / speed.scaled(job, workers - 1) - left / speed.scaled(job, workers)

    def _scale(
        self, run: JobRun, room: PoolRoom, workers: int, first: Collection[int] = frozenset()
    ) -> None:
        """Add flexible workers in a pool, or take them away if negative, `first` from there."""
        view, gpus_per_worker = self._view, run.job.gpus_per_worker
        view.account(run)
        part = next((part for part in run.parts if part.pool == room.number), None)
        room.flexible_gpus += workers * room.replicas * gpus_per_worker
        if workers > 0:
            replicas = workers * room.replicas
            placed = room.fit.place(replicas, gpus_per_worker, Group.FLEXIBLE)
            part = part or Part(room.number, {}, worker_speed=room.worker_speed)
            view.grow(run, part, workers, placed)
        else:
            assert part is not None, "workers leave that are there"
            leaving = _leaving(part, -workers * room.replicas * gpus_per_worker, first)
            view.shrink(run, part, -workers, leaving)

    def _resize(self) -> None:
        """Let the scheme's rule decide anew on all flexible workers.

        In each pool on those of the jobs that stay within it; then on those of jobs on both kinds
        of GPUs, which get what all others leave (Lyra, section 6).
        """
        view = self._view
        self._next_scaling_s = view.now_s + self._scaling_interval_s
        if self._composition.grows_only_without_queue and len(self._queue):
            return
        within: dict[int, list[JobRun]] = {room.number: [] for room in self._rooms}
        mixing: list[JobRun] = []
        for _, run in sorted(self._elastic.items()):
            if self._borrows and self._mixes and self._may_be_on_both(run.job):
                mixing.append(run)
            else:
                within[run.parts[0].pool].append(run)
        changes: list[tuple[JobRun, PoolRoom, int]] = []
        left = []
        for room in self._rooms:
            runs = within[room.number]
            free_gpus = (view.hosts.free_of_pool[room.number] + room.flexible_gpus) // room.replicas
            extra = self._extra_workers(runs, free_gpus, room.kind)
            for run, workers in zip(runs, extra, strict=True):
                job = run.job
                change = workers - (run.workers - job.min_workers)
                if change:
                    changes.append((run, room, change))
                free_gpus -= workers * job.gpus_per_worker
            left.append(free_gpus)
        for run, workers in zip(
            mixing, self._extra_workers(mixing, sum(left), "mixed"), strict=True
        ):
            changes += self._spread(run, workers, left)
        for run, room, change in sorted(changes, key=lambda each: each[2] > 0):
            workers = change
            if change > 0:
                # Fragments of servers may hold fewer workers than their GPUs add up to.
                workers = min(change, room.fitting(run.job.gpus_per_worker, Group.FLEXIBLE))
            if workers:
                self._scale(run, room, workers)
                view.totals.scaling_operations += 1
        for run in mixing:
            self._gather(run)

    def _may_be_on_both(self, job: Job) -> bool:
        """Whether the workers of a job can be on own and borrowed GPUs at once."""
        return job.heterogeneous and all(self._takes(job, room) for room in self._rooms)

    def _extra_workers(self, runs: list[JobRun], free_gpus: int, kind: str) -> Sequence[int]:
        """Ask the scheme's rule for the flexible workers of jobs that share so many GPUs."""
        assert self._scaling is not None, "only schemes that scale resize"
        if not runs or not free_gpus:
            return [0] * len(runs)
        view = self._view
        for run in runs:
            view.account(run)
        return self._scaling.extra_workers(
            view, runs, free_gpus, name=f"{kind}-at-{view.now_s:.0f}-s"
        )

    def _spread(
        self, run: JobRun, workers: int, left: list[int]
    ) -> Iterable[tuple[JobRun, PoolRoom, int]]:
        """Divide the flexible workers of a job on both kinds of GPUs; yield what changes.

        They go to servers on loan where possible (Lyra, section 6), and beside the base demand
        where being on both kinds costs more than they bring.

        Parameters
        ----------
        left
            GPUs to be had on own servers and on loan; what the job gets is taken off.
        """
        own, lent = self._rooms
        speed, gpus_per_worker = self._view.speed, run.job.gpus_per_worker
        held = {part.pool: part.flexible for part in run.parts}
        held_on_loan = held.get(lent.number, 0)
        on_loan = min(workers, left[1] // gpus_per_worker)
        if on_loan > held_on_loan:
            fitting = lent.fitting(gpus_per_worker, Group.FLEXIBLE)
            on_loan = min(on_loan, held_on_loan + fitting)
        on_own = min(workers - on_loan, left[0] // gpus_per_worker)
        if speed.mixed_efficiency < 1:
            homes = [part for part in run.parts if part.base]
            if len(homes) == 1:
                home = int(homes[0].pool == lent.number)
                beside = min(workers, left[home] // gpus_per_worker)
                at_loan_speed = on_loan + home * run.job.min_workers
                mixed_rate = self._mixed_rate(run, on_loan + on_own, at_loan_speed)
                alone_rate = (
                    speed.scaled(run.job, run.job.min_workers + beside) * homes[0].worker_speed
                )
                if mixed_rate <= alone_rate:
                    on_loan, on_own = home * beside, (1 - home) * beside
        left[0] -= on_own * gpus_per_worker
        left[1] -= on_loan * gpus_per_worker
        for room, target in ((own, on_own), (lent, on_loan)):
            change = target - held.get(room.number, 0)
            if change:
                yield run, room, change

    def _mixed_rate(self, run: JobRun, extra: int, on_loan: int) -> float:
        """Return the work a second with so many extra workers, and workers on loan, on both kinds.

        At the speed that workers have on average.
        """
        speed = self._view.speed
        workers = run.job.min_workers + extra
        on_own = self._own[0].worker_speed
        mean = on_own + on_loan / workers * (self._lent[0].worker_speed - on_own)
        return speed.mixed_efficiency * speed.scaled(run.job, workers) * mean

    def _gather(self, run: JobRun) -> None:
        """Take a job off the other kind of GPUs if it is no faster for being on both.

        It may have got, or been left with, fewer workers there than the rule foresaw.
        """
        if len(run.parts) < 2:
            return
        homes = [part for part in run.parts if part.base]
        if len(homes) != 1:
            return
        alone_rate = self._view.speed.scaled(run.job, homes[0].workers) * homes[0].worker_speed
        if run.rate <= alone_rate:
            other = next(part for part in run.parts if part is not homes[0])
            self._scale(run, self._room_of_pool[other.pool], -other.flexible)
            self._view.totals.scaling_operations += 1

    # Loans.

    def reclaim(self, view: View, count: int) -> list[int]:
        """Vacate the servers that the solver chooses.

        A job is stopped if it has base workers there; else it is scaled in so far that its flexible
        workers leave them. Replicas that no longer make up a whole worker leave too, from the
        servers that hold fewest. See `Policy`.
        """
        hosted = view.hosted()
        chosen = self.choose_reclaimed(view, count)
        vacated = set(chosen)
        for run in hosted:
            parts = [part for part in run.parts if view.cluster.pools[part.pool].is_lent]
            if any(not vacated.isdisjoint(part.gpus[Group.BASE]) for part in parts):
                view.stop(run)
                continue
            for part in parts:
                flexible = part.gpus[Group.FLEXIBLE]
                leaving = sum(gpus for host, gpus in flexible.items() if host in vacated)
                if leaving:
                    room = self._room_of_pool[part.pool]
                    workers = -(-leaving // (room.replicas * run.job.gpus_per_worker))
                    self._scale(run, room, -workers, vacated)
                    view.totals.scaling_operations += 1
                    self._gather(run)
        return chosen


def _leaving(part: Part, gpus: int, first: Collection[int]) -> dict[int, int]:
    """Return flexible GPUs to take away: on some hosts first, then where there are fewest of them.

    So servers are emptied that can be given to others, or back.
    """
    flexible = part.gpus[Group.FLEXIBLE]
    leaving: dict[int, int] = {}
    for host in sorted(flexible, key=lambda host: (host not in first, flexible[host], -host)):
        taken = min(gpus, flexible[host])
        leaving[host] = taken
        gpus -= taken
        if not gpus:
            break
    return leaving
