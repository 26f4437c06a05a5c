"""Plot means: differences from the first scheme, means over axes, and parts of the mean JCT."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from functools import partial
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from lyra_opt.core.numbers import DOWN, three_digits, unit_of
from lyra_opt.core.picture_styles import style_in_force
from lyra_opt.core.pictures import as_written, legend_above, note_below, record, text_inches
from lyra_opt.experiments.intervals import CONFIDENCE
from lyra_opt.experiments.plots.paired import PairedRow, draw_paired
from lyra_opt.experiments.plots.plot import Plot
from lyra_opt.experiments.plots.style import name_values, new_panels, new_row
from lyra_opt.experiments.simulation.measuring.bounds import MEAN_JCT
from lyra_opt.experiments.simulation.measuring.measures import COMPARED, TIME_PART_NAMES, TIME_PARTS
from lyra_opt.experiments.simulation.showing.axes import (
    add_side_legend,
    capitalised,
    scheme_colour,
    scheme_line,
    scheme_mark,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes

    from lyra_opt.experiments.simulation.measuring.comparison import Difference
    from lyra_opt.experiments.simulation.measuring.measures import VariantRuns
    from lyra_opt.experiments.simulation.running.replays import Replays

MEANS_INCHES = 9.6
DIFFERENCE_INCHES, DIFFERENCES_FRAME_INCHES = 0.27, 0.8
BOLD = 1.2
"""The width of bold text relative to other text."""

RECORDED = (
    *("baseline_s", "mean_s", "difference_s", "low_s", "high_s"),
    *("difference_percent", "low_percent", "high_percent"),
)
"""The names of the values of a `Paired` in the data of the picture."""

OVER_AXIS_INCHES = (9.6, 3.2)
MOST_STEPS = 4
"""Whiskers of at most so many earlier schemes are wider, each by a step."""

SPREAD = 0.2
"""Total width over which the marks at one value are spread, so that whiskers do not overlap."""

LETTERS_IN_A_ROW = 40
"""Tick labels with more letters in total are slanted, so that they do not overlap."""

BAR_INCHES, BARS_FRAME_INCHES = 0.3, 1.5
BAR_HEIGHT = 0.72
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
"""Colours of the parts of the mean JCT: grey, and the palette of Okabe and Ito."""


def differences_plot(
    by_variant: Mapping[str, Sequence[Difference]], schemes: Sequence[str]
) -> Plot:
    """Return the plot of the differences in mean times between each scheme and the baseline.

    The differences are in % of the baseline, as in the sentences at the head of the page. A panel
    in which one of them has no percentage shows times.

    ``by_variant`` has the differences from one baseline; ``schemes`` are all schemes.
    """
    from matplotlib.transforms import blended_transform_factory

    heights, headings, rows = _heights(by_variant)
    inches = DIFFERENCES_FRAME_INCHES + DIFFERENCE_INCHES * rows
    figure, panels = new_row(len(COMPARED), (MEANS_INCHES, inches), sharey=True)
    for compared, axes in zip(COMPARED, panels, strict=True):
        chosen = {
            heights[variant, each.scheme]: each
            for variant, found in by_variant.items()
            for each in found
            if each.compared is compared
        }
        _draw_differences(axes, chosen, schemes)
        for (variant, scheme), height in heights.items():
            words = {"variant": variant, "scheme": scheme, "measure": compared.name}
            record(axes, [words | dict(zip(RECORDED, chosen[height].paired, strict=True))])
        axes.set_title(capitalised(compared.name))
    left = panels[0]
    labels = {
        (variant, each.scheme): as_written(each.label)
        for variant, found in by_variant.items()
        for each in found
    }
    left.set_yticks(list(heights.values()), [labels[row] for row in heights])
    left.set_ylim(-0.7, rows - (0.5 if headings else 0.3))
    for axes in panels if style_in_force().is_narrow else panels[:1]:
        across = blended_transform_factory(figure.transFigure, axes.transData)
        for heading, height in headings.items():
            figure.text(
                0.005,
                height,
                heading,
                transform=across,
                va="center",
                weight="bold",
                in_layout=False,  # a heading spans all panels in a row, so it takes no room
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )
    bars = "the intervals or ranges by seed that the head of the page explains"
    if all(each.random.has_intervals for found in by_variant.values() for each in found):
        bars = (
            f"{100 * CONFIDENCE:.0f} % confidence intervals, explained at the head of the page; a "
            "difference whose bar crosses 0 may be chance"
        )
    baseline = next(each.baseline for found in by_variant.values() for each in found)
    caption = f"Left of 0 a scheme is faster than {baseline}. Bars are {bars}."
    return Plot("differences", f"Difference from {baseline}", caption, figure)


def _heights(
    by_variant: Mapping[str, Sequence[Difference]],
) -> tuple[dict[tuple[str, str], float], dict[str, float], float]:
    """Return the height of each row by variant and scheme, of each variant's heading, and of all.

    Headings are folded into lines as wide as the picture, and each line has the height of a row.
    """
    letters = int((style_in_force().width_inches or MEANS_INCHES) / text_inches("n") / BOLD)
    heights: dict[tuple[str, str], float] = {}
    headings: dict[str, float] = {}
    height = 0.0
    for variant, found in reversed(list(by_variant.items())):
        for scheme in reversed(dict.fromkeys(each.scheme for each in found)):
            heights[variant, scheme] = height
            height += 1
        if len(by_variant) > 1:
            lines = wrap(as_written(variant), letters)
            headings["\n".join(lines)] = height + (len(lines) - 1) / 2 - 0.1
            height += len(lines)
    return heights, headings, height


def _draw_differences(
    axes: Axes, chosen: Mapping[float, Difference], schemes: Sequence[str]
) -> None:
    """Draw the differences in one mean, each at the height of its row."""
    unit = max((each.unit for each in chosen.values()), key=lambda unit: unit.seconds)
    name, seconds, shown = unit.name, unit.seconds, slice(2, 5)
    if all(each.is_relative for each in chosen.values()):
        name, seconds, shown = "%", 1.0, slice(5, 8)
    rows = {}
    for height, each in chosen.items():
        difference, low, high = (value / seconds for value in tuple(each.paired)[shown])
        look = scheme_colour(each.scheme, schemes), scheme_mark(each.scheme, schemes)
        rows[height] = PairedRow(difference, low, high, each.random.too_few, *look)
    (baseline,) = {each.baseline for each in chosen.values()}
    draw_paired(axes, rows, f"Difference from {as_written(baseline)} ({name})")


def over_axis_makers(replays: Replays) -> dict[str, Callable[[], Plot]]:
    """Return functions that draw the means over each axis: a panel per mean, a line per scheme."""
    runs = replays.runs
    names = dict.fromkeys(name for run in runs for name in run.point)
    values = {axis: list(dict.fromkeys(run.axes[axis] for run in runs)) for axis in names}
    others = len(names) > 1
    return {
        f"over_axis_{number + 1}": partial(
            _over_axis, axis, values[axis], replays, others=others, number=number
        )
        for number, axis in enumerate(names)
        if len(values[axis]) > 1
    }


def _over_axis(
    axis: str, values: Sequence[Any], replays: Replays, *, others: bool, number: int
) -> Plot:
    runs, schemes = replays.runs, replays.schemes
    figure, panels = new_row(len(COMPARED), OVER_AXIS_INCHES)
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
            xs = [x + (0.0 if are_numbers else shift) for x, _ in of_one]
            ys = [statistics.fmean(found) / unit.seconds for _, found in of_one]
            style = scheme_line(scheme, schemes) | scheme_mark(scheme, schemes)
            if not are_numbers:
                style["linestyle"] = "none"
            axes.plot(xs, ys, **style)
            lowest, highest = (
                [end(found) / unit.seconds for _, found in of_one] for end in (min, max)
            )
            if has_seeds:
                width = 1.0 + 0.5 * min(len(schemes) - 1 - position, MOST_STEPS)
                axes.vlines(xs, lowest, highest, color=style["color"], linewidth=width, alpha=0.5)
            record(
                axes,
                (
                    {axis: values[x], "scheme": scheme, "measure": compared.name}
                    | {"mean_s": statistics.fmean(of), "least_s": min(of), "greatest_s": max(of)}
                    for x, of in of_one
                ),
            )
        axes.set_title(capitalised(compared.name))
        axes.set_ylabel(capitalised(unit.name))
        axes.set_ylim(bottom=0)
        name_values(axes, values, LETTERS_IN_A_ROW)
        axes.set_xlabel(as_written(axis))
    add_side_legend(figure, panels[0])
    if replays.failed:
        failed = f"{len(replays.failed)} of {replays.study.runs} replays failed"
        note_below(figure, f"{failed}; their marks average fewer replays or are missing")
    over = ["seeds"] * has_seeds + ["all other axes"] * others
    marks = f"Each mark is a mean over {' and '.join(over)}" if over else "Each mark is one replay"
    caption = f"{marks}. Values are evenly spaced, in the order of the scenario."
    if has_seeds:
        caption += " Whiskers show the range of the averaged values."
    title = f"Mean JCT and queuing time over {axis}"
    return Plot(f"over_axis_{number + 1}", title, caption, figure)


def time_parts_plot(replays: Replays, variant: VariantRuns, name: str) -> Plot | None:
    """Return the plot of the parts of the mean JCT: a bar per scheme, averaged over seeds.

    ``name`` is the plot's file name. None if the replays are too old to have the parts.
    """
    from matplotlib.patheffects import withStroke

    of_scheme = {
        scheme: [run.figures or {} for run in variant.by_scheme[scheme]]
        for scheme in replays.schemes
        if scheme in variant.by_scheme
    }
    figures = [each for found in of_scheme.values() for each in found]
    if not all(part.key in each for each in figures for part in TIME_PARTS):
        return None

    def means_of(key: str) -> list[float]:
        return [statistics.fmean(each[key] for each in found) for found in of_scheme.values()]

    unit = unit_of(max(means_of("jct_mean_s")))
    inches = MEANS_INCHES, BARS_FRAME_INCHES + BAR_INCHES * len(of_scheme)
    figure, grid = new_panels(1, 1, inches)
    axes = grid[0, 0]
    axes.set_title(as_written(variant.name), loc="left")
    rows = range(len(of_scheme))
    ends = [0.0] * len(of_scheme)
    for key, label in TIME_PART_NAMES.items():
        widths = [value / unit.seconds for value in means_of(key)]
        if any(widths):
            style: dict[str, Any] = {"color": COLOURS[key], "label": label, "linewidth": 0}
            axes.barh(rows, widths, BAR_HEIGHT, left=ends, **style)
        parts = zip(of_scheme, means_of(key), strict=True)
        record(axes, ({"scheme": name, "part": label, "mean_s": mean} for name, mean in parts))
        ends = [end + width for end, width in zip(ends, widths, strict=True)]
    for row, end in zip(rows, ends, strict=True):
        axes.annotate(
            three_digits(end), (end, row), (4, 0), textcoords="offset points", va="center"
        )
    caption = (
        "The least run time of a job is its run time at its best possible rate. The other parts "
        "are waiting time and losses. Together the parts are the mean JCT."
    )
    # Schemes of different readings have different bounds; the least holds for all of them.
    least_s: dict[int, float] = {}
    for run in variant.runs:
        if run.figures and MEAN_JCT in run.figures:
            least_s[run.seed] = min(run.figures[MEAN_JCT], least_s.get(run.seed, math.inf))
    if least_s:
        bound_s = statistics.fmean(least_s.values())
        bound = bound_s / unit.seconds
        record(axes, [{"part": "proved lower bound", "mean_s": bound_s}])
        axes.axvline(
            bound,
            color="black",
            linewidth=1.4,
            path_effects=[withStroke(linewidth=4, foreground="white")],
            label=f"proved lower bound: {three_digits(bound, rounding=DOWN)} {unit.symbol}",
        )
        caption += (
            " The black line is a proved lower bound: no schedule, even one that knows the "
            "future, has a smaller mean JCT."
        )
    axes.set_yticks(rows, [as_written(variant.label(scheme)) for scheme in of_scheme])
    axes.set_ylim(len(of_scheme) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, 1.06 * max(ends))
    over = f" over {variant.seeds_in_words}" if variant.seeds_in_words else ""
    axes.set_xlabel(f"Mean JCT{over} ({unit.name})")
    handles, labels = axes.get_legend_handles_labels()
    # Matplotlib lists lines before bars, but the line of the bound belongs at the end.
    lines = 1 if least_s else 0
    legend_above(figure, [*handles[lines:], *handles[:lines]], [*labels[lines:], *labels[:lines]])
    return Plot(name, variant.title("Parts of the mean JCT"), caption, figure)
