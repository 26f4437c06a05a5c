r"""Branch and bound for jobs with any slack: decide which jobs survive and which are preempted.

The bound at a node is Lagrangian. Every job j charges a price p_js >= 0 for each of its servers,
and gives back the prices of servers that it survives. For all choices X of N_R servers

.. math::
    f(X) \ge \min_{|X| = N_R} \sum_{s \in X} \Big(c_s + \sum_j p_{js}\Big)
    + \sum_j \min\Big(w_j - \sum_s p_{js}, \; -\max_{A : n_j(A) \le b_j} \sum_{s \in A} p_{js}\Big),

because a job that X preempts costs w_j and charges at most all its prices, and a job that X does
not preempt charges the prices of a set that it survives. Prices are integers in a fine unit and the
right-hand side is computed in integers, so any prices prove a valid bound.

The prices come from subgradient steps at the root, then from a linear programme that is solved in
floating point. Its rows describe the convex hull of the alternatives of one job and are added where
they are violated. The same prices fix the jobs and servers whose other alternative would cost at
least as much as the incumbent.

Branching on a job is much stronger than branching on a server. If the job is preempted (paid for),
its weight is counted and its row disappears. If it survives (is kept), it excludes every server
with more workers than it can still lose, and its prices may rise without limit.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

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
from lyra_opt.reclaim.reduction import ReducedReclaim, SearchResult, dominance_pairs

CANDIDATES = 8
RELIABLE_FROM = 4
"""Number of trials of a job after which its average gain is considered reliable."""

LEAST_SHARE = 1e-4
"""Fractional values closer to 0 or 1 than this count as integral."""

LEAST_GAIN = 1e-3


@dataclass(frozen=True, slots=True)
class Decision:
    """A branching decision: a job survives or is preempted, or a server is chosen or excluded."""

    is_job: bool
    number: int

    def states(self) -> tuple[int, int]:
        """Return the states of the two branches, such as kept and paid for a job."""
        return (KEPT, PAID) if self.is_job else (CHOSEN, SPARED)


class BranchingExperience:
    """The average bound gains of earlier decisions about each job (pseudo-costs).

    Source: reliability branching (Achterberg, Koch, Martin 2005). A gain is divided by the distance
    of the relaxation from the decision. Gains are in weights.

    Parameters
    ----------
    jobs
        Number of jobs.
    """

    def __init__(self, jobs: int) -> None:
        self._gain = [[0.0, 0.0] for _ in range(jobs)]
        self._trials = [[0, 0] for _ in range(jobs)]

    def record(self, job: int, side: int, share: float, gain: float) -> None:
        """Record the bound gain when a job with y = `share` survives (0) or is preempted (1)."""
        distance = max(LEAST_GAIN, share if side == 0 else 1.0 - share)
        self._gain[job][side] += gain / distance
        self._trials[job][side] += 1

    def is_reliable(self, job: int) -> bool:
        """Whether a job has enough trials of both branches for a reliable average gain."""
        return min(self._trials[job]) >= RELIABLE_FROM

    def expected(self, job: int, share: float) -> tuple[float, float]:
        """Return the expected bound gains if the job survives and if it is preempted."""
        means = []
        for side in range(2):
            gain, trials = self._gain[job][side], self._trials[job][side]
            if not trials:
                gain = sum(gains[side] for gains in self._gain)
                trials = sum(counts[side] for counts in self._trials)
            means.append(gain / trials if trials else 1.0)
        return means[0] * share, means[1] * (1.0 - share)

    def candidates(self, node: NodeBound, x: list[float], y: list[float]) -> list[Decision]:
        """Return the decisions to try: open jobs with fractional y, the most promising first.

        If no such job exists, the candidates are the free servers with x closest to one half.
        The list is not empty as long as a server is free.
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
    """Return the score of a decision: the product of its two gains, each at least LEAST_GAIN."""
    return max(LEAST_GAIN, gains[0]) * max(LEAST_GAIN, gains[1])


STEPS_BETWEEN_CLOCK_READINGS = 50
LEAST_PROGRESS = 0.01
"""Least gain of a round of new rows, in mean job weights, for another round (after three)."""

SPOILT_FROM = 0.01
"""The basis counts as spoilt by rounding if the value of the prices is below the objective of the
relaxation by more than this, relatively."""

MOVES_PER_SERVER_INTERPRETED = 2
RANDOM_STARTS = 2
NODES_WITH_SWAPS = 30
NODES_BETWEEN_SWAPS = 8

_BYTES_PER_PRICE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The effort spent on each node; less effort gives weaker bounds and more nodes.

    Parameters
    ----------
    root_steps, interpreted_root_steps, node_steps, trial_steps
        Subgradient steps: at the root, at the root if kernels run interpreted, at other nodes, and
        to try one side of a decision. The last two are used only without the relaxation.
    rounds_at_root, rounds_at_node
        Solutions of the relaxation, with new rows before each one but the first.
    pivots, trial_pivots
        Most pivots of one solution; a solution that needs more is cycling.
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
    """Search for an optimal choice by branch and bound; return the incumbent and the bound.

    Parameters
    ----------
    reduced
        The instance, of either semantics; a rigid instance has slack 0.
    incumbent
        A choice of ``reclaim_servers`` distinct places.
    rng
        For the swap search from choices that the bound suggests.
    observer
        Called with ("objective", value) and ("dual_bound", value) at each improvement.
    effort
        The effort spent on each node.

    Notes
    -----
    Source: this project; ``formulations/reclaim/README.md``. Complexity: exponential in the jobs on
    more than one server; a node takes O(entries + servers log servers) per step, and a few
    solutions of a linear programme. Guarantee: `bound` is proved in integers at any time, and
    equals the objective unless a limit was reached. The proved values do not depend on the order of
    servers and jobs; the nodes do.
    """
    search = _Search(reduced, incumbent, rng, observer, effort)
    try:
        stopped_by = search.run()
    except OutOfTimeError:
        stopped_by = StoppedBy.TIME
    return search.result(stopped_by)


@dataclass(frozen=True, slots=True)
class _OpenNode:
    """The data stored for an open node: its bound, its states as bytes, and prices if needed."""

    value: int
    server_state: Any
    job_state: Any
    prices: Any

    def memory(self) -> int:
        """Return the memory of the node in bytes."""
        prices = 0 if self.prices is None else len(self.prices)
        return len(self.server_state) + len(self.job_state) + _BYTES_PER_PRICE * prices


class _Search:
    """The state of a branch and bound, with objectives and bounds divided by the common divisor."""

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
        """Search until the tree is complete or a limit is reached; return the limit, or None."""
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
        """Return the incumbent and the bound as a `SearchResult`."""
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
        """The largest bound, in the unit of prices, that a node worth exploring can have."""
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
        """Bound the root by subgradient steps, improve the incumbent, then solve the relaxation."""
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
        """Restrict the search to choices that respect dominance; some optimal choice does."""
        self._dominance = Dominance.of(dominance_pairs(self._reduced))
        root.set_dominance(self._dominance)
        root.propagate()

    def _can_relax(self, root: NodeBound) -> bool:
        """Whether the instance is large enough for the relaxation and memory suffices."""
        memory_mib = limits_in_force().memory_mib
        needed = Relaxation.bytes_of(self._problem)
        return root.is_large and (memory_mib is None or 2 * needed <= memory_mib * BYTES_PER_MIB)

    def _random_choices(self) -> list[list[int]]:
        servers, wanted = self._problem.servers, self._problem.reclaim_servers
        return [
            sorted(self._rng.permutation(servers)[:wanted].tolist()) for _ in range(RANDOM_STARTS)
        ]

    def _swap(self, starts: Sequence[Sequence[int]], *, is_root: bool) -> None:
        """Run the tabu search from `starts` and update the incumbent."""
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
        """Whether no choice below the node can be better than the incumbent."""
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
        # Among nodes with equal bounds, the newest is next: deep nodes yield solutions soonest.
        heapq.heappush(self._heap, (bound, -self._pushed, kept))

    def _node(self, opened: _OpenNode | NodeBound, server_state: Any, job_state: Any) -> NodeBound:
        """Return a node with given decisions that starts from the prices and bound of `opened`."""
        prices = opened.prices
        if prices is None:
            prices = np.zeros(self._problem.losses.entries, dtype=np.int64)
        return NodeBound(
            self._problem, self._dominance, server_state, job_state, prices, opened.value
        )

    def _raise_by_steps(self, node: NodeBound, steps: int) -> bool:
        """Alternate subgradient steps and reduced-cost fixing until little is fixed.

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
        """Alternate solving the relaxation, reduced-cost fixing and adding cuts while that helps.

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
        """Solve the relaxation and fix by reduced costs; return the number fixed and LP value."""
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
        """Return the servers with the largest values x in the relaxation, as a choice."""
        assert self._relaxation is not None
        x, _ = self._relaxation.shares()
        state = [int(state) for state in node.decided.server_state]
        # Sort chosen servers (state 1) first, then free (0), then excluded servers (2).
        order = sorted(range(len(x)), key=lambda s: ((1, 0, 2)[state[s]], -x[s], s))
        return sorted(order[: self._problem.reclaim_servers])

    def _branch(self, bound: int, opened: _OpenNode) -> None:
        """Bound a node and push its open children."""
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
        """Return the child nodes of the best branching decision, the least bound last.

        Both sides of a candidate are tried out unless earlier gains of the candidate are reliable.
        If one side holds no better choice than the incumbent, the other side is the only child.
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
        """Return the child for one side of a branching decision, bounded with little effort."""
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
