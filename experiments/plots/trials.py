"""Plot the trials of a tuning: the loss against the trial and the most important setting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.picture_styles import style_in_force
from lyra_opt.core.pictures import (
    COLOURS,
    as_written,
    drawn_in_words,
    make_logarithmic,
    note_below,
    record,
    shortened,
)
from lyra_opt.core.plotting import is_wide
from lyra_opt.experiments.plots.plot import Plot
from lyra_opt.experiments.plots.style import add_legend_of_all, new_grid
from lyra_opt.experiments.simulation.measuring.measures import measure_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes

    from lyra_opt.experiments.tuning.outcome import Found

PANEL_INCHES, LEGEND_INCHES = (4.4, 2.7), 1.4
MOST_POINTS, LONGEST_NAME = 4, 100
GROUPS = 4
"""The number of groups, by rank, into which the values of a setting are divided."""

TRIAL, BEST_SO_FAR = "trial", "best so far"


def importances(settings: pd.DataFrame, loss: pd.Series) -> pd.Series:
    """Return the importance of each setting, a column of `settings`, from 0 to 1, for the loss.

    It is the share of the variance of the ranks of the loss that lies between groups of trials with
    similar values of the setting. Ranks make it robust against extreme losses and infinite values,
    and groups find settings whose best value is in the middle of their range.
    """
    ranks = loss.rank()
    whole = ranks.var(ddof=0)

    def share(values: pd.Series) -> float:
        groups = np.ceil(GROUPS * values.rank(pct=True))
        return float(ranks.groupby(groups).transform("mean").var(ddof=0) / whole) if whole else 0.0

    return settings.apply(share)


def trials_plot(points: Sequence[Found]) -> Plot:
    """Return the plot of all trials, with two panels for each of the first points of a tuning."""
    from matplotlib.ticker import MaxNLocator

    drawn = points[: 1 if style_in_force().is_narrow else MOST_POINTS]
    figure, panels = new_grid(2 * len(drawn), 2, PANEL_INCHES, LEGEND_INCHES)
    first = 0  # trials are numbered as in the frame of all points
    for found, left, right in zip(drawn, panels[::2], panels[1::2], strict=True):
        trials, measure = found.tried.astype(float), found.table.measure
        settings = trials[list(found.values)]
        name, share = max(importances(settings, trials.loss).items(), key=lambda each: each[1])
        numbers = np.arange(first, first + len(trials))
        first += len(trials)
        dots: dict[str, Any] = {"linestyle": "", "color": COLOURS[0], "markersize": 4}
        for axes, xs in ((left, numbers), (right, _placed(settings[name], right))):
            axes.plot(xs, trials.loss, marker="o", alpha=0.6, label=TRIAL, **dots)
            best = trials.loss.argmin()
            star = dots | {"color": COLOURS[1], "marker": "*", "markersize": 10, "zorder": 3}
            axes.plot(xs[best], trials.loss[best], label="best", **star)
            if is_wide(trials.loss):
                make_logarithmic(axes.yaxis)
            else:
                axes.yaxis.set_major_formatter("{x:,g}")
            axes.set_ylabel(measure_named(measure).name if measure else "Distance from the targets")
        line: dict[str, Any] = {"linestyle": "--", "color": COLOURS[1], "label": BEST_SO_FAR}
        left.step(numbers, trials.loss.cummin(), where="post", **line)
        left.set_title(as_written(shortened(found.name, LONGEST_NAME)), loc="left")
        left.set_xlabel("Trial")
        left.xaxis.set_major_locator(MaxNLocator(integer=True))
        right.set_xlabel(as_written(f"{name} (explains {100 * share:.0f} %)"))
        record(figure, trials.assign(point=found.name, trial=numbers).to_dict("records"))
    add_legend_of_all(figure, panels, (TRIAL, "best", BEST_SO_FAR))
    note_below(figure, drawn_in_words(len(drawn), len(points), "point", "in file order"))
    caption = (
        "Left: trials in the order of the search. Right: the same trials over their most important "
        f"setting. It explains the given share of the variance of the ranks of the loss, between "
        f"{GROUPS} groups of trials with similar values."
    )
    return Plot("trials", "Trials", caption, figure)


def _placed(values: pd.Series, axes: Axes) -> np.ndarray:
    """Return the positions of values on the horizontal axis, with infinity at its right end."""
    from matplotlib.ticker import MaxNLocator

    is_finite = np.isfinite(values)
    if is_finite.all():
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))  # all settings are integers
        return np.asarray(values, dtype=float)
    greatest = max(1.0, float(values[is_finite].max()))  # 1 if no value is finite
    ticks = [
        tick for tick in MaxNLocator(5, integer=True).tick_values(0, greatest) if tick <= greatest
    ]
    end = 1.2 * greatest
    axes.set_xticks([*ticks, end], [*(f"{tick:g}" for tick in ticks), "inf"])
    return np.asarray(values.where(is_finite, end), dtype=float)
