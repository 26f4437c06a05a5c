"""Priced placement: GPU prices decide which gangs start and which wait (our own policy)."""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lyra_opt.core.arithmetic import product
from lyra_opt.core.arrays import FloatArray, IntArray
from lyra_opt.network.heuristics.packing import pack
from lyra_opt.network.heuristics.policy import Grant, MachineState, PlacementPolicy, PlacementState
from lyra_opt.network.links import Tier


class Lease(NamedTuple):
    """GPUs granted to a gang until a given time.

    Leases are sorted by their end.

    Parameters
    ----------
    end_s
        Time at which the gang returns the GPUs.
    order
        Running number of the lease.
    gang
        Number of GPUs of the gang.
    after_s
        Remaining run time after the lease, at the gang's best tier.
    worth
        Value per GPU of the gang.
    gpus
        Number of GPUs by machine.
    """

    end_s: float
    order: int
    gang: int
    after_s: float
    worth: float
    gpus: Mapping[int, int]


class ExpectedRoom:
    """Current leases by end time, from which future free GPUs are predicted.

    Parameters
    ----------
    machines
        Machines of the cluster.
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
        """Return size, remaining seconds and value per GPU of running gangs; shape (3, gangs).

        Only leases known to this object are counted.
        """
        table = [
            (lease.gang, lease.end_s - now_s + lease.after_s, lease.worth)
            for lease in islice(self._leases, self._over(now_s), None)
        ]
        return np.array(table, float).reshape(-1, 3).T

    def _over(self, now_s: float) -> int:
        """Return the number of known leases that have ended."""
        return bisect_right(self._leases, now_s, key=attrgetter("end_s"))

    def note(
        self,
        end_s: Sequence[float],
        gang: Sequence[int],
        after_s: Sequence[float],
        worth: Sequence[float],
        gpus: Sequence[Mapping[int, int]],
    ) -> None:
        """Record the leases of gangs that start, with one value per field of `Lease`."""
        first = self._noted
        self._noted += len(end_s)
        orders = range(first, self._noted)
        self._leases += map(Lease, end_s, orders, gang, after_s, worth, gpus)
        self._leases.sort()
        for placement in gpus:
            for machine, count in placement.items():
                self._granted[machine] += count

    def forget(self, machines: MachineState, now_s: float) -> None:
        """Drop leases that have ended and whose GPUs have become free."""
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
        """Return the seconds until a tier has room for a gang of each size.

        Assumes that no other gang takes the GPUs. The value is 0 if there is room now, and infinite
        if no known lease makes room. Across machines only the number of GPUs counts. O(machines +
        running gangs + sizes).

        Parameters
        ----------
        machines
            State of the machines now.
        now_s
            Current time, in seconds.
        tier
            Tier that the gangs would span.
        sizes
            Gang sizes in increasing order.
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
"""A gang is critical if it needs at least this fraction of the time for all work."""


class PricedPlacement(PlacementPolicy):
    """Pack the most valuable gangs by prices, and decide which gangs wait for a better tier.

    This rule is the project's own. A gang that runs at efficiency S has the value weight S /
    remaining time: the fraction of its remaining work done per second. If all GPUs are equal, value
    per GPU orders gangs by least remaining GPU time, communication included, which is Smith's rule.
    `lyra_opt.network.heuristics.packing.pack` searches for the most valuable packing of gangs at
    tiers that they accept.

    *Which gangs wait.* There are no timers. Suppose that all leases were over, and all gangs at
    their best tier. The price of a GPU is the value per GPU of the first gang, in order of this
    value, for which the GPUs of the cluster no longer suffice; it is 0 if they suffice for all. The
    surplus of a gang is its value minus the price of its GPUs. A gang always accepts its best tier
    b. It accepts another tier t if its surplus there is at least 0, and at least its surplus at
    tier b in the part of a lease that remains after the wait for b::

        v_t - price gang >= max(0, (v_b - price gang) (1 - wait_b / lease))

    The wait is known, because the policy remembers the leases that it granted.

    *Which gangs must not wait.* The time for all work is estimated as the larger of two values: the
    longest remaining time of a waiting or running gang, and all remaining GPU time over all GPUs. A
    gang that needs nearly as long even without waiting is critical, and its value per GPU is raised
    to at least that of every other gang. Otherwise the longest gangs would run last and determine
    the makespan.

    Complexity of a decision: that of `pack`, and a sort of the waiting and running gangs.
    Guarantee: none for schedules. Every finite workload ends, because a gang accepts its best tier,
    and that tier has room once nothing runs. A large gang may wait as long as smaller gangs exceed
    the capacity, as under all rules that prefer short jobs. It may also wait if its machines never
    become free at the same time, because nothing is reserved for it.

    Parameters
    ----------
    critical
        Fraction of the time for all work from which on a gang is critical; above 1 no gang is
        critical.
    """

    name = "priced-placement"

    def __init__(self, critical: float = CRITICAL) -> None:
        self._critical = critical
        self._room: ExpectedRoom | None = None

    def prepare(self, machines: MachineState, lease_s: float, rng: np.random.Generator) -> None:  # noqa: ARG002
        """Begin a run without known leases."""
        self._room = ExpectedRoom(machines)

    def decide(self, state: PlacementState) -> list[Grant]:
        """Return a grant for each gang of the best packing found."""
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
        """Return the value of one second of each gang at each tier, shape (jobs, 3)."""
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
            # Among critical gangs, the gang with the longest remaining time has the highest value.
            raised = float(of_gpu.max()) / of_gpu * (1 + alone_s / end_s)
            worth[is_critical] *= raised[is_critical, None]
        return worth

    def _accepted(
        self, state: PlacementState, worth: FloatArray, running: FloatArray, able: IntArray
    ) -> FloatArray:
        """Return each gang's value per second at each tier, 0 at tiers that it refuses.

        Only for the gangs ``able``, which fit into the free GPUs; shape (able, 3).
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
        """Record the leases of the gangs that start."""
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
    """Return the price of a GPU: the value per GPU of the first gang that finds no GPUs.

    Waiting and running gangs take the GPUs of the cluster by falling value per GPU. The price is 0
    if the GPUs suffice for all gangs.
    """
    size, _, worth_of_gpu = running
    gang = state.waiting.gang
    of_gpu = np.concatenate((worth.max(axis=1) / gang, worth_of_gpu))
    order = np.argsort(-of_gpu, kind="stable")
    demanded = np.cumsum(np.concatenate((gang, size))[order])
    place = np.searchsorted(demanded, int(state.machines.gpus.sum()), side="right")
    return float(of_gpu[order[place]]) if place < len(order) else 0.0
