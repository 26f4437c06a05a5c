"""Gavel's policies by name: rounds that follow optimal time shares, and two simpler rules."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from lyra_opt.core.errors import FieldError
from lyra_opt.core.rules import require_number
from lyra_opt.heterogeneous.heuristics.gavel import (
    LEAST_RESET_S,
    GavelRounds,
    Party,
    Team,
    TeamShares,
    isolated_shares,
    solver_shares,
)
from lyra_opt.heterogeneous.heuristics.policy import ActiveJob, Decision, RoundState
from lyra_opt.heterogeneous.instance import Entity, GangJob, Instance, Objective, TimeShares


def water_filled_shares(instance: Instance) -> TimeShares | None:
    """Return the time shares that water filling computes."""
    from lyra_opt.heterogeneous.exact.shares.water_filling import WaterFilling

    return solver_shares(instance, WaterFilling())


HIERARCHICAL = "gavel-hierarchical"
HALVES = (Entity(name="first"), Entity(name="second"))


class HierarchicalRounds(GavelRounds):
    """Rounds that follow the shares of water filling over entities and their jobs.

    Source: Gavel (OSDI 2020), hierarchical policy. An entity has a weight and its own rule for
    dividing time among its jobs (`lyra_opt.heterogeneous.exact.shares.water_filling`). Complexity
    and guarantee are those of `GavelRounds`, with at most one linear programme per job.

    Parameters
    ----------
    entities
        Tables with ``name``, ``weight`` and ``policy``, as in instances. Public traces do not say
        who owns a job, so jobs without a known entity are dealt to the entities in turn, in order
        of submission. The default is two equal entities.
    least_reset_s, newcomers_run, packs
        See `GavelRounds`.
    """

    def __init__(
        self,
        entities: Sequence[Entity | Mapping[str, Any]] = HALVES,
        *,
        least_reset_s: float = LEAST_RESET_S,
        newcomers_run: bool = True,
        packs: bool = False,
    ) -> None:
        super().__init__(
            Objective.MAX_MIN_SHARE,
            water_filled_shares,
            least_reset_s,
            newcomers_run=newcomers_run,
            packs=packs,
            name=HIERARCHICAL,
        )
        if isinstance(entities, str) or not entities:
            raise FieldError("entities", entities, "must be a list of at least one entity")
        self._entities = tuple(
            entity if isinstance(entity, Entity) else _entity(place, entity)
            for place, entity in enumerate(entities)
        )
        self._names = [entity.name for entity in self._entities]
        if len(set(self._names)) < len(self._names):
            raise FieldError("entities", self._names, "must have unique names")

    def _question(self, state: RoundState) -> Instance:
        instance = super()._question(state)
        jobs = tuple(
            job
            if job.entity in self._names
            else replace(job, entity=self._names[active.order % len(self._names)])
            for job, active in zip(instance.jobs, state.jobs, strict=True)
        )
        return replace(instance, jobs=jobs, entities=self._entities)


def _entity(place: int, given: Mapping[str, Any]) -> Entity:
    try:
        return Entity(**given)
    except FieldError as error:
        raise error.inside(f"entities[{place}]") from None
    except TypeError:
        rule = "must be a table with the key name and, optionally, weight and policy"
        raise FieldError(f"entities[{place}]", given, rule) from None


class _Policy(NamedTuple):
    """A policy of Gavel: its objective, and the function that computes its time shares."""

    objective: Objective
    aim: str
    """Property of the shares, as a noun phrase for the summary."""
    shares: Callable[[Instance], TimeShares | None] = solver_shares
    knows_types: bool = True

    @property
    def summary(self) -> str:
        """One-line description of the policy."""
        unknowing = "" if self.knows_types else ", type-blind"
        return f"rounds that follow the time shares with {self.aim}{unknowing} (Gavel)"


_LAS = _Policy(Objective.MAX_MIN_SHARE, "max-min normalised throughput")
_FTF = _Policy(Objective.FINISH_TIME_FAIRNESS, "min-max finish-time ratio")
_MAKESPAN = _Policy(Objective.MAKESPAN_SHARE, "the least makespan")
_WATER_FILLING = _Policy(
    Objective.MAX_MIN_SHARE, "lexicographic max-min throughput", water_filled_shares
)

_POLICIES: Mapping[str, _Policy] = {
    "gavel-las": _LAS,
    "gavel-ftf": _FTF,
    "gavel-throughput": _Policy(Objective.THROUGHPUT, "most steps per second"),
    "gavel-cost": _Policy(Objective.COST, "most steps per second per cost, deadlines kept"),
    "gavel-makespan": _MAKESPAN,
    "gavel-water-filling": _WATER_FILLING,
    "gavel-las-agnostic": _LAS._replace(knows_types=False),
    "gavel-ftf-agnostic": _FTF._replace(knows_types=False),
    "gavel-makespan-agnostic": _MAKESPAN._replace(knows_types=False),
    "gavel-water-filling-agnostic": _WATER_FILLING._replace(knows_types=False),
    "gavel-isolated": _Policy(
        Objective.MAX_MIN_SHARE, "an equal part of the cluster per job", isolated_shares, False
    ),
}


def gavel_policies() -> dict[str, Callable[[], GavelRounds]]:
    """Return a function that makes each of Gavel's policies, by policy name."""
    return {
        name: partial(
            GavelRounds, policy.objective, policy.shares, knows_types=policy.knows_types, name=name
        )
        for name, policy in _POLICIES.items()
    } | {HIERARCHICAL: HierarchicalRounds}


def gavel_summaries() -> dict[str, str]:
    """Return the one-line description of each of Gavel's policies, by policy name."""
    return {name: policy.summary for name, policy in _POLICIES.items()} | {
        HIERARCHICAL: "rounds that follow weighted shares of entities, then of their jobs (Gavel)"
    }


LEAST_PAIR_WORTH = 1.5
"""Two jobs may share GPUs if their relative speeds beside each other sum to more than this."""


class GavelFifo(GavelRounds):
    """Run jobs in order of arrival, each on its fastest GPU type.

    Source: the policies fifo_perf and, with packing, fifo_packed of Gavel's code
    (stanford-futuredata/gavel). In order, each job gets all of its time on the fastest type with
    enough free GPUs, until one job finds no room; no job behind it gets a share alone. With
    packing, the remaining jobs then join, in order, a job with GPUs and an equal gang. A job joins
    the one for which their speeds together, each relative to its speed alone on that type, are
    largest and above `least_worth`. The first job that cannot join ends the packing. Jobs without a
    share wait while GPUs idle; newcomers wait until shares are computed again. Shares are computed
    at once if no job can use its share, because jobs have completed or servers were reclaimed.

    In Gavel's code the first job without room may not join another job, apparently by an oversight;
    in this version it may.

    Complexity of a decision: O(types jobs + jobs^2), plus that of the rounds of `GavelRounds`
    without the linear programme. Guarantee: none.

    Parameters
    ----------
    least_reset_s, packs
        See `GavelRounds`.
    least_worth
        At least 1; below that, a pair would take longer than its jobs one after the other.
    """

    name = "gavel-fifo"

    def __init__(
        self,
        least_reset_s: float = LEAST_RESET_S,
        *,
        packs: bool = False,
        least_worth: float = LEAST_PAIR_WORTH,
    ) -> None:
        super().__init__(
            Objective.MAX_MIN_SHARE,
            least_reset_s=least_reset_s,
            newcomers_run=False,
            packs=packs,
            name=GavelFifo.name,
        )
        self._least_worth = require_number("least_worth", least_worth, minimum=1)

    def decide(self, state: RoundState) -> Decision:
        """Place the jobs with time shares; recompute the shares if no job can use its own."""
        active = {each.job.id: each for each in state.jobs}
        teams = [team for team in self._shares if active.keys() >= set(team)]
        parties = [Party(team, tuple(active[job] for job in team)) for team in teams]
        if not any(
            party.gang <= self._capacity.get(name, 0) and self._runs_on(party, name)
            for party in parties
            for name in self._shares[party.team]
        ):
            self._reset_s = None
        return super().decide(state)

    def _best_shares(self, state: RoundState) -> TeamShares:
        """Return full-time shares for the first jobs to arrive, as many as find GPUs."""
        queue = [self._attainable(active.job) for active in state.jobs]
        queue = [job for job in queue if self._has_share(job)]
        free = {name: self._capacity.get(name, 0) for name in self._types}
        taken: dict[Team, str] = {}
        jobs = {job.id: job for job in queue}
        while queue:
            job = queue[0]
            room = [name for name in self._types if free[name] >= job.gang]
            best = max(room, key=lambda name: job.throughput.get(name, 0.0), default=None)
            if best is None:
                break
            queue.pop(0)
            if job.throughput.get(best, 0.0) > 0:  # else the types that it needs are taken
                taken[job.id,] = best
                free[best] -= job.gang
        for job in queue:
            hosts = [
                (self._worth(job, jobs[team[0]], name), team)
                for team, name in taken.items()
                if len(team) == 1 and jobs[team[0]].gang == job.gang
            ]
            worth, host = max(hosts, key=lambda each: each[0], default=(0.0, ("",)))
            if worth <= self._least_worth:
                break
            taken[host[0], job.id] = taken.pop(host)
        return {team: {name: 1.0} for team, name in taken.items()}

    def _runs_on(self, party: Party, gpu_type: str) -> bool:
        has_share = gpu_type in self._shares.get(party.team, {})
        return has_share and super()._runs_on(party, gpu_type)

    def _worth(self, job: GangJob, other: GangJob, gpu_type: str) -> float:
        """Return the sum of two jobs' relative speeds when they share a type; 0 if they cannot."""
        if gpu_type not in self._shared_types(job, other):
            return 0.0
        return sum(
            self._rate_beside(one, two, gpu_type) / one.throughput[gpu_type]
            for one, two in ((job, other), (other, job))
        )


LEAST_KEPT_WORTH = 1.0
"""A pair is kept if its relative speeds, summed over jobs and types, are at least this."""


class GavelGandiva(GavelRounds):
    """Give all jobs equal parts of the cluster, as random pairs of jobs if GPUs are scarce.

    Jobs share GPUs only if packed rates are known.

    Source: the policy gandiva of Gavel's code (stanford-futuredata/gavel), which models Gandiva
    (OSDI 2018). While the jobs need no more GPUs than exist, no jobs share. Otherwise unpaired jobs
    are paired: two of them are drawn as many times as there are unpaired jobs, and become a pair if
    their gangs are equal. Jobs left over run alone. A team's share of a type is its equal part of
    the type's GPUs, divided by its gang. If a team's shares sum to more than 1, they are scaled
    down to 1. A pair stays together while both jobs are active and run beside each other on all
    types. Their relative speeds, summed over jobs and types, must also be at least 1.

    A pair that cannot run on any type wastes its share. As in Gavel's code, its jobs then take
    turns with priority 0.

    Complexity of a decision and rounds are as in `GavelRounds`, without the linear programme.
    Guarantee: none.

    Parameters
    ----------
    least_reset_s, newcomers_run
        See `GavelRounds`.
    """

    name = "gavel-gandiva"

    def __init__(self, least_reset_s: float = LEAST_RESET_S, *, newcomers_run: bool = True) -> None:
        super().__init__(
            Objective.MAX_MIN_SHARE,
            least_reset_s=least_reset_s,
            newcomers_run=newcomers_run,
            packs=True,
            name=GavelGandiva.name,
        )
        self._pairs: list[Team] = []

    def _best_shares(self, state: RoundState) -> TeamShares:
        """Return equal parts of the cluster for all teams, which are single jobs or job pairs."""
        jobs = {active.job.id: active for active in state.jobs if self._has_share(active.job)}
        if not jobs:
            return {}
        there = {name: self._capacity.get(name, 0) for name in self._types}
        teams: list[Team] = [(job,) for job in jobs]
        self._pairs = [pair for pair in self._pairs if self._is_kept(pair, jobs)]
        is_short = sum(active.job.gang for active in jobs.values()) > sum(there.values())
        if is_short and self._packed:
            teams = self._teams(jobs)
        shares: TeamShares = {}
        for team in teams:
            gang = jobs[team[0]].job.gang
            parts = {name: gpus / len(teams) / gang for name, gpus in there.items()}
            total = max(1.0, sum(parts.values()))
            shares[team] = {name: part / total for name, part in parts.items()}
        return shares

    def _teams(self, jobs: dict[str, ActiveJob]) -> list[Team]:
        """Return the teams that run: pairs of jobs, old and newly drawn, and single jobs."""
        paired = {job for pair in self._pairs for job in pair}
        single = [job for job in jobs if job not in paired]
        for _ in range(len(single)):
            if len(single) <= 1:
                break
            one, two = sorted(
                int(place) for place in self._rng.choice(len(single), 2, replace=False)
            )
            if jobs[single[one]].job.gang == jobs[single[two]].job.gang:
                self._pairs.append((single[one], single[two]))
                del single[two], single[one]
        return [*self._pairs, *((job,) for job in single)]

    def _is_kept(self, pair: Team, jobs: dict[str, ActiveJob]) -> bool:
        if not jobs.keys() >= set(pair):
            return False
        one, two = (self._attainable(jobs[job].job) for job in pair)
        worth = 0.0
        for job, other in ((one, two), (two, one)):
            for name in self._types:
                beside, alone = self._rate_beside(job, other, name), job.throughput.get(name, 0.0)
                if not (beside > 0 and alone > 0):
                    return False
                worth += beside / alone
        return worth >= LEAST_KEPT_WORTH
