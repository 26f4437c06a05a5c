"""Fast proved bounds on the optimum of the heterogeneous problem, for every objective.

The bounds hold for every solution that the checker accepts, within its tolerances.

Schedules in rounds:

* *Each job alone.* No job completes earlier than it would with the whole cluster to itself
  (`lyra_opt.heterogeneous.bounds.fastest`), and utilities never increase with time. So the sum of
  utilities at these rounds bounds `utility`, the latest of them `makespan`, and the mean of the
  JCTs `mean_jct`. The progress of each job alone bounds `round_progress`.
* *One fast machine* (`mean_jct`). A gang of g that runs at rate v holds g GPUs for each round, and
  v is at most the best rate V of the job. So the job needs at least A = g steps / (V round_s)
  GPU-rounds. Consider one preemptive machine that does C GPU-rounds per round, where C is the
  number of GPUs in the cluster. Every schedule is feasible on this machine. There, shortest
  remaining processing time completes the most jobs by any time (Schrage 1968; Smith 1978). So the
  k-th completion occurs at or after that of the machine, rounded up to whole rounds.
* *GPU time as a fluid*: a linear programme (`lyra_opt.heterogeneous.bounds.fluid`).

Time shares: a job does at most the steps of its best usable type. That bounds its term of each
objective, and sums and extremes of these terms bound the objective. For `throughput` and `cost`,
the GPUs of a type also yield at most what they would yield for the most valuable job on that type:

    sum_j w_j X_jr x_jr = sum_j (w_j X_jr / g_j) g_j x_jr <= C_r max_j w_j X_jr / g_j.

For `max_min_share` let s be the value, so that g_j thr_j >= s w_j e_j for all jobs, where e_j is
thr_j on equal shares. A GPU of type r contributes at most X_jr / g_j to job j. With V_j = max_r
X_jr the job needs at least g_j thr_j / V_j GPUs, so s sum_j w_j e_j / V_j <= C. For
`makespan_share`, where thr_j >= R_j / T, likewise sum_j g_j R_j / V_j <= C T.
"""

import heapq
import math
from fractions import Fraction

from lyra_opt.core.arithmetic import float_up
from lyra_opt.heterogeneous.bounds.fastest import earliest_completion, most_steps_a_round
from lyra_opt.heterogeneous.bounds.fluid import fluid_bound
from lyra_opt.heterogeneous.checker import due_steps, jct_s, worth
from lyra_opt.heterogeneous.instance import SHARE_OBJECTIVES, GangJob, Instance, Objective
from lyra_opt.heterogeneous.share_checker import SHARE_TOLERANCE, ShareNumbers, greatest


def dual_bound(instance: Instance) -> float:
    """Return a proved bound on the optimum: an upper bound for maximisation, else a lower bound.

    If the instance has no valid solution, any number may be returned. Takes two linear programmes
    with at most some thousands of variables, and O(jobs (log jobs + servers)) beyond them.
    """
    if instance.objective in SHARE_OBJECTIVES:
        return _share_bound(instance)
    simple, fluid = simple_bound(instance), fluid_bound(instance)
    if fluid is None:
        fluid = simple
    if instance.objective.sense == "max":
        return float_up(min(simple, fluid))
    least = max(simple, fluid)
    if instance.objective is Objective.MEAN_JCT:  # the sum of completion rounds is an integer
        released_s = sum((Fraction(job.release_s) for job in instance.jobs), Fraction(0))
        round_s, jobs = Fraction(instance.round_s), len(instance.jobs)
        rounds = math.ceil((least * jobs + released_s) / round_s)
        least = (rounds * round_s - released_s) / jobs
    return -float_up(-least)


def simple_bound(instance: Instance) -> Fraction:
    """Return the tightest bound on a schedule objective that needs no linear programme."""
    if instance.objective is Objective.ROUND_PROGRESS:
        return sum((_progress_alone(instance, job) for job in instance.jobs), Fraction(0))
    earliest = [earliest_completion(instance, job) for job in instance.jobs]
    if instance.objective is Objective.UTILITY:
        return sum(
            (
                worth(instance, job, number)
                for job, number in zip(instance.jobs, earliest, strict=True)
                if number is not None and number < instance.horizon_rounds
            ),
            Fraction(0),
        )
    # If a job can never complete, no schedule is feasible, so any number is a valid bound.
    last = [instance.horizon_rounds if number is None else number for number in earliest]
    if instance.objective is Objective.MAKESPAN:
        return (max(last) + 1) * Fraction(instance.round_s)
    alone_s = sum(
        (jct_s(instance, job, number) for job, number in zip(instance.jobs, last, strict=True)),
        Fraction(0),
    )
    return max(alone_s, _one_machine_s(instance)) / len(instance.jobs)


def _progress_alone(instance: Instance, job: GangJob) -> Fraction:
    if instance.first_round(job) > 0:
        return Fraction(0)
    progress = most_steps_a_round(instance, job) / Fraction(job.steps)
    return Fraction(job.weight) * min(Fraction(1), progress)


def _one_machine_s(instance: Instance) -> Fraction:
    """Return the least sum of JCTs, in seconds, on one preemptive machine as fast as all GPUs.

    Completions are rounded up to the ends of rounds.
    """
    gpus = sum(instance.gpus_of_type.values())
    round_s = Fraction(instance.round_s)
    jobs = sorted(
        (
            instance.first_round(job),
            job.gang * due_steps(job) / (Fraction(job.best_rate) * round_s * gpus),
        )
        for job in instance.jobs
    )
    now, completed_rounds = Fraction(0), 0
    waiting: list[Fraction] = []
    for place, (release, rounds) in enumerate(jobs):
        now = max(now, Fraction(release))
        heapq.heappush(waiting, rounds)
        following = jobs[place + 1][0] if place + 1 < len(jobs) else None
        while waiting and (following is None or now < following):
            shortest = heapq.heappop(waiting)
            if following is not None and now + shortest > following:
                heapq.heappush(waiting, shortest - (following - now))
                now = Fraction(following)
            else:
                now += shortest
                completed_rounds += math.ceil(now)
    released_s = sum((Fraction(job.release_s) for job in instance.jobs), Fraction(0))
    return completed_rounds * round_s - released_s


def _share_bound(instance: Instance) -> float:
    slack = 1 + SHARE_TOLERANCE
    jobs, numbers = instance.jobs, ShareNumbers(instance)
    rates = numbers.best_rates()
    best = [slack * Fraction(max(of_types), numbers.rate_over) for of_types in rates]
    # A GPU runs one job at a time, or two jobs with packing.
    sharing = 2 if numbers.packed_rates else 1
    if instance.objective is Objective.MAX_MIN_SHARE:
        # Fraction of time on its best type that gives a job a normalised throughput of 1.
        least_share = [
            Fraction(job.weight) * Fraction(*numbers.equal_throughput(place)) / best[place]
            for place, job in enumerate(jobs)
        ]
        alone = min(job.gang / share for job, share in zip(jobs, least_share, strict=True))
        needed = sum(least_share) * slack
        return float_up(min(alone, slack * sharing * sum(instance.gpus_of_type.values()) / needed))
    if instance.objective is Objective.MAKESPAN_SHARE:
        least_s = [Fraction(job.steps) / rate for job, rate in zip(jobs, best, strict=True)]
        gpu_s = sum(
            (job.gang * time_s for job, time_s in zip(jobs, least_s, strict=True)), Fraction(0)
        )
        gpus = sharing * sum(instance.gpus_of_type.values())
        return -float_up(-max(gpu_s / gpus, *least_s))
    if instance.objective is Objective.FINISH_TIME_FAIRNESS:
        ratio = greatest(
            numbers.finish_time_ratio(place, rate.as_integer_ratio())
            for place, rate in enumerate(best)
        )
        return -float_up(-Fraction(*ratio))
    price = {gpu_type.name: Fraction(1) for gpu_type in instance.gpu_types}
    if instance.objective is Objective.COST:
        price = {kind.name: Fraction(kind.price_per_hour) for kind in instance.gpu_types}
    values = [
        {
            name: Fraction(job.weight) * Fraction(rate, numbers.rate_over) / price[name]
            for name, rate in zip(instance.gpus_of_type, of_types, strict=True)
            if rate
        }
        for job, of_types in zip(jobs, rates, strict=True)
    ]
    by_job = sum((max(of_types.values()) for of_types in values), Fraction(0))
    by_type = sum(
        (
            sharing
            * gpus
            * max(
                (
                    of_types[name] / job.gang
                    for job, of_types in zip(jobs, values, strict=True)
                    if name in of_types
                ),
                default=Fraction(0),
            )
            for name, gpus in instance.gpus_of_type.items()
        ),
        Fraction(0),
    )
    return float_up(slack * min(by_job, by_type))
