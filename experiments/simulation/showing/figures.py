"""All plots of a page of replays, in groups, and the overview figure for Python."""

from __future__ import annotations

from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple

from lyra_opt.commands.messages import say
from lyra_opt.core.errors import InputError
from lyra_opt.core.picture_styles import style_in_force
from lyra_opt.core.pictures import Drawing, as_written, legend_above, note_below, panel_inches
from lyra_opt.experiments.chosen_pictures import chosen, drawn
from lyra_opt.experiments.simulation.measuring.comparison import differences
from lyra_opt.experiments.simulation.showing.axes import (
    LEGEND_LINE,
    OWN_GPUS_LINE,
    TimeAxis,
    scheme_line,
)
from lyra_opt.experiments.simulation.showing.decision import decision
from lyra_opt.experiments.simulation.showing.distributions import distributions, draw_distributions
from lyra_opt.experiments.simulation.showing.means import (
    differences_plot,
    over_axis_makers,
    time_parts_plot,
)
from lyra_opt.experiments.simulation.showing.timelines import gantt, over_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, FigureBase

    from lyra_opt.experiments.chosen_pictures import PlotMakers
    from lyra_opt.experiments.plots.plot import Plot
    from lyra_opt.experiments.simulation.measuring.comparison import Difference
    from lyra_opt.experiments.simulation.measuring.measures import VariantRuns
    from lyra_opt.experiments.simulation.running.replays import Replays

MOST_VARIANTS_DRAWN = 4
"""Only the first variants have plots of their own, at most this number."""

OVERVIEW_INCHES, OVERVIEW_ROW_INCHES, LEGEND_INCHES = 11.0, 3.2, 0.5
LETTERS_BELOW_PANEL = 42
"""The length of a line of text below one panel of the overview."""


HEADINGS = {
    "time-parts": "Where the time goes",
    "differences": "Differences",
    "axes": "Means over each axis",
    "distributions": "Waiting and completion of all jobs",
    "over-time": "The cluster over time",
    "jobs": "Jobs one by one",
    "decision": "A reclaim decision in detail",
}
"""The headings of groups of plots on a page, by their anchor, in order."""

OF_VARIANTS = ("time-parts", "distributions", "over-time", "jobs")
"""The groups with a plot for each variant."""


class PlotGroup(NamedTuple):
    """Plots under one heading of the page, with a note on all of them."""

    anchor: str
    name: str
    plots: Sequence[Plot]
    note: str = ""


def draw_plots(
    replays: Replays,
    variants: Sequence[VariantRuns],
    found: Mapping[str, Sequence[Difference]],
    window_h: tuple[float, float] | None,
) -> list[PlotGroup]:
    """Return all plots for which the replays have data.

    ``found`` has the differences from the first scheme by variant. For ``window_h`` see
    `lyra_opt.experiments.simulation.showing.report.write_report`.
    """
    makers = _makers(replays, variants, lambda: found, window_h)
    groups = [
        PlotGroup(anchor, HEADINGS[anchor], drawn(of_group)) for anchor, of_group in makers.items()
    ]
    if len(variants) > MOST_VARIANTS_DRAWN:
        note = f"Drawn for the first {MOST_VARIANTS_DRAWN} of {len(variants)} variants."
        groups = [
            each._replace(note=note) if each.anchor in OF_VARIANTS else each for each in groups
        ]
    return [group for group in groups if group.plots]


def _makers(
    replays: Replays,
    variants: Sequence[VariantRuns],
    found: Callable[[], Mapping[str, Sequence[Difference]]],
    window_h: tuple[float, float] | None,
) -> dict[str, PlotMakers]:
    """Return functions that draw the plots of each group, or return None without data."""

    def for_each(file: str, draw: Callable[[Replays, VariantRuns, str], Plot | None]) -> PlotMakers:
        return {
            name: partial(draw, replays, variant, name)
            for number, variant in enumerate(variants[:MOST_VARIANTS_DRAWN])
            for name in [file if number == 0 else f"{file}_{number + 1}"]
        }

    def differing() -> Plot | None:
        of_variant = found()
        return differences_plot(of_variant, replays.schemes) if any(of_variant.values()) else None

    return {
        "time-parts": for_each("time_parts", time_parts_plot),
        "differences": {"differences": differing},
        "axes": over_axis_makers(replays),
        "distributions": for_each("distributions", distributions),
        "over-time": for_each("over_time", over_time),
        "jobs": for_each("jobs", partial(gantt, window_h=window_h)),
        "decision": {"decision": lambda: decision(replays, replays.runs)},
    }


OVERVIEW = "overview"


def figure_of(
    replays: Replays,
    name: str | None,
    window_h: tuple[float, float] | None = None,
    baseline: str | None = None,
) -> Figure:
    """Return one picture of replays, the overview or a plot of their page; None is the overview.

    For ``window_h`` and ``baseline`` see
    `lyra_opt.experiments.simulation.showing.report.write_report`.

    Raises
    ------
    UserError
        If these replays have no such picture.
    """
    if name in (None, OVERVIEW):
        return overview(replays).figure()
    variants = replays.variants

    def found() -> dict[str, Sequence[Difference]]:
        return {each.name: differences(each, replays.jobs, baseline) for each in variants}

    groups = _makers(replays, variants, found, window_h)
    figure = chosen({file: make for group in groups.values() for file, make in group.items()}, name)
    for anchor in OF_VARIANTS:
        if len(groups[anchor]) > 1 and name in groups[anchor]:
            others = [
                f"{file} ({variant.name})"
                for file, variant in zip(groups[anchor], variants, strict=False)
                if file != name
            ]
            say(f"{name}: one case of the scenario; also: {', '.join(others)}")
    return figure


def overview(replays: Replays) -> Drawing:
    """Return the overview figure of replays: distributions of times, and GPUs held over time."""
    from matplotlib.lines import Line2D

    if not replays.runs:
        raise InputError(replays.study.name, "has no finished replay")
    variants = replays.variants
    is_narrow = style_in_force().is_narrow
    drawn = variants[: 1 if is_narrow else MOST_VARIANTS_DRAWN]
    shape = (3, 1) if is_narrow else (1, 3)

    def draw(figure: FigureBase) -> None:
        parts = figure.subfigures(len(drawn), 1, squeeze=False)[:, 0]
        for variant, part in zip(drawn, parts, strict=True):
            waiting, taking, held = part.subplots(*shape)
            draw_distributions(waiting, taking, replays, variant)
            _draw_held(held, replays, variant)
            if title := "; ".join(filter(None, [variant.name, variant.lacking_in_words])):
                part.suptitle(as_written(title))
        handles = parts[0].axes[0].get_legend_handles_labels()[0]
        legend_above(figure, [*handles, Line2D([], [], **OWN_GPUS_LINE)], **LEGEND_LINE)
        if len(drawn) < len(variants):
            note_below(figure, f"Drawn: the first {len(drawn)} of {len(variants)} variants")

    panels = len(drawn) * shape[0]
    height = panel_inches(OVERVIEW_ROW_INCHES, panels) * panels + LEGEND_INCHES
    return Drawing(OVERVIEW_INCHES, height, draw)


def _draw_held(axes: Axes, replays: Replays, variant: VariantRuns) -> None:
    """Draw the GPUs that jobs hold over time under each scheme, for the first seed."""
    axis = TimeAxis(replays, variant.of_first_seed)
    for scheme, table in axis.series.items():
        edges, means = axis.binned(table, table.own_gpus_held + table.gpus_held_on_loan)
        axes.stairs(means, edges, baseline=None, **scheme_line(scheme, replays.schemes))
        axis.record(axes, edges, means, "held_gpus", variant=variant.name, scheme=scheme)
    own = sum(variant.runs[0].setting["own_gpus"].values())
    axes.axhline(own, **OWN_GPUS_LINE)
    axes.set_title(", ".join(filter(None, ("GPUs that jobs hold", variant.first_seed_in_words))))
    axes.set_ylabel("GPUs")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylim(bottom=0)
    axis.finish(axes)
    if axis.note:  # below this panel alone, because the other panels show other times
        note = fill(as_written(axis.note), LETTERS_BELOW_PANEL)
        axes.set_xlabel(f"{axes.get_xlabel()}\n{note}")
