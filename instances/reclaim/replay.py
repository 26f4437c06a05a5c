"""Replay a job trace on a fleet: which job runs when and on which servers."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.core.errors import UserError
from lyra_opt.instances.reclaim.family import GPUS_PER_SERVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lyra_opt.instances.reclaim.family import Allocation
    from lyra_opt.instances.reclaim.placement import Placement
    from lyra_opt.instances.traces import Trace, TraceJob


@dataclass(frozen=True, slots=True)
class Run:
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

    runs: tuple[Run, ...]
    submissions_ms: tuple[int, ...]
    dropped_jobs: int

    def running_at(self, moment_ms: int) -> list[Run]:
        """Return what runs at a moment, after what happens at it, in order of start."""
        return [run for run in self.runs if run.start_ms <= moment_ms < run.end_ms]


def replay(trace: Trace, servers: int, load_percent: int | None, placement: Placement) -> Replay:
    """Run the jobs of a trace on 8-GPU servers, first come, first served, with skipping.

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
    runs: list[Run] = []
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
            runs.append(Run(job, now, now + job.duration_ms, allocation))
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
