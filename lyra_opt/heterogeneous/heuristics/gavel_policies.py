"""Gavel's policies: rounds near best shares, and rules of its authors that solve no programme."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from lyra_opt.core.errors import FieldError
from lyra_opt.core.rules import require_number
from lyra_opt.heterogeneous.heuristics.gavel import (
    LEAST_RESET_S,
    GavelRounds,
    Party,
    isolated_shares,
    solver_shares,
)
from lyra_opt.heterogeneous.instance import Entity, Objective

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from lyra_opt.heterogeneous.heuristics.gavel import Team, TeamShares
    from lyra_opt.heterogeneous.heuristics.policy import ActiveJob, Decision, RoundState
    from lyra_opt.heterogeneous.instance import GangJob, Instance, TimeShares


def water_filled_shares(instance: Instance) -> TimeShares | None:
    """Return the shares of water filling."""
    from lyra_opt.heterogeneous.exact.shares.water_filling import WaterFilling

    return solver_shares(instance, WaterFilling())


HIERARCHICAL = "gavel-hierarchical"
HALVES = (Entity(name="first"), Entity(name="second"))


class HierarchicalRounds(GavelRounds):
    """Gavel's rounds near the shares of water filling over entities, each with jobs of its own.

    Source: Gavel (OSDI 2020), its hierarchical policy. What an entity gets among others, and how it
    divides that, is up to it: see `lyra_opt.heterogeneous.exact.shares.water_filling`. Complexity
    and guarantee as of `GavelRounds`, with at most one linear programme for each job.

    Parameters
    ----------
    entities
        Tables with ``name``, ``weight`` and ``policy``, as those of instances. A job that names
        none of them belongs to one in turn, by its place in the order of submission: no public
        trace says whose a job is. By default two that are alike.
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
            raise FieldError("entities", self._names, "must have a name each of their own")

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
        rule = "must be a table with name, and weight and policy if need be"
        raise FieldError(f"entities[{place}]", given, rule) from None


class _Policy(NamedTuple):
    """What makes one of Gavel's policies."""

    objective: Objective
    aim: str
    """What its shares make so, in a clause."""
    shares: Callable[[Instance], TimeShares | None] = solver_shares
    knows_types: bool = True

    @property
    def summary(self) -> str:
        """One line on it."""
        unknowing = "" if self.knows_types else ", type-blind"
        return f"rounds near the shares with {self.aim}{unknowing} (Gavel)"


_LAS = _Policy(Objective.MAX_MIN_SHARE, "the least normalised throughput greatest")
_FTF = _Policy(
    Objective.FINISH_TIME_FAIRNESS, "the worst ratio to an equal part's finish time least"
)
_MAKESPAN = _Policy(Objective.MAKESPAN_SHARE, "all done soonest")
_WATER_FILLING = _Policy(
    Objective.MAX_MIN_SHARE,
    "the least throughputs greatest, one after another",
    water_filled_shares,
)

_POLICIES: Mapping[str, _Policy] = {
    "gavel-las": _LAS,
    "gavel-ftf": _FTF,
    "gavel-throughput": _Policy(Objective.THROUGHPUT, "most steps a second"),
    "gavel-cost": _Policy(Objective.COST, "most steps a second for the money, deadlines kept"),
    "gavel-makespan": _MAKESPAN,
    "gavel-water-filling": _WATER_FILLING,
    "gavel-las-agnostic": _LAS._replace(knows_types=False),
    "gavel-ftf-agnostic": _FTF._replace(knows_types=False),
    "gavel-makespan-agnostic": _MAKESPAN._replace(knows_types=False),
    "gavel-water-filling-agnostic": _WATER_FILLING._replace(knows_types=False),
    "gavel-isolated": _Policy(
        Objective.MAX_MIN_SHARE, "an equal part of the cluster each", isolated_shares, False
    ),
}


def gavel_policies() -> dict[str, Callable[[], GavelRounds]]:
    """Return what makes each of Gavel's policies, by name."""
    return {
        name: partial(
            GavelRounds,
            policy.objective,
            policy.shares,
            knows_types=policy.knows_types,
            name=name,
        )
        for name, policy in _POLICIES.items()
    } | {HIERARCHICAL: HierarchicalRounds}


def gavel_summaries() -> dict[str, str]:
    """Return one line on each of Gavel's policies, by name."""
    return {name: policy.summary for name, policy in _POLICIES.items()} | {
        HIERARCHICAL: "rounds near the shares of entities by weight, then of their jobs (Gavel)"
    }


LEAST_PAIR_WORTH = 1.5
"""Of a pair: what its jobs do together of their speeds alone must be above this."""


class GavelFifo(GavelRounds):
    """Runs jobs in the order in which they came, each on the type that is fastest for it.

    Source: the policies fifo_perf and, with packing, fifo_packed of Gavel's code
    (stanford-futuredata/gavel). In order each job has all of its time on the type with room on
    which it is fastest, until one finds no room; then nobody behind it has a share. With packing
    those that are left join one that has GPUs, in order, whose gang is as large: the one with which
    they do most together, each in relation to its speed alone on that type, if that is above
    `least_worth`; the first that finds none ends it. Jobs without a share wait, newcomers too until
    shares are computed anew, while GPUs idle. Shares are computed anew at once if no job can use
    its share: jobs have completed, or the servers were called back.

    In the code the first job that finds no room may not join another one, by an oversight; here it
    may.

    Complexity of a decision: O(types jobs + jobs^2) and that of the rounds of `GavelRounds`,
    without the linear programme. Guarantee: none.

    Parameters
    ----------
    least_reset_s, packs
        See `GavelRounds`.
    least_worth
        At least 1; with less two jobs would take longer than one after the other.
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
        """Return who has a share; compute shares at once if no team can use its share."""
        there = {active.job.id: active for active in state.jobs}
        teams = [team for team in self._shares if there.keys() >= set(team)]
        parties = [Party(team, tuple(there[job] for job in team)) for team in teams]
        if not any(
            party.gang <= self._there.get(name, 0) and self._runs_on(party, name)
            for party in parties
            for name in self._shares[party.team]
        ):
            self._reset_s = None
        return super().decide(state)

    def _best_shares(self, state: RoundState) -> TeamShares:
        """Return all of their time for those that come first."""
        queue = [self._attainable(active.job) for active in state.jobs]
        queue = [job for job in queue if self._has_share(job)]
        free = {name: self._there.get(name, 0) for name in self._types}
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
        """Return what two jobs do together on a type of what each does alone; 0 if they do not."""
        if gpu_type not in self._shared_types(job, other):
            return 0.0
        return sum(
            self._rate_beside(one, two, gpu_type) / one.throughput[gpu_type]
            for one, two in ((job, other), (other, job))
        )


LEAST_KEPT_WORTH = 1.0
"""Of a pair that is kept: what its jobs do of their speeds alone, summed up over all types."""


class GavelGandiva(GavelRounds):
    """Runs teams for equal parts of the cluster; teams are pairs drawn at random if GPUs are short.

    Where nothing is known of two jobs at once, nobody shares GPUs.

    Source: the policy gandiva of Gavel's code (stanford-futuredata/gavel), its reading of Gandiva
    (OSDI 2018). While all jobs together ask for no more GPUs than there are, nobody
    shares. Else jobs that are in no pair are put into pairs: as often as there are such jobs two of
    them are drawn, and become a pair if their gangs are equal; who is left over runs alone. Of each
    type every team has the share of time that its part of the GPUs is, cut to a sum of 1. A pair
    stays together while both its jobs are there, run on all types beside one another, and do
    together, summed up over the types, at least what a job alone does on one.

    A pair that cannot run on any type has its share for nothing: in the code its jobs take turns
    with priority 0 then, and so here.

    Complexity of a decision and rounds as of `GavelRounds`, without the linear programme.
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
        """Return equal parts of the cluster for teams."""
        jobs = {active.job.id: active for active in state.jobs if self._has_share(active.job)}
        if not jobs:
            return {}
        there = {name: self._there.get(name, 0) for name in self._types}
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
        """Return the pairs that are kept, new ones that are drawn, and who is left over."""
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
