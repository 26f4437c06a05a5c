"""Plots of solver times: instances proved within a time, and solve time against size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.core.pictures import as_written, line_style, make_logarithmic
from lyra_opt.experiments.plots.style import draw_steps, mark_points, stretches

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes


def plot_cactus(
    frame: pd.DataFrame, configurations: Sequence[str], instances: int, axes: Axes
) -> None:
    """Draw, for each solver with a proof, how many instances it proves within a time.

    Parameters
    ----------
    frame
        Runs, with columns ``configuration`` and ``proof_time_s``.
    configurations
        All configurations; their order sets the colours.
    instances
        Number of all instances, proved or not.
    """
    from matplotlib.ticker import MaxNLocator

    proved = frame.dropna(subset="proof_time_s").sort_values("proof_time_s")
    longest = 1.1 * proved.proof_time_s.max()
    for configuration in configurations:
        times = proved.proof_time_s[proved.configuration == configuration].tolist()
        if times:
            counts = range(1, len(times) + 1)
            draw_steps(axes, configuration, configurations, times, counts, longest)
    axes.axhline(instances, color="#808080", linewidth=0.8, linestyle=":", zorder=1)
    make_logarithmic(axes.xaxis)
    axes.set_xlim(right=longest)
    axes.set_ylim(0, 1.04 * instances)
    axes.set_xlabel("Time to proof (s)")
    axes.set_ylabel(f"Instances proved optimal, of {instances:,}")
    axes.yaxis.set_major_locator(MaxNLocator(steps=[1, 2, 5, 10], integer=True))


MOST_STEPS = 4
"""Whiskers of at most so many earlier solvers are wider, each by a step, to remain visible."""

LABEL_STEP = 0.07
"""Minimum distance between axis labels, as a share of the axis."""


def plot_solve_time(
    frame: pd.DataFrame, configurations: Sequence[str], size_name: str, axes: Axes
) -> None:
    """Draw the median solve time against size, with whiskers to the extreme times.

    A line joins the medians of neighbouring sizes with the same families.

    Parameters
    ----------
    frame
        Runs, with columns ``configuration``, ``size``, ``family_label`` and ``time_s``.
    configurations
        All configurations; their order sets the colours.
    size_name
        Name of the things that the size counts.
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
        xs = by_size.index
        steps = min(len(configurations) - 1 - place, MOST_STEPS)
        axes.vlines(
            xs,
            by_size["min"],
            by_size["max"],
            color=style["color"],
            alpha=0.5,
            linewidth=0.8 + 0.5 * steps,
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
