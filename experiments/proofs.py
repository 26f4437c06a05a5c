"""Combine the results of all runs on an instance into proved optima, and find contradictions."""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from itertools import groupby

from lyra_opt.core.errors import UserError
from lyra_opt.core.evidence import Claim, Evidence
from lyra_opt.core.problem import Sense, Variant, find_problem
from lyra_opt.core.result import Number, Status
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import OWN_BOUND
from lyra_opt.core.witnesses import OWN_ENGINE, engine_of
from lyra_opt.experiments.records import SolverRecord
from lyra_opt.experiments.study_cells import LIBRARY
from lyra_opt.instances.library import library

RECORD = "the record of the library"


class Proofs:
    """The proved optimum and the best dual bound of each instance of a study, from all its runs.

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
        """The optimum of each instance with a proved optimum, by the key of the instance.

        An optimum is proved if the best bound of all runs equals the best objective, or if the
        family knows it by construction. The library's record counts as a run.
        """
        return {
            cell: evidence.optimum
            for cell, evidence in self._evidence.items()
            if evidence.optimum is not None
        }

    def of_cell(self, cell: str) -> Evidence | None:
        """Return the combined results of all runs on an instance; None without an instance."""
        return self._evidence.get(cell)

    @cached_property
    def witnesses(self) -> Mapping[str, frozenset[str]]:
        """The independent methods that prove each proved optimum, by the key of the instance.

        A reference solver counts as its engine, so two references with the same engine are one
        method. All other solvers count as the problem's own bound. A family with a known optimum
        counts as the method "construction", and the library's record as a method of its own.
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
        """Return the columns computed from all runs on an instance, such as the gap to its optimum.

        `lyra_opt.experiments.frames.load_study` explains the columns.
        """
        return {
            "optimum": [self.optima.get(run.cell) for run in self._runs],
            "excess_percent": [self.excess_percent(run) for run in self._runs],
            "largest_excess_percent": [self.largest_excess_percent(run) for run in self._runs],
            "excess_over_best_percent": [self.excess_over_best_percent(run) for run in self._runs],
        }

    def excess_percent(self, run: SolverRecord) -> float:
        """Return the gap of a run's objective to the proved optimum in percent.

        Infinity over an optimum of 0, or over an optimum of several terms; NaN without a solution
        or a proved optimum.
        """
        return self.largest_excess_percent(run) if run.cell in self.optima else math.nan

    def largest_excess_percent(self, run: SolverRecord) -> float:
        """Return an upper bound on the gap of a run's objective to the optimum in percent.

        NaN without a solution; infinity without a bound, or above a bound of several terms.
        """
        if run.objective is None or run.status is Status.ERROR:
            return math.nan
        gap = self._evidence[run.cell].gap_to_optimum_at_most(run.objective)
        return math.inf if gap is None else _percent(run, gap)

    def excess_over_best_percent(self, run: SolverRecord) -> float:
        """Return a run's gap to the best known objective in percent; NaN without a solution."""
        if run.objective is None or run.status is Status.ERROR:
            return math.nan
        gap = self._evidence[run.cell].gap_to_best(run.objective)
        assert gap is not None, "the run has an objective"
        return _percent(run, gap)


def _percent(run: SolverRecord, gap: float) -> float:
    """Return a gap in percent; infinity for a gap between objectives of several terms."""
    return math.inf if gap and (run.terms or 1) > 1 else 100 * gap


@cache
def _method(problem: str, solver: str) -> str:
    """Return the engine of a reference solver; its own name if it is not installed."""
    try:
        engine = engine_of(find_solver(problem, solver))
    except UserError:
        return solver
    return OWN_BOUND if engine == OWN_ENGINE else engine


def evidence_of(runs: Sequence[SolverRecord]) -> Evidence | None:
    """Combine the results of the runs on one instance; return None if it was never generated."""
    variant = next((variant for run in runs if (variant := variant_of(run)) is not None), None)
    if variant is None:
        return None
    known = (run.known_optimum for run in runs if run.known_optimum is not None)
    claims = [Claim(run.configuration, run.status, run.objective, run.dual_bound) for run in runs]
    recorded = claim_of_record(runs[0])
    return Evidence(claims if recorded is None else [*claims, recorded], variant, next(known, None))


def claim_of_record(run: SolverRecord) -> Claim | None:
    """Return the library's best known value and bound for a run's instance; None if unknown."""
    if run.family != LIBRARY:
        return None
    name = str(run.family_parameters[LIBRARY])
    best = library().known.get(name)
    if best is None or run.content_sha256 not in (None, library().entry(name).sha256):
        return None
    status = Status.INFEASIBLE if best.status == Status.INFEASIBLE else Status.FEASIBLE
    return Claim(RECORD, status, best.best_known, best.best_bound)


def variant_of(run: SolverRecord) -> Variant | None:
    """Return the variant of a run's instance; None if the instance was never generated."""
    return None if run.variant is None else find_problem(run.problem).variants(run.variant)


def sense_of(run: SolverRecord) -> Sense | None:
    """Return whether a run's objective is minimised or maximised; None without an instance."""
    variant = variant_of(run)
    return None if variant is None else variant.sense


def find_contradictions(runs: Sequence[SolverRecord]) -> list[str]:
    """Return one line for each contradiction between results of different runs on one instance.

    Contradictions are those of `lyra_opt.core.evidence.Evidence.contradictions`, and runs of one
    cell on different instances. Failed runs claim nothing.
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
