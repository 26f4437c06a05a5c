"""The ascent of the semidefinite bound for jobs on two servers each, with triangle cuts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.stopwatch import loading, require_time
from lyra_opt.reclaim.bounds.pair_certificate import (
    Cuts,
    PairMultipliers,
    in_integers,
    twice_slack,
)

if TYPE_CHECKING:
    from lyra_opt.core.arrays import FloatArray, IntArray
    from lyra_opt.reclaim.bounds.pair_certificate import PairForm

FIRST_PENALTY, LAST_PENALTY, PENALTY_FACTOR = 0.1, 1e-4, 0.75
"""Size of the regularisation: at the start, at least, and its factor after each round of cuts."""
STEPS, LEAST_STEPS = 60, 20
"""L-BFGS steps between two rounds of cuts, and evaluations more than steps."""
HISTORY = 15
"""Number of steps that the search remembers."""
CUTS_AT_ONCE = 1000
"""Most triangles, and most products, that a round adds: the most violated."""
LEAST_VIOLATION, LEAST_MULTIPLIER = 0.01, 1e-7
"""Cuts are added if violated by more, and dropped if their multiplier is smaller."""
PATIENCE, LEAST_GAIN = 6, 2e-3
"""The ascent stops after PATIENCE rounds at the last penalty that gain less, in mean weights."""
LARGER_SHIFT, SMALLEST_SHIFT = 1.05, 1e-7
ATTEMPTS = 8
"""Most attempts to increase the shift until an integer factor exists."""


class PairAscent:
    """A search for multipliers and cuts that give a large bound.

    With the negative eigenvalues v of the dual slack matrix S, it increases

        N_R * level - sum of v^2 / (2 * penalty),

    which is concave and smooth, by L-BFGS with bounds. The negative part of S, divided by the
    penalty, is the gradient X with respect to S, an approximate solution of the relaxation. Cuts
    that X violates are added after each round, and the penalty is decreased. All multipliers prove
    a bound, so the ascent can stop at any time.

    Parameters
    ----------
    form
        The quadratic form of the instance, in integers.
    objective
        Objective of the incumbent; the ascent stops at a bound that reaches it.

    Notes
    -----
    Source: the regularised dual of J. Malick and F. Roupin (Mathematical Programming 136, 2012),
    who bound k-cluster problems with it. O(servers^3) for each step, and for each round of cuts.
    """

    def __init__(self, form: PairForm, objective: int) -> None:
        self.exact_form = form
        self.unit = max(1, round(float(form.shared.mean())))
        self.form, self.target = form.times(1 / self.unit), (objective - 1) / self.unit
        self.count = len(form.cost)
        self.cuts = Cuts.none()
        self.penalty = FIRST_PENALTY
        prices = self.form.cost.copy()
        for servers in form.ends:
            np.subtract.at(prices, servers, self.form.shared / 2)
        self.point = np.zeros(self.count + 1)
        self.point[0] = np.sort(prices)[: form.picks].mean()
        self.best_value, self.best_shift = -np.inf, 0.0
        self.best_cuts, self.best_point = self.cuts, self.point

    def run(self) -> None:
        """Add cuts and increase the bound until the target is met or progress ends."""
        with loading():
            from scipy.optimize import minimize

        idle = 0
        while idle < PATIENCE and self.best_value <= self.target:
            free, signed = self.count + 1, len(self.point) - self.count - 1
            found = minimize(
                self.negated,
                self.point,
                jac=True,
                method="L-BFGS-B",
                bounds=[(None, None)] * free + [(0, None)] * signed,
                options={"maxiter": STEPS, "maxfun": STEPS + LEAST_STEPS, "maxcor": HISTORY},
            )
            self.point = found.x
            solution, gains = self.solution_and_check()
            idle = 0 if gains or self.penalty > LAST_PENALTY else idle + 1
            self.exchange_cuts(solution)
            self.penalty = max(self.penalty * PENALTY_FACTOR, LAST_PENALTY)

    def multipliers(self, point: FloatArray, cuts: Cuts) -> PairMultipliers:
        """Return a point of the search as multipliers."""
        first = self.count + 1
        middle = first + cuts.triangles.shape[1]
        return PairMultipliers(point[0], point[1:first], point[first:middle], point[middle:])

    def negative_part(self, point: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the eigenvalues of S, ascending, and minus its negative part over the penalty."""
        require_time()
        slack = twice_slack(self.form, self.cuts, self.multipliers(point, self.cuts)) / 2
        values, vectors = np.linalg.eigh(slack)
        below = values < 0
        solution = (vectors[:, below] * (-values[below] / self.penalty)) @ vectors[:, below].T
        return values, solution

    def negated(self, point: FloatArray) -> tuple[float, FloatArray]:
        """Return minus the regularised bound and its gradient."""
        values, solution = self.negative_part(point)
        bound = self.form.picks * point[0] - np.sum(np.minimum(values, 0) ** 2) / (2 * self.penalty)
        squares = np.diag(solution)
        gradient = np.concatenate(
            (
                [self.form.picks - squares.sum()],
                self.form.picks * squares - solution.sum(axis=1),
                -triangle_values(solution, self.cuts.triangles),
                -solution[tuple(self.cuts.products)],
            )
        )
        return -float(bound), -gradient

    def solution_and_check(self) -> tuple[FloatArray, bool]:
        """Return X, and whether the bound is clearly better; store the best multipliers."""
        values, solution = self.negative_part(self.point)
        shift = max(0.0, -float(values[0]))
        value, before = self.form.picks * (float(self.point[0]) - shift), self.best_value
        if value > before:
            self.best_value, self.best_shift = value, shift
            self.best_cuts, self.best_point = self.cuts, self.point
        return solution, value > before + LEAST_GAIN

    def exchange_cuts(self, solution: FloatArray) -> None:
        """Drop cuts without a multiplier, and add the most violated ones with a multiplier of 0."""
        old = self.multipliers(self.point, self.cuts)
        parts, cuts = [self.point[: self.count + 1]], []
        for values, columns, violated in (
            (old.triangles, self.cuts.triangles, violated_triangles(solution)),
            (old.products, self.cuts.products, violated_products(solution)),
        ):
            is_kept = values > LEAST_MULTIPLIER
            kept = columns[:, is_kept]
            new = _new(violated, kept)
            cuts.append(np.concatenate((kept, new), axis=1))
            parts += [values[is_kept], np.zeros(new.shape[1])]
        self.cuts = Cuts(*cuts)
        self.point = np.concatenate(parts)

    def proved(self) -> int:
        """Return the integer bound that the best multipliers prove, or 0."""
        if self.best_value <= 0:
            return 0
        shift, unit = self.best_shift, self.unit
        found = self.multipliers(self.best_point, self.best_cuts)
        multipliers = PairMultipliers(*(unit * part for part in found))
        for _ in range(ATTEMPTS):
            shift = LARGER_SHIFT * shift + SMALLEST_SHIFT
            certificate = in_integers(self.exact_form, self.best_cuts, multipliers, unit * shift)
            bound = None if certificate is None else certificate.bound(self.exact_form)
            if bound is not None:
                return bound
        return 0


def triangle_values(solution: FloatArray, triangles: IntArray) -> FloatArray:
    """Return X_ii + X_st - X_is - X_it of each triangle."""
    center, one, other = triangles
    values: FloatArray = (
        solution[center, center]
        + solution[one, other]
        - solution[center, one]
        - solution[center, other]
    )
    return values


def violated_triangles(solution: FloatArray) -> IntArray:
    """Return the most violated triangles: shape (3, cuts), at most `CUTS_AT_ONCE` of them."""
    count = len(solution)
    most = max(5, 4 * CUTS_AT_ONCE // count)
    found, values = [np.zeros((3, 0), dtype=np.int64)], [np.zeros(0)]
    for center in range(count):
        row = solution[center]
        sides = solution + row[center] - row[:, None] - row[None, :]
        sides[center, :] = sides[:, center] = 0
        one, other = np.nonzero(np.triu(sides < -LEAST_VIOLATION, 1))
        worst = _least(sides[one, other], most)
        found.append(np.stack((np.full(len(worst), center), one[worst], other[worst])))
        values.append(sides[one, other][worst])
    return np.concatenate(found, axis=1)[:, _least(np.concatenate(values), CUTS_AT_ONCE)]


def violated_products(solution: FloatArray) -> IntArray:
    """Return the pairs with the most negative products: shape (2, cuts)."""
    places = np.stack(np.nonzero(np.triu(solution < -LEAST_VIOLATION, 1)))
    return places[:, _least(solution[tuple(places)], CUTS_AT_ONCE)]


def _least(values: FloatArray, most: int) -> IntArray:
    """Return the positions of the least values, at most so many, in ascending order."""
    return np.argsort(values, kind="stable")[:most]


def _new(columns: IntArray, known: IntArray) -> IntArray:
    """Return the columns that are not among the known ones."""
    seen = set(map(tuple, known.T.tolist()))
    is_new = [tuple(column) not in seen for column in columns.T.tolist()]
    return columns[:, np.array(is_new, dtype=np.bool_)]
