"""Delay scheduling: gangs choose in turn, and wait for a while for GPUs close together.

It covers Dally, its variants with other timers, and Tiresias with its skew rule.

Source of the timers: the public simulator of the first author of Dally (arXiv 2401.16492). The
timer of a tier is the time that a gang waits, since it last held GPUs, before it accepts that tier.
The rack timer is the code's wait at the machine tier, and the network timer its wait at the rack
tier. A gang too large for every machine (or rack) is not held back; placement handles this case.
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from lyra_opt.core.errors import FieldError
from lyra_opt.core.rules import require_integer, require_number
from lyra_opt.network.heuristics.free_machines import FirstFit
from lyra_opt.network.heuristics.policy import Grant, PlacementPolicy, PlacementState, WaitingGangs
from lyra_opt.network.links import Tier

DEFAULT_WINDOW_LEASES = 24
"""A day of one-hour leases. The value is assumed: the simulator takes it as an argument without a
default, and calls it hours."""

LEAST_RACK_LEASES, LEAST_NETWORK_LEASES = 6, 12
"""Minimum values of the tuned timers; earlier versions of the code have 5 and 10, and 1 and 2."""

PARTS_OF_LEASE = 10**9


class TimerRule(ABC):
    """Decides how long each gang waits for GPUs close together; one object per run."""

    @abstractmethod
    def timers_s(self, state: PlacementState, job: int) -> tuple[float, float]:
        """Return how many seconds a waiting gang waits for a machine and for a rack; may be inf.

        Parameters
        ----------
        state
            The state on which the policy decides.
        job
            Position of the gang among the waiting gangs.
        """

    def observe(self, state: PlacementState, job: int, tier: Tier) -> None:  # noqa: B027
        """Record that a waiting gang accepted GPUs at a tier."""


class FixedTimers(TimerRule):
    """Constant timers, in leases, for all gangs or by gang size.

    Parameters
    ----------
    rack_leases, network_leases
        Timers of gangs larger than all classes; at least 0, inf to wait for ever.
    by_gang
        Rack and network timer of each class of gang sizes, by the largest size of the class. A gang
        belongs to the first class whose largest size is at least the gang.

    Raises
    ------
    FieldError
        If a timer is not a number of at least 0, or a gang size not an integer of at least 1.
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
        """Return the rack and network timers of a gang's size, in seconds; O(log classes)."""
        place = bisect_left(self._largest, state.waiting.gang[job]) if self._largest else 0
        rack, network = self._leases[place]
        return rack * state.lease_s, network * state.lease_s


class GivenTimers(TimerRule):
    """Delay timers as stated in the instance, one pair per gang."""

    def timers_s(self, state: PlacementState, job: int) -> tuple[float, float]:
        """Return the rack and network timers that the instance states for a gang, in seconds."""
        waiting = state.waiting
        return float(waiting.rack_timer_s[job]), float(waiting.network_timer_s[job])


class AutoTuner(TimerRule):
    """Dally's tuned timers: mean plus two standard deviations of recent waits, by gang size.

    Hm[d] are the waits, in leases, after which gangs of d GPUs accepted a machine, counted if they
    are at least one lease. Hr[d] are the waits after which they accepted a rack. H is the window in
    leases, and sigma the population standard deviation. In leases, the timers are

        rack timer    = min(ceil(0.8 H), max(6, ceil(mean + 2 sigma of Hm[d])))
        network timer = min(H, max(12, ceil(mean + 2 sigma of Hr[d])))

    where the statistic of an empty history is 1. When a wait is added to a history, waits observed
    more than H leases ago are dropped, but not before. Timers are recomputed for every offer.

    Source: Dally's public simulator (see the module).

    Parameters
    ----------
    window_leases
        The window H in leases, at least 1.
    """

    def __init__(self, window_leases: int = DEFAULT_WINDOW_LEASES) -> None:
        self._window = require_integer("window_leases", window_leases, minimum=1)
        self._histories: dict[tuple[Tier, int], WaitHistory] = {}

    def timers_s(self, state: PlacementState, job: int) -> tuple[float, float]:
        """Return the tuned rack and network timers for a gang's size, in seconds; O(1)."""
        gang = int(state.waiting.gang[job])
        rack = max(LEAST_RACK_LEASES, self._statistic(Tier.MACHINE, gang))
        network = max(LEAST_NETWORK_LEASES, self._statistic(Tier.RACK, gang))
        rack = min(-(-4 * self._window // 5), rack)
        return rack * state.lease_s, min(self._window, network) * state.lease_s

    def _statistic(self, tier: Tier, gang: int) -> int:
        history = self._histories.get((tier, gang))
        return 1 if history is None else history.statistic()

    def observe(self, state: PlacementState, job: int, tier: Tier) -> None:
        """Record the wait of a gang that accepted a machine or a rack; amortised O(1)."""
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
    """Waits with their observation times, and running sums for mean and standard deviation.

    Waits are integers in billionths of a lease. Integer sums stay exact when waits come and go. A
    wake-up that is late by a rounding error then does not round a timer up to the next lease.
    """

    def __init__(self) -> None:
        self._waits: deque[tuple[float, int]] = deque()
        self._sum = self._sum_of_squares = 0
        self._statistic: int | None = 1

    def add(self, now_s: float, wait_leases: float) -> None:
        """Add a wait, observed no earlier than the waits before it."""
        wait = round(wait_leases * PARTS_OF_LEASE)
        self._waits.append((now_s, wait))
        self._sum += wait
        self._sum_of_squares += wait * wait
        self._statistic = None

    def drop_before(self, time_s: float) -> None:
        """Drop the waits that were observed before `time_s`."""
        while self._waits and self._waits[0][0] < time_s:
            _, wait = self._waits.popleft()
            self._sum -= wait
            self._sum_of_squares -= wait * wait
            self._statistic = None

    def statistic(self) -> int:
        """Return the mean plus two standard deviations in leases, rounded up; 1 without waits."""
        if self._statistic is None:
            count = len(self._waits)
            if not count:
                return 1
            deviation = math.sqrt(count * self._sum_of_squares - self._sum * self._sum)
            self._statistic = math.ceil((self._sum + 2 * deviation) / (count * PARTS_OF_LEASE))
        return self._statistic


def require_leases(field: str, value: object) -> float:
    """Return a timer as a float; it must be a number of at least 0, or inf."""
    if value == math.inf:
        return math.inf
    try:
        return require_number(field, value, minimum=0)
    except FieldError as error:
        raise FieldError(field, value, f"{error.rule}, or inf to wait for ever") from None


SPACINGS = 4
"""A wake-up is delayed by this many float spacings, so that rounding cannot make it too early."""

_ALONE = np.zeros(1, np.int64)


class DelayScheduling(PlacementPolicy):
    """Start gangs in order of need at the nearest tier that has room, once their timers allow it.

    Each gang in turn takes the first machine that can hold it. If no machine can, a gang that has
    waited for its rack timer, or is larger than every machine, takes the first rack that can hold
    it, using machines in order. If no rack can, a gang that has waited for its network timer, or is
    larger than every rack, takes free GPUs of all machines in order. Otherwise the gang waits, and
    the gangs behind it choose. No GPUs are reserved for the first gang in the queue, so a large
    gang may wait as long as smaller gangs arrive.

    Source: the public simulator of the first author of Dally (arXiv 2401.16492). Two details are
    ours. A wake-up occurs when a timer ends and there is room; the simulator checks only when GPUs
    become free. Tiers at which a gang cannot run are skipped.

    Complexity of a decision: O(jobs log jobs + distinct gangs (machines + racks) + (machines +
    machines taken) log machines). Guarantee: none. If the first of two gangs takes the only machine
    that the second can use, the loss is as large as the difference between the tiers.

    Parameters
    ----------
    name
        Name of the policy.
    timers
        Rule that sets the timers.
    order
        Function that returns positions of waiting gangs in the order in which they choose.
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
        """Return a grant for each gang that finds GPUs at a tier that it accepts."""
        machines, waiting = state.machines, state.waiting
        free = FirstFit(machines)
        fits = waiting.gang <= free.gpus
        if not fits.any():
            return []
        sizes = (0, machines.largest_machine_gpus, machines.largest_rack_gpus)
        grants = []
        # Late in a simulation, usually a single gang waits, which needs no sorting.
        order = self._order(waiting) if len(waiting) > 1 else _ALONE
        # If many gangs wait, most gangs do not fit, so one array operation removes these first.
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
        """Return GPUs for a gang in one rack or across racks; None if the gang must wait."""
        waited_s = float(state.waiting.waiting_s[job])
        timers_s = self._timers.timers_s(state, job)
        for tier, timer_s in zip((Tier.RACK, Tier.NETWORK), timers_s, strict=True):
            if (waited_s >= timer_s or gang > sizes[tier]) and efficiency[tier] > 0:
                gpus = free.place(gang, tier)
                if gpus is not None:
                    return Grant(job, tier, gpus)
        return None

    def next_decision_s(self, state: PlacementState) -> float:
        """Return the seconds until a timer ends whose tier has room for its gang.

        A few float spacings are added: after rounding, the gang must have waited for its full
        timer, or it would be woken again and again.
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
        """Return the rack and network timers of each waiting gang, in seconds."""
        return [self._timers.timers_s(state, job) for job in range(len(state.waiting))]


def most_hurt_first(waiting: WaitingGangs) -> np.ndarray:
    """Return Dally's order of gangs: most slowed by the network, then longest wait.

    The slowdown is measured by the score Nw_sens, least first. Ties are broken by position.

    Jobs that have never run have Nw_sens 0 and come first.
    """
    return np.lexsort((-waiting.waiting_s, waiting.score))


def dally(window_leases: int = DEFAULT_WINDOW_LEASES) -> DelayScheduling:
    """Return Dally's policy with auto-tuned timers, which learn from the waits in a run."""
    return DelayScheduling("dally", AutoTuner(window_leases))


def dally_with_given_timers() -> DelayScheduling:
    """Return Dally with the timers that the instance states for each gang."""
    return DelayScheduling("dally", GivenTimers())


def no_wait() -> DelayScheduling:
    """Return Dally with timers of 0, which accepts any tier at once."""
    return DelayScheduling("no-wait", FixedTimers(0.0, 0.0))


def consolidated() -> DelayScheduling:
    """Return Dally with infinite timers, which waits for the nearest tier that can hold a gang."""
    return DelayScheduling("consolidated", FixedTimers(math.inf, math.inf))


def manual(
    rack_leases: float = LEAST_RACK_LEASES, network_leases: float = LEAST_NETWORK_LEASES
) -> DelayScheduling:
    """Return Dally with one fixed pair of timers for all gangs.

    The default timers, 6 and 12 leases, are the minimum timers of Dally's auto-tuner. This is an
    assumption: the paper's manual timers are unknown, and the simulator's own defaults are 1 and 2.
    """
    return DelayScheduling("manual", FixedTimers(rack_leases, network_leases))


class SkewTimers(TimerRule):
    """Timers of 0 for models that need no consolidation, infinite timers for all other models."""

    def timers_s(self, state: PlacementState, job: int) -> tuple[float, float]:
        """Return both timers of a gang, which are inf if its model needs consolidation, else 0."""
        timer_s = math.inf if state.waiting.needs_consolidation[job] else 0.0
        return timer_s, timer_s


def tiresias_skew() -> DelayScheduling:
    """Return Tiresias: least attained GPU service first, with skewed models kept together.

    A gang takes a machine if one can hold it. ResNet50, ResNet18 and BERT need no consolidation:
    they take a rack at once, or else any GPUs. All other models wait for a machine, or for the
    nearest tier that can hold them.

    Source: Dally's public simulator (arXiv 2401.16492), which uses continuous least attained
    service instead of Tiresias's queues. Its rack stage compares machines with a variable that is
    never set, so its result is accidental. This quirk is not copied.
    """
    return DelayScheduling("tiresias-skew", SkewTimers(), least_attained_first)


def least_attained_first(waiting: WaitingGangs) -> np.ndarray:
    """Return the order of gangs: least attained service, then longest wait, then position."""
    return np.lexsort((-waiting.waiting_s, waiting.attained_gpu_s))
