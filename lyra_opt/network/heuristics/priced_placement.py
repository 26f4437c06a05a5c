"""Ours: GPUs go where they bring most work to an end, at a price that says who had better wait."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import replace
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lyra_opt.core.arithmetic import product
from lyra_opt.network.heuristics.packing import pack
from lyra_opt.network.heuristics.policy import PlacementPolicy
from lyra_opt.network.links import Tier

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from lyra_opt.network.heuristics.policy import Grant, MachineState, PlacementState

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]


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


CRITICAL = 0.9
"""Share of the time that the cluster takes for all, from which on a gang must not wait."""


class PricedPlacement(PlacementPolicy):
    """Packs the gangs that are worth most, by prices, and tells each whether to wait for a machine.

    This project's own. A gang that runs at efficiency S is worth weight S / remaining time: the
    share of its remaining work that is done in a second. On equal GPUs the worth of a GPU orders
    gangs by least remaining GPU time, communication included, which is Smith's rule. Which gangs
    start where is the packing of most worth that `lyra_opt.network.heuristics.packing.pack` finds
    by prices, among the tiers that they accept.

    *Who waits.* There are no timers. The price of a GPU is what one is worth to the last gang that
    the cluster has GPUs for, were all leases over and all gangs at their best tier; 0 if there are
    enough. A gang always accepts the tier b where it is best. It accepts another tier t if what
    it does there for a lease, beyond the price of its GPUs, is no less than at tier b for what is
    left of the lease once there is room for it, and no less than nothing::

        v_t - price gang >= max(0, (v_b - price gang) (1 - wait_b / lease))

    The time until there is room is known: the policy remembers the leases that it has granted.

    *Who must not wait.* The end is estimated: the longest of all that is left to run of a gang
    that waits or runs, or all remaining GPU time over all GPUs if that is more. A gang that would
    take nearly as long even if it never waited is critical, and worth no less for each GPU than any
    other. Without that the longest gangs would be left over, and the makespan be theirs.

    Complexity of a decision: that of `pack`, and O(gangs that wait and run, sorted). Guarantee:
    none for schedules; every finite workload ends, since a gang accepts its best tier, and that has
    room once nothing runs. While smaller gangs keep coming beyond what the cluster can do, a large
    one waits, as under all rules that put short jobs first; so it does where its machines never
    come free at once, as nothing is held back for it.

    Parameters
    ----------
    critical
        Share of the time that the cluster takes for all from which on a gang is critical; above 1
        none is.
    """

    name = "priced-placement"

    def __init__(self, critical: float = CRITICAL) -> None:
        self._critical = critical
        self._room: ExpectedRoom | None = None

    def prepare(self, machines: MachineState, lease_s: float, rng: np.random.Generator) -> None:  # noqa: ARG002
        """Forget all leases."""
        self._room = ExpectedRoom(machines)

    def decide(self, state: PlacementState) -> list[Grant]:
        """Return who starts where; see the class."""
        if self._room is None:
            self._room = ExpectedRoom(state.machines)
        room, waiting = self._room, state.waiting
        room.forget(state.machines, state.now_s)
        free_gpus = int(state.machines.free_gpus.sum())
        if not len(waiting) or int(waiting.gang.min()) > free_gpus:
            return []
        running = room.running(state.now_s)
        worth = self._worth(state, running)
        able = (waiting.gang <= free_gpus).nonzero()[0]
        accepted = self._accepted(state, worth, running, able)
        grants = [
            replace(grant, job=int(able[grant.job]))
            for grant in pack(state.machines, waiting.gang[able], accepted)
        ]
        if grants:
            self._note(state, grants, worth, room)
        return grants

    def _worth(self, state: PlacementState, running: FloatArray) -> FloatArray:
        """Return what a second at each tier is worth, shape (jobs, 3)."""
        waiting = state.waiting
        share = waiting.efficiency / waiting.remaining_s[:, None]
        worth: FloatArray = waiting.weight[:, None] * share
        alone_s = 1 / share.max(axis=1)
        size, left_s, _ = running
        gpu_s = float(product(alone_s, waiting.gang)) + float(product(left_s, size))
        longest_s = max(float(alone_s.max()), float(left_s.max(initial=0.0)))
        end_s = max(longest_s, gpu_s / int(state.machines.gpus.sum()))
        is_critical = alone_s >= self._critical * end_s
        if is_critical.any():
            of_gpu = worth.max(axis=1) / waiting.gang
            # Among critical gangs the one that takes longest is worth most.
            raised = float(of_gpu.max()) / of_gpu * (1 + alone_s / end_s)
            worth[is_critical] *= raised[is_critical, None]
        return worth

    def _accepted(
        self, state: PlacementState, worth: FloatArray, running: FloatArray, able: IntArray
    ) -> FloatArray:
        """Return what a second at each tier is worth, 0 where a gang would not start now.

        Of the gangs ``able`` alone, which are no larger than what is free; shape (able, 3).
        """
        assert self._room is not None
        gang, accepted = state.waiting.gang[able], worth[able]
        best_tier = accepted.argmax(axis=1)
        choosing = ((accepted > 0).sum(axis=1) > 1).nonzero()[0]
        if not len(choosing):
            return accepted
        beyond = accepted - _price_of_gpu(state, worth, running) * gang[:, None]
        least = np.zeros(len(gang))
        for tier in Tier:
            gangs = choosing[best_tier[choosing] == tier]
            if not len(gangs):
                continue
            sizes, size_of = np.unique(gang[gangs], return_inverse=True)
            waits_s = self._room.waits_s(state.machines, state.now_s, tier, sizes.tolist())
            left = np.maximum(0.0, 1 - np.array(waits_s) / state.lease_s)[size_of]
            least[gangs] = np.maximum(0.0, beyond[gangs, tier] * left)
        accepts = beyond >= least[:, None]
        accepts[np.arange(len(gang)), best_tier] = True
        return np.where(accepts, accepted, 0.0)

    def _note(
        self, state: PlacementState, grants: list[Grant], worth: FloatArray, room: ExpectedRoom
    ) -> None:
        """Remember the leases of those who start."""
        waiting = state.waiting
        jobs = np.array([grant.job for grant in grants], np.int64)
        tiers = np.array([grant.tier for grant in grants], np.int64)
        gang, remaining_s = waiting.gang[jobs], waiting.remaining_s[jobs]
        speed = waiting.efficiency[jobs, tiers]
        held_s = np.minimum(state.lease_s, remaining_s / speed)
        best_speed = waiting.efficiency[jobs].max(axis=1, initial=0.0)
        after_s = np.maximum(0.0, remaining_s - held_s * speed) / best_speed
        of_gpu = worth[jobs].max(axis=1, initial=0.0) / gang
        room.note(
            end_s=(state.now_s + held_s).tolist(),
            gang=gang.tolist(),
            after_s=after_s.tolist(),
            worth=of_gpu.tolist(),
            gpus=[grant.gpus for grant in grants],
        )


def _price_of_gpu(state: PlacementState, worth: FloatArray, running: FloatArray) -> float:
    """Return what a GPU is worth to the last gang that the cluster has GPUs for, 0 if to none."""
    size, _, worth_of_gpu = running
    gang = state.waiting.gang
    of_gpu = np.concatenate((worth.max(axis=1) / gang, worth_of_gpu))
    order = np.argsort(-of_gpu, kind="stable")
    asked = np.cumsum(np.concatenate((gang, size))[order])
    place = np.searchsorted(asked, int(state.machines.gpus.sum()), side="right")
    return float(of_gpu[order[place]]) if place < len(order) else 0.0
