"""The pools of a cluster, as composed schemes see them: which jobs may use them, and what fits.

Several GPUs of a slower type can replace one faster GPU: `replicas` workers on borrowed GPUs do the
work of one worker on a reference GPU and hold the same number of GPUs each. A job then has more
workers but the same global batch, and three inference servers count as one training server. If no
whole number of GPUs has exactly the same speed, the number is rounded up.

Source: Lyra (EuroSys 2023), sections 2.1 and 7.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.simulation.hosts import Group, PoolRoom
from lyra_opt.simulation.slices import BEST_FIT, SliceFit, placement_rule
from lyra_opt.simulation.speed import Room

if TYPE_CHECKING:
    from lyra_opt.simulation.job_run import JobRun
    from lyra_opt.simulation.policies.composition import Composition
    from lyra_opt.simulation.view import View
    from lyra_opt.simulation.workload import Job


class JobPools:
    """The pools that jobs may use, their restrictions and their room.

    Parameters
    ----------
    view
        The state of the simulation.
    composition
        The parts of the scheme.

    Attributes
    ----------
    borrows
        Whether servers are borrowed.
    rooms, own, lent
        All pools, the own pools and the borrowed ones.
    room_of_pool
        Each pool by its number.
    slice_fits
        What places workers in each own pool where best fit does not.
    mixes
        Whether a job can have workers in an own and in the borrowed pool together.
    """

    def __init__(self, view: View, composition: Composition) -> None:
        self._view, self._composition = view, composition
        self.borrows = view.loans.is_active
        pools = view.cluster.pools
        has_types = sum(not pool.is_lent for pool in pools) > 1
        self.slice_fits = self._fits_by_rule()
        self.rooms = [
            PoolRoom(
                pool,
                view.hosts,
                fit=self.slice_fits.get(pool.number),
                kind="loan" if pool.is_lent else pool.gpu_type.name if has_types else "training",
                mixes_groups=not (
                    pool.is_lent
                    and composition.keeps_groups_apart
                    and composition.preempter is None
                ),
            )
            for pool in pools
            if self.borrows or not pool.is_lent
        ]
        self.own = [room for room in self.rooms if not room.is_lent]
        self.lent = [room for room in self.rooms if room.is_lent]
        self.room_of_pool = {room.number: room for room in self.rooms}
        # Own and borrowed workers add up only if all jobs measure their work in worker-seconds.
        self.mixes = (
            len(self.own) == len(self.lent) == 1
            and view.speed.communication is None
            and all(job.measured is None for job in view.workload.jobs)
        )
        self._rooms_of_choosy: dict[int, tuple[list[PoolRoom], list[PoolRoom]]] = {}
        self._can_be_on_both: dict[int, bool] = {}

    def _fits_by_rule(self) -> dict[int, SliceFit]:
        """Return the index of each own pool whose workers are not simply placed by best fit."""
        view = self._view
        name, jobs = self._composition.placement, view.workload.jobs
        if name == BEST_FIT and view.slices is None:
            return {}
        return {
            pool.number: SliceFit(
                view.hosts,
                pool.number,
                placement_rule(name, view.cluster, pool.number, jobs),
                view.slices,
            )
            for pool in view.cluster.pools
            if not pool.is_lent
        }

    def free_for_base(self, room: PoolRoom) -> int:
        """Return the GPUs of a pool for base demands, including those of flexible workers."""
        return self._view.hosts.free_of_pool[room.number] + room.flexible_gpus

    def fits(self, run: JobRun, room: PoolRoom) -> bool:
        """Return whether a job's base demand fits the free GPUs of a pool."""
        if run.job.is_slice:
            return self.slice_fits[room.number].has_room_for(self.slice_in(room, run))
        return self.has_room(room, run.job, run.job.min_workers)

    def has_room(self, room: PoolRoom, job: Job, workers: int) -> bool:
        """Return whether workers of a job fit a pool as base workers."""
        gpus_per_worker = job.gpus_per_worker
        free = self._view.hosts.free_of_pool[room.number]
        if room.is_counted:
            return free >= workers * gpus_per_worker
        if self.must_stay_together(job, room):
            return room.fit.room(job.min_gpus, Group.BASE) > 0
        if free < workers * room.replicas * gpus_per_worker:
            return False
        return room.fitting(gpus_per_worker, Group.BASE) >= workers

    def slice_in(self, room: PoolRoom, run: JobRun) -> int:
        """Return the thousandths that a slice needs of a GPU in a pool."""
        assert self._view.slices is not None, "only workloads with slices divide GPUs"
        return self._view.slices.needs(run, room.number)

    def must_stay_together(self, job: Job, room: PoolRoom) -> bool:
        """Return whether all GPUs of a gang must be on one server of a pool.

        A job with measured throughputs must stay together on slower borrowed GPUs, because it uses
        no replicas.
        """
        speed = self._view.speed
        if job.measured is None or not speed.unit_of(job).is_measured:
            return False
        return room.replicas > 1 or speed.room_for(job, room.number) is Room.TOGETHER

    @staticmethod
    def is_choosy(job: Job) -> bool:
        """Return whether there may be pools in which a job cannot run although it fits."""
        return job.measured is not None or bool(job.gpu_types) or job.gpu_memory_mib is not None

    def rooms_of(self, job: Job, order: int) -> tuple[list[PoolRoom], list[PoolRoom]]:
        """Return the own and the borrowed pools in which a job with restrictions can run (cached).

        If the job's throughput was measured, the fastest pool comes first.
        """
        found = self._rooms_of_choosy.get(order)
        if found is None:
            if job.measured is None:
                rooms = [room for room in self.rooms if self._takes(job, room)]
            else:
                pools = self._view.speed.pools_of(job)
                rooms = [self.room_of_pool[pool] for _, pool in pools if pool in self.room_of_pool]
            found = self._rooms_of_choosy[order] = (
                [room for room in rooms if not room.is_lent],
                [room for room in rooms if room.is_lent],
            )
        return found

    def _takes(self, job: Job, room: PoolRoom) -> bool:
        """Return whether a job accepts the GPU type of a pool, and its memory suffices."""
        return self._view.cluster.pools[room.number].gpu_type.thousandths_for(job) > 0

    def may_be_on_both(self, run: JobRun) -> bool:
        """Return whether a job can have workers on own and borrowed GPUs together."""
        found = self._can_be_on_both.get(run.order)
        if found is None:
            takes = (self._takes(run.job, room) for room in self.rooms)
            found = self._can_be_on_both[run.order] = run.job.heterogeneous and all(takes)
        return found

    def is_confined(self, job: Job) -> bool:
        """Return whether a job may run only on borrowed servers (`confines_fungible`).

        A job is confined only if it needs at most a tenth of the inference cluster, so that no job
        waits for a loan that is never large enough. Once loans no longer change, the servers on
        loan must be able to hold it.
        """
        if not (self._composition.confines_fungible and self.borrows and job.fungible):
            return False
        view = self._view
        if self.is_choosy(job) and not view.speed.pools_of(job, is_lent=True):
            return False
        pool = view.cluster.pools[self.lent[0].number]
        per_server = view.cluster.gpus_of_host[pool.hosts.start] // job.gpus_per_worker
        replicas = job.min_workers * self.lent[0].replicas
        if per_server == 0 or 10 * replicas * job.gpus_per_worker > view.cluster.inference_gpus:
            return False
        loans = view.loans
        return not loans.is_final or per_server * loans.on_loan >= replicas
