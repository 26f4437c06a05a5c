"""Gavel: time shares from a linear programme, and rounds that approximate these shares."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np

from lyra_opt.core.errors import FieldError
from lyra_opt.core.result import Limits, SolveResult, Status
from lyra_opt.core.rules import require_flag, require_number
from lyra_opt.core.solver import HeuristicSolver, Solver
from lyra_opt.core.stopwatch import require_time, within_time
from lyra_opt.heterogeneous.heuristics.policy import (
    NEVER,
    ActiveJob,
    Decision,
    FreeGpus,
    RoundDraft,
    RoundPolicy,
    RoundState,
    place_on_type,
)
from lyra_opt.heterogeneous.instance import (
    GangJob,
    Instance,
    Objective,
    PackedRate,
    Placement,
    TimeShares,
)
from lyra_opt.heterogeneous.utility import Deadline, InverseJct

Shares = Mapping[str, Mapping[str, float]]
"""Share of time by job id and GPU type."""
Team = tuple[str, ...]
"""Jobs that run on the same GPUs: one job or two, in order of submission."""
TeamShares = dict[Team, dict[str, float]]
"""Share of time by team and GPU type."""


LEAST_RESET_S = 1_920.0


def solver_shares(instance: Instance, solver: Solver | None = None) -> TimeShares | None:
    """Return optimal time shares of a share instance; None if the deadlines cannot be met.

    Parameters
    ----------
    instance
        An instance with one of the `SHARE_OBJECTIVES`.
    solver
        Solver of the instance; `LpHighs` by default.

    Raises
    ------
    RuntimeError
        If the solver returns neither shares nor a proof that the instance is infeasible.
    """
    import numpy as np

    from lyra_opt.heterogeneous.exact.shares.highs_model import LpHighs

    solver = solver or LpHighs()
    result = solver.solve(instance, limits=Limits(), rng=np.random.default_rng(0))
    require_time()  # a stopped solver's shares are not optimal
    is_undecided = result.solution is None and instance.objective is Objective.COST
    if result.status is Status.INFEASIBLE or is_undecided:
        # Either the deadlines cannot be met, or they can be met only within tolerances.
        return None
    if not isinstance(result.solution, TimeShares):
        raise RuntimeError(
            f"{solver.name} on {instance.name}: no shares, status {result.status}: {result.message}"
        )
    return result.solution


def isolated_shares(instance: Instance) -> TimeShares:
    """Return equal parts of the cluster for all jobs, on types where they run (Gavel's X_iso)."""
    from lyra_opt.heterogeneous.exact.shares.arrays import ShareArrays
    from lyra_opt.heterogeneous.exact.shares.solver import fractions_of_cluster

    arrays = ShareArrays.of(instance)
    return arrays.solution(fractions_of_cluster(arrays))


@dataclass(slots=True)
class _Isolated:
    """The time that a job would have taken for its progress on an equal part of the cluster.

    Parameters
    ----------
    steps_left
        Remaining steps at the start of the last round.
    steps_per_s
        Speed on the equal part of the cluster in the last round.
    elapsed_s
        Virtual time so far, in seconds.
    """

    steps_left: float
    steps_per_s: float
    elapsed_s: float


class Party(NamedTuple):
    """A team, which is one job or two jobs on the same GPUs, with the jobs' states."""

    team: Team
    members: tuple[ActiveJob, ...]

    @property
    def gang(self) -> int:
        """Number of GPUs that the team uses."""
        return self.members[0].job.gang

    @property
    def order(self) -> tuple[int, int, int]:
        """Sort key by the last submission in the team; a single job precedes its pairs."""
        orders = [active.order for active in self.members]
        return max(orders), len(orders), min(orders)


class GavelRounds(RoundPolicy):
    """Run each job on each GPU type for about the share of time that a linear programme assigns.

    Source: Gavel (OSDI 2020), the round mechanism of its code (stanford-futuredata/gavel,
    `scheduler/scheduler.py`). Shares are recomputed after a job has been submitted or completed,
    but at most once every 1920 s; newcomers have no share until then. The priority of a job on a
    type is X / f. X is its share, and f is its fraction of all job time on the type since the last
    computation. Each job starts with half a round, and a round counts once whatever the gang. In
    each round, types are filled in turn. Jobs are sorted by priority, then deficit (share times
    time, minus time received, summed over earlier periods), then X, then order. A job that is not
    yet chosen and whose gang fits is chosen; jobs with priority 0 fill leftover GPUs. Then, largest
    gangs first, jobs get the GPUs that they had if these are free, else GPUs on as few servers as
    possible. Gavel's code fills servers in order, which splits more gangs.

    Gavel's code also treats newcomers, jobs submitted since the last computation, differently. They
    take their turn but do not run, so their GPUs idle for up to 1920 s. Here they run on these
    GPUs, unless `newcomers_run` is false.

    The rates in the programme are those of a gang on one server, or on several servers if no server
    can hold it. GPUs chosen for gangs that do not fit on the remaining servers go to other jobs.

    A job runs on one type at a time, so a job that no single type can hold never runs.

    With packing (Gavel's space sharing), teams take the place of jobs: single jobs, and pairs of
    jobs that may share GPUs. A job runs in at most one team per round.

    Complexity of a decision: O(types jobs log jobs + jobs servers log servers), and the linear
    programme; with packing, pairs count as jobs. Guarantee: none for gangs. If one-GPU jobs fill
    one type in every round, the time received tends to the shares.

    Parameters
    ----------
    objective
        Objective that the shares optimise.
    shares
        Function that returns optimal shares of an instance; None if the deadlines cannot be met.
    least_reset_s
        Minimum time between two computations of shares, in seconds.
    newcomers_run
        Whether newcomers run on leftover GPUs. If not, shares computed at time 0 may be recomputed
        at once, because Gavel's code uses time 0 to mean "never computed".
    knows_types
        Whether rates differ by type. If not, a job is assumed to be as fast on every usable type as
        on its first one, and types are filled in a random order each round. These are Gavel's
        baselines that ignore GPU heterogeneity.
    packs
        Whether two jobs may share GPUs if their rates beside each other are known.
    keeps_deadlines
        Whether shares of the objective ``cost`` must meet deadlines; if not, the policy is Gavel's
        cost policy without SLOs.
    name
        Name of the policy; None for the default name.
    """

    def __init__(
        self,
        objective: Objective,
        shares: Callable[[Instance], TimeShares | None] = solver_shares,
        least_reset_s: float = LEAST_RESET_S,
        *,
        newcomers_run: bool = True,
        knows_types: bool = True,
        packs: bool = False,
        keeps_deadlines: bool = True,
        name: str | None = None,
    ) -> None:
        self.name = name or f"gavel-{objective.replace('_', '-')}"
        self._objective = objective
        self._solve = shares
        self._least_reset_s = require_number("least_reset_s", least_reset_s, minimum=0)
        self.most_idle_s = self._least_reset_s
        self._newcomers_run = require_flag("newcomers_run", newcomers_run)
        self._knows_types = require_flag("knows_types", knows_types)
        self._keeps_deadlines = require_flag("keeps_deadlines", keeps_deadlines)
        self.packs = require_flag("packs", packs)
        if packs and not knows_types:
            raise FieldError("packs", True, "must be false for a policy that ignores GPU types")
        self._shares: TeamShares = {}
        self._running: dict[Team, str] = {}
        self._sharers: frozenset[str] = frozenset()
        self._deficits: dict[tuple[Team, str], float] = {}
        self._received_s: dict[tuple[Team, str], float] = {}
        self._of_type_s: dict[str, float] = {}
        self._isolated: dict[str, _Isolated] = {}
        self._jobs: dict[str, GangJob] = {}
        self._largest: dict[str, int] = {}
        self._reset_s: float | None = None
        self._is_stale = True

    @property
    def shares(self) -> Shares:
        """The current time shares of jobs that do not share GPUs, by job id and GPU type."""
        return {team[0]: of_types for team, of_types in self._shares.items() if len(team) == 1}

    def prepare(self, state: RoundState, rng: np.random.Generator) -> None:
        """Store the capacity of the cluster and the random generator."""
        self._rng = rng
        self._types = [gpu_type.name for gpu_type in state.gpu_types]
        self._capacity = FreeGpus(state.servers).of_type
        largest = {
            name: max(server.gpus.get(name, 0) for server in state.servers) for name in self._types
        }
        if largest != self._largest:
            self._largest, self._jobs = largest, {}
        self._packed = packed_on(state.packed) if self.packs else {}
        self._packed_rates: dict[tuple[str | None, str | None], Mapping[str, float]] = {
            (each.kind, each.beside): each.throughput for each in state.packed
        }

    def decide(self, state: RoundState) -> Decision:
        """Place the jobs, or pairs of jobs, that are furthest behind their time shares."""
        for _ in range(state.kept_rounds):  # one by one, because sums of floats depend on the order
            for team, name in self._running.items():
                self._count(team, name, state.round_s)
        self._is_stale = self._is_stale or state.is_changed
        is_due = self._reset_s is None or state.now_s - self._reset_s >= self._least_reset_s
        is_due |= not self._newcomers_run and self._reset_s == 0
        if self._objective is Objective.FINISH_TIME_FAIRNESS:
            self._count_isolated(state)
        parties = self._parties(state)
        if self._is_stale and is_due:
            self._reset(state, parties)
        if not self._knows_types:
            self._types = [self._types[place] for place in self._rng.permutation(len(self._types))]
        draft, running = self._place(self._chosen_types(parties), state, parties)
        for team, name in running.items():
            self._count(team, name, state.round_s)
        self._running = running
        return draft.decision

    def unchanged_for_s(self, state: RoundState) -> float:
        """Return the seconds until shares may be due if each job runs on its first type; else 0.

        The first type is the first that the job can use, in the order in which types are filled.
        Suppose that every job runs on it. Then the jobs of each type fit together, so all of them
        are chosen again, whatever their priorities, and each finds its earlier GPUs free. Nothing
        else decides, and the time received is counted for every round (`kept_rounds`).
        """
        # Shares of the other objectives read the progress of jobs. It would be rounded differently
        # if it were accounted for in fewer rounds, and their programmes may have several optima.
        is_blind = self._objective in (Objective.MAX_MIN_SHARE, Objective.THROUGHPUT)
        if not (is_blind and self._knows_types and self._newcomers_run) or self.packs:
            return 0.0
        if len(self._running) < len(state.jobs):
            return 0.0
        for active in state.jobs:
            rates = self._attainable(active.job).throughput
            first = next((name for name in self._types if rates.get(name)), None)
            if self._running.get((active.job.id,)) != first or not active.current:
                return 0.0
            if any(set(types) != {first} for types in active.current.values()):
                return 0.0
        if not self._is_stale or self._reset_s is None:
            return math.inf
        # Half a round less, so that rounding cannot skip the round in which shares are due.
        return max(0.0, self._reset_s + self._least_reset_s - state.now_s - state.round_s / 2)

    def pairs(self) -> list[tuple[str, str]]:
        """Return the pairs of jobs that share GPUs in the last decision."""
        return [(team[0], team[1]) for team in self._running if len(team) > 1]

    def _parties(self, state: RoundState) -> list[Party]:
        """Return each job alone, and each pair of jobs that may share GPUs on some type."""
        alone = [Party((active.job.id,), (active,)) for active in state.jobs]
        if not self._packed:
            return alone
        return alone + [
            Party((one.job.id, two.job.id), (one, two))
            for one, two in combinations(state.jobs, 2)
            if self._shared_types(one.job, two.job)
        ]

    def _shared_types(self, one: GangJob, two: GangJob) -> frozenset[str]:
        """Return the types on which two jobs can run beside each other."""
        return self._packed.get((one.kind, two.kind), frozenset())

    def _rate_beside(self, job: GangJob, other: GangJob, gpu_type: str) -> float:
        """Return the rate of a job on a GPU type while another job shares its GPUs."""
        return self._packed_rates.get((job.kind, other.kind), {}).get(gpu_type, 0.0)

    def _runs_on(self, party: Party, gpu_type: str) -> bool:
        jobs = [active.job for active in party.members]
        if len(jobs) == 1:
            return bool(self._attainable(jobs[0]).throughput.get(gpu_type))
        return gpu_type in self._shared_types(*jobs)

    def _candidates(
        self, parties: Sequence[Party], gpu_type: str, free: int, taken: set[str]
    ) -> list[Party]:
        """Return the parties that fit the free GPUs of a type, and of which no job is taken."""
        return [
            party
            for party in parties
            if party.gang <= free
            and taken.isdisjoint(party.team)
            and self._runs_on(party, gpu_type)
        ]

    def _chosen_types(self, parties: Sequence[Party]) -> dict[Team, str]:
        """Choose the teams that run, by priority on each GPU type; return the type of each."""
        free = dict(self._capacity)
        chosen: dict[Team, str] = {}
        busy: set[str] = set()
        for name in self._types:
            there = free.get(name, 0)
            able = self._candidates(parties, name, there, busy)
            if self._packed or sum(party.gang for party in able) > there:
                able.sort(key=partial(self._rank, name))  # otherwise all of them are chosen
            for party in able:
                if party.gang > free[name] or not busy.isdisjoint(party.team):
                    continue
                chosen[party.team] = name
                busy.update(party.team)
                free[name] -= party.gang
        return chosen

    def _rank(
        self, gpu_type: str, party: Party
    ) -> tuple[float, float, float, tuple[int, int, int]]:
        """Return the sort key of a team on a type; teams with smaller keys run first."""
        key = party.team, gpu_type
        share = self._shares.get(party.team, {}).get(gpu_type, 0.0)
        received_s = self._received_s.get(key, 0.0)
        priority = 0.0
        if share > 0:
            # `received_s` is never 0, because every team starts with half a round of received time.
            priority = share * self._of_type_s[gpu_type] / received_s
        return -priority, -self._deficits.get(key, 0.0), -share, party.order

    def _place(
        self, chosen: Mapping[Team, str], state: RoundState, parties: Sequence[Party]
    ) -> tuple[RoundDraft, dict[Team, str]]:
        """Place chosen teams, largest gangs first, on their earlier GPUs if possible."""
        draft = RoundDraft(state.servers)
        running: dict[Team, str] = {}

        def give(party: Party, gpu_type: str, placement: Placement | None) -> None:
            first, *others = [active.job for active in party.members]
            if placement is not None and draft.give(first, placement):
                running[party.team] = gpu_type
                for other in others:
                    draft.share(other, placement)

        waiting = {team for team in chosen if not self._may_run(team)}
        may_run = chosen.keys() - waiting
        taken: dict[int, list[Party]] = {}
        for party in parties:
            if party.team in may_run:
                taken.setdefault(party.gang, []).append(party)
        for _, equally_large in sorted(taken.items(), reverse=True):
            moved = []
            for party in equally_large:
                if self._stays(party, chosen[party.team], draft.free):
                    placement = party.members[0].placements[0]
                    give(party, chosen[party.team], placement)
                else:
                    moved.append(party)
            for party in moved:
                name = chosen[party.team]
                give(party, name, place_on_type(draft.free, party.members[0].job, name))
        idle: dict[str, int] = {}
        kept: set[str] = set()
        for party in parties:
            if party.team in waiting:
                name = chosen[party.team]
                idle[name] = idle.get(name, 0) + party.gang
                kept.update(party.team)
        # If chosen gangs find too few servers, the GPUs that they leave go to other teams.
        for name in self._types:
            served = kept.union(draft.decision)
            spare = draft.free.of_type.get(name, 0) - idle.get(name, 0)
            others = self._candidates(parties, name, spare, served)
            for party in sorted(others, key=partial(self._rank, name)):
                spare = draft.free.of_type.get(name, 0) - idle.get(name, 0)
                if not spare:
                    break
                if party.gang > spare or not draft.decision.keys().isdisjoint(party.team):
                    continue
                give(party, name, place_on_type(draft.free, party.members[0].job, name))
        return draft, running

    def _may_run(self, team: Team) -> bool:
        return self._newcomers_run or self._sharers.issuperset(team)

    def _attainable(self, job: GangJob) -> GangJob:
        """Return a copy of the job with the rates used for shares, cached by job id."""
        if job.id not in self._jobs:
            seen = at_attainable_rates(job, self._largest)
            self._jobs[job.id] = seen if self._knows_types else _as_on_the_first_type(seen)
        return self._jobs[job.id]

    @staticmethod
    def _stays(party: Party, gpu_type: str, free: FreeGpus) -> bool:
        first, *others = party.members
        if not first.placements or any(each.placements != first.placements for each in others):
            return False
        placement = first.placements[0]
        is_same = all(set(types) == {gpu_type} for types in placement.values())
        return is_same and free.holds(placement)

    def _count(self, team: Team, gpu_type: str, time_s: float) -> None:
        key = team, gpu_type
        self._received_s[key] = self._received_s.get(key, 0.0) + time_s
        self._of_type_s[gpu_type] = self._of_type_s.get(gpu_type, 0.0) + time_s

    def _reset(self, state: RoundState, parties: Sequence[Party]) -> None:
        """Recompute the time shares, and carry over the time that each team still lacks."""
        half_s = state.round_s / 2
        if self._reset_s is not None:
            elapsed_s = state.now_s - self._reset_s
            for team, of_types in self._shares.items():
                for name in self._types:
                    key = team, name
                    had_s = self._received_s.get(key, half_s) - half_s
                    short_s = of_types.get(name, 0.0) * elapsed_s - had_s
                    self._deficits[key] = self._deficits.get(key, 0.0) + short_s
        self._shares = self._best_shares(state)
        self._sharers = frozenset(active.job.id for active in state.jobs)
        self._received_s = {}
        self._of_type_s = {}
        for party in parties:
            for name in self._types:
                self._count(party.team, name, half_s)
        self._reset_s = state.now_s
        self._is_stale = False

    def _best_shares(self, state: RoundState) -> TeamShares:
        """Return optimal time shares of the jobs whose gang fits on a single GPU type."""
        usable = [
            replace(active, job=self._attainable(active.job))
            for active in within_time(state.jobs, every=50)
            if self._has_share(self._attainable(active.job))
        ]
        if not usable:
            return {}
        instance = self._question(replace(state, jobs=usable))
        if self._objective is Objective.FINISH_TIME_FAIRNESS:
            jobs = tuple(
                replace(job, isolated_elapsed_s=self._isolated[job.id].elapsed_s)
                for job in instance.jobs
            )
            instance = replace(instance, jobs=jobs)
        shares = self._solve(instance)
        if shares is None:
            # If not all deadlines can be met, all deadlines are ignored, as in Gavel.
            shares = self._solve(_without_deadlines(instance))
        if shares is None:
            return {}
        alone = shares.shares
        if not self._knows_types:
            alone = _spread_over_types(alone, instance)
        return {
            **{(job,): dict(of_types) for job, of_types in alone.items()},
            **{
                (one, two): dict(of_types)
                for one, others in shares.packed.items()
                for two, of_types in others.items()
            },
        }

    def _question(self, state: RoundState) -> Instance:
        """Return the instance whose optimal time shares the rounds approximate."""
        instance = share_instance(state, self._objective, self.name)
        if self._packed:
            kinds = {job.kind for job in instance.jobs}
            there = tuple(r for r in state.packed if r.kind in kinds and r.beside in kinds)
            instance = replace(instance, packed=there)
        return instance if self._keeps_deadlines else _without_deadlines(instance)

    def _has_share(self, job: GangJob) -> bool:
        return any(
            job.throughput.get(name, 0.0) > 0 and job.gang <= there
            for name, there in self._capacity.items()
        )

    def _count_isolated(self, state: RoundState) -> None:
        """Add to each job's virtual time that of its last steps on an equal part of the cluster."""
        jobs = len(state.jobs)
        for active in state.jobs:
            job = self._attainable(active.job)
            known = self._isolated.get(job.id)
            speed = isolated_rate(job, self._capacity, jobs)
            if known is None:
                known = _Isolated(active.steps_left, speed, job.isolated_elapsed_s)
                self._isolated[job.id] = known
            elif known.steps_per_s > 0:
                known.elapsed_s += (known.steps_left - active.steps_left) / known.steps_per_s
            known.steps_left = active.steps_left
            known.steps_per_s = speed


def packed_on(rates: Sequence[PackedRate]) -> dict[tuple[str | None, str | None], frozenset[str]]:
    """Return the GPU types on which jobs of two kinds can share GPUs, by pair of kinds."""
    runs = {
        (each.kind, each.beside): {name for name, rate in each.throughput.items() if rate > 0}
        for each in rates
    }
    return {
        (kind, beside): frozenset(types & runs.get((beside, kind), set()))
        for (kind, beside), types in runs.items()
    }


def at_attainable_rates(job: GangJob, largest: Mapping[str, int]) -> GangJob:
    """Return a copy of the job with its rates on as few servers as possible.

    Time shares use one rate per type. With the rate on a single server, a gang that fits on no
    server would be promised far more progress than it can make.

    Parameters
    ----------
    largest
        The most GPUs that one server has of each type.
    """
    rates = {name: job.rate((name,), is_spread=job.gang > there) for name, there in largest.items()}
    return replace(job, throughput=rates) if any(rates.values()) else job


def _as_on_the_first_type(job: GangJob) -> GangJob:
    """Return a copy of the job that is as fast on all of its types as on the first."""
    usable = [name for name, rate in job.throughput.items() if rate > 0]
    return replace(job, throughput=dict.fromkeys(usable, job.throughput[usable[0]]))


def _spread_over_types(shares: Shares, instance: Instance) -> Shares:
    """Spread the shares of jobs with equal rates over all types, in proportion to their GPUs.

    The objective does not depend on how such a job divides its share. A vertex of the programme
    would keep some jobs on the fastest type all the time. Jobs that cannot use all types keep their
    shares.
    """
    of_type = instance.gpus_of_type
    left = {name: float(there) for name, there in of_type.items()}
    anywhere = []
    for job in instance.jobs:
        if all(job.throughput.get(name) and job.gang <= there for name, there in of_type.items()):
            anywhere.append(job.id)
            continue
        for name, share in shares.get(job.id, {}).items():
            left[name] = max(0.0, left[name] - job.gang * share)
    gpus = sum(left.values())
    if not gpus:
        return shares
    spread = {}
    for name in anywhere:
        total = sum(shares.get(name, {}).values())
        spread[name] = {kind: total * there / gpus for kind, there in left.items()}
    return {**shares, **spread}


def share_instance(state: RoundState, objective: Objective, name: str = "shares") -> Instance:
    """Return a time-share instance of the active jobs, without deadlines that have passed."""
    instance = state.instance(objective, name=name)
    if objective is Objective.COST:
        return replace(instance, jobs=tuple(map(_without_late_deadline, instance.jobs)))
    return instance


def isolated_rate(job: GangJob, gpus_of_type: Mapping[str, int], jobs: int) -> float:
    """Return the steps per second of a job on its equal part of the cluster (Gavel's X_iso)."""
    parts = [(name, there / (jobs * job.gang)) for name, there in gpus_of_type.items()]
    total = max(1.0, sum(part for _, part in parts))
    return sum(
        job.throughput.get(name, 0.0) * part / total
        for name, part in parts
        if job.gang <= gpus_of_type[name]
    )


def _without_deadlines(instance: Instance) -> Instance:
    return replace(
        instance, jobs=tuple(replace(job, utility=InverseJct()) for job in instance.jobs)
    )


def _without_late_deadline(job: GangJob) -> GangJob:
    """Return the job, without its deadline if that has passed."""
    is_over = isinstance(job.utility, Deadline) and job.utility.deadline_s <= job.elapsed_s
    return replace(job, utility=InverseJct()) if is_over else job


ROUNDS = 400
"""Initial credits of half a round and partial cycles blur shares by about one part in 400."""


class RoundShares(HeuristicSolver):
    """The time shares that 400 rounds of Gavel give to jobs that never end.

    `GavelRounds` computes the optimal shares once and has all rounds to approach them. What is then
    missing is lost for two reasons: gangs do not fit beside each other, or jobs run on another type
    than their share says. A round on several servers counts only in proportion to its speed
    relative to one server.

    Complexity: 400 decisions of `GavelRounds`, and one linear programme. Guarantee: none.
    """

    name = "gavel-rounds"
    problem = "heterogeneous"
    variants = (Objective.MAX_MIN_SHARE, Objective.THROUGHPUT)

    def apply(self, instance: Instance, rng: np.random.Generator) -> SolveResult[TimeShares]:
        """Return the time shares that the rounds achieve."""
        shares = shares_of_rounds(instance, rng)
        return SolveResult(
            status=Status.FEASIBLE, solution=shares, objective=self.objective_of(instance, shares)
        )


def shares_of_rounds(
    instance: Instance, rng: np.random.Generator, *, rounds: int = ROUNDS
) -> TimeShares:
    """Run Gavel's rounds; return the fraction of time that each job spends on each GPU type."""
    state = RoundState(
        gpu_types=instance.gpu_types, servers=instance.servers, now_s=0.0, round_s=instance.round_s
    )
    policy = GavelRounds(instance.objective)
    policy.prepare(state, rng)
    state.jobs = [
        ActiveJob(job=replace(job, current={}), order=order, steps_left=job.steps, submitted_s=0.0)
        for order, job in enumerate(within_time(instance.jobs, every=50))
    ]
    had: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for number in within_time(range(rounds)):
        state.now_s = number * instance.round_s
        decision = policy.decide(state)
        state.is_changed = False
        for active in state.jobs:
            active.placements = decision.get(active.job.id, ())
            active.waiting_since_s = NEVER if active.placements else state.now_s
            for placement in active.placements:
                (name,) = {name for types in placement.values() for name in types}
                alone = active.job.throughput.get(name, 0.0)
                if alone:
                    had[active.job.id][name] += min(1.0, active.job.rate_of(placement) / alone)
    return TimeShares(
        {
            job: {name: rounds_there / rounds for name, rounds_there in of_types.items()}
            for job, of_types in had.items()
        }
    )
