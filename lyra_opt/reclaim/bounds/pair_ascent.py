"""The ascent of the semidefinite bound for jobs on two servers each, with triangle cuts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.stopwatch import loading, require_time
from lyra_opt.reclaim.bounds.pair_certificate import PairMultipliers, in_integers, twice_slack
from lyra_opt.reclaim.bounds.semidefinite_certificate import first_proof

if TYPE_CHECKING:
    from lyra_opt.core.arrays import FloatArray, IntArray
    from lyra_opt.reclaim.bounds.pair_certificate import PairForm

    Start = tuple[int, IntArray, FloatArray]

FIRST_PENALTY, LAST_PENALTY, PENALTY_FACTOR = 0.1, 1e-4, 0.75
"""Size of the regularisation: at the start, at least, and its factor after each round of cuts."""
STEPS, LEAST_STEPS = 60, 20
"""L-BFGS steps between two rounds of cuts, and evaluations more than steps."""
HISTORY = 15
"""Number of steps that the search remembers."""
CUTS_AT_ONCE = 1500
"""Most cuts that a round adds: the most violated."""
LEAST_VIOLATION, LEAST_MULTIPLIER = 0.01, 1e-7
"""Cuts are added if violated by more, and dropped if their multiplier is smaller."""
PATIENCE, LEAST_GAIN = 3, 1e-2
"""The ascent stops after PATIENCE rounds at the last penalty that gain less, in mean weights."""
WARM_PENALTY, WARM_PATIENCE = 1e-3, 1
"""Penalty at the start, and patience, for a start from the multipliers of a parent node."""


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
    start
        Unit of weights, cuts and point to start from, as `start_of_child` returns them.

    Notes
    -----
    Source: the regularised dual of J. Malick and F. Roupin (Mathematical Programming 136, 2012),
    who bound k-cluster problems with it. O(servers^3) for each step, and for each round of cuts.
    """

    def __init__(self, form: PairForm, objective: int, start: Start | None = None) -> None:
        self.exact_form = form
        self.unit = start[0] if start else max(1, round(float(form.shared.mean())))
        self.form, self.target = form.times(1 / self.unit), (objective - 1) / self.unit
        self.count = len(form.cost)
        self.penalty, self.patience = WARM_PENALTY, WARM_PATIENCE
        if start is None:
            self.penalty, self.patience = FIRST_PENALTY, PATIENCE
            prices = self.form.cost.copy()
            for servers in form.ends:
                np.subtract.at(prices, servers, self.form.shared / 2)
            level = np.sort(prices)[: form.picks].mean()
            point = np.append(level, np.zeros(self.count))
            start = self.unit, np.zeros((3, 0), dtype=np.int64), point
        _, self.cuts, self.point = start
        self.squares = np.full(self.count, form.picks / self.count)
        self.best_value, self.best_shift = -np.inf, 0.0
        self.best_cuts, self.best_point = self.cuts, self.point

    def run(self) -> None:
        """Add cuts and increase the bound until the target is met or progress ends."""
        with loading():
            from scipy.optimize import minimize

        idle = 0
        while idle < self.patience and self.best_value <= self.target:
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

    def multipliers(self, point: FloatArray) -> PairMultipliers:
        """Return a point of the search as multipliers."""
        return PairMultipliers(point[0], point[1 : self.count + 1], point[self.count + 1 :])

    def negative_part(self, point: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the bound if S >= 0, its eigenvalues, ascending, and the approximate solution X.

        X has a row and a column more for each of the constants 0 and 1.
        """
        require_time()
        twice, constant = twice_slack(self.form, self.cuts, self.multipliers(point))
        values, vectors = np.linalg.eigh(twice / 2)
        below = values < 0
        negative = (vectors[:, below] * (-values[below] / self.penalty)) @ vectors[:, below].T
        solution = np.pad(negative, (0, 2))
        solution[-1, :-2] = solution[:-2, -1] = np.diag(negative)
        solution[-1, -1] = 1
        return self.form.picks * float(point[0]) + constant, values, solution

    def negated(self, point: FloatArray) -> tuple[float, FloatArray]:
        """Return minus the regularised bound and its gradient."""
        bound, values, solution = self.negative_part(point)
        bound -= float(np.sum(np.minimum(values, 0) ** 2)) / (2 * self.penalty)
        squares = solution[-1, :-2]
        gradient = np.concatenate(
            (
                [self.form.picks - squares.sum()],
                self.form.picks * squares - solution[:-2, :-2].sum(axis=1),
                -triangle_values(solution, self.cuts),
            )
        )
        return -bound, -gradient

    def solution_and_check(self) -> tuple[FloatArray, bool]:
        """Return X, and whether the bound is clearly better; store the best multipliers."""
        bound, values, solution = self.negative_part(self.point)
        shift = max(0.0, -float(values[0]))
        value, before = bound - self.form.picks * shift, self.best_value
        if value > before:
            self.best_value, self.best_shift, self.squares = value, shift, solution[-1, :-2]
            self.best_cuts, self.best_point = self.cuts, self.point
        return solution, value > before + LEAST_GAIN

    def exchange_cuts(self, solution: FloatArray) -> None:
        """Drop cuts without a multiplier, and add the most violated ones with a multiplier of 0."""
        values = self.multipliers(self.point).triangles
        is_kept = values > LEAST_MULTIPLIER
        kept = self.cuts[:, is_kept]
        new = _new(violated_triangles(solution), kept)
        self.cuts = np.concatenate((kept, new), axis=1)
        first = self.point[: self.count + 1]
        self.point = np.concatenate((first, values[is_kept], np.zeros(new.shape[1])))

    @property
    def kept_bytes(self) -> int:
        """The memory of the best multipliers."""
        return int(self.best_cuts.nbytes + self.best_point.nbytes)

    def start_of_child(self, server: int, value: int) -> Start:
        """Return unit, best cuts and point for `exact_form.fixed(server, value)`.

        The point proves the same bound as before, apart from the shift. A term x_t x_server that
        becomes x_t is written as x_t (sum of x) / N_R, which keeps the matrix S semidefinite.
        """
        count = self.count
        number = np.arange(count + 2) - (np.arange(count + 2) > server)
        number[server] = count - 1 + value
        each = self.multipliers(self.best_point)
        level, sums = each.level, np.delete(each.sums, server)
        picks = self.form.picks - 1
        if value and picks:
            twice, _ = twice_slack(self.form, self.best_cuts, each)
            own = twice[server, server] / 2 / picks
            level += each.sums[server] - own
            sums = sums - (np.delete(twice[server], server) + own) / picks
        point = np.concatenate(([level], sums, each.triangles))
        return self.unit, number[self.best_cuts], point

    def proved(self) -> int:
        """Return the integer bound that the best multipliers prove, or 0."""
        if self.best_value <= 0:
            return 0
        found = self.multipliers(self.best_point)
        multipliers = PairMultipliers(*(self.unit * part for part in found))

        def bound_with(shift: float) -> int | None:
            certificate = in_integers(
                self.exact_form, self.best_cuts, multipliers, self.unit * shift
            )
            return 0 if certificate is None else certificate.bound(self.exact_form)

        return first_proof(self.best_shift, bound_with)


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
    each = max(5, 4 * CUTS_AT_ONCE // count)
    found, values = [np.zeros((3, 0), dtype=np.int64)], [np.zeros(0)]
    for center in range(count):
        row = solution[center]
        sides = solution + row[center] - row[:, None] - row[None, :]
        # With the constant 1, (x_i - x_s) (x_i - 1) is also the triangle x_s (x_s - x_i).
        sides[center, :] = sides[:, center] = sides[:, -1] = 0
        one, other = np.nonzero(np.triu(sides < -LEAST_VIOLATION, 1))
        most = each if center < count - 2 else CUTS_AT_ONCE
        worst = _least(sides[one, other], most)
        found.append(np.stack((np.full(len(worst), center), one[worst], other[worst])))
        values.append(sides[one, other][worst])
    return np.concatenate(found, axis=1)[:, _least(np.concatenate(values), CUTS_AT_ONCE)]


def _least(values: FloatArray, most: int) -> IntArray:
    """Return the positions of the least values, at most so many, in ascending order."""
    return np.argsort(values, kind="stable")[:most]


def _new(columns: IntArray, known: IntArray) -> IntArray:
    """Return the columns that are not among the known ones."""
    seen = set(map(tuple, known.T.tolist()))
    is_new = [tuple(column) not in seen for column in columns.T.tolist()]
    return columns[:, np.array(is_new, dtype=np.bool_)]
