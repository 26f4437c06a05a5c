"""Draw a cluster: racks side by side, the machines of each below one another, and gangs on them."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import counted
from lyra_opt.core.picture_styles import style_in_force
from lyra_opt.core.pictures import (
    FREE_COLOUR,
    ROW_INCHES,
    Drawing,
    add_colour_legend,
    as_written,
    block_rows_of,
    by_all_solutions,
    drawing_of_rows,
    drawn_in_words,
    heading,
    note_below,
    rows_of_panel,
    shortened,
    text_inches,
)
from lyra_opt.network.checker import check
from lyra_opt.network.links import Tier

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

    from lyra_opt.core.pictures import BlockRows
    from lyra_opt.network.instance import Instance, Solution, WaitingJob

MOST_MACHINES, MOST_JOBS = 192, 40
"""Most machines drawn, those with starting gangs first, then those with the most free GPUs; most
waiting gangs drawn, in file order."""

STRIP_MACHINES, STRIPS_A_LINE, STRIPS_BESIDE_GANGS = 24, 4, 3
"""Most machines in a column, and most columns in a row, without and with gangs beside them."""

STRIP_INCHES, GANGS_INCHES, FRAME_INCHES = 2.4, 3.2, 1.65
LEAST_PANEL_INCHES = 3.4
"""Least width of a panel, so that its title fits."""

TIER_COLOURS = {Tier.MACHINE: "#009e73", Tier.RACK: "#e69f00", Tier.NETWORK: "#d55e00"}
TIER_WORDS = {
    Tier.MACHINE: "gang in one machine",
    Tier.RACK: "across a rack",
    Tier.NETWORK: "across racks",
}
GPU_AXIS = "GPUs of a machine"
BUSY, HELD_BACK = "#b9c0c8", "#8a8f96"
OTHER_COLOURS = {"held by others": BUSY, "free": FREE_COLOUR}


@dataclass(frozen=True, slots=True)
class _Floor:
    """The positions of the machines in a drawing.

    Parameters
    ----------
    place
        Row and left end, in GPUs, of each machine, by file position.
    heads
        Name, row and left end of each rack label.
    rows, strips
        Number of rows, and of machine columns in the widest row.
    pitch
        Distance between the left ends of two columns, in GPUs.
    """

    place: Mapping[int, tuple[int, float]]
    heads: Sequence[tuple[str, int, float]]
    rows: int
    strips: int
    pitch: float


def drawing_of(instance: Instance, solutions: Mapping[str, Solution]) -> Drawing:
    """Return a drawing with one panel per solution, with machines in the same positions.

    Without solutions, the machines are drawn beside the waiting gangs.

    Parameters
    ----------
    instance
        The instance of the solutions.
    solutions
        Valid solutions, by the name of their solver.
    """
    # Without solutions, a narrow style draws the waiting gangs in a panel below the machines.
    most_rows = rows_of_panel(MOST_MACHINES, len(solutions) or 2)
    floor = next(
        found
        for most in range(most_rows, 0, -1)
        if (found := _floor(instance, solutions, most)).rows <= most_rows or most == 1
    )
    width = max(0.4 + STRIP_INCHES * floor.strips, LEAST_PANEL_INCHES)
    order = "preferring those with most free GPUs"
    if solutions:
        order = "preferring those of starting gangs"
    rest = drawn_in_words(len(floor.place), len(instance.machines), "machine", order)
    if not solutions:
        return _alone(instance, floor, width, rest)
    return drawing_of_rows(
        {
            name: partial(_draw_gangs, instance, name, solution, floor)
            for name, solution in solutions.items()
        },
        [],
        floor.strips * floor.pitch,
        label=GPU_AXIS,
        colours={TIER_WORDS[tier]: colour for tier, colour in TIER_COLOURS.items()} | OTHER_COLOURS,
        left_out=rest,
        width_inches=width,
        frame_inches=FRAME_INCHES,
        rows=floor.rows,
    )


def _alone(instance: Instance, floor: _Floor, width: float, rest: str) -> Drawing:
    """Return a drawing of the machines and the waiting gangs."""
    style = style_in_force()
    jobs = instance.jobs[: rows_of_panel(MOST_JOBS, 2)]
    rows = floor.rows, len(jobs)
    most_rows = sum(rows) if style.is_narrow else max(rows)

    def draw(figure: FigureBase) -> None:
        if style.is_narrow:
            machines, gangs = figure.subplots(2, 1, height_ratios=[count + 3 for count in rows])
        else:
            machines, gangs = figure.subplots(1, 2, width_ratios=(width, GANGS_INCHES))
        total = floor.strips * floor.pitch
        _draw_machines(instance, floor, block_rows_of(machines, [], total, width, solution=""))
        free, racks = counted(instance.free_gpus, "free GPU"), counted(len(instance.racks), "rack")
        there = f"{counted(len(instance.machines), 'machine')} in {racks}, {free}"
        machines.set_title(heading(instance.name, there), loc="left")
        machines.set_xlabel(GPU_AXIS)
        _draw_waiting(instance, jobs, gangs)
        if not style.is_narrow:
            machines.set_ylim(most_rows - 0.4, -0.6)
            gangs.set_ylim(most_rows - 0.4, -0.6)
        colours = {
            "gang that accepts one machine": TIER_COLOURS[Tier.MACHINE],
            "or a rack": TIER_COLOURS[Tier.RACK],
            "or several racks": TIER_COLOURS[Tier.NETWORK],
            "nothing yet": HELD_BACK,
        }
        add_colour_legend(figure, colours | OTHER_COLOURS, {})
        gangs_drawn = drawn_in_words(len(jobs), len(instance.jobs), "gang", "in file order")
        note_below(figure, rest, gangs_drawn)

    height = FRAME_INCHES * (1 + style.is_narrow) + ROW_INCHES * most_rows
    return Drawing(width + GANGS_INCHES, height, draw)


def _floor(instance: Instance, solutions: Mapping[str, Solution], most: int) -> _Floor:
    """Return the positions of at most `most` machines, with racks in file order."""
    used = [
        {instance.machine_position[name] for each in solution.placements for name in each.gpus}
        for solution in solutions.values()
    ]
    by_room = sorted(
        range(len(instance.machines)), key=lambda place: -instance.machines[place].free_gpus
    )
    order = by_all_solutions(by_room, used)
    style = style_in_force()
    shown = set(order[:most])
    kept = {
        rack: [place for place in positions if place in shown]
        for rack, positions in instance.racks.items()
    }
    columns = [
        (rack, machines[start : start + STRIP_MACHINES])
        for rack, machines in kept.items()
        for start in range(0, len(machines), STRIP_MACHINES)
    ]
    names = [shortened(instance.machines[place].id) for place in shown]
    most_gpus = max(instance.machines[place].gpus for place in shown)
    margin_inches = min(max(text_inches(name) for name in names) + 0.1, 1.2)
    margin = most_gpus * margin_inches / (STRIP_INCHES - margin_inches - 0.1)
    pitch = (most_gpus + margin) * STRIP_INCHES / (STRIP_INCHES - 0.1)
    place: dict[int, tuple[int, float]] = {}
    heads = []
    row = 0
    gap = 0 if style.is_narrow else 1
    strips = min(STRIPS_A_LINE if solutions else STRIPS_BESIDE_GANGS, style.most_columns)
    for start in range(0, len(columns), strips):
        line = columns[start : start + strips]
        for number, (rack, machines) in enumerate(line):
            left = margin + number * pitch
            heads.append((rack, row, left))
            place |= {machine: (row + 1 + at, left) for at, machine in enumerate(machines)}
        row += 1 + gap + max(len(machines) for _, machines in line)
    return _Floor(place, heads, row - gap, min(len(columns), strips), pitch)


def _draw_machines(instance: Instance, floor: _Floor, rows: BlockRows) -> None:
    """Draw the machines and their busy GPUs."""
    axes = rows.axes
    axes.set_ylim(floor.rows - 0.4, -0.6)
    most = max(instance.machines[position].gpus for position in floor.place)
    lefts = sorted({left for _, left in floor.place.values()})
    gpus = [*range(0, most + 1, max(1, round(most / 4)))]
    axes.set_xticks([left + each for left in lefts for each in gpus], gpus * len(lefts))
    axes.spines["bottom"].set_visible(False)
    for rack, row, left in floor.heads:
        axes.text(left, row + 0.1, f"rack {as_written(shortened(rack))}", va="center")
    racks = {place: rack for rack, places in instance.racks.items() for place in places}
    for position, (row, left) in floor.place.items():
        machine = instance.machines[position]
        words: dict[str, Any] = {"rack": racks[position], "machine": machine.id}
        rows.track(row, machine.gpus, left=left, **words, state="capacity")
        axes.text(
            left - 0.02 * floor.pitch,
            row,
            as_written(shortened(machine.id)),
            ha="right",
            va="center_baseline",
        )
        if machine.gpus > machine.free_gpus:
            words |= {"first_gpu": 0, "state": "held by others"}
            rows.block(row, left, machine.gpus - machine.free_gpus, BUSY, **words)


def _draw_gangs(
    instance: Instance, name: str, solution: Solution, floor: _Floor, rows: BlockRows
) -> str:
    """Draw the machines and the gangs that start; return the title of the panel."""
    _draw_machines(instance, floor, rows)
    held: dict[int, int] = defaultdict(int)
    heads = Counter(job.id.partition("-")[0] for job in instance.jobs)
    for placement in solution.placements:
        tier = instance.tier_of(placement.gpus)
        words: dict[str, Any] = {"gang": placement.job, "state": TIER_WORDS[tier]}
        for machine, gpus in placement.gpus.items():
            position = instance.machine_position[machine]
            if position not in floor.place:
                continue
            row, left = floor.place[position]
            record = instance.machines[position]
            first = record.gpus - record.free_gpus + held[position]
            head = placement.job.partition("-")[0]
            labels = [shortened(placement.job), *([head] if heads[head] == 1 else [])]
            words |= {"machine": machine, "first_gpu": first}
            rows.block(row, left + first, gpus, TIER_COLOURS[tier], *labels, **words)
            held[position] += gpus
    report = check(instance, solution)
    started = f"Starting: {len(solution.placements):,} of {counted(len(instance.jobs), 'gang')}"
    placed = f"{report.placed_gpus or 0:,} of {counted(instance.free_gpus, 'free GPU')}"
    value = f"{instance.objective} {report.objective:,.6g}".replace("_", " ")
    return f"{heading(name)}: {value}\n{started},\non {placed}"


def _draw_waiting(instance: Instance, jobs: Sequence[WaitingJob], axes: Axes) -> None:
    """Draw the waiting gangs, each in the colour of the farthest tier that it accepts now."""
    rows = block_rows_of(
        axes, [shortened(job.id) for job in jobs], max(job.gang for job in jobs), GANGS_INCHES
    )
    for row, job in enumerate(jobs):
        tiers = instance.tiers_of(job)
        words = {"gang": job.id, "state": TIER_WORDS[max(tiers)] if tiers else "nothing yet"}
        rows.block(row, 0, job.gang, TIER_COLOURS[max(tiers)] if tiers else HELD_BACK, **words)
    axes.set_title(f"{counted(len(instance.jobs), 'gang')} waiting", loc="left")
    axes.set_xlabel("GPUs of the gang")
