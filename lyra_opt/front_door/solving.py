"""One instance, one solver or several; and whether an answer is right."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lyra_opt.core.errors import UserError
from lyra_opt.core.execution import execute
from lyra_opt.core.interrupting import heeding_signals
from lyra_opt.core.isolation.workers import Workers
from lyra_opt.core.loading import load_solution
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

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from lyra_opt.core.evidence import Evidence
    from lyra_opt.core.problem import Problem, ProblemInstance
    from lyra_opt.core.solver import Solver, SolverLike
    from lyra_opt.core.verifying import Verification

SolutionT = TypeVar("SolutionT")


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
    """Return the checked answer of a solver.

    Parameters
    ----------
    instance
        Of any problem.
    solver
        Its name, as ``lyra-opt solvers`` lists it, ``my_file.py:MySolver``, a class or an object;
        None for the problem's own choice.
    time_limit_s
        Seconds that it may take; None is no limit.
    memory_limit_mib
        MiB that it may take beyond what it begins with; None is no limit.
    isolated
        Whether it runs in a process of its own, forked for it in some 50 milliseconds, where its
        crash is an answer with status error, and where it is ended if it goes on beyond a limit (of
        time by a second, or a tenth): the best that it told of until then, or the start, is the
        answer. What it keeps in its own object is lost then. By default with a memory limit, and
        where a solver that is not the toolkit's has a time limit.
    threads
        At most so many, by those who can use them; with more than one, runs differ.
    start
        A solution, an answer that holds one, or the path of a file with either; what comes of it is
        never worse.
    seed
        Of random choices.
    certify
        Whether to hold the answer against an independent witness; see
        `lyra_opt.core.witnesses.solve_and_certify`.

    Returns
    -------
    Answer
        Its objective is recomputed; a solver that fails or lies gives an answer with status error.
        ``print`` it for a readable block. After Ctrl-C it holds what the solver knows, and
        ``stopped_by`` is ``interrupt``.

    Raises
    ------
    UserError
        If there is no such solver, the start is no valid solution, or a number is none that it may
        be.
    KeyboardInterrupt
        After a second Ctrl-C. Only the main thread hears Ctrl-C; a handler of your own is back
        afterwards.
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


def compare(
    instance: ProblemInstance[SolutionT],
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
    """Return how far the answers of several solvers to one instance are from the best.

    Parameters
    ----------
    instance
        Of any problem.
    solvers
        At least one, each as for `solve`, and so is the rest; an array or a series of names too.

    Returns
    -------
    pandas.DataFrame
        A row a solver, in order, its name as index ``solver``, and numbers as numbers. After
        Ctrl-C, solvers that have not begun are missing.

        ``objective``
            As checked. Integers where all are.
        ``gap_to_optimum_at_most``
            How much worse it is, at most, than the optimum: than ``optimum`` or, where that is
            missing, than the best bound here. Relative to these, 0.082 for 8.2 %; infinite where
            one is or may be 0; and so are the other two.
        ``gap_to_best``, ``gap``
            How much worse the objective is than the best here, and than its own bound.
        ``dual_bound``
            Of the run, and of its witness.
        ``wall_time_s``
            Seconds of the solver alone.
        ``stopped_by``, ``message``
            The limit that ended the run; why it failed, was skipped, or what contradicts it.

        Then what the problem measures beside the objective, such as ``collateral_gpus``, and last,
        as pandas prints the first and the last columns where not all have room:

        ``optimum``
            The best objective here, where the best bound here proves it.
        ``status``
            What the run itself proved: ``optimal``, ``feasible``, ...

    Raises
    ------
    UserError
        As `solve`; before anything is run if a solver is unknown, or two are called the same.
    """
    import pandas as pd

    problem = problem_of_instance(instance)
    listed = [] if isinstance(solvers, str) or not isinstance(solvers, Iterable) else list(solvers)
    if not listed:
        raise UserError("solvers must be a list with at least one solver")
    found = [_solver(problem, instance, each) for each in listed]
    require_different_names(each.name for each in found)
    if start is not None:  # read once, whoever starts from it
        start = _checked_start(problem, instance, start)
    answers: list[Answer] = []
    with heeding_signals(signal.SIGINT) as interruption:
        for each in found:
            if not interruption.is_asked:
                answer = solve(
                    instance,
                    each,
                    time_limit_s=time_limit_s,
                    memory_limit_mib=memory_limit_mib,
                    isolated=isolated,
                    threads=threads,
                    start=start,
                    seed=seed,
                    certify=certify,
                )
                answers.append(answer)
    answers = refute_claims(answers)
    evidence = evidence_of(answers)
    rows = [_row(answer, evidence) for answer in answers]
    frame = pd.DataFrame(rows, dtype=object).set_index("solver")
    types = {
        "objective": _type_of([answer.objective for answer in answers]),
        "dual_bound": _type_of([answer.dual_bound for answer in answers]),
        "optimum": _type_of([evidence.optimum]),
    }
    relative = ("gap", "gap_to_best", "gap_to_optimum_at_most", "wall_time_s")
    return frame.infer_objects().astype(types | dict.fromkeys(relative, "float64"))


def _row(answer: Answer, evidence: Evidence) -> dict[str, Any]:
    """Return what a table says of an answer, by column."""
    return {
        "solver": answer.solver,
        "objective": answer.objective,
        "gap_to_optimum_at_most": evidence.gap_to_optimum_at_most(answer.objective),
        "gap_to_best": evidence.gap_to_best(answer.objective),
        "gap": answer.gap,
        "dual_bound": answer.dual_bound,
        "wall_time_s": answer.wall_time_s,
        "stopped_by": None if answer.stopped_by is None else str(answer.stopped_by),
        "message": answer.message,
        **{key: answer.measures.get(key) for key in answer.problem.measure_keys},
        "optimum": evidence.optimum,
        "status": str(answer.status),
    }


def _type_of(values: Sequence[int | float | None]) -> str:
    """Return the type of a column that keeps integers what they are, some missing or none."""
    known = [value for value in values if value is not None]
    if not all(isinstance(value, int) for value in known) or not known:
        return "float64"
    return "Int64" if max(map(abs, known)) < 2**63 else "object"


def verify(
    instance: ProblemInstance[SolutionT], claimed: Answer[SolutionT] | SolutionT | str | Path
) -> Verification:
    """Return whether an answer or a solution is right, recomputed from the instance alone.

    Parameters
    ----------
    instance
        Of any problem.
    claimed
        An answer of `solve`, a solution of the problem's own class, or the path of a file with a
        solution or one object of ``lyra-opt solve --json``.

    Returns
    -------
    Verification
        True where it is valid and all that it claims holds; else ``violations`` has a sentence
        each. A bound is not proved again, only held against the objective. ``print`` it.

    Raises
    ------
    UserError
        If the file cannot be read, or what is given is nothing that can be verified.
    """
    from lyra_opt.core import verifying

    problem = problem_of_instance(instance)
    solution, claims = _solution(problem, claimed)
    return verifying.verify(problem, instance, solution, {"instance": instance.name, **claims})


def _solver(problem: Problem, instance: ProblemInstance, given: SolverLike | None) -> Solver:
    """Return the solver that is given, or the problem's own choice."""
    chosen = problem.default_solver_of(instance.variant) if given is None else given
    return find_solver(problem.name, chosen)


def _checked_start(problem: Problem, instance: ProblemInstance[SolutionT], given: Any) -> SolutionT:
    """Return the solution to start from; `UserError` if it is none for the instance."""
    solution, claims = _solution(problem, given)
    require_valid_start(problem, instance, solution, claims, "start")
    found: SolutionT = solution
    return found


def _solution(problem: Problem, given: Any) -> tuple[Any, Mapping[str, Any]]:
    """Return the solution that an answer, a file or an object is, with what is claimed of it."""
    if isinstance(given, Answer):
        return given.solution, given.claims()
    if isinstance(given, str | Path):
        return load_solution(given, problem)
    if isinstance(given, problem.all_solution_classes):
        return given, {}
    raise UserError(problem.wrong_type_message(given, "an answer, a file or "))
