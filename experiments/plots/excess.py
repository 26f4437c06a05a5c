"""Excess over the proved optimum, by family, heuristics side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.plots.style import line_style
from lyra_opt.pictures import as_written

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

LINEAR_UP_TO_PERCENT = 10.0
"""The axis is linear up to here, so that 0 has a place on it, and logarithmic beyond."""

GROUP_WIDTH = 0.8


@dataclass(frozen=True, slots=True)
class ExcessData:
    """What `plot_excess` draws.

    Parameters
    ----------
    families
        The groups, from left to right.
    configurations
        The heuristics, from left to right in each group.
    excess_percent
        Finite excess of each run, by family and configuration.
    """

    families: Sequence[str]
    configurations: Sequence[str]
    excess_percent: Mapping[tuple[str, str], Sequence[float]]


def plot_excess(data: ExcessData, axes: Axes) -> None:
    """Draw a faint dot for each run and a mark with a white rim for the mean."""
    slot = GROUP_WIDTH / max(1, len(data.configurations))
    for place, configuration in enumerate(data.configurations):
        style = line_style(configuration, data.configurations)
        colour, marker = style["color"], style["marker"]
        offset = (place - (len(data.configurations) - 1) / 2) * slot
        means_x, means_y = [], []
        for group, family in enumerate(data.families):
            values = sorted(data.excess_percent.get((family, configuration), ()))
            if not values:
                continue
            # Spread the dots over the slot in order of value: no chance, and no overlap of all.
            spread = [
                0.7 * slot * ((7 * i) % len(values) / len(values) - 0.5) for i in range(len(values))
            ]
            xs = [group + offset + shift for shift in spread]
            axes.plot(xs, values, ".", color=colour, alpha=0.35, markersize=3, zorder=2)
            means_x.append(group + offset)
            means_y.append(math.fsum(values) / len(values))
        if not means_x:  # matplotlib would reserve room for the line that is not there
            continue
        axes.plot(
            means_x,
            means_y,
            linestyle="none",
            marker=marker,
            color=colour,
            markersize=6,
            markeredgecolor="white",
            label=as_written(configuration),
            clip_on=False,
            zorder=3,
        )
    axes.set_yscale("symlog", linthresh=LINEAR_UP_TO_PERCENT, linscale=1.0)
    axes.set_ylim(bottom=-0.5)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_ylabel("Excess over the proved optimum (%)")
    axes.set_xticks(
        range(len(data.families)),
        [as_written(family) for family in data.families],
        rotation=30,
        ha="right",
    )
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")
    for group in range(1, len(data.families)):
        axes.axvline(group - 0.5, color="#d0d0d0", linewidth=0.6, zorder=1)
    axes.set_xlim(-0.5, len(data.families) - 0.5)
