"""The style of pictures, shared parts of drawings, and writing a figure to a file."""

from __future__ import annotations

import io
import re
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import east_asian_width

from lyra_opt.core.documents import write_bytes
from lyra_opt.core.errors import UserError, counted, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure, FigureBase

# The colours are the palette of Okabe and Ito, which colour-blind readers can distinguish.
# The palette leaves out yellow, because yellow lines are hard to see on white.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")

DARK_TEXT = "#1b1f24"
FREE_COLOUR, UNNAMED_COLOURS = "#e8ebef", ("#c8c8c8", "#dedede")
"""The colours of free GPUs and, in turn, of jobs without a colour of their own."""

MOST_NAMED = 12
"""The number of jobs with a colour of their own: six colours, then pale versions of these."""

MOST_COLUMNS, MOST_WIDTH_INCHES = 4, 11.0
"""The most panels side by side, and the largest width of a picture in inches.

A page of the documentation has this width, so no picture is scaled down there.
"""

TEXT_POINTS = 9
"""The size of the smallest text in a picture, in points."""

LONGEST_NAME = 14
"""The number of letters from which the middle of a name is left out."""

LETTER_EMS = 0.6
"""The mean width of a letter relative to its size."""

TIME_UNITS = ((3 * 86_400, 86_400, "days"), (3 * 3_600, 3_600, "h"), (0, 1, "s"))
"""For each time unit: the duration in seconds from which it is used, its length in seconds, its
name."""

LONG_AXIS = 100.0
"""The ratio of the ends of a logarithmic axis from which only powers of ten are labelled."""

FORMATS = {".svg": "svg", ".png": "png"}
"""The file format for each suffix of a picture file."""

PNG_DOTS_PER_INCH = 150


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
        from lyra_opt.core.shown_figure import ShownFigure

        with house_style():
            figure = ShownFigure(
                figsize=(self.width_inches, self.height_inches), layout="constrained"
            )
            self.draw(figure)
        return figure


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


@contextmanager
def house_style() -> Iterator[None]:
    """Apply the style of this project to figures drawn or written within a ``with`` block."""
    import matplotlib as mpl

    style: dict[Any, Any] = {
        "svg.fonttype": "none",  # text is stored as text, which keeps files small and searchable
        "svg.hashsalt": "lyra-opt",  # ids do not change from run to run
        "font.family": "sans-serif",
        "font.size": TEXT_POINTS,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.grid": True,
        "grid.color": "#e4e4e4",
        "grid.linewidth": 0.6,
        "legend.frameon": False,
    }
    with mpl.rc_context(style), warnings.catch_warnings():
        # Warnings about missing letters are ignored, because the reader's font may have them.
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        yield


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


def text_inches(text: str, points: float) -> float:
    """Return the approximate width of a text in inches, at a font size in points."""
    wide = sum(east_asian_width(letter) in "WF" for letter in text)
    return (len(text) + wide) * LETTER_EMS * points / 72


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
    from numpy import array_split

    labels = list(labels) or [str(handle.get_label()) for handle in handles]
    beside = (options.get("handlelength", 2.0) + 3.0) * TEXT_POINTS / 72  # with space around
    sized: Any = figure  # matplotlib declares no common type for figures and subfigures
    room = sized.bbox.width / sized.dpi
    lengths = [text_inches(label, TEXT_POINTS) + beside for label in labels]
    columns = next(
        (
            columns
            for columns in range(len(labels), 1, -1)
            if sum(max(part) for part in array_split(lengths, columns)) <= room
        ),
        1,
    )
    figure.legend(handles, labels, loc="outside upper left", ncols=columns, **options)


def make_logarithmic(axis: Axis) -> None:
    """Make an axis logarithmic, with plain numbers instead of exponents at its ticks.

    Powers of ten are labelled; on short axes, so are their multiples by two and five.
    """
    from matplotlib.ticker import FuncFormatter

    def further(value: float, _place: int) -> str:
        low, high = axis.get_view_interval()
        is_named = f"{value:e}"[:8] in ("2.000000", "5.000000")
        return f"{value:,g}" if is_named and high < LONG_AXIS * low else ""

    axis.axes.set(**{f"{axis.axis_name}scale": "log"})  # type: ignore[attr-defined]
    axis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:,g}"))
    axis.set_minor_formatter(FuncFormatter(further))


def text_colour(background: str) -> str:
    """Return the colour, dark or white, in which text is readable on a background colour."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(background)
    return DARK_TEXT if 0.299 * red + 0.587 * green + 0.114 * blue > 0.55 else "white"


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
    room_inches = MOST_WIDTH_INCHES - beside_inches
    columns = min(panels, MOST_COLUMNS, max(1, int(room_inches / panel_inches)))
    return -(-panels // columns), columns


def add_panels(figure: FigureBase, count: int, grid: tuple[int, int]) -> list[Axes]:
    """Return `count` axes on a grid, all with the same scales."""
    axes = figure.subplots(*grid, sharex=True, sharey=True, squeeze=False).flatten().tolist()
    for place in axes[count:]:
        place.remove()
    for place in axes[max(0, count - grid[1]) : count]:  # the lowest panel of each column
        place.tick_params(axis="x", labelbottom=True)
    found: list[Axes] = axes[:count]
    return found


def require_picture_path(option: str, path: str) -> None:
    """Raise `UserError` if `path`, the value of `option`, does not end in .svg or .png."""
    if Path(path).suffix.lower() not in FORMATS:
        raise UserError(f"{option} {path}: the file must end in {' or '.join(FORMATS)}")


def save_picture(path: str | Path, figure: Figure) -> None:
    """Write a figure in the format of the file's suffix, completely or not at all.

    Equal figures give equal bytes.

    Raises
    ------
    UserError
        If the file cannot be written.
    """
    kind = FORMATS[Path(path).suffix.lower()]
    metadata = {"svg": dict.fromkeys(("Creator", "Date")), "png": {"Software": None}}[kind]
    stream = io.BytesIO()
    with house_style():
        figure.savefig(stream, format=kind, dpi=PNG_DOTS_PER_INCH, metadata=metadata)
    write_bytes(path, stream.getvalue())


_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_GEOMETRY = re.compile(r' (?:d|x|y|points)="[^"]*"')


def svg_text(figure: Figure, name: str) -> str:
    """Return a figure as an SVG element; equal figures give equal text.

    All ids begin with `name`, so that one page can contain several figures.
    """
    stream = io.StringIO()
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with house_style():
        figure.savefig(stream, format="svg", bbox_inches="tight", metadata=no_metadata)
    svg = stream.getvalue()
    svg = svg[svg.index("<svg") :]  # without the XML prolog, which HTML does not allow
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    svg = _GEOMETRY.sub(lambda found: _LONG_NUMBER.sub(_rounded, found[0]), svg)
    return re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE)


def _rounded(number: re.Match[str]) -> str:
    """Return a length in points rounded to hundredths, which halves the size of the file."""
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


ROW_INCHES = 0.24
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
    """

    axes: Axes
    gpus_per_inch: float

    def track(
        self, row: float, gpus: float, colour: str = FREE_COLOUR, *, left: float = 0.0
    ) -> None:
        """Draw the background of a row, behind its blocks."""
        self._rectangle(left, row, gpus, TRACK_HEIGHT, facecolor=colour, linewidth=0, zorder=1)

    def frame(self, row: float, gpus: float, colour: str, *, left: float = 0.0) -> None:
        """Draw a line around a row, or around a part of it."""
        style = {"fill": False, "edgecolor": colour, "linewidth": 1.6, "zorder": 4}
        self._rectangle(left, row, gpus, TRACK_HEIGHT - 0.02, clip_on=False, **style)

    def block(
        self, row: float, left: float, gpus: float, colour: str, *labels: str, hatch: str = ""
    ) -> None:
        """Draw a block, with the first of the labels that fits into it."""
        style = {"facecolor": colour, "edgecolor": EDGE, "linewidth": 0.8, "zorder": 2}
        self._rectangle(left, row, gpus, BLOCK_HEIGHT, hatch=hatch or None, **style)
        for label in labels:
            if 1.1 * text_inches(label, TEXT_POINTS) * self.gpus_per_inch <= gpus:
                self.axes.text(
                    left + gpus / 2,
                    row,
                    as_written(label),
                    ha="center",
                    va="center_baseline",
                    fontsize=TEXT_POINTS,
                    color=text_colour(colour),
                    clip_on=True,
                    zorder=3,
                )
                return

    def _rectangle(
        self, left: float, row: float, width: float, height: float, **style: object
    ) -> None:
        from matplotlib.patches import Rectangle

        corner = left, row - height / 2
        self.axes.add_patch(Rectangle(corner, width, height, **style))  # type: ignore[arg-type]


def block_rows_of(
    axes: Axes, names: Sequence[str], most_gpus: float, panel_inches: float
) -> BlockRows:
    """Prepare axes for rows of blocks, with the names of the rows to the left.

    Parameters
    ----------
    most_gpus
        The number of GPUs of the longest row.
    panel_inches
        The width of the axes including the names.
    """
    from matplotlib.ticker import MaxNLocator

    shown = [shortened(name) for name in names]
    margin = max((text_inches(name, TEXT_POINTS) for name in shown), default=0.0) + 0.15
    axes.set_yticks(range(len(names)), [as_written(name) for name in shown], fontsize=TEXT_POINTS)
    axes.set_ylim(max(len(names), 1) - 0.4, -0.6)
    axes.set_xlim(-0.008 * most_gpus, 1.008 * most_gpus)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)
    return BlockRows(axes, most_gpus / max(panel_inches - margin, 1.0))


def add_colour_legend(
    figure: FigureBase, colours: Mapping[str, str], framed: Mapping[str, str]
) -> None:
    """Add a legend above all axes that explains the colours.

    Parameters
    ----------
    colours, framed
        The colours of blocks and of frames, by label.
    """
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=colour, label=label) for label, colour in colours.items()]
    handles += [
        Patch(facecolor=FREE_COLOUR, edgecolor=colour, linewidth=1.6, label=label)
        for label, colour in framed.items()
    ]
    legend_above(figure, handles)
