"""Policies that decide anew at every event, from the state alone, and what they share.

Each is a solver (`StepPolicy`) whose rule is a method or a kernel on the state of
`lyra_opt.allocation.schedules`: ``sjf``, ``srw``, ``lyra``, ``optimus``, ``equal-share``,
``gandiva`` and ``afs``.
"""

from __future__ import annotations

import heapq
import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.allocation.clock_times import from_first_release
from lyra_opt.allocation.exact.mckp_core import MckpCore
from lyra_opt.allocation.instance import Objective
from lyra_opt.allocation.knapsack.data import Knapsack
from lyra_opt.allocation.schedules.evaluator import (
    FluidState,
    evaluate,
    mean_jct_s,
    moldable_schedule,
)
from lyra_opt.allocation.schedules.kernel import (
    ACTIVE,
    BY_ARRIVAL,
    EFFICIENCY,
    FILL_BASES_FIRST,
    GPUS_PER_WORKER,
    MAX_WORKERS,
    MIN_WORKERS,
    TARGET,
    add_by_gain,
    decide_by_rule,
    keep_bases,
    remaining_work,
)
from lyra_opt.core.kernels import kernel, kernel_with_lists
from lyra_opt.core.result import SolveResult, Status, StoppedBy
from lyra_opt.core.solver import HeuristicSolver
from lyra_opt.core.stopwatch import OutOfTimeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lyra_opt.allocation.instance import ElasticJob, Instance, Schedule


class SchedulePolicySolver(HeuristicSolver):
    """A rule that decides anew at every release and completion.

    It gives whole workers. A job that has started keeps at least its base demand until it
    completes.

    In complexities, J is the number of jobs, A of those released and not complete, G of GPUs;
    there are at most 2 J decisions. Every policy adds O(A) a decision for what the evaluator
    does. If all jobs start when they are released, any policy is within max w_max / w_min of the
    optimum, since C_j <= r_j + W_j / w_min and no schedule ends job j before r_j + W_j / w_max;
    where jobs queue, no constant ratio is known to this project.
    """

    problem = "allocation"
    variants = (Objective.MEAN_JCT,)

    solve = from_first_release(HeuristicSolver.solve)

    def stopped(self, instance: Instance) -> SolveResult[Schedule]:
        """Return a schedule of moldable jobs."""
        return scheduled(instance, moldable_schedule(instance), StoppedBy.TIME)

    def objective_of(self, instance: Instance, solution: Schedule) -> float:
        """Return its mean JCT in seconds."""
        return mean_jct_s(instance, solution)


def scheduled(
    instance: Instance, schedule: Schedule, stopped_by: StoppedBy | None = None
) -> SolveResult[Schedule]:
    """Return a schedule with its mean JCT."""
    return SolveResult(
        status=Status.FEASIBLE,
        stopped_by=stopped_by,
        solution=schedule,
        objective=mean_jct_s(instance, schedule),
    )


class StepPolicy(SchedulePolicySolver):
    """A policy that is told by its decisions, each from the state alone."""

    @abstractmethod
    def decide(self, state: FluidState) -> None:
        """Set the target of every active job."""

    def prepare(self, state: FluidState) -> None:
        """Set the keys that `decide` orders by, if it does."""

    def schedule(self, instance: Instance, rng: np.random.Generator) -> Schedule:  # noqa: ARG002
        """Return the schedule that the decisions make."""
        state = FluidState(instance)
        self.prepare(state)
        return evaluate(state, self.decide)

    def apply(self, instance: Instance, rng: np.random.Generator) -> SolveResult[Schedule]:
        """Return the schedule and its mean JCT."""
        return scheduled(instance, self.schedule(instance, rng))


@dataclass(frozen=True, slots=True)
class Key:
    """A key that orders jobs, the least first: slope * remaining work + offset.

    Keys are compared after rounding to 40 significant bits; equal ones go in file order.

    Parameters
    ----------
    slope, offset
        Of each job.
    """

    slope: Callable[[ElasticJob], float]
    offset: Callable[[ElasticJob], float]

    def set_in(self, state: FluidState) -> None:
        """Order the jobs of `state` by this key."""
        jobs = state.instance.jobs
        state.set_keys([self.slope(job) for job in jobs], [self.offset(job) for job in jobs])


def remaining_times(slope: Callable[[ElasticJob], float]) -> Key:
    """Return the key slope * remaining work."""
    return Key(slope=slope, offset=lambda _: 0.0)


SHORTEST_JOB = Key(slope=lambda _: 0.0, offset=lambda job: job.work_worker_s / job.max_workers)
"""The original work over w_max: the running time with the most workers, before it starts."""

REMAINING_WORK = remaining_times(lambda _: 1.0)
"""In worker-seconds."""

REMAINING_GPU_WORK = remaining_times(lambda job: float(job.gpus_per_worker))
"""In GPU-seconds."""

REMAINING_WORK_ROOT_GPUS = remaining_times(lambda job: math.sqrt(job.gpus_per_worker))
"""Remaining work times the root of the GPUs per worker: between the two above."""

REMAINING_GPU_WORK_ROOT_BASE = remaining_times(
    lambda job: job.gpus_per_worker / math.sqrt(job.min_workers)
)
"""Remaining GPU work over the root of w_min: jobs that may not wait for GPUs one by one."""

REMAINING_TIME = remaining_times(lambda job: 1.0 / job.max_workers)
"""Remaining work over w_max."""


@dataclass(frozen=True, slots=True)
class Fill:
    """A rule of `lyra_opt.allocation.schedules.kernel` with the key that it orders jobs by.

    Parameters
    ----------
    rule
        ``FILL_BASES_FIRST``, ``FILL_ONE_BY_ONE``, ``FILL_IN_TURN`` or ``MARGINAL``.
    key
        The key.
    """

    rule: int
    key: Key

    def run(self, state: FluidState, *, decides: bool) -> None:
        """Simulate the rule to the end; `decides` as for `FluidState.run`."""
        self.key.set_in(state)
        state.run(self.rule, decides=decides)


class PriorityFill(StepPolicy):
    """Fill in order of a key: base demands first, then extra workers in the same order.

    At each decision started jobs keep their base demands, waiting jobs get theirs in order of
    key if it fits (one that does not is skipped), and then each started job, in the same order,
    gets as many extra workers as it can use and as are left.

    Simulated to the end by one kernel. Complexity O(A) a decision and one step for each pair of
    jobs that change places in the order, O(J^2) in all in practice.
    """

    key: Key

    def prepare(self, state: FluidState) -> None:
        """Order jobs by the key."""
        self.key.set_in(state)

    def decide(self, state: FluidState) -> None:
        """Fill once."""
        state.decide(decide_by_rule, FILL_BASES_FIRST)

    def schedule(self, instance: Instance, rng: np.random.Generator) -> Schedule:  # noqa: ARG002
        """Return the schedule that the key makes, by one kernel to its end."""
        state = FluidState(instance)
        Fill(FILL_BASES_FIRST, self.key).run(state, decides=False)
        return state.schedule()


def quick_schedule(instance: Instance) -> Schedule:
    """Return the schedule of ``srw``, or one of moldable jobs where there is no time for that."""
    state = FluidState(instance)
    try:
        Fill(FILL_BASES_FIRST, REMAINING_WORK).run(state, decides=False)
    except OutOfTimeError:
        return moldable_schedule(instance)
    return state.schedule()


class ShortestJobFirst(PriorityFill):
    """Shortest job first: `PriorityFill` by work / w_max, the original work.

    Source: phase 1 of Lyra (EuroSys 2023), section 5.2, with the extra workers given in the same
    order, which is right on the paper's first example (table 2) and wrong on its second (table
    4: 63.33 against 62). Complexity as `PriorityFill`. Guarantee: none where jobs queue; a job
    that is nearly done keeps the rank of its original work.
    """

    name = "sjf"
    key = SHORTEST_JOB


class SmallestRemainingWork(PriorityFill):
    """Smallest remaining work first: `PriorityFill`, malleable shortest remaining time first.

    Source: this project. Shortest remaining time first is optimal for one machine with preemption
    (Schrage 1968): the case in which every job can use all GPUs and none needs any. Complexity as
    `PriorityFill`. Guarantee: none where jobs queue. It lets every job start that fits before the
    shortest may grow: on J GPUs, J jobs of equal work with 1 to J workers run side by side and all
    end at the end, where one after the other would halve the mean JCT.
    """

    name = "srw"
    key = REMAINING_WORK


def most_reduction(
    jobs: Sequence[ElasticJob], remaining_worker_s: Sequence[float], free_gpus: int
) -> list[int]:
    """Return the extra workers of each job, with the most sum of T(w_min) - T(w) that fits.

    Parameters
    ----------
    jobs
        Started jobs.
    remaining_worker_s
        The work that each of them has left; T is the time that it takes.
    free_gpus
        What their base demands leave.

    Notes
    -----
    Solved exactly, within 1e-9, by `MckpCore`.
    """
    if not jobs:
        return []
    extra = np.array([job.max_workers - job.min_workers for job in jobs], dtype=np.int64)
    size = np.array([job.gpus_per_worker for job in jobs], dtype=np.int64)
    extra = np.minimum(extra, free_gpus // size)
    start = np.concatenate(([0], np.cumsum(extra)))
    job_of = np.repeat(np.arange(len(jobs)), extra)
    workers = np.arange(len(job_of)) - start[job_of] + 1
    least = np.array([job.min_workers for job in jobs], dtype=np.float64)[job_of]
    gained = workers * np.array([1.0 - job.scaling_loss for job in jobs])[job_of]
    left = np.array(remaining_worker_s, dtype=np.float64)[job_of]
    knapsack = Knapsack(
        capacity=free_gpus,
        start=start.astype(np.int64),
        weight=workers * size[job_of],
        value=left * (gained / (least * (least + gained))),
    ).reduced()
    choice = MckpCore().choose(knapsack)
    chosen = knapsack.original(choice.chosen)
    return [int(workers[item]) if item >= 0 else 0 for item in chosen]


class Lyra(StepPolicy):
    """Base demands by work / w_max; then the extra workers that reduce JCT most in all.

    Phase 1: started jobs keep their base demands, waiting jobs get theirs in order of
    work / w_max, ties in file order, if it fits; one that does not is skipped. Phase 2: a
    multiple-choice knapsack of the GPUs left, with the most sum of T(w_min) - T(w) where T is
    the *remaining* time of a started job. The gains of a job's workers fall one after the other,
    so that with equal GPUs per worker the marginal greedy solves it exactly, ties in file order;
    else `lyra_opt.allocation.exact.mckp_core.MckpCore` does.

    Source: Lyra (EuroSys 2023), section 5.2. Assumed here: running jobs are valued by their
    remaining work, which the paper leaves open; epochs are releases and completions.

    Complexity O((A + G) log A) a decision with equal GPUs per worker, else
    `MckpCore`'s.
    Guarantee: none beyond w_max / w_min. The knapsack favours the job with the most work: with n
    jobs (w from 1 to E + 1, work 1), one job of work E (E + 1) / 2 and n + 1 + E GPUs it keeps
    all extra workers on the long job, at up to 1.865 times the mean JCT of ``srw`` (this
    project; the family ``worst-case`` has the formula).
    """

    name = "lyra"

    def prepare(self, state: FluidState) -> None:
        """Order base demands by work / w_max."""
        SHORTEST_JOB.set_in(state)

    def decide(self, state: FluidState) -> None:
        """Start the shortest, then solve the knapsack."""
        free = state.start_bases(by_key=True)
        jobs = state.instance.jobs
        started = [job for job in state.active if state.target(job)]
        if len({jobs[job].gpus_per_worker for job in started}) <= 1:
            state.decide(add_by_gain, free, 0)
            return
        elastic = [job for job in started if jobs[job].max_workers > jobs[job].min_workers]
        extra = most_reduction(
            [jobs[job] for job in elastic],
            [state.remaining_worker_s(job) for job in elastic],
            free,
        )
        for job, workers in zip(elastic, extra, strict=True):
            state.set_target(job, jobs[job].min_workers + workers)


class Optimus(StepPolicy):
    """Base demands by release and file; then one worker at a time by reduced time per GPU.

    The gain of a worker is R / rate(w) - R / rate(w + 1) with R the remaining work, divided by
    the GPUs of a worker; ties in file order.

    Source: Peng et al., *Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning
    Clusters* (EuroSys 2018), in the form with GPUs only of the simulator of AdaptDL (Pollux, OSDI
    2021); the paper from memory. Assumed here: each job's first worker is its base
    demand, given first come, first served, a job that does not fit being skipped; lengths are
    known, where Optimus predicts them from the loss curve. With equal GPUs per worker it differs
    from ``lyra`` in nothing but who starts first.

    Complexity O((A + G) log A) a decision. Guarantee: none. It has Lyra's fault: on
    `Lyra`'s family all extra workers go to the longest job.
    """

    name = "optimus"

    def decide(self, state: FluidState) -> None:
        """Hand out the workers by gain."""
        free = state.start_bases(by_key=False)
        state.decide(add_by_gain, free, 1)


@kernel_with_lists
def add_to_smallest_share(free: int, state: Any) -> Any:
    """Add one worker at a time to the job that holds the fewest GPUs; ties by release and file.

    A job whose next worker does not fit gets no more.
    """
    target = state.held[TARGET]
    size = state.limits[GPUS_PER_WORKER]
    most = state.limits[MAX_WORKERS]
    by_arrival = state.held[BY_ARRIVAL]
    heap = [(0, 0)]
    heap.pop()
    for place in range(state.counts[ACTIVE]):
        job = by_arrival[place]
        if 0 < target[job] < most[job]:
            heap.append((target[job] * size[job], place))
    heapq.heapify(heap)
    while free > 0 and len(heap) > 0:
        _, place = heapq.heappop(heap)
        job = by_arrival[place]
        if size[job] > free:
            continue
        target[job] += 1
        free -= size[job]
        if target[job] < most[job]:
            heapq.heappush(heap, (target[job] * size[job], place))
    return free


@kernel
def share_by_afs(state: Any) -> Any:
    """Give base demands and workers one at a time to the winner of AFS-L's comparisons.

    A step is the base demand of a waiting job, or one more worker. The first job of those whose
    step fits, by release and file, is compared with each later one in turn, the winner going on.
    """
    target = state.held[TARGET]
    least = state.limits[MIN_WORKERS]
    size = state.limits[GPUS_PER_WORKER]
    efficiency = state.given[EFFICIENCY]
    free = keep_bases(state)
    most = state.limits[MAX_WORKERS]
    by_arrival = state.held[BY_ARRIVAL]
    while free > 0:
        best = -1
        for place in range(state.counts[ACTIVE]):
            job = by_arrival[place]
            if target[job] == most[job]:
                continue
            step = size[job] if target[job] > 0 else least[job] * size[job]
            if step > free:
                continue
            if best < 0:
                best = job
                continue
            best_left = remaining_work(best, state)
            left = remaining_work(job, state)
            if target[best] == 0 and target[job] == 0:
                if left / least[job] < best_left / least[best]:
                    best = job
                continue
            # The shorter of the two at its own share, and the longer; without workers: endless.
            short = best
            long = job
            if target[best] == 0:
                short = job
                long = best
            elif target[job] > 0:
                rate = least[job] + (target[job] - least[job]) * efficiency[job]
                best_rate = least[best] + (target[best] - least[best]) * efficiency[best]
                if left / rate < best_left / best_rate:
                    short = job
                    long = best
            short_rate = least[short] + (target[short] - least[short]) * efficiency[short]
            short_gain = efficiency[short] / (short_rate * size[short])
            if target[long] > 0:
                rate = least[long] + (target[long] - least[long]) * efficiency[long]
                rate += efficiency[long]
                long_gain = efficiency[long] / (rate * size[long])
            else:
                long_gain = 1.0 / (least[long] * size[long])
            best = long if long_gain > short_gain else short
        if best < 0:
            break
        if target[best] > 0:
            target[best] += 1
            free -= size[best]
        else:
            target[best] = least[best]
            free -= least[best] * size[best]
    return free


class EqualShare(StepPolicy):
    """Base demands by release and file where they fit; then each worker to the smallest holder.

    One worker at a time goes to the started job that holds the fewest GPUs, ties by release,
    then in file order; a job whose next worker does not fit gets no more.

    Source: processor sharing, the yardstick of fairness; its form with whole workers and base
    demands is this project's. Complexity O((A + G) log A) a decision. Guarantee: without base
    demands and with w_max = G it is twice the optimum at most when all jobs are released
    together, and that is tight (equal jobs); with base demands none where jobs queue.
    """

    name = "equal-share"

    def decide(self, state: FluidState) -> None:
        """Level the GPUs that jobs hold."""
        free = state.start_bases(by_key=False)
        state.decide(add_to_smallest_share, free)


class Gandiva(StepPolicy):
    """Base demands by release and file where they fit; extra workers only while no job waits.

    Source: Gandiva (OSDI 2018), "grow-shrink", as Lyra (EuroSys 2023), section 7, describes its
    baseline: "grow jobs when there are free GPUs and no pending job". Assumed here: base demands
    come first come, first served, a job that does not fit being skipped; grown jobs shrink to
    their base demands when a job is left waiting; who grows is levelled as in `EqualShare`.
    Gandiva's time-slicing, packing and migration have no counterpart: started jobs are not
    suspended, and GPUs are alike.

    Complexity O((A + G) log A) a decision. Guarantee: none. One waiting job with a base demand
    of G holds every other at its base demand: with a job of base demand 1 and w_max = G that has
    just started, G - 1 GPUs idle until it ends, and the mean JCT is up to G times the optimum.
    """

    name = "gandiva"

    def decide(self, state: FluidState) -> None:
        """Grow the started jobs if all have started."""
        free = state.start_bases(by_key=False)
        if all(state.target(job) for job in state.active):
            state.decide(add_to_smallest_share, free)


class Afs(StepPolicy):
    """Give one worker at a time to the winner of pairwise comparisons of jobs.

    Of a shorter job a and a longer one b, by remaining time with the workers that each has so
    far, b wins if and only if (p_b(m_b + 1) - p_b(m_b)) / p_b(m_b + 1) exceeds
    (p_a(m_a + 1) - p_a(m_a)) / p_a(m_a), where p is the throughput; of two jobs without workers
    the one that is shorter alone. The winner of each comparison meets the next job.

    Source: AFS-L of Hwang et al., *Elastic Resource Sharing for Distributed Deep Learning* (NSDI
    2021), after the re-implementation in the Voda scheduler and from memory, without the paper's
    text. Assumed here: a job's first step is its whole base demand, and started
    jobs keep theirs; both sides are divided by the GPUs of the step; jobs meet by release, then
    in file order; a step that does not fit is passed over.

    Complexity O(A G) a decision. Guarantee: none. The rule compares rates of progress and not
    lengths once jobs run: it tends to equal shares whatever the lengths.
    """

    name = "afs"

    def decide(self, state: FluidState) -> None:
        """Hand out the GPUs one step at a time."""
        state.decide(share_by_afs)
