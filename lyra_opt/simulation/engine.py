"""The event engine: replay a workload on a cluster under a scheme.

Events are ordered by time, then completions before moves of servers before arrivals, then in the
order in which they were made. After all events of an instant there is one scheduling pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Any

from lyra_opt.errors import UserError
from lyra_opt.seeding import derive_seed
from lyra_opt.simulation.cluster import Options
from lyra_opt.simulation.decisions import ReclaimRule
from lyra_opt.simulation.pools import CountedPool, Group, ServerPool
from lyra_opt.simulation.run import NEVER, JobRun

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from lyra_opt.simulation.cluster import Cluster, LoanPlan
    from lyra_opt.simulation.pools import Pool
    from lyra_opt.simulation.run import Share
    from lyra_opt.simulation.scheme import Scheme
    from lyra_opt.simulation.workload import TrainingJob, Workload


DECISION_KINDS = ("reclaim", "allocation")


@dataclass(slots=True)
class Totals:
    """What is counted while the simulation runs."""

    training_gpu_s: float = 0.0
    loan_gpu_s: float = 0.0
    loan_capacity_gpu_s: float = 0.0
    serving_gpu_s: float = 0.0
    preemptions: int = 0
    loans: int = 0
    reclaims: int = 0
    returned_servers: int = 0
    vacated_gpus: int = 0
    collateral_gpus: int = 0
    running_at_reclaims: int = 0
    scaling_operations: int = 0
    events: int = 0
    series: list[tuple[float, int, int, int, int, int, float]] = field(default_factory=list)
    """Time, held training GPUs, held GPUs on loan, servers on loan, queued, running, busy share."""


class Simulation:
    """One replay; `run` carries it out.

    Parameters
    ----------
    workload
        What is submitted.
    cluster
        Where it runs.
    scheme
        How it is run.
    plan
        Loans over time; needed by schemes that borrow, where there are inference servers.
    options
        How the cluster behaves.
    capture
        Is given the kind and the instance of every decision put to a solver.
    captured_kinds
        The kinds that it is given, ``reclaim`` and ``allocation``. Where allocations are, a
        solver is asked even if all jobs can have all the workers that they can use.
    progress
        Is given the simulated time now and then.
    efficiency
        Returns the share of its speed at which a job runs where it is placed, above 0; 1 for all
        where it is not given. It is asked whenever that changes. Training servers are then told
        apart, not only counted.

    Raises
    ------
    UserError
        If a job can never run, or the plan is missing or lends more servers than there are.
    """

    def __init__(
        self,
        workload: Workload,
        cluster: Cluster,
        scheme: Scheme,
        *,
        plan: LoanPlan | None = None,
        options: Options | None = None,
        capture: Callable[[str, Any], None] | None = None,
        captured_kinds: Collection[str] = DECISION_KINDS,
        progress: Callable[[float], None] | None = None,
        efficiency: Callable[[JobRun], float] | None = None,
    ) -> None:
        self.workload, self.cluster, self.scheme = workload, cluster, scheme
        self.options = options or Options()
        self.now_s = workload.jobs[0].submit_s
        self.totals = Totals()
        self._capture = dict.fromkeys(captured_kinds, capture)
        self._progress = progress
        self._efficiency = efficiency
        self._require_room()
        self._require_plan(plan)
        self.runs = [JobRun(job, order) for order, job in enumerate(workload.jobs)]
        self.queue = scheme.make_queue(
            (lambda run: self._is_confined(run.job)) if scheme.confines_fungible else None
        )
        self._completions: list[tuple[float, int, int, JobRun]] = []
        self._sequence = 0
        self._running = 0
        self._held = {"training": 0, "loan": 0}
        self._flexible = {"training": 0, "loan": 0}
        self._plan = plan if cluster.inference_servers else None
        self._busy_share = 0.0
        self.training = self._training_pool()
        self.loaned = ServerPool(
            cluster.inference_gpus_per_server,
            replicas=cluster.inference_gpu.replicas,
            worker_speed=cluster.inference_gpu.worker_speed,
            mixes_groups=not scheme.keeps_groups_apart,
        )
        self._borrows = self._plan is not None and scheme.reclaimer is not None
        self._loans_are_final = self._plan is None
        self._reclaimer = (
            ReclaimRule(
                scheme.reclaimer,
                weighs_lost_work=scheme.weighs_lost_work,
                seed=derive_seed(simulation=workload.name, seed=self.options.seed),
            )
            if scheme.reclaimer is not None and self._borrows
            else None
        )
        self._on_loan_runs: dict[int, JobRun] = {}
        self._elastic: dict[int, JobRun] = {}
        self._speed = scheme.make_speed(
            seed=self.options.seed, gpus_per_server=cluster.gpus_per_server
        )
        self._scaling = scheme.make_scaling(self._speed)
        self._is_dirty = False
        self._next_scaling_s = self.now_s

    def _require_room(self) -> None:
        for job in self.workload.jobs:
            if not self.cluster.holds(job):
                raise UserError(
                    f"job {job.id} needs {job.min_workers} workers of {job.gpus_per_worker} GPUs, "
                    f"which {self.cluster.servers} servers of {self.cluster.gpus_per_server} GPUs "
                    "do not hold; --drop-oversized leaves such jobs out"
                )

    def _require_plan(self, plan: LoanPlan | None) -> None:
        servers = self.cluster.inference_servers
        if plan is None:
            if self.scheme.borrows and servers:
                raise UserError(f"scheme {self.scheme.name} borrows servers, but no plan says when")
        elif servers and max(plan.on_loan) > servers:
            raise UserError(
                f"the plan lends {max(plan.on_loan)} of the {servers} inference servers"
            )

    def _training_pool(self) -> Pool:
        """Return the training servers; they are only counted where it makes no difference."""
        servers_matter = self.cluster.servers_per_rack is not None or self._efficiency is not None
        if not servers_matter and all(job.gpus_per_worker == 1 for job in self.workload.jobs):
            return CountedPool(self.cluster.gpus)
        return ServerPool(self.cluster.gpus_per_server, servers=range(self.cluster.servers))

    # The loop.

    def run(self) -> Simulation:
        """Replay the workload until its last job completes; return the simulation."""
        runs, completions = self.runs, self._completions
        arriving, jobs = 0, len(runs)
        tick = 0
        next_tick_s = self.now_s if self._plan is not None else math.inf
        done = 0
        while done < jobs:
            arrival_s = runs[arriving].job.submit_s if arriving < jobs else math.inf
            while completions and completions[0][3].version != completions[0][2]:
                heappop(completions)
            completion_s = completions[0][0] if completions else math.inf
            scaling_s = self._next_scaling_s if self._is_dirty and self._scaling else math.inf
            now_s = min(arrival_s, completion_s, next_tick_s, max(scaling_s, self.now_s))
            if not self._running and arriving == jobs and self._loans_are_final:
                raise AssertionError("jobs wait that nothing will start")
            self._advance(now_s)
            changed = False
            while completions and completions[0][0] <= now_s:
                _, _, version, run = heappop(completions)
                if run.version == version:
                    self._complete(run)
                    done += 1
                    changed = True
            if next_tick_s <= now_s:
                self._move_servers(tick)
                tick += 1
                next_tick_s = self._next_tick_s(tick)
                changed = True
            while arriving < jobs and runs[arriving].job.submit_s <= now_s:
                self.queue.add(runs[arriving])
                arriving += 1
                changed = True
            if changed:
                self._is_dirty = True
                self._start_queued()
            if self._is_dirty and self._scaling and self._next_scaling_s <= now_s:
                self._resize()
            self.totals.events += 1
        self._note_state()
        return self

    def _next_tick_s(self, tick: int) -> float:
        assert self._plan is not None, "only plans have ticks"
        return self.workload.jobs[0].submit_s + tick * self._plan.interval_s

    def _advance(self, now_s: float) -> None:
        """Account for the time until `now_s`."""
        elapsed_s = now_s - self.now_s
        if elapsed_s > 0:
            totals = self.totals
            totals.training_gpu_s += self._held["training"] * elapsed_s
            totals.loan_gpu_s += self._held["loan"] * elapsed_s
            totals.loan_capacity_gpu_s += self.loaned.gpus * elapsed_s
            totals.serving_gpu_s += (
                self._busy_share
                * self.cluster.inference_servers
                * self.cluster.inference_gpus_per_server
                * elapsed_s
            )
        self.now_s = now_s

    # Jobs.

    def _complete(self, run: JobRun) -> None:
        run.advance(self.now_s)
        run.remaining_worker_s = 0.0
        run.completion_s = self.now_s
        self._leave(run)

    def _leave(self, run: JobRun) -> None:
        """Take a job off its GPUs."""
        self._count_held(run, -1)
        run.release_all()
        run.version += 1
        self._running -= 1
        self._on_loan_runs.pop(run.order, None)
        self._elastic.pop(run.order, None)

    def _preempt(self, run: JobRun) -> None:
        """Send a job back to the queue, without its progress unless it has checkpoints."""
        run.advance(self.now_s)
        self._leave(run)
        if not run.job.checkpoints:
            run.remaining_worker_s = run.job.work_worker_s
        run.preemptions += 1
        run.queued_since_s = self.now_s
        self.totals.preemptions += 1
        self.queue.add(run)

    def _kind(self, pool: Pool) -> str:
        return "loan" if pool is self.loaned else "training"

    def _count_held(self, run: JobRun, sign: int) -> None:
        for share in run.shares:
            kind = self._kind(share.pool)
            gpus_per_worker = sign * share.pool.replicas * run.job.gpus_per_worker
            self._held[kind] += share.workers * gpus_per_worker
            self._flexible[kind] += share.flexible * gpus_per_worker

    def _start_queued(self) -> None:
        """Carry out one scheduling pass."""
        queue = self.queue
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

    def _homes(self, run: JobRun) -> list[tuple[Pool, int]]:
        """Return where the base demand goes, as (pool, workers); empty if there is no room."""
        job = run.job
        pools = self._pools(job)
        for pool in pools:
            if self._has_room(pool, run, job.min_workers):
                return [(pool, job.min_workers)]
        if job.heterogeneous and len(pools) > 1:
            rooms = [(pool, pool.room(job.gpus_per_worker, Group.BASE)) for pool in pools]
            if sum(room for _, room in rooms) >= job.min_workers:
                homes, left = [], job.min_workers
                for pool, room in rooms:
                    workers = min(room, left)
                    if workers:
                        homes.append((pool, workers))
                    left -= workers
                return homes
        for pool in pools:
            if self._scaling and self._make_room(pool, run):
                return [(pool, job.min_workers)]
        return []

    def _pools(self, job: TrainingJob) -> list[Pool]:
        """Return the pools that a job may run in, the preferred one first.

        Elastic jobs prefer servers on loan, others training servers (Lyra, section 5.3); jobs on
        both kinds have their base demand on training servers (section 6).
        """
        if not self._borrows or not (job.fungible or job.heterogeneous):
            return [self.training]
        if self.scheme.confines_fungible:
            return [self.loaned] if self._is_confined(job) else [self.training]
        if job.is_elastic and not job.heterogeneous:
            return [self.loaned, self.training]
        return [self.training, self.loaned]

    def _is_confined(self, job: TrainingJob) -> bool:
        """Whether a job of a scheme that confines fungible jobs waits for inference servers.

        It must be small enough to find room there before long, at most a tenth of the inference
        cluster, so that a workload has no job that waits for a loan that is never large enough.
        Once loans change no more, those on loan must hold it.
        """
        if not (self._borrows and job.fungible):
            return False
        per_server = self.cluster.inference_gpus_per_server // job.gpus_per_worker
        replicas = job.min_workers * self.cluster.inference_gpu.replicas
        gpus = self.cluster.inference_servers * self.cluster.inference_gpus_per_server
        if per_server == 0 or 10 * replicas * job.gpus_per_worker > gpus:
            return False
        return not self._loans_are_final or per_server * len(self.loaned.servers) >= replicas

    def _has_room(self, pool: Pool, run: JobRun, workers: int) -> bool:
        gpus_per_worker = run.job.gpus_per_worker
        if pool.free_gpus < workers * pool.replicas * gpus_per_worker:
            return False
        return pool.room(gpus_per_worker, Group.BASE) >= workers

    def _make_room(self, pool: Pool, run: JobRun) -> bool:
        """Scale jobs in until a base demand fits, if it can; return whether it fits now.

        Base demands come before flexible workers (Lyra, section 5.2). Those go first whose loss
        delays their job least.
        """
        job = run.job
        flexible_gpus = self._flexible[self._kind(pool)]
        needed = job.min_workers * pool.replicas * job.gpus_per_worker
        if not flexible_gpus or pool.free_gpus + flexible_gpus < needed:
            return False
        shares = [
            (share, other)
            for other in self._elastic.values()
            for share in other.shares
            if share.pool is pool and share.flexible
        ]
        # Fragments of servers may hold fewer workers than their GPUs add up to; then no job is to
        # be scaled in for nothing.
        leaving = [
            (share.placements[Group.FLEXIBLE], share.flexible, other.job.gpus_per_worker)
            for share, other in shares
        ]
        if pool.room_after(leaving, job.gpus_per_worker) < job.min_workers:
            return False
        for _, other in shares:
            other.advance(self.now_s)
        losses = [
            (self._delay_s(other), other.order, number)
            for number, (share, other) in enumerate(shares)
        ]
        heapify(losses)
        while not self._has_room(pool, run, job.min_workers):
            _, order, number = losses[0]
            share, other = shares[number]
            self._scale(other, pool, -1)
            if share.flexible:
                heapreplace(losses, (self._delay_s(other), order, number))
            else:
                heappop(losses)
        for _, other in shares:
            self._gather(other)
        return True

    def _start(self, run: JobRun, homes: Iterable[tuple[Pool, int]]) -> None:
        job = run.job
        now_s = self.now_s
        for pool, workers in homes:
            run.hold(pool, workers, Group.BASE)
            self._note_pool(run, pool)
        run.queued_s += now_s - run.queued_since_s
        run.queued_since_s = NEVER
        if run.start_s == NEVER:
            run.start_s = now_s
        run.updated_s = now_s
        run.pauses_until_s = now_s + (self.options.preemption_s if run.preemptions else 0.0)
        self._count_held(run, 1)
        self._running += 1
        if job.is_elastic:
            self._elastic[run.order] = run
        self._set_rate(run)

    def _note_pool(self, run: JobRun, pool: Pool) -> None:
        """Remember where a job is whose workers in a pool have become more or fewer."""
        if pool is self.loaned:
            if any(share.pool is pool for share in run.shares):
                self._on_loan_runs[run.order] = run
                run.ran_on_loan = True
            else:
                self._on_loan_runs.pop(run.order, None)
        elif self.cluster.servers_per_rack is not None:
            racks = {
                self.cluster.rack_of(server)
                for share in run.shares
                if share.pool is pool
                for placement in share.placements
                for server in placement
            }
            run.most_racks = max(run.most_racks, len(racks))

    def _set_rate(self, run: JobRun) -> None:
        """Set the speed of a job by what it holds, and say when it completes."""
        run.rate = self._rate(run, run.workers) * run.mean_worker_speed
        if len(run.shares) > 1:
            run.rate *= self.options.mixed_efficiency
        if self._efficiency is not None:
            run.rate *= self._efficiency(run)
        run.version += 1
        self._sequence += 1
        heappush(
            self._completions,
            (run.expected_completion_s(self.now_s), self._sequence, run.version, run),
        )

    def _rate(self, run: JobRun, workers: int) -> float:
        """Return the work that so many workers of a job do in a second, on one kind of GPU."""
        return run.job.rate(workers) if self._speed is None else self._speed.rate(run.job, workers)

    # Elastic scaling.

    def _delay_s(self, run: JobRun) -> float:
        """Return by how much a job would complete later with one worker less."""
        left = run.believed_remaining_worker_s
        return left / self._rate(run, run.workers - 1) - left / self._rate(run, run.workers)

    def _scale(
        self, run: JobRun, pool: Pool, workers: int, first: Collection[int] = frozenset()
    ) -> None:
        """Add flexible workers in a pool, or take them away if negative, `first` from there."""
        run.advance(self.now_s)
        self._count_held(run, -1)
        if workers > 0:
            run.hold(pool, workers, Group.FLEXIBLE)
        else:
            run.drop_flexible(run.share_in(pool), -workers, first)
        self._note_pool(run, pool)
        self._count_held(run, 1)
        self._set_rate(run)

    def _resize(self) -> None:
        """Let the scheme's rule decide anew on all flexible workers.

        In each pool on those of the jobs that stay within it; then on those of jobs on both kinds
        of GPUs, which get what all others leave (Lyra, section 6).
        """
        self._is_dirty = False
        self._next_scaling_s = self.now_s + self.options.scaling_interval_s
        if self.scheme.grows_only_without_queue and len(self.queue):
            return
        pools: list[Pool] = [self.training, self.loaned] if self._borrows else [self.training]
        within: dict[str, list[JobRun]] = {self._kind(pool): [] for pool in pools}
        mixing: list[JobRun] = []
        for _, run in sorted(self._elastic.items()):
            if self._borrows and run.job.heterogeneous:
                mixing.append(run)
            else:
                within[self._kind(run.shares[0].pool)].append(run)
        changes: list[tuple[JobRun, Pool, int]] = []
        left = []
        for pool in pools:
            kind = self._kind(pool)
            free_gpus = (pool.free_gpus + self._flexible[kind]) // pool.replicas
            extra = self._extra_workers(within[kind], free_gpus, kind)
            for run, workers in zip(within[kind], extra, strict=True):
                changes.append((run, pool, workers - run.flexible_workers))
                free_gpus -= workers * run.job.gpus_per_worker
            left.append(free_gpus)
        for run, workers in zip(
            mixing, self._extra_workers(mixing, sum(left), "mixed"), strict=True
        ):
            changes += self._spread(run, workers, left)
        for run, pool, change in changes:
            if change < 0:
                self._scale(run, pool, change)
                self.totals.scaling_operations += 1
        for run, pool, change in changes:
            if change > 0:
                # Fragments of servers may hold fewer workers than their GPUs add up to.
                room = min(change, pool.room(run.job.gpus_per_worker, Group.FLEXIBLE))
                if room:
                    self._scale(run, pool, room)
                    self.totals.scaling_operations += 1
        for run in mixing:
            self._gather(run)

    def _extra_workers(self, runs: list[JobRun], free_gpus: int, kind: str) -> Sequence[int]:
        """Ask the scheme's rule for the flexible workers of jobs that share so many GPUs."""
        assert self._scaling is not None, "only schemes that scale resize"
        if not runs or not free_gpus:
            return [0] * len(runs)
        for run in runs:
            run.advance(self.now_s)
        return self._scaling.extra_workers(
            runs,
            free_gpus,
            name=f"{kind}-at-{self.now_s:.0f}-s",
            capture=self._capture.get("allocation"),
        )

    def _spread(
        self, run: JobRun, workers: int, left: list[int]
    ) -> Iterable[tuple[JobRun, Pool, int]]:
        """Divide the flexible workers of a job on both kinds of GPUs; yield what changes.

        They go to servers on loan where possible (Lyra, section 6), and beside the base demand
        where being on both kinds costs more than they bring.

        Parameters
        ----------
        left
            GPUs to be had on training servers and on loan; what the job gets is taken off.
        """
        gpus_per_worker = run.job.gpus_per_worker
        held = {share.pool: share.flexible for share in run.shares}
        held_on_loan = held.get(self.loaned, 0)
        on_loan = min(workers, left[1] // gpus_per_worker)
        if on_loan > held_on_loan:
            room = self.loaned.room(gpus_per_worker, Group.FLEXIBLE)
            on_loan = min(on_loan, held_on_loan + room)
        in_training = min(workers - on_loan, left[0] // gpus_per_worker)
        if self.options.mixed_efficiency < 1:
            homes = [share.pool for share in run.shares if share.base]
            if len(homes) == 1:
                home = int(homes[0] is self.loaned)
                beside = min(workers, left[home] // gpus_per_worker)
                at_loan_speed = on_loan + home * run.job.min_workers
                mixed_rate = self._mixed_rate(run, on_loan + in_training, at_loan_speed)
                alone_rate = self._rate(run, run.job.min_workers + beside) * homes[0].worker_speed
                if mixed_rate <= alone_rate:
                    on_loan, in_training = home * beside, (1 - home) * beside
        left[0] -= in_training * gpus_per_worker
        left[1] -= on_loan * gpus_per_worker
        for pool, target in ((self.training, in_training), (self.loaned, on_loan)):
            change = target - held.get(pool, 0)
            if change:
                yield run, pool, change

    def _mixed_rate(self, run: JobRun, extra: int, on_loan: int) -> float:
        """Return the work a second with so many extra workers, and workers on loan, on both kinds.

        At the speed that workers have on average, as `JobRun.mean_worker_speed` has it.
        """
        workers = run.job.min_workers + extra
        speed = 1 + on_loan / workers * (self.loaned.worker_speed - 1)
        return self.options.mixed_efficiency * self._rate(run, workers) * speed

    def _gather(self, run: JobRun) -> None:
        """Take a job off the other kind of GPUs if it is no faster for being on both.

        It may have got, or been left with, fewer workers there than the rule foresaw.
        """
        if len(run.shares) < 2:
            return
        homes = [share for share in run.shares if share.base]
        if len(homes) != 1:
            return
        alone_rate = self._rate(run, homes[0].workers) * homes[0].pool.worker_speed
        if run.rate <= alone_rate:
            other = next(share for share in run.shares if share is not homes[0])
            self._scale(run, other.pool, -other.flexible)
            self.totals.scaling_operations += 1

    # Loans.

    def _move_servers(self, tick: int) -> None:
        """Lend or take back servers as the plan says."""
        plan = self._plan
        assert plan is not None, "only plans have ticks"
        self._loans_are_final = tick >= len(plan.on_loan) - 1
        self._busy_share = plan.busy_share[min(tick, len(plan.busy_share) - 1)]
        if self._borrows:
            change = plan.on_loan[min(tick, len(plan.on_loan) - 1)] - len(self.loaned.servers)
            if change > 0:
                idle = (
                    server
                    for server in range(self.cluster.inference_servers)
                    if server not in self.loaned
                )
                self.loaned.add([next(idle) for _ in range(change)])
                self.totals.loans += 1
            elif change < 0:
                self._give_back(-change)
        self._note_state()
        if self._progress is not None:
            self._progress(self.now_s)

    def _give_back(self, count: int) -> None:
        """Vacate servers on loan and return them."""
        pool = self.loaned
        hosted = [
            (run, share)
            for _, run in sorted(self._on_loan_runs.items())
            for share in run.shares
            if share.pool is pool
        ]
        for run, _ in hosted:
            run.advance(self.now_s)
        assert self._reclaimer is not None, "only schemes that borrow give back"
        chosen = set(
            self._reclaimer.choose(
                pool,
                hosted,
                count,
                name=f"reclaim-at-{self.now_s:.0f}-s",
                capture=self._capture.get("reclaim"),
            )
        )
        held = sum(self._held.values())
        held_there = sum(pool.gpus_per_server - pool.servers[server] for server in chosen)
        self.totals.running_at_reclaims += self._running
        for run, share in hosted:
            base, flexible = share.placements
            if not chosen.isdisjoint(base):
                self._preempt(run)
            elif not chosen.isdisjoint(flexible):
                self._vacate_flexible(run, share, chosen)
        self.totals.reclaims += 1
        self.totals.returned_servers += count
        self.totals.vacated_gpus += count * pool.gpus_per_server
        self.totals.collateral_gpus += held - sum(self._held.values()) - held_there
        pool.withdraw(chosen)

    def _vacate_flexible(self, run: JobRun, share: Share, chosen: set[int]) -> None:
        """Scale a job in so far that it leaves the chosen servers.

        Replicas that no longer make up a whole worker leave too, from the servers that hold fewest.
        """
        flexible = share.placements[Group.FLEXIBLE]
        leaving = sum(replicas for server, replicas in flexible.items() if server in chosen)
        workers = -(-leaving // share.pool.replicas)
        self._scale(run, share.pool, -workers, chosen)
        self.totals.scaling_operations += 1
        self._gather(run)

    def _note_state(self) -> None:
        self.totals.series.append(
            (
                self.now_s,
                self._held["training"],
                self._held["loan"],
                len(self.loaned.servers),
                len(self.queue),
                self._running,
                self._busy_share,
            )
        )
