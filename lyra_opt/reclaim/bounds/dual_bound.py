r"""Proved lower bounds on the weight of preempted jobs, in integers.

Both semantics have the same kind of certificate: prices of servers that charge every job at most
its weight. Whichever N_R servers are chosen, the preempted jobs then weigh at least as much as the
N_R cheapest servers together. A flow or a floating-point linear programme finds good prices, but
the proof does not depend on either: `PriceCertificate.bound` checks the prices in integers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lyra_opt.core.arithmetic import exact_sum
from lyra_opt.core.arrays import IntArray
from lyra_opt.core.kernels import LARGEST_COMPILED_INTEGER
from lyra_opt.core.stopwatch import loading, remaining_s
from lyra_opt.reclaim.bounds.flow_kernel import (
    CutScratch,
    Ends,
    Flow,
    Network,
    balance,
    envelope_segment,
)
from lyra_opt.reclaim.incidence import ReclaimIndex, partial_sums, stable_order, sums_of_runs
from lyra_opt.reclaim.instance import Instance, Semantics
from lyra_opt.reclaim.reduction import ReducedReclaim, reduce_with_rows


def dual_bound(instance: Instance) -> int:
    """Return a proved lower bound on the weight of the jobs that any solution preempts.

    It is the Lagrangian bound of a rigid instance, or the LP bound of an interchangeable one.
    """
    if instance.semantics is Semantics.RIGID:
        return rigid_bound(instance).bound
    return interchangeable_bound(instance)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceCertificate:
    r"""Dual multipliers that prove a lower bound on the weight of preempted jobs.

    The proof does not depend on how the multipliers were found. With counts n_js of worker losses
    capped at slack_j + 1, every solution of an instance satisfies, for each job j and server s on
    loan, ::

        sum_s n_js x_s - (sum_s n_js - slack_j)^+ y_j <= slack_j,
        x_s <= y_j  if n_js > slack_j.

    Take the multipliers `row_multipliers` u_j and `entry_multipliers` v_js, both at least 0. Adding
    the rows, weighted by them, to the objective leaves each server with the price p_s = sum_j (u_j
    n_js + v_js), and each job with the rest r_j = w_j - u_j (sum_s n_js - slack_j)^+ - sum_s v_js.
    So the optimum is at least (the sum of the N_R smallest p_s) + sum_j min(0, r_j) - sum_j u_j
    slack_j.

    In a rigid instance slack is 0 and u can be 0. Then v splits the weight of each job over its
    servers, as Lyra's cost does in equal parts, and the bound is the sum of the N_R smallest
    prices.

    Parameters
    ----------
    denominator
        The multipliers are integers over this denominator.
    row_multipliers
        Shape (jobs,): u_j.
    entry_multipliers
        Shape (entries of ``index.losses``,), ordered by server: v_js; ignored where n_js <=
        slack_j.
    """

    denominator: int
    row_multipliers: IntArray
    entry_multipliers: IntArray

    def bound(self, index: ReclaimIndex, reclaim_servers: int) -> int:
        """Return the lower bound that the multipliers prove, rounded up to an integer.

        Rounding up is valid because objectives are integers. The arithmetic is exact: in 64-bit
        integers if nothing can overflow, else in Python's integers. Time O(entries + servers log
        servers).

        Raises
        ------
        ValueError
            If a multiplier is negative.
        """
        if self.row_multipliers.min(initial=0) < 0 or self.entry_multipliers.min(initial=0) < 0:
            raise ValueError("the multipliers of a price certificate must be at least 0")
        losses, slack = index.losses, index.slack
        if self._largest(index) >= LARGEST_COMPILED_INTEGER:
            row, entry = self.row_multipliers.astype(object), self.entry_multipliers.astype(object)
            weight = index.weight.astype(object)
        else:
            row, entry, weight = self.row_multipliers, self.entry_multipliers, index.weight
        job_slack = slack[losses.server_jobs]
        entry = np.where(losses.server_counts > job_slack, entry, 0)
        rest = weight * self.denominator - _sums(entry, losses.server_jobs, losses.jobs)
        prices = entry
        if row.any():  # always zero in a rigid instance
            counts = np.minimum(losses.server_counts, job_slack + 1)
            total = _sums(counts, losses.server_jobs, losses.jobs)
            rest = rest - row * np.maximum(total - slack, 0)
            prices = prices + row[losses.server_jobs] * counts
        prices = sums_of_runs(prices, losses.server_start)
        cheapest = np.sort(prices[index.on_loan])[:reclaim_servers]
        value = int(cheapest.sum()) + int(np.minimum(rest, 0).sum()) - int((row * slack).sum())
        return max(0, -(-value // self.denominator))

    def _largest(self, index: ReclaimIndex) -> int:
        """Return a bound on the absolute value of every integer that `bound` computes."""
        row = int(self.row_multipliers.max(initial=0))
        entry = int(self.entry_multipliers.max(initial=0))
        losses = int(index.losses.job_counts.max(initial=0)) + int(index.slack.max(initial=0)) + 1
        weight = int(index.weight.max(initial=0)) * self.denominator
        return (weight + row * losses + entry) * (index.losses.entries + index.losses.jobs + 1)


def _sums(values: NDArray[Any], groups: IntArray, size: int) -> NDArray[Any]:
    """Return the sum of `values` in each of `size` groups, with the dtype of `values`."""
    sums = np.zeros(size, dtype=values.dtype)
    np.add.at(sums, groups, values)
    return sums


PASSES = 3
"""Least number of passes of a minimum cut over the network, to estimate its work."""

BALANCING_PASSES = 12
"""Passes that level the prices before the first cut.

Measured on fleets of 520 servers: 12 passes reduce three to six cuts to one to three. More passes
take longer than the cuts that they save.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RigidBound:
    """The Lagrangian bound of a rigid instance, and the two server sets that determine it.

    Parameters
    ----------
    bound
        A lower bound on the optimum, an integer.
    lower_servers, upper_servers
        Positions of the servers at the two ends of the segment, at most and at least N_R of them.
        Each set is optimal for its own number of servers.
    lower_weight, upper_weight
        Weights of the jobs that the two sets preempt.
    minimum_cuts
        Number of minimum cuts computed.
    certificate
        The multipliers that prove the bound.
    """

    bound: int
    lower_servers: tuple[int, ...]
    upper_servers: tuple[int, ...]
    lower_weight: int
    upper_weight: int
    minimum_cuts: int
    certificate: PriceCertificate


def rigid_bound(
    instance: Instance, reduction: tuple[ReducedReclaim, IntArray] | None = None
) -> RigidBound:
    """Return the Lagrangian bound on the weight of the jobs that N_R reclaimed servers preempt.

    The bound is the lower convex envelope of f* at N_R. f*(k) is the least weight of jobs that k
    servers preempt. The weight f(X) of the jobs that a set X of servers preempts is submodular, so
    the best X at a given price per server is a minimum cut. The best sets for all prices form a
    chain, and their weights are the breakpoints of the envelope. The segment around N_R is found by
    chords: the slope between two known sets is the price of the next cut, until the cut lies on the
    chord. The bound equals that of the linear relaxation.

    The first two sets are guessed: servers enter the best sets in the order of their prices in the
    most even split of the jobs, which a few passes approximate (`balance`).

    Prices are rounded down to multiples of 1 / D with one D for all cuts, so that each flow can
    start from the previous flow. Slopes are fractions with denominators up to n, the number of
    servers on loan, and differ by at least 1 / n^2. With D > n^2 no slope lies between a price and
    the slope that it was rounded from, so the cuts are the same as for the slopes. The bound loses
    less than n / D before it is rounded up to an integer, and nothing after.

    Source: this project's study of minimum k-union; ``formulations/reclaim/README.md``, section 5.
    Complexity: a minimum cut for each chord, 1 to 3 in practice, on the reduced instance.

    Parameters
    ----------
    reduction
        The result of `reduce_with_rows` for the instance, if it is already known.
    """
    index = instance.index
    reduced, row = reduction or reduce_with_rows(instance)
    losses = reduced.losses
    unit = 1 << (losses.servers * losses.servers).bit_length()
    # `job_entries[e]` is the position, in server order, of the e-th entry in job order.
    job_entries = stable_order(losses.server_jobs, losses.jobs)
    flow, is_lower, is_upper, lower_weight, upper_weight, cuts = _segment(
        reduced, unit, job_entries
    )
    if np.count_nonzero(row >= 0) > losses.jobs:
        flow = _split_over_merged_jobs(index, reduced, row, unit, flow[job_entries])
    # Jobs that remain after the reduction keep the order of the instance.
    # A job that was folded into a server charges all its weight to that server.
    jobs = index.losses.server_jobs
    prices = index.weight.astype(flow.dtype)[jobs] * unit
    prices[(row >= 0)[jobs]] = flow
    certificate = PriceCertificate(
        denominator=unit,
        row_multipliers=np.zeros(index.losses.jobs, dtype=np.int64),
        entry_multipliers=prices,
    )
    return RigidBound(
        bound=certificate.bound(index, reduced.reclaim_servers),
        lower_servers=tuple(reduced.servers[np.flatnonzero(is_lower)].tolist()),
        upper_servers=tuple(reduced.servers[np.flatnonzero(is_upper)].tolist()),
        lower_weight=int(lower_weight),
        upper_weight=int(upper_weight),
        minimum_cuts=int(cuts),
        certificate=certificate,
    )


def _segment(reduced: ReducedReclaim, unit: int, job_entries: IntArray) -> tuple[Any, ...]:
    """Find the segment of the convex envelope at N_R; return its flow, ends and number of cuts."""
    losses = reduced.losses
    servers, jobs = losses.servers, losses.jobs
    work = PASSES * (losses.entries + servers)
    largest = (exact_sum(reduced.weight) + exact_sum(reduced.server_cost) + 1) * unit
    integers: Any = np.int64 if largest < LARGEST_COMPILED_INTEGER else object
    network = Network(
        server_cost=reduced.server_cost,
        job_weight=reduced.weight,
        server_start=losses.server_start,
        server_jobs=losses.server_jobs,
        job_start=losses.job_start,
        job_servers=losses.job_servers,
        job_entries=job_entries,
    )
    on_entry, prices = balance.run(
        BALANCING_PASSES,
        unit,
        network,
        _zeros(losses.entries),
        _zeros(servers),
        work=work,
        largest=largest,
    )
    wanted = reduced.reclaim_servers
    flow, ends, counts, weights, cuts = envelope_segment.run(
        wanted,
        unit,
        network,
        Flow(np.asarray(on_entry, dtype=integers), _zeros(servers), _zeros(jobs)),
        np.argsort(np.asarray(prices, dtype=integers), kind="stable"),
        Ends(
            is_lower=_zeros(servers),
            is_upper=_zeros(servers),
            is_settled=_zeros(servers),
            is_open=_zeros(servers),
            is_paid=_zeros(jobs),
        ),
        _zeros(servers + 1),
        CutScratch(
            active=_zeros(servers),
            server_level=_zeros(servers),
            job_level=_zeros(jobs),
            server_next=_zeros(servers),
            job_next=_zeros(jobs),
            queue=_zeros(servers),
            path_entry=_zeros(servers),
            path_back=_zeros(servers),
        ),
        work=work,
        largest=largest,
    )
    is_lower, is_upper = ends.is_lower, ends.is_upper
    lower_weight, upper_weight = weights
    # If N_R is a breakpoint of the envelope, the segment at N_R is that single point.
    if counts[0] == wanted:
        is_upper, upper_weight = is_lower, lower_weight
    elif counts[1] == wanted:
        is_lower, lower_weight = is_upper, upper_weight
    on_entry = np.asarray(flow.on_entry, dtype=integers)
    return on_entry, is_lower, is_upper, lower_weight, upper_weight, cuts


def _zeros(size: int) -> IntArray:
    return np.zeros(size, dtype=np.int64)


def _split_over_merged_jobs(
    index: ReclaimIndex, reduced: ReducedReclaim, row: IntArray, unit: int, flow: NDArray[Any]
) -> NDArray[Any]:
    """Split the flow of merged jobs over the original jobs, ordered by server.

    The servers of a reduced job each pay an interval of its weight. The original jobs merged into
    it each claim an interval of that weight, in file order. A server pays for an original job the
    overlap of their intervals.

    Parameters
    ----------
    row
        The reduced job of each job, -1 for a folded job.
    flow
        Shape (entries of the reduced instance,), ordered by job.
    """
    start = reduced.losses.job_start
    paid = partial_sums(flow)
    paid_begin = paid[:-1] - np.repeat(paid[start[:-1]], reduced.losses.span())
    paid_end = paid_begin + flow

    jobs = np.flatnonzero(row >= 0)
    jobs = jobs[stable_order(row[jobs], reduced.losses.jobs)]
    claimed = partial_sums(index.weight[jobs].astype(flow.dtype) * unit)
    first_of_row = np.searchsorted(row[jobs], row[jobs])
    claim_begin = claimed[:-1] - claimed[first_of_row]
    claim_end = claimed[1:] - claimed[first_of_row]

    # A job and its reduced job have the same servers, in the same order.
    span = index.losses.span()[jobs]
    claim = np.repeat(np.arange(len(jobs)), span)
    offset = np.arange(len(claim)) - np.repeat(partial_sums(span)[:-1], span)
    entry = start[row[jobs]][claim] + offset
    overlap = np.minimum(paid_end[entry], claim_end[claim]) - np.maximum(
        paid_begin[entry], claim_begin[claim]
    )
    by_server = np.lexsort((jobs[claim], reduced.losses.job_servers[entry]))
    split: NDArray[Any] = np.maximum(overlap, 0)[by_server]
    return split


MULTIPLIER_UNIT = 2**24
"""The multipliers of the linear programme are rounded to multiples of 1 / MULTIPLIER_UNIT."""


def interchangeable_bound(instance: Instance) -> int:
    """Return the LP bound of an interchangeable instance, made safe by integer arithmetic.

    HiGHS solves the relaxation in floating point. Only its multipliers are used: they are rounded
    to multiples of 2^-24, and `PriceCertificate.bound` evaluates them in integers. So neither
    rounding nor a wrong answer of the solver can raise the bound above the optimum.

    Complexity: one linear programme with a row for each job and each entry.
    """
    index = instance.index
    if not index.losses.entries or not instance.reclaim_servers:
        return 0
    certificate = _relaxation_prices(instance)
    return 0 if certificate is None else certificate.bound(index, instance.reclaim_servers)


def _relaxation_prices(instance: Instance) -> PriceCertificate | None:
    """Solve the linear relaxation and return its multipliers, or None if the solver fails.

    The solver stops at the current time limit.
    """
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
    # The rows are sum_s n_js x_s - (total_j - slack_j)^+ y_j <= slack_j, then x_s - y_j <= 0.
    of_servers = coo_array((counts, (entry_jobs, entry_servers)), shape=(jobs, servers))
    surplus = np.maximum(total - index.slack, 0)
    of_jobs = coo_array((-surplus, (np.arange(jobs), np.arange(jobs))), shape=(jobs, jobs))
    tight = np.flatnonzero(counts > slack)
    ones, rows = np.ones(len(tight)), np.arange(len(tight))
    implied_servers = coo_array((ones, (rows, entry_servers[tight])), shape=(len(tight), servers))
    implied_jobs = coo_array((-ones, (rows, entry_jobs[tight])), shape=(len(tight), jobs))
    upper_bounds = np.concatenate((index.is_on_loan, np.ones(jobs)))
    # Weights are scaled to at most 1, because the tolerances of HiGHS are absolute.
    scale = max(1, int(index.weight.max()))
    time_s = remaining_s()
    relaxation = linprog(
        np.concatenate((np.zeros(servers), index.weight / scale)),
        A_ub=vstack((hstack((of_servers, of_jobs)), hstack((implied_servers, implied_jobs)))),
        b_ub=np.concatenate((index.slack, np.zeros(len(tight)))),
        A_eq=np.concatenate((index.is_on_loan, np.zeros(jobs))).reshape(1, -1),
        b_eq=[instance.reclaim_servers],
        bounds=np.column_stack((np.zeros(servers + jobs), upper_bounds)),
        method="highs",
        options={} if time_s is None else {"time_limit": time_s},
    )
    if relaxation.ineqlin is None or relaxation.ineqlin.get("marginals") is None:
        return None
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
