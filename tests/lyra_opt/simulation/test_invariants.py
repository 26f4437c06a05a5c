"""What holds after every event, whatever the scheme, recomputed from what the jobs hold."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings

from lyra_opt.simulation.engine import Simulation
from lyra_opt.simulation.metrics import measure, require_conserved
from lyra_opt.simulation.pools import Group, ServerPool
from lyra_opt.simulation.run import NEVER
from lyra_opt.simulation.scheme import SCHEMES
from lyra_opt.simulation.workload import Workload
from tests.lyra_opt.simulation.replays import (
    Case,
    cases,
    completions,
    replay,
    serving_servers,
)

if TYPE_CHECKING:
    from lyra_opt.simulation.pools import Pool
    from lyra_opt.simulation.run import JobRun, Share


class WatchedSimulation(Simulation):
    """Look at the whole state between events, and keep books of its own."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.done_worker_s: Counter[int] = Counter()
        self.waited_s: Counter[int] = Counter()
        self.training_gpu_s = self.loan_gpu_s = 0.0
        self.pauses_until_s: dict[int, float] = {}

    def _advance(self, now_s: float) -> None:
        assert now_s >= self.now_s, "time goes on"
        self.check_state()
        self.keep_books(now_s)
        super()._advance(now_s)

    def _start(self, run: JobRun, homes: Any) -> None:
        super()._start(run, homes)
        if run.preemptions:
            self.pauses_until_s[run.order] = self.now_s + self.options.preemption_s
            if not run.job.checkpoints:
                self.done_worker_s[run.order] = 0.0

    def _start_queued(self) -> None:
        super()._start_queued()
        self.check_nobody_waits_in_vain()

    # Books.

    def keep_books(self, now_s: float) -> None:
        """Account for work, waits and GPU-seconds from what the jobs hold."""
        elapsed_s = now_s - self.now_s
        for run in self.runs:
            if run.shares:
                at_work_s = now_s - max(self.now_s, self.pauses_until_s.get(run.order, 0.0))
                workers = sum(share.workers for share in run.shares)
                job = run.job
                extra = (workers - job.min_workers) * (1 - job.scaling_loss)
                speed = self.options.mixed_efficiency if len(run.shares) == 2 else 1.0
                rate = job.min_workers + extra
                if self._speed is not None:
                    rate = self._speed.rate(job, workers)  # which has tests of its own
                faster = sum(share.workers * share.pool.worker_speed for share in run.shares)
                progress = rate * speed * faster / workers * max(0.0, at_work_s)
                self.done_worker_s[run.order] += progress
            elif run.completion_s == NEVER and run.job.submit_s <= self.now_s:
                self.waited_s[run.order] += elapsed_s
            for share in run.shares:
                gpu_s = self.gpus_of(run, share) * elapsed_s
                if share.pool is self.loaned:
                    self.loan_gpu_s += gpu_s
                else:
                    self.training_gpu_s += gpu_s

    def check_books(self) -> None:
        """The work done, the waits and the GPU-seconds are those of the books."""
        for run in self.runs:
            assert self.done_worker_s[run.order] == pytest.approx(run.job.work_worker_s)
            assert run.queued_s == pytest.approx(self.waited_s[run.order])
        assert self.totals.training_gpu_s == pytest.approx(self.training_gpu_s)
        assert self.totals.loan_gpu_s == pytest.approx(self.loan_gpu_s)

    # The state.

    @staticmethod
    def gpus_of(run: JobRun, share: Share) -> int:
        return share.workers * share.pool.replicas * run.job.gpus_per_worker

    def check_state(self) -> None:
        self.check_jobs()
        self.check_pool(self.training, range(self.cluster.servers))
        self.check_pool(self.loaned, range(self.cluster.inference_servers))
        self.check_loans()

    def check_jobs(self) -> None:
        """A job is in one state; one that runs has its whole gang, in few enough pools."""
        arrived = [run for run in self.runs if run.job.submit_s <= self.now_s]
        running = [run for run in self.runs if run.shares]
        done = [run for run in self.runs if run.completion_s != NEVER]
        if self.totals.events:
            assert len(self.queue) + len(running) + len(done) == len(arrived)
        assert self._running == len(running)
        for run in running:
            job = run.job
            assert run.completion_s == NEVER
            assert sum(share.base for share in run.shares) == job.min_workers, "gang"
            assert job.min_workers <= run.workers <= job.max_workers
            assert run.workers == sum(share.workers for share in run.shares)
            pools = [share.pool for share in run.shares]
            assert len(set(map(id, pools))) == len(pools)
            assert len(pools) == 1 or job.heterogeneous
            if self.loaned in pools:
                assert job.fungible or job.heterogeneous
                assert run.order in self._on_loan_runs
            else:
                assert run.order not in self._on_loan_runs
            if not self._scaling:
                assert run.workers == job.min_workers
            for share in run.shares:
                assert share.workers > 0
                if isinstance(share.pool, ServerPool):
                    base, flexible = (sum(held.values()) for held in share.placements)
                    assert base == share.base * share.pool.replicas
                    assert flexible == share.flexible * share.pool.replicas
                    assert all(
                        replicas > 0 for held in share.placements for replicas in held.values()
                    )

    def check_pool(self, pool: Pool, known: range) -> None:
        """No GPU is held twice, none is lost, none is on a server that has gone."""
        held = sum(
            self.gpus_of(run, share)
            for run in self.runs
            for share in run.shares
            if share.pool is pool
        )
        assert held == self._held[self._kind(pool)]
        assert self._flexible[self._kind(pool)] == sum(
            share.flexible * pool.replicas * run.job.gpus_per_worker
            for run in self.runs
            for share in run.shares
            if share.pool is pool
        )
        assert 0 <= held <= pool.gpus
        assert pool.free_gpus == pool.gpus - held
        if not isinstance(pool, ServerPool):
            return
        on_server: Counter[int] = Counter()
        groups: dict[int, set[Group]] = {}
        for run in self.runs:
            for share in run.shares:
                if share.pool is pool:
                    for group in Group:
                        for server, replicas in share.placements[group].items():
                            on_server[server] += replicas * run.job.gpus_per_worker
                            groups.setdefault(server, set()).add(group)
        assert set(on_server) <= set(pool.servers) <= set(known)
        for server, free in pool.servers.items():
            assert 0 <= free == pool.gpus_per_server - on_server[server]
        if pool is self.loaned and self.scheme.keeps_groups_apart:
            assert all(len(found) == 1 for found in groups.values())

    def check_loans(self) -> None:
        """As many servers are on loan as planned, and those serve nobody else."""
        servers = self.cluster.inference_servers
        if self._plan is None or not self.totals.events:
            assert not self.loaned.servers
            return
        elapsed_s = self.now_s - self.workload.jobs[0].submit_s
        tick = int(elapsed_s / self._plan.interval_s)
        planned = self._plan.on_loan[min(tick, len(self._plan.on_loan) - 1)]
        assert len(self.loaned.servers) == (planned if self.scheme.borrows else 0)
        serving = serving_servers(self._busy_share, servers)
        assert serving + len(self.loaned.servers) <= servers

    # Work conservation.

    def check_nobody_waits_in_vain(self) -> None:
        """Whoever may start next has no room, even if all flexible workers made way."""
        for run in self.may_start():
            for pool in self._pools(run.job):
                assert self.most_room(pool, run) < run.job.min_workers

    def may_start(self) -> list[JobRun]:
        waiting = [
            run
            for run in self.runs
            if run.queued_since_s != NEVER and run.job.submit_s <= self.now_s
        ]
        if self.scheme.queue != "first-come":
            return waiting
        apart = [run for run in waiting if self._pools(run.job) == [self.loaned]]
        others = [run for run in waiting if run not in apart]
        return apart[:1] + others[:1]

    def most_room(self, pool: Pool, run: JobRun) -> int:
        size = run.job.gpus_per_worker
        if not isinstance(pool, ServerPool):
            held = sum(
                share.base * other.job.gpus_per_worker
                for other in self.runs
                for share in other.shares
                if share.pool is pool
            )
            return (pool.gpus - held) // size
        free = dict.fromkeys(pool.servers, pool.gpus_per_server)
        for other in self.runs:
            for share in other.shares:
                if share.pool is pool:
                    for server, replicas in share.placements[Group.BASE].items():
                        free[server] -= replicas * other.job.gpus_per_worker
        return sum(gpus // size for gpus in free.values()) // pool.replicas


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=settings().max_examples // 3)
@given(case=cases())
def test_the_state_is_sound_after_every_event(scheme: str, case: Case) -> None:
    """Nothing is held twice, nobody is half started, lost or kept waiting; books balance."""
    simulation = replay(
        case.jobs,
        case.cluster,
        scheme,
        plan=case.plan,
        options=case.options,
        kind=WatchedSimulation,
    )
    assert isinstance(simulation, WatchedSimulation)
    simulation.check_state()
    simulation.check_books()
    require_conserved(simulation)
    metrics = measure(simulation)
    assert metrics.finished == metrics.jobs
    assert 0 <= metrics.training_usage <= 1 + 1e-9
    assert 0 <= metrics.overall_usage <= 1 + 1e-9
    assert metrics.preemptions == sum(run.preemptions for run in simulation.runs)
    for run in simulation.runs:
        assert run.job.submit_s <= run.start_s < run.completion_s
        job = run.job
        fastest = max(
            simulation._rate(run, workers)
            for workers in range(job.min_workers, job.max_workers + 1)
        )
        if run.ran_on_loan:
            fastest *= case.cluster.inference_gpu.worker_speed
        shortest_s = job.work_worker_s / fastest
        assert run.completion_s - run.start_s >= shortest_s * (1 - 1e-9)


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=settings().max_examples // 12)
@given(case=cases())
def test_same_seed_same_result(scheme: str, case: Case) -> None:
    """Two replays agree in every figure and in every job's times, to the last bit."""
    first, second = (
        replay(case.jobs, case.cluster, scheme, plan=case.plan, options=case.options)
        for _ in range(2)
    )
    assert measure(first) == measure(second)
    assert first.totals == second.totals
    assert [(r.start_s, r.completion_s, r.held_gpu_s) for r in first.runs] == [
        (r.start_s, r.completion_s, r.held_gpu_s) for r in second.runs
    ]


@pytest.mark.parametrize("scheme", [name for name in SCHEMES if name not in ("fifo", "sjf")])
@settings(max_examples=settings().max_examples // 8)
@given(case=cases())
def test_capturing_decisions_changes_nothing(scheme: str, case: Case) -> None:
    """Who looks on gets the decisions of the very replay that others see."""
    captured: list[str] = []
    workload = Workload(name="drawn", jobs=case.jobs)
    watched = Simulation(
        workload,
        case.cluster,
        SCHEMES[scheme],
        plan=case.plan,
        options=case.options,
        capture=lambda kind, instance: captured.append(f"{kind} {instance.name}"),
    ).run()
    alone = replay(case.jobs, case.cluster, scheme, plan=case.plan, options=case.options)
    assert watched.totals == alone.totals
    assert completions(watched) == completions(alone)
