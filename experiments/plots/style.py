"""What plots have beside the house style of pictures: marks, legend, and SVG text for a page."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

from lyra_opt.pictures import COLOURS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")  # one more: no pair comes twice soon
DASHES = ("-", "--", ":")


def line_style(configuration: str, configurations: Sequence[str]) -> dict[str, Any]:
    """Return colour, mark and dashes of one configuration, the same in every plot."""
    position = list(configurations).index(configuration)
    return {
        "color": COLOURS[position % len(COLOURS)],
        "marker": MARKERS[position % len(MARKERS)],
        "linestyle": DASHES[position // len(COLOURS) % len(DASHES)],
    }


def add_legend(axes: Axes) -> None:
    """Put the legend to the right of the axes, where it covers no data."""
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)


def svg_text(figure: Figure, name: str) -> str:
    """Return a figure as an SVG element, the same text for the same figure.

    Its ids begin with `name`, so that one page can hold several figures.
    """
    stream = io.StringIO()
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(stream, format="svg", bbox_inches="tight", metadata=no_metadata)
    svg = stream.getvalue()
    svg = svg[svg.index("<svg") :]  # without the XML prolog, which a page cannot hold
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    return re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE)
