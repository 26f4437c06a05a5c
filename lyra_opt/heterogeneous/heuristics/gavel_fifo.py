"""First come, first served as Gavel's authors have it: best types first, and pairs that pay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.core.validation import require_number
from lyra_opt.heterogeneous.heuristics.gavel import LEAST_RESET_S, GavelRounds, Party
from lyra_opt.heterogeneous.instance import Objective

if TYPE_CHECKING:
    from lyra_opt.heterogeneous.heuristics.gavel import Team, TeamShares
    from lyra_opt.heterogeneous.heuristics.policy import Decision, RoundState
    from lyra_opt.heterogeneous.instance import GangJob

LEAST_WORTH = 1.5
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
        least_worth: float = LEAST_WORTH,
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
