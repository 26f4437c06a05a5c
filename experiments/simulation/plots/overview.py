"""What came of schemes on one picture: waiting, completion, and GPUs over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.core.errors import InputError
from lyra_opt.core.pictures import TEXT_POINTS, Drawing, as_written, legend_above
from lyra_opt.experiments.simulation.plots.distributions import draw_distributions
from lyra_opt.experiments.simulation.plots.figures import MOST_VARIANTS_DRAWN, waits_and_jcts_s
from lyra_opt.experiments.simulation.plots.schemes import scheme_line
from lyra_opt.experiments.simulation.plots.time_axis import TimeAxis
from lyra_opt.experiments.simulation.runs import variants_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

    from lyra_opt.experiments.records import ReplayRecord
    from lyra_opt.experiments.simulation.runs import Replays

WIDTH_INCHES = 11.0
ROW_INCHES = 3.2
LEGEND_INCHES = 0.5


def overview(replays: Replays) -> Drawing:
    """Return the picture; see `lyra_opt.experiments.simulation.outcome.Runs.plot`."""
    if not replays.runs:
        raise InputError(replays.study.name, "has no replay that finished")
    variants = variants_of(replays.runs)
    drawn = variants[:MOST_VARIANTS_DRAWN]

    def draw(figure: FigureBase) -> None:
        parts = figure.subfigures(len(drawn), 1, squeeze=False)[:, 0]
        for (variant, runs), part in zip(drawn, parts, strict=True):
            waiting, taking, held = part.subplots(1, 3)
            taking.sharey(waiting)
            draw_distributions(waiting, taking, *waits_and_jcts_s(replays, runs), replays.schemes)
            _draw_held(held, replays, runs)
            if variant:
                part.suptitle(as_written(variant))
        handles, labels = parts[0].axes[0].get_legend_handles_labels()
        legend_above(figure, handles, labels, handlelength=3.4)
        if len(drawn) < len(variants):
            figure.supxlabel(
                f"The first {len(drawn)} of {len(variants)} variants", fontsize=TEXT_POINTS
            )

    return Drawing(WIDTH_INCHES, ROW_INCHES * len(drawn) + LEGEND_INCHES, draw)


def _draw_held(axes: Axes, replays: Replays, runs: Sequence[ReplayRecord]) -> None:
    """Draw the GPUs that jobs hold over time under each scheme, with the first seed."""
    seed = runs[0].seed
    chosen = [run for run in runs if run.seed == seed]
    series = [replays.series(run) for run in chosen]
    axis = TimeAxis(
        [run.scheme for run in chosen],
        series,
        [replays.jobs(run) for run in chosen],
        max(run.setting["last_submission_s"] for run in chosen),
    )
    for run, table in zip(chosen, series, strict=True):
        edges, means = axis.binned(table, table.own_gpus_held + table.gpus_held_on_loan)
        style = scheme_line(run.scheme, replays.schemes)
        axes.stairs(means, edges, baseline=None, **style)
    own = sum(runs[0].setting["own_gpus"].values())
    axes.axhline(own, color="#222222", linewidth=0.8, linestyle=(0, (1, 1.5)))
    axes.annotate("own GPUs", (1, own), xycoords=("axes fraction", "data"), ha="right", va="bottom")
    several = any(run.seed != seed for run in runs)
    axes.set_ylabel("GPUs that jobs hold" + (f" (seed {seed})" if several else ""))
    axes.set_ylim(bottom=0)
    axis.finish(axes)
