"""Draw the plots of tables and figures, as the papers' files describe them.

The key ``plot`` of a table or figure names a kind of panel (``of``), and has

==============  ====================================================================================
``panels``      for each panel: ``data``, the arguments of its kind; ``axes``, properties of
                matplotlib's axes; ``log``, its logarithmic axes, as in ``"xy"``; ``vertical`` and
                ``horizontal``, the position of a black line; ``ticks``, the arguments of
                `matplotlib.axes.Axes.set_xticks`
``inches``      width and height of a panel
``caption``     a text that says how to read the plot
``above``       whether the legend is above the panels; otherwise it is on the right
``one_y_axis``  whether the panels share the vertical axis
==============  ====================================================================================
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from lyra_opt.core.pictures import (
    COLOURS,
    as_written,
    legend_above,
    legend_beside,
    line_style,
    make_logarithmic,
    note_below,
)
from lyra_opt.experiments.plots.plot import Plot
from lyra_opt.experiments.plots.style import new_row
from lyra_opt.paper_figures.document import by_name
from lyra_opt.simulation.scheme import find_scheme

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes

    from lyra_opt.paper_figures.comparison import Comparison, Entry
    from lyra_opt.paper_figures.document import Call

    Series = Mapping[str, Sequence[tuple[float, float]]]

PAPER_COLOUR = "#9a9a9a"
OUR_COLOUR = COLOURS[0]
BAR_HEIGHT = 0.38
THIN: Mapping[str, Any] = {"color": "black", "linewidth": 0.8}
STYLES: Mapping[str, dict[str, Any]] = {
    "paper": {"color": PAPER_COLOUR, "marker": "s"},
    "ours": {"color": OUR_COLOUR, "marker": "o"},
}
"""The styles of lines by name; the position of a line decides all other styles."""

PARTS_OF_JCT = {
    "computing": COLOURS[2],
    "communication and moves": COLOURS[4],
    "waiting": "#c4c4c4",
}


def plot_of(comparison: Comparison, described: Call) -> Plot | None:
    """Return the plot of a table or figure; None if it shows series without a point.

    Parameters
    ----------
    described
        The key ``plot`` of the paper's file.
    """
    if described.of not in OF_NUMBERS and not any(comparison.series.values()):
        return None
    plot = described.parameters
    width, height = plot["inches"]
    size = width * len(plot["panels"]), height
    figure, panels = new_row(len(plot["panels"]), size, sharey=plot.get("one_y_axis", False))
    for axes, panel in zip(panels, plot["panels"], strict=True):
        PANELS[described.of](axes, comparison, **panel.get("data", {}))
        for draw, place in ((axes.axvline, "vertical"), (axes.axhline, "horizontal")):
            if place in panel:
                draw(panel[place], **THIN)
        for name in panel.get("log", ""):
            make_logarithmic(getattr(axes, f"{name}axis"))
        if "ticks" in panel:
            axes.set_xticks(**panel["ticks"])
        axes.set(**panel["axes"])
    put = legend_above if plot.get("above") else legend_beside
    put(figure, *panels[0].get_legend_handles_labels())
    name = comparison.name.partition("-")[2]  # without the paper
    title = comparison.title[comparison.title.index(name.replace("-", " ").capitalize()) :]
    return Plot(name.replace("-", "_"), title, plot["caption"], figure)


def bars(axes: Axes, comparison: Comparison, *, column: str, numbers: str = "") -> None:
    """Draw two bars per row of a column, for the paper's number and ours.

    Parameters
    ----------
    numbers
        ``gains``: the gains of the rows that have one. ``relative``: multiples of the row without
        a gain above. By default the numbers themselves, with their spread and their source.
    """
    entries = [entry for entry in comparison.entries if entry.column == column]
    rows: dict[str, tuple[float, float | None]] = {}
    reference: tuple[float, float | None] = (1.0, 1.0)
    for entry in entries:
        pair = float(entry.paper), entry.ours
        if numbers == "gains":
            if entry.gains is not None:
                rows[entry.row] = entry.gains.paper, entry.gains.ours
        elif numbers == "relative":
            reference = pair if entry.gains is None else reference
            ours = pair[1] / reference[1] if pair[1] is not None and reference[1] else None
            rows[entry.row] = pair[0] / reference[0], ours
        else:
            rows[f"{entry.row} ({entry.source})"] = pair
            if entry.spread is not None and entry.ours is not None:
                low, high = entry.spread
                error = [[entry.ours - low], [high - entry.ours]]
                axes.errorbar(entry.ours, len(rows) - 0.81, xerr=error, capsize=2, **THIN)
    # Gains are ratios, whose bars begin at 1, as a logarithmic axis has no zero.
    origin = float(numbers == "gains")
    for label, which, shift in (("paper", 0, -BAR_HEIGHT / 2), ("ours", 1, BAR_HEIGHT / 2)):
        values = [pair[which] for pair in rows.values()]
        axes.barh(
            [place + shift for place in range(len(rows))],
            [0.0 if value is None else value - origin for value in values],
            left=origin,
            height=BAR_HEIGHT,
            color=STYLES[label]["color"],
            label=label,
        )
    for place, (_, ours) in enumerate(rows.values()):
        if ours is None:
            _write_beside(axes, "not run", origin, place + BAR_HEIGHT / 2)
    _name_rows(axes, list(rows))


def lines(
    axes: Axes,
    comparison: Comparison,
    *,
    prefix: str = "",
    lowest: float | None = None,
    doubling: bool = False,
    paper: str = "",
    **changed: Any,
) -> None:
    """Draw one line per series.

    Parameters
    ----------
    prefix
        The beginning of the names of the series.
    lowest
        The lowest value that is shown; None for all values.
    doubling
        Whether the horizontal axis is logarithmic, with a tick at each point.
    paper
        The column with the paper's number of each line, which is drawn as a thin line.
    changed
        Style settings that replace those of all lines.
    """
    series = _series(comparison, prefix, axes, lowest)
    _draw_lines(axes, series, **changed)
    if doubling:
        axes.set_xscale("log", base=2)
        ticks = sorted({x for points in series.values() for x, _ in points})
        axes.set_xticks(ticks, [f"{tick:,g}" for tick in ticks])
    drawn = {
        entry.row.partition(",")[0]: float(entry.paper)
        for entry in comparison.entries
        if entry.column == paper
    }
    for name, y in drawn.items():
        axes.axhline(y, **line_style(name, list(series)) | {"marker": "", "linewidth": 0.8})


def lines_of_column(axes: Axes, comparison: Comparison, *, column: str) -> None:
    """Draw the paper's numbers and ours in a column; each row begins with its position."""
    entries = [entry for entry in comparison.entries if entry.column == column]
    pairs = {
        side: [(int(entry.row.split()[0]), _number(entry, side)) for entry in entries]
        for side in STYLES
    }
    _draw_lines(axes, pairs)


def lines_of_rows(axes: Axes, comparison: Comparison, *, side: str) -> None:
    """Draw a line per row, of the paper's numbers or ours; each column begins with its position."""
    series: dict[str, list[tuple[float, float]]] = {}
    for entry in comparison.entries:
        point = int(entry.column.split()[0]), _number(entry, side)
        series.setdefault(entry.row.partition(",")[0], []).append(point)
    _draw_lines(axes, series)


def dots(axes: Axes, comparison: Comparison, *, prefix: str, lowest: float, first: int) -> None:
    """Draw a row of dots and their median per series, and the number of the paper's abstract.

    Parameters
    ----------
    prefix, lowest
        As in `lines`.
    first
        Number of rows in the first colour.
    """
    series, (entry,) = _series(comparison, prefix, axes, lowest), comparison.entries
    for place, points in enumerate(series.values()):
        if points:
            values, colour = [value for _, value in points], COLOURS[place >= first]
            axes.plot(values, [place] * len(values), "o", color=colour, alpha=0.45, markersize=5)
            axes.plot(statistics.median(values), place, "D", color=colour, markersize=7)
    label = f"abstract: up to {entry.paper} %"
    axes.axvline(float(entry.paper), color=PAPER_COLOUR, linestyle="--", label=label)
    _name_rows(axes, list(series))
    axes.set_xlim(left=max(axes.get_xlim()[0], lowest - 5), right=105)


def dots_by_trace(axes: Axes, comparison: Comparison, *, prefix: str, lowest: float) -> None:
    """Draw a row of marks per series, one per trace; the first further table names the traces."""
    series = _series(comparison, prefix, axes, lowest)
    traces = [row[0].rpartition(", ")[0] for row in comparison.tables[0].rows]
    for place, points in enumerate(series.values()):
        for number, value in points:
            trace = traces[int(number)]
            style = line_style(trace, traces) | {"linestyle": ""}
            axes.plot(value, place, label=None if place else as_written(trace), **style)
    _name_rows(axes, list(series))


def parts_of_jct(axes: Axes, comparison: Comparison, *, prefix: str, bold: Sequence[str]) -> None:
    """Draw the parts of each scheme's mean JCT: computing, communication and moves, waiting.

    Parameters
    ----------
    prefix
        The beginning of the names of the series; the rest is the name of a scheme.
    bold
        The schemes with names in bold.
    """
    series = _series(comparison, prefix, axes, None)
    names = []
    for place, (scheme, points) in enumerate(series.items()):
        left = 0.0
        for (_, hours), (label, colour) in zip(points, PARTS_OF_JCT.items(), strict=True):
            part = None if place else label
            axes.barh(place, max(0.0, hours), 0.7, left, color=colour, label=part)
            left += max(0.0, hours)
        _write_beside(axes, f"{left:.0f}", left, place)
        paper = find_scheme(scheme).paper
        is_known = paper in ("ours", "other") or paper.lower() in scheme
        names.append(scheme if is_known else f"{scheme} ({paper})")
    _name_rows(axes, names)
    for name, scheme in zip(axes.get_yticklabels(), series, strict=True):
        name.set_fontweight("bold" if scheme in bold else "normal")


def _series(
    comparison: Comparison, prefix: str, axes: Axes, lowest: float | None
) -> dict[str, list[tuple[float, float]]]:
    """Return the series whose names have a prefix, by the rest; raise values to the lowest."""
    found = {
        name.removeprefix(prefix): list(points)
        for name, points in comparison.series.items()
        if name.startswith(prefix)
    }
    if lowest is None:
        return found
    if any(y < lowest for points in found.values() for _, y in points):
        note_below(axes.figure, f"Values below {lowest:g} % are drawn at that value")
    return {name: [(x, max(y, lowest)) for x, y in points] for name, points in found.items()}


def _number(entry: Entry, side: str) -> float:
    """Return the paper's number or ours; NaN, which is not drawn, if ours was not computed."""
    if side == "paper":
        return float(entry.paper)
    return float("nan") if entry.ours is None else entry.ours


def _draw_lines(axes: Axes, series: Series, **changed: Any) -> None:
    for name, points in series.items():
        if points:
            style = STYLES.get(name) or line_style(name, list(series))
            axes.plot(*zip(*points, strict=True), label=as_written(name), **style | changed)


def _write_beside(axes: Axes, text: str, x: float, y: float) -> None:
    axes.annotate(text, (x, y), xytext=(3, 0), textcoords="offset points", va="center")


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Label the rows of a panel, the first on top."""
    axes.set_yticks(range(len(names)), [as_written(name) for name in names])
    axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")


PANELS: Mapping[str, Callable[..., None]] = by_name(
    bars, lines, lines_of_column, lines_of_rows, dots, dots_by_trace, parts_of_jct
)
"""The kinds of panels that a paper's file may name."""

OF_NUMBERS = ("bars", "lines_of_column", "lines_of_rows")
"""The kinds that show the numbers of a table; all others show series."""
