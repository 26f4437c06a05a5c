"""The engine in rounds: replay gangs on unlike GPUs under a `RoundPolicy`.

As a round begins, the policy says where each gang runs, and that holds to its end: a job that
completes before keeps its GPUs until then, but its completion counts when it is. Copies of a job
(HadarE) share what is left of it by their speed, so that all of them end at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lyra_opt.errors import UserError
from lyra_opt.heterogeneous.instance import GangJob
from lyra_opt.heterogeneous.policy import NEVER, ActiveJob, FreeGpus, RoundState
from lyra_opt.seeding import generator
from lyra_opt.simulation.rounds.setup import RoundOptions
from lyra_opt.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lyra_opt.heterogeneous.instance import Placement
    from lyra_opt.heterogeneous.policy import Decision, RoundPolicy
    from lyra_opt.simulation.rounds.setup import HeterogeneousCluster, HeterogeneousWorkload

STEPS_TOLERANCE = 1e-9
"""Part of all its steps by which a job may fall short and is complete; as the checker has it."""

MOST_STALLED_ROUNDS = 100
"""Rounds in a row in which jobs wait, nothing runs and nobody comes; more will not help."""


class PolicyError(Exception):
    """A policy gave GPUs that it may not give, or none for ever."""


@dataclass(slots=True)
class GangRun:
    """What becomes of a job.

    Parameters
    ----------
    active
        What the policy sees of it.
    completion_s
        When it completes; NEVER before.
    steps_done
        So far.
    working_gpu_s
        GPU-seconds in which its gang worked, restarts and merges included.
    restarts
        Rounds in which it, or a copy of it, began elsewhere than in the round before, or after a
        wait; its first start not counted, though it costs the same.
    preemptions
        How often it did not run after a round in which it did.
    copy_rounds, rounds
        Copies that ran, summed over the rounds in which it did, and how many these are.
    most_copies
        At once.
    """

    active: ActiveJob
    completion_s: float = NEVER
    steps_done: float = 0.0
    working_gpu_s: float = 0.0
    restarts: int = 0
    preemptions: int = 0
    copy_rounds: int = 0
    rounds: int = 0
    most_copies: int = 0

    @property
    def job(self) -> GangJob:
        """As submitted."""
        return self.active.job

    @property
    def jct_s(self) -> float:
        """From submission to completion."""
        return self.completion_s - self.active.submitted_s

    @property
    def queued_s(self) -> float:
        """The sum of all waits."""
        return max(0.0, self.jct_s - self.active.executed_s)


@dataclass(slots=True)
class RoundTotals:
    """What is counted while the simulation runs.

    Parameters
    ----------
    working_gpu_s
        GPU-seconds in which GPUs worked, by type, counted by server.
    busy_server_s
        Server-seconds in which a server worked for anybody.
    restarting_s
        Seconds that gangs and copies lost by restarts.
    merging_s
        Seconds that jobs lost by merging.
    rounds
        In which jobs were there.
    decision_s
        Wall time of each decision.
    series
        Time, queued jobs, running jobs, copies, busy servers, then GPUs given by type; each row
        holds until the next.
    """

    working_gpu_s: dict[str, float]
    busy_server_s: float = 0.0
    restarting_s: float = 0.0
    merging_s: float = 0.0
    rounds: int = 0
    decision_s: list[float] = field(default_factory=list)
    series: list[tuple[float, ...]] = field(default_factory=list)


class RoundSimulation:
    """One replay; `run` carries it out.

    Parameters
    ----------
    workload
        What is submitted.
    cluster
        Where it runs.
    policy
        Who decides; an object is for one run.
    options
        How the cluster behaves.
    progress
        Is given the simulated time of each round.
    rate_of
        Returns the steps a second of a gang where it is placed, above 0, in place of
        `GangJob.rate_of`, by which the policy goes on deciding. It is asked once for each copy in
        each round in which it runs.

    Raises
    ------
    UserError
        If the policy or the cluster can never run a job; see `obstacle`.
    """

    def __init__(
        self,
        workload: HeterogeneousWorkload,
        cluster: HeterogeneousCluster,
        policy: RoundPolicy,
        *,
        options: RoundOptions | None = None,
        progress: Callable[[float], None] | None = None,
        rate_of: Callable[[GangJob, Placement], float] = GangJob.rate_of,
    ) -> None:
        self.workload, self.cluster, self.policy = workload, cluster, policy
        self.options = options or RoundOptions()
        self._progress = progress
        self._rate_of = rate_of
        for job in workload.jobs:
            reason = obstacle(job, cluster, policy)
            if reason is not None:
                raise UserError(reason)
        self.runs = [
            GangRun(
                ActiveJob(
                    job=job,
                    order=order,
                    steps_left=job.steps,
                    submitted_s=job.release_s,
                    waiting_since_s=job.release_s,
                )
            )
            for order, job in enumerate(workload.jobs)
        ]
        self.totals = RoundTotals(working_gpu_s=dict.fromkeys(cluster.gpus_of_type, 0.0))
        self.state = RoundState(
            gpu_types=cluster.gpu_types,
            servers=cluster.servers,
            now_s=0.0,
            round_s=self.options.round_s,
        )
        self._active: dict[str, GangRun] = {}

    def run(self) -> RoundSimulation:
        """Replay the workload until its last job completes; return the simulation.

        O(rounds (jobs there + GPUs given)) beside the decisions; rounds without jobs are skipped.

        Raises
        ------
        PolicyError
            If the policy breaks a rule, or leaves jobs waiting while nothing runs for ever.
        """
        options, state, runs = self.options, self.state, self.runs
        rng = generator(simulation=self.workload.name, policy=self.policy.name, seed=options.seed)
        number = options.round_from(runs[0].job.release_s)
        state.now_s = number * options.round_s
        self.policy.prepare(state, rng)
        arrived = stalled = 0
        while arrived < len(runs) or self._active:
            if not self._active:
                next_number = options.round_from(runs[arrived].job.release_s)
                if next_number > number:
                    self.totals.series.append((number * options.round_s, *self._nothing()))
                    number = next_number
            now_s = number * options.round_s
            before = arrived
            while arrived < len(runs) and runs[arrived].job.release_s <= now_s:
                self._active[runs[arrived].job.id] = runs[arrived]
                arrived += 1
            state.now_s = now_s
            state.is_changed |= arrived > before
            state.jobs = [run.active for run in self._active.values()]
            stopwatch = Stopwatch()
            decision = self.policy.decide(state)
            self.totals.decision_s.append(stopwatch.elapsed_s)
            has_run = self._carry_out(decision, now_s)
            stalled = 0 if has_run or arrived > before else stalled + 1
            if stalled > MOST_STALLED_ROUNDS and arrived == len(runs):
                first = next(iter(self._active))
                raise PolicyError(
                    f"{self._at(now_s)}: job {first} and {len(self._active) - 1} others wait, but "
                    f"nothing has run for {stalled} rounds"
                )
            number += 1
            if self._progress is not None:
                self._progress(now_s)
        self.totals.series.append((max(run.completion_s for run in runs), *self._nothing()))
        return self

    def _nothing(self) -> tuple[float, ...]:
        return (0.0,) * (4 + len(self.cluster.gpus_of_type))

    def _carry_out(self, decision: Decision, now_s: float) -> bool:
        """Run a round as decided; return whether anything ran."""
        self._require_allowed(decision, now_s)
        self.totals.rounds += 1
        worked_s: dict[str, float] = {}
        given = dict.fromkeys(self.cluster.gpus_of_type, 0)
        copies = running = 0
        completed = []
        for name, run in self._active.items():
            placements = tuple(decision.get(name, ()))
            if not placements:
                self._wait(run, now_s)
                continue
            running += 1
            copies += len(placements)
            works_s = self._work(run, placements, now_s)
            if run.completion_s != NEVER:
                completed.append(name)
            for placement in placements:
                for server, types in placement.items():
                    worked_s[server] = max(worked_s.get(server, 0.0), works_s)
                    for gpu_type, count in types.items():
                        given[gpu_type] += count
                        self.totals.working_gpu_s[gpu_type] += count * works_s
        self.totals.busy_server_s += math.fsum(worked_s.values())
        queued = len(self._active) - running
        self.totals.series.append((now_s, queued, running, copies, len(worked_s), *given.values()))
        for name in completed:
            del self._active[name]
        self.state.is_changed = bool(completed)
        return running > 0

    @staticmethod
    def _wait(run: GangRun, now_s: float) -> None:
        active = run.active
        if active.placements:
            run.preemptions += 1
            active.placements = ()
        if active.waiting_since_s == NEVER:
            active.waiting_since_s = now_s

    def _work(self, run: GangRun, placements: tuple[Placement, ...], now_s: float) -> float:
        """Let a job do what it can in a round; return for how long it works."""
        active, options = run.active, self.options
        has_moved = [placement not in active.placements for placement in placements]
        if active.started_s == NEVER:
            active.started_s = now_s
        elif any(has_moved):
            run.restarts += 1
        lost_s = [options.restart_s if moved else 0.0 for moved in has_moved]
        self.totals.restarting_s += math.fsum(lost_s)
        merge_s = options.merge_s if len(placements) > 1 else 0.0
        self.totals.merging_s += merge_s
        efficiency = options.efficiency(len(placements))
        rates = [efficiency * self._rate_of(active.job, placement) for placement in placements]
        training_s = options.round_s - merge_s
        steps = steps_within(training_s, rates, lost_s)
        if steps >= active.steps_left - STEPS_TOLERANCE * active.job.steps:
            trained_s = min(training_s, time_of_steps(active.steps_left, rates, lost_s))
            steps, works_s = active.steps_left, trained_s + merge_s
            run.completion_s = now_s + works_s
        else:
            works_s = options.round_s
        active.steps_left -= steps
        run.steps_done += steps
        gpu_s = len(placements) * active.job.gang * works_s
        run.working_gpu_s += gpu_s
        active.attained_gpu_s += gpu_s
        active.executed_s += works_s
        active.waiting_since_s = NEVER
        active.placements = placements
        run.rounds += 1
        run.copy_rounds += len(placements)
        run.most_copies = max(run.most_copies, len(placements))
        return works_s

    def _at(self, now_s: float) -> str:
        return f"policy {self.policy.name}, round at {now_s:g} s"

    def _require_allowed(self, decision: Decision, now_s: float) -> None:
        """Check what a policy decided; `PolicyError` that names the job and the rule."""
        free = FreeGpus(self.cluster.servers)
        for name, placements in decision.items():
            where = f"{self._at(now_s)}: job {name}"
            run = self._active.get(name)
            if run is None:
                raise PolicyError(f"{where} is not there, or complete")
            if len(placements) > 1:
                self._require_copies(placements, where)
            for placement in placements:
                gpus = sum(sum(types.values()) for types in placement.values())
                if gpus != run.job.gang or any(
                    count < 1 for types in placement.values() for count in types.values()
                ):
                    raise PolicyError(f"{where} has a gang of {run.job.gang}, but gets {gpus} GPUs")
                if any(server not in free.by_server for server in placement):
                    raise PolicyError(f"{where} is placed on a server that there is not")
                if not free.holds(placement):
                    raise PolicyError(f"{where} gets GPUs that are not free: {placement}")
                if run.job.rate_of(placement) <= 0:
                    raise PolicyError(f"{where} cannot run where it is placed: {placement}")
                free.take(placement)

    def _require_copies(self, placements: Sequence[Placement], where: str) -> None:
        if not self.policy.forks:
            raise PolicyError(f"{where} has {len(placements)} copies, but the policy forks none")
        servers = [server for placement in placements for server in placement]
        if len(servers) > len(placements) or len(set(servers)) < len(servers):
            raise PolicyError(f"{where} has copies that are not on a server of their own each")


def obstacle(job: GangJob, cluster: HeterogeneousCluster, policy: RoundPolicy) -> str | None:
    """Return why a job would wait for ever under a policy, in a sentence; None if it would not.

    Gangs that fit GPUs of several types alone are refused, for most policies never run them;
    policies that fork run gangs on one server alone.
    """
    gang = f"job {job.id} has a gang of {job.gang}"
    if job.gang > 1 and not policy.takes_gangs:
        return f"{gang}, and policy {policy.name} runs jobs of one GPU alone"
    if not cluster.holds(job):
        return f"{gang}, which no type of GPUs of cluster {cluster.name} can run"
    if policy.forks and not cluster.holds_on_a_server(job):
        where = f"no server of cluster {cluster.name}"
        return f"{gang}, which {where} can run, and policy {policy.name} spreads none"
    return None


def steps_within(time_s: float, rates: Sequence[float], lost_s: Sequence[float]) -> float:
    """Return the steps that copies do within a time, each after what it loses.

    >>> steps_within(10.0, [1.0, 2.0], [0.0, 4.0])
    22.0
    """
    return math.fsum(
        rate * max(0.0, time_s - lost) for rate, lost in zip(rates, lost_s, strict=True)
    )


def time_of_steps(steps: float, rates: Sequence[float], lost_s: Sequence[float]) -> float:
    """Return how long copies take that share steps by their speed, so that all end at once.

    Source: HadarE's throughput-proportional division, from memory. Steps are not rounded to whole
    ones. O(copies log copies).

    >>> time_of_steps(22.0, [1.0, 2.0], [0.0, 4.0])
    10.0
    """
    rate = done = at_s = 0.0
    for lost, gained in sorted(zip(lost_s, rates, strict=True)):
        if rate > 0 and done + rate * (lost - at_s) >= steps:
            break
        done += rate * (lost - at_s)
        rate += gained
        at_s = lost
    return at_s + (steps - done) / rate
