"""All plots of a page of replays, in groups, and the overview for Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.errors import InputError
from lyra_opt.core.pictures import TEXT_POINTS, Drawing, as_written, house_style, legend_above
from lyra_opt.experiments.simulation.running.replays import variants_of
from lyra_opt.experiments.simulation.showing.axes import TimeAxis, scheme_line
from lyra_opt.experiments.simulation.showing.decision import decision
from lyra_opt.experiments.simulation.showing.distributions import distributions, draw_distributions
from lyra_opt.experiments.simulation.showing.means import (
    differences_plot,
    means_over_axes,
    time_parts_plot,
)
from lyra_opt.experiments.simulation.showing.timelines import gantt, over_time, window_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

    from lyra_opt.experiments.plots.figures import Plot
    from lyra_opt.experiments.records import ReplayRecord
    from lyra_opt.experiments.simulation.measuring.comparison import Difference
    from lyra_opt.experiments.simulation.running.replays import Replays


MOST_VARIANTS_DRAWN = 4
"""Variants that get plots of their own; of more, the first ones do."""


@dataclass(frozen=True, slots=True)
class PlotGroup:
    """Plots that stand under one heading.

    Parameters
    ----------
    anchor, name
        Of the heading.
    plots
        Of which the first is unfolded.
    note
        What holds for all of them; empty if there is nothing to say.
    """

    anchor: str
    name: str
    plots: Sequence[Plot]
    note: str = ""


def draw_plots(
    replays: Replays,
    by_variant: Mapping[str, Sequence[ReplayRecord]],
    schemes: Sequence[str],
    found: Mapping[str, Sequence[Difference]],
    window_h: tuple[float, float] | None,
) -> list[PlotGroup]:
    """Return every plot for which there is data.

    Parameters
    ----------
    by_variant
        Runs by variant in words.
    schemes
        All schemes, in order.
    found
        Differences from the first scheme, by variant.
    window_h
        As `lyra_opt.experiments.simulation.showing.report.write_report`.
    """
    drawn = dict(list(by_variant.items())[:MOST_VARIANTS_DRAWN])
    note = ""
    if len(drawn) < len(by_variant):
        note = f"Drawn for the first {len(drawn)} of {len(by_variant)} variants."
    with house_style():
        groups = [
            PlotGroup("time-parts", "Where the time goes", list(_time_parts(drawn, schemes)), note),
            PlotGroup("differences", "Differences", list(_differences(found, schemes))),
            PlotGroup("axes", "Over what varies", list(means_over_axes(replays.runs, schemes))),
            PlotGroup(
                "distributions",
                "Waiting and completion of all jobs",
                list(_distributions(replays, drawn, schemes)),
                note,
            ),
            PlotGroup(
                "over-time",
                "The cluster over time",
                list(_over_time(replays, drawn, schemes)),
                note,
            ),
            PlotGroup(
                "jobs", "Jobs one by one", list(_gantt(replays, drawn, schemes, window_h)), note
            ),
            PlotGroup("decision", "A decision looked at closely", list(_decision(replays))),
        ]
    return [group for group in groups if group.plots]


def waits_and_jcts_s(
    replays: Replays, runs: Sequence[ReplayRecord]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return queuing times and JCTs of the jobs of all seeds, by scheme."""
    queued_s: dict[str, list[np.ndarray]] = {}
    jct_s: dict[str, list[np.ndarray]] = {}
    for run in runs:
        jobs = replays.jobs(run)
        queued_s.setdefault(run.scheme, []).append(jobs.queued_s.to_numpy())
        jct_s.setdefault(run.scheme, []).append(jobs.jct_s.to_numpy())
    return (
        {scheme: np.concatenate(values) for scheme, values in queued_s.items()},
        {scheme: np.concatenate(values) for scheme, values in jct_s.items()},
    )


def _time_parts(
    drawn: Mapping[str, Sequence[ReplayRecord]], schemes: Sequence[str]
) -> Iterator[Plot]:
    for place, (variant, runs) in enumerate(drawn.items()):
        plot = time_parts_plot(
            runs,
            schemes,
            name=_name("time_parts", place),
            title=_title("What the mean JCT is made of", variant),
        )
        if plot is not None:
            yield plot


def _differences(
    found: Mapping[str, Sequence[Difference]], schemes: Sequence[str]
) -> Iterator[Plot]:
    if any(found.values()):
        yield differences_plot(found, schemes)


def _distributions(
    replays: Replays, drawn: Mapping[str, Sequence[ReplayRecord]], schemes: Sequence[str]
) -> Iterator[Plot]:
    for place, (variant, runs) in enumerate(drawn.items()):
        seeds = len({run.seed for run in runs})
        yield distributions(
            *waits_and_jcts_s(replays, runs),
            schemes,
            name=_name("distributions", place),
            title=_title("Queuing times and job completion times", variant),
            remark=f"Jobs of all {seeds} seeds." if seeds > 1 else "",
        )


def _over_time(
    replays: Replays, drawn: Mapping[str, Sequence[ReplayRecord]], schemes: Sequence[str]
) -> Iterator[Plot]:
    for place, (variant, runs) in enumerate(drawn.items()):
        seed = runs[0].seed
        several = any(run.seed != seed for run in runs)
        yield over_time(
            replays,
            {run.scheme: run for run in runs if run.seed == seed},
            schemes,
            name=_name("over_time", place),
            title=_title("GPUs and queue over time", variant, seed if several else None),
        )


def _gantt(
    replays: Replays,
    drawn: Mapping[str, Sequence[ReplayRecord]],
    schemes: Sequence[str],
    window_h: tuple[float, float] | None,
) -> Iterator[Plot]:
    for place, (variant, runs) in enumerate(drawn.items()):
        seed = runs[0].seed
        several = any(run.seed != seed for run in runs)
        chosen = [run for run in runs if run.seed == seed]
        window = window_of([replays.series(run) for run in chosen], window_h)
        yield gantt(
            {run.scheme: replays.jobs(run) for run in chosen},
            window,
            schemes,
            name=_name("jobs", place),
            title=_title(f"Jobs in {window.in_words()}", variant, seed if several else None),
        )


def _decision(replays: Replays) -> Iterator[Plot]:
    if (drawn := decision(replays, replays.runs)) is not None:
        yield drawn


def _name(name: str, place: int) -> str:
    return name if place == 0 else f"{name}_{place + 1}"


def _title(words: str, variant: str, seed: int | None = None) -> str:
    details = [variant, "" if seed is None else f"seed {seed}"]
    return ", ".join(filter(None, (words, *details)))


OVERVIEW_INCHES = 11.0
OVERVIEW_ROW_INCHES = 3.2
LEGEND_INCHES = 0.5


def overview(replays: Replays) -> Drawing:
    """Return the picture; see `lyra_opt.experiments.simulation.showing.results.Runs.plot`."""
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

    return Drawing(OVERVIEW_INCHES, OVERVIEW_ROW_INCHES * len(drawn) + LEGEND_INCHES, draw)


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
