"""Make figures fit one column of a paper: wrapped texts, higher figures, and hatched areas."""

from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.transforms import blended_transform_factory

from lyra_opt.core.picture_styles import style_in_force

HATCHES = ("", "/////", ".....", "xxxxx", "\\\\\\\\\\", "-----", "ooo", "+++++", "|||||")
"""Hatches of areas, the plainest first."""

DISTINCT = 0.13
"""Areas whose lightness, from 0 to 1, differs by this much are distinguishable in print."""

BACKGROUND = 0.9
"""The lightness from which an area is a background."""

DARK_HATCH, LIGHT_HATCH = "#333333", "#ffffff"
LINE_SPACING = 1.25
EDGE_POINTS = 3.0

LEAST_SCALE = 0.75
"""Rows of text overlap if the height of a figure is below this share of the height drawn."""

DRAFT_INCHES = 4.0
"""The height added for measuring, so that legends leave room for the panels."""


def fit_into_column(figure: Figure) -> None:
    """Wrap texts that are wider than the figure, make room for legends, and hatch areas.

    A figure that is then higher than the style allows is made lower, as far as text stays readable.
    Areas that a legend explains and whose lightness is similar get different hatches, so that they
    are distinguishable without colours.
    """
    _hatch(figure)
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + DRAFT_INCHES)
    figure.draw_without_rendering()
    legends = figure.findobj(Legend)
    more = sum(legend.get_window_extent().height for legend in legends) / figure.dpi
    lines = _wrap_across(figure)
    more += lines * LINE_SPACING * style_in_force().text_points / 72
    wanted = height + more
    most = style_in_force().most_height_inches
    figure.set_size_inches(width, min(wanted, max(most, LEAST_SCALE * wanted)))
    figure.draw_without_rendering()
    _wrap_across(figure)
    for axes in figure.axes:
        _wrap(axes.yaxis.label, axes.bbox.height, is_upright=True)


def _wrap_across(figure: Figure) -> int:
    """Wrap titles and labels to the width of the figure; return the number of added lines."""
    right = figure.bbox.width - 1
    edge = EDGE_POINTS / 72 * figure.dpi / figure.bbox.width
    added = 0
    for axes in figure.axes:
        own = [child for child in axes.get_children() if isinstance(child, Text)]
        for title in (text for text in own if text.get_text() and text not in axes.texts):
            # Titles begin at the left edge of the figure instead of above the axes, for more room.
            across = blended_transform_factory(figure.transFigure, title.get_transform())
            title.set(transform=across, x=edge, horizontalalignment="left")
            added += _wrap(title, right - title.get_window_extent().x0)
        label = axes.xaxis.label
        box = label.get_window_extent()
        middle = (box.x0 + box.x1) / 2
        added += _wrap(label, 2 * min(middle, right - middle))
    for part in (figure, *figure.subfigs):
        added += sum(_wrap(text, right) for text in part.texts)
    return added


def _wrap(text: Text, room: float, *, is_upright: bool = False) -> int:
    """Wrap a text into lines of at most `room` pixels; return the number of added lines."""
    box = text.get_window_extent()
    length = box.height if is_upright else box.width
    given = text.get_text().split("\n")
    if length <= room or room <= 0:
        return 0
    letters = max(8, int(max(map(len, given)) * room / length))
    lines = [part for line in given for part in wrap(line, letters)]
    text.set_text("\n".join(lines))
    return len(lines) - len(given)


def _hatch(figure: Figure) -> None:
    """Hatch the areas of a figure whose lightness is that of another area in its legends."""
    legends: Any = figure.findobj(Legend)
    samples = [patch for legend in legends for patch in legend.get_patches() if patch.get_fill()]
    colours = dict.fromkeys(_colour(patch.get_facecolor()) for patch in samples)
    chosen: dict[tuple[float, ...], str] = {}
    # Backgrounds come first, so that they stay plain.
    for colour in sorted(colours, key=lambda colour: _lightness(colour) < BACKGROUND):
        light = _lightness(colour)
        near = {chosen[each] for each in chosen if abs(_lightness(each) - light) < DISTINCT}
        chosen[colour] = next((each for each in HATCHES if each not in near), HATCHES[-1])
    drawn = [area for axes in figure.axes for area in (*axes.patches, *axes.collections)]
    for area in [*samples, *drawn]:
        found = {_colour(each) for each in np.atleast_2d(area.get_facecolor())}
        if len(found) != 1:
            continue
        (colour,) = found
        if hatch := chosen.get(colour):
            area.set_hatch(hatch)
            area.set_linewidth(min(0.5, float(np.min(area.get_linewidth()))))
            area.set_edgecolor(LIGHT_HATCH if _lightness(colour) < 0.5 else DARK_HATCH)


def _colour(colour: Any) -> tuple[float, ...]:
    """Return red, green, blue and opacity, rounded for comparisons."""
    return tuple(round(float(part), 3) for part in colour)


def _lightness(colour: tuple[float, ...]) -> float:
    """Return the lightness of a colour on white paper, from 0 to 1."""
    red, green, blue, opacity = colour
    return 1 - opacity * (1 - (0.299 * red + 0.587 * green + 0.114 * blue))
