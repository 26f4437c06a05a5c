r"""Exact reclaiming for any slack: a tree over which jobs are kept and which are paid for.

The bound at a node is Lagrangian. Every job j asks a price p_js >= 0 for each of its servers, and
gives back what it cannot hold against a choice. For all choices X of N_R servers

.. math::
    f(X) \ge \min_{|X| = N_R} \sum_{s \in X} \Big(c_s + \sum_j p_{js}\Big)
    + \sum_j \min\Big(w_j - \sum_s p_{js}, \; -\max_{A : n_j(A) \le b_j} \sum_{s \in A} p_{js}\Big),

because a job that X preempts costs w_j and was asked at most all its prices, and one that it does
not preempt was asked the prices of a set that it survives. Prices are integers in a fine unit and
the right-hand side is computed in integers: any prices prove something, wherever they come from.

They come from steps along a subgradient at the root, then from a linear programme, solved in
floating point, over rows that are the convex hull of one job's alternatives, where these are
violated. The same prices decide jobs and servers whose other alternative would cost as much as the
incumbent.

Branching on a job is much stronger than branching on a server: paid for, its weight is counted
and its row disappears; kept, it forbids every server with more workers than it can still lose,
and its prices may rise without limit.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.result import StoppedBy
from lyra_opt.core.stopwatch import (
    BYTES_PER_MIB,
    OutOfTimeError,
    is_out_of_time,
    limit_reached,
    limits_in_force,
    remaining_s,
)
from lyra_opt.reclaim.exact.threshold.bound import NodeBound, ThresholdProblem, first_prices
from lyra_opt.reclaim.exact.threshold.kernels import (
    CHOSEN,
    FREE,
    KEPT,
    OPEN,
    PAID,
    SPARED,
    Dominance,
)
from lyra_opt.reclaim.exact.threshold.relaxation import Relaxation
from lyra_opt.reclaim.heuristics.tabu import search_by_swaps
from lyra_opt.reclaim.reduction import SearchResult, dominance_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lyra_opt.reclaim.reduction import ReducedReclaim


CANDIDATES = 8
RELIABLE_FROM = 4
"""Trials of a job after which its average gain is believed."""

LEAST_SHARE = 1e-4
"""Shares closer to 0 or 1 than this count as decided."""

LEAST_GAIN = 1e-3


@dataclass(frozen=True, slots=True)
class Decision:
    """A job to keep or pay for, or a server to choose or spare."""

    is_job: bool
    number: int

    def states(self) -> tuple[int, int]:
        """Return the two states that it may take."""
        return (KEPT, PAID) if self.is_job else (CHOSEN, SPARED)


class BranchingExperience:
    """How much the bound has risen when jobs were decided on (pseudo-costs).

    Source: reliability branching (Achterberg, Koch, Martin 2005). A gain is divided by how far the
    relaxation was from the decision; gains and their product are in weights.

    Parameters
    ----------
    jobs
        How many there are.
    """

    def __init__(self, jobs: int) -> None:
        self._gain = [[0.0, 0.0] for _ in range(jobs)]
        self._trials = [[0, 0] for _ in range(jobs)]

    def record(self, job: int, side: int, share: float, gain: float) -> None:
        """Learn what keeping (side 0) or paying for (1) a job gained where y was `share`."""
        distance = max(LEAST_GAIN, share if side == 0 else 1.0 - share)
        self._gain[job][side] += gain / distance
        self._trials[job][side] += 1

    def is_reliable(self, job: int) -> bool:
        """Whether the job was tried often enough on both sides."""
        return min(self._trials[job]) >= RELIABLE_FROM

    def expected(self, job: int, share: float) -> tuple[float, float]:
        """Return the gains to expect from keeping and from paying for the job."""
        means = []
        for side in range(2):
            gain, trials = self._gain[job][side], self._trials[job][side]
            if not trials:
                gain = sum(gains[side] for gains in self._gain)
                trials = sum(counts[side] for counts in self._trials)
            means.append(gain / trials if trials else 1.0)
        return means[0] * share, means[1] * (1.0 - share)

    def candidates(self, node: NodeBound, x: list[float], y: list[float]) -> list[Decision]:
        """Return what to try: open jobs that are neither kept nor paid for by y, best first.

        If there are none, servers with x closest to one half. At least one decision as long as
        a server is free.
        """
        undecided = [
            job
            for job in node.active_jobs
            if node.decided.job_state[job] == OPEN and LEAST_SHARE < y[job] < 1.0 - LEAST_SHARE
        ]
        if undecided:
            expected = {job: product(self.expected(job, y[job])) for job in undecided}
            undecided.sort(key=lambda job: (-expected[job], job))
            return [Decision(True, job) for job in undecided[:CANDIDATES]]
        free = [server for server, state in enumerate(node.decided.server_state) if state == FREE]
        free.sort(key=lambda server: (abs(x[server] - 0.5), server))
        return [Decision(False, server) for server in free[:CANDIDATES]]


def product(gains: tuple[float, float]) -> float:
    """Return the measure by which decisions are compared: both sides should gain."""
    return max(LEAST_GAIN, gains[0]) * max(LEAST_GAIN, gains[1])


STEPS_BETWEEN_CLOCK_READINGS = 50
LEAST_PROGRESS = 0.01
"""Weights that a round of new rows must gain, but for the first rounds, for another one."""

SPOILT_FROM = 0.01
"""Relative difference between the objective of the relaxation and the value of its prices from
which its basis counts as spoilt by rounding."""

MOVES_PER_SERVER_INTERPRETED = 2
RANDOM_STARTS = 2
NODES_WITH_SWAPS = 30
NODES_BETWEEN_SWAPS = 8

_BYTES_PER_PRICE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is done for one node: less of it makes worse bounds and more nodes.

    Parameters
    ----------
    root_steps, interpreted_root_steps, node_steps, trial_steps
        Steps along a subgradient: at the root, there where kernels run interpreted, at other
        nodes, and to try out one side of a decision. Only the first two where nodes have the
        relaxation instead.
    rounds_at_root, rounds_at_node
        Solutions of the relaxation, each but the first with new rows.
    pivots, trial_pivots
        Of one solution at most; a method that needs more goes round in circles.
    moves_per_server_at_root, moves_per_server_at_node
        Swaps from each choice that a bound suggests.
    """

    root_steps: int = 1_000
    interpreted_root_steps: int = 200
    node_steps: int = 100
    trial_steps: int = 20
    rounds_at_root: int = 30
    rounds_at_node: int = 5
    pivots: int = 10_000
    trial_pivots: int = 100
    moves_per_server_at_root: int = 100
    moves_per_server_at_node: int = 10


def search_thresholds(
    reduced: ReducedReclaim,
    incumbent: Sequence[int],
    *,
    rng: np.random.Generator,
    observer: Callable[[str, int | float], None] | None = None,
    effort: Effort = Effort(),
) -> SearchResult:
    """Return a best choice, or what is known of it at a limit.

    Parameters
    ----------
    reduced
        The instance, of either semantics: a rigid one has slack 0.
    incumbent
        A choice of ``reclaim_servers`` distinct places.
    rng
        For the swap search that is run from choices that the bound suggests.
    observer
        Called with ("objective", value) and ("dual_bound", value) at each improvement.
    effort
        How much is done for one node.

    Notes
    -----
    Source: this project; ``formulations/reclaim/README.md``. Complexity: exponential in the jobs
    on more than one server; a node takes O(entries + servers log servers) a step, and a
    few solutions of a linear programme. Guarantee: `bound` is proved in integers at any time, and
    equals the objective unless a limit was reached. The answer does not depend on the order of
    servers and jobs, as far as it is proved; the nodes do.
    """
    search = _Search(reduced, incumbent, rng, observer, effort)
    try:
        stopped_by = search.run()
    except OutOfTimeError:
        stopped_by = StoppedBy.TIME
    return search.result(stopped_by)


@dataclass(frozen=True, slots=True)
class _OpenNode:
    """What is kept of a node until its turn: states as bytes, prices only where steps need them."""

    value: int
    server_state: Any
    job_state: Any
    prices: Any

    def memory(self) -> int:
        """Return the bytes that it takes."""
        prices = 0 if self.prices is None else len(self.prices)
        return len(self.server_state) + len(self.job_state) + _BYTES_PER_PRICE * prices


class _Search:
    """The tree; objectives and bounds are over the problem's divisor until they are reported."""

    def __init__(
        self,
        reduced: ReducedReclaim,
        incumbent: Sequence[int],
        rng: np.random.Generator,
        observer: Callable[[str, int | float], None] | None,
        effort: Effort,
    ) -> None:
        self._reduced, self._effort = reduced, effort
        self._rng, self._observer = rng, observer
        self._problem = ThresholdProblem.of(reduced, incumbent)
        self._best = sorted(int(place) for place in incumbent)
        self._objective = self._problem.objective(self._best)
        self._bound = 0
        self._nodes = 0
        self._heap: list[tuple[int, int, _OpenNode]] = []
        self._pushed = 0
        self._memory = 0
        self._relaxation: Relaxation | None = None
        self._experience = BranchingExperience(reduced.losses.jobs)
        self._dominance = Dominance.of([])

    def run(self) -> StoppedBy | None:
        """Search, and return the limit that ended it."""
        stopped_by = limit_reached(nodes=0, memory_bytes=0)
        if stopped_by is not None or self._bound >= self._objective:
            return None if self._bound >= self._objective else stopped_by
        self._open_root()
        while self._heap:
            self._report_bound(self._heap[0][0])
            if self._bound >= self._objective:
                break
            stopped_by = limit_reached(nodes=self._nodes, memory_bytes=self._memory)
            if stopped_by is not None:
                return stopped_by
            bound, _, node = heapq.heappop(self._heap)
            self._memory -= node.memory()
            self._branch(bound, node)
        self._report_bound(self._objective)
        return None

    def result(self, stopped_by: StoppedBy | None) -> SearchResult:
        """Return what is known."""
        divisor = self._problem.divisor
        return SearchResult(
            places=self._best,
            objective=self._objective * divisor,
            bound=min(self._bound, self._objective) * divisor,
            nodes=self._nodes,
            stopped_by=stopped_by,
        )

    @property
    def _threshold(self) -> int:
        """What a node must prove more than, in the unit of prices, to hold nothing better."""
        return (self._objective - 1) * self._problem.unit

    def _offer(self, places: Sequence[int]) -> None:
        objective = self._problem.objective(places)
        if objective < self._objective:
            self._objective, self._best = objective, sorted(places)
            if self._observer is not None:
                self._observer("objective", objective * self._problem.divisor)

    def _report_bound(self, bound: int) -> None:
        bound = min(bound, self._objective)
        if bound > self._bound:
            self._bound = bound
            if self._observer is not None:
                self._observer("dual_bound", bound * self._problem.divisor)

    def _open_root(self) -> None:
        """Bound the root by steps, look for a better choice, then bound it by the relaxation."""
        problem = self._problem
        self._nodes += 1
        root = NodeBound(
            problem,
            self._dominance,
            np.zeros(problem.servers, dtype=np.int64),
            np.zeros(problem.losses.jobs, dtype=np.int64),
            first_prices(problem),
        )
        effort = self._effort
        steps = effort.root_steps if root.is_compiled else effort.interpreted_root_steps
        if self._raise_by_steps(root, steps):
            self._report_bound(problem.bound_of(root.value))
            self._swap([self._best, root.choice(), *self._random_choices()], is_root=True)
            if not is_out_of_time():
                self._respect_dominance(root)
        if self._is_done(root):
            return
        if self._can_relax(root):
            self._relaxation = Relaxation(problem, root)
            self._memory += Relaxation.bytes_of(problem)
            if not self._raise_by_relaxation(root, effort.rounds_at_root):
                return
        self._push(root)

    def _respect_dominance(self, root: NodeBound) -> None:
        """From now on look only for choices that respect dominance; some best one does."""
        self._dominance = Dominance.of(dominance_pairs(self._reduced))
        root.set_dominance(self._dominance)
        root.propagate()

    def _can_relax(self, root: NodeBound) -> bool:
        """Whether the relaxation is worth its while and fits into memory."""
        memory_mib = limits_in_force().memory_mib
        needed = Relaxation.bytes_of(self._problem)
        return root.is_large and (memory_mib is None or 2 * needed <= memory_mib * BYTES_PER_MIB)

    def _random_choices(self) -> list[list[int]]:
        servers, wanted = self._problem.servers, self._problem.reclaim_servers
        return [
            sorted(self._rng.permutation(servers)[:wanted].tolist()) for _ in range(RANDOM_STARTS)
        ]

    def _swap(self, starts: Sequence[Sequence[int]], *, is_root: bool) -> None:
        """Look for a better choice near some others."""
        effort = self._effort
        moves = effort.moves_per_server_at_root if is_root else effort.moves_per_server_at_node
        if self._problem.is_huge:
            moves = MOVES_PER_SERVER_INTERPRETED
        found = search_by_swaps(
            self._reduced,
            starts,
            moves_per_start=moves * self._problem.servers,
            rng=self._rng,
            bound=self._bound * self._problem.divisor,
        )
        self._offer(found.places)

    def _is_done(self, node: NodeBound) -> bool:
        """Whether nothing better than the incumbent is left below a node."""
        if not node.is_feasible or node.value > self._threshold:
            return True
        if node.decided.free == 0:
            self._offer(node.choice())
            return True
        return False

    def _push(self, node: NodeBound, parent_bound: int = 0) -> None:
        bound = max(self._problem.bound_of(node.value), parent_bound)
        if bound >= self._objective:
            return
        kept = _OpenNode(
            value=node.value,
            server_state=np.array(node.decided.server_state, dtype=np.int8),
            job_state=np.array(node.decided.job_state, dtype=np.int8),
            prices=np.array(node.prices) if self._relaxation is None else None,
        )
        self._pushed += 1
        self._memory += kept.memory()
        # Among equal bounds the newest first: deep nodes are few at a time, and give choices.
        heapq.heappush(self._heap, (bound, -self._pushed, kept))

    def _node(self, opened: _OpenNode | NodeBound, server_state: Any, job_state: Any) -> NodeBound:
        """Return a node with other states but what is known of `opened`."""
        prices = opened.prices
        if prices is None:
            prices = np.zeros(self._problem.losses.entries, dtype=np.int64)
        return NodeBound(
            self._problem, self._dominance, server_state, job_state, prices, opened.value
        )

    def _raise_by_steps(self, node: NodeBound, steps: int) -> bool:
        """Raise the bound and decide by it, over again where that decided much.

        Returns whether the node is still open.
        """
        while not self._is_done(node):
            before = node.open_decisions
            for _ in range(-(-steps // STEPS_BETWEEN_CLOCK_READINGS)):
                target = self._threshold + self._problem.unit // 16 + 1
                node.take_steps(min(steps, STEPS_BETWEEN_CLOCK_READINGS), self._threshold, target)
                if node.value > self._threshold or node.has_settled or is_out_of_time():
                    break
            decisions = node.fix(self._threshold)
            self._offer(node.choice())
            if decisions:
                node.propagate()
            if self._is_done(node):
                return False
            if 10 * (before - node.open_decisions) <= before or is_out_of_time():
                return True
        return False

    def _raise_by_relaxation(self, node: NodeBound, rounds: int) -> bool:
        """Solve the relaxation, decide by its prices, add rows, over again while that helps.

        Returns whether the node is still open.
        """
        relaxation = self._relaxation
        assert relaxation is not None
        before = -1.0
        for number in range(rounds):
            decisions, objective = self._decide_by_relaxation(node, self._effort.pivots)
            self._offer(self._rounded(node))
            self._offer(node.choice())
            if decisions:
                node.propagate()
            if self._is_done(node):
                return False
            progress = objective - before
            before = objective
            if is_out_of_time():
                break
            if not relaxation.is_optimal:
                if decisions:
                    continue
                break
            if not relaxation.add_rows() and not decisions:
                break
            if number > 2 and progress < LEAST_PROGRESS * self._problem.typical_weight:
                break
        return True

    def _decide_by_relaxation(self, node: NodeBound, pivots: int) -> tuple[int, float]:
        """Value the prices of the relaxation; return the decisions, and its objective."""
        relaxation = self._relaxation
        assert relaxation is not None
        objective = relaxation.climb(node, self._threshold, remaining_s(), pivots)
        before = node.value
        node.value = 0
        decisions = node.fix(self._threshold, relaxation.prices())
        proved = node.value / self._problem.unit
        node.value = max(before, node.value)
        if relaxation.is_optimal and not proved >= objective * (1 - SPOILT_FROM) - 1:
            relaxation.forget()
        return decisions, objective

    def _rounded(self, node: NodeBound) -> list[int]:
        """Return the choice of the servers with the largest x."""
        assert self._relaxation is not None
        x, _ = self._relaxation.shares()
        state = [int(state) for state in node.decided.server_state]
        # Chosen (1) before free (0), spared (2) last.
        order = sorted(range(len(x)), key=lambda s: ((1, 0, 2)[state[s]], -x[s], s))
        return sorted(order[: self._problem.reclaim_servers])

    def _branch(self, bound: int, opened: _OpenNode) -> None:
        """Bound a node, and open the two below it."""
        self._nodes += 1
        node = self._node(opened, opened.server_state, opened.job_state)
        if self._relaxation is None:
            is_open = self._raise_by_steps(node, self._effort.node_steps)
            x, y = node.shares()
        else:
            is_open = not self._is_done(node) and self._raise_by_relaxation(
                node, self._effort.rounds_at_node
            )
            x, y = self._relaxation.shares()
        if not is_open:
            return
        if self._nodes <= NODES_WITH_SWAPS or self._nodes % NODES_BETWEEN_SWAPS == 0:
            self._swap([node.choice()], is_root=False)
            if self._is_done(node):
                return
        if is_out_of_time():
            self._push(node, bound)
            return
        for side in self._best_sides(node, x, y):
            if not self._is_done(side):
                self._push(side, bound)

    def _best_sides(self, node: NodeBound, x: list[float], y: list[float]) -> list[NodeBound]:
        """Return the nodes below, the one to be looked at first last.

        Of the candidates that experience knows little of, both sides are tried out. Where one of
        them holds nothing better than the incumbent the other is the only one.
        """
        problem = self._problem
        best: tuple[float, Decision, list[NodeBound]] | None = None
        for decision in self._experience.candidates(node, x, y):
            sides: list[NodeBound] = []
            number = decision.number
            if decision.is_job and self._experience.is_reliable(number):
                gains = self._experience.expected(number, y[number])
            else:
                sides = [self._tried(node, decision, state) for state in decision.states()]
                is_done = [self._is_done(side) for side in sides]
                if any(is_done) or is_out_of_time():
                    return [side for side in sides if not self._is_done(side)]
                rises = [(side.value - node.value) / problem.unit for side in sides]
                gains = rises[0], rises[1]
                if decision.is_job:
                    for side, rise in enumerate(rises):
                        self._experience.record(number, side, y[number], rise)
            score = product(gains)
            if best is None or score > best[0]:
                best = score, decision, sides
        assert best is not None, "a node with free servers has a decision to take"
        sides = best[2] or [self._decided(node, best[1], state) for state in best[1].states()]
        return sorted(sides, key=lambda side: -side.value)

    def _decided(self, node: NodeBound, decision: Decision, state: int) -> NodeBound:
        server_state = np.array(node.decided.server_state, dtype=np.int64)
        job_state = np.array(node.decided.job_state, dtype=np.int64)
        (job_state if decision.is_job else server_state)[decision.number] = state
        return self._node(node, server_state, job_state)

    def _tried(self, node: NodeBound, decision: Decision, state: int) -> NodeBound:
        """Return the node below for one side of a decision, bounded with little effort."""
        side = self._decided(node, decision, state)
        if self._is_done(side):
            return side
        if self._relaxation is None:
            target = self._threshold + self._problem.unit // 16 + 1
            side.take_steps(self._effort.trial_steps, self._threshold, target)
            decisions = side.fix(self._threshold)
        else:
            decisions, _ = self._decide_by_relaxation(side, self._effort.trial_pivots)
        if decisions:
            side.propagate()
        return side
