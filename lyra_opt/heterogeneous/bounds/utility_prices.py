"""An upper bound on the offline utility from prices of GPUs."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lyra_opt.core.stopwatch import OutOfTimeError, within_time
from lyra_opt.heterogeneous.bounds.best_purchase import PricedRounds, PricingOracle

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lyra_opt.heterogeneous.instance import Instance

SCALES = (1.0, 0.5, 0.25, 0.1, 0.0)
"""By which given prices are multiplied; at 0 the bound is what all jobs are worth alone."""

MOST_STEPS = 60
PRICINGS_BUDGET = 40_000
"""Rounds times jobs, times servers with forking, that all steps may price."""

SAFETY = 1e-11
"""Relative; far more than the rounding of the sums, far less than what counts as a gap."""


class UtilityPriceBound(NamedTuple):
    """An upper bound on the optimum of a utility instance."""

    value: float
    """The best bound."""
    at_given_prices: float
    """That of the prices as they were given."""
    evaluations: int
    """Price vectors at which all jobs were priced."""
    relaxed: int
    """Jobs whose pricing problem was relaxed once at least, its payoff an upper bound."""


def price_bound(
    instance: Instance, prices: NDArray[np.float64], utility: float
) -> UtilityPriceBound:
    """Return an upper bound on the offline optimum from any prices.

    Weak duality. Let k[t, h, r] >= 0 be prices, c[h, r] the GPUs, S_j the schedules of job j that
    complete it, each in at most horizon rounds on at most all GPUs, w_js[t, h, r] what schedule s
    takes and U_js its weighted utility. Put::

        mu_j = max(0, max over s in S_j of U_js - sum of k[t, h, r] w_js[t, h, r])
        D(k) = sum_j mu_j + sum of k[t, h, r] c[h, r]

    Let an optimal solution complete the jobs J, job j by schedule s(j); jobs that do not complete
    are worth nothing. Then its value is the sum over J of U_js(j), at most the sum over J of
    mu_j + sum of k w_js(j), by the choice of mu_j; and that is at most D(k), since mu_j >= 0 and
    the schedules together take at most c[h, r] GPUs of a cell in a round, at k >= 0. So D(k) is no
    less than the optimum whatever the prices, and weights need no more than to be part of U_js.
    The pricing problem of each job is solved exactly (`PricingOracle.buy`), or relaxed upwards.

    The prices are scaled by each of `SCALES`; from the best of these, Polyak's subgradient steps
    towards `utility` follow, c - (what all jobs buy) being a subgradient of D; the best bound is
    kept. The number of steps depends on the size of the instance, and on the time limit in force.

    Parameters
    ----------
    instance
        With the objective utility.
    prices
        By round, server and type; at least 0.
    utility
        Of a known solution.
    """
    search = _PriceSearch(instance)
    at_given = search.evaluate(prices)[0]
    with suppress(OutOfTimeError):
        search.improve(prices, utility)
    return UtilityPriceBound(
        value=search.best * (1 + SAFETY),
        at_given_prices=at_given * (1 + SAFETY),
        evaluations=search.evaluations,
        relaxed=len(search.relaxed),
    )


class _PriceSearch:
    """Evaluates D and keeps the best; see `price_bound`."""

    def __init__(self, instance: Instance) -> None:
        self._instance, self._jobs = instance, instance.jobs
        self._oracle = PricingOracle(instance)
        self.best = np.inf
        self.best_prices = np.zeros(self._oracle.shape)
        self.evaluations = 0
        self.relaxed: set[str] = set()

    def improve(self, prices: NDArray[np.float64], utility: float) -> None:
        """Scale the prices, then step from the best of these."""
        instance = self._instance
        for scale in SCALES[1:]:
            self.evaluate(scale * prices)
        turns = len(instance.servers) if instance.forking else 1
        pricings = instance.horizon_rounds * len(instance.jobs) * turns
        here = self.best_prices
        for _ in range(min(MOST_STEPS, PRICINGS_BUDGET // pricings)):
            value, slope = self.evaluate(here)
            norm = float((slope**2).sum())
            if value <= utility or not norm:
                break
            here = np.maximum(0.0, here - (value - utility) / norm * slope)

    def evaluate(self, prices: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return D and a subgradient."""
        priced = PricedRounds(self._oracle, prices)
        slope = np.broadcast_to(self._oracle.capacity, prices.shape).astype(np.float64)
        value = float((prices * slope).sum())
        for job in within_time(self._jobs):
            purchase = self._oracle.buy(job, priced)
            value += purchase.payoff
            slope -= self._oracle.usage(purchase.entries)
            if not purchase.is_exact:
                self.relaxed.add(job.id)
        self.evaluations += 1
        if value < self.best:
            self.best, self.best_prices = value, prices
        return value, slope
