"""Mean excess against one axis of a study, a line for each heuristic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.core.pictures import as_written
from lyra_opt.experiments.plots.excess import LINEAR_UP_TO_PERCENT, excess_ticks
from lyra_opt.experiments.plots.style import line_style, mark_points, stretches

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes

    from lyra_opt.experiments.records import AxisValue

WHITE = "#ffffff"

LETTERS_IN_A_ROW = 20
"""Labels of more letters in all are slanted, so that they do not run into one another."""


SPREAD = 0.3
"""Room that the marks of one value take, so that equal ones lie side by side."""

FAR = 20.0
"""Means this many times the median one are far: the axis is logarithmic then, beyond 10 %."""


def plot_excess_over_axis(
    means: pd.DataFrame, values: Sequence[AxisValue], configurations: Sequence[str], axes: Axes
) -> None:
    """Draw a mark for each mean, hollow where an optimum is not proved, and join what compares.

    Lines join neighbouring numbers whose means are over the same families: between words, or other
    families, there is nothing on the way.

    Parameters
    ----------
    means
        ``excess_percent``, ``is_proved`` and ``families`` by ``configuration`` and ``value`` of
        the axis.
    values
        Values of the axis, from left to right, evenly spaced.
    configurations
        The heuristics; their order sets the colours.
    """
    place_of = {value: place for place, value in enumerate(values)}
    are_numbers = not any(isinstance(value, str) for value in values)
    for position, configuration in enumerate(configurations):
        of_line = means[means.configuration == configuration]
        if of_line.empty:
            continue
        style = line_style(configuration, configurations)
        marker = style.pop("marker")
        size = mark_points(marker, 4.5)
        shift = SPREAD * (position - (len(configurations) - 1) / 2) / len(configurations)
        xs = of_line.value.map(place_of) + shift
        if are_numbers:
            for part in stretches(list(of_line.families)):
                axes.plot(xs.iloc[part], of_line.excess_percent.iloc[part], linewidth=1.2, **style)
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
        if not are_numbers:
            style["linestyle"] = "none"
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
    axes.set_xlim(-0.4, len(values) - 0.6)
    _set_scale(means.excess_percent, axes)
    axes.grid(visible=False, axis="x")


def _set_scale(percent: pd.Series, axes: Axes) -> None:
    """Keep one outlier from pressing all others flat."""
    top = float(percent.max())
    if top > max(LINEAR_UP_TO_PERCENT, FAR * float(percent.median())):
        axes.set_yscale("symlog", linthresh=LINEAR_UP_TO_PERCENT, linscale=1.0)
        axes.set_ylim(-0.05 * LINEAR_UP_TO_PERCENT, 1.3 * top)
        ticks = excess_ticks(1.3 * top)
        axes.set_yticks(ticks, [f"{tick:,g}" for tick in ticks])
        axes.set_yticks([], minor=True)
    else:
        axes.set_ylim(bottom=0)
