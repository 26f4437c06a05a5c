r"""Proved lower bounds on the weight of preempted jobs, in integers.

Both semantics have the same kind of certificate: prices of servers that charge every job at most
its weight. Whatever N_R servers are chosen, the preempted jobs then weigh at least as much as the
N_R cheapest servers together. How good prices are found (a flow, a linear programme in floating
point) plays no part in the proof: `PriceCertificate.bound` checks them in integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.kernels import LARGEST_COMPILED_INTEGER
from lyra_opt.reclaim.flow_kernel import maximum_flow
from lyra_opt.reclaim.heuristic import preempted_weight
from lyra_opt.reclaim.instance import Semantics
from lyra_opt.stopwatch import loading

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lyra_opt.reclaim.incidence import IntArray, ReclaimIndex
    from lyra_opt.reclaim.instance import ReclaimInstance


def lower_bound(instance: ReclaimInstance) -> int:
    """Return a proved lower bound: the rigid Lagrangian bound, or the interchangeable LP bound."""
    if instance.semantics is Semantics.RIGID:
        return rigid_bound(instance).bound
    return interchangeable_bound(instance)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceCertificate:
    r"""Multipliers that prove a lower bound, whatever their origin.

    With counts n_js of worker losses capped at slack_j + 1, every solution of an instance
    satisfies, for each job j and server s on loan,

    .. math::
        \sum_s n_{js} x_s \le slack_j + (\sum_s n_{js} - slack_j)^+ y_j, \qquad
        x_s \le y_j \text{ where } n_{js} > slack_j.

    Weighted by `row_multipliers` u_j and `entry_multipliers` v_js, both at least 0, and added to
    the objective, these rows leave each server with the price
    p_s = sum_j (u_j n_js + v_js), and each job with the rest
    r_j = w_j - u_j (sum_s n_js - slack_j)^+ - sum_s v_js. So the optimum is at least
    (the sum of the N_R smallest p_s) + sum_j min(0, r_j) - sum_j u_j slack_j.

    In a rigid instance slack is 0 and u can be 0: v then splits each job's weight over its
    servers, as Lyra's cost does in equal parts, and the bound is the N_R smallest prices.

    Parameters
    ----------
    denominator
        The multipliers are integers over this.
    row_multipliers
        Shape (jobs,).
    entry_multipliers
        Shape (entries of ``index.losses``,), ordered by server; ignored where n_js <= slack_j.
    """

    denominator: int
    row_multipliers: IntArray
    entry_multipliers: IntArray

    def bound(self, index: ReclaimIndex, reclaim_servers: int) -> int:
        """Return the bound, rounded up to an integer as every objective is one.

        Exact: in 64-bit integers where nothing can overflow, else in Python's. Time
        O(entries + servers log servers).

        Raises
        ------
        ValueError
            If a multiplier is negative.
        """
        if self.row_multipliers.min(initial=0) < 0 or self.entry_multipliers.min(initial=0) < 0:
            raise ValueError("a multiplier of a price certificate is negative")
        losses, slack = index.losses, index.slack
        if self._largest(index) >= LARGEST_COMPILED_INTEGER:
            row, entry = self.row_multipliers.astype(object), self.entry_multipliers.astype(object)
            weight = index.weight.astype(object)
        else:
            row, entry, weight = self.row_multipliers, self.entry_multipliers, index.weight
        job_slack = slack[losses.server_jobs]
        counts = np.minimum(losses.server_counts, job_slack + 1)
        entry = np.where(counts > job_slack, entry, 0)
        total = _sums(counts, losses.server_jobs, losses.jobs)
        rest = (
            weight * self.denominator
            - row * np.maximum(total - slack, 0)
            - _sums(entry, losses.server_jobs, losses.jobs)
        )
        servers = np.repeat(np.arange(losses.servers), np.diff(losses.server_start))
        prices = _sums(row[losses.server_jobs] * counts + entry, servers, losses.servers)
        cheapest = np.sort(prices[index.on_loan])[:reclaim_servers]
        value = int(cheapest.sum()) + int(np.minimum(rest, 0).sum()) - int((row * slack).sum())
        return max(0, -(-value // self.denominator))

    def _largest(self, index: ReclaimIndex) -> int:
        """Return a bound on every integer that `bound` meets."""
        row = int(self.row_multipliers.max(initial=0))
        entry = int(self.entry_multipliers.max(initial=0))
        losses = int(index.losses.job_counts.max(initial=0)) + int(index.slack.max(initial=0)) + 1
        weight = int(index.weight.max(initial=0)) * self.denominator
        return (weight + row * losses + entry) * (index.losses.entries + index.losses.jobs + 1)


def _sums(values: NDArray[Any], groups: IntArray, size: int) -> NDArray[Any]:
    """Return the sum of `values` in each of `size` groups, in the integers of `values`."""
    sums = np.zeros(size, dtype=values.dtype)
    np.add.at(sums, groups, values)
    return sums


@dataclass(frozen=True, slots=True, kw_only=True)
class RigidBound:
    """The Lagrangian bound of the cardinality row, with the segment that it was found on.

    Parameters
    ----------
    bound
        The least integer that the optimum can be.
    lower_servers, upper_servers
        Positions of the servers at the two ends of the segment, at most and at least N_R of
        them; each is optimal for its own number of servers.
    lower_weight, upper_weight
        Weight of the jobs that they preempt.
    minimum_cuts
        How many were computed.
    certificate
        What proves the bound.
    """

    bound: int
    lower_servers: tuple[int, ...]
    upper_servers: tuple[int, ...]
    lower_weight: int
    upper_weight: int
    minimum_cuts: int
    certificate: PriceCertificate


def rigid_bound(instance: ReclaimInstance) -> RigidBound:
    """Return the lower convex envelope at N_R of f*(k), the least weight for k servers.

    The weight f(X) of the jobs that a set X of servers preempts is submodular, so for a price
    per server the best X is a minimum cut, and the best sets for all prices form a chain whose
    weights are the breakpoints of the envelope. The segment around N_R is found by chords: cut
    at the slope between two known breakpoints, until the cut lies on the chord. Equal to the
    bound of the linear relaxation.

    Source: research on minimum k-union; ``formulations/reclaim/README.md``, "The bound".
    Complexity: a minimum cut for each chord, 2 to 6 in practice.
    """
    index = instance.index
    wanted = instance.reclaim_servers
    cuts = _ParametricCuts(index)
    lower: tuple[int, ...] = ()
    lower_weight = 0
    upper = tuple(index.on_loan.tolist())
    upper_weight = preempted_weight(index, upper)
    minimum_cuts = 0
    while len(lower) < len(upper):
        run, rise = len(upper) - len(lower), upper_weight - lower_weight
        cut = cuts.minimise(price=rise, unit=run)
        minimum_cuts += 1
        weight = preempted_weight(index, cut)
        if run * (weight - lower_weight) == rise * (len(cut) - len(lower)):
            break  # the chord is a segment of the envelope
        if len(cut) <= wanted:
            lower, lower_weight = cut, weight
        if len(cut) >= wanted:
            upper, upper_weight = cut, weight
    certificate = cuts.certificate()
    return RigidBound(
        bound=certificate.bound(index, wanted),
        lower_servers=lower,
        upper_servers=upper,
        lower_weight=lower_weight,
        upper_weight=upper_weight,
        minimum_cuts=minimum_cuts,
        certificate=certificate,
    )


def _no_prices(index: ReclaimIndex) -> PriceCertificate:
    """Return the certificate of the bound 0."""
    return PriceCertificate(
        denominator=1,
        row_multipliers=np.zeros(index.losses.jobs, dtype=np.int64),
        entry_multipliers=np.zeros(index.losses.entries, dtype=np.int64),
    )


PASSES = 3
"""Least number of times that a minimum cut goes over the network."""


class _ParametricCuts:
    """Minimise unit * f(X) - price * |X| over sets X of servers on loan, for a row of prices.

    Jobs on one server are folded: their weight is a cost of that server, which its price must
    exceed before it is of interest. Each flow starts from the one before, scaled to its unit.
    """

    def __init__(self, index: ReclaimIndex) -> None:
        span = index.losses.span()
        self._index = index
        self._is_shared = span > 1
        self._shared = index.losses.keeping(self._is_shared)
        # In the order of jobs, which number each entry has in the order of servers.
        self._job_entries = np.argsort(self._shared.server_jobs, kind="stable")
        alone = np.flatnonzero(span == 1)
        hosts = index.losses.job_servers[index.losses.job_start[alone]]
        self._total_weight = sum(index.weight.tolist())
        self._integers: Any = np.int64 if self._total_weight < LARGEST_COMPILED_INTEGER else object
        self._server_cost = np.zeros(index.losses.servers, dtype=self._integers)
        np.add.at(self._server_cost, hosts, index.weight[alone].astype(self._integers))
        self._unit = 1
        self._flow: NDArray[Any] = np.zeros(self._shared.entries, dtype=np.int64)

    def minimise(self, *, price: int, unit: int) -> tuple[int, ...]:
        """Return the positions of the smallest set X that is best."""
        shared = self._shared
        servers, jobs = shared.servers, shared.jobs
        largest = price + unit * self._total_weight * self._unit
        integers: Any = np.int64 if largest < LARGEST_COMPILED_INTEGER else object
        beyond_cost = price - unit * self._server_cost.astype(integers)
        flow, server_level = maximum_flow.run(
            np.where(self._index.is_on_loan, np.maximum(beyond_cost, 0), 0),
            np.where(self._is_shared, self._index.weight, 0).astype(integers) * unit,
            shared.server_start,
            shared.server_jobs,
            shared.job_start,
            shared.job_servers,
            self._job_entries,
            self._flow.astype(integers) * unit // self._unit,
            np.zeros(servers, dtype=np.int64),
            np.zeros(jobs, dtype=np.int64),
            np.zeros(servers, dtype=np.int64),
            np.zeros(jobs, dtype=np.int64),
            *(np.zeros(servers, dtype=np.int64) for _ in ("queue", "path_entry", "path_back")),
            work=PASSES * (shared.entries + servers),
            largest=largest,
        )
        self._flow = np.asarray(flow, dtype=integers)
        self._unit = unit
        in_cut = np.asarray(server_level, dtype=np.int64) >= 0
        return tuple(np.flatnonzero(in_cut).tolist())

    def certificate(self) -> PriceCertificate:
        """Return what the last flow proves: each job's weight, split over its servers."""
        by_server = self._is_shared[self._index.losses.server_jobs]
        weight = self._index.weight[self._index.losses.server_jobs]
        large = self._unit * self._total_weight >= LARGEST_COMPILED_INTEGER
        multipliers = weight.astype(object if large else np.int64) * self._unit
        multipliers[by_server] = self._flow
        return PriceCertificate(
            denominator=self._unit,
            row_multipliers=np.zeros(self._index.losses.jobs, dtype=np.int64),
            entry_multipliers=multipliers,
        )


MULTIPLIER_UNIT = 2**24
"""Resolution to which the multipliers of a linear programme are rounded."""


def interchangeable_bound(instance: ReclaimInstance) -> int:
    """Return the bound of the linear relaxation, safely rounded.

    HiGHS solves the relaxation in floating point; only its multipliers are used, rounded to
    multiples of 2^-24, and `PriceCertificate.bound` evaluates them in integers. So neither
    rounding nor a wrong answer of the solver can lift the bound above the optimum.

    Complexity: one linear programme with a row for each job and each entry.
    """
    index = instance.index
    if not index.losses.entries or not instance.reclaim_servers:
        return 0
    return _relaxation_prices(instance).bound(index, instance.reclaim_servers)


def _relaxation_prices(instance: ReclaimInstance) -> PriceCertificate:
    """Solve the linear relaxation and return its multipliers; zeros if it was not solved."""
    with loading():
        from scipy.optimize import linprog
        from scipy.sparse import coo_array, hstack, vstack

    index = instance.index
    losses = index.losses
    servers, jobs = losses.servers, losses.jobs
    entry_servers = np.repeat(np.arange(servers), np.diff(losses.server_start))
    entry_jobs = losses.server_jobs
    slack = index.slack[entry_jobs]
    counts = np.minimum(losses.server_counts, slack + 1)
    total = _sums(counts, entry_jobs, jobs)
    # Rows: sum_s n_js x_s - (total_j - slack_j)^+ y_j <= slack_j, then x_s - y_j <= 0.
    of_servers = coo_array((counts, (entry_jobs, entry_servers)), shape=(jobs, servers))
    surplus = np.maximum(total - index.slack, 0)
    of_jobs = coo_array((-surplus, (np.arange(jobs), np.arange(jobs))), shape=(jobs, jobs))
    tight = np.flatnonzero(counts > slack)
    ones, rows = np.ones(len(tight)), np.arange(len(tight))
    implied_servers = coo_array((ones, (rows, entry_servers[tight])), shape=(len(tight), servers))
    implied_jobs = coo_array((-ones, (rows, entry_jobs[tight])), shape=(len(tight), jobs))
    upper_bounds = np.concatenate((index.is_on_loan, np.ones(jobs)))
    # Scaled to weights near 1, so that the solver's absolute tolerances fit any weights.
    scale = max(1, int(index.weight.max()))
    relaxation = linprog(
        np.concatenate((np.zeros(servers), index.weight / scale)),
        A_ub=vstack((hstack((of_servers, of_jobs)), hstack((implied_servers, implied_jobs)))),
        b_ub=np.concatenate((index.slack, np.zeros(len(tight)))),
        A_eq=np.concatenate((index.is_on_loan, np.zeros(jobs))).reshape(1, -1),
        b_eq=[instance.reclaim_servers],
        bounds=np.column_stack((np.zeros(servers + jobs), upper_bounds)),
        method="highs",
    )
    certificate = _no_prices(index)
    if relaxation.ineqlin is None or relaxation.ineqlin.get("marginals") is None:
        return certificate
    multipliers = np.clip(-relaxation.ineqlin.marginals, 0.0, 1.0)
    row, implied = multipliers[:jobs], multipliers[jobs:]
    entry = np.zeros(losses.entries)
    entry[tight] = implied
    return PriceCertificate(
        denominator=MULTIPLIER_UNIT,
        row_multipliers=_rounded(row, scale),
        entry_multipliers=_rounded(entry, scale),
    )


def _rounded(multipliers: NDArray[np.float64], scale: int) -> NDArray[Any]:
    rounded: NDArray[Any] = np.rint(multipliers * MULTIPLIER_UNIT).astype(np.int64)
    if scale * MULTIPLIER_UNIT >= 2**62:
        rounded = rounded.astype(object)
    return rounded * scale
