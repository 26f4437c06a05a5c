"""The plots of the page on Hadar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.plots.figures import Plot
from experiments.plots.style import line_style, svg_text
from lyra_opt.pictures import COLOURS, as_written
from paper_figures.hadar import competitive_ratio, forking, rounding
from paper_figures.hadar.cases import TESTBEDS
from paper_figures.plots import OUR_COLOUR, bars, new_figure

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

    from paper_figures.comparison import Comparison
    from paper_figures.report import Page

OBSERVED_COLOUR = COLOURS[1]
WIDE_INCHES = 6.6
"""Of one panel with its legend beside it."""


def ttd_over_hadar(comparison: Comparison) -> Plot:
    """Return the plot."""
    figure, (axes,) = new_figure(1, 2.6, WIDE_INCHES)
    entries = comparison.entries
    bars(
        axes,
        [f"{entry.row} ({entry.source})" for entry in entries],
        [float(entry.paper) for entry in entries],
        [entry.ours for entry in entries],
    )
    for place, entry in enumerate(entries):
        if entry.spread is not None and entry.ours is not None:
            low, high = entry.spread
            axes.errorbar(
                entry.ours,
                place + 0.19,
                xerr=[[entry.ours - low], [high - entry.ours]],
                color="black",
                linewidth=0.8,
                capsize=2,
            )
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("TTD over Hadar's")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return Plot(
        "table_1",
        "Table 1: TTD over Hadar's",
        "Right of the line Hadar is better. Where the paper's number is from stands in brackets; "
        "thin lines are the least and greatest over seeds.",
        svg_text(figure, "table-1"),
    )


def completion_times(comparison: Comparison) -> Plot:
    """Return the plot."""
    figure, (axes,) = new_figure(1, 3.0, WIDE_INCHES)
    names = list(comparison.series)
    for name, points in comparison.series.items():
        style: dict[str, Any] = line_style(name, names) | {"marker": ""}
        axes.plot(*zip(*points, strict=True), label=as_written(name), **style)
    axes.set_xscale("log")
    axes.set_xlabel("JCT (h), logarithmic")
    axes.set_ylabel("Jobs that complete within (%)")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper")
    return Plot(
        "table_2",
        "Table 2: job completion times",
        "Of the first draw of jobs; left and above is better. The paper has such a figure, whose "
        "numbers are not known.",
        svg_text(figure, "table-2"),
    )


def mix_by_mix(comparison: Comparison) -> Plot:
    """Return the plot."""
    figure, panels = new_figure(2, 2.8)
    for axes, measure, label in zip(
        panels,
        ("TTD", "CRU"),
        ("TTD, HadarE's over Hadar's", "CRU, HadarE's over Hadar's"),
        strict=True,
    ):
        for place, colour in zip(TESTBEDS.values(), COLOURS, strict=False):
            points = comparison.series[f"{measure}, {place}"]
            if points:
                axes.plot(*zip(*points, strict=True), marker="o", color=colour, label=place)
            paper = next(
                float(entry.paper)
                for entry in comparison.entries
                if entry.row.startswith(place) and entry.column == measure
            )
            style = "--" if measure == "TTD" else ":"
            axes.axhline(paper, color=colour, linestyle=style, linewidth=0.9)
        axes.set_xlabel("Jobs of the mix")
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return Plot(
        "table_3",
        "Table 3: HadarE against Hadar, mix by mix",
        "Thin lines are the numbers of the abstract, in the colour of their testbed; that of the "
        "CRU is one for both.",
        svg_text(figure, "table-3"),
    )


def _lines(axes: Axes, series: dict[str, Any], *, is_log: bool = False) -> None:
    names = list(series)
    for name, points in series.items():
        if points:
            style: dict[str, Any] = line_style(name, names)
            axes.plot(*zip(*points, strict=True), label=as_written(name), **style)
    if is_log:
        axes.set_xscale("log", base=2)


def by_slot(comparison: Comparison) -> Plot:
    """Return the plot."""
    figure, (axes,) = new_figure(1, 2.8, WIDE_INCHES)
    _lines(axes, dict(comparison.series), is_log=True)
    ticks = sorted({slot_s for points in comparison.series.values() for slot_s, _ in points})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xlabel("Slot (s)")
    axes.set_ylabel("TTD over that at 360 s")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper")
    return Plot(
        "figure_1",
        "Figure 1: slot length",
        "Geometric means over mixes and both testbeds; below the line is better than 360 s.",
        svg_text(figure, "figure-1"),
    )


def decision_time(comparison: Comparison) -> Plot:
    """Return the plot."""
    figure, (axes,) = new_figure(1, 2.8, WIDE_INCHES)
    _lines(axes, dict(comparison.series), is_log=True)
    ticks = sorted({jobs for points in comparison.series.values() for jobs, _ in points})
    axes.set_xticks(ticks, [f"{tick:,.0f}" for tick in ticks])
    axes.set_yscale("log")
    axes.set_xlabel("Active jobs")
    axes.set_ylabel("Decision (ms), logarithmic")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper")
    return Plot(
        "figure_2",
        "Figure 2: decision time",
        "60 GPUs; wall time.",
        svg_text(figure, "figure-2"),
    )


def _ratios(page: Page) -> Plot:
    figure, panels = new_figure(2, 2.8)
    rules = [competitive_ratio.CALLED[rule] for rule in competitive_ratio.RULES]
    for axes, kind, label in zip(
        panels,
        ("small", "large"),
        ("Proved optimum over utility, small", "Dual bound over utility, large"),
        strict=True,
    ):
        for place, rule in enumerate(rules):
            values = [ratio for _, ratio in page.series[f"{kind}: {rule}"]]
            colour = COLOURS[place % len(COLOURS)]
            axes.plot(values, [place] * len(values), "o", color=colour, alpha=0.5, markersize=5)
        axes.axvline(1, color="black", linewidth=0.8)
        axes.set_xlabel(label)
        axes.set_yticks(range(len(rules)), [as_written(rule) for rule in rules])
        axes.set_ylim(len(rules) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
    panels[1].set_yticklabels([])
    return Plot(
        page.picture,
        "How far from the offline optimum rules are",
        "A dot is an instance. At the line a rule is optimal; those on the right are upper bounds "
        "on the ratio.",
        svg_text(figure, "competitive-ratio"),
    )


def _forking(page: Page) -> Plot:
    figure, panels = new_figure(2, 2.8)
    for axes, place in zip(panels, TESTBEDS.values(), strict=True):
        for what, label, colour in (
            ("must", "best with copies against best without", OUR_COLOUR),
            ("observed", "HadarE against Hadar", OBSERVED_COLOUR),
        ):
            points = page.series[f"{what}, {place}"]
            if points:
                axes.plot(*zip(*points, strict=True), marker="o", color=colour, label=label)
        axes.axhline(1, color="black", linewidth=0.8)
        axes.set_title(f"{place[0].upper()}{place[1:]}")
        axes.set_xlabel("Jobs of the mix")
        axes.set_ylim(bottom=0.9)
    panels[0].set_ylabel("How many times shorter")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return Plot(
        page.picture,
        "What forking must give, and what HadarE gives",
        "What is above the lower line is no merit of forking: a better schedule without copies "
        "wins it too.",
        svg_text(figure, "forking"),
    )


def _rounding(page: Page) -> Plot:
    figure, (axes,) = new_figure(1, 2.8, WIDE_INCHES)
    _lines(axes, dict(page.series), is_log=True)
    ticks = list(rounding.LOADS)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"Jobs on {3 * rounding.GPUS_OF_TYPE} GPUs")
    axes.set_ylabel("Worst-off job keeps (%)")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper")
    return Plot(
        page.picture,
        "What Gavel's rounds keep of what is promised",
        "Least normalised throughput received over least promised, mean over draws.",
        svg_text(figure, "rounding"),
    )


FUNCTIONS: dict[str, Callable[[Comparison], Plot]] = {
    function.__name__: function
    for function in (ttd_over_hadar, completion_times, mix_by_mix, by_slot, decision_time)
}

PAGES: dict[str, Callable[[Any], Plot]] = {
    competitive_ratio.NAME: _ratios,
    forking.NAME: _forking,
    rounding.NAME: _rounding,
}
