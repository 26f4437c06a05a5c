"""Proofs of solutions that were found: searched, checked by the stand-alone checker, written."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import UserError
from lyra_opt.proofs.prover import NotProved, Prover
from lyra_opt.proofs.stand_alone import (
    PROOF_FORMAT,
    PROOF_VERSION,
    check,
    content_hash,
    cost_of,
    programme_of,
    proved_cost,
)

if TYPE_CHECKING:
    from lyra_opt.core.documents import JsonObject
    from lyra_opt.core.instance import ProblemInstance
    from lyra_opt.core.problem import Problem


def proof_of(
    problem: Problem, instance: ProblemInstance, document: JsonObject, solution: Any
) -> JsonObject:
    """Return the proof that no solution of an instance is better than one that was found.

    Parameters
    ----------
    problem, instance
        What was solved.
    document
        The instance as its file has it; the proof is one of this document.
    solution
        Valid.

    Returns
    -------
    JsonObject
        As of ``docs/proofs.md``; `lyra_opt.proofs.stand_alone.check` accepts it.

    Raises
    ------
    UserError
        If the problem has no proofs of this kind, or some solution is better, or none was found.
    OutOfTimeError
        If the time limit in force is over.

    Notes
    -----
    Complexity: that of branch and bound, see `lyra_opt.proofs.prover.Prover`.
    """
    hints = problem.proof_hints(instance)
    if hints is None:
        raise UserError(f"no proof of {instance.name}: {problem.name} has none for this objective")
    given = problem.proof_point(instance, solution)
    try:
        without_hints = programme_of(document, {"solution": given})
    except ValueError as error:  # it is too large
        raise UserError(f"no proof of {instance.name}: {error}") from None
    known = set(without_hints.names)
    point = {name: value for name, value in given.items() if name in known}
    cost = cost_of(without_hints, point)
    programme = programme_of(document, {**hints, "solution": point})
    slack = 0 if programme.is_integral else Fraction(problem.proof_slack(instance))
    prover = Prover(programme, cost - slack * abs(cost))
    try:
        prover.prove()
    except NotProved as error:
        raise UserError(f"no proof of {instance.name}: {error}") from None
    bound = prover.target
    if programme.is_continuous:  # which may prove more
        shown = proved_cost(programme, {"denominator": prover.denominator, "nodes": prover.nodes})
        assert shown is not None, "there is a point"
        bound = _rounded_down(shown)
    proof = {
        "format": PROOF_FORMAT,
        "version": PROOF_VERSION,
        "instance": instance.name,
        "sha256": content_hash(document),
        "bound": str(programme.sense * bound),
        "solution": point,
        **hints,
        "denominator": prover.denominator,
        "nodes": prover.nodes,
    }
    check(document, proof)
    return proof


def _rounded_down(value: Fraction) -> Fraction:
    """Return the largest double that is at most a fraction."""
    nearest = float(value)
    return Fraction(nearest if nearest <= value else math.nextafter(nearest, -math.inf))
