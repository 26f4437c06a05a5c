"""Performance profiles: share of instances on which a solver is close to the best solver.

Source: Dolan and Moré, Benchmarking optimization software with performance profiles, 2002.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.pictures import as_written, make_logarithmic, record
from lyra_opt.experiments.plots.plot import Plot
from lyra_opt.experiments.plots.style import add_legend_of_all, draw_steps, new_panels

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd
    from matplotlib.axes import Axes

    from lyra_opt.experiments.scoreboard import Scoreboard

SHORTEST_S = 1e-3
"""Shorter times count as this time, which is below the resolution of a clock and of interest."""

LEAST_RATIO = 10.0
"""The least right end of the axis of times, so that it has several ticks."""

LINEAR_UP_TO_PERCENT, LARGEST_PERCENT = 1.0, 100.0
"""Linear part and end of the gap axis; runs with a larger gap or no solution are not shown."""


def time_ratios(frame: pd.DataFrame) -> pd.Series:
    """Return each run's proof time divided by the shortest on its instance; NaN without a proof."""
    time_s = frame.proof_time_s.clip(lower=SHORTEST_S)
    return time_s / time_s.groupby(frame.cell).transform("min")


def plot_profiles(
    frame: pd.DataFrame, column: str, configurations: Sequence[str], axes: Axes, least_right: float
) -> None:
    """Draw the cumulative distribution of a column as one step line per solver configuration.

    Parameters
    ----------
    frame
        Counted runs, with columns ``configuration`` and `column`; NaN for a missing value.
    column
        Name of the column with a value of which less is better.
    configurations
        All configurations; their order sets the styles.
    least_right
        The least right end of the axis.
    """
    right = max(1.05 * frame[column].max(), least_right)
    for configuration in configurations:
        of_solver = frame[frame.configuration == configuration]
        values = np.sort(of_solver[column].dropna().to_numpy(float)).tolist()
        if not values:
            continue
        share = (100 * np.arange(1, len(values) + 1) / len(of_solver)).tolist()
        draw_steps(axes, configuration, configurations, values, share, right)
        points = zip(values, share, strict=True)
        record(
            axes,
            ({"solver": configuration, column: at, "share_percent": up} for at, up in points),
            column,
        )
    axes.set_xlim(right=right)
    axes.set_ylim(0, 104)
    axes.set_ylabel("Supported instances (%)")


def plot_time_profiles(frame: pd.DataFrame, configurations: Sequence[str], axes: Axes) -> None:
    """Draw the share of instances that each solver proves within a factor of the fastest proof."""
    ratios = frame.assign(time_ratio=time_ratios(frame))
    plot_profiles(ratios, "time_ratio", configurations, axes, LEAST_RATIO)
    make_logarithmic(axes.xaxis)
    axes.set_xlim(left=1.0)
    axes.set_xlabel("Time to proof / that of the fastest solver")


def plot_gap_profiles(frame: pd.DataFrame, configurations: Sequence[str], axes: Axes) -> None:
    """Draw the share of instances on which each solver is within a gap of the best known value."""
    within = frame.gap_to_best_percent.where(frame.gap_to_best_percent < LARGEST_PERCENT)
    plot_profiles(
        frame.assign(gap_percent=within), "gap_percent", configurations, axes, LARGEST_PERCENT
    )
    axes.set_xscale("symlog", linthresh=LINEAR_UP_TO_PERCENT)
    axes.set_xlim(0.0, LARGEST_PERCENT)
    ticks = (0, 0.5, 1, 2, 5, 10, 20, 50, 100)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("Gap to the best known at the limit (%)")


OWN_FACTOR = 2.5
"""The width of the lines of a user's own solver, relative to those of the others."""

WIDTH_INCHES, PANEL_INCHES = 8.8, 3.8
FRAME_INCHES, LINE_INCHES = 0.7, 0.19
"""Height of a plot with a long legend: fixed part, and height of each legend line."""


def profile_makers(
    scoreboard: Scoreboard, own: str | None = None
) -> dict[str, Callable[[], Plot | None]]:
    """Return functions that draw the profiles of each problem, by the names of the plots.

    The lines of the solver `own` are bold.
    """
    return {
        f"profiles_{problem}": partial(
            _profiles, problem, scoreboard.frame[scoreboard.frame.problem == problem], own
        )
        for problem in scoreboard.problems
    }


def _profiles(problem: str, frame: pd.DataFrame, own: str | None) -> Plot | None:
    """Return the plot of a problem; None without runs."""
    is_proving = frame.proof_time_s.notna().groupby(frame.configuration).transform("any")
    proving = frame[is_proving]
    panels: list[tuple[pd.DataFrame, Callable[..., None], str]] = []
    captions = []
    if proving.configuration.nunique() > 1:  # one solver alone is always the fastest
        panels.append((proving, plot_time_profiles, "Proofs"))
        captions.append(
            "Proofs: share of its supported instances that a solver proves within a factor of the "
            f"fastest proof. Times below {1e3 * SHORTEST_S:g} ms count as that time; an instance "
            "that no solver proves within the limit counts as not proved."
        )
    if len(frame):
        panels.append((frame, plot_gap_profiles, "Solutions"))
        captions.append(
            "Solutions: share of instances on which a solver is within a gap of the best known "
            "value. The legend marks exact solvers."
        )
    if not panels:
        return None
    configurations = list(frame.configuration.unique())
    height = max(PANEL_INCHES * len(panels), FRAME_INCHES + LINE_INCHES * len(configurations))
    figure, grid = new_panels(len(panels), 1, (WIDTH_INCHES, height))
    for (runs, draw, title), axes in zip(panels, grid[:, 0], strict=True):
        draw(runs, configurations, axes)
        axes.set_title(f"{title}, {problem}")
    add_legend_of_all(figure, grid[:, 0], configurations)
    exact = {*map(as_written, frame.configuration[frame.reference])}
    for text in figure.legends[0].get_texts():
        name = text.get_text()
        if own is not None and name == as_written(own):
            text.set_fontweight("bold")
            for line in (each for axes in grid[:, 0] for each in axes.lines):
                if line.get_label() == name:
                    line.set(linewidth=OWN_FACTOR * line.get_linewidth(), zorder=4)
        text.set_text(name + " (exact)" * (name in exact))
    return Plot(
        f"profiles_{problem}",
        f"Performance profiles, {problem}",
        " ".join([*captions, "Higher and further left is better."]),
        figure,
    )
