"""``lyra-opt verify``: check a solution and its claims, or a proof of a bound."""

import argparse

from lyra_opt.commands.output import print_json, print_line
from lyra_opt.core.errors import UserError


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
