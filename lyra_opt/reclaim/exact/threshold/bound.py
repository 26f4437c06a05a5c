"""A node of the threshold search: decisions, what follows from them, and what prices prove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.reclaim.exact.threshold.prices_kernel import (
    Ascent,
    Decided,
    Order,
    Valuation,
    fix_by_prices,
    list_entries,
    raise_prices,
)
from lyra_opt.reclaim.exact.threshold.propagation import CHOSEN, PAID, Dominance, propagate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lyra_opt.reclaim.exact.threshold.reduced_problem import ThresholdProblem

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
        self._decided = Decided(
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
    def server_state(self) -> Any:
        """What is decided of each server."""
        return self._decided.server_state

    @property
    def job_state(self) -> Any:
        """What is decided of each job."""
        return self._decided.job_state

    @property
    def residual(self) -> Any:
        """How many more workers each open or kept job can lose."""
        return self._decided.residual

    @property
    def wanted(self) -> int:
        """How many servers are still to be chosen."""
        return self._decided.wanted

    @property
    def constant(self) -> int:
        """Weight of the jobs paid for and cost of the servers chosen, scaled as prices are."""
        return self._decided.constant

    @property
    def prices(self) -> Any:
        """The best prices so far, or those that `fix` was given last."""
        return self._ascent.best_prices

    @property
    def free_servers(self) -> int:
        """How many servers are neither chosen nor spared."""
        return self._decided.free

    @property
    def active_jobs(self) -> list[int]:
        """The jobs that are open or kept, in order."""
        return [int(job) for job in self._decided.active_jobs[: self._decided.jobs]]

    @property
    def open_decisions(self) -> int:
        """How many servers and jobs are still to be decided on."""
        return self._decided.free + self._decided.jobs

    def propagate(self) -> None:
        """Draw the conclusions from the decisions; says whether there can be a choice."""
        problem, decided = self._problem, self._decided
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
        self._decided = Decided(
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
            self._decided,
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
            self._decided,
            self.prices,
            self._order,
            self._valuation(most_given),
            **self._run,
        )
        self._decided = self._decided._replace(server_state=server_state, job_state=job_state)
        self.value = max(self.value, value)
        return int(decisions)

    def choice(self) -> list[int]:
        """Return the choice that is cheapest by the prices last looked at, ascending."""
        chosen = np.flatnonzero(np.asarray(self.server_state) == CHOSEN).tolist()
        cheapest = [int(server) for server in self._order.servers[: self.wanted]]
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
