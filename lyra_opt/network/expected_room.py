"""When there will be room: what a policy remembers of the leases that it has granted."""

from __future__ import annotations

import math
from bisect import insort
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.network.links import Tier

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

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
    """Gangs that run, by when they give their GPUs back.

    Parameters
    ----------
    machines
        Of the cluster.
    """

    def __init__(self, machines: MachineState) -> None:
        first = machines.first_machine_of_rack
        self._rack_of: list[int] = np.repeat(np.arange(len(first) - 1), np.diff(first)).tolist()
        self._running: list[tuple[float, int, RunningGang]] = []
        self._sequence = 0

    def __iter__(self) -> Iterator[RunningGang]:
        return (gang for _, _, gang in self._running)

    def note(self, gang: RunningGang) -> None:
        """Remember a gang that starts."""
        self._sequence += 1
        insort(self._running, (gang.end_s, self._sequence, gang))

    def forget_until(self, now_s: float) -> None:
        """Forget gangs that have given their GPUs back by now, as far as is known."""
        over = 0
        while over < len(self._running) and self._running[over][0] <= now_s:
            over += 1
        del self._running[:over]

    def waits_s(
        self, machines: MachineState, now_s: float, sizes: Sequence[int]
    ) -> NDArray[np.float64]:
        """Return after how many seconds there is room for a gang of each size at each tier.

        If nobody else took it; 0 if there is now, infinite if nothing is known of any. Rooms across
        machines are told by GPUs alone. O(machines + gangs that run + sizes).

        Parameters
        ----------
        machines
            What is free now.
        now_s
            The time.
        sizes
            Rising.

        Returns
        -------
        ndarray
            Shape (sizes, 3).
        """
        waits_s = np.full((len(sizes), len(Tier)), math.inf)
        free: list[int] = machines.free_gpus.tolist()
        in_rack: list[int] = np.add.reduceat(
            machines.free_gpus, machines.first_machine_of_rack[:-1]
        ).tolist()
        largest = [max(free), max(in_rack), sum(in_rack)]
        reached = [0, 0, 0]

        def note_rooms(after_s: float) -> None:
            for tier in Tier:
                place = reached[tier]
                while place < len(sizes) and sizes[place] <= largest[tier]:
                    waits_s[place, tier] = after_s
                    place += 1
                reached[tier] = place

        note_rooms(0.0)
        for end_s, _, gang in self._running:
            if reached[Tier.MACHINE] == len(sizes):
                break
            for machine, count in gang.gpus.items():
                rack = self._rack_of[machine]
                free[machine] += count
                in_rack[rack] += count
                largest[Tier.MACHINE] = max(largest[Tier.MACHINE], free[machine])
                largest[Tier.RACK] = max(largest[Tier.RACK], in_rack[rack])
                largest[Tier.NETWORK] += count
            note_rooms(max(0.0, end_s - now_s))
        return waits_s
