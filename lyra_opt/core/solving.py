"""Run a solver, check its claims, and return the checked answer."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from traceback import format_exception
from typing import Any, Generic, TypeAlias

from lyra_opt.core.errors import InputError, NoAttributeError, failure_of, one_line
from lyra_opt.core.evidence import Claim, Evidence
from lyra_opt.core.execution import Call, Execution, Executor, execute
from lyra_opt.core.fields import keys_of
from lyra_opt.core.gaps import finite, relative_gap
from lyra_opt.core.nearest_names import meant, nearest
from lyra_opt.core.problem import Problem, ProblemInstance, Sense, SolutionT, Variant
from lyra_opt.core.representations import html_of, picture_of
from lyra_opt.core.result import Limits, Number, SolveResult, Status, StoppedBy, same_value
from lyra_opt.core.solver import Observer, Solver
from lyra_opt.core.stopwatch import OutOfTimeError, Stopwatch, interruption_in_force
from lyra_opt.core.terms import ONE_NUMBER, Terms
from lyra_opt.core.texts import show_seconds, show_value_of, words
from lyra_opt.core.trajectory import TrajectoryPoint, ended
from lyra_opt.core.verifying import for_another_instance

MaybeNone: TypeAlias = Any
"""The type of a value that may be None, for code that need not check; named as in typeshed."""

LOGGER = logging.getLogger(__name__)

PLACES_NAMED = 3
"""The number of changed parts of an instance that a message names."""

COMMON_ANSWER_KEYS = (
    "file",
    "instance",
    "problem",
    "solver",
    "status",
    "stopped_by",
    "start_kept",
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

START_KEPT = "start kept"
"""The remark on an answer that is not better than the start of its run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """The result of an independent method that was asked to confirm an answer.

    Parameters
    ----------
    method
        The name of a solver, or `OWN_BOUND`.
    dual_bound
        The dual bound of the method; None without a bound.
    proves
        Whether this bound alone proves the claim of the answer: that its solution is optimal, or
        that no solution exists.
    is_better
        Whether this bound is better than the solver's.
    objective
        The objective of the method's solution, if it is better than the solver's.
    stopped_by
        The limit that ended the method.
    wall_time_s
        The time of the method, in seconds.
    """

    method: str
    dual_bound: Number | None
    proves: bool
    is_better: bool = False
    objective: Number | None = None
    stopped_by: StoppedBy | None = None
    wall_time_s: float

    def __str__(self) -> str:
        """Return the result of the witness as a sentence."""
        return self.in_words(ONE_NUMBER)

    def in_words(self, terms: Terms) -> str:
        """Return the result of the witness as a sentence, with values by term of the objective."""
        if self.proves:
            said = "confirms the answer"
        elif self.dual_bound is None:
            said = "proves nothing"
        elif self.method == OWN_BOUND:
            said = f"is {terms.in_words(self.dual_bound)}"
        else:
            said = f"proves only the bound {terms.in_words(self.dual_bound)}"
        if self.objective is not None:
            better = f"a better solution, {terms.in_words(self.objective)}"
            is_best = self.dual_bound is not None and same_value(self.objective, self.dual_bound)
            said = f"finds and proves {better}" if is_best else f"finds {better}, and {said}"
        stopped = f", stopped by {self.stopped_by}," if self.stopped_by else ""
        return f"{self.method}{stopped} {said}, in {show_seconds(self.wall_time_s)}"

    def as_json_object(self) -> dict[str, Any]:
        """Return the witness as the JSON object that ``solve --format json`` prints."""
        stopped_by = None if self.stopped_by is None else str(self.stopped_by)
        return {**asdict(self), "stopped_by": stopped_by}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[SolutionT]):
    """The checked result of a solver on an instance, with a recomputed objective.

    Each number was recomputed, or is a bound that nothing refutes. The fields of the solution and
    the measures are attributes too, such as ``answer.servers`` and ``answer.preempted_jobs``. They
    are None if the answer has no such value.

    Parameters
    ----------
    problem, instance, solver, seed
        The problem, the instance, the name of the solver, and the random seed of the run.
    status
        Optimal whenever objective and bound are equal, also for a heuristic.
    stopped_by
        The limit that ended the run.
    start_kept
        Whether the solution is not better than the start of the run, so that the solver deserves no
        credit for it; None without a start.
    solution
        The best solution; None without a solution.
    objective
        The objective of the solution, as the checker computes it.
    dual_bound
        The best proved bound.
    wall_time_s
        The time of the solver alone, in seconds. It excludes parsing, checking, certifying, and the
        loading of packages and compiled kernels, which happens once per process.
    witness
        The result of an independent method; None if none was asked.
    measures
        The measures that the checker reports besides the objective.
    counters
        Effort by name, such as nodes.
    trajectory
        Incumbents and dual bounds over time, if they were recorded.
    message
        The reason of a skip or of an error, or a remark on the run.
    cpu_time_s, peak_memory_mib
        CPU time and peak memory of the processes of the run, if they were measured.
    traceback
        The traceback of an exception, or the stack of a solver that crashed or was killed; only
        ``--debug`` prints it.
    """

    problem: Problem
    instance: ProblemInstance[SolutionT]
    solver: str
    seed: int
    status: Status
    stopped_by: StoppedBy | None = None
    start_kept: bool | None = None
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
        """The gap between the objective and the answer's own dual bound; None without both.

        See `lyra_opt.core.gaps.relative_gap`; the gap is infinite if only the bound is 0.
        """
        if self.objective is None or self.dual_bound is None:
            return None
        return relative_gap(self.objective, self.dual_bound, self.instance.variant)

    @property
    def certify_time_s(self) -> float | None:
        """The seconds that the witness took to check the answer; None without a witness."""
        return None if self.witness is None else self.witness.wall_time_s

    @property
    def claim(self) -> Claim:
        """The status, objective and dual bound of the answer, for comparison with other answers."""
        witness = self.witness
        bound_by = witness.method if witness is not None and witness.is_better else None
        return Claim(self.solver, self.status, self.objective, self.dual_bound, bound_by)

    def __getattr__(self, name: str) -> Any:
        """Return a field of the solution or a measure, by its name here or in files."""
        if name.startswith("_") or name in self.__slots__:  # not set yet, while it is unpickled
            raise AttributeError(name)
        if name in self.measures:
            return self.measures[name]
        if name in (of_solution := _solution_names(type(self.solution))):
            return getattr(self.solution, of_solution[name])
        known = self.__dir__()
        if name in known:
            return None
        hint = meant(name, known if nearest(name, known) else self.problem.answer_keys)
        # Without a name, Python does not add its own suggestion to the message.
        raise NoAttributeError(f"an answer has no attribute {name!r}; {hint}", name=None, obj=None)

    def __dir__(self) -> list[str]:
        """Return all attributes, including those of the solution and the measures."""
        own = [name for name in object.__dir__(self) if not name.startswith("_")]
        return sorted({*own, *self.problem.answer_keys, *_solution_names(type(self.solution))})

    def __repr__(self) -> str:
        """Return solver, instance, status and objective on one line."""
        found = ""
        if self.objective is not None:
            terms = self.problem.terms_of(self.instance)
            found = (
                f", objective {terms.in_words(self.objective) if terms.keys else self.objective}"
            )
        kept = f" ({START_KEPT})" * bool(self.start_kept)
        return f"<answer of {self.solver} on {self.instance.name!r}: {self.status}{kept}{found}>"

    def __str__(self) -> str:
        """Return the answer as text: status, objective, bound, solution and time, one per line."""
        known = self._in_words()
        width = max(map(len, known)) + 2
        return "\n".join(
            (
                one_line(self._title()),
                *(f"  {f'{name}:':<{width}}{one_line(text)}" for name, text in known.items()),
            )
        )

    def _repr_html_(self) -> str:
        """Return the answer as HTML for a notebook, with a picture if the instance is small."""
        picture = "" if self.solution is None else picture_of(self.instance, self)
        return html_of(self._title(), self._in_words(), picture=picture)

    def _title(self) -> str:
        return f"{self.solver} on {self.instance.name} ({self.problem.name})"

    def _in_words(self) -> dict[str, str]:
        """Return the parts of the answer as texts, by name."""
        stopped = f"stopped by {self.stopped_by}" if self.stopped_by else ""
        remarks = ", ".join(filter(None, (stopped, START_KEPT * bool(self.start_kept))))
        status = str(self.status) + (f" ({remarks})" if remarks else "")
        terms = self.problem.terms_of(self.instance)
        objective, bound = (
            None if value is None else terms.in_words(value)
            for value in (self.objective, self.dual_bound)
        )
        names = f" ({terms.legend})" if terms.keys else ""
        details = self.problem.detail_keys
        chosen = {key: each for key, each in self._chosen().items() if each or key not in details}
        chosen.pop(terms.measure, None)
        shown = {
            "status": status,
            "objective": objective and f"{objective}{names}",
            "dual bound": bound and (bound if objective else f"{bound}{names}"),
            "distance": (
                None if self.status is Status.OPTIMAL else evidence_of([self]).in_words(self.claim)
            ),
            **{words(key): value for key, value in chosen.items()},
            "time": show_seconds(self.wall_time_s) or None,
            "witness": None if self.witness is None else self.witness.in_words(terms),
            "message": self.message,
        }
        return {name: show_value_of(value) for name, value in shown.items() if value is not None}

    def _chosen(self) -> dict[str, Any]:
        """Return solution and measures, by keys of ``solve --format json``; None if unknown."""
        solution = (
            self.problem.answer(self.instance, self.solution) if self.solution is not None else {}
        )
        known = {**solution, **self.measures}
        return {key: known.get(key) for key in self.problem.answer_keys}

    def claims(self) -> dict[str, Any]:
        """Return the claims about the solution, for `lyra_opt.core.verifying.verify`."""
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
        """Whether the answer has a solution, or proves that no solution exists."""
        return self.solution is not None or self.status is Status.INFEASIBLE

    def as_json_object(self, file: str, evidence: Evidence | None = None) -> dict[str, Any]:
        """Return the answer as the object of ``solve --format json``, with null for missing values.

        `evidence` is that of all answers to the instance; by default, that of this answer alone.
        """
        evidence = evidence or evidence_of([self])
        return {
            "file": file,
            "instance": self.instance.name,
            "problem": self.problem.name,
            "solver": self.solver,
            "status": str(self.status),
            "stopped_by": None if self.stopped_by is None else str(self.stopped_by),
            "start_kept": self.start_kept,
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


def _solution_names(of: type[Any]) -> dict[str, str]:
    """Return the fields of a class of solutions, by their names in Python and in files."""
    keys = list(keys_of(of)) if is_dataclass(of) else []
    return {each.in_documents: each.name for each in keys} | {each.name: each.name for each in keys}


class RefutedClaimError(Exception):
    """An error for a solver's claim that the checker or the solver's own bound refutes."""


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

    A failure of the solver or of the bound never raises an exception. A failure, a refuted claim,
    or a change of the instance gives an answer with status error and a message. Changes to the
    instance are undone. A solver of the toolkit works on the instance itself, any other solver on a
    copy.

    Parameters
    ----------
    seed
        The random draws of the run depend on the seed and on the names of instance and solver.
    certify
        Whether to compute the problem's own bound in addition to the solver's.
    warm_start
        A solution to start from; `require_valid_start` checks one.
    observer
        A function that is called for each improvement that the solver claims.
    record
        Whether to record incumbents and bounds over time, which costs the solver a little time.
    executor
        The way to call the solver: in this process, or in a child process.
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
    """Raise `InputError` with `source` and reason if a solution is not a valid warm start.

    `claims` may name the ``instance`` that the solution belongs to; by default it is this instance.
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
    """Check the outcome of a solver call, certify it if requested, and return the answer."""
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
            **known, status=Status.ERROR, message=execution.error, traceback=execution.traceback
        )
    known |= {
        "stopped_by": result.stopped_by,
        "counters": result.counters,
        "traceback": execution.traceback,
    }
    try:
        checked = _check_claims(problem, instance, result)
        if call.warm_start is not None and "objective" in checked:
            start = problem.check(instance, call.warm_start).objective
            kept = start is not None and not instance.variant.is_better(checked["objective"], start)
            checked["start_kept"] = kept
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
    except Exception as error:  # the bound failed, so the requested certificate is missing
        known["traceback"] = "".join(format_exception(error))
        return Answer(**known, status=Status.ERROR, message=failure_of(error))
    messages = [] if checked["status"] is Status.OPTIMAL else [result.message]
    if call.limits.threads > 1 and not solver.is_parallel:
        messages.append("the solver uses one thread only")
    return Answer(**known, **checked, message="; ".join(filter(None, messages)) or None)


def refute_claims(answers: Sequence[Answer]) -> list[Answer]:
    """Return the answers to one instance, with contradicted answers turned into errors.

    Returns the same answers, except those that a valid solution of another answer refutes: a dual
    bound beyond its objective, or a claim that no solution exists. These become errors that name
    both solvers.
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
    """Return the combined claims of all answers to one instance and of their witnesses."""
    better = [
        Claim(answer.witness.method, Status.FEASIBLE, answer.witness.objective)
        for answer in answers
        if answer.witness is not None and answer.witness.objective is not None
    ]
    claims = [answer.claim for answer in answers]
    first = answers[0]
    terms = first.problem.terms_of(first.instance)
    return Evidence([*claims, *better], first.instance.variant, terms=terms)


def _as_error(answer: Answer, message: str) -> Answer:
    """Return the answer with status error and without its claims."""
    return replace(
        answer,
        status=Status.ERROR,
        start_kept=None,
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
    """Return the fields of an answer that the checker confirms."""
    checked: dict[str, Any] = {"status": result.status, "dual_bound": result.dual_bound}
    if result.solution is None or result.objective is None:
        return checked
    if not isinstance(result.solution, problem.all_solution_classes):
        raise RefutedClaimError(problem.wrong_type_message(result.solution))
    report = problem.check(instance, result.solution)
    if report.objective is None:
        raise RefutedClaimError(f"the solution is not valid: {'; '.join(report.violations)}")
    if not same_value(report.objective, result.objective):
        is_better = instance.variant.is_better(report.objective, result.objective)
        raise RefutedClaimError(
            f"the solver claims objective {result.objective}, but the checker computes "
            f"{report.objective} ({'better' if is_better else 'worse'})"
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
    """Return the answer fields that change when the problem's own dual bound is added."""
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
    """Return whether a dual bound proves an objective; raise an error if the two contradict."""
    if bound is None:
        return False
    if variant.is_better(objective, bound) and not same_value(objective, bound):
        raise RefutedClaimError(
            f"the dual bound {bound} contradicts a valid solution with objective {objective}"
        )
    return same_value(objective, bound, tolerance=variant.proof_gap)
