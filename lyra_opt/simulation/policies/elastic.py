"""Elastic jobs of composed schemes: their flexible workers come, move and leave.

Source: Lyra (EuroSys 2023), sections 5.2, 5.3 and 6.
"""

from __future__ import annotations

import math
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING

from lyra_opt.simulation.hosts import Group
from lyra_opt.simulation.job_run import Part

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lyra_opt.simulation.decisions import ScalingRule
    from lyra_opt.simulation.hosts import PoolRoom
    from lyra_opt.simulation.job_run import JobRun
    from lyra_opt.simulation.policies.pools import JobPools
    from lyra_opt.simulation.tenants import TenantLedger
    from lyra_opt.simulation.view import View


class ElasticJobs:
    """The running elastic jobs of a composed scheme, which it resizes.

    Parameters
    ----------
    view
        The state of the simulation.
    pools
        The pools that jobs may use.
    scaling
        How jobs grow; None for not at all.
    shrinks_longer_only
        Whether a job gives workers up only for jobs with less remaining work.
    tenants
        The quotas of tenants; None without.
    """

    def __init__(
        self,
        view: View,
        pools: JobPools,
        scaling: ScalingRule | None,
        *,
        shrinks_longer_only: bool,
        tenants: TenantLedger | None,
    ) -> None:
        self._view, self._pools, self._scaling = view, pools, scaling
        self._shrinks_longer_only, self._tenants = shrinks_longer_only, tenants
        self._runs: dict[int, JobRun] = {}

    def add(self, run: JobRun) -> None:
        """Resize a job from now on."""
        self._runs[run.order] = run

    def remove(self, run: JobRun) -> None:
        """Stop resizing a job, which gives its GPUs back."""
        if self._runs.pop(run.order, None) is not None:
            for part in run.parts:
                room = self._pools.room_of_pool[part.pool]
                room.flexible_gpus -= part.flexible * room.replicas * run.job.gpus_per_worker

    def withdraw(self, run: JobRun, hosts: Collection[int]) -> None:
        """Remove a job's flexible workers from borrowed hosts.

        Replicas that no longer form a whole worker leave too, from the servers that hold the fewest
        of them.
        """
        for part in [part for part in run.parts if self._pools.room_of_pool[part.pool].is_lent]:
            flexible = part.gpus[Group.FLEXIBLE]
            leaving = sum(gpus for host, gpus in flexible.items() if host in hosts)
            if leaving:
                room = self._pools.room_of_pool[part.pool]
                workers = -(-leaving // (room.replicas * run.job.gpus_per_worker))
                self._scale(run, room, -workers, hosts)
                self._view.totals.scaling_operations += 1
                self._gather(run)

    def make_room(self, room: PoolRoom, run: JobRun) -> bool:
        """Scale jobs in until a waiting base demand fits, if possible; return whether it fits.

        Base demands take precedence over flexible workers (Lyra, section 5.2). The worker whose
        removal delays its job least is removed first.
        """
        job, view = run.job, self._view
        needed = job.min_workers * room.replicas * job.gpus_per_worker
        free = view.hosts.free_of_pool[room.number]
        if not room.flexible_gpus or free + room.flexible_gpus < needed:
            return False
        if self._pools.must_stay_together(job, room):
            return False
        parts: list[tuple[Part, JobRun]] = []
        staying: list[int] = []
        least_left_gpu_s = -math.inf
        if self._shrinks_longer_only:
            least_left_gpu_s = view.left_gpu_s(run)
            for other in self._runs.values():
                view.account(other)
        for other in self._runs.values():
            for part in other.parts:
                if part.pool == room.number and part.flexible:
                    if view.left_gpu_s(other) > least_left_gpu_s:
                        parts.append((part, other))
                        free += part.flexible * room.replicas * other.job.gpus_per_worker
                    else:
                        staying += part.gpus[Group.FLEXIBLE]
        if free < needed:
            return False
        # On fragmented servers, fewer workers fit than the number of free GPUs suggests.
        # The room is checked first, so that no job is scaled in without making enough room.
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
        while not self._pools.has_room(room, job, job.min_workers):
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

    def _delay_s(self, run: JobRun) -> float:
        """Return by how many seconds a job would complete later with one worker fewer."""
        speed = self._view.speed
        left = speed.believed_left_worker_s(run)
        job, workers = run.job, run.workers
        return left / speed.scaled(job, workers - 1) - left / speed.scaled(job, workers)

    def resize(self) -> None:
        """Reassign the flexible workers of all jobs by the scaling rule.

        Jobs that stay within one pool are decided pool by pool. Then the jobs that can use both
        kinds of GPUs share the GPUs that the other jobs leave (Lyra, section 6).
        """
        view = self._view
        within: dict[int, list[JobRun]] = {room.number: [] for room in self._pools.rooms}
        mixing: list[JobRun] = []
        mixes = self._pools.mixes
        for _, run in sorted(self._runs.items()):
            if mixes and self._pools.may_be_on_both(run):
                mixing.append(run)
            else:
                within[run.parts[0].pool].append(run)
        changes: list[tuple[JobRun, PoolRoom, int]] = []
        left = []
        for room in self._pools.rooms:
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
            if workers or run.workers > run.job.min_workers:
                changes += self._spread(run, workers, left)
        for run, room, change in sorted(changes, key=lambda each: each[2] > 0):
            workers = change
            if change > 0:
                # On fragmented servers, fewer workers fit than the number of free GPUs suggests.
                workers = min(change, room.fitting(run.job.gpus_per_worker, Group.FLEXIBLE))
                if self._tenants is not None and not room.is_lent:
                    in_quota = self._tenants.room(self._tenants.path_of(run))
                    in_quota /= run.job.gpus_per_worker
                    workers = int(min(workers, max(0.0, in_quota)))
            if workers:
                self._scale(run, room, workers)
                view.totals.scaling_operations += 1
        for run in mixing:
            if len(run.parts) > 1:
                self._gather(run)

    def _extra_workers(self, runs: list[JobRun], free_gpus: int, kind: str) -> Sequence[int]:
        """Return each job's number of flexible workers on `free_gpus` GPUs, by the scaling rule."""
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
    ) -> list[tuple[JobRun, PoolRoom, int]]:
        """Divide a job's flexible workers over own and borrowed GPUs; return (job, pool, change).

        Workers go to servers on loan if possible (Lyra, section 6). They stay with the base demand
        if using both kinds of GPUs costs more speed than it brings.

        Parameters
        ----------
        left
            GPUs available on own servers and on loan; the job's share is subtracted.
        """
        own, lent = self._pools.rooms
        speed, gpus_per_worker = self._view.speed, run.job.gpus_per_worker
        held_on_own = held_on_loan = 0
        for part in run.parts:
            if part.pool == lent.number:
                held_on_loan = part.flexible
            else:
                held_on_own = part.flexible
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
        changes = []
        if on_own != held_on_own:
            changes.append((run, own, on_own - held_on_own))
        if on_loan != held_on_loan:
            changes.append((run, lent, on_loan - held_on_loan))
        return changes

    def _mixed_rate(self, run: JobRun, extra: int, on_loan: int) -> float:
        """Return a job's work per second on own and borrowed GPUs, at its workers' mean speed.

        Parameters
        ----------
        extra, on_loan
            Number of flexible workers, and of all workers on loan.
        """
        speed = self._view.speed
        workers = run.job.min_workers + extra
        on_own = self._pools.own[0].worker_speed
        mean = on_own + on_loan / workers * (self._pools.lent[0].worker_speed - on_own)
        return speed.mixed_efficiency * speed.scaled(run.job, workers) * mean

    def _scale(
        self, run: JobRun, room: PoolRoom, workers: int, first: Collection[int] = frozenset()
    ) -> None:
        """Add flexible workers in a pool, or remove them if `workers` is negative.

        Parameters
        ----------
        first
            Hosts from which workers are removed first.
        """
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
            assert part is not None, "only workers of the job are removed"
            leaving = _leaving(part, -workers * room.replicas * gpus_per_worker, first)
            view.shrink(run, part, -workers, leaving)

    def give_up(self, run: JobRun, room: PoolRoom, lost: Mapping[int, int]) -> None:
        """Scale a job in within a pool, so that the GPUs `lost` there, by host, become free.

        Where they belong to the base demand, flexible workers elsewhere take over that role, in the
        order of hosts. A job with replicas loses whole workers.
        """
        view = self._view
        (part,) = (part for part in run.parts if part.pool == room.number)
        flexible = {host: lost.get(host, 0) for host in sorted(part.by_host())}
        left = sum(part.gpus[Group.FLEXIBLE].values()) - sum(lost.values())
        for host, held in part.gpus[Group.FLEXIBLE].items():
            kept = min(left, max(0, held - flexible[host]))
            flexible[host] += kept
            left -= kept
        base = {host: gpus - flexible[host] for host, gpus in part.by_host().items()}
        part.gpus = _without_zeros(base), _without_zeros(flexible)
        per_worker = room.replicas * run.job.gpus_per_worker
        workers = -(-sum(lost.values()) // per_worker)
        room.flexible_gpus -= workers * per_worker
        leaving, more = dict(lost), workers * per_worker - sum(lost.values())
        for host, held in flexible.items():
            taken = min(more, held - lost.get(host, 0))
            leaving[host] = leaving.get(host, 0) + taken
            more -= taken
        view.shrink(run, part, workers, _without_zeros(leaving))
        self._gather(run)

    def _gather(self, run: JobRun) -> None:
        """Remove a job's workers outside the pool of its base demand if they do not speed it up.

        It may have got, or kept, fewer workers there than the scaling rule assumed.
        """
        if len(run.parts) < 2:
            return
        homes = [part for part in run.parts if part.base]
        if len(homes) != 1:
            return
        alone_rate = self._view.speed.scaled(run.job, homes[0].workers) * homes[0].worker_speed
        if run.rate <= alone_rate:
            other = next(part for part in run.parts if part is not homes[0])
            self._scale(run, self._pools.room_of_pool[other.pool], -other.flexible)
            self._view.totals.scaling_operations += 1


def _without_zeros(gpus: Mapping[int, int]) -> dict[int, int]:
    return {host: count for host, count in gpus.items() if count}


def _leaving(part: Part, gpus: int, first: Collection[int]) -> dict[int, int]:
    """Return which flexible GPUs of a job to free, by host: hosts in `first` come first.

    Then come the hosts with the fewest flexible GPUs of the job. This order empties servers, which
    can then go to other jobs or be given back.
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
