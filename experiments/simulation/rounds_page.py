"""The files of ``lyra-opt simulate --out`` for schemes that decide in rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.simulation.page import (
    comparison_page,
    moments_text,
    outcomes_text,
    save_files,
)
from experiments.simulation.plots import distributions, over_time
from experiments.simulation.rounds_measures import ROUND_MEASURES
from lyra_opt.pictures import house_style

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np

    from experiments.plots.figures import Plot
    from experiments.simulation.rounds_replay import RoundReplay

JOB_COLUMNS = ("release_s", "gang", "steps", "weight")
SERIES_COLUMNS = ("time_s", "queued_jobs", "running_jobs", "copies", "busy_servers")


def write_round_files(replays: Sequence[RoundReplay], folder: Path) -> None:
    """Write what came of the schemes into a folder, which is made if it is missing.

    Parameters
    ----------
    replays
        Runs of one setup, at least one.
    folder
        Gets ``metrics.json`` (an object, or an array of several), ``jobs.csv`` with a row for each
        scheme and job, ``series.csv`` with a row for each scheme and round, ``plots/*.svg`` and
        the page.

    Raises
    ------
    UserError
        If a file cannot be written.
    """
    plots = draw_round_plots(replays)
    save_files(
        folder,
        records=[replay.as_json_object() for replay in replays],
        jobs=round_jobs_text(replays),
        series=round_series_text(replays),
        plots=plots,
        page=round_page_text(replays, plots),
    )


def draw_round_plots(replays: Sequence[RoundReplay]) -> list[Plot]:
    """Return the plots of runs of one setup under different schemes."""
    with house_style():
        return [over_time(replays, [_panels(replay) for replay in replays]), distributions(replays)]


def _panels(replay: RoundReplay) -> dict[str, np.ndarray]:
    """Return what is drawn over time of a run, by name."""
    cluster, series = replay.setup.cluster, replay.series
    panels = {"GPUs given (%)": 100 * replay.given_over_time}
    if len(cluster.gpu_types) > 1:
        for name, given in series.gpus_given.items():
            panels[f"{name} (%)"] = 100 * given / max(1, cluster.gpus_of_type[name])
    return {**panels, "Queued jobs": series.queued_jobs}


def round_jobs_text(replays: Sequence[RoundReplay]) -> str:
    """Return what became of each job, as CSV."""
    return outcomes_text(replays, JOB_COLUMNS)


def round_series_text(replays: Sequence[RoundReplay]) -> str:
    """Return the state of the cluster over time, as CSV."""
    return moments_text(replays, _columns_of_series)


def _columns_of_series(replay: RoundReplay) -> dict[str, np.ndarray]:
    series = replay.series
    columns: dict[str, np.ndarray] = {name: getattr(series, name) for name in SERIES_COLUMNS}
    return columns | {f"gpus_given_{name}": given for name, given in series.gpus_given.items()}


def round_page_text(replays: Sequence[RoundReplay], plots: Sequence[Plot]) -> str:
    """Return everything as one HTML page that needs no other file."""
    demand = replays[0].setup.demand_in_words
    return comparison_page("rounds.html.jinja", replays, ROUND_MEASURES, plots, demand=demand)
