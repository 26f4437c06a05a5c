"""Gandiva as Gavel's authors have it: pairs are drawn, and kept while they pay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.heterogeneous.heuristics.gavel import LEAST_RESET_S, GavelRounds
from lyra_opt.heterogeneous.instance import Objective

if TYPE_CHECKING:
    from lyra_opt.heterogeneous.heuristics.gavel import Team, TeamShares
    from lyra_opt.heterogeneous.heuristics.policy import ActiveJob, RoundState

LEAST_WORTH = 1.0
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
        return worth >= LEAST_WORTH
