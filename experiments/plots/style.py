"""Marks, line styles and legends of plots, in addition to the common style of pictures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lyra_opt.core.picture_styles import style_in_force
from lyra_opt.core.pictures import as_written, legend_beside, line_style, new_figure, record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARK_SCALE = {"*": 1.7, "P": 1.25, "X": 1.25, "^": 1.15, "v": 1.15, "D": 0.9}
"""Scale factors that make marks of different shapes look equally large."""

MARKS_PER_STEP_LINE = 4


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
    figure = new_figure(*inches)
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)


def new_grid(
    count: int,
    most_columns: int,
    panel_inches: tuple[float, float],
    beside_inches: float = 0.0,
    **shared: Any,
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its panels, row by row on a grid.

    Parameters
    ----------
    most_columns
        The most panels side by side, if the style is wide enough for them.
    panel_inches, beside_inches
        Width and height of a panel, and the width beside the panels.
    shared
        Further options of `matplotlib.figure.Figure.subplots`, such as ``sharey``.
    """
    columns = min(count, columns_of(most_columns))
    rows = -(-count // columns)
    width, height = panel_inches
    inches = width * columns + beside_inches, height * rows
    figure, grid = new_panels(rows, columns, inches, **shared)
    axes = list(grid.flat)
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def new_row(count: int, inches: tuple[float, float], **shared: Any) -> tuple[Figure, list[Axes]]:
    """Return a figure of this size and its panels, in a row if the style is wide enough."""
    width, height = inches
    return new_grid(count, count, (width / count, height), **shared)


def columns_of(most: int) -> int:
    """Return the number of panels side by side: at most `most`, and as many as the style allows."""
    return min(most, style_in_force().most_columns)


def record_columns(
    part: Axes | Figure, frame: pd.DataFrame, names: Mapping[str, str], **added: object
) -> None:
    """Add columns of a frame to the data that is saved with a picture.

    Parameters
    ----------
    names
        The new name of each column, which ends with its unit.
    added
        Values of further columns, the same in each row.
    """
    record(part, frame[list(names)].rename(columns=names).assign(**added).to_dict("records"))


def name_values(axes: Axes, values: Sequence[object], letters_in_a_row: int) -> None:
    """Name evenly spaced values on the horizontal axis; slant long names so that none overlap."""
    labels = [as_written(str(value)) for value in values]
    slanted: dict[str, Any] = {"rotation": 20, "ha": "right", "rotation_mode": "anchor"}
    is_long = sum(map(len, labels)) > letters_in_a_row
    axes.set_xticks(range(len(labels)), labels, **(slanted if is_long else {}))
    axes.set_xlim(-0.4, len(labels) - 0.6)
    axes.grid(visible=False, axis="x")


def draw_steps(
    axes: Axes,
    configuration: str,
    configurations: Sequence[str],
    values: Sequence[float],
    heights: Sequence[float],
    right: float,
) -> None:
    """Draw a step line in a solver configuration's style, and extend it to the value `right`.

    Where colours may be missing, the line has a few marks.
    """
    style = line_style(configuration, configurations)
    steps = dict(zip(values, heights, strict=True))  # the last height at each value
    ends = list(steps)
    if style_in_force().is_narrow:
        # A further point before the right end has a mark; the first step may be on the left axis.
        ends.append((ends[-1] + right) / 2)
        marked = range(2, len(ends) + 1)
        every = max(1, len(marked) // MARKS_PER_STEP_LINE)
        start = list(configurations).index(configuration) / len(configurations)
        style |= {"markevery": list(marked)[int(start * every) :: every], "markersize": 3.5}
    else:
        style["marker"] = ""
    axes.step(
        [ends[0], *ends, right],
        [0.0, *(steps.get(end, heights[-1]) for end in ends), heights[-1]],
        where="post",
        label=as_written(configuration),
        linewidth=1.4 * style_in_force().line_factor,
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


def add_legend_of_all(
    figure: Figure, all_axes: Iterable[Axes], configurations: Sequence[str]
) -> None:
    """Add one legend for several axes, with each configuration once."""
    handles = {
        label: handle
        for axes in all_axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    labels = [label for name in configurations if (label := as_written(name)) in handles]
    legend_beside(figure, [handles[label] for label in labels], labels)
