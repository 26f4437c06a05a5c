"""How ``--help`` is folded to the width of the terminal."""

from __future__ import annotations

import argparse
import re
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

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
