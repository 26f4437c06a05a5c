"""What holds after every event, whatever the scheme, recomputed from what the jobs hold."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from lyra_opt.simulation.best_fit import Group
from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.metrics import measure, require_conserved
from lyra_opt.simulation.policies.composed import ComposedPolicy
from lyra_opt.simulation.run import NEVER
from lyra_opt.simulation.scheme import ComposedScheme, find_scheme
from lyra_opt.simulation.series import CaptureObserver
from lyra_opt.simulation.view import Observer
from tests.lyra_opt.simulation.books import Books
from tests.lyra_opt.simulation.replays import (
    COMPOSED_SCHEMES,
    Case,
    cases,
    completions,
    gpu_s,
    replay,
    serving_servers,
)

if TYPE_CHECKING:
    from lyra_opt.simulation.cluster import Pool
    from lyra_opt.simulation.run import Part, Run
    from lyra_opt.simulation.view import View


class Watching(Observer):
    """Looks at the whole state between events, and keeps books of its own.

    Parameters
    ----------
    case
        What is replayed.
    scheme
        How.
    """

    def __init__(self, case: Case, scheme: ComposedScheme) -> None:
        self.case, self.scheme = case, scheme
        self.done_worker_s: Counter[int] = Counter()
        self.waited_s: Counter[int] = Counter()
        self.gpu_s = [0.0, 0.0]
        self.pauses_until_s: dict[int, float] = {}
        self.known_preemptions: Counter[int] = Counter()
        self.is_paused: set[int] = set()

    def begins(self, kernel: View) -> None:
        """Remember whom to look at."""
        assert isinstance(kernel, Kernel)
        assert isinstance(kernel.policy, ComposedPolicy)
        self.kernel = kernel
        self.policy = kernel.policy
        assert not kernel.hosts.lent()

    def passes(self, kernel: View, until_s: float) -> None:
        """Check what there is after all events of a moment, and account for the time after it."""
        assert until_s > kernel.now_s, "time goes on"
        self.check_state()
        self.check_nobody_waits_in_vain()
        self.keep_books(until_s)

    def ends(self, kernel: View) -> None:
        """Check that the books balance."""
        self.check_state()
        self.check_books()

    # Books.

    def keep_books(self, until_s: float) -> None:
        """Account for work, waits and GPU-seconds from what the jobs hold."""
        kernel = self.kernel
        elapsed_s = until_s - kernel.now_s
        for run in kernel.runs:
            order, job = run.order, run.job
            if run.preemptions > self.known_preemptions[order]:
                self.known_preemptions[order] = run.preemptions
                self.is_paused.add(order)
                if not job.checkpoints:
                    self.done_worker_s[order] = 0.0
            if run.parts:
                if order in self.is_paused:
                    self.is_paused.remove(order)
                    preemption_s = self.case.options.forever.preemption_s
                    self.pauses_until_s[order] = kernel.now_s + preemption_s
                begins_s = max(kernel.now_s, self.pauses_until_s.get(order, 0.0))
                self.done_worker_s[order] += self.rate(run) * max(0.0, until_s - begins_s)
            elif run.completion_s == NEVER and job.submit_s <= kernel.now_s:
                self.waited_s[order] += elapsed_s
            for part in run.parts:
                pool = kernel.cluster.pools[part.pool]
                self.gpu_s[pool.is_lent] += self.gpus_of(run, part) * elapsed_s

    def rate(self, run: Run) -> float:
        """Return the worker-seconds that a job does a second where it runs."""
        job = run.job
        workers = sum(part.workers for part in run.parts)
        rate = job.min_workers + (workers - job.min_workers) * (1 - job.scaling_loss)
        tuned = self.kernel.speed.tuned
        if tuned is not None:
            rate = tuned.rate(job, workers)  # which has tests of its own
        if len(run.parts) == 2:
            rate *= self.case.options.mixed_efficiency
        pools = self.kernel.cluster.pools
        faster = sum(
            part.workers
            * (pools[part.pool].gpu_type.worker_speed if pools[part.pool].is_lent else 1)
            for part in run.parts
        )
        return rate * faster / workers

    def check_books(self) -> None:
        """The work done, the waits and the GPU-seconds are those of the books."""
        for run in self.kernel.runs:
            assert self.done_worker_s[run.order] == pytest.approx(run.job.work_worker_s)
            assert run.queued_s == pytest.approx(self.waited_s[run.order])
        for on_loan in (False, True):
            assert gpu_s(self.kernel, on_loan=on_loan) == pytest.approx(self.gpu_s[on_loan])

    # The state.

    def replicas(self, pool: Pool) -> int:
        return pool.gpu_type.replicas if pool.is_lent else 1

    def gpus_of(self, run: Run, part: Part) -> int:
        replicas = self.replicas(self.kernel.cluster.pools[part.pool])
        return part.workers * replicas * run.job.gpus_per_worker

    def check_state(self) -> None:
        self.check_jobs()
        for pool in self.kernel.cluster.pools:
            self.check_pool(pool)
        self.check_loans()

    def check_jobs(self) -> None:
        """A job is in one state; one that runs has its whole gang, in few enough pools."""
        kernel = self.kernel
        arrived = [run for run in kernel.runs if run.job.submit_s <= kernel.now_s]
        running = [run for run in kernel.runs if run.parts]
        done = [run for run in kernel.runs if run.completion_s != NEVER]
        assert len(self.policy._queue) + len(running) + len(done) == len(arrived)
        assert kernel.running == {run.order: run for run in running}
        assert kernel.jobs_there == len(arrived) - len(done)
        hosted = []
        for run in running:
            job = run.job
            assert run.completion_s == NEVER
            assert sum(part.base for part in run.parts) == job.min_workers, "gang"
            assert job.min_workers <= run.workers <= job.max_workers
            assert run.workers == sum(part.workers for part in run.parts)
            assert run.held_gpus == sum(self.gpus_of(run, part) for part in run.parts)
            pools = [part.pool for part in run.parts]
            assert len(set(pools)) == len(pools)
            assert len(pools) == 1 or job.heterogeneous
            if any(kernel.cluster.pools[pool].is_lent for pool in pools):
                assert job.fungible or job.heterogeneous
                hosted.append(run)
            if not self.scheme.scaling:
                assert run.workers == job.min_workers
            for part in run.parts:
                assert part.workers > 0
                replicas = self.replicas(kernel.cluster.pools[part.pool]) * job.gpus_per_worker
                base, flexible = (sum(held.values()) for held in part.gpus)
                assert base == part.base * replicas
                assert flexible == part.flexible * replicas
                assert all(gpus > 0 for held in part.gpus for gpus in held.values())
                assert all(gpus % job.gpus_per_worker == 0 for gpus in part.by_host().values())
        assert kernel.hosted() == hosted

    def check_pool(self, pool: Pool) -> None:
        """No GPU is held twice, none is lost, none is on a server that has gone."""
        hosts = self.kernel.hosts
        parts = [
            (run, part)
            for run in self.kernel.runs
            for part in run.parts
            if part.pool == pool.number
        ]
        held = sum(self.gpus_of(run, part) for run, part in parts)
        assert held == hosts.held_of_pool[pool.number]
        room = self.policy._room_of_pool.get(pool.number)
        if room is None:
            assert not held
        else:
            assert room.flexible_gpus == sum(
                part.flexible * self.replicas(pool) * run.job.gpus_per_worker for run, part in parts
            )
        size = sum(hosts.size[host] for host in pool.hosts)
        assert hosts.gpus_of_pool[pool.number] == size
        assert 0 <= held <= size
        assert hosts.free_of_pool[pool.number] == size - held
        on_host: Counter[int] = Counter()
        groups: dict[int, set[Group]] = {}
        for _, part in parts:
            for group in Group:
                for host, gpus in part.gpus[group].items():
                    on_host[host] += gpus
                    groups.setdefault(host, set()).add(group)
        assert set(on_host) <= set(pool.hosts)
        for host in pool.hosts:
            assert 0 <= hosts.free[host] == hosts.size[host] - on_host[host]
            if not hosts.is_counted[pool.number]:
                assert hosts.size[host] in (0, self.kernel.cluster.gpus_of_host[host])
        if pool.is_lent and self.scheme.keeps_groups_apart:
            assert all(len(found) == 1 for found in groups.values())

    def check_loans(self) -> None:
        """As many servers are on loan as planned, and those serve nobody else."""
        kernel, plan = self.kernel, self.case.plan
        servers = kernel.cluster.inference_servers
        lent = kernel.hosts.lent()
        assert len(lent) == kernel.loans.on_loan
        if not servers:
            assert not lent
            return
        elapsed_s = kernel.now_s - kernel.workload.jobs[0].submit_s
        tick = int(elapsed_s / plan.interval_s)
        planned = plan.on_loan[min(tick, len(plan.on_loan) - 1)]
        assert len(lent) == (planned if self.scheme.borrows else 0)
        busy_share = kernel.loans.serving_gpus / kernel.cluster.inference_gpus
        serving = serving_servers(busy_share, servers)
        assert serving + len(lent) <= servers

    # Work conservation.

    def check_nobody_waits_in_vain(self) -> None:
        """Whoever may start next has no room, even if all flexible workers made way."""
        for run in self.may_start():
            for room in self.policy._rooms_for(run):
                pool = self.kernel.cluster.pools[room.number]
                assert self.most_room(pool, run) < run.job.min_workers

    def may_start(self) -> list[Run]:
        kernel = self.kernel
        waiting = [
            run
            for run in kernel.runs
            if run.waiting_since_s != NEVER and run.job.submit_s <= kernel.now_s
        ]
        if self.scheme.queue != "first-come":
            return waiting
        apart = [run for run in waiting if self.policy._rooms_for(run) == self.policy._lent]
        others = [run for run in waiting if run not in apart]
        return apart[:1] + others[:1]

    def most_room(self, pool: Pool, run: Run) -> int:
        hosts, size = self.kernel.hosts, run.job.gpus_per_worker
        free = {host: hosts.size[host] for host in pool.hosts}
        for other in self.kernel.runs:
            for part in other.parts:
                if part.pool == pool.number:
                    for host, gpus in part.gpus[Group.BASE].items():
                        free[host] -= gpus
        return sum(gpus // size for gpus in free.values()) // self.replicas(pool)


@pytest.mark.parametrize("name", COMPOSED_SCHEMES)
@settings(max_examples=settings().max_examples // 3)
@given(case=cases())
def test_the_state_is_sound_after_every_event(name: str, case: Case) -> None:
    """Nothing is held twice, nobody is half started, lost or kept waiting; books balance."""
    scheme = find_scheme(name)
    assert isinstance(scheme, ComposedScheme)
    books = Books()
    simulation = replay(
        case.jobs,
        case.cluster,
        scheme,
        plan=case.plan,
        options=case.options,
        observers=(books, Watching(case, scheme)),
    )
    books.require_same(simulation)
    require_conserved(simulation)
    metrics = measure(simulation)
    assert metrics.finished == metrics.jobs
    assert 0 <= metrics.gpu_usage <= 1 + 1e-9
    assert 0 <= metrics.overall_usage <= 1 + 1e-9
    assert metrics.preemptions == sum(run.preemptions for run in simulation.runs)
    for run in simulation.runs:
        assert run.job.submit_s <= run.start_s < run.completion_s
        job = run.job
        fastest = max(
            simulation.speed.scaled(job, workers)
            for workers in range(job.min_workers, job.max_workers + 1)
        )
        if run.ran_on_loan:
            fastest *= case.cluster.pools[-1].gpu_type.worker_speed
        shortest_s = job.work_worker_s / fastest
        assert run.completion_s - run.start_s >= shortest_s * (1 - 1e-9)


@pytest.mark.parametrize("scheme", COMPOSED_SCHEMES)
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


@pytest.mark.parametrize(
    "scheme", [name for name in COMPOSED_SCHEMES if name not in ("fifo", "sjf")]
)
@settings(max_examples=settings().max_examples // 8)
@given(case=cases())
def test_capturing_decisions_changes_nothing(scheme: str, case: Case) -> None:
    """Who looks on gets the decisions of the very replay that others see."""
    captured: list[str] = []
    observer = CaptureObserver(
        lambda kind, instance: captured.append(f"{kind} {instance.name}"),
        frozenset(("reclaim", "allocation")),
    )
    watched, alone = (
        replay(
            case.jobs,
            case.cluster,
            scheme,
            plan=case.plan,
            options=case.options,
            observers=observers,
        )
        for observers in ((observer,), ())
    )
    assert watched.totals == alone.totals
    assert completions(watched) == completions(alone)
