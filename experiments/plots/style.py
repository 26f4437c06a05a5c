"""Marks, line styles and legends of plots, in addition to the common style of pictures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lyra_opt.core.pictures import COLOURS, as_written

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")  # one more than colours, so pairs repeat late
_MARK_SCALE = {"*": 1.7, "P": 1.25, "X": 1.25, "^": 1.15, "v": 1.15, "D": 0.9}
"""Scale factors that make marks of different shapes look equally large."""

DASHES = ("-", (0, (4, 2)), (0, (1.5, 3)), (0, (6, 2, 1, 2)))
"""Line styles; their number is coprime to that of colours, so overlapping lines differ."""


def new_panels(
    rows: int, columns: int, inches: tuple[float, float], **shared: Any
) -> tuple[Figure, np.ndarray]:
    """Return a figure and the array of its panels, by row and column.

    Parameters
    ----------
    inches
        Width and height of the figure.
    shared
        Further options of `matplotlib.figure.Figure.subplots`, such as ``sharey``.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=inches, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)


def line_style(configuration: str, configurations: Sequence[str]) -> dict[str, Any]:
    """Return colour, mark and dashes of a configuration, which are the same in every plot."""
    position = list(configurations).index(configuration)
    return {
        "color": COLOURS[position % len(COLOURS)],
        "marker": MARKERS[position % len(MARKERS)],
        "linestyle": DASHES[position % len(DASHES)],
    }


def draw_steps(
    axes: Axes,
    configuration: str,
    configurations: Sequence[str],
    values: Sequence[float],
    heights: Sequence[float],
    right: float,
) -> None:
    """Draw a step line in a solver configuration's style, and extend it to the value `right`."""
    style = line_style(configuration, configurations) | {"marker": ""}
    axes.step(
        [values[0], *values, right],
        [0.0, *heights, heights[-1]],
        where="post",
        label=as_written(configuration),
        linewidth=1.4,
        **style,
    )


def mark_points(marker: str, points: float) -> float:
    """Return the size at which a mark looks as large as a disc of the given diameter in points."""
    return _MARK_SCALE.get(marker, 1.0) * points


def round_numbers(
    lowest: float, highest: float, leading: Sequence[float] = (1, 2, 5)
) -> list[float]:
    """Return the numbers in a range that are a power of ten times a number of `leading`.

    >>> round_numbers(1, 60), round_numbers(0.3, 2, (1,))
    ([1.0, 2.0, 5.0, 10.0, 20.0, 50.0], [1.0])
    """
    powers = range(math.floor(math.log10(lowest)), math.floor(math.log10(highest)) + 1)
    found = (float(f"{digit}e{power}") for power in powers for digit in leading)
    return [number for number in found if lowest <= number <= highest]


def stretches(kinds: Sequence[object]) -> list[slice]:
    """Return a slice for each maximal sequence of consecutive equal entries.

    >>> stretches(["a", "a", "b"])
    [slice(0, 2, None), slice(2, 3, None)]
    """
    found = []
    start = 0
    for place in range(1, len(kinds) + 1):
        if place == len(kinds) or kinds[place] != kinds[start]:
            found.append(slice(start, place))
            start = place
    return found


def add_legend(axes: Axes) -> None:
    """Put the legend to the right of the axes, where it covers no data."""
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)
