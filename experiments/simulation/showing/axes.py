"""The look of each scheme in all plots of a page, and the shared time axis of its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.numbers import DAY_S, HOUR_S, MINUTE_S, UNITS
from lyra_opt.core.picture_styles import style_in_force
from lyra_opt.core.pictures import as_written, legend_beside, line_style, record
from lyra_opt.experiments.plots.style import mark_points
from lyra_opt.experiments.simulation.running.replay import step_means

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lyra_opt.core.numbers import Unit
    from lyra_opt.experiments.records import ReplayRecord
    from lyra_opt.experiments.simulation.running.replays import Replays

WIDEST_POINTS, NARROWEST_POINTS = 3.4, 1.2
LEGEND_LINE: dict[str, Any] = {"handlelength": 3.4}
"""Legend option: long line samples show the gaps of dashed lines."""

OWN_GPUS_LINE: dict[str, Any] = {
    "label": "own GPUs",
    "color": "#222222",
    "linewidth": 0.8,
    "linestyle": (0, (1, 1.5)),
}
BIN_LENGTHS_S = (
    *(1, 5, 10, 30, MINUTE_S, 2 * MINUTE_S, 5 * MINUTE_S, 10 * MINUTE_S, 30 * MINUTE_S),
    *(HOUR_S, 2 * HOUR_S, 4 * HOUR_S, 8 * HOUR_S, DAY_S),
)
MOST_BINS = 360
"""A time axis has the shortest bins that give at most this number of bins."""

SHORTEST_IN_UNITS = 2
NEARLY_ALL = 0.99
"""A time axis ends when this share of the jobs is complete, as few long jobs may drain for days."""

LONGEST_SHOWN_RATIO = 1.5
"""A time axis is at most this much longer than the shortest run, and a run is cut off only if it
is at least this much longer than the axis; a slow scheme would squeeze all others."""


def add_side_legend(figure: Figure, axes: Axes) -> None:
    """Put the legend of one panel to the right of all panels."""
    handles, labels = axes.get_legend_handles_labels()
    legend_beside(figure, handles, labels, **LEGEND_LINE)


def panel_grid(count: int, most_columns: int) -> tuple[int, int]:
    """Return rows and columns of the most even grid of panels.

    >>> panel_grid(4, most_columns=3)
    (2, 2)
    """
    rows = -(-count // most_columns)
    return rows, -(-count // rows)


def capitalised(words: str) -> str:
    """Return words with a capital first letter."""
    return words[:1].upper() + words[1:]


def scheme_line(scheme: str, schemes: Sequence[str]) -> dict[str, Any]:
    """Return the line style and legend label of a scheme.

    Earlier lines are wider and later lines have gaps, so that coinciding lines are both visible.
    """
    style = line_style(scheme, schemes)
    position = list(schemes).index(scheme) / max(1, len(schemes) - 1)
    width = WIDEST_POINTS + (NARROWEST_POINTS - WIDEST_POINTS) * position
    return {
        "color": style["color"],
        "linestyle": style["linestyle"],
        "linewidth": (width if len(schemes) > 1 else 1.6) * style_in_force().line_factor,
        "label": as_written(scheme),
    }


def scheme_mark(scheme: str, schemes: Sequence[str]) -> dict[str, Any]:
    """Return the marker style of a scheme."""
    marker = line_style(scheme, schemes)["marker"]
    return {
        "marker": marker,
        "markersize": mark_points(marker, 5.5 * style_in_force().line_factor ** 0.5),
        "markeredgecolor": "white",
        "markeredgewidth": 0.6,
    }


def scheme_colour(scheme: str, schemes: Sequence[str]) -> str:
    """Return the colour of a scheme, by its position among all schemes of the page."""
    colour: str = line_style(scheme, schemes)["color"]
    return colour


class TimeAxis:
    """The time axis of a plot, divided into bins over which simulated values are averaged.

    ``runs`` has one run per scheme, of one variant and seed.
    """

    def __init__(self, replays: Replays, runs: Mapping[str, ReplayRecord]) -> None:
        self.series = {scheme: replays.series(run) for scheme, run in runs.items()}
        """The state of the cluster over time under each scheme."""
        tables = list(self.series.values())
        self.first_s = float(tables[0].time_s.iloc[0])
        self.last_submission_s = max(run.setting["last_submission_s"] for run in runs.values())
        runs_s = {
            scheme: float(np.quantile(replays.jobs(run).completion_s, NEARLY_ALL, method="higher"))
            - self.first_s
            for scheme, run in runs.items()
        }
        shown_s = max(
            self.last_submission_s - self.first_s,
            min(max(runs_s.values()), LONGEST_SHOWN_RATIO * min(runs_s.values())),
        )
        longest_s = max(float(table.time_s.iloc[-1]) for table in tables) - self.first_s
        is_cut_off = longest_s > LONGEST_SHOWN_RATIO * shown_s
        if not is_cut_off:
            shown_s = longest_s
        length_s = next(
            (length_s for length_s in BIN_LENGTHS_S if shown_s <= MOST_BINS * length_s),
            BIN_LENGTHS_S[-1],
        )
        bins = max(1, int(np.ceil(shown_s / length_s)))
        self.edges_s = self.first_s + length_s * np.arange(bins + 1.0)
        self.unit = long_unit(shown_s)
        bin_unit = next(unit for unit in UNITS if length_s >= unit.seconds)
        count = length_s // bin_unit.seconds
        each = bin_unit.name.removesuffix("s") if count == 1 else f"{count} {bin_unit.name}"
        self.caption = f"Means over each {each}."
        self.note = ""
        """A sentence on the end of an axis that leaves out a part of the runs."""
        if is_cut_off:
            late = [scheme for scheme, run_s in runs_s.items() if run_s > shown_s]
            late_under = f"; this takes longer under {', '.join(late)}" if late else ""
            self.note = (
                f"The time axis ends when {100 * NEARLY_ALL:g} % of the jobs are complete"
                f"{late_under}."
            )

    def place(self, time_s: Any) -> Any:
        """Return the positions of times on the axis."""
        return (time_s - self.first_s) / self.unit.seconds

    def binned(self, series: pd.DataFrame, values: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the edges of the bins on the axis, and the mean of a series in each bin."""
        time_s = series.time_s.to_numpy()
        bins = min(max(1, int(np.searchsorted(self.edges_s, time_s[-1]))), len(self.edges_s) - 1)
        edges_s = self.edges_s[: bins + 1]
        return self.place(edges_s), step_means(time_s, np.asarray(values, dtype=float), edges_s)

    def record(
        self, axes: Axes, edges: np.ndarray, means: np.ndarray, name: str, **words: str
    ) -> None:
        """Add the mean values of a series, called `name`, to the data saved with the picture."""
        edges_s = edges * self.unit.seconds
        spans = zip(edges_s[:-1].tolist(), edges_s[1:].tolist(), means.tolist(), strict=True)
        rows = ({**words, "from_s": first, "to_s": last, name: mean} for first, last, mean in spans)
        record(axes, rows, name)

    def finish(self, axes: Axes) -> None:
        """Set the limits and the label of the time axis of a panel."""
        axes.set_xlim(0, self.place(self.edges_s[-1]))
        axes.set_xlabel(f"Time since the first submission ({self.unit.name})")


def long_unit(span_s: float) -> Unit:
    """Return the longest unit of time that fits at least twice into a time span."""
    return next((unit for unit in UNITS if span_s >= SHORTEST_IN_UNITS * unit.seconds), UNITS[-1])
