"""The one type of all tables: numbers beside their texts, for terminals, programs and papers.

JSON and CSV have the raw numbers, and columns named by their keys. The other formats have the
digits and units that a paper would print.
"""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

from lyra_opt.core.csv_text import frame_text
from lyra_opt.core.errors import UserError, one_line
from lyra_opt.core.folding import NO_BREAK_SPACE, FoldedColumn, fitting_widths, fold
from lyra_opt.core.nearest_names import meant
from lyra_opt.core.numbers import MINUS, MISSING, RUN_UNITS, Show, in_unit, is_missing, unit_of
from lyra_opt.core.texts import show_value_of, words

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    import pandas as pd

WIDE = 1_000_000
"""A width larger than any table: output to a file or a pipe is neither folded nor cut."""

ENDS = ("_low", "_high")
"""How the names of the two ends of a measure's interval end."""

BETWEEN_COLUMNS = 3
LEAST_BETWEEN_COLUMNS = 2


def as_text(value: object) -> str:
    """Return a word, or a list of words, as text; None is empty."""
    if is_missing(value):
        return ""
    return show_value_of(value) if isinstance(value, list | dict) else str(value)


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a table: raw values, and how people read them.

    Parameters
    ----------
    key
        The name of the column in JSON and CSV, with the unit of the raw values: ``jct_mean_s``.
    values
        The raw values: numbers in full precision, texts, or None.
    show
        Writes a value as text: one of the formats in `lyra_opt.core.numbers`; `as_text` for words.
    heading
        The heading without its unit; by default the key in words.
    unit
        The unit of the texts, which follows the heading in brackets.
    texts
        The texts, if they are more than one number, such as a mean with its spread.
    """

    key: str
    values: Sequence[Any]
    show: Show = as_text
    heading: str | None = None
    unit: str = ""
    texts: Sequence[str] | None = None

    @property
    def is_number(self) -> bool:
        """Whether the column has numbers, which are aligned to the right."""
        return self.show is not as_text

    def of_rows(self, rows: Sequence[int]) -> Column:
        """Return the column with only the rows at these positions."""
        texts = [self.cells[row] for row in rows]
        return replace(self, values=[self.values[row] for row in rows], texts=texts)

    @property
    def title(self) -> str:
        """The heading with the unit."""
        heading = one_line(words(self.key) if self.heading is None else self.heading)
        return f"{heading} ({self.unit})" if self.unit else heading

    @cached_property
    def cells(self) -> tuple[str, ...]:
        """The texts of the values, each on one line."""
        texts = map(self.show, self.values) if self.texts is None else self.texts
        return tuple(map(one_line, texts))

    @cached_property
    def raw(self) -> list[Any]:
        """The values as Python objects; None where a number is missing."""
        plain = [each.item() if hasattr(each, "item") else each for each in self.values]
        return [None if is_missing(each) else each for each in plain]


def run_times(key: str, values_s: Sequence[float | None], heading: str | None = None) -> Column:
    """Return a column of running times of solvers, in one unit that suits the longest time."""
    known = [each for each in values_s if each is not None and not is_missing(each)]
    unit = unit_of(max(known, default=0), RUN_UNITS)
    name = words(key.removesuffix("_s")) if heading is None else heading
    return Column(key=key, values=values_s, show=in_unit(unit), heading=name, unit=unit.symbol)


def texts_with_interval(
    values: Iterable[Any], lows: Iterable[Any], highs: Iterable[Any], show: Show
) -> list[str]:
    """Return each value as text, with its interval in brackets if it has one."""
    return [
        show(value) + ("" if is_missing(low) else f" [{show(low)}, {show(high)}]")
        for value, low, high in zip(values, lows, highs, strict=True)
    ]


def flat(entries: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the entries of an object by name, with nested objects flattened.

    >>> flat({"usage": {"V100": 0.5, "K80": 1.0}, "jobs": 3})
    {'usage.V100': 0.5, 'usage.K80': 1.0, 'jobs': 3}
    """
    found: dict[str, Any] = {}
    for name, value in entries.items():
        is_object = isinstance(value, dict)
        found |= flat(value, f"{prefix}{name}.") if is_object else {prefix + name: value}
    return found


@dataclass(frozen=True)
class Table:
    """A table of columns, which `text` writes in each of `FORMATS`.

    Parameters
    ----------
    columns
        The columns, all of the same length. Leading columns of words name the rows.
    title
        What the table shows, in words; empty if the text around the table says it.
    note
        A short first line of the table in LaTeX, which is printed, such as the meaning of brackets.
    case
        The case that the rows belong to, which LaTeX prints above them.
    comments
        Sentences that LaTeX has as comments, such as assumptions.
    least
        The keys of columns that a narrow terminal can leave out, least important first.
    marked
        The positions of the rows that Markdown and LaTeX print in bold.
    paper
        The columns of Markdown and LaTeX, few enough for a page of a paper; by default all.
    """

    columns: Sequence[Column]
    title: str = ""
    least: Sequence[str] = ()
    paper: Sequence[Column] = ()
    note: str = ""
    case: str = ""
    comments: Sequence[str] = ()
    marked: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        lengths = {column.key: len(column.cells) for column in self.columns}
        assert len(set(lengths.values())) <= 1, f"columns of one length, not {lengths}"

    def text(self, format: str = "table") -> str:  # noqa: A002 - the name of the option
        """Return the table as text in one of `FORMATS`, ending in a newline.

        Raises
        ------
        UserError
            If the format is unknown.
        """
        if format not in FORMATS:
            raise UserError(f"format {format!r} is unknown: {meant(format, FORMATS)}")
        return FORMATS[format](self)

    def frame(self) -> pd.DataFrame:
        """Return the raw values as a data frame, with the keys as column names."""
        import pandas as pd

        columns = {column.key: column.raw for column in self.columns}
        return pd.DataFrame(columns)

    def without_empty(self) -> Table:
        """Return the table without the columns in which no row has a value."""
        kept = [each for each in self.columns if any(value is not None for value in each.raw)]
        return replace(self, columns=kept)

    def with_intervals(self) -> Table:
        """Return a table in which the cells of a measure contain both ends of its interval.

        The ends of ``gap_percent`` are the columns ``gap_percent_low`` and ``gap_percent_high``.
        """
        by_key = {each.key: each for each in self.columns}
        for key, of in list(by_key.items()):
            low, high = (by_key.get(key + end) for end in ENDS)
            if low and high:
                texts = texts_with_interval(of.raw, low.raw, high.raw, of.show)
                by_key[key] = replace(of, texts=texts)
                del by_key[low.key], by_key[high.key]
        return replace(self, columns=list(by_key.values()))

    def records(self) -> list[dict[str, Any]]:
        """Return an object per row, as JSON has it: infinite numbers, too, become None."""
        keys = [column.key for column in self.columns]
        rows = zip(*(column.raw for column in self.columns), strict=True)
        return [
            {
                key: None if isinstance(value, float) and math.isinf(value) else value
                for key, value in zip(keys, row, strict=True)
            }
            for row in rows
        ]

    def rows(self) -> list[tuple[str, ...]]:
        """Return the texts of each row."""
        return list(zip(*(column.cells for column in self.columns), strict=True))

    def html(self) -> str:
        """Return the table as HTML for a notebook; the first sentence of its title is bold."""

        def row(tag: str, cells: Iterable[str]) -> str:
            styles = ("right" if column.is_number else "left" for column in self.columns)
            return "".join(
                f'<{tag} style="text-align: {style}; word-break: normal">{escape(cell)}</{tag}>'
                for style, cell in zip(styles, cells, strict=True)
            )

        first, point, rest = escape(self.title).partition(". ")
        title = f"<p><b>{first}</b>{point}{rest}</p>" if self.title else ""
        head = row("th", (column.title for column in self.columns))
        body = "".join(f"<tr>{row('td', cells)}</tr>" for cells in self.rows())
        return f"{title}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def plain(self, width: int = WIDE, elsewhere: str | None = None) -> str:
        """Return the table for a terminal of `width` characters.

        Headings and words are folded if necessary, numbers never. Columns that still do not fit are
        left out with a remark, or continue in further tables below.

        Parameters
        ----------
        elsewhere
            The option that shows all columns; with it, columns may be left out.
        """
        columns = [(each.key, _folded(each)) for each in self.columns]
        gone: list[str] = []
        if elsewhere is not None:
            for key in self.least:
                if _width([column for _, column in columns], "width_of_cells") > width:
                    gone += [column.header for name, column in columns if name == key]
                    columns = [each for each in columns if each[0] != key]
        shown = [column for _, column in columns]
        while elsewhere is not None and len(shown) > 1 and _width(shown, "least_width") > width:
            gone.append(shown.pop().header)
        blocks = [_grid(block, width) for block in _blocks(shown, width)]
        if gone:
            remark = f"columns that do not fit: {'; '.join(gone)}. Show them with {elsewhere}"
            blocks[-1] += "\n".join(fold(remark, width, keeps_words=True)) + "\n"
        return "\n".join(blocks)


def _folded(column: Column) -> FoldedColumn:
    return FoldedColumn(column.title, column.cells, column.is_number)


def _blocks(
    columns: Sequence[FoldedColumn], width: float, gap: float = LEAST_BETWEEN_COLUMNS
) -> Iterator[Sequence[FoldedColumn]]:
    """Yield the columns of each of the tables, one below another, that are at most so wide.

    All of them begin with the columns of words that name the rows.
    """
    first = next((place for place, each in enumerate(columns) if each.is_number), len(columns))
    named, others = columns[:first], columns[first:]
    while True:
        fitting = len(others)
        while fitting > 1 and _width([*named, *others[:fitting]], "least_width", gap) > width:
            fitting -= 1
        yield [*named, *others[:fitting]]
        others = others[fitting:]
        if not others:
            return


def _width(
    columns: Sequence[FoldedColumn], which: str, gap: float = LEAST_BETWEEN_COLUMNS
) -> float:
    between = gap * (len(columns) - 1)
    widths: list[int] = [getattr(column, which) for column in columns]
    return sum(widths) + between


def _grid(columns: Sequence[FoldedColumn], width: int) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    gaps = len(columns) - 1
    fits = sum(column.width for column in columns) + BETWEEN_COLUMNS * gaps <= width
    between = BETWEEN_COLUMNS if fits else LEAST_BETWEEN_COLUMNS
    widths = fitting_widths(columns, width - between * gaps)
    grid = Grid(
        box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, between - 2)
    )
    for column, room in zip(columns, widths, strict=True):
        grid.add_column(
            Text("\n".join(fold(column.header, room))),
            justify="right" if column.is_number else "left",
            width=room,
            overflow="fold",
        )
    for row in zip(*(column.cells for column in columns), strict=True):
        cells = zip(row, widths, strict=True)
        grid.add_row(*(Text("\n".join(fold(cell, room))) for cell, room in cells))
    # The terminal breaks text that cannot be folded, such as a long name.
    # Without a height, rich assumes 80 columns for a dumb terminal, so the height is set.
    grid_width = max(width, sum(widths) + between * gaps)
    shown = io.StringIO()
    # A notebook would also get the table as HTML, and forces colours.
    size: dict[str, Any] = {"width": grid_width, "height": len(grid.rows)}
    Console(**size, highlight=False, file=shown, force_jupyter=False, color_system=None).print(grid)
    return shown.getvalue()


def _as_json(table: Table) -> str:
    return json.dumps(table.records(), indent=2) + "\n"


def _as_csv(table: Table) -> str:
    import pandas as pd

    columns = {
        column.key: [json.dumps(each) if isinstance(each, list) else each for each in column.raw]
        for column in table.columns
    }
    # With the type object, whole numbers stay whole beside missing ones.
    return frame_text(pd.DataFrame(columns, dtype=object))


def _as_markdown(full: Table) -> str:
    table = replace(full, columns=full.paper or full.columns)
    rows = [
        [f"**{cell}**" if cell and place in table.marked else cell for cell in row]
        for place, row in enumerate(table.rows())
    ]
    rule = ["---:" if column.is_number else "---" for column in table.columns]
    title = f"{one_line(table.title)}\n\n" if table.title else ""
    return title + "".join(
        "| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |\n"
        for line in ([column.title for column in table.columns], rule, *rows)
    )


LATEX_SIGNS = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{sign: f"${sign}$" for sign in "<>|"},
    **{sign: f"{{{sign}}}" for sign in "[]*`"},  # after the end of a row, [ and * are options
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    NO_BREAK_SPACE: "~",
    "^": r"\textasciicircum{}",
    "\0": "{}",
    "\1": "``",
    "–": "--",
    "—": "---",
    '"': "''",
    MINUS: "$-$",
    "∞": r"$\infty$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "×": r"$\times$",
    "→": r"$\rightarrow$",
    "µ": r"$\mu$",
}
"""The signs that LaTeX reads as commands, or that its standard fonts lack."""

LATEX_WIDTH = 68
"""The characters in a line of the class article, which is 345 points wide, in the usual size."""

LATEX_GAP = 2.4
"""The width of the gap between two columns, in characters."""

LATEX_FLOAT = r"\begin{table*}\centering\footnotesize"
"""The beginning of the float of a case."""

LINE_SHARE = 5 / 345
"""The share of such a line that a character takes: 5 of 345 points.

Folded columns have shares of LaTeX's line, so they are wider in a ``table*`` or in a smaller font.
"""

_LATIN = re.compile(r"[\x20-\x7e\xc0-\xcf\xd1-\xd6\xd8-\xdd\xdf-\xef\xf1-\xf6\xf8-\xfd\xff]")
_OPENING = re.compile(r'(?<![^\s(\[])"')
_POWER = re.compile(r"(?<=\d)e(\$-\$)?(\d+)\b")


def latex_text(text: str) -> str:
    r"""Return a text as LaTeX that prints it; a letter that standard fonts lack becomes its number.

    >>> print(latex_text('a_b & 5 %: ≤ ∞ --exact "my" 中'))
    a\_b \& 5 \%: $\leq$ $\infty$ -{}-exact ``my'' U+4E2D
    """
    return "".join(
        LATEX_SIGNS.get(sign) or (sign if _LATIN.match(sign) else f"U+{ord(sign):04X}")
        for sign in _OPENING.sub("\1", text.replace("--", "-\0-"))
    )


def _latex_cell(text: str, column: FoldedColumn, *, is_folded: bool) -> str:
    """Return a cell as LaTeX: 2.00e−7 becomes a power of ten, and a missing number a dash.

    A cell of a folded column can break where `lyra_opt.core.folding.fold` breaks it.
    """
    if is_folded:
        text = " ".join(
            each.replace(" ", NO_BREAK_SPACE) for each in fold(text, 1, keeps_words=True)
        )
    written = latex_text(text or MISSING * column.is_number)
    if column.is_number:
        return _POWER.sub(
            lambda power: rf"$\cdot10^{{{'-' if power[1] else ''}{power[2]}}}$", written
        )
    return re.sub(r"(?<=/|_)(?=[^ ])", r"\\allowbreak{}", written) if is_folded else written


def latex_of(tables: Sequence[Table]) -> str:
    """Return tables as LaTeX no wider than a line of the class article.

    With several cases, the tables of each case stand in a ``table*``, which is a page at most.
    Words and headings are folded if necessary. Columns that still do not fit are left out, if the
    table says that they matter least, or continue in a further table below.
    """
    cases: dict[str, list[str]] = {}
    for table in tables:
        cases.setdefault(table.case, []).extend(_tabulars(table))
    texts = {case: "\n\\bigskip\n".join(of_case) for case, of_case in cases.items()}
    if len(texts) == 1:
        return texts.popitem()[1]
    return "\n".join(
        f"{LATEX_FLOAT}\n{text}\\caption{{{latex_text(case)}}}\n\\end{{table*}}\n"
        for case, text in texts.items()
    )


def text_of_tables(tables: Sequence[Table], form: str) -> str:
    """Return tables as text in one of `FORMATS`, with an empty line between them."""
    if form == "latex":
        return latex_of(tables)
    return "\n".join(table.text(form) for table in tables)


def _tabulars(table: Table) -> Iterator[str]:
    """Yield the tabulars of a table; the first has comments before it."""
    by_key = {column.key: _folded(column) for column in table.paper or table.columns}
    columns = [*by_key.values()]
    for key in table.least:
        if _width([*by_key.values()], "least_width", LATEX_GAP) > LATEX_WIDTH:
            by_key.pop(key, None)
    gone = [column.header for column in columns if column not in by_key.values()]
    sentences = [each for each in (table.title, *table.comments) if each]
    sentences += [f"Columns that do not fit: {'; '.join(gone)}."] if gone else []
    comments = "".join(f"% {one_line(each)}\n" for each in dict.fromkeys(sentences))
    for block in _blocks([*by_key.values()], LATEX_WIDTH, LATEX_GAP):
        yield comments + _tabular(block, table)
        comments = ""


def _height(column: FoldedColumn, width: int) -> int:
    """Return the number of lines of the highest cell of a column that is so wide."""
    return max((len(fold(cell, width)) for cell in column.cells), default=1)


def _narrowed(column: FoldedColumn, width: int) -> int:
    """Return the least width at which a column has no more lines than at a given width."""
    height = _height(column, width)
    least = range(column.least_width, width)
    return next((each for each in least if _height(column, each) == height), width)


def _tabular(columns: Sequence[FoldedColumn], table: Table) -> str:
    gaps = LATEX_GAP * (len(columns) - 1)
    widths = fitting_widths(columns, int(LATEX_WIDTH - gaps))
    are_folded = [_height(column, width) > 1 for column, width in zip(columns, widths, strict=True)]
    # A column of words has only the width that its lines need, so that tables fit into a column.
    widths = [
        width if each.is_number else _narrowed(each, width)
        for each, width in zip(columns, widths, strict=True)
    ]
    alignment, written, headings = "", [], []
    for column, width, is_folded in zip(columns, widths, are_folded, strict=True):
        ragged, side = ("left", "r") if column.is_number else ("right", "l")
        alignment += (
            rf">{{\ragged{ragged}\arraybackslash}}"
            rf"p{{{LINE_SHARE * min(width, LATEX_WIDTH):.3f}\linewidth}}"
            if is_folded
            else side
        )
        written.append([_latex_cell(each, column, is_folded=is_folded) for each in column.cells])
        headings.append(list(map(latex_text, fold(column.header, width))))
    height = max(map(len, headings))
    heads = zip(*([""] * (height - len(each)) + each for each in headings), strict=True)
    rows = zip(*written, strict=True)
    whole = max(int(sum(widths) + gaps), 2 * LATEX_WIDTH // 3)

    def spanned(text: str) -> list[str]:
        return [
            rf"\multicolumn{{{len(columns)}}}{{@{{}}l@{{}}}}{{{latex_text(line)}}} \\"
            for line in fold(text, whole, keeps_words=True)
        ]

    first = ": ".join(filter(None, (table.case, table.note)))
    packages = "array,booktabs" if any(are_folded) else "booktabs"
    lines = [rf"% Needs \usepackage{{{packages}}}.", rf"\begin{{tabular}}{{@{{}}{alignment}@{{}}}}"]
    lines += [r"\toprule", *([*spanned(first), r"\midrule"] if first else [])]
    lines += [" & ".join(line) + r" \\" for line in heads]
    lines.append(r"\midrule")
    for place, row in enumerate(rows):
        lines += [r"\addlinespace"] if place and any(are_folded) else []
        shown = [rf"\textbf{{{cell}}}" for cell in row] if place in table.marked else row
        lines.append(" & ".join(shown) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def table_of_records(records: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table with a row per JSON object: nested objects are flat, and lists are JSON text.

    >>> print(table_of_records([{"a": {"b": 1}, "c": [1, 2]}, {"d": "x"}]).text("csv"), end="")
    a.b,c,d
    1,"[1, 2]",
    ,,x
    """
    rows = [flat(record) for record in records]
    keys = dict.fromkeys(key for row in rows for key in row)
    return Table([Column(key=key, values=[row.get(key) for row in rows]) for key in keys])


def table_of_texts(
    header: Sequence[str], rows: Iterable[Sequence[str]], numbers: Container[int], title: str = ""
) -> Table:
    """Return a table whose cells exist only as texts, such as one read from a page.

    Parameters
    ----------
    numbers
        The positions of the columns of numbers. Their raw values are the numbers in the texts; a
        text with more than a number stays a text.
    """
    columns = list(zip(*rows, strict=True)) or [()] * len(header)
    keys: list[str] = []
    for heading in header:
        key = "_".join(re.findall(r"[^\W_]+", heading.lower())) or "name"
        keys.append(f"{key}_{keys.count(key) + 1}" if key in keys else key)
    return Table(
        [
            Column(
                key=key,
                values=list(map(_number_in, texts)) if place in numbers else texts,
                show=str if place in numbers else as_text,
                heading=heading,
                texts=texts,
            )
            for place, (key, heading, texts) in enumerate(zip(keys, header, columns, strict=True))
        ],
        title,
    )


def _number_in(text: str) -> float | str | None:
    plain = text.replace(",", "").replace(MINUS, "-")
    try:
        return None if plain in ("", MISSING) else float(plain) if "." in plain else int(plain)
    except ValueError:
        return text


RAW = ("json", "csv")
"""The formats for programs, which have raw numbers and all columns."""

FORMATS: dict[str, Callable[[Table], str]] = {
    "table": lambda table: table.plain(),
    "json": _as_json,
    "csv": _as_csv,
    "markdown": _as_markdown,
    "latex": lambda table: latex_of([table]),
}
"""The formats of a table, by the value of ``--format``."""
