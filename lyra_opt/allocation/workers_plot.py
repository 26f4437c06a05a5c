"""A picture of workers: the GPUs that each job asks for, and what each solution gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.allocation.checker import check
from lyra_opt.allocation.instance import NamedWorkers, Objective
from lyra_opt.core.block_rows import ROW_INCHES, add_colour_legend, rows_of
from lyra_opt.core.errors import counted
from lyra_opt.core.pictures import (
    TEXT_POINTS,
    Drawing,
    add_panels,
    as_written,
    grid_of,
    in_words,
    shortened,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import FigureBase

    from lyra_opt.allocation.instance import ElasticJob, Instance, WorkerAllocation
    from lyra_opt.core.block_rows import BlockRows

MOST_JOBS = 40
"""Jobs that are drawn at most: those on which solutions differ, then those with most GPU work."""

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
    """Return a drawing with a panel for each solution, side by side, jobs in the same rows.

    Parameters
    ----------
    instance
        Of any objective.
    solutions
        Valid workers by the name of who chose them; without any the instance is drawn alone.
    """
    workers = {
        name: (found.in_file_order(instance) if isinstance(found, NamedWorkers) else found).workers
        for name, found in solutions.items()
    }
    shown = _shown_jobs(instance, list(workers.values()))
    grid = grid_of(max(len(solutions), 1), PANEL_INCHES + TEXT_INCHES)
    height = FRAME_INCHES + ROW_INCHES * len(shown)

    def draw(figure: FigureBase) -> None:
        panels = add_panels(figure, max(len(solutions), 1), grid)
        jobs = [instance.jobs[place] for place in shown]
        names = [job.id for job in jobs]
        most = max(job.max_gpus for job in jobs)
        rows = [rows_of(axes, names, most, PANEL_INCHES) for axes in panels]
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
        left_out = len(instance.jobs) - len(shown)
        if left_out:
            figure.supxlabel(f"{counted(left_out, 'more job')} not drawn", fontsize=TEXT_POINTS)

    return Drawing((PANEL_INCHES + TEXT_INCHES) * grid[1], height * grid[0], draw)


def _draw_workers(jobs: Sequence[ElasticJob], workers: Sequence[int], rows: BlockRows) -> None:
    """Draw what each job gets of what it asks for, and how long it then runs."""
    _head(rows, "running time")
    for row, (job, count) in enumerate(zip(jobs, workers, strict=True)):
        rows.track(row, job.max_gpus, ASKED)
        if count == 0:
            _note(rows, row, "waits")
            continue
        rows.block(row, 0, job.min_gpus, BASE)
        extra = (count - job.min_workers) * job.gpus_per_worker
        if extra:
            rows.block(row, job.min_gpus, extra, EXTRA)
        _note(rows, row, in_words(float(job.duration_s(count))))


def _draw_range(jobs: Sequence[ElasticJob], rows: BlockRows) -> None:
    """Draw what each job asks for, and how long it runs with the most and the fewest workers."""
    _head(rows, "running time with\nmost, base workers")
    for row, job in enumerate(jobs):
        rows.track(row, job.max_gpus, ASKED)
        rows.block(row, 0, job.min_gpus, BASE)
        fast, slow = (
            in_words(float(job.duration_s(count))) for count in (job.max_workers, job.min_workers)
        )
        released = f"; released at {in_words(job.release_s)}" if job.release_s else ""
        _note(rows, row, (fast if fast == slow else f"{fast}, {slow}") + released)


def _head(rows: BlockRows, text: str) -> None:
    """Say below the notes what they are."""
    rows.axes.text(
        1.01,
        -0.01,
        text,
        transform=rows.axes.transAxes,
        fontsize=TEXT_POINTS,
        color="#555555",
        va="top",
    )


def _note(rows: BlockRows, row: int, text: str) -> None:
    """Write a word on a row, to the right of the axes."""
    rows.axes.text(
        1.01,
        row,
        text,
        transform=rows.axes.get_yaxis_transform(),
        fontsize=TEXT_POINTS,
        va="center_baseline",
    )


def _value(instance: Instance, solution: WorkerAllocation | NamedWorkers) -> str:
    """Return what a solution is worth, in words."""
    report = check(instance, solution)
    value = in_words(float(report.objective or 0))
    used = f"{report.used_gpus or 0:,} of {counted(instance.gpus, 'GPU')}"
    return f"{VALUE_WORDS[instance.objective]} {value}, {used} given"


def _shown_jobs(instance: Instance, solutions: Sequence[Sequence[int]]) -> list[int]:
    """Return the file positions of the jobs that are drawn, in file order."""

    def rank(place: int) -> tuple[bool, float]:
        same = len({workers[place] for workers in solutions}) <= 1
        job = instance.jobs[place]
        return same, -job.work_worker_s * job.gpus_per_worker

    return sorted(sorted(range(len(instance.jobs)), key=rank)[:MOST_JOBS])
