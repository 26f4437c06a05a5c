"""What several runs on one instance prove together, and where they contradict one another."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from lyra_opt.core.gaps import gap_words, percent_text, relative_gap
from lyra_opt.core.result import Status, same_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lyra_opt.core.problem import Variant
    from lyra_opt.core.result import Number


class Claim(NamedTuple):
    """What one run claims of an instance; its solution, if any, has been checked."""

    by: str
    status: Status
    objective: Number | None = None
    dual_bound: Number | None = None
    bound_by: str | None = None
    """Whose the bound is, where it is not that of the run itself."""


class Contradiction(NamedTuple):
    """Two claims that cannot both be right, on one line.

    `wrong` is the position of the claim that a checked solution refutes, None where none is.
    """

    sentence: str
    wrong: int | None = None


class Evidence:
    """The claims of several runs on one instance, held together. Time: O(claims).

    Values are compared as the numbers that they are: integers exactly, of any size.

    Parameters
    ----------
    claims
        One of each run; a run that failed claims nothing.
    variant
        What is asked of the instance.
    known_optimum
        The optimum, where whoever made the instance knows it by construction.
    """

    def __init__(
        self, claims: Sequence[Claim], variant: Variant, known_optimum: Number | None = None
    ) -> None:
        self.variant, self.known_optimum = variant, known_optimum
        self._claims = [
            (position, claim)
            for position, claim in enumerate(claims)
            if claim.status is not Status.ERROR
        ]
        sign = 1 if variant.sense == "min" else -1
        valued = [claim for _, claim in self._claims if claim.objective is not None]
        self.best = min(valued, key=lambda claim: sign * (claim.objective or 0), default=None)
        """The claim of the best objective, the first of equals."""
        best = self.best_objective
        bounded = [
            claim
            for _, claim in self._claims
            if claim.dual_bound is not None
            and not any(
                self._lies_beyond(claim.dual_bound, value) for value in (best, known_optimum)
            )
        ]
        self.solutions = len(valued)
        """How many claims have a solution."""
        self.tightest = max(bounded, key=lambda claim: sign * (claim.dual_bound or 0), default=None)
        """The claim of the best dual bound that no value refutes, the first of equals."""

    @property
    def best_objective(self) -> Number | None:
        """The best objective that was found."""
        return None if self.best is None else self.best.objective

    @property
    def best_bound(self) -> Number | None:
        """The best dual bound that no value refutes."""
        return None if self.tightest is None else self.tightest.dual_bound

    @cached_property
    def optimum(self) -> Number | None:
        """The best objective where the best bound meets it, or else the known optimum."""
        best, bound = self.best_objective, self.best_bound
        if best is not None and bound is not None and self.prove(best, bound):
            return best
        return self.known_optimum

    def prove(self, value: Number, other: Number) -> bool:
        """Return whether an objective and a bound prove one another."""
        return same_value(value, other, tolerance=self.variant.proof_gap)

    def gap_to_best(self, objective: Number | None) -> float | None:
        """Return the gap of an objective to the best one; None without an objective."""
        if objective is None or self.best_objective is None:
            return None
        return relative_gap(objective, self.best_objective, self.variant)

    def gap_to_optimum_at_most(self, objective: Number | None) -> float | None:
        """Return the gap of an objective to the optimum or, if not proved, the largest possible.

        That is the gap to the best bound, but infinite where the optimum may be 0. None without
        an objective, or without any bound.
        """
        if objective is None:
            return None
        if self.optimum is not None:
            return relative_gap(objective, self.optimum, self.variant)
        best, bound = self.best_objective, self.best_bound
        if best is None or bound is None:
            return None
        if min(best, bound) <= 0 <= max(best, bound):
            return math.inf
        # On either side of 0 the gap is monotone in the optimum.
        return max(relative_gap(objective, end, self.variant) for end in (best, bound))

    def in_words(self, claim: Claim) -> str | None:
        """Return how far the solution of one of the claims is from the best; None without one.

        "10.0 % over the best found, at most 15.8 % over the optimum", say.
        """
        to_best = self.gap_to_best(claim.objective)
        if to_best is None:
            return None
        where = gap_words(self.variant.sense).where
        at_most = self.gap_to_optimum_at_most(claim.objective)
        if self.optimum is not None and at_most is not None:
            if at_most:
                return _distance(at_most, f"{where} the optimum", "the optimum is 0")
            if claim.status is Status.OPTIMAL or self.tightest is None:
                return "optimal"
            return f"optimal, as {self.tightest.bound_by or self.tightest.by} proves"
        parts = []
        if to_best:
            parts.append(_distance(to_best, f"{where} the best found", "the best found is 0"))
        elif self.solutions > 1:
            parts.append("the best found")
        if at_most is None:
            parts.append("no bound on the optimum is known")
        else:
            distance = _distance(at_most, f"{where} the optimum", "the optimum may be 0")
            parts.append(f"at most {distance}" if math.isfinite(at_most) else distance)
        return ", ".join(parts)

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield what cannot all be right: each bound that is refuted, and each proof of nothing.

        No objective may lie beyond another run's bound, which includes that proved optima are
        equal; no instance may be both solved and infeasible; a known optimum must fit every bound
        and objective.
        """
        best, known = self.best, self.known_optimum
        for position, claim in self._claims:
            if best is not None and self._lies_beyond(claim.dual_bound, best.objective):
                yield Contradiction(
                    f"{best.by} found objective {best.objective}, "
                    f"but {claim.by} ({claim.status}) has dual bound {claim.dual_bound}",
                    position,
                )
            if best is not None and claim.status is Status.INFEASIBLE:
                yield Contradiction(
                    f"{best.by} found objective {best.objective}, "
                    f"but {claim.by} claims that there is no solution",
                    position,
                )
            if self._lies_beyond(claim.dual_bound, known):
                yield Contradiction(
                    f"{claim.by} has dual bound {claim.dual_bound}, "
                    f"but the optimum is {known} by construction",
                    position,
                )
        if best is not None and self._lies_beyond(known, best.objective):
            yield Contradiction(
                f"{best.by} found objective {best.objective}, "
                f"but the optimum is {known} by construction"
            )

    def _lies_beyond(self, bound: Number | None, value: Number | None) -> bool:
        """Whether a bound excludes a value that is attained."""
        return (
            bound is not None
            and value is not None
            and self.variant.is_better(value, bound)
            and not same_value(bound, value)
        )


def _distance(gap: float, words: str, zero: str) -> str:
    return f"{percent_text(gap)} {words}" if math.isfinite(gap) else f"{zero}: no percentage"
