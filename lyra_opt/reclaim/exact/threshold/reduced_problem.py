"""What the threshold search works on: the reduced instance as arrays, scaled for integer prices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.reclaim.exact.threshold.prices_kernel import PricedProblem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lyra_opt.reclaim.incidence import Incidence, IntArray
    from lyra_opt.reclaim.reduction import ReducedReclaim

FINEST_OBJECTIVE = 2**36
"""Prices are counted in the smallest unit in which no objective of interest is larger than this."""

FINEST_TOTAL = 2**58
"""The same for the sum of all weights."""

LARGEST_TIGHTENED_SLACK = 2**12
"""Largest slack whose reachable sums are worth enumerating."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdProblem:
    """A `ReducedReclaim` in the units of the search.

    Parameters
    ----------
    reclaim_servers
        N_R.
    losses
        As in the reduced instance.
    slack
        Shape (jobs,): the largest sum of some of the job's losses that is at most its slack.
    divisor
        The greatest common divisor of all weights and costs, of which every objective is a
        multiple.
    weight, cost
        Shape (jobs,) and (servers,): weights and server costs over the divisor.
    unit
        Weight 1 in the unit of prices.
    scaled_weight, scaled_cost
        `weight` and `cost` in that unit.
    largest_price
        No price is larger, in that unit.
    largest
        No integer that the kernels meet is larger.
    """

    reclaim_servers: int
    losses: Incidence
    slack: IntArray
    divisor: int
    weight: NDArray[Any]
    cost: NDArray[Any]
    unit: int
    scaled_weight: NDArray[Any]
    scaled_cost: NDArray[Any]
    largest_price: int
    largest: int

    @classmethod
    def of(cls, reduced: ReducedReclaim, incumbent: Sequence[int]) -> ThresholdProblem:
        """Return the problem of finding a choice that costs less than `incumbent`.

        Time O(entries * largest tightened slack / word length).
        """
        losses = reduced.losses
        weights, costs = reduced.weight.tolist(), reduced.server_cost.tolist()
        divisor = math.gcd(*weights, *costs) or 1
        worth = _objective(losses, reduced.slack, reduced.weight, reduced.server_cost, incumbent)
        ceiling = max(1, worth // divisor)
        total = (sum(weights) + sum(costs)) // divisor
        finest = min(FINEST_OBJECTIVE // ceiling, FINEST_TOTAL // max(1, total))
        unit = 2 ** max(0, finest.bit_length() - 1)
        largest_price = ceiling * unit
        most_losses = int(losses.job_counts.max(initial=1)) + int(reduced.slack.max(initial=1))
        largest = max(
            largest_price * 2**18,  # a step: see `raise_prices`
            largest_price * most_losses * 2,
            (largest_price * 2 * losses.entries + total * unit) * 2,
            2**9 * most_losses,
        )
        dtype: Any = np.int64 if largest < 2**62 else object
        weight = np.array([value // divisor for value in weights], dtype=dtype)
        cost = np.array([value // divisor for value in costs], dtype=dtype)
        return cls(
            reclaim_servers=reduced.reclaim_servers,
            losses=losses,
            slack=_tightened(losses, reduced.slack),
            divisor=divisor,
            weight=weight,
            cost=cost,
            unit=unit,
            scaled_weight=weight * unit,
            scaled_cost=cost * unit,
            largest_price=largest_price,
            largest=largest,
        )

    @property
    def priced(self) -> PricedProblem:
        """What kernels that value prices are given."""
        return PricedProblem(self.scaled_weight, self.scaled_cost, self.losses, self.largest_price)

    @property
    def servers(self) -> int:
        """Number of servers."""
        return self.losses.servers

    def objective(self, places: Sequence[int]) -> int:
        """Return what a choice costs, over the divisor."""
        return _objective(self.losses, self.slack, self.weight, self.cost, places)

    @property
    def is_huge(self) -> bool:
        """Whether sums of weights do not fit into 64 bits."""
        return bool(self.weight.dtype == object)

    @property
    def typical_weight(self) -> float:
        """The mean weight of a job."""
        weights = self.weight.tolist()
        return float(sum(weights) / len(weights)) if weights else 1.0

    def bound_of(self, value: int) -> int:
        """Return the least objective, over the divisor, that is at least a value in the unit."""
        return -(-value // self.unit)


def _tightened(losses: Incidence, slack: IntArray) -> IntArray:
    """Lower each slack to a sum that some of the job's losses have: no choice tells them apart."""
    tightened = slack.copy()
    for job in np.flatnonzero((slack > 0) & (slack <= LARGEST_TIGHTENED_SLACK)).tolist():
        allowed = (2 << int(slack[job])) - 1
        sums = 1  # bit i: whether some of the losses sum to i
        for _, count in losses.row(job):
            sums |= sums << count & allowed
        tightened[job] = sums.bit_length() - 1
    return tightened


def _objective(
    losses: Incidence,
    slack: IntArray,
    weight: NDArray[Any],
    cost: NDArray[Any],
    places: Sequence[int],
) -> int:
    is_chosen = np.zeros(losses.servers, dtype=np.int64)
    is_chosen[list(places)] = 1
    is_preempted = losses.row_sums(is_chosen) > slack
    costs: list[int] = cost[is_chosen == 1].tolist()
    weights: list[int] = weight[is_preempted].tolist()
    return sum(costs) + sum(weights)
