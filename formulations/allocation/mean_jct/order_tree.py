"""Exact branch and bound for mean JCT: branch on the order of events, bound by dual prices.

A checker can prove the bound again from the tree alone: `lyra_opt.proofs.order_stand_alone`.
"""

import heapq
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from lyra_opt.allocation.clock_times import from_first_release
from lyra_opt.allocation.exact.mean_jct.orders import (
    Event,
    Kind,
    OrderData,
    OrderSolution,
    replay,
    schedule_of,
)
from lyra_opt.allocation.exact.mean_jct.solver import best_priority_schedule
from lyra_opt.allocation.instance import Instance, Objective, Schedule
from lyra_opt.allocation.schedules.evaluator import mean_jct_s
from lyra_opt.core.documents import JsonObject
from lyra_opt.core.result import Limits, SolveResult, Status, StoppedBy
from lyra_opt.core.solver import Observer, Solver
from lyra_opt.core.stopwatch import OutOfTimeError, limit_reached, require_time
from lyra_opt.core.trajectory import Improvements
from lyra_opt.formulations.allocation.mean_jct.glop_programme import GlopProgramme, Point
from lyra_opt.formulations.allocation.mean_jct.partial_orders import (
    OrderPriceBound,
    PartialOrder,
    Prices,
    WholeNumbers,
    tail_of,
)

PRUNING_GAP = Fraction(1, 2 * 10**6)
"""The relative improvement that a branch must promise to be explored."""
BYTES_PER_EVENT, BYTES_PER_NODE = 64, 512


class OrderTree(Solver):
    """Exact solver for mean JCT: a search tree over orders of events, pruned by integer prices.

    The search is best-first. A node is the beginning of an order of completions and releases.
    Starts stay open until the order is complete; then the starts become events one at a time, with
    one child per interval in which the job may start. A node is pruned by prices of work alone.
    GLOP suggests the prices, but the bound that they prove is computed in integers and holds for
    any prices.

    Notes
    -----
    Source: this project; ``formulations/allocation/README.md``, section 13. Complexity:
    exponential; O(n^2) columns and O(n^2 log n) integer operations per node.
    """

    name = "order-tree"
    problem = "allocation"
    variants = (Objective.MEAN_JCT,)
    exact_variants = variants
    gives_bound = True
    engine = "glop"
    modules = ("ortools.linear_solver.python.model_builder_helper", "scipy.sparse")

    @from_first_release
    def solve(
        self,
        instance: Instance,
        *,
        limits: Limits,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        warm_start: Schedule | None = None,
        observer: Observer | None = None,
    ) -> SolveResult[Schedule]:
        """Prove the optimal mean JCT, or return the best schedule and bound within the limits."""
        self.load()
        return OrderSearch(instance, warm_start, observer).run()

    def proof_trees(self, instance: Instance, solution: Schedule) -> Iterator[JsonObject]:
        """Run the search within the time limit; yield its tree, with fewer bits in prices first.

        Trees are keys of a proof file.
        """
        self.load()
        search = OrderSearch(instance, solution, None)
        search.tree = {}
        search.run()
        if search.open and search.open[0].bound < search.threshold:
            raise OutOfTimeError
        yield from (_tree_of(search, bits) for bits in FRACTION_BITS)


class Branched(NamedTuple):
    """An inner node of the search tree: the decision that it branches on, and its children.

    Parameters
    ----------
    job
        The job whose start was decided; None if the next event was decided.
    children
        The orders of the child nodes.
    """

    job: int | None
    children: tuple[tuple[Event, ...], ...]


class _Node(NamedTuple):
    bound: Fraction
    """A lower bound on the sum of completion times, in ticks."""
    depth: int
    serial: int
    events: tuple[Event, ...]
    prices: Prices | None
    branch: tuple[int, tuple[int, ...]] | None
    """For a complete order, the job whose start is decided next and its possible intervals."""


class OrderSearch:
    """The state of one run of the branch-and-bound solver `OrderTree` on one instance."""

    def __init__(
        self, instance: Instance, warm_start: Schedule | None, observer: Observer | None
    ) -> None:
        self.instance = instance
        self.observer = None if observer is None else Improvements(observer, instance.objective)
        self.numbers = WholeNumbers(instance)
        self.priced = OrderPriceBound(self.numbers)
        self.programme = GlopProgramme(self.numbers)
        self.data = OrderData(instance)
        self.releases = sum(self.numbers.release)
        self.of_heights = Fraction(self.releases + sum(self.numbers.height))
        self.nodes = self.serial = 0
        self.open: list[_Node] = []
        self.memory = 0
        self.tried: set[tuple[Event, ...]] = set()
        self.tree: dict[tuple[Event, ...], Branched | Prices] | None = None
        """The branching or the prices of each order; None unless a certificate is wanted."""
        self.left: Fraction | None = None
        """The least bound of the branches that promise too little to be explored."""
        self.schedule = warm_start or best_priority_schedule(instance)
        self.objective = mean_jct_s(instance, self.schedule)
        self.tell("objective", self.objective, self.schedule)

    def tell(self, kind: str, value: float, solution: Schedule | None = None) -> None:
        """Report an objective or a dual bound to the observer, if there is one."""
        if self.observer is not None:
            self.observer(kind, value, solution)

    @property
    def threshold(self) -> Fraction:
        """The sum of completion times, in ticks: branches with at least this bound are pruned."""
        mean_s = Fraction(self.objective) * (1 - PRUNING_GAP)
        return mean_s * self.numbers.ticks * self.numbers.jobs + self.releases

    def as_mean(self, bound: Fraction) -> float:
        """Convert a bound on the sum of completion times, in ticks, to one on mean JCT, in seconds.

        The result is rounded down.
        """
        mean_s = (bound - self.releases) / (self.numbers.ticks * self.numbers.jobs)
        found = float(mean_s)
        return max(0.0, found if found <= mean_s else math.nextafter(found, -math.inf))

    def run(self) -> SolveResult[Schedule]:
        """Run the search within the limits in force, and return the best schedule and bound."""
        stopped_by: StoppedBy | None = None
        try:
            require_time()
            # A certificate needs prices at the root, so least run times must not prune the root.
            self.add((), self.of_heights if self.tree is None else Fraction(0), None)
            stopped_by = self.search()
        except OutOfTimeError:
            stopped_by = StoppedBy.TIME
        bound = min(self.as_mean(self.lowest()), self.objective)
        self.tell("dual_bound", bound)
        proved = self.objective - bound <= Objective.MEAN_JCT.proof_gap * self.objective
        message = None
        if not proved and stopped_by is None:
            message = (
                f"the search finished with the bound {bound}, which is outside the proof gap: "
                "some orders differ too little"
            )
        return SolveResult(
            status=Status.OPTIMAL if proved else Status.FEASIBLE,
            stopped_by=None if proved else stopped_by,
            solution=self.schedule,
            objective=self.objective,
            dual_bound=bound,
            counters={"nodes": self.nodes, "programmes": self.programme.solved},
            message=message,
        )

    def lowest(self) -> Fraction:
        """Return a lower bound, in ticks, on the sum of completion times of any better schedule."""
        found = [node.bound for node in self.open[:1]]
        if self.left is not None:
            found.append(self.left)
        if not self.serial:
            return self.of_heights  # the root has no bound yet
        return min(found, default=self.threshold)

    def out_of_limits(self) -> StoppedBy | None:
        """Return the limit (time, nodes or memory) that the search has reached, or None."""
        return limit_reached(nodes=self.nodes, memory_bytes=self.memory)

    def search(self) -> StoppedBy | None:
        """Explore open nodes, best bound first; return the limit that stopped it, or None."""
        while self.open and self.open[0].bound < self.threshold:
            stopped_by = self.out_of_limits()
            if stopped_by is not None:
                return stopped_by
            self.tell("dual_bound", self.as_mean(min(self.lowest(), self.threshold)))
            node = heapq.heappop(self.open)
            self.memory -= _memory_of(node)
            self.nodes += 1
            children = tuple(self.children(node))
            if self.tree is not None:
                job = None if node.branch is None else node.branch[0]
                self.tree[node.events] = Branched(job, children)
            try:
                for events in children:
                    require_time()
                    self.add(events, node.bound, node.prices)
            except OutOfTimeError:
                heapq.heappush(self.open, node)  # some of its children may be in the heap too
                raise
        return None

    def children(self, node: _Node) -> Iterator[tuple[Event, ...]]:
        """Yield the child orders of a node, which cover all its schedules up to symmetry."""
        if node.branch is not None:
            job, places = node.branch
            for place in places:
                yield (*node.events[:place], Event(Kind.START, job), *node.events[place:])
            return
        order = PartialOrder(self.numbers, node.events)
        if order.next_release is not None:
            yield (*node.events, Event(Kind.RELEASE, order.released))
        alike = self.numbers.yields_to
        for job in order.following:
            if not order.waits_for_release(job) and not any(
                alike(other, job) for other in order.following if other != job
            ):
                yield (*node.events, Event(Kind.COMPLETION, job))

    def add(self, events: tuple[Event, ...], least: Fraction, prices: Prices | None) -> None:
        """Compute the bound of a new node, and keep the node open unless the bound prunes it."""
        order = PartialOrder(self.numbers, events)
        if not order.is_possible:
            return
        tail = tail_of(order) if order.following else None
        shown, branch = Fraction(0), None
        if prices is not None:  # the parent's prices cost nothing to try
            shown = self.priced.bound(order, prices, tail)
        if max(least, shown) < self.threshold:
            point = self.programme.solve(order, tail)
            if point is not None:
                found = self.priced.prices(order, point.shares, tail)
                value = self.priced.bound(order, found, tail)
                if prices is None or value > shown:
                    shown, prices = value, found
            if tail is None:
                if point is not None:
                    self.try_suggested(order, point)
                branch = _branch(order, point)
        bound = max(least, shown)
        if self.tree is not None and prices is not None:
            self.tree[events] = prices
        self.serial += 1
        if bound >= self.threshold or (tail is None and branch is None):
            self.left = bound if self.left is None else min(self.left, bound)
            return
        node = _Node(bound, -len(events), self.serial, events, prices, branch)
        self.memory += _memory_of(node)
        heapq.heappush(self.open, node)

    def try_suggested(self, order: PartialOrder, point: Point) -> None:
        """Try two complete orders, with undecided starts as late or as early as an LP suggests."""
        for early in (False, True):
            events = _with_starts(order, point, early=early)
            if events in self.tried:
                continue
            self.tried.add(events)
            self.memory += BYTES_PER_NODE + BYTES_PER_EVENT * len(events)
            full = order
            if len(events) > len(order.events):
                full = PartialOrder(self.numbers, events)
                if not full.is_possible:
                    continue
                found = self.programme.solve(full, None)
                if found is None:
                    continue
                point = found
            self.take(full, point)

    def take(self, order: PartialOrder, point: Point) -> None:
        """Build the schedule of a complete order; keep it if it is better than the incumbent."""
        most = np.array(self.numbers.extra, dtype=float)[:, None] / self.numbers.gpus
        scale = self.programme.unit / self.numbers.ticks / self.data.unit_s
        share = np.divide(point.extra, most, out=np.zeros_like(point.extra), where=most > 0)
        solution = OrderSolution(
            bound=0.0,
            value=0.0,
            lengths=point.lengths * scale,
            run=point.run * scale,
            extra=share * scale,
            is_open=np.zeros(point.run.shape, dtype=bool),
        )
        in_units = replay(self.data, order.events, solution)
        if in_units is None:
            return
        schedule = schedule_of(self.instance, self.data, in_units)
        objective = mean_jct_s(self.instance, schedule)
        if objective < self.objective:
            self.objective, self.schedule = objective, schedule
            self.tell("objective", objective, schedule)


def _memory_of(node: _Node) -> int:
    jobs = 0 if node.prices is None else len(node.prices.work)
    return BYTES_PER_NODE + BYTES_PER_EVENT * (len(node.events) + 4 * jobs)


def _branch(order: PartialOrder, point: Point | None) -> tuple[int, tuple[int, ...]] | None:
    """Return the job with undecided start that an LP solution interrupts most, and its intervals.

    None if all starts are known.
    """
    jobs = order.open_jobs
    if not jobs:
        return None

    def split(job: int) -> float:
        if point is None:
            return 0.0
        places = slice(order.first[job], order.last[job] + 1)
        run, lengths = point.run[job, places], point.lengths[places]
        before = np.concatenate([[0.0], np.cumsum(run)[:-1]])
        missing = lengths - run
        splits = np.minimum(missing, before) + 1e-3 * np.minimum(missing, run)
        return float(splits.max())

    job = max(jobs, key=lambda each: (split(each), -each))
    return job, tuple(range(order.first[job], order.last[job] + 1))


def _with_starts(order: PartialOrder, point: Point, *, early: bool) -> tuple[Event, ...]:
    """Insert a start event for each job with undecided start, where an LP solution suggests it."""
    ends = np.cumsum(point.lengths)
    begins = ends - point.lengths
    starts = []
    for job in order.open_jobs:
        first, last = order.first[job], order.last[job]
        run = point.run[job, first : last + 1]
        time = float(ends[last] - run.sum())
        positive = np.flatnonzero(run > 1e-9)
        if early and len(positive):
            place = first + int(positive[0])
            time = float(ends[place] - point.run[job, place])
        place = int(np.searchsorted(ends, time + 1e-9, side="right"))
        place = min(max(place, first), last)
        starts.append((place, max(time, float(begins[place])), job))
    found: list[Event] = []
    starts.sort()
    for place, event in enumerate(order.events):
        found.extend(Event(Kind.START, job) for at, _, job in starts if at == place)
        found.append(event)
    return tuple(found)


FRACTION_BITS = 24, 60
"""Bits of the prices in proofs. Fewer bits make smaller files, and weaker bounds: 24 are too few if
one job has a thousandth of the work of another.
"""


def _tree_of(search: OrderSearch, bits: int) -> JsonObject:
    """Return a finished search tree as keys of a proof, each node before its children."""
    nodes: list[JsonObject] = []
    lists: dict[tuple[int, ...], int] = {}
    waiting: list[tuple[Event, ...]] = [()]
    assert search.tree is not None, "the search kept its tree"
    while waiting:
        events = waiting.pop()
        order = PartialOrder(search.numbers, events)
        if not order.is_possible:
            continue
        node = search.tree[events]
        if isinstance(node, Branched):
            nodes.append({"next": True} if node.job is None else {"start": node.job})
            waiting.extend(reversed(node.children))
        else:
            prices = search.priced.lowered(order, node, tail_of(order) if order.following else None)
            row = _rounded(search.priced, prices, bits)
            nodes.append({"prices": lists.setdefault(row, len(lists))})
    return {"denominator": 1 << bits, "prices": list(map(list, lists)), "nodes": nodes}


def _rounded(priced: OrderPriceBound, prices: Prices, bits: int) -> tuple[int, ...]:
    """Return prices as in proofs, rounded down: work and the three shares, job by job."""
    numbers, one, found = priced.numbers, 1 << priced.bits, []
    for job in range(numbers.jobs):
        busy = Fraction(prices.decay[job] * numbers.area[job], one)
        top = Fraction(numbers.top_rate[job], 1 << numbers.yield_bits)
        height = max(Fraction(0), Fraction(prices.rest[job], one) * top - busy / 2)
        work, after = (Fraction(of[job], one) for of in (prices.work, prices.after_release))
        found += [int(each * (1 << bits)) for each in (work, busy, height, after)]
    return tuple(found)
