"""The cluster over time under each scheme: who holds its GPUs, and how many jobs wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.pictures import as_written, legend_above, svg_text
from lyra_opt.experiments.plots.figures import Plot
from lyra_opt.experiments.simulation.plots.schemes import scheme_colour
from lyra_opt.experiments.simulation.plots.time_axis import TimeAxis

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from lyra_opt.experiments.records import ReplayRecord
    from lyra_opt.experiments.simulation.runs import Replays

SCHEMES_A_ROW = 3
WIDTHS_INCHES = (7.0, 9.9, 9.9)
LEGEND_INCHES = 0.5
ROW_INCHES = (2.1, 1.2)

FILLS = ("#7f9cc0", "#b5c7a3", "#dcc48e", "#c3a6c8", "#9fc9c9", "#c9b7a7")
"""Of GPU types: paler than the colours of schemes, so that nobody takes one for the other."""
LOAN_FILL = "#efc08a"
WAITING_FILL = "#d98c8c"
HANDED_OVER_FILL = "#cfcfcf"
GREY = "#808080"

LEAST_SHARE = 1e-3
"""Share of the cluster below which a layer is left out."""

HELD, LOAN = "gpus_held_", "on loan"


def layers(run: ReplayRecord, series: pd.DataFrame) -> dict[str, tuple[np.ndarray, str]]:
    """Return what lies one upon the other over time: GPUs and the colour of each layer, by name.

    Own GPUs that jobs hold by type, then those on loan; on a cluster of one type whose network
    costs speed, those that compute and those that wait for it instead; then those handed over.
    """
    own, lent = run.setting["own_gpus"], run.setting["lent_gpus_per_server"]
    found: dict[str, tuple[np.ndarray, str]] = {}
    waiting = series.own_gpus_held + series.gpus_held_on_loan - series.gpus_computing
    gpus = sum(own.values())
    if len(own) == 1 and not lent and float(waiting.max()) > LEAST_SHARE * gpus:
        found["computing"] = series.gpus_computing.to_numpy(), FILLS[0]
        found["waiting for the network"] = waiting.to_numpy(), WAITING_FILL
    else:
        for place, name in enumerate(own):
            label = f"held, {name}" if len(own) > 1 else "held"
            if lent:
                label = f"held, own {name}"
            found[label] = series[f"{HELD}{name}"].to_numpy(), FILLS[place % len(FILLS)]
        for name in lent:
            found[f"held, {name} on loan"] = series.gpus_held_on_loan.to_numpy(), LOAN_FILL
    if float(series.gpus_handed_over.max()) > LEAST_SHARE * gpus:
        found["handed over"] = series.gpus_handed_over.to_numpy(), HANDED_OVER_FILL
    return found


def capacity(run: ReplayRecord, series: pd.DataFrame) -> np.ndarray:
    """Return the GPUs there are over time: own ones, and those on loan."""
    own = float(sum(run.setting["own_gpus"].values()))
    (gpus_per_server,) = run.setting["lent_gpus_per_server"].values() or (0.0,)
    there: np.ndarray = own + gpus_per_server * series.servers_on_loan.to_numpy()
    return there


def over_time(
    replays: Replays,
    runs: Mapping[str, ReplayRecord],
    schemes: Sequence[str],
    *,
    name: str,
    title: str,
) -> Plot:
    """Return the plot.

    Parameters
    ----------
    replays
        Of the page.
    runs
        One run a scheme, of one variant and seed.
    schemes
        All schemes of the page, in order.
    name, title
        Of the plot.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    series = {label: replays.series(run) for label, run in runs.items()}
    last_s = max(run.setting["last_submission_s"] for run in runs.values())
    axis = TimeAxis(
        list(runs), list(series.values()), [replays.jobs(run) for run in runs.values()], last_s
    )
    blocks = -(-len(runs) // SCHEMES_A_ROW)
    columns = -(-len(runs) // blocks)
    figure = Figure(
        figsize=(
            WIDTHS_INCHES[columns - 1],
            sum(ROW_INCHES) * blocks + LEGEND_INCHES,
        ),
        layout="constrained",
    )
    grid = figure.subplots(
        2 * blocks,
        columns,
        sharex=True,
        sharey=False,
        squeeze=False,
        height_ratios=ROW_INCHES * blocks,
    )
    fills: dict[str, str] = {}
    has_loans = False
    for place, (label, run) in enumerate(runs.items()):
        block, column = divmod(place, columns)
        upper, lower = grid[2 * block, column], grid[2 * block + 1, column]
        fills |= _held(upper, axis, series[label], layers(run, series[label]))
        there = capacity(run, series[label])
        edges, means = axis.binned(series[label], there)
        upper.stairs(means, edges, baseline=None, color="#222222", linewidth=0.9)
        own = sum(run.setting["own_gpus"].values())
        if np.ptp(there) > 0:
            has_loans = True
            upper.axhline(own, color="#222222", linewidth=0.8, linestyle=(0, (1, 1.5)))
        edges, means = axis.binned(series[label], series[label].queued_jobs)
        lower.stairs(means, edges, fill=True, color=scheme_colour(label, schemes))
        upper.set_title(as_written(label), color=scheme_colour(label, schemes), weight="bold")
        for axes in (upper, lower):
            if axis.place(last_s) > 0:
                axes.axvline(axis.place(last_s), color=GREY, lw=0.8, ls=":", zorder=3)
            if column:
                axes.tick_params(labelleft=False)
    for place in range(len(runs), blocks * columns):
        block, column = divmod(place, columns)
        for row in (2 * block, 2 * block + 1):
            grid[row, column].remove()
    _finish(axis, grid, len(runs), columns)
    handles: list[Artist] = [
        Patch(color=colour, label=as_written(label)) for label, colour in fills.items()
    ]
    handles.append(Line2D([], [], color="#222222", linewidth=0.9, label="GPUs there are"))
    if has_loans:
        handles.append(Line2D([], [], color="#222222", lw=0.8, ls=(0, (1, 1.5)), label="own GPUs"))
    legend_above(figure, handles)
    caption = f"Above who holds the GPUs, below how many jobs wait. {axis.caption}"
    if axis.place(last_s) > 0:
        caption += " The dotted upright line is the last submission; what comes after only drains."
    return Plot(name, title, caption, svg_text(figure, name.replace("_", "-")))


def _held(
    axes: Axes, axis: TimeAxis, series: pd.DataFrame, parts: Mapping[str, tuple[np.ndarray, str]]
) -> dict[str, str]:
    """Draw layers one upon the other; return their colours."""
    below: np.ndarray | float = 0.0
    for values, colour in parts.values():
        edges, means = axis.binned(series, values)
        axes.stairs(below + means, edges, baseline=below, fill=True, color=colour, linewidth=0)
        below = below + means
    return {name: colour for name, (_, colour) in parts.items()}


def _finish(axis: TimeAxis, grid: np.ndarray, count: int, columns: int) -> None:
    """Give panels of one kind one axis, and label the outer ones."""
    from matplotlib.ticker import MaxNLocator

    drawn = [divmod(place, columns) for place in range(count)]
    for kind, label, least in ((0, "GPUs", 0.0), (1, "Jobs waiting", 1.0)):
        panels = [grid[2 * block + kind, column] for block, column in drawn]
        top = max(least, *(axes.get_ylim()[1] for axes in panels))
        for axes in panels:
            axes.set_ylim(0, top)
            axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
            axes.yaxis.set_major_formatter("{x:,.0f}")
        for (_, column), axes in zip(drawn, panels, strict=True):
            if column == 0:
                axes.set_ylabel(label)
    for block, column in drawn:
        is_lowest = (block + 1) * columns + column >= count
        axes = grid[2 * block + 1, column]
        axis.finish(axes)
        if not is_lowest:
            axes.set_xlabel("")
        axes.tick_params(labelbottom=is_lowest)
