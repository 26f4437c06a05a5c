"""The figures of the simulated cluster: jobs per CPU second, growth and memory."""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import pairwise
from typing import TYPE_CHECKING

from experiments.bench.timing import Figure
from experiments.progress import progress
from experiments.simulation.replay import replay
from experiments.simulation.setup import Setup, make_loaning
from experiments.trace import find_trace
from instances.heterogeneous.trace_jobs import PHILLY_TRACE
from instances.workloads.lyra_like import lyra_like
from instances.workloads.readers import read_workload
from instances.workloads.transform import rescaled, without_oversized
from lyra_opt.errors import UserError
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.scheme import Options, find_scheme, simulate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lyra_opt.simulation.workload import Workload

TRAINING = Cluster.of_servers(443)
BOTH_CLUSTERS = Cluster.of_servers(443, inference_servers=520)
"""Lyra's: 3,544 training GPUs and 4,160 inference GPUs."""

FIFO_TARGET_JOBS_PER_S = 10_000
LYRA_TARGET_JOBS_PER_S = 1_000
LYRA_TARGET_MIB = 2_000
GROWTH_TARGET = 2.3
GROWTH_JOBS = (25_000, 50_000, 100_000)
GROWTH_SEEDS = 3
GROWTH_LOAD = 0.77
"""Of the generator on average; a draw alone may be at 72 or 82 %, with longer or shorter queues."""
JOBS_A_DAY = 50_390 / 15

MEMORY_PROBE = """
import resource
from experiments.bench.simulation import lyra_run
lyra_run(15)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def simulation_figures() -> Iterator[Figure]:
    """Measure the simulated cluster's speed, each run after a short one that loads everything."""
    with progress("simulation", 4 + GROWTH_SEEDS * len(GROWTH_JOBS)) as advance:
        lyra_run(1)
        advance()
        yield _fifo_figure()
        advance()
        jobs, cpu_s = lyra_run(15)
        yield Figure(
            what="lyra, Basic, 443 + 520 servers, 15 days",
            runs=1,
            statistic="jobs per CPU second",
            measured=jobs / cpu_s,
            target=LYRA_TARGET_JOBS_PER_S,
            at_least=True,
            remark=f"{jobs} jobs in {cpu_s:.1f} s of CPU",
        )
        advance()
        yield Figure(
            what="the same, as a process of its own",
            runs=1,
            statistic="peak memory",
            measured=_peak_memory_mib(),
            target=LYRA_TARGET_MIB,
            unit="MiB",
        )
        advance()
        times_s = [0.0] * len(GROWTH_JOBS)
        for seed in range(GROWTH_SEEDS):
            for place, count in enumerate(GROWTH_JOBS):
                days = round(count / JOBS_A_DAY)
                times_s[place] += lyra_run(days, count, seed=seed, load=GROWTH_LOAD)[1]
                advance()
    ratios = [later / earlier for earlier, later in pairwise(times_s)]
    yield Figure(
        what=f"lyra, {GROWTH_JOBS[0]:,} to {GROWTH_JOBS[-1]:,} jobs at equal load",
        runs=GROWTH_SEEDS * len(GROWTH_JOBS),
        statistic=f"largest ratio of CPU times for twice the jobs, {GROWTH_SEEDS} seeds in all",
        measured=max(ratios),
        target=GROWTH_TARGET,
        remark=", ".join(
            f"{count:,} jobs: {time_s:.1f} s"
            for count, time_s in zip(GROWTH_JOBS, times_s, strict=True)
        ),
    )


def _fifo_figure() -> Figure:
    """Replay the Philly trace where there is one, else as many generated jobs."""
    try:
        workload = read_workload(find_trace(PHILLY_TRACE).path)
        what = "all Philly jobs"
    except UserError:
        workload = lyra_like(days=24)
        what = "generated jobs (the Philly trace is not there)"
    workload, _ = without_oversized(workload, TRAINING.gpus)
    cpu_s = _cpu_time_s(workload)
    return Figure(
        what=f"fifo, {len(workload.jobs):,} {what}, {TRAINING.gpus:,} GPUs",
        runs=1,
        statistic="jobs per CPU second",
        measured=len(workload.jobs) / cpu_s,
        target=FIFO_TARGET_JOBS_PER_S,
        at_least=True,
        remark=f"{cpu_s:.2f} s of CPU",
    )


def _cpu_time_s(workload: Workload) -> float:
    started_s = time.process_time()
    simulate(workload, TRAINING, "fifo")
    return time.process_time() - started_s


def lyra_run(
    days: int, jobs: int | None = None, *, seed: int = 0, load: float | None = None
) -> tuple[int, float]:
    """Run `lyra` on both clusters; return the jobs and the CPU seconds of the replay alone.

    Parameters
    ----------
    days, jobs, seed
        Of the generated workload.
    load
        To which its submissions are moved together or apart; None leaves them.
    """
    workload = lyra_like(days=days, jobs=jobs, seed=seed)
    if load is not None:
        workload = rescaled(workload, load=load, gpus=BOTH_CLUSTERS.gpus)
    setup = Setup(
        workload=workload,
        scenario="basic",
        cluster=BOTH_CLUSTERS,
        loaning=make_loaning(workload, BOTH_CLUSTERS, seed=seed),
        options=Options(seed=seed),
    )
    return len(workload.jobs), replay(setup, find_scheme("lyra")).cpu_time_s


def _peak_memory_mib() -> float:
    found = subprocess.run(  # noqa: S603
        [sys.executable, "-c", MEMORY_PROBE], check=True, capture_output=True, text=True
    )
    return int(found.stdout) / 1024
