"""The solver `exact` for mean JCT: branch and bound on the order of events, with LP bounds."""

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from lyra_opt.allocation.bounds.mean_jct.best import mean_jct_bound
from lyra_opt.allocation.bounds.mean_jct.busy_times import ASCENT_STEPS
from lyra_opt.allocation.bounds.mean_jct.prices import priced_schedules_bound
from lyra_opt.allocation.clock_times import from_first_release
from lyra_opt.allocation.exact.mean_jct.orders import (
    Event,
    Kind,
    OrderData,
    OrderProgramme,
    OrderSolution,
    StartRange,
    UnitSchedule,
    replay,
    schedule_of,
)
from lyra_opt.allocation.heuristics.policy_solver import quick_schedule
from lyra_opt.allocation.instance import Instance, Objective, Schedule
from lyra_opt.allocation.schedules.evaluator import mean_jct_s
from lyra_opt.core.result import Limits, SolveResult, Status, StoppedBy
from lyra_opt.core.solver import Observer, Solver
from lyra_opt.core.stopwatch import (
    OutOfTimeError,
    grace,
    limit_reached,
    limits_in_force,
    require_time,
)
from lyra_opt.core.trajectory import Improvements

Key = Callable[[int, float], float]


def priority_schedule(data: OrderData, key: Key, *, patient: bool = False) -> UnitSchedule:
    """Return the schedule of a priority rule that decides at every release and completion.

    Jobs are visited in the order of `key` (a function of job and remaining work), ties in file
    order. Started jobs keep their base demand, and waiting jobs get theirs if it fits. Then extra
    workers are distributed in the same order. Workers may be fractional.

    Raises `OutOfTimeError` if the time limit is reached.

    Parameters
    ----------
    patient
        Whether a waiting job starts only once all jobs before it hold w_max, so that it cannot slow
        them down.
    """
    left = [float(work) for work in data.work]
    starts, completions = [-1.0] * data.jobs, [-1.0] * data.jobs
    pieces: list[tuple[int, float, float, float]] = []
    active = [job for job in range(data.jobs) if data.running[job]]
    for job in active:
        starts[job] = 0.0
    now = 0.0
    while min(completions) < 0:
        require_time()
        present = [
            job for job in range(data.jobs) if completions[job] < 0 and data.release[job] <= now
        ]
        present.sort(key=lambda job: key(job, left[job]))
        room = data.gpus - sum(data.base[job] for job in active)
        wanted = 0.0
        for job in present:
            if job in active:
                wanted += data.extra[job]
            elif data.base[job] <= room - (wanted if patient else 0.0):
                active.append(job)
                starts[job] = now
                room -= data.base[job]
                wanted += data.extra[job]
        shares = {}
        for job in present:
            if job in active:
                given = max(0.0, min(data.extra[job], room))
                shares[job] = given / data.extra[job] if data.extra[job] > 0 else 0.0
                room -= given
        ends = {
            job: now + left[job] / (data.base_rate[job] + share * data.extra_rate[job])
            for job, share in shares.items()
        }
        end = min(
            [*ends.values(), *(release for release in data.releases if release > now)],
            default=math.inf,
        )
        for job, share in shares.items():
            pieces.append((job, now, end, share))
            rate = data.base_rate[job] + share * data.extra_rate[job]
            left[job] = max(0.0, left[job] - rate * (end - now))
            if ends[job] <= end:
                completions[job] = end
                active.remove(job)
        now = end
    return UnitSchedule(starts, completions, pieces)


def priority_keys(data: OrderData) -> list[Key]:
    """Return the sort keys of the priority rules that give starting schedules."""
    spread = data.base / data.base_rate
    return [
        lambda _, left: left,
        lambda job, left: left * spread[job],
        lambda job, left: left / data.top_rate[job],
        lambda job, _: data.work[job] / data.top_rate[job],
        lambda job, left: left / data.base_rate[job],
        lambda job, left: left * spread[job] / data.gpus + left / data.top_rate[job],
        lambda _, left: -left,
    ]


def starting_schedules(data: OrderData) -> Iterator[UnitSchedule]:
    """Yield a greedy and a patient schedule for each priority key (see `priority_schedule`)."""
    for key in priority_keys(data):
        for patient in (False, True):
            yield priority_schedule(data, key, patient=patient)


def listed_schedule(data: OrderData, order: Sequence[int], *, patient: bool) -> UnitSchedule:
    """Return the schedule of the priority rule that ranks jobs by a fixed list."""
    rank = {job: place for place, job in enumerate(order)}
    return priority_schedule(data, lambda job, _: rank[job], patient=patient)


def best_priority_schedule(instance: Instance) -> Schedule:
    """Return the schedule with the least mean JCT among priority rules computed in time.

    If none can, the result is that of `quick_schedule`.
    """
    quick = quick_schedule(instance)
    data = OrderData(instance)
    best: UnitSchedule | None = None
    with suppress(OutOfTimeError):
        for in_units in starting_schedules(data):
            if best is None or in_units.value < best.value:
                best = in_units
    return quick if best is None else schedule_of(instance, data, best)


PRUNING_GAP = 5e-7
"""Least relative improvement for which a branch is explored."""
BOUND_MARGIN = 1e-12
"""Relative safety margin of a bound for the rounding of its own sums."""
SHORT_ASCENT, SHORT_ASCENT_JOBS = 20, 12
"""Steps of the first bound for instances with at most this many jobs."""
JOBS_FOR_PRICES = range(7, 101)
"""Numbers of jobs for which prices of time are also used; fewer jobs are proved at once."""
LEAST_TIME_FOR_PRICES_S = 3.0
"""Least time limit, in seconds, with which prices of time are used; they take up to a second."""
LARGEST_FOR_ALL_LISTS = 4
"""For at most this many jobs every priority list gives a starting schedule."""

_BYTES_PER_OBJECT = 64
_NOTHING = np.zeros((0, 0))


class MeanJctExact(Solver):
    """Find a proved optimum of mean JCT, or an incumbent and a bound if a limit is reached.

    It is a best-first branch and bound. A node fixes the order of the events (completions,
    releases) up to some time. Its bound is a linear programme that is exact for these events and
    bounds the rest by mean busy times. Starts are open at first: a job may hold no workers or from
    w_min to w_max on average. The search branches on starts where the solution of the programme
    starts a job twice. Incumbents come from priority lists, then from the programmes of the orders
    that node solutions suggest.

    A proof means a relative gap of at most 1e-6. Bounds are evaluated from multipliers, so that the
    tolerance of the LP solver cannot raise them.

    Notes
    -----
    Source: this project; ``formulations/allocation/README.md``. Complexity: exponential; each node
    solves a linear programme with O(n^2) rows. Limits: time, nodes, memory for the open nodes and
    for the orders tried.
    """

    name = "exact"
    problem = "allocation"
    variants = (Objective.MEAN_JCT,)
    exact_variants = variants
    gives_bound = True

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
        """Search for a proved optimum of mean JCT within the limits."""
        return _Search(instance, warm_start, observer).run()


@dataclass(frozen=True, slots=True)
class _Node:
    events: tuple[Event, ...]
    starts: tuple[StartRange | None, ...]
    bound: float
    solution: OrderSolution | None
    """Stored only if all completions are ordered, to branch on starts; it is large."""

    def memory(self) -> int:
        """Return the approximate memory of the node in bytes."""
        found = _BYTES_PER_OBJECT * (4 + len(self.starts)) + 8 * len(self.events)
        if self.solution is not None:
            arrays = (self.solution.lengths, self.solution.run, self.solution.is_open)
            found += sum(array.nbytes + 2 * _BYTES_PER_OBJECT for array in arrays)
        return found


class _Search:
    def __init__(
        self, instance: Instance, warm_start: Schedule | None, observer: Observer | None
    ) -> None:
        self.instance = instance
        self.observer = None if observer is None else Improvements(observer, instance.objective)
        self.data = OrderData(instance)
        self.schedule: Schedule | None = None
        self.objective = math.inf  # mean JCT in seconds
        self.value = math.inf  # sum of completions in units of time
        self.nodes = 0
        self.memory = 0  # approximate bytes
        self.tried: set[tuple[Event, ...]] = set()
        self.bound = 0.0
        if warm_start is not None:
            self.take(warm_start)

    def take(self, schedule: Schedule) -> bool:
        objective = mean_jct_s(self.instance, schedule)
        if objective >= self.objective:
            return False
        self.objective, self.schedule = objective, schedule
        data = self.data
        self.value = objective * data.jobs / data.unit_s + math.fsum(data.release)
        if self.observer is not None:
            self.observer("objective", objective, schedule)
        return True

    def take_in_units(self, in_units: UnitSchedule | None) -> bool:
        if in_units is None or in_units.value >= self.value * (1 - 1e-14):
            return False
        return self.take(schedule_of(self.instance, self.data, in_units))

    def as_mean(self, bound: float) -> float:
        """Convert a bound on the sum of completions to a safe bound on mean JCT."""
        data = self.data
        total = bound * (1 - BOUND_MARGIN) - math.fsum(data.release)
        return max(0.0, total * data.unit_s / data.jobs)

    def try_order(self, events: Sequence[Event]) -> bool:
        """Solve the LP of a full event order; return whether it improved the incumbent."""
        order = tuple(events)
        if order in self.tried:
            return False
        self.tried.add(order)
        self.memory += 2 * _BYTES_PER_OBJECT + 8 * len(order)
        known = tuple(
            None
            if self.data.running[job]
            else StartRange(Event(Kind.START, job), Event(Kind.START, job))
            for job in range(self.data.jobs)
        )
        solution = self.programme.solve(order, known)
        if solution is None or solution.bound >= self.value * (1 - 1e-12):
            return False
        return self.take_in_units(replay(self.data, order, solution))

    def out_of_limits(self) -> StoppedBy | None:
        return limit_reached(nodes=self.nodes, memory_bytes=self.memory)

    @property
    def threshold(self) -> float:
        """The bound at which a branch is pruned, as a sum of completion times in scaled units."""
        return self.value - PRUNING_GAP * (self.value - math.fsum(self.data.release))

    def run(self) -> SolveResult[Schedule]:
        try:
            stopped_by = self.prove()
        except OutOfTimeError:
            stopped_by = StoppedBy.TIME
        assert self.schedule is not None
        proved = self.is_proved(self.bound)
        bound = min(self.bound, self.objective)
        self.tell_bound(bound)
        message = None
        if not proved and stopped_by is None:
            message = (
                f"the search is complete, but its bound {bound} does not prove the objective, "
                "because of floating-point rounding"
            )
        return SolveResult(
            status=Status.OPTIMAL if proved else Status.FEASIBLE,
            stopped_by=None if proved else stopped_by,
            solution=self.schedule,
            objective=self.objective,
            dual_bound=bound,
            counters={
                "nodes": self.nodes,
                "programmes": self.programme.solved if hasattr(self, "programme") else 0,
            },
            message=message,
        )

    def prove(self) -> StoppedBy | None:
        """Search until the bound meets the objective or a limit is reached; return the limit.

        Returns None if no limit was reached.
        """
        candidates: list[UnitSchedule] = []
        with grace():
            try:
                self.take(quick_schedule(self.instance))
                candidates.extend(starting_schedules(self.data))
            finally:
                candidates.sort(key=lambda in_units: in_units.value)
                if candidates:
                    self.take_in_units(candidates[0])
                steps = SHORT_ASCENT if self.data.jobs <= SHORT_ASCENT_JOBS else ASCENT_STEPS
                self.bound = mean_jct_bound(self.instance, steps, rounds=0)
        if self.data.jobs in JOBS_FOR_PRICES and self.has_time_for_prices():
            self.bound = max(self.bound, priced_schedules_bound(self.instance))
        self.tell_bound(self.bound)
        stopped_by = self.out_of_limits()
        if stopped_by is None and not self.is_proved(self.bound):
            self.programme = OrderProgramme(self.data, self.value * 1.0001 + 1e-9)
            self.improve_starts(candidates)
            stopped_by = self.search()
        return stopped_by

    def has_time_for_prices(self) -> bool:
        """Whether the optimum is unproved and the time limit allows the GPU-price bound."""
        if self.is_proved(self.bound):
            return False
        time_s = limits_in_force().time_s
        return time_s is None or time_s >= LEAST_TIME_FOR_PRICES_S

    def tell_bound(self, bound: float) -> None:
        if self.observer is not None:
            self.observer("dual_bound", min(bound, self.objective))

    def is_proved(self, bound: float) -> bool:
        return self.objective - bound <= Objective.MEAN_JCT.proof_gap * self.objective

    def improve_starts(self, candidates: list[UnitSchedule]) -> None:
        """Improve the incumbent by LPs for the orders of good schedules, then by event swaps."""
        data = self.data
        if data.jobs <= LARGEST_FOR_ALL_LISTS:
            candidates = [
                listed_schedule(data, order, patient=patient)
                for order in permutations(range(data.jobs))
                for patient in (False, True)
            ]
            candidates.sort(key=lambda in_units: in_units.value)
        for in_units in candidates[:6]:
            self.take_in_units(in_units)
            self.try_order(in_units.events(data))
            if self.out_of_limits():
                return
        improved = True
        while improved and not self.out_of_limits():
            improved = False
            events = self.current_events()
            for place in range(len(events) - 1):
                first, second = events[place], events[place + 1]
                if first.which == second.which and Kind.RELEASE not in (first.kind, second.kind):
                    continue
                if first.kind == second.kind == Kind.RELEASE:
                    continue
                if self.out_of_limits():
                    return
                swapped = [*events[:place], second, first, *events[place + 2 :]]
                if self.try_order(swapped):
                    improved = True
                    break

    def current_events(self) -> list[Event]:
        """Return the order of the incumbent's events."""
        assert self.schedule is not None
        position, scale = self.instance.job_position, self.data.unit_s
        starts, completions = [math.inf] * self.data.jobs, [0.0] * self.data.jobs
        for piece in self.schedule.pieces:
            job = position[piece.job]
            starts[job] = min(starts[job], piece.start_s / scale)
            completions[job] = max(completions[job], piece.end_s / scale)
        return UnitSchedule(starts, completions, []).events(self.data)

    def search(self) -> StoppedBy | None:
        data = self.data
        of_release = data.order_of_releases
        starts = tuple(
            None
            if data.running[job]
            else StartRange(None if of_release[job] < 0 else Event(Kind.RELEASE, of_release[job]))
            for job in range(data.jobs)
        )
        solution = self.programme.solve((), starts)
        assert solution is not None
        root = _Node((), starts, solution.bound, None)
        heap: list[tuple[float, int, int, _Node]] = [(root.bound, 0, 0, root)]
        self.memory += root.memory()
        serial = 0
        lowest_closed = math.inf  # least bound of the branches not explored
        stopped_by = None
        while heap:
            if heap[0][0] >= self.threshold:
                break
            stopped_by = self.out_of_limits()
            if stopped_by is not None:
                break
            if self.observer is not None:
                self.tell_bound(self.as_mean(min(heap[0][0], lowest_closed)))
            _, _, _, node = heapq.heappop(heap)
            self.memory -= node.memory()
            self.nodes += 1
            try:
                for events, ranges in self.children(node):
                    require_time()
                    found = self.programme.solve(events, ranges)
                    if found is None:
                        continue
                    child = _Node(events, ranges, max(found.bound, node.bound), None)
                    if child.bound >= self.threshold:
                        lowest_closed = min(lowest_closed, child.bound)
                        continue
                    if self.is_complete(child):
                        child = replace(child, solution=found._replace(extra=_NOTHING))
                        self.try_implied(child, found)
                        if child.bound >= self.threshold or is_settled(found):
                            lowest_closed = min(lowest_closed, child.bound)
                            continue
                    serial += 1
                    self.memory += child.memory()
                    heapq.heappush(heap, (child.bound, -len(events), serial, child))
            except OutOfTimeError:  # the node stays open, besides its children so far
                heapq.heappush(heap, (node.bound, -len(node.events), -1, node))
        lowest = min(lowest_closed, heap[0][0] if heap else math.inf, self.value)
        self.bound = max(self.bound, self.as_mean(lowest))
        return stopped_by

    def is_complete(self, node: _Node) -> bool:
        completed = sum(event.kind is Kind.COMPLETION for event in node.events)
        return completed == self.data.jobs

    def try_implied(self, node: _Node, solution: OrderSolution) -> None:
        """Try full event orders in which jobs start as late, or as early, as the LP suggests."""
        data = self.data
        if is_settled(solution):
            self.try_order(self.with_all_starts(node))
            return
        ends = np.cumsum(solution.lengths)
        keyed = [
            (float(ends[place]), 0.0, place, event)
            for place, event in enumerate(node.events)
            if event.kind is not Kind.START
        ]
        completion = {event.which: end for end, _, _, event in keyed if event.kind == 0}
        places = {event: place for place, event in enumerate(node.events)}
        for early in (False, True):
            found = list(keyed)
            for job in range(data.jobs):
                if data.running[job]:
                    continue
                done = places[Event(Kind.COMPLETION, job)]
                run = solution.run[job, : done + 1]
                start = float(completion[job] - run.sum())
                positive = np.flatnonzero(run > 1e-9)
                if early and len(positive):
                    start = float(ends[positive[0]] - run[positive[0]])
                interval = int(np.searchsorted(ends, start + 1e-9, side="right"))
                interval = min(interval, done)
                place = interval - 0.5
                after = node.starts[job]
                if after is not None and after.after is not None and after.after in places:
                    place = max(place, places[after.after] + 0.25)
                found.append((place, start, job, Event(Kind.START, job)))
            order = sorted(
                (float(item[2]), 0.0, 0, item[3])
                if item[3].kind is not Kind.START
                else (item[0], item[1], 1, item[3])
                for item in found
            )
            self.try_order([item[3] for item in order])

    def with_all_starts(self, node: _Node) -> list[Event]:
        """Return a node's events, with all missing starts inserted at their implied places."""
        known = {event.which for event in node.events if event.kind is Kind.START}
        at: list[list[Event]] = [[] for _ in range(len(node.events) + 1)]
        for job, start in enumerate(node.starts):
            if start is None or job in known:
                continue
            place = 0
            if not start.known_at_zero and start.after is not None:
                place = node.events.index(start.after) + 1
            at[place].append(Event(Kind.START, job))
        found = []
        for place, event in enumerate(node.events):
            found += [*at[place], event]
        return found

    def children(
        self, node: _Node
    ) -> Iterator[tuple[tuple[Event, ...], tuple[StartRange | None, ...]]]:
        if self.is_complete(node):
            yield from self.start_children(node)
            return
        data = self.data
        completed = {event.which for event in node.events if event.kind is Kind.COMPLETION}
        released = sum(event.kind is Kind.RELEASE for event in node.events)
        if released < len(data.releases):
            yield (*node.events, Event(Kind.RELEASE, released)), node.starts
        now = data.releases[released - 1] if released else 0.0
        waiting = [job for job in range(data.jobs) if job not in completed]
        for job in waiting:
            if data.release[job] > now or self.is_dominated(job, waiting):
                continue
            starts = self.starts_after(job, waiting, node.starts, now)
            if starts is not None:
                yield (*node.events, Event(Kind.COMPLETION, job)), starts

    def is_dominated(self, job: int, waiting: Sequence[int]) -> bool:
        """Whether some optimal schedule completes another waiting job before this similar job.

        If two jobs that run at time 0 differ only in work, some optimal schedule completes the job
        with less work first. Some optimal schedule completes jobs with equal data in file order.
        """
        data = self.data
        for other in waiting:
            if other == job or data.running[other] != data.running[job]:
                continue
            same = all(
                of_jobs[other] == of_jobs[job]
                for of_jobs in (
                    data.base,
                    data.extra,
                    data.base_rate,
                    data.extra_rate,
                    data.release,
                )
            )
            if not same:
                continue
            if data.work[other] == data.work[job]:
                if other < job:
                    return True
            elif data.running[job] and data.work[other] < data.work[job]:
                return True
        return False

    def starts_after(
        self, job: int, waiting: Sequence[int], starts: tuple[StartRange | None, ...], now: float
    ) -> tuple[StartRange | None, ...] | None:
        """Return the start ranges if `job` completes next; None if it cannot complete next.

        A job starts at or after that completion if its base demand does not fit beside those of
        `job` and of all running jobs.
        """
        data = self.data
        held = data.base[job] + sum(
            data.base[other] for other in waiting if data.running[other] and other != job
        )
        if held > data.gpus:
            return None
        changed = list(starts)
        event = Event(Kind.COMPLETION, job)
        for other in waiting:
            start = starts[other]
            if other == job or start is None or data.release[other] > now:
                continue  # an unreleased job starts later in any case
            if held + data.base[other] > data.gpus:
                changed[other] = replace(start, after=event)
        return tuple(changed)

    def start_children(
        self, node: _Node
    ) -> Iterator[tuple[tuple[Event, ...], tuple[StartRange | None, ...]]]:
        """Yield the children that restrict the start of the most interrupted job."""
        job, interval = self.most_interrupted(node)
        start = node.starts[job]
        assert start is not None
        events = node.events
        event = events[interval]

        def with_start(changed: StartRange) -> tuple[StartRange | None, ...]:
            return (*node.starts[:job], changed, *node.starts[job + 1 :])

        if interval == 0:
            yield events, with_start(replace(start, known_at_zero=True))
        else:
            yield events, with_start(replace(start, before=events[interval - 1]))
        if event != Event(Kind.COMPLETION, job):
            yield events, with_start(replace(start, after=event))
        begins = Event(Kind.START, job)
        yield (
            (*events[:interval], begins, *events[interval:]),
            with_start(StartRange(begins, begins)),
        )

    def most_interrupted(self, node: _Node) -> tuple[int, int]:
        """Return the job that the LP solution interrupts the most, and the interval of the gap."""
        solution = node.solution
        assert solution is not None
        best: tuple[float, int, int] | None = None
        for job in range(self.data.jobs):
            places = np.flatnonzero(solution.is_open[job])
            if not len(places):
                continue
            run, lengths = solution.run[job], solution.lengths
            before = 0.0
            for place in places:
                missing = float(lengths[place] - run[place])
                # Missing time is an interruption if the job has run before, otherwise a late start.
                tear = min(missing, before) + 1e-3 * min(missing, float(run[place]))
                if best is None or tear > best[0]:
                    best = (tear, job, int(place))
                before += float(run[place])
        assert best is not None
        return best[1], best[2]


def is_settled(solution: OrderSolution) -> bool:
    """Whether all starts are known, so that the linear programme is exact."""
    return not solution.is_open.any()
