"""Plots of the gap to the proved optimum, by family and against an axis of the study."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.pictures import as_written, line_style
from lyra_opt.experiments.plots.style import mark_points, name_values, round_numbers, stretches

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes

    from lyra_opt.experiments.records import AxisValue

LINEAR_UP_TO_PERCENT = 10.0
"""The axis is linear up to this gap, to show 0, and logarithmic above it."""

LEAST_TOP_PERCENT = 0.1
"""Minimum upper end of the axis, also if all solutions are optimal."""

GROUP_WIDTH = 0.8


def plot_excess(
    frame: pd.DataFrame, families: Sequence[str], configurations: Sequence[str], axes: Axes
) -> None:
    """Draw the gap of each run as a faint dot, and each solver's mean gap on a family as a mark.

    Parameters
    ----------
    frame
        Runs with a finite ``excess_percent``, with columns ``family_label`` and ``configuration``.
    families
        The groups on the horizontal axis, from left to right.
    configurations
        The heuristics, from left to right in each group.
    """
    slot = GROUP_WIDTH / max(1, len(configurations))
    found = frame.sort_values("excess_percent").groupby(["configuration", "family_label"])
    of_pair = {key: of.excess_percent.to_numpy() for key, of in found}
    for place, configuration in enumerate(configurations):
        style = line_style(configuration, configurations)
        colour, marker = style["color"], style["marker"]
        offset = (place - (len(configurations) - 1) / 2) * slot
        means_x, means_y = [], []
        for group, family in enumerate(families):
            values = of_pair.get((configuration, family))
            if values is None:
                continue
            # A fixed permutation of ranks spreads the dots over the slot, so that few dots overlap.
            shift = 7 * np.arange(len(values)) % len(values) / len(values) - 0.5
            xs = group + offset + 0.7 * slot * shift
            axes.plot(xs, values, ".", color=colour, alpha=0.35, markersize=3, zorder=2)
            means_x.append(group + offset)
            means_y.append(values.mean())
        if not means_x:  # matplotlib would reserve space in the legend
            continue
        axes.plot(
            means_x,
            means_y,
            linestyle="none",
            marker=marker,
            color=colour,
            markersize=mark_points(marker, 6),
            markeredgecolor="white",
            markeredgewidth=0.6,
            label=as_written(configuration),
            clip_on=False,
            zorder=3,
        )
    axes.set_yscale("symlog", linthresh=LINEAR_UP_TO_PERCENT, linscale=1.0)
    axes.set_xticks(
        range(len(families)), [as_written(family) for family in families], rotation=30, ha="right"
    )
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")
    for group in range(1, len(families)):
        axes.axvline(group - 0.5, color="#d0d0d0", linewidth=0.6, zorder=1)
    axes.set_xlim(-0.5, len(families) - 0.5)


def set_excess_limits(all_axes: Sequence[Axes]) -> None:
    """Set common limits and ticks on the gap axes of several panels that are already drawn.

    Call this function after the last panel is drawn, because it ends automatic scaling.
    """
    top = max(LEAST_TOP_PERCENT, *(axes.get_ylim()[1] for axes in all_axes))
    for axes in all_axes:
        axes.set_ylim(-0.05 * min(top, LINEAR_UP_TO_PERCENT), top)
        _name_ticks(axes, top)


def _name_ticks(axes: Axes, top: float) -> None:
    ticks = excess_ticks(top)
    axes.set_yticks(ticks, [f"{tick:,g}" for tick in ticks])
    axes.set_yticks([], minor=True)


def excess_ticks(top: float) -> list[float]:
    """Return round percentages from 0 to `top`, few enough to fit on the axis."""
    from matplotlib.ticker import MaxNLocator

    if top <= LINEAR_UP_TO_PERCENT:
        steps = MaxNLocator(nbins=5).tick_values(0.0, top)
        return [float(tick) for tick in steps if 0.0 <= tick <= top]
    leading: tuple[float, ...]
    decades = math.log10(top / LINEAR_UP_TO_PERCENT)
    if decades <= 1:
        linear, leading = [0.0, 2.0, 4.0, 6.0, 8.0], (1, 1.5, 2, 3, 5)
    elif decades <= 3:
        linear, leading = [0.0, 5.0], (1, 2, 5)
    else:
        linear, leading = [0.0], (1,)
    return [*linear, *round_numbers(LINEAR_UP_TO_PERCENT, top, leading)]


WHITE = "#ffffff"

LETTERS_IN_A_ROW = 20
"""Labels with more letters in total are slanted, so that they do not overlap."""


SPREAD = 0.3
"""Width over which the marks of one value in words are spread; marks of a number are above it."""

MARK_POINTS, STEP_POINTS, MOST_STEPS = 4.5, 0.9, 4
"""Earlier marks are larger by a step each, so that equal marks remain visible."""

FAR = 20.0
"""The axis is logarithmic above 10 % if the largest mean is this many times the median."""


def plot_excess_over_axis(
    means: pd.DataFrame, values: Sequence[AxisValue], configurations: Sequence[str], axes: Axes
) -> None:
    """Draw each solver's mean gap against a study axis; hollow marks include unproved optima.

    Lines join neighbouring numbers whose means are over the same families. Whiskers are intervals.

    Parameters
    ----------
    means
        Columns ``excess_percent``, ``low_percent``, ``high_percent``, ``is_proved`` and
        ``families``, by ``configuration`` and ``value`` of the axis.
    values
        Values of the axis, from left to right, evenly spaced.
    configurations
        The heuristics; their order sets the colours.
    """
    place_of = {value: place for place, value in enumerate(values)}
    are_numbers = not any(isinstance(value, str) for value in values)
    for position, configuration in enumerate(configurations):
        of_line = means[means.configuration == configuration]
        if of_line.empty:
            continue
        style = line_style(configuration, configurations)
        marker = style.pop("marker")
        steps = min(len(configurations) - 1 - position, MOST_STEPS)
        size = mark_points(marker, MARK_POINTS + STEP_POINTS * steps)
        shift = SPREAD * (position - (len(configurations) - 1) / 2) / len(configurations)
        xs = of_line.value.map(place_of) + (0.0 if are_numbers else shift)
        axes.vlines(
            xs,
            of_line.low_percent.clip(lower=0),
            of_line.high_percent,
            color=style["color"],
            linewidth=0.8 + 0.4 * steps,
            alpha=0.5,
        )
        if are_numbers:
            for part in stretches(list(of_line.families)):
                axes.plot(xs.iloc[part], of_line.excess_percent.iloc[part], linewidth=1.2, **style)
        for x, y, is_proved in zip(xs, of_line.excess_percent, of_line.is_proved, strict=True):
            axes.plot(
                x,
                y,
                marker=marker,
                linestyle="none",
                markersize=size,
                color=style["color"],
                markerfacecolor=style["color"] if is_proved else WHITE,
                clip_on=False,
                zorder=3,
            )
        if not are_numbers:
            style["linestyle"] = "none"
        axes.plot(
            [], [], marker=marker, markersize=size, label=as_written(configuration), **style
        )  # for the legend
    name_values(axes, values, LETTERS_IN_A_ROW)
    _set_scale(means, axes)


def _set_scale(means: pd.DataFrame, axes: Axes) -> None:
    """Use a partly logarithmic axis if one outlier would compress all other marks."""
    percent = means.excess_percent
    top = float(percent.max())
    if top > max(LINEAR_UP_TO_PERCENT, FAR * float(percent.median())):
        top = max(top, float(means.high_percent.fillna(0).max()))
        axes.set_yscale("symlog", linthresh=LINEAR_UP_TO_PERCENT, linscale=1.0)
        axes.set_ylim(-0.05 * LINEAR_UP_TO_PERCENT, 1.3 * top)
        _name_ticks(axes, 1.3 * top)
    else:
        axes.set_ylim(bottom=0)
