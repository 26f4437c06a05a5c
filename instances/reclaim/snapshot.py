"""Family ``snapshot``: the jobs that run on a fleet at one moment of the replay of a job trace.

Function `replay` runs the trace with one of the rules of `lyra_opt.instances.reclaim.placement`.
Published traces are too small for a fleet of 520 servers, so the times between arrivals are scaled
to a load of 95 %, or ``--load-percent``. Trace, rule and load are part of the instance's name. The
load is an average: at a single moment fewer GPUs may be in use, or jobs may wait.

The seed draws the moment. The first tenth of the jobs is the warm-up; every millisecond between the
next submission and the last submission is equally likely. The warm-up is counted in jobs because
some traces begin with a long period that has few records. The replay itself does not depend on the
seed, so snapshots with different seeds are moments of the same replay.

Jobs larger than the fleet are left out; `SnapshotFamily.remarks` reports their number.
"""

import heapq
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from lyra_opt.core.errors import UserError
from lyra_opt.instances.family_parameters import ReclaimParameters
from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.instances.reclaim.family import (
    GPUS_PER_SERVER,
    Allocation,
    Layout,
    ReclaimFamily,
    numbered_ids,
)
from lyra_opt.instances.reclaim.placement import PLACEMENT_RULES, Placement
from lyra_opt.instances.traces import Trace, TraceJob, read_trace


@dataclass(frozen=True, slots=True)
class PlacedJob:
    """A job of the trace with its start, its end and its servers in the replay."""

    job: TraceJob
    start_ms: int
    end_ms: int
    allocation: Allocation


@dataclass(frozen=True, slots=True)
class Replay:
    """The result of replaying a trace on a fleet of servers.

    Parameters
    ----------
    runs
        The placed jobs, in order of their start.
    submissions_ms
        The submission time of each job, in order; the first is 0.
    dropped_jobs
        The number of jobs left out because they are larger than the fleet.
    """

    runs: tuple[PlacedJob, ...]
    submissions_ms: tuple[int, ...]
    dropped_jobs: int

    def running_at(self, moment_ms: int) -> list[PlacedJob]:
        """Return the jobs that run at a moment, after its ends and starts, in order of start."""
        return [run for run in self.runs if run.start_ms <= moment_ms < run.end_ms]


def replay(trace: Trace, servers: int, load_percent: int | None, placement: Placement) -> Replay:
    """Replay a trace on 8-GPU servers, first come, first served, but skip jobs that do not fit.

    A job starts as soon as the fleet has enough free GPUs, on any servers. A job that does not fit
    waits, and later jobs that fit may start before it. At one moment jobs first end, then new jobs
    are submitted, then jobs start. Jobs run for their duration in the trace, and are never
    preempted or moved.

    Takes O(jobs (log jobs + sizes + span)) time, where sizes is the number of distinct job sizes.

    Parameters
    ----------
    trace
        The jobs. Jobs larger than the fleet are left out and do not count for the load; jobs of
        duration 0 use no GPUs.
    servers
        The number of servers of the fleet.
    load_percent
        The GPU time of all jobs as a percentage of the GPU time of the fleet between the first and
        the last submission. Submission times are scaled to reach it; durations are not. None keeps
        the times between submissions. The first submission is always at time 0.
    placement
        The placement rule, with a free fleet of `servers` servers.

    Raises
    ------
    UserError
        If no job fits the fleet. Also if `load_percent` is given and all jobs are submitted at the
        same time or have duration 0.
    """
    jobs = [job for job in trace.jobs if job.gpus <= servers * GPUS_PER_SERVER]
    if not jobs:
        raise UserError(f"--servers is {servers}: too few for any job of trace {trace.name}")
    submissions = _submissions(trace.name, jobs, servers * GPUS_PER_SERVER, load_percent)
    runs: list[PlacedJob] = []
    ends: list[tuple[int, int]] = []  # (end_ms, position in runs), a heap
    waiting: dict[int, deque[int]] = {}  # positions of jobs by number of GPUs, in order
    arrived = 0
    while arrived < len(jobs) or ends:
        now = min(
            submissions[arrived] if arrived < len(jobs) else ends[0][0],
            ends[0][0] if ends else submissions[arrived],
        )
        while ends and ends[0][0] == now:
            placement.release(runs[heapq.heappop(ends)[1]].allocation)
        while arrived < len(jobs) and submissions[arrived] == now:
            if jobs[arrived].duration_ms:
                waiting.setdefault(jobs[arrived].gpus, deque()).append(arrived)
            arrived += 1
        while (position := _next_that_fits(waiting.values(), jobs, placement)) is not None:
            job = jobs[position]
            allocation = placement.place(job.gpus)
            assert allocation is not None
            heapq.heappush(ends, (now + job.duration_ms, len(runs)))
            runs.append(PlacedJob(job, now, now + job.duration_ms, allocation))
    return Replay(tuple(runs), tuple(submissions), len(trace.jobs) - len(jobs))


def _submissions(
    trace_name: str, jobs: Sequence[TraceJob], fleet_gpus: int, load_percent: int | None
) -> list[int]:
    """Return the submission time of each job in the replay, in milliseconds."""
    first = jobs[0].submit_time_ms
    if load_percent is None:
        return [job.submit_time_ms - first for job in jobs]
    gpu_ms = sum(job.duration_ms * job.gpus for job in jobs)
    span_ms = jobs[-1].submit_time_ms - first
    if not span_ms or not gpu_ms:
        raise UserError(
            f"--load-percent is {load_percent}: must be trace for trace {trace_name}, because "
            "its jobs are all submitted at once or all have duration 0"
        )
    scale, of = 100 * gpu_ms, load_percent * fleet_gpus * span_ms
    return [(job.submit_time_ms - first) * scale // of for job in jobs]


def _next_that_fits(
    waiting: Iterable[deque[int]], jobs: Sequence[TraceJob], placement: Placement
) -> int | None:
    """Remove and return the index of the first waiting job that fits; None if no job fits."""
    fitting = [queue for queue in waiting if queue and jobs[queue[0]].gpus <= placement.free_gpus]
    return min(fitting, key=lambda queue: queue[0]).popleft() if fitting else None


WARM_UP_PERCENT = 10
LONGEST_TRACE_LABEL = 60

_UNFIT_FOR_FILE_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


class SnapshotFamily(ReclaimFamily):
    """Family ``snapshot``: the jobs that run at one moment of the replay of a trace."""

    required = ("servers", "reclaim", "trace")
    optional: ClassVar[tuple[str, ...]] = (*ReclaimFamily.optional, "placement", "load_percent")

    def _layout(self, parameters: ReclaimParameters, seed: int) -> Layout:
        history = self._history(parameters)
        submissions = history.submissions_ms
        warm = submissions[len(submissions) * WARM_UP_PERCENT // 100]
        stream = self._stream("moment", seed, servers=parameters.servers)
        moment = stream.between(warm, submissions[-1])
        return Layout(
            server_ids=numbered_ids("s", parameters.servers),
            jobs=[(run.job.job_id, run.allocation) for run in history.running_at(moment)],
        )

    def _size_label(self, parameters: ReclaimParameters) -> str:
        trace = _UNFIT_FOR_FILE_NAMES.sub("_", _trace_of(parameters).name)[:LONGEST_TRACE_LABEL]
        rule, load = parameters.placement, parameters.load_percent
        return f"-{trace}-{rule}-load{load}-s{parameters.servers}"

    def remarks(self, parameters: Mapping[str, Any]) -> Sequence[str]:
        """Return how many jobs of the trace were left out, if any."""
        dropped = self._history(self.check(parameters)).dropped_jobs
        return (f"jobs of the trace larger than the fleet, left out: {dropped}",) if dropped else ()

    def _history(self, parameters: ReclaimParameters) -> Replay:
        return _replay_once(
            _trace_of(parameters),
            parameters.servers,
            parameters.placement,
            parameters.load_percent,
            self.version,
        )


def _trace_of(parameters: ReclaimParameters) -> Trace:
    assert parameters.trace is not None  # it is required
    return read_trace(parameters.trace)


@lru_cache(maxsize=2)  # the instances of all seeds share a replay
def _replay_once(trace: Trace, servers: int, rule: str, load: int | str, version: int) -> Replay:
    stream = IntegerStream(
        family="snapshot",
        version=version,
        purpose="replay",
        placement=rule,
        servers=servers,
        load=load,
    )
    load_percent = load if isinstance(load, int) else None
    return replay(trace, servers, load_percent, PLACEMENT_RULES[rule](servers, stream))


SNAPSHOT = SnapshotFamily(
    "snapshot",
    version=1,
    summary="the jobs that run at one moment of the replay of a job trace; needs --trace",
)
