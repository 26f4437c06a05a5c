"""When there will be room: what a policy remembers of the leases that it has granted."""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from lyra_opt.network.heuristics.policy import MachineState
    from lyra_opt.network.links import Tier


class Lease(NamedTuple):
    """GPUs that a gang was granted; leases are sorted by their end.

    Parameters
    ----------
    end_s
        When it gives them back.
    order
        Which lease it was.
    gang
        GPUs of the gang.
    after_s
        How long it will still run then, at its best.
    worth
        What a GPU of it was worth.
    gpus
        By machine.
    """

    end_s: float
    order: int
    gang: int
    after_s: float
    worth: float
    gpus: Mapping[int, int]


class ExpectedRoom:
    """Leases by their end, and what there is room for then.

    Parameters
    ----------
    machines
        Of the cluster.
    """

    def __init__(self, machines: MachineState) -> None:
        first = machines.first_machine_of_rack
        rack_of = np.repeat(np.arange(len(first) - 1), np.diff(first)).tolist()
        number = len(rack_of)
        self._unit_of_machine: list[list[int]] = [list(range(number)), rack_of, [0] * number]
        self._granted = [0] * number
        self._leases: list[Lease] = []
        self._noted = 0

    def running(self, now_s: float) -> NDArray[np.float64]:
        """Return size, seconds left to run and worth of a GPU of gangs that run; shape (3, gangs).

        As far as is known.
        """
        table = [
            (lease.gang, lease.end_s - now_s + lease.after_s, lease.worth)
            for lease in islice(self._leases, self._over(now_s), None)
        ]
        return np.array(table, float).reshape(-1, 3).T

    def _over(self, now_s: float) -> int:
        """Return how many leases have ended, as far as is known."""
        return bisect_right(self._leases, now_s, key=attrgetter("end_s"))

    def note(
        self,
        end_s: Sequence[float],
        gang: Sequence[int],
        after_s: Sequence[float],
        worth: Sequence[float],
        gpus: Sequence[Mapping[int, int]],
    ) -> None:
        """Remember gangs that start; see `Lease`."""
        first = self._noted
        self._noted += len(end_s)
        orders = range(first, self._noted)
        self._leases += map(Lease, end_s, orders, gang, after_s, worth, gpus)
        self._leases.sort()
        for placement in gpus:
            for machine, count in placement.items():
                self._granted[machine] += count

    def forget(self, machines: MachineState, now_s: float) -> None:
        """Forget leases that are over, once their GPUs are free: they are handed over first."""
        over = self._over(now_s)
        if not over:
            return
        busy: list[int] = (machines.gpus - machines.free_gpus).tolist()
        granted = self._granted
        kept = []
        for lease in self._leases[:over]:
            gpus = lease.gpus.items()
            if any(granted[machine] - count < busy[machine] for machine, count in gpus):
                kept.append(lease)
                continue
            for machine, count in gpus:
                granted[machine] -= count
        self._leases[:over] = kept

    def waits_s(
        self, machines: MachineState, now_s: float, tier: Tier, sizes: Sequence[int]
    ) -> list[float]:
        """Return after how many seconds there is room at a tier for a gang of each size.

        If nobody else took it; 0 if there is now, infinite if nothing is known of any. Room across
        machines is told by GPUs alone. O(machines + gangs that run + sizes).

        Parameters
        ----------
        machines
            What is free now.
        now_s
            The time.
        tier
            What the gangs would span.
        sizes
            Rising.
        """
        unit_of = self._unit_of_machine[tier]
        free = np.bincount(unit_of, machines.free_gpus).astype(np.int64).tolist()
        largest = max(free)
        waits_s = [0.0 if size <= largest else math.inf for size in sizes]
        place = waits_s.count(0.0)
        for lease in self._leases:
            if place == len(sizes):
                break
            for machine, count in lease.gpus.items():
                free[unit_of[machine]] += count
                largest = max(largest, free[unit_of[machine]])
            while place < len(sizes) and sizes[place] <= largest:
                waits_s[place] = max(0.0, lease.end_s - now_s)
                place += 1
        return waits_s
