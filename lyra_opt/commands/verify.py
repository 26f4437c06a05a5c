"""``lyra-opt verify``: check a solution and its claims, or a proof of a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.commands.arguments import TEXT_FORMATS, add_command, add_format_option
from lyra_opt.commands.output import print_json, print_line
from lyra_opt.core.errors import UserError

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
examples:
  lyra-opt solve fleet.json --out solution.json && lyra-opt verify fleet.json solution.json
  lyra-opt solve fleet.json --format json > answer.json && lyra-opt verify fleet.json answer.json
  lyra-opt solve fleet.json --export model.mps && highs model.mps --solution_file highs.sol
  lyra-opt verify fleet.json highs.sol
  lyra-opt solve fleet.json --proof proof.json && lyra-opt verify fleet.json --proof proof.json

Exit code: 0 for a valid solution with correct claims, or a proof that holds; 1 for a wrong solution
or proof; 2 for bad input.
"""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the sub-command ``verify`` to the parser of ``lyra-opt``."""
    parser = add_command(
        subparsers,
        "verify",
        "check a solution or a proof against its instance",
        "Recompute the objective of a solution and check every claim about it, or check a proof "
        "that no solution is better, or that none exists, in exact arithmetic. The checker of "
        "proofs is one file that needs only Python: lyra_opt/proofs/stand_alone.py, or "
        "lyra_opt/proofs/preemption_stand_alone.py for preemption.",
        EXAMPLES,
    )
    parser.add_argument(
        "instance",
        metavar="INSTANCE",
        help="instance file, or id of the library; - is the standard input",
    )
    parser.add_argument(
        "solution",
        nargs="?",
        metavar="SOLUTION",
        help="solution file, one answer of solve --format json, or .sol file of HiGHS, Gurobi, "
        "SCIP or CBC for a model of solve --export; omit it with --proof",
    )
    parser.add_argument(
        "--proof", metavar="FILE", help="proof file from solve --proof, instead of a solution"
    )
    add_format_option(parser, TEXT_FORMATS)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt verify`` and return the exit code."""
    from lyra_opt.core.verifying import verify
    from lyra_opt.front_door.files import loaded_instance
    from lyra_opt.front_door.models import claimed_solution

    if (arguments.solution is None) == (arguments.proof is None):
        raise UserError("verify: give either SOLUTION or --proof FILE")
    if arguments.instance == "-" and "-" in (arguments.solution, arguments.proof):
        raise UserError("verify: only one of the two files can be the standard input (-)")
    if arguments.proof is not None:
        return _check_proof(arguments)
    loaded = loaded_instance(arguments.instance)
    solution, claims = claimed_solution(loaded.instance, arguments.solution)
    verification = verify(loaded.problem, loaded.instance, solution, claims)
    if arguments.form == "json":
        print_json(verification.as_json_object())
    else:
        for line in str(verification).splitlines():
            print_line(line, indent="  ")
    return 0 if verification.valid else 1


def _check_proof(arguments: argparse.Namespace) -> int:
    """Check a proof; return the exit code."""
    from lyra_opt.core.documents import read_json_object, source_name
    from lyra_opt.front_door.files import loaded_instance
    from lyra_opt.proofs.files import checked_proof

    loaded = loaded_instance(arguments.instance)
    proof, file = read_json_object(arguments.proof), source_name(arguments.proof)
    found = checked_proof(loaded, loaded.proved_document(), proof, file)
    if arguments.form == "json":
        print_json(found.as_json_object())
    else:
        print_line(found.in_words())
    return 0 if found.holds else 1
