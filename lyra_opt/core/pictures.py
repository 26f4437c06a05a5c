"""The styles of pictures, shared parts of drawings, and writing a figure to files."""

from __future__ import annotations

import io
import re
from collections import Counter
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, TypeVar
from unicodedata import east_asian_width

from lyra_opt.core.csv_text import frame_text
from lyra_opt.core.documents import write_bytes, write_text
from lyra_opt.core.errors import UserError, counted, one_line
from lyra_opt.core.picture_styles import house_style, picture_bytes, style_in_force, style_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure, FigureBase

RowT = TypeVar("RowT")

# The colours are the palette of Okabe and Ito, which colour-blind readers can distinguish.
# The palette leaves out yellow, because yellow lines are hard to see on white.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")

DARK_TEXT = "#1b1f24"
FREE_COLOUR, UNNAMED_COLOURS = "#e8ebef", ("#c8c8c8", "#dedede")
"""The colours of free GPUs and, in turn, of jobs without a colour of their own."""

MOST_NAMED = 12
"""The number of jobs with a colour of their own: six colours, then pale versions of these."""

LONGEST_NAME = 14
"""The number of letters from which the middle of a name is left out."""

LETTER_EMS = 0.6
"""The mean width of a letter relative to its size."""

TIME_UNITS = ((3 * 86_400, 86_400, "days"), (3 * 3_600, 3_600, "h"), (0, 1, "s"))
"""For each time unit: the duration in seconds from which it is used, its length in seconds, its
name."""

SHORT_AXIS, LONG_AXIS = 4.0, 100.0
"""The ratios of the ends of a logarithmic axis below which all ticks are labelled, and from which
only powers of ten are."""

FORMATS = {".svg": "svg", ".png": "png", ".pdf": "pdf"}
"""The file format for each suffix of a picture file."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")  # one more than colours, so pairs repeat late
DASHES = ("-", (0, (4, 2)), (0, (1.5, 3)), (0, (6, 2, 1, 2)))
"""Line styles; their number is coprime to that of colours, so overlapping lines differ."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture that is drawn later, alone or as a part of a larger picture.

    Parameters
    ----------
    width_inches, height_inches
        The size of the picture.
    draw
        A function that draws the picture into a figure, or a part of one, of about this size.
    """

    width_inches: float
    height_inches: float
    draw: Callable[[FigureBase], None]

    def figure(self) -> Figure:
        """Return the picture as a matplotlib figure, which notebooks display."""
        figure = new_figure(self.width_inches, self.height_inches)
        self.draw(figure)
        fit(figure)
        return figure


def new_figure(width_inches: float, height_inches: float) -> Figure:
    """Return an empty figure in the style in force, whose data is saved with it."""
    from lyra_opt.core.picture_figure import PictureFigure

    style = style_in_force()
    size = style.width_inches or width_inches, height_inches * style.height_factor
    return PictureFigure(style_name(), figsize=size, layout="constrained")


def fit(figure: Figure) -> None:
    """Make a figure that is drawn fit the width of its style; a page's style needs no change."""
    if style_in_force().is_narrow:
        from lyra_opt.core.picture_fitting import fit_into_column

        fit_into_column(figure)


def record(part: Axes | FigureBase, rows: Iterable[Mapping[str, Any]], table: str = "") -> None:
    """Add rows to the data that is saved with a picture.

    Parameters
    ----------
    part
        Axes, or a part of a figure, that show these rows.
    rows
        Values by column; a column's name ends with its unit.
    table
        The name of the table, which is a part of its file's name unless it is the first one.
    """
    data = getattr(part.figure.figure, "data", None)
    if data is not None:  # a figure of a reader's own is not saved with data
        data.setdefault(table, []).extend(rows)


def stacked(drawings: Sequence[Drawing]) -> Drawing:
    """Return one drawing that shows the given drawings one below the other."""
    if len(drawings) == 1:
        return drawings[0]
    heights = [drawing.height_inches for drawing in drawings]

    def draw(figure: FigureBase) -> None:
        parts = figure.subfigures(len(drawings), 1, height_ratios=heights, squeeze=False)
        for drawing, part in zip(drawings, parts[:, 0], strict=True):
            drawing.draw(part)

    return Drawing(max(drawing.width_inches for drawing in drawings), sum(heights), draw)


def as_written(text: str) -> str:
    """Return text on one line, with the dollar signs escaped that would start a formula."""
    return one_line(text).replace("$", r"\$")


def shortened(name: str, longest: int = LONGEST_NAME) -> str:
    """Return a long name with its middle left out, because long names often differ only at the end.

    >>> shortened("worker-of-the-third-rack"), shortened("worker-3")
    ('worker-…rd-rack', 'worker-3')
    """
    if len(name) <= longest + 1:
        return name
    return f"{name[: longest // 2]}…{name[-(longest // 2) :]}"


def text_inches(text: str) -> float:
    """Return the approximate width of a text in inches, in the style in force."""
    wide = sum(east_asian_width(letter) in "WF" for letter in text)
    return (len(text) + wide) * LETTER_EMS * style_in_force().text_points / 72


def heading(name: str, *lines: str) -> str:
    """Return the title of a panel: the name of an instance or solver, above further lines."""
    return "\n".join([as_written(shortened(name, 40)), *lines])


def line_style(name: str, names: Sequence[str]) -> dict[str, Any]:
    """Return colour, mark and dashes of a line, which are the same in every plot of these names."""
    position = list(names).index(name)
    return {
        "color": COLOURS[position % len(COLOURS)],
        "marker": MARKERS[position % len(MARKERS)],
        "linestyle": DASHES[position % len(DASHES)],
    }


def legend_above(
    figure: FigureBase, handles: Sequence[Any], labels: Sequence[str] = (), **options: Any
) -> None:
    """Add a legend above all panels, with as many columns as fit into the width of the figure.

    Parameters
    ----------
    figure
        A figure, or a part of one, with constrained layout.
    handles, labels
        The entries; without labels, the labels of the handles are used.
    options
        Options of matplotlib's legend.
    """
    from matplotlib import rcParams
    from numpy import array_split

    labels = list(labels) or [str(handle.get_label()) for handle in handles]
    handle_ems = options.get("handlelength", rcParams["legend.handlelength"])
    between_ems = rcParams["legend.columnspacing"] + rcParams["legend.handletextpad"] + 0.2
    beside = (handle_ems + between_ems) * style_in_force().text_points / 72
    sized: Any = figure  # matplotlib declares no common type for figures and subfigures
    room = sized.bbox.width / sized.dpi
    lengths = [text_inches(label) + beside for label in labels]
    columns = next(
        (
            columns
            for columns in range(len(labels), 1, -1)
            if sum(max(part) for part in array_split(lengths, columns)) <= room
        ),
        1,
    )
    figure.legend(handles, labels, loc="outside upper left", ncols=columns, **options)


def legend_beside(
    figure: FigureBase, handles: Sequence[Any], labels: Sequence[str] = (), **options: Any
) -> None:
    """Add a legend to the right of all panels, or above them if the style has one column."""
    if style_in_force().is_narrow:
        legend_above(figure, handles, labels, **options)
        return
    labels = list(labels) or [str(handle.get_label()) for handle in handles]
    figure.legend(handles, labels, loc="outside right upper", **options)


def note_below(figure: FigureBase, *sentences: str) -> None:
    """Write sentences below all panels of a figure, or of a part of one; ignore empty sentences."""
    sized: Any = figure  # matplotlib declares no common type for figures and subfigures
    letters = int(sized.bbox.width / sized.dpi / text_inches("n"))
    text = ". ".join(sentence.rstrip(".") for sentence in sentences if sentence)
    figure.supxlabel(fill(as_written(text), letters))


def make_logarithmic(axis: Axis) -> None:
    """Make an axis logarithmic, with plain numbers instead of exponents at its ticks.

    Powers of ten are labelled, and on shorter axes their multiples by two and five, or all ticks.
    """
    from matplotlib.ticker import FuncFormatter

    def further(value: float, _place: int) -> str:
        low, high = axis.get_view_interval()
        is_named = high < SHORT_AXIS * low or f"{value:e}"[:8] in ("2.000000", "5.000000")
        return f"{value:,g}" if is_named and high < LONG_AXIS * low else ""

    axis.axes.set(**{f"{axis.axis_name}scale": "log"})  # type: ignore[attr-defined]
    axis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:,g}"))
    axis.set_minor_formatter(FuncFormatter(further))


def text_colour(background: str) -> str:
    """Return the colour, dark or white, in which text is readable on a background colour."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(background)
    return DARK_TEXT if 0.299 * red + 0.587 * green + 0.114 * blue > 0.55 else "white"


def halo(colour: str) -> dict[str, Any]:
    """Return the options of a text on an area that the style may hatch, so that it is readable."""
    from matplotlib.patheffects import withStroke

    is_hatched = style_in_force().is_narrow
    return {"path_effects": [withStroke(linewidth=2.0, foreground=colour)]} if is_hatched else {}


def named_colours(weights: Sequence[float]) -> list[str]:
    """Return one colour per job: the twelve jobs with the largest weights get distinct colours.

    The other jobs are light and dark grey in turn.
    """
    named = [*COLOURS[:6], *map(_pale, COLOURS[:6])]
    largest = sorted(range(len(weights)), key=lambda place: -weights[place])[:MOST_NAMED]
    colour_of = dict(zip(sorted(largest), named, strict=False))
    return [
        colour_of.get(place, UNNAMED_COLOURS[place % len(UNNAMED_COLOURS)])
        for place in range(len(weights))
    ]


def handles_of_named(names: Sequence[str], colours: Sequence[str]) -> list[Any]:
    """Return a legend entry for each coloured job, and one entry for all others.

    Parameters
    ----------
    names, colours
        The names of the jobs, and their colours as `named_colours` returns them.
    """
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=colour, label=as_written(shortened(name)))
        for name, colour in zip(names, colours, strict=True)
        if colour not in UNNAMED_COLOURS
    ]
    others = len(names) - MOST_NAMED
    if others > 0:
        handles.append(Patch(facecolor=UNNAMED_COLOURS[0], label=counted(others, "other")))
    return handles


def _pale(colour: str) -> str:
    """Return the colour mixed with the same amount of white."""
    parts = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{(part + 255) // 2:02x}" for part in parts)


def time_unit(longest_s: float) -> tuple[float, str]:
    """Return the unit for times up to `longest_s`: its length in seconds and its name."""
    return next((seconds, name) for least_s, seconds, name in TIME_UNITS if longest_s >= least_s)


def in_words(time_s: float) -> str:
    """Return a duration in days, hours or seconds."""
    seconds, name = time_unit(time_s)
    return f"{time_s / seconds:.4g} {name}"


def grid_of(panels: int, panel_inches: float, beside_inches: float = 0.0) -> tuple[int, int]:
    """Return the numbers of rows and columns of a panel grid that leaves `beside_inches` free."""
    style = style_in_force()
    room_inches = style.most_width_inches - beside_inches
    columns = min(panels, style.most_columns, max(1, int(room_inches / panel_inches)))
    return -(-panels // columns), columns


def rows_of_panel(most: int, panels: int) -> int:
    """Return the number of rows in each of several panels: at most `most`, and as many as fit.

    Panels of a narrow style stand below one another and share its rows.
    """
    style = style_in_force()
    each = max(LEAST_ROWS, style.most_rows // panels) if style.is_narrow else style.most_rows
    return min(most, each)


def rows_inches(rows: float, panels: int, frame_inches: float) -> float:
    """Return the height of panels below one another with so many rows each; see `frames_inches`."""
    return frames_inches(frame_inches, panels) + ROW_INCHES * rows * panels


def frames_inches(frame_inches: float, panels: int) -> float:
    """Return the height of what surrounds panels that stand below one another.

    Parameters
    ----------
    frame_inches
        The height of a title, an axis and legends. In a narrow style, all panels share an axis and
        the legends.
    """
    further = min(TITLE_INCHES, frame_inches) if style_in_force().is_narrow else frame_inches
    return frame_inches + further * (panels - 1)


def panel_inches(wanted: float, panels: int) -> float:
    """Return the height of each of several panels below one another, which is less in a column."""
    least = max(LEAST_PANEL_INCHES, PANELS_INCHES / panels)
    return min(wanted, least) if style_in_force().is_narrow else wanted


def by_all_solutions(rows: Sequence[RowT], touched: Sequence[Collection[RowT]]) -> list[RowT]:
    """Return rows in the order in which they are drawn if there is room for some only.

    The rows that each solution touches come first, in turn for each solution, so that no solution
    has more rows than another. Rows that few solutions touch come before those of many.

    Parameters
    ----------
    rows
        All rows, in the order in which the untouched rows are drawn.
    touched
        The rows that each solution touches.

    >>> by_all_solutions(["a", "b", "c", "d"], [{"a", "b"}, {"b", "d"}])
    ['a', 'd', 'b', 'c']
    """
    solutions = Counter(row for each in touched for row in each)
    queues = [
        sorted((row for row in rows if row in each), key=solutions.__getitem__) for each in touched
    ]
    turns = [row for turn in zip_longest(*queues) for row in turn if row is not None]
    return list(dict.fromkeys([*turns, *rows]))


def drawn_in_words(drawn: int, of: int, noun: str, order: str) -> str:
    """Return which rows a picture shows, such as ``8 of 60 servers: ...``; empty if it shows all.

    Parameters
    ----------
    order
        The order of the rows, or which rows are preferred.
    """
    return f"Drawn: {drawn:,} of {counted(of, noun)}, {order}" if drawn < of else ""


def add_panels(figure: FigureBase, count: int, grid: tuple[int, int]) -> list[Axes]:
    """Return `count` axes on a grid, all with the same scales."""
    axes = figure.subplots(*grid, sharex=True, sharey=True, squeeze=False).flatten().tolist()
    for place in axes[count:]:
        place.remove()
    for place in axes[max(0, count - grid[1]) : count]:  # the lowest panel of each column
        place.tick_params(axis="x", labelbottom=True)
    found: list[Axes] = axes[:count]
    return found


def require_picture_path(option: str, path: str | Path, inputs: Iterable[str | Path] = ()) -> None:
    """Raise `UserError` if a picture, the value of `option`, cannot be written with its data.

    The suffix must be that of a picture, and its data must not overwrite one of the input files.
    """
    if Path(path).suffix.lower() not in FORMATS:
        raise UserError(f"{option} {path}: the file must end in {', '.join(FORMATS)}")
    data = Path(path).with_suffix(".csv")
    if data.resolve() in (Path(each).resolve() for each in inputs):
        raise UserError(f"{option} {path}: its data {data} would overwrite an input file")


def save_picture(path: str | Path, figure: Figure) -> None:
    """Write a figure in the format of the file's suffix, and its data as CSV beside it.

    Equal figures give equal bytes. Further tables of the picture are in ``figure_NAME.csv``.

    Raises
    ------
    UserError
        If a file cannot be written.
    """
    write_bytes(path, picture_bytes(figure, FORMATS[Path(path).suffix.lower()]))
    for name, text in data_of(figure, Path(path).stem).items():
        write_text(Path(path).with_name(name), text)


def data_of(figure: Figure, name: str) -> dict[str, str]:
    """Return the data of a picture as CSV, by the names of files for a picture called `name`."""
    import pandas as pd

    tables: Mapping[str, Any] = getattr(figure, "data", {})
    return {
        f"{name}_{table}.csv" if place else f"{name}.csv": frame_text(pd.DataFrame(rows))
        for place, (table, rows) in enumerate(tables.items())
    }


_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_GEOMETRY = re.compile(r' (?:d|x|y|points)="[^"]*"')


def svg_text(figure: Figure, name: str) -> str:
    """Return a figure as an SVG element; equal figures give equal text.

    All ids begin with `name`, so that one page can contain several figures.
    """
    stream = io.StringIO()
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with house_style(getattr(figure, "style", "page")):
        figure.savefig(stream, format="svg", bbox_inches="tight", metadata=no_metadata)
    svg = stream.getvalue()
    svg = svg[svg.index("<svg") :]  # without the XML prolog, which HTML does not allow
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    svg = _GEOMETRY.sub(lambda found: _LONG_NUMBER.sub(_rounded, found[0]), svg)
    return re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE)


def _rounded(number: re.Match[str]) -> str:
    """Return a length in points rounded to hundredths, which halves the size of the file."""
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


ROW_INCHES, TITLE_INCHES = 0.24, 0.75
LEAST_ROWS = 3
PANELS_INCHES, LEAST_PANEL_INCHES = 6.0, 1.6
"""The height of all panels below one another in a narrow style, and the least height of each, on
the scale of a page."""

TRACK_HEIGHT, BLOCK_HEIGHT = 0.92, 0.66
"""The height of a row and of a block in it, relative to the distance of rows."""

EDGE = "#ffffff"


@dataclass(frozen=True, slots=True)
class BlockRows:
    """Axes with rows of blocks, where the width of a block is its number of GPUs.

    Parameters
    ----------
    axes
        Axes in which one unit is one row downwards and one GPU to the right.
    gpus_per_inch
        The number of GPUs per inch; a label is written only if its block is wide enough.

    data
        Values of columns in the data of the picture that all boxes share.

    The methods add what they draw to the data of the picture, with further columns. A box without a
    ``state``, which says what it shows, is left out.
    """

    axes: Axes
    gpus_per_inch: float
    data: Mapping[str, Any]

    def track(
        self, row: float, gpus: float, colour: str = FREE_COLOUR, *, left: float = 0.0, **data: Any
    ) -> None:
        """Draw the background of a row, behind its blocks."""
        self._record({"first_gpu": 0, "gpus": gpus} | data)
        self._rectangle(left, row, gpus, TRACK_HEIGHT, facecolor=colour, linewidth=0, zorder=1)

    def frame(self, row: float, gpus: float, colour: str, *, left: float = 0.0) -> None:
        """Draw a line around a row, or around a part of it."""
        width = 1.6 * style_in_force().line_factor
        style = {"fill": False, "edgecolor": colour, "linewidth": width, "zorder": 4}
        self._rectangle(left, row, gpus, TRACK_HEIGHT - 0.02, clip_on=False, **style)

    def block(
        self, row: float, left: float, gpus: float, colour: str, *labels: str, **data: Any
    ) -> None:
        """Draw a block, with the first of the labels that fits into it."""
        self._record({"first_gpu": left, "gpus": gpus} | data)
        style = {"facecolor": colour, "edgecolor": EDGE, "linewidth": 0.8, "zorder": 2}
        self._rectangle(left, row, gpus, BLOCK_HEIGHT, **style)
        for label in labels:
            if 1.1 * text_inches(label) * self.gpus_per_inch <= gpus:
                self.axes.text(
                    left + gpus / 2,
                    row,
                    as_written(label),
                    ha="center",
                    va="center_baseline",
                    color=text_colour(colour),
                    **halo(colour),
                    clip_on=True,
                    zorder=3,
                )
                return

    def _record(self, data: dict[str, Any]) -> None:
        if "state" in data:
            record(self.axes, [{**self.data, **data}])

    def _rectangle(
        self, left: float, row: float, width: float, height: float, **style: object
    ) -> None:
        from matplotlib.patches import Rectangle

        corner = left, row - height / 2
        self.axes.add_patch(Rectangle(corner, width, height, **style))  # type: ignore[arg-type]


def block_rows_of(
    axes: Axes, names: Sequence[str], most_gpus: float, panel_inches: float, **data: Any
) -> BlockRows:
    """Prepare axes for rows of blocks, with the names of the rows to the left.

    Parameters
    ----------
    most_gpus
        The number of GPUs of the longest row.
    panel_inches
        The width of the axes including the names.
    data
        Values of columns in the data of the picture that all boxes share.
    """
    from matplotlib.ticker import MaxNLocator

    margin = max((text_inches(name) for name in names), default=0.0) + 0.15
    axes.set_yticks(range(len(names)), [as_written(name) for name in names])
    axes.set_ylim(max(len(names), 1) - 0.4, -0.6)
    axes.set_xlim(-0.008 * most_gpus, 1.008 * most_gpus)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)
    width = min(panel_inches, style_in_force().most_width_inches)
    return BlockRows(axes, most_gpus / max(width - margin, 1.0), data)


def add_colour_legend(
    figure: FigureBase, colours: Mapping[str, str], framed: Mapping[str, str]
) -> None:
    """Add a legend above all axes that explains the colours of the blocks that are drawn.

    Parameters
    ----------
    colours, framed
        The colours of blocks and of frames, by label.
    """
    from matplotlib.colors import to_hex
    from matplotlib.patches import Patch

    sized: Any = figure  # matplotlib declares no common type for the axes of subfigures
    drawn = [patch for axes in sized.axes for patch in axes.patches]
    blocks = {to_hex(patch.get_facecolor()) for patch in drawn if patch.get_fill()}
    frames = {to_hex(patch.get_edgecolor()) for patch in drawn if not patch.get_fill()}
    handles = [
        Patch(facecolor=colour, label=label)
        for label, colour in colours.items()
        if colour in blocks
    ]
    handles += [
        Patch(facecolor=FREE_COLOUR, edgecolor=colour, linewidth=1.6, label=label)
        for label, colour in framed.items()
        if colour in frames
    ]
    legend_above(figure, handles)


def drawing_of_rows(
    panels: Mapping[str, Callable[[BlockRows], str]],
    names: Sequence[str],
    most_gpus: float,
    *,
    label: str,
    colours: Mapping[str, str],
    framed: Mapping[str, str] | None = None,
    left_out: str,
    width_inches: float,
    frame_inches: float,
    rows: float | None = None,
) -> Drawing:
    """Return a drawing with one panel of rows of blocks per solution.

    Parameters
    ----------
    panels
        A function that draws the rows of a panel and returns its title, by the name of a solution.
    names, most_gpus
        The names of the rows, and the number of GPUs of the longest row.
    label
        The label of the axis of GPUs.
    colours, framed
        The colours of blocks and of frames, by label.
    left_out
        A sentence on rows that are not drawn.
    width_inches, frame_inches
        The width of a panel, and the height of its title, axis and legends.
    rows
        The height of a panel in rows; None for one per name.
    """
    grid = grid_of(len(panels), width_inches)

    def draw(figure: FigureBase) -> None:
        for axes, (name, draw_panel) in zip(
            all_axes := add_panels(figure, len(panels), grid), panels.items(), strict=True
        ):
            blocks = block_rows_of(axes, names, most_gpus, width_inches, solution=name)
            axes.set_title(draw_panel(blocks), loc="left")
        for axes in all_axes[-grid[1] :]:
            axes.set_xlabel(label)
        add_colour_legend(figure, colours, framed or {})
        note_below(figure, left_out)

    height = rows_inches(max(len(names), 1) if rows is None else rows, grid[0], frame_inches)
    return Drawing(width_inches * grid[1], height, draw)
