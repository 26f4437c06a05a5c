"""A picture of reclaiming: servers on loan, the jobs on them, and what a choice takes from whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.core.pictures import as_written, house_style
from lyra_opt.reclaim.checker import Report, check

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lyra_opt.reclaim.instance import Instance, Solution, WorkerGroup

MOST_SERVERS = 40
"""Servers that are drawn at most: those given back, then those of jobs that lose workers."""

PANEL_INCHES, ROW_INCHES, FRAME_INCHES = 4.8, 0.2, 1.3
LONGEST_NAME = 14
LETTER = 0.16
"""Width of a letter of a name, in GPUs of a server of eight."""

KEPT, SCALED_IN, PREEMPTED, GIVEN_BACK, FREE = (
    "#9db7d3",
    "#eec16b",
    "#d1495b",
    "#fdf0dc",
    "#f3f4f6",
)
EDGE, VACATED_EDGE = "#ffffff", "#b8720a"


def draw_reclaims(instance: Instance, solutions: Mapping[str, Solution]) -> Figure:
    """Return a figure with a panel for each solution, side by side, servers in the same rows.

    Parameters
    ----------
    instance
        What was decided.
    solutions
        Valid solutions by the name of who made them; at least one.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    reports = {name: check(instance, found) for name, found in solutions.items()}
    shown, left_out = _shown_servers(instance, solutions, reports)
    with house_style():
        figure = Figure(
            figsize=(PANEL_INCHES * len(solutions), FRAME_INCHES + ROW_INCHES * len(shown)),
            layout="constrained",
        )
        panels = figure.subplots(1, len(solutions), sharex=True, sharey=True, squeeze=False)[0]
        for (name, solution), axes in zip(solutions.items(), panels, strict=True):
            plot_reclaim(instance, solution, axes, shown)
            report = reports[name]
            preempted = report.preempted_jobs or ()
            jobs = f"{len(preempted)} job{'s' * (len(preempted) != 1)} preempted"
            if report.objective != len(preempted):
                jobs += f", weight {report.objective:,}"
            details = f"{jobs}, collateral damage {report.collateral_gpus} GPUs"
            axes.set_title(f"{as_written(name)}\n{details}", loc="left")
        panels[0].set_yticks(range(len(shown)), [as_written(_cut(server)) for server in shown])
        panels[0].set_ylim(len(shown) - 0.4, -0.6)
        legend = [
            (KEPT, "job goes on"),
            (SCALED_IN, "job goes on with fewer workers"),
            (PREEMPTED, "job preempted"),
            (FREE, "free"),
        ]
        handles = [Patch(color=colour, label=label) for colour, label in legend]
        handles.append(Patch(facecolor=GIVEN_BACK, edgecolor=VACATED_EDGE, label="given back"))
        figure.legend(handles=handles, loc="outside upper left", ncols=len(handles))
        if left_out:
            figure.supxlabel(f"{left_out} more servers on loan are not drawn", fontsize=8)
    return figure


def plot_reclaim(instance: Instance, solution: Solution, axes: Axes, shown: Sequence[str]) -> None:
    """Draw servers one below the other, a unit of width a GPU, with a block for each job on one.

    Parameters
    ----------
    instance
        What was decided.
    solution
        Servers that are given back; valid.
    axes
        Gets the picture.
    shown
        Servers that are drawn, from above.
    """
    given_back = set(solution.servers)
    preempted = set(check(instance, solution).preempted_jobs or ())
    row = {server: place for place, server in enumerate(shown)}
    used = dict.fromkeys(shown, 0)
    for server in instance.servers:
        if server.id not in row:
            continue
        is_back = server.id in given_back
        axes.barh(
            row[server.id],
            server.gpus,
            0.92,
            color=GIVEN_BACK if is_back else FREE,
            linewidth=0,
        )
        if is_back:
            axes.barh(
                row[server.id],
                server.gpus,
                0.9,
                fill=False,
                edgecolor=VACATED_EDGE,
                linewidth=1.6,
                zorder=4,
                clip_on=False,
            )
    most = max(server.gpus for server in instance.servers if server.id in row)
    for job in instance.jobs:
        touched = any(group.server in given_back for group in job.workers)
        colour = PREEMPTED if job.id in preempted else SCALED_IN if touched else KEPT
        for group in job.workers:
            if group.server not in row:
                continue
            width = group.workers * job.gpus_per_worker
            left = used[group.server]
            used[group.server] += width
            axes.barh(
                row[group.server], width, 0.66, left, color=colour, edgecolor=EDGE, linewidth=0.8
            )
            label = _label(job.id, group)
            if len(label) * LETTER * most / 8 <= width:
                axes.text(
                    left + width / 2,
                    row[group.server],
                    as_written(label),
                    ha="center",
                    va="center_baseline",
                    fontsize=6.5,
                    color="white" if colour == PREEMPTED else "#1b1f24",
                )
    axes.set_xlim(-0.06, most + 0.06)
    axes.set_xlabel("GPUs")
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)


def _label(job: str, group: WorkerGroup) -> str:
    """Return the name of a job, and how many of its workers here are flexible."""
    return f"{_cut(job)} ({group.flexible} flexible)" if group.flexible else _cut(job)


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _shown_servers(
    instance: Instance,
    solutions: Mapping[str, Solution],
    reports: Mapping[str, Report],
) -> tuple[list[str], int]:
    """Return the servers on loan that are drawn, in file order, and how many are left out."""
    on_loan = [server.id for server in instance.servers if server.on_loan]
    chosen = {server for solution in solutions.values() for server in solution.servers}
    losers = {job for report in reports.values() for job in report.preempted_jobs or ()}
    hosts = {group.server for job in instance.jobs if job.id in losers for group in job.workers}
    ranked = sorted(on_loan, key=lambda server: (server not in chosen, server not in hosts))
    kept = set(ranked[:MOST_SERVERS])
    return [server for server in on_loan if server in kept], len(on_loan) - len(kept)
