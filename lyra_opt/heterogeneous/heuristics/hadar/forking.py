"""HadarE: several copies of a job run at once, so that servers do not idle."""

from collections.abc import Mapping, Sequence

from lyra_opt.heterogeneous.bounds.fastest import best_rate_of
from lyra_opt.heterogeneous.heuristics.hadar.rule import rounds_to_run, worth_at
from lyra_opt.heterogeneous.heuristics.policy import (
    ActiveJob,
    Decision,
    FreeGpus,
    RoundDraft,
    RoundPolicy,
    RoundState,
)
from lyra_opt.heterogeneous.instance import GangJob, Placement


class HadarE(RoundPolicy):
    """Give each job a server, then give the remaining servers copies of jobs.

    Source: HadarE (arXiv 2503.10918). A job is forked into at most as many copies as there are
    servers. Copies train at once on separate servers, the remaining steps are divided by their
    speeds, and parameters are merged at the end of the round. A theorem there states that no server
    idles while a job remains. Everything but the idea is from memory, with medium confidence. The
    paper's rule for distributing copies is not known to us, so the rule is our own:

    1. Jobs, sorted by utility per GPU of the gang as in `Hadar`, take the fastest gang on one
       server. Ties go to the server with the fewest free GPUs.
    2. While some server has room for a copy of a job without a copy there, one copy is added. It is
       the copy that raises its job's utility most per GPU, at the summed speed of the copies. If no
       utility rises, it is the copy that shortens a job's remaining time most.

    So no server is left with room for a copy of any job. The costs of merging and averaging are
    part of the simulation, not of this rule. A gang that no server can hold never runs.

    Complexity of a decision: O(jobs log jobs + (jobs + copies) servers types), step 2 times jobs.
    Guarantee: none; if merging is free, no round is used worse than with one copy per job.
    """

    name = "hadare"
    forks = True

    def decide(self, state: RoundState) -> Decision:
        """Return the placements of all copies in the round."""
        draft = RoundDraft(state.servers)
        for active in self._queue(state):
            if not any(draft.free.of_type.values()):
                break
            draft.give(active.job, _best_on_one_server(draft.free, active.job, ()))
        self._fork(state, draft)
        return draft.decision

    def _queue(self, state: RoundState) -> list[ActiveJob]:
        def rank(active: ActiveJob) -> tuple[float, int]:
            fastest = max(active.job.throughput.values())
            return -_worth(active, state, fastest) / active.job.gang, active.order

        return sorted(state.jobs, key=rank)

    def _fork(self, state: RoundState, draft: RoundDraft) -> None:
        """Add copies of jobs until no server has room for another copy."""
        speeds = {
            active.job.id: sum(map(active.job.rate_of, draft.decision.get(active.job.id, ())))
            for active in state.jobs
        }
        while True:
            best: tuple[float, float] = (0.0, 0.0)
            chosen: tuple[ActiveJob, Placement] | None = None
            for active in state.jobs:
                job = active.job
                used = [next(iter(copy)) for copy in draft.decision.get(job.id, ())]
                placement = _best_on_one_server(draft.free, job, used)
                if placement is None:
                    continue
                speed = speeds[job.id]
                faster = speed + job.rate_of(placement)
                rise = _worth(active, state, faster) - _worth(active, state, speed)
                shortened_s = active.steps_left / faster - active.steps_left / speed if speed else 0
                gain = (rise / job.gang, -shortened_s / job.gang)
                if chosen is None or gain > best:
                    best, chosen = gain, (active, placement)
            if chosen is None:
                return
            active, placement = chosen
            draft.give(active.job, placement)
            speeds[active.job.id] += active.job.rate_of(placement)


def _worth(active: ActiveJob, state: RoundState, rate: float) -> float:
    """Return the utility of a job that runs at a constant rate until it completes; 0 at rate 0."""
    if not rate:
        return 0.0
    rounds = rounds_to_run(active.steps_left, rate, state.round_s)
    return worth_at(active, state.now_s + rounds * state.round_s)


def _best_on_one_server(free: FreeGpus, job: GangJob, without: Sequence[str]) -> Placement | None:
    """Return a gang's fastest placement on a server not in `without`; None if no server has room.

    Ties go to the server with the fewest free GPUs, then to file order. The slowest GPUs that allow
    the speed are taken first.
    """
    best: tuple[float, int] | None = None
    placement: Placement | None = None
    for server, counts in free.by_server.items():
        if server in without:
            continue
        speed = best_rate_of(job.gang, counts, job.throughput)
        if not speed:
            continue
        rank = (-speed, sum(counts.values()))
        if best is None or rank < best:
            best = rank
            placement = {server: _slowest_first(counts, job, speed)}
    return placement


def _slowest_first(counts: Mapping[str, int], job: GangJob, speed: float) -> dict[str, int]:
    taken: dict[str, int] = {}
    missing = job.gang
    for rate, name in sorted((job.throughput.get(name, 0.0), name) for name in counts):
        count = min(missing, counts[name]) if rate >= speed else 0
        if count:
            taken[name] = count
            missing -= count
    return taken
