"""How a scheme is drawn: one colour and one kind of line in every plot of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.core.pictures import as_written
from lyra_opt.experiments.plots.style import line_style, mark_points

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDEST_POINTS, NARROWEST_POINTS = 3.4, 1.2


def scheme_line(scheme: str, schemes: Sequence[str]) -> dict[str, Any]:
    """Return style and label of a line.

    Lines that coincide can be told apart: earlier ones are wider, later ones have gaps.
    """
    style = line_style(scheme, schemes)
    place = list(schemes).index(scheme) / max(1, len(schemes) - 1)
    return {
        "color": style["color"],
        "linestyle": style["linestyle"],
        "linewidth": (
            WIDEST_POINTS + (NARROWEST_POINTS - WIDEST_POINTS) * place if len(schemes) > 1 else 1.6
        ),
        "label": as_written(scheme),
    }


def scheme_mark(scheme: str, schemes: Sequence[str]) -> dict[str, Any]:
    """Return the mark of a scheme, with a white rim."""
    marker = line_style(scheme, schemes)["marker"]
    return {
        "marker": marker,
        "markersize": mark_points(marker, 5.5),
        "markeredgecolor": "white",
        "markeredgewidth": 0.6,
    }


def scheme_colour(scheme: str, schemes: Sequence[str]) -> str:
    """Return the colour of a scheme, by its place among all of the page."""
    colour: str = line_style(scheme, schemes)["color"]
    return colour
