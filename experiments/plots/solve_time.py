"""Solve time against the size of the instance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.core.pictures import as_written, make_logarithmic
from lyra_opt.experiments.plots.style import line_style, mark_points, stretches

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes

STEP = 0.01
"""Distance of neighbouring lines, as a share of the axis."""

LABEL_STEP = 0.07
"""Least distance of labels of the axis, as a share of it."""


def plot_solve_time(
    frame: pd.DataFrame, configurations: Sequence[str], size_name: str, axes: Axes
) -> None:
    """Draw medians, joined where families are the same, and whiskers to the extreme times.

    Parameters
    ----------
    frame
        Runs, with ``configuration``, ``size``, ``family_label`` and ``time_s``.
    configurations
        Their order sets the colours.
    size_name
        What the size of an instance counts.
    """
    times = frame.groupby(["configuration", "size"]).time_s.agg(["min", "median", "max"]) * 1e3
    families = frame.groupby(["configuration", "size"]).family_label.agg(frozenset)
    sizes = sorted(frame["size"].unique())
    axis_factor = max(2.0, sizes[-1] / sizes[0])
    for place, configuration in enumerate(configurations):
        if configuration not in times.index:
            continue
        by_size = times.loc[configuration]
        style = line_style(configuration, configurations)
        # Shifted a little, so that whiskers stand side by side.
        shift = axis_factor ** (STEP * (place - (len(configurations) - 1) / 2))
        xs = by_size.index * shift
        axes.vlines(
            xs, by_size["min"], by_size["max"], color=style["color"], alpha=0.5, linewidth=1.0
        )
        drawn = style | {"markersize": mark_points(style["marker"], 4), "linewidth": 1.2}
        for part in stretches(list(families.loc[configuration])):
            axes.plot(xs[part], by_size["median"].iloc[part], **drawn)
        axes.plot([], [], label=as_written(configuration), **drawn)  # for the legend
    axes.set_xscale("log")
    make_logarithmic(axes.yaxis)
    labelled = sizes[:1]
    for size in sizes[1:]:
        if size >= labelled[-1] * axis_factor**LABEL_STEP:
            labelled.append(size)
    axes.set_xticks(labelled, [f"{size:g}" for size in labelled])
    axes.set_xticks([], minor=True)
    axes.set_xlabel(f"{size_name.capitalize()} of the instance")
