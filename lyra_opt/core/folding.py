"""Folding of texts and tables to the width of a terminal: between words, never inside numbers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

# Lines do not break between a number and its unit ("5.2 ms") or between numbers ("3 of 4").
_BESIDE_NUMBER = re.compile(r"(?<=[\d%∞]) (?!\(|and |or )|(?<=[\d%∞] (?:of|to)) (?=[+−]?[\d∞])")
_PIECE = re.compile(r" *[^ ]+?(?:[/_](?=[^ ])|(?<=[^\W\d]-)(?=[^\W\d])| +|$)")
_WORD = re.compile(r" *[^ ]+(?: +|$)")
NO_BREAK_SPACE = "\u00a0"


def fold(text: str, width: int, *, keeps_words: bool = False) -> list[str]:
    """Break a text into lines of at most `width` characters where possible.

    A line may break at a space and, unless `keeps_words` is set, after a slash, an underscore, or a
    hyphen between letters. It never breaks inside a number, or between a number and its unit.

    >>> fold("mathopt-gscip-strengthened", 16)
    ['mathopt-gscip-', 'strengthened']
    >>> fold("17 of 18, 3 failed, 16.7 (10.0 to 20.0)", 12)
    ['17 of 18,', '3 failed,', '16.7', '(10.0 to 20.0)']
    >>> fold("−4.9 (−9.8 to +0.1)", 8)
    ['−4.9', '(−9.8 to +0.1)']
    """
    if _width(text) <= width:
        return [text.rstrip(" ").replace(NO_BREAK_SPACE, " ")]
    lines = [""]
    pieces = _WORD if keeps_words else _PIECE
    for piece in pieces.findall(_BESIDE_NUMBER.sub(NO_BREAK_SPACE, text)):
        if lines[-1] and _width(lines[-1] + piece.rstrip(" ")) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip(" ").replace(NO_BREAK_SPACE, " ") for line in lines]


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


@dataclass(frozen=True)
class FoldedColumn:
    """A column of a table.

    Parameters
    ----------
    header
        The header.
    cells
        The texts of the cells.
    is_number
        Whether the cells are numbers, which are aligned to the right.
    """

    header: str
    cells: tuple[str, ...]
    is_number: bool = False

    @cached_property
    def width(self) -> int:
        """The smallest width, in characters, at which neither the header nor a cell is wrapped."""
        return max(map(_width, (self.header, *self.cells)))

    @cached_property
    def width_of_cells(self) -> int:
        """The smallest width, in characters, at which only the header is wrapped."""
        header = max(map(_width, fold(self.header, 1)))
        return max(header, *map(_width, self.cells), 0)

    @cached_property
    def least_width(self) -> int:
        """The smallest possible width, in characters, with text wrapped wherever allowed."""
        texts = (self.header, *self.cells)
        return max(_width(line) for text in texts for line in fold(text, 1))


def fitting_widths(columns: Sequence[FoldedColumn], room: int) -> list[int]:
    """Return column widths whose sum is at most `room`, or as close to it as wrapping allows.

    Headers are wrapped first, and the widest column before the others.
    """
    widths = [column.width for column in columns]
    for floors in (
        [column.width_of_cells for column in columns],
        [column.least_width for column in columns],
    ):
        while sum(widths) > room:
            foldable = [place for place, floor in enumerate(floors) if widths[place] > floor]
            if not foldable:
                break
            widths[max(foldable, key=widths.__getitem__)] -= 1
    return widths
