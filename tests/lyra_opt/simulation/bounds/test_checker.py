"""What prices prove is no less in exact arithmetic than the bound says."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from lyra_opt.pricing.ascent import safe_value
from lyra_opt.simulation.bounds.checker import Checker
from lyra_opt.simulation.bounds.scope import Reading
from tests.lyra_opt.simulation.bounds.small import draw, prices_for

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

    from lyra_opt.pricing.ascent import Pricer
    from tests.lyra_opt.simulation.bounds.small import Small

NEAR = 1e-6
"""How far the safe value may be below the exact one, beside the sums that it is made of."""


def exact(small: Small, pricer: Pricer, price: NDArray[np.float64], *, is_queue: bool) -> Fraction:
    """Return what prices prove of the weighted sum over jobs."""
    border_s = pricer.room.border_s.tolist()
    checker = Checker(pricer.jobs, border_s, price.tolist(), is_queue=is_queue)
    return checker.proved(small.cluster, small.plan)


def check_all(seeds: Iterable[int], reading: Reading) -> None:
    """Check the floats of the kernel against integers, at prices of all kinds."""
    for seed in seeds:
        small = draw(seed, reading)
        total_s = sum(job.work_worker_s for job in small.workload.jobs)
        for is_queue in (False, True):
            pricer = small.pricer(reading, is_queue=is_queue, cell_s=total_s / 23)
            for price in prices_for(small, pricer):
                safe = safe_value(pricer, price)
                proved = exact(small, pricer, price, is_queue=is_queue)
                of = f"seed {seed}, {reading}, queue {is_queue}: {safe} of {float(proved)}"
                assert Fraction(safe) <= proved, of
                size = float(abs(proved)) + float((price * pricer.room.gpu_s).sum())
                assert float(proved) - safe <= NEAR * (1 + size), of


@pytest.mark.parametrize("reading", Reading)
def test_the_bound_is_no_more_than_prices_prove_exactly(reading: Reading) -> None:
    """Protects the rounding: floats and their margin against integers that share no code."""
    check_all(range(8), reading)


@pytest.mark.slow
@pytest.mark.parametrize("reading", Reading)
def test_many_bounds_are_no_more_than_prices_prove_exactly(reading: Reading) -> None:
    """The same in a thousand cases of each reading."""
    check_all(range(1000, 2000), reading)
