"""The figures of a report: which data goes on which plot, and how large it is."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.analysis import (
    axes_of,
    family_label,
    fixed_parameters,
    size_name,
    time_to_proof_ms,
)
from experiments.gap_words import EXCESS, gap_words
from experiments.plots.cactus import CactusData, plot_cactus
from experiments.plots.excess import ExcessData, plot_excess, set_excess_limits
from experiments.plots.excess_over_axis import ExcessOverAxisData, plot_excess_over_axis
from experiments.plots.performance_profile import PerformanceProfileData, plot_performance_profile
from experiments.plots.solutions import draw_solutions
from experiments.plots.solve_time import SolveTimeData, plot_solve_time
from experiments.plots.style import add_legend, svg_text
from experiments.study import FILE
from experiments.tables import axis_in_words, parameter_in_words
from lyra_opt.pictures import as_written, house_style
from lyra_opt.result import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from experiments.analysis import Analysis
    from experiments.gap_words import GapWords
    from experiments.records import AxisValue, SolverRecord

FAMILIES_A_ROW = 7
"""Groups of the plot of excess that can be told apart side by side."""

FEWEST_TIMES = 3
"""Times from which a median says something."""

SIZE_INCHES = (7.2, 3.8)
ROW_INCHES = (9.5, 3.4)
PANEL_INCHES = (2.7, 2.6)
PANELS_A_ROW = 3
LEGEND_INCHES = 1.5


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawn plot.

    Parameters
    ----------
    name
        Of its file, without the suffix.
    title, caption
        What it shows, and how to read it.
    svg
        An SVG element.
    """

    name: str
    title: str
    caption: str
    svg: str


def draw_plots(analysis: Analysis, headline_solvers: Sequence[str] = ()) -> list[Plot]:
    """Return every plot for which there is data.

    Parameters
    ----------
    headline_solvers
        The configurations whose solutions may be drawn side by side.
    """
    with house_style():
        drawn = [
            *excess_over_axes(analysis),
            _excess(analysis),
            _solve_time(analysis),
            _performance_profile(analysis),
            _cactus(analysis),
            _solutions(analysis, headline_solvers),
        ]
    return [plot for plot in drawn if plot is not None]


def excess_over_axes(analysis: Analysis) -> Iterator[Plot]:
    """Yield a plot for each axis that takes several values in a group of families."""
    for axis in dict.fromkeys(axis for run in analysis.runs for axis in axes_of(run)):
        panels = {
            group: data
            for group in analysis.families
            if len((data := over_axis(analysis, group, axis)).values) > 1
        }
        if panels:
            yield _excess_over_axis(axis, panels, gap_words(analysis.runs))


def over_axis(analysis: Analysis, group: str, axis: str) -> ExcessOverAxisData:
    """Return the excess of every heuristic on a group of families by value of the axis.

    Numbers in order, then words as the study lists them.
    """
    excess: dict[tuple[AxisValue, str], list[float]] = defaultdict(list)
    unproved: set[AxisValue] = set()
    places: dict[AxisValue, int] = {}
    for run in analysis.runs:
        value = axes_of(run).get(axis)
        if value is None or run.family_group != group:
            continue
        places.setdefault(value, len(places))
        percent = analysis.largest_excess_percent(run)
        if percent is None or run.reference:
            continue
        if run.cell in analysis.optima:
            percent = analysis.excess_percent(run)
        else:
            unproved.add(value)
        if percent is not None and math.isfinite(percent):
            excess[value, run.configuration].append(percent)
    values = dict.fromkeys(value for value, _ in excess)
    return ExcessOverAxisData(
        axis_in_words(axis),
        sorted(
            values, key=lambda value: (1, places[value]) if isinstance(value, str) else (0, value)
        ),
        analysis.heuristics,
        excess,
        frozenset(unproved),
    )


def _excess_over_axis(axis: str, panels: Mapping[str, ExcessOverAxisData], words: GapWords) -> Plot:
    from matplotlib.figure import Figure

    columns = min(PANELS_A_ROW, len(panels))
    rows = -(-len(panels) // columns)
    width, height = PANEL_INCHES
    figure = Figure(figsize=(width * columns + LEGEND_INCHES, height * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for place, axes in enumerate(grid.flat):
        if place >= len(panels):
            axes.remove()
    for (group, data), axes in zip(panels.items(), grid.flat, strict=False):
        plot_excess_over_axis(data, axes)
        axes.set_title(as_written(group))
    for axes in grid[:, 0]:
        axes.set_ylabel(f"Mean {words.noun} (%)")
    _add_legend_of_all(figure, grid.flat, next(iter(panels.values())).configurations)
    return Plot(
        f"excess_over_{axis}",
        f"Mean {words.noun} over {axis_in_words(axis)}",
        "Lines join means over families, sizes, seeds and all other axes. A filled mark is the "
        f"{words.noun} {words.preposition} proved optima alone; of a hollow one some optimum is "
        f"not proved, and the {words.noun} there is {words.preposition} the best bound, which it "
        "cannot exceed. Panels have scales of their own.",
        svg_text(figure, f"over-{axis}"),
    )


def _add_legend_of_all(
    figure: Figure, all_axes: Iterable[Axes], configurations: Sequence[str]
) -> None:
    """Put a legend for several axes to their right, each configuration in its place and once."""
    handles = {
        label: handle
        for axes in all_axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    labels = [label for name in configurations if (label := as_written(name)) in handles]
    figure.legend([handles[label] for label in labels], labels, loc="outside right upper")


def _excess(analysis: Analysis) -> Plot | None:
    from matplotlib.figure import Figure

    values: dict[str, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    infinite = 0
    for run in analysis.runs:
        excess = analysis.excess_percent(run)
        if excess is None or run.reference:
            continue
        if math.isfinite(excess):
            values[run.family_group][family_label(run), run.configuration].append(excess)
        else:
            infinite += 1
    drawn = {(group, family) for group, found in values.items() for family, _ in found}
    one_run = {family_label(run): run for run in analysis.runs}
    words = gap_words(analysis.runs)
    rows = [
        (group, shown[start : start + FAMILIES_A_ROW])
        for group, families in analysis.families.items()
        if (shown := [family for family in families if (group, family) in drawn])
        for start in range(0, len(shown), FAMILIES_A_ROW)
    ]
    if not rows:
        return None
    width, height = ROW_INCHES
    figure = Figure(figsize=(width, height * len(rows)), layout="constrained")
    all_axes = figure.subplots(len(rows), 1, squeeze=False, sharey=True)[:, 0]
    for (group, families), axes in zip(rows, all_axes, strict=True):
        plot_excess(ExcessData(families, analysis.heuristics, values[group]), axes)
        names, common = _without_common_parameters([one_run[family] for family in families])
        axes.set_xticklabels([as_written(name) for name in names])
        axes.set_title(as_written(", ".join(filter(None, (group, *common)))))
        axes.set_ylabel(f"{words.title} {words.preposition} the proved optimum (%)")
    set_excess_limits(list(all_axes))
    _add_legend_of_all(figure, all_axes, analysis.heuristics)
    caption = (
        "A faint dot is one instance whose optimum is proved, a mark with a white rim is the "
        "mean. The axis is linear up to 10 % and logarithmic beyond."
    )
    if infinite:
        missed = (
            "pay something where the optimum is 0" if words is EXCESS else "miss an optimum of 0"
        )
        caption += f" Not drawn: {infinite} runs that {missed}."
    return Plot(
        "excess_by_family",
        f"{words.title} {words.preposition} the proved optimum, by family",
        caption,
        svg_text(figure, "excess"),
    )


def _solutions(analysis: Analysis, configurations: Sequence[str]) -> Plot | None:
    drawn = draw_solutions(analysis, configurations)
    if drawn is None:
        return None
    run, figure = drawn
    return Plot(
        "solutions",
        f"Solutions side by side: {run.cell}",
        "Of the small instances the one on which the first solver of the headline differs most "
        "from another one of them.",
        svg_text(figure, "solutions"),
    )


def _solve_time(analysis: Analysis) -> Plot | None:
    from matplotlib.figure import Figure

    panels = {}
    for group in analysis.families:
        times = _times_by_size([run for run in analysis.runs if run.family_group == group])
        shown = [label for label in analysis.configurations if label in times]
        if shown:
            panels[group] = SolveTimeData(
                analysis.configurations, times, size_name(analysis.runs[0])
            )
    if not panels:
        return None
    width, height = SIZE_INCHES
    figure = Figure(figsize=(width * (1 + 0.6 * (len(panels) - 1)), height), layout="constrained")
    all_axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for (group, data), axes in zip(panels.items(), all_axes, strict=True):
        plot_solve_time(data, axes)
        axes.set_title(as_written(group))
    all_axes[0].set_ylabel("Solve time (ms)")
    _add_legend_of_all(figure, all_axes, analysis.configurations)
    return Plot(
        "solve_time",
        "Solve time against the size of the instance",
        "Lines join medians over all instances of a size; whiskers reach from the shortest to "
        f"the longest time. Sizes of fewer than {FEWEST_TIMES} instances are left out where there "
        "are larger ones. Runs that a time limit ended count with the time they took; the "
        "problem's own bound is not included.",
        svg_text(figure, "time"),
    )


def _without_common_parameters(families: Sequence[SolverRecord]) -> tuple[list[str], list[str]]:
    """Return the families' names without the parameters that all of them have, and those.

    Parameters
    ----------
    families
        A run of each family.
    """
    parameters = [
        [parameter_in_words(name, value) for name, value in fixed_parameters(run).items()]
        for run in families
    ]
    common = [words for words in parameters[0] if all(words in found for found in parameters)]
    names = [
        ", ".join([_family_name(run), *(words for words in found if words not in common)])
        for run, found in zip(families, parameters, strict=True)
    ]
    return names, common


def _family_name(run: SolverRecord) -> str:
    """Return what stands below a panel, whose title says which group it is."""
    return f"{FILE}s" if run.family == FILE else run.family


def _times_by_size(runs: Sequence[SolverRecord]) -> dict[str, dict[int, list[float]]]:
    """Return solve times in ms by configuration and size, of sizes with enough of them."""
    times: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        answered = run.status not in (Status.ERROR, Status.UNSUPPORTED)
        if answered and run.size is not None and run.wall_time_s:
            times[run.configuration][run.size].append(1e3 * run.wall_time_s)
    for by_size in times.values():
        enough = {size: found for size, found in by_size.items() if len(found) >= FEWEST_TIMES}
        if enough:
            by_size.clear()
            by_size.update(enough)
    return times


def _performance_profile(analysis: Analysis) -> Plot | None:
    from matplotlib.figure import Figure

    times = _times_to_proof_ms(analysis)
    if not times:
        return None
    instances = _instances(analysis)
    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    axes = figure.subplots()
    data = PerformanceProfileData(analysis.configurations, times, instances)
    plot_performance_profile(data, axes)
    add_legend(axes)
    return Plot(
        "performance_profile",
        "Performance profile of proofs",
        f"How many of all {instances} instances a solver proves optimal within a multiple of the "
        "time that the fastest proof of the same instance takes. For a heuristic the proof is "
        "the problem's own bound, whose time is included.",
        svg_text(figure, "profile"),
    )


def _cactus(analysis: Analysis) -> Plot | None:
    from matplotlib.figure import Figure

    times_s = {
        configuration: {cell: time_ms / 1e3 for cell, time_ms in times.items()}
        for configuration, times in _times_to_proof_ms(analysis).items()
    }
    if not times_s:
        return None
    instances = _instances(analysis)
    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    axes = figure.subplots()
    plot_cactus(CactusData(analysis.configurations, times_s, instances), axes)
    add_legend(axes)
    return Plot(
        "cactus",
        "Instances proved over time",
        f"How many of all {instances} instances, the dotted line, a solver proves optimal when it "
        "may take so long for each of them. For a heuristic the proof is the problem's own bound, "
        "whose time is included.",
        svg_text(figure, "cactus"),
    )


def _instances(analysis: Analysis) -> int:
    return len({run.cell for run in analysis.runs})


def _times_to_proof_ms(analysis: Analysis) -> dict[str, dict[str, float]]:
    """Return times to proof by configuration and instance; where there is no proof, none."""
    times: dict[str, dict[str, float]] = defaultdict(dict)
    for run in analysis.runs:
        time_ms = time_to_proof_ms(run)
        if time_ms is not None:
            times[run.configuration][run.cell] = time_ms
    return times
