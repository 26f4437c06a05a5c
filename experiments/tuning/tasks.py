"""Define the tasks of a tuning: simulated trials, compiled trials and clairvoyant searches."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lyra_opt.core.errors import InputError, in_file
from lyra_opt.core.rules import located
from lyra_opt.core.stopwatch import Stopwatch
from lyra_opt.experiments.records import ReplayRecord, ReplayStatus
from lyra_opt.experiments.simulation.running.tasks import ReplayTask
from lyra_opt.experiments.simulation.scenario.building import make_cluster
from lyra_opt.experiments.simulation.scenario.schemes import make_schemes
from lyra_opt.experiments.tuning.clairvoyant_search import search_schedule
from lyra_opt.experiments.tuning.tuning_file import PERCENTILE
from lyra_opt.instances.workloads.named import find_workload, gangs_of
from lyra_opt.simulation.bounds.scope import Reading
from lyra_opt.simulation.bounds.whole import whole_bound
from lyra_opt.simulation.clairvoyant.gangs import MICROSECONDS, Capacity, Gangs
from lyra_opt.simulation.clairvoyant.lists import ListScheduler
from lyra_opt.simulation.queue_orders import FIRST_COME, OVERTAKING
from lyra_opt.simulation.scheme import ComposedScheme

TIMERS, SCHEDULE = "clairvoyant timers", "best schedule found"
BOUND = "jct_mean_bound_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialTask(ReplayTask):
    """A task that simulates one trial of a tuning, and keeps its measures but not its tables."""

    measures: tuple[str, ...]

    def run(self) -> ReplayRecord:
        """Simulate the trial, and return a row with its measures but without its tables."""
        record = ReplayTask.run(self)
        jobs = record.tables["jobs"]
        found = percentiles(self.measures, jobs["queued_s"].to_numpy(), jobs["jct_s"].to_numpy())
        return replace(record, figures={**(record.figures or {}), **found}, tables={})


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledTask(TrialTask):
    """A trial of scheme fifo that runs on a compiled list scheduler instead of the simulator.

    Each job holds its base demand; GPUs are counted without regard to servers. Results can differ
    from the simulated cluster where two events fall into the same microsecond: then another job may
    start first, and later jobs may wait for other jobs.
    """

    def require_possible(self, source: str) -> None:
        """Raise `InputError` unless the scheme is fifo and the jobs are generated."""
        (scheme,) = make_schemes(self.scenario, [self.scheme])
        queue = getattr(scheme, "queue", None)
        is_fifo = isinstance(scheme, ComposedScheme) and scheme.scaling is scheme.reclaimer is None
        if not is_fifo or queue not in (FIRST_COME, OVERTAKING):
            raise InputError(source, f"compiled: scheme {self.scheme} must be fifo")
        if self.scenario.table.jobs.workload is None:
            raise InputError(source, "compiled: the scenario must have generated jobs")
        with in_file(source), located("jobs.parameters"):
            self._gangs()

    def run(self) -> ReplayRecord:
        """Schedule the jobs with the compiled scheduler, and return a row with the measures."""
        started_at, stopwatch = datetime.now(UTC), Stopwatch()
        gangs, cluster = self._gangs(), make_cluster(self.scenario)
        (scheme,) = make_schemes(self.scenario, [self.scheme])
        assert isinstance(scheme, ComposedScheme), "it was checked"
        scheduler = ListScheduler.of(gangs, Capacity.constant(cluster.gpus))
        start_us = scheduler.schedule(gangs.release_s, backfills=scheme.queue == OVERTAKING)
        wait_s = start_us / MICROSECONDS - gangs.release_s
        jct_s = wait_s + gangs.run_s
        return self._record(
            started_at,
            ReplayStatus.FINISHED,
            workload=str(self.scenario.table.jobs.workload),
            cluster=cluster.name,
            wall_time_s=stopwatch.elapsed_s,
            figures={
                "queue_mean_s": float(wait_s.mean()),
                "jct_mean_s": float(jct_s.mean()),
                "training_usage": usage(gangs, wait_s, cluster.gpus),
                "training_usage_while_submitting": usage(
                    gangs, wait_s, cluster.gpus, until_s=float(gangs.release_s.max())
                ),
                **percentiles(self.measures, wait_s, jct_s),
            },
        )

    def _gangs(self) -> Gangs:
        table, cluster = self.scenario.table.jobs, make_cluster(self.scenario)
        workload = find_workload(str(table.workload))
        if workload.gangs is not None:
            return workload.gangs(cluster, self.seed, **table.parameters)
        return gangs_of(workload.make(cluster, self.seed, **table.parameters))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClairvoyantTask(TrialTask):
    """A search for a good schedule when all jobs are known in advance; see `search_schedule`."""

    changes: int

    def run(self) -> ReplayRecord:
        """Search for a schedule; if the job order is free, also prove a bound on the mean JCT."""
        started_at, stopwatch, setup = datetime.now(UTC), Stopwatch(), self.setup()
        _, jct_mean_s = search_schedule(
            setup.workload,
            setup.cluster,
            np.random.default_rng(self.seed),
            leases=setup.options.leases,
            changes=self.changes,
            keeps_order=self.scheme == TIMERS,
        )
        figures: dict[str, Any] = {"jct_mean_s": jct_mean_s}
        if self.scheme == SCHEDULE:
            bound = whole_bound(
                setup.workload, setup.cluster, reading=Reading.CONSERVED, queue=False
            )
            figures[BOUND] = bound.jct_mean_bound_s
        return self._record(
            started_at,
            ReplayStatus.FINISHED,
            workload=setup.workload.name,
            cluster=setup.cluster.name,
            wall_time_s=stopwatch.elapsed_s,
            figures=figures,
        )


def percentiles(
    names: Iterable[str], wait_s: NDArray[np.float64], jct_s: NDArray[np.float64]
) -> dict[str, float]:
    """Compute the named measures that are percentiles of queuing time or JCT, in seconds."""
    found = {}
    for name in names:
        if (match := PERCENTILE.fullmatch(name)) is not None:
            values = wait_s if match["of"] == "queue" else jct_s
            found[name] = float(np.percentile(values, int(match["rank"])))
    return found


def usage(
    gangs: Gangs, wait_s: NDArray[np.float64], cluster_gpus: int, *, until_s: float = math.inf
) -> float:
    """Return the share of the cluster's GPU time used by jobs, from first release to `until_s`."""
    start_s = gangs.release_s + wait_s
    end_s = min(until_s, float((start_s + gangs.run_s).max()))
    held_s = np.clip(end_s - start_s, 0, gangs.run_s)
    whole_gpu_s = cluster_gpus * (end_s - float(gangs.release_s.min()))
    return float(gangs.gpus @ held_s) / whole_gpu_s if whole_gpu_s else 0.0
