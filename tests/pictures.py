"""What every picture must keep to be readable, whoever draws it: held at each one that tests write.

Text is not below the size of the house style, no picture is so wide that a page makes it smaller,
numbers along an axis say what they count, legends cover no data, and no text covers another or is
cut off.
"""

import re
from itertools import combinations

from matplotlib.colors import to_hex
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from lyra_opt.core.picture_styles import STYLES, house_style

_NUMBER = re.compile(r"[-−+]?[\d,]+(\.\d+)?%?")
_SLACK_PIXELS = 1.0
_DISTINCT = 0.12
_COVERED = 0.15
"""Of the smaller of two texts: what may lie on another, for the box of a text is larger than it."""


def bars_of(figure, panel):
    """Return colour, row, left end and width of every filled bar of a panel."""
    bars = [bar for bar in figure.axes[panel].patches if bar.get_fill()]
    rows = [round(bar.get_y() + bar.get_height() / 2, 1) for bar in bars]
    return [
        (to_hex(bar.get_facecolor()), row, bar.get_x(), bar.get_width())
        for bar, row in zip(bars, rows, strict=True)
    ]


def faults_of(figure, *, is_trimmed=False):
    """Return what is wrong with a figure, in words.

    Parameters
    ----------
    is_trimmed
        Whether it is written with all that lies outside of it (``bbox_inches="tight"``).
    """
    name = getattr(figure, "style", "page")
    with house_style(name):
        figure.draw_without_rendering()
    return [
        *_size_faults(figure, STYLES[name], is_trimmed=is_trimmed),
        *_axis_faults(figure),
        *_legend_faults(figure),
        *(_print_faults(figure) if STYLES[name].is_narrow else ()),
        *_text_faults(figure, STYLES[name].text_points, is_trimmed=is_trimmed),
    ]


def _size_faults(figure, style, *, is_trimmed):
    width = figure.get_size_inches()[0]
    if is_trimmed:
        width = max(width, figure.get_tightbbox().width)
    if width > style.most_width_inches + 0.05:
        yield f"is {width:.1f} inches wide, a page is {style.most_width_inches:g}"
    height = figure.get_size_inches()[1]
    if height > style.most_height_inches + 0.05:
        yield f"is {height:.1f} inches high, a page is {style.most_height_inches:g}"


def _axis_faults(figure):
    """Yield axes with numbers and no word of what they are."""
    shown = set(map(id, _shown_texts(figure)))
    for axes in figure.axes:
        for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
            has_numbers = any(
                id(text) in shown and _NUMBER.fullmatch(text.get_text())
                for text in axis.get_ticklabels()
            )
            parts = {figure, axes.get_figure(root=False)}
            beside = [each for each in figure.axes if _in_line(axes, each, name)]
            said = [(each.xaxis if name == "x" else each.yaxis).label for each in beside]
            said += [getattr(part, f"_sup{name}label", None) for part in parts]
            if has_numbers and not any(text is not None and text.get_text() for text in said):
                yield f"the {name} axis of {axes.get_title() or 'a panel'!r} says no unit"


def _in_line(axes, other, name):
    """Return whether two panels stand in a column (x), or a row (y), and may share a label."""
    box, place = axes.get_position(), other.get_position()
    ends = (box.x0, place.x0, box.x1, place.x1)
    if name == "y":
        ends = (box.y0, place.y0, box.y1, place.y1)
    return abs(ends[0] - ends[1]) < 0.01 and abs(ends[2] - ends[3]) < 0.01


def _legend_faults(figure):
    from matplotlib.legend import Legend

    for legend in figure.findobj(Legend):
        box = legend.get_window_extent()
        for axes in figure.axes:
            if axes.get_visible() and _common_area(box, axes.get_window_extent()) > 0:
                yield f"a legend covers the panel {axes.get_title()!r}"


def _print_faults(figure):
    """Yield pairs of entries of a legend that only colours distinguish."""
    from matplotlib.legend import Legend

    for legend in figure.findobj(Legend):
        names = [text.get_text() for text in legend.get_texts()]
        looks = list(map(_look, legend.legend_handles))
        for (one, look), (other, its) in combinations(zip(names, looks, strict=True), 2):
            if look[:-1] == its[:-1] and abs(look[-1] - its[-1]) < _DISTINCT:
                yield f"{one} and {other} look the same without colours"


def _look(handle):
    """Return what of a sample is seen without colours, its lightness last."""
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Patch

    is_area = isinstance(handle, Patch)
    red, green, blue, opacity = to_rgba(handle.get_facecolor() if is_area else handle.get_color())
    light = 1 - opacity * (1 - (0.299 * red + 0.587 * green + 0.114 * blue))
    if not is_area:
        return str(handle._dash_pattern), handle.get_marker(), light / 2  # lines are thin
    edge = handle.get_edgecolor()
    return handle.get_hatch(), edge[3] > 0 and edge[:3] != handle.get_facecolor()[:3], light


def _text_faults(figure, points, *, is_trimmed):
    texts = _shown_texts(figure)
    for text in texts:
        if text.get_fontsize() < points:
            yield f"{_called(text)} has {text.get_fontsize():g} points"
        if "^{" in text.get_text():
            yield f"{_called(text)} has an exponent, which is smaller than the text"
    boxes = [(text, text.get_window_extent()) for text in texts]
    whole = figure.bbox.padded(_SLACK_PIXELS)
    for text, box in boxes:
        if not is_trimmed and _common_area(box, whole) < _area(box) - _SLACK_PIXELS:
            yield f"{_called(text)} is cut off"
    level = [(text, box) for text, box in boxes if text.get_rotation() % 90 == 0]
    for (one, box), (other, place) in combinations(level, 2):
        if _common_area(box, place) > _COVERED * min(_area(box), _area(place)):
            yield f"{_called(one)} and {_called(other)} cover each other"


def _shown_texts(figure):
    """Return the texts that are drawn: ticks outside of limits, and axes that are off, are not."""
    hidden = set()
    for axes in figure.axes:
        is_drawn = axes.get_visible() and axes.axison
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            slack = 1e-9 * (high - low)
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                is_inside = low - slack <= tick.get_loc() <= high + slack
                if not is_drawn or not is_inside or not tick.get_visible():
                    hidden |= {id(tick.label1), id(tick.label2)}
            if not is_drawn:
                hidden |= {id(axis.label), id(axis.offsetText)}
    return [
        text
        for text in figure.findobj(Text)
        if id(text) not in hidden and text.get_visible() and text.get_text().strip()
    ]


def _called(text):
    return repr(" ".join(text.get_text().split())[:40])


def _area(box):
    return float(box.width * box.height)


def _common_area(box, other):

    common = Bbox.intersection(box, other)
    return 0.0 if common is None else _area(common)
