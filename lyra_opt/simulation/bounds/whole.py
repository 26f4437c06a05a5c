r"""Lower bounds on the mean JCT and queuing time of all schedules of a workload, by weak duality.

Put a price :math:`\pi_q(t) \ge 0` on a GPU-second of each pool q at each time t, and let every job
j complete as cheaply as it can for itself, with completion time C and u GPUs held. In any schedule
that respects the capacities K, every job does one of the things that it may do, and all jobs
together pay for at most all GPU-seconds of the cluster. So

.. math::
    \sum_j w_j (C_j - r_j) \ge \sum_j \min_{\text{executions of } j}
    \Big[ w_j (C - r_j) + \sum_q \int \pi_q(t) u_q(t) \, dt \Big]
    - \sum_q \int \pi_q(t) K_q(t) \, dt

*for all prices*. Time is divided into intervals (cells) with constant prices, so each minimum is
exact (`lyra_opt.pricing.kernel`). The bound on queuing time is the same with the time in which a
job holds no GPU in place of C - r.

*Schedules covered.* The bound applies to all schedules, including clairvoyant ones, in which jobs
share no GPU, run no faster than the speed model says, and do only what the *reading* permits
(`lyra_opt.simulation.bounds.scope.Reading`), with these capacities and loans.

*Rounding.* The value is a sum of floats. Each float is reduced by the largest possible error of its
computation, and sums are exact. Anyone can check the bound from the prices alone.

Source: this project. Lagrangian relaxation of capacity is due to Geoffrion (1974); prices of time
are those of time-indexed formulations (Dyer and Wolsey 1990).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lyra_opt.allocation.bounds.mean_jct.data import safe_difference
from lyra_opt.core.arrays import FloatArray
from lyra_opt.core.errors import FieldError
from lyra_opt.core.run_progress import part_of_run
from lyra_opt.pricing.ascent import EPSILON, SLACK, Pricer, Room, ascend, first_prices, safe_value
from lyra_opt.simulation.bounds.execution_modes import priced_jobs
from lyra_opt.simulation.bounds.scope import Reading
from lyra_opt.simulation.cluster import Cluster, LoanPlan
from lyra_opt.simulation.least_run import least_run_s
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.workload import Workload

PASSES = 300
MOST_CELLS = 12_000
CELLS_PER_RUN = {Reading.RESTART: 20.0, Reading.CONSERVED: 10.0}
"""Cells per mean run time; fewer for interruptible jobs, which take longer to price and lose less
by long time intervals."""
LEAST_CELLS = 200
MOST_BORDERS = 10_000_000
PRICE_UNIT = 2.0**-20
"""Prices are multiples of this, so that files represent them exactly."""
DRAIN = 1.5
"""After the last release, prices continue for this multiple of the time that the backlog needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """GPU prices over time, and the lower bound on mean JCT or queuing time that they prove.

    Parameters
    ----------
    border_s : array of cells + 1
        Begins of the time intervals (cells) and the horizon, relative to the first submission.
    price : array of (pools, cells)
        Price of a GPU-second, in weighted seconds.
    value_s
        The bound: no schedule has a smaller (weighted) mean.
    """

    border_s: FloatArray
    price: FloatArray
    value_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBound:
    """Proved bounds for all schedules of a workload on a cluster.

    Parameters
    ----------
    reading
        Whether preempted jobs lose their work.
    jct_mean_bound_s, queue_mean_bound_s
        Lower bounds on the mean JCT and on the mean queuing time; the latter is None if it was not
        computed.
    excess_mean_bound_s
        The bound on the mean JCT less the mean of the least run times, which an unlimited cluster
        would achieve.
    least_run_mean_s
        Mean of the least run times.
    cpu_s
        CPU time of the whole computation.
    jobs, cell_s
        Number of jobs; length of a time interval in seconds.
    jct, queue
        The certificates of the two bounds.
    """

    reading: Reading
    jct_mean_bound_s: float
    excess_mean_bound_s: float
    queue_mean_bound_s: float | None
    least_run_mean_s: float
    cpu_s: float
    jobs: int
    cell_s: float
    jct: Certificate
    queue: Certificate | None


def whole_bound(
    workload: Workload,
    cluster: Cluster,
    *,
    reading: Reading,
    plan: LoanPlan | None = None,
    speed: Speed | None = None,
    copy_efficiency: Sequence[float] | None = None,
    weight: FloatArray | None = None,
    cell_s: float | None = None,
    passes: int = PASSES,
    queue: bool = True,
) -> ClusterBound:
    """Return proved lower bounds on the mean JCT and the mean queuing time of a workload.

    Parameters
    ----------
    workload, cluster
        The jobs that are submitted, and the cluster on which they run.
    reading
        Whether preempted jobs lose their work.
    plan
        The number of servers on loan over time; None if no server is lent.
    speed
        The speed of jobs; by default as the cluster specifies.
    copy_efficiency
        Value of a step with 1, 2, ... copies; None if jobs have no copies.
    weight : array of jobs
        Weight of each job in the means, at least 0 and not all 0; by default 1. To bound a class of
        jobs, give all other jobs weight 0.
    cell_s
        Length of a time interval in seconds, above 0. By default, it is chosen from the length of
        the workload.
    passes
        Most steps of the ascent, at least 1; a time limit may end it earlier.
    queue
        Whether queuing time is bounded too, which doubles the computing time.

    Raises
    ------
    UserError
        If a job can never run, or its speed is unknown.
    FieldError
        If a parameter breaks its rule.

    Notes
    -----
    Source: this project; see the docstring of the module. Complexity: O(passes * jobs * cells that
    a job looks at), which are the cells from its release until its delay alone costs more than its
    best start, with an additional factor of O(log cells) for jobs that may be interrupted.
    """
    began_s = process_time()
    speed = speed or Speed(cluster)
    borrows = plan is not None
    weights = _checked(weight, len(workload.jobs))
    run_s = least_run_s(workload, speed, borrows=borrows, copy_efficiency=copy_efficiency)
    border_s = borders(workload, cluster, run_s, cell_s, reading=reading)
    room = room_of(cluster, plan, border_s)
    jobs = priced_jobs(
        workload,
        speed,
        reading=reading,
        borrows=borrows,
        copy_efficiency=copy_efficiency,
        weight=weights,
        border_s=border_s,
    )
    total = math.fsum(weights)
    least_s = math.fsum(weights * run_s) / total
    price = first_prices(jobs, room)
    proofs: list[Certificate] = []
    objectives = (False, True) if queue else (False,)
    for part, is_queue in enumerate(objectives):
        pricer = Pricer(jobs, room, is_queue=is_queue)
        with part_of_run(part, len(objectives)):
            best = ascend(pricer, price, passes)
        price = np.round(best.price / PRICE_UNIT) * PRICE_UNIT
        value_s = max(0.0, safe_value(pricer, price) / total * (1 - EPSILON))
        proofs.append(Certificate(border_s=border_s, price=price, value_s=value_s))
    jct, *rest = proofs
    return ClusterBound(
        reading=reading,
        jct_mean_bound_s=jct.value_s,
        excess_mean_bound_s=max(0.0, jct.value_s - least_s * (1 + SLACK * EPSILON)),
        queue_mean_bound_s=rest[0].value_s if rest else None,
        least_run_mean_s=least_s,
        cpu_s=process_time() - began_s,
        jobs=len(workload.jobs),
        cell_s=float(border_s[1] - border_s[0]),
        jct=jct,
        queue=rest[0] if rest else None,
    )


def _checked(weight: FloatArray | None, jobs: int) -> FloatArray:
    if weight is None:
        return np.ones(jobs)
    found = np.asarray(weight, dtype=float)
    if found.shape != (jobs,):
        raise FieldError("weight", found.shape, f"must have one number per job ({jobs})")
    if not (np.isfinite(found).all() and (found >= 0).all() and found.any()):
        raise FieldError("weight", "", "must be finite, at least 0, and above 0 for some job")
    return found


def borders(
    workload: Workload,
    cluster: Cluster,
    run_s: FloatArray,
    cell_s: float | None = None,
    *,
    reading: Reading = Reading.RESTART,
) -> FloatArray:
    """Return the times at which GPU prices may change, in seconds after the first submission.

    Parameters
    ----------
    workload, cluster
        See `whole_bound`.
    run_s : array of jobs
        Least run time of each job.
    cell_s
        Length of a time interval in seconds, above 0. None chooses it from the length of the
        workload.
    reading
        Whether preempted jobs lose their work.
    """
    first_s = workload.jobs[0].submit_s
    backlog_gpu_s = now_s = 0.0
    for job, length_s in zip(workload.jobs, run_s.tolist(), strict=True):
        at_s = job.submit_s - first_s
        backlog_gpu_s = max(0.0, backlog_gpu_s - (at_s - now_s) * cluster.gpus)
        backlog_gpu_s += job.min_gpus * length_s
        now_s = at_s
    end_s = now_s + DRAIN * backlog_gpu_s / cluster.gpus
    if cell_s is None:
        usual_s = float(run_s.mean()) / CELLS_PER_RUN[reading]
        cell_s = max(end_s / MOST_CELLS, min(usual_s, end_s / LEAST_CELLS))
        if cell_s > 1:
            cell_s = float(math.ceil(cell_s))
    elif not (math.isfinite(cell_s) and cell_s > 0):
        raise FieldError("cell_s", cell_s, "must be finite and above 0")
    cells = max(1, math.ceil(end_s / cell_s))
    if cells > MOST_BORDERS:
        rule = f"must be large enough for at most {MOST_BORDERS:,} cells"
        raise FieldError("cell_s", cell_s, rule)
    found: FloatArray = np.arange(cells + 1, dtype=np.float64) * cell_s
    return found


def room_of(cluster: Cluster, plan: LoanPlan | None, border_s: FloatArray) -> Room:
    """Return the available GPU-seconds of each pool in each time interval, rounded up.

    Parameters
    ----------
    cluster
        The cluster, with the servers that it can borrow.
    plan
        The number of servers on loan from the first submission on; None if no server is lent.
    border_s : array of cells + 1
        Begins of the time intervals (cells) and the horizon.
    """
    length_s = np.diff(border_s)
    gpu_s = np.zeros((len(cluster.pools), len(length_s)))
    for pool in cluster.pools:
        if not pool.is_lent:
            gpu_s[pool.number] = sum(pool.gpus) * length_s
        elif plan is not None:
            # Any k lent servers have at most as many GPUs as the k largest servers of their pool.
            most = np.concatenate(([0], np.cumsum(sorted(pool.gpus, reverse=True))))
            gpus = most[np.minimum(plan.on_loan, len(pool.gpus))].astype(float)
            since_s = np.arange(len(gpus), dtype=np.float64) * plan.interval_s
            until = step_integral(since_s, gpus, border_s)
            gpu_s[pool.number] = np.diff(until) + SLACK * EPSILON * until[-1]
    return Room(border_s=border_s, gpu_s=gpu_s)


def step_integral(since_s: FloatArray, values: NDArray[Any], time_s: FloatArray) -> FloatArray:
    """Return the integral of a step function up to each time; float64, O(n log steps).

    Parameters
    ----------
    since_s : array of steps
        Begin of each step, increasing from 0; the last step lasts for ever.
    values : array of steps
        Value of the function in each step.
    time_s
        Times, at least 0; the result has the same shape.
    """
    until = np.concatenate(([0.0], np.cumsum(values[:-1] * np.diff(since_s))))
    step = np.searchsorted(since_s, time_s, side="right") - 1
    found: FloatArray = until[step] + values[step] * (time_s - since_s[step])
    return found


def makespan_bound_s(workload: Workload, cluster: Cluster) -> float:
    """Return a proved lower bound on the makespan of every scheme, from the first submission on.

    Raises
    ------
    UserError
        If a job does not fit the cluster, or its model is not covered.

    Notes
    -----
    Job j runs for at least p_j seconds in all (`lyra_opt.simulation.least_run`: at the best
    efficiency on the empty cluster, on its fastest own GPU type), after its submission r_j, on g_j
    of the cluster's G GPUs. So the last completion is at or after

    - ``r_j + p_j`` for each job (critical path);
    - ``r + sum of g_j p_j / G`` over the jobs submitted from r on (area);
    - ``r + sum of p_j / k`` over those of them with more than ``G / (k + 1)`` GPUs, of which at
      most k run at a time, for k = 1, 2, ... (large gangs).

    Source: this project. O(jobs * distinct gang sizes).
    """
    jobs, gpus = workload.jobs, cluster.gpus
    first_s = jobs[0].submit_s
    speed = Speed(cluster)
    running_s = least_run_s(workload, speed, borrows=False).tolist()
    found = [job.submit_s - first_s + least_s for job, least_s in zip(jobs, running_s, strict=True)]
    held = [speed.least_gpus(job) for job in jobs]
    at_a_time = sorted({gpus // each for each in held})
    loads = [[each / gpus * least_s for each, least_s in zip(held, running_s, strict=True)]]
    loads += [
        [
            least_s / most if gpus // each <= most else 0.0
            for each, least_s in zip(held, running_s, strict=True)
        ]
        for most in at_a_time
    ]
    for load in loads:
        from_here_on = list(accumulate(reversed(load)))[::-1]
        found += [
            job.submit_s - first_s + after_s
            for job, after_s in zip(jobs, from_here_on, strict=True)
        ]
    return safe_difference(max(found), 0.0, len(jobs))
