"""A node of the threshold search: decisions, what follows from them, and what prices prove."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

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


FIRST_STEP = 128
"""Length of the first steps of a new node's prices, of 256."""

LARGEST_KNAPSACK = 2**10
"""Most workers that a job can still lose for its knapsack to be solved in whole servers."""

STEPS_DECIDED_BY = 100
"""Steps that count as the work of a node when kernels choose how to run."""


def first_prices(problem: ThresholdProblem) -> NDArray[Any]:
    """Return half of each job's weight, spread over its losses by those beyond its slack."""
    losses = problem.losses
    beyond = losses.row_sums(np.ones(losses.servers, dtype=np.int64)) - problem.slack
    beyond = np.maximum(beyond, 1)
    job = np.repeat(np.arange(losses.jobs), losses.span())
    prices: NDArray[Any] = (
        problem.scaled_weight[job] * np.minimum(losses.job_counts, beyond[job]) // (2 * beyond[job])
    )
    return prices


class NodeBound:
    """Decisions at a node with all that follows, and the best bound that prices have proved.

    Parameters
    ----------
    problem
        The problem.
    dominance
        The pairs from which conclusions follow.
    server_state, job_state
        The decisions; copied, and propagated at once.
    prices
        Where to start from, shape (entries,), each at least 0; copied.
    value
        Proved before: no choice that keeps to the decisions costs less.

    Attributes
    ----------
    decided : Decided
        The decisions with all that follows.
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
        """How every kernel runs: the same way at all nodes."""
        losses = self._problem.losses
        work = STEPS_DECIDED_BY * (losses.entries + losses.servers)
        return {"work": work, "largest": self._problem.largest}

    @property
    def is_compiled(self) -> bool:
        """Whether the kernels run compiled."""
        return propagate.compiles(self._run["work"], largest=self._run["largest"])

    @property
    def is_large(self) -> bool:
        """Whether a node takes so much work that kernels are worth compiling."""
        return propagate.compiles(self._run["work"], largest=0)

    def set_dominance(self, dominance: Dominance) -> None:
        """Let the next conclusions follow from these pairs as well."""
        self._dominance = dominance

    @property
    def prices(self) -> Any:
        """The best prices so far, or those that `fix` was given last."""
        return self._ascent.best_prices

    @property
    def active_jobs(self) -> list[int]:
        """The jobs that are open or kept, in order."""
        return [int(job) for job in self.decided.active_jobs[: self.decided.jobs]]

    @property
    def open_decisions(self) -> int:
        """How many servers and jobs are still to be decided on."""
        return self.decided.free + self.decided.jobs

    def propagate(self) -> None:
        """Draw the conclusions from the decisions; says whether there can be a choice."""
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
        """Raise the bound by so many steps towards `target`, fewer if it gets above `threshold`.

        The prices start anew from the best ones if others were set in between.
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
        """Whether further steps would be too short to matter."""
        return self._ascent.length <= 1

    def fix(self, threshold: int, prices: Sequence[int] | None = None) -> int:
        """Value `prices`, by default the best ones, exactly, and decide what they decide.

        Returns how many decisions that makes; `propagate` is still to be called.
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
        """Return the choice that is cheapest by the prices last looked at, ascending."""
        chosen = np.flatnonzero(np.asarray(self.decided.server_state) == CHOSEN).tolist()
        cheapest = [int(server) for server in self._order.servers[: self.decided.wanted]]
        return sorted({*chosen, *cheapest})

    def shares(self) -> tuple[list[float], list[float]]:
        """Return in which share of the last steps each server was chosen, each job paid for."""
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
