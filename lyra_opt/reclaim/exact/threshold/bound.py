"""A node of the threshold search: decisions, what follows from them, and what prices prove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.reclaim.exact.threshold.prices_kernel import fix_by_prices, list_entries, raise_prices
from lyra_opt.reclaim.exact.threshold.propagation import CHOSEN, PAID, propagate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lyra_opt.reclaim.exact.threshold.reduced_problem import ThresholdProblem

FIRST_STEP = 128
"""Length of the first steps of a new node's prices, of 256."""

MOMENTUM = 77  # of 256
PATIENCE = 20
SHRINKAGE = 205  # of 256
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
        Dominating and dominated server of each pair of `dominance_pairs`.
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
        dominance: tuple[Any, Any],
        server_state: Any,
        job_state: Any,
        prices: Any,
        value: int = 0,
    ) -> None:
        losses = problem.losses
        self._problem = problem
        self._dominance = dominance
        self.server_state: Any = np.array(server_state, dtype=np.int64)
        self.job_state: Any = np.array(job_state, dtype=np.int64)
        self.residual: Any = np.zeros(losses.jobs, dtype=np.int64)
        self.value = value
        self.is_feasible = True
        self.wanted = 0
        self.constant = 0
        self._active_count = self._free = 0
        self._active_jobs: Any = np.zeros(losses.jobs, dtype=np.int64)
        self._active_start: Any = np.zeros(losses.jobs + 1, dtype=np.int64)
        self._order: Any = np.zeros(losses.entries, dtype=np.int64)
        self._server_order: Any = np.zeros(losses.servers, dtype=np.int64)
        self._direction: Any = np.zeros(losses.entries, dtype=np.int64)
        self._paid_share: Any = np.zeros(losses.jobs, dtype=np.int64)
        self._chosen_share: Any = np.zeros(losses.servers, dtype=np.int64)
        self.prices: Any = np.array(prices, dtype=problem.scaled_weight.dtype)
        self._current: Any = self.prices.copy()
        self._step, self._stale = FIRST_STEP, 0
        self._reached = -problem.largest
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

    def set_dominance(self, dominance: tuple[Any, Any]) -> None:
        """Let the next conclusions follow from these pairs as well."""
        self._dominance = dominance

    @property
    def free_servers(self) -> int:
        """How many servers are neither chosen nor spared."""
        return self._free

    @property
    def active_jobs(self) -> list[int]:
        """The jobs that are open or kept, in order."""
        return [int(job) for job in self._active_jobs[: self._active_count]]

    @property
    def open_decisions(self) -> int:
        """How many servers and jobs are still to be decided on."""
        return self._free + self._active_count

    def propagate(self) -> None:
        """Draw the conclusions from the decisions; says whether there can be a choice."""
        problem, losses = self._problem, self._problem.losses
        self.is_feasible, self.wanted, self.server_state, self.job_state, self.residual = (
            propagate.run(
                problem.reclaim_servers,
                problem.slack,
                losses.job_start,
                losses.job_servers,
                losses.job_counts,
                *self._dominance,
                self.server_state,
                self.job_state,
                self.residual,
                **self._run,
            )
        )
        if not self.is_feasible:
            return
        (
            self._active_count,
            self._free,
            self._active_jobs,
            self._active_start,
            self._order,
            self._server_order,
        ) = list_entries.run(
            losses.job_start,
            losses.job_servers,
            self.server_state,
            self.job_state,
            self._active_jobs,
            self._active_start,
            self._order,
            self._server_order,
            **self._run,
        )
        is_paid = np.asarray(self.job_state) == PAID
        is_chosen = np.asarray(self.server_state) == CHOSEN
        self.constant = sum(problem.scaled_weight[is_paid].tolist()) + sum(
            problem.scaled_cost[is_chosen].tolist()
        )

    def take_steps(self, steps: int, threshold: int, target: int) -> None:
        """Raise the bound by so many steps towards `target`, fewer if it gets above `threshold`.

        The prices start anew from the best ones if others were set in between.
        """
        problem, losses = self._problem, self._problem.losses
        (
            self._step,
            self._stale,
            self._reached,
            self._order,
            self._server_order,
            self._current,
            self.prices,
            self._direction,
            self._paid_share,
            self._chosen_share,
        ) = raise_prices.run(
            steps,
            threshold,
            target,
            problem.largest_price,
            PATIENCE,
            MOMENTUM,
            SHRINKAGE,
            self._step,
            self._stale,
            self._reached,
            self.constant,
            self.wanted,
            self._active_count,
            self._free,
            problem.scaled_weight,
            problem.scaled_cost,
            losses.job_servers,
            losses.job_counts,
            self.job_state,
            self.residual,
            self._active_jobs,
            self._active_start,
            self._order,
            self._server_order,
            self._current,
            self.prices,
            self._direction,
            *self._scratch(),
            np.zeros(losses.servers, dtype=np.int64),
            self._paid_share,
            self._chosen_share,
            **self._run,
        )
        self.value = max(self.value, self._reached)

    @property
    def has_settled(self) -> bool:
        """Whether further steps would be too short to matter."""
        return bool(self._step <= 1)

    def fix(self, threshold: int, prices: Sequence[int] | None = None) -> int:
        """Value `prices`, by default the best ones, exactly, and decide what they decide.

        Returns how many decisions that makes; `propagate` is still to be called.
        """
        problem, losses = self._problem, self._problem.losses
        if prices is not None:
            self.prices = np.array(prices, dtype=problem.scaled_weight.dtype)
        most_given = min(int(problem.slack.max(initial=0)), LARGEST_KNAPSACK) + 1
        value, decisions, self.server_state, self.job_state, self._server_order = fix_by_prices.run(
            threshold,
            self.constant,
            self.wanted,
            self._active_count,
            self._free,
            problem.scaled_weight,
            problem.scaled_cost,
            losses.job_servers,
            losses.job_counts,
            self.server_state,
            self.job_state,
            self.residual,
            self._active_jobs,
            self._active_start,
            self.prices,
            self._order,
            self._server_order,
            *self._scratch(),
            np.zeros(most_given, dtype=np.int64),
            **self._run,
        )
        self.value = max(self.value, value)
        return int(decisions)

    def choice(self) -> list[int]:
        """Return the choice that is cheapest by the prices last looked at, ascending."""
        chosen = np.flatnonzero(np.asarray(self.server_state) == CHOSEN).tolist()
        cheapest = [int(server) for server in self._server_order[: self.wanted]]
        return sorted({*chosen, *cheapest})

    def shares(self) -> tuple[list[float], list[float]]:
        """Return in which share of the last steps each server was chosen, each job paid for."""
        return (
            [int(share) / 2**16 for share in self._chosen_share],
            [int(share) / 2**16 for share in self._paid_share],
        )

    def _scratch(self) -> list[Any]:
        losses = self._problem.losses
        return [
            np.zeros(size, dtype=np.int64)
            for size in (losses.servers, losses.entries, losses.jobs, losses.jobs, losses.jobs)
        ]
