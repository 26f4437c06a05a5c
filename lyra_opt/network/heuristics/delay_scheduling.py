"""Delay scheduling: gangs choose in turn, and wait a while for GPUs close together.

Dally, its variants with other timers, and Tiresias with its skew rule.

Source of the timers: Dally (arXiv 2401.16492), from its first author's public simulator. The timer
of a tier says how long a gang waits, since it last held GPUs, before it accepts that tier: the rack
timer is the code's wait at the machine tier, the network timer its wait at the rack tier. A gang
that no machine (no rack) could hold is not held back; the placement sees to that, not the timers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.errors import FieldError
from lyra_opt.core.rules import require_integer, require_number
from lyra_opt.network.heuristics.free_machines import FirstFit
from lyra_opt.network.heuristics.policy import Grant, PlacementPolicy
from lyra_opt.network.links import Tier

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lyra_opt.network.heuristics.policy import PlacementState, WaitingGangs


DEFAULT_WINDOW_LEASES = 24
"""A day of leases of an hour. Assumed: the simulator takes it as an argument without a default,
and calls it hours."""

LEAST_RACK_LEASES, LEAST_NETWORK_LEASES = 6, 12
"""Floors of the tuned timers; 5 and 10, and 1 and 2, in earlier versions of the code."""

PARTS_OF_LEASE = 10**9


class TimerRule(ABC):
    """Says how long each gang waits for GPUs close together. An object is for one run."""

    @abstractmethod
    def timers_s(self, state: PlacementState, job: int) -> tuple[float, float]:
        """Return how long a waiting gang waits for a machine, and for a rack; inf for ever.

        Parameters
        ----------
        state
            What the decision is about.
        job
            Position of the gang among those that wait.
        """

    def observe(self, state: PlacementState, job: int, tier: Tier) -> None:  # noqa: B027
        """Take note that a waiting gang has accepted an offer at a tier."""


class FixedTimers(TimerRule):
    """Timers that never change, counted in leases, of all gangs or by demand.

    Parameters
    ----------
    rack_leases, network_leases
        At least 0; inf for ever. Of gangs in no class.
    by_gang
        Rack and network timer of each class of demand, by the largest gang of the class: a gang is
        in the first class whose largest gang is no smaller.

    Raises
    ------
    FieldError
        If a timer is no number of at least 0, or a gang no integer of at least 1.
    """

    def __init__(
        self,
        rack_leases: float,
        network_leases: float,
        by_gang: Mapping[int, tuple[float, float]] | None = None,
    ) -> None:
        classes = dict(by_gang or {})
        for gang in classes:
            require_integer("by_gang", gang, minimum=1)
        self._largest = sorted(classes)
        pairs = [classes[gang] for gang in self._largest] + [(rack_leases, network_leases)]
        self._leases = [
            (require_leases("rack_leases", rack), require_leases("network_leases", network))
            for rack, network in pairs
        ]

    def timers_s(self, state: PlacementState, job: int) -> tuple[float, float]:
        """Return the timers of the gang's class; O(log classes)."""
        place = bisect_left(self._largest, state.waiting.gang[job]) if self._largest else 0
        rack, network = self._leases[place]
        return rack * state.lease_s, network * state.lease_s


class GivenTimers(TimerRule):
    """The timers that stand with each waiting gang."""

    def timers_s(self, state: PlacementState, job: int) -> tuple[float, float]:
        """Return the gang's own."""
        waiting = state.waiting
        return float(waiting.rack_timer_s[job]), float(waiting.network_timer_s[job])


class AutoTuner(TimerRule):
    """Timers from recent waits of gangs of the same size: mean and two standard deviations.

    With the waits (in leases) after which gangs of d GPUs accepted a machine, Hm[d], of a lease at
    least, and those after which they accepted a rack, Hr[d], a window of H leases, and population
    standard deviations:

        rack timer    = min(ceil(0.8 H), max(6, ceil(mean + 2 sigma of Hm[d])))
        network timer = min(H, max(12, ceil(mean + 2 sigma of Hr[d])))

    in leases, where the statistic of an empty history is 1. Waits that were observed more than H
    leases ago are dropped when another is added to the same history, and not before. Timers are
    computed anew for every offer.

    Source: Dally's public simulator (see the module).

    Parameters
    ----------
    window_leases
        H, at least 1.
    """

    def __init__(self, window_leases: int = DEFAULT_WINDOW_LEASES) -> None:
        self._window = require_integer("window_leases", window_leases, minimum=1)
        self._histories: dict[tuple[Tier, int], WaitHistory] = {}

    def timers_s(self, state: PlacementState, job: int) -> tuple[float, float]:
        """Return the timers of gangs of this size; O(1)."""
        gang = int(state.waiting.gang[job])
        rack = max(LEAST_RACK_LEASES, self._statistic(Tier.MACHINE, gang))
        network = max(LEAST_NETWORK_LEASES, self._statistic(Tier.RACK, gang))
        rack = min(-(-4 * self._window // 5), rack)
        return rack * state.lease_s, min(self._window, network) * state.lease_s

    def _statistic(self, tier: Tier, gang: int) -> int:
        history = self._histories.get((tier, gang))
        return 1 if history is None else history.statistic()

    def observe(self, state: PlacementState, job: int, tier: Tier) -> None:
        """Add the wait of a gang that accepted a machine or a rack; amortised O(1)."""
        waited = float(state.waiting.waiting_s[job]) / state.lease_s
        if tier is Tier.NETWORK or (tier is Tier.MACHINE and waited < 1):
            return
        key = tier, int(state.waiting.gang[job])
        history = self._histories.get(key)
        if history is None:
            history = self._histories[key] = WaitHistory()
        history.drop_before(state.now_s - self._window * state.lease_s)
        history.add(state.now_s, waited)


class WaitHistory:
    """Waits and when they were observed, with their mean and standard deviation at hand.

    Waits count in billionths of a lease: sums of integers are exact however many come and go, and
    a wake-up that is late by the rounding of a float does not round a timer up to the next lease.
    """

    def __init__(self) -> None:
        self._waits: deque[tuple[float, int]] = deque()
        self._sum = self._sum_of_squares = 0
        self._statistic: int | None = 1

    def add(self, now_s: float, wait_leases: float) -> None:
        """Add a wait, observed no earlier than those before it."""
        wait = round(wait_leases * PARTS_OF_LEASE)
        self._waits.append((now_s, wait))
        self._sum += wait
        self._sum_of_squares += wait * wait
        self._statistic = None

    def drop_before(self, time_s: float) -> None:
        """Drop the waits that were observed before a time."""
        while self._waits and self._waits[0][0] < time_s:
            _, wait = self._waits.popleft()
            self._sum -= wait
            self._sum_of_squares -= wait * wait
            self._statistic = None

    def statistic(self) -> int:
        """Return mean and two population standard deviations, in leases, rounded up; 1 of none."""
        if self._statistic is None:
            count = len(self._waits)
            if not count:
                return 1
            deviation = math.sqrt(count * self._sum_of_squares - self._sum * self._sum)
            self._statistic = math.ceil((self._sum + 2 * deviation) / (count * PARTS_OF_LEASE))
        return self._statistic


def require_leases(field: str, value: object) -> float:
    """Return a timer as a float if it is a number of at least 0, or inf, which is for ever."""
    if value == math.inf:
        return math.inf
    try:
        return require_number(field, value, minimum=0)
    except FieldError as error:
        raise FieldError(field, value, f"{error.rule}, or inf for ever") from None


SPACINGS = 4
"""Spacings of floats that a wake-up is late, so that its timer is over whatever is rounded."""

_ALONE = np.zeros(1, np.int64)


class DelayScheduling(PlacementPolicy):
    """Gangs in order of need take the nearest tier that has room, once their timers allow it.

    Each gang in turn takes the first machine that holds it. If none does, and it has waited for
    its rack timer or is larger than any machine, it takes the first rack that holds it, its GPUs in
    the order of machines. If none does, and it has waited for its network timer or is larger than
    any rack, it takes any GPUs in the order of machines. Otherwise it waits, and those behind it
    choose. No order holds back GPUs for the first in line, so a large gang may wait as long as
    smaller ones keep coming.

    Source: Dally (arXiv 2401.16492), from its first author's public simulator. Ours: a wake-up
    when a timer runs out beside room (the simulator looks only when GPUs come free), and tiers at
    which a gang cannot run, which are passed over.

    Complexity of a decision: O(jobs log jobs + distinct gangs (machines + racks) + (machines +
    machines given) log machines). Guarantee: none; two gangs of which the first takes the machine
    that only the second needs lose as much as the tiers differ.

    Parameters
    ----------
    name
        What it is called.
    timers
        How long gangs wait.
    order
        Positions of waiting gangs in the order in which they choose.
    """

    repeats_itself = True

    def __init__(
        self,
        name: str,
        timers: TimerRule,
        order: Callable[[WaitingGangs], np.ndarray] | None = None,
    ) -> None:
        self.name = name
        self._timers = timers
        self._order = order or most_hurt_first

    def decide(self, state: PlacementState) -> list[Grant]:
        """Return who starts where; see the class."""
        machines, waiting = state.machines, state.waiting
        free = FirstFit(machines)
        fits = waiting.gang <= free.gpus
        if not fits.any():
            return []
        sizes = (0, machines.largest_machine_gpus, machines.largest_rack_gpus)
        grants = []
        # In a simulation's tail nearly all decisions are about one gang.
        order = self._order(waiting) if len(waiting) > 1 else _ALONE
        # Most of many do not fit: they are told apart at once.
        order = order[fits[order]]
        for job, gang in zip(order.tolist(), waiting.gang[order].tolist(), strict=True):
            if gang > free.gpus:
                continue
            grant = None
            efficiency = waiting.efficiency[job].tolist()
            if efficiency[Tier.MACHINE] > 0:
                gpus = free.place(gang, Tier.MACHINE)
                if gpus is not None:
                    grant = Grant(job, Tier.MACHINE, gpus)
            if grant is None and gang > 1:
                grant = self._far_grant(state, free, job, gang, efficiency, sizes)
            if grant is not None:
                self._timers.observe(state, job, grant.tier)
                grants.append(grant)
                if not free.gpus:
                    break
        return grants

    def _far_grant(
        self,
        state: PlacementState,
        free: FirstFit,
        job: int,
        gang: int,
        efficiency: Sequence[float],
        sizes: Sequence[int],
    ) -> Grant | None:
        """Return GPUs in a rack, or of the network, for a gang that accepts them; None if not."""
        waited_s = float(state.waiting.waiting_s[job])
        timers_s = self._timers.timers_s(state, job)
        for tier, timer_s in zip((Tier.RACK, Tier.NETWORK), timers_s, strict=True):
            if (waited_s >= timer_s or gang > sizes[tier]) and efficiency[tier] > 0:
                gpus = free.place(gang, tier)
                if gpus is not None:
                    return Grant(job, tier, gpus)
        return None

    def next_decision_s(self, state: PlacementState) -> float:
        """Return the seconds until a timer runs out where its tier has room for the gang.

        A few spacings of floats later in truth: with the time rounded, a gang that is woken has
        waited for as long as its timer says, or it would be woken again and again.
        """
        machines, waiting = state.machines, state.waiting
        free_gpus = int(machines.free_gpus.sum())
        room = (waiting.gang <= free_gpus) & (waiting.efficiency[:, Tier.RACK :] > 0).any(axis=1)
        if not room.any():
            return math.inf
        free = FirstFit(machines)
        least_s = math.inf
        for job in np.flatnonzero(room).tolist():
            gang, waited_s = int(waiting.gang[job]), float(waiting.waiting_s[job])
            for tier, timer_s in zip(
                (Tier.RACK, Tier.NETWORK), self._timers.timers_s(state, job), strict=True
            ):
                if (
                    waited_s < timer_s < waited_s + least_s
                    and waiting.efficiency[job, tier] > 0
                    and free.has_room(gang, tier)
                ):
                    least_s = timer_s - waited_s
        return least_s + SPACINGS * math.ulp(state.now_s + least_s)

    def held_s(self, state: PlacementState) -> list[tuple[float, float]]:
        """Return the timers of each waiting gang, as they are now."""
        return [self._timers.timers_s(state, job) for job in range(len(state.waiting))]


def most_hurt_first(waiting: WaitingGangs) -> np.ndarray:
    """Return Dally's order: least Nw_sens, then longest wait, then position.

    Jobs that have never run have Nw_sens 0 and come first.
    """
    return np.lexsort((-waiting.waiting_s, waiting.score))


def dally(window_leases: int = DEFAULT_WINDOW_LEASES) -> DelayScheduling:
    """Return Dally with its auto-tuner, which needs a run to learn from."""
    return DelayScheduling("dally", AutoTuner(window_leases))


def dally_with_given_timers() -> DelayScheduling:
    """Return Dally with the timers that stand with each waiting gang."""
    return DelayScheduling("dally", GivenTimers())


def no_wait() -> DelayScheduling:
    """Return Dally that takes what there is at once, near or far: timers 0."""
    return DelayScheduling("no-wait", FixedTimers(0.0, 0.0))


def consolidated() -> DelayScheduling:
    """Return Dally that waits for ever for the nearest tier that could hold a gang."""
    return DelayScheduling("consolidated", FixedTimers(math.inf, math.inf))


def manual(
    rack_leases: float = LEAST_RACK_LEASES, network_leases: float = LEAST_NETWORK_LEASES
) -> DelayScheduling:
    """Return Dally with one fixed pair of timers for all gangs.

    The default, 6 and 12 leases, is the floors of Dally's auto-tuner. That is assumed: which pair
    the paper's manual timers are is not known, and the simulator's own defaults are 1 and 2.
    """
    return DelayScheduling("manual", FixedTimers(rack_leases, network_leases))


class SkewTimers(TimerRule):
    """Never wait with a model that needs no consolidation; wait for ever with any other."""

    def timers_s(self, state: PlacementState, job: int) -> tuple[float, float]:
        """Return 0 or inf for both tiers."""
        timer_s = math.inf if state.waiting.needs_consolidation[job] else 0.0
        return timer_s, timer_s


def tiresias_skew() -> DelayScheduling:
    """Return Tiresias: least attained GPU service first, skewed models kept together.

    A gang takes a machine if one holds it. ResNet50, ResNet18 and BERT need no consolidation: they
    take a rack, and then anything, at once. All others wait for a machine, or for the nearest tier
    that could hold them.

    Source: Dally's public simulator (arXiv 2401.16492), which has continuous least attained service
    in place of Tiresias's queues. Its rack stage compares machines with a variable that was never
    set, so that it opens by chance; that quirk is not copied.
    """
    return DelayScheduling("tiresias-skew", SkewTimers(), least_attained_first)


def least_attained_first(waiting: WaitingGangs) -> np.ndarray:
    """Return the order of attained service, then longest wait, then position."""
    return np.lexsort((-waiting.waiting_s, waiting.attained_gpu_s))
