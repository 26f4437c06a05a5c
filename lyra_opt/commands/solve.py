"""``lyra-opt solve``: run solvers on instance files and check their claims."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lyra_opt.commands.messages import complain, say, write_traceback
from lyra_opt.commands.output import require_file_path, stdout_kept_clean
from lyra_opt.core.documents import format_document, write_text
from lyra_opt.core.errors import UserError, counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from lyra_opt.commands.answers import AnswersOfFile
    from lyra_opt.core.execution import Executor
    from lyra_opt.core.loading import LoadedInstance
    from lyra_opt.core.solver import Solver
    from lyra_opt.core.solving import Answer

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that end the current run and the remaining runs."""


def run(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt solve`` and return the exit code."""
    from lyra_opt.commands.answers import print_answers
    from lyra_opt.core.interrupting import heeding_signals
    from lyra_opt.core.isolation.workers import Workers
    from lyra_opt.core.loading import save_solution
    from lyra_opt.core.result import Status
    from lyra_opt.front_door.files import loaded_instance
    from lyra_opt.front_door.models import exported

    _require_outputs(arguments)
    if arguments.start is not None and len(arguments.files) > 1:
        raise UserError("--start cannot be combined with several instance files")
    # All files are checked before the first run, so that an invalid file wastes no run.
    loaded = [loaded_instance(file) for file in arguments.files]
    start = None
    if arguments.start is not None:
        start = _start(loaded[0], arguments.start, arguments.seed)
    with stdout_kept_clean():  # a user's solver may print while it is loaded
        runs = _runs(loaded, arguments.solvers or [])
        if not arguments.solvers and arguments.exact_time_s > 0:
            runs = [(entry, [*solvers, *_exact_beside(entry, solvers)]) for entry, solvers in runs]
    if arguments.export is not None:
        for words in filter(
            None, exported(loaded[0].instance, arguments.export, arguments.solvers)
        ):
            say(words)
        if not any(getattr(arguments, name) for name in NEED_ANSWERS):
            return 0
    with stdout_kept_clean(), Workers() as workers, heeding_signals(*ENDING) as interruption:
        answers = _answers(runs, arguments, start, workers)
    shown = [answer for _, of_file in answers for answer in of_file]
    flat = [answer for answer in shown if answer is not start]
    for answer in flat:
        write_traceback(answer.solver, answer.traceback)
    if arguments.out is not None:  # before the table, which fails if the terminal is gone
        best = _best(shown)
        if best is None or best.objective is None:
            complain(f"--out {arguments.out}: no solution was found; the file is not written")
        else:
            save_solution(arguments.out, best.problem, best.instance, best.solution, best.objective)
    print_answers(answers, arguments.form)
    if arguments.plot is not None:
        _draw(arguments, loaded[0], shown)
    if interruption.is_asked:
        total = sum(len(solvers) for _, solvers in runs)
        complain(f"interrupted: {len(flat)} of {counted(total, 'run')} started; see above")
        if arguments.proof is not None:
            complain(f"--proof {arguments.proof}: interrupted; the file is not written")
        return 130
    is_proved = arguments.proof is None or _prove(arguments, loaded[0], shown)
    if any(answer.status is Status.ERROR for answer in flat) or not is_proved:
        return 1
    if not any(answer.is_solved for answer in flat):
        complain("no solver found a solution")
        return 1
    return 0


NEED_ANSWERS = ("solvers", "start", "certify", "proof", "out", "plot")
"""The options without which ``--export`` only writes the model."""

WRITTEN = ("out", "plot", "export", "proof")
"""The options that name a file to write."""

START = "the file of --start"
"""The file of ``--start``, which only ``--out`` may replace, because its solution is not worse."""


def _require_outputs(arguments: argparse.Namespace) -> None:
    """Raise `UserError` if an output cannot be written, or is also an input or another output.

    Only ``--out`` may replace the file of ``--start``.
    """
    from lyra_opt.core.pictures import require_picture_path

    taken = {Path(file).resolve(): "the instance itself" for file in arguments.files}
    if arguments.start is not None:
        taken.setdefault(Path(arguments.start).resolve(), START)
    for name in WRITTEN:
        path = getattr(arguments, name)
        if path is None:
            continue
        if len(arguments.files) > 1:
            raise UserError(f"--{name} cannot be combined with several instance files")
        if name == "plot":
            require_picture_path("--plot", path)
        require_file_path(f"--{name}", path)
        place = Path(path).resolve()
        for written in [place, *([place.with_suffix(".csv")] if name == "plot" else [])]:
            if written in taken and not (name == "out" and taken[written] == START):
                raise UserError(f"--{name} {path}: would overwrite {taken[written]}")
            taken[written] = f"the file of --{name}"


def _prove(arguments: argparse.Namespace, entry: LoadedInstance, answers: Sequence[Answer]) -> bool:
    """Write a proof for the best solution, or of infeasibility; return whether one was found."""
    from lyra_opt.core.result import Limits, Status
    from lyra_opt.core.stopwatch import OutOfTimeError, limited_to
    from lyra_opt.proofs.files import proof_in_words, proof_of

    best = _best(answers)
    if best is None and all(answer.status is not Status.INFEASIBLE for answer in answers):
        complain(f"--proof {arguments.proof}: no solution was found; the file is not written")
        return False
    try:
        with limited_to(Limits(time_s=arguments.time_limit_s)):
            solution = None if best is None else best.solution
            proof = proof_of(entry.problem, entry.instance, entry.proved_document(), solution)
    except UserError as error:
        complain(f"--proof {arguments.proof}: {error}; the file is not written")
        return False
    except OutOfTimeError:
        complain(
            f"--proof {arguments.proof}: the time limit ended the search; the file is not written"
        )
        return False
    write_text(arguments.proof, format_document(proof))
    say(f"--proof {arguments.proof}: {proof_in_words(proof)}")
    return True


class UnfitName(NamedTuple):
    """A solver name that cannot be used for the problem of an instance file, with the error."""

    name: str
    error: Exception


def _runs(
    loaded: Sequence[LoadedInstance], names: Sequence[str]
) -> list[tuple[LoadedInstance, list[Solver | UnfitName]]]:
    """Return the solvers to run on each instance file; raise `UserError` if a name fits no file."""
    from lyra_opt.core.isolation.loading import find_solver_safely
    from lyra_opt.core.solver import require_different_names

    def solver_of(entry: LoadedInstance, name: str) -> Solver | UnfitName:
        try:
            return find_solver_safely(entry.problem.name, name)
        except UserError as error:
            return UnfitName(name, error)

    runs = [
        (
            entry,
            [
                solver_of(entry, name)
                for name in names or [entry.problem.default_solver_of(entry.instance.variant)]
            ],
        )
        for entry in loaded
    ]
    for _, solvers in runs:
        require_different_names(solver.name for solver in solvers)
    for of_name in zip(*(solvers for _, solvers in runs), strict=True):
        first = of_name[0]
        if all(isinstance(solver, UnfitName) for solver in of_name) and isinstance(
            first, UnfitName
        ):
            raise first.error
    return runs


def _exact_beside(entry: LoadedInstance, solvers: Sequence[Solver | UnfitName]) -> Iterator[Solver]:
    """Yield an exact solver to run after the default solver, unless the default solver is exact."""
    from lyra_opt.core.solver import find_solver, solver_names

    problem, variant = entry.problem, entry.instance.variant
    if any(variant in getattr(solver, "exact_variants", ()) for solver in solvers):
        return
    for name in ("exact", *problem.witnesses):
        if (problem.name, name) in solver_names(problem.name):
            solver = find_solver(problem.name, name)
            is_usable = not (solver.availability() or solver.supports(entry.instance))
            if variant in solver.exact_variants and is_usable:
                yield solver
                return


def _answers(
    runs: Sequence[tuple[LoadedInstance, Sequence[Solver | UnfitName]]],
    arguments: argparse.Namespace,
    start: Answer | None,
    executor: Executor,
) -> list[AnswersOfFile]:
    """Run every solver on every file, and show the progress on a terminal."""
    from lyra_opt.commands.progress import solving
    from lyra_opt.core.result import Limits, Status
    from lyra_opt.core.solving import refute_claims, solve_and_check
    from lyra_opt.core.stopwatch import interruption_in_force
    from lyra_opt.core.witnesses import solve_and_certify

    usual = Limits(
        time_s=arguments.time_limit_s,
        memory_mib=arguments.memory_limit_mib,
        threads=arguments.threads,
    )
    run_one = solve_and_certify if arguments.certify else solve_and_check
    answers: list[AnswersOfFile] = []
    total, begun = sum(len(solvers) for _, solvers in runs), 0
    for entry, solvers in runs:
        of_file: list[Answer] = []
        for solver in solvers:
            if interruption_in_force().is_asked:
                break
            begun += 1
            is_beside = bool(of_file) and not arguments.solvers
            if is_beside and of_file[0].status is Status.OPTIMAL:  # already proved optimal
                continue
            limits = usual
            if is_beside:
                time_s = min(arguments.exact_time_s, usual.time_s or arguments.exact_time_s)
                limits = replace(usual, time_s=time_s)
            if isinstance(solver, UnfitName):
                of_file.append(_unfit(entry, solver, arguments.seed))
                continue
            on_file = f" on {Path(entry.file).name}" if len(runs) > 1 else ""
            words = f"{solver.name}{on_file}" + f", {begun} of {total}" * (total > 1)
            terms = entry.problem.terms_of(entry.instance)
            variant, limit_s, behind = entry.instance.variant, limits.time_s, total - begun
            with solving(words, variant, limit_s, behind, terms) as observer:
                answer = run_one(
                    entry.problem,
                    entry.instance,
                    solver,
                    limits=limits,
                    seed=arguments.seed,
                    warm_start=None if start is None else start.solution,
                    observer=observer,
                    record=True,
                    executor=executor,
                )
            of_file.append(answer)
        if of_file:
            shown = of_file if start is None else [start, *of_file]
            answers.append((entry.file, refute_claims(shown)))
    return answers


def _start(entry: LoadedInstance, file: str, seed: int) -> Answer:
    """Return the solution of ``--start`` as an answer, to be shown beside those of the solvers."""
    from lyra_opt.core.result import Status
    from lyra_opt.core.solving import Answer, require_valid_start
    from lyra_opt.front_door.models import claimed_solution

    solution, claims = claimed_solution(entry.instance, file)
    require_valid_start(entry.problem, entry.instance, solution, claims, file)
    report = entry.problem.check(entry.instance, solution)
    return Answer(
        problem=entry.problem,
        instance=entry.instance,
        solver=f"start ({Path(file).name})",
        seed=seed,
        status=Status.FEASIBLE,
        solution=solution,
        objective=report.objective,
        measures=report.measures(),
    )


def _unfit(entry: LoadedInstance, solver: UnfitName, seed: int) -> Answer:
    from lyra_opt.core.result import Status
    from lyra_opt.core.solving import Answer

    return Answer(
        problem=entry.problem,
        instance=entry.instance,
        solver=solver.name,
        seed=seed,
        status=Status.UNSUPPORTED,
        message=str(solver.error),
    )


def _draw(arguments: argparse.Namespace, entry: LoadedInstance, answers: Sequence[Answer]) -> None:
    """Write a picture of the solutions and the progress of the solvers."""
    from lyra_opt import plot
    from lyra_opt.core.plotting import has_progress

    if has_progress(answers) or any(answer.solution is not None for answer in answers):
        plot(entry.instance, answers, style=arguments.style, file=arguments.plot)
    else:
        complain(f"--plot {arguments.plot}: no solution was found; the file is not written")


def _best(answers: Sequence[Answer]) -> Answer | None:
    """Return the answer with the best solution, the first if tied; None without any solution."""
    solved = [answer for answer in answers if answer.objective is not None]
    sign = 1 if solved and solved[0].sense == "min" else -1
    return min(solved, key=lambda answer: sign * (answer.objective or 0), default=None)
