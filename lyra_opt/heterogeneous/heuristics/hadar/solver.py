"""`hadar` and `hadar-committed` as solvers that bound what they miss.

With commitment a job buys its whole schedule as it arrives, and keeps it.
"""

from __future__ import annotations

from contextlib import suppress
from math import expm1, inf, log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lyra_opt.core.result import StoppedBy
from lyra_opt.core.solver import Solver, Unsupported
from lyra_opt.core.stopwatch import OutOfTimeError, within_time
from lyra_opt.heterogeneous.bounds.utility_prices import PricedRounds, PricingOracle, price_bound
from lyra_opt.heterogeneous.checker import check
from lyra_opt.heterogeneous.heuristics.hadar.rule import (
    LOG_LEAST_SHARE,
    Hadar,
    competitive_ratio,
    rounds_to_run,
)
from lyra_opt.heterogeneous.heuristics.policy_solver import (
    PolicySchedule,
    RoundPolicySolver,
    result_of,
    run_policy,
)
from lyra_opt.heterogeneous.instance import Instance, Objective, RoundSchedule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from lyra_opt.core.result import SolveResult
    from lyra_opt.heterogeneous.bounds.utility_prices import UtilityPriceBound
    from lyra_opt.heterogeneous.heuristics.hadar.rule import PriceRange
    from lyra_opt.heterogeneous.heuristics.policy import Decision, RoundState
    from lyra_opt.heterogeneous.instance import GangJob, RoundEntry


class CommittedRun(NamedTuple):
    """What the jobs bought."""

    schedule: RoundSchedule
    """All that they bought."""
    last_round: Mapping[str, int]
    """By whose end each admitted job completes, by id."""
    prices: NDArray[np.float64]
    """By round, server and type, after the last purchase."""
    alpha: float
    """See `commit`; the dual is at most alpha times the utility, and what all GPUs cost at
    first."""
    log_ratio: float
    """Largest ln(U_max / U_min) of a type."""
    first_value: float
    """What all GPUs cost at first: at most half of what the job is worth alone that is worth
    most."""
    is_exact: bool
    """Whether each pricing problem was solved exactly; without that alpha is not proved."""


def commit(instance: Instance) -> CommittedRun:
    """Let each job, in order of release and then of file, buy its best schedule or nothing.

    Source: the setting of Hadar's theorem (arXiv 2503.10918), in the manner of OASiS
    (INFOCOM 2018); that Hadar is 2 alpha-competitive with alpha = max(1, ln(U_max / U_min)) is
    from a secondary source. Constants are ours, so that the following is a proof.

    A GPU of type r on server h in a round costs p(g) = L (U / L)^(g / n) once g of the c there are
    sold in that round, where w is the most that one gang takes of them, n = c - w + 1, U is the
    most that a job that can use the type is worth alone on the cluster, and L is such that all
    GPUs in all rounds cost at most half of what some job is worth alone, at the prices at first.
    A job buys the schedule of most payoff, exactly (`PricingOracle.buy`), if that is above 0.

    *Nothing is sold twice.* Where g > c - w, hence g >= n, a GPU costs U at least, and a schedule
    that takes it has no payoff. So a buyer takes GPUs only where w more are there.

    *The dual.* With the prices at the end, D = sum_j mu_j + sum p c is no less than the optimum
    (`price_bound`), where mu_j at the end is at most mu_j at arrival, since prices only rise. A
    sale raises the utility by U_j and the dual by mu_j + sum c (p(g + a) - p(g)) over the cells of
    the schedule, a being the number taken, and c (p(g + a) - p(g)) = c (rho^(a / n) - 1) / a times
    the cost p(g) a, with rho = U / L. That factor grows with a, so it is at most
    alpha = max(1, max of c (rho^(w / n) - 1) / w), and as mu_j + cost = U_j the dual rises by at
    most alpha U_j. So D <= alpha P + D_0 with D_0 <= OPT / 2, and OPT <= 2 alpha P: the rule is
    2 alpha-competitive. For small demands (w / c towards 0) alpha tends to
    max(1, ln(U / L)), the alpha of the paper; for large ones it is larger, and exponential where
    a gang may take a server as a whole.

    The constants need the jobs that are to come, as the theorem takes them for known. O(jobs)
    pricing problems and costs O(rounds servers types) each.

    Parameters
    ----------
    instance
        With the objective utility and without forking.
    """
    oracle = PricingOracle(instance)
    alone = {job.id: oracle.most_worth(job) for job in within_time(instance.jobs)}
    market = _Market(instance, oracle, alone)
    entries: list[RoundEntry] = []
    last_round: dict[str, int] = {}
    is_exact = True
    position = instance.job_position
    by_release = sorted(instance.jobs, key=lambda job: (job.release_s, position[job.id]))
    for job in within_time(by_release):
        purchase = oracle.buy(job, PricedRounds(oracle, market.prices()))
        is_exact = is_exact and purchase.is_exact
        if purchase.entries and purchase.is_exact:
            entries += purchase.entries
            last_round[job.id] = purchase.entries[-1].round
            market.used += oracle.usage(purchase.entries)
    entries.sort(key=lambda entry: entry.round)
    return CommittedRun(
        schedule=RoundSchedule(entries),
        last_round=last_round,
        prices=market.prices(),
        alpha=market.alpha,
        log_ratio=market.log_ratio,
        first_value=market.first_value,
        is_exact=is_exact,
    )


DEARER = 1e-9
LARGEST_EXPONENT = 700.0


class _Market:
    """Sold GPUs and their prices; see `commit`.

    Parameters
    ----------
    instance, oracle
        What is sold.
    alone
        What each job is worth alone on the cluster, by id; 0 if it cannot complete.
    """

    def __init__(
        self, instance: Instance, oracle: PricingOracle, alone: Mapping[str, float]
    ) -> None:
        self._capacity = oracle.capacity
        self.used = np.zeros(oracle.shape, dtype=np.int64)
        jobs = [job for job in instance.jobs if alone[job.id] > 0]
        most_worth = max(alone.values(), default=0.0)
        gang = max((job.gang for job in jobs), default=1)
        widest = np.minimum(gang, self._capacity)
        self._until_dear = np.maximum(self._capacity - widest + 1, 1)
        log_most = _log_most(instance, jobs, alone)
        cells = instance.horizon_rounds * int(self._capacity.sum())
        log_least = _log_least(instance, jobs, oracle, cells)
        if most_worth > 0:
            log_least = min(log_least, log(most_worth) - log(2 * cells))
        is_wanted = np.isfinite(log_most)
        self._is_sold = is_wanted & (self._capacity > 0)
        self._log_least = np.minimum(log_least, np.where(is_wanted, log_most, 0.0))
        self._rises = np.where(is_wanted, log_most, self._log_least) - self._log_least
        self.log_ratio = float(self._rises.max())
        self.alpha = max(
            [1.0]
            + [
                int(there) * _grown(rise * int(taken) / int(until)) / int(taken)
                for of_server in zip(self._capacity, widest, self._until_dear, strict=True)
                for there, taken, until, rise in zip(*of_server, self._rises, strict=True)
                if there
            ]
        )
        self.first_value = float((self.prices() * self._capacity).sum())

    def prices(self) -> NDArray[np.float64]:
        """Return the price of the next GPUs by round, server and type."""
        shares = self.used / self._until_dear
        return np.where(self._is_sold, np.exp(self._log_least + self._rises * shares), 0.0)


def _log_most(
    instance: Instance, jobs: list[GangJob], alone: Mapping[str, float]
) -> NDArray[np.float64]:
    """Return by type ln of what the job is worth that is worth most and can use it; else -inf."""
    most = []
    for gpu_type in instance.gpu_types:
        usable = [
            alone[job.id]
            for job in jobs
            if any(job.rate((gpu_type.name,), is_spread=spread) for spread in (False, True))
        ]
        # Raised by more than rounding, so that what is sold out has no payoff.
        most.append(log(max(usable)) + DEARER if usable else -np.inf)
    return np.array(most)


def _log_least(instance: Instance, jobs: list[GangJob], oracle: PricingOracle, cells: int) -> float:
    """Return ln of Hadar's U_min with all rounds in eta, for the jobs that can complete.

    U_min = min_j U_j(T - a_j) / (t_j^max W_j) / (4 eta), 1 / eta = min_j t_j^max W_j / (GPUs
    times rounds); see `lyra_opt.heterogeneous.heuristics.hadar.rule.price_ranges`.
    """
    least, widest = np.inf, np.inf
    for job in jobs:
        slowest = min(level.rate for level in oracle.levels[job.id])
        gpu_rounds = job.gang * rounds_to_run(job.steps, slowest, instance.round_s)
        widest = min(widest, gpu_rounds)
        last_worth = float(oracle.worths(job)[-1])
        if last_worth > 0:
            least = min(least, last_worth / gpu_rounds)
    if np.isfinite(least):
        return log(least) + log(widest) - log(cells) - log(4)
    most = max((float(oracle.worths(job).max()) for job in jobs), default=1.0)
    return log(most) + LOG_LEAST_SHARE - log(cells)


def _grown(exponent: float) -> float:
    """Return e^exponent - 1; inf where that is no float."""
    return expm1(exponent) if exponent < LARGEST_EXPONENT else inf


class HadarCertificate(NamedTuple):
    """A run on a utility instance and what it proves."""

    run: PolicySchedule
    """The schedule."""
    utility: float
    """Its value."""
    bound: UtilityPriceBound | None
    """On the optimum; None if a time limit left no time for one."""
    two_alpha: float
    """The competitive ratio that is claimed: a theorem for `hadar-committed`, and only a number
    to set `observed_ratio` beside for `hadar`."""

    @property
    def observed_ratio(self) -> float:
        """How many times the utility the bound is; the optimum is no more."""
        bound = float("inf") if self.bound is None else self.bound.value
        if self.utility:
            return bound / self.utility
        return float("inf") if bound else 1.0

    def message(self) -> str:
        """Return the ratios in words."""
        return (
            f"the dual bound is {self.observed_ratio:.4g} times the utility; "
            f"2 alpha is {self.two_alpha:.4g}"
        )


def certify_hadar(instance: Instance, rng: np.random.Generator) -> HadarCertificate:
    """Run `hadar` on a utility instance, and bound the optimum from its prices.

    The prices of a round are those after its decision. 2 alpha is the largest of its rounds.
    """
    policy = Hadar()
    watch = _PriceWatch(instance, policy)
    found = run_policy(policy, instance, rng, on_round=watch.see)
    return _certified(instance, found, watch.prices, watch.two_alpha)


def certify_committed(instance: Instance) -> HadarCertificate:
    """Run `hadar-committed` on a utility instance without forking; see `commit`."""
    committed = commit(instance)
    found = PolicySchedule(
        schedule=committed.schedule, last_round=committed.last_round, decisions=0
    )
    two_alpha = 2 * committed.alpha if committed.is_exact else float("inf")
    return _certified(instance, found, committed.prices, two_alpha)


def _certified(
    instance: Instance, run: PolicySchedule, prices: NDArray[np.float64], two_alpha: float
) -> HadarCertificate:
    utility = check(instance, run.schedule).objective
    assert utility is not None, "utility instances need no job to complete"
    bound = None
    with suppress(OutOfTimeError):
        bound = price_bound(instance, prices, utility)
    return HadarCertificate(run=run, utility=utility, bound=bound, two_alpha=two_alpha)


class _PriceWatch:
    """Keeps the prices of each round."""

    def __init__(self, instance: Instance, policy: Hadar) -> None:
        self._instance = instance
        self._policy = policy
        self._types = [gpu_type.name for gpu_type in instance.gpu_types]
        shape = (instance.horizon_rounds, len(instance.servers), len(self._types))
        self.prices: NDArray[np.float64] = np.zeros(shape)
        self.two_alpha = 2.0

    def see(self, number: int, state: RoundState, decision: Decision) -> None:  # noqa: ARG002
        ranges: dict[str, PriceRange] = self._policy.last_ranges
        self.two_alpha = max(self.two_alpha, competitive_ratio(list(ranges.values())))
        used: dict[tuple[str, str], int] = {}
        for placements in decision.values():
            for host, types in placements[0].items():
                for name, count in types.items():
                    used[host, name] = used.get((host, name), 0) + count
        for place, server in enumerate(self._instance.servers):
            for kind, name in enumerate(self._types):
                there = server.gpus.get(name, 0)
                if there:
                    price = ranges[name].price(used.get((server.id, name), 0), there)
                    self.prices[number, place, kind] = price


class HadarSolver(RoundPolicySolver):
    """Hadar's auction round by round; on utility instances with a proved bound.

    The bound is the dual of the offline problem at the policy's prices, made feasible by solving
    each job's pricing problem exactly and improved by a few subgradient steps: see `price_bound`.
    """

    gives_bound = True

    def __init__(self) -> None:
        super().__init__("hadar")

    def apply(self, instance: Instance, rng: np.random.Generator) -> SolveResult[RoundSchedule]:
        """Run the policy, and bound the optimum of a utility instance."""
        if instance.objective is not Objective.UTILITY:
            return super().apply(instance, rng)
        return _result(instance, certify_hadar(instance, rng))


class HadarCommitted(RoundPolicySolver):
    """Each job buys its whole schedule as it arrives; with a proved bound and ratio.

    Source and proof: `commit`. It is 2 alpha-competitive, with the alpha of the message.
    """

    gives_bound = True
    variants = (Objective.UTILITY,)
    name = "hadar-committed"

    def __init__(self) -> None:
        pass

    def supports(self, instance: Instance) -> Unsupported | None:
        """Return why the rule cannot answer the instance, None if it can."""
        if instance.forking:
            return Unsupported(f"{self.name} has no rule for copies of jobs")
        return Solver.supports(self, instance)

    def apply(self, instance: Instance, rng: np.random.Generator) -> SolveResult[RoundSchedule]:  # noqa: ARG002
        """Let the jobs buy."""
        return _result(instance, certify_committed(instance))


def _result(instance: Instance, certificate: HadarCertificate) -> SolveResult[RoundSchedule]:
    bound = certificate.bound
    if bound is None:
        return result_of(instance, certificate.run, stopped_by=StoppedBy.TIME)
    return result_of(
        instance,
        certificate.run,
        dual_bound=max(bound.value, certificate.utility),
        counters={"price_vectors": bound.evaluations, "relaxed_pricings": bound.relaxed},
        message=certificate.message(),
    )


HADAR = HadarSolver()
HADAR_COMMITTED = HadarCommitted()
