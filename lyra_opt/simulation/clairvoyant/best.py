"""Search for a good schedule of a whole workload of gangs, with full knowledge of all jobs."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import process_time

import numpy as np

from lyra_opt.core.arrays import FloatArray, IntArray
from lyra_opt.core.solving import RefutedClaimError
from lyra_opt.core.stopwatch import OutOfTimeError, require_time
from lyra_opt.simulation.clairvoyant.checker import check_starts
from lyra_opt.simulation.clairvoyant.gangs import MICROSECONDS, Capacity, Gangs
from lyra_opt.simulation.clairvoyant.lists import ListScheduler
from lyra_opt.simulation.clairvoyant.reinsertion import reinserted
from lyra_opt.simulation.clairvoyant.relaxation import Relaxation
from lyra_opt.simulation.clairvoyant.windows import Rule, WindowSearch
from lyra_opt.simulation.least_run import least_run_s
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.workload import Workload

PASSES = 120
FIRST_PASSES = 20
"""Passes before the first schedules are made from the prices."""
PASSES_A_ROUND = 20
"""Passes between two rounds of schedules; after each round the slack changes."""
TRIES = 3
SOONER_US = tuple(MICROSECONDS * each for each in (30, 120, 300, 600, 1200, 3600))
"""Times by which all jobs of a window are pulled forward."""
PULLS = 3
"""Number of searches that pull jobs forward; on Philly, a fourth one gains less than 0.03 %."""
MOVES = 16
"""Moves per job that put some jobs back in another order."""
MOST_STARTS = 6
"""Number of best schedules among which each window chooses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSchedule:
    """A schedule of gangs that an independent checker has found valid.

    Parameters
    ----------
    start_s : array of jobs
        Start time of each job.
    jct_mean_s
        Mean JCT, as the checker computes it.
    evaluations
        Number of list schedules computed, of the whole workload or of some windows.
    cpu_s
        CPU time of the whole search.
    """

    start_s: FloatArray
    jct_mean_s: float
    evaluations: int
    cpu_s: float


@dataclass(slots=True)
class _Found:
    """A schedule, with the earliest start times and the list-scheduling rule that produced it."""

    jct_mean_s: float
    start_us: IntArray
    earliest_us: IntArray
    rule: Rule


class _Search:
    """A search for schedules of gangs; it keeps the best schedules that it finds, best first."""

    def __init__(self, gangs: Gangs, capacity: Capacity) -> None:
        self._gangs, self._capacity = gangs, capacity
        self._scheduler = ListScheduler.of(gangs, capacity)
        self._rules = [Rule(turn=gangs.area_gpu_s, backfills=each) for each in (False, True)]
        self.found: list[_Found] = []
        self.evaluations = 0

    @property
    def best(self) -> _Found:
        """The found schedule with the smallest mean JCT."""
        return self.found[0]

    def attempt(self, earliest_us: IntArray, rules: Sequence[Rule] = ()) -> _Found:
        """Make a list schedule by each rule, and keep and return the best one.

        By default, the rules are the order of area, with backfilling and without.
        """
        made = []
        for rule in rules or self._rules:
            start_us = self._scheduler.schedule(rule.turn, earliest_us, backfills=rule.backfills)
            jct_mean_s = self._gangs.jct_mean_s(start_us)
            made.append(_Found(jct_mean_s, start_us, earliest_us, rule))
        self.evaluations += len(made)
        better = min(made, key=lambda found: found.jct_mean_s)
        self.found = sorted([*self.found, better], key=lambda found: found.jct_mean_s)
        del self.found[MOST_STARTS:]
        return better

    def follow(self, relaxation: Relaxation, passes: int) -> None:
        """Make list schedules from a relaxation's starts, and adjust its capacity slack to them."""
        done = 0
        while done < passes:
            require_time()
            more = FIRST_PASSES if done == 0 else PASSES_A_ROUND
            relaxation.advance(min(more, passes - done))
            done += more
            made = [self.attempt(start_us) for start_us in relaxation.medians_us()]
            if made:
                relaxation.balance(min(made, key=lambda found: found.jct_mean_s).start_us)

    def improve(self, relaxation: Relaxation, tries: int, rng: np.random.Generator) -> None:
        """Improve the best schedule by random changes in one time window after another."""
        require_time()
        windows = WindowSearch(self._gangs, self._capacity, self.best.rule, relaxation, rng)
        self.attempt(windows.improve([found.earliest_us for found in self.found], tries))
        self.evaluations += windows.evaluations
        for _ in range(PULLS):
            self._pull_forward(relaxation, rng)
        self._reinsert()

    def _pull_forward(self, relaxation: Relaxation, rng: np.random.Generator) -> None:
        """Let jobs start earlier, in the order of their starts, wherever this helps a window.

        The jobs are held back to leave GPUs for short jobs, and these GPUs are not all needed.
        """
        require_time()
        start_us = self.best.start_us
        rule = Rule(turn=start_us / MICROSECONDS, backfills=False)
        windows = WindowSearch(self._gangs, self._capacity, rule, relaxation, rng)
        sooner = [start_us, *(start_us - each for each in SOONER_US)]
        self.attempt(windows.improve(sooner, 0), (rule,))
        self.evaluations += windows.evaluations

    def _reinsert(self) -> None:
        """Take out a few jobs near one time and put them back in another order, many times."""
        best = self.best
        moves = MOVES * len(self._gangs)
        start_us = reinserted(self._gangs, self._capacity, best.start_us, moves)
        rule = Rule(turn=start_us / MICROSECONDS, backfills=False)
        found = _Found(self._gangs.jct_mean_s(start_us), start_us, start_us, rule)
        self.found = sorted([found, *self.found], key=lambda found: found.jct_mean_s)


def best_schedule(
    gangs: Gangs,
    capacity: Capacity,
    border_s: FloatArray,
    price: FloatArray | None = None,
    *,
    seed: int = 0,
    passes: int = PASSES,
    tries: int = TRIES,
) -> CheckedSchedule:
    """Search for a schedule of gangs with a small mean JCT, and return the best found.

    Parameters
    ----------
    gangs, capacity
        The jobs, and the number of GPUs over time.
    border_s : array of cells + 1
        Begins of the time intervals (cells) with constant prices, from 0, and the horizon.
    price : array of (1, cells)
        Prices that prove a good bound; by default, the search begins with prices of its own.
    seed
        Random seed of the changes.
    passes
        Number of passes over all jobs to compute prices.
    tries
        Random changes tried in each window.

    Raises
    ------
    UserError
        If the cluster never has room for a job.

    Notes
    -----
    Jobs are held back to the starts that they would choose at the prices of a slightly smaller
    cluster, then start in order of area. The best of such schedules is improved window
    by window, then by pulling jobs forward in the order of their starts. At last, a few jobs at a
    time are put back in another order. A time limit ends the search with the best schedule so far.
    Source: this project; list schedules from the starts of a relaxation as in Savelsbergh, Uma and
    Wein (2005). Complexity: O(passes * jobs * cells that a job looks at), O(tries) list schedules
    of all windows, and `MOVES` moves per job. Guarantee: none.
    """
    began_s = process_time()
    search = _Search(gangs, capacity)
    search.attempt(gangs.release_us)
    with suppress(OutOfTimeError):
        relaxation = Relaxation(gangs, capacity, border_s, price)
        search.follow(relaxation, passes)
        search.improve(relaxation, tries, np.random.default_rng(seed))
    best = search.best
    report = check_starts(gangs, capacity, best.start_us.tolist())
    if report.objective is None:
        raise RefutedClaimError(report.violations[0])
    return CheckedSchedule(
        start_s=best.start_us / MICROSECONDS,
        jct_mean_s=float(report.objective),
        evaluations=search.evaluations,
        cpu_s=process_time() - began_s,
    )


def obstacle(workload: Workload, speed: Speed) -> str | None:
    """Return, as a clause, why the schedule search cannot take a workload; None if it can.

    Schedules only count GPUs, so every worker must be a single GPU, and a job always holds the same
    number of GPUs and runs at its best rate.
    """
    cluster = speed.cluster
    if len(cluster.pools) > 1:
        return "the cluster has several GPU types or loans"
    if speed.communication is not None:
        return "distance slows gangs on this cluster"
    for job in workload.jobs:
        if job.gpus_per_worker > 1:
            return f"a worker of job {job.id} needs several GPUs on one server"
        if job.is_elastic:
            return f"job {job.id} is elastic"
        if job.is_slice:
            return f"job {job.id} asks for part of a GPU"
        if job.measured is not None:
            return f"job {job.id} has measured throughputs"
    return None


def schedule_of(
    workload: Workload,
    speed: Speed,
    border_s: FloatArray,
    price: FloatArray | None = None,
    *,
    seed: int = 0,
) -> CheckedSchedule:
    """Return the best schedule found for a workload that `obstacle` does not rule out.

    See `best_schedule`.

    Parameters
    ----------
    workload
        The jobs that are submitted.
    speed
        The speed of jobs on their cluster.
    border_s : array of cells + 1
        Begins of the time intervals (cells) with constant prices, from 0, and the horizon.
    price : array of (1, cells)
        Prices that prove a good bound; by default, the search begins with prices of its own.
    seed
        Random seed of the search.
    """
    first_s = workload.jobs[0].submit_s
    gangs = Gangs.of(
        release_s=[job.submit_s - first_s for job in workload.jobs],
        run_s=least_run_s(workload, speed, borrows=False),
        gpus=[job.min_gpus for job in workload.jobs],
    )
    capacity = Capacity.constant(speed.cluster.gpus)
    return best_schedule(gangs, capacity, border_s, price, seed=seed)
