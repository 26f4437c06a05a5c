"""Scheduling policies that decide at every release and completion, from the current state alone.

Each policy is a solver (`StepPolicy`). Its rule is a method or a kernel on the state of
`lyra_opt.allocation.schedules`. The policies are ``sjf``, ``srw``, ``lyra``, ``optimus``,
``equal-share``, ``gandiva`` and ``afs``.
"""

import heapq
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lyra_opt.allocation.clock_times import from_first_release
from lyra_opt.allocation.exact.mckp_core import MckpCore
from lyra_opt.allocation.instance import ElasticJob, Instance, Objective, Schedule
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


class SchedulePolicySolver(HeuristicSolver):
    """A base class for policies that decide at every release and completion.

    A policy gives whole workers. A started job keeps at least its base demand until it completes.

    In complexities, J is the number of jobs, A the number of jobs released and not completed, and G
    the number of GPUs. There are at most 2 J decisions, and the evaluator adds O(A) per decision to
    every policy. If all jobs start when they are released, any policy is within max w_max / w_min
    of the optimum, since C_j <= r_j + W_j / w_min and no schedule ends job j before r_j + W_j /
    w_max. If jobs queue, no constant ratio is known to this project.
    """

    problem = "allocation"
    variants = (Objective.MEAN_JCT,)

    solve = from_first_release(HeuristicSolver.solve)

    def stopped(self, instance: Instance) -> SolveResult[Schedule]:
        """Return a quick schedule with constant workers per job, used when time runs out."""
        return scheduled(instance, moldable_schedule(instance), StoppedBy.TIME)

    def objective_of(self, instance: Instance, solution: Schedule) -> float:
        """Return the mean JCT of a schedule in seconds."""
        return mean_jct_s(instance, solution)


def scheduled(
    instance: Instance, schedule: Schedule, stopped_by: StoppedBy | None = None
) -> SolveResult[Schedule]:
    """Return a schedule as a feasible result with its mean JCT."""
    return SolveResult(
        status=Status.FEASIBLE,
        stopped_by=stopped_by,
        solution=schedule,
        objective=mean_jct_s(instance, schedule),
    )


class StepPolicy(SchedulePolicySolver):
    """A base class for policies whose decisions depend on the current state alone.

    Attributes
    ----------
    leaves_no_wish
        Whether running jobs all get their most workers whenever there are enough GPUs for that and
        no job waits. The simulation then decides so without the policy.
    """

    leaves_no_wish = False

    @abstractmethod
    def decide(self, state: FluidState) -> None:
        """Set the number of workers of every active job."""

    def prepare(self, state: FluidState) -> None:
        """Set the keys by which `decide` orders jobs, if it uses keys."""

    def schedule(self, instance: Instance, rng: np.random.Generator) -> Schedule:  # noqa: ARG002
        """Simulate the policy to the end and return its schedule."""
        state = FluidState(instance)
        self.prepare(state)
        return evaluate(state, self.decide)

    def apply(self, instance: Instance, rng: np.random.Generator) -> SolveResult[Schedule]:
        """Return the schedule of the policy and its mean JCT."""
        return scheduled(instance, self.schedule(instance, rng))


@dataclass(frozen=True, slots=True)
class Key:
    """A sort key for jobs, slope * remaining work + offset; the least key comes first.

    Keys are compared after rounding to 40 significant bits. Ties are broken by file order.

    Parameters
    ----------
    slope, offset
        Functions from a job to its slope and its offset.
    """

    slope: Callable[[ElasticJob], float]
    offset: Callable[[ElasticJob], float]

    def set_in(self, state: FluidState) -> None:
        """Order the jobs of `state` by this key."""
        jobs = state.instance.jobs
        state.set_keys([self.slope(job) for job in jobs], [self.offset(job) for job in jobs])


def remaining_times(slope: Callable[[ElasticJob], float]) -> Key:
    """Return the sort key that multiplies a job's remaining work by `slope(job)`."""
    return Key(slope=slope, offset=lambda _: 0.0)


SHORTEST_JOB = Key(slope=lambda _: 0.0, offset=lambda job: job.work_worker_s / job.max_workers)
"""Original work / w_max: the running time of the whole job with the most workers."""

REMAINING_WORK = remaining_times(lambda _: 1.0)
"""Remaining work in worker-seconds."""

REMAINING_GPU_WORK = remaining_times(lambda job: float(job.gpus_per_worker))
"""Remaining work in GPU-seconds."""

REMAINING_WORK_ROOT_GPUS = remaining_times(lambda job: math.sqrt(job.gpus_per_worker))
"""Remaining work times the root of the GPUs per worker, between worker-seconds and GPU-seconds."""

REMAINING_GPU_WORK_ROOT_BASE = remaining_times(
    lambda job: job.gpus_per_worker / math.sqrt(job.min_workers)
)
"""Remaining work in GPU-seconds over the root of w_min, which favours large base demands."""

REMAINING_TIME = remaining_times(lambda job: 1.0 / job.max_workers)
"""Remaining work / w_max."""


@dataclass(frozen=True, slots=True)
class Fill:
    """An allocation rule, such as base demands first, with the key by which it orders jobs.

    Parameters
    ----------
    rule
        ``FILL_BASES_FIRST``, ``FILL_ONE_BY_ONE``, ``FILL_IN_TURN``, ``FILL_WITH_FORESIGHT`` or
        ``MARGINAL``.
    key
        The key.
    """

    rule: int
    key: Key

    def run(self, state: FluidState, *, decides: bool) -> None:
        """Simulate the rule until all jobs complete, beginning with a decision now if `decides`."""
        self.key.set_in(state)
        state.run(self.rule, decides=decides)


class PriorityFill(StepPolicy):
    """A policy that gives base demands, then extra workers, to the jobs in the order of a key.

    At each decision started jobs keep their base demands. Waiting jobs get their base demand in the
    order of the key if it fits, and are skipped if not. Then each started job, in the same order,
    gets as many extra workers as it can use and as fit.

    One kernel simulates the policy to the end. Complexity O(A) per decision, plus one step for each
    pair of jobs that swap places in the order, O(J^2) in total in practice.
    """

    key: Key

    def prepare(self, state: FluidState) -> None:
        """Order jobs by the key of the policy."""
        self.key.set_in(state)

    def decide(self, state: FluidState) -> None:
        """Give base demands in key order, then extra workers in key order."""
        state.decide(decide_by_rule, FILL_BASES_FIRST)

    def schedule(self, instance: Instance, rng: np.random.Generator) -> Schedule:  # noqa: ARG002
        """Return the schedule of the policy, simulated to the end by one kernel."""
        state = FluidState(instance)
        Fill(FILL_BASES_FIRST, self.key).run(state, decides=False)
        return state.schedule()


def quick_schedule(instance: Instance) -> Schedule:
    """Return the schedule of smallest remaining work first, or a simpler one if time runs out."""
    state = FluidState(instance)
    try:
        Fill(FILL_BASES_FIRST, REMAINING_WORK).run(state, decides=False)
    except OutOfTimeError:
        return moldable_schedule(instance)
    return state.schedule()


class ShortestJobFirst(PriorityFill):
    """Shortest job first: `PriorityFill` by the original work / w_max.

    Source: phase 1 of Lyra (EuroSys 2023), section 5.2, with the extra workers given in the same
    order. That is optimal on the paper's first example (table 2) but not on its second (table 4:
    63.33 against 62). Complexity as `PriorityFill`. Guarantee: none if jobs queue; a job that is
    nearly done keeps the rank of its original work.
    """

    name = "sjf"
    leaves_no_wish = True
    key = SHORTEST_JOB


class SmallestRemainingWork(PriorityFill):
    """Smallest remaining work first: `PriorityFill`, malleable shortest remaining time first.

    Source: this project. Shortest remaining time first is optimal for one machine with preemption
    (Schrage 1968), the case in which every job can use all GPUs and has no base demand. Complexity
    as `PriorityFill`. Guarantee: none if jobs queue. Every job that fits starts before the shortest
    job may grow. Take J GPUs and J jobs of equal work with 1 to J workers: they run side by side
    and all end together, whereas running them one after another would halve the mean JCT.
    """

    name = "srw"
    leaves_no_wish = True
    key = REMAINING_WORK


def most_reduction(
    jobs: Sequence[ElasticJob], remaining_worker_s: Sequence[float], free_gpus: int
) -> list[int]:
    """Return the extra workers of each job that maximise the sum of T(w_min) - T(w).

    Parameters
    ----------
    jobs
        Started jobs.
    remaining_worker_s
        Remaining work of each job in worker-seconds; T is the time that it takes.
    free_gpus
        GPUs left by the base demands.

    Notes
    -----
    `MckpCore` solves this knapsack exactly, within 1e-9.
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
    """Lyra's two phases: base demands by work / w_max, then the most valuable extra workers.

    Phase 1: started jobs keep their base demands. Waiting jobs get their base demands in the order
    of work / w_max, ties in file order, if they fit; a job that does not fit is skipped. Phase 2: a
    multiple-choice knapsack distributes the remaining GPUs. It maximises the sum of T(w_min) -
    T(w), where T is the *remaining* time of a started job. The gain falls with each worker of a
    job. If all jobs have equal GPUs per worker, the marginal greedy therefore solves the knapsack
    exactly, ties in file order. Otherwise `lyra_opt.allocation.exact.mckp_core.MckpCore` solves it.

    Source: Lyra (EuroSys 2023), section 5.2. Assumptions: running jobs are valued by their
    remaining work, which the paper leaves open; epochs are releases and completions.

    Complexity O((A + G) log A) per decision with equal GPUs per worker, else that of `MckpCore`.
    Guarantee: none beyond w_max / w_min. The knapsack favours the job with the most work. With n
    jobs (w from 1 to E + 1, work 1), one job of work E (E + 1) / 2 and n + 1 + E GPUs, the long job
    gets all extra workers. The mean JCT is then up to 1.865 times that of ``srw`` (this project;
    the family ``worst-case`` has the formula).
    """

    name = "lyra"

    def prepare(self, state: FluidState) -> None:
        """Order base demands by work / w_max."""
        SHORTEST_JOB.set_in(state)

    def decide(self, state: FluidState) -> None:
        """Start the shortest waiting jobs, then solve the knapsack of extra workers."""
        free = state.start_bases(by_key=True)
        jobs = state.instance.jobs
        started = [job for job in state.active if state.target(job)]
        if len({jobs[job].gpus_per_worker for job in started}) <= 1:
            state.decide(add_by_gain, free, 0)
            return
        elastic = [job for job in started if jobs[job].max_workers > jobs[job].min_workers]
        extra = most_reduction(
            [jobs[job] for job in elastic], [state.remaining_worker_s(job) for job in elastic], free
        )
        for job, workers in zip(elastic, extra, strict=True):
            state.set_target(job, jobs[job].min_workers + workers)


class Optimus(StepPolicy):
    """Base demands by release and file order, then one worker at a time by time saved per GPU.

    The gain of a worker is (R / rate(w) - R / rate(w + 1)) / GPUs per worker, where R is the
    remaining work. Ties are broken by file order.

    Source: Peng et al., *Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning
    Clusters* (EuroSys 2018), in the form with GPUs only of the simulator of AdaptDL (Pollux, OSDI
    2021); the paper from memory. Assumptions: the first worker of a job is its base demand, given
    first come, first served, and a job that does not fit is skipped. Lengths are known, where
    Optimus predicts them from the loss curve. With equal GPUs per worker it differs from ``lyra``
    only in which jobs start first.

    Complexity O((A + G) log A) per decision. Guarantee: none. Like `Lyra`, it gives all extra
    workers to the longest job on that policy's worst-case family.
    """

    name = "optimus"

    def decide(self, state: FluidState) -> None:
        """Give base demands by release, then extra workers by time saved per GPU."""
        free = state.start_bases(by_key=False)
        state.decide(add_by_gain, free, 1)


@kernel_with_lists
def add_to_smallest_share(free: int, state: Any) -> Any:
    """Add one worker at a time to the job with the fewest GPUs; ties by release and file order.

    A job whose next worker does not fit gets no more workers.
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
    """Give base demands and single workers to the winner of AFS-L's pairwise comparisons.

    A step is the base demand of a waiting job, or one more worker. Among the jobs whose step fits,
    by release and file order, the first is compared with the second, and each winner with the next
    job.
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
            # Find which job would complete first; a job without workers would never complete.
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
    """Base demands by release and file order, then each worker to the job with the fewest GPUs.

    One worker at a time goes to the started job that holds the fewest GPUs, ties by release, then
    in file order. A job whose next worker does not fit gets no more workers.

    Source: processor sharing, the standard of fairness; the form with whole workers and base
    demands is this project's own. Complexity O((A + G) log A) per decision. Guarantee: without base
    demands, with w_max = G and with all jobs released together, at most twice the optimum, and that
    is tight (equal jobs). There is no guarantee if jobs have base demands and queue.
    """

    name = "equal-share"
    leaves_no_wish = True

    def decide(self, state: FluidState) -> None:
        """Give base demands by release, then each extra worker to the job with the fewest GPUs."""
        free = state.start_bases(by_key=False)
        state.decide(add_to_smallest_share, free)


class Gandiva(StepPolicy):
    """Base demands by release and file order; extra workers only while no job waits.

    Source: Gandiva (OSDI 2018), "grow-shrink", as Lyra (EuroSys 2023), section 7, describes its
    baseline: "grow jobs when there are free GPUs and no pending job". Assumptions: base demands
    come first come, first served, and a job that does not fit is skipped. Grown jobs shrink to
    their base demands when a job is left waiting. Extra workers are levelled as in `EqualShare`.
    Gandiva's time-slicing, packing and migration are not modelled: started jobs are not suspended,
    and all GPUs are alike.

    Complexity O((A + G) log A) per decision. Guarantee: none. One waiting job with a base demand of
    G keeps every other job at its base demand. If a job with base demand 1 and w_max = G has just
    started, G - 1 GPUs idle until it ends, and the mean JCT is up to G times the optimum.
    """

    name = "gandiva"
    leaves_no_wish = True

    def decide(self, state: FluidState) -> None:
        """Give base demands by release, and extra workers only if no active job waits."""
        free = state.start_bases(by_key=False)
        if all(state.target(job) for job in state.active):
            state.decide(add_to_smallest_share, free)


class Afs(StepPolicy):
    """Give one worker at a time to the winner of pairwise comparisons of jobs.

    Take a shorter job a and a longer job b, by remaining time with their current workers. Job b
    wins if and only if (p_b(m_b + 1) - p_b(m_b)) / p_b(m_b + 1) exceeds (p_a(m_a + 1) - p_a(m_a)) /
    p_a(m_a), where p is the throughput. Of two jobs without workers, the job that is shorter alone
    wins. The winner of each comparison is compared with the next job.

    Source: AFS-L of Hwang et al., *Elastic Resource Sharing for Distributed Deep Learning* (NSDI
    2021), after the re-implementation in the Voda scheduler and from memory, without the paper's
    text. Assumptions: the first step of a job is its whole base demand, and started jobs keep
    theirs. Both sides are divided by the GPUs of the step. Jobs are compared by release, then in
    file order. A step that does not fit is skipped.

    Complexity O(A G) per decision. Guarantee: none. Once jobs run, the rule compares rates of
    progress and not lengths, so it tends to equal shares.
    """

    name = "afs"
    leaves_no_wish = True

    def decide(self, state: FluidState) -> None:
        """Allocate the GPUs one step at a time by AFS-L's comparisons."""
        state.decide(share_by_afs)
