"""Rules whose states are held to what is always true of them, and who may be stopped for whom."""

import math

from lyra_opt.heterogeneous.heuristics.policy import NEVER, RoundPolicy
from lyra_opt.network.heuristics.policy import PlacementPolicy
from lyra_opt.network.links import Tier
from lyra_opt.simulation.view import Observer


class WatchedRounds(RoundPolicy):
    """Another rule, which is asked in every round, and whose states are looked at."""

    def __init__(self, policy, submitted, *, keeps_servers):
        self.policy, self.submitted, self.keeps_servers = policy, submitted, keeps_servers
        self.name, self.forks, self.takes_gangs = policy.name, policy.forks, policy.takes_gangs
        self.most_idle_s = policy.most_idle_s
        self.latest_s = -1.0
        self.left = {}
        self.done = set()
        self.ran = set()
        self.moves = 0

    def prepare(self, state, rng):
        assert not state.jobs or not self.keeps_servers
        self.policy.prepare(state, rng)

    def decide(self, state):
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

    def __init__(self, policy, submitted, *, keeps_servers):
        self.policy, self.name, self.keeps_servers = policy, policy.name, keeps_servers
        self.position = {job.id: place for place, job in enumerate(submitted.jobs)}
        self.latest_s = -1.0

    def prepare(self, machines, lease_s, rng):
        if self.keeps_servers:
            assert (machines.free_gpus == machines.gpus).all()
        self.policy.prepare(machines, lease_s, rng)

    def check(self, state):
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

    def decide(self, state):
        self.check(state)
        before = state.machines.free_gpus.copy()
        grants = self.policy.decide(state)
        assert (before == state.machines.free_gpus).all(), "states are not changed"
        return grants

    def next_decision_s(self, state):
        self.check(state)
        wait_s = self.policy.next_decision_s(state)
        assert wait_s >= 0
        return wait_s

    def migrate(self, state, running):
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

    def begins(self, view):
        self.losses = [0] * len(view.runs)
        self.asked = []

    def decided(self, kind, instance):
        if kind == "preemption":
            asked = instance.demand.priority
            able = [gang for gang in instance.gangs if instance.may_lose_pods(gang)]
            assert all(gang.priority < asked for gang in able)
            self.asked.append(asked)

    def passes(self, view, until_s):
        for run in view.runs:
            if run.losses > self.losses[run.order]:
                assert run.job.priority < max(self.asked), run.job.id
                self.losses[run.order] = run.losses
        self.asked.clear()
