"""Solve time against the size of the instance."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from experiments.plots.style import line_style, mark_points
from lyra_opt.pictures import as_written

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

STEP = 0.01
"""Distance of neighbouring lines, as a share of the axis."""

LABEL_STEP = 0.07
"""Least distance of labels of the axis, as a share of it."""


@dataclass(frozen=True, slots=True)
class SolveTimeData:
    """What `plot_solve_time` draws.

    Parameters
    ----------
    configurations
        The lines.
    time_ms
        Solve time of each run, by configuration and size.
    size_name
        What the size of an instance counts.
    """

    configurations: Sequence[str]
    time_ms: Mapping[str, Mapping[int, Sequence[float]]]
    size_name: str


def plot_solve_time(data: SolveTimeData, axes: Axes) -> None:
    """Draw a line through the medians, with whiskers from the shortest to the longest time."""
    sizes = sorted({size for times in data.time_ms.values() for size in times})
    axis_factor = max(2.0, sizes[-1] / sizes[0])
    for place, configuration in enumerate(data.configurations):
        by_size = sorted(data.time_ms.get(configuration, {}).items())
        if not by_size:
            continue
        style = line_style(configuration, data.configurations)
        # Shifted a little, so that whiskers stand side by side.
        shift = axis_factor ** (STEP * (place - (len(data.configurations) - 1) / 2))
        xs = [size * shift for size, _ in by_size]
        shortest = [min(times) for _, times in by_size]
        longest = [max(times) for _, times in by_size]
        axes.vlines(xs, shortest, longest, color=style["color"], alpha=0.5, linewidth=1.0)
        medians = [median(times) for _, times in by_size]
        axes.plot(
            xs,
            medians,
            label=as_written(configuration),
            markersize=mark_points(style["marker"], 4),
            linewidth=1.2,
            **style,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    labelled = sizes[:1]
    for size in sizes[1:]:
        if size >= labelled[-1] * axis_factor**LABEL_STEP:
            labelled.append(size)
    axes.set_xticks(labelled, [str(size) for size in labelled])
    axes.set_xticks([], minor=True)
    axes.set_xlabel(f"{data.size_name.capitalize()} of the instance")
