"""The command ``lyra-opt``, which combines the sub-commands and turns errors into exit codes."""

from __future__ import annotations

import io
import os
import shlex
import sys
from typing import TYPE_CHECKING

from lyra_opt.commands.messages import forgiving_stderr

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Sequence

DESCRIPTION = "Exact and heuristic solvers for the decision problems of GPU-cluster schedulers."

LINK_LOOP = "Symlink loop"
"""The message of the RuntimeError for circular links in Python 3.11 and 3.12."""

EXAMPLES = """\
examples:
  lyra-opt generate reclaim --family messy-dist --servers 100 --reclaim 30 --out instances
  lyra-opt solve instances/*.json --solver lyra-greedy --solver cpsat-strengthened
  lyra-opt solve instances/*.json --solver peeling --certify --format json
  lyra-opt study reclaim-gap --out results/reclaim-gap

"lyra-opt COMMAND --help" explains a command.
Exit code: 0; 1 if a check or a solver failed, or a search found nothing; 2 for bad input or usage;
130 after Ctrl-C.
"""


def make_parser() -> ArgumentParser:
    """Return the parser of the whole command line."""
    import lyra_opt.experiments.command
    import lyra_opt.experiments.library_score
    import lyra_opt.experiments.planning.command
    import lyra_opt.experiments.simulation.commands
    import lyra_opt.experiments.tuning.command
    import lyra_opt.instances.command
    import lyra_opt.instances.library.command
    import lyra_opt.paper_figures.command
    from lyra_opt.commands import cite, completion, counterexample, schema, solve, solvers, verify
    from lyra_opt.commands.arguments import OneLineParser
    from lyra_opt.core.version import VERSION

    parser = OneLineParser(prog="lyra-opt", description=DESCRIPTION, epilog=EXAMPLES)
    parser.add_argument("--version", action="version", version=f"lyra-opt {VERSION}")
    subparsers = parser.add_subparsers(metavar="COMMAND")
    solve.add_parser(subparsers)
    verify.add_parser(subparsers)
    counterexample.add_parser(subparsers)
    lyra_opt.experiments.planning.command.add_parsers(subparsers)
    lyra_opt.instances.command.add_parser(subparsers)
    library = lyra_opt.instances.library.command.add_parser(subparsers)
    lyra_opt.experiments.library_score.add_parser(library)
    solvers.add_parser(subparsers)
    schema.add_parser(subparsers)
    lyra_opt.experiments.simulation.commands.add_parsers(subparsers)
    lyra_opt.experiments.tuning.command.add_parser(subparsers)
    lyra_opt.experiments.command.add_parsers(subparsers)
    lyra_opt.paper_figures.command.add_parser(subparsers)
    cite.add_parser(subparsers)
    completion.add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    if sys.stdout is None:  # closed by the parent process
        print("lyra-opt: error: the standard output is closed", file=sys.stderr)
        return 2
    if isinstance(sys.stdout, io.TextIOWrapper):  # escape letters that its encoding lacks
        sys.stdout.reconfigure(errors="backslashreplace")
    os.environ["MPLBACKEND"] = "agg"  # the backend of a notebook may be missing in a terminal
    # All slow imports happen inside this block, so that Ctrl-C during an import is handled.
    with forgiving_stderr():
        try:
            return _run(sys.argv[1:] if argv is None else list(argv))
        except KeyboardInterrupt:
            print("lyra-opt: interrupted", file=sys.stderr)
            return 130
        except BrokenPipeError:  # the reader of the output has ended, as `head` does
            _discard_output()
            return 141


def _run(given: Sequence[str]) -> int:
    from lyra_opt.commands.completion import answer_shell
    from lyra_opt.commands.messages import Loudness, as_loud_as, complain, show_traceback
    from lyra_opt.core.documents import unwritable
    from lyra_opt.core.errors import UserError

    parser = make_parser()
    answer_shell(parser)
    arguments = parser.parse_args(given)
    arguments.command_line = shlex.join(["lyra-opt", *given])
    loudness = getattr(arguments, "loudness", Loudness.USUAL)
    with as_loud_as(loudness):
        try:
            try:
                exit_code: int = arguments.run(arguments)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            raise
        except UserError as error:
            show_traceback(error)
            complain(f"error: {error}")
            return 2
        except OSError as error:
            show_traceback(error)
            names_no_file = error.filename is None
            complain(
                f"error: {unwritable('the standard output', error) if names_no_file else error}"
            )
            _discard_output()
            return 2
        except Exception as error:
            show_traceback(error)
            if isinstance(error, RuntimeError) and str(error).startswith(LINK_LOOP):
                complain(f"error: {error}: the link points to itself; give a real file")
                return 2
            what = f"{type(error).__name__}: {error}"
            complain(f"error: internal error in lyra-opt or a plug-in: {what}; see --debug")
            return 1
    return exit_code


def _discard_output() -> None:
    """Redirect buffered output to the null device, so that writing it at exit cannot fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
