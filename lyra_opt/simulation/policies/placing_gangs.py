"""Runs placement policies, which decide where waiting gangs start, in the simulator.

Each `lyra_opt.network.heuristics.policy.PlacementPolicy` also solves standalone instances. A
policy is called when a job is submitted, when GPUs become free, or when one of its timers expires.
The calls after timers are ours: they prevent jobs from waiting for ever next to idle GPUs.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from lyra_opt.core.seeding import generator
from lyra_opt.core.solver import SolverLike
from lyra_opt.core.stopwatch import Stopwatch
from lyra_opt.network.heuristics.policy import (
    Grant,
    MachineState,
    PlacementPolicy,
    PlacementState,
    RunningGangs,
    WaitingGangs,
    require_grants,
)
from lyra_opt.network.instance import Instance, Machine, Objective, WaitingJob
from lyra_opt.network.links import Tier
from lyra_opt.simulation.cluster import Pool
from lyra_opt.simulation.communication import SCATTERED_MODELS
from lyra_opt.simulation.job_run import JobRun
from lyra_opt.simulation.policy import DEFAULT_RECLAIMER, Policy
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.tenure import LEASE_S
from lyra_opt.simulation.topology import Rack, Topology
from lyra_opt.simulation.view import View

Answer = TypeVar("Answer")

INTEGERS = range(-(2**62), 2**62)
"""Accepted positions in a grant, so that a string is rejected at once; range errors, which name the
job, come later.
"""

_NO_ROWS = np.zeros(0, np.int64)


class _TypedPool:
    """The GPUs of one type, with a placement policy of their own.

    Parameters
    ----------
    view
        The simulation.
    pool
        The pool of the GPUs.
    rule
        The placement policy.
    """

    def __init__(self, view: View, pool: Pool, rule: PlacementPolicy) -> None:
        self.pool = pool
        self.rule = rule
        self.first, self.size = pool.hosts.start, len(pool.hosts)
        self.is_all = len(view.cluster.pools) == 1
        cluster = view.cluster
        racks = cluster.rack_of_host[pool.hosts.start : pool.hosts.stop]
        starts = [0, *(i for i in range(1, len(racks)) if racks[i] != racks[i - 1]), len(racks)]
        self.machines = MachineState(
            gpus=np.array(pool.gpus, np.int64),
            free_gpus=view.hosts.array[pool.hosts.start : pool.hosts.stop],
            first_machine_of_rack=np.array(starts, np.int64),
            affinity=np.zeros(self.size, np.int64),
        )
        self.efficiency = _tier_efficiencies(view, pool, starts)
        """Speed of each job at each tier, 0 if it cannot run; shape (jobs, tiers)."""
        is_able = np.any(self.efficiency > 0, axis=1)
        self.is_able: np.ndarray | None = None if is_able.all() else np.asarray(is_able)

    def rows(self, rows: np.ndarray) -> np.ndarray:
        """Return the given jobs that can run in this pool."""
        return rows if self.is_able is None else rows[self.is_able[rows]]

    def machines_of(self, run: JobRun) -> dict[int, int]:
        """Return the GPUs that a job holds in this pool, by machine."""
        if not self.first:
            return run.gpus
        return {host - self.first: count for host, count in run.gpus.items()}

    def hosts_of(self, grant: Grant) -> dict[int, int]:
        """Return the GPUs of a grant by host."""
        if self.is_all:
            return grant.gpus
        if not (grant.gpus and min(grant.gpus) >= 0 and max(grant.gpus) < self.size):
            # Host -1 does not exist, so a policy that uses another pool's machines gets an error.
            return {-1: sum(grant.gpus.values())}
        return {machine + self.first: count for machine, count in grant.gpus.items()}


def _tier_efficiencies(view: View, pool: Pool, starts: list[int]) -> np.ndarray:
    """Return each job's speed at each network tier of a pool: shape (jobs, tiers).

    It is relative to reference GPUs that are close together, and 0 if the empty pool cannot hold
    the job at that tier.
    """
    speed, cluster, sizes = view.speed, view.cluster, pool.gpus
    largest = max(sizes)
    racks = [sizes[first:end] for first, end in pairwise(starts)]
    largest_of_several = max((sum(rack) for rack in racks if len(rack) > 1), default=0)
    topology: Topology | None = None
    if speed.communication is not None:
        topology = cluster.topology
        if len(cluster.pools) > 1:
            topology = Topology(
                name=pool.gpu_type.name,
                racks=tuple(Rack(machines=len(rack), gpus_per_machine=rack[0]) for rack in racks),
            )
    known: dict[object, tuple[float, ...]] = {}
    rows = []
    for run in view.runs:
        job = run.job
        gang = job.min_gpus
        kind = job.fungible or job.heterogeneous if job.measured is None else id(job.measured)
        key = kind, job.model, gang, job.gpu_types
        found = known.get(key)
        if found is None:
            near, far = speed.near_and_far(job, pool.number)
            if topology is not None and speed.communication is not None:
                assert job.model is not None, "every job names its model if distance matters"
                found = tuple(
                    efficiency * (near if tier is Tier.MACHINE else far)
                    for tier, efficiency in zip(
                        Tier,
                        speed.communication.tier_efficiency(job.model, gang, topology),
                        strict=True,
                    )
                )
            else:
                found = (
                    near if gang <= largest else 0.0,
                    far if 1 < gang <= largest_of_several else 0.0,
                    far if 1 < gang <= sum(sizes) and len(racks) > 1 else 0.0,
                )
            known[key] = found
        rows.append(found)
    return np.array(rows)


class PlacingGangs(Policy):
    """Calls a placement policy, one object per GPU type, to start and move gangs.

    Parameters
    ----------
    make
        Builds a placement policy.
    reclaimer
        See `Policy`.
    """

    def __init__(
        self,
        make: Callable[[], PlacementPolicy],
        *,
        reclaimer: SolverLike | None = DEFAULT_RECLAIMER,
    ) -> None:
        rule = make()
        super().__init__(rule.name, reclaimer=reclaimer)
        self.repeats_itself = rule.repeats_itself
        self._make, self._first_rule = make, rule
        self._migrates = type(rule).migrate is not PlacementPolicy.migrate
        self._asks_again = type(rule).next_decision_s is not PlacementPolicy.next_decision_s

    def begin(self, view: View) -> None:
        """Prepare for a run: create one placement policy for each pool."""
        length_s = view.tenure.length_s
        self._lease_s = length_s if math.isfinite(length_s) else LEASE_S
        self._gangs = GangTable(view.runs, view.speed)
        self._grounds: list[_TypedPool] = []
        for pool in view.cluster.pools:
            if pool.is_lent and not view.loans.is_active:
                continue
            rule = self._make() if self._grounds else self._first_rule
            ground = _TypedPool(view, pool, rule)
            rng = generator(simulation=view.workload.name, policy=self.name, seed=view.seed)
            rule.prepare(ground.machines, self._lease_s, rng)
            self._grounds.append(ground)

    def waits(self, view: View, run: JobRun) -> None:
        """Add a waiting job to the gangs that the placement policies see."""
        self._gangs.wait(run, view.now_s)

    def decide(self, view: View) -> None:
        """Let the placement policies start and move gangs in every pool."""
        self._asked_s: list[float] = []
        for ground in self._grounds:
            self._decide_on(view, ground)
        if self._asked_s:
            view.totals.decisions += 1
            view.totals.decision_s.append(math.fsum(self._asked_s))

    def _decide_on(self, view: View, ground: _TypedPool) -> None:
        rule = ground.rule
        rows = self._able_to_start(view, ground)
        if len(rows):
            state = self._state(view, ground, rows)
            self._capture(view, ground, state)
            grants = self._timed(rule.decide, state)
            if grants:
                require_grants(rule.decide, grants, INTEGERS, INTEGERS)
                offered = rows.tolist()
                for grant in grants:
                    run = self._chosen(view, offered, grant)
                    view.start(run, view.reserve(run, ground.hosts_of(grant)))
                    self._require_tier(view, run, grant)
                    self._gangs.start(run)
            rows = self._able_to_start(view, ground)
        if self._migrates and view.running and view.hosts.free_of_pool[ground.pool.number]:
            moving = self._movable(view, ground)
            if moving:
                placements = [ground.machines_of(view.runs[order]) for order in moving]
                gangs = np.array(moving, np.int64)
                running = self._gangs.running(gangs, ground.efficiency, placements)
                state = self._state(view, ground, rows)
                self._move(view, ground, moving, self._timed(rule.migrate, state, running))
                rows = self._able_to_start(view, ground)
        if self._asks_again and len(rows):
            wait_s = self._timed(rule.next_decision_s, self._state(view, ground, rows))
            # The wake-up must be after now, but now plus a short wait may round to now.
            wake_s = max(view.now_s + wait_s, math.nextafter(view.now_s, math.inf))
            self.wake_s = min(self.wake_s, wake_s)

    def _timed(self, ask: Callable[..., Answer], *question: object) -> Answer:
        stopwatch = Stopwatch()
        answer = ask(*question)
        self._asked_s.append(stopwatch.elapsed_s)
        return answer

    def _able_to_start(self, view: View, ground: _TypedPool) -> np.ndarray:
        """Return the waiting gangs that can run in a pool; none if no gang fits its free GPUs."""
        if self._gangs.smallest_waiting() <= view.hosts.free_of_pool[ground.pool.number]:
            return ground.rows(self._gangs.waiting_rows())
        return _NO_ROWS

    def _state(self, view: View, ground: _TypedPool, rows: np.ndarray) -> PlacementState:
        return PlacementState(
            now_s=view.now_s,
            lease_s=self._lease_s,
            machines=ground.machines,
            waiting=self._gangs.waiting(rows, ground.efficiency, view.now_s),
        )

    @staticmethod
    def _capture(view: View, ground: _TypedPool, state: PlacementState) -> None:
        if view.captures("network"):
            name = f"epoch-at-{view.now_s:.0f}-s"
            timers_s = ground.rule.held_s(state)
            view.observed("network", instance_of(state, name=name, timers_s=timers_s))

    @staticmethod
    def _movable(view: View, ground: _TypedPool) -> list[int]:
        """Return the running gangs of a pool that may move, in order of submission.

        Gangs that have just got their GPUs are left out: they would hold these for no time, but
        would still pay the hand-over.
        """
        now_s = view.now_s
        return [
            order
            for order, run in sorted(view.running.items())
            if run.began_s < now_s and (ground.is_all or run.parts[0].pool == ground.pool.number)
        ]

    def _move(self, view: View, ground: _TypedPool, orders: list[int], grants: list[Grant]) -> None:
        """Move gangs as granted; each gang reserves its new GPUs before it leaves its old ones."""
        require_grants(ground.rule.migrate, grants, INTEGERS, INTEGERS)
        moved: set[int] = set()
        for grant in grants:
            run = self._chosen(view, orders, grant)
            if run.order in moved:
                raise view.error(run, "moves twice")
            moved.add(run.order)
            parts = view.reserve(run, ground.hosts_of(grant))
            view.lift(run)
            view.put(run, parts)
            self._require_tier(view, run, grant)

    @staticmethod
    def _chosen(view: View, orders: list[int], grant: Grant) -> JobRun:
        """Return the job that gets the GPUs of a grant; raise an error if its index is invalid."""
        if not 0 <= grant.job < len(orders):
            raise view.error(None, f"gives GPUs to gang {grant.job} of {len(orders)} gangs")
        return view.runs[orders[grant.job]]

    def _require_tier(self, view: View, run: JobRun, grant: Grant) -> None:
        """Check that a gang spans the tier of its grant, and record the tier."""
        tier = view.tier_of(run)
        self._gangs.tier[run.order] = tier
        if tier is not grant.tier:
            raise view.error(
                run,
                f"has tier {Tier(grant.tier).label} in its grant, but {grant.gpus} spans tier "
                f"{tier.label}",
            )


class GangTable:
    """The jobs of a workload as arrays, one row per job in order of submission.

    Parameters
    ----------
    runs
        The states of all jobs.
    speed
        The speed of jobs on the cluster.

    Notes
    -----
    `smallest_waiting` takes O(distinct gang sizes), `waiting_rows` O(jobs) on one byte each, other
    methods O(gangs that are requested).
    """

    def __init__(self, runs: Sequence[JobRun], speed: Speed) -> None:
        jobs = [run.job for run in runs]
        self.tier = np.zeros(len(jobs), np.int64)
        self._ids: Any = np.array([job.id for job in jobs], object)
        self.gang = np.array([job.min_gpus for job in jobs], np.int64)
        self.is_waiting = np.zeros(len(jobs), np.bool_)
        self._waiting_of_size: dict[int, int] = {}
        base_rates = [speed.unit_of(job).base_rate for job in jobs]
        self._base_rate = base_rates
        self._ideal_s = [run.work / rate for run, rate in zip(runs, base_rates, strict=True)]
        self._score, self._since_s, self._remaining_s, self._attained_gpu_s = np.zeros(
            (4, len(jobs))
        )
        self._needs_consolidation = np.array(
            [job.model is not None and job.model not in SCATTERED_MODELS for job in jobs]
        )
        self._weight = np.array([job.weight for job in jobs])
        self._zeros = np.zeros(len(jobs))

    def wait(self, run: JobRun, now_s: float) -> None:
        """Mark a job as waiting from `now_s` on."""
        row = run.order
        ideal_s = self._ideal_s[row]
        remaining_s = run.left / self._base_rate[row]
        gang = run.job.min_gpus
        self.is_waiting[row] = True
        self._waiting_of_size[gang] = self._waiting_of_size.get(gang, 0) + 1
        self._score[row] = network_sensitivity(
            done_share=1.0 - remaining_s / ideal_s, running_s=run.running_s, ideal_s=ideal_s
        )
        self._since_s[row] = now_s
        self._remaining_s[row] = remaining_s
        self._attained_gpu_s[row] = run.running_s * gang

    def start(self, run: JobRun) -> None:
        """Mark a job as no longer waiting."""
        self.is_waiting[run.order] = False
        gang = run.job.min_gpus
        self._waiting_of_size[gang] -= 1
        if not self._waiting_of_size[gang]:
            del self._waiting_of_size[gang]

    def smallest_waiting(self) -> float:
        """Return the number of GPUs of the smallest waiting gang, infinite if no gang waits."""
        return min(self._waiting_of_size, default=math.inf)

    def waiting_rows(self) -> np.ndarray:
        """Return the rows of the waiting jobs."""
        return np.flatnonzero(self.is_waiting)

    def waiting(self, rows: np.ndarray, efficiency: np.ndarray, now_s: float) -> WaitingGangs:
        """Return the waiting gangs of the given rows, as a placement policy sees them.

        Parameters
        ----------
        efficiency
            Speed of all jobs at each tier, shape (jobs, tiers).
        """
        # Neighbouring rows are read through a slice, so that NumPy copies no arrays.
        part: np.ndarray | slice = rows
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
            part = slice(int(rows[0]), int(rows[-1]) + 1)
        return WaitingGangs(
            ids=self._ids[part],
            gang=self.gang[part],
            efficiency=efficiency[part],
            score=self._score.take(rows),
            waiting_s=now_s - self._since_s[part],
            weight=self._weight[part],
            remaining_s=self._remaining_s.take(rows),
            attained_gpu_s=self._attained_gpu_s.take(rows),
            needs_consolidation=self._needs_consolidation[part],
            rack_timer_s=self._zeros[: len(rows)],
            network_timer_s=self._zeros[: len(rows)],
        )

    def running(
        self, rows: np.ndarray, efficiency: np.ndarray, placements: Sequence[dict[int, int]]
    ) -> RunningGangs:
        """Return the running gangs of the given rows, as a placement policy sees them."""
        return RunningGangs(
            ids=self._ids[rows],
            gang=self.gang[rows],
            efficiency=efficiency[rows],
            tier=self.tier[rows],
            placements=placements,
        )


def network_sensitivity(*, done_share: float, running_s: float, ideal_s: float) -> float:
    """Return Dally's score Nw_sens of a job: near 0 if the network slows it badly, 1 if never.

    It is the share of its work that a job has done, times its ideal running time, divided by its
    actual running time without queuing. That is the harmonic mean of the job's efficiencies,
    weighted by the work done at each: a share w of the work at efficiency s takes w ideal_s / s.

    Source: Dally (arXiv 2401.16492), from its public simulator; ``W tau* / tau``.

    Parameters
    ----------
    done_share
        Share of the work done, 0 to 1.
    running_s
        Seconds for which the job has run, at least 0.
    ideal_s
        Running time of all its work without network delays, above 0.

    Returns
    -------
    float
        0 for a job that has not run.
    """
    if running_s <= 0:
        return 0.0
    return min(1.0, done_share * ideal_s / running_s)


def instance_of(
    state: PlacementState, *, name: str, timers_s: Sequence[tuple[float, float]] | None = None
) -> Instance:
    """Return a decision of a placement policy as an instance; O(machines + jobs).

    On GPUs faster than reference GPUs, the efficiency of a gang exceeds 1, which an instance does
    not allow. Then the weight is increased and the remaining time reduced by that factor, so that
    the gang has the same value.

    Parameters
    ----------
    state
        A state with at least one waiting gang.
    name
        Name of the instance.
    timers_s
        For each waiting gang, its timers for a rack and for the network, inf for ever; None uses
        the timers of the state.
    """
    machines, waiting = state.machines, state.waiting
    if timers_s is None:
        timers_s = list(
            zip(waiting.rack_timer_s.tolist(), waiting.network_timer_s.tolist(), strict=True)
        )
    faster = np.maximum(1.0, waiting.efficiency.max(axis=1))
    efficiency = waiting.efficiency / faster[:, None]
    sizes = np.diff(machines.first_machine_of_rack)
    rack_of = np.repeat(np.arange(len(sizes)), sizes)
    return Instance(
        name=name,
        objective=Objective.EPOCH,
        waiting_weight_per_s=state.waiting_weight_per_s,
        machines=tuple(
            Machine(
                id=f"m{place}",
                rack=f"r{rack_of[place]}",
                gpus=int(gpus),
                free_gpus=int(machines.free_gpus[place]),
                affinity=int(machines.affinity[place]) or None,
            )
            for place, gpus in enumerate(machines.gpus)
        ),
        jobs=tuple(
            WaitingJob(
                id=str(job_id),
                gang=int(waiting.gang[place]),
                efficiency={
                    tier.label: float(efficiency[place, tier])
                    for tier in Tier
                    if efficiency[place, tier] > 0
                },
                score=float(waiting.score[place]),
                waiting_s=float(waiting.waiting_s[place]),
                weight=float(waiting.weight[place] * faster[place]),
                rack_timer_s=_seconds(rack_s),
                network_timer_s=_seconds(network_s),
                remaining_s=float(waiting.remaining_s[place] / faster[place]),
                attained_gpu_s=float(waiting.attained_gpu_s[place]),
                needs_consolidation=bool(waiting.needs_consolidation[place]),
            )
            for place, (job_id, (rack_s, network_s)) in enumerate(
                zip(waiting.ids, timers_s, strict=True)
            )
        ),
    )


def _seconds(timer_s: float) -> float | None:
    return None if math.isinf(timer_s) else timer_s
