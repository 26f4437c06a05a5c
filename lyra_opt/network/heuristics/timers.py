"""Delay timers: how long a gang waits before it accepts machines further apart.

Source: Dally (arXiv 2401.16492), from its first author's public simulator. The timer of a tier says
how long a gang waits, since it last held GPUs, before it accepts that tier: the rack timer is the
code's wait at the machine tier, the network timer its wait at the rack tier. Gangs that no machine
(no rack) could hold are not held back; that is the placement's business, not the timers'.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING

from lyra_opt.core.errors import FieldError
from lyra_opt.core.validation import require_integer, require_number
from lyra_opt.network.links import Tier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lyra_opt.network.heuristics.policy import PlacementState

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
