"""Solutions of one instance drawn side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import UserError
from lyra_opt.core.loading import content_hash
from lyra_opt.core.problem import find_problem
from lyra_opt.instances.family import find_family

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from lyra_opt.experiments.analysis import Analysis
    from lyra_opt.experiments.records import SolverRecord

LARGEST_DRAWN = 12
"""Size of an instance up to which a reader can follow every part of it."""


def draw_solutions(
    analysis: Analysis, configurations: Sequence[str]
) -> tuple[SolverRecord, Figure] | None:
    """Draw what two configurations did on the instance on which they differ most.

    Parameters
    ----------
    configurations
        Those that the study is about; the first is held against whichever of the others is
        furthest from it.

    Returns
    -------
    tuple or None
        A run of the instance, and the figure. None if there are fewer than two configurations, or
        no small instance on which they differ can be generated again.
    """
    runs = {(run.cell, run.configuration): run for run in analysis.runs}
    pairs = [
        (first, other)
        for first in analysis.runs
        if first.configuration in configurations[:1] and (first.size or 0) <= LARGEST_DRAWN
        for configuration in configurations[1:]
        if (other := runs.get((first.cell, configuration))) is not None
    ]
    for first, other in sorted(pairs, key=_difference, reverse=True):
        if _difference((first, other)) == 0:
            return None
        drawn = _drawn(first, other)
        if drawn is not None:
            return first, drawn
    return None


def _difference(pair: tuple[SolverRecord, SolverRecord]) -> float:
    """Return by how much the objectives differ, relative to the smaller one."""
    first, other = (run.objective for run in pair)
    if first is None or other is None or min(first, other) <= 0:
        return 0.0
    return abs(first - other) / min(first, other)


def _drawn(first: SolverRecord, other: SolverRecord) -> Figure | None:
    problem = find_problem(first.problem)
    instance = _generated_again(first)
    if instance is None:
        return None
    solutions = {
        run.configuration: problem.parse_solution(dict(run.solution))[0]
        for run in (first, other)
        if run.solution is not None
    }
    return problem.drawing_of(instance, solutions).figure() if len(solutions) == 2 else None


def _generated_again(run: SolverRecord) -> Any | None:
    """Return the instance of a run; None if its family is gone or now makes another one."""
    if run.trace_name is not None:
        return None  # a report needs no trace
    try:
        family = find_family(run.problem, run.family)
        instance = family.generate(dict(run.family_parameters), run.seed)
    except UserError:
        return None
    is_same = content_hash(find_problem(run.problem), instance) == run.content_sha256
    return instance if is_same else None
