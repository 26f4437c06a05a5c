"""Jobs for Lyra's testbed, scaled from a generated workload as the paper scales its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.instances.workloads.assumptions import JobAssumptions
from lyra_opt.instances.workloads.lyra_like import lyra_like
from lyra_opt.simulation.workload import Job, Workload

if TYPE_CHECKING:
    from lyra_opt.simulation.cluster import Cluster

TESTBED_JOBS = 180
TESTBED_ELASTIC_PERCENT = 6
TESTBED_SPAN_S = 8 * 3600
TESTBED_WIDEST_JOB = 16
# Shares of the jobs and running times up to them: 2 minutes to 2 hours as published, and a mean of
# 2,540 s, by which the published means of JCT and queuing time differ.
TESTBED_DURATIONS_S = ((0.0, 120.0), (0.5, 1400.0), (1.0, 7200.0))


def lyra_testbed(
    cluster: Cluster,
    seed: int,
    *,
    jobs: int = TESTBED_JOBS,
    assumptions: JobAssumptions | None = None,
) -> Workload:
    """Return the jobs of the testbed (section 7.5).

    Each asks for half the GPUs of a job of the large cluster and none for more than 16,
    submissions last 8 hours, running times 2 minutes to 2 hours in the order of the original ones.

    Parameters
    ----------
    cluster
        Of whose training GPUs no job asks for more.
    seed
        Of all draws.
    jobs
        How many.
    assumptions
        Shares of jobs; None for Basic with 6 % elastic ones: 11 of 180, 10 in the paper.
    """
    shares = assumptions or JobAssumptions(elastic_percent=TESTBED_ELASTIC_PERCENT)
    original = lyra_like(training_gpus=cluster.gpus, jobs=jobs, seed=seed, assumptions=shares)
    first_s = original.jobs[0].submit_s
    faster = TESTBED_SPAN_S / original.submission_span_s
    by_length = sorted(range(jobs), key=lambda place: original.jobs[place].duration_s)
    portions, durations_s = zip(*TESTBED_DURATIONS_S, strict=True)
    duration_s = {
        place: float(np.interp((rank + 0.5) / jobs, portions, durations_s))
        for rank, place in enumerate(by_length)
    }
    scaled: list[Job] = []
    for place, job in enumerate(original.jobs):
        workers = min(max(1, job.min_workers // 2), TESTBED_WIDEST_JOB)
        scaled.append(
            replace(
                job,
                submit_s=(job.submit_s - first_s) * faster,
                work_worker_s=duration_s[place] * workers,
                min_workers=workers,
                max_workers=workers * job.max_workers // job.min_workers,
            )
        )
    return Workload(
        name=f"{original.name}-testbed",
        jobs=tuple(scaled),
        assumptions=(*original.assumptions, "Scaled to the paper's testbed."),
    )
