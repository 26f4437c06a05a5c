"""Rules that say which waiting gangs start where, in the simulated cluster.

The same `lyra_opt.network.heuristics.policy.PlacementPolicy` answers standalone instances. A rule
is asked when a job is submitted, when GPUs become free, or when a timer of its own runs out (ours,
so that nothing waits for ever beside idle GPUs).
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from lyra_opt.core.seeding import generator
from lyra_opt.core.stopwatch import Stopwatch
from lyra_opt.network.heuristics.policy import (
    MachineState,
    PlacementPolicy,
    PlacementState,
    require_grants,
)
from lyra_opt.network.links import Tier
from lyra_opt.simulation.network.topology import Rack, Topology
from lyra_opt.simulation.policies.gangs import GangTable
from lyra_opt.simulation.policy import DEFAULT_RECLAIMER, Policy
from lyra_opt.simulation.tenure import LEASE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from lyra_opt.core.solver import SolverLike
    from lyra_opt.network.heuristics.policy import Grant
    from lyra_opt.simulation.cluster import Pool
    from lyra_opt.simulation.run import Run
    from lyra_opt.simulation.view import View

Answer = TypeVar("Answer")

INTEGERS = range(-(2**62), 2**62)
"""An id is refused at once; the error of a position that is out of range names the job."""

_NOBODY = np.zeros(0, np.int64)


class _Ground:
    """GPUs of one type, on which a rule of its own places gangs.

    Parameters
    ----------
    view
        The simulation.
    pool
        Whose GPUs they are.
    rule
        Who decides.
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
        """Of each job at each tier, 0 where it cannot run; shape (jobs, tiers)."""
        is_able = np.any(self.efficiency > 0, axis=1)
        self.is_able: np.ndarray | None = None if is_able.all() else np.asarray(is_able)

    def rows(self, rows: np.ndarray) -> np.ndarray:
        """Return those of some jobs that can run here."""
        return rows if self.is_able is None else rows[self.is_able[rows]]

    def machines_of(self, run: Run) -> dict[int, int]:
        """Return what a job holds here, GPUs by machine."""
        if not self.first:
            return run.gpus
        return {host - self.first: count for host, count in run.gpus.items()}

    def hosts_of(self, grant: Grant) -> dict[int, int]:
        """Return what a grant gives, GPUs by host."""
        if self.is_all:
            return grant.gpus
        if not (grant.gpus and min(grant.gpus) >= 0 and max(grant.gpus) < self.size):
            # Machines of other GPUs are none of the rule's.
            return {-1: sum(grant.gpus.values())}
        return {machine + self.first: count for machine, count in grant.gpus.items()}


def _tier_efficiencies(view: View, pool: Pool, starts: list[int]) -> np.ndarray:
    """Return how fast each job runs at each tier of a pool, beside reference GPUs close together.

    0 where the empty pool has no room for it across that tier.
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
                assert job.model is not None, "jobs say what they train where distance counts"
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
    """Asks a placement rule who starts where, one of its own for each type of GPUs.

    Parameters
    ----------
    make
        Makes a rule.
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
        """See `Policy`."""
        length_s = view.tenure.length_s
        self._lease_s = length_s if math.isfinite(length_s) else LEASE_S
        self._gangs = GangTable(view.runs, view.speed)
        self._grounds: list[_Ground] = []
        for pool in view.cluster.pools:
            if pool.is_lent and not view.loans.is_active:
                continue
            rule = self._make() if self._grounds else self._first_rule
            ground = _Ground(view, pool, rule)
            rng = generator(simulation=view.workload.name, policy=self.name, seed=view.seed)
            rule.prepare(ground.machines, self._lease_s, rng)
            self._grounds.append(ground)

    def waits(self, view: View, run: Run) -> None:
        """See `Policy`."""
        self._gangs.wait(run, view.now_s)

    def decide(self, view: View) -> None:
        """Ask the rules who starts where, and who moves."""
        self._asked_s: list[float] = []
        for ground in self._grounds:
            self._decide_on(view, ground)
        if self._asked_s:
            view.totals.decisions += 1
            view.totals.decision_s.append(math.fsum(self._asked_s))

    def _decide_on(self, view: View, ground: _Ground) -> None:
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
            # Beside a large time, what is left of a timer may be too small to add.
            wake_s = max(view.now_s + wait_s, math.nextafter(view.now_s, math.inf))
            self.wake_s = min(self.wake_s, wake_s)

    def _timed(self, ask: Callable[..., Answer], *question: object) -> Answer:
        stopwatch = Stopwatch()
        answer = ask(*question)
        self._asked_s.append(stopwatch.elapsed_s)
        return answer

    def _able_to_start(self, view: View, ground: _Ground) -> np.ndarray:
        """Return all gangs that wait and can run here; none if each is larger than what is free."""
        if self._gangs.smallest_waiting() <= view.hosts.free_of_pool[ground.pool.number]:
            return ground.rows(self._gangs.waiting_rows())
        return _NOBODY

    def _state(self, view: View, ground: _Ground, rows: np.ndarray) -> PlacementState:
        return PlacementState(
            now_s=view.now_s,
            lease_s=self._lease_s,
            machines=ground.machines,
            waiting=self._gangs.waiting(rows, ground.efficiency, view.now_s),
        )

    @staticmethod
    def _capture(view: View, ground: _Ground, state: PlacementState) -> None:
        if view.captures("network"):
            from lyra_opt.simulation.network.captured import instance_of

            name = f"epoch-at-{view.now_s:.0f}-s"
            timers_s = ground.rule.held_s(state)
            view.observed("network", instance_of(state, name=name, timers_s=timers_s))

    @staticmethod
    def _movable(view: View, ground: _Ground) -> list[int]:
        """Return the gangs that may move, by order of submission.

        Those that run here, but for those that have just got their GPUs: to move at once would be
        to hold them for no time, and to hand them over.
        """
        now_s = view.now_s
        return [
            order
            for order, run in sorted(view.running.items())
            if run.began_s < now_s and (ground.is_all or run.parts[0].pool == ground.pool.number)
        ]

    def _move(self, view: View, ground: _Ground, orders: list[int], grants: list[Grant]) -> None:
        """Let gangs go on elsewhere; what they held is handed over, and not free for it."""
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
    def _chosen(view: View, orders: list[int], grant: Grant) -> Run:
        """Return the job that a grant is for; an error if it is none of these."""
        if not 0 <= grant.job < len(orders):
            raise view.error(None, f"gang {grant.job} of {len(orders)} is given GPUs")
        return view.runs[orders[grant.job]]

    def _require_tier(self, view: View, run: Run, grant: Grant) -> None:
        """Check that a gang spans what its grant says, and note it."""
        tier = view.tier_of(run)
        self._gangs.tier[run.order] = tier
        if tier is not grant.tier:
            raise view.error(
                run,
                f"is placed at tier {Tier(grant.tier).label}, but {grant.gpus} spans {tier.label}",
            )
