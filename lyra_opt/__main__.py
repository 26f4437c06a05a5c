"""The command line: puts the sub-commands together and turns errors into exit codes."""

from __future__ import annotations

import io
import os
import shlex
import sys
from typing import TYPE_CHECKING

import lyra_opt.experiments.command
import lyra_opt.experiments.simulation.command
import lyra_opt.experiments.tuning.command
import lyra_opt.instances.command
import lyra_opt.paper_figures.command
from lyra_opt.commands import counterexample, schema, solve, solvers, verify
from lyra_opt.commands.arguments import OneLineParser
from lyra_opt.core.errors import UserError, one_line
from lyra_opt.core.version import VERSION

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

DESCRIPTION = "Exact and heuristic answers to the decision problems of GPU-cluster schedulers."

EXAMPLES = """\
examples:
  lyra-opt generate reclaim --family messy-dist --servers 100 --reclaim 30 --out instances
  lyra-opt solve instances/*.json --solver lyra-greedy --solver cpsat-strengthened
  lyra-opt solve instances/*.json --solver peeling --certify --json
  lyra-opt study reclaim-gap --out results/reclaim-gap

"lyra-opt COMMAND --help" explains a command.
Exit code: 0; 1 if a check or a solver failed, or a search found nothing; 2 for bad input or usage.
"""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = OneLineParser(prog="lyra-opt", description=DESCRIPTION, epilog=EXAMPLES)
    parser.add_argument("--version", action="version", version=f"lyra-opt {VERSION}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    solve.add_parser(subparsers)
    verify.add_parser(subparsers)
    counterexample.add_parser(subparsers)
    lyra_opt.instances.command.add_parser(subparsers)
    solvers.add_parser(subparsers)
    schema.add_parser(subparsers)
    lyra_opt.experiments.simulation.command.add_parsers(subparsers)
    lyra_opt.experiments.tuning.command.add_parser(subparsers)
    lyra_opt.experiments.command.add_parsers(subparsers)
    lyra_opt.paper_figures.command.add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    if sys.stdout is None:  # closed by whoever started us
        print("lyra-opt: error: the standard output is closed", file=sys.stderr)
        return 2
    if isinstance(sys.stdout, io.TextIOWrapper):  # names that its encoding lacks are escaped
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            given = sys.argv[1:] if argv is None else list(argv)
            arguments = make_parser().parse_args(given)
            arguments.command_line = shlex.join(["lyra-opt", *given])
            exit_code: int = arguments.run(arguments)
        finally:
            sys.stdout.flush()
    except UserError as error:
        print(f"lyra-opt: error: {one_line(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("lyra-opt: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read our output has stopped, as `head` does
        _discard_output()
        return 141
    except OSError as error:
        print(f"lyra-opt: error: {one_line(str(error))}", file=sys.stderr)
        _discard_output()
        return 2
    return exit_code


def _discard_output() -> None:
    """Let what is still buffered go nowhere, so that it fails no second time at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
