"""How every plot looks: colours, marks, legend, and how it becomes SVG text."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, made to be told apart by colour-blind readers; yellow, too pale for
# lines on white, is left out.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")  # one more: no pair comes twice soon
DASHES = ("-", "--", ":")


def house_style() -> AbstractContextManager[None]:
    """Return a context in which figures are drawn as this project's are."""
    import matplotlib as mpl

    return mpl.rc_context(
        {
            "svg.fonttype": "none",  # text stays text: small files that can be searched
            "svg.hashsalt": "lyra-opt",  # ids that are the same on every day
            "font.family": "sans-serif",
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.axisbelow": True,
            "axes.grid": True,
            "grid.color": "#e4e4e4",
            "grid.linewidth": 0.6,
            "legend.frameon": False,
        }
    )


def as_written(text: str) -> str:
    """Return text so that a dollar sign in it stays one, and starts no formula."""
    return text.replace("$", r"\$")


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
