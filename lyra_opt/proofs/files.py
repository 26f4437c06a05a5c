"""Proof files: find and write proofs, and read them for the stand-alone checker."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import require_format
from lyra_opt.core.errors import FieldError, InputError, UserError, counted
from lyra_opt.core.result import RELATIVE_TOLERANCE
from lyra_opt.core.solver import find_solver
from lyra_opt.proofs import (
    order_stand_alone,
    preemption_stand_alone,
    reclaim_stand_alone,
    stand_alone,
)
from lyra_opt.proofs.preemption_prover import proof_of_infeasibility, proof_of_optimum
from lyra_opt.proofs.prover import NotProved, Prover, TooManyNodes, proof_head
from lyra_opt.proofs.reclaim_prover import proof_by_jobs
from lyra_opt.proofs.stand_alone import (
    PROOF_FORMAT,
    PROOF_VERSION,
    UNREADABLE,
    check,
    cost_of,
    programme_of,
    proved_cost,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lyra_opt.core.documents import JsonObject
    from lyra_opt.core.loading import LoadedInstance
    from lyra_opt.core.problem import Problem, ProblemInstance
    from lyra_opt.proofs.stand_alone import ProofProgramme

    Value = Fraction | Mapping[str, int]

PREEMPTION, ALLOCATION = "lyra-opt/preemption", "lyra-opt/allocation"
RECLAIM = reclaim_stand_alone.RECLAIM
"""The formats of the instances that other stand-alone checkers read."""
MOST_RIGID_NODES = 200
"""Rigid reclaiming: if more nodes would need multipliers, a tree on jobs is the smaller proof."""

REFUTED = tuple(
    module.Refuted
    for module in (stand_alone, order_stand_alone, preemption_stand_alone, reclaim_stand_alone)
)


def proof_of(
    problem: Problem, instance: ProblemInstance, document: JsonObject, solution: Any
) -> JsonObject:
    """Return the proof that no solution of an instance is better than the given one, or exists.

    Parameters
    ----------
    problem, instance
        The problem and the instance.
    document
        The instance as read from its file, to which the proof refers.
    solution
        A valid solution; None to prove that no solution exists.

    Returns
    -------
    JsonObject
        A proof as described in ``docs/proofs.md``; the stand-alone checker accepts it.

    Raises
    ------
    UserError
        If the problem has no proofs of this kind, the claim is false, or no proof was found.
    OutOfTimeError
        If the time limit in force is reached.

    Notes
    -----
    Complexity: that of branch and bound, see `lyra_opt.proofs.prover.Prover`.
    """
    if problem.instance_format == PREEMPTION:
        if solution is None:
            return proof_of_infeasibility(document, **(problem.proof_hints(instance) or {}))
        terms = getattr(problem.check(instance, solution), "terms", None)
        return proof_of_optimum(document, dict(problem.answer(instance, solution)), terms or {})
    try:
        if _is_mean_jct(problem, instance):
            return _proof_of_orders(problem, instance, document, solution)
        if solution is None:
            return _proof_of_infeasibility(instance, document)
        given = problem.proof_point(instance, solution)
        if given is None:
            return _proof_of_rounds(problem, instance, document, solution)
        return _proof_of_point(problem, instance, document, given)
    except NotProved as error:
        raise UserError(f"cannot prove the answer of {instance.name}: {error}") from None


def _programme(document: JsonObject, known: JsonObject) -> ProofProgramme:
    """Return the programme of an instance; raise `NotProved` if it is too large."""
    try:
        return programme_of(document, known)
    except ValueError as error:
        raise NotProved(str(error)) from None


def _proof_of_point(
    problem: Problem, instance: ProblemInstance, document: JsonObject, given: Mapping[str, Any]
) -> JsonObject:
    """Return the proof that no point of a programme is better than the point of a solution."""
    hints = problem.proof_hints(instance)
    without_hints = _programme(document, {"solution": given})
    known = set(without_hints.names)
    point = {name: value for name, value in given.items() if name in known}
    cost = cost_of(without_hints, point)
    programme = programme_of(document, {**hints, "solution": point})
    slack = 0 if programme.is_integral else Fraction(problem.proof_slack(instance))
    is_rigid = problem.instance_format == RECLAIM and str(instance.variant) == "rigid"
    most_nodes = MOST_RIGID_NODES if is_rigid else math.inf
    prover = Prover(programme, cost - slack * abs(cost), most_nodes=most_nodes)
    try:
        prover.prove()
    except TooManyNodes:
        chosen = (name.removeprefix("server ") for name in point if name.startswith("server "))
        return proof_by_jobs(instance.name, document, int(cost), chosen)
    bound = prover.target
    if programme.is_continuous:  # the leaf may prove more than the target
        shown = proved_cost(programme, {"denominator": prover.denominator, "nodes": prover.nodes})
        assert shown is not None, "the programme has a feasible point"
        bound = _rounded_down(shown)
    claim = {"bound": str(programme.value_of(bound)), "solution": point, **hints}
    return _proof(instance, document, claim, prover)


def _is_mean_jct(problem: Problem, instance: ProblemInstance) -> bool:
    return problem.instance_format == ALLOCATION and str(instance.variant) == "mean_jct"


def _proof_of_orders(
    problem: Problem, instance: ProblemInstance, document: JsonObject, solution: Any
) -> JsonObject:
    """Return the proof of a mean JCT: the tree of `order-tree`, with prices in its leaves."""
    if solution is None:
        raise NotProved("it has a schedule")
    head = proof_head(instance.name, document)
    value = Fraction(problem.check(instance, solution).objective or 0)
    for tree in find_solver(problem.name, "order-tree").proof_trees(instance, solution):
        bound = _rounded_down(order_stand_alone.check(document, {**head, "bound": "0", **tree}))
        if bound >= value * (1 - Fraction(problem.proof_slack(instance))):
            return {**head, "bound": str(bound), **tree}
    raise NotProved(f"the best bound found is {float(bound):.12g}; a better schedule may exist")


def _proof_of_rounds(
    problem: Problem, instance: ProblemInstance, document: JsonObject, solution: Any
) -> JsonObject:
    """Return the proof that no schedule in rounds is better; it does not contain the schedule."""
    value = Fraction(problem.check(instance, solution).objective or 0)
    programme = _programme(document, {"bound": str(value)})
    cost = programme.cost_at(value)
    slack = Fraction(problem.proof_slack(instance)) * abs(cost)
    target = Fraction(math.ceil(cost - slack)) if programme.is_integral else cost - slack
    is_makespan = programme.cost_if_empty is not None
    first = {k for k, name in enumerate(programme.names) if " completed " in name}
    prover = Prover(programme, Fraction(1) if is_makespan else target, first)
    prover.prove()
    claim = {"bound": str(programme.value_of(target)), "solution": None}
    return _proof(instance, document, claim, prover)


def _proof_of_infeasibility(instance: ProblemInstance, document: JsonObject) -> JsonObject:
    """Return the proof that no solution exists, for a programme that depends on no solution."""
    try:
        programme = _programme(document, {"bound": None})
    except LookupError:  # the programme needs the level of a solution
        raise NotProved("this objective has no proofs of infeasibility") from None
    programme.cost = [0] * len(programme.names)
    prover = Prover(programme, Fraction(1))  # a feasible point costs 0, which is not enough
    try:
        prover.prove()
    except NotProved:
        raise NotProved("a solution may exist") from None
    return _proof(instance, document, {"bound": None, "solution": None}, prover)


def _proof(
    instance: ProblemInstance, document: JsonObject, claim: JsonObject, prover: Prover
) -> JsonObject:
    """Return a proof as a document, after the stand-alone checker has accepted it."""
    tree = {"denominator": prover.denominator, "nodes": prover.nodes}
    proof = {**proof_head(instance.name, document), **claim, **tree}
    check(document, proof)
    return proof


def proof_in_words(proof: JsonObject) -> str:
    """Return the claim and the size of a proof, such as "a tree of 3 nodes proves that ..."."""
    if "table" in proof:
        return f"a table of {counted(len(proof['table']), 'row')} proves that no solution exists"
    trees = [tree for trees in proof.get("domains", [[proof]]) for tree in trees]
    if not trees:
        return "no term of the objective can be below 0, so no better solution exists"
    nodes = counted(sum(len(tree["nodes"]) for tree in trees), "node")
    kind = f"{len(trees)} trees with {nodes}" if len(trees) > 1 else f"a tree of {nodes}"
    better = "solution" if proof["bound"] is None else "better solution"
    return f"{kind} prove{'s' * (len(trees) == 1)} that no {better} exists"


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
        neither says that no solution exists. For preemption, both map terms to their values.
    slack
        Largest relative difference between the bound and the value of an optimum.
    """

    file: str
    refutation: str = ""
    bound: Value | None = None
    value: Value | None = None
    slack: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the proof proves its claim."""
        return not self.refutation

    @property
    def is_optimal(self) -> bool:
        """Whether the value of the solution equals the bound, within `slack`."""
        if not isinstance(self.bound, Fraction) or not isinstance(self.value, Fraction):
            return self.value is not None and self.value == self.bound
        return abs(self.value - self.bound) <= Fraction(self.slack) * abs(self.value)

    def in_words(self) -> str:
        """Return the result as one line of text."""
        if not self.holds:
            return f"{self.file}: NOT proved: {self.refutation}"
        if self.bound is None:
            return f"{self.file}: proved: no solution exists"
        told = f"{self.file}: proved: no solution is better than {_shown(self.bound)}"
        if self.value is None:
            return told
        if self.is_optimal and self.slack <= RELATIVE_TOLERANCE:
            return f"{told}, and the proof's solution has this value"
        optimal = f", optimal within {self.slack:g}" if self.is_optimal else ""
        return f"{told}, and the proof's solution has value {_shown(self.value)}{optimal}"

    def as_json_object(self) -> dict[str, Any]:
        """Return the result as the JSON object of ``verify --proof --format json``."""
        return {
            "file": self.file,
            "holds": self.holds,
            "refutation": self.refutation or None,
            "bound": float(self.bound) if isinstance(self.bound, Fraction) else self.bound,
            "objective": float(self.value) if isinstance(self.value, Fraction) else self.value,
            "is_optimal": self.is_optimal,
        }


def _shown(value: Value) -> str:
    if isinstance(value, Fraction):
        return f"{float(value):.12g}"
    return ", ".join(f"{term} {number}" for term, number in value.items() if number) or "0"


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
        if loaded.problem.instance_format == PREEMPTION:
            terms = preemption_stand_alone.check(document, proof)
            return CheckedProof(file=file, bound=terms[0], value=terms[1])
        bound: Fraction | None
        if _is_mean_jct(loaded.problem, loaded.instance):
            bound, value = order_stand_alone.check(document, proof), None
        elif proof.get("kind") == reclaim_stand_alone.KIND:
            proved, of_choice = reclaim_stand_alone.check(document, proof)
            bound, value = Fraction(proved), None if of_choice is None else Fraction(of_choice)
        else:
            bound, value = check(document, proof)
        for number in (bound, value):
            float(number or 0)  # raises OverflowError if it cannot be shown as a float
    except FieldError as error:
        raise InputError(file, str(error)) from None
    except REFUTED as error:
        return CheckedProof(file=file, refutation=str(error))
    except UNREADABLE as error:
        why = f"{type(error).__name__}: {error}"[:200]
        raise InputError(file, f"is not a proof of its instance: {why}") from None
    slack = loaded.problem.proof_slack(loaded.instance)
    return CheckedProof(file=file, bound=bound, value=value, slack=slack)
