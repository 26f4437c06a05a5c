"""The event-driven evaluator of all policies: decisions at every release and completion.

Between two events nothing changes, so a schedule is a list of decisions. The remaining work of a
job is a float as of its last change of workers, and its completion is computed from that once. So
its error is a few units in the last place for each *change*, not for each event. Events within
1e-12 of the time are handled as one decision. Rational numbers would be exact, but their
denominators grow with every completion. Floats reproduce the published examples to the printed
digits, and 10,000 jobs stay within the checker's 1e-9.

States of fewer than `COMPILE_FROM_JOBS` jobs are lists for interpreted kernels, larger states are
arrays for compiled kernels. Both do the same arithmetic in the same order.
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from lyra_opt.allocation.checker import check
from lyra_opt.allocation.instance import Instance, Schedule, SchedulePiece
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
from lyra_opt.core.kernels import Kernel, kernel_with_lists
from lyra_opt.core.stopwatch import require_time

COMPILE_FROM_JOBS = 40
"""From this many jobs on, schedules are simulated by compiled kernels."""

STEPS_BETWEEN_LOOKS_AT_THE_CLOCK = 200_000
"""Sum over decisions of the active jobs between two time checks, a few milliseconds of work."""

NEGLIGIBLE = 1e-10
"""Relative delay of the mean JCT due to rounding that the checker does not add."""

_FAULTS = {
    fluid.OUT_OF_RANGE: "gives a job fewer workers than w_min or more than w_max",
    fluid.STOPS_A_JOB: "stops a job that has started",
    fluid.TOO_MANY_GPUS: "allocates more GPUs than the cluster has",
}


class FluidState:
    """The state of a simulated schedule at one moment.

    At each decision a policy reads the state and sets the number of workers of each active job. A
    job is active if it is released and not completed.

    Parameters
    ----------
    instance
        The instance; its objective is ignored.
    compiled
        Whether kernels run compiled; None decides by the number of jobs.
    logs
        Whether pieces are recorded for `schedule`.
    """

    def __init__(
        self, instance: Instance, *, compiled: bool | None = None, logs: bool = True
    ) -> None:
        jobs = instance.jobs
        self.instance = instance
        self.compiled = len(jobs) >= COMPILE_FROM_JOBS if compiled is None else compiled
        # A decision logs at most two pieces per job, so the log is emptied before it overflows.
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

    def copy(self, *, logs: bool = False) -> "FluidState":
        """Return an independent copy of the state at the same moment.

        With `logs` the copy records pieces from now on.
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
        """The time of the current decision, in seconds."""
        return float(self.arrays.clock[fluid.NOW])

    @property
    def total_jct_s(self) -> float:
        """The sum of the JCTs of all jobs that have completed, in seconds."""
        return float(self.arrays.clock[fluid.TOTAL_JCT])

    @property
    def active(self) -> list[int]:
        """File positions of the active jobs, by release, then in file order."""
        return [
            int(job)
            for job in self.arrays.held[fluid.BY_ARRIVAL][: self.arrays.counts[fluid.ACTIVE]]
        ]

    def has_started(self, job: int) -> bool:
        """Whether the job has started, so that it must keep at least its base demand."""
        return bool(self.arrays.held[fluid.STARTED][job])

    def remaining_worker_s(self, job: int) -> float:
        """Return the remaining work of an active job, in worker-seconds."""
        return float(fluid.remaining_work(job, self.arrays))

    def set_keys(self, slope: Sequence[float], offset: Sequence[float]) -> None:
        """Order jobs from now on by slope * remaining work + offset.

        A job with a key of `schedules.kernel.NEVER` or more does not start.
        """
        # Copies of the state share the array `given`, so it is replaced instead of changed.
        given = self.arrays.given.copy()
        given[fluid.SLOPE] = slope
        given[fluid.OFFSET] = offset
        self.arrays = fluid.Fluid(self.arrays.limits, given, *self.arrays[2:])

    def target(self, job: int) -> int:
        """Return the number of workers that the current decision gives to a job so far."""
        return int(self.arrays.held[fluid.TARGET][job])

    def set_target(self, job: int, workers: int) -> None:
        """Set the number of workers of an active job; every active job needs a target."""
        try:
            self.arrays.held[fluid.TARGET][job] = workers
        except (TypeError, IndexError):
            raise TypeError(f"job must be one of state.active, not {show_value(job)}") from None

    def decide(self, kernel: Kernel, *first: Any) -> Any:
        """Run a decision kernel on the state, with the leading arguments `first`."""
        arguments = (*first, self.arrays)
        return kernel.compiled(*arguments) if self.compiled else kernel(*arguments)

    def start_bases(self, *, by_key: bool) -> int:
        """Give base demands to started jobs, then to the waiting jobs that fit.

        Waiting jobs are visited in the order of the key, or by release and file order. Returns the
        remaining GPUs.
        """
        if by_key:
            self.decide(fluid.sort_by_key)
        order = self.arrays.held[fluid.BY_KEY if by_key else fluid.BY_ARRIVAL]
        return int(self.decide(fluid.start_bases, order))

    def advance(self) -> bool:
        """Go to the next release or completion; return False if no event is left.

        Raises
        ------
        ValueError
            If waiting jobs are left that the policy will never start.
        OutOfTimeError
            If the time limit is reached.
        """
        require_time()
        if not self.decide(fluid.advance):
            self._require_all_complete()
            return False
        return True

    def apply(self) -> None:
        """Change the workers of the active jobs to the numbers that the decision has set.

        Raises
        ------
        ValueError
            If the targets break a rule of the problem; the message names the rule.
        """
        fault = int(self.decide(fluid.targets_fault))
        if fault:
            raise ValueError(f"the policy {_FAULTS[fault]} at {self.now_s} s")
        self._make_room()
        self.decide(fluid.apply_targets)

    def run(self, rule: int, *, decides: bool) -> None:
        """Simulate one allocation rule until all jobs complete.

        Parameters
        ----------
        rule
            One of the rules of `schedules.kernel`, such as ``FILL_BASES_FIRST`` or ``MARGINAL``.
        decides
            Whether the rule also takes the decision at the present moment.

        Raises
        ------
        OutOfTimeError
            If the time limit is reached.
        """
        steps = STEPS_BETWEEN_LOOKS_AT_THE_CLOCK
        while not self.decide(fluid.run_rule, rule, int(decides), steps):
            require_time()
            self._empty_log()
            decides = True
        self._require_all_complete()

    def schedule(self) -> Schedule:
        """Return the pieces recorded so far, by start, then in file order."""
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
            raise ValueError(f"the policy never starts the jobs that wait at {self.now_s} s")

    def _make_room(self) -> None:
        """Empty the log of schedule pieces if it might overflow at the next decision."""
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
    """Simulate a policy to the end and return its schedule.

    Parameters
    ----------
    state
        A new state, which the simulation changes.
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
    """Return the mean JCT of a schedule in seconds, rounded once, as the checker computes it.

    For an invalid schedule, it is computed from the ends of its pieces.
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
    """Return the exact sum of floats, in a tenth of the time of adding fractions."""
    numerators: dict[int, int] = defaultdict(int)
    for value in values:
        numerator, denominator = value.as_integer_ratio()
        numerators[denominator] += numerator
    return sum((Fraction(top, bottom) for bottom, top in numerators.items()), Fraction(0))


def _copied(rows: Any) -> Any:
    """Return an independent copy of an array of rows or of a list of lists."""
    return rows.copy() if isinstance(rows, np.ndarray) else [list(row) for row in rows]


def moldable_schedule(instance: Instance) -> Schedule:
    """Return a quick schedule in which no job ever changes its number of workers.

    It is computed without checking the time limit. The waiting job with the least work starts next,
    ties in file order, with as many workers as fit. The jobs behind it wait until its w_min workers
    fit, so that no job waits for ever.

    Complexity O(jobs log jobs): a third of a second for 50,000 jobs. Guarantee: none.
    """
    state = FluidState(instance)
    state.decide(start_moldable)
    return state.schedule()


@kernel_with_lists
def start_moldable(state: Any) -> None:
    """Schedule every job with constant workers from its start to its end, as one logged piece."""
    limits = state.limits
    given = state.given
    least = limits[MIN_WORKERS]
    size = limits[GPUS_PER_WORKER]
    arrivals = limits[ARRIVALS]
    started = state.held[STARTED]
    waiting = [(0.0, 0)]  # (work, job)
    waiting.pop()
    holding = [(0.0, 0)]  # (end, GPUs)
    holding.pop()
    free = state.counts[GPUS]
    kept = 0  # base demands of running jobs not yet handled
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
            if end <= now:  # shorter than one unit in the last place
                end = now * (1.0 + 2.0**-52) + 5e-324
            free -= workers * size[job]
            heapq.heappush(holding, (end, workers * size[job]))
            state.held[WORKERS][job] = workers
            state.moving[SINCE][job] = now
            log_piece(job, end, state)
