"""Mean excess against one axis of a study, a line for each heuristic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.plots.style import line_style, mark_points
from lyra_opt.pictures import as_written

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes

    from experiments.records import AxisValue

WHITE = "#ffffff"

LETTERS_IN_A_ROW = 20
"""Labels of more letters in all are slanted, so that they do not run into one another."""


def plot_excess_over_axis(
    means: pd.DataFrame, values: Sequence[AxisValue], configurations: Sequence[str], axes: Axes
) -> None:
    """Draw a line through the means; a mark is hollow where an optimum is not proved.

    Parameters
    ----------
    means
        ``excess_percent`` and ``is_proved`` by ``configuration`` and ``value`` of the axis.
    values
        Values of the axis, from left to right, evenly spaced.
    configurations
        The heuristics; their order sets the colours.
    """
    place_of = {value: place for place, value in enumerate(values)}
    for configuration in configurations:
        of_line = means[means.configuration == configuration]
        if of_line.empty:
            continue
        style = line_style(configuration, configurations)
        marker = style.pop("marker")
        size = mark_points(marker, 4.5)
        xs = of_line.value.map(place_of)
        axes.plot(xs, of_line.excess_percent, linewidth=1.2, **style)
        for x, y, is_proved in zip(xs, of_line.excess_percent, of_line.is_proved, strict=True):
            axes.plot(
                x,
                y,
                marker=marker,
                linestyle="none",
                markersize=size,
                color=style["color"],
                markerfacecolor=style["color"] if is_proved else WHITE,
                clip_on=False,
                zorder=3,
            )
        axes.plot(
            [], [], marker=marker, markersize=size, label=as_written(configuration), **style
        )  # for the legend
    labels = [str(value) for value in values]
    slanted: dict[str, Any] = {"rotation": 20, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(
        range(len(labels)),
        [as_written(label) for label in labels],
        **(slanted if sum(map(len, labels)) > LETTERS_IN_A_ROW else {}),
    )
    axes.set_xlim(-0.3, len(values) - 0.7)
    axes.set_ylim(bottom=0)
    axes.grid(visible=False, axis="x")
