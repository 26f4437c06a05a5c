"""Family ``snapshot``: what runs on a fleet at a moment of the replay of a job trace.

The trace is replayed as `replay` says, by one of the rules of
`lyra_opt.instances.reclaim.placement`. Published traces are small beside a fleet of 520 servers, so
their arrivals are scaled to a load of 95 % unless ``--load-percent`` says otherwise; the load
is part of the instance's name, as are trace and rule. It is an average of what is asked for:
at single moments less may run, or all GPUs may be taken and jobs wait.

A moment is drawn by seed: every millisecond from the submission after the first tenth of the
jobs, the warm-up, to the last is equally likely. (The warm-up is counted in jobs because a
trace may begin with a long spell in which hardly anything is recorded.) The replay does not
depend on the seed: the snapshots of several seeds are moments of one history.

Jobs larger than the fleet are left out; `SnapshotFamily.remarks` says how many.
"""

from __future__ import annotations

import heapq
import re
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from lyra_opt.core.errors import UserError
from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.instances.reclaim.family import GPUS_PER_SERVER, Layout, ReclaimFamily, numbered_ids
from lyra_opt.instances.reclaim.placement import PLACEMENT_RULES
from lyra_opt.instances.traces import Trace, read_trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lyra_opt.instances.family_parameters import ReclaimParameters
    from lyra_opt.instances.reclaim.family import Allocation
    from lyra_opt.instances.reclaim.placement import Placement
    from lyra_opt.instances.traces import Trace, TraceJob


@dataclass(frozen=True, slots=True)
class PlacedJob:
    """A job of the trace from its start to its end, on the clock of the replay."""

    job: TraceJob
    start_ms: int
    end_ms: int
    allocation: Allocation


@dataclass(frozen=True, slots=True)
class Replay:
    """What ran on the fleet.

    Parameters
    ----------
    runs
        In order of their start.
    submissions_ms
        When each job was submitted, in order; the first at 0.
    dropped_jobs
        Jobs of the trace that are larger than the fleet and were left out.
    """

    runs: tuple[PlacedJob, ...]
    submissions_ms: tuple[int, ...]
    dropped_jobs: int

    def running_at(self, moment_ms: int) -> list[PlacedJob]:
        """Return what runs at a moment, after what happens at it, in order of start."""
        return [run for run in self.runs if run.start_ms <= moment_ms < run.end_ms]


def replay(trace: Trace, servers: int, load_percent: int | None, placement: Placement) -> Replay:
    """PlacedJob the jobs of a trace on 8-GPU servers, first come, first served, with skipping.

    A job starts when as many GPUs are free as it needs, wherever they are; jobs that do not fit
    wait and are passed by later ones that do. Ends come before submissions at the same moment,
    and both before starts. Jobs run for their traced duration, and are never preempted or
    moved.

    Time O(jobs (log jobs + sizes + span)), for as many sizes as there are numbers of GPUs.

    Parameters
    ----------
    trace
        The jobs. Those larger than the fleet are left out, and so are the GPU times they ask
        for; those of duration 0 occupy nothing.
    servers
        Servers of the fleet.
    load_percent
        The arrivals, not the durations, are scaled so that the GPU time that the trace asks
        for is this share of what the fleet has between first and last submission. None keeps
        them as they are. Either way the first is moved to 0.
    placement
        A free fleet of that many servers, and the rule by which it is filled.

    Raises
    ------
    UserError
        If no job fits the fleet, or `load_percent` is given and all jobs come at once or none
        lasts.
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
    """Return when each job is submitted on the clock of the replay, in milliseconds."""
    first = jobs[0].submit_time_ms
    if load_percent is None:
        return [job.submit_time_ms - first for job in jobs]
    gpu_ms = sum(job.duration_ms * job.gpus for job in jobs)
    span_ms = jobs[-1].submit_time_ms - first
    if not span_ms or not gpu_ms:
        raise UserError(
            f"--load-percent is {load_percent}: must be trace for trace {trace_name}, whose jobs "
            "all come at once or last no time"
        )
    scale, of = 100 * gpu_ms, load_percent * fleet_gpus * span_ms
    return [(job.submit_time_ms - first) * scale // of for job in jobs]


def _next_that_fits(
    waiting: Iterable[deque[int]], jobs: Sequence[TraceJob], placement: Placement
) -> int | None:
    """Take the first job that fits from the queue, and return its position; None if none does."""
    fitting = [queue for queue in waiting if queue and jobs[queue[0]].gpus <= placement.free_gpus]
    return min(fitting, key=lambda queue: queue[0]).popleft() if fitting else None


WARM_UP_PERCENT = 10
LONGEST_TRACE_LABEL = 60

_UNFIT_FOR_FILE_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


class SnapshotFamily(ReclaimFamily):
    """Snapshots of a replayed trace; see the module."""

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
        """Return how many jobs of the trace are left out, if any."""
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


@lru_cache(maxsize=2)  # all snapshots of a call are cut from one replay
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
    summary="what runs at a moment of the replay of a job trace; needs --trace",
)
