"""Read the commands and their options from a table, and report wrong usage in one line."""

from __future__ import annotations

import argparse
import math
import re
from dataclasses import dataclass
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NoReturn

from lyra_opt.commands.messages import Loudness
from lyra_opt.core.errors import one_line
from lyra_opt.core.nearest_names import meant, nearest
from lyra_opt.core.rules import LARGEST_INTEGER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from fractions import Fraction

WIDEST = 100
"""The largest width of help texts, because longer lines are hard to read."""

GENERAL_OPTIONS = "Every command: -h help, -q errors only, -v each step, --debug tracebacks."
"""The last line of each help text."""

_COLUMN = re.compile(r" *\S.*?  +(?=\S)")
"""Matches the text before the second of two columns."""

PASSED_ON = ("metavar", "nargs", "dest", "default", "required")
"""The keys of an option that argparse takes as they are."""

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


def completed_by(action: argparse.Action, names: Callable[[], Iterable[str]]) -> None:
    """Let shells complete an argument by the given names, or by file names if no name fits."""
    action.completer = lambda **_: names()  # type: ignore[attr-defined]


@dataclass(frozen=True, kw_only=True)
class CommandLine:
    """The tables of ``command_line.toml``, which explains their keys.

    Parameters
    ----------
    tables
        The table of each command, by its name after ``lyra-opt``; ``shared`` has common options.
    names
        The lists of names that tables mention; each function returns a list.
    types
        The types that options name; each function parses a text.
    """

    tables: Mapping[str, Any]
    names: Mapping[str, Callable[[], Iterable[str]]]
    types: Mapping[str, Callable[[str], Any]]

    def parser(
        self, root: str, runs: Mapping[str, Callable[[argparse.Namespace], int]], version: str
    ) -> tuple[OneLineParser, dict[str, Any]]:
        """Return the parser of a program, and its actions to which further commands can be added.

        Parameters
        ----------
        root
            The name of the program, and of its table.
        runs
            The function that runs a command, by the name of the command or of the one above it.
        version
            The text that ``--version`` prints.

        Returns
        -------
        The parser, and by name the action of each command that has commands of its own.
        """
        top = self.tables[root]
        parser = OneLineParser(prog=root, description=top["description"], epilog=top["epilog"])
        parser.add_argument("--version", action="version", version=version)
        actions = {"": parser.add_subparsers(metavar="COMMAND")}
        for path, table in self.tables.items():
            if path in (root, "shared"):
                continue
            above, _, name = path.rpartition(" ")
            summary = table["summary"]
            text = table.get("description", f"{summary[0].upper()}{summary[1:]}.")
            command = actions[above].add_parser(
                name, help=summary, description=text, epilog=table.get("epilog")
            )
            self._add(command, table.get("options", ()))
            for heading, options in table.get("sections", {}).items():
                self._add(command.add_argument_group(heading), options)
            if "commands" in table:
                is_required = table.get("required", False)
                actions[path] = command.add_subparsers(
                    metavar=table["commands"], required=is_required
                )
            else:
                command.set_defaults(run=runs[path if path in runs else above], command=name)
        return parser, actions

    def _add(self, to: argparse._ActionsContainer, options: Iterable[Any], of: str = "") -> None:
        for each in options:
            if isinstance(each, str):
                self._add(to, self.tables["shared"][each], of)
            elif "use" in each:
                self._add(to, self.tables["shared"][each["use"]], each["of"])
            elif "one_of" in each:
                self._add(to.add_mutually_exclusive_group(), each["one_of"], of)
            else:
                self._add_option(to, each, of)

    def _add_option(self, to: argparse._ActionsContainer, table: dict[str, Any], of: str) -> None:
        options = {name: table[name] for name in PASSED_ON if name in table}
        text = table["help"].replace("{of}", of)
        if isinstance(metavar := table.get("metavar"), list):
            options["metavar"] = tuple(metavar)
        if "flag" in table:
            options["action"] = "store_true"
        if "repeated" in table:
            plural = f"{table['name'].removeprefix('--')}s"
            options = {"action": "append", "default": [], "dest": plural, **options}
            text += "; may be repeated"
        if "least" in table:
            options["type"] = integer_from(table["least"], table.get("most", LARGEST_INTEGER))
        elif "unit" in table:
            options["type"] = above_zero(table["unit"], or_zero="or_zero" in table)
        elif "type" in table:
            options["type"] = self.types[table["type"]]
        if choices := table.get("choices"):
            options["choices"] = choices if isinstance(choices, list) else [*self.names[choices]()]
        for name in self.names:
            if f"{{{name}}}" in text:
                text = text.replace(f"{{{name}}}", ", ".join(self.names[name]()))
        action = to.add_argument(table["name"], help=text.replace("%", "%%"), **options)
        if "completes" in table:
            completed_by(action, self.names[table["completes"]])


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


def amount(text: str) -> tuple[str, str]:
    """Return name and number of a command-line argument such as ``jobs=3``."""
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise argparse.ArgumentTypeError(f"{text!r}: must be NAME=N")
    return name, value


def ratio(text: str) -> Fraction:
    """Return a number of at least 1 from a command-line argument as an exact fraction."""
    from fractions import Fraction

    value = number(text)
    if not (math.isfinite(value) and value >= 1):
        raise argparse.ArgumentTypeError(f"{text!r}: must be a finite number of at least 1")
    return Fraction(text.strip())
