"""The plots of the page on Hadar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.core.pictures import line_style, make_logarithmic
from lyra_opt.paper_figures.document import by_name
from lyra_opt.paper_figures.plots import bars, draw_lines, new_figure, with_legend

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.axes import Axes

    from lyra_opt.experiments.plots.plot import Plot
    from lyra_opt.paper_figures.comparison import Comparison

TESTBEDS = ("AWS", "laboratory")
"""The names of HadarE's clusters in tables."""

WIDE_INCHES = 6.6
"""The width of a single panel with its legend on the right."""


def ttd_over_hadar(comparison: Comparison) -> Plot:
    """Plot the makespan (TTD) of each scheme divided by that of Hadar."""
    (axes,) = new_figure(1, 2.6, WIDE_INCHES)
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
    return with_legend(
        comparison,
        [axes],
        "Hadar is better to the right of the line. The source of the paper's number is in "
        "brackets; thin lines show the least and the greatest number over seeds.",
        above=True,
    )


def completion_times(comparison: Comparison) -> Plot:
    """Plot the distribution of job completion times of each scheme."""
    (axes,) = new_figure(1, 3.0, WIDE_INCHES)
    draw_lines(axes, comparison.series, marker="")
    make_logarithmic(axes.xaxis)
    axes.set_xlabel("JCT (h), logarithmic")
    axes.set_ylabel("Jobs that complete within (%)")
    return with_legend(
        comparison,
        [axes],
        "Jobs of the first seed; curves further left are better. The paper has such a figure, but "
        "its numbers are not known.",
    )


def mix_by_mix(comparison: Comparison) -> Plot:
    """Plot HadarE's gains over Hadar for each mix."""
    panels = new_figure(2, 2.8)
    for axes, measure, label in zip(
        panels,
        ("TTD", "CRU"),
        ("TTD, HadarE's over Hadar's", "CRU, HadarE's over Hadar's"),
        strict=True,
    ):
        lines = {place: comparison.series[f"{measure}, {place}"] for place in TESTBEDS}
        draw_lines(axes, lines)
        for place in TESTBEDS:
            paper = next(
                float(entry.paper)
                for entry in comparison.entries
                if entry.row.startswith(place) and entry.column == measure
            )
            thin = {"marker": "", "linewidth": 0.8}
            axes.axhline(paper, **line_style(place, TESTBEDS) | thin)
        axes.set_xlabel("Jobs of the mix")
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
    return with_legend(
        comparison,
        panels,
        "Thin lines are the numbers of the abstract, drawn like the testbed. The abstract "
        "has one CRU for both testbeds.",
        above=True,
    )


def _set_doubling(axes: Axes, comparison: Comparison) -> None:
    """Make the horizontal axis logarithmic, with a tick at each point of the lines."""
    axes.set_xscale("log", base=2)
    ticks = sorted({x for points in comparison.series.values() for x, _ in points})
    axes.set_xticks(ticks, [f"{tick:,g}" for tick in ticks])


def by_slot(comparison: Comparison) -> Plot:
    """Plot the makespan (TTD) against the length of a scheduling round (slot)."""
    (axes,) = new_figure(1, 2.8, WIDE_INCHES)
    draw_lines(axes, comparison.series)
    _set_doubling(axes, comparison)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xlabel("Slot (s)")
    axes.set_ylabel("TTD over that at 360 s")
    return with_legend(
        comparison,
        [axes],
        "Geometric means over mixes and both testbeds. Slots below the line are better than 360 s.",
    )


def decision_time(comparison: Comparison) -> Plot:
    """Plot the wall time of a scheduling decision against the number of jobs."""
    (axes,) = new_figure(1, 2.8, WIDE_INCHES)
    draw_lines(axes, comparison.series)
    _set_doubling(axes, comparison)
    make_logarithmic(axes.yaxis)
    axes.set_xlabel("Active jobs")
    axes.set_ylabel("Decision (ms), logarithmic")
    return with_legend(
        comparison,
        [axes],
        "60 GPUs; wall time.",
    )


FUNCTIONS: Mapping[str, Callable[[Comparison], Plot]] = by_name(
    ttd_over_hadar, completion_times, mix_by_mix, by_slot, decision_time
)
