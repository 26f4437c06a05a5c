"""Replay a scenario into a folder: one way for the command line and for Python."""

from __future__ import annotations

import weakref
from contextlib import ExitStack
from typing import TYPE_CHECKING

from lyra_opt.commands.folders import output_folder, require_folder_path
from lyra_opt.commands.messages import say
from lyra_opt.core.temporary import TemporaryFolder
from lyra_opt.experiments.executor import require_own_store, run_stored
from lyra_opt.experiments.simulation.printing import say_demand
from lyra_opt.experiments.simulation.replays import replay_tasks, study_of
from lyra_opt.experiments.simulation.runs import load_replays
from lyra_opt.experiments.simulation.scenario import absent_cases

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lyra_opt.experiments.pool import Engine
    from lyra_opt.experiments.simulation.runs import Replays
    from lyra_opt.experiments.simulation.scenario import Scenario


def run_scenario(
    scenario: Scenario,
    schemes: Sequence[str] = (),
    *,
    out: Path | None = None,
    resume: bool = False,
    engine: Engine,
    capture: Path | None = None,
    command: str | None = None,
) -> tuple[int, Replays]:
    """Replay what a scenario asks for, and return how it ended with what came of it.

    All that can be wrong is found out before the first replay.

    Parameters
    ----------
    scenario, schemes, capture
        As of `lyra_opt.experiments.simulation.replays.replay_tasks`.
    out
        Folder that keeps the replays; None keeps them as long as the object that is returned.
    resume
        Whether to go on with the replays that the folder holds.
    engine
        Where replays run.
    command
        The command line that asked for it, where there was one.

    Returns
    -------
    tuple of int and Replays
        The status of `lyra_opt.experiments.executor.run_stored`.

    Raises
    ------
    UserError
        If something that the scenario names is wrong, or a folder cannot be written to.
    """
    folders = {"--out": out, "--capture": capture}
    for option, folder in folders.items():
        if folder is not None:
            require_folder_path(option, folder)
    tasks = replay_tasks(scenario, schemes, capture=capture)
    study = study_of(scenario, tasks, command=command)
    if out is not None:
        require_own_store(study, out, resume=resume)
    setup = tasks[0].setup()
    with ExitStack() as stack:
        for option, folder in folders.items():
            stack.enter_context(output_folder(option, folder))
        with ExitStack() as unless_done:
            kept = out or unless_done.enter_context(TemporaryFolder())
            for name, trace in absent_cases(scenario).items():
                say(f"case {name} is left out: {trace} is not there")
            say_demand(setup)
            status = run_stored(
                study,
                tasks,
                kept,
                engine=engine,
                resume=resume,
                is_kept=out is not None,
            )
            replays = load_replays(kept, captured=capture)
            weakref.finalize(replays, unless_done.pop_all().close)
    return status, replays
