"""Draw schedules, time shares and throughputs of gangs on heterogeneous GPUs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.errors import counted
from lyra_opt.core.picture_styles import style_in_force
from lyra_opt.core.pictures import (
    DARK_TEXT,
    FREE_COLOUR,
    ROW_INCHES,
    Drawing,
    add_panels,
    as_written,
    frames_inches,
    grid_of,
    halo,
    handles_of_named,
    heading,
    in_words,
    legend_beside,
    named_colours,
    panel_inches,
    record,
    rows_of_panel,
    shortened,
    text_colour,
    text_inches,
    time_unit,
)
from lyra_opt.heterogeneous.checker import check
from lyra_opt.heterogeneous.instance import Objective, RoundSchedule, TimeShares

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase
    from matplotlib.image import AxesImage
    from numpy.typing import NDArray

    from lyra_opt.heterogeneous.instance import Instance, Solution


MOST_NAMED_JOBS = 40
"""Most jobs drawn with names and numbers; larger instances are drawn without either."""

COLUMN_INCHES, MATRIX_FRAME_INCHES, BAR_INCHES, MANY_INCHES = 0.85, 1.3, 0.9, 6.5
LEAST_MATRIX_INCHES = 3.6
"""Least width of a panel, so that its title fits."""


def drawing_of_shares(instance: Instance, solutions: Mapping[str, TimeShares]) -> Drawing:
    """Return a drawing of time shares by job and GPU type, with one panel per solution.

    Time in which a job shares GPUs counts like time in which it runs alone.

    Parameters
    ----------
    instance
        An instance with one of the `SHARE_OBJECTIVES`.
    solutions
        At least one valid solution, by the name of its solver.
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
        axes.set_title(heading(maker, f"{words} {value:,.6g}"), loc="left")
        record(axes, _cells(instance, shares, "share", maker))
        return _draw_matrix(instance, axes, shares, texts, used, len(solutions))

    width = _panel_inches(instance, len(solutions))
    grid = grid_of(len(solutions), width, BAR_INCHES)

    def draw(figure: FigureBase) -> None:
        panels = add_panels(figure, len(solutions), grid)
        for axes, (maker, solution) in zip(panels, solutions.items(), strict=True):
            image = panel(axes, maker, solution)
        for axes in panels[-grid[1] :]:
            axes.set_xlabel("Mean number of GPUs held, by type")
        figure.colorbar(image, ax=panels, label="Share of time", fraction=0.1, aspect=30)

    return Drawing(width * grid[1] + BAR_INCHES, _height(instance, grid[0]), draw)


def drawing_of_throughputs(instance: Instance) -> Drawing:
    """Return a drawing of each job's throughput on one server, by GPU type."""
    rates = np.array(
        [[job.throughput.get(name, 0.0) for name in instance.gpus_of_type] for job in instance.jobs]
    )
    texts = [[f"{rate:.3g}" if rate else "cannot" for rate in row] for row in rates]
    relative = rates / rates.max(axis=1, keepdims=True)

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots()
        there = [counted(count, "GPU") for count in instance.gpus_of_type.values()]
        image = _draw_matrix(instance, axes, relative, texts, there)
        record(axes, _cells(instance, rates, "steps_per_s"))
        numbers = ", steps per second" if _is_named(instance, 1) else ""
        jobs = counted(len(instance.jobs), "job")
        axes.set_title(heading(instance.name, jobs + numbers), loc="left")
        label = "Speed / speed on best type"
        figure.colorbar(image, ax=axes, label=label, fraction=0.1, aspect=30)

    return Drawing(_panel_inches(instance, 1) + BAR_INCHES, _height(instance, 1), draw)


def _draw_matrix(
    instance: Instance,
    axes: Axes,
    values: NDArray[np.float64],
    texts: Sequence[Sequence[str]],
    notes: Sequence[str],
    panels: int = 1,
) -> AxesImage:
    """Draw a matrix of values from 0 to 1, with a text in each cell and a note under each type."""
    image = axes.imshow(
        values, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest"
    )
    types = [
        f"{as_written(shortened(name, 10))}\n{note}"
        for name, note in zip(instance.gpus_of_type, notes, strict=True)
    ]
    axes.set_xticks(range(len(types)), types)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if not _is_named(instance, panels):
        axes.set_ylabel("Jobs in file order (too many to name)")
        return image
    names = [
        f"{as_written(shortened(job.id))}, {counted(job.gang, 'GPU')}" for job in instance.jobs
    ]
    axes.set_yticks(range(len(names)), names)
    for row, cells in enumerate(texts):
        for column, text in enumerate(cells):
            colour = "white" if values[row, column] > 0.55 else DARK_TEXT
            axes.text(column, row, text, ha="center", va="center", color=colour)
    return image


def _cells(
    instance: Instance, values: NDArray[np.float64], name: str, maker: str = ""
) -> Iterator[Mapping[str, Any]]:
    """Yield the data of a matrix: a row per job and GPU type."""
    for job, of_job in zip(instance.jobs, values.tolist(), strict=True):
        for kind, value in zip(instance.gpus_of_type, of_job, strict=True):
            yield {
                "solution": maker,
                "job": job.id,
                "gang_gpus": job.gang,
                "gpu_type": kind,
                name: value,
            }


def _is_named(instance: Instance, panels: int) -> bool:
    """Return whether the jobs are few enough to be drawn with names and numbers in each panel."""
    return len(instance.jobs) <= rows_of_panel(MOST_NAMED_JOBS, panels)


def _panel_inches(instance: Instance, panels: int) -> float:
    """Return the width of a panel in inches, including the names of its jobs."""
    names = 0.4
    if _is_named(instance, panels):
        names += max(text_inches(f"{shortened(job.id)}, {job.gang} GPUs") for job in instance.jobs)
    return max(LEAST_MATRIX_INCHES, names + COLUMN_INCHES * len(instance.gpu_types))


def _height(instance: Instance, panels: int) -> float:
    """Return the height of panels below one another."""
    inches = max(ROW_INCHES * len(instance.jobs), 1.0)
    if not _is_named(instance, panels):
        inches = panel_inches(MANY_INCHES, panels)
    return frames_inches(MATRIX_FRAME_INCHES, panels) + inches * panels


WIDTH_INCHES, LEGEND_INCHES, FRAME_INCHES = 9.0, 1.6, 0.5
LANE_INCHES, LEAST_TYPE_INCHES = 0.17, 0.3
LEAST_INCHES, MOST_INCHES = 2.6, 4.5
"""Least and greatest height of a panel."""

MOST_VECTOR_BLOCKS = 4_000
"""Most blocks drawn as vector shapes; a picture with more blocks contains a bitmap instead."""


@dataclass(frozen=True, slots=True)
class Block:
    """Rectangle of a drawing: GPUs that one job holds during consecutive rounds.

    Parameters
    ----------
    job
        File position of the job.
    first_round, past_round
        The block runs from the start of `first_round` to the start of `past_round`.
    first_lane, lanes
        Each GPU is a lane; lanes are sorted by type, then by server in file order.
    """

    job: int
    first_round: int
    past_round: int
    first_lane: int
    lanes: int


@dataclass(frozen=True, slots=True)
class _Panel:
    """Axis scales of one panel in a drawing of a schedule.

    Parameters
    ----------
    edges
        Boundaries of the lanes, from the top; types with few GPUs are enlarged.
    tops
        First lane and name of each GPU type.
    height_inches
        Height of the axes.
    last_round
        Round at which the time axis ends.
    """

    edges: Sequence[float]
    tops: Sequence[tuple[int, str]]
    height_inches: float
    last_round: int


def drawing_of_rounds(instance: Instance, solutions: Mapping[str, RoundSchedule]) -> Drawing:
    """Return a drawing with one panel per schedule, stacked on a common time axis.

    Parameters
    ----------
    instance
        An instance whose solutions are schedules in rounds.
    solutions
        At least one valid schedule, by the name of its solver.
    """
    rounds = [entry.round for found in solutions.values() for entry in found.entries]
    panel = _panel(instance, max(rounds, default=0) + 1, len(solutions))
    weights = [job.gang * job.steps / job.best_rate for job in instance.jobs]
    colours = named_colours(weights)

    def draw(figure: FigureBase) -> None:
        panels = figure.subplots(len(solutions), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, (name, solution) in zip(panels, solutions.items(), strict=True):
            blocks = blocks_of(instance, solution)
            _draw_panel(instance, blocks, axes, panel, colours)
            record(axes, _boxes(instance, blocks, name))
            axes.set_title(_title(instance, name, solution), loc="left")
        unit = time_unit(panel.last_round * instance.round_s)[1]
        panels[-1].set_xlabel(f"Time ({unit}), rounds of {in_words(instance.round_s)}")
        _add_legend(figure, instance, colours)

    height = FRAME_INCHES + (panel.height_inches + 0.35) * len(solutions)
    return Drawing(WIDTH_INCHES, height, draw)


def blocks_of(instance: Instance, schedule: RoundSchedule) -> list[Block]:
    """Return the rectangles that show a valid schedule.

    GPUs of one type on one server are interchangeable. A job that stays on a server keeps its
    lanes; other jobs take the first free lanes. O(GPUs held in all rounds), and sorting.
    """
    first_lane: dict[tuple[str, str], int] = {}
    lane = 0
    for name in instance.gpus_of_type:
        for server in instance.servers:
            first_lane[server.id, name] = lane
            lane += server.gpus.get(name, 0)
    by_round: dict[int, dict[tuple[str, str], list[tuple[int, int]]]] = {}
    for entry in schedule.entries:
        places = by_round.setdefault(entry.round, defaultdict(list))
        for host, types in entry.gpus.items():
            for name, count in types.items():
                places[host, name].append((instance.job_position[entry.job], count))
    runs: dict[int, tuple[int, int, int]] = {}  # job, first and last round by lane, so far
    done: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    before: dict[tuple[str, str], dict[int, list[int]]] = {}
    for number in sorted(by_round):
        now: dict[tuple[str, str], dict[int, list[int]]] = {}
        for (host, name), holders in by_round[number].items():
            first = first_lane[host, name]
            lanes = range(first, first + instance.server_of[host].gpus[name])
            now[host, name] = _taken(lanes, holders, before.get((host, name), {}))
            for job, held in now[host, name].items():
                for lane in held:
                    run = runs.get(lane)
                    if run is not None and (run[0], run[2]) == (job, number - 1):
                        runs[lane] = (job, run[1], number)
                        continue
                    if run is not None:
                        done[run].append(lane)
                    runs[lane] = (job, number, number)
        before = now
    for lane, run in runs.items():
        done[run].append(lane)
    return [
        Block(job, first, last + 1, lanes[0], len(lanes))
        for (job, first, last), found in sorted(done.items())
        for lanes in _neighbours(sorted(found))
    ]


def _boxes(instance: Instance, blocks: Sequence[Block], name: str) -> Iterator[Mapping[str, Any]]:
    """Yield the data of a schedule: a row per block, whose GPUs are counted over all types."""
    kinds = [kind for kind, count in instance.gpus_of_type.items() for _ in range(count)]
    for block in blocks:
        yield {
            "solution": name,
            "job": instance.jobs[block.job].id,
            "gpu_type": kinds[block.first_lane],
            "first_gpu": block.first_lane,
            "gpus": block.lanes,
            "start_s": block.first_round * instance.round_s,
            "end_s": block.past_round * instance.round_s,
        }


def _taken(
    lanes: Sequence[int], holders: Sequence[tuple[int, int]], before: Mapping[int, Sequence[int]]
) -> dict[int, list[int]]:
    """Return the rows of GPUs that each job occupies in a drawing, its earlier rows first."""
    taken = {job: list(before.get(job, ())[:count]) for job, count in holders}
    held = {lane for kept in taken.values() for lane in kept}
    free = (lane for lane in lanes if lane not in held)
    for job, count in holders:
        taken[job] += islice(free, count - len(taken[job]))
    return taken


def _neighbours(lanes: Sequence[int]) -> list[list[int]]:
    """Split sorted row numbers into runs of consecutive numbers."""
    found = [[lanes[0]]]
    for before, lane in pairwise(lanes):
        if lane == before + 1:
            found[-1].append(lane)
        else:
            found.append([lane])
    return found


def _panel(instance: Instance, last_round: int, panels: int) -> _Panel:
    """Return the scales that all panels of a drawing share."""
    counts = {name: count for name, count in instance.gpus_of_type.items() if count}
    total = sum(counts.values())
    height = min(max(LANE_INCHES * total, LEAST_TYPE_INCHES * len(counts)), MOST_INCHES)
    height = panel_inches(max(height, LEAST_INCHES), panels)
    edges, tops = [0.0], []
    for name, count in counts.items():
        tops.append((len(edges) - 1, name))
        share = max(count / total, LEAST_TYPE_INCHES / height) / count
        top = edges[-1]
        edges += [top + share * (number + 1) for number in range(count)]
    return _Panel(edges, tops, height, last_round)


def _draw_panel(
    instance: Instance, blocks: Sequence[Block], axes: Axes, panel: _Panel, colours: Sequence[str]
) -> None:
    """Draw the GPUs of each type as a background, with the blocks of jobs above."""
    from matplotlib.collections import PolyCollection

    edges, end = panel.edges, panel.edges[-1]
    scale = instance.round_s / time_unit(panel.last_round * instance.round_s)[0]
    axes.set_xlim(0, panel.last_round * scale)
    axes.set_ylim(end, 0)
    axes.set_facecolor(FREE_COLOUR)
    axes.grid(visible=False)
    corners: dict[str, list[list[tuple[float, float]]]] = defaultdict(list)
    for block in blocks:
        start, end_of_block = block.first_round * scale, block.past_round * scale
        top, bottom = edges[block.first_lane], edges[block.first_lane + block.lanes]
        corners[colours[block.job]].append(
            [(start, top), (end_of_block, top), (end_of_block, bottom), (start, bottom)]
        )
    for colour, of_colour in corners.items():
        axes.add_collection(
            PolyCollection(
                of_colour,
                facecolors=colour,
                edgecolors="white",
                linewidths=0.5 if len(blocks) <= MOST_VECTOR_BLOCKS else 0.0,
                rasterized=len(blocks) > MOST_VECTOR_BLOCKS,
            ),
            autolim=False,
        )
    for lane, _ in panel.tops[1:]:
        axes.axhline(edges[lane], color="black", linewidth=0.8, zorder=3)
    ends = [*(edges[lane] for lane, _ in panel.tops[1:]), end]
    middles = [(edges[lane] + to) / 2 for (lane, _), to in zip(panel.tops, ends, strict=True)]
    gpus = instance.gpus_of_type
    axes.set_yticks(
        middles,
        [f"{as_written(shortened(name))}, {counted(gpus[name], 'GPU')}" for _, name in panel.tops],
    )
    axes.tick_params(axis="y", length=0)
    width_inches = WIDTH_INCHES - LEGEND_INCHES - 1.2
    for block in blocks[:MOST_VECTOR_BLOCKS]:
        name = shortened(instance.jobs[block.job].id)
        top, bottom = edges[block.first_lane], edges[block.first_lane + block.lanes]
        length = block.past_round - block.first_round
        if (
            length / panel.last_round * width_inches >= text_inches(name)
            and (bottom - top) / end * panel.height_inches
            >= 1.2 * style_in_force().text_points / 72
        ):
            axes.text(
                (block.first_round + length / 2) * scale,
                (top + bottom) / 2,
                as_written(name),
                color=text_colour(colours[block.job]),
                ha="center",
                va="center_baseline",
                **halo(colours[block.job]),
            )


def _title(instance: Instance, name: str, solution: RoundSchedule) -> str:
    report = check(instance, solution)
    words = str(instance.objective).replace("_", " ").replace("jct", "JCT")
    value = report.objective or 0
    is_time = instance.objective in (Objective.MAKESPAN, Objective.MEAN_JCT)
    shown = in_words(float(value)) if is_time else f"{value:,.6g}"
    title = f"{heading(name)}: {words} {shown}"
    if instance.objective is not Objective.ROUND_PROGRESS and report.completed is not None:
        title += f", {len(report.completed):,} of {counted(len(instance.jobs), 'job')} complete"
    return title


def _add_legend(figure: FigureBase, instance: Instance, colours: Sequence[str]) -> None:
    """List the coloured jobs by name, and the number of other jobs."""
    from matplotlib.patches import Patch

    handles = handles_of_named([job.id for job in instance.jobs], colours)
    handles.append(Patch(facecolor=FREE_COLOUR, edgecolor="#c8c8c8", label="free"))
    legend_beside(figure, handles)


def drawing_of(instance: Instance, solutions: Mapping[str, Solution]) -> Drawing:
    """Return a drawing of the solutions, or of the instance if there are no solutions.

    Parameters
    ----------
    instance
        The instance of the solutions.
    solutions
        Valid solutions, by the name of their solver.
    """
    shares = {name: found for name, found in solutions.items() if isinstance(found, TimeShares)}
    if shares:
        return drawing_of_shares(instance, shares)
    rounds = {name: found for name, found in solutions.items() if isinstance(found, RoundSchedule)}
    if rounds:
        return drawing_of_rounds(instance, rounds)
    return drawing_of_throughputs(instance)
