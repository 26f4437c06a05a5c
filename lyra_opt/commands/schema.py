"""``lyra-opt schema``: what files of instances and solutions may hold."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.arguments import add_command, completed_by

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
examples:
  lyra-opt schema lyra-opt/reclaim
  lyra-opt schema lyra-opt/reclaim-solution --keys
"""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the sub-command."""
    parser = add_command(
        subparsers,
        "schema",
        "write the JSON schema of a file format",
        "Write the JSON schema (2020-12) of instances or solutions of a problem, for "
        "editors and for programs in other languages. It states what a schema can: "
        "lyra-opt also refuses ids that are not unique or not known, keys that occur twice, and "
        "integers written as 8.0.",
        EXAMPLES,
    )
    completed_by(
        parser.add_argument("format", metavar="FORMAT", help="what the file has as its format key"),
        _formats,
    )
    parser.add_argument("--keys", action="store_true", help="list the keys for people instead")
    parser.set_defaults(run=run)


def _formats() -> list[str]:
    from lyra_opt.core.problem import problems

    return [name for each in problems().values() for name in each.formats]


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command; return the exit code."""
    from lyra_opt.commands.output import text_width
    from lyra_opt.core.described import keys_text
    from lyra_opt.core.errors import UserError
    from lyra_opt.core.nearest import meant
    from lyra_opt.core.problem import problem_of_file, problems

    problem = problem_of_file(arguments.format)
    if problem is None:
        known = [name for each in problems().values() for name in each.formats]
        raise UserError(f"{arguments.format!r}: no such format; {meant(arguments.format, known)}")
    if arguments.keys:
        print(keys_text(problem.keys(arguments.format), text_width()))
    else:
        print(json.dumps(problem.schemas()[arguments.format], indent=1))
    return 0
