"""Runs round-based policies, which decide at the start of each round, in the simulator.

Each `lyra_opt.heterogeneous.heuristics.policy.RoundPolicy` also solves standalone instances.
A decision at the start of a round applies until its end. Copies of a job (HadarE) share its
remaining work in proportion to their speed, so that all of them finish together.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from lyra_opt.core.errors import require_returned
from lyra_opt.core.seeding import generator
from lyra_opt.core.solver import SolverLike
from lyra_opt.core.stopwatch import Stopwatch
from lyra_opt.heterogeneous.heuristics.policy import (
    ACTIVE_IDS,
    NEVER,
    ActiveJob,
    Decision,
    RoundDraft,
    RoundPolicy,
    RoundState,
    place_on_first_type,
)
from lyra_opt.heterogeneous.instance import GangJob, Objective, Placement
from lyra_opt.heterogeneous.utility import InverseJct
from lyra_opt.simulation.job_run import Copies, JobRun, Part
from lyra_opt.simulation.policy import DEFAULT_RECLAIMER, Policy
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.tenure import Rounds
from lyra_opt.simulation.view import WORK_TOLERANCE, View
from lyra_opt.simulation.workload import Job

MOST_STALLED_ROUNDS = 100
"""Consecutive rounds, in which jobs wait, no job runs and no job is submitted, after which the run
ends with an error. Policies that leave GPUs idle on purpose get `RoundPolicy.most_idle_s` in
addition.
"""


class _Active(NamedTuple):
    """An unfinished job, as the simulator and as the round-based policy see it."""

    run: JobRun
    seen: ActiveJob


class RoundByRound(Policy):
    """Calls a round-based policy at the start of each round, and carries out its decision.

    Rounds in which nothing can change are skipped if the policy allows it. Round-based policies do
    not know that some jobs cannot use own and borrowed GPUs at once; `_without_mixing` corrects
    their decisions.

    Parameters
    ----------
    rule
        The round-based policy; an object serves one run.
    reclaimer
        See `Policy`.
    """

    asks_at_events = False

    def __init__(
        self, rule: RoundPolicy, *, reclaimer: SolverLike | None = DEFAULT_RECLAIMER
    ) -> None:
        super().__init__(rule.name, reclaimer=reclaimer)
        self._rule = rule
        self.forks = rule.forks
        self.packs = rule.packs
        self._active: dict[str, _Active] = {}
        self._is_changed = True
        self._has_moved_servers = False
        self._is_carrying_out = False
        self._busy_from: int | None = None
        self._decided = 0
        self._stalled = 0

    def begin(self, view: View) -> None:
        """Prepare for a run: build the state that the round-based policy sees."""
        assert isinstance(view.tenure, Rounds), "round-based policies need rounds"
        self._tenure = view.tenure
        self._rng = generator(simulation=view.workload.name, policy=self.name, seed=view.seed)
        self._state = RoundState(
            gpu_types=view.cluster.problem_types,
            servers=view.cluster.problem_servers(),
            now_s=self._tenure.decides_at_s(view.now_s),
            round_s=self._tenure.round_s,
            packed=view.workload.packed,
        )
        self._lent_servers = {server.id for server in view.cluster.servers if server.is_lent}
        self._rule.prepare(self._state, self._rng)

    def waits(self, view: View, run: JobRun) -> None:
        """Add a submitted job, or record that a job has lost its GPUs."""
        active = self._active.get(run.job.id)
        if active is None:
            seen = ActiveJob(
                job=gang_view(run.job, view.speed),
                order=run.order,
                steps_left=run.left,
                submitted_s=run.job.submit_s,
                waiting_since_s=run.job.submit_s,
            )
            self._active[run.job.id] = _Active(run, seen)
        else:
            active.seen.placements = ()
            active.seen.waiting_since_s = view.now_s
            self._bring_up_to_date(active)
        self._change(view)

    def completes(self, view: View, run: JobRun) -> None:
        """Remove a completed job, and count the rounds when no job is left."""
        del self._active[run.job.id]
        if self._active:
            self._change(view)
        else:
            self._is_changed = True
            self.wake_s = math.inf
            if self._busy_from is not None:
                ended = self._tenure.round_from(view.now_s)
                view.totals.rounds += ended - self._busy_from
                self._state.kept_rounds = ended - self._decided - 1
                self._busy_from = None

    def servers_moved(self, view: View) -> None:
        """Note that servers have been lent or reclaimed, and decide again at the next round."""
        self._has_moved_servers = True
        if self._active:
            self._change(view)

    def _change(self, view: View) -> None:
        """Call the policy again at the start of the next round."""
        if self._is_carrying_out:
            # This change comes from a decision of the policy itself. Calling the policy again
            # because of it would lead to needless decisions.
            return
        self._is_changed = True
        self.wake_s = min(self.wake_s, self._tenure.decides_at_s(view.now_s))

    def decide(self, view: View) -> None:
        """Call the round-based policy, and carry out its decision."""
        for run in list(view.running.values()):
            view.settle(run)
        # `settle` requests a wake-up for completions, but this decision already includes them.
        self.wake_s = math.inf
        if not self._active:
            return
        now_s = view.now_s
        number = self._tenure.round_from(now_s)
        if self._busy_from is None:
            self._busy_from = number  # `completes` has counted the rounds until the last completion
        else:
            self._state.kept_rounds = number - self._decided - 1
        self._decided = number
        state = self._seen_state(view)
        if view.captures("heterogeneous"):
            name = f"round-at-{now_s:.0f}-s"
            view.observed("heterogeneous", state.instance(Objective.ROUND_PROGRESS, name=name))
        stopwatch = Stopwatch()
        decision = self._rule.decide(state)
        view.totals.decisions += 1
        view.totals.decision_s.append(stopwatch.elapsed_s)
        was_changed, self._is_changed = self._is_changed, False
        self._is_carrying_out = True
        self._carry_out(view, decision)
        self._is_carrying_out = False
        self._require_progress(view, was_changed)
        quiet_s = self._rule.unchanged_for_s(state)
        if not quiet_s >= 0:
            rule = f"unchanged_for_s must return at least 0, not {quiet_s:g}"
            raise view.error(None, rule)
        forks = any(run.copies is not None for run in view.running.values())
        if quiet_s > 0:
            # If rounding ends a job just after a round begins, `settle` has to complete it then.
            for run in view.running.values():
                most_s = (run.left - WORK_TOLERANCE * run.work) / run.rate if run.rate else 0.0
                quiet_s = min(quiet_s, max(0.0, most_s + max(0.0, run.pauses_until_s - now_s)))
        if quiet_s < math.inf or forks:
            at_s = now_s if forks else now_s + quiet_s
            next_number = max(number + 1, self._tenure.round_from(at_s))
            self.wake_s = min(self.wake_s, next_number * self._tenure.round_s)

    def _seen_state(self, view: View) -> RoundState:
        """Update and return the state that is passed to the round-based policy."""
        state = self._state
        if self._has_moved_servers:
            self._has_moved_servers = False
            state.servers = view.cluster.problem_servers(view.hosts.lent())
            self._rule.prepare(state, self._rng)
        for active in self._active.values():
            if active.run.parts:
                self._bring_up_to_date(active)
        state.now_s = view.now_s
        state.is_changed = self._is_changed
        state.jobs = [active.seen for active in self._active.values()]
        return state

    @staticmethod
    def _bring_up_to_date(active: _Active) -> None:
        run, seen = active.run, active.seen
        seen.steps_left = run.left
        seen.attained_gpu_s = run.held_gpu_s
        seen.executed_s = run.on_gpus_s
        seen.shares_gpus = run.beside is not None

    def _carry_out(self, view: View, decision: Decision) -> None:
        """Stop and move jobs that give up GPUs, then place every job as the policy decided."""
        require_returned(self._rule.decide, decision, self._active, ACTIVE_IDS)
        for name, placements in decision.items():
            if len(placements) > 1:
                self._require_copies(view, self._active[name].run, placements)
        pairs = list(self._rule.pairs()) if self._rule.packs else []
        mixing = {name for name, got in decision.items() if self._mixes_kinds(name, got)}
        if mixing:
            pairs = [pair for pair in pairs if mixing.isdisjoint(pair)]
            decision = self._without_mixing(decision, mixing, {two for _, two in pairs})
        beside = dict(pairs) | {two: one for one, two in pairs}
        starting: list[tuple[_Active, tuple[Placement, ...]]] = []
        moving: list[tuple[_Active, tuple[Placement, ...]]] = []
        renewed: list[_Active] = []
        for name, active in self._active.items():
            got = tuple(decision.get(name, ()))
            had = active.seen.placements
            if not got:
                if had:
                    view.stop(active.run)
            elif not had:
                starting.append((active, got))
            elif (
                len(got) != len(had)
                or any(placement not in had for placement in got)
                or beside.get(name) != _sharing_job_id(active.run)
            ):
                moving.append((active, got))
            elif len(got) > 1:
                renewed.append(active)
        for active, _ in moving:
            view.lift(active.run)
        for active, got in (*moving, *starting):
            other = self._active.get(beside.get(active.run.job.id, ""))
            is_second = other is not None and other.run.is_running
            self._put(view, active, got, other.run if other is not None and is_second else None)
        for active in renewed:
            run, had = active.run, active.seen.placements
            view.account(run)
            copies = self._copies(view, run, run.parts, had, had)
            assert copies is not None, "only jobs with copies are renewed"
            view.work_as_copies(run, copies)

    def _put(
        self, view: View, active: _Active, got: tuple[Placement, ...], beside: JobRun | None
    ) -> None:
        """Start or move a job, on GPUs of its own or on GPUs shared with the job `beside`."""
        run, seen, had = active.run, active.seen, active.seen.placements
        parts = self._parts(view, run, got, beside)
        copies = self._copies(view, run, parts, got, had)
        if had:
            restarts = any(place not in had for place in got)
            view.put(run, parts, copies, restarts=restarts, beside=beside)
        else:
            view.start(run, parts, copies, beside=beside)
            if seen.started_s == NEVER:
                seen.started_s = view.now_s
        seen.placements, seen.waiting_since_s = got, NEVER

    def _mixes_kinds(self, name: str, got: Sequence[Placement]) -> bool:
        """Return whether a placement mixes own and borrowed GPUs for a job that cannot mix them."""
        if not self._lent_servers or self._active[name].run.job.heterogeneous:
            return False
        return any(
            len({server in self._lent_servers for server in placement}) > 1 for placement in got
        )

    def _without_mixing(
        self, decision: Decision, mixing: Collection[str], seconds: Collection[str]
    ) -> Decision:
        """Return a corrected decision: each job of `mixing` gets own or borrowed GPUs, not both.

        Such a job stays where it is, or gets free GPUs of its fastest type that has enough. It
        waits for another round if other jobs hold too many GPUs. In an empty cluster, own GPUs of
        one type suffice for any job.

        Parameters
        ----------
        mixing
            Jobs that the policy places on both kinds of GPUs.
        seconds
            Jobs that share the GPUs of another job.
        """
        draft = RoundDraft(self._state.servers)
        free = draft.free
        kept = {name: got for name, got in decision.items() if name not in mixing}
        for name, got in kept.items():
            for placement in got if name not in seconds else ():
                # Violations of other rules are reported when GPUs are reserved.
                if placement.keys() <= free.by_server.keys() and free.holds(placement):
                    free.take(placement)
        for name in decision:
            if name in mixing:
                seen = self._active[name].seen
                job, current = seen.job, seen.current
                if current and free.holds(current):
                    draft.give(job, current)
                else:
                    types = sorted(free.of_type, key=lambda each: -job.throughput.get(each, 0.0))
                    draft.give(job, place_on_first_type(free, job, types))
        return kept | draft.decision

    def _parts(
        self, view: View, run: JobRun, placements: Sequence[Placement], beside: JobRun | None
    ) -> list[Part]:
        host_of = view.cluster.host_of
        parts: list[Part] = []
        for copy, placement in enumerate(placements):
            gpus = {
                host_of.get((server, gpu_type), -1): count
                for server, types in placement.items()
                for gpu_type, count in types.items()
            }
            if -1 in gpus:
                raise view.error(run, "is placed on a server that does not exist")
            parts += view.reserve(run, gpus, copy=copy, beside=beside)
        return parts

    def _copies(
        self,
        view: View,
        run: JobRun,
        parts: Sequence[Part],
        got: tuple[Placement, ...],
        had: tuple[Placement, ...],
    ) -> Copies | None:
        """Return how copies of a job share its remaining work in this round; None for one copy.

        Parameters
        ----------
        got, had
            Placements of the copies in this round and in the round before. Staying in place costs
            nothing.
        """
        if len(got) == 1:
            return None
        tenure = self._tenure
        worth = tenure.efficiency(len(got))
        view.totals.merging_s += tenure.merge_s
        return Copies(
            [
                worth * view.speed.rate_of_copy(run, [part for part in parts if part.copy == copy])
                for copy in range(len(got))
            ],
            [0.0 if placement in had else tenure.restart_s for placement in got],
            trains_s=tenure.round_s - tenure.merge_s,
            merge_s=tenure.merge_s,
            began_s=view.now_s,
            left=run.left,
        )

    def _require_copies(self, view: View, run: JobRun, placements: Sequence[Placement]) -> None:
        servers = [server for placement in placements for server in placement]
        if len(servers) > len(placements) or len(set(servers)) < len(servers):
            raise view.error(run, "has several copies, so each must be on a server of its own")

    def _require_progress(self, view: View, was_changed: bool) -> None:
        if view.running or was_changed or not view.is_all_submitted:
            self._stalled = 0
            return
        self._stalled += 1
        most = MOST_STALLED_ROUNDS + self._rule.most_idle_s / self._tenure.round_s
        if self._stalled > most and view.loans.is_final:
            raise view.stuck(f"no job has run for {self._stalled} rounds")


def _sharing_job_id(run: JobRun) -> str | None:
    return None if run.beside is None else run.beside.job.id


def gang_view(job: Job, speed: Speed) -> GangJob:
    """Convert a job for round-based policies: its speed by GPU type, on one server and spread.

    Elastic jobs have their base demand. If distance matters, the speed of a spread gang is that of
    the nearest tier that can hold it on several machines. A gang that no machine can hold gets that
    speed on one machine too, which is never used.
    """
    unit = speed.unit_of(job)
    cluster = speed.cluster
    if unit.is_measured and speed.communication is None:
        assert job.measured is not None, "only jobs with measured throughputs count steps"
        return _on_allowed_types(job.measured, job, speed)
    near: float = 1.0
    far: float | None = None
    if speed.communication is not None:
        assert cluster.topology is not None, "a communication model needs a topology"
        assert job.model is not None, "every job names its model if distance matters"
        on_machine, *beyond = speed.communication.tier_efficiency(
            job.model, job.min_gpus, cluster.topology
        )
        far = next((rate for rate in beyond if rate > 0), None)
        near = on_machine or far or 0.0
    speeds = {pool.gpu_type.name: speed.near_and_far(job, pool.number) for pool in cluster.pools}
    return GangJob(
        id=job.id,
        gang=job.min_gpus,
        steps=unit.work,
        throughput={
            name: near * unit.base_rate * together for name, (together, _) in speeds.items()
        },
        spread_throughput=(
            None
            if far is None
            else {name: far * unit.base_rate * spread for name, (_, spread) in speeds.items()}
        ),
        release_s=job.submit_s,
        weight=job.weight,
        utility=InverseJct() if job.measured is None else job.measured.utility,
    )


def _on_allowed_types(gang: GangJob, job: Job, speed: Speed) -> GangJob:
    """Return a measured job without its speeds on GPU types that it may not use."""
    unable = {
        pool.gpu_type.name
        for pool in speed.cluster.pools
        if (pool.is_lent or job.gpu_types) and speed.relative_speed(job, pool.number) == 0
    }
    if unable.isdisjoint(gang.throughput):
        return gang
    spread = gang.spread_throughput
    return replace(
        gang,
        kind=None,  # other jobs of this kind may use these types
        throughput={name: rate for name, rate in gang.throughput.items() if name not in unable},
        spread_throughput=(
            None
            if spread is None
            else {name: rate for name, rate in spread.items() if name not in unable}
        ),
    )
