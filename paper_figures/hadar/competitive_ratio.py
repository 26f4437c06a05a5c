"""How far Hadar is from the offline optimum.

No table of the paper, which proves a bound of 2 alpha on the ratio and measures none. Small
instances are solved by an exact solver, large ones are bounded by Hadar's own dual.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from experiments.simulation.carried_out import SimulationError
from instances.heterogeneous.clusters import cluster_of, hadar_60
from instances.heterogeneous.offline import offline_instance
from lyra_opt.heterogeneous.hadar_committed import commit
from lyra_opt.heterogeneous.hadar_solver import certify_hadar
from lyra_opt.heterogeneous.policies import ROUND_POLICIES
from lyra_opt.heterogeneous.rollout import Run, value_of
from lyra_opt.result import Limits, Status
from lyra_opt.solver import find_solver
from paper_figures.comparison import MISSING, Table
from paper_figures.hadar.cases import TYPES
from paper_figures.hadar.schemes import GAVEL, HADAR, NAMES, OURS, TIRESIAS, YARN
from paper_figures.report import Answer, Page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.heterogeneous.instance import HeterogeneousInstance
    from paper_figures.hadar.cases import Results, Setting

NAME = "hadar-competitive-ratio"
TITLE = "How far from the offline optimum is Hadar?"

SMALL_GPUS_OF_TYPE, SMALL_JOBS, SMALL_ROUNDS = 4, 8, 10
LARGE_JOBS, LARGE_ROUNDS = 60, 20
SMALL_FOR_EACH_SEED = 5
EXACT = "mathopt-gscip"
LONGEST_PROOF_S = 10.0

COMMITTED = "hadar-committed"
OTHERS = (GAVEL, TIRESIAS, YARN, OURS)
RULES = (HADAR, COMMITTED, *OTHERS)
CALLED = {**NAMES, COMMITTED: "Hadar, committed (theorem)"}

TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What came of an instance.

    Parameters
    ----------
    optimum
        Proved; None if it was not, or not asked for.
    exact_bound
        What the exact solver proved; None if it was not asked.
    dual
        The bound from Hadar's prices.
    utility
        By rule.
    two_alpha, committed_two_alpha
        Of `hadar`, of which it is no theorem, and of the rule of which it is one.
    """

    optimum: float | None
    exact_bound: float | None
    dual: float
    utility: dict[str, float]
    two_alpha: float
    committed_two_alpha: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineCase:
    """An instance of Hadar's offline problem.

    Parameters
    ----------
    is_small
        Whether it is one that an exact solver proves.
    seed
        Of the instance.
    """

    is_small: bool
    seed: int

    @property
    def is_known(self) -> bool:
        """Always."""
        return True

    @property
    def cost(self) -> float:
        """How long it takes, relative to others."""
        return 5.0 if self.is_small else 40.0

    def instance(self) -> HeterogeneousInstance:
        """Return it."""
        if self.is_small:
            cluster = cluster_of(dict.fromkeys(TYPES, SMALL_GPUS_OF_TYPE))
            return offline_instance(cluster, jobs=SMALL_JOBS, rounds=SMALL_ROUNDS, seed=self.seed)
        return offline_instance(hadar_60(), jobs=LARGE_JOBS, rounds=LARGE_ROUNDS, seed=self.seed)

    def run(self, setting: Setting) -> Found:  # noqa: ARG002
        """Let all rules decide, and bound what can be had.

        Raises
        ------
        SimulationError
            If a rule's utility is above the optimum, or the optimum above the dual bound.
        """
        instance = self.instance()
        hadar = certify_hadar(instance, np.random.default_rng(self.seed))
        committed = commit(instance)
        bought = Run(schedule=committed.schedule, last_round=committed.last_round, decisions=0)
        utility = {HADAR: hadar.utility, COMMITTED: value_of(instance, bought) or 0.0}
        for name in OTHERS:
            if name not in ROUND_POLICIES:
                continue
            answer = find_solver("heterogeneous", name).solve(
                instance, limits=Limits(), rng=np.random.default_rng(self.seed)
            )
            if answer.objective is not None:
                utility[name] = float(answer.objective)
        optimum = exact_bound = None
        if self.is_small:
            proof = find_solver("heterogeneous", EXACT).solve(
                instance,
                limits=Limits(time_s=LONGEST_PROOF_S),
                rng=np.random.default_rng(self.seed),
            )
            exact_bound = None if proof.dual_bound is None else float(proof.dual_bound)
            if proof.status is Status.OPTIMAL and proof.objective is not None:
                optimum = float(proof.objective)
        dual = hadar.bound.value
        self._require_order(utility, optimum, dual)
        return Found(
            optimum=optimum,
            exact_bound=exact_bound,
            dual=dual,
            utility=utility,
            two_alpha=hadar.two_alpha,
            committed_two_alpha=2 * committed.alpha if committed.is_exact else math.inf,
        )

    def _require_order(self, utility: dict[str, float], optimum: float | None, dual: float) -> None:
        best = max(utility.values())
        least, most = optimum if optimum is not None else best, dual * (1 + TOLERANCE)
        if best > least * (1 + TOLERANCE) or least > most:
            raise SimulationError(
                f"{self}: utility {best}, optimum {optimum} and dual bound {dual} are out of order"
            )


def cases(setting: Setting) -> list[OfflineCase]:
    """Return what the page is made of."""
    small = [
        OfflineCase(is_small=True, seed=seed) for seed in range(SMALL_FOR_EACH_SEED * setting.seeds)
    ]
    return [*small, *(OfflineCase(is_small=False, seed=seed) for seed in range(setting.seeds))]


def page(results: Results) -> Page:
    """Return the page."""
    small, large = (
        [
            found
            for case in cases(results.setting)
            if case.is_small is is_small and (found := results.of(case)) is not None
        ]
        for is_small in (True, False)
    )
    return make_page(small, large)


def make_page(small: Sequence[Found], large: Sequence[Found]) -> Page:
    """Return the page of what was found on small and on large instances."""
    proved = [found for found in small if found.optimum is not None]
    return Page(
        name=NAME,
        title=TITLE,
        picture="competitive_ratio",
        found=(Answer(question=TITLE, sentences=tuple(_sentences(small, proved, large))),),
        data=(
            _table(
                f"Offline optimum over utility, {len(proved)} small instances (proved)",
                [{rule: _over(found.optimum, found, rule) for rule in RULES} for found in proved],
            ),
            _table(
                f"Dual bound over utility, {len(large)} large instances",
                [{rule: _over(found.dual, found, rule) for rule in RULES} for found in large],
            ),
            _instances(small, large),
        ),
        series={
            f"{kind}: {CALLED[rule]}": [
                (place, ratio)
                for place, found in enumerate(of)
                if math.isfinite(ratio := _over(bound(found), found, rule))
            ]
            for kind, of, bound in (("small", proved, _optimum), ("large", large, _dual))
            for rule in RULES
        },
        remarks=(
            f"Small: {SMALL_JOBS} jobs of Gavel's kinds on {SMALL_GPUS_OF_TYPE} GPUs of each of "
            f"{len(TYPES)} types, {SMALL_ROUNDS} rounds; large: {LARGE_JOBS} jobs on 60 GPUs, "
            f"{LARGE_ROUNDS} rounds. Generated by seed; half of the jobs are worth their mean "
            "throughput, half a value up to a deadline and a fifth of it later. The small ones are "
            f"solved by {EXACT} within {LONGEST_PROOF_S:g} s or counted as not proved.",
            "The ratio of the large ones is an upper bound on the true one: the dual bound may be "
            "far above the optimum. On the small ones that were proved it is "
            f"{_dual_over_optimum(proved)} times the optimum.",
            "2 alpha is a theorem for the committed rule alone, which lets each job buy a whole "
            "schedule on arrival and never takes it back. Hadar itself decides anew each round "
            "and has no theorem; the number that its prices give stands beside its ratio for "
            "comparison. Its form is from memory. That of the committed rule says nothing here: "
            "the constant of its proof is exponential where a gang may take a whole server, and "
            "small only where gangs are.",
            "The constants of the committed rule need the jobs that are to come; the other rules "
            "see a job when it is released. Gavel, Tiresias and YARN-CS know no utilities and aim "
            "at something else.",
        ),
    )


def _optimum(found: Found) -> float | None:
    return found.optimum


def _dual(found: Found) -> float | None:
    return found.dual


def _over(bound: float | None, found: Found, rule: str) -> float:
    """Return a bound over the utility of a rule; infinite without utility, NaN if not run."""
    if bound is None or rule not in found.utility:
        return math.nan
    utility = found.utility[rule]
    return bound / utility if utility > 0 else math.inf


def _sentences(
    small: Sequence[Found], proved: Sequence[Found], large: Sequence[Found]
) -> list[str]:
    sentences = []
    if proved:
        of = [_over(found.optimum, found, HADAR) for found in proved]
        exact = sum(ratio <= 1 + 1e-6 for ratio in of)
        alpha = statistics.median(found.two_alpha for found in proved)
        sentences.append(
            f"Near: on {len(proved)} small instances with a proved optimum it is "
            f"{statistics.geometric_mean(of):.3f} times what Hadar reaches (geometric mean; at "
            f"most {max(of):.2f}, {exact} times exactly 1), where 2 alpha would allow "
            f"{alpha:.3g} (median). Not proved within {LONGEST_PROOF_S:g} s, and left out: "
            f"{len(small) - len(proved)} of {len(small)}."
        )
        committed = [_over(found.optimum, found, COMMITTED) for found in proved]
        finite = [ratio for ratio in committed if math.isfinite(ratio)]
        if finite:
            theorem = statistics.median(found.committed_two_alpha for found in proved)
            sentences.append(
                "The committed rule, the one that the theorem is about, is at "
                f"{statistics.geometric_mean(finite):.3f} (at most {max(finite):.2f}; its 2 alpha "
                f"is {_short(theorem)} in the median): the guarantee is bought with utility."
            )
    elif small:
        sentences.append(f"None of {len(small)} small instances was proved in time.")
    if large:
        of = [_over(found.dual, found, HADAR) for found in large]
        alpha = statistics.median(found.two_alpha for found in large)
        sentences.append(
            f"On {len(large)} large instances the dual bound is "
            f"{statistics.geometric_mean(of):.3f} times what Hadar reaches, so that the optimum is "
            f"at most that (2 alpha: {_short(alpha)})."
        )
    return sentences


def _table(title: str, ratios: Sequence[dict[str, float]]) -> Table:
    rows = []
    for rule in RULES:
        of = [each[rule] for each in ratios if not math.isnan(each[rule])]
        finite = [ratio for ratio in of if math.isfinite(ratio)]
        if not finite:
            rows.append([CALLED[rule], *[MISSING] * 4])
            continue
        rows.append(
            [
                CALLED[rule],
                f"{statistics.geometric_mean(finite):.3f}",
                f"{statistics.median(of):.3f}",
                f"{max(finite):.3f}",
                str(len(of) - len(finite)),
            ]
        )
    header = ["rule", "geometric mean", "median", "worst", "without any utility"]
    return Table(title=title, header=header, rows=rows)


def _instances(small: Sequence[Found], large: Sequence[Found]) -> Table:
    rows = []
    for kind, of in (("small", small), ("large", large)):
        for number, found in enumerate(of):
            rows.append(
                [
                    f"{kind}, seed {number}",
                    f"{found.utility[HADAR]:.4g}",
                    MISSING if found.optimum is None else f"{found.optimum:.4g}",
                    f"{found.dual:.4g}",
                    f"{found.dual / found.utility[HADAR]:.3f}",
                    _short(found.two_alpha),
                    _short(found.committed_two_alpha),
                ]
            )
    header = ["instance", "Hadar", "proved optimum", "dual bound", "dual / Hadar"]
    return Table(
        title="Every instance",
        header=[*header, "2 alpha", "2 alpha, committed"],
        rows=rows,
    )


def _dual_over_optimum(proved: Sequence[Found]) -> str:
    of = [found.dual / found.optimum for found in proved if found.optimum]
    return f"{statistics.geometric_mean(of):.3f}" if of else MISSING


def _short(value: float) -> str:
    return f"{value:.3g}"
