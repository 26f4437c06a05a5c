"""Plots over time: who holds the GPUs and how many jobs wait, and the jobs one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.errors import UserError
from lyra_opt.core.pictures import as_written, legend_above
from lyra_opt.experiments.simulation.measuring.measures import DAY_S, HOUR_S
from lyra_opt.experiments.simulation.running.replay import step_means
from lyra_opt.experiments.simulation.showing.axes import (
    OWN_GPUS_LINE,
    TimeAxis,
    long_unit,
    panel_grid,
    plot_of,
    scheme_colour,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from lyra_opt.experiments.plots.figures import Plot
    from lyra_opt.experiments.records import ReplayRecord
    from lyra_opt.experiments.simulation.measuring.measures import VariantRuns
    from lyra_opt.experiments.simulation.running.replays import Replays

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
"""Share of the cluster below which a layer is left out; of a bar, below which it has no stripe."""

HELD = "gpus_held_"

MOST_JOBS = 60
GANTTS_A_ROW = 4
WIDTH_INCHES = 9.9
JOB_INCHES = 0.105
FRAME_INCHES = 1.2

PALE = 0.22
"""Opacity of the time before a job first runs."""

WIDTHS = ((1, "1 GPU"), (2, "2 to 7"), (8, "8 to 31"), (32, "32 or more"))
DARKNESS = (0.4, 0.62, 0.82, 1.0)
"""Jobs of more GPUs are darker: opacity by place in `WIDTHS`."""

BAR, STRIPE = 0.82, 0.2
"""Heights of a bar, and of the white stripe in one."""


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


def over_time(replays: Replays, variant: VariantRuns, name: str) -> Plot:
    """Return the plot of a variant with its first seed: two panels per scheme.

    Parameters
    ----------
    name
        Of the file.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    runs, schemes = variant.of_first_seed, replays.schemes
    axis = TimeAxis(replays, runs)
    last = axis.place(axis.last_submission_s)
    blocks, columns = panel_grid(len(runs), SCHEMES_A_ROW)
    figure = Figure(
        figsize=(WIDTHS_INCHES[columns - 1], sum(ROW_INCHES) * blocks + LEGEND_INCHES),
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
        series, colour = axis.series[label], scheme_colour(label, schemes)
        fills |= _held(upper, axis, series, layers(run, series))
        there = capacity(run, series)
        edges, means = axis.binned(series, there)
        upper.stairs(means, edges, baseline=None, color="#222222", linewidth=0.9)
        if np.ptp(there) > 0:
            has_loans = True
            upper.axhline(sum(run.setting["own_gpus"].values()), **OWN_GPUS_LINE)
        edges, means = axis.binned(series, series.queued_jobs)
        lower.stairs(means, edges, fill=True, color=colour)
        upper.set_title(as_written(label), color=colour, weight="bold")
        for axes in (upper, lower):
            if last > 0:
                axes.axvline(last, color=GREY, lw=0.8, ls=":", zorder=3)
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
        handles.append(Line2D([], [], label="own GPUs", **OWN_GPUS_LINE))
    legend_above(figure, handles)
    caption = f"Above who holds the GPUs, below how many jobs wait. {axis.caption}"
    if last > 0:
        caption += " The dotted upright line is the last submission; what comes after only drains."
    title = variant.title("GPUs and queue over time", variant.first_seed_in_words)
    return plot_of(figure, name, title, caption)


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


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time, in seconds since time 0 of the workload.

    Parameters
    ----------
    from_s, until_s
        Its ends.
    first_s
        The first submission, from which people count.
    """

    from_s: float
    until_s: float
    first_s: float

    def in_words(self) -> str:
        """Return it in hours since the first submission."""
        ends = ((end - self.first_s) / HOUR_S for end in (self.from_s, self.until_s))
        first, last = (f"{end:,.2f}".rstrip("0").rstrip(".") for end in ends)
        return f"hours {first} to {last}"


def window_of(series: Sequence[pd.DataFrame], window_h: tuple[float, float] | None) -> Window:
    """Return what is drawn: what is asked for, or the busiest day of all runs together.

    The busiest day is the one with most jobs there, waiting or running, in the mean over schemes;
    days are counted from the first submission. Of a run of less than two days it is all.
    """
    first_s = float(series[0].time_s.iloc[0])
    if window_h is not None:
        return Window(first_s + window_h[0] * HOUR_S, first_s + window_h[1] * HOUR_S, first_s)
    shortest_s = min(float(table.time_s.iloc[-1]) for table in series) - first_s
    if shortest_s < 2 * DAY_S:
        longest_s = max(float(table.time_s.iloc[-1]) for table in series) - first_s
        return Window(first_s, first_s + min(longest_s, 2 * DAY_S), first_s)
    edges_s = first_s + DAY_S * np.arange(int(shortest_s // DAY_S) + 1.0)
    there = np.sum(
        [
            step_means(
                table.time_s.to_numpy(),
                (table.queued_jobs + table.running_jobs).to_numpy(),
                edges_s,
            )
            for table in series
        ],
        axis=0,
    )
    day = int(np.argmax(there))
    return Window(float(edges_s[day]), float(edges_s[day + 1]), first_s)


def gantt(
    replays: Replays,
    variant: VariantRuns,
    name: str,
    *,
    window_h: tuple[float, float] | None = None,
) -> Plot:
    """Return the plot of a variant with its first seed: each job has one row under all schemes.

    Parameters
    ----------
    name
        Of the file.
    window_h
        As of `lyra_opt.experiments.simulation.showing.report.write_report`.

    Raises
    ------
    UserError
        If no job is there in the window under any scheme.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    runs = variant.of_first_seed
    window = window_of([replays.series(run) for run in runs.values()], window_h)
    jobs = {scheme: replays.jobs(run) for scheme, run in runs.items()}
    chosen, there = chosen_jobs(jobs, window)
    if not chosen:
        raise UserError(f"no job waits or runs in {window.in_words()}")
    blocks, columns = panel_grid(len(jobs), GANTTS_A_ROW)
    height = max(1.4, JOB_INCHES * len(chosen))
    figure = Figure(
        figsize=(WIDTH_INCHES, blocks * (height + FRAME_INCHES / 2) + FRAME_INCHES / 2),
        layout="constrained",
    )
    # So that the last label of one axis keeps away from the first of the next.
    figure.set_layout_engine("constrained", wspace=0.05)
    grid = figure.subplots(blocks, columns, squeeze=False, sharex=True, sharey=True)
    unit = long_unit(window.until_s - window.first_s)
    for axes in list(grid.flat)[len(jobs) :]:
        axes.remove()
    for place, ((scheme, table), axes) in enumerate(zip(jobs.items(), grid.flat, strict=False)):
        colour = scheme_colour(scheme, replays.schemes)
        _draw_jobs(axes, table.set_index("job_id").loc[chosen], window, unit.seconds, colour)
        axes.set_title(as_written(scheme), color=colour, weight="bold")
        axes.grid(visible=False, axis="y")
        axes.set_yticks([])
        if place % columns == 0:
            axes.set_ylabel("Jobs, by start under " + as_written(next(iter(jobs))))
        axes.tick_params(labelbottom=place + columns >= len(jobs))
        if place + columns >= len(jobs):
            axes.set_xlabel(f"Since the first submission ({unit.name})")
    grid[0, 0].set_xlim(
        (window.from_s - window.first_s) / unit.seconds,
        (window.until_s - window.first_s) / unit.seconds,
    )
    grid[0, 0].set_ylim(len(chosen) - 0.3, -0.7)
    grey = "#444444"
    handles = [Patch(color=grey, alpha=PALE, linewidth=0, label="waits for its first start")]
    handles += [
        Patch(color=grey, alpha=alpha, linewidth=0, label=label)
        for alpha, (_, label) in zip(DARKNESS, WIDTHS, strict=True)
    ]
    if any(table.ran_on_loan.any() for table in jobs.values()):
        edge = Patch(facecolor="none", edgecolor="#222222", lw=0.6, label="ran on loan too")
        handles.append(edge)
    legend_above(figure, handles)
    which = (
        f"All {there:,} jobs that are there"
        if there == len(chosen)
        else f"Of {there:,} jobs that are there the {len(chosen)} that hold most GPU time"
    )
    caption = (
        f"{which} in {window.in_words()} under any scheme; each has the same row under all. A bar "
        "reaches from the start to the completion, pale before it where the job waits; the more "
        "GPUs it asks for, the darker. A white stripe in a bar means that the job lost its GPUs on "
        "the way and waited again: the share of the bar that the stripe covers, at whatever time."
    )
    title = variant.title(f"Jobs in {window.in_words()}", variant.first_seed_in_words)
    return plot_of(figure, name, title, caption)


def chosen_jobs(jobs: Mapping[str, pd.DataFrame], window: Window) -> tuple[list[str], int]:
    """Return the jobs that are drawn, by start under the first scheme, and how many are there.

    Of more than `MOST_JOBS` those that hold most GPU time in the window, over all schemes; a
    job's GPU time counts as spread evenly from start to completion.
    """
    weights: dict[str, float] = {}
    for table in jobs.values():
        start, completion = table.start_s.to_numpy(), table.completion_s.to_numpy()
        overlap_s = np.minimum(completion, window.until_s) - np.maximum(start, window.from_s)
        share = np.clip(overlap_s, 0, None) / np.maximum(completion - start, 1e-9)
        for job, weight in zip(table.job_id, share * table.held_gpu_s, strict=True):
            if weight > 0:
                weights[job] = weights.get(job, 0.0) + weight
    kept = sorted(weights, key=weights.__getitem__, reverse=True)[:MOST_JOBS]
    first = next(iter(jobs.values())).set_index("job_id").start_s
    return sorted(kept, key=first.__getitem__), len(weights)


def _draw_jobs(axes: Axes, rows: pd.DataFrame, window: Window, unit_s: float, colour: str) -> None:
    gpus = rows.min_workers * rows.gpus_per_worker
    # Waits after the first start, as a share of the time from there to completion.
    waited_s = rows.queued_s - (rows.start_s - rows.submit_s)
    shares = waited_s / np.maximum(rows.completion_s - rows.start_s, 1e-9)
    for place, (row, asked, share) in enumerate(zip(rows.itertuples(), gpus, shares, strict=True)):
        submit, start, end = (
            (min(max(moment, window.from_s), window.until_s) - window.first_s) / unit_s
            for moment in (row.submit_s, row.start_s, row.completion_s)
        )
        darkness = DARKNESS[sum(asked >= least for least, _ in WIDTHS) - 1]
        if start > submit:
            axes.barh(place, start - submit, BAR, submit, color=colour, alpha=PALE, linewidth=0)
        if end > start:
            axes.barh(place, end - start, BAR, start, color=colour, alpha=darkness, linewidth=0)
            if row.ran_on_loan:
                axes.barh(
                    place, end - start, BAR, start, fill=False, edgecolor="#222222", linewidth=0.6
                )
        if share > LEAST_SHARE and end > start:
            axes.barh(place, share * (end - start), STRIPE, start, color="white", linewidth=0)
