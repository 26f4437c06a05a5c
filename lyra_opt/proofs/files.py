"""Proof files: find and write proofs, and read them for the stand-alone checker."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import read_json_object, require_format
from lyra_opt.core.errors import FieldError, InputError, UserError
from lyra_opt.core.loading import load_instance
from lyra_opt.core.result import RELATIVE_TOLERANCE
from lyra_opt.proofs.prover import NotProved, Prover
from lyra_opt.proofs.stand_alone import (
    PROOF_FORMAT,
    PROOF_VERSION,
    UNREADABLE,
    Refuted,
    check,
    content_hash,
    cost_of,
    programme_of,
    proved_cost,
)

if TYPE_CHECKING:
    from pathlib import Path

    from lyra_opt.core.documents import JsonObject
    from lyra_opt.core.loading import LoadedInstance
    from lyra_opt.core.problem import Problem, ProblemInstance


def proof_of(
    problem: Problem, instance: ProblemInstance, document: JsonObject, solution: Any
) -> JsonObject:
    """Return the proof that no solution of an instance is better than the given solution.

    Parameters
    ----------
    problem, instance
        The problem and the instance.
    document
        The instance as read from its file, to which the proof refers.
    solution
        A valid solution.

    Returns
    -------
    JsonObject
        A proof as described in ``docs/proofs.md``; `lyra_opt.proofs.stand_alone.check` accepts it.

    Raises
    ------
    UserError
        If the problem has no proofs of this kind, a better solution exists, or no proof was found.
    OutOfTimeError
        If the time limit in force is reached.

    Notes
    -----
    Complexity: that of branch and bound, see `lyra_opt.proofs.prover.Prover`.
    """
    hints = problem.proof_hints(instance)
    if hints is None:
        rule = f"{problem.name} has no proofs for this objective"
        raise UserError(f"no proof of {instance.name}: {rule}")
    given = problem.proof_point(instance, solution)
    try:
        without_hints = programme_of(document, {"solution": given})
    except ValueError as error:  # the programme is too large
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
    if programme.is_continuous:  # the leaf may prove more than the target
        shown = proved_cost(programme, {"denominator": prover.denominator, "nodes": prover.nodes})
        assert shown is not None, "the programme has a feasible point"
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
    """Return the largest 64-bit float that is at most a fraction."""
    nearest = float(value)
    return Fraction(nearest if nearest <= value else math.nextafter(nearest, -math.inf))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedProof:
    """The result of checking a proof file, with its bound or the reason why it fails.

    Parameters
    ----------
    file
        The file of the proof.
    refutation
        Why the proof does not hold; empty if it holds.
    bound, value
        The proved bound, and the value of the proof's solution; None if absent. A proof with
        neither says that no solution exists.
    slack
        Largest relative difference between the bound and the value of an optimum.
    """

    file: str
    refutation: str = ""
    bound: Fraction | None = None
    value: Fraction | None = None
    slack: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the proof proves its claim."""
        return not self.refutation

    @property
    def is_optimal(self) -> bool:
        """Whether the value of the solution equals the bound, within `slack`."""
        if self.bound is None or self.value is None:
            return False
        return abs(self.value - self.bound) <= Fraction(self.slack) * abs(self.value)

    def in_words(self) -> str:
        """Return the result as one line of text."""
        if not self.holds:
            return f"{self.file}: NOT proved: {self.refutation}"
        if self.bound is None:
            return f"{self.file}: proved: no solution exists"
        told = f"{self.file}: proved: no solution is better than {float(self.bound):.12g}"
        if self.value is None:
            return told
        if self.is_optimal and self.slack <= RELATIVE_TOLERANCE:
            return f"{told}, and the proof's solution has this value"
        optimal = f", optimal within {self.slack:g}" if self.is_optimal else ""
        return f"{told}, and the proof's solution has value {float(self.value):.12g}{optimal}"

    def as_json_object(self) -> dict[str, Any]:
        """Return the result as the JSON object of ``verify --proof --json``."""
        return {
            "file": self.file,
            "holds": self.holds,
            "refutation": self.refutation or None,
            "bound": None if self.bound is None else float(self.bound),
            "objective": None if self.value is None else float(self.value),
            "is_optimal": self.is_optimal,
        }


def checked(instance_file: str | Path, proof_file: str | Path) -> CheckedProof:
    """Check a proof file against an instance file.

    Raises
    ------
    InputError
        If either file is not valid; the message names the file, the field and the rule.
    """
    loaded = load_instance(instance_file)
    document, proof = read_json_object(instance_file), read_json_object(proof_file)
    return checked_proof(loaded, document, proof, str(proof_file))


def checked_proof(
    loaded: LoadedInstance, document: JsonObject, proof: JsonObject, file: str
) -> CheckedProof:
    """Check a parsed proof against a parsed instance.

    Parameters
    ----------
    loaded, document
        The instance, and the document from which it was read.
    proof, file
        The proof as a document, and the name of its file.

    Raises
    ------
    InputError
        If the proof is not valid; the message names the file, the field and the rule.
    """
    try:
        require_format(proof, PROOF_FORMAT, PROOF_VERSION)
        bound, value = check(document, proof)
        for number in (bound, value):
            float(number or 0)  # raises OverflowError if it cannot be shown as a float
    except FieldError as error:
        raise InputError(file, str(error)) from None
    except Refuted as error:
        return CheckedProof(file=file, refutation=str(error))
    except UNREADABLE as error:
        why = f"{type(error).__name__}: {error}"[:200]
        raise InputError(file, f"is not a proof of its instance: {why}") from None
    slack = loaded.problem.proof_slack(loaded.instance)
    return CheckedProof(file=file, bound=bound, value=value, slack=slack)
