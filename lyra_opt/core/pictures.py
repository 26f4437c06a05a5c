"""How pictures look, and how one becomes a file; the problems draw them."""

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

# Okabe and Ito's palette, made to be told apart by colour-blind readers; yellow, too pale for
# lines on white, is left out.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")

DARK_TEXT = "#1b1f24"
FREE_COLOUR, UNNAMED_COLOURS = "#e8ebef", ("#c8c8c8", "#dedede")
"""Of GPUs that nobody holds; and of jobs without a colour of their own, in turn, so that
neighbours can be told apart."""

MOST_NAMED = 12
"""What may have a colour of its own: the first six colours, then the same ones pale."""

MOST_COLUMNS, MOST_WIDTH_INCHES = 4, 11.0
"""Of panels side by side; further ones are drawn below. A page of the site is as wide, so that
no picture is made smaller there, and its text with it."""

TEXT_POINTS = 9
"""Of the smallest text in a picture."""

LONGEST_NAME = 14
"""Letters of a name in a picture; of a longer one both ends are left."""

LETTER_EMS = 0.6
"""Mean width of a letter, by its size."""

TIME_UNITS = ((3 * 86_400, 86_400, "days"), (3 * 3_600, 3_600, "h"), (0, 1, "s"))
"""From which length on time is shown in which unit, and its seconds."""

LONG_AXIS = 100.0
"""From which ratio of its ends on a logarithmic axis has room for powers of ten alone."""

FORMATS = {".svg": "svg", ".png": "png"}
"""What a picture is written as, by the suffix of its file."""

PNG_DOTS_PER_INCH = 150


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture that is still to be drawn, by itself or as a part of a larger one.

    Parameters
    ----------
    width_inches, height_inches
        Its size.
    draw
        Draws it into a figure, or a part of one, of about that size.
    """

    width_inches: float
    height_inches: float
    draw: Callable[[FigureBase], None]

    def figure(self) -> Figure:
        """Return it as a figure, which notebooks show."""
        from lyra_opt.core.shown_figure import ShownFigure

        with house_style():
            figure = ShownFigure(
                figsize=(self.width_inches, self.height_inches), layout="constrained"
            )
            self.draw(figure)
        return figure


def stacked(drawings: Sequence[Drawing]) -> Drawing:
    """Return one drawing with all of these, one above the other."""
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
    """Return a context in which figures are drawn and written as this project's are."""
    import matplotlib as mpl

    style: dict[Any, Any] = {
        "svg.fonttype": "none",  # text stays text: small files that can be searched
        "svg.hashsalt": "lyra-opt",  # ids that are the same on every day
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
        # Of letters that our font lacks and the reader's may have.
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        yield


def as_written(text: str) -> str:
    """Return text on one line, so that a dollar sign in it stays one and starts no formula."""
    return one_line(text).replace("$", r"\$")


def shortened(name: str, longest: int = LONGEST_NAME) -> str:
    """Return a name with its middle left out if it is long, for names often differ at the end.

    >>> shortened("worker-of-the-third-rack"), shortened("worker-3")
    ('worker-…rd-rack', 'worker-3')
    """
    if len(name) <= longest + 1:
        return name
    return f"{name[: longest // 2]}…{name[-(longest // 2) :]}"


def text_inches(text: str, points: float) -> float:
    """Return about how wide a text is at a size of letters."""
    wide = sum(east_asian_width(letter) in "WF" for letter in text)
    return (len(text) + wide) * LETTER_EMS * points / 72


def legend_above(
    figure: FigureBase, handles: Sequence[Any], labels: Sequence[str] = (), **options: Any
) -> None:
    """Put a legend above all panels, in as many columns as its figure is wide.

    Parameters
    ----------
    figure
        Or a part of one, laid out with constraints.
    handles, labels
        What is listed; without labels the handles' own.
    options
        Of matplotlib's legend.
    """
    from numpy import array_split

    labels = list(labels) or [str(handle.get_label()) for handle in handles]
    beside = (options.get("handlelength", 2.0) + 3.0) * TEXT_POINTS / 72  # with space around
    sized: Any = figure  # what figures and their parts have in common is not declared
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
    """Make an axis logarithmic, with plain numbers at its ticks: exponents are too small to read.

    Powers of ten have numbers, on short axes twice and five times them as well.
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
    """Return the colour in which text on a colour can be read."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(background)
    return DARK_TEXT if 0.299 * red + 0.587 * green + 0.114 * blue > 0.55 else "white"


def named_colours(weights: Sequence[float]) -> list[str]:
    """Return a colour for each of several jobs: the dozen of most weight can be told apart.

    The others are grey, light and dark in turn.
    """
    named = [*COLOURS[:6], *map(_pale, COLOURS[:6])]
    largest = sorted(range(len(weights)), key=lambda place: -weights[place])[:MOST_NAMED]
    colour_of = dict(zip(sorted(largest), named, strict=False))
    return [
        colour_of.get(place, UNNAMED_COLOURS[place % len(UNNAMED_COLOURS)])
        for place in range(len(weights))
    ]


def handles_of_named(names: Sequence[str], colours: Sequence[str]) -> list[Any]:
    """Return legend entries of the names with a colour of their own, and of how many have none.

    Parameters
    ----------
    names, colours
        In the same order; colours as `named_colours` returns them.
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
    """Return the colour mixed with as much white."""
    parts = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{(part + 255) // 2:02x}" for part in parts)


def time_unit(longest_s: float) -> tuple[float, str]:
    """Return the seconds and the name of the unit that suits times up to `longest_s`."""
    return next((seconds, name) for least_s, seconds, name in TIME_UNITS if longest_s >= least_s)


def in_words(time_s: float) -> str:
    """Return a length of time in the unit that suits it."""
    seconds, name = time_unit(time_s)
    return f"{time_s / seconds:.4g} {name}"


def grid_of(panels: int, panel_inches: float, beside_inches: float = 0.0) -> tuple[int, int]:
    """Return rows and columns of so many panels of that width, with something beside all."""
    room_inches = MOST_WIDTH_INCHES - beside_inches
    columns = min(panels, MOST_COLUMNS, max(1, int(room_inches / panel_inches)))
    return -(-panels // columns), columns


def add_panels(figure: FigureBase, count: int, grid: tuple[int, int]) -> list[Axes]:
    """Return so many axes with the same rows and the same scale, on a grid."""
    axes = figure.subplots(*grid, sharex=True, sharey=True, squeeze=False).flatten().tolist()
    for place in axes[count:]:
        place.remove()
    for place in axes[max(0, count - grid[1]) : count]:  # the last of each column
        place.tick_params(axis="x", labelbottom=True)
    found: list[Axes] = axes[:count]
    return found


def require_picture_path(option: str, path: str) -> None:
    """Raise `UserError` if `path`, which `option` gave, has no suffix of a picture."""
    if Path(path).suffix.lower() not in FORMATS:
        raise UserError(f"{option} {path}: the file must end in {' or '.join(FORMATS)}")


def save_picture(path: str | Path, figure: Figure) -> None:
    """Write a figure as its suffix says, whole or not at all; the same bytes for the same figure.

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
    """Return a figure as an SVG element, the same text for the same figure.

    Its ids begin with `name`, so that one page can hold several figures.
    """
    stream = io.StringIO()
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with house_style():
        figure.savefig(stream, format="svg", bbox_inches="tight", metadata=no_metadata)
    svg = stream.getvalue()
    svg = svg[svg.index("<svg") :]  # without the XML prolog, which a page cannot hold
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    svg = _GEOMETRY.sub(lambda found: _LONG_NUMBER.sub(_rounded, found[0]), svg)
    return re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE)


def _rounded(number: re.Match[str]) -> str:
    """Return a length in points to hundredths, which nobody sees and which halves the file."""
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


ROW_INCHES = 0.24
TRACK_HEIGHT, BLOCK_HEIGHT = 0.92, 0.66
"""Of a whole row, and of a block on it, in rows."""

EDGE = "#ffffff"


@dataclass(frozen=True, slots=True)
class BlockRows:
    """Rows of blocks in axes; a block is as wide as the GPUs that it stands for.

    Parameters
    ----------
    axes
        Whose unit of height is a row, from above, and whose unit of width a GPU.
    gpus_per_inch
        How many GPUs an inch is; labels are written where they have room.
    """

    axes: Axes
    gpus_per_inch: float

    def track(
        self, row: float, gpus: float, colour: str = FREE_COLOUR, *, left: float = 0.0
    ) -> None:
        """Draw what there is of a row, below its blocks."""
        self._rectangle(left, row, gpus, TRACK_HEIGHT, facecolor=colour, linewidth=0, zorder=1)

    def frame(self, row: float, gpus: float, colour: str, *, left: float = 0.0) -> None:
        """Draw a line around a row, or a part of it."""
        style = {"fill": False, "edgecolor": colour, "linewidth": 1.6, "zorder": 4}
        self._rectangle(left, row, gpus, TRACK_HEIGHT - 0.02, clip_on=False, **style)

    def block(
        self, row: float, left: float, gpus: float, colour: str, *labels: str, hatch: str = ""
    ) -> None:
        """Draw a block, with the first of the labels for which it has room."""
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
    """Return rows with these names at the left of axes.

    Parameters
    ----------
    most_gpus
        Of a row.
    panel_inches
        The width of the axes with their names.
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
    """List what colours stand for above all axes.

    Parameters
    ----------
    colours, framed
        By label, of blocks and of frames.
    """
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=colour, label=label) for label, colour in colours.items()]
    handles += [
        Patch(facecolor=FREE_COLOUR, edgecolor=colour, linewidth=1.6, label=label)
        for label, colour in framed.items()
    ]
    legend_above(figure, handles)
