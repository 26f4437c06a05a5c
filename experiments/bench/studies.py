"""The figures that come from runs of studies: `exact` alone, and beside general solvers."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from experiments.bench.reclaim import FLEET, LOOSE_BOUND_FAMILY
from experiments.bench.timing import Figure, timed_figure
from experiments.speed import counted_proof_times_s, geometric_mean_ratio
from lyra_opt.result import Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from experiments.records import SolverRecord

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

LISTED = 5
"""Instances that a remark names."""


def exact_figures(runs: Sequence[SolverRecord]) -> Iterator[Figure]:
    """Yield the figures of the study ``reclaim-exact``; those without a run are left out."""
    realistic = [run for run in runs if run.family_group == "realistic"]
    fleet = [run for run in realistic if run.size == FLEET]
    loose = [run for run in fleet if run.family == LOOSE_BOUND_FAMILY]
    parts = (
        (
            f"exact, realistic families, up to {SMALL_FLEET} servers",
            [run for run in realistic if (run.size or 0) <= SMALL_FLEET],
            SMALL_FLEET_TARGET_S,
        ),
        (
            f"exact, realistic families but {LOOSE_BOUND_FAMILY}, {FLEET} servers",
            [run for run in fleet if run.family != LOOSE_BOUND_FAMILY],
            FLEET_TARGET_S,
        ),
        (f"exact, {LOOSE_BOUND_FAMILY}, {FLEET} servers", loose, LOOSE_BOUND_TARGET_S),
        (
            "exact, adversarial families, 50 servers",
            [run for run in runs if run.family_group == "adversarial"],
            ADVERSARIAL_TARGET_S,
        ),
        (
            "exact, net and net-joined, orders 7 to 13",
            [run for run in runs if run.family_group == "net"],
            ADVERSARIAL_TARGET_S,
        ),
        (
            f"exact, interchangeable {LOOSE_BOUND_FAMILY}, 300 servers, half of them to return",
            [run for run in runs if run.family_group == "interchangeable"],
            LOOSE_BOUND_TARGET_S,
        ),
    )
    if fleet:
        yield timed_figure(
            f"exact, realistic families, {FLEET} servers", _times_s(fleet), FLEET_MEDIAN_TARGET_S
        )
    for what, chosen, target_s in parts:
        if chosen:
            yield _proved_within(what, chosen, target_s)


def _proved_within(what: str, runs: Sequence[SolverRecord], target_s: float) -> Figure:
    """Return how many runs prove their instance in time; all are meant to."""
    times_s = _times_s(runs)
    late = [
        run
        for run, time_s in zip(runs, times_s, strict=True)
        if run.status is not Status.OPTIMAL or time_s > target_s
    ]
    return replace(
        timed_figure(what, times_s),
        statistic=f"proved within {target_s:g} s:",
        measured=len(runs) - len(late),
        target=len(runs),
        at_least=True,
        remark=_listed(late),
    )


def _times_s(runs: Sequence[SolverRecord]) -> list[float]:
    """Return the times; a run whose worker died, so that it has none, took for ever."""
    return [inf if run.wall_time_s is None else run.wall_time_s for run in runs]


def _listed(runs: Sequence[SolverRecord]) -> str:
    named = [
        f"{run.cell}, {run.status}, objective {run.objective}, bound {run.dual_bound}, "
        f"{run.wall_time_s or 0.0:.3g} s"
        for run in runs[:LISTED]
    ]
    if len(runs) > LISTED:
        named.append(f"and {len(runs) - LISTED} more")
    return ("not: " if runs else "") + "; ".join(named)


def comparison_figures(runs: Sequence[SolverRecord]) -> Iterator[Figure]:
    """Yield the figures of the study ``reclaim-speed``."""
    of_exact = [run for run in runs if run.configuration == YARDSTICK]
    of_rivals = [run for run in runs if run.configuration in GENERAL_SOLVERS]
    realistic = {run.cell for run in runs if run.family_group == "realistic"}
    best: dict[str, float] = {}
    for name in GENERAL_SOLVERS:
        times_s = counted_proof_times_s(run for run in of_rivals if run.configuration == name)
        for cell, time_s in times_s.items():
            best[cell] = min(time_s, best.get(cell, time_s))
    ratio = geometric_mean_ratio(
        {cell: time_s for cell, time_s in best.items() if cell in realistic},
        counted_proof_times_s(of_exact),
    )
    if ratio is not None:
        yield Figure(
            what="best general solver of each instance against exact, realistic families",
            runs=len(realistic),
            statistic="geometric mean of the ratios of times to proof",
            measured=ratio,
            target=RATIO_TARGET,
            at_least=True,
            remark=f"best of {', '.join(GENERAL_SOLVERS)}; unproved counts as the limit",
        )
    proved_by_rivals = {run.cell for run in of_rivals if run.status is Status.OPTIMAL}
    missed = [
        run for run in of_exact if run.status is not Status.OPTIMAL and run.cell in proved_by_rivals
    ]
    if of_exact and of_rivals:
        yield Figure(
            what="instances that a general solver proves and exact does not",
            runs=len(of_exact),
            statistic="instances:",
            measured=len(missed),
            target=0,
            remark=_listed(missed),
        )
