"""Files of proofs: searched and written, and read for the stand-alone checker to judge."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedProof:
    """What a proof proves.

    Parameters
    ----------
    file
        That holds it.
    refutation
        Why it does not hold; "" where it does.
    bound, value
        What no solution is better than, and the value of the solution in the proof; None for what
        is not there. Without a solution a proof without a bound says that there is none at all.
    slack
        How far the bound may stay behind the value of an optimum, relative to it.
    """

    file: str
    refutation: str = ""
    bound: Fraction | None = None
    value: Fraction | None = None
    slack: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the proof proves what it claims."""
        return not self.refutation

    @property
    def is_optimal(self) -> bool:
        """Whether the solution is as good as the bound; where no integers are, but for slack."""
        if self.bound is None or self.value is None:
            return False
        return abs(self.value - self.bound) <= Fraction(self.slack) * abs(self.value)

    def in_words(self) -> str:
        """Return it as a line."""
        if not self.holds:
            return f"{self.file}: NOT proved: {self.refutation}"
        if self.bound is None:
            return f"{self.file}: proved: there is no solution"
        told = f"{self.file}: proved: no solution is better than {float(self.bound):.12g}"
        if self.value is None:
            return told
        if self.is_optimal and self.slack <= RELATIVE_TOLERANCE:
            return f"{told}, which the one in the proof reaches"
        optimal = f", optimal within {self.slack:g}" if self.is_optimal else ""
        return f"{told}, and the one in the proof is worth {float(self.value):.12g}{optimal}"

    def as_json_object(self) -> dict[str, Any]:
        """Return the object of ``verify --proof --json``."""
        return {
            "file": self.file,
            "holds": self.holds,
            "refutation": self.refutation or None,
            "bound": None if self.bound is None else float(self.bound),
            "objective": None if self.value is None else float(self.value),
            "is_optimal": self.is_optimal,
        }


def checked(instance_file: str | Path, proof_file: str | Path) -> CheckedProof:
    """Return what a proof proves of an instance.

    Raises
    ------
    InputError
        If either file is none, with file, field and rule.
    """
    loaded = load_instance(instance_file)
    document, proof = read_json_object(instance_file), read_json_object(proof_file)
    return checked_proof(loaded, document, proof, str(proof_file))


def checked_proof(
    loaded: LoadedInstance, document: JsonObject, proof: JsonObject, file: str
) -> CheckedProof:
    """Return what a proof proves of an instance.

    Parameters
    ----------
    loaded, document
        The instance, and as its file has it.
    proof, file
        The proof as a document, and its file.

    Raises
    ------
    InputError
        If the proof is none, with file, field and rule.
    """
    try:
        require_format(proof, PROOF_FORMAT, PROOF_VERSION)
        bound, value = check(document, proof)
        for number in (bound, value):
            float(number or 0)  # shown as a float: OverflowError if there is none
    except FieldError as error:
        raise InputError(file, str(error)) from None
    except Refuted as error:
        return CheckedProof(file=file, refutation=str(error))
    except UNREADABLE as error:
        why = f"{type(error).__name__}: {error}"[:200]
        raise InputError(file, f"is not a proof of its instance: {why}") from None
    slack = loaded.problem.proof_slack(loaded.instance)
    return CheckedProof(file=file, bound=bound, value=value, slack=slack)
