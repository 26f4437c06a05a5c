"""``lyra-opt verify``: check a solution, and what is claimed of it, against its instance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.commands.arguments import add_command, add_json_option

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
examples:
  lyra-opt solve fleet.json --out solution.json && lyra-opt verify fleet.json solution.json
  lyra-opt solve fleet.json --json > answer.json && lyra-opt verify fleet.json answer.json --json

Exit code: 0 for a valid solution whose claims are right, 1 for another, 2 for bad input.
"""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the sub-command."""
    parser = add_command(
        subparsers,
        "verify",
        "check a solution against its instance",
        "Recompute what a solution costs and compare every claim made of it.",
        EXAMPLES,
    )
    parser.add_argument(
        "instance", metavar="INSTANCE", help="instance file; - is the standard input"
    )
    parser.add_argument(
        "solution", metavar="SOLUTION", help="solution file, or one object of solve --json"
    )
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command; return the exit code."""
    from lyra_opt.commands.output import print_json, print_line
    from lyra_opt.core.loading import load_instance, load_solution
    from lyra_opt.core.verifying import verify

    loaded = load_instance(arguments.instance)
    solution, claims = load_solution(arguments.solution, loaded.problem)
    verification = verify(loaded.problem, loaded.instance, solution, claims)
    if arguments.json:
        print_json(verification.as_json_object())
    else:
        for line in str(verification).splitlines():
            print_line(line, indent="  ")
    return 0 if verification.valid else 1
