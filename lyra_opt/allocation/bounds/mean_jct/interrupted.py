"""Prices of time for instances too large for `lyra_opt.allocation.bounds.mean_jct.prices`.

Jobs are given more than they may have: to be interrupted at any moment. Then each one's cheapest
schedule at given prices is a matter of buying work where it is cheap, and one pass over all of them
takes milliseconds (`lyra_opt.pricing`, which bounds whole replays too). The hull of the base demand
and of all workers is what there is in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.allocation.bounds.mean_jct.data import BoundData
from lyra_opt.pricing.ascent import Pricer, Room, ascend
from lyra_opt.pricing.first_prices import first_prices
from lyra_opt.pricing.kernel import PricedJobs
from lyra_opt.pricing.safe_value import safe_value

if TYPE_CHECKING:
    from lyra_opt.allocation.instance import Instance

LARGEST_FOR_PASSES = 5_000
"""Jobs up to which the bound takes some seconds."""
PASSES = 30
CELLS = 400
DRAIN = 1.2
"""How much longer than the work takes prices go on after the last release."""


def interrupted_prices_bound(instance: Instance, passes: int = PASSES) -> float:
    """Return the bound of prices of time where jobs may be interrupted; seconds.

    Parameters
    ----------
    passes
        Over all jobs, for better prices.

    Notes
    -----
    Source: this project; proof as in `lyra_opt.simulation.bounds.whole`, of the reading
    *conserved*. Complexity O(passes * jobs * cells that a job looks at * log cells).
    """
    data = BoundData(instance)
    grows = data.extra > 0
    gpus = np.stack((data.base, data.base + data.extra), axis=1)
    rate = np.stack((data.base_rate, data.top_rate), axis=1) / data.work[:, None]
    listed = np.stack((np.ones_like(grows), grows), axis=1)
    first = np.concatenate(([0], np.cumsum(listed.sum(axis=1))))
    area = float((data.base / data.base_rate * data.work).sum())
    end_s = float(data.release.max()) + DRAIN * area / data.gpus
    border_s = np.linspace(0.0, end_s, CELLS + 1)
    jobs = PricedJobs(
        release_s=data.release,
        weight=np.ones(data.jobs),
        is_contiguous=np.zeros(data.jobs, dtype=np.int64),
        adds=np.zeros(data.jobs, dtype=np.int64),
        first=first,
        pool=np.zeros(int(first[-1]), dtype=np.int64),
        gpus=gpus[listed],
        rate=rate[listed],
        cell=np.searchsorted(border_s, data.release, side="right") - 1,
    )
    room = Room(border_s=border_s, gpu_s=np.diff(border_s)[None] * data.gpus)
    pricer = Pricer(jobs, room)
    best = ascend(pricer, first_prices(jobs, room), passes)
    return max(0.0, safe_value(pricer, best.price)) / data.jobs
