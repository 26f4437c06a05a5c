"""The figures that come from runs of studies: `exact` alone, and beside general solvers."""

from __future__ import annotations

from math import exp, inf
from typing import TYPE_CHECKING

from lyra_opt.core.result import Status
from lyra_opt.experiments.analysis import counted_proof_time_s, log_ratio
from lyra_opt.experiments.bench.reclaim import FLEET, LOOSE_BOUND_FAMILY
from lyra_opt.experiments.bench.timing import Figure, timed_figure
from lyra_opt.experiments.bench.trials import listed, proved_within

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

YARDSTICK = "exact"
GENERAL_SOLVERS = ("pulp-highs", "pulp-highs-strengthened", "cpsat", "cpsat-strengthened")
"""HiGHS and CP-SAT, plain and strengthened: the best of them on each instance is the rival."""

SMALL_FLEET = 200
SMALL_FLEET_TARGET_S = 0.5
FLEET_MEDIAN_TARGET_S = 3e-3
FLEET_TARGET_S = 0.2
LOOSE_BOUND_TARGET_S = 60.0
ADVERSARIAL_TARGET_S = 5.0
RATIO_TARGET = 10.0


def exact_figures(runs: pd.DataFrame) -> Iterator[Figure]:
    """Yield the figures of the study ``reclaim-exact``; those without a run are left out.

    Parameters
    ----------
    runs
        The frame of its analysis.
    """
    # A run whose worker died, so that it has no time, took for ever.
    runs = runs.assign(instance=runs.cell, time_s=runs.wall_time_s.fillna(inf))
    group = runs.family_group
    realistic = runs[group == "realistic"]
    fleet = realistic[realistic["size"] == FLEET]
    is_loose = fleet.family == LOOSE_BOUND_FAMILY
    parts = (
        (
            f"exact, realistic families, up to {SMALL_FLEET} servers",
            realistic[~(realistic["size"] > SMALL_FLEET)],
            SMALL_FLEET_TARGET_S,
        ),
        (
            f"exact, realistic families but {LOOSE_BOUND_FAMILY}, {FLEET} servers",
            fleet[~is_loose],
            FLEET_TARGET_S,
        ),
        (f"exact, {LOOSE_BOUND_FAMILY}, {FLEET} servers", fleet[is_loose], LOOSE_BOUND_TARGET_S),
        (
            "exact, adversarial families, 50 servers",
            runs[group == "adversarial"],
            ADVERSARIAL_TARGET_S,
        ),
        (
            "exact, net and net-joined, orders 7 to 13",
            runs[group == "net"],
            ADVERSARIAL_TARGET_S,
        ),
        (
            f"exact, interchangeable {LOOSE_BOUND_FAMILY}, 300 servers, half of them to return",
            runs[group == "interchangeable"],
            LOOSE_BOUND_TARGET_S,
        ),
    )
    if len(fleet):
        yield timed_figure(
            f"exact, realistic families, {FLEET} servers",
            list(fleet.time_s),
            FLEET_MEDIAN_TARGET_S,
        )
    for what, chosen, target_s in parts:
        if len(chosen):
            yield proved_within(what, chosen, target_s)


def comparison_figures(runs: pd.DataFrame) -> Iterator[Figure]:
    """Yield the figures of the study ``reclaim-speed``, of the frame of its analysis."""
    counted = runs.assign(
        instance=runs.cell, time_s=runs.wall_time_s, counted_s=counted_proof_time_s(runs)
    )
    of_exact = counted[counted.configuration == YARDSTICK].set_index("cell", drop=False)
    of_rivals = counted[counted.configuration.isin(GENERAL_SOLVERS)]
    realistic = runs.cell[runs.family_group == "realistic"].unique()
    best = of_rivals[of_rivals.cell.isin(realistic)].groupby("cell").counted_s.min()
    logarithms = log_ratio(best, of_exact.counted_s.reindex(best.index)).dropna()
    if len(logarithms):
        yield Figure(
            what="best general solver of each instance against exact, realistic families",
            runs=len(realistic),
            statistic="geometric mean of the ratios of times to proof",
            measured=exp(logarithms.mean()),
            target=RATIO_TARGET,
            at_least=True,
            remark=f"best of {', '.join(GENERAL_SOLVERS)}; unproved counts as the limit",
        )
    proved_by_rivals = of_rivals.cell[of_rivals.status == Status.OPTIMAL]
    missed = of_exact[(of_exact.status != Status.OPTIMAL) & of_exact.index.isin(proved_by_rivals)]
    if len(of_exact) and len(of_rivals):
        yield Figure(
            what="instances that a general solver proves and exact does not",
            runs=len(of_exact),
            statistic="instances:",
            measured=len(missed),
            target=0,
            remark=listed(missed),
        )
