"""Solvers `hadar` and `hadar-committed`, which also bound their distance to the optimum.

In `hadar-committed` a job buys its whole schedule on arrival and keeps it.
"""

from collections.abc import Mapping
from contextlib import suppress
from math import expm1, inf, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lyra_opt.core.result import SolveResult, StoppedBy
from lyra_opt.core.solver import Solver, Unsupported
from lyra_opt.core.stopwatch import OutOfTimeError, within_time
from lyra_opt.heterogeneous.bounds.utility_prices import (
    PricedRounds,
    PricingOracle,
    UtilityPriceBound,
    price_bound,
)
from lyra_opt.heterogeneous.checker import check
from lyra_opt.heterogeneous.heuristics.hadar.rule import (
    LOG_LEAST_SHARE,
    Hadar,
    PriceRange,
    competitive_ratio,
    rounds_to_run,
)
from lyra_opt.heterogeneous.heuristics.policy import Decision, RoundState
from lyra_opt.heterogeneous.heuristics.policy_solver import (
    PolicySchedule,
    RoundPolicySolver,
    result_of,
    run_policy,
)
from lyra_opt.heterogeneous.instance import GangJob, Instance, Objective, RoundEntry, RoundSchedule


class CommittedRun(NamedTuple):
    """The purchases of all jobs, with the data of the guarantee."""

    schedule: RoundSchedule
    """Union of all purchases."""
    last_round: Mapping[str, int]
    """Round in which each admitted job completes, by id."""
    prices: NDArray[np.float64]
    """Price of a GPU by round, server and type, after the last purchase."""
    alpha: float
    """The alpha of `commit`: the dual is at most alpha times the utility plus the initial cost of
    all GPUs."""
    log_ratio: float
    """Largest ln(U_max / U_min) of a type."""
    first_value: float
    """Initial cost of all GPUs: at most half of the largest utility that one job has alone."""
    is_exact: bool
    """Whether all pricing problems were solved exactly; otherwise alpha is not proved."""


def commit(instance: Instance) -> CommittedRun:
    """Let each job, by release and then file order, buy its best schedule or nothing.

    Source: the setting of Hadar's theorem (arXiv 2503.10918), in the manner of OASiS (INFOCOM
    2018). That Hadar is 2 alpha-competitive with alpha = max(1, ln(U_max / U_min)) is from a
    secondary source. The constants are ours, chosen so that the following is a proof.

    In a round, a GPU of type r on server h costs p(g) = L (U / L)^(g / n) once g of its c GPUs are
    sold. Here n = c - w + 1, and w is the most of them that one gang takes. U is the largest
    utility, alone on the cluster, of a job that can use the type. L is such that all GPUs in all
    rounds cost, at the initial prices, at most half of the utility that some job has alone. A job
    buys the schedule with the largest payoff, found exactly (`PricingOracle.buy`), if that payoff
    is above 0.

    *No GPU is sold twice.* If g > c - w, hence g >= n, a GPU costs at least U, and a schedule that
    takes it has no payoff. So a job buys GPUs only where at least w are free.

    *The dual.* With the final prices, D = sum_j mu_j + sum p c is at least the optimum
    (`price_bound`). The final mu_j is at most mu_j at arrival, because prices only rise. A sale
    raises the utility by U_j. It raises the dual by mu_j + sum c (p(g + a) - p(g)) over the cells
    of the schedule, where a is the number of GPUs taken. With rho = U / L, the term
    c (p(g + a) - p(g)) is c (rho^(a / n) - 1) / a times the cost p(g) a. That factor grows with a,
    so it is at most alpha = max(1, max of c (rho^(w / n) - 1) / w). Since mu_j + cost = U_j, the
    dual rises by at most alpha U_j. So D <= alpha P + D_0 with D_0 <= OPT / 2, and
    OPT <= 2 alpha P: the rule is 2 alpha-competitive. For small demands (w / c towards 0), alpha
    tends to max(1, ln(U / L)), the alpha of the paper. For large demands it is larger, and it is
    exponential if a gang may take a whole server.

    As in the theorem, the constants use knowledge of future jobs. O(jobs) pricing problems, each
    with O(rounds servers types) for its costs.

    Parameters
    ----------
    instance
        An instance with the objective utility and without forking.
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
    """GPUs bought so far in `commit`, and the next GPU's price by round, server and type.

    Parameters
    ----------
    instance, oracle
        The instance and its pricing oracle.
    alone
        Utility of each job alone on the cluster, by id; 0 if it cannot complete.
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
        """Return the price of the next GPU by round, server and type."""
        shares = self.used / self._until_dear
        return np.where(self._is_sold, np.exp(self._log_least + self._rises * shares), 0.0)


def _log_most(
    instance: Instance, jobs: list[GangJob], alone: Mapping[str, float]
) -> NDArray[np.float64]:
    """Return ln of the largest utility of a job on each GPU type, -inf if no job can use it."""
    most = []
    for gpu_type in instance.gpu_types:
        usable = [
            alone[job.id]
            for job in jobs
            if any(job.rate((gpu_type.name,), is_spread=spread) for spread in (False, True))
        ]
        # The margin `DEARER` exceeds all rounding errors, so no job gains by buying sold-out GPUs.
        most.append(log(max(usable)) + DEARER if usable else -np.inf)
    return np.array(most)


def _log_least(instance: Instance, jobs: list[GangJob], oracle: PricingOracle, cells: int) -> float:
    """Return the logarithm of Hadar's lowest price U_min, with the GPUs of all rounds in eta.

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
    """Return e^exponent - 1, or inf on overflow."""
    return expm1(exponent) if exponent < LARGEST_EXPONENT else inf


class HadarCertificate(NamedTuple):
    """A schedule by Hadar, with an upper bound on the optimal utility and a competitive ratio."""

    run: PolicySchedule
    """The schedule of the run."""
    utility: float
    """Objective of the schedule."""
    bound: UtilityPriceBound | None
    """Upper bound on the optimum; None if a time limit left no time for it."""
    two_alpha: float
    """The claimed competitive ratio: a theorem for `hadar-committed`; for `hadar` only a number to
    compare with `observed_ratio`."""

    @property
    def observed_ratio(self) -> float:
        """The dual bound divided by the utility; the true ratio is at most this."""
        bound = float("inf") if self.bound is None else self.bound.value
        if self.utility:
            return bound / self.utility
        return float("inf") if bound else 1.0

    def message(self) -> str:
        """Return a sentence with the observed and the claimed ratio."""
        return (
            f"the dual bound is {self.observed_ratio:.4g} times the utility; "
            f"2 alpha is {self.two_alpha:.4g}"
        )


def certify_hadar(instance: Instance, rng: np.random.Generator) -> HadarCertificate:
    """Run `hadar` on a utility instance, and bound the optimum from its prices.

    The prices of a round are those after its decision. 2 alpha is the maximum over the rounds.
    """
    policy = Hadar()
    watch = _PriceWatch(instance, policy)
    found = run_policy(policy, instance, rng, on_round=watch.see)
    return _certified(instance, found, watch.prices, watch.two_alpha)


def certify_committed(instance: Instance) -> HadarCertificate:
    """Run `hadar-committed` (function `commit`) on a utility instance without forking."""
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
    assert utility is not None, "every schedule is valid for a utility instance"
    bound = None
    with suppress(OutOfTimeError):
        bound = price_bound(instance, prices, utility)
    return HadarCertificate(run=run, utility=utility, bound=bound, two_alpha=two_alpha)


class _PriceWatch:
    """Record the prices of each round."""

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
                capacity = server.gpus.get(name, 0)
                if capacity:
                    price = ranges[name].price(used.get((server.id, name), 0), capacity)
                    self.prices[number, place, kind] = price


class HadarSolver(RoundPolicySolver):
    """Run Hadar's auction round by round, with a proved bound on utility instances.

    The bound is the dual of the offline problem at the policy's prices. It is made feasible by
    solving each job's pricing problem exactly, and improved by a few subgradient steps
    (`price_bound`).
    """

    gives_bound = True

    def __init__(self) -> None:
        super().__init__("hadar")

    def apply(self, instance: Instance, rng: np.random.Generator) -> SolveResult[RoundSchedule]:
        """Run the policy and, on a utility instance, bound the optimum."""
        if instance.objective is not Objective.UTILITY:
            return super().apply(instance, rng)
        return _result(instance, certify_hadar(instance, rng))


class HadarCommitted(RoundPolicySolver):
    """Let each job buy its whole schedule on arrival, with a proved bound and ratio.

    `commit` gives the source and the proof. The rule is 2 alpha-competitive; the message of a
    result states 2 alpha.
    """

    gives_bound = True
    variants = (Objective.UTILITY,)
    name = "hadar-committed"

    def __init__(self) -> None:
        pass

    def supports(self, instance: Instance) -> Unsupported | None:
        """Return why the rule cannot solve the instance; None if it can."""
        if instance.forking:
            return Unsupported(
                f"{self.name} supports instances without forking only; this one has forking"
            )
        return Solver.supports(self, instance)

    def apply(self, instance: Instance, rng: np.random.Generator) -> SolveResult[RoundSchedule]:  # noqa: ARG002
        """Run the auction and return its schedule with the bound."""
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
