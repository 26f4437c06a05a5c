"""Results that cannot all be right: checked after every study and in every report."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from lyra_opt.core.result import Status, same_value
from lyra_opt.experiments.proofs import minimises

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lyra_opt.core.result import Number
    from lyra_opt.experiments.records import SolverRecord


def find_contradictions(runs: Sequence[SolverRecord]) -> list[str]:
    """Return one line for each way in which results of one instance contradict one another.

    No objective may lie beyond another run's bound, which includes that proved optima are
    equal; no instance may be both solved and infeasible; the optimum that a family knows by
    construction must fit every bound and objective; and equal cells must be equal instances.
    Runs that ended in an error claim nothing.
    """
    claims = sorted(
        (run for run in runs if run.status is not Status.ERROR),
        key=lambda run: (run.cell, run.configuration),
    )
    return [
        f"{cell}: {contradiction}"
        for cell, group in groupby(claims, key=lambda run: run.cell)
        for contradiction in _of_one_instance(list(group))
    ]


def _of_one_instance(runs: list[SolverRecord]) -> Iterable[str]:
    """Yield the contradictions of one cell."""
    sign = 1 if minimises(runs[0]) else -1  # turns maximising into minimising
    solved = [(sign * run.objective, run) for run in runs if run.objective is not None]
    bounded = [(sign * run.dual_bound, run) for run in runs if run.dual_bound is not None]
    infeasible = [run for run in runs if run.status is Status.INFEASIBLE]
    best, best_run = min(solved, key=_value, default=(None, None))
    bound, bound_run = max(bounded, key=_value, default=(None, None))
    if best_run and bound_run and _exceeds(bound, best):
        yield (
            f"{best_run.configuration} found objective {best_run.objective}, "
            f"but {bound_run.configuration} ({bound_run.status}) has dual bound "
            f"{bound_run.dual_bound}"
        )
    if best_run and infeasible:
        yield (
            f"{best_run.configuration} found objective {best_run.objective}, "
            f"but {infeasible[0].configuration} claims that there is no solution"
        )
    known = next((sign * run.known_optimum for run in runs if run.known_optimum is not None), None)
    if best_run and known is not None and _exceeds(known, best):
        yield (
            f"{best_run.configuration} found objective {best_run.objective}, "
            f"but the optimum is {sign * known} by construction"
        )
    if bound_run and known is not None and _exceeds(bound, known):
        yield (
            f"{bound_run.configuration} has dual bound {bound_run.dual_bound}, "
            f"but the optimum is {sign * known} by construction"
        )
    first = runs[0]
    for other in runs[1:]:
        if other.content_sha256 != first.content_sha256:
            yield (
                f"{first.configuration} and {other.configuration} ran on different instances: "
                f"content {first.content_sha256} and {other.content_sha256}"
            )
            return


def _value(entry: tuple[Number, SolverRecord]) -> Number:
    return entry[0]


def _exceeds(bound: Number | None, value: Number | None) -> bool:
    """Whether a lower bound lies above a value that is attained."""
    return (
        bound is not None and value is not None and bound > value and not same_value(bound, value)
    )
