"""The semidefinite bound for rigid instances, with multipliers from a low-rank matrix."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.result import Limits
from lyra_opt.core.stopwatch import (
    BYTES_PER_MIB,
    OutOfTimeError,
    is_out_of_time,
    limited_to,
    limits_in_force,
    loading,
    remaining_s,
    require_time,
)
from lyra_opt.reclaim.bounds.semidefinite_certificate import (
    Multipliers,
    entry_places,
    first_proof,
    in_integers,
    twice_slack,
    with_sums,
)

if TYPE_CHECKING:
    from lyra_opt.core.arrays import FloatArray
    from lyra_opt.reclaim.reduction import ReducedReclaim

RANK = 32
STEPS = 100
"""L-BFGS steps between two updates of the multipliers."""
LARGEST_PENALTY = 4.0
ENOUGH_PROGRESS = 0.7
"""The penalty is doubled if an update leaves more than this share of the violation."""
UPDATES_PER_CHECK = 4
PATIENCE = 4
LEAST_GAIN = 1e-3
"""The ascent stops after PATIENCE checks that gain less than this, relatively."""
DENSE_SIZE = 400
"""Up to this size eigenvalues come from a dense solver, above it from Lanczos' method."""
LARGEST_SIZE = 9000
"""Most servers and jobs together; a matrix of this size takes 650 MB, and the proof needs two."""
LANCZOS_VECTORS, LANCZOS_RESTARTS, LANCZOS_TOLERANCE = 60, 100, 1e-3
ESCAPES, ESCAPE = 4, 0.1
"""Number and length of the descent directions that are added to the factor at a check."""
PROOF_S, PROOF_SHARE = 6e-11, 0.1
"""Time reserved for the proof: seconds times the size cubed, and a share of the time left."""
LEAST_ASCENT_S = 1e-2
"""Least time, in seconds times the size; in less, the bound hardly beats a tree search."""


def semidefinite_bound(reduced: ReducedReclaim, objective: int, rng: np.random.Generator) -> int:
    """Return a proved semidefinite bound on preempted weight, or 0 if the limits are too tight.

    The relaxation replaces the products z z' of z = (x, y) by a positive semidefinite matrix Z that
    satisfies the identities listed in `Multipliers`. It is at least as strong as the linear
    relaxation, because y_j x_s = x_s^2 implies y_j^2 >= x_s^2. An augmented Lagrangian finds
    Z = R R' with `RANK` columns. Its multipliers, made feasible by a shift of the diagonal, give
    the bound. The bound is valid however far the descent got (`SemidefiniteCertificate`).

    Parameters
    ----------
    reduced
        A reduced rigid instance, in which every slack is 0.
    objective
        Objective of the incumbent; the search stops at a bound that reaches it.

    Notes
    -----
    Source: this project; low-rank descent after S. Burer and R. Monteiro (Mathematical Programming
    95, 2003). Complexity: O((entries + servers + jobs) * RANK) for a step, O((servers + jobs)^3)
    for the proof. Some of the time left is reserved for the proof.
    """
    size = reduced.losses.servers + reduced.losses.jobs
    if not reduced.losses.jobs or not reduced.reclaim_servers or size > LARGEST_SIZE:
        return 0
    if reduced.weight.dtype == object:
        return 0
    memory_mib = limits_in_force().memory_mib
    if memory_mib is not None and 3 * 8 * size**2 > memory_mib * BYTES_PER_MIB:
        return 0
    time_s = ascent_s(reduced)
    if time_s == 0:
        return 0
    ascent = _Ascent(reduced, objective, rng)
    with suppress(OutOfTimeError), limited_to(Limits(time_s=time_s)):
        ascent.run()
    return ascent.proved()


def ascent_s(reduced: ReducedReclaim) -> float | None:
    """Return the seconds for an ascent, 0 if too few to be of use; None without a time limit."""
    left_s, size = remaining_s(), reduced.losses.servers + reduced.losses.jobs
    if left_s is None:
        return None
    seconds = (1 - PROOF_SHARE) * left_s - PROOF_S * size**3
    return 0 if seconds < LEAST_ASCENT_S * size else seconds


class _Ascent:
    """An augmented-Lagrangian search for multipliers that give a large semidefinite bound.

    Numbers are in units of the mean weight.
    """

    def __init__(self, reduced: ReducedReclaim, objective: int, rng: np.random.Generator) -> None:
        losses, picks = reduced.losses, reduced.reclaim_servers
        self.reduced = reduced
        self.unit = max(1, round(float(reduced.weight.mean())))
        self.target = (objective - 1) / self.unit
        self.cost = reduced.server_cost / self.unit
        self.weight = reduced.weight / self.unit
        self.servers = losses.servers
        self.size = losses.servers + losses.jobs
        self.hosts, self.jobs = entry_places(reduced)
        self.rank = min(RANK, self.size)
        self.penalty = 1.0
        self.sum_scale = picks**-0.5
        # At the start, each job splits its weight equally over its servers.
        shares = np.repeat(self.weight / losses.span(), losses.span())
        prices = self.cost.copy()
        np.add.at(prices, self.hosts, shares)
        self.multipliers = Multipliers(
            level=float(np.sort(prices)[:picks].mean()),
            sums=np.zeros(self.size),
            entries=2 * shares,
        )
        share = picks / self.servers
        self.factor = rng.normal(size=(self.size, self.rank))
        self.factor *= (share * (1 - share) / self.rank) ** 0.5
        self.factor[:, 0] = share
        self.best_value, self.best_shift = -np.inf, 0.0
        self.best_multipliers = self.multipliers

    def run(self) -> None:
        """Update the multipliers until the target is met, progress ends or time is over."""
        with loading():
            from scipy.optimize import minimize

        missed_before, idle_checks, updates = np.inf, 0, 0
        while idle_checks < PATIENCE and self.best_value <= self.target:
            found = minimize(
                self.lagrangian,
                self.factor.ravel(),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": STEPS, "maxfun": 2 * STEPS, "ftol": 1e-12, "gtol": 1e-7},
            )
            self.factor = found.x.reshape(self.size, self.rank)
            missed = self.missed()
            self.multipliers = self.updated(missed)
            distance = float(np.sqrt(sum(float(np.sum(part * part)) for part in missed)))
            if distance > ENOUGH_PROGRESS * missed_before and self.penalty < LARGEST_PENALTY:
                self.penalty *= 2
            missed_before = distance
            updates += 1
            if updates == 1 or updates % UPDATES_PER_CHECK == 0:
                idle_checks = 0 if self.check() else idle_checks + 1

    def missed(self) -> tuple[Any, FloatArray, FloatArray]:
        """Return how far the low-rank factor violates each identity of the relaxation."""
        factor, servers, picks = self.factor, self.servers, self.reduced.reclaim_servers
        squares = np.einsum("ij,ij->i", factor, factor)
        total = factor[:servers].sum(axis=0)
        products = np.einsum("ij,ij->i", factor[self.jobs], factor[self.hosts])
        return (
            squares[:servers].sum() - picks,
            (factor @ total - picks * squares) * self.sum_scale,
            products - squares[self.hosts],
        )

    def updated(self, missed: tuple[Any, FloatArray, FloatArray]) -> Multipliers:
        """Return the multipliers after an augmented-Lagrangian step for the violations `missed`."""
        level, sums, entries = missed
        old = self.multipliers
        return Multipliers(
            level=old.level - self.penalty * level,
            sums=old.sums - self.penalty * self.sum_scale * sums,
            entries=old.entries - self.penalty * entries,
        )

    def lagrangian(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Return the augmented Lagrangian and its gradient at a flattened low-rank factor."""
        require_time()
        self.factor = flat.reshape(self.size, self.rank)
        new, old = self.updated(self.missed()), self.multipliers
        squares = np.einsum("ij,ij->i", self.factor, self.factor)
        value = self.cost @ squares[: self.servers] + self.weight @ squares[self.servers :]
        # Each identity adds -multiplier * missed + penalty / 2 * missed^2 to the value.
        value += (new.level**2 - old.level**2) / (2 * self.penalty)
        value += np.sum(new.sums**2 - old.sums**2) / (2 * self.penalty * self.sum_scale**2)
        value += np.sum(new.entries**2 - old.entries**2) / (2 * self.penalty)
        sparse = twice_slack(self.reduced, self.cost, self.weight, new)
        return float(value), self.times_twice_slack(sparse, new.sums, self.factor).ravel()

    def times_twice_slack(self, sparse: Any, sums: FloatArray, factor: FloatArray) -> FloatArray:
        """Return the product of twice the dual slack matrix S with a matrix."""
        result: FloatArray = sparse @ factor
        result -= np.multiply.outer(sums, factor[: self.servers].sum(axis=0))
        result[: self.servers] -= sums @ factor
        return result

    def check(self) -> bool:
        """Store the multipliers if they prove a better bound; return whether the gain is clear.

        Directions in which S is negative replace the least important columns of the factor.
        """
        least, vectors = self.least_eigenvectors()
        if not vectors.size:
            return False
        left, lengths, _ = np.linalg.svd(self.factor, full_matrices=False)
        self.factor = left * lengths
        count = vectors.shape[1]
        self.factor[:, -count:] += ESCAPE * vectors
        shift, picks = max(0.0, -least), self.reduced.reclaim_servers
        value = picks * (self.multipliers.level - shift) / (1 + shift)
        before = self.best_value
        if value <= before:
            return False
        self.best_value, self.best_shift, self.best_multipliers = value, shift, self.multipliers
        return bool(value > before + LEAST_GAIN * abs(before))

    def least_eigenvectors(self) -> tuple[float, FloatArray]:
        """Return the least eigenvalue of the dual slack matrix S, approximately, and eigenvectors.

        The coordinates are scaled so that D = diag(1, ..., 1, w_1, ..., w_m) becomes the identity.
        """
        with loading():
            from scipy.linalg import eigh
            from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

        scale = np.concatenate((np.ones(self.servers), self.weight)) ** -0.5
        count = min(ESCAPES, self.rank)
        sums = self.multipliers.sums
        sparse = twice_slack(self.reduced, self.cost, self.weight, self.multipliers)
        if self.size <= DENSE_SIZE:
            matrix = with_sums(sparse.toarray(), sums, self.servers)
            matrix *= np.multiply.outer(scale, scale)
            values, vectors = eigh(matrix, subset_by_index=(0, count - 1))
            return float(values[0]) / 2, vectors

        def product(vector: FloatArray) -> FloatArray:
            require_time()
            return scale * self.times_twice_slack(sparse, sums, scale * vector.ravel())

        try:
            values, vectors = eigsh(
                LinearOperator((self.size, self.size), matvec=product, dtype=np.float64),
                k=count,
                which="SA",
                v0=np.random.default_rng(0).normal(size=self.size),
                ncv=LANCZOS_VECTORS,
                maxiter=LANCZOS_RESTARTS,
                tol=LANCZOS_TOLERANCE,
            )
        except ArpackNoConvergence as error:
            values, vectors = error.eigenvalues, error.eigenvectors
        return float(values.min(initial=0.0)) / 2, vectors

    def proved(self) -> int:
        """Return the integer bound that the best multipliers prove, or 0."""
        if self.best_value <= 0:
            return 0

        def bound_with(shift: float) -> int | None:
            if is_out_of_time():
                return 0
            certificate = in_integers(self.reduced, self.best_multipliers, shift, self.unit)
            return 0 if certificate is None else certificate.bound(self.reduced)

        return first_proof(self.best_shift, bound_with)
