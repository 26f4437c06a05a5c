r"""A lower bound for rigid instances by a positive semidefinite matrix, checked in integers.

With x_s = 1 for a chosen server and y_j = 1 for a preempted job, products of these are bound to one
another in ways that no linear relaxation knows: a chosen server preempts the jobs on it, and N_R
servers are chosen whatever else is true. ``formulations/reclaim/README.md``, section 5.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lyra_opt.core.stopwatch import loading

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lyra_opt.reclaim.incidence import IntArray
    from lyra_opt.reclaim.reduction import ReducedReclaim

    FloatArray = NDArray[np.float64]

EXACT_IN_DOUBLES = 2**53
"""Sums and products of integers are exact in doubles, in any order, if none exceeds it."""
LARGEST_BITS = 50
"""Of numbers in certificates, so that they are well below that after rounding."""
FEWEST_BITS = 16
"""Of fractions of the unit; with fewer, rounding would cost more than the bound can gain."""
ROWS_AT_ONCE = 512


class Multipliers(NamedTuple):
    """One number, of either sign, for each identity that products of the variables satisfy.

    Parameters
    ----------
    level
        Of sum_s x_s^2 = N_R.
    sums
        Shape (servers + jobs,): of z_i (sum_s x_s) = N_R z_i^2, where z_i is x_s or y_j.
    entries
        Shape (entries,), ordered by job: of y_j x_s = x_s^2 for a server s that hosts j.
    """

    level: Any
    sums: Any
    entries: Any


def twice_slack(reduced: ReducedReclaim, cost: Any, weight: Any, multipliers: Multipliers) -> Any:
    r"""Return 2 S without its part 1 sums' + sums 1', as a sparse matrix, in the type of `cost`.

    For every choice z = (x, y) of N_R servers, f = N_R * level + z' S z: S is what the multipliers
    leave of costs and weights. The part left out has rank 2 (`with_sums`).
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
    """Return the places in z of the server and of the job of each entry."""
    losses = reduced.losses
    return losses.job_servers, losses.servers + np.repeat(np.arange(losses.jobs), losses.span())


def with_sums(matrix: FloatArray, sums: NDArray[Any], servers: int) -> FloatArray:
    """Subtract what `twice_slack` leaves out, in place; return the matrix."""
    matrix[:, :servers] -= sums[:, None]
    matrix[:servers, :] -= sums[None, :]
    return matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class SemidefiniteCertificate:
    """Multipliers that prove a lower bound for a rigid instance, whatever their origin.

    Parameters
    ----------
    denominator
        Multipliers and shift are integers over this.
    multipliers
        In integers.
    shift
        How much of D = diag(unit, ..., unit, w_1, ..., w_m) makes the matrix S positive definite,
        at least 0.
    unit
        At least 1.
    """

    denominator: int
    multipliers: Multipliers
    shift: int
    unit: int

    def bound(self, reduced: ReducedReclaim) -> int | None:
        """Return the bound, rounded up to an integer, or None if `shift` is too small.

        A floating-point factor L of the lifted matrix is rounded to integers. What L L' misses of
        it is computed exactly, and bounded by its largest sum of a row's absolute values, so that
        the proof does not rest on floating point. None also where integers are too large for that.
        Time O((servers + jobs)^3), memory for two matrices.
        """
        with loading():
            from scipy.linalg import LinAlgError, cholesky

        largest = _largest_number(
            reduced, self.multipliers, float(self.denominator), float(self.shift), self.unit
        )
        if largest >= EXACT_IN_DOUBLES / 2:
            return None
        matrix = self._lifted(reduced)
        try:
            factor = cholesky(matrix, lower=True, check_finite=False)
        except LinAlgError:
            return None
        np.rint(factor, out=factor)
        # By Cauchy and Schwarz no partial sum of a product of two rows is larger.
        if float(np.einsum("ij,ij->i", factor, factor).max(initial=0.0)) >= EXACT_IN_DOUBLES / 2:
            return None
        most_missed = 0.0
        for first in range(0, len(matrix), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            missed = np.abs(matrix[rows] - factor[rows] @ factor.T).sum(axis=1)
            most_missed = max(most_missed, float(missed.max()))
        if most_missed >= EXACT_IN_DOUBLES / 2:  # else no sum was rounded
            return None
        # least * z' z <= z' D z = unit * N_R + the weight of shared jobs preempted, at most f.
        least = min(self.unit, int(reduced.weight.min(initial=self.unit)))
        lifted = 2 * self.shift - (-int(most_missed) // least)
        value = reduced.reclaim_servers * (2 * int(self.multipliers.level) - lifted * self.unit)
        return max(0, -(-value // (2 * self.denominator + lifted)))

    def _lifted(self, reduced: ReducedReclaim) -> FloatArray:
        """Return 2 S + 2 shift D, in doubles that are integers."""
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


def _largest_number(
    reduced: ReducedReclaim, multipliers: Multipliers, one: float, shift: float, unit: int
) -> float:
    """Return a bound on the numbers that make up the lifted matrix, and on all their sums.

    In units in which a weight of 1 is `one`; about right, for it is computed in doubles.
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
    """Round multipliers to the finest integers that `SemidefiniteCertificate.bound` can check.

    Parameters
    ----------
    multipliers, shift
        In units of `unit`.

    Returns
    -------
    SemidefiniteCertificate or None
        None if weights are so unlike that doubles leave too little for fractions.
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
