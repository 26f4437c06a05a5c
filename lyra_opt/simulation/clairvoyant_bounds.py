"""What no schedule of gangs on a network of tiers can beat, whatever its rule and placements.

*Relaxation.* Job j runs for at least p_j seconds in all (`lyra_opt.simulation.least_run`: at the
best efficiency anywhere on the empty cluster, on the type of own GPUs that suits it best), after
its submission r_j, on g_j of the cluster's G GPUs, and may be interrupted at any time. Machines,
racks, hand-over, leases, and that a gang once placed worse than best runs longer, are left out.
Every schedule of the cluster is one of this preemptive problem, with the same completions C_j; so a
bound on the latter is a bound on the former. Migration and restarts are interruptions too.

*Mean JCT.* The preemptive problem is that of `lyra_opt.allocation` with one number of workers a
job, and three of its bounds (heights, squashed area, mean busy times: ``C_j >= M_j + p_j / 2``)
allow interruptions already. Prices of time do so with other schedules of a single job. Proofs:
``formulations/allocation/README.md``, section 11.

*Makespan.* The last completion is no sooner than

- ``r_j + p_j`` for each job (critical path);
- ``r + sum of g_j p_j / G`` over the jobs submitted from r on (area);
- ``r + sum of p_j / k`` over those of them with more than ``G / (k + 1)`` GPUs, of which at most k
  run at a time, for k = 1, 2, ... (large gangs).
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from lyra_opt.allocation.bounds.mean_jct.best import mean_jct_bound
from lyra_opt.allocation.bounds.mean_jct.data import safe_difference
from lyra_opt.allocation.instance import ElasticJob, Instance, Objective
from lyra_opt.simulation.least_run import least_run_s
from lyra_opt.simulation.speed import Speed

if TYPE_CHECKING:
    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.workload import Workload


def mean_jct_bound_s(workload: Workload, cluster: Cluster) -> float:
    """Return a time below which no schedule brings the mean JCT; proved.

    Raises
    ------
    UserError
        If a job does not fit the cluster, or its model is not known.

    Notes
    -----
    Source: this project; see the module. Complexity: that of
    `lyra_opt.allocation.bounds.mean_jct.best.mean_jct_bound`; up to 200 jobs take seconds, and more
    are bounded without prices of time, a few per cent lower.
    """
    first_s = workload.jobs[0].submit_s
    running_s = least_run_s(workload, Speed(cluster), borrows=False).tolist()
    instance = Instance(
        name=workload.name,
        objective=Objective.MEAN_JCT,
        gpus=cluster.gpus,
        jobs=tuple(
            ElasticJob(
                id=job.id,
                min_workers=1,
                max_workers=1,
                gpus_per_worker=job.min_gpus,
                work_worker_s=least_s,
                release_s=job.submit_s - first_s,
            )
            for job, least_s in zip(workload.jobs, running_s, strict=True)
        ),
    )
    return mean_jct_bound(instance, is_preemptive=True)


def makespan_bound_s(workload: Workload, cluster: Cluster) -> float:
    """Return a time below which no schedule brings the makespan, from the first submission; proved.

    Raises
    ------
    UserError
        If a job does not fit the cluster, or its model is not known.

    Notes
    -----
    Source: this project; see the module. O(jobs * different gangs).
    """
    jobs, gpus = workload.jobs, cluster.gpus
    first_s = jobs[0].submit_s
    running_s = least_run_s(workload, Speed(cluster), borrows=False).tolist()
    found = [job.submit_s - first_s + least_s for job, least_s in zip(jobs, running_s, strict=True)]
    at_a_time = sorted({gpus // job.min_gpus for job in jobs})
    loads = [[job.min_gpus / gpus * least_s for job, least_s in zip(jobs, running_s, strict=True)]]
    loads += [
        [
            least_s / most if gpus // job.min_gpus <= most else 0.0
            for job, least_s in zip(jobs, running_s, strict=True)
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
