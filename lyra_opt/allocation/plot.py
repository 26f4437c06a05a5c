"""Drawings of allocation: bars of the workers of each job, or schedules over time."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lyra_opt.allocation.checker import check
from lyra_opt.allocation.instance import NamedWorkers, Objective, Schedule
from lyra_opt.allocation.schedules.evaluator import mean_jct_s
from lyra_opt.core.errors import counted
from lyra_opt.core.picture_styles import style_in_force
from lyra_opt.core.pictures import (
    MOST_NAMED,
    UNNAMED_COLOURS,
    Drawing,
    as_written,
    drawing_of_rows,
    drawn_in_words,
    handles_of_named,
    heading,
    in_words,
    legend_beside,
    named_colours,
    panel_inches,
    record,
    rows_of_panel,
    shortened,
    time_unit,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase
    from numpy.typing import NDArray

    from lyra_opt.allocation.instance import ElasticJob, Instance, Solution, WorkerAllocation
    from lyra_opt.core.pictures import BlockRows


MOST_JOBS = 40
"""Most jobs that are drawn: first jobs on which solutions differ, then those with most work."""

PANEL_INCHES, FRAME_INCHES = 5.4, 1.6

BASE, EXTRA, ASKED = "#0072b2", "#009e73", "#dfe6ec"

VALUE_WORDS = {
    Objective.JCT_REDUCTION: "JCT reduction",
    Objective.TWO_PHASE: "sum of running times",
    Objective.JOINT: "sum of completions",
}


def drawing_of_workers(
    instance: Instance, solutions: Mapping[str, WorkerAllocation | NamedWorkers]
) -> Drawing:
    """Return a drawing with one panel per solution, side by side, and one row per job.

    Parameters
    ----------
    instance
        An instance with any objective.
    solutions
        Valid numbers of workers, by solver name. If empty, the instance alone is drawn.
    """
    workers = {
        name: (found.in_file_order(instance) if isinstance(found, NamedWorkers) else found).workers
        for name, found in solutions.items()
    }
    shown = _shown_jobs(instance, list(workers.values()))
    jobs = [instance.jobs[place] for place in shown]
    panels: dict[str, Callable[[BlockRows], str]] = {
        name: partial(
            _draw_workers,
            jobs,
            [given[place] for place in shown],
            heading(name, _value(instance, solutions[name])),
        )
        for name, given in workers.items()
    }
    colours = {"base demand": BASE, "extra workers": EXTRA, "not given": ASKED}
    if not solutions:
        colours = {"base demand": BASE, "up to the most workers that it can use": ASKED}
        to_give = f"{counted(instance.gpus, 'GPU')} to give, {counted(len(instance.jobs), 'job')}"
        panels = {"": partial(_draw_range, jobs, heading(instance.name, to_give))}
    order = "those with the most work first"
    if len(solutions) > 1:
        order = f"those on which solutions differ first, then {order}"
    return drawing_of_rows(
        panels,
        [shortened(job.id) for job in jobs],
        max(job.max_gpus for job in jobs),
        label="GPUs of the job's workers",
        colours=colours,
        left_out=drawn_in_words(len(shown), len(instance.jobs), "job", order),
        width_inches=PANEL_INCHES,
        frame_inches=FRAME_INCHES,
    )


def _draw_workers(
    jobs: Sequence[ElasticJob], workers: Sequence[int], title: str, rows: BlockRows
) -> str:
    """Draw the workers of each job as a bar, with its running time; return the panel's title."""
    _caption(rows, "running time")
    for row, (job, count) in enumerate(zip(jobs, workers, strict=True)):
        rows.track(row, job.max_gpus, ASKED, job=job.id, state="most that it can use")
        if count == 0:
            _note(rows, row, "waits")
            continue
        time_s = float(job.duration_s(count))
        words = {"job": job.id, "running_time_s": time_s}
        rows.block(row, 0, job.min_gpus, BASE, **words, state="base demand")
        extra = (count - job.min_workers) * job.gpus_per_worker
        if extra:
            rows.block(row, job.min_gpus, extra, EXTRA, **words, state="extra workers")
        _note(rows, row, in_words(time_s))
    return title


def _draw_range(jobs: Sequence[ElasticJob], title: str, rows: BlockRows) -> str:
    """Draw each job's range of workers, with its longest and shortest time; return the title."""
    _caption(rows, "running time with\nmost, base workers")
    for row, job in enumerate(jobs):
        times_s = [float(job.duration_s(count)) for count in (job.max_workers, job.min_workers)]
        words: dict[str, Any] = {"job": job.id, "running_time_s": times_s[0]}
        rows.track(row, job.max_gpus, ASKED, **words, state="most that it can use")
        words["running_time_s"] = times_s[1]
        rows.block(row, 0, job.min_gpus, BASE, **words, state="base demand")
        fast, slow = map(in_words, times_s)
        released = f"; released at {in_words(job.release_s)}" if job.release_s else ""
        _note(rows, row, (fast if fast == slow else f"{fast}, {slow}") + released)
    return title


def _caption(rows: BlockRows, text: str) -> None:
    """Write a caption below the notes that stand to the right of the axes."""
    rows.axes.annotate(
        text,
        (1.0, 0.0),
        xytext=(10, -1),  # beside the label of the last tick
        xycoords="axes fraction",
        textcoords="offset points",
        color="#555555",
        va="top",
        annotation_clip=False,
    )


def _note(rows: BlockRows, row: int, text: str) -> None:
    """Write a note on a row, to the right of the axes."""
    rows.axes.text(1.01, row, text, transform=rows.axes.get_yaxis_transform(), va="center_baseline")


def _value(instance: Instance, solution: WorkerAllocation | NamedWorkers) -> str:
    """Return the objective of a solution and the GPUs used, as text."""
    report = check(instance, solution)
    value = in_words(float(report.objective or 0))
    used = f"{report.used_gpus or 0:,} of {counted(instance.gpus, 'GPU')}"
    return f"{VALUE_WORDS[instance.objective]} {value}, {used} given"


def _shown_jobs(instance: Instance, solutions: Sequence[Sequence[int]]) -> list[int]:
    """Return the file positions of the jobs to draw, in file order."""

    def rank(place: int) -> tuple[bool, float]:
        same = len({workers[place] for workers in solutions}) <= 1
        job = instance.jobs[place]
        return same, -job.work_worker_s * job.gpus_per_worker

    most = rows_of_panel(MOST_JOBS, max(len(solutions), 1))
    return sorted(sorted(range(len(instance.jobs)), key=rank)[:most])


WIDTH_INCHES, SCHEDULE_INCHES = 9.0, 3.3

MOST_MARKED_JOBS = 60
"""Starts and completions are marked on the bands for at most this many jobs."""

MOST_BANDS = 300
"""Each job has a band of its own for at most this many jobs; else uncoloured jobs share one."""

CELLS = 1_200
"""Most time intervals in which areas are drawn; if GPUs change more often, they are averaged."""

LEAST_LABEL_SHARE = 0.055
"""A band carries the name of its job if it covers at least this share of both axes."""


class Layers(NamedTuple):
    """The GPUs that jobs hold over time, stacked in a picture.

    Parameters
    ----------
    jobs
        The file position of the job of each layer, from the bottom; the job that completes last
        comes first. If there are many jobs, only those with a colour have a layer of their own.
    edges_s
        The ends of the time intervals.
    held, top
        The mean number of held GPUs, and the upper end, of each layer in each interval. The last
        layer belongs to all other jobs.
    """

    jobs: Sequence[int]
    edges_s: NDArray[np.float64]
    held: NDArray[np.float64]
    top: NDArray[np.float64]


def drawing_of_schedules(instance: Instance, schedules: Mapping[str, Schedule]) -> Drawing:
    """Return a drawing with one panel per schedule, one above the other, on the same axes.

    Parameters
    ----------
    instance
        The instance that the schedules answer.
    schedules
        Valid schedules by solver name, from top to bottom; at least one.
    """

    def draw(figure: FigureBase) -> None:
        panels = figure.subplots(len(schedules), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        colours = job_colours(instance)
        end_s = max(piece.end_s for found in schedules.values() for piece in found.pieces)
        for (name, schedule), axes in zip(schedules.items(), panels, strict=True):
            plot_schedule(instance, schedule, axes, colours=colours, end_s=end_s)
            record(figure, _pieces(instance, name, schedule))
            mean = in_words(mean_jct_s(instance, schedule))
            axes.set_title(f"{heading(name)}: mean JCT {mean}", loc="left")
        panels[-1].set_xlabel(f"Time ({time_unit(end_s)[1]})")
        _add_legend(figure, instance, colours)

    return Drawing(
        WIDTH_INCHES, 0.5 + panel_inches(SCHEDULE_INCHES, len(schedules)) * len(schedules), draw
    )


def _pieces(instance: Instance, name: str, schedule: Schedule) -> Iterator[Mapping[str, Any]]:
    """Yield the data of a schedule: a row per time span in which a job has a number of workers."""
    for piece in schedule.pieces:
        job = instance.jobs[instance.job_position[piece.job]]
        yield {
            "solution": name,
            "job": job.id,
            "release_s": job.release_s,
            "start_s": piece.start_s,
            "end_s": piece.end_s,
            "gpus": piece.workers * job.gpus_per_worker,
        }


def job_colours(instance: Instance) -> list[str]:
    """Return a colour for each job; the dozen jobs with the most GPU work get distinct colours."""
    return named_colours([job.work_worker_s * job.gpus_per_worker for job in instance.jobs])


def plot_schedule(
    instance: Instance, schedule: Schedule, axes: Axes, *, colours: Sequence[str], end_s: float
) -> None:
    """Draw a schedule as stacked areas of the GPUs that each job holds, with its events.

    Jobs that complete last are at the bottom. Releases are marked above the GPUs. If there are few
    jobs, starts and completions are marked on the bands, in the colour of the job.

    Parameters
    ----------
    colours
        Colour of each job.
    end_s
        End of the time axis, in seconds.
    """
    from matplotlib.ticker import MaxNLocator

    scale, _ = time_unit(end_s)
    axes.set_xlim(0, 1.02 * end_s / scale)
    axes.set_ylim(0, 1.13 * instance.gpus)
    axes.axhline(instance.gpus, color="black", linewidth=1.0, linestyle="--", zorder=2.5)
    layers = layers_of(instance, schedule, colours, end_s)
    width = 0.5 if len(instance.jobs) <= MOST_MARKED_JOBS else 0.3
    if len(instance.jobs) > MOST_BANDS:
        width = 0.0
    fills = [*(colours[job] for job in layers.jobs), UNNAMED_COLOURS[0]]
    for colour, held, top in zip(fills, layers.held, layers.top, strict=True):
        axes.stairs(
            np.where(held > 0, top, np.nan),
            layers.edges_s / scale,
            baseline=top - held,
            fill=True,
            color=colour,
            edgecolor="white",
            linewidth=width,
        )
    _mark(instance, layers, axes, colours, scale)
    if len(instance.jobs) <= MOST_BANDS:
        for job, held, top in zip(layers.jobs, layers.held, layers.top, strict=False):
            _label(instance.jobs[job].id, layers.edges_s, held, top, axes, scale)
    axes.grid(visible=False, axis="x")
    axes.set_ylabel("GPUs held by workers")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))


def layers_of(
    instance: Instance, schedule: Schedule, colours: Sequence[str], end_s: float
) -> Layers:
    """Return the GPUs that jobs hold over time as layers, exact if they seldom change."""
    are_many = len(instance.jobs) > MOST_BANDS
    last_s: dict[int, float] = defaultdict(float)
    for piece in schedule.pieces:
        job = instance.job_position[piece.job]
        if not are_many or colours[job] not in UNNAMED_COLOURS:
            last_s[job] = max(last_s[job], piece.end_s)
    jobs = sorted(sorted(last_s), key=lambda job: -last_s[job])
    layer = {job: place for place, job in enumerate(jobs)}
    edges_s = np.unique(
        [time for piece in schedule.pieces for time in (piece.start_s, piece.end_s)]
    )
    if len(edges_s) > CELLS + 1:
        edges_s = np.linspace(0, end_s, CELLS + 1)
    lengths_s = np.diff(edges_s)
    held = np.zeros((len(jobs) + 1, len(lengths_s)))
    for piece in schedule.pieces:
        job = instance.job_position[piece.job]
        gpus = piece.workers * instance.jobs[job].gpus_per_worker
        first = int(np.searchsorted(edges_s, piece.start_s, side="right")) - 1
        past = int(np.searchsorted(edges_s, piece.end_s))
        overlaps_s = np.minimum(edges_s[first + 1 : past + 1], piece.end_s) - np.maximum(
            edges_s[first:past], piece.start_s
        )
        held[layer.get(job, len(jobs)), first:past] += gpus * overlaps_s / lengths_s[first:past]
    return Layers(jobs, edges_s, held, np.cumsum(held, axis=0))


def _mark(
    instance: Instance, layers: Layers, axes: Axes, colours: Sequence[str], scale: float
) -> None:
    """Mark releases above the GPUs, and starts and completions on the bands if jobs are few."""
    cell_s = layers.edges_s[-1] / CELLS
    releases = {round(each.release_s / cell_s): job for job, each in enumerate(instance.jobs)}
    at: dict[str, list[tuple[int, float, float]]] = {
        "release": [
            (job, instance.jobs[job].release_s, 1.06 * instance.gpus) for job in releases.values()
        ]
    }
    shrunk = 1.0 if len(instance.jobs) <= 2 * MOST_NAMED else 0.7
    if len(instance.jobs) <= MOST_MARKED_JOBS:
        for job, held, top in zip(layers.jobs, layers.held, layers.top, strict=False):
            middle = top - held / 2
            first, last = np.flatnonzero(held)[[0, -1]]
            at.setdefault("start", []).append((job, layers.edges_s[first], middle[first]))
            at.setdefault("completion", []).append((job, layers.edges_s[last + 1], middle[last]))
    elif len(instance.jobs) > MOST_BANDS:
        shrunk = 0.5
    for name, points in at.items():
        style = mark_styles()[name]
        style["markersize"] *= shrunk * style_in_force().line_factor
        for job, time_s, height in points:
            face = {"markerfacecolor": colours[job]}
            axes.plot(time_s / scale, height, clip_on=False, zorder=4, **style | face)


def mark_styles() -> dict[str, dict[str, Any]]:
    """Return the marker styles of releases, starts and completions, without the face colour."""
    common = {"linestyle": "", "color": "white", "markeredgecolor": "black", "markeredgewidth": 0.8}
    return {
        "release": common | {"marker": "v", "markersize": 6.0},
        "start": common | {"marker": ">", "markersize": 6.0},
        "completion": common | {"marker": "s", "markersize": 4.5},
    }


def _label(
    name: str,
    edges_s: NDArray[np.float64],
    held: NDArray[np.float64],
    top: NDArray[np.float64],
    axes: Axes,
    scale: float,
) -> None:
    """Write the name of a job on its largest band, if the band is large enough."""
    shown = shortened(name)
    least_s = LEAST_LABEL_SHARE * edges_s[-1] * max(0.7, len(shown) / 5)
    changes = np.flatnonzero((np.diff(held) != 0) | (np.diff(top) != 0)) + 1
    bands = [
        (edges_s[past] - edges_s[first], first, past)
        for first, past in pairwise([0, *changes, len(held)])
        if held[first] >= LEAST_LABEL_SHARE * axes.get_ylim()[1]
        and edges_s[past] - edges_s[first] >= least_s
    ]
    if bands:
        _, first, past = max(bands, key=lambda band: band[0] * held[band[1]])
        axes.annotate(
            as_written(shown),
            ((edges_s[first] + edges_s[past]) / 2 / scale, top[first] - held[first] / 2),
            ha="center",
            va="center",
            color="white",
            path_effects=_rim(),
        )


def _rim() -> list[Any]:
    from matplotlib import patheffects

    return [patheffects.withStroke(linewidth=1.6, foreground="#404040")]


def _add_legend(figure: FigureBase, instance: Instance, colours: Sequence[str]) -> None:
    """Add a legend with the markers, the coloured jobs and the number of other jobs."""
    from matplotlib.lines import Line2D

    marks = mark_styles()
    shown = ["release", "start", "completion"]
    if len(instance.jobs) > MOST_MARKED_JOBS:
        shown = ["release"]
    handles: list[Any] = [Line2D([], [], label=name, **marks[name]) for name in shown]
    handles.append(
        Line2D([], [], color="black", linewidth=1.0, linestyle="--", label=f"{instance.gpus} GPUs")
    )
    handles += handles_of_named([job.id for job in instance.jobs], colours)
    legend_beside(figure, handles)


def drawing_of(instance: Instance, solutions: Mapping[str, Solution]) -> Drawing:
    """Draw the solutions, or the instance alone if there are no solutions.

    Parameters
    ----------
    instance
        The instance that the solutions answer.
    solutions
        Valid solutions, by solver name.
    """
    schedules = {name: found for name, found in solutions.items() if isinstance(found, Schedule)}
    if schedules:
        return drawing_of_schedules(instance, schedules)
    workers = {name: found for name, found in solutions.items() if not isinstance(found, Schedule)}
    return drawing_of_workers(instance, workers)
