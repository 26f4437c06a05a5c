"""From runs to a record: best solutions and bounds, grades, and what proves them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.core.errors import UserError
from lyra_opt.core.evidence import Claim, Evidence
from lyra_opt.core.result import Status
from lyra_opt.instances.library.records import (
    EASY_LIMIT_S,
    BestKnown,
    Grade,
    MethodRun,
    Proof,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.core.variant import Variant
    from lyra_opt.experiments.library.runs import Run

CERTIFICATE = "certificate"
"""By which a bound is proved that no run has."""


def best_known(
    name: str, runs: Sequence[Run], variant: Variant, who: str, certificate: str | None
) -> BestKnown:
    """Return what runs on an instance show together.

    Parameters
    ----------
    who
        That ran them.
    certificate
        File of a certificate that the best solution is an optimum, None without one.

    Raises
    ------
    UserError
        If runs contradict one another, or none found a solution.
    """
    claims = [Claim(run.method, Status(run.status), run.objective, run.dual_bound) for run in runs]
    evidence = Evidence(claims, variant)
    contradiction = next(evidence.contradictions(), None)
    if contradiction is not None:
        raise UserError(f"{name}: {contradiction.sentence}")
    if evidence.best is None or evidence.best.objective is None:
        raise UserError(f"{name}: no solution was found")
    value, bound = evidence.best.objective, evidence.tightest
    best_bound = None if bound is None else bound.dual_bound
    bound_with = None if bound is None else bound.by
    is_proved = certificate is not None or evidence.optimum is not None
    if certificate is not None and evidence.optimum is None:
        best_bound, bound_with = value, CERTIFICATE
    provers: dict[str, str] = {}
    for run in runs:
        if run.dual_bound is not None and evidence.prove(value, run.dual_bound):
            provers.setdefault(run.engine, run.method)
    proof = Proof.NONE
    if certificate is not None:
        proof = Proof.CERTIFICATE
    elif is_proved:
        proof = Proof.TWO_METHODS if len(provers) > 1 else Proof.ONE_METHOD
    alone = list(
        {run.method: run for run in _by_limit(runs) if run.is_exact and not run.is_started}.values()
    )
    return BestKnown(
        id=name,
        grade=_grade(alone, is_proved=is_proved),
        best_known=value,
        found_by=who,
        found_with=evidence.best.by,
        best_bound=best_bound,
        bound_by=None if bound_with is None else who,
        bound_with=bound_with,
        proof=proof,
        proved_with=tuple(provers.values()),
        proof_file=certificate,
        runs=tuple(
            MethodRun(
                method=run.method,
                engine=run.engine,
                status=run.status,
                objective=run.objective,
                dual_bound=run.dual_bound,
                time_limit_s=run.time_limit_s,
                time_s=round(run.time_s, 4),
            )
            for run in alone
        ),
    )


def _by_limit(runs: Sequence[Run]) -> list[Run]:
    """Return runs by rising limit: what a method did last is what it did with the most time."""
    return sorted(runs, key=lambda run: run.time_limit_s)


def _grade(alone: Sequence[Run], *, is_proved: bool) -> Grade:
    """Return the grade by the rule of `lyra_opt.instances.library.records`."""
    if not is_proved:
        return Grade.OPEN
    is_quick = all(run.status == Status.OPTIMAL and run.time_s <= EASY_LIMIT_S for run in alone)
    has_two = len({run.engine for run in alone}) > 1
    return Grade.EASY if is_quick and has_two else Grade.HARD
