"""How queuing times and JCTs are spread over the jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.experiments.simulation.measuring.measures import DAY_S, HOUR_S, MINUTE_S
from lyra_opt.experiments.simulation.showing.axes import (
    add_side_legend,
    plot_of,
    scheme_line,
    scheme_mark,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from lyra_opt.experiments.plots.figures import Plot
    from lyra_opt.experiments.simulation.measuring.measures import VariantRuns
    from lyra_opt.experiments.simulation.running.replays import Replays

NEARLY_NONE = 0.01
LEAST_SHOWN_S = 1.0
"""Left end of logarithmic time axes; jobs that wait less are counted there."""

RIGHT_MARGIN = 1.3
"""Right end of logarithmic time axes over the longest time."""

DURATIONS_S = {
    1: "1 s",
    10: "10 s",
    MINUTE_S: "1 min",
    10 * MINUTE_S: "10 min",
    HOUR_S: "1 h",
    10 * HOUR_S: "10 h",
    4 * DAY_S: "4 d",
    40 * DAY_S: "40 d",
    400 * DAY_S: "400 d",
}

MARKS = 5
"""Marks on each line."""

SIZE_INCHES = (9.6, 3.4)


def points(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return at most 400 points of the cumulative distribution, closer together in the tail.

    The share at a point is that of the values up to it.
    """
    shares = np.unique(np.concatenate((np.linspace(0, 1, 300), 1 - np.geomspace(1e-5, 0.1, 100))))
    ordered = np.sort(values)
    places = np.unique(np.ceil(shares * len(ordered)).astype(np.int64).clip(1, len(ordered)) - 1)
    return ordered[places], (places + 1) / len(ordered)


def distributions(replays: Replays, variant: VariantRuns, name: str) -> Plot:
    """Return the plot of both for a variant, a line per scheme.

    Parameters
    ----------
    name
        Of the file.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    draw_distributions(left, right, replays, variant)
    add_side_legend(figure, left)
    caption = (
        "How many jobs wait, or take from submission to completion, for so long at most: higher "
        "and further left is better. Jobs below the left end of an axis are counted where its "
        "lines begin."
    )
    if len(variant.seeds) > 1:
        caption += f" Jobs of all {len(variant.seeds)} seeds."
    title = variant.title("Queuing times and job completion times")
    return plot_of(figure, name, title, caption)


def draw_distributions(left: Axes, right: Axes, replays: Replays, variant: VariantRuns) -> None:
    """Draw queuing times on one panel and job completion times on another, of all seeds."""
    import pandas as pd

    schemes = replays.schemes
    jobs = {
        scheme: pd.concat([replays.jobs(run) for run in runs])
        for scheme, runs in variant.by_scheme.items()
    }
    for axes, label, column in (
        (left, "Queuing time", "queued_s"),
        (right, "Job completion time", "jct_s"),
    ):
        values_of = {scheme: table[column].to_numpy() for scheme, table in jobs.items()}
        longest_s = max(10 * LEAST_SHOWN_S, *(float(values.max()) for values in values_of.values()))
        first_s = _first_shown_s(list(values_of.values()))
        for place, (scheme, values) in enumerate(values_of.items()):
            style = scheme_line(scheme, schemes) | scheme_mark(scheme, schemes)
            ends_s = first_s, RIGHT_MARGIN * longest_s
            _draw(values, ends_s, place / len(values_of), axes, **style)
        axes.set_xlabel(f"{label} (logarithmic)")
        _duration_axis(axes, first_s, longest_s)
    left.set_ylabel("Share of jobs (%)")
    left.set_ylim(0, 101)


def _first_shown_s(values_of: Sequence[np.ndarray]) -> float:
    """Return the longest of `DURATIONS_S` that hardly any value of any run is below."""
    shortest_s = min(float(np.quantile(values, NEARLY_NONE)) for values in values_of)
    return max((LEAST_SHOWN_S, *(length_s for length_s in DURATIONS_S if length_s <= shortest_s)))


def _draw(
    values: np.ndarray, ends_s: tuple[float, float], phase: float, axes: Axes, **style: Any
) -> None:
    """Draw the distribution of a scheme, with marks from place to place.

    Parameters
    ----------
    ends_s
        Of the axis.
    phase
        Where between two marks of another scheme its own are, from 0 to 1: lines that coincide
        show both.
    """
    first_s, end_s = ends_s
    found, shares = points(values)
    below = float(np.mean(values < first_s))
    kept = found >= first_s
    xs = np.concatenate(([first_s], found[kept], [end_s]))
    ys = 100 * np.concatenate(([below], shares[kept], [1.0]))
    axes.step(xs, ys, where="post", **style | {"marker": "", "label": None})
    marked = first_s * (end_s / first_s) ** ((np.arange(MARKS) + 0.1 + 0.9 * phase) / MARKS)
    places = np.searchsorted(xs, marked, side="right") - 1
    axes.plot(marked, ys[places], **style | {"linestyle": "none", "label": None})
    axes.plot([], [], **style)  # for the legend


def _duration_axis(axes: Axes, first_s: float, longest_s: float) -> None:
    axes.set_xscale("log")
    end_s = RIGHT_MARGIN * longest_s
    ticks = [seconds for seconds in DURATIONS_S if first_s <= seconds <= end_s]
    axes.set_xticks(ticks, [DURATIONS_S[seconds] for seconds in ticks])
    axes.minorticks_off()
    axes.set_xlim(first_s, end_s)
