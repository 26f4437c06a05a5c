"""Answers of solvers compared with brute force."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Status, StoppedBy
from lyra_opt.core.solving import solve_and_check
from tests.reference import PROBLEMS
from tests.reference.drawing import INFEASIBLE, UNKNOWN, Document, InvalidChoiceError
from tests.reference.heterogeneous import SHARES

EXACT = 1e-9
"""Within which floats count as one value, relative to the larger."""
SMALLEST = 1e-300
INTEGERS = ("preemption", "reclaim")
"""Problems whose values are integers, which are compared exactly, however large they are."""
VARIANT_KEYS = {"preemption": "moves", "reclaim": "semantics"}
"""What names the variant, where it is not the objective."""
PROOF_GAPS = {
    "mean_jct of allocation": 1e-6,
    "utility": 1e-6,
    "round_progress": 1e-6,
    "epoch": 1e-6,
    "work_rate": 1e-6,
    **dict.fromkeys(SHARES, 1e-5),
}
"""How close objective and bound must be to be called optimal, as docs/formats/answer.md has it."""


@dataclass(frozen=True)
class Truth:
    """What is known of a document without any solver.

    Parameters
    ----------
    problem, document
        The instance.
    optimum
        Its best value, `INFEASIBLE` or `UNKNOWN`.
    """

    problem: str
    document: Document
    optimum: Any

    @classmethod
    def of(cls, problem, document):
        """Ask brute force."""
        return cls(problem, document, PROBLEMS[problem].optimum(document))

    @property
    def variant(self):
        """What is asked."""
        return str(self.document[VARIANT_KEYS.get(self.problem, "objective")])

    @property
    def sign(self):
        """1 where the objective is maximised, else -1."""
        return 1 if self.variant in PROBLEMS[self.problem].MAXIMISED else -1

    @property
    def proof_gap(self):
        """How close a bound must be."""
        if self.problem in INTEGERS:
            return 0
        name = "mean_jct of allocation" if self.problem == "allocation" else self.variant
        return PROOF_GAPS.get(name if self.variant == "mean_jct" else self.variant, EXACT)

    @property
    def slack(self):
        """By how much a solution may be better than the optimum: rules have tolerances."""
        if self.problem in INTEGERS:
            return 0
        if self.variant == "mean_jct" and self.problem == "allocation":
            return 1e-7
        return self.proof_gap if self.variant in SHARES else EXACT

    def excess(self, value, other):
        """Return by how much a value is better than another, relative to the larger.

        Below `SMALLEST` floats lose digits: there all values are one.
        """
        first, second = exact(value), exact(other)
        size = max(abs(first), abs(second))
        return self.sign * (first - second) / size if size > SMALLEST else 0


def exact(value):
    """Return the rational number that a value is."""
    return value if isinstance(value, Fraction) else Fraction(value)


def faults(truth, solver, answer, limits):
    """Yield what is wrong with an answer, each with its kind as the first word."""
    status, optimum = answer.status, truth.optimum
    if status is Status.ERROR:
        yield f"error: {answer.message}"
        return
    if status is Status.UNSUPPORTED:
        return
    if answer.solution is not None:
        yield from _faults_of_solution(truth, answer)
    if status is Status.INFEASIBLE and optimum not in (INFEASIBLE, UNKNOWN):
        yield f"infeasible: there is a solution of value {optimum}"
    if status is Status.OPTIMAL and not isinstance(optimum, str):
        gap = abs(truth.excess(answer.objective, optimum))
        if gap > truth.proof_gap:
            yield f"optimal: {answer.objective} is called optimal, but the optimum is {optimum}"
    bound = answer.dual_bound
    is_bounded = bound is not None and not isinstance(optimum, str)
    if is_bounded and truth.excess(optimum, bound) > _rounding(truth):
        yield f"bound: {bound} is beyond the optimum, {optimum}"
    is_proved = status in (Status.OPTIMAL, Status.INFEASIBLE)
    is_limited = limits.time_s is not None or limits.nodes is not None
    if not isinstance(optimum, str):
        yield from _faults_of_trajectory(truth, answer)
    is_exact = answer.instance.variant in solver.exact_variants
    if is_exact and not (is_proved or is_limited or answer.message):
        yield f"unproved: it ends {status}, and says no reason"
    if answer.stopped_by is StoppedBy.TIME and limits.time_s is None:
        yield "stopped: it says it was stopped, but there was no limit"


def _rounding(truth):
    """Return by how much a bound may be beyond: not at all where values are integers."""
    return 0 if isinstance(truth.optimum, int) else EXACT


def _faults_of_trajectory(truth, answer):
    """Yield what a run said on its way that is beyond the optimum."""
    for point in answer.trajectory:
        if point.kind == "objective" and truth.excess(point.value, truth.optimum) > truth.slack:
            yield f"told: {point.value} was told, better than the optimum, {truth.optimum}"
        excess = truth.excess(truth.optimum, point.value)
        if point.kind == "dual_bound" and excess > _rounding(truth):
            yield f"told: the bound {point.value} was told, beyond the optimum, {truth.optimum}"


def _clock_rounding_s(solution):
    """Return the rounding of the latest time of a schedule; checkers repair what it violates."""
    return math.ulp(max((piece.end_s for piece in getattr(solution, "pieces", ())), default=0.0))


def _faults_of_solution(truth, answer):
    given = answer.problem.answer(answer.instance, answer.solution)
    try:
        found = PROBLEMS[truth.problem].measured(truth.document, given)
    except InvalidChoiceError as error:
        yield f"invalid: {error}"
        return
    said = {**answer.measures, "objective": answer.objective}
    for key, value in found.items():
        if isinstance(value, tuple):
            is_same = tuple(said[key] or ()) == value
        elif isinstance(value, dict):
            is_same = said[key] == value
        else:
            is_same = abs(truth.excess(said[key], value)) <= truth.slack
            rounding_s = _clock_rounding_s(answer.solution)
            is_same = is_same or abs(exact(said[key]) - exact(value)) <= rounding_s
        if not is_same:
            yield f"measure: {key} is {said[key]}, but brute force says {value}"
    if truth.optimum == INFEASIBLE:
        yield f"feasible: there is no solution, but one of value {answer.objective} is said valid"
    elif truth.optimum != UNKNOWN and truth.excess(answer.objective, truth.optimum) > truth.slack:
        yield f"better: {answer.objective} is better than the optimum, {truth.optimum}"


def attempt(truth, instance, solver, limits, start, *, record=True):
    """Return a solver's answer and its faults; with `record`, also those of its reports."""
    problem = find_problem(truth.problem)
    answer = solve_and_check(
        problem, instance, solver, limits=limits, warm_start=start, record=record
    )
    found = list(faults(truth, solver, answer, limits))
    if start is not None and answer.status not in (Status.ERROR, Status.UNSUPPORTED):
        value = problem.check(instance, start).objective
        if answer.solution is None or truth.excess(value, answer.objective) > truth.slack:
            found.append(f"worse: {answer.objective}, though it was given a start of {value}")
    return answer, [f"{solver.name}: {fault}" for fault in found]
