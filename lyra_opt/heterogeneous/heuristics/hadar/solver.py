"""`hadar` and `hadar-committed` as solvers that bound what they miss."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lyra_opt.core.result import StoppedBy
from lyra_opt.core.solver import Solver, Unsupported
from lyra_opt.core.stopwatch import OutOfTimeError
from lyra_opt.heterogeneous.bounds.utility_prices import price_bound
from lyra_opt.heterogeneous.checker import check
from lyra_opt.heterogeneous.heuristics.hadar.committed import commit
from lyra_opt.heterogeneous.heuristics.hadar.prices import competitive_ratio
from lyra_opt.heterogeneous.heuristics.hadar.rule import Hadar
from lyra_opt.heterogeneous.heuristics.policy_solver import (
    RoundPolicySolver,
    Run,
    result_of,
    run_policy,
)
from lyra_opt.heterogeneous.instance import Instance, Objective, RoundSchedule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lyra_opt.core.result import SolveResult
    from lyra_opt.heterogeneous.bounds.utility_prices import PriceBound
    from lyra_opt.heterogeneous.heuristics.hadar.prices import PriceRange
    from lyra_opt.heterogeneous.heuristics.policy import Decision, RoundState


class HadarCertificate(NamedTuple):
    """A run on a utility instance and what it proves."""

    run: Run
    """The schedule."""
    utility: float
    """Its value."""
    bound: PriceBound | None
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
    found = Run(schedule=committed.schedule, last_round=committed.last_round, decisions=0)
    two_alpha = 2 * committed.alpha if committed.is_exact else float("inf")
    return _certified(instance, found, committed.prices, two_alpha)


def _certified(
    instance: Instance, run: Run, prices: NDArray[np.float64], two_alpha: float
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

    def apply(
        self,
        instance: Instance,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> SolveResult[RoundSchedule]:
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
