"""Solve and compare instances and verify answers, for ``import lyra_opt as lo``."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lyra_opt.core.errors import UserError, without_inner_frames
from lyra_opt.core.execution import execute
from lyra_opt.core.interrupting import heeding_signals
from lyra_opt.core.isolation.workers import Workers
from lyra_opt.core.problem import problem_of_instance
from lyra_opt.core.result import Limits
from lyra_opt.core.rules import Integer, Number
from lyra_opt.core.solver import find_solver, is_built_in, require_different_names
from lyra_opt.core.solving import (
    Answer,
    evidence_of,
    refute_claims,
    require_valid_start,
    solve_and_check,
)
from lyra_opt.core.witnesses import solve_and_certify
from lyra_opt.front_door.models import claimed_solution

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from lyra_opt.core.evidence import Evidence
    from lyra_opt.core.problem import Problem, ProblemInstance
    from lyra_opt.core.solver import Solver, SolverLike
    from lyra_opt.core.verifying import Verification

SolutionT = TypeVar("SolutionT")


@without_inner_frames
def solve(
    instance: ProblemInstance[SolutionT],
    solver: SolverLike | None = None,
    *,
    time_limit_s: float | None = None,
    memory_limit_mib: float | None = None,
    isolated: bool | None = None,
    threads: int = 1,
    start: SolutionT | Answer[SolutionT] | str | Path | None = None,
    seed: int = 0,
    certify: bool = False,
) -> Answer[SolutionT]:
    """Solve an instance and return the checked answer.

    Parameters
    ----------
    instance
        An instance of any problem.
    solver
        A name that ``lyra-opt solvers`` lists, ``my_file.py:MySolver``, a class or an object.
        ``exact`` proves that its answer is optimal, unless a limit stops it; other solvers that
        prove are in `solvers`. None stands for ``lyra-greedy`` (reclaim), ``priced-placement``
        (network), ``exact`` (preemption), ``mckp-core`` or, for the mean JCT, ``srw`` (allocation),
        and ``priced-progress``, ``lp-sifting`` for shares or ``hadar`` for utility (heterogeneous).
    time_limit_s
        The time limit in seconds; None for no limit.
    memory_limit_mib
        The memory in MiB that the solver may use beyond that of its process at the start; None for
        no limit.
    isolated
        Whether the solver runs in its own process, which takes about 50 ms to start. A crash then
        gives an answer with status error. A solver that exceeds a limit (the time limit by a second
        or a tenth) is killed; its answer is the best solution it reported, or the start. Changes
        to the solver object are lost. By default, solvers with a memory limit are isolated, and
        solvers from outside the toolkit with a time limit.
    threads
        The largest number of threads for solvers that support it; with more than one, results may
        differ from run to run.
    start
        A solution, an answer, or the path of a file with either, which may be a ``.sol`` file of
        another solver (see `load_solution`); the new answer is never worse. Its ``start_kept`` is
        true if it is not better either.
    seed
        The seed of random choices.
    certify
        Whether to confirm the answer by an independent witness; see
        `lyra_opt.core.witnesses.solve_and_certify`.

    Returns
    -------
    Answer
        The answer with a recomputed objective; a solver that fails or makes a false claim gives an
        answer with status error. ``print`` shows it as text. After Ctrl-C it has the best result so
        far, and ``stopped_by`` is ``interrupt``.

    Raises
    ------
    UserError
        If the solver is unknown, the start is not a valid solution, or a number is out of range.
    KeyboardInterrupt
        After a second Ctrl-C. Only the main thread receives Ctrl-C; your own signal handler is
        restored afterwards.
    """
    if time_limit_s is not None:
        time_limit_s = Number(above=True).check("time_limit_s", time_limit_s)
    if memory_limit_mib is not None:
        memory_limit_mib = Number(above=True).check("memory_limit_mib", memory_limit_mib)
    threads = Integer(1).check("threads", threads)
    seed = Integer().check("seed", seed)
    problem = problem_of_instance(instance)
    warm_start = None if start is None else _checked_start(problem, instance, start)
    chosen = _solver(problem, instance, solver)
    if isolated is None:
        is_limited = time_limit_s is not None and not is_built_in(chosen)
        isolated = is_limited or memory_limit_mib is not None
    run = solve_and_certify if certify else solve_and_check
    with heeding_signals(signal.SIGINT), Workers() as workers:
        return run(
            problem,
            instance,
            chosen,
            limits=Limits(time_s=time_limit_s, memory_mib=memory_limit_mib, threads=threads),
            seed=seed,
            warm_start=warm_start,
            record=True,
            executor=workers if isolated else execute,
        )


@without_inner_frames
def compare(
    instance: ProblemInstance[SolutionT] | Sequence[ProblemInstance[SolutionT]],
    solvers: Sequence[SolverLike | None],
    *,
    time_limit_s: float | None = None,
    memory_limit_mib: float | None = None,
    isolated: bool | None = None,
    threads: int = 1,
    start: SolutionT | Answer[SolutionT] | str | Path | None = None,
    seed: int = 0,
    certify: bool = False,
) -> pd.DataFrame:
    """Return a table that compares the answers of several solvers.

    `summary` writes its main columns, and with several instances the averages of each solver.
    ``print`` and notebooks show every column that has a value.

    Parameters
    ----------
    instance
        An instance of any problem, or a list of instances of one problem.
    solvers
        A list, an array or a series with at least one solver, each as for `solve`. All other
        parameters are those of `solve`.

    Returns
    -------
    pandas.DataFrame
        One row per solver, in the given order, with the name as index ``solver``; for a list of
        instances, one per ``instance`` and ``solver``. After Ctrl-C, solvers that have not started
        are missing.

        ``status``
            The claim that the run itself proves: ``optimal``, ``feasible``, ...
        ``objective``
            The checked objective; integers if all objectives are integers.
        ``dual_bound``
            The better of the dual bounds of the run and its witness.
        ``gap``, ``gap_to_best``
            The gap to the answer's own dual bound, and to the best objective for the instance.
        ``wall_time_s``
            The time of the solver alone, in seconds.
        ``start_kept`` (only with a start)
            Whether the objective is not better than that of the start.
        ``stopped_by``, ``message``
            The limit that ended the run, and the reason of a failure, a skip or a contradiction.

        Then follow the measures of the problem, such as ``collateral_gpus``. The last columns are

        ``gap_to_optimum_at_most``
            An upper limit on the gap to the optimum: the gap to ``optimum`` or, if that is missing,
            to the best dual bound in the table. 0.082 means 8.2 %. It is infinite if the reference
            is or may be 0; this also holds for the other two gaps.
            For an objective with several terms (preemption), gaps compare the integers that encode
            the terms and say little.
        ``optimum``
            The best objective in the table, if the best dual bound in the table proves it.

    Raises
    ------
    UserError
        As for `solve`. No solver runs if one is unknown or two have the same name.
    """
    is_one = isinstance(instance, str) or not isinstance(instance, Iterable)
    instances: list[Any] = [instance] if is_one else list(instance)  # type: ignore[arg-type]
    problems = [problem_of_instance(each) for each in instances]
    if len({each.name for each in problems}) != 1:
        raise UserError("instances must be at least one, and all of one problem")
    problem = problems[0]
    listed = [] if isinstance(solvers, str) or not isinstance(solvers, Iterable) else list(solvers)
    if not listed:
        raise UserError('solvers must be a list with at least one solver, such as ["exact"]')
    runs = [(each, [_solver(problem, each, solver) for solver in listed]) for each in instances]
    for _, found in runs:
        require_different_names(each.name for each in found)
    if start is not None:  # the file is read once for all solvers
        if len(instances) > 1:
            raise UserError("start cannot be combined with several instances")
        start = _checked_start(problem, instances[0], start)
    by_instance: list[list[Answer]] = []
    with heeding_signals(signal.SIGINT) as interruption:
        for each, found in runs:
            of_instance: list[Answer] = []
            for solver in found:
                if not interruption.is_asked:
                    answer = solve(
                        each,
                        solver,
                        time_limit_s=time_limit_s,
                        memory_limit_mib=memory_limit_mib,
                        isolated=isolated,
                        threads=threads,
                        start=start,
                        seed=seed,
                        certify=certify,
                    )
                    of_instance.append(answer)
            if of_instance:
                by_instance.append(refute_claims(of_instance))
    return _frame(by_instance, ["solver"] if is_one else ["instance", "solver"])


def _frame(by_instance: Sequence[list[Answer]], index: list[str]) -> pd.DataFrame:
    """Return the answers as a data frame; its `attrs` have what `summary` needs for averages."""
    from lyra_opt.front_door.listed_frame import Comparison

    known = [(evidence_of(answers), answers) for answers in by_instance]
    rows = [_row(answer, evidence) for evidence, answers in known for answer in answers]
    frame = Comparison(rows, dtype=object).set_index(index)
    if index == ["solver"]:
        frame = frame.drop(columns="instance")
    types = {
        name: _type_of([row[name] for row in rows])
        for name in ("objective", "dual_bound", "optimum")
    }
    relative = ("gap", "gap_to_best", "gap_to_optimum_at_most", "wall_time_s")
    frame = frame.infer_objects().astype(types | dict.fromkeys(relative, "float64"))
    if not any(evidence.terms.keys for evidence, _ in known):
        frame.attrs["sense"] = known[0][1][0].sense
    return frame


def _row(answer: Answer, evidence: Evidence) -> dict[str, Any]:
    """Return an answer as a row of the comparison table, by column name."""
    return {
        "instance": answer.instance.name,
        "solver": answer.solver,
        "status": str(answer.status),
        "objective": answer.objective,
        "dual_bound": answer.dual_bound,
        "gap": answer.gap,
        "gap_to_best": evidence.gap_to_best(answer.objective),
        "wall_time_s": answer.wall_time_s,
        **({} if answer.start_kept is None else {"start_kept": answer.start_kept}),
        "stopped_by": None if answer.stopped_by is None else str(answer.stopped_by),
        "message": answer.message,
        **{key: answer.measures.get(key) for key in answer.problem.measure_keys},
        "gap_to_optimum_at_most": evidence.gap_to_optimum_at_most(answer.objective),
        "optimum": evidence.optimum,
    }


def _type_of(values: Sequence[int | float | None]) -> str:
    """Return the pandas type of a column with these values, in which integers stay integers."""
    known = [value for value in values if value is not None]
    if not all(isinstance(value, int) for value in known) or not known:
        return "float64"
    return "Int64" if max(map(abs, known)) < 2**63 else "object"


@without_inner_frames
def verify(
    instance: ProblemInstance[SolutionT], claimed: Answer[SolutionT] | SolutionT | str | Path
) -> Verification:
    """Return whether an answer or a solution is right, recomputed from the instance alone.

    Parameters
    ----------
    instance
        An instance of any problem.
    claimed
        An answer of `solve`, a solution object, or the path of a file with a solution, with one
        object of ``lyra-opt solve --format json``, or of another solver (``.sol``; see
        `load_solution`).

    Returns
    -------
    Verification
        True if the solution is valid and all claims hold; otherwise ``violations`` has one sentence
        per violation. A dual bound is not proved again, only compared with the objective.
        ``print`` shows the outcome as text.

    Raises
    ------
    UserError
        If the file cannot be read, or `claimed` is not an answer or a solution of the problem.
    """
    from lyra_opt.core import verifying

    problem = problem_of_instance(instance)
    solution, claims = _solution(problem, instance, claimed)
    return verifying.verify(problem, instance, solution, {"instance": instance.name, **claims})


def _solver(problem: Problem, instance: ProblemInstance, given: SolverLike | None) -> Solver:
    """Return the given solver, or the default solver of the problem."""
    chosen = problem.default_solver_of(instance.variant) if given is None else given
    return find_solver(problem.name, chosen)


def _checked_start(problem: Problem, instance: ProblemInstance[SolutionT], given: Any) -> SolutionT:
    """Return the solution to start from; raise `UserError` if it is not valid for the instance."""
    solution, claims = _solution(problem, instance, given)
    require_valid_start(problem, instance, solution, claims, "start")
    found: SolutionT = solution
    return found


def _solution(
    problem: Problem, instance: ProblemInstance, given: Any
) -> tuple[Any, Mapping[str, Any]]:
    """Return the solution in an answer, a file or an object, with the claims about it."""
    if isinstance(given, Answer):
        return given.solution, given.claims()
    if isinstance(given, str | Path):
        return claimed_solution(instance, given)
    if isinstance(given, problem.all_solution_classes):
        return given, {}
    raise UserError(problem.wrong_type_message(given, "an answer, a file or "))
