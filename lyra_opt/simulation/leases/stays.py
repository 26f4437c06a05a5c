"""From where gangs stayed, and when, to what is counted of them.

Engines that know nothing of tiers are told how fast a gang is where it is placed; what they did is
written down as stays, from which the same record comes as from the engine with leases.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from lyra_opt.simulation.leases.record import (
    NEVER,
    NetworkRecord,
    NetworkRun,
    NetworkTotals,
    Occupancy,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lyra_opt.network.links import Tier
    from lyra_opt.simulation.leases.setup import NetworkCluster, NetworkWorkload


@dataclass(slots=True, kw_only=True)
class Stay:
    """GPUs that a gang holds for a while.

    Parameters
    ----------
    order
        Of the job, by submission.
    gpus
        By machine.
    tier, efficiency
        What they span, and the share of the time in which the gang computes on them.
    began_s, computes_from_s, ended_s
        When it gets them, when it computes after what it costs to start there, and when it gives
        them back.
    free_s
        When they are free again.
    """

    order: int
    gpus: dict[int, int]
    tier: Tier
    efficiency: float
    began_s: float
    computes_from_s: float
    ended_s: float
    free_s: float


def record_of(
    workload: NetworkWorkload,
    cluster: NetworkCluster,
    stays: Sequence[Stay],
    *,
    decision_s: Sequence[float] = (),
) -> NetworkRecord:
    """Return what is counted of stays, those of a job in order of time, no two at once.

    A stay that begins later than the one before it ends follows a preemption; one on other GPUs is
    a migration, be it at once or later.

    Parameters
    ----------
    workload, cluster
        All jobs of which are complete with the end of their last stay.
    stays
        On GPUs that are free.
    decision_s
        Wall times of all decisions, where they are known.
    """
    runs = [NetworkRun(job, order) for order, job in enumerate(workload.jobs)]
    for stay in stays:
        run = runs[stay.order]
        since_s = run.completion_s
        if run.started_s == NEVER:
            run.started_s = stay.began_s
            since_s = run.job.submit_s
        elif stay.began_s > since_s:
            run.lease_losses += 1
            run.preemptions += 1
        run.queued_s += stay.began_s - since_s
        running_s = max(0.0, stay.ended_s - stay.computes_from_s)
        run.hold(stay.tier, stay.ended_s - stay.began_s, running_s, stay.efficiency)
        run.get(stay.tier, stay.gpus)
        run.completion_s = stay.ended_s
    totals = _totals(workload, cluster, stays)
    totals.decision_s = list(decision_s)
    totals.decisions = len(decision_s)
    return NetworkRecord(workload=workload, cluster=cluster, runs=runs, totals=totals)


_FREES, _ENDS, _ARRIVES, _BEGINS = range(4)
"""What happens first at a moment."""


def _totals(
    workload: NetworkWorkload, cluster: NetworkCluster, stays: Sequence[Stay]
) -> NetworkTotals:
    """Return what is counted of the cluster; O(stays log stays)."""
    totals = NetworkTotals()
    occupancy = Occupancy(cluster.topology)
    now_s = workload.jobs[0].submit_s
    there = running = held_gpus = 0
    computing_gpus = 0.0
    left = len(workload.jobs)
    completes = {stay.order: number for number, stay in enumerate(stays)}
    for time_s, what, number in _events(workload, stays):
        if time_s > now_s:
            totals.series.add(
                (
                    now_s,
                    there - running,
                    running,
                    held_gpus,
                    computing_gpus,
                    occupancy.gpus - occupancy.free_gpus - held_gpus,
                    occupancy.partly_free_machines,
                )
            )
            totals.pass_time(time_s - now_s, occupancy, held_gpus)
            now_s = time_s
        if what == _ARRIVES:
            there += 1
            continue
        stay = stays[number]
        gang = workload.jobs[stay.order].gang
        if what == _FREES:
            occupancy.change(stay.gpus, +1)
            continue
        sign = 1 if what == _BEGINS else -1
        running += sign
        held_gpus += sign * gang
        computing_gpus += sign * gang * stay.efficiency
        if what == _BEGINS:
            occupancy.change(stay.gpus, -1)
        elif completes[stay.order] == number:
            there -= 1
            left -= 1
            if not left:
                break
    totals.series.add((now_s, *(0,) * 6))
    return totals


def _events(workload: NetworkWorkload, stays: Sequence[Stay]) -> Iterable[tuple[float, int, int]]:
    """Yield time, kind and number of what happens, in order."""
    events = [(job.submit_s, _ARRIVES, order) for order, job in enumerate(workload.jobs)]
    events += [(stay.began_s, _BEGINS, number) for number, stay in enumerate(stays)]
    heapify(events)
    while events:
        time_s, what, number = heappop(events)
        yield time_s, what, number
        if what == _BEGINS:
            heappush(events, (stays[number].ended_s, _ENDS, number))
            heappush(events, (stays[number].free_s, _FREES, number))
