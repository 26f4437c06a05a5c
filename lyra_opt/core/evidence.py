"""Conclusions from several runs on one instance: optimum, gaps and contradictions."""

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from lyra_opt.core.gaps import gap_words, percent_text, relative_gap
from lyra_opt.core.numbers import UP, rounded
from lyra_opt.core.problem import Variant
from lyra_opt.core.result import Number, Status, same_value
from lyra_opt.core.terms import ONE_NUMBER, Terms


class Claim(NamedTuple):
    """The status, checked objective and dual bound that one run claims for an instance."""

    by: str
    status: Status
    objective: Number | None = None
    dual_bound: Number | None = None
    bound_by: str | None = None
    """The method that proved the bound, if it was not the run itself."""


class Contradiction(NamedTuple):
    """Two claims of which at least one is false, stated in one sentence.

    `wrong` is the position of the claim that is refuted; None if no single claim is.
    """

    sentence: str
    wrong: int | None = None


class Evidence:
    """The claims of several runs on one instance, compared with one another. Time: O(claims).

    Integers are compared exactly, whatever their size.

    Parameters
    ----------
    claims
        One claim per run; the claim of a failed run is ignored.
    variant
        The variant of the instance, which has the sense and the proof gap.
    known_optimum
        The optimum, if the instance was constructed with a known optimum.
    terms
        The terms of the objective, for texts.
    """

    def __init__(
        self,
        claims: Sequence[Claim],
        variant: Variant,
        known_optimum: Number | None = None,
        terms: Terms = ONE_NUMBER,
    ) -> None:
        self.variant, self.known_optimum, self.terms = variant, known_optimum, terms
        self._claims = [
            (position, claim)
            for position, claim in enumerate(claims)
            if claim.status is not Status.ERROR
        ]
        sign = 1 if variant.sense == "min" else -1
        valued = [claim for _, claim in self._claims if claim.objective is not None]
        self.best = min(valued, key=lambda claim: sign * (claim.objective or 0), default=None)
        """The claim with the best objective; the first such claim in case of ties."""
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
        """The number of claims with a solution."""
        self.tightest = max(bounded, key=lambda claim: sign * (claim.dual_bound or 0), default=None)
        """The claim with the best dual bound that no objective refutes; the first if tied."""

    @property
    def best_objective(self) -> Number | None:
        """The best objective of all runs; None if no run found a solution."""
        return None if self.best is None else self.best.objective

    @property
    def best_bound(self) -> Number | None:
        """The best dual bound that no objective refutes; None without such a bound."""
        return None if self.tightest is None else self.tightest.dual_bound

    @cached_property
    def optimum(self) -> Number | None:
        """The best objective if the best bound proves it, or else the known optimum."""
        best, bound = self.best_objective, self.best_bound
        if best is not None and bound is not None and self.prove(best, bound):
            return best
        return self.known_optimum

    def prove(self, value: Number, other: Number) -> bool:
        """Return whether a dual bound proves an objective optimal within the proof gap."""
        return same_value(value, other, tolerance=self.variant.proof_gap)

    def gap_to_best(self, objective: Number | None) -> float | None:
        """Return the gap between an objective and the best objective; None without an objective."""
        if objective is None or self.best_objective is None:
            return None
        return relative_gap(objective, self.best_objective, self.variant)

    def gap_to_optimum_at_most(self, objective: Number | None) -> float | None:
        """Return the relative gap of an objective to the optimum, or an upper limit on this gap.

        The upper limit is the larger of the gaps to the best objective and to the best bound. It is
        infinite if the optimum may be 0. None without an objective, or without any bound.
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
        # The gap changes monotonically with the optimum while the optimum keeps its sign.
        return max(relative_gap(objective, end, self.variant) for end in (best, bound))

    def in_words(self, claim: Claim) -> str | None:
        """Return how far the solution of a claim is from the best; None without a solution.

        For example "10.0 % over the best found, at most 15.8 % over the optimum".
        """
        objective, best, bound = claim.objective, self.best_objective, self.best_bound
        to_best = self.gap_to_best(objective)
        if objective is None or best is None or to_best is None:
            return None
        where = gap_words(self.variant.sense).where
        at_most = self.gap_to_optimum_at_most(objective)
        if self.optimum is not None and at_most is not None:
            if at_most:
                over, zero = f"{where} the optimum", "the optimum is 0"
                return self._distance(objective, self.optimum, at_most, over, zero)
            if claim.status is Status.OPTIMAL or self.tightest is None:
                return "optimal"
            return f"optimal, proved by {self.tightest.bound_by or self.tightest.by}"
        parts = []
        if to_best:
            over, zero = f"{where} the best found", "the best found is 0"
            parts.append(self._distance(objective, best, to_best, over, zero))
        elif self.solutions > 1:
            parts.append("the best found")
        if at_most is None or bound is None:
            parts.append("no bound on the optimum is known")
        else:
            over, zero = f"{where} the optimum", "the optimum may be 0"
            is_finite = math.isfinite(at_most)
            ceiling = rounded(at_most, 3, UP) if is_finite else at_most
            distance = self._distance(objective, bound, ceiling, over, zero)
            has_limit = is_finite or self.terms.keys
            parts.append(f"at most {distance}" if has_limit else distance)
        return ", ".join(parts)

    def _distance(
        self, objective: Number, reference: Number, gap: float, over: str, zero: str
    ) -> str:
        """Return how much worse an objective is than a reference: a percentage, or a term."""
        if self.terms.keys:
            return f"{self.terms.difference(objective, reference)} {over}"
        return f"{percent_text(gap)} {over}" if math.isfinite(gap) else f"no percentage ({zero})"

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield each refuted dual bound and each false proof of infeasibility.

        A contradiction is an objective beyond the dual bound of another run, a solution of an
        instance that another run calls infeasible, or a bound or an objective beyond the known
        optimum. Two different proved optima are a case of the first.
        """
        best, known = self.best, self.known_optimum

        def shown(value: Number | None) -> str:
            return (
                str(value) if not self.terms.keys or value is None else self.terms.in_words(value)
            )

        for position, claim in self._claims:
            if best is not None and self._lies_beyond(claim.dual_bound, best.objective):
                yield Contradiction(
                    f"{best.by} found objective {shown(best.objective)}, "
                    f"but {claim.by} ({claim.status}) has dual bound {shown(claim.dual_bound)}",
                    position,
                )
            if best is not None and claim.status is Status.INFEASIBLE:
                yield Contradiction(
                    f"{best.by} found objective {shown(best.objective)}, "
                    f"but {claim.by} claims that there is no solution",
                    position,
                )
            if self._lies_beyond(claim.dual_bound, known):
                yield Contradiction(
                    f"{claim.by} has dual bound {shown(claim.dual_bound)}, "
                    f"but the optimum is {shown(known)} by construction",
                    position,
                )
        if best is not None and self._lies_beyond(known, best.objective):
            yield Contradiction(
                f"{best.by} found objective {shown(best.objective)}, "
                f"but the optimum is {shown(known)} by construction"
            )

    def _lies_beyond(self, bound: Number | None, value: Number | None) -> bool:
        return (
            bound is not None
            and value is not None
            and self.variant.is_better(value, bound)
            and not same_value(bound, value)
        )
