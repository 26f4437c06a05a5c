"""Split the graph of servers and jobs into components, and combine their best choices.

No job joins two connected components, so the cost of a choice is the sum of the costs of its parts
in the components. Let f_c(k) be the least weight of k servers of component c. The optimum is then a
(min,+) knapsack: the best division of N_R over the components.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lyra_opt.core.arithmetic import exact_sum
from lyra_opt.core.arrays import IntArray
from lyra_opt.core.kernels import kernel
from lyra_opt.core.stopwatch import (
    OutOfTimeError,
    is_out_of_time,
    limited_to,
    limits_in_force,
    within_time,
)
from lyra_opt.reclaim.exact.tree.kernel import Split, level_prices
from lyra_opt.reclaim.exact.tree.search import TreeSearch, price_unit
from lyra_opt.reclaim.incidence import Incidence
from lyra_opt.reclaim.reduction import ReducedReclaim, SearchResult


@kernel
def enumerate_choices(
    servers: int,
    weight: Any,
    cost: Any,
    server_start: Any,
    server_jobs: Any,
    hosts: Any,
    least: Any,
    chosen: Any,
) -> Any:
    """Return, for each k, the least weight that k servers preempt, and such a choice as a bit mask.

    The choices follow a Gray code, so that each step changes one server. `hosts`, at first zeros,
    counts the chosen servers of each job. Time O(2^servers * jobs on a server).
    """
    for picks in range(servers + 1):
        least[picks] = -1
    least[0] = 0
    mask = 0
    picks = 0
    total = 0
    for step in range(1, 2**servers):
        # In Gray-code order, the lowest set bit of the step number is the server that changes.
        s = 0
        while step >> s & 1 == 0:
            s += 1
        if mask >> s & 1:
            total -= cost[s]
            picks -= 1
            for entry in range(server_start[s], server_start[s + 1]):
                hosts[server_jobs[entry]] -= 1
                if hosts[server_jobs[entry]] == 0:
                    total -= weight[server_jobs[entry]]
        else:
            total += cost[s]
            picks += 1
            for entry in range(server_start[s], server_start[s + 1]):
                if hosts[server_jobs[entry]] == 0:
                    total += weight[server_jobs[entry]]
                hosts[server_jobs[entry]] += 1
        mask = mask ^ (1 << s)
        if least[picks] < 0 or total < least[picks]:
            least[picks] = total
            chosen[picks] = mask
    return least, chosen


ENUMERATED_SERVERS = 12
"""Components of at most this many servers are solved for every k by enumeration."""
NODES_PER_POINT = 300
"""Most nodes of a tree search for one point of the curve of a larger component."""
ROUNDS = 12


def search_components(
    reduced: ReducedReclaim, incumbent: Sequence[int], *, dual_bound: int
) -> SearchResult:
    """Search a rigid instance by its connected components, as far as they can be solved.

    Servers without shared jobs form one component, whose curve adds up sorted costs. Components of
    up to 12 servers are enumerated. The curve of a larger component is first bounded from below, by
    the smallest prices of a split of weights and by the cost of the k-th cheapest server alone. The
    knapsack over these lower curves gives a bound. If it uses a point that is not known exactly, a
    tree search solves that point, and the knapsack is solved again. This ends when all points used
    are known, or when a point cannot be solved within 300 nodes. A component with more than half of
    the servers is as hard as the whole instance and is left to the search of the whole instance.

    Parameters
    ----------
    reduced, incumbent, dual_bound
        As for `TreeSearch`.

    Returns
    -------
    SearchResult
        The search is complete if objective and bound are equal; ``stopped_by`` is always None.

    Notes
    -----
    Source: this project's study of minimum k-union. Complexity O(servers * N_R) for each knapsack,
    2^12 choices for each small component, and the tree searches.
    """
    objective = reduced.objective(incumbent)
    best = SearchResult(places=sorted(incumbent), objective=objective, bound=dual_bound)
    groups = _connected_places(reduced.losses)
    if len(groups) < 2 or objective <= dual_bound:
        return best
    limits, nodes = limits_in_force(), 0
    try:
        parts = [_part(reduced, places) for places in within_time(groups)]
    except OutOfTimeError:
        return best
    while True:
        try:
            bound, division = _best_division(parts, reduced.reclaim_servers)
        except OutOfTimeError:
            return best
        bound = max(bound, best.bound)
        unknown = [
            (part, picks)
            for part, picks in zip(parts, division, strict=True)
            if picks not in part.choice
        ]
        if not unknown:
            places = sorted(
                place
                for part, picks in zip(parts, division, strict=True)
                for place in part.choice[picks]
            )
            return SearchResult(places=places, objective=bound, bound=bound, nodes=nodes)
        best = best._replace(bound=bound)
        nodes_left = None if limits.nodes is None else limits.nodes - nodes
        if bound >= objective or is_out_of_time() or nodes_left == 0:
            return best
        part, picks = min(unknown, key=lambda pair: len(pair[0].places))
        if 2 * len(part.places) > len(reduced.servers):
            return best  # as hard as the whole instance, which is searched next
        most = NODES_PER_POINT if nodes_left is None else min(nodes_left, NODES_PER_POINT)
        with limited_to(replace(limits, nodes=most)):
            nodes += part.settle(picks)
        best = best._replace(nodes=nodes)
        if picks not in part.choice:
            return best


@dataclass(slots=True)
class _Part:
    """A component of the instance, with a lower bound on the cost of each number of its servers.

    Parameters
    ----------
    places
        Indices of the component's servers in the whole instance.
    lower
        Shape (servers + 1,): lower bound on the weight of any choice of k of its servers.
    choice
        For some numbers of servers, a choice whose weight is exactly ``lower``.
    instance
        The component alone, with its own server indices; None if the curve is known.
    """

    places: IntArray
    lower: NDArray[Any]
    choice: dict[int, list[int]] = field(default_factory=dict)
    instance: ReducedReclaim | None = None

    def settle(self, picks: int) -> int:
        """Search for the exact least weight of `picks` servers; return the nodes used."""
        assert self.instance is not None
        instance = replace(self.instance, reclaim_servers=picks)
        found = TreeSearch(instance, range(picks), int(self.lower[picks])).search()
        # The curve never decreases, so the bound also holds for larger numbers of servers.
        self.lower[picks:] = np.maximum(self.lower[picks:], found.bound)
        if found.objective == found.bound:
            self.choice[picks] = self.places[found.places].tolist()
        return found.nodes


def _part(reduced: ReducedReclaim, places: IntArray) -> _Part:
    losses = reduced.losses
    if not (losses.server_start[places + 1] > losses.server_start[places]).any():
        return _separable_part(reduced, places)
    instance = _restricted(reduced, places)
    if len(places) <= ENUMERATED_SERVERS:
        return _enumerated_part(instance, places)
    return _Part(
        places=places,
        lower=_lower_curve(instance),
        choice={0: [], len(places): places.tolist()},
        instance=instance,
    )


def _separable_part(reduced: ReducedReclaim, places: IntArray) -> _Part:
    """Return the component of all servers that share no job, with its exact cost curve.

    The k cheapest servers are optimal for every k.
    """
    cost = reduced.server_cost[places]
    order = places[np.argsort(cost, kind="stable")]
    curve = np.concatenate(([0], np.cumsum(reduced.server_cost[order]))).astype(cost.dtype)
    return _Part(
        places=places,
        lower=curve,
        choice={picks: order[:picks].tolist() for picks in range(len(places) + 1)},
    )


def _enumerated_part(instance: ReducedReclaim, places: IntArray) -> _Part:
    losses = instance.losses
    size = len(places)
    largest = 2 * (exact_sum(instance.server_cost) + exact_sum(instance.weight))
    least, chosen = enumerate_choices.run(
        size,
        instance.weight,
        instance.server_cost,
        losses.server_start,
        losses.server_jobs,
        np.zeros(losses.jobs, dtype=np.int64),
        np.zeros(size + 1, dtype=instance.weight.dtype),
        np.zeros(size + 1, dtype=np.int64),
        work=2**size,
        largest=largest,
    )
    return _Part(
        places=places,
        lower=np.asarray(least, dtype=instance.weight.dtype),
        choice={
            picks: [int(place) for bit, place in enumerate(places) if mask >> bit & 1]
            for picks, mask in enumerate(int(mask) for mask in chosen)
        },
    )


def _lower_curve(instance: ReducedReclaim) -> NDArray[Any]:
    """Return, for each k, a lower bound on the weight that k servers of a component preempt.

    The value for all servers is exact.
    """
    losses = instance.losses
    total = exact_sum(instance.server_cost) + exact_sum(instance.weight)
    unit, dtype = price_unit(total)
    scale = np.array([unit], dtype=dtype)
    leveled = level_prices.run(
        ROUNDS,
        losses.jobs,
        2 * (total + 1) * unit,
        Split(
            weight=instance.weight.astype(dtype) * scale,
            job_start=losses.job_start,
            job_servers=losses.job_servers,
            share=np.zeros(losses.entries, dtype=dtype),
            price=instance.server_cost.astype(dtype) * scale,
            without=np.zeros(losses.servers, dtype=dtype),
        ),
        work=ROUNDS * losses.entries,
        largest=4 * (total + 1) * unit,
    )
    price = np.array(leveled.price, dtype=dtype)
    envelope = np.concatenate((np.zeros(1, dtype=dtype), np.cumsum(np.sort(price))))
    lower: NDArray[Any] = -(-envelope // scale)
    # The dearest of any k servers costs at least the k-th smallest single-server cost.
    alone = instance.server_cost.astype(dtype).copy()
    np.add.at(
        alone,
        np.repeat(np.arange(losses.servers), np.diff(losses.server_start)),
        instance.weight.astype(dtype)[losses.server_jobs],
    )
    lower[1:] = np.maximum(lower[1:], np.sort(alone))
    lower[-1] = total
    return lower


def _best_division(parts: Sequence[_Part], picks: int) -> tuple[int, list[int]]:
    """Return the least sum of component bounds for `picks` servers, and the servers from each.

    Among equal divisions the choice ignores which points are known exactly. Time O(servers *
    picks); raises OutOfTimeError at the time limit.
    """
    dtype: Any = object if any(part.lower.dtype == object for part in parts) else np.int64
    no_way = sum(int(part.lower[-1]) for part in parts) + 1
    least = np.full(picks + 1, no_way, dtype=dtype)
    least[0] = 0
    taken = []
    for part in parts:
        better = np.full(picks + 1, no_way, dtype=dtype)
        count = np.zeros(picks + 1, dtype=np.int64)
        for servers in within_time(range(min(len(part.places), picks) + 1)):
            sums = least[: picks + 1 - servers] + part.lower[servers]
            is_better = sums < better[servers:]
            better[servers:][is_better] = sums[is_better]
            count[servers:][is_better] = servers
        least = better
        taken.append(count)
    division = []
    left = picks
    for count in reversed(taken):
        division.append(int(count[left]))
        left -= division[-1]
    return int(least[picks]), division[::-1]


def _connected_places(losses: Incidence) -> list[IntArray]:
    """Return the servers of each component; servers without shared jobs form one component."""
    job_start, job_servers = losses.job_start.tolist(), losses.job_servers.tolist()
    server_start, server_jobs = losses.server_start.tolist(), losses.server_jobs.tolist()
    seen_jobs: set[int] = set()
    groups = []
    separable = [s for s in range(losses.servers) if server_start[s] == server_start[s + 1]]
    if separable:
        groups.append(np.array(separable, dtype=np.int64))
    seen = set(separable)
    for first in range(losses.servers):
        if first in seen:
            continue
        seen.add(first)
        reached = [first]
        for server in reached:
            for job in server_jobs[server_start[server] : server_start[server + 1]]:
                if job in seen_jobs:
                    continue
                seen_jobs.add(job)
                for other in job_servers[job_start[job] : job_start[job + 1]]:
                    if other not in seen:
                        seen.add(other)
                        reached.append(other)
        groups.append(np.array(sorted(reached), dtype=np.int64))
    return groups


def _restricted(reduced: ReducedReclaim, places: IntArray) -> ReducedReclaim:
    """Return the part of a reduced instance that belongs to the servers of one component."""
    losses = reduced.losses
    number = np.full(losses.servers, -1)
    number[places] = np.arange(len(places))
    first_server = losses.job_servers[losses.job_start[:-1]]
    jobs = np.flatnonzero(number[first_server] >= 0)
    rows = np.repeat(np.isin(np.arange(losses.jobs), jobs), losses.span())
    return ReducedReclaim(
        servers=places,
        reclaim_servers=0,
        server_cost=reduced.server_cost[places],
        losses=Incidence.of_rows(
            np.concatenate(([0], np.cumsum(losses.span()[jobs]))).astype(np.int64),
            number[losses.job_servers[rows]],
            losses.job_counts[rows],
            len(places),
        ),
        slack=reduced.slack[jobs],
        weight=reduced.weight[jobs],
    )
