"""The command ``lyra-opt library score``: one solver beside the stored results of the others."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lyra_opt.core.errors import UserError
from lyra_opt.instances.library.command import require_variant

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from lyra_opt.experiments.pool import Engine
    from lyra_opt.experiments.records import SolverRecord
    from lyra_opt.experiments.scoreboard import Scoreboard
    from lyra_opt.experiments.study import Study
    from lyra_opt.instances.library.documents import Entry

STORED_LIMIT_S = 0.5
"""The time limit of the stored runs, which a test compares with them."""


class Selection(NamedTuple):
    """The options that select instances of the library."""

    problem: str | None = None
    grade: str | None = None
    variant: str | None = None
    ids: Sequence[str] = ()
    edition: str | None = None


class Scored(NamedTuple):
    """The ranking of a solver: its problem and name, and all runs.

    ``times`` is a sentence on the machines, and ``missing`` has one for each reason why runs of the
    solver have no result, and one if the other solvers have not run on some instances.
    """

    problem: str
    name: str
    board: Scoreboard
    times: str
    missing: list[str]


def scored(
    solver: str, selection: Selection, time_limit_s: float | None, engine: Engine
) -> tuple[int, Scored | None]:
    """Run a solver on instances of the library; return the exit code, and the ranking if it ran."""
    from lyra_opt.commands.messages import complain
    from lyra_opt.core.temporary import TemporaryFolder
    from lyra_opt.experiments.analysis import Analysis
    from lyra_opt.experiments.records import SolverRecord
    from lyra_opt.experiments.runner import run_study
    from lyra_opt.experiments.scoreboard import Scoreboard
    from lyra_opt.experiments.scoreboard_results import stored_runs
    from lyra_opt.experiments.store import ResultStore

    solved, entries = _instances(solver, selection)
    study = _study(solver, time_limit_s or STORED_LIMIT_S, solved, entries)
    with TemporaryFolder() as folder:
        status = run_study(study, folder, engine=engine, is_kept=False)
        with ResultStore.open(folder) as store:
            record = store.study
            own = [run for run in store.runs() if isinstance(run, SolverRecord)]
    if not own:
        return status, None
    name = own[0].configuration
    chosen = {entry.id for entry in entries}
    others = [run for run in stored_runs(solved, chosen) if run.configuration != name]
    board = Scoreboard(record, Analysis([*own, *others]))
    missing = list(_missing_in_words(own, record.runs))
    if newer := chosen - {run.instance_name for run in others}:
        missing.append(
            f"{len(newer)} of {len(chosen)} instances have no stored results of other solvers; the "
            f"scoreboard is older than {min(newer)}"
        )
    for sentence in missing:
        complain(sentence)
    return status, Scored(solved, name, board, _times_in_words(name, own, others), missing)


def run_score(arguments: argparse.Namespace) -> int:
    """Run ``library score``, and return the exit code."""
    from lyra_opt.commands.messages import say
    from lyra_opt.commands.output import (
        print_formatted,
        print_line,
        print_table,
        require_folder_path,
    )
    from lyra_opt.experiments.chosen_pictures import chosen, chosen_pictures
    from lyra_opt.experiments.plots.profiles import profile_makers
    from lyra_opt.experiments.scoreboard import COUNTED, records_of
    from lyra_opt.experiments.settings import engine_of

    require_folder_path("--out", Path(arguments.out))
    pictures = chosen_pictures(arguments.style, arguments.plot)
    selection = Selection(*(getattr(arguments, name) for name in Selection._fields))
    engine = engine_of(None, arguments.processes)
    status, found = scored(arguments.solver, selection, arguments.time_limit_s, engine)
    if found is None:
        return status
    problem, name, board, times, _ = found
    pictures.write(lambda picture: chosen(profile_makers(board, name), picture))
    ranking, instances = board.shown(problem, name), board.results_of(name)
    better = [run for run in board.improvements() if run.configuration == name]
    commands = _written(better, Path(arguments.out))
    document: Any = records_of(board.results)
    if arguments.form == "json":
        document = {"ranking": records_of(board.ranking(problem)), "results": document}
    if not print_formatted(arguments.form, [ranking, instances], document):
        print_table(instances)
        print()
        print_table(ranking)
    for line in [COUNTED, times, *board.better_than_record(), *commands]:
        (print_line if arguments.form == "table" else say)(line)
    return status


def _instances(solver: str, selection: Selection) -> tuple[str, list[Entry]]:
    """Return the problem and the instances that the options select."""
    from lyra_opt.core.plugins import PROBLEMS
    from lyra_opt.instances.library import library

    problem, grade, variant, ids, edition = selection
    shelf = library(edition)
    entries = [shelf.entry(name) for name in dict.fromkeys(ids)]
    if problem is not None:
        PROBLEMS.require_known("--problem", problem)
    given = [problem] if problem else [each.problem for each in entries]
    in_library = [each.problem for each in shelf.entries.values()]
    problems = _solved_by(solver, list(dict.fromkeys(given or in_library)))
    if len(problems) > 1:
        raise UserError(f"--problem is missing: give one of {', '.join(problems)}")
    of_problem = shelf.of_problem(problems[0])
    require_variant("--variant", variant, of_problem)
    chosen = [each for each in of_problem if variant in (None, each.variant)]
    found = [
        each
        for each in chosen
        if (not entries or each in entries) and grade in (None, str(shelf.known[each.id].grade))
    ]
    kind = f"{problems[0]}, {variant}" if variant else problems[0]
    for entry in entries:
        if entry not in found:
            graded = f", of grade {grade}" if grade else ""
            raise UserError(f"--id {entry.id}: is not an instance of {kind}{graded}")
    if not found:
        counts = Counter(str(shelf.known[each.id].grade) for each in chosen)
        known = ", ".join(f"{number} {name}" for name, number in counts.items())
        raise UserError(f"--grade {grade}: no instance of {kind} has this grade; known: {known}")
    return problems[0], found


def _solved_by(solver: str, problems: Sequence[str]) -> list[str]:
    """Return those problems that a solver solves; raise `UserError` if it solves none of them."""
    from lyra_opt.core.isolation.loading import find_solver_safely

    found: list[str] = []
    refused: list[UserError] = []
    for problem in problems:
        try:
            find_solver_safely(problem, solver)
            found.append(problem)
        except UserError as error:
            refused.append(error)
    if not found:
        raise refused[0]
    return found


def _study(solver: str, time_limit_s: float, problem: str, entries: Sequence[Entry]) -> Study:
    """Return the study of one solver on the instances."""
    from lyra_opt.experiments.study import study_of
    from lyra_opt.experiments.study_file import STUDY_FORMAT, STUDY_VERSION
    from lyra_opt.instances.library import library

    document = {
        "format": STUDY_FORMAT,
        "version": STUDY_VERSION,
        "name": "score",
        "problem": problem,
        "time_limit_s": time_limit_s,
        "instances": [{"library": library().edition, "ids": [each.id for each in entries]}],
        "solvers": [{"names": [solver]}],
    }
    return study_of(document, "score", f"{document}")


def _written(better: Sequence[SolverRecord], folder: Path) -> list[str]:
    """Write the solutions that beat the record; return the command that submits them."""
    from lyra_opt.commands.output import make_folder
    from lyra_opt.core.documents import format_document, write_text

    files = []
    for run in better:
        assert run.solution is not None, "a run with an objective has a solution"
        make_folder(folder)
        files.append(folder / f"{run.instance_name}.solution.json")
        write_text(files[-1], format_document(dict(run.solution)))
    names = " ".join(map(str, files))
    return [f'To submit: lyra-opt library submit {names} --by "YOUR NAME"'] if files else []


def _missing_in_words(own: Sequence[SolverRecord], wanted: int) -> Iterator[str]:
    """Yield how many of the runs of a solver have no result, and why."""
    from lyra_opt.core.result import Status

    of = f"of {wanted} runs of {own[0].configuration}"
    for status, words in {
        Status.ERROR: "failed and count as runs without a solution",
        Status.UNSUPPORTED: "are left out, because the solver does not support the instance",
    }.items():
        runs = [run for run in own if run.status == status]
        if runs:
            yield f"{len(runs)} {of} {words}; the first: {runs[0].instance_name}: {runs[0].message}"
    if len(own) < wanted:
        yield f"{wanted - len(own)} {of} are missing, because they were interrupted"


def _times_in_words(name: str, own: Sequence[SolverRecord], others: Sequence[SolverRecord]) -> str:
    """Return on which machines and with which limits the solver and the others ran."""
    mine = own[0]
    if not others:
        return f"{name} ran on {mine.cpu} ({mine.cores} processors); no other solver has results."
    first = others[0]
    share = sum(run.cpu_time_s or 0 for run in others) / sum(run.wall_time_s or 0 for run in others)
    words = (
        f"The other solvers ran on {first.started_at[:10]} on {first.cpu} ({first.cores} "
        f"processors) with {first.time_limit_s:g} s per run, of which they had the processor for "
        f"{100 * share:.0f} %. {name} ran on {mine.cpu} "
        f"({mine.cores} processors) with {mine.time_limit_s:g} s per run. Times of different "
        "machines are not comparable, but gaps are."
    )
    if first.time_limit_s != mine.time_limit_s:
        words += (
            " A run without a proof counts with its time limit, so the rank of "
            f"{name} means little unless its limit is {first.time_limit_s:g} s."
        )
    return words
