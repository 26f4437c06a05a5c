"""Rules whose states are held to what is always true of them, and queues where nobody waits."""

from __future__ import annotations

import math
from copy import copy
from typing import TYPE_CHECKING, Any

from lyra_opt.heterogeneous.heuristics.policy import NEVER, RoundPolicy
from lyra_opt.network.heuristics.policy import PlacementPolicy
from lyra_opt.network.links import Tier
from lyra_opt.simulation.hosts import Group
from lyra_opt.simulation.policies.composed import ComposedPolicy
from lyra_opt.simulation.view import Observer

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from lyra_opt.heterogeneous.heuristics.policy import Decision, RoundState
    from lyra_opt.network.heuristics.policy import Grant, MachineState, PlacementState, RunningGangs
    from lyra_opt.simulation.cluster import Pool
    from lyra_opt.simulation.job_run import JobRun
    from lyra_opt.simulation.kernel import Kernel
    from lyra_opt.simulation.view import View
    from lyra_opt.simulation.workload import Workload


class WatchedRounds(RoundPolicy):
    """Another rule, which is asked in every round, and whose states are looked at."""

    def __init__(self, policy: RoundPolicy, submitted: Workload, *, keeps_servers: bool) -> None:
        self.policy, self.submitted, self.keeps_servers = policy, submitted, keeps_servers
        self.name, self.forks, self.takes_gangs = policy.name, policy.forks, policy.takes_gangs
        self.most_idle_s = policy.most_idle_s
        self.latest_s = -1.0
        self.left: dict[str, float] = {}
        self.done: set[str] = set()
        self.ran: set[str] = set()
        self.moves = 0

    def prepare(self, state: RoundState, rng: np.random.Generator) -> None:
        assert not state.jobs or not self.keeps_servers
        self.policy.prepare(state, rng)

    def decide(self, state: RoundState) -> Decision:
        assert state.now_s > self.latest_s
        assert state.now_s % state.round_s == 0
        known = {job.id for job in self.submitted.jobs if job.submit_s <= state.now_s}
        there = {active.job.id for active in state.jobs}
        assert there <= known
        orders = [active.order for active in state.jobs]
        assert orders == sorted(orders)
        done = known - there
        new = there - set(self.left)
        assert new == known - set(self.left)
        if self.keeps_servers:
            assert state.is_changed == bool(new or done != self.done)
        for active in state.jobs:
            left = self.left.get(active.job.id, active.job.steps)
            assert active.steps_left > 0
            assert (active.waiting_since_s == NEVER) == bool(active.placements)
            if self.keeps_servers:
                assert active.steps_left <= left
                assert bool(active.placements) == (active.job.id in self.ran)
            self.left[active.job.id] = active.steps_left
        self.latest_s, self.done = state.now_s, done
        decision = self.policy.decide(state)
        self.ran = set(decision)
        self.moves += sum(
            placement not in active.placements
            for active in state.jobs
            for placement in decision.get(active.job.id, ())
        )
        return decision


class WatchedPlacements(PlacementPolicy):
    """Another rule, whose states are looked at."""

    def __init__(
        self, policy: PlacementPolicy, submitted: Workload, *, keeps_servers: bool
    ) -> None:
        self.policy, self.name, self.keeps_servers = policy, policy.name, keeps_servers
        self.position = {job.id: place for place, job in enumerate(submitted.jobs)}
        self.latest_s = -1.0

    def prepare(self, machines: MachineState, lease_s: float, rng: np.random.Generator) -> None:
        if self.keeps_servers:
            assert (machines.free_gpus == machines.gpus).all()
        self.policy.prepare(machines, lease_s, rng)

    def check(self, state: PlacementState) -> None:
        waiting, machines = state.waiting, state.machines
        assert state.now_s >= self.latest_s
        self.latest_s = state.now_s
        assert (machines.free_gpus >= 0).all()
        assert (machines.free_gpus <= machines.gpus).all()
        assert len(waiting) == len(waiting.ids) == len(set(waiting.ids))
        orders = [self.position[name] for name in waiting.ids]
        assert orders == sorted(orders)
        for name in ("score", "waiting_s", "weight", "remaining_s", "attained_gpu_s"):
            assert getattr(waiting, name).shape == (len(waiting),)
        assert waiting.efficiency.shape == (len(waiting), len(Tier))
        assert ((waiting.score >= 0) & (waiting.score <= 1)).all()
        assert (waiting.waiting_s >= 0).all()
        assert ((waiting.attained_gpu_s > 0) >= (waiting.score > 0)).all()
        assert ((waiting.remaining_s > 0) & (waiting.remaining_s < math.inf)).all()

    def decide(self, state: PlacementState) -> list[Grant]:
        self.check(state)
        before = state.machines.free_gpus.copy()
        grants = self.policy.decide(state)
        assert (before == state.machines.free_gpus).all(), "states are not changed"
        return grants

    def next_decision_s(self, state: PlacementState) -> float:
        self.check(state)
        wait_s = self.policy.next_decision_s(state)
        assert wait_s >= 0
        return wait_s

    def migrate(self, state: PlacementState, running: RunningGangs) -> list[Grant]:
        self.check(state)
        held = state.machines.free_gpus.copy()
        for gang, gpus in zip(running.gang, running.placements, strict=True):
            assert sum(gpus.values()) == gang
            for machine, count in gpus.items():
                held[machine] += count
        assert (held <= state.machines.gpus).all()
        return self.policy.migrate(state, running)


class PreemptsLower(Observer):
    """Whoever is stopped for a waiting gang has a lower priority than such a gang of this moment.

    For schemes that borrow no servers, and so stop nobody for another reason.
    """

    def begins(self, view: View) -> None:
        self.losses = [0] * len(view.runs)
        self.asked: list[int] = []

    def decided(self, kind: str, instance: Any) -> None:
        if kind == "preemption":
            assert instance.victims == "lower"
            self.asked.append(instance.demand.priority)

    def passes(self, view: View, until_s: float) -> None:
        for run in view.runs:
            if run.losses > self.losses[run.order]:
                assert run.job.priority < max(self.asked), run.job.id
                self.losses[run.order] = run.losses
        self.asked.clear()


class WaitsInVain(Observer):
    """Whoever may start next in a composed scheme has no room, even if all flexible workers left.

    All that it may scale in, that is. Where groups of workers are kept apart, no server on loan has
    both.
    """

    def begins(self, kernel: Kernel) -> None:  # type: ignore[override]
        assert isinstance(kernel.policy, ComposedPolicy)
        self.kernel, self.policy = kernel, kernel.policy

    def passes(self, view: View, until_s: float) -> None:
        for pool in self.kernel.cluster.pools:
            if pool.is_lent and self.policy._composition.keeps_groups_apart:
                self.check_groups(pool)
        for run in self.may_start():
            for room in self.policy._rooms_for(run):
                pool = self.kernel.cluster.pools[room.number]
                assert self.most_room(pool, run) < run.job.min_workers, run.job.id

    def held_in(self, pool: Pool) -> Iterator[tuple[JobRun, Group, int, int]]:
        """Yield the job, the group of workers, the host and the GPUs of all that is held."""
        for run in self.kernel.runs:
            for part in run.parts:
                if part.pool == pool.number:
                    for group in Group:
                        for host, gpus in part.gpus[group].items():
                            yield run, group, host, gpus

    def check_groups(self, pool: Pool) -> None:
        groups: dict[int, Group] = {}
        for _, group, host, _ in self.held_in(pool):
            assert groups.setdefault(host, group) is group

    def may_start(self) -> list[JobRun]:
        kernel = self.kernel
        waiting = [run for run in kernel.runs if -1 < run.waiting_since_s <= kernel.now_s]
        if self.policy._composition.queue != "first-come":
            return waiting
        apart = [run for run in waiting if self.policy._rooms_for(run) == self.policy._lent]
        others = [run for run in waiting if run not in apart]
        return apart[:1] + others[:1]

    def most_room(self, pool: Pool, run: JobRun) -> int:
        hosts, size = self.kernel.hosts, run.job.gpus_per_worker
        free = {host: hosts.size[host] for host in pool.hosts}
        for other, group, host, gpus in self.held_in(pool):
            if group is Group.BASE or not self.may_be_scaled_in(other, run):
                free[host] -= gpus
        replicas = pool.gpu_type.replicas if pool.is_lent else 1
        return sum(gpus // size for gpus in free.values()) // replicas

    def may_be_scaled_in(self, other: JobRun, run: JobRun) -> bool:
        """Whether the rule of the scheme lets one job's base demand have another's workers."""
        if not self.policy._composition.shrinks_longer_only:
            return True
        now = copy(other)
        worked_s = self.kernel.now_s - max(other.updated_s, other.pauses_until_s)
        now.left -= other.rate * max(0.0, worked_s)
        return self.kernel.left_gpu_s(now) > self.kernel.left_gpu_s(run)
