"""A cluster in the middle of its work: gangs came and went, and what is free lies in pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.instances.network.job_sets import BATCH

if TYPE_CHECKING:
    from lyra_opt.instances.randomness import IntegerStream
    from lyra_opt.simulation.network.topology import Topology


@dataclass(frozen=True, slots=True)
class BusyMachine:
    """What is left of a machine.

    Parameters
    ----------
    free_gpus
        GPUs that no gang holds.
    affinity
        Size of the gang that has held GPUs of it for longest; None for an empty machine.
    """

    free_gpus: int
    affinity: int | None


def busy_machines(
    topology: Topology, *, busy_percent: int, stream: IntegerStream
) -> list[BusyMachine]:
    """Return the machines of a cluster that was filled with gangs, of which some have ended.

    Gangs of the sizes of Dally's batch set come until the next one does not fit. Each goes to a
    machine that holds it, drawn among those that fit it best, else it takes what is free from a
    machine on that is drawn. Then gangs end, drawn one by one, until at most so many GPUs are
    busy; the last one to end may leave far fewer.

    Parameters
    ----------
    topology
        The cluster.
    busy_percent
        Share of its GPUs that may be busy, 0 to 100.
    stream
        Of the draws.

    Notes
    -----
    Time O(gangs machines).
    """
    free = topology.gpus_of_machine.tolist()
    sizes, weights = list(BATCH.gangs), list(BATCH.gangs.values())
    running: list[dict[int, int]] = []
    left = sum(free)
    while left:
        gang = sizes[stream.weighted(weights)]
        if gang > left:
            break
        placed = _placed(gang, free, stream)
        for machine, count in placed.items():
            free[machine] -= count
        left -= gang
        running.append(placed)
    most_busy = topology.gpus * busy_percent // 100
    order = list(range(len(running)))
    stream.shuffle(order)
    stay = set(order)
    for ended in order:
        if topology.gpus - left <= most_busy:
            break
        stay.remove(ended)
        for machine, count in running[ended].items():
            free[machine] += count
            left += count
    affinity: dict[int, int] = {}
    for number in sorted(stay):
        for machine in running[number]:
            affinity.setdefault(machine, sum(running[number].values()))
    return [BusyMachine(count, affinity.get(machine)) for machine, count in enumerate(free)]


def _placed(gang: int, free: list[int], stream: IntegerStream) -> dict[int, int]:
    """Return GPUs by machine for a gang for which there are enough."""
    tightest = min((count for count in free if count >= gang), default=None)
    if tightest is not None:
        machines = [machine for machine, count in enumerate(free) if count == tightest]
        return {machines[stream.below(len(machines))]: gang}
    first = stream.below(len(free))
    placed: dict[int, int] = {}
    for machine in (*range(first, len(free)), *range(first)):
        taken = min(gang, free[machine])
        if taken:
            placed[machine] = taken
            gang -= taken
        if not gang:
            break
    return placed
