"""What the sub-commands share: one-line errors and the types of their arguments."""

from __future__ import annotations

import argparse
import math
import re
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NoReturn

from lyra_opt.commands.messages import Loudness
from lyra_opt.core.errors import one_line
from lyra_opt.core.rules import LARGEST_INTEGER
from lyra_opt.core.texts import meant, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from fractions import Fraction

WIDEST = 100
"""Longer lines are hard to read, however wide the terminal is."""

_COLUMN = re.compile(r" *\S.*?  +(?=\S)")
"""What stands before the second of two columns."""

_NO_BREAK_SPACE = "\u00a0"
_VALUE = re.compile(r"(?<=\S) (?!-|&|>|lyra-opt|\\)")
"""White space before what is no option: that of its value."""
_COMMAND = re.compile(r" +(lyra-opt |--)")


class FoldedHelp(argparse.HelpFormatter):
    """Keeps the lines of descriptions and examples where they fit, and folds them where not.

    Paragraphs are filled anew, a text beside a name stays in its column, and a command goes on
    behind a backslash.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=min(get_terminal_size().columns, WIDEST) - 1)

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
    """A parser that reports bad usage in one line and exits with 2.

    Descriptions and examples keep their line breaks; an argument without a type is text that is not
    empty.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": FoldedHelp, **options})
        self.register("type", None, plain_text)
        self._add_loudness_options()

    def add_subparsers(self, **options: Any) -> Any:
        """Return the action that gives what follows to sub-commands, to be checked by them.

        Without a sub-command the help is shown.
        """
        action = super().add_subparsers(**options)
        action.type = str
        self.set_defaults(run=self._show_help)
        return action

    def _show_help(self, _: argparse.Namespace) -> int:
        self.print_help()
        return 0

    def _add_loudness_options(self) -> None:
        """Let it be chosen how much is said: before the sub-command or behind it."""
        group = self.add_argument_group("what is said on stderr").add_mutually_exclusive_group()
        for flags, loudness, meaning in (
            (("-q", "--quiet"), Loudness.QUIET, "errors alone, neither progress nor remarks"),
            (("-v", "--verbose"), Loudness.VERBOSE, "also what is being done"),
            (("--debug",), Loudness.DEBUG, "also where errors were raised, plug-ins' too"),
        ):
            group.add_argument(
                *flags,
                action="store_const",
                dest="loudness",
                const=loudness,
                default=argparse.SUPPRESS,
                help=meaning,
            )

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Return what was given; name the option that one which there is not is a slip of."""
        found, unknown = super().parse_known_args(args, namespace)
        options = [text.partition("=")[0] for text in unknown if text.startswith("-")]
        likely = nearest(options[0], self._option_string_actions) if options else None
        if likely is not None:
            self.error(f"unrecognized arguments: {' '.join(unknown)}; did you mean {likely}?")
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Name the nearest choice, or all."""
        if action.choices is not None and value not in action.choices:
            hint = meant(value, action.choices)
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}; {hint}")

    def error(self, message: str) -> NoReturn:
        """Print the error without the usage text; ``--help`` has that."""
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
    """Return the parser of a new sub-command, with its texts for ``--help``."""
    said = description or f"{summary[0].upper()}{summary[1:]}."
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name, help=summary, description=said, epilog=examples, **options
    )
    return parser


def completed_by(action: argparse.Action, names: Callable[[], Iterable[str]]) -> None:
    """Let shells complete an argument by these names; where none fits, by names of files."""
    action.completer = lambda **_: names()  # type: ignore[attr-defined]


def completed_by_solvers(action: argparse.Action) -> None:
    """Let shells complete an argument by the names of all solvers."""

    def names() -> set[str]:
        from lyra_opt.core.solver import solver_names

        return {name for _, name in solver_names()}

    completed_by(action, names)


def completed_by_problems(action: argparse.Action) -> None:
    """Let shells complete an argument by the names of all problems."""

    def names() -> Iterable[str]:
        from lyra_opt.core.problem import problems

        return problems()

    completed_by(action, names)


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Let a command write its answer for programs."""
    parser.add_argument("--json", action="store_true", help="write one JSON object to stdout")


def add_seed_option(parser: argparse.ArgumentParser, of: str) -> None:
    """Let a command be given the seed of its draws."""
    said = f"seed of {of} (default: 0)"
    parser.add_argument("--seed", type=integer_from(0), default=0, metavar="N", help=said)


def add_time_limit_option(parser: argparse.ArgumentParser, of: str) -> None:
    """Let a command be stopped after a time."""
    said = f"seconds for {of} (default: no limit)"
    parser.add_argument(
        "--time-limit", type=above_zero("seconds"), metavar="S", dest="time_limit_s", help=said
    )


def add_memory_limit_option(parser: argparse.ArgumentParser, of: str) -> None:
    """Let a command end solvers that take too much memory."""
    said = f"MiB that {of} may take beyond what it begins with (default: no limit)"
    parser.add_argument(
        "--memory-limit", type=above_zero("MiB"), metavar="MIB", dest="memory_limit_mib", help=said
    )


def add_processes_option(parser: argparse._ActionsContainer, of: str) -> None:
    """Let a command do several things at once."""
    said = f"{of} at the same time (default: one for each processor)"
    parser.add_argument("--processes", type=integer_from(1), metavar="N", help=said)


def add_engine_options(parser: argparse._ActionsContainer, of: str) -> None:
    """Let a command run tasks in processes of this machine, or on other machines."""
    where = parser.add_mutually_exclusive_group()
    add_processes_option(where, of)
    where.add_argument(
        "--scheduler",
        metavar="tls://HOST:PORT",
        help=f"a Dask scheduler whose workers do the {of} (default: the variable "
        "LYRA_OPT_SCHEDULER, or else this machine)",
    )


def add_resume_option(parser: argparse._ActionsContainer, what: str) -> None:
    """Let a command go on where it was interrupted."""
    parser.add_argument("--resume", action="store_true", help=f"go on with the {what}")


def add_repeated_option(
    parser: argparse.ArgumentParser, name: str, metavar: str, meaning: str, **options: Any
) -> argparse.Action:
    """Let a command be given any number of something; its list is called by the plural."""
    plural = {"dest": f"{name.removeprefix('--')}s", **options}
    said = f"{meaning}; may be repeated"
    return parser.add_argument(
        name, action="append", default=[], metavar=metavar, help=said, **plural
    )


def integer_from(minimum: int, maximum: int = LARGEST_INTEGER) -> Callable[[str], int]:
    """Return an argument type: an integer from `minimum` to `maximum`, in plain digits."""

    def parse(text: str) -> int:
        plain = text.isascii() and text.removeprefix("-").isdigit()
        if not plain or len(text) > 20 or not minimum <= int(text) <= maximum:
            rule = f"must be an integer from {minimum} to {maximum}"
            raise argparse.ArgumentTypeError(f"{text!r}: {rule}")
        return int(text)

    return parse


def number(text: str) -> float:
    """Return the number that a text stands for; not a number (nan) if it stands for none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def above_zero(unit: str, *, or_zero: bool = False) -> Callable[[str], float]:
    """Return an argument type: a finite number above 0 of a unit, or 0 too."""

    def parse(text: str) -> float:
        value = number(text)
        if not (math.isfinite(value) and (value > 0 or (or_zero and value == 0))):
            rule = f"must be a finite number of {unit} above 0" + ", or 0" * or_zero
            raise argparse.ArgumentTypeError(f"{text!r}: {rule}")
        return value

    return parse


def plain_text(text: str) -> str:
    """Argument type: text that is not empty."""
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def ratio(text: str) -> Fraction:
    """Argument type: a finite number of at least 1, kept exactly as written."""
    from fractions import Fraction

    value = number(text)
    if not (math.isfinite(value) and value >= 1):
        raise argparse.ArgumentTypeError(f"{text!r}: must be a finite number of at least 1")
    return Fraction(text.strip())
