"""Mean excess against one axis of a study, a line for each heuristic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.plots.style import line_style, mark_points
from lyra_opt.pictures import as_written

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from experiments.records import AxisValue

WHITE = "#ffffff"

LETTERS_IN_A_ROW = 20
"""Labels of more letters in all are slanted, so that they do not run into one another."""


@dataclass(frozen=True, slots=True)
class ExcessOverAxisData:
    """What `plot_excess_over_axis` draws.

    Parameters
    ----------
    axis
        The axis, in words with its unit.
    values
        Its values, from left to right, evenly spaced.
    configurations
        The heuristics; their order sets the colours.
    excess_percent
        Finite excess of each run, by value and configuration: over the proved optimum, or over
        the best dual bound where no optimum is proved.
    unproved
        The values of the axis at which some optimum is not proved.
    """

    axis: str
    values: Sequence[AxisValue]
    configurations: Sequence[str]
    excess_percent: Mapping[tuple[AxisValue, str], Sequence[float]]
    unproved: frozenset[AxisValue]


def plot_excess_over_axis(data: ExcessOverAxisData, axes: Axes) -> None:
    """Draw a line through the means; a mark is hollow where an optimum is not proved."""
    for configuration in data.configurations:
        means = [
            (place, math.fsum(found) / len(found), value in data.unproved)
            for place, value in enumerate(data.values)
            if (found := data.excess_percent.get((value, configuration)))
        ]
        if not means:
            continue
        style = line_style(configuration, data.configurations)
        marker = style.pop("marker")
        size = mark_points(marker, 4.5)
        xs, ys = [x for x, _, _ in means], [y for _, y, _ in means]
        axes.plot(xs, ys, linewidth=1.2, **style)
        for x, y, is_hollow in means:
            axes.plot(
                x,
                y,
                marker=marker,
                linestyle="none",
                markersize=size,
                color=style["color"],
                markerfacecolor=WHITE if is_hollow else style["color"],
                clip_on=False,
                zorder=3,
            )
        axes.plot(
            [], [], marker=marker, markersize=size, label=as_written(configuration), **style
        )  # for the legend
    labels = [str(value) for value in data.values]
    slanted: dict[str, Any] = {"rotation": 20, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(
        range(len(labels)),
        [as_written(label) for label in labels],
        **(slanted if sum(map(len, labels)) > LETTERS_IN_A_ROW else {}),
    )
    axes.set_xlim(-0.3, len(data.values) - 0.7)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(data.axis)
    axes.grid(visible=False, axis="x")
