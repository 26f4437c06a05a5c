"""The files of ``lyra-opt simulate --out`` for schemes that decide in rounds."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from experiments.simulation.measures import shown_measures
from experiments.simulation.page import csv_text, render_page, save_files
from experiments.simulation.plots import distributions, over_time
from experiments.simulation.rounds_measures import ROUND_MEASURES
from experiments.simulation.rounds_replay import RoundOutcomes
from lyra_opt.pictures import house_style

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
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
    outcomes = [field.name for field in fields(RoundOutcomes)]

    def rows() -> Iterable[Sequence[object]]:
        for replay in replays:
            columns = [getattr(replay.outcomes, name).tolist() for name in outcomes]
            for job, *values in zip(replay.setup.workload.jobs, *columns, strict=True):
                known = [getattr(job, name) for name in JOB_COLUMNS]
                yield [replay.scheme.name, job.id, *known, *values]

    return csv_text(["scheme", "job_id", *JOB_COLUMNS, *outcomes], rows())


def round_series_text(replays: Sequence[RoundReplay]) -> str:
    """Return the state of the cluster over time, as CSV."""
    types = list(replays[0].series.gpus_given)

    def rows() -> Iterable[Sequence[object]]:
        for replay in replays:
            series = replay.series
            columns = [getattr(series, name).tolist() for name in SERIES_COLUMNS]
            columns += [series.gpus_given[name].tolist() for name in types]
            for values in zip(*columns, strict=True):
                yield [replay.scheme.name, *values]

    return csv_text(["scheme", *SERIES_COLUMNS, *(f"gpus_given_{name}" for name in types)], rows())


def round_page_text(replays: Sequence[RoundReplay], plots: Sequence[Plot]) -> str:
    """Return everything as one HTML page that needs no other file."""
    setup = replays[0].setup
    records = [replay.as_json_object() for replay in replays]
    shown = shown_measures(records, ROUND_MEASURES)
    return render_page(
        "rounds.html.jinja",
        setup=setup,
        demand=setup.demand_in_words,
        schemes=[replay.scheme for replay in replays],
        rows=[(measure.name, [measure.of(record) for record in records]) for measure in shown],
        meanings=[measure for measure in shown if measure.meaning],
        plots=plots,
        assumptions=dict.fromkeys(
            sentence for replay in replays for sentence in replay.assumptions
        ),
    )
