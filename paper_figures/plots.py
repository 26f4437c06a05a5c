"""Drawing functions shared by the plots of all papers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.core.pictures import COLOURS, as_written, legend_above, legend_beside, line_style
from lyra_opt.experiments.plots.plot import Plot
from lyra_opt.experiments.plots.style import new_row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from lyra_opt.paper_figures.comparison import Comparison, Entry

PAPER_COLOUR = "#9a9a9a"
OUR_COLOUR = COLOURS[0]
BAR_HEIGHT = 0.38

PANEL_INCHES = (4.4, 3.6)


def new_figure(
    panels: int, height: float = PANEL_INCHES[1], width: float = PANEL_INCHES[0]
) -> Sequence[Axes]:
    """Return the panels, in a row, of a new figure; each panel is `width` by `height` inches."""
    return new_row(panels, (width * panels, height))[1]


def with_legend(
    comparison: Comparison, panels: Sequence[Axes], remark: str, *, above: bool = False
) -> Plot:
    """Return a finished plot of a table or figure, with a legend made from the first panel.

    Parameters
    ----------
    above
        Whether the legend is above the panels; otherwise it is on the right.
    """
    figure: Any = panels[0].figure
    put = legend_above if above else legend_beside
    put(figure, *panels[0].get_legend_handles_labels())
    name = comparison.name.partition("-")[2]  # without the paper
    title = comparison.title[comparison.title.index(name.replace("-", " ").capitalize()) :]
    return Plot(name.replace("-", "_"), title, remark, figure)


def bars(
    axes: Axes,
    rows: Sequence[str],
    paper: Sequence[float],
    ours: Sequence[float | None],
    *,
    origin: float = 0.0,
) -> None:
    """Draw two bars per row, for the paper's number and ours, with the first row on top.

    Parameters
    ----------
    origin
        Where bars begin: 1 for ratios, which have no zero on a logarithmic axis.
    """
    places = range(len(rows))
    for label, colour, values, shift in (
        ("paper", PAPER_COLOUR, paper, -BAR_HEIGHT / 2),
        ("ours", OUR_COLOUR, ours, BAR_HEIGHT / 2),
    ):
        axes.barh(
            [place + shift for place in places],
            [0.0 if value is None else value - origin for value in values],
            left=origin,
            height=BAR_HEIGHT,
            color=colour,
            label=label,
        )
    for place, value in zip(places, ours, strict=True):
        if value is None:
            axes.annotate(
                "not run",
                (origin, place + BAR_HEIGHT / 2),
                xytext=(3, 0),
                textcoords="offset points",
                va="center",
            )
    name_rows(axes, rows)


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Label the rows of a panel, the first on top."""
    axes.set_yticks(range(len(names)), [as_written(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")


def draw_lines(
    axes: Axes, series: Mapping[str, Sequence[tuple[float, float]]], **changed: Any
) -> None:
    """Draw one line per non-empty series; the position of a series decides its style.

    Parameters
    ----------
    changed
        Style settings that replace those of all lines.
    """
    names = list(series)
    for name, points in series.items():
        if points:
            style = line_style(name, names) | changed
            axes.plot(*zip(*points, strict=True), label=as_written(name), **style)


def of_column(comparison: Comparison, column: str) -> list[Entry]:
    """Return the entries of a table column."""
    return [entry for entry in comparison.entries if entry.column == column]


def number(value: float | None) -> float:
    """Return a number for plotting; NaN, which is not drawn, if it was not computed."""
    return float("nan") if value is None else value
