"""How far schemes are from the first one, with confidence intervals."""

from __future__ import annotations

from textwrap import shorten
from typing import TYPE_CHECKING

from lyra_opt.core.pictures import as_written, svg_text
from lyra_opt.experiments.intervals import CONFIDENCE
from lyra_opt.experiments.plots.figures import Plot
from lyra_opt.experiments.plots.style import MARKERS, mark_points, round_numbers
from lyra_opt.experiments.simulation.comparison import COMPARED
from lyra_opt.experiments.simulation.plots.schemes import scheme_colour

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.experiments.simulation.comparison import Difference

WIDTH_INCHES = 9.6
ROW_INCHES = 0.27
FRAME_INCHES = 0.8

MOST_HEADING_LETTERS = 110
"""As many as the plot is wide."""

FAR = 20.0
"""A scheme this many times further away than the median one bends the axis."""


def differences_plot(
    by_variant: Mapping[str, Sequence[Difference]], schemes: Sequence[str]
) -> Plot:
    """Return the plot: a row for each variant and scheme, a panel for each mean.

    Parameters
    ----------
    by_variant
        Differences from the first scheme, by variant in words.
    schemes
        All schemes of the page, in order.
    """
    from matplotlib.figure import Figure
    from matplotlib.transforms import blended_transform_factory

    rows = [
        (variant, scheme)
        for variant, found in by_variant.items()
        for scheme in dict.fromkeys(each.scheme for each in found)
    ]
    gaps = len(by_variant) if len(by_variant) > 1 else 0
    figure = Figure(
        figsize=(WIDTH_INCHES, FRAME_INCHES + ROW_INCHES * (len(rows) + gaps)),
        layout="constrained",
    )
    panels = figure.subplots(1, len(COMPARED), sharey=True)
    heights, labels = _heights(rows, by_variant)
    for compared, axes in zip(COMPARED, panels, strict=True):
        chosen = {
            (variant, each.scheme): each
            for variant, found in by_variant.items()
            for each in found
            if each.compared is compared
        }
        unit = max((each.unit for each in chosen.values()), key=lambda unit: unit.seconds)
        axes.axvline(0, color="#222222", linewidth=0.9, zorder=1)
        for key, each in chosen.items():
            colour = scheme_colour(each.scheme, schemes)
            marker = MARKERS[list(schemes).index(each.scheme) % len(MARKERS)]
            axes.plot(
                [each.low_s / unit.seconds, each.high_s / unit.seconds],
                [heights[key]] * 2,
                color=colour,
                linewidth=2.2,
                solid_capstyle="butt",
                alpha=0.45,
            )
            axes.plot(
                each.difference_s / unit.seconds,
                heights[key],
                marker=marker,
                markersize=mark_points(marker, 6),
                color=colour,
                markeredgecolor="white",
                markeredgewidth=0.6,
            )
        sizes = [abs(each.difference_s) / unit.seconds for each in chosen.values()]
        moved = sorted(size for size in sizes if size > 0)
        typical = moved[len(moved) // 2] if moved else 0.0
        label = f"{unit.name[0].upper()}{unit.name[1:]} more than {as_written(schemes[0])}"
        if moved and moved[-1] > FAR * typical:
            axes.set_xscale("symlog", linthresh=2 * typical, linscale=1.5)
            far = round_numbers(2 * typical, 2 * moved[-1], (1,))
            ticks = [*(-tick for tick in reversed(far)), 0.0, *far]
            axes.set_xticks(ticks, [f"{tick:,g}" for tick in ticks])
            axes.set_xticks([], minor=True)
            label += "\n(logarithmic where far from 0)"
        axes.set_title(f"{compared.name[0].upper()}{compared.name[1:]}")
        axes.set_xlabel(label)
        axes.grid(visible=False, axis="y")
    of_schemes = {height: text for height, text in labels.items() if height in heights.values()}
    panels[0].set_yticks(list(of_schemes), list(of_schemes.values()))
    across = blended_transform_factory(figure.transFigure, panels[0].transData)
    for height in labels.keys() - of_schemes.keys():
        heading = shorten(labels[height], MOST_HEADING_LETTERS, placeholder=" ...")
        figure.text(
            0.005,
            height,
            heading,
            transform=across,
            va="center",
            weight="bold",
            in_layout=False,  # it reaches over both panels and takes no room from them
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
    panels[0].set_ylim(-0.7, max(heights.values()) + (1.4 if gaps else 0.7))
    for axes in panels:
        axes.tick_params(axis="y", length=0)
    caption = (
        f"Left of 0 a scheme is faster than {schemes[0]}. Bars are {_bars_in_words(by_variant)}."
    )
    title = f"Difference from {schemes[0]}"
    return Plot("differences", title, caption, svg_text(figure, "differences"))


def _bars_in_words(by_variant: Mapping[str, Sequence[Difference]]) -> str:
    if all(each.varied.jobs for found in by_variant.values() for each in found):
        return (
            f"{100 * CONFIDENCE:.0f} % confidence intervals, as the head of the page says; one "
            "that reaches over 0 may be chance"
        )
    return "the intervals or ranges by seed that the head of the page explains"


def _heights(
    rows: Sequence[tuple[str, str]], by_variant: Mapping[str, Sequence[Difference]]
) -> tuple[dict[tuple[str, str], float], dict[float, str]]:
    """Return where each row is, from above, and the labels by height."""
    labels: dict[float, str] = {}
    heights: dict[tuple[str, str], float] = {}
    height = 0.0
    for variant in reversed(list(by_variant)):
        for row in reversed([row for row in rows if row[0] == variant]):
            heights[row] = height
            labels[height] = as_written(row[1])
            height += 1
        if len(by_variant) > 1:
            labels[height - 0.1] = as_written(variant)
            height += 1
    return heights, labels
