"""What all runs on an instance prove together, and results that cannot all be right."""

from __future__ import annotations

import math
from functools import cache, cached_property
from itertools import groupby
from typing import TYPE_CHECKING

from lyra_opt.core.errors import UserError
from lyra_opt.core.evidence import Claim, Evidence
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Status
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import OWN_BOUND
from lyra_opt.core.witnesses import OWN_ENGINE, engine_of
from lyra_opt.experiments.study_cells import LIBRARY
from lyra_opt.instances.library import library

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lyra_opt.core.problem import Sense, Variant
    from lyra_opt.core.result import Number
    from lyra_opt.experiments.records import SolverRecord

RECORD = "the record of the library"


class Proofs:
    """The proved optimum and the best bound of each instance, by cell.

    Parameters
    ----------
    runs
        All stored runs.
    """

    def __init__(self, runs: Sequence[SolverRecord]) -> None:
        self._runs = runs
        of_cell: dict[str, list[SolverRecord]] = {}
        for run in runs:
            of_cell.setdefault(run.cell, []).append(run)
        self._evidence = {
            cell: evidence
            for cell, of_one in of_cell.items()
            if (evidence := evidence_of(of_one)) is not None
        }

    @cached_property
    def optima(self) -> Mapping[str, Number]:
        """The best objective, where the best bound meets it.

        Or the optimum that the family knows by construction. What the record of the library has
        of an instance counts as a run.
        """
        return {
            cell: evidence.optimum
            for cell, evidence in self._evidence.items()
            if evidence.optimum is not None
        }

    def of_cell(self, cell: str) -> Evidence | None:
        """Return what is proved of an instance; None if it was never made."""
        return self._evidence.get(cell)

    @cached_property
    def witnesses(self) -> Mapping[str, frozenset[str]]:
        """The methods that prove the optimum, each by itself, where it is proved.

        References stand for what they run, so that two of one engine are one method; all other
        solvers for the problem's own bound, a family that knows the optimum for its
        construction, and the record of the library for itself.
        """
        found: dict[str, set[str]] = {cell: set() for cell in self.optima}
        for run in self._runs:
            optimum = self.optima.get(run.cell)
            if optimum is None:
                continue
            if run.known_optimum is not None:
                found[run.cell].add("construction")
            recorded = claim_of_record(run)
            if (
                recorded is not None
                and recorded.dual_bound is not None
                and self._evidence[run.cell].prove(recorded.dual_bound, optimum)
            ):
                found[run.cell].add(RECORD)
            if run.status is Status.ERROR or run.dual_bound is None:
                continue
            if self._evidence[run.cell].prove(run.dual_bound, optimum):
                found[run.cell].add(
                    _method(run.problem, run.solver) if run.reference else OWN_BOUND
                )
        return {cell: frozenset(methods) for cell, methods in found.items()}

    def columns(self) -> dict[str, list[Number | None]]:
        """Return what is known of each run beside its row; see `load_study` for the columns."""
        return {
            "optimum": [self.optima.get(run.cell) for run in self._runs],
            "excess_percent": [self.excess_percent(run) for run in self._runs],
            "largest_excess_percent": [self.largest_excess_percent(run) for run in self._runs],
            "excess_over_best_percent": [self.excess_over_best_percent(run) for run in self._runs],
        }

    def excess_percent(self, run: SolverRecord) -> float:
        """Return how far a run's objective is from the proved optimum; infinity if that is 0.

        NaN without a solution or without a proved optimum.
        """
        return self.largest_excess_percent(run) if run.cell in self.optima else math.nan

    def largest_excess_percent(self, run: SolverRecord) -> float:
        """Return how far a run's objective can at most be from the optimum, proved or not.

        NaN without a solution; infinity without a bound.
        """
        if run.objective is None or run.status is Status.ERROR:
            return math.nan
        gap = self._evidence[run.cell].gap_to_optimum_at_most(run.objective)
        return math.inf if gap is None else 100 * gap

    def excess_over_best_percent(self, run: SolverRecord) -> float:
        """Return how far a run's objective is from the best one; NaN without a solution."""
        if run.objective is None or run.status is Status.ERROR:
            return math.nan
        gap = self._evidence[run.cell].gap_to_best(run.objective)
        assert gap is not None, "its own objective is known"
        return 100 * gap


@cache
def _method(problem: str, solver: str) -> str:
    """Return what a reference stands for; a solver that is not installed here for itself."""
    try:
        engine = engine_of(find_solver(problem, solver))
    except UserError:
        return solver
    return OWN_BOUND if engine == OWN_ENGINE else engine


def evidence_of(runs: Sequence[SolverRecord]) -> Evidence | None:
    """Return what the runs on one instance prove together; None if it was never made."""
    variant = next((variant for run in runs if (variant := variant_of(run)) is not None), None)
    if variant is None:
        return None
    known = (run.known_optimum for run in runs if run.known_optimum is not None)
    claims = [Claim(run.configuration, run.status, run.objective, run.dual_bound) for run in runs]
    recorded = claim_of_record(runs[0])
    return Evidence(claims if recorded is None else [*claims, recorded], variant, next(known, None))


def claim_of_record(run: SolverRecord) -> Claim | None:
    """Return what the record of the library has of a run's instance; None if it is not of it."""
    if run.family != LIBRARY:
        return None
    name = str(run.family_parameters[LIBRARY])
    best = library().known.get(name)
    if best is None or run.content_sha256 not in (None, library().entry(name).sha256):
        return None
    return Claim(RECORD, Status.FEASIBLE, best.best_known, best.best_bound)


def variant_of(run: SolverRecord) -> Variant | None:
    """Return what was asked of the instance; None if it was never made."""
    return None if run.variant is None else find_problem(run.problem).variants(run.variant)


def sense_of(run: SolverRecord) -> Sense | None:
    """Return which way its objective is better; None if the instance was never made."""
    variant = variant_of(run)
    return None if variant is None else variant.sense


def find_contradictions(runs: Sequence[SolverRecord]) -> list[str]:
    """Return one line for each way in which results of one instance contradict one another.

    Those that `lyra_opt.core.evidence.Evidence.contradictions` names, and equal cells that are
    not equal instances. Runs that ended in an error claim nothing.
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
    evidence = evidence_of(runs)
    if evidence is not None:
        yield from (contradiction.sentence for contradiction in evidence.contradictions())
    first = runs[0]
    for other in runs[1:]:
        if other.content_sha256 != first.content_sha256:
            yield (
                f"{first.configuration} and {other.configuration} ran on different instances: "
                f"content {first.content_sha256} and {other.content_sha256}"
            )
            return
