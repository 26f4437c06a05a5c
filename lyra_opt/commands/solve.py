"""``lyra-opt solve``: run solvers on instance files and check what they claim."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.arguments import (
    add_command,
    add_debug_option,
    add_seed_option,
    add_time_limit_option,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from lyra_opt.core.loading import LoadedInstance
    from lyra_opt.core.solver import Solver
    from lyra_opt.core.solving import Answer

EXAMPLES = """\
examples:
  lyra-opt solve fleet.json
      the default solver of the problem
  lyra-opt solve fleet.json --solver lyra-greedy --solver cpsat-strengthened --time-limit 10
      a heuristic and an exact solver side by side
  lyra-opt solve *.json --solver peeling --certify --json > answers.json
      a heuristic with a proved bound on many files, for a program to read

Every answer is recomputed from the instance; a solver whose claim differs is reported as an
error. Status "optimal" means proved. Exit code: 0, or 1 if a solver failed, or 2 for bad input.
"""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the sub-command."""
    parser = add_command(
        subparsers,
        "solve",
        "solve instance files",
        "Solve instance files with one or more solvers and check the answers.",
        EXAMPLES,
    )
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="instance file, JSON, plain or gzip"
    )
    parser.add_argument(
        "--solver",
        action="append",
        metavar="NAME",
        dest="solvers",
        help='a solver of the problem ("lyra-opt solvers" lists them); may be repeated '
        "(default for reclaim: lyra-greedy; for allocation it depends on the objective)",
    )
    add_time_limit_option(parser, "each run")
    add_seed_option(parser, "random choices")
    parser.add_argument(
        "--certify", action="store_true", help="add a proved bound to every answer, heuristics too"
    )
    parser.add_argument(
        "--json", action="store_true", help="write one JSON array to stdout, an object an answer"
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="write the best solution found to a solution file (with one instance file only)",
    )
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="draw the solutions, one above the other, as .svg or .png (with one instance file of "
        "allocation over time only)",
    )
    add_debug_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command; return the exit code."""
    from lyra_opt.commands.output import print_json, require_file_path, stdout_kept_clean
    from lyra_opt.core.errors import UserError
    from lyra_opt.core.loading import load_instance, save_solution
    from lyra_opt.core.pictures import require_picture_path
    from lyra_opt.core.result import Limits, Status
    from lyra_opt.core.solving import refute_claims, solve_and_check

    if arguments.out is not None:
        if len(arguments.files) > 1:
            raise UserError("--out takes the solution of one instance file, not of several")
        require_file_path("--out", arguments.out)
    if arguments.plot is not None:
        if len(arguments.files) > 1:
            raise UserError("--plot draws the solutions of one instance file, not of several")
        require_picture_path("--plot", arguments.plot)
        require_file_path("--plot", arguments.plot)
    # Everything is read and validated before the first solve, so that no run is in vain.
    loaded = [load_instance(file) for file in arguments.files]
    if arguments.plot is not None:
        _require_drawing(arguments.plot, loaded[0])
    runs = [(entry, _solvers(entry, arguments.solvers or [])) for entry in loaded]
    answers: list[tuple[str, Answer]] = []
    with stdout_kept_clean():
        for entry, solvers in runs:
            of_file = [
                solve_and_check(
                    entry.problem,
                    entry.instance,
                    solver,
                    limits=Limits(time_s=arguments.time_limit_s),
                    seed=arguments.seed,
                    certify=arguments.certify,
                )
                for solver in solvers
            ]
            answers.extend((entry.file, answer) for answer in refute_claims(of_file))
    for _, answer in answers:
        if arguments.debug and answer.traceback is not None:
            print(answer.traceback, file=sys.stderr)
    if arguments.json:
        print_json([answer.as_json_object(file) for file, answer in answers])
    else:
        _print_answers(answers)
    if arguments.out is not None:
        best = _best(answers)
        if best is None or best.objective is None:
            print(f"--out {arguments.out}: no solution was found, nothing written", file=sys.stderr)
        else:
            save_solution(arguments.out, best.problem, best.instance, best.solution, best.objective)
    if arguments.plot is not None:
        _draw(arguments.plot, loaded[0], [answer for _, answer in answers])
    return 1 if any(answer.status is Status.ERROR for _, answer in answers) else 0


def _solvers(entry: LoadedInstance, names: Sequence[str]) -> list[Solver]:
    from lyra_opt.core.solver import find_solver

    problem = entry.problem
    default = problem.default_solver_of(entry.instance.variant)
    return [find_solver(problem.name, name) for name in names or [default]]


def _require_drawing(path: str, entry: LoadedInstance) -> None:
    """Raise `UserError` if solutions of that instance cannot be drawn."""
    from lyra_opt.core.errors import InputError

    variant = entry.instance.variant
    if entry.problem.drawing_of(variant) is None:
        raise InputError(
            entry.file,
            f"--plot {path}: there are no pictures of the problem {entry.problem.name} with "
            f"{variant} instances",
        )


def _draw(path: str, entry: LoadedInstance, answers: Sequence[Answer]) -> None:
    """Write a picture of the solutions, one for each solver that found one."""
    from lyra_opt.core.pictures import save_picture

    draw = entry.problem.drawing_of(entry.instance.variant)
    solutions = {
        answer.solver: answer.solution for answer in answers if answer.solution is not None
    }
    if not solutions:
        print(f"--plot {path}: no solution was found, nothing written", file=sys.stderr)
    elif draw is not None:
        save_picture(path, draw(entry.instance, solutions))


def _best(answers: Sequence[tuple[str, Answer]]) -> Answer | None:
    """Return the best answer that holds a solution, the first of equals; None if none does."""
    solved = [answer for _, answer in answers if answer.objective is not None]
    sign = 1 if solved and solved[0].sense == "min" else -1
    return min(solved, key=lambda answer: sign * (answer.objective or 0), default=None)


def _print_answers(answers: Sequence[tuple[str, Answer]]) -> None:
    from lyra_opt.commands.output import (
        print_line,
        print_table,
        show_count,
        show_entries,
        show_list,
        show_seconds,
        words,
    )

    records = [answer.as_json_object(file) for file, answer in answers]
    known = dict.fromkeys(key for _, answer in answers for key in answer.problem.answer_keys)
    # A key that has no value in any answer belongs to another variant, or there is no solution.
    keys = [key for key in known if any(record.get(key) is not None for record in records)]
    several_files = len({file for file, _ in answers}) > 1
    rows: list[list[str]] = []
    details: list[str] = []
    for (file, answer), record in zip(answers, records, strict=True):
        status = str(answer.status) + (f" ({answer.stopped_by})" if answer.stopped_by else "")
        rows.append(
            [
                file,
                answer.solver,
                status,
                *(show_count(record[key]) for key in ("objective", "dual_bound")),
                "" if answer.gap is None else f"{100 * answer.gap:.2f} %",
                *(show_count(record.get(key)) for key in keys),
                show_seconds(answer.wall_time_s),
            ]
        )
        named = f"{file}, {answer.solver}" if several_files else answer.solver
        lists = [
            f"{words(key)} {show_list(show_entries(record[key]))}"
            for key in keys
            if isinstance(record.get(key), list | dict)
        ]
        texts = (answer.message, "; ".join(lists))
        details.extend(f"{named}: {text}" for text in texts if text)
    columns = ["file", "solver", "status", "objective", "dual bound", "gap"]
    columns += [*map(words, keys), "time"]
    if several_files:
        shown, right = columns, 3
    else:
        print_line(answers[0][0])
        shown, rows, right = columns[1:], [row[1:] for row in rows], 2
    print_table(shown, rows, right, elsewhere="--json", least=[*map(words, reversed(keys))])
    for line in details:
        print_line(line, indent="  ")
