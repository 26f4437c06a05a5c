"""The function ``lo.tune``, which chooses values of a scenario's keys by simulation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.messages import as_loud_as
from lyra_opt.core.errors import counted, without_inner_frames
from lyra_opt.core.plotting import drawn_figure
from lyra_opt.experiments.plots.trials import trials_plot
from lyra_opt.front_door.printed import Printed
from lyra_opt.front_door.simulating import checked_processes, given_engine, loudness_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from matplotlib.figure import Figure

    from lyra_opt.experiments.tuning.outcome import Found


@dataclass(frozen=True, repr=False)
class Tuned(Printed):
    """The result of a tuning, which ``print`` shows as ``lyra-opt tune`` does.

    Parameters
    ----------
    points
        The result for each point of the scenario's axes; one if the scenario has no axes.
    out
        The folder with the page and the best scenarios; None if nothing is kept.
    """

    points: Sequence[Found]
    out: Path | None

    def _print(self) -> None:
        from lyra_opt.experiments.tuning.command import print_tuning

        print_tuning(self.points, self.out)

    def __repr__(self) -> str:
        """Return the number of trials and of chosen values on one line per point."""
        return "\n".join(
            f"<tuning {each.name or each.table.name}: {counted(len(each.values), 'value')}, "
            f"the best of {counted(len(each.trials), 'trial')}>"
            for each in self.points
        )

    @without_inner_frames
    def plot(self, *, style: str = "page", file: str | Path | None = None) -> Figure:
        """Return a picture of the trials: their loss in order, and over the main setting.

        Parameters
        ----------
        style, file
            As for `lyra_opt.plot`.

        Raises
        ------
        UserError
            If the file cannot be written.
        """
        return drawn_figure(lambda: trials_plot(self.points).figure, style, file)

    @cached_property
    def trials(self) -> pd.DataFrame:
        """A row per trial: the axes, the values of the keys, the mean measures and the ``loss``."""
        import pandas as pd

        tables = []
        for each in self.points:
            table = each.tried.infer_objects()
            for position, (axis, value) in enumerate(each.point.items()):
                table.insert(position, axis, value)
            tables.append(table)
        return pd.concat(tables, ignore_index=True)

    @cached_property
    def best(self) -> pd.DataFrame:
        """The best trial of each point, with the columns of `trials`."""
        axes = list(self.points[0].point)
        if not axes:
            return self.trials.loc[[self.trials.loss.idxmin()]]
        return self.trials.loc[self.trials.groupby(axes, sort=False).loss.idxmin()]


@without_inner_frames
def tune(
    tuning: str | Path | Mapping[str, Any],
    *,
    changes: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    processes: int = 1,
    scheduler: str | None = None,
    progress: bool = True,
) -> Tuned:
    """Choose values of a scenario's keys by simulation, as ``lyra-opt tune`` does.

    Parameters
    ----------
    tuning
        A bundled tuning, such as ``lyra-2``, a TOML file, or the content of one as a dictionary.
    changes
        New values for keys of the tuning file, such as ``{"trials": 20}``.
    out
        A folder for the runs, the page, and the best scenario (``best.toml``, for `simulate`).
    resume, processes, scheduler
        As for `simulate`.
    progress
        Whether to print the progress to stderr: a bar in a terminal or a notebook, or else a line
        every 15 s. A tuning may take hours.

    Returns
    -------
    Tuned
        The best values and all trials, as data frames.

    Raises
    ------
    UserError
        If the tuning is unknown or not valid, or Optuna (``lyra-opt[tuning]``) is not installed.
    SimulationError
        If a simulation failed.
    KeyboardInterrupt
        After Ctrl-C or SIGTERM; runs that finished are in `out`.
    """
    from lyra_opt.experiments.simulation.scenario.documents import plain
    from lyra_opt.experiments.simulation.scenario.loading import Change
    from lyra_opt.experiments.tuning.command import tuned
    from lyra_opt.experiments.tuning.tuning_file import load_tuning

    processes = checked_processes(processes, out)
    folder = None if out is None else Path(out)
    given = [Change(key, plain(value)) for key, value in (changes or {}).items()]
    with as_loud_as(loudness_of(progress)):
        found, _ = tuned(
            load_tuning(str(tuning) if isinstance(tuning, Path) else tuning, given),
            folder,
            engine=given_engine(scheduler, processes),
            resume=resume,
            command=None,
        )
    return Tuned(found, folder)
