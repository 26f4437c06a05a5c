"""Rows of blocks, a unit of width a GPU: who holds what of servers, machines and jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.core.pictures import (
    FREE_COLOUR,
    TEXT_POINTS,
    as_written,
    legend_above,
    shortened,
    text_colour,
    text_inches,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

ROW_INCHES = 0.24
TRACK_HEIGHT, BLOCK_HEIGHT = 0.92, 0.66
"""Of a whole row, and of a block on it, in rows."""

EDGE = "#ffffff"


@dataclass(frozen=True, slots=True)
class BlockRows:
    """What draws blocks into axes.

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


def rows_of(axes: Axes, names: Sequence[str], most_gpus: float, panel_inches: float) -> BlockRows:
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
