"""Proofs of solutions that were found: searched, checked by the stand-alone checker, written."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import UserError
from lyra_opt.proofs.prover import NotProved, Prover
from lyra_opt.proofs.stand_alone import (
    PROGRAMMES,
    PROOF_FORMAT,
    PROOF_VERSION,
    check,
    content_hash,
    cost_of,
)

if TYPE_CHECKING:
    from lyra_opt.core.documents import JsonObject
    from lyra_opt.core.instance import ProblemInstance
    from lyra_opt.core.problem import Problem

SLACK = Fraction(1, 10**9)
"""How far the bound of values that are no integers stays behind the solution, relative to it: what
multipliers of a linear programme in floating point can show."""


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
    programme_of = PROGRAMMES[problem.instance_format]
    programme = programme_of(document, dict(hints))
    known = set(programme.names)
    point = {
        name: value
        for name, value in problem.proof_point(instance, solution).items()
        if name in known
    }
    cost = cost_of(programme_of(document, {}), point)
    target = cost if programme.is_integral else cost - SLACK * abs(cost)
    prover = Prover(programme, target)
    try:
        prover.prove()
    except NotProved as error:
        raise UserError(f"no proof of {instance.name}: {error}") from None
    proof = {
        "format": PROOF_FORMAT,
        "version": PROOF_VERSION,
        "instance": instance.name,
        "sha256": content_hash(document),
        "bound": str(programme.sense * target),
        "solution": point,
        **hints,
        "denominator": prover.denominator,
        "nodes": prover.nodes,
    }
    check(document, proof)
    return proof
