"""Common parts of the sub-commands: one-line errors, shared options and types of arguments."""

from __future__ import annotations

import argparse
import math
import re
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NoReturn

from lyra_opt.commands.messages import Loudness
from lyra_opt.core.errors import one_line
from lyra_opt.core.nearest_names import meant, nearest
from lyra_opt.core.rules import LARGEST_INTEGER
from lyra_opt.core.table import FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from fractions import Fraction

WIDEST = 100
"""The largest width of help texts, because longer lines are hard to read."""

GENERAL_OPTIONS = "Every command: -h help, -q errors only, -v each step, --debug tracebacks."
"""The last line of each help text."""

_COLUMN = re.compile(r" *\S.*?  +(?=\S)")
"""Matches the text before the second of two columns."""

_NO_BREAK_SPACE = "\u00a0"
_VALUE = re.compile(r"(?<=\S) (?!-|&|>|lyra-opt|\\)")
"""Matches a space between an option and its value."""
_COMMAND = re.compile(r" +(lyra-opt |--)")


class FoldedHelp(argparse.HelpFormatter):
    """A help formatter that keeps the line breaks of descriptions and examples if the lines fit.

    In lines that do not fit, paragraphs are filled again, text in a second column stays in its
    column, and commands continue after a backslash.
    """

    def __init__(self, prog: str) -> None:
        width = min(get_terminal_size().columns, WIDEST) - 1
        super().__init__(prog, max_help_position=25, width=width)

    def _format_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None) -> str:
        """Return the usage line, with the word OPTIONS in place of all optional options."""
        needed = [action for action in actions if not action.option_strings or action.required]
        del groups  # exclusive groups hold only optional options
        text = super()._format_usage(usage, needed, [], prefix)
        # With an empty prefix, argparse calls this method to name sub-parsers. The usage text must
        # then be returned unchanged.
        return text if prefix == "" else text.replace(self._prog, f"{self._prog} [OPTIONS]", 1)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(f"{indent}{line}" for line in _folded(text, width - len(indent)))


def _folded(text: str, width: int) -> Iterator[str]:
    paragraph: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line and not line.startswith(" "):
            paragraph.append(line)
            continue
        if any(len(each) > width for each in paragraph):
            paragraph = wrap(" ".join(paragraph), width, break_on_hyphens=False)  # of paths
        yield from paragraph
        paragraph = []
        yield from _indented(line, width)


def _indented(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    column = _COLUMN.match(line)
    if column is not None:
        indent = len(column[0])
        beside = wrap(line[indent:], width - indent)
        return [f"{column[0]}{beside[0]}", *(" " * indent + each for each in beside[1:])]
    indent = len(line) - len(line.lstrip())
    if _COMMAND.match(line) is None:
        return wrap(line, width, subsequent_indent=" " * indent)
    deeper = " " * (indent + 4 * line.lstrip().startswith("lyra-opt"))
    lines = wrap(
        _VALUE.sub(_NO_BREAK_SPACE, line),
        width - 2,
        subsequent_indent=deeper,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return " \\\n".join(lines).replace(_NO_BREAK_SPACE, " ").splitlines()


class OneLineParser(argparse.ArgumentParser):
    """A parser that reports wrong usage in one line and exits with code 2.

    Descriptions and examples keep their line breaks. An argument without a type is a non-empty
    string.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": FoldedHelp, "add_help": False, **options})
        self.register("type", None, plain_text)
        self._add_general_options()

    def add_subparsers(self, **options: Any) -> Any:
        """Return the argparse action to which the sub-commands of this parser are added.

        Without a sub-command the help is shown.
        """
        action = super().add_subparsers(**options)
        action.type = str
        self.set_defaults(run=self._show_help)
        return action

    def _show_help(self, _: argparse.Namespace) -> int:
        self.print_help()
        return 0

    def _add_general_options(self) -> None:
        """Add the options of every command, which are ``-h``, ``-q``, ``-v`` and ``--debug``."""
        self.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
        group = self.add_mutually_exclusive_group()
        for flags, loudness in (
            (("-q", "--quiet"), Loudness.QUIET),
            (("-v", "--verbose"), Loudness.VERBOSE),
            (("--debug",), Loudness.DEBUG),
        ):
            group.add_argument(
                *flags,
                action="store_const",
                dest="loudness",
                const=loudness,
                default=argparse.SUPPRESS,
                help=argparse.SUPPRESS,
            )

    def format_help(self) -> str:
        """Return the help, with one line for the options of every command."""
        return f"{super().format_help()}{GENERAL_OPTIONS}\n"

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse the arguments; an error for an unknown option suggests a similar option."""
        found, unknown = super().parse_known_args(args, namespace)
        options = [text.partition("=")[0] for text in unknown if text.startswith("-")]
        likely = nearest(options[0], self._option_string_actions) if options else None
        if likely is not None:
            self.error(f"unrecognized arguments: {' '.join(unknown)}; did you mean {likely}?")
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise an error that suggests a similar choice, or lists all, for an invalid choice."""
        if action.choices is not None and value not in action.choices:
            hint = meant(value, action.choices)
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}; {hint}")

    def error(self, message: str) -> NoReturn:
        """Print the error in one line, without the usage text that ``--help`` shows, and exit."""
        if message.endswith("expected one argument"):
            message += "; if the value starts with -, write OPTION=VALUE"
        self.exit(2, f"lyra-opt: error: {one_line(message)} (see {self.prog} --help)\n")


def add_command(
    subparsers: argparse._SubParsersAction[Any],
    name: str,
    summary: str,
    description: str | None = None,
    examples: str | None = None,
    **options: Any,
) -> argparse.ArgumentParser:
    """Add a sub-command with its texts for ``--help``; return its parser."""
    text = description or f"{summary[0].upper()}{summary[1:]}."
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name, help=summary, description=text, epilog=examples, **options
    )
    return parser


def completed_by(action: argparse.Action, names: Callable[[], Iterable[str]]) -> None:
    """Let shells complete an argument by the given names, or by file names if no name fits."""
    action.completer = lambda **_: names()  # type: ignore[attr-defined]


def completed_by_solvers(action: argparse.Action) -> None:
    """Let shells complete an argument by the names of solvers."""

    def names() -> set[str]:
        from lyra_opt.core.solver import solver_names

        return {name for _, name in solver_names()}

    completed_by(action, names)


def completed_by_problems(action: argparse.Action) -> None:
    """Let shells complete an argument by the names of problems."""

    def names() -> Iterable[str]:
        from lyra_opt.core.problem import problems

        return problems()

    completed_by(action, names)


TEXT_FORMATS = ("text", "json")
"""The formats of a command that prints sentences."""


def add_format_option(
    parser: argparse._ActionsContainer, formats: Iterable[str] = tuple(FORMATS)
) -> None:
    """Add the option ``--format``; the first of `formats` is the default."""
    names = list(formats)
    text = f"how to print the result: {', '.join(names)} (default: {names[0]})"
    parser.add_argument(
        "--format", choices=names, default=names[0], metavar="FORMAT", dest="form", help=text
    )


def add_seed_option(parser: argparse._ActionsContainer, of: str) -> None:
    """Add the option ``--seed``, the seed of random draws."""
    text = f"random seed of {of} (default: 0)"
    parser.add_argument("--seed", type=integer_from(0), default=0, metavar="N", help=text)


def add_time_limit_option(
    parser: argparse._ActionsContainer, of: str, default: str = "no limit"
) -> None:
    """Add the option ``--time-limit`` in seconds."""
    text = f"seconds for {of} (default: {default})"
    parser.add_argument(
        "--time-limit", type=above_zero("seconds"), metavar="S", dest="time_limit_s", help=text
    )


def add_memory_limit_option(parser: argparse._ActionsContainer, of: str) -> None:
    """Add the option ``--memory-limit`` in MiB, beyond which a solver is killed."""
    text = f"MiB that {of} may use beyond its start (default: no limit)"
    parser.add_argument(
        "--memory-limit", type=above_zero("MiB"), metavar="MIB", dest="memory_limit_mib", help=text
    )


def add_processes_option(parser: argparse._ActionsContainer, of: str) -> None:
    """Add the option ``--processes``, the number of tasks that run in parallel."""
    text = f"number of {of} in parallel (default: one per processor)"
    parser.add_argument("--processes", type=integer_from(1), metavar="N", help=text)


def add_engine_options(parser: argparse._ActionsContainer, of: str) -> None:
    """Add the options ``--processes`` and ``--scheduler``, which run tasks locally or on Dask."""
    where = parser.add_mutually_exclusive_group()
    add_processes_option(where, of)
    where.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help=f"Dask scheduler for the {of} (default: LYRA_OPT_SCHEDULER, or this machine)",
    )


def add_resume_option(parser: argparse._ActionsContainer, what: str) -> None:
    """Add the option ``--resume``, which continues an interrupted command."""
    parser.add_argument("--resume", action="store_true", help=f"continue from the {what}")


def add_picture_options(
    parser: argparse._ActionsContainer, what: str, default: str | None = None
) -> None:
    """Add the options ``--plot`` and ``--style`` to a command that draws; `what` says what.

    With a `default` in words, ``--picture`` chooses one of several pictures.
    """
    files = "FILE.svg, .png or .pdf, and its data as FILE.csv"
    parser.add_argument("--plot", metavar="FILE", help=f"{what}: {files}")
    if default is not None:
        named = f"picture for --plot, named as in a report's folder plots (default: {default})"
        parser.add_argument("--picture", metavar="NAME", help=named)
    add_style_option(parser)


def add_style_option(parser: argparse._ActionsContainer) -> None:
    """Add the option ``--style``."""
    of_paper = "paper is one column wide, 3.17 inches, in 8 point"
    styles, help_text = ("page", "paper"), f"style of pictures; {of_paper}"
    parser.add_argument("--style", choices=styles, default="page", help=help_text)


def add_pictures_option(parser: argparse._ActionsContainer) -> None:
    """Add the option ``--pictures``, for commands that write pages."""
    meaning = "also write every picture of the page in this format, in the style of --style"
    parser.add_argument("--pictures", choices=("pdf", "png"), help=meaning)


def add_repeated_option(
    parser: argparse._ActionsContainer, name: str, metavar: str, meaning: str, **options: Any
) -> argparse.Action:
    """Add a repeatable option, whose values are collected in a list with a plural name."""
    plural = {"dest": f"{name.removeprefix('--')}s", **options}
    text = f"{meaning}; may be repeated"
    return parser.add_argument(
        name, action="append", default=[], metavar=metavar, help=text, **plural
    )


def integer_from(minimum: int, maximum: int = LARGEST_INTEGER) -> Callable[[str], int]:
    """Return a function that parses a decimal integer from `minimum` to `maximum`."""

    def parse(text: str) -> int:
        plain = text.isascii() and text.removeprefix("-").isdigit()
        if not plain or len(text) > 20 or not minimum <= int(text) <= maximum:
            rule = f"must be an integer from {minimum} to {maximum}"
            raise argparse.ArgumentTypeError(f"{text!r}: {rule}")
        return int(text)

    return parse


def number(text: str) -> float:
    """Return the number in a text, or NaN if the text is not a number."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def above_zero(unit: str, *, or_zero: bool = False) -> Callable[[str], float]:
    """Return a function that parses a finite number above 0, or of at least 0 with `or_zero`."""

    def parse(text: str) -> float:
        value = number(text)
        if not (math.isfinite(value) and (value > 0 or (or_zero and value == 0))):
            rule = f"must be a finite number of {unit} above 0" + ", or 0" * or_zero
            raise argparse.ArgumentTypeError(f"{text!r}: {rule}")
        return value

    return parse


def plain_text(text: str) -> str:
    """Return a command-line argument unchanged; raise an error if it is empty."""
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def ratio(text: str) -> Fraction:
    """Return a number of at least 1 from a command-line argument as an exact fraction."""
    from fractions import Fraction

    value = number(text)
    if not (math.isfinite(value) and value >= 1):
        raise argparse.ArgumentTypeError(f"{text!r}: must be a finite number of at least 1")
    return Fraction(text.strip())
