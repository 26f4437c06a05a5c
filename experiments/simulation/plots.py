"""The plots of a simulation: usage and queue over time, queuing times and JCTs, loans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.plots.figures import Plot
from experiments.plots.style import line_style, svg_text
from experiments.simulation.network_plots import network_costs
from experiments.simulation.replay import step_means
from experiments.simulation.setup import RACKS, TYPES
from lyra_opt.pictures import as_written, house_style

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from experiments.simulation.replay import Replay
    from lyra_opt.simulation.series import Series

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400

BIN_LENGTHS_S = (
    *(1, 10, MINUTE_S, 5 * MINUTE_S, 15 * MINUTE_S),
    *(HOUR_S, 3 * HOUR_S, 6 * HOUR_S, DAY_S),
)
MOST_BINS = 600

UNITS_S = {"days": DAY_S, "hours": HOUR_S, "minutes": MINUTE_S, "seconds": 1}
SHORTEST_IN_UNITS = 2

NEARLY_ALL = 0.99
"""Share of the jobs whose completion ends a run on time axes: a few long ones drain for days."""

LONGEST_SHOWN_RATIO = 1.5
"""How much longer than the shortest run time axes are, and how much more of the longest run there
must be for it to be cut off: a scheme that drains for ever would squeeze what matters."""

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

PANEL_INCHES = (9.0, 2.0)
DISTRIBUTIONS_INCHES = (9.4, 3.4)
LOANS_INCHES = (9.0, 3.0)

GREY = "#808080"


def draw_plots(replays: Sequence[Replay]) -> list[Plot]:
    """Return the plots of runs of one setup under different schemes."""
    with house_style():
        plots = [over_time(replays), distributions(replays)]
        if any(replay.borrows for replay in replays):
            plots.append(_loans(replays))
        if replays[0].setup.kind == RACKS:
            plots.append(network_costs(replays))
    return plots


def bin_length_s(makespan_s: float) -> int:
    """Return the shortest of `BIN_LENGTHS_S` of which `MOST_BINS` cover a run, or the longest."""
    return next(
        (length_s for length_s in BIN_LENGTHS_S if makespan_s <= MOST_BINS * length_s),
        BIN_LENGTHS_S[-1],
    )


def distribution(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return at most 600 points of the cumulative distribution, closer together in the tail.

    The share at a point is that of the values up to it.
    """
    shares = np.unique(np.concatenate((np.linspace(0, 1, 400), 1 - np.geomspace(1e-5, 0.1, 200))))
    ordered = np.sort(values)
    places = np.unique(np.ceil(shares * len(ordered)).astype(np.int64).clip(1, len(ordered)) - 1)
    return ordered[places], (places + 1) / len(ordered)


class _TimeAxis:
    """The bins that runs are averaged over, and their axis.

    Parameters
    ----------
    replays
        The runs that are drawn.
    """

    def __init__(self, replays: Sequence[Replay]) -> None:
        self.first_s = float(replays[0].series.time_s[0])
        runs_s = [_until_nearly_done_s(replay) for replay in replays]
        shown_s = max(
            replays[0].last_submission_s - self.first_s,
            min(max(runs_s), LONGEST_SHOWN_RATIO * min(runs_s)),
        )
        longest_s = max(replay.metrics.makespan_s for replay in replays)
        is_cut_off = longest_s > LONGEST_SHOWN_RATIO * shown_s
        if not is_cut_off:
            shown_s = longest_s
        self.length_s = bin_length_s(shown_s)
        self.edges_s = self.first_s + self.length_s * np.arange(
            1.0 + max(1, int(np.ceil(shown_s / self.length_s)))
        )
        self._unit = next(
            (name for name, unit_s in UNITS_S.items() if shown_s >= SHORTEST_IN_UNITS * unit_s),
            "seconds",
        )
        self.caption = f"Means over each {_in_words(self.length_s)}."
        if is_cut_off:
            self.caption += (
                f" Cut off on the right, where {100 * NEARLY_ALL:g} % of the jobs are complete"
            )
            late = [
                replay.scheme.name
                for replay, run_s in zip(replays, runs_s, strict=True)
                if run_s > shown_s
            ]
            if late:
                verb = "takes" if len(late) == 1 else "take"
                self.caption += f"; {', '.join(late)} {verb} longer for them"
            self.caption += "."

    def place(self, time_s: Any) -> Any:
        """Return where moments are on the axis."""
        return (time_s - self.first_s) / UNITS_S[self._unit]

    def draw(self, axes: Axes, series: Series, values: np.ndarray, **style: Any) -> None:
        """Draw the means of values over time, until the run ends."""
        bins = max(1, int(np.searchsorted(self.edges_s, series.time_s[-1])))
        edges_s = self.edges_s[: bins + 1]
        axes.stairs(step_means(series.time_s, values, edges_s), self.place(edges_s), **style)

    def finish(self, axes: Axes) -> None:
        """Set limits and label."""
        axes.set_xlim(0, self.place(self.edges_s[-1]))
        axes.set_xlabel(f"Time since the first submission ({self._unit})")


def _until_nearly_done_s(replay: Replay) -> float:
    """Return how long it takes from the first submission until nearly all jobs are complete."""
    complete_s = np.quantile(replay.outcomes.completion_s, NEARLY_ALL, method="higher")
    return float(complete_s) - replay.first_submission_s


def _in_words(length_s: int) -> str:
    name, unit_s = next(entry for entry in UNITS_S.items() if length_s >= entry[1])
    count = length_s // unit_s
    return name.removesuffix("s") if count == 1 else f"{count} {name}"


def over_time(replays: Sequence[Replay]) -> Plot:
    """Return the plot of what happens over time, one panel below the other."""
    from matplotlib.figure import Figure

    panels_of = [_panels(replay) for replay in replays]
    panels = panels_of[0]
    width, height = PANEL_INCHES
    figure = Figure(figsize=(width, height * len(panels)), layout="constrained")
    all_axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    time_axis = _TimeAxis(replays)
    for replay, values_of in zip(replays, panels_of, strict=True):
        for axes, values in zip(all_axes, values_of.values(), strict=True):
            time_axis.draw(axes, replay.series, values, **_line(replay, replays))
    for axes, name in zip(all_axes, panels, strict=True):
        axes.set_ylabel(name)
        axes.axvline(
            time_axis.place(replays[0].last_submission_s), color=GREY, lw=0.8, ls=":", zorder=1
        )
        # Where nobody ever waits, the axis would be one of hundredths of a job.
        axes.set_ylim(0, 104 if name.endswith("(%)") else max(1.0, axes.get_ylim()[1]))
    time_axis.finish(all_axes[-1])
    figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside right upper")
    return Plot(
        "over_time",
        "Usage and queue over time",
        f"{time_axis.caption} The dotted line is the last submission; what comes after it only "
        "drains.",
        svg_text(figure, "over-time"),
    )


def _panels(replay: Replay) -> dict[str, np.ndarray]:
    """Return what is drawn over time of a run, by name, at the moments of its series."""
    cluster, series = replay.setup.cluster, replay.series
    usage = 100 * replay.gpu_usage_over_time
    if replay.setup.kind == RACKS:
        panels = {
            "GPUs held (%)": usage,
            "GPUs computing (%)": 100 * series.gpus_computing / cluster.gpus,
            "Machines partly free (%)": (
                100 * series.machines_partly_free / len(cluster.gpus_of_host)
            ),
        }
    elif replay.setup.kind == TYPES:
        panels = {"GPUs given (%)": usage}
        if len(cluster.gpu_types) > 1:
            panels |= {
                f"{name} (%)": 100 * held / max(1, cluster.gpus_of_type[name])
                for name, held in series.gpus_held.items()
            }
    else:
        panels = {"Training usage (%)": usage}
        if cluster.inference_servers:
            panels["Overall usage (%)"] = 100 * replay.overall_usage_over_time
    return {**panels, "Queued jobs": series.queued_jobs}


def _line(replay: Replay, replays: Sequence[Replay]) -> dict[str, Any]:
    """Return style and label of a run; earlier ones are wider, to be seen under later ones."""
    names = [other.scheme.name for other in replays]
    style = line_style(replay.scheme.name, names)
    width = 2.4 - 1.4 * names.index(replay.scheme.name) / max(1, len(names) - 1)
    return {
        "color": style["color"],
        "linestyle": style["linestyle"],
        "linewidth": width if len(names) > 1 else 1.3,
        "label": as_written(replay.scheme.name),
        "baseline": None,
    }


def distributions(replays: Sequence[Replay]) -> Plot:
    """Return the plot of the distributions of queuing times and JCTs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=DISTRIBUTIONS_INCHES, layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, title, name in ((left, "Queuing time", "queued_s"), (right, "JCT", "jct_s")):
        values_of = [getattr(replay.outcomes, name) for replay in replays]
        longest_s = max(10 * LEAST_SHOWN_S, *(float(values.max()) for values in values_of))
        first_s = _first_shown_s(values_of)
        for replay, values in zip(replays, values_of, strict=True):
            style = _line(replay, replays)
            del style["baseline"]
            _draw_distribution(values, first_s, RIGHT_MARGIN * longest_s, axes, **style)
        axes.set_xlabel(f"{title} (logarithmic)")
        _duration_axis(axes, first_s, longest_s)
    left.set_ylabel("Share of jobs (%)")
    left.set_ylim(0, 101)
    figure.legend(*left.get_legend_handles_labels(), loc="outside right upper")
    return Plot(
        "distributions",
        "Queuing times and job completion times",
        "How many jobs wait, or take from submission to completion, for so long at most. Where a "
        "line begins on the left are the jobs below the left end of the axis.",
        svg_text(figure, "distributions"),
    )


def _first_shown_s(values_of: Sequence[np.ndarray]) -> float:
    """Return the longest of `DURATIONS_S` that hardly any value of any run is below."""
    shortest_s = min(float(np.quantile(values, 1 - NEARLY_ALL)) for values in values_of)
    return max((LEAST_SHOWN_S, *(length_s for length_s in DURATIONS_S if length_s <= shortest_s)))


def _draw_distribution(
    values: np.ndarray, first_s: float, end_s: float, axes: Axes, **style: Any
) -> None:
    found, shares = distribution(values)
    below = float(np.mean(values < first_s))
    kept = found >= first_s
    axes.step(
        np.concatenate(([first_s], found[kept], [end_s])),
        100 * np.concatenate(([below], shares[kept], [1.0])),
        where="post",
        **style,
    )


def _duration_axis(axes: Axes, first_s: float, longest_s: float) -> None:
    axes.set_xscale("log")
    end_s = RIGHT_MARGIN * longest_s
    ticks = [seconds for seconds in DURATIONS_S if first_s <= seconds <= end_s]
    axes.set_xticks(ticks, [DURATIONS_S[seconds] for seconds in ticks])
    axes.minorticks_off()
    axes.set_xlim(first_s, end_s)


def _loans(replays: Sequence[Replay]) -> Plot:
    from matplotlib.figure import Figure

    borrowers = [replay for replay in replays if replay.borrows]
    cluster = replays[0].setup.cluster
    gpus_per_server = cluster.inference_gpus / cluster.inference_servers
    figure = Figure(figsize=LOANS_INCHES, layout="constrained")
    axes = figure.subplots()
    time_axis = _TimeAxis(borrowers)
    longest = max(borrowers, key=lambda replay: replay.metrics.makespan_s).series
    time_axis.draw(
        axes, longest, longest.servers_on_loan, fill=True, color="#d9d9d9", label="on loan"
    )
    time_axis.draw(
        axes,
        longest,
        cluster.inference_servers - longest.gpus_serving / gpus_per_server,
        baseline=None,
        color="#505050",
        linewidth=0.9,
        linestyle=":",
        label="not serving",
    )
    for replay in borrowers:
        style = _line(replay, replays)
        style["label"] = f"held, {style['label']}"
        held = replay.series.gpus_held_on_loan / gpus_per_server
        time_axis.draw(axes, replay.series, held, **style)
    axes.set_ylabel("Inference servers")
    axes.set_ylim(bottom=0)
    time_axis.finish(axes)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper")
    return Plot(
        "loans",
        "Servers on loan",
        f"{time_axis.caption} Grey: servers on loan, the same under every scheme that borrows. "
        "Dotted: servers that do not serve inference; loans above it are a shortfall. Lines: GPUs "
        "that jobs hold on servers on loan, in servers' worth.",
        svg_text(figure, "loans"),
    )
