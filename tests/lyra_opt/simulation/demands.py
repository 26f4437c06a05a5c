"""Demands that the tests of loaning share."""

import math

from hypothesis import strategies as st

from lyra_opt.simulation.workload import InferenceDemand

STEP_S = 300.0
DAY = 288  # steps


def demand_of(shares, step_s=STEP_S):
    return InferenceDemand(name="drawn", step_s=step_s, busy_share=tuple(shares))


def sine(days, amplitude=0.3):
    """Return a demand with a trough at midnight and a peak at noon, the same every day."""
    return demand_of(
        [0.6 - amplitude * math.cos(2 * math.pi * (step % DAY) / DAY) for step in range(days * DAY)]
    )


SHARES = st.integers(0, 40).map(lambda fortieths: fortieths / 40)


def demands(max_steps=30):
    """Draw demands in fortieths, so that shares fill whole servers of clusters of 40 and 80."""
    return st.lists(SHARES, min_size=1, max_size=max_steps).map(demand_of)
