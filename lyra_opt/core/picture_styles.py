"""The styles of pictures, which decide their sizes, texts and colours, and figures as bytes."""

from __future__ import annotations

import io
import math
import warnings
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import UserError
from lyra_opt.core.nearest_names import meant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """A style of pictures: the sizes that a page or a paper needs, and matplotlib's settings.

    Parameters
    ----------
    text_points
        The size of the text.
    width_inches
        The width of every picture; None for as wide as its panels, up to `most_width_inches`.
    most_width_inches, most_columns
        The largest width of a picture, and the most panels side by side.
    most_height_inches
        The largest height of a picture, unless text would then overlap.
    most_rows
        The most servers, jobs or nodes that are drawn below one another, in all panels together if
        the style is narrow.
    height_factor
        The height of panels, relative to that on a page.
    line_factor
        The width of lines and the size of marks, relative to those on a page.
    dots_per_inch
        The resolution of PNG files, and of bitmaps in other files.
    settings
        Settings of matplotlib.
    """

    text_points: float
    width_inches: float | None = None
    most_width_inches: float
    most_columns: int
    most_height_inches: float = math.inf
    most_rows: int
    height_factor: float = 1.0
    line_factor: float = 1.0
    dots_per_inch: int
    settings: Mapping[str, Any]

    @property
    def is_narrow(self) -> bool:
        """Whether panels stand below one another and are distinguishable without colours."""
        return self.width_inches is not None


SETTINGS: dict[str, Any] = {
    "svg.hashsalt": "lyra-opt",  # ids do not change from run to run
    "pdf.fonttype": 42,  # whole fonts are embedded, which publishers demand
    "font.family": "sans-serif",
    "figure.labelsize": "medium",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
}

STYLES = {
    # No picture is wider than a page of the documentation, so none is scaled down there.
    "page": Style(
        text_points=9,
        most_width_inches=11.0,
        most_columns=4,
        most_rows=192,
        dots_per_inch=150,
        # Text is stored as text, which keeps files small and searchable.
        settings=SETTINGS | {"font.size": 9, "svg.fonttype": "none"},
    ),
    # A column of `article` on letter paper, 229.5 points wide, in which no text is below 8 points.
    # The columns of acmart (3.33 inches) and IEEEtran (3.5 inches) are wider, so it fits there too.
    "paper": Style(
        text_points=8,
        width_inches=3.17,
        most_width_inches=3.17,
        most_columns=1,
        most_height_inches=8.0,
        most_rows=20,
        height_factor=0.72,
        line_factor=0.7,
        dots_per_inch=300,
        settings=SETTINGS
        | {
            "font.size": 8,
            "svg.fonttype": "path",
            "axes.titlesize": "medium",
            "hatch.linewidth": 0.5,
            "legend.handlelength": 1.8,
            "legend.handletextpad": 0.5,
            "legend.columnspacing": 1.0,
            "legend.labelspacing": 0.3,
        },
    ),
}
"""The styles of pictures by name: for pages and screens, and for one column of a paper."""

_in_force: ContextVar[str] = ContextVar("style", default="page")


def style_name() -> str:
    """Return the name of the style in which pictures are drawn now."""
    return _in_force.get()


def style_in_force() -> Style:
    """Return the style in which pictures are drawn now."""
    return STYLES[_in_force.get()]


def require_style(option: str, name: object) -> str:
    """Return the name of a style, the value of `option`; raise `UserError` if it is unknown."""
    if not isinstance(name, str) or name not in STYLES:
        raise UserError(f"{option} {name}: unknown style; {meant(name, STYLES)}")
    return name


@contextmanager
def house_style(name: str | None = None) -> Iterator[None]:
    """Draw and write figures in a style, by default the one in force, in a ``with`` block."""
    import matplotlib as mpl

    token = _in_force.set(name or _in_force.get())
    settings: dict[Any, Any] = dict(style_in_force().settings)
    try:
        with mpl.rc_context(settings), warnings.catch_warnings():
            # Warnings about missing letters are ignored, because the reader's font may have them.
            warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
            yield
    finally:
        _in_force.reset(token)


def picture_bytes(figure: Figure, kind: str) -> bytes:
    """Return a figure as the content of a file: ``svg``, ``png`` or ``pdf``."""
    without = {
        "svg": ("Creator", "Date"),
        "png": ("Software",),
        "pdf": ("Creator", "Producer", "CreationDate"),
    }
    stream = io.BytesIO()
    with house_style(getattr(figure, "style", "page")):
        dots = style_in_force().dots_per_inch
        metadata = dict.fromkeys(without[kind])
        figure.savefig(stream, format=kind, dpi=dots, metadata=metadata)
    return stream.getvalue()
