"""The files of ``lyra-opt simulate --out`` on a network of tiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.simulation.network_measures import NETWORK_MEASURES
from experiments.simulation.network_plots import draw_network_plots
from experiments.simulation.page import (
    comparison_page,
    moments_text,
    outcomes_text,
    save_files,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from experiments.plots.figures import Plot
    from experiments.simulation.network_replay import NetworkReplay

JOB_COLUMNS = ("submit_s", "gang", "work_gpu_s", "model")


def write_network_files(replays: Sequence[NetworkReplay], folder: Path) -> None:
    """Write what came of the schemes into a folder, which is made if it is missing.

    Parameters
    ----------
    replays
        Runs of one setup, at least one.
    folder
        Gets ``metrics.json`` (an object, or an array of several), ``jobs.csv`` with a row for each
        scheme and job, ``series.csv`` with a row for each scheme and moment, ``plots/*.svg`` and
        the page.

    Raises
    ------
    UserError
        If a file cannot be written.
    """
    plots = draw_network_plots(replays)
    save_files(
        folder,
        records=[replay.as_json_object() for replay in replays],
        jobs=outcomes_text(replays, JOB_COLUMNS),
        series=moments_text(replays),
        plots=plots,
        page=network_page_text(replays, plots),
    )


def network_page_text(replays: Sequence[NetworkReplay], plots: Sequence[Plot]) -> str:
    """Return everything as one HTML page that needs no other file."""
    demand = replays[0].setup.demand_in_words
    return comparison_page("network.html.jinja", replays, NETWORK_MEASURES, plots, demand=demand)
