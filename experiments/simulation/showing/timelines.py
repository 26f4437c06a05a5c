"""Plots over time: held GPUs and waiting jobs, and the jobs one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lyra_opt.core.errors import UserError
from lyra_opt.core.numbers import DAY_S, HOUR_S
from lyra_opt.core.picture_styles import style_in_force
from lyra_opt.core.pictures import as_written, legend_above, note_below
from lyra_opt.experiments.plots.plot import Plot
from lyra_opt.experiments.plots.style import columns_of, new_grid, new_panels, record_columns
from lyra_opt.experiments.simulation.running.replay import step_means
from lyra_opt.experiments.simulation.showing.axes import (
    OWN_GPUS_LINE,
    TimeAxis,
    long_unit,
    panel_grid,
    scheme_colour,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from lyra_opt.experiments.records import ReplayRecord
    from lyra_opt.experiments.simulation.measuring.measures import VariantRuns
    from lyra_opt.experiments.simulation.running.replays import Replays

SCHEMES_PER_ROW = 3
WIDTHS_INCHES = (7.0, 9.9, 9.9)
LEGEND_INCHES = 0.5
ROW_INCHES = (2.1, 1.2)
FILLS = ("#7f9cc0", "#b5c7a3", "#dcc48e", "#c3a6c8", "#9fc9c9", "#c9b7a7")
"""Colours of GPU types, paler than the colours of schemes so that they are not confused."""

SUBMITTED_LINE: dict[str, Any] = {"color": "#808080", "linewidth": 0.8, "linestyle": "--"}
LOAN_FILL, WAITING_FILL, HANDED_OVER_FILL = "#efc08a", "#d98c8c", "#cfcfcf"
LEAST_SHARE = 1e-3
"""Layers below this share of the cluster, and stripes below this share of a bar, are left out."""

MOST_JOBS = 60
GANTTS_PER_ROW = 4
WIDTH_INCHES = 9.9
JOB_INCHES, FRAME_INCHES = 0.105, 1.2
PALE = 0.22
"""Opacity of the time before a job first runs."""

DARKNESS = {
    1: (0.4, "runs, 1 GPU"),
    2: (0.62, "2 to 7 GPUs"),
    8: (0.82, "8 to 31 GPUs"),
    32: (1.0, "32 GPUs or more"),
}
"""Opacity and label of a bar, by the least number of GPUs of its job."""

WAITS, WAITS_AGAIN = "waits for its first start", "share of the bar without GPUs"
ON_LOAN = "ran on loaned servers too"
EDGE = "#222222"
BAR_HEIGHT, STRIPE_HEIGHT, STRIPE_POINTS = 0.82, 0.2, 1.5

OF_JOB = ("job_id", "gpus", "submit_s", "start_s", "completion_s", "queued_s", "ran_on_loan")
"""Columns of the data of the plot of single jobs."""


def layers(run: ReplayRecord, series: pd.DataFrame) -> dict[str, tuple[np.ndarray, str]]:
    """Return the layers of a stacked plot of held GPUs over time, as numbers and colour by name.

    The layers are held own GPUs by type, held GPUs on loan, and GPUs that are handed over. If
    communication slows jobs down on a cluster with one GPU type, the first layers are computing
    GPUs and GPUs that wait for the network.
    """
    own, lent = run.setting["own_gpus"], run.setting["lent_gpus_per_server"]
    found: dict[str, tuple[np.ndarray, str]] = {}
    waiting = series.own_gpus_held + series.gpus_held_on_loan - series.gpus_computing
    gpus = sum(own.values())
    if len(own) == 1 and not lent and float(waiting.max()) > LEAST_SHARE * gpus:
        found["computing"] = series.gpus_computing.to_numpy(), FILLS[0]
        found["waiting for the network"] = waiting.to_numpy(), WAITING_FILL
    else:
        for number, name in enumerate(own):
            label = f"held, own {name}" if lent else f"held, {name}" if len(own) > 1 else "held"
            held = series[f"gpus_held_{name}"].to_numpy()
            found[label] = held, FILLS[number % len(FILLS)]
        for name in lent:
            found[f"held, {name} on loan"] = series.gpus_held_on_loan.to_numpy(), LOAN_FILL
    if float(series.gpus_handed_over.max()) > LEAST_SHARE * gpus:
        found["handed over"] = series.gpus_handed_over.to_numpy(), HANDED_OVER_FILL
    return found


def over_time(replays: Replays, variant: VariantRuns, name: str) -> Plot:
    """Return the plot of GPUs and waiting jobs over time, with two panels per scheme.

    It shows the first seed of the variant; ``name`` is the plot's file name.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    runs, schemes = variant.of_first_seed, replays.schemes
    axis = TimeAxis(replays, runs)
    last = axis.place(axis.last_submission_s)
    blocks, columns = panel_grid(len(runs), columns_of(SCHEMES_PER_ROW))
    inches = WIDTHS_INCHES[columns - 1], sum(ROW_INCHES) * blocks + LEGEND_INCHES
    figure, grid = new_panels(
        2 * blocks, columns, inches, sharex=True, height_ratios=ROW_INCHES * blocks
    )
    pairs = [
        grid[2 * block : 2 * block + 2, column] for block, column in np.ndindex(blocks, columns)
    ]
    fills: dict[str, str] = {}
    has_loans = False
    for (upper, lower), (label, run) in zip(pairs, runs.items(), strict=False):
        series, colour = axis.series[label], scheme_colour(label, schemes)
        fills |= _draw_layers(upper, axis, label, layers(run, series))
        own = float(sum(run.setting["own_gpus"].values()))
        (gpus_per_server,) = run.setting["lent_gpus_per_server"].values() or (0.0,)
        available = own + gpus_per_server * series.servers_on_loan.to_numpy()
        edges, means = axis.binned(series, available)
        upper.stairs(means, edges, baseline=None, color="#222222", linewidth=0.9)
        axis.record(upper, edges, means, "gpus", scheme=label, layer="available GPUs")
        if np.ptp(available) > 0:
            has_loans = True
            upper.axhline(own, **OWN_GPUS_LINE)
        edges, means = axis.binned(series, series.queued_jobs)
        lower.stairs(means, edges, fill=True, color=colour)
        axis.record(lower, edges, means, "waiting_jobs", scheme=label)
        upper.set_title(as_written(label), color=colour, weight="bold")
        if last > 0:
            for axes in (upper, lower):
                axes.axvline(last, zorder=3, **SUBMITTED_LINE)
    for panel in (panel for pair in pairs[len(runs) :] for panel in pair):
        panel.remove()
    _finish(axis, pairs[: len(runs)], columns)
    handles: list[Artist] = [
        Patch(color=colour, label=as_written(label)) for label, colour in fills.items()
    ]
    handles.append(Line2D([], [], color="#222222", linewidth=0.9, label="available GPUs"))
    if has_loans:
        handles.append(Line2D([], [], **OWN_GPUS_LINE))
    if last > 0:
        handles.append(Line2D([], [], label="last submission", **SUBMITTED_LINE))
    legend_above(figure, handles)
    drawn = variant.title("", variant.first_seed_in_words)
    note_below(figure, f"Drawn: {drawn}" if drawn else "", axis.note)
    caption = f"Upper panels: held GPUs. Lower panels: waiting jobs. {axis.caption}"
    title = variant.title("GPUs and queue over time", variant.first_seed_in_words)
    return Plot(name, title, caption, figure)


def _draw_layers(
    axes: Axes, axis: TimeAxis, scheme: str, parts: Mapping[str, tuple[np.ndarray, str]]
) -> dict[str, str]:
    """Draw the stacked layers of a scheme; return the colours by name."""
    below: np.ndarray | float = 0.0
    for name, (values, colour) in parts.items():
        edges, means = axis.binned(axis.series[scheme], values)
        axis.record(axes, edges, means, "gpus", scheme=scheme, layer=name)
        axes.stairs(below + means, edges, baseline=below, fill=True, color=colour, linewidth=0)
        below = below + means
    return {name: colour for name, (_, colour) in parts.items()}


def _finish(axis: TimeAxis, pairs: Sequence[np.ndarray], columns: int) -> None:
    """Use one scale for all panels of GPUs and one for all panels of waiting jobs.

    Only the outer panels get labels.
    """
    from matplotlib.ticker import MaxNLocator

    for kind, label, least in ((0, "GPUs", 0.0), (1, "Jobs waiting", 1.0)):
        panels = [pair[kind] for pair in pairs]
        top = max(least, *(axes.get_ylim()[1] for axes in panels))
        for number, axes in enumerate(panels):
            axes.set_ylim(0, top)
            axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
            axes.yaxis.set_major_formatter("{x:,.0f}")
            if number % columns == 0:
                axes.set_ylabel(label)
            else:
                axes.tick_params(labelleft=False)
    for number, (_, axes) in enumerate(pairs):
        is_lowest = number + columns >= len(pairs)
        axis.finish(axes)
        if not is_lowest:
            axes.set_xlabel("")
        axes.tick_params(labelbottom=is_lowest)


class Window(NamedTuple):
    """The time interval that the plot of single jobs shows, in seconds since workload time 0.

    ``first_s`` is the first submission.
    """

    from_s: float
    until_s: float
    first_s: float

    def in_words(self) -> str:
        """Return the interval in hours since the first submission."""
        ends = ((end - self.first_s) / HOUR_S for end in (self.from_s, self.until_s))
        first, last = (f"{end:,.2f}".rstrip("0").rstrip(".") for end in ends)
        return f"hours {first} to {last}"


def window_of(series: Sequence[pd.DataFrame], window_h: tuple[float, float] | None) -> Window:
    """Return the window of the plot of single jobs: the requested hours, or the busiest day.

    The busiest day has the most waiting and running jobs, averaged over schemes; days start at the
    first submission. If a run is shorter than two days, the window has at most two days from the
    start.
    """
    first_s = float(series[0].time_s.iloc[0])
    if window_h is not None:
        return Window(first_s + window_h[0] * HOUR_S, first_s + window_h[1] * HOUR_S, first_s)
    runs_s = [float(table.time_s.iloc[-1]) - first_s for table in series]
    if min(runs_s) < 2 * DAY_S:
        return Window(first_s, first_s + min(max(runs_s), 2 * DAY_S), first_s)
    edges_s = first_s + DAY_S * np.arange(int(min(runs_s) // DAY_S) + 1.0)
    jobs = sum(
        step_means(
            table.time_s.to_numpy(), (table.queued_jobs + table.running_jobs).to_numpy(), edges_s
        )
        for table in series
    )
    day = int(np.argmax(jobs))
    return Window(float(edges_s[day]), float(edges_s[day + 1]), first_s)


def gantt(
    replays: Replays,
    variant: VariantRuns,
    name: str,
    *,
    window_h: tuple[float, float] | None = None,
) -> Plot:
    """Return the Gantt chart of single jobs; each job has the same row under all schemes.

    It shows the first seed of the variant; ``name`` is the plot's file name. For ``window_h`` see
    `lyra_opt.experiments.simulation.showing.report.write_report`.

    Raises
    ------
    UserError
        If no job waits or runs in the window.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    runs = variant.of_first_seed
    window = window_of([replays.series(run) for run in runs.values()], window_h)
    jobs = {scheme: replays.jobs(run) for scheme, run in runs.items()}
    chosen, present = chosen_jobs(jobs, window)
    if not chosen:
        raise UserError(f"no job waits or runs in {window.in_words()}")
    blocks, columns = panel_grid(len(jobs), columns_of(GANTTS_PER_ROW))
    height = max(1.4, JOB_INCHES * len(chosen))
    inches = WIDTH_INCHES / columns, height + FRAME_INCHES / 2 * (1 + 1 / blocks)
    figure, panels = new_grid(len(jobs), columns, inches, sharex=True, sharey=True)
    # Some space between panels keeps the tick labels of neighbouring panels from touching.
    figure.set_layout_engine("constrained", wspace=0.05)
    unit = long_unit(window.until_s - window.first_s)
    seen: set[str] = set()
    for number, ((scheme, table), axes) in enumerate(zip(jobs.items(), panels, strict=True)):
        colour = scheme_colour(scheme, replays.schemes)
        rows = table.set_index("job_id", drop=False).loc[chosen]
        seen |= _draw_jobs(axes, rows, window, unit.seconds, colour)
        names = {name: name for name in OF_JOB}
        record_columns(axes, rows.assign(gpus=_gpus(rows)), names, scheme=scheme)
        axes.set_title(as_written(scheme), color=colour, weight="bold")
        axes.grid(visible=False, axis="y")
        axes.set_yticks([])
        if number % columns == 0:
            axes.set_ylabel("Jobs")
        is_lowest = number + columns >= len(jobs)
        axes.tick_params(labelbottom=is_lowest)
        if is_lowest:
            axes.set_xlabel(f"Time since the first submission ({unit.name})")
    panels[0].set_xlim(
        (window.from_s - window.first_s) / unit.seconds,
        (window.until_s - window.first_s) / unit.seconds,
    )
    panels[0].set_ylim(len(chosen) - 0.3, -0.7)
    fills = [(PALE, WAITS), *DARKNESS.values()]
    grey: dict[str, Any] = {"color": "#444444", "lw": 0}
    handles: list[Artist] = [Patch(**grey, alpha=alpha, label=label) for alpha, label in fills]
    handles.append(Line2D([], [], color=EDGE, lw=STRIPE_POINTS, label=WAITS_AGAIN))
    handles.append(Patch(facecolor="none", edgecolor=EDGE, lw=0.6, label=ON_LOAN))
    legend_above(figure, [each for each in handles if each.get_label() in seen])
    which = (
        f"all {present:,} jobs that run"
        if present == len(chosen)
        else f"the {len(chosen)} jobs, of {present:,}, that hold the most GPU time"
    )
    drawn = f"Drawn: {which} in {window.in_words()} under at least one scheme"
    order = f"Sorted by their start under {next(iter(jobs))}"
    note_below(figure, variant.title(drawn, variant.first_seed_in_words), order)
    caption = (
        "Each job has the same row under all schemes. A bar reaches from the first start to the "
        "completion; the pale part before it is waiting. Darker bars request more GPUs. A black "
        "line shows the share of the bar in which the job had lost its GPUs and waited again; "
        "its position has no meaning."
    )
    title = variant.title(f"Jobs in {window.in_words()}", variant.first_seed_in_words)
    return Plot(name, title, caption, figure)


def chosen_jobs(jobs: Mapping[str, pd.DataFrame], window: Window) -> tuple[list[str], int]:
    """Return the ids of the jobs to draw, sorted by start, and the number of candidate jobs.

    Candidates hold GPUs in the window under a scheme. At most `MOST_JOBS` are drawn: those with the
    most GPU time in the window over all schemes. A job's GPU time counts as spread evenly from
    start to completion.
    """
    weights: dict[str, float] = {}
    for table in jobs.values():
        start, completion = table.start_s.to_numpy(), table.completion_s.to_numpy()
        overlap_s = np.minimum(completion, window.until_s) - np.maximum(start, window.from_s)
        share = np.clip(overlap_s, 0, None) / np.maximum(completion - start, 1e-9)
        for job, weight in zip(table.job_id, share * table.held_gpu_s, strict=True):
            if weight > 0:
                weights[job] = weights.get(job, 0.0) + weight
    most = min(MOST_JOBS, style_in_force().most_rows)
    kept = sorted(weights, key=weights.__getitem__, reverse=True)[:most]
    first = next(iter(jobs.values())).set_index("job_id").start_s
    return sorted(kept, key=first.__getitem__), len(weights)


def _gpus(rows: pd.DataFrame) -> pd.Series:
    """Return the number of GPUs that each job requests at least."""
    return rows.min_workers * rows.gpus_per_worker


def _draw_jobs(
    axes: Axes, rows: pd.DataFrame, window: Window, unit_s: float, colour: str
) -> set[str]:
    """Draw the bars of the jobs; return the labels of what is drawn."""
    seen = set()
    gpus = _gpus(rows)
    # Fraction of a job's time from first start to completion that the job spends waiting.
    waited_s = rows.queued_s - (rows.start_s - rows.submit_s)
    shares = waited_s / np.maximum(rows.completion_s - rows.start_s, 1e-9)
    for height, (row, asked, share) in enumerate(zip(rows.itertuples(), gpus, shares, strict=True)):
        submit, start, end = (
            (min(max(time_s, window.from_s), window.until_s) - window.first_s) / unit_s
            for time_s in (row.submit_s, row.start_s, row.completion_s)
        )
        bar = height, end - start, BAR_HEIGHT, start
        darkness, label = DARKNESS[max(least for least in DARKNESS if asked >= least)]
        if start > submit:
            pale = height, start - submit, BAR_HEIGHT, submit
            axes.barh(*pale, color=colour, alpha=PALE, linewidth=0)
            seen.add(WAITS)
        if end > start:
            axes.barh(*bar, color=colour, alpha=darkness, linewidth=0)
            seen.add(label)
            if row.ran_on_loan:
                axes.barh(*bar, fill=False, edgecolor=EDGE, linewidth=0.6)
                seen.add(ON_LOAN)
            if share > LEAST_SHARE:
                stripe = height, share * (end - start), STRIPE_HEIGHT, start
                axes.barh(*stripe, color=EDGE, linewidth=0)
                seen.add(WAITS_AGAIN)
    return seen
