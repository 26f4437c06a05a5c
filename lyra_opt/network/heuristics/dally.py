"""Dally, and what becomes of it with other timers."""

from __future__ import annotations

import math

from lyra_opt.network.heuristics.delay_scheduling import DelayScheduling
from lyra_opt.network.heuristics.timers import (
    DEFAULT_WINDOW_LEASES,
    LEAST_NETWORK_LEASES,
    LEAST_RACK_LEASES,
    AutoTuner,
    FixedTimers,
    GivenTimers,
)


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
