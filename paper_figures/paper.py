"""Make the tables and figures of a paper: run what they need, compare, and draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.commands.messages import say
from lyra_opt.core.pictures import house_style
from lyra_opt.experiments.executor import EXIT_INTERRUPTED, run_stored
from lyra_opt.instances.traces import NOT_THERE
from lyra_opt.paper_figures.dally import plots as dally
from lyra_opt.paper_figures.evaluation import compared, function_of, missing_traces, runs_of
from lyra_opt.paper_figures.hadar import plots as hadar
from lyra_opt.paper_figures.lyra import plots as lyra
from lyra_opt.paper_figures.page import Report
from lyra_opt.paper_figures.results import Results

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from lyra_opt.experiments.plots.figures import Plot
    from lyra_opt.experiments.pool import Engine
    from lyra_opt.experiments.simulation.running.tasks import ReplayTask
    from lyra_opt.paper_figures.comparison import Comparison
    from lyra_opt.paper_figures.document import PublicationTable
    from lyra_opt.paper_figures.setting import Setting

PLOTS: Mapping[str, Mapping[str, Callable[[Comparison], Plot | None]]] = {
    "dally": dally.FUNCTIONS,
    "hadar": hadar.FUNCTIONS,
    "lyra": lyra.FUNCTIONS,
}
"""The functions that draw figures, by paper and name."""


def run_paper(
    setting: Setting,
    publications: Sequence[PublicationTable],
    folder: Path,
    *,
    engine: Engine,
    resume: bool,
    command: str,
) -> tuple[int, Results]:
    """Run what tables and figures need, each replay once, into the store of a folder.

    Parameters
    ----------
    setting
        How much is simulated.
    publications
        The tables and figures asked for.
    folder
        Where the store is, or is made if anything has to be run.
    engine
        Where replays run.
    resume
        Whether to go on with a store that is there already.
    command
        The command line, for the store.

    Returns
    -------
    int
        0; 1 if a replay failed; `EXIT_INTERRUPTED` after Ctrl-C, SIGTERM or SIGHUP.
    Results
        What came of them, nothing after an interruption.

    Raises
    ------
    UserError
        As `run_stored`, or if the file of the paper names what is not there.
    """
    if missing := missing_traces(setting, publications):
        names = ", ".join(missing)
        say(f"{setting.paper.name}: {names}: {NOT_THERE}; what needs them is not run")
    tasks = tasks_of(setting, publications)
    if not tasks:
        return 0, Results(setting, None)
    status = run_stored(
        setting.study(tasks, command),
        tasks,
        folder,
        engine=engine,
        resume=resume,
    )
    if status == EXIT_INTERRUPTED:
        return status, Results(setting, None)
    results = Results(setting, folder, keys=[task.key for task in tasks])
    return int(bool(results.failed)), results


def tasks_of(setting: Setting, publications: Sequence[PublicationTable]) -> list[ReplayTask]:
    """Return the replays of tables and figures, each once, those of one workload together."""
    runs = dict.fromkeys(each for one in publications for each in runs_of(setting, one))
    workloads: dict[Any, int] = {}
    for run, draw in runs:
        workloads.setdefault((run.scenario, run.changes, draw), len(workloads))
    ordered = sorted(runs, key=lambda each: workloads[each[0].scenario, each[0].changes, each[1]])
    return [setting.task(run, draw, position) for position, (run, draw) in enumerate(ordered)]


def report_of(results: Results, publications: Sequence[PublicationTable]) -> Report:
    """Return tables and figures beside ours, with their plots."""
    paper = results.paper
    comparisons = [compared(results, each) for each in publications]
    with house_style():
        drawn = {
            comparison.name: function_of(PLOTS, paper.name, publication.plot)(comparison)
            for publication, comparison in zip(publications, comparisons, strict=True)
            if publication.plot is not None
        }
    return Report(
        title=paper.title,
        introduction=paper.introduction,
        setting=results.setting.in_words(),
        comparisons=comparisons,
        plots={name: plot for name, plot in drawn.items() if plot is not None},
        runs=results.runs,
        failed=results.failed,
    )
