"""When there will be room: what a policy remembers of the leases that it has granted."""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from lyra_opt.network.links import Tier
    from lyra_opt.network.policy import MachineState


class RunningGang:
    """A gang that was granted GPUs.

    Parameters
    ----------
    gang
        Its GPUs.
    gpus
        By machine.
    end_s
        When it gives them back.
    after_s
        How long it will still run then, at its best.
    worth
        What a GPU of it was worth.
    """

    __slots__ = ("after_s", "end_s", "gang", "gpus", "worth")

    def __init__(
        self, *, gang: int, gpus: Mapping[int, int], end_s: float, after_s: float, worth: float
    ) -> None:
        self.gang, self.gpus, self.worth = gang, gpus, worth
        self.end_s, self.after_s = end_s, after_s


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
        self._granted = [0] * machines.free_gpus.size
        self._leases: list[tuple[float, int, RunningGang]] = []
        self._sequence = 0

    def running(self, now_s: float) -> NDArray[np.float64]:
        """Return size, seconds left to run and worth of a GPU of gangs that run; shape (3, gangs).

        As far as is known.
        """
        first = bisect_right(self._leases, (now_s, self._sequence))
        table = [
            (gang.gang, end_s - now_s + gang.after_s, gang.worth)
            for end_s, _, gang in islice(self._leases, first, None)
        ]
        return np.array(table, float).reshape(-1, 3).T

    def note(self, gang: RunningGang) -> None:
        """Remember a gang that starts."""
        self._sequence += 1
        insort(self._leases, (gang.end_s, self._sequence, gang))
        for machine, count in gang.gpus.items():
            self._granted[machine] += count

    def forget(self, machines: MachineState, now_s: float) -> None:
        """Forget leases that are over, once their GPUs are free: they are handed over first."""
        busy: list[int] = (machines.gpus - machines.free_gpus).tolist()
        granted = self._granted
        kept = []
        over = bisect_right(self._leases, (now_s, self._sequence))
        for entry in self._leases[:over]:
            gpus = entry[2].gpus
            if any(granted[machine] - count < busy[machine] for machine, count in gpus.items()):
                kept.append(entry)
                continue
            for machine, count in gpus.items():
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
        for end_s, _, gang in self._leases:
            if place == len(sizes):
                break
            for machine, count in gang.gpus.items():
                free[unit_of[machine]] += count
                largest = max(largest, free[unit_of[machine]])
            while place < len(sizes) and sizes[place] <= largest:
                waits_s[place] = max(0.0, end_s - now_s)
                place += 1
        return waits_s
