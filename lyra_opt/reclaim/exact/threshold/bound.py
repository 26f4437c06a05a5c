"""A branch-and-bound node for jobs that survive some losses, with its decisions and price bound."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lyra_opt.core.arrays import IntArray
from lyra_opt.reclaim.exact.threshold.kernels import (
    CHOSEN,
    PAID,
    Ascent,
    Decided,
    Dominance,
    Order,
    PricedProblem,
    Valuation,
    fix_by_prices,
    list_entries,
    propagate,
    raise_prices,
)
from lyra_opt.reclaim.incidence import Incidence
from lyra_opt.reclaim.reduction import ReducedReclaim

FINEST_OBJECTIVE = 2**36
"""The unit of prices is the finest in which no objective of interest exceeds this number."""

FINEST_TOTAL = 2**58
"""The unit of prices is the finest in which the sum of all weights does not exceed this number."""

LARGEST_TIGHTENED_SLACK = 2**12
"""Largest slack for which the reachable sums of losses are enumerated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdProblem:
    """A reclaim problem scaled to integers, for branch and bound on jobs that survive some losses.

    Parameters
    ----------
    reclaim_servers
        N_R.
    losses
        The losses of the reduced instance.
    slack
        Shape (jobs,): the largest sum of some of the job's losses that is at most its slack.
    divisor
        The greatest common divisor of all weights and costs; every objective is a multiple of it.
    weight, cost
        Shape (jobs,) and (servers,): weights and server costs divided by the divisor.
    unit
        A weight of 1 in the unit of prices.
    scaled_weight, scaled_cost
        `weight` and `cost` in the unit of prices.
    largest_price
        Upper limit of every price, in the unit of prices.
    largest
        Bound on every integer in the kernels.
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
    def of(cls, reduced: ReducedReclaim, incumbent: Sequence[int]) -> "ThresholdProblem":
        """Build the scaled problem of finding a choice that costs less than `incumbent`.

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
            largest_price * 2**18,  # a step of `raise_prices`
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
        """The weights, costs and losses as the named tuple that the kernels take."""
        return PricedProblem(self.scaled_weight, self.scaled_cost, self.losses, self.largest_price)

    @property
    def servers(self) -> int:
        """Number of servers."""
        return self.losses.servers

    def objective(self, places: Sequence[int]) -> int:
        """Return the preempted weight if the servers `places` are chosen, divided by `divisor`."""
        return _objective(self.losses, self.slack, self.weight, self.cost, places)

    @property
    def is_huge(self) -> bool:
        """Whether sums of weights can exceed 64 bits."""
        return bool(self.weight.dtype == object)

    @property
    def typical_weight(self) -> float:
        """The mean weight of a job, divided by the divisor."""
        weights = self.weight.tolist()
        return float(sum(weights) / len(weights)) if weights else 1.0

    def bound_of(self, value: int) -> int:
        """Convert a bound from the unit of prices to an integer objective, rounded up."""
        return -(-value // self.unit)


def _tightened(losses: Incidence, slack: IntArray) -> IntArray:
    """Lower each job's slack to the largest sum of its losses that is at most the slack."""
    tightened = slack.copy()
    for job in np.flatnonzero((slack > 0) & (slack <= LARGEST_TIGHTENED_SLACK)).tolist():
        allowed = (2 << int(slack[job])) - 1
        sums = 1  # bit i is set if a subset of the losses sums to i
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


FIRST_STEP = 128
"""Length of the first price steps of a new node, in parts of 256."""

LARGEST_KNAPSACK = 2**10
"""A job that can lose at most this many workers has its knapsack solved in whole servers."""

STEPS_DECIDED_BY = 100
"""Number of steps that counts as the work of a node when kernels choose how to run."""


def first_prices(problem: ThresholdProblem) -> NDArray[Any]:
    """Return starting prices: half the weight of each job, spread over its losses."""
    losses = problem.losses
    beyond = losses.row_sums(np.ones(losses.servers, dtype=np.int64)) - problem.slack
    beyond = np.maximum(beyond, 1)
    job = np.repeat(np.arange(losses.jobs), losses.span())
    prices: NDArray[Any] = (
        problem.scaled_weight[job] * np.minimum(losses.job_counts, beyond[job]) // (2 * beyond[job])
    )
    return prices


class NodeBound:
    """A branch-and-bound node: its propagated decisions and the best bound proved by prices.

    Parameters
    ----------
    problem
        The problem.
    dominance
        The dominance pairs used in propagation.
    server_state, job_state
        The decisions; they are copied and propagated at once.
    prices
        Shape (entries,): the starting prices, each at least 0; copied.
    value
        A bound that is already proved for the choices that respect the decisions.

    Attributes
    ----------
    decided : Decided
        The decisions with all their conclusions.
    """

    def __init__(
        self,
        problem: ThresholdProblem,
        dominance: Dominance,
        server_state: Any,
        job_state: Any,
        prices: Any,
        value: int = 0,
    ) -> None:
        losses = problem.losses
        self._problem = problem
        self._dominance = dominance
        self.value = value
        self.is_feasible = True
        self.decided = Decided(
            constant=0,
            wanted=0,
            free=0,
            server_state=np.array(server_state, dtype=np.int64),
            job_state=np.array(job_state, dtype=np.int64),
            residual=_zeros(losses.jobs),
            jobs=0,
            active_jobs=_zeros(losses.jobs),
            active_start=_zeros(losses.jobs + 1),
        )
        self._order = Order(_zeros(losses.entries), _zeros(losses.servers))
        best_prices = np.array(prices, dtype=problem.scaled_weight.dtype)
        self._ascent = Ascent(
            length=FIRST_STEP,
            stale=0,
            value=-problem.largest,
            best_prices=best_prices,
            prices=best_prices.copy(),
            direction=_zeros(losses.entries),
            paid_share=_zeros(losses.jobs),
            chosen_share=_zeros(losses.servers),
        )
        self.propagate()

    @property
    def _run(self) -> dict[str, int]:
        """The work estimate and largest integer by which kernels decide whether to run compiled."""
        losses = self._problem.losses
        work = STEPS_DECIDED_BY * (losses.entries + losses.servers)
        return {"work": work, "largest": self._problem.largest}

    @property
    def is_compiled(self) -> bool:
        """Whether the kernels run compiled."""
        return propagate.compiles(self._run["work"], largest=self._run["largest"])

    @property
    def is_large(self) -> bool:
        """Whether a node takes enough work to make compiling the kernels worthwhile."""
        return propagate.compiles(self._run["work"], largest=0)

    def set_dominance(self, dominance: Dominance) -> None:
        """Replace the dominance pairs that later propagation uses."""
        self._dominance = dominance

    @property
    def prices(self) -> Any:
        """The prices of (job, server) pairs with the best bound, or those last passed to `fix`."""
        return self._ascent.best_prices

    @property
    def active_jobs(self) -> list[int]:
        """The undecided jobs and the jobs that must survive, in ascending order."""
        return [int(job) for job in self.decided.active_jobs[: self.decided.jobs]]

    @property
    def open_decisions(self) -> int:
        """Number of free servers plus number of jobs that are undecided or must survive."""
        return self.decided.free + self.decided.jobs

    def propagate(self) -> None:
        """Propagate the decisions and set `is_feasible` to whether a feasible choice may exist."""
        problem, decided = self._problem, self.decided
        self.is_feasible, wanted, server_state, job_state, residual = propagate.run(
            problem.reclaim_servers,
            problem.slack,
            problem.losses,
            self._dominance,
            decided.server_state,
            decided.job_state,
            decided.residual,
            **self._run,
        )
        if not self.is_feasible:
            return
        jobs, free, active_jobs, active_start, self._order = list_entries.run(
            problem.losses,
            server_state,
            job_state,
            decided.active_jobs,
            decided.active_start,
            self._order,
            **self._run,
        )
        is_paid = np.asarray(job_state) == PAID
        is_chosen = np.asarray(server_state) == CHOSEN
        constant = sum(problem.scaled_weight[is_paid].tolist()) + sum(
            problem.scaled_cost[is_chosen].tolist()
        )
        self.decided = Decided(
            constant=constant,
            wanted=wanted,
            free=free,
            server_state=server_state,
            job_state=job_state,
            residual=residual,
            jobs=jobs,
            active_jobs=active_jobs,
            active_start=active_start,
        )

    def take_steps(self, steps: int, threshold: int, target: int) -> None:
        """Raise the bound by up to `steps` subgradient steps towards `target`.

        The steps end once the bound exceeds `threshold`. The prices restart from the best ones if
        `fix` has set other prices in between.
        """
        length, stale, value, ascent, self._order = raise_prices.run(
            steps,
            threshold,
            target,
            self._problem.priced,
            self.decided,
            self._order,
            self._valuation(0),
            self._ascent,
            **self._run,
        )
        self._ascent = ascent._replace(length=length, stale=stale, value=value)
        self.value = max(self.value, value)

    @property
    def has_settled(self) -> bool:
        """Whether the subgradient steps have become too short to raise the bound."""
        return self._ascent.length <= 1

    def fix(self, threshold: int, prices: Sequence[int] | None = None) -> int:
        """Fix servers and jobs by reduced costs at `prices`, by default the best prices so far.

        The value of the prices is computed exactly and raises the bound. Returns the number of new
        decisions; the caller must then call `propagate`.
        """
        problem = self._problem
        if prices is not None:
            given = np.array(prices, dtype=problem.scaled_weight.dtype)
            self._ascent = self._ascent._replace(best_prices=given)
        most_given = min(int(problem.slack.max(initial=0)), LARGEST_KNAPSACK) + 1
        value, decisions, server_state, job_state, self._order = fix_by_prices.run(
            threshold,
            problem.priced,
            self.decided,
            self.prices,
            self._order,
            self._valuation(most_given),
            **self._run,
        )
        self.decided = self.decided._replace(server_state=server_state, job_state=job_state)
        self.value = max(self.value, value)
        return int(decisions)

    def choice(self) -> list[int]:
        """Return the chosen servers and the cheapest free servers at the last prices, ascending."""
        chosen = np.flatnonzero(np.asarray(self.decided.server_state) == CHOSEN).tolist()
        cheapest = [int(server) for server in self._order.servers[: self.decided.wanted]]
        return sorted({*chosen, *cheapest})

    def shares(self) -> tuple[list[float], list[float]]:
        """Return, for each server and job, the share of recent steps that chose or preempted it."""
        return (
            [int(share) / 2**16 for share in self._ascent.chosen_share],
            [int(share) / 2**16 for share in self._ascent.paid_share],
        )

    def _valuation(self, most_given: int) -> Valuation:
        losses = self._problem.losses
        sizes = losses.servers, losses.entries, losses.jobs, losses.jobs, losses.jobs, most_given
        return Valuation(*map(_zeros, sizes))


def _zeros(size: int) -> Any:
    return np.zeros(size, dtype=np.int64)
