"""The figures of a scoreboard: performance profiles of each problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.core.pictures import house_style, svg_text
from lyra_opt.experiments.plots.figures import Plot
from lyra_opt.experiments.plots.profiles import (
    SHORTEST_S,
    plot_gap_profiles,
    plot_time_profiles,
)
from lyra_opt.experiments.plots.style import add_legend

if TYPE_CHECKING:
    import pandas as pd

    from lyra_opt.experiments.scoreboard import Scoreboard

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
    from matplotlib.figure import Figure

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
    figure = Figure(figsize=(WIDTH_INCHES, sum(heights)), layout="constrained")
    grid = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)
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
