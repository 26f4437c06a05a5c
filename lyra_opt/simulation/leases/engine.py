"""The engine with leases: gangs on a network of tiers, under a `PlacementPolicy`.

A gang holds its GPUs for a lease at most; then it gives all of them back and competes again, so
that the order in which a policy serves gangs is also its rule of preemption. Source: Dally (arXiv
2401.16492) as its public simulator has it. Time is continuous (ours; there it goes in chunks of
about a second), and a policy is asked again when a timer of its own runs out (ours, so that nothing
waits for ever beside idle GPUs).

After all events of an instant there is one decision: when a job is submitted, when GPUs become
free, or when the policy asked for it.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lyra_opt.network.links import Tier
from lyra_opt.network.policy import MachineState, PlacementPolicy, PlacementState
from lyra_opt.seeding import generator
from lyra_opt.simulation.leases.gangs import GangTable
from lyra_opt.simulation.leases.placed import PlacedEfficiency
from lyra_opt.simulation.leases.record import (
    NEVER,
    Mark,
    NetworkRecord,
    NetworkRun,
    NetworkTotals,
    Occupancy,
)
from lyra_opt.simulation.leases.setup import LeaseOptions
from lyra_opt.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from lyra_opt.network.policy import Grant, RunningGangs
    from lyra_opt.simulation.leases.setup import NetworkCluster, NetworkWorkload

LEASE_TOLERANCE = 1e-9
"""Part of a lease by which a gang may overrun it to complete."""

MOST_VAIN_WAKE_UPS = 1000
"""In a row, and ten for each job, in which a policy starts nobody; more will not help."""

PROGRESS_EVERY = 64
"""Decisions from one report of progress to the next."""


_NOBODY = np.zeros(0, np.int64)


class PolicyError(Exception):
    """A policy gave GPUs that it may not give, none for ever, or some on which nothing is done."""


class _Lease:
    """GPUs that a gang holds."""

    __slots__ = ("began_s", "completes", "computes_from_s", "efficiency", "gpus", "run", "tier")

    def __init__(self, run: NetworkRun, grant: Grant, efficiency: float, now_s: float) -> None:
        self.run = run
        self.gpus = grant.gpus
        self.tier = grant.tier
        self.efficiency = efficiency
        self.began_s = self.computes_from_s = now_s
        self.completes = False


class _Alone(NamedTuple):
    """How a lease began of the last gang there is."""

    gpus: dict[int, int]
    began_s: float
    left_s: float
    mark: Mark


class LeaseSimulation:
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
        Is given the simulated time now and then.

    Raises
    ------
    UserError
        If a job can never run.
    """

    def __init__(
        self,
        workload: NetworkWorkload,
        cluster: NetworkCluster,
        policy: PlacementPolicy,
        *,
        options: LeaseOptions | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        cluster.require_runs(workload)
        self.workload, self.cluster, self.policy = workload, cluster, policy
        self.options = options or LeaseOptions()
        self.runs = [NetworkRun(job, order) for order, job in enumerate(workload.jobs)]
        self.totals = NetworkTotals()
        self.now_s = workload.jobs[0].submit_s
        self._progress = progress
        self._occupancy = Occupancy(cluster.topology)
        self._placed = PlacedEfficiency(cluster)
        self._gangs = GangTable(workload, cluster)
        self._remaining_s = [job.ideal_s for job in workload.jobs]
        self._waiting_since_s = [NEVER] * len(workload.jobs)
        self._resumes_by_s = [math.inf] * len(workload.jobs)
        self._leases: dict[int, _Lease] = {}
        # Time, place in the order of events, and the lease that ends or the GPUs that become free.
        self._events: list[tuple[float, int, _Lease | dict[int, int]]] = []
        self._sequence = 0
        self._waiting = self._held_gpus = 0
        self._computing_gpus = 0.0
        self._alone: _Alone | None = None
        self._wake_s = math.inf
        self._vain_wake_ups = 0
        topology = cluster.topology
        self._machines = MachineState(
            gpus=topology.gpus_of_machine,
            free_gpus=self._occupancy.free,
            first_machine_of_rack=topology.first_machine_of_rack,
            affinity=np.zeros(topology.machines, np.int64),
        )
        kind = type(policy)
        self._migrates = kind.migrate is not PlacementPolicy.migrate
        self._asks_again = kind.next_decision_s is not PlacementPolicy.next_decision_s

    @property
    def record(self) -> NetworkRecord:
        """What is left of it when it has run, for the figures."""
        return NetworkRecord(
            workload=self.workload, cluster=self.cluster, runs=self.runs, totals=self.totals
        )

    # The loop.

    def run(self) -> LeaseSimulation:
        """Replay the workload until its last job completes; return the simulation.

        Raises
        ------
        PolicyError
            If the policy breaks a rule, or leaves jobs waiting for ever.
        """
        rng = generator(
            simulation=self.workload.name, policy=self.policy.name, seed=self.options.seed
        )
        self.policy.prepare(self._machines, self.options.lease_s, rng)
        runs, events = self.runs, self._events
        arrived, jobs = 0, len(runs)
        left = jobs
        skips = self.policy.repeats_itself
        while left:
            arrival_s = runs[arrived].job.submit_s if arrived < jobs else math.inf
            event_s = events[0][0] if events else math.inf
            now_s = min(arrival_s, event_s, self._wake_s)
            if now_s == math.inf:
                raise self._stuck("no GPUs are held, and the policy does not ask to be asked again")
            self.totals.pass_time(now_s - self.now_s, self._occupancy, self._held_gpus)
            self.now_s = now_s
            is_asked = is_woken = self._wake_s <= now_s
            while events and events[0][0] <= now_s:
                _, _, what = heappop(events)
                if isinstance(what, dict):
                    self._occupancy.change(what, +1)
                    is_asked, is_woken = True, False
                elif self._leases.get(what.run.order) is what:
                    left -= what.completes
                    self._end(what)
            while arrived < jobs and runs[arrived].job.submit_s <= now_s:
                self._wait(runs[arrived], now_s)
                arrived += 1
                is_asked, is_woken = True, False
            if is_asked:
                started = self._decide()
                self._vain_wake_ups = self._vain_wake_ups + 1 if is_woken and not started else 0
                if self._vain_wake_ups > MOST_VAIN_WAKE_UPS + 10 * jobs:
                    raise self._stuck(f"asked again {self._vain_wake_ups} times, it starts nobody")
            if skips and left == 1 and arrived == jobs:
                self._skip_leases()
            self._note_state()
        return self

    def _stuck(self, reason: str) -> PolicyError:
        waiting = self._gangs.waiting_rows()
        first = self.runs[waiting[0]].job.id
        return PolicyError(
            f"{self._where()}: job {first} and {len(waiting) - 1} others wait for ever: {reason}"
        )

    def _where(self) -> str:
        return f"policy {self.policy.name}, decision at {self.now_s:g} s"

    def _skip_leases(self) -> None:
        """Pass over leases of the last gang there is that are all like the one before.

        Its lease has just begun, on the same GPUs as the one before, and nothing else is to come.
        What is counted from one such beginning to the next is the same each time, so it is counted
        at once for all but the last leases.
        """
        if len(self._events) != 1:
            return
        end_s, number, lease = self._events[0]
        if isinstance(lease, dict) or lease.began_s < self.now_s:
            return
        run = lease.run
        left_s = self._remaining_s[run.order]
        previous = self._alone
        self._alone = _Alone(lease.gpus, self.now_s, left_s, Mark(run, self.totals))
        if previous is None or previous.gpus != lease.gpus:
            return
        done_s = previous.left_s - left_s
        # Nothing is done where the same gang was asked about twice at one moment.
        times = math.ceil(left_s / done_s) - 2 if done_s > 0 else 0
        if times < 1:
            return
        self._note_state()
        previous.mark.repeat(run, self.totals, times)
        self._remaining_s[run.order] -= times * done_s
        skipped_s = times * (self.now_s - previous.began_s)
        self.now_s += skipped_s
        lease.began_s += skipped_s
        lease.computes_from_s += skipped_s
        self._events[0] = (end_s + skipped_s, number, lease)
        self._alone = None

    # Gangs.

    def _wait(self, run: NetworkRun, now_s: float) -> None:
        self._waiting += 1
        self._waiting_since_s[run.order] = now_s
        self._gangs.wait(run, now_s, self._remaining_s[run.order])

    def _hold(self, run: NetworkRun, grant: Grant, pause_s: float = 0.0) -> None:
        """Give a gang GPUs on a new lease, on which it computes after a pause."""
        tier, efficiency = self._checked(run, grant)
        lease = _Lease(run, grant, efficiency, self.now_s)
        lease.computes_from_s = self.now_s + pause_s
        left_s = self._remaining_s[run.order] / efficiency
        lease_s = self.options.lease_s
        lease.completes = left_s <= lease_s * (1 + LEASE_TOLERANCE)
        self._occupancy.change(lease.gpus, -1)
        self._held_gpus += run.job.gang
        self._computing_gpus += run.job.gang * efficiency
        self._leases[run.order] = lease
        self._gangs.run(run, tier)
        self._push(lease.computes_from_s + (left_s if lease.completes else lease_s), lease)
        run.get(tier, lease.gpus)

    def _start(self, run: NetworkRun, grant: Grant) -> None:
        now_s = self.now_s
        if not self._gangs.is_waiting[run.order]:
            raise PolicyError(f"{self._where()}: job {run.job.id} is given GPUs twice")
        self._hold(run, grant)
        run.queued_s += now_s - self._waiting_since_s[run.order]
        self._waiting -= 1
        self._waiting_since_s[run.order] = NEVER
        if run.started_s == NEVER:
            run.started_s = now_s
        if now_s > self._resumes_by_s[run.order]:
            run.preemptions += 1

    def _release(self, lease: _Lease) -> float:
        """Take a gang off its GPUs; return when these are free."""
        run, now_s = lease.run, self.now_s
        running_s = max(0.0, now_s - lease.computes_from_s)
        run.hold(lease.tier, now_s - lease.began_s, running_s, lease.efficiency)
        self._remaining_s[run.order] -= running_s * lease.efficiency
        del self._leases[run.order]
        self._held_gpus -= run.job.gang
        self._computing_gpus -= run.job.gang * lease.efficiency
        free_s = now_s + self._hand_over_s(run)
        self._push(free_s, lease.gpus)
        return free_s

    def _end(self, lease: _Lease) -> None:
        """End a lease; the gang is complete, or waits again."""
        run = lease.run
        before_s = self._remaining_s[run.order]
        free_s = self._release(lease)
        if lease.completes:
            self._remaining_s[run.order] = 0.0
            run.completion_s = self.now_s
        else:
            if self._remaining_s[run.order] >= before_s:
                raise PolicyError(
                    f"{self._where()}: job {run.job.id} does nothing in a lease of "
                    f"{self.options.lease_s:g} s at efficiency {lease.efficiency:g}, as numbers "
                    "are rounded: it would never complete"
                )
            run.lease_losses += 1
            self._resumes_by_s[run.order] = free_s
            self._wait(run, self.now_s)

    def _hand_over_s(self, run: NetworkRun) -> float:
        return self.options.hand_over_s_per_gpu * run.job.gang

    def _push(self, time_s: float, what: _Lease | dict[int, int]) -> None:
        self._sequence += 1
        heappush(self._events, (time_s, self._sequence, what))

    # Decisions.

    def _decide(self) -> bool:
        """Ask the policy who starts where, and who moves; return whether anybody does."""
        self._wake_s = math.inf
        granted = 0
        asked_s = []
        rows = self._able_to_start()
        if len(rows):
            state = self._state(rows)
            stopwatch = Stopwatch()
            grants = self.policy.decide(state)
            asked_s.append(stopwatch.elapsed_s)
            if grants:
                offered = rows.tolist()
                for grant in grants:
                    self._start(self._chosen(offered, grant), grant)
            granted += len(grants)
            rows = self._able_to_start()
        if self._migrates and self._leases and self._occupancy.free_gpus:
            running, moving = self._movable()
            if moving:
                state = self._state(rows)
                stopwatch = Stopwatch()
                grants = self.policy.migrate(state, running)
                asked_s.append(stopwatch.elapsed_s)
                self._move(moving, grants)
                granted += len(grants)
                rows = self._able_to_start()
        if self._asks_again and len(rows):
            state = self._state(rows)
            stopwatch = Stopwatch()
            wait_s = self.policy.next_decision_s(state)
            asked_s.append(stopwatch.elapsed_s)
            # Beside a large time, what is left of a timer may be too small to add.
            self._wake_s = max(self.now_s + wait_s, math.nextafter(self.now_s, math.inf))
        if asked_s:
            if self._progress is not None and self.totals.decisions % PROGRESS_EVERY == 0:
                self._progress(self.now_s)
            self.totals.decisions += 1
            self.totals.decision_s.append(math.fsum(asked_s))
        return granted > 0

    def _able_to_start(self) -> np.ndarray:
        """Return all gangs that wait, or none if each is larger than what is free."""
        if self._gangs.smallest_waiting() <= self._occupancy.free_gpus:
            return self._gangs.waiting_rows()
        return _NOBODY

    def _state(self, rows: np.ndarray) -> PlacementState:
        gangs = self._gangs
        return PlacementState(
            now_s=self.now_s,
            lease_s=self.options.lease_s,
            machines=self._machines,
            waiting=gangs.waiting(rows, self.now_s) if len(rows) else gangs.nobody,
        )

    def _movable(self) -> tuple[RunningGangs, list[int]]:
        """Return what a policy sees of the gangs that may move, and who they are.

        Those that run, but for those that have just got their GPUs: to move at once would be to
        hold them for no time, and to hand them over.
        """
        leases, now_s = self._leases, self.now_s
        rows = sorted(row for row, lease in leases.items() if lease.began_s < now_s)
        gpus = [leases[row].gpus for row in rows]
        return self._gangs.running(np.array(rows, np.int64), gpus), rows

    def _move(self, running: list[int], grants: list[Grant]) -> None:
        """Let gangs go on elsewhere; what they held is handed over, and not free for it."""
        moved: set[int] = set()
        for grant in grants:
            run = self._chosen(running, grant)
            if run.order in moved:
                raise PolicyError(f"{self._where()}: job {run.job.id} moves twice")
            moved.add(run.order)
            self._require_free(run, grant)
            self._release(self._leases[run.order])
            self._hold(run, grant, self._hand_over_s(run))

    def _chosen(self, gangs: list[int], grant: Grant) -> NetworkRun:
        """Return the job that a grant is for; `PolicyError` if it is none of these."""
        if not 0 <= grant.job < len(gangs):
            raise PolicyError(f"{self._where()}: gang {grant.job} of {len(gangs)} is given GPUs")
        return self.runs[gangs[grant.job]]

    def _require_free(self, run: NetworkRun, grant: Grant) -> None:
        if not self._occupancy.holds(grant.gpus):
            raise PolicyError(
                f"{self._where()}: job {run.job.id} gets GPUs that are not free: {grant.gpus}"
            )

    def _checked(self, run: NetworkRun, grant: Grant) -> tuple[Tier, float]:
        """Return what a grant spans, and the efficiency there; or `PolicyError`."""
        job, gpus = run.job, grant.gpus
        if sum(gpus.values()) != job.gang or min(gpus.values()) < 1:
            raise PolicyError(
                f"{self._where()}: job {job.id} has a gang of {job.gang}, but gets {gpus}"
            )
        self._require_free(run, grant)
        tier, efficiency = self._placed.of(job.model, job.gang, gpus)
        if tier is not grant.tier:
            raise PolicyError(
                f"{self._where()}: job {job.id} is placed at tier {Tier(grant.tier).label}, but "
                f"{gpus} spans {tier.label}"
            )
        return tier, efficiency

    def _note_state(self) -> None:
        occupancy = self._occupancy
        self.totals.series.add(
            (
                self.now_s,
                self._waiting,
                len(self._leases),
                self._held_gpus,
                self._computing_gpus,
                occupancy.gpus - occupancy.free_gpus - self._held_gpus,
                occupancy.partly_free_machines,
            )
        )
