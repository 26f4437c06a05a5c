"""``lyra-opt solvers``: list the solvers and what they can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.commands.arguments import add_command

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
examples:
  lyra-opt solvers
  lyra-opt solvers --problem reclaim --json
"""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the sub-command."""
    parser = add_command(
        subparsers,
        "solvers",
        "list the solvers",
        "List the solvers: what they take, whether they prove optimality, whether "
        "they can run here.",
        EXAMPLES,
    )
    parser.add_argument("--problem", metavar="NAME", help="only those of one problem")
    parser.add_argument("--json", action="store_true", help="write one JSON array to stdout")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command; return the exit code."""
    from lyra_opt.commands.output import print_json, print_table
    from lyra_opt.core.errors import UserError
    from lyra_opt.core.problem import problems
    from lyra_opt.core.solver import find_solver, solver_names

    if arguments.problem is not None and arguments.problem not in problems():
        raise UserError(
            f"--problem {arguments.problem!r}: no such problem; known: {', '.join(problems())}"
        )
    records: list[dict[str, Any]] = []
    for problem, name in solver_names(arguments.problem):
        try:
            solver = find_solver(problem, name)
        except UserError as error:  # somebody's own solver that cannot be loaded
            capabilities: dict[str, Any] = dict.fromkeys(
                ("variants", "proves_optimality", "gives_bound")
            )
            reason: str | None = str(error)
        else:
            capabilities = {
                "variants": list(solver.variants),
                "proves_optimality": solver.proves_optimality,
                "gives_bound": solver.gives_bound,
            }
            missing = solver.availability()
            reason = None if missing is None else missing.reason
        records.append(
            {"name": name, "problem": problem}
            | capabilities
            | {"available": reason is None, "reason": reason}
        )
    if arguments.json:
        print_json(records)
        return 0
    columns = ["solver", "problem", "variants", "proves optimality", "gives a bound", "available"]
    rows = [
        [
            record["name"],
            record["problem"],
            ", ".join(record["variants"] or []),
            "yes" if record["proves_optimality"] else "no",
            "yes" if record["gives_bound"] else "no",
            record["reason"] or "yes",
        ]
        for record in records
    ]
    print_table(columns, rows, right=len(columns))
    return 0
