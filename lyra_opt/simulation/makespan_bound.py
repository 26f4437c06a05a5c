"""What no schedule of gangs on a network of tiers can beat in makespan, whatever its rule.

Job j runs for at least p_j seconds in all (`lyra_opt.simulation.least_run`: at the best efficiency
anywhere on the empty cluster, on the type of own GPUs that suits it best), after its submission
r_j, on g_j of the cluster's G GPUs. So the last completion is no sooner than

- ``r_j + p_j`` for each job (critical path);
- ``r + sum of g_j p_j / G`` over the jobs submitted from r on (area);
- ``r + sum of p_j / k`` over those of them with more than ``G / (k + 1)`` GPUs, of which at most k
  run at a time, for k = 1, 2, ... (large gangs).
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from lyra_opt.allocation.bounds.mean_jct.data import safe_difference
from lyra_opt.simulation.least_run import least_run_s
from lyra_opt.simulation.speed import Speed

if TYPE_CHECKING:
    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.workload import Workload


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
