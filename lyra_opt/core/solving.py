"""Run a solver and check what it claims; the only place where a status becomes an answer."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, field, replace
from traceback import format_exception
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from lyra_opt.core.errors import InputError, failure_of, one_line
from lyra_opt.core.evidence import Claim, Evidence
from lyra_opt.core.execution import Call, execute
from lyra_opt.core.gaps import finite, relative_gap
from lyra_opt.core.problem import ProblemInstance, SolutionT
from lyra_opt.core.representations import LARGEST_DRAWN, html_of, picture_of
from lyra_opt.core.result import (
    Limits,
    Number,
    SolveResult,
    Status,
    StoppedBy,
    same_value,
)
from lyra_opt.core.stopwatch import OutOfTimeError, Stopwatch, interruption_in_force
from lyra_opt.core.texts import show_seconds, show_value_of, words
from lyra_opt.core.trajectory import TrajectoryPoint, ended
from lyra_opt.core.verifying import for_another_instance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.core.execution import Execution, Executor
    from lyra_opt.core.problem import Problem, Sense, Variant
    from lyra_opt.core.solver import Observer, Solver

MaybeNone: TypeAlias = Any
"""Said of what may be None where a user who knows better need not ask; as typeshed has it."""

LOGGER = logging.getLogger(__name__)

PLACES_NAMED = 3
"""Of those where a solver has changed its instance."""

COMMON_ANSWER_KEYS = (
    "file",
    "instance",
    "problem",
    "solver",
    "status",
    "stopped_by",
    "objective",
    "dual_bound",
    "gap",
    "gap_to_best",
    "gap_to_optimum_at_most",
    "optimum",
    "witness",
    "wall_time_s",
    "trajectory",
    "seed",
    "message",
)


OWN_BOUND = "the problem's own bound"


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """What a method that was asked beside the solver says of the instance.

    Parameters
    ----------
    method
        Its name: that of a solver, or `OWN_BOUND`.
    dual_bound
        Its bound, None if it has none.
    proves
        Whether that alone proves what the answer claims: that its solution is optimal, or that
        there is none.
    is_better
        Whether its bound is better than the solver's.
    objective
        Of its solution, where that is better than the solver's.
    stopped_by
        The limit that ended it.
    wall_time_s
        Its time.
    """

    method: str
    dual_bound: Number | None
    proves: bool
    is_better: bool = False
    objective: Number | None = None
    stopped_by: StoppedBy | None = None
    wall_time_s: float

    def __str__(self) -> str:
        """Return it in words, for people."""
        if self.proves:
            said = "proves the same"
        elif self.dual_bound is None:
            said = "proves nothing"
        elif self.method == OWN_BOUND:
            said = f"is {show_value_of(self.dual_bound)}"
        else:
            said = f"proves no more than the bound {show_value_of(self.dual_bound)}"
        if self.objective is not None:
            better = f"a better solution, {show_value_of(self.objective)}"
            is_best = self.dual_bound is not None and same_value(self.objective, self.dual_bound)
            said = f"finds and proves {better}" if is_best else f"finds {better}, and {said}"
        stopped = f", stopped by {self.stopped_by}," if self.stopped_by else ""
        return f"{self.method}{stopped} {said}, in {show_seconds(self.wall_time_s)}"

    def as_json_object(self) -> dict[str, Any]:
        """Return it as the value of ``witness`` in an object of ``solve --json``."""
        stopped_by = None if self.stopped_by is None else str(self.stopped_by)
        return {**asdict(self), "stopped_by": stopped_by}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[SolutionT]):
    """A checked result: every number in it was recomputed, or is a bound that was not refuted.

    Parameters
    ----------
    problem, instance, solver, seed
        What was run.
    status
        Optimal whenever objective and bound are equal, for a heuristic too.
    stopped_by
        The limit that ended the run.
    solution
        The best solution, None if none.
    objective
        Its value as the checker computes it.
    dual_bound
        The best proved bound.
    wall_time_s
        Time of the solver alone: no parsing, checking or certifying, and no loading of
        packages and compiled kernels, which happens once a process.
    witness
        What a method beside the solver says, None if none was asked.
    measures
        What the checker reports beside the objective.
    counters
        Effort spent, by name.
    trajectory
        Incumbents and dual bounds over time, where they were asked for.
    message
        The reason of a skip or of an error.
    cpu_time_s, peak_memory_mib
        What the processes that ran it took, where that was watched.
    traceback
        Where an exception was raised, or the solver was when it crashed or was ended, for
        developers; in no output but that of ``--debug``.
    """

    problem: Problem
    instance: ProblemInstance[SolutionT]
    solver: str
    seed: int
    status: Status
    stopped_by: StoppedBy | None = None
    solution: SolutionT | MaybeNone = None
    objective: Number | None = None
    dual_bound: Number | None = None
    wall_time_s: float | None = None
    witness: Witness | None = None
    measures: Mapping[str, Any] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    trajectory: tuple[TrajectoryPoint, ...] = ()
    message: str | None = None
    cpu_time_s: float | None = None
    peak_memory_mib: float | None = None
    traceback: str | None = None

    @property
    def sense(self) -> Sense:
        """Whether the objective is minimised or maximised."""
        variant: Variant = self.instance.variant
        return variant.sense

    @property
    def gap(self) -> float | None:
        """How far the objective is from the answer's own bound; None without both.

        As `lyra_opt.core.gaps.relative_gap` defines it: infinite where the bound alone is 0.
        """
        if self.objective is None or self.dual_bound is None:
            return None
        return relative_gap(self.objective, self.dual_bound, self.instance.variant)

    @property
    def certify_time_s(self) -> float | None:
        """Time of the witness, None if none was asked."""
        return None if self.witness is None else self.witness.wall_time_s

    @property
    def claim(self) -> Claim:
        """What it claims of the instance, to be held against other answers."""
        witness = self.witness
        bound_by = witness.method if witness is not None and witness.is_better else None
        return Claim(self.solver, self.status, self.objective, self.dual_bound, bound_by)

    def __repr__(self) -> str:
        """Return what it is in a line; `str` says what it says."""
        found = "" if self.objective is None else f", objective {self.objective}"
        return f"<answer of {self.solver} on {self.instance.name!r}: {self.status}{found}>"

    def __str__(self) -> str:
        """Return it for people: status, objective, bound, what was chosen, time; a line each."""
        known = self._in_words()
        width = max(map(len, known)) + 2
        return "\n".join(
            (
                one_line(self._title()),
                *(f"  {f'{name}:':<{width}}{one_line(text)}" for name, text in known.items()),
            )
        )

    def _repr_html_(self) -> str:
        """Return the same for a notebook, with a picture where the instance is small."""
        is_small = self.problem.size(self.instance) <= LARGEST_DRAWN
        is_drawn = is_small and self.solution is not None
        picture = picture_of(self.instance, self) if is_drawn else ""
        return html_of(self._title(), self._in_words(), picture=picture)

    def _title(self) -> str:
        return f"{self.solver} on {self.instance.name} ({self.problem.name})"

    def _in_words(self) -> dict[str, str]:
        """Return what it says, by what that is."""
        status = str(self.status) + (f" (stopped by {self.stopped_by})" if self.stopped_by else "")
        shown = {
            "status": status,
            "objective": self.objective,
            "dual bound": self.dual_bound,
            "distance": (
                None if self.status is Status.OPTIMAL else evidence_of([self]).in_words(self.claim)
            ),
            **{words(key): value for key, value in self._chosen().items()},
            "time": show_seconds(self.wall_time_s) or None,
            "witness": None if self.witness is None else str(self.witness),
            "message": self.message,
        }
        return {name: show_value_of(value) for name, value in shown.items() if value is not None}

    def _chosen(self) -> dict[str, Any]:
        """Return what was chosen and measured, by the problem's own keys, None where not known."""
        solution = (
            self.problem.answer(self.instance, self.solution) if self.solution is not None else {}
        )
        known = {**solution, **self.measures}
        return {key: known.get(key) for key in self.problem.answer_keys}

    def claims(self) -> dict[str, Any]:
        """Return what it claims of its solution, for `lyra_opt.core.verifying.verify`."""
        claimed = {
            "objective": self.objective,
            **self.measures,
            "dual_bound": self.dual_bound,
            "gap": finite(self.gap),
        }
        known = {key: value for key, value in claimed.items() if value is not None}
        return {"instance": self.instance.name, "status": str(self.status), **known}

    @property
    def is_solved(self) -> bool:
        """Whether there is a solution, or a proof that there is none."""
        return self.solution is not None or self.status is Status.INFEASIBLE

    def as_json_object(self, file: str, evidence: Evidence | None = None) -> dict[str, Any]:
        """Return the object of ``solve --json``: every key present, null where it has no value.

        `evidence` is that of all answers to the instance, by default of this one alone.
        """
        evidence = evidence or evidence_of([self])
        return {
            "file": file,
            "instance": self.instance.name,
            "problem": self.problem.name,
            "solver": self.solver,
            "status": str(self.status),
            "stopped_by": None if self.stopped_by is None else str(self.stopped_by),
            "objective": self.objective,
            "dual_bound": self.dual_bound,
            "gap": finite(self.gap),
            "gap_to_best": finite(evidence.gap_to_best(self.objective)),
            "gap_to_optimum_at_most": finite(evidence.gap_to_optimum_at_most(self.objective)),
            "optimum": evidence.optimum,
            "witness": None if self.witness is None else self.witness.as_json_object(),
            **self._chosen(),
            "wall_time_s": self.wall_time_s,
            "trajectory": [point._asdict() for point in self.trajectory] or None,
            "seed": self.seed,
            "message": self.message,
        }


class RefutedClaimError(Exception):
    """A solver claims what the checker, or its own bound, refutes."""


def solve_and_check(
    problem: Problem,
    instance: ProblemInstance[SolutionT],
    solver: Solver,
    *,
    limits: Limits | None = None,
    seed: int = 0,
    certify: bool = False,
    warm_start: SolutionT | None = None,
    observer: Observer | None = None,
    record: bool = False,
    executor: Executor = execute,
) -> Answer[SolutionT]:
    """Run `solver`, recompute its claims and, with `certify`, add a proved bound.

    Never raises for what a solver or the bound does: a failure or a refuted claim is an answer
    with status error and a message that names both numbers. So is a change of the instance; those
    that come after get it as it was: solvers of the toolkit work on the instance itself, which is
    frozen, and all others on a copy of their own.

    Parameters
    ----------
    seed
        The run's draws depend on it, on the instance's name and on the solver's name.
    certify
        Whether to compute the problem's own bound beside the solver's.
    warm_start
        A solution to start from; `require_valid_start` says what is wrong with one.
    observer
        Told of each improvement, as the solver claims it.
    record
        Whether to keep incumbents and bounds over time. Solvers then report what they find, which
        takes them a little time.
    executor
        Where the solver is called: here, or in a process of its own.
    """
    call = Call(
        limits=limits or Limits(),
        seed=seed,
        warm_start=warm_start,
        observer=observer,
        records=record,
    )
    LOGGER.info("%s begins with %s", solver.name, instance.name)
    execution = executor(problem, instance, solver, call)
    answer = _answer(problem, instance, solver, call, execution, certify=certify)
    if execution.changed:
        message = f"the solver changed the instance: {', '.join(execution.changed[:PLACES_NAMED])}"
        answer = _as_error(answer, message)
    LOGGER.info("%s ends with %s: %s", solver.name, instance.name, answer.status)
    return answer


def require_valid_start(
    problem: Problem,
    instance: ProblemInstance[SolutionT],
    solution: SolutionT | None,
    claims: Mapping[str, Any],
    source: str,
) -> None:
    """Raise `InputError` naming `source` and what is wrong, if a run cannot start from there.

    `claims` say for which ``instance`` the solution is; without it, it may be for this one.
    """
    other = for_another_instance(instance, {"instance": instance.name, **claims})
    if other is not None:
        raise InputError(source, f"cannot be the start of a run: the solution {other}")
    if solution is None:
        raise InputError(source, "contains no solution to start from")
    violations = problem.check(instance, solution).violations
    if violations:
        raise InputError(source, f"cannot be the start of a run: {'; '.join(violations)}")


def _answer(
    problem: Problem,
    instance: ProblemInstance,
    solver: Solver,
    call: Call,
    execution: Execution,
    *,
    certify: bool,
) -> Answer:
    """Return what survives of an execution, with what bounds add to it."""
    known: dict[str, Any] = {
        "problem": problem,
        "instance": instance,
        "solver": solver.name,
        "seed": call.seed,
        "wall_time_s": execution.wall_time_s,
        "cpu_time_s": execution.cpu_time_s,
        "peak_memory_mib": execution.peak_memory_mib,
    }
    if execution.skipped is not None:
        return Answer(**known, status=Status.UNSUPPORTED, message=execution.skipped)
    result = execution.result
    if result is None:
        return Answer(
            **known,
            status=Status.ERROR,
            message=execution.error,
            traceback=execution.traceback,
        )
    known |= {
        "stopped_by": result.stopped_by,
        "counters": result.counters,
        "traceback": execution.traceback,
    }
    try:
        checked = _check_claims(problem, instance, result)
        if execution.points is not None:
            checked["trajectory"] = ended(
                execution.points,
                instance.variant,
                execution.wall_time_s or 0.0,
                checked.get("objective"),
                checked["dual_bound"],
            )
        interruption = interruption_in_force()
        if certify and not interruption.is_asked:
            try:
                checked |= _certified(problem, instance, checked)
            except OutOfTimeError:
                if not interruption.is_asked:
                    raise
                known["stopped_by"] = StoppedBy.INTERRUPT
    except RefutedClaimError as error:
        return Answer(**known, status=Status.ERROR, message=str(error))
    except Exception as error:  # the bound failed, and so nothing that was asked for is known
        known["traceback"] = "".join(format_exception(error))
        return Answer(**known, status=Status.ERROR, message=failure_of(error))
    messages = [] if checked["status"] is Status.OPTIMAL else [result.message]
    if call.limits.threads > 1 and not solver.is_parallel:
        messages.append("the solver uses one thread only")
    return Answer(**known, **checked, message="; ".join(filter(None, messages)) or None)


def refute_claims(answers: Sequence[Answer]) -> list[Answer]:
    """Hold the answers of several solvers to one instance against each other.

    Returns the same answers, except that one whose dual bound excludes another's valid solution,
    or that says there is none, becomes an error that names both.
    """
    if not answers:
        return []
    evidence = evidence_of(answers)
    wrong = {found.wrong: found.sentence for found in evidence.contradictions()}
    return [
        _as_error(answer, f"contradiction: {wrong[place]}") if place in wrong else answer
        for place, answer in enumerate(answers)
    ]


def evidence_of(answers: Sequence[Answer]) -> Evidence:
    """Return what answers to one instance, at least one, prove together, with their witnesses."""
    better = [
        Claim(answer.witness.method, Status.FEASIBLE, answer.witness.objective)
        for answer in answers
        if answer.witness is not None and answer.witness.objective is not None
    ]
    claims = [answer.claim for answer in answers]
    return Evidence([*claims, *better], answers[0].instance.variant)


def _as_error(answer: Answer, message: str) -> Answer:
    """Return the answer as an error: what was run stays, what was claimed goes."""
    return replace(
        answer,
        status=Status.ERROR,
        solution=None,
        objective=None,
        dual_bound=None,
        witness=None,
        measures={},
        trajectory=(),
        message=message,
    )


def _check_claims(
    problem: Problem, instance: ProblemInstance, result: SolveResult[Any]
) -> dict[str, Any]:
    """Return the fields of an answer that survive the checker."""
    checked: dict[str, Any] = {"status": result.status, "dual_bound": result.dual_bound}
    if result.solution is None or result.objective is None:
        return checked
    if not isinstance(result.solution, problem.all_solution_classes):
        raise RefutedClaimError(problem.wrong_type_message(result.solution))
    report = problem.check(instance, result.solution)
    if report.objective is None:
        raise RefutedClaimError(f"the solution is not valid: {'; '.join(report.violations)}")
    if not same_value(report.objective, result.objective):
        raise RefutedClaimError(
            f"the solver claims objective {result.objective}, "
            f"but the checker computes {report.objective}"
        )
    checked |= {
        "solution": result.solution,
        "objective": report.objective,
        "measures": report.measures(),
    }
    proved = _is_proved(instance.variant, report.objective, result.dual_bound)
    if result.status is Status.OPTIMAL and not proved:
        raise RefutedClaimError(
            f"the solver claims that {report.objective} is optimal, "
            f"but its own dual bound is {result.dual_bound}"
        )
    return checked | {"status": Status.OPTIMAL if proved else Status.FEASIBLE}


def _certified(
    problem: Problem, instance: ProblemInstance, checked: dict[str, Any]
) -> dict[str, Any]:
    """Return what the problem's own bound adds to a checked answer."""
    stopwatch = Stopwatch()
    bound = own = problem.dual_bound(instance)
    elapsed_s = stopwatch.elapsed_s
    variant: Variant = instance.variant
    if checked["dual_bound"] is not None:
        tighter = max if variant.sense == "min" else min
        bound = tighter(bound, checked["dual_bound"])
    certified: dict[str, Any] = {"dual_bound": bound}
    proves = False
    if checked.get("objective") is not None:
        proves = _is_proved(variant, checked["objective"], own)
        proved = proves or _is_proved(variant, checked["objective"], bound)
        certified["status"] = Status.OPTIMAL if proved else Status.FEASIBLE
    witness = Witness(
        method=OWN_BOUND,
        dual_bound=own,
        proves=proves,
        is_better=bound != checked["dual_bound"],
        wall_time_s=elapsed_s,
    )
    return {**certified, "witness": witness}


def _is_proved(variant: Variant, objective: Number, bound: Number | None) -> bool:
    """Whether the bound meets the objective; an error if it lies beyond it."""
    if bound is None:
        return False
    if variant.is_better(objective, bound) and not same_value(objective, bound):
        raise RefutedClaimError(
            f"the dual bound {bound} contradicts a valid solution with objective {objective}"
        )
    return same_value(objective, bound, tolerance=variant.proof_gap)
