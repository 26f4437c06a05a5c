"""Make a reclaim instance smaller without changing its optimum, for either semantics.

All reductions use the threshold form: job j is preempted when the chosen servers hold more than
``slack[j]`` of its workers (rigid: more than ``slack[j]`` of the servers with its base workers).
`reduce_instance` keeps the cost of *every* choice of servers, so its result is valid for every N_R
and every algorithm. `dominance_pairs` is separate because dominance excludes some choices, though
never all optimal ones.

The proofs are in ``formulations/reclaim/README.md``, section 4.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lyra_opt.core.arithmetic import exact_sum
from lyra_opt.core.arrays import IntArray
from lyra_opt.core.result import StoppedBy
from lyra_opt.core.solver import Observer
from lyra_opt.core.stopwatch import within_time
from lyra_opt.reclaim.incidence import Incidence, partial_sums, sums_of_runs
from lyra_opt.reclaim.instance import Instance, Solution

Row = dict[int, int]

LARGEST_INT64_WEIGHT = 2**62  # with a larger total, sums of weights can overflow int64


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducedReclaim:
    """An equivalent reclaim instance without redundant jobs, in which servers have costs.

    Parameters
    ----------
    servers
        Shape (n,): file position of each server on loan, in file order. All other arrays number
        servers by their index in this array, which is called a place.
    reclaim_servers
        N_R: number of servers to choose.
    server_cost
        Shape (n,): weight of the jobs that are preempted exactly when this server is chosen.
    losses
        What each remaining job loses with each server, from 1 to ``slack[j] + 1``. Every job is
        on at least two servers, and is preempted when it loses more than ``slack[j]``.
    slack
        Shape (jobs,): 0 for every job of a rigid instance.
    weight
        Shape (jobs,): at least 1.

    Notes
    -----
    Arrays hold int64; `server_cost` and `weight` hold Python integers (dtype object) if the
    instance's total weight is 2**62 or more, so that no sum of weights can overflow.
    """

    servers: IntArray
    reclaim_servers: int
    server_cost: IntArray
    losses: Incidence
    slack: IntArray
    weight: IntArray

    def objective(self, places: Iterable[int]) -> int:
        """Return the weight of the jobs preempted by choosing the servers with indices `places`."""
        is_chosen = np.zeros(len(self.servers), dtype=np.int64)
        is_chosen[list(places)] = 1
        is_preempted = self.losses.row_sums(is_chosen) > self.slack
        return exact_sum(self.server_cost[is_chosen == 1]) + exact_sum(self.weight[is_preempted])

    def solution(self, instance: Instance, chosen: Iterable[int]) -> Solution:
        """Return the solution that reclaims the servers with indices `chosen` of this instance."""
        return Solution.of_positions(instance, [int(self.servers[place]) for place in chosen])


def reduce_instance(instance: Instance) -> ReducedReclaim:
    """Return a smaller instance in which every choice of servers has its original cost.

    The reductions, in this order:

    Servers that are not on loan
        are dropped. They cannot be chosen, and their workers are already part of the slack.
    Counts
        are capped at ``slack + 1``. A capped count exceeds the slack alone, before and after; a set
        of servers without capped counts has the same sum as before.
    Jobs
        of weight 0 are dropped because they cost nothing. Jobs with at most ``slack`` losses on all
        servers on loan together are dropped because no choice preempts them.
    Folding
        A remaining job with workers on only one server on loan is preempted exactly when that
        server is chosen. Its weight is added to the cost of the server.
    Merging
        Jobs with equal capped counts on every server on loan and equal slack are preempted by the
        same choices. They become one job with the sum of their weights. (Equal sets of servers are
        enough only in the rigid case.)

    Time O(entries + jobs log jobs).
    """
    return reduce_with_rows(instance)[0]


def reduce_with_rows(instance: Instance) -> tuple[ReducedReclaim, IntArray]:
    """Return the reduced instance, and the index of each original job's reduced job, or -1.

    The rows have shape (jobs,); a job that was folded or dropped has row -1.
    """
    index = instance.index
    losses, slack, weight = index.losses, index.slack, index.weight
    servers = len(index.on_loan)
    span = losses.span()
    place = (np.cumsum(index.is_on_loan) - 1)[losses.job_servers]
    capped = np.minimum(losses.job_counts, np.repeat(slack, span) + 1)
    all_losses = sums_of_runs(capped, losses.job_start)
    endangered = (weight > 0) & (all_losses > slack)
    dtype = np.int64 if exact_sum(weight) < LARGEST_INT64_WEIGHT else object

    server_cost = np.zeros(servers, dtype=dtype)
    folded = np.flatnonzero(endangered & (span == 1))
    np.add.at(server_cost, place[losses.job_start[folded]], weight[folded].astype(dtype))

    shared = np.flatnonzero(endangered & (span > 1))
    first = _first_equal_job(shared, slack, losses.job_start, place, capped, servers)
    is_kept = np.zeros(losses.jobs, dtype=np.bool_)
    is_kept[first] = True
    kept = np.flatnonzero(is_kept)
    row = np.full(losses.jobs, -1)
    row[shared] = (np.cumsum(is_kept) - 1)[first]
    merged_weight = np.zeros(len(kept), dtype=dtype)
    np.add.at(merged_weight, row[shared], weight[shared].astype(dtype))

    in_kept = np.repeat(is_kept, span)
    reduced = ReducedReclaim(
        servers=index.on_loan,
        reclaim_servers=instance.reclaim_servers,
        server_cost=server_cost,
        losses=Incidence.of_rows(
            partial_sums(span[kept]), place[in_kept], capped[in_kept], servers
        ),
        slack=slack[kept],
        weight=merged_weight,
    )
    return reduced, row


def _first_equal_job(
    jobs: IntArray,
    slack: IntArray,
    job_start: IntArray,
    place: IntArray,
    capped: IntArray,
    servers: int,
) -> IntArray:
    """Return, for each job, the first job with equal slack and equal capped worker counts.

    Parameters
    ----------
    place, capped
        Shape (entries of the instance,): place of the server and capped count, by job.
    """
    sums = partial_sums(_mix(np.arange(servers))[place] * capped.view(np.uint64))
    fingerprint = sums[job_start[jobs + 1]] - sums[job_start[jobs]]
    first = jobs.copy()
    order = np.argsort(fingerprint)
    ordered = fingerprint[order]
    is_as_before = ordered[1:] == ordered[:-1]
    if not is_as_before.any():
        return first
    is_repeated = np.zeros(len(jobs), dtype=np.bool_)
    is_repeated[order[1:][is_as_before]] = True
    is_repeated[order[:-1][is_as_before]] = True
    # Equal jobs have equal fingerprints, but other jobs may too, so jobs are compared in full.
    entries = np.column_stack((place, capped)).tobytes()
    entry_bytes = place.itemsize + capped.itemsize
    known: dict[tuple[int, bytes], int] = {}
    for position in np.flatnonzero(is_repeated).tolist():
        job = int(jobs[position])
        row = entries[job_start[job] * entry_bytes : job_start[job + 1] * entry_bytes]
        first[position] = known.setdefault((int(slack[job]), row), job)
    return first


def _mix(values: IntArray) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each value (the finalizer of SplitMix64, Steele et al. 2014)."""
    mixed = (values.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def dominance_pairs(reduced: ReducedReclaim) -> list[tuple[int, int]]:
    """Return pairs (s, t) of servers such that some optimal choice takes s whenever it takes t.

    Server s dominates t if it hosts at most as many workers of every job of the reduced instance
    and costs at most as much. Of two servers that are equal in both, the first in the file
    dominates. So the relation is a strict partial order, and one optimal choice respects all of it
    at once; `respect_dominance` gives the proof. If two equal servers dominated each other, both or
    neither would have to be chosen, which may exclude every optimal choice.

    The result is the transitive reduction, the fewest pairs that imply all others, ordered by t.

    Notes
    -----
    Servers with equal rows form a chain, ordered by (cost, place). A member of a chain has a pair
    with at most one member of each chain with a smaller row: the last one that is cheap enough. The
    chains with a smaller row are found through the job of the row that is on the fewest chains. If
    servers host at most g jobs and each server has one job that is on at most d chains, time is O(n
    log n + n d g). That is near-linear, even if thousands of servers host no shared job and form
    one chain.
    """
    chains = _chains_of_equal_rows(reduced)
    rows = [row for row, _ in chains]
    members = [chain for _, chain in chains]
    cost = reduced.server_cost.tolist()
    costs = [[cost[place] for place in chain] for chain in members]
    smaller = _smaller_rows(rows)
    size = [sum(row.values()) for row in rows]
    pairs: list[tuple[int, int]] = []
    for chain, places in enumerate(within_time(members)):
        # Servers with more workers are tried first. Their dominance pairs imply many pairs of
        # servers with fewer workers, which are then left out.
        nearest_first = sorted(smaller[chain], key=lambda other: -size[other])
        for rank, t in enumerate(places):
            covers = [(chain, places[rank - 1])] if rank else []
            for other in nearest_first:
                cheap_enough = bisect_right(costs[other], cost[t])
                if not cheap_enough:
                    continue
                s = members[other][cheap_enough - 1]
                if not any(other in smaller[c] and cost[s] <= cost[u] for c, u in covers):
                    covers.append((other, s))
            pairs.extend((s, t) for _, s in covers)
    return sorted(pairs, key=lambda pair: (pair[1], pair[0]))


def _chains_of_equal_rows(reduced: ReducedReclaim) -> list[tuple[Row, list[int]]]:
    """Group the servers with equal worker counts for every job, sorted by cost and index."""
    chains: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for place in range(len(reduced.servers)):
        chains.setdefault(tuple(reduced.losses.column(place)), []).append(place)
    cost = reduced.server_cost.tolist()
    return [
        (dict(row), sorted(chain, key=lambda place: (cost[place], place)))
        for row, chain in chains.items()
    ]


def _smaller_rows(rows: Sequence[Row]) -> list[set[int]]:
    """Return, for each row of worker counts, the other rows that are nowhere larger."""
    hosts: dict[int, list[int]] = {}
    for number, row in enumerate(rows):
        for job in row:
            hosts.setdefault(job, []).append(number)
    smaller: list[set[int]] = [set() for _ in rows]
    for number, row in enumerate(within_time(rows)):
        rarest = min((hosts[job] for job in row), key=len, default=range(len(rows)))
        for other in rarest:
            larger = rows[other]
            if other != number and all(larger.get(job, 0) >= row[job] for job in row):
                smaller[other].add(number)
    return smaller


def respect_dominance(pairs: Iterable[tuple[int, int]], chosen: Iterable[int]) -> list[int]:
    """Change a choice so that it respects dominance, with as many servers and no higher cost.

    The result takes s whenever it takes t, for each pair (s, t). Each chosen server, dominating
    servers first, moves up to a dominating server that is not yet taken, as long as one exists. So
    the set of taken servers always includes all servers that dominate them, and each server is
    replaced by itself or by a server that dominates it. No job loses more workers than before, and
    the costs do not rise. (Hence some optimal choice respects all pairs.)

    Time O(pairs + chosen * longest chain).
    """
    dominators: dict[int, list[int]] = {place: [] for place in chosen}
    before = set(dominators)
    for s, t in pairs:
        dominators.setdefault(t, []).append(s)
    taken: set[int] = set()
    for place in TopologicalSorter(dominators).static_order():
        if place in before:
            taken.add(_highest_free(place, dominators, taken))
    return sorted(taken)


def _highest_free(place: int, dominators: dict[int, list[int]], taken: set[int]) -> int:
    """Climb from `place` along dominating servers to a server with no free dominating server."""
    while True:
        above = next((s for s in dominators.get(place, ()) if s not in taken), None)
        if above is None:
            return place
        place = above


class SearchResult(NamedTuple):
    """The incumbent and the dual bound of a search over a `ReducedReclaim` instance."""

    places: list[int]
    """The best known choice, as places of the reduced instance, ascending."""
    objective: int
    """Weight of the jobs that the best known choice preempts."""
    bound: int
    """Proved lower bound; equal to `objective` once the search is complete."""
    stopped_by: StoppedBy | None = None
    """The limit that ended the search; None if the search is complete."""
    nodes: int = 0
    """Number of tree nodes whose bound was computed."""
    moves: int = 0
    """Number of server swaps made."""


@dataclass(slots=True)
class BestKnown:
    """The best incumbent and dual bound so far over all steps of a solver."""

    observer: Observer | None
    places: list[int] = field(default_factory=list)
    objective: int | None = None
    bound: int = 0
    nodes: int = 0
    stopped_by: StoppedBy | None = None

    @property
    def is_proved(self) -> bool:
        """Whether the bound proves the incumbent optimal."""
        return self.objective is not None and self.objective <= self.bound

    def keep_if_better(self, places: Sequence[int], objective: int) -> None:
        """Replace the incumbent if `objective` is lower, and report it to the observer."""
        if self.objective is None or objective < self.objective:
            self.places, self.objective = list(places), objective
            if self.observer is not None:
                self.observer("objective", objective)

    def take(self, found: SearchResult) -> None:
        """Merge the incumbent, the bound and the node count of a finished search step."""
        self.keep_if_better(found.places, found.objective)
        if found.bound > self.bound:
            self.bound = found.bound
            if self.observer is not None:
                self.observer("dual_bound", found.bound)
        self.nodes += found.nodes
        self.stopped_by = found.stopped_by
