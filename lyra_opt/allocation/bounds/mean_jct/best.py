"""Lower bounds on mean JCT for instances of any size.

The bounds, from the weakest to the strongest, are heights, squashed area, mean busy times, and
prices of GPU time. For more than 200 jobs the prices are those of jobs that may be interrupted. The
proofs are in ``formulations/allocation/README.md``, section 11.
"""

import math
from contextlib import suppress

from lyra_opt.allocation.bounds.mean_jct.busy_times import ASCENT_STEPS, mean_busy_time_bound
from lyra_opt.allocation.bounds.mean_jct.data import BoundData, safe_difference, smallest_area_first
from lyra_opt.allocation.bounds.mean_jct.prices import (
    LARGEST_FOR_PASSES,
    LARGEST_FOR_PRICES,
    ROUNDS,
    interrupted_prices_bound,
    priced_schedules_bound,
)
from lyra_opt.allocation.instance import Instance
from lyra_opt.core.stopwatch import OutOfTimeError


def mean_jct_bound(instance: Instance, steps: int = ASCENT_STEPS, rounds: int = ROUNDS) -> float:
    """Return the best lower bound on mean JCT, in seconds, that the time limit allows.

    Parameters
    ----------
    steps
        Evaluations for the bound of mean busy times.
    rounds
        Rounds for the bound of prices of time; 0 skips it.
    """
    found = [0.0]
    with suppress(OutOfTimeError):
        found.append(height_bound(instance))
        found.append(squashed_area_bound(instance))
        found.append(mean_busy_time_bound(instance, steps))
        if rounds and LARGEST_FOR_PRICES < len(instance.jobs) <= LARGEST_FOR_PASSES:
            found.append(interrupted_prices_bound(instance))
        if rounds and len(instance.jobs) <= LARGEST_FOR_PRICES:
            found.append(priced_schedules_bound(instance, rounds))
    return max(found)


def height_bound(instance: Instance) -> float:
    """Return the mean running time of the jobs with all their workers, in seconds.

    This bounds the mean JCT from below, since no job is faster than alone. A job with w workers
    runs for work / rate(w), where w is w_max or the most workers that fit the cluster.
    """
    return safe_difference(math.fsum(BoundData(instance).height), 0.0, 1) / len(instance.jobs)


def squashed_area_bound(instance: Instance) -> float:
    """Return the optimal mean JCT on one machine that is as fast as all GPUs together.

    With preemption and releases, shortest remaining area first is optimal on that machine.
    Complexity O(n log n).
    """
    data = BoundData(instance)
    completions, _ = smallest_area_first(data)
    return safe_difference(math.fsum(completions), math.fsum(data.release), data.jobs) / data.jobs
