"""Drawings of allocation: bars of the workers of each job, or schedules over time."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lyra_opt.allocation.checker import check
from lyra_opt.allocation.instance import NamedWorkers, Objective, Schedule
from lyra_opt.allocation.schedules.evaluator import mean_jct_s
from lyra_opt.core.errors import counted
from lyra_opt.core.pictures import (
    MOST_NAMED,
    UNNAMED_COLOURS,
    Drawing,
    add_colour_legend,
    add_panels,
    as_written,
    block_rows_of,
    drawn_in_words,
    grid_of,
    handles_of_named,
    in_words,
    legend_beside,
    named_colours,
    panel_inches,
    record,
    rows_inches,
    rows_of_panel,
    shortened,
    time_unit,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

    from lyra_opt.allocation.instance import (
        ElasticJob,
        Instance,
        SchedulePiece,
        Solution,
        WorkerAllocation,
    )
    from lyra_opt.core.pictures import BlockRows


MOST_JOBS = 40
"""Most jobs that are drawn: first jobs on which solutions differ, then those with most work."""

PANEL_INCHES, TEXT_INCHES, FRAME_INCHES = 4.2, 1.2, 1.6

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
    grid = grid_of(max(len(solutions), 1), PANEL_INCHES + TEXT_INCHES)
    height = rows_inches(len(shown), grid[0], FRAME_INCHES)

    def draw(figure: FigureBase) -> None:
        panels = add_panels(figure, max(len(solutions), 1), grid)
        jobs = [instance.jobs[place] for place in shown]
        names = [job.id for job in jobs]
        most = max(job.max_gpus for job in jobs)
        rows = [
            block_rows_of(axes, names, most, PANEL_INCHES, solution=name)
            for axes, name in zip(panels, solutions or [""], strict=True)
        ]
        for axes in panels[-grid[1] :]:
            axes.set_xlabel("GPUs of the job's workers")
        if solutions:
            for (name, given), panel in zip(workers.items(), rows, strict=True):
                _draw_workers(jobs, [given[place] for place in shown], panel)
                title = f"{as_written(shortened(name, 40))}\n{_value(instance, solutions[name])}"
                panel.axes.set_title(title, loc="left")
            colours = {"base demand": BASE, "extra workers": EXTRA, "not given": ASKED}
        else:
            _draw_range(jobs, rows[0])
            title = as_written(shortened(instance.name, 40))
            free = f"{counted(instance.gpus, 'GPU')} to give"
            rows[0].axes.set_title(
                f"{title}\n{free}, {counted(len(instance.jobs), 'job')}", loc="left"
            )
            colours = {"base demand": BASE, "up to the most workers that it can use": ASKED}
        add_colour_legend(figure, colours, {})
        order = "those with the most work first"
        if len(solutions) > 1:
            order = f"those on which solutions differ first, then {order}"
        figure.supxlabel(drawn_in_words(len(shown), len(instance.jobs), "job", order))

    return Drawing((PANEL_INCHES + TEXT_INCHES) * grid[1], height, draw)


def _draw_workers(jobs: Sequence[ElasticJob], workers: Sequence[int], rows: BlockRows) -> None:
    """Draw the workers of each job as a bar, with its running time."""
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


def _draw_range(jobs: Sequence[ElasticJob], rows: BlockRows) -> None:
    """Draw the range of workers of each job, with the running times at both ends."""
    _caption(rows, "running time with\nmost, base workers")
    for row, job in enumerate(jobs):
        times_s = [float(job.duration_s(count)) for count in (job.max_workers, job.min_workers)]
        words: dict[str, Any] = {
            "job": job.id,
            "state": "most that it can use",
            "running_time_s": times_s[0],
        }
        rows.track(row, job.max_gpus, ASKED, **words)
        words |= {"state": "base demand", "running_time_s": times_s[1]}
        rows.block(row, 0, job.min_gpus, BASE, **words)
        fast, slow = map(in_words, times_s)
        released = f"; released at {in_words(job.release_s)}" if job.release_s else ""
        _note(rows, row, (fast if fast == slow else f"{fast}, {slow}") + released)


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
    rows.axes.text(
        1.01,
        row,
        text,
        transform=rows.axes.get_yaxis_transform(),
        va="center_baseline",
    )


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
"""Number of intervals over which GPUs are averaged for many jobs; more are not visible."""

LEAST_LABEL_SHARE = 0.055
"""A band carries the name of its job if it covers at least this share of both axes."""


@dataclass(frozen=True, slots=True)
class _Band:
    """A piece of a schedule in the stacked drawing, between the heights `bottom` and `top`."""

    job: int
    start_s: float
    end_s: float
    bottom: float
    top: float


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
            axes.set_title(
                f"{as_written(shortened(name, 40))}: mean JCT "
                f"{in_words(mean_jct_s(instance, schedule))}",
                loc="left",
            )
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
    instance: Instance,
    schedule: Schedule,
    axes: Axes,
    *,
    colours: Sequence[str],
    end_s: float,
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
    if len(instance.jobs) <= MOST_BANDS:
        bands = _stacked(instance, schedule)
        _fill(bands, axes, colours, scale)
        _mark(instance, bands, axes, colours, scale)
        for job, of_job in zip(instance.jobs, bands, strict=True):
            _label(job.id, of_job, axes, scale, end_s, instance.gpus)
    else:
        _fill_averages(instance, schedule, axes, colours, end_s)
    axes.grid(visible=False, axis="x")
    axes.set_ylabel("GPUs held by workers")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))


def _stacked(instance: Instance, schedule: Schedule) -> list[list[_Band]]:
    """Return the bands of each job in time order; jobs that complete last are at the bottom.

    A piece is split wherever the height below it changes.
    """
    pieces: dict[int, list[SchedulePiece]] = defaultdict(list)
    for piece in sorted(schedule.pieces, key=lambda piece: piece.start_s):
        pieces[instance.job_position[piece.job]].append(piece)
    order = sorted(pieces, key=lambda job: -pieces[job][-1].end_s)
    times = sorted({time for piece in schedule.pieces for time in (piece.start_s, piece.end_s)})
    place = {time: position for position, time in enumerate(times)}
    height = [0.0] * len(times)
    bands: list[list[_Band]] = [[] for _ in instance.jobs]
    for job in order:
        size = instance.jobs[job].gpus_per_worker
        for piece in pieces[job]:
            for step in range(place[piece.start_s], place[piece.end_s]):
                bottom, top = height[step], height[step] + piece.workers * size
                height[step] = top
                last = bands[job][-1] if bands[job] else None
                same = last is not None and (last.bottom, last.top, last.end_s) == (
                    bottom,
                    top,
                    times[step],
                )
                start_s = bands[job].pop().start_s if same else times[step]
                bands[job].append(_Band(job, start_s, times[step + 1], bottom, top))
    return bands


def _fill(
    bands: Sequence[Sequence[_Band]], axes: Axes, colours: Sequence[str], scale: float
) -> None:
    """Draw the bands, with a thin white outline around each job."""
    from matplotlib.collections import PolyCollection

    width = 0.8 if len(bands) <= MOST_MARKED_JOBS else 0.3
    for of_job, colour in zip(bands, colours, strict=True):
        corners = [
            [
                (band.start_s / scale, band.bottom),
                (band.start_s / scale, band.top),
                (band.end_s / scale, band.top),
                (band.end_s / scale, band.bottom),
            ]
            for band in of_job
        ]
        axes.add_collection(
            PolyCollection(corners, facecolors=colour, edgecolors="face", linewidths=0.2)
        )
    for of_job in bands:
        xs: list[float] = [of_job[0].start_s / scale]
        ys: list[float] = [of_job[0].bottom]
        for band in of_job:
            xs += [band.start_s / scale, band.end_s / scale]
            ys += [band.top, band.top]
        xs.append(of_job[-1].end_s / scale)
        ys.append(of_job[-1].bottom)
        axes.plot(xs, ys, color="white", linewidth=width, solid_joinstyle="miter")


def _fill_averages(
    instance: Instance,
    schedule: Schedule,
    axes: Axes,
    colours: Sequence[str],
    end_s: float,
) -> None:
    """Draw the GPUs of coloured jobs and of all other jobs together, averaged over intervals."""
    import numpy as np

    scale, _ = time_unit(end_s)
    edges_s = np.linspace(0, end_s, CELLS + 1)
    length_s = end_s / CELLS
    named = [job for job, colour in enumerate(colours) if colour not in UNNAMED_COLOURS]
    row = {instance.jobs[job].id: place for place, job in enumerate(named)}
    held = np.zeros((len(named) + 1, CELLS))
    last_s = np.zeros(len(named))
    for piece in schedule.pieces:
        place = row.get(piece.job, len(named))
        if place < len(named):
            last_s[place] = max(last_s[place], piece.end_s)
        gpus = piece.workers * instance.jobs[instance.job_position[piece.job]].gpus_per_worker
        first = bisect_right(edges_s, piece.start_s) - 1
        past = min(bisect_right(edges_s, piece.end_s), CELLS)
        overlap_s = np.minimum(edges_s[first + 1 : past + 1], piece.end_s) - np.maximum(
            edges_s[first:past], piece.start_s
        )
        held[place, first:past] += gpus * overlap_s / length_s
    bottom = np.zeros(CELLS)
    for place in [*np.argsort(-last_s, kind="stable").tolist(), len(named)]:
        colour = colours[named[place]] if place < len(named) else UNNAMED_COLOURS[0]
        top = bottom + held[place]
        axes.stairs(top, edges_s / scale, baseline=bottom, fill=True, color=colour, linewidth=0)
        bottom = top
    cells = sorted({min(int(job.release_s / length_s), CELLS - 1) for job in instance.jobs})
    axes.plot(
        [(cell + 0.5) * length_s / scale for cell in cells],
        [1.06 * instance.gpus] * len(cells),
        clip_on=False,
        **mark_styles()["release"] | {"markersize": 3.0, "markerfacecolor": "black"},
    )


def _mark(
    instance: Instance,
    bands: Sequence[Sequence[_Band]],
    axes: Axes,
    colours: Sequence[str],
    scale: float,
) -> None:
    """Mark releases above the GPUs, and starts and completions on the bands if jobs are few."""
    at: dict[str, list[tuple[float, float]]] = {
        "release": [(job.release_s / scale, 1.06 * instance.gpus) for job in instance.jobs]
    }
    if len(instance.jobs) <= MOST_MARKED_JOBS:
        at["start"] = [
            (first.start_s / scale, (first.bottom + first.top) / 2) for first, *_ in bands
        ]
        at["completion"] = [
            (last.end_s / scale, (last.bottom + last.top) / 2) for *_, last in bands
        ]
    shrunk = 1.0 if len(instance.jobs) <= 2 * MOST_NAMED else 0.7
    for name, points in at.items():
        style = mark_styles()[name]
        style["markersize"] *= shrunk
        for (x, y), colour in zip(points, colours, strict=True):
            axes.plot(x, y, clip_on=False, zorder=4, **style | {"markerfacecolor": colour})


def mark_styles() -> dict[str, dict[str, Any]]:
    """Return the marker styles of releases, starts and completions, without the face colour."""
    common = {
        "linestyle": "",
        "color": "white",
        "markeredgecolor": "black",
        "markeredgewidth": 0.8,
    }
    return {
        "release": common | {"marker": "v", "markersize": 6.0},
        "start": common | {"marker": ">", "markersize": 6.0},
        "completion": common | {"marker": "s", "markersize": 4.5},
    }


def _label(
    name: str, of_job: Sequence[_Band], axes: Axes, scale: float, end_s: float, gpus: int
) -> None:
    """Write the name of a job on its largest band, if the band is large enough."""
    shown = shortened(name)
    least_width_s = LEAST_LABEL_SHARE * end_s * max(0.7, len(shown) / 5)
    wide = [
        band
        for band in of_job
        if band.end_s - band.start_s >= least_width_s
        and band.top - band.bottom >= LEAST_LABEL_SHARE * gpus
    ]
    if wide:
        band = max(wide, key=lambda band: (band.end_s - band.start_s) * (band.top - band.bottom))
        axes.annotate(
            as_written(shown),
            ((band.start_s + band.end_s) / 2 / scale, (band.bottom + band.top) / 2),
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
