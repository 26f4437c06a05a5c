"""HadarE: copies of a job run at once, so that no server idles while a job could use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.heterogeneous.heuristics.hadar.rule import rounds_to_run, worth_at
from lyra_opt.heterogeneous.heuristics.policy import RoundDraft, RoundPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.heterogeneous.heuristics.policy import ActiveJob, Decision, FreeGpus, RoundState
    from lyra_opt.heterogeneous.instance import GangJob, Placement


class HadarE(RoundPolicy):
    """Gives each job a server, and then copies of jobs the servers that are left.

    Source: HadarE (arXiv 2503.10918): a job is forked into at most as many copies as there are
    servers, copies train at once on separate servers, what is left is divided by their speeds,
    and parameters are merged at the end of the round; that no server idles while a job is left is
    stated there as a theorem. All but the idea is from memory with medium confidence; how copies
    are given out is ours, since the paper's rule is not known to us:

    1. Jobs by utility for each GPU of the gang, as in `Hadar`, take the fastest gang on one
       server; of those equally fast that on the server with the fewest free GPUs.
    2. As long as some server has room for a copy of a job that has none there, the copy is made
       whose job's utility rises most for each GPU, at the sum of the speeds of its copies; where
       none rises, that which shortens a job's remaining time most.

    So no server is left with room for a copy of any job. What merging costs and what averaging
    loses belong to the simulation, not to the rule. A gang that no server can hold never runs.

    Complexity of a decision: O(jobs log jobs + (jobs + copies) servers types), step 2 times jobs.
    Guarantee: none; without cost of merging no round is worse used than with one copy each.
    """

    name = "hadare"
    forks = True

    def decide(self, state: RoundState) -> Decision:
        """Return the copies that run in the round."""
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
        """Make copies until no server has room for one."""
        speeds = {
            active.job.id: sum(map(active.job.rate_of, draft.decision.get(active.job.id, ())))
            for active in state.jobs
        }
        while True:
            best: tuple[float, float] = (0.0, 0.0)
            chosen: tuple[ActiveJob, Placement] | None = None
            for active in state.jobs:
                job = active.job
                there = [next(iter(copy)) for copy in draft.decision.get(job.id, ())]
                placement = _best_on_one_server(draft.free, job, there)
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
    """Return the utility of a job that goes on at a speed; 0 at speed 0."""
    if not rate:
        return 0.0
    rounds = rounds_to_run(active.steps_left, rate, state.round_s)
    return worth_at(active, state.now_s + rounds * state.round_s)


def _best_on_one_server(free: FreeGpus, job: GangJob, without: Sequence[str]) -> Placement | None:
    """Return the fastest free gang on one server, other than some; None if there is none.

    Ties go to the server with the fewest free GPUs, then to file order. The slowest GPUs that
    allow the speed are taken first.
    """
    best: tuple[float, int] | None = None
    placement: Placement | None = None
    for server, counts in free.by_server.items():
        if server in without:
            continue
        speed = _speed_on(counts, job)
        if not speed:
            continue
        rank = (-speed, sum(counts.values()))
        if best is None or rank < best:
            best = rank
            placement = {server: _slowest_first(counts, job, speed)}
    return placement


def _speed_on(counts: Mapping[str, int], job: GangJob) -> float:
    """Return the fastest speed of the gang on free GPUs of one server, 0 if it cannot run."""
    missing = job.gang
    by_speed = sorted(((job.throughput.get(name, 0.0), name) for name in counts), reverse=True)
    for speed, name in by_speed:
        missing -= counts[name]
        if missing <= 0:
            return speed
    return 0.0


def _slowest_first(counts: Mapping[str, int], job: GangJob, speed: float) -> dict[str, int]:
    taken: dict[str, int] = {}
    missing = job.gang
    for rate, name in sorted((job.throughput.get(name, 0.0), name) for name in counts):
        count = min(missing, counts[name]) if rate >= speed else 0
        if count:
            taken[name] = count
            missing -= count
    return taken
