r"""A lower bound for rigid instances from a positive semidefinite matrix, checked in integers.

Let x_s = 1 for a chosen server and y_j = 1 for a preempted job. Products of these variables satisfy
identities that no linear relaxation expresses. They say that a chosen server preempts its jobs and
that N_R servers are chosen. The proof is in ``formulations/reclaim/README.md``, section 5.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lyra_opt.core.stopwatch import loading

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from lyra_opt.core.arrays import FloatArray, IntArray
    from lyra_opt.reclaim.reduction import ReducedReclaim


EXACT_IN_DOUBLES = 2**53
"""Sums and products of integers up to this size are exact in doubles, in any order."""
LARGEST_BITS = 50
"""Largest size, in bits, of numbers in certificates: well below 2^53 even after rounding."""
FEWEST_BITS = 16
"""Fewest bits for fractions of the unit; with fewer, rounding would cost more than the gain."""
ROWS_AT_ONCE = 512
ATTEMPTS, LARGER, SMALLEST_SHIFT = 8, 1.05, 1e-7
"""Most attempts, growth factor and least increase of the shift until a factor exists."""


class Multipliers(NamedTuple):
    """The multipliers of the semidefinite bound, one for each identity of products of variables.

    They may have either sign.

    Parameters
    ----------
    level
        Multiplier of sum_s x_s^2 = N_R.
    sums
        Shape (servers + jobs,): multipliers of z_i (sum_s x_s) = N_R z_i^2, where z_i is x_s or
        y_j.
    entries
        Shape (entries,), ordered by job: multipliers of y_j x_s = x_s^2 for a server s that hosts
        j.
    """

    level: Any
    sums: Any
    entries: Any


def twice_slack(reduced: ReducedReclaim, cost: Any, weight: Any, multipliers: Multipliers) -> Any:
    r"""Return twice the dual slack matrix S, without its rank-2 part, as a sparse matrix.

    The rank-2 part is 1 sums' + sums 1', which `with_sums` subtracts. For every choice z = (x, y)
    of N_R servers, f = N_R * level + z' S z, so S is what the multipliers leave of costs and
    weights. The matrix has the type of `cost`.
    """
    with loading():
        from scipy.sparse import coo_array

    losses = reduced.losses
    size = losses.servers + losses.jobs
    hosts, jobs = entry_places(reduced)
    diagonal = np.concatenate((cost - multipliers.level, weight))
    diagonal += reduced.reclaim_servers * multipliers.sums
    np.add.at(diagonal, hosts, multipliers.entries)
    places = np.arange(size)
    values = np.concatenate((2 * diagonal, -multipliers.entries, -multipliers.entries))
    rows = np.concatenate((places, hosts, jobs))
    columns = np.concatenate((places, jobs, hosts))
    return coo_array((values, (rows, columns)), shape=(size, size)).tocsr()


def entry_places(reduced: ReducedReclaim) -> tuple[IntArray, IntArray]:
    """Return, for each (job, server) entry, the positions of its server and job in z = (x, y)."""
    losses = reduced.losses
    return losses.job_servers, losses.servers + np.repeat(np.arange(losses.jobs), losses.span())


def with_sums(matrix: FloatArray, sums: NDArray[Any], servers: int) -> FloatArray:
    """Subtract the rank-2 part that `twice_slack` omits from `matrix`, in place, and return it."""
    matrix[:, :servers] -= sums[:, None]
    matrix[:servers, :] -= sums[None, :]
    return matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class SemidefiniteCertificate:
    """Integer multipliers that prove the semidefinite lower bound of a rigid instance.

    Parameters
    ----------
    denominator
        Multipliers and shift are integers over this denominator.
    multipliers
        The multipliers, as integers.
    shift
        The multiple of D = diag(unit, ..., unit, w_1, ..., w_m) that makes S + shift D positive
        definite, at least 0.
    unit
        The diagonal entry of D for servers, at least 1.
    """

    denominator: int
    multipliers: Multipliers
    shift: int
    unit: int

    def bound(self, reduced: ReducedReclaim) -> int | None:
        """Return the proved bound, rounded up to an integer, or None if `shift` is too small.

        The result is also None if integers are too large for exact arithmetic. The proof is that of
        `largest_missed`. Time O((servers + jobs)^3), memory for two matrices.
        """
        largest = _largest_number(
            reduced, self.multipliers, float(self.denominator), float(self.shift), self.unit
        )
        if largest >= EXACT_IN_DOUBLES / 2:
            return None
        missed = largest_missed(self._lifted(reduced))
        if missed is None:
            return None
        # Every choice z with objective f satisfies least * z' z <= z' D z <= unit * N_R + f.
        least = min(self.unit, int(reduced.weight.min(initial=self.unit)))
        lifted = 2 * self.shift - (-missed // least)
        value = reduced.reclaim_servers * (2 * int(self.multipliers.level) - lifted * self.unit)
        return max(0, -(-value // (2 * self.denominator + lifted)))

    def _lifted(self, reduced: ReducedReclaim) -> FloatArray:
        """Return twice the shifted matrix S + shift D, with integers stored as doubles."""
        cost, weight = reduced.server_cost, reduced.weight
        sparse = twice_slack(
            reduced, cost * self.denominator, weight * self.denominator, self.multipliers
        )
        matrix = with_sums(
            sparse.astype(np.float64).toarray(), self.multipliers.sums, reduced.losses.servers
        )
        scale = np.concatenate((np.full(len(cost), self.unit), weight))
        matrix[np.diag_indices(len(matrix))] += 2 * self.shift * scale
        return matrix


def largest_missed(matrix: FloatArray) -> int | None:
    """Return a number e >= 0 such that a matrix plus e times the identity is positive semidefinite.

    A floating-point Cholesky factor L is rounded to integers. The remainder, the matrix minus L L',
    is computed exactly and bounded by its largest row sum of absolute values, so that the proof
    does not rest on floating point. O(rows^3).

    Parameters
    ----------
    matrix
        A symmetric matrix of integers stored as doubles, each below 2^52 in size.

    Returns
    -------
    int or None
        None if the matrix does not have a factor, or if a sum could be rounded.
    """
    with loading():
        from scipy.linalg import LinAlgError, cholesky

    try:
        factor = cholesky(matrix, lower=True, check_finite=False)
    except LinAlgError:
        return None
    np.rint(factor, out=factor)
    # By Cauchy-Schwarz, the largest squared row norm bounds each partial sum of a row product.
    if float(np.einsum("ij,ij->i", factor, factor).max(initial=0.0)) >= EXACT_IN_DOUBLES / 2:
        return None
    most_missed = 0.0
    for first in range(0, len(matrix), ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        missed = np.abs(matrix[rows] - factor[rows] @ factor.T).sum(axis=1)
        most_missed = max(most_missed, float(missed.max()))
    if most_missed >= EXACT_IN_DOUBLES / 2:  # below it, no sum was rounded
        return None
    return int(most_missed)


def first_proof(shift: float, bound_with: Callable[[float], int | None]) -> int:
    """Return the bound of the first shift, from `shift` upwards, that proves one; 0 if none does.

    Parameters
    ----------
    bound_with
        Returns the bound that a shift proves, or None if a larger shift may prove one.
    """
    for _ in range(ATTEMPTS):
        shift = LARGER * shift + SMALLEST_SHIFT
        bound = bound_with(shift)
        if bound is not None:
            return bound
    return 0


def _largest_number(
    reduced: ReducedReclaim, multipliers: Multipliers, one: float, shift: float, unit: int
) -> float:
    """Return a bound on the entries of the shifted matrix and on all their partial sums.

    A weight of 1 counts as `one`. The bound is computed in doubles, so it is only approximate.
    """
    hosts, _ = entry_places(reduced)
    on_server = np.zeros(reduced.losses.servers)
    np.add.at(on_server, hosts, np.abs(multipliers.entries.astype(np.float64)))
    heaviest = max(unit, reduced.server_cost.max(initial=0), reduced.weight.max(initial=0))
    sums = np.abs(multipliers.sums.astype(np.float64)).max(initial=0.0)
    largest = float(heaviest) * (one + shift) + abs(float(multipliers.level))
    largest += (reduced.reclaim_servers + 2) * float(sums) + 2 * float(on_server.max(initial=0.0))
    return 2 * largest


def in_integers(
    reduced: ReducedReclaim, multipliers: Multipliers, shift: float, unit: int
) -> SemidefiniteCertificate | None:
    """Scale multipliers and round them to integers that `SemidefiniteCertificate.bound` can check.

    The scale is the largest that the check allows, so that rounding loses little.

    Parameters
    ----------
    multipliers, shift
        In units of `unit`.

    Returns
    -------
    SemidefiniteCertificate or None
        None if the weights differ so much that doubles leave too few bits for fractions.
    """
    largest = _largest_number(reduced, multipliers, 1 / unit, shift / unit, unit)
    of_unit = LARGEST_BITS - int(np.ceil(np.log2(largest)))
    bits = of_unit - int(np.ceil(np.log2(unit)))
    if bits < 0 or of_unit < FEWEST_BITS:
        return None
    scale = float(unit) * 2.0**bits
    return SemidefiniteCertificate(
        denominator=1 << bits,
        multipliers=Multipliers(
            level=round(multipliers.level * scale),
            sums=np.rint(multipliers.sums * scale).astype(np.int64),
            entries=np.rint(multipliers.entries * scale).astype(np.int64),
        ),
        shift=int(np.ceil(shift * 2.0**bits)),
        unit=unit,
    )
