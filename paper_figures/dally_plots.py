"""The plots of the page on Dally."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from lyra_opt.core.pictures import COLOURS, as_written, line_style, note_below
from lyra_opt.paper_figures.dally_reductions import CLAIMS, CONSOLIDATION, DALLY, OURS, series_name
from lyra_opt.paper_figures.document import Call, by_name, find_paper, name_of
from lyra_opt.paper_figures.plots import (
    PAPER_COLOUR,
    draw_lines,
    name_rows,
    new_figure,
    with_legend,
)
from lyra_opt.simulation.scheme import find_scheme

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes

    from lyra_opt.experiments.plots.plot import Plot
    from lyra_opt.paper_figures.comparison import Comparison
    from lyra_opt.paper_figures.dally_reductions import Claim

PARTS_OF_JCT = (
    ("computing", COLOURS[2]),
    ("communication and moves", COLOURS[4]),
    ("waiting", "#c4c4c4"),
)
LOWEST_PERCENT = -200.0
"""The lowest value that panels show: Dally needs three times as much as the other scheme."""


def _shown_at(percent: float, axes: Axes) -> float:
    """Return where a reduction is drawn, and say below the panels if that is not its value."""
    if percent < LOWEST_PERCENT:
        note_below(axes.figure, f"Values below {LOWEST_PERCENT:g} % are drawn at that value")
    return max(percent, LOWEST_PERCENT)


def _shown(comparison: Comparison) -> tuple[list[Claim], list[str]]:
    """Return the claims and the scenario titles that a plot shows."""
    paper = find_paper("dally")
    (publication,) = (
        each for each in paper.publications if name_of(paper.name, each) == comparison.name
    )
    computed = publication.computed
    assert isinstance(computed, Call), "reductions are computed"
    claims = [CLAIMS[name] for name in computed.parameters["claims"]]
    return claims, [paper.scenarios[name].called for name in computed.parameters["situations"]]


def _others() -> list[str]:
    """Return the titles of the schemes that Dally is compared with."""
    return [name for scheme, name in find_paper("dally").called.items() if scheme != DALLY]


def reductions_by_scheme(comparison: Comparison) -> Plot:
    """Plot all reductions of a table, one row per scheme that Dally is compared with."""
    ((claim,), _), (entry,) = _shown(comparison), comparison.entries
    called = _others()
    (axes,) = new_figure(1, 2.9, 6.6)
    for place, other in enumerate(called):
        values = [percent for _, percent in comparison.series[series_name(claim, other)]]
        if not values:
            continue
        colour = COLOURS[0 if place < len(CONSOLIDATION) else 1]  # CONSOLIDATION comes first
        shown = [_shown_at(value, axes) for value in values]
        axes.plot(shown, [place] * len(shown), "o", color=colour, alpha=0.45, markersize=5)
        axes.plot(statistics.median(shown), place, "D", color=colour, markersize=7)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.axvline(
        float(entry.paper),
        color=PAPER_COLOUR,
        linestyle="--",
        label=f"abstract: up to {entry.paper} %",
    )
    name_rows(axes, called)
    axes.set_xlim(left=max(axes.get_xlim()[0], LOWEST_PERCENT - 5), right=105)
    axes.set_xlabel(f"{claim.title} less under Dally by (%)")
    return with_legend(
        comparison,
        [axes],
        "Each dot is a scenario (jobs and links), and the diamond is their median. Dally is better "
        "to the right of zero. The upper four rows, in blue, are the methods of the abstract.",
    )


def _lines(comparison: Comparison, label_axis: Callable[[Axes], None], caption: str) -> Plot:
    """Plot Dally's reductions against a property of scenarios, one panel per claim."""
    claims, others = _shown(comparison)[0], _others()
    panels = new_figure(len(claims), 3.3, 3.5)
    for axes, claim in zip(panels, claims, strict=True):
        of_claim = {
            other: [
                (x, _shown_at(percent, axes))
                for x, percent in comparison.series[series_name(claim, other)]
            ]
            for other in others
        }
        draw_lines(axes, of_claim, alpha=0.8)
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set_title(f"{claim.title}")
        label_axis(axes)
    panels[0].set_ylabel("Less under Dally by (%)")
    return with_legend(comparison, panels, caption)


def gains_over_links(comparison: Comparison) -> Plot:
    """Plot Dally's reductions for each set of links."""
    names = [called.rpartition(", ")[2] for called in _shown(comparison)[1]]

    def label_axis(axes: Axes) -> None:
        axes.set_xticks(range(len(names)), names, rotation=25, ha="right")

    return _lines(
        comparison,
        label_axis,
        "All jobs are submitted at once. Dally is better above zero. Links are sorted by "
        "congestion; the table describes them.",
    )


def gains_over_load(comparison: Comparison) -> Plot:
    """Plot Dally's reductions for each rate of submission."""
    rates = [called.partition(" ")[0] for called in _shown(comparison)[1]]

    def label_axis(axes: Axes) -> None:
        axes.set_xticks(range(len(rates)), rates)
        axes.set_xlabel("Jobs per day")

    return _lines(
        comparison,
        label_axis,
        "Jobs arrive as a Poisson process; rates are those at scale 1. Dally is better above zero.",
    )


def gains_on_traces(comparison: Comparison) -> Plot | None:
    """Plot Dally's reductions on each available trace; None if no trace is available."""
    traces = [title.rpartition(", ")[0] for title in _rows_of_first_table(comparison)]
    if not traces:
        return None
    claims, called = _shown(comparison)[0], _others()
    panels = new_figure(len(claims), 2.9, 4.4)
    for axes, claim in zip(panels, claims, strict=True):
        for place, other in enumerate(called):
            for number, percent in comparison.series[series_name(claim, other)]:
                trace = traces[int(number)]
                axes.plot(
                    _shown_at(percent, axes),
                    place,
                    label=None if place else as_written(trace),
                    **line_style(trace, traces) | {"linestyle": ""},
                )
        axes.axvline(0, color="black", linewidth=0.8)
        name_rows(axes, called)
        axes.set_xlabel(f"{claim.title} less under Dally by (%)")
    panels[1].set_yticklabels([])
    return with_legend(
        comparison,
        panels,
        "Links are congested-2. Dally is better than the scheme to the right of zero.",
        above=True,
    )


def _rows_of_first_table(comparison: Comparison) -> list[str]:
    return [row[0] for row in comparison.tables[0].rows] if comparison.tables else []


def parts_of_jct(comparison: Comparison) -> Plot:
    """Plot the parts of each scheme's mean JCT: computing, communication and moves, waiting."""
    panels_of: dict[str, list[tuple[str, Sequence[tuple[float, float]]]]] = {}
    for series, points in comparison.series.items():
        panel, _, scheme = series.partition(": ")
        panels_of.setdefault(panel, []).append((scheme, points))
    schemes = max((len(of_panel) for of_panel in panels_of.values()), default=1)
    panels = new_figure(max(1, len(panels_of)), 0.9 + 0.19 * schemes, 4.9)
    for axes, (panel, of_panel) in zip(panels, panels_of.items(), strict=False):
        for place, (_, points) in enumerate(of_panel):
            left = 0.0
            for (_, hours), (label, colour) in zip(points, PARTS_OF_JCT, strict=True):
                width = max(0.0, hours)
                axes.barh(
                    place,
                    width,
                    left=left,
                    color=colour,
                    label=None if place else label,
                    height=0.7,
                )
                left += width
            axes.annotate(
                f"{left:.0f}",
                (left, place),
                xytext=(2, 0),
                textcoords="offset points",
                va="center",
            )
        name_rows(axes, [_with_paper(scheme) for scheme, _ in of_panel])
        for name, (scheme, _) in zip(axes.get_yticklabels(), of_panel, strict=True):
            name.set_fontweight("bold" if scheme in (DALLY, OURS) else "normal")
        axes.set_title(panel)
        axes.set_xlabel("Mean JCT (h)")
    return with_legend(
        comparison,
        panels,
        "Mean time of a job by activity; the shortest mean JCT comes first. A scheme's paper is in "
        "brackets if its name does not say it.",
        above=True,
    )


def _with_paper(scheme: str) -> str:
    """Return the name of a scheme, followed by its paper if a paper has it under another name."""
    paper = find_scheme(scheme).paper
    is_known = paper in ("ours", "other") or paper.lower() in scheme
    return scheme if is_known else f"{scheme} ({paper})"


FUNCTIONS: Mapping[str, Callable[[Comparison], Plot | None]] = by_name(
    reductions_by_scheme, parts_of_jct, gains_over_links, gains_over_load, gains_on_traces
)
