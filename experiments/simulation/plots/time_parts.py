"""What the mean JCT of each scheme is made of, and the line below which nobody can go."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from lyra_opt.core.pictures import as_written, legend_above, svg_text
from lyra_opt.experiments.plots.figures import Plot
from lyra_opt.experiments.simulation.bounds import MEAN_JCT
from lyra_opt.experiments.simulation.durations import three_digits, unit_of
from lyra_opt.experiments.simulation.measures import TIME_PART_NAMES, TIME_PARTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.experiments.records import ReplayRecord

WIDTH_INCHES = 9.6
ROW_INCHES = 0.3
FRAME_INCHES = 1.15
BAR = 0.72
"""Height of a bar, as a part of its row."""

COLOURS: Mapping[str, str] = {
    "least_run_mean_s": "#d3d7dd",
    "queue_first_mean_s": "#0072b2",
    "queue_again_mean_s": "#56b4e9",
    "lost_work_mean_s": "#d55e00",
    "fewer_workers_mean_s": "#e69f00",
    "slower_type_mean_s": "#cc79a7",
    "slower_placement_mean_s": "#009e73",
    "pause_mean_s": "#000000",
}
"""Of parts: Okabe and Ito's, beside a grey."""


def time_parts_plot(
    runs: Sequence[ReplayRecord], schemes: Sequence[str], *, name: str, title: str
) -> Plot | None:
    """Return the plot of a variant: a bar a scheme, in the mean over seeds.

    None where the replays are of a time when they did not tell.

    Parameters
    ----------
    runs
        That finished, of one variant.
    schemes
        All schemes of the page, in order.
    name, title
        Of the plot.
    """
    from matplotlib.figure import Figure

    of_scheme = {
        scheme: found
        for scheme in schemes
        if (found := [run.figures or {} for run in runs if run.scheme == scheme])
    }
    if not all(
        part.key in each for found in of_scheme.values() for each in found for part in TIME_PARTS
    ):
        return None
    means = {
        part.key: [
            statistics.fmean(each[part.key] for each in found) for found in of_scheme.values()
        ]
        for part in TIME_PARTS
    }
    jcts_s = [statistics.fmean(each["jct_mean_s"] for each in of) for of in of_scheme.values()]
    unit = unit_of(max(jcts_s))
    figure = Figure(
        figsize=(WIDTH_INCHES, FRAME_INCHES + ROW_INCHES * len(of_scheme)), layout="constrained"
    )
    axes = figure.subplots()
    rows = range(len(of_scheme))
    ends = [0.0] * len(of_scheme)
    for key, values_s in means.items():
        label, colour = TIME_PART_NAMES[key], COLOURS[key]
        widths = [value / unit.seconds for value in values_s]
        if any(values_s):
            axes.barh(rows, widths, BAR, left=ends, color=colour, label=label, linewidth=0)
        ends = [end + width for end, width in zip(ends, widths, strict=True)]
    for row, end in zip(rows, ends, strict=True):
        axes.annotate(
            three_digits(end), (end, row), (4, 0), textcoords="offset points", va="center"
        )
    bounds_s = [
        each[MEAN_JCT] for found in of_scheme.values() for each in found if MEAN_JCT in each
    ]
    caption = (
        "The least run time of a job is what it takes at the best rate that it can have; colours "
        "are what it loses beside that, and what it waits. The parts add up to the mean JCT"
    )
    caption += ", in the mean over seeds." if len({run.seed for run in runs}) > 1 else "."
    if bounds_s:
        bound_s = statistics.fmean(bounds_s)
        place = bound_s / unit.seconds
        axes.axvline(place, color="white", linewidth=5.0)
        axes.axvline(
            place,
            color="black",
            linewidth=2.2,
            linestyle=(0, (3, 1.5)),
            label=f"nobody can be below: {three_digits(place)} {unit.symbol}",
        )
        caption += (
            " No scheme, not one that knows the future either, has a mean JCT below the dashed "
            "line: that is proved."
        )
    axes.set_yticks(rows, [as_written(scheme) for scheme in of_scheme])
    axes.set_ylim(len(of_scheme) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, 1.06 * max(ends))
    axes.set_xlabel(f"Mean JCT ({unit.name})")
    handles, labels = axes.get_legend_handles_labels()
    # Lines come before bars there, whatever was drawn first.
    lines = 1 if bounds_s else 0
    legend_above(figure, [*handles[lines:], *handles[:lines]], [*labels[lines:], *labels[:lines]])
    return Plot(name, title, caption, svg_text(figure, name.replace("_", "-")))
