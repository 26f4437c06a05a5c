"""The figures of the simulated cluster in rounds: Hadar's 480 jobs under each scheme."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.bench.timing import Figure
from experiments.progress import progress
from experiments.simulation.building import runnable
from experiments.simulation.replay import replay
from experiments.simulation.setup import Setup
from experiments.trace import find_trace
from instances.heterogeneous.clusters import hadar_60
from instances.heterogeneous.trace_jobs import HADAR_JOBS, PHILLY_TRACE, hadar_480
from instances.workloads.lyra_like import lyra_like
from instances.workloads.readers import read_workload
from lyra_opt.errors import UserError
from lyra_opt.heterogeneous.policies import ROUND_POLICIES
from lyra_opt.simulation.scheme import Options, find_scheme

if TYPE_CHECKING:
    from collections.abc import Iterator

TARGET_S = 60.0


def heterogeneous_simulation_figures() -> Iterator[Figure]:
    """Measure how long each scheme takes for 480 jobs on 20 V100, 20 P100 and 20 K80.

    A scheme that runs no gangs, or none on several servers, gets the jobs that it can run; the
    remark says how many these are.
    """
    cluster = hadar_60()
    try:
        trace = read_workload(find_trace(PHILLY_TRACE).path)
        what = "jobs of the Philly trace"
    except UserError:
        trace = lyra_like(days=15)
        what = "generated jobs (the Philly trace is not there)"
    workload = hadar_480(trace, seed=0, gpu_types=cluster.gpu_types)
    with progress("simulation in rounds", len(ROUND_POLICIES)) as advance:
        for name in ROUND_POLICIES:
            scheme, options = find_scheme(name), Options()
            kept, dropped = runnable(
                workload, cluster, [scheme], options, source=workload.name, drop=True
            )
            done = replay(
                Setup(workload=kept, cluster=cluster, options=options, dropped=dropped), scheme
            )
            advance()
            metrics = done.metrics
            yield Figure(
                what=f"{name}, {HADAR_JOBS} {what}, {cluster.gpus} GPUs",
                runs=1,
                statistic="wall time",
                measured=done.wall_time_s,
                target=TARGET_S,
                unit="s",
                remark=(
                    f"{metrics.jobs} jobs, {metrics.rounds:,} rounds, decisions "
                    f"{1000 * (metrics.decision_mean_s or 0):.2f} ms on average, "
                    f"{1000 * (metrics.decision_max_s or 0):.0f} ms at most"
                ),
            )
