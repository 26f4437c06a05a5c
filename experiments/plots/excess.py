"""Gap to the proved optimum, by family, heuristics side by side."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.pictures import as_written
from lyra_opt.experiments.plots.style import line_style, mark_points, round_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes

LINEAR_UP_TO_PERCENT = 10.0
"""The axis is linear up to here, so that 0 has a place on it, and logarithmic beyond."""

LEAST_TOP_PERCENT = 0.1
"""The axis reaches at least so far, also where all solutions are optimal."""

GROUP_WIDTH = 0.8


def plot_excess(
    frame: pd.DataFrame, families: Sequence[str], configurations: Sequence[str], axes: Axes
) -> None:
    """Draw a faint dot for each run and a mark with a white rim for the mean.

    Parameters
    ----------
    frame
        Runs with a finite ``excess_percent``, with ``family_label`` and ``configuration``.
    families
        The groups, from left to right.
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
            # Spread the dots over the slot in order of value: no chance, and no overlap of all.
            shift = 7 * np.arange(len(values)) % len(values) / len(values) - 0.5
            xs = group + offset + 0.7 * slot * shift
            axes.plot(xs, values, ".", color=colour, alpha=0.35, markersize=3, zorder=2)
            means_x.append(group + offset)
            means_y.append(values.mean())
        if not means_x:  # matplotlib would reserve room for the line that is not there
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
        range(len(families)),
        [as_written(family) for family in families],
        rotation=30,
        ha="right",
    )
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")
    for group in range(1, len(families)):
        axes.axvline(group - 0.5, color="#d0d0d0", linewidth=0.6, zorder=1)
    axes.set_xlim(-0.5, len(families) - 0.5)


def set_excess_limits(all_axes: Sequence[Axes]) -> None:
    """Set the lower end and the ticks of the axis that drawn panels share.

    To be called after the last panel is drawn: limits that are set end the automatic scaling.
    """
    top = max(LEAST_TOP_PERCENT, *(axes.get_ylim()[1] for axes in all_axes))
    ticks = excess_ticks(top)
    for axes in all_axes:
        axes.set_ylim(-0.05 * min(top, LINEAR_UP_TO_PERCENT), top)
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_yticks([], minor=True)


def excess_ticks(top: float) -> list[float]:
    """Return round percentages from 0 to `top`, as many as there is room for."""
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
