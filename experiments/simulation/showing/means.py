"""Plots of means: differences from the first scheme, means over axes, parts of the mean JCT."""

from __future__ import annotations

import statistics
from collections import defaultdict
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from lyra_opt.core.pictures import as_written, legend_above
from lyra_opt.experiments.intervals import CONFIDENCE
from lyra_opt.experiments.plots.style import MARKERS, mark_points, round_numbers
from lyra_opt.experiments.simulation.measuring.bounds import MEAN_JCT
from lyra_opt.experiments.simulation.measuring.comparison import COMPARED
from lyra_opt.experiments.simulation.measuring.measures import (
    TIME_PART_NAMES,
    TIME_PARTS,
    three_digits,
    unit_of,
)
from lyra_opt.experiments.simulation.showing.axes import (
    add_side_legend,
    capitalised,
    plot_of,
    scheme_colour,
    scheme_line,
    scheme_mark,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lyra_opt.experiments.plots.figures import Plot
    from lyra_opt.experiments.records import ReplayRecord
    from lyra_opt.experiments.simulation.measuring.comparison import Difference
    from lyra_opt.experiments.simulation.measuring.measures import VariantRuns
    from lyra_opt.experiments.simulation.running.replays import Replays

MEANS_INCHES = 9.6
DIFFERENCE_INCHES = 0.27
DIFFERENCES_FRAME_INCHES = 0.8

MOST_HEADING_LETTERS = 110
"""As many as the plot is wide."""

FAR = 20.0
"""A scheme this many times further away than the median one bends the axis."""

OVER_AXIS_INCHES = (9.6, 3.2)

SPREAD = 0.2
"""Room that the marks of one value take, so that whiskers stand side by side."""

LETTERS_IN_A_ROW = 40
"""Labels of more letters in all are slanted, so that they do not run into one another."""

BAR_INCHES = 0.3
BARS_FRAME_INCHES = 1.15

BAR_HEIGHT = 0.72
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
        figsize=(MEANS_INCHES, DIFFERENCES_FRAME_INCHES + DIFFERENCE_INCHES * (len(rows) + gaps)),
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
        label = f"{capitalised(unit.name)} more than {as_written(schemes[0])}"
        if moved and moved[-1] > FAR * typical:
            axes.set_xscale("symlog", linthresh=2 * typical, linscale=1.5)
            far = round_numbers(2 * typical, 2 * moved[-1], (1,))
            ticks = [*(-tick for tick in reversed(far)), 0.0, *far]
            axes.set_xticks(ticks, [f"{tick:,g}" for tick in ticks])
            axes.set_xticks([], minor=True)
            label += "\n(logarithmic where far from 0)"
        axes.set_title(capitalised(compared.name))
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
    return plot_of(figure, "differences", f"Difference from {schemes[0]}", caption)


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


def means_over_axes(runs: Sequence[ReplayRecord], schemes: Sequence[str]) -> Iterator[Plot]:
    """Yield a plot for each axis: a panel for each mean, a line for each scheme.

    Parameters
    ----------
    runs
        That finished, of all variants.
    schemes
        All schemes of the page, in order.
    """
    names = dict.fromkeys(name for run in runs for name in run.point)
    for place, axis in enumerate(names):
        values = list(dict.fromkeys(run.axes[axis] for run in runs))
        if len(values) > 1:
            yield _over_axis(axis, values, runs, schemes, others=len(names) > 1, place=place)


def _over_axis(
    axis: str,
    values: Sequence[Any],
    runs: Sequence[ReplayRecord],
    schemes: Sequence[str],
    *,
    others: bool,
    place: int,
) -> Plot:
    from matplotlib.figure import Figure

    figure = Figure(figsize=OVER_AXIS_INCHES, layout="constrained")
    panels = figure.subplots(1, len(COMPARED))
    are_numbers = not any(isinstance(value, str) for value in values)
    has_seeds = len({run.seed for run in runs}) > 1
    for compared, axes in zip(COMPARED, panels, strict=True):
        means: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for run in runs:
            assert run.figures is not None, "it finished"
            means[run.scheme][values.index(run.axes[axis])].append(run.figures[compared.key])
        longest_s = max(max(found) for of_one in means.values() for found in of_one.values())
        unit = unit_of(longest_s)
        for position, scheme in enumerate(schemes):
            of_one = sorted(means[scheme].items())
            if not of_one:
                continue
            shift = SPREAD * (position - (len(schemes) - 1) / 2) / len(schemes)
            xs = [x + shift for x, _ in of_one]
            ys = [statistics.fmean(found) / unit.seconds for _, found in of_one]
            style = scheme_line(scheme, schemes) | scheme_mark(scheme, schemes)
            if not are_numbers:
                style["linestyle"] = "none"
            axes.plot(xs, ys, **style)
            if has_seeds:
                lowest, highest = (
                    [end(found) / unit.seconds for _, found in of_one] for end in (min, max)
                )
                axes.vlines(xs, lowest, highest, color=style["color"], linewidth=1.0, alpha=0.6)
        axes.set_title(capitalised(compared.name))
        axes.set_ylabel(capitalised(unit.name))
        axes.set_ylim(bottom=0)
        labels = [as_written(str(value)) for value in values]
        slanted: dict[str, Any] = {"rotation": 20, "ha": "right", "rotation_mode": "anchor"}
        is_long = sum(map(len, labels)) > LETTERS_IN_A_ROW
        axes.set_xticks(range(len(values)), labels, **(slanted if is_long else {}))
        axes.set_xlim(-0.4, len(values) - 0.6)
        axes.set_xlabel(as_written(axis))
        axes.grid(visible=False, axis="x")
    add_side_legend(figure, panels[0])
    over = [
        name for name, is_there in (("seeds", has_seeds), ("all other axes", others)) if is_there
    ]
    caption = f"Marks are means over {' and '.join(over)}, " if over else "A mark is a replay, "
    caption += "evenly spaced as the scenario lists the values."
    if has_seeds:
        caption += " Whiskers reach from the least to the greatest of what a mark is the mean of."
    title = f"Mean JCT and queuing time over {axis}"
    return plot_of(figure, f"over_axis_{place + 1}", title, caption)


def time_parts_plot(replays: Replays, variant: VariantRuns, name: str) -> Plot | None:
    """Return the plot of a variant: a bar per scheme, in the mean over seeds.

    None where the replays are of a time when they did not tell.

    Parameters
    ----------
    name
        Of the file.
    """
    from matplotlib.figure import Figure

    of_scheme = {
        scheme: [run.figures or {} for run in variant.by_scheme[scheme]]
        for scheme in replays.schemes
        if scheme in variant.by_scheme
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
        figsize=(MEANS_INCHES, BARS_FRAME_INCHES + BAR_INCHES * len(of_scheme)),
        layout="constrained",
    )
    axes = figure.subplots()
    rows = range(len(of_scheme))
    ends = [0.0] * len(of_scheme)
    for key, values_s in means.items():
        label, colour = TIME_PART_NAMES[key], COLOURS[key]
        widths = [value / unit.seconds for value in values_s]
        if any(values_s):
            axes.barh(rows, widths, BAR_HEIGHT, left=ends, color=colour, label=label, linewidth=0)
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
    caption += ", in the mean over seeds." if len(variant.seeds) > 1 else "."
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
    return plot_of(figure, name, variant.title("What the mean JCT is made of"), caption)
