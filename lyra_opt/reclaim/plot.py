"""Drawings of reclaiming: the servers on loan, their jobs, and the workers that a choice stops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.core.errors import counted
from lyra_opt.core.pictures import (
    FREE_COLOUR,
    Drawing,
    add_colour_legend,
    add_panels,
    as_written,
    block_rows_of,
    drawn_in_words,
    grid_of,
    rows_inches,
    rows_of_panel,
    shortened,
)
from lyra_opt.reclaim.checker import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from matplotlib.figure import FigureBase

    from lyra_opt.core.pictures import BlockRows
    from lyra_opt.reclaim.instance import Instance, Job, Server, Solution, WorkerGroup

MOST_SERVERS = 40
"""Most servers that are drawn: reclaimed ones first, then those that host preempted jobs."""

PANEL_INCHES, FRAME_INCHES = 4.8, 1.5

KEPT, SCALED_IN, PREEMPTED, GIVEN_BACK = "#9db7d3", "#eec16b", "#d1495b", "#fdf0dc"
BASE, FLEXIBLE = KEPT, "#f3dcae"
"""Colours of workers; flexible workers have a pale shade of the colour for scaled-in workers."""
VACATED_EDGE = "#b8720a"
WORDS = {
    KEPT: "job survives",
    SCALED_IN: "job survives with fewer workers",
    PREEMPTED: "job preempted",
}


def drawing_of(instance: Instance, solutions: Mapping[str, Solution]) -> Drawing:
    """Return a drawing with one panel per solution, side by side, and one row per server.

    Parameters
    ----------
    instance
        The instance that the solutions answer.
    solutions
        Valid solutions, by solver name. If empty, the instance alone is drawn.
    """
    reports = {name: check(instance, found) for name, found in solutions.items()}
    shown, left_out = _shown_servers(instance, solutions, reports)
    grid = grid_of(max(len(solutions), 1), PANEL_INCHES)
    height = rows_inches(max(len(shown), 1), grid[0], FRAME_INCHES)

    def draw(figure: FigureBase) -> None:
        panels = add_panels(figure, max(len(solutions), 1), grid)
        ids = [server.id for server in shown]
        most = max((server.gpus for server in shown), default=1)
        rows = [
            block_rows_of(axes, ids, most, PANEL_INCHES, solution=name)
            for axes, name in zip(panels, solutions or [""], strict=True)
        ]
        for axes in panels[-grid[1] :]:
            axes.set_xlabel("GPUs")
        if solutions:
            for (name, solution), panel in zip(solutions.items(), rows, strict=True):
                _draw_solution(instance, solution, reports[name], panel, ids)
                panel.axes.set_title(_title(name, reports[name]), loc="left")
            colours = {words: colour for colour, words in WORDS.items()} | {"free": FREE_COLOUR}
            add_colour_legend(figure, colours, {"given back": VACATED_EDGE})
        else:
            _draw_instance(instance, rows[0], ids)
            rows[0].axes.set_title(_instance_title(instance), loc="left")
            colours = {"base workers": BASE, "flexible workers": FLEXIBLE, "free": FREE_COLOUR}
            add_colour_legend(figure, colours, {})
        if left_out:
            figure.supxlabel(left_out)

    return Drawing(PANEL_INCHES * grid[1], height, draw)


def _draw_instance(instance: Instance, rows: BlockRows, shown: Sequence[str]) -> None:
    """Draw the workers of each job on the shown servers."""
    row = {server: place for place, server in enumerate(shown)}
    for server in instance.servers:
        if server.id in row:
            rows.track(row[server.id], server.gpus, server=server.id, state="on loan")
    for job, group, left in _placed(instance, row):
        base = group.base * job.gpus_per_worker
        name, words = shortened(job.id), {"server": group.server, "job": job.id}
        if base:
            labels = name, shortened(job.id, 6)
            rows.block(row[group.server], left, base, BASE, *labels, **words, state="base workers")
        if group.flexible:
            flexible = group.flexible * job.gpus_per_worker
            words["state"] = "flexible workers"
            rows.block(row[group.server], left + base, flexible, FLEXIBLE, name, **words)


def _draw_solution(
    instance: Instance, solution: Solution, report: Report, rows: BlockRows, shown: Sequence[str]
) -> None:
    """Draw the jobs on the shown servers, coloured as unaffected, scaled in or preempted."""
    given_back = set(solution.servers)
    preempted = set(report.preempted_jobs or ())
    row = {server: place for place, server in enumerate(shown)}
    for server in instance.servers:
        if server.id in row:
            is_back = server.id in given_back
            colour, state = (GIVEN_BACK, "given back") if is_back else (FREE_COLOUR, "kept")
            rows.track(row[server.id], server.gpus, colour, server=server.id, state=state)
            if is_back:
                rows.frame(row[server.id], server.gpus, VACATED_EDGE)
    touched = {
        job.id for job in instance.jobs if any(group.server in given_back for group in job.workers)
    }
    for job, group, left in _placed(instance, row):
        colour = PREEMPTED if job.id in preempted else SCALED_IN if job.id in touched else KEPT
        name = shortened(job.id)
        labels = [f"{name} ({group.flexible} flexible)"] if group.flexible else []
        gpus = group.workers * job.gpus_per_worker
        labels += [name, shortened(job.id, 6)]
        words = {"server": group.server, "job": job.id, "state": WORDS[colour]}
        rows.block(row[group.server], left, gpus, colour, *labels, **words)


def _placed(instance: Instance, shown: Iterable[str]) -> Iterator[tuple[Job, WorkerGroup, int]]:
    """Yield the worker groups on the shown servers, each with the number of GPUs to its left."""
    used = dict.fromkeys(shown, 0)
    for job in instance.jobs:
        for group in job.workers:
            if group.server in used:
                yield job, group, used[group.server]
                used[group.server] += group.workers * job.gpus_per_worker


def _title(name: str, report: Report) -> str:
    preempted = report.preempted_jobs or ()
    jobs = f"{counted(len(preempted), 'job')} preempted"
    if report.objective != len(preempted):
        jobs += f", weight {report.objective:,}"
    details = f"{jobs}, collateral damage {counted(report.collateral_gpus or 0, 'GPU')}"
    return f"{as_written(shortened(name, 40))}\n{details}"


def _instance_title(instance: Instance) -> str:
    on_loan = sum(server.on_loan for server in instance.servers)
    name = as_written(shortened(instance.name, 40))
    return (
        f"{name}\n{instance.reclaim_servers:,} of {counted(on_loan, 'server')} on loan to give "
        f"back, {counted(len(instance.jobs), 'job')}"
    )


def _shown_servers(
    instance: Instance, solutions: Mapping[str, Solution], reports: Mapping[str, Report]
) -> tuple[list[Server], str]:
    """Return the servers to draw, in file order, and a sentence that counts all other servers."""
    on_loan = [server for server in instance.servers if server.on_loan]
    chosen = {server for solution in solutions.values() for server in solution.servers}
    losers = {job for report in reports.values() for job in report.preempted_jobs or ()}
    hosts = {group.server for job in instance.jobs if job.id in losers for group in job.workers}
    ranked = sorted(on_loan, key=lambda server: (server.id not in chosen, server.id not in hosts))
    most = rows_of_panel(MOST_SERVERS, max(len(solutions), 1))
    kept = {server.id for server in ranked[:most]}
    order = "those given back first, then those of preempted jobs" if chosen else "in file order"
    drawn = drawn_in_words(len(kept), len(on_loan), "server", f"on loan, {order}")
    others = len(instance.servers) - len(on_loan)
    parts = [drawn, f"{counted(others, 'server')} not on loan are not drawn" if others else ""]
    left_out = "; ".join(filter(None, parts))
    return [server for server in on_loan if server.id in kept], left_out
