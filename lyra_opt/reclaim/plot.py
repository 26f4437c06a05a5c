"""Drawings of reclaiming: the servers on loan, their jobs, and the workers that a choice stops."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from lyra_opt.core.errors import counted
from lyra_opt.core.pictures import (
    FREE_COLOUR,
    BlockRows,
    Drawing,
    by_all_solutions,
    drawing_of_rows,
    drawn_in_words,
    heading,
    rows_of_panel,
    shortened,
)
from lyra_opt.reclaim.checker import Report, check
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
    colours = {"base workers": BASE, "flexible workers": FLEXIBLE}
    if solutions:
        colours = {words: colour for colour, words in WORDS.items()}
    panels: dict[str, Callable[[BlockRows], str]] = {
        name: partial(_draw_solution, instance, name, solution, reports[name], shown)
        for name, solution in solutions.items()
    }
    return drawing_of_rows(
        panels or {"": partial(_draw_instance, instance, shown)},
        [shortened(server.id) for server in shown],
        max((server.gpus for server in shown), default=1),
        label="GPUs",
        colours=colours | {"free": FREE_COLOUR},
        framed={"given back": VACATED_EDGE},
        left_out=left_out,
        width_inches=PANEL_INCHES,
        frame_inches=FRAME_INCHES,
    )


def _draw_instance(instance: Instance, shown: Sequence[Server], rows: BlockRows) -> str:
    """Draw the workers of each job on the shown servers; return the title of the panel."""
    row = {server.id: place for place, server in enumerate(shown)}
    for server in shown:
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
    on_loan = counted(sum(server.on_loan for server in instance.servers), "server")
    return heading(
        instance.name,
        f"{instance.reclaim_servers:,} of {on_loan} on loan to give back, "
        f"{counted(len(instance.jobs), 'job')}",
    )


def _draw_solution(
    instance: Instance,
    name: str,
    solution: Solution,
    report: Report,
    shown: Sequence[Server],
    rows: BlockRows,
) -> str:
    """Draw the jobs, coloured as unaffected, scaled in or preempted; return the panel's title."""
    given_back = set(solution.servers)
    preempted = set(report.preempted_jobs or ())
    row = {server.id: place for place, server in enumerate(shown)}
    for server in shown:
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
        shorter = shortened(job.id)
        labels = [f"{shorter} ({group.flexible} flexible)"] if group.flexible else []
        gpus = group.workers * job.gpus_per_worker
        labels += [shorter, shortened(job.id, 6)]
        words = {"server": group.server, "job": job.id, "state": WORDS[colour]}
        rows.block(row[group.server], left, gpus, colour, *labels, **words)
    jobs = f"{counted(len(preempted), 'job')} preempted"
    if report.objective != len(preempted):
        jobs += f", weight {report.objective:,}"
    damage = counted(report.collateral_gpus or 0, "GPU")
    return heading(name, f"{jobs}, collateral damage {damage}")


def _placed(instance: Instance, shown: Iterable[str]) -> Iterator[tuple[Job, WorkerGroup, int]]:
    """Yield the worker groups on the shown servers, each with the number of GPUs to its left."""
    used = dict.fromkeys(shown, 0)
    for job in instance.jobs:
        for group in job.workers:
            if group.server in used:
                yield job, group, used[group.server]
                used[group.server] += group.workers * job.gpus_per_worker


def _shown_servers(
    instance: Instance, solutions: Mapping[str, Solution], reports: Mapping[str, Report]
) -> tuple[list[Server], str]:
    """Return the servers to draw, in file order, and a sentence that counts all other servers."""
    on_loan = [server for server in instance.servers if server.on_loan]
    losers = {job for report in reports.values() for job in report.preempted_jobs or ()}
    hosts = {group.server for job in instance.jobs if job.id in losers for group in job.workers}
    ids = sorted((server.id for server in on_loan), key=lambda server: server not in hosts)
    ranked = by_all_solutions(ids, [set(solution.servers) for solution in solutions.values()])
    most = rows_of_panel(MOST_SERVERS, max(len(solutions), 1))
    kept = set(ranked[:most])
    order = "in file order"
    if solutions:
        order += ", preferring those given back, then those of preempted jobs"
    drawn = drawn_in_words(len(kept), len(on_loan), "server", f"on loan, {order}")
    others = len(instance.servers) - len(on_loan)
    parts = [drawn, f"{counted(others, 'server')} not on loan are not drawn" if others else ""]
    left_out = "; ".join(filter(None, parts))
    return [server for server in on_loan if server.id in kept], left_out
