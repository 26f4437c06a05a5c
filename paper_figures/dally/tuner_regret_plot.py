"""The plot of the page on the auto-tuner's regret."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from experiments.plots.figures import Plot
from experiments.plots.style import svg_text
from lyra_opt.pictures import COLOURS, as_written
from paper_figures.dally.tuner_regret import CALLED
from paper_figures.dally.tuner_regret_cases import PLACES, SPACE
from paper_figures.plots import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from paper_figures.report import Page

FOR_EVER = SPACE.most_leases + 3
"""Where timers for ever are drawn."""
APART = 0.16
"""Between the marks of two places."""


def tuner_regret_plot(page: Page) -> Plot:
    """Return how far rules are from the bound, and the timers that were found."""
    figure, (rules, timers) = new_figure(2, 3.6, 5.2)
    _draw_rules(rules, page)
    _draw_timers(timers, page)
    figure.legend(*rules.get_legend_handles_labels(), loc="outside upper left", ncols=3)
    figure.legend(*timers.get_legend_handles_labels(), loc="outside lower right", ncols=3)
    return Plot(
        page.picture,
        "How far rules are from the best schedule, and the timers behind them",
        "Left: mean JCT over the bound that is proved for any schedule, a mark for each rule; at "
        "the line nothing is better. Right: full marks are the best fixed timers, hollow ones the "
        "mean of what the auto-tuner said.",
        svg_text(figure, "tuner-regret"),
    )


def _draw_rules(axes: Axes, page: Page) -> None:
    marks = "osD^vP"
    names = [name for name in page.series if name.startswith("rule: ")]
    for number, name in enumerate(names):
        numbers, above = zip(*page.series[name], strict=True)
        axes.plot(
            above,
            numbers,
            linestyle="",
            marker=marks[number % len(marks)],
            color=COLOURS[number % len(COLOURS)],
            label=as_written(name.removeprefix("rule: ")),
        )
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(PLACES)), [place.in_words for place in PLACES])
    axes.set_ylim(len(PLACES) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("Mean JCT over the bound")


def _draw_timers(axes: Axes, page: Page) -> None:
    for number, place in enumerate(PLACES):
        colour = COLOURS[number % len(COLOURS)]
        shift = (number - (len(PLACES) - 1) / 2) * APART
        for kind, filled in (("best", True), ("auto", False)):
            points = page.series.get(f"{kind}: {place.in_words}", ())
            if points:
                axes.plot(
                    [timer + shift for timer, _ in points],
                    [FOR_EVER if leases == math.inf else leases for _, leases in points],
                    linestyle="",
                    marker="o",
                    color=colour,
                    markerfacecolor=colour if filled else "none",
                    label=as_written(place.in_words) if filled else None,
                )
    labels = [
        name.replace(" timer of gangs that fit ", " timer,\nfits ") for name in CALLED.values()
    ]
    axes.set_xticks(range(len(labels)), labels)
    axes.set_xlim(-0.5, len(labels) - 0.5)
    ticks = [0, 6, 12, 18, 24]
    axes.set_yticks([*ticks, FOR_EVER], [*map(str, ticks), "ever"])
    axes.set_ylabel("Leases")
