"""A semidefinite bound for jobs on two servers each, with cuts, checked in integers.

If every job of a reduced rigid instance is on two servers s and t, it is preempted exactly when
``x_s + x_t - x_s x_t = 1``, so the preempted weight is a quadratic form of the choice x alone. The
proof is in ``formulations/reclaim/README.md``, section 5.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lyra_opt.reclaim.bounds.semidefinite_certificate import (
    EXACT_IN_DOUBLES,
    LARGEST_BITS,
    largest_missed,
)

if TYPE_CHECKING:
    from lyra_opt.core.arrays import FloatArray, IntArray
    from lyra_opt.reclaim.reduction import ReducedReclaim


class PairForm(NamedTuple):
    """The preempted weight of a choice x: sum_s cost_s x_s^2 - sum_e shared_e x_s x_t.

    Parameters
    ----------
    picks
        N_R, the number of chosen servers.
    cost
        Shape (servers,): the weight of all jobs on each server.
    ends
        Shape (2, pairs): two servers s and t.
    shared
        Shape (pairs,): the weight of the jobs on both.
    """

    picks: int
    cost: Any
    ends: IntArray
    shared: Any

    def times(self, factor: float) -> PairForm:
        """Return the form with its coefficients multiplied by a number."""
        return self._replace(cost=self.cost * factor, shared=self.shared * factor)


class Cuts(NamedTuple):
    """Inequalities that every choice x satisfies.

    Parameters
    ----------
    triangles
        Shape (3, cuts): servers i, s, t of x_i^2 + x_s x_t - x_i x_s - x_i x_t >= 0.
    products
        Shape (2, cuts): servers s, t of x_s x_t >= 0.
    """

    triangles: IntArray
    products: IntArray

    @classmethod
    def none(cls) -> Cuts:
        """Return no cuts."""
        return cls(np.zeros((3, 0), dtype=np.int64), np.zeros((2, 0), dtype=np.int64))


class PairMultipliers(NamedTuple):
    """Multipliers of the identities and cuts.

    Parameters
    ----------
    level
        Multiplier of sum_s x_s^2 = N_R, of either sign.
    sums
        Shape (servers,): multipliers of x_s (sum_t x_t) = N_R x_s^2, of either sign.
    triangles, products
        Multipliers of `Cuts`, at least 0.
    """

    level: Any
    sums: Any
    triangles: Any
    products: Any


def pair_form(reduced: ReducedReclaim) -> PairForm | None:
    """Return the quadratic form of a reduced rigid instance; None if a job has more servers."""
    losses = reduced.losses
    if not losses.jobs or np.any(losses.span() != 2):
        return None
    ends = losses.job_servers.reshape(-1, 2).T
    cost = reduced.server_cost.copy()
    for servers in ends:
        np.add.at(cost, servers, reduced.weight)
    return PairForm(reduced.reclaim_servers, cost, ends, reduced.weight)


def twice_slack(form: PairForm, cuts: Cuts, multipliers: PairMultipliers) -> FloatArray:
    """Return twice the dual slack matrix S: float64, shape (servers, servers).

    For every choice x of N_R servers, the preempted weight is N_R * level + x' S x plus the
    multipliers of cuts times their left sides. O(servers^2 + pairs + cuts).
    """
    count = len(form.cost)
    center, one, other = cuts.triangles
    freed = np.bincount(center, weights=multipliers.triangles, minlength=count)
    diagonal = 2 * (form.cost - multipliers.level + form.picks * multipliers.sums - freed)

    # Each place in the upper or lower triangle, with minus the multiplier of its product.
    rows = np.concatenate((center, center, one, cuts.products[0], form.ends[0]))
    columns = np.concatenate((one, other, other, cuts.products[1], form.ends[1]))
    each = multipliers.triangles
    values = np.concatenate((each, each, -each, -multipliers.products, -form.shared))
    placed = np.bincount(rows * count + columns, weights=values, minlength=count**2)
    half = placed.astype(np.float64).reshape(count, count)
    matrix: FloatArray = half + half.T
    matrix -= np.add.outer(multipliers.sums, multipliers.sums)
    matrix[np.diag_indices(count)] += diagonal
    return matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCertificate:
    """Integer multipliers that prove a lower bound on the preempted weight.

    Parameters
    ----------
    denominator
        Multipliers and shift are integers over this denominator.
    cuts
        The cuts that the multipliers belong to.
    multipliers
        The multipliers, as integers.
    shift
        The multiple of the identity that makes S positive definite, at least 0.
    """

    denominator: int
    cuts: Cuts
    multipliers: PairMultipliers
    shift: int

    def bound(self, form: PairForm) -> int | None:
        """Return the proved bound, rounded up to an integer, or None if nothing is proved.

        Negative multipliers of cuts, a `shift` that is too small, and integers that are too large
        for exact arithmetic prove nothing. O(servers^3).
        """
        each = self.multipliers
        if min(each.triangles.min(initial=0), each.products.min(initial=0)) < 0:
            return None
        largest = largest_number(form, each, float(self.denominator)) + 2 * float(self.shift)
        if largest >= EXACT_IN_DOUBLES / 2:
            return None
        matrix = twice_slack(form.times(self.denominator), self.cuts, each)
        matrix[np.diag_indices(len(matrix))] += 2 * self.shift
        missed = largest_missed(matrix)
        if missed is None:
            return None
        # Every choice x satisfies x' x = N_R.
        value = form.picks * (2 * int(each.level) - 2 * self.shift - missed)
        return max(0, -(-value // (2 * self.denominator)))


def largest_number(form: PairForm, multipliers: PairMultipliers, one: float) -> float:
    """Return a bound on the entries of twice the slack matrix and on all their partial sums.

    A weight of 1 counts as `one`. The bound is computed in doubles, so it is only approximate.
    """
    sums = np.abs(multipliers.sums).max(initial=0)
    largest = one * float(form.cost.max(initial=0)) + abs(float(multipliers.level))
    largest += (form.picks + 2) * float(sums)
    return 2 * (largest + float(multipliers.triangles.sum()) + float(multipliers.products.sum()))


def in_integers(
    form: PairForm, cuts: Cuts, multipliers: PairMultipliers, shift: float
) -> PairCertificate | None:
    """Scale multipliers and round them to integers that `PairCertificate.bound` can check.

    Returns
    -------
    PairCertificate or None
        None if the weights are so large that doubles leave no bits for fractions.
    """
    bits = LARGEST_BITS - int(np.ceil(np.log2(largest_number(form, multipliers, 1.0) + shift + 1)))
    if bits < 0:
        return None
    scale = 2.0**bits

    def rounded(values: FloatArray) -> IntArray:
        return np.rint(values * scale).astype(np.int64)

    return PairCertificate(
        denominator=1 << bits,
        cuts=cuts,
        multipliers=PairMultipliers(
            level=round(multipliers.level * scale),
            sums=rounded(multipliers.sums),
            triangles=rounded(multipliers.triangles),
            products=rounded(multipliers.products),
        ),
        shift=int(np.ceil(shift * scale)),
    )
