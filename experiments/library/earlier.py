"""What earlier records say of an instance: it counts until something better is found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lyra_opt.core.result import Status, same_value
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import OWN_BOUND
from lyra_opt.core.witnesses import OWN_ENGINE, engine_of
from lyra_opt.experiments.library.grading import CERTIFICATE
from lyra_opt.experiments.library.runs import Run

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from lyra_opt.instances.library.catalogue import Entry
    from lyra_opt.instances.library.records import BestKnown


def remembered(before: BestKnown, entry: Entry, exact: Collection[str]) -> Iterator[Run]:
    """Yield the runs of a record, and its best solution, bound and proofs as runs of their own.

    Parameters
    ----------
    exact
        Methods that are asked for proofs: the runs of those alone tell of grades.
    """
    engines = {run.method: run.engine for run in before.runs}

    def run(method: str, **others: Any) -> Run:
        said: dict[str, Any] = {
            "id": entry.id,
            "sha256": entry.sha256,
            "method": method,
            "engine": engines.get(method) or _engine_of(method, entry.problem),
            "is_exact": False,
            "is_started": True,
            "status": str(Status.UNKNOWN),
            "objective": None,
            "dual_bound": None,
            "time_limit_s": 0.0,
            "time_s": 0.0,
        }
        return Run(**{**said, **others})

    yield run(before.found_with, status=str(Status.FEASIBLE), objective=before.best_known)
    for each in before.runs:
        yield run(
            each.method,
            is_exact=each.method in exact,
            is_started=False,
            status=each.status,
            objective=each.objective,
            dual_bound=each.dual_bound,
            time_limit_s=each.time_limit_s,
            time_s=each.time_s,
        )
    if before.bound_with is not None:
        for method in (before.bound_with, *before.proved_with):
            if method != CERTIFICATE:
                yield run(method, dual_bound=before.best_bound)


def _engine_of(method: str, problem: str) -> str:
    return OWN_ENGINE if method == OWN_BOUND else engine_of(find_solver(problem, method))


def credited(now: BestKnown, before: BestKnown) -> BestKnown:
    """Return what is known now; what is better by rounding alone is whose it was before."""
    if same_value(now.best_known, before.best_known):
        now = replace(
            now,
            best_known=before.best_known,
            found_by=before.found_by,
            found_with=before.found_with,
        )
    bound = before.best_bound
    if bound is not None and now.best_bound is not None and same_value(now.best_bound, bound):
        now = replace(now, best_bound=bound, bound_by=before.bound_by, bound_with=before.bound_with)
    return now
