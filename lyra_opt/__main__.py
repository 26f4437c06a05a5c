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
    from collections.abc import Callable, Iterable, Sequence

LINK_LOOP = "Symlink loop"
"""The message of the RuntimeError for circular links in Python 3.11 and 3.12."""


def make_parser() -> ArgumentParser:
    """Return the parser of the whole command line."""
    import tomllib
    from pathlib import Path

    from lyra_opt.commands import cite, completion, counterexample, schema, solve, solvers, verify
    from lyra_opt.commands.arguments import CommandLine, amount, ratio
    from lyra_opt.core.table import FORMATS
    from lyra_opt.core.version import VERSION
    from lyra_opt.experiments import command, library_score
    from lyra_opt.experiments.planning import command as planning
    from lyra_opt.experiments.simulation import commands as simulation
    from lyra_opt.experiments.tuning import command as tuning
    from lyra_opt.instances import command as generating
    from lyra_opt.instances.library import command as library
    from lyra_opt.instances.snapshots import command as cutting
    from lyra_opt.paper_figures import command as papers
    from lyra_opt.simulation.bounds.scope import JOB_CLASSES, Reading

    runs = {
        "solve": solve.run,
        "verify": verify.run,
        "counterexample": counterexample.run,
        "plan": planning.run,
        "plan example": planning.run_example,
        "anonymize": planning.run_anonymize,
        "generate": generating.run,
        "cut": cutting.run,
        "library list": library.run_list,
        "library show": library.run_show,
        "library get": library.run_get,
        "library verify": library.run_verify,
        "library submit": library.run_submit,
        "library score": library_score.run_score,
        "solvers": solvers.run,
        "schema": schema.run,
        "simulate": simulation.run_simulate,
        "scenarios": simulation.run_scenarios,
        "schemes": simulation.run_schemes,
        "bound": simulation.run_bound,
        "tune": tuning.run,
        "study": command.run_study_command,
        "report": command.run_report_command,
        "diff": command.run_diff_command,
        "paper": papers.run,
        "cite": cite.run,
        "completion": completion.run,
    }
    names: dict[str, Callable[[], Iterable[str]]] = {
        "solvers": _solvers,
        "problems": _problems,
        "scenarios": _scenarios,
        "schemes": _schemes,
        "tunings": _tunings,
        "studies": command.bundled_studies,
        "library_ids": library.ids,
        "file_formats": schema.file_formats,
        "cited": cite.cited_names,
        "formats": lambda: FORMATS,
        "papers": lambda: papers.PAPERS,
        "grades": lambda: library.GRADES,
        "statuses": lambda: library.STATUSES,
        "readings": lambda: [each.value for each in Reading],
        "job_classes": lambda: JOB_CLASSES,
    }
    limit, scale = counterexample.limit, papers.scale
    types = {"amount": amount, "limit": limit, "ratio": ratio, "scale": scale}
    text = Path(__file__).with_name("command_line.toml").read_text(encoding="utf-8")
    found = CommandLine(tables=tomllib.loads(text), names=names, types=types)
    parser, actions = found.parser("lyra-opt", runs, f"lyra-opt {VERSION}")
    generating.add_parameters(actions["generate"].choices)
    return parser


def _solvers() -> set[str]:
    from lyra_opt.core.solver import solver_names

    return {name for _, name in solver_names()}


def _problems() -> Iterable[str]:
    from lyra_opt.core.problem import problems

    return problems()


def _scenarios() -> Iterable[str]:
    from lyra_opt.experiments.simulation.scenario.documents import bundled

    return bundled()


def _schemes() -> Iterable[str]:
    from lyra_opt.simulation.scheme import scheme_names

    return scheme_names()


def _tunings() -> Iterable[str]:
    from lyra_opt.experiments.tuning.tuning_file import tuning_names

    return tuning_names()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    if sys.stdout is None:  # closed by the parent process
        print("lyra-opt: error: the standard output is closed", file=sys.stderr)
        return 2
    if isinstance(sys.stdout, io.TextIOWrapper):  # escape letters that its encoding lacks
        sys.stdout.reconfigure(errors="backslashreplace")
    os.environ["MPLBACKEND"] = "agg"  # the backend of a notebook may be missing in a terminal
    # Threads of OpenBLAS wait for each other: on busy cores, matrices of some hundred rows took 20
    # times longer with two threads than with one. It reads this variable when NumPy is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
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
