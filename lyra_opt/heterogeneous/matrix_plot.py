"""Pictures with a row a job and a column a type of GPUs: shares of time, and throughputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.block_rows import ROW_INCHES
from lyra_opt.core.errors import counted
from lyra_opt.core.pictures import (
    DARK_TEXT,
    TEXT_POINTS,
    Drawing,
    add_panels,
    as_written,
    grid_of,
    shortened,
    text_inches,
)
from lyra_opt.heterogeneous.checker import check

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase
    from matplotlib.image import AxesImage
    from numpy.typing import NDArray

    from lyra_opt.heterogeneous.instance import Instance, TimeShares

MOST_NAMED_JOBS = 40
"""Jobs up to which each has its name, and numbers; of more, all are drawn without either."""

COLUMN_INCHES, FRAME_INCHES, BAR_INCHES, MANY_INCHES = 0.85, 1.3, 0.9, 6.5
LEAST_INCHES = 3.6
"""Of a panel, for its title."""


def drawing_of_shares(instance: Instance, solutions: Mapping[str, TimeShares]) -> Drawing:
    """Return a drawing with a panel for each solution: the share of time of jobs on types.

    What a job runs beside another counts as what it runs alone.

    Parameters
    ----------
    instance
        Of an objective of shares.
    solutions
        Valid shares by the name of who made them; at least one.
    """
    from lyra_opt.heterogeneous.exact.shares.arrays import ShareArrays

    arrays = ShareArrays.of(instance)
    sets = arrays.sets
    gangs = np.concatenate([arrays.gang, arrays.gang[sets.pairs[:, 0]]])

    def panel(axes: Axes, maker: str, solution: TimeShares) -> AxesImage:
        found = arrays.shares(solution)
        shares = sets.of_job(found[sets.of_set])
        texts = [[f"{share:.2f}" if share else "" for share in row] for row in shares]
        counts = instance.gpus_of_type.values()
        used = [
            f"{held:.3g} of {there:,}" for held, there in zip(gangs @ found, counts, strict=True)
        ]
        value = check(instance, solution).objective or 0
        words = str(instance.objective).replace("_", " ")
        axes.set_title(f"{as_written(shortened(maker, 40))}\n{words} {value:,.6g}", loc="left")
        return _draw_matrix(instance, axes, shares, texts, used)

    width = _panel_inches(instance)
    grid = grid_of(len(solutions), width, BAR_INCHES)

    def draw(figure: FigureBase) -> None:
        panels = add_panels(figure, len(solutions), grid)
        for axes, (maker, solution) in zip(panels, solutions.items(), strict=True):
            image = panel(axes, maker, solution)
        for axes in panels[-grid[1] :]:
            axes.set_xlabel("GPUs that are held on average, by type")
        figure.colorbar(image, ax=panels, label="Share of time", fraction=0.1, aspect=30)

    return Drawing(width * grid[1] + BAR_INCHES, _height(instance) * grid[0], draw)


def drawing_of_throughputs(instance: Instance) -> Drawing:
    """Return a drawing of how fast each job runs on each type of GPUs, on one server."""
    rates = np.array(
        [[job.throughput.get(name, 0.0) for name in instance.gpus_of_type] for job in instance.jobs]
    )
    texts = [[f"{rate:.3g}" if rate else "cannot" for rate in row] for row in rates]
    relative = rates / rates.max(axis=1, keepdims=True)

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots()
        there = [counted(count, "GPU") for count in instance.gpus_of_type.values()]
        image = _draw_matrix(instance, axes, relative, texts, there)
        title = as_written(shortened(instance.name, 40))
        numbers = ", steps a second" if len(instance.jobs) <= MOST_NAMED_JOBS else ""
        axes.set_title(f"{title}\n{counted(len(instance.jobs), 'job')}{numbers}", loc="left")
        label = "Speed / speed on best type"
        figure.colorbar(image, ax=axes, label=label, fraction=0.1, aspect=30)

    return Drawing(_panel_inches(instance) + BAR_INCHES, _height(instance), draw)


def _draw_matrix(
    instance: Instance,
    axes: Axes,
    values: NDArray[np.float64],
    texts: Sequence[Sequence[str]],
    notes: Sequence[str],
) -> AxesImage:
    """Draw a matrix of numbers from 0 to 1, with these texts, and notes below types."""
    image = axes.imshow(
        values, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest"
    )
    types = [
        f"{as_written(shortened(name, 10))}\n{note}"
        for name, note in zip(instance.gpus_of_type, notes, strict=True)
    ]
    axes.set_xticks(range(len(types)), types, fontsize=TEXT_POINTS)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if len(instance.jobs) > MOST_NAMED_JOBS:
        axes.set_ylabel("Jobs in file order (too many for names and numbers)")
        return image
    names = [
        f"{as_written(shortened(job.id))}, {counted(job.gang, 'GPU')}" for job in instance.jobs
    ]
    axes.set_yticks(range(len(names)), names, fontsize=TEXT_POINTS)
    for row, cells in enumerate(texts):
        for column, text in enumerate(cells):
            colour = "white" if values[row, column] > 0.55 else DARK_TEXT
            axes.text(
                column, row, text, ha="center", va="center", fontsize=TEXT_POINTS, color=colour
            )
    return image


def _panel_inches(instance: Instance) -> float:
    """Return the width of a panel with the names of its jobs."""
    names = 0.4
    if len(instance.jobs) <= MOST_NAMED_JOBS:
        names += max(
            text_inches(f"{shortened(job.id)}, {job.gang} GPUs", TEXT_POINTS)
            for job in instance.jobs
        )
    return max(LEAST_INCHES, names + COLUMN_INCHES * len(instance.gpu_types))


def _height(instance: Instance) -> float:
    is_named = len(instance.jobs) <= MOST_NAMED_JOBS
    return FRAME_INCHES + (max(ROW_INCHES * len(instance.jobs), 1.0) if is_named else MANY_INCHES)
