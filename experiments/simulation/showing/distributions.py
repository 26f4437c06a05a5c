"""Plot the distributions of queuing times and job completion times (JCT) over the jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.numbers import DAY_S, HOUR_S, MINUTE_S, UNITS
from lyra_opt.core.picture_styles import style_in_force
from lyra_opt.core.pictures import note_below, record
from lyra_opt.experiments.plots.plot import Plot
from lyra_opt.experiments.plots.style import new_row
from lyra_opt.experiments.simulation.showing.axes import add_side_legend, scheme_line, scheme_mark

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from lyra_opt.experiments.simulation.measuring.measures import VariantRuns
    from lyra_opt.experiments.simulation.running.replays import Replays

NEARLY_NONE = 0.01
LEAST_SHOWN_S = 1.0
"""Least left end of a logarithmic time axis; shorter times are counted there."""

RIGHT_MARGIN = 1.3
DURATIONS_S = (
    *(1, 10, MINUTE_S, 10 * MINUTE_S, HOUR_S, 10 * HOUR_S),
    *(4 * DAY_S, 40 * DAY_S, 400 * DAY_S),
)
FURTHER_S = (
    *(2, 5, 20, 2 * MINUTE_S, 5 * MINUTE_S, 20 * MINUTE_S, 2 * HOUR_S, 5 * HOUR_S),
    *(DAY_S, 2 * DAY_S, 10 * DAY_S, 20 * DAY_S, 100 * DAY_S, 200 * DAY_S),
)
"""Ticks of a short time axis, between `DURATIONS_S`."""

SHORT_AXIS, SHORTEST_AXIS = 30.0, 2.5
"""Ratios of the ends of a short axis and of the shortest one, which has at least two ticks."""

LEAST_CUT_PERCENT = 40
"""The axis of shares begins above 0 if all curves begin above this share."""

MARKS_PER_LINE = 5
SIZE_INCHES = (9.6, 3.4)


def points(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return at most 400 points of the cumulative distribution, denser in the tail.

    The two arrays hold values, and for each value the share of all values up to it.
    """
    shares = np.unique(np.concatenate((np.linspace(0, 1, 300), 1 - np.geomspace(1e-5, 0.1, 100))))
    ordered = np.sort(values)
    ranks = np.unique(np.ceil(shares * len(ordered)).astype(np.int64).clip(1, len(ordered)))
    return ordered[ranks - 1], ranks / len(ordered)


def distributions(replays: Replays, variant: VariantRuns, name: str) -> Plot:
    """Return the plot of the distributions of queuing time and JCT for one variant of a scenario.

    ``name`` is the file name of the plot.
    """
    figure, (left, right) = new_row(2, SIZE_INCHES)
    draw_distributions(left, right, replays, variant)
    add_side_legend(figure, left)
    note_below(figure, f"Drawn: {variant.name}" * bool(variant.name), variant.lacking_in_words)
    caption = (
        "Share of the jobs whose time is at most the value on the axis: higher and further left is "
        "better."
    )
    title = variant.title("Queuing times and job completion times")
    return Plot(name, title, caption, figure)


def draw_distributions(left: Axes, right: Axes, replays: Replays, variant: VariantRuns) -> None:
    """Draw queuing times on the left panel and job completion times on the right, of all seeds."""
    import pandas as pd

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
        shortest_s = min(float(np.quantile(each, NEARLY_NONE)) for each in values_of.values())
        # The time axis begins at the longest tick that is shorter than nearly all values.
        first_s = max((LEAST_SHOWN_S, *(tick_s for tick_s in DURATIONS_S if tick_s <= shortest_s)))
        end_s = max(RIGHT_MARGIN * longest_s, SHORTEST_AXIS * first_s)
        shares = [100 * float(np.mean(values < first_s)) for values in values_of.values()]
        # If most jobs do not wait, the curves would fill only the top of a whole axis.
        bottom = min(10 * (min(shares) // 10), 90) if min(shares) >= LEAST_CUT_PERCENT else 0
        for number, (scheme, values) in enumerate(values_of.items()):
            style = scheme_line(scheme, replays.schemes) | scheme_mark(scheme, replays.schemes)
            _draw(values, (first_s, end_s), number / len(values_of), axes, **style)
            words = {"variant": variant.name, "scheme": scheme, "measure": label.lower()}
            record(
                axes,
                (
                    {**words, "at_most_s": float(time_s), "share_percent": 100 * float(share)}
                    for time_s, share in zip(*points(values), strict=True)
                ),
            )
        axes.set_title(", ".join(filter(None, (label, variant.seeds_in_words))))
        axes.set_xlabel(f"Time (logarithmic; {_in_words(first_s)} or less at the left end)")
        axes.set_xscale("log")
        marked = (*DURATIONS_S, *(FURTHER_S if end_s < SHORT_AXIS * first_s else ()))
        ticks = [tick_s for tick_s in sorted(marked) if first_s <= tick_s <= end_s]
        axes.set_xticks(ticks, [_in_words(tick_s) for tick_s in ticks])
        axes.minorticks_off()
        axes.set_xlim(first_s, end_s)
        axes.set_ylim(bottom, 100 + (100 - bottom) / 100)
        if axes is left or style_in_force().is_narrow:
            axes.set_ylabel("Share of jobs (%)")


def _in_words(time_s: float) -> str:
    unit = next(unit for unit in UNITS if time_s >= unit.seconds)
    return f"{time_s / unit.seconds:g} {unit.symbol}"


def _draw(
    values: np.ndarray, ends_s: tuple[float, float], phase: float, axes: Axes, **style: Any
) -> None:
    """Draw the distribution of a scheme, with marks.

    ``phase``, from 0 to 1, shifts the marks, so that the marks of coinciding lines do not coincide.
    """
    first_s, end_s = ends_s
    found, shares = points(values)
    below = float(np.mean(values < first_s))
    kept = found >= first_s
    xs = np.concatenate(([first_s], found[kept], [end_s]))
    ys = 100 * np.concatenate(([below], shares[kept], [1.0]))
    axes.step(xs, ys, where="post", **style | {"marker": "", "label": None})
    shifted = (np.arange(MARKS_PER_LINE) + 0.1 + 0.9 * phase) / MARKS_PER_LINE
    marked = first_s * (end_s / first_s) ** shifted
    heights = ys[np.searchsorted(xs, marked, side="right") - 1]
    axes.plot(marked, heights, **style | {"linestyle": "none", "label": None})
    axes.plot([], [], **style)  # for the legend
