"""One event-driven evaluator for all policies: decisions at every release and completion.

Between two events nothing changes, so a schedule is a list of decisions. A job's remaining work
is a float as of its last change of workers, and its completion is computed from there once: the
error of its work is a few units in the last place for each *change*, not for each event. Events
closer than 1e-12 of the time are one decision. Rational numbers would be exact, but their
denominators grow with every completion; floats reproduce the published examples to the printed
digits, and 10,000 jobs stay within the checker's 1e-9.

States of fewer than `COMPILE_FROM_JOBS` jobs are lists that interpreted kernels work on, larger
ones arrays for compiled kernels. Both do the same arithmetic in the same order.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.allocation.checker import check
from lyra_opt.allocation.instance import Schedule, SchedulePiece
from lyra_opt.allocation.schedules import kernel as fluid
from lyra_opt.allocation.schedules.kernel import (
    ARRIVALS,
    EFFICIENCY,
    GPUS,
    GPUS_PER_WORKER,
    MAX_WORKERS,
    MIN_WORKERS,
    RELEASE,
    REMAINING,
    SINCE,
    STARTED,
    WORKERS,
    log_piece,
)
from lyra_opt.core.errors import show_value
from lyra_opt.core.kernels import kernel_with_lists
from lyra_opt.core.stopwatch import require_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lyra_opt.allocation.instance import Instance
    from lyra_opt.core.kernels import Kernel


COMPILE_FROM_JOBS = 40
"""Jobs from which a schedule is simulated by compiled kernels."""

STEPS_BETWEEN_LOOKS_AT_THE_CLOCK = 200_000
"""Of a rule that a kernel simulates: active jobs at decisions, a few milliseconds of them."""

NEGLIGIBLE = 1e-10
"""Of a mean JCT: the delay by rounding that the checker does not add to it."""

_FAULTS = {
    fluid.OUT_OF_RANGE: "gives a job fewer workers than w_min or more than w_max",
    fluid.STOPS_A_JOB: "stops a job that has started",
    fluid.TOO_MANY_GPUS: "gives more GPUs than there are",
}


class FluidState:
    """Where a schedule in the making stands.

    A policy reads it at each decision and sets the number of workers of each active job, one
    that is released and not complete.

    Parameters
    ----------
    instance
        Its objective plays no part.
    compiled
        Whether kernels run compiled; None decides by the number of jobs.
    logs
        Whether pieces are kept for `schedule`.
    """

    def __init__(
        self, instance: Instance, *, compiled: bool | None = None, logs: bool = True
    ) -> None:
        jobs = instance.jobs
        self.instance = instance
        self.compiled = len(jobs) >= COMPILE_FROM_JOBS if compiled is None else compiled
        # At most two entries an active job and decision; emptied when the next might not fit.
        columns = 4 * len(jobs) if logs else 1
        arrivals = sorted(range(len(jobs)), key=lambda job: jobs[job].release_s)
        nothing = [0.0] * len(jobs)

        def integers(rows: Any) -> Any:
            return np.array(rows, dtype=np.int64) if self.compiled else rows

        def floats(rows: Any) -> Any:
            return np.array(rows, dtype=np.float64) if self.compiled else rows

        self.arrays = fluid.Fluid(
            limits=integers(
                [
                    [job.min_workers for job in jobs],
                    [job.max_workers for job in jobs],
                    [job.gpus_per_worker for job in jobs],
                    arrivals,
                ]
            ),
            given=floats(
                [
                    [float(job.release_s) for job in jobs],
                    [1.0 - job.scaling_loss for job in jobs],
                    nothing,
                    nothing,
                ]
            ),
            held=integers(
                [[int(job.running) for job in jobs], *([0] * len(jobs) for _ in range(4))]
            ),
            moving=floats(
                [
                    nothing.copy(),
                    [float(job.work_worker_s) for job in jobs],
                    nothing.copy(),
                    nothing.copy(),
                ]
            ),
            counts=integers([instance.gpus, 0, 0, 0, int(logs)]),
            clock=floats([0.0, 0.0]),
            log_workers=integers([[0] * columns for _ in range(2)]),
            log_times=floats([[0.0] * columns for _ in range(2)]),
        )
        self._pieces: list[tuple[float, int, float, int]] = []

    def copy(self, *, logs: bool = False) -> FluidState:
        """Return an independent state of the same moment.

        With `logs` it keeps the pieces from now on.
        """
        other = object.__new__(FluidState)
        other.instance, other.compiled = self.instance, self.compiled
        of = self.arrays
        other.arrays = fluid.Fluid(
            of.limits,
            of.given,
            _copied(of.held),
            _copied(of.moving),
            of.counts.copy(),
            of.clock.copy(),
            _copied(of.log_workers) if logs else of.log_workers,
            _copied(of.log_times) if logs else of.log_times,
        )
        other.arrays.counts[fluid.LOGS] = int(logs)
        other.arrays.counts[fluid.LOGGED] = 0
        other._pieces = []
        return other

    @property
    def now_s(self) -> float:
        """The time of the decision."""
        return float(self.arrays.clock[fluid.NOW])

    @property
    def total_jct_s(self) -> float:
        """The sum of the job completion times of all jobs completed so far."""
        return float(self.arrays.clock[fluid.TOTAL_JCT])

    @property
    def active(self) -> list[int]:
        """File positions of the active jobs, by release, then in file order."""
        return [
            int(job)
            for job in self.arrays.held[fluid.BY_ARRIVAL][: self.arrays.counts[fluid.ACTIVE]]
        ]

    def has_started(self, job: int) -> bool:
        """Whether a job must keep at least its base demand."""
        return bool(self.arrays.held[fluid.STARTED][job])

    def remaining_worker_s(self, job: int) -> float:
        """Return the work that an active job has left."""
        return float(fluid.remaining_work(job, self.arrays))

    def set_keys(self, slope: Sequence[float], offset: Sequence[float]) -> None:
        """Order jobs from now on by slope * remaining work + offset.

        A job of key `schedules.kernel.NEVER` or more does not start.
        """
        # Kept apart from copies, which share what is given.
        given = self.arrays.given.copy()
        given[fluid.SLOPE] = slope
        given[fluid.OFFSET] = offset
        self.arrays = fluid.Fluid(self.arrays.limits, given, *self.arrays[2:])

    def target(self, job: int) -> int:
        """Return how many workers the decision gives to a job so far."""
        return int(self.arrays.held[fluid.TARGET][job])

    def set_target(self, job: int, workers: int) -> None:
        """Decide how many workers an active job gets; every active job needs a target."""
        try:
            self.arrays.held[fluid.TARGET][job] = workers
        except (TypeError, IndexError):
            raise TypeError(f"job must be one of state.active, not {show_value(job)}") from None

    def decide(self, kernel: Kernel, *first: Any) -> Any:
        """Let a kernel set the targets: it gets `first` and the state."""
        arguments = (*first, self.arrays)
        return kernel.compiled(*arguments) if self.compiled else kernel(*arguments)

    def start_bases(self, *, by_key: bool) -> int:
        """Target base demands, of started jobs, then of waiting ones where they fit.

        Waiting jobs come in order of key, or by release and file. Returns the GPUs left.
        """
        if by_key:
            self.decide(fluid.sort_by_key)
        order = self.arrays.held[fluid.BY_KEY if by_key else fluid.BY_ARRIVAL]
        return int(self.decide(fluid.start_bases, order))

    def advance(self) -> bool:
        """Go to the next event; return False if there is none, because no job is left to come.

        Raises
        ------
        ValueError
            If jobs wait that nothing will start.
        OutOfTimeError
            If the time limit in force is used up.
        """
        require_time()
        if not self.decide(fluid.advance):
            self._require_all_complete()
            return False
        return True

    def apply(self) -> None:
        """Give the active jobs their targets.

        Raises
        ------
        ValueError
            If they break a rule of the problem; says which.
        """
        fault = int(self.decide(fluid.targets_fault))
        if fault:
            raise ValueError(f"the policy {_FAULTS[fault]} at {self.now_s} s")
        self._make_room()
        self.decide(fluid.apply_targets)

    def run(self, rule: int, *, decides: bool) -> None:
        """Simulate a rule of `schedules.kernel` to the end.

        Parameters
        ----------
        rule
            ``FILL_BASES_FIRST``, ``FILL_ONE_BY_ONE`` or ``MARGINAL``.
        decides
            Whether the rule takes the decision of the present moment too.

        Raises
        ------
        OutOfTimeError
            If the time limit in force is used up.
        """
        steps = STEPS_BETWEEN_LOOKS_AT_THE_CLOCK
        while not self.decide(fluid.run_rule, rule, int(decides), steps):
            require_time()
            self._empty_log()
            decides = True
        self._require_all_complete()

    def schedule(self) -> Schedule:
        """Return the pieces so far, by start, then in file order."""
        self._empty_log()
        jobs = self.instance.jobs
        return Schedule(
            tuple(
                SchedulePiece(job=jobs[job].id, start_s=start_s, end_s=end_s, workers=workers)
                for start_s, job, end_s, workers in sorted(self._pieces)
            )
        )

    def _require_all_complete(self) -> None:
        if self.arrays.counts[fluid.ACTIVE]:
            raise ValueError(f"the policy lets jobs wait for ever from {self.now_s} s on")

    def _make_room(self) -> None:
        """Empty the log if a decision and the completions after it might not fit."""
        if self.arrays.counts[fluid.LOGS]:
            needed = int(self.arrays.counts[fluid.LOGGED]) + 2 * int(
                self.arrays.counts[fluid.ACTIVE]
            )
            if needed > len(self.arrays.log_workers[fluid.LOG_JOB]):
                self._empty_log()

    def _empty_log(self) -> None:
        logged = int(self.arrays.counts[fluid.LOGGED])
        columns = [
            self.arrays.log_times[fluid.LOG_START][:logged],
            self.arrays.log_workers[fluid.LOG_JOB][:logged],
            self.arrays.log_times[fluid.LOG_END][:logged],
            self.arrays.log_workers[fluid.LOG_COUNT][:logged],
        ]
        if self.compiled:
            columns = [column.tolist() for column in columns]
        self._pieces.extend(zip(*columns, strict=True))
        self.arrays.counts[fluid.LOGGED] = 0


def evaluate(state: FluidState, decide: Callable[[FluidState], None]) -> Schedule:
    """Return the schedule that a policy makes.

    Parameters
    ----------
    state
        A new state; it is used up.
    decide
        Sets the target of every active job; called at every release and completion.

    Raises
    ------
    ValueError
        If a decision breaks a rule of the problem, or leaves jobs waiting for ever.
    """
    while state.advance():
        decide(state)
        state.apply()
    return state.schedule()


def mean_jct_s(instance: Instance, schedule: Schedule) -> float:
    """Return the mean job completion time, rounded once, as the checker finds it.

    Of an invalid schedule, as its pieces end.
    """
    completion_s: dict[str, float] = {}
    for piece in schedule.pieces:
        completion_s[piece.job] = max(piece.end_s, completion_s.get(piece.job, 0.0))
    total_s = _exact_sum(completion_s[job.id] for job in instance.jobs)
    total_s -= _exact_sum(job.release_s for job in instance.jobs)
    found = float(total_s / len(instance.jobs))
    delay_s = 4 * math.ulp(max(completion_s.values())) * len(schedule.pieces)
    if delay_s > NEGLIGIBLE * found:
        return check(instance, schedule).objective or found
    return found


def _exact_sum(values: Iterable[float]) -> Fraction:
    """Return the sum of floats, an addition of integers each: a tenth of the time of fractions."""
    numerators: dict[int, int] = defaultdict(int)
    for value in values:
        numerator, denominator = value.as_integer_ratio()
        numerators[denominator] += numerator
    return sum((Fraction(top, bottom) for bottom, top in numerators.items()), Fraction(0))


def _copied(rows: Any) -> Any:
    """Return an independent copy of an array of rows, or of a list of lists."""
    return rows.copy() if isinstance(rows, np.ndarray) else [list(row) for row in rows]


def moldable_schedule(instance: Instance) -> Schedule:
    """Return a schedule in which no job's workers change, made without a look at the clock.

    Of the jobs that wait the one of least work starts next, ties in file order, with as many
    workers as fit; those behind it wait until its w_min do, so that none is passed over for ever.

    Complexity O(jobs log jobs): a third of a second for 50,000. Guarantee: none.
    """
    state = FluidState(instance)
    state.decide(start_for_good)
    return state.schedule()


@kernel_with_lists
def start_for_good(state: Any) -> None:
    """Log one piece a job."""
    limits = state.limits
    given = state.given
    least = limits[MIN_WORKERS]
    size = limits[GPUS_PER_WORKER]
    arrivals = limits[ARRIVALS]
    started = state.held[STARTED]
    waiting = [(0.0, 0)]  # work and jobs
    waiting.pop()
    holding = [(0.0, 0)]  # ends and GPUs
    holding.pop()
    free = state.counts[GPUS]
    kept = 0  # for running jobs that have not had their turn
    for job in range(len(arrivals)):
        if started[job]:
            kept += least[job] * size[job]
    arrived = 0
    while arrived < len(arrivals) or len(holding) > 0:
        if len(holding) == 0 or (
            arrived < len(arrivals) and given[RELEASE][arrivals[arrived]] < holding[0][0]
        ):
            now = given[RELEASE][arrivals[arrived]]
        else:
            now = holding[0][0]
        while len(holding) > 0 and holding[0][0] <= now:
            free += heapq.heappop(holding)[1]
        while arrived < len(arrivals) and given[RELEASE][arrivals[arrived]] <= now:
            job = arrivals[arrived]
            heapq.heappush(waiting, (-1.0 if started[job] else state.moving[REMAINING][job], job))
            arrived += 1
        while len(waiting) > 0 and least[waiting[0][1]] * size[waiting[0][1]] <= free:
            _, job = heapq.heappop(waiting)
            if started[job]:
                kept -= least[job] * size[job]
            workers = min(limits[MAX_WORKERS][job], (free - kept) // size[job])
            rate = least[job] + (workers - least[job]) * given[EFFICIENCY][job]
            end = now + state.moving[REMAINING][job] / rate
            if end <= now:  # too short for the clock: one unit in the last place
                end = now * (1.0 + 2.0**-52) + 5e-324
            free -= workers * size[job]
            heapq.heappush(holding, (end, workers * size[job]))
            state.held[WORKERS][job] = workers
            state.moving[SINCE][job] = now
            log_piece(job, end, state)
