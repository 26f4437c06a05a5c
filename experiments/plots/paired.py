"""Plots of paired differences: a row per difference, with its interval."""

from __future__ import annotations

import math
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

from lyra_opt.core.errors import UserError
from lyra_opt.core.picture_styles import style_in_force
from lyra_opt.core.pictures import (
    COLOURS,
    ROW_INCHES,
    Drawing,
    as_written,
    drawn_in_words,
    note_below,
    record,
    shortened,
)
from lyra_opt.experiments.plots.style import round_numbers
from lyra_opt.experiments.simulation.scenario.documents import CASE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

    from lyra_opt.experiments.diff import Diff

FAR = 20.0
"""The axis is logarithmic if a difference, or an end of an interval, is more than this many times
the median difference."""

WIDTH_INCHES, FRAME_INCHES = 8.0, 1.0
MOST_LETTERS, NARROW_LETTERS = 60, 24


class PairedRow(NamedTuple):
    """A difference with the ends of its interval, NaN if unknown, and its look.

    ``too_few`` says why the interval is unknown.
    """

    difference: float
    low: float
    high: float
    too_few: str
    colour: str = COLOURS[0]
    mark: Mapping[str, Any] = {"marker": "o", "markersize": 5}


def draw_paired(axes: Axes, rows: Mapping[float, PairedRow], label: str) -> None:
    """Draw differences and their intervals, each at the height of its row.

    The axis, called `label`, is partly logarithmic if one difference would compress all others.
    """
    axes.axvline(0, color="#222222", linewidth=0.9, zorder=1)
    for height, row in rows.items():
        bar: dict[str, Any] = {"linewidth": 2.2, "solid_capstyle": "butt", "alpha": 0.45}
        axes.plot([row.low, row.high], [height] * 2, color=row.colour, **bar)
        axes.plot(row.difference, height, color=row.colour, **row.mark)
        if math.isnan(row.low):
            beside = axes.get_yaxis_transform()
            axes.text(1.01, height, row.too_few, transform=beside, va="center")
    moved = sorted(abs(row.difference) for row in rows.values() if row.difference)
    ends = [abs(end) for row in rows.values() for end in row[:3] if end == end]
    if moved and max(ends) > FAR * (typical := moved[len(moved) // 2]):
        axes.set_xscale("symlog", linthresh=2 * typical, linscale=1.5)
        low, high = axes.get_xlim()
        far = round_numbers(0.2 * typical, 2 * max(ends), (1,))
        far = far[-2:] if style_in_force().is_narrow else far
        ticks = [tick for tick in (*(-each for each in far), 0.0, *far) if low <= tick <= high]
        axes.set_xticks(sorted(ticks), [f"{tick:,g}".replace("-", "−") for tick in sorted(ticks)])
        axes.set_xticks([], minor=True)
        label += "\n(logarithmic where far from 0)"
    axes.set_xlabel(label)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


def drawing_of_diff(diff: Diff) -> Drawing:
    """Return a drawing of the main measures of a comparison: B - A in % of A, a row per difference.

    Raises
    ------
    UserError
        If no difference has a percentage.
    """
    main = diff.main
    randoms = [random for random, _ in main.randoms]
    known = main.measures.assign(name=main.table().columns[2].texts, random=randoms)
    known = known.dropna(subset="change_percent")
    if known.empty:
        raise UserError("no measure differs by a percentage of A, so nothing can be drawn")
    style = style_in_force()
    rows = list(known.head(style.most_rows).itertuples())
    longest = NARROW_LETTERS if style.is_narrow else MOST_LETTERS
    a, b = (as_written(shortened(name)) for name in (diff.a, diff.b))
    marks: dict[float, PairedRow] = {}
    labels = []
    for row in rows:
        ends = row.change_percent, row.low_percent, row.high_percent
        marks[-len(marks)] = PairedRow(*ends, row.random.too_few)
        name = str(row.name).rpartition(" (")[0] or str(row.name)
        of_axis = "" if row.axis == CASE else f"{row.axis} = "
        where = f", {of_axis}{row.value}" if row.axis else ""
        labels.append(fill(as_written(name + where), longest))
    lines = max(label.count("\n") for label in labels) + 1

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots()
        draw_paired(axes, marks, f"Difference of {b} from {a} (%)")
        axes.set_yticks(list(marks), labels)
        axes.set_ylim(0.6 - len(rows), 0.6)
        bars = (
            "95 % intervals" if all(each.has_intervals for each in randoms) else "least to greatest"
        )
        order = "with a percentage, in the order of the table"
        left_out = drawn_in_words(len(rows), len(randoms), "row", order)
        note_below(figure, f"Bars: {bars}", left_out)
        record(figure, diff.measures.to_dict("records"))

    return Drawing(WIDTH_INCHES, FRAME_INCHES + ROW_INCHES * lines * len(rows), draw)
