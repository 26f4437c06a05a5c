"""Performance profiles: on how many instances a solver is within a factor, or a gap, of the best.

Dolan and Moré, Benchmarking optimization software with performance profiles, 2002.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.pictures import house_style, make_logarithmic, svg_text
from lyra_opt.experiments.plots.figures import Plot
from lyra_opt.experiments.plots.style import add_legend, draw_steps, new_panels

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes

    from lyra_opt.experiments.scoreboard import Scoreboard

SHORTEST_S = 1e-3
"""Shorter times count as this: nobody waits less, and a clock cannot tell."""

LINEAR_UP_TO_PERCENT, LARGEST_PERCENT = 1.0, 100.0
"""Of the axis of gaps. A larger gap, and none at all, is beyond it."""


def time_ratios(frame: pd.DataFrame) -> pd.Series:
    """Return the time to proof of each run over the least on its instance; NaN without a proof."""
    time_s = frame.proof_time_s.clip(lower=SHORTEST_S)
    return time_s / time_s.groupby(frame.cell).transform("min")


def plot_profiles(
    frame: pd.DataFrame, column: str, configurations: Sequence[str], axes: Axes
) -> None:
    """Draw a step line for each configuration that has a value.

    Parameters
    ----------
    frame
        Runs, those that count, with ``configuration`` and `column`, NaN where there is none.
    column
        What a solver should have little of.
    configurations
        Their order sets the styles.
    """
    right = 1.05 * frame[column].max()
    for configuration in configurations:
        of_solver = frame[frame.configuration == configuration]
        values = np.sort(of_solver[column].dropna().to_numpy(float)).tolist()
        if not values:
            continue
        share = (100 * np.arange(1, len(values) + 1) / len(of_solver)).tolist()
        draw_steps(axes, configuration, configurations, values, share, right)
    axes.set_xlim(right=right)
    axes.set_ylim(0, 104)
    axes.set_ylabel("Instances that it takes (%)")


def plot_time_profiles(frame: pd.DataFrame, configurations: Sequence[str], axes: Axes) -> None:
    """Draw the share of instances that each proves within a factor of the fastest proof."""
    ratios = frame.assign(ratio=time_ratios(frame))
    plot_profiles(ratios, "ratio", configurations, axes)
    make_logarithmic(axes.xaxis)
    axes.set_xlim(left=1.0)
    axes.set_xlabel("Time to proof / that of the fastest solver")


def plot_gap_profiles(frame: pd.DataFrame, configurations: Sequence[str], axes: Axes) -> None:
    """Draw the share of instances on which each is within a gap of the best known."""
    within = frame.gap_to_best_percent.where(frame.gap_to_best_percent < LARGEST_PERCENT)
    plot_profiles(frame.assign(gap=within), "gap", configurations, axes)
    axes.set_xscale("symlog", linthresh=LINEAR_UP_TO_PERCENT)
    axes.set_xlim(0.0, LARGEST_PERCENT)
    ticks = (0, 0.5, 1, 2, 5, 10, 20, 50, 100)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("Gap to the best known at the limit (%)")


WIDTH_INCHES, PANEL_INCHES = 8.2, 3.8
FRAME_INCHES, LINE_INCHES = 0.7, 0.19
"""Of a panel whose legend is longer: what is around it, and each of its lines."""


def draw_profiles(scoreboard: Scoreboard) -> list[Plot]:
    """Return a plot for each problem: profiles of times to proof, and of gaps."""
    with house_style():
        return [
            _profiles(problem, scoreboard.frame[scoreboard.frame.problem == problem])
            for problem in scoreboard.problems
        ]


def _profiles(problem: str, frame: pd.DataFrame) -> Plot:
    is_proving = frame.proof_time_s.notna().groupby(frame.configuration).transform("any")
    panels = [
        (frame[is_proving], plot_time_profiles, "Proofs"),
        (frame[~frame.reference], plot_gap_profiles, "Solutions of heuristics"),
    ]
    panels = [each for each in panels if len(each[0])]
    heights = [
        max(PANEL_INCHES, FRAME_INCHES + LINE_INCHES * runs.configuration.nunique())
        for runs, _, _ in panels
    ]
    inches = WIDTH_INCHES, sum(heights)
    figure, grid = new_panels(len(panels), 1, inches, height_ratios=heights)
    for (runs, draw, title), axes in zip(panels, grid[:, 0], strict=True):
        draw(runs, list(runs.configuration.unique()), axes)
        axes.set_title(f"{title}, {problem}")
        add_legend(axes)
    return Plot(
        f"profiles_{problem}",
        f"Performance profiles, {problem}",
        "Above, the share of the instances that a solver takes which it proves within a factor of "
        f"the time of the fastest proof; times below {1e3 * SHORTEST_S:g} ms count as that, and "
        "what nobody proves within the limit as not proved. Below, the share on which a heuristic "
        "is within a gap of the best value known. Higher lines, and lines to the left, are better.",
        svg_text(figure, f"profiles-{problem}"),
    )
