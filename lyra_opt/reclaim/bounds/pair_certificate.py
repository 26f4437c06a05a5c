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

    def fixed(self, server: int, value: int) -> tuple[PairForm, int]:
        """Return the form of the other servers if x_server = value, and the weight that it adds."""
        is_in = np.any(self.ends == server, axis=0)
        number = np.arange(len(self.cost))
        number[server + 1 :] -= 1
        cost, paid = self.cost, 0
        if value:
            cost, paid = cost.copy(), int(cost[server])
            # A job on the chosen server is preempted once.
            np.subtract.at(cost, self.ends[:, is_in].sum(axis=0) - server, self.shared[is_in])
        return PairForm(
            self.picks - value,
            np.delete(cost, server),
            number[self.ends[:, ~is_in]],
            self.shared[~is_in],
        ), paid


class PairMultipliers(NamedTuple):
    """Multipliers of the identities and cuts.

    A cut is a triangle, (x_i - x_s) (x_i - x_t) >= 0. Each of i, s and t is a server, the number n
    of servers, which stands for the constant 0, or n + 1, which stands for the constant 1.

    Parameters
    ----------
    level
        Multiplier of sum_s x_s^2 = N_R, of either sign.
    sums
        Shape (servers,): multipliers of x_s (sum_t x_t) = N_R x_s^2, of either sign.
    triangles
        Multipliers of the cuts, at least 0.
    """

    level: Any
    sums: Any
    triangles: Any


def pair_form(reduced: ReducedReclaim) -> PairForm | None:
    """Return the quadratic form of a reduced rigid instance.

    The result is None if a job is on more servers, or if weights do not fit 64 bits.
    """
    losses = reduced.losses
    if not losses.jobs or np.any(losses.span() != 2) or reduced.weight.dtype == object:
        return None
    ends = losses.job_servers.reshape(-1, 2).T
    cost = reduced.server_cost.copy()
    for servers in ends:
        np.add.at(cost, servers, reduced.weight)
    return PairForm(reduced.reclaim_servers, cost, ends, reduced.weight)


def twice_slack(
    form: PairForm, triangles: IntArray, multipliers: PairMultipliers
) -> tuple[FloatArray, float]:
    """Return twice the dual slack matrix S, shape (servers, servers), and a constant.

    For every choice x of N_R servers, the preempted weight is N_R * level + constant + x' S x plus
    the multipliers of cuts times their left sides. O(servers^2 + pairs + cuts).

    Parameters
    ----------
    triangles
        Shape (3, cuts): i, s and t of each cut, as in `PairMultipliers`.
    """
    count = len(form.cost)
    size, each = count + 2, multipliers.triangles
    center, one, other = triangles

    # Each place in the upper or lower triangle, with minus the multiplier of its product.
    rows = np.concatenate((center, center, center, one, form.ends[0]))
    columns = np.concatenate((one, other, center, other, form.ends[1]))
    values = np.concatenate((each, each, -each, -each, -form.shared))
    placed = np.bincount(rows * size + columns, weights=values, minlength=size**2)
    half = placed.astype(np.float64).reshape(size, size)
    # A product with the constant 1 is linear, and x_s = x_s^2.
    diagonal = form.cost - multipliers.level + form.picks * multipliers.sums
    diagonal = diagonal + half[count + 1, :count] + half[:count, count + 1]
    matrix: FloatArray = half[:count, :count] + half[:count, :count].T
    matrix -= np.add.outer(multipliers.sums, multipliers.sums)
    matrix[np.diag_indices(count)] += 2 * diagonal
    return matrix, float(half[-1, -1])


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCertificate:
    """Integer multipliers that prove a lower bound on the preempted weight.

    Parameters
    ----------
    denominator
        Multipliers and shift are integers over this denominator.
    triangles
        Shape (3, cuts): the cuts that the multipliers belong to.
    multipliers
        The multipliers, as integers.
    shift
        The multiple of the identity that makes S positive definite, at least 0.
    """

    denominator: int
    triangles: IntArray
    multipliers: PairMultipliers
    shift: int

    def bound(self, form: PairForm) -> int | None:
        """Return the proved bound, rounded up to an integer, or None if nothing is proved.

        Negative multipliers of cuts, a `shift` that is too small, and integers that are too large
        for exact arithmetic prove nothing. O(servers^3).
        """
        each = self.multipliers
        if each.triangles.min(initial=0) < 0:
            return None
        largest = largest_number(form, each, float(self.denominator)) + 2 * float(self.shift)
        if largest >= EXACT_IN_DOUBLES / 2:
            return None
        matrix, constant = twice_slack(form.times(self.denominator), self.triangles, each)
        matrix[np.diag_indices(len(matrix))] += 2 * self.shift
        missed = largest_missed(matrix)
        if missed is None:
            return None
        # Every choice x satisfies x' x = N_R.
        value = form.picks * (2 * int(each.level) - 2 * self.shift - missed) + 2 * int(constant)
        return max(0, -(-value // (2 * self.denominator)))


def largest_number(form: PairForm, multipliers: PairMultipliers, one: float) -> float:
    """Return a bound on the entries of twice the slack matrix and on all their partial sums.

    A weight of 1 counts as `one`. The bound is computed in doubles, so it is only approximate.
    """
    sums = np.abs(multipliers.sums).max(initial=0)
    largest = one * float(form.cost.max(initial=0)) + abs(float(multipliers.level))
    largest += (form.picks + 2) * float(sums)
    # A cut has at most four terms in one place.
    return 2 * (largest + 4 * float(multipliers.triangles.sum()))


def in_integers(
    form: PairForm, triangles: IntArray, multipliers: PairMultipliers, shift: float
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
        triangles=triangles,
        multipliers=PairMultipliers(
            level=round(multipliers.level * scale),
            sums=rounded(multipliers.sums),
            triangles=rounded(multipliers.triangles),
        ),
        shift=int(np.ceil(shift * scale)),
    )
