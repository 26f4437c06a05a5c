"""Means of queuing time and JCT over what a scenario varies."""

from __future__ import annotations

import statistics
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from lyra_opt.core.pictures import as_written, svg_text
from lyra_opt.experiments.plots.figures import Plot
from lyra_opt.experiments.simulation.comparison import COMPARED
from lyra_opt.experiments.simulation.durations import unit_of
from lyra_opt.experiments.simulation.plots.schemes import scheme_line, scheme_mark

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lyra_opt.experiments.records import ReplayRecord

SIZE_INCHES = (9.6, 3.2)
SPREAD = 0.2
"""Room that the marks of one value take, so that whiskers stand side by side."""

LETTERS_IN_A_ROW = 40
"""Labels of more letters in all are slanted, so that they do not run into one another."""


def means_over_axes(runs: Sequence[ReplayRecord], schemes: Sequence[str]) -> Iterator[Plot]:
    """Yield a plot for each axis: a panel for each mean, a line for each scheme.

    Parameters
    ----------
    runs
        That finished, of all variants.
    schemes
        All schemes of the page, in order.
    """
    names = dict.fromkeys(name for run in runs for name in run.point)
    for place, axis in enumerate(names):
        values = list(dict.fromkeys(run.axes[axis] for run in runs))
        if len(values) > 1:
            yield _over(axis, values, runs, schemes, others=len(names) > 1, place=place)


def _over(
    axis: str,
    values: Sequence[Any],
    runs: Sequence[ReplayRecord],
    schemes: Sequence[str],
    *,
    others: bool,
    place: int,
) -> Plot:
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    panels = figure.subplots(1, len(COMPARED))
    are_numbers = not any(isinstance(value, str) for value in values)
    has_seeds = len({run.seed for run in runs}) > 1
    for compared, axes in zip(COMPARED, panels, strict=True):
        means: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for run in runs:
            assert run.figures is not None, "it finished"
            means[run.scheme][values.index(run.axes[axis])].append(run.figures[compared.key])
        longest_s = max(max(found) for of_one in means.values() for found in of_one.values())
        unit = unit_of(longest_s)
        for position, scheme in enumerate(schemes):
            of_one = sorted(means[scheme].items())
            if not of_one:
                continue
            shift = SPREAD * (position - (len(schemes) - 1) / 2) / len(schemes)
            xs = [x + shift for x, _ in of_one]
            ys = [statistics.fmean(found) / unit.seconds for _, found in of_one]
            style = scheme_line(scheme, schemes) | scheme_mark(scheme, schemes)
            if not are_numbers:
                style["linestyle"] = "none"
            axes.plot(xs, ys, **style)
            if has_seeds:
                lowest, highest = (
                    [end(found) / unit.seconds for _, found in of_one] for end in (min, max)
                )
                axes.vlines(xs, lowest, highest, color=style["color"], linewidth=1.0, alpha=0.6)
        axes.set_title(f"{compared.name[0].upper()}{compared.name[1:]}")
        axes.set_ylabel(f"{unit.name[0].upper()}{unit.name[1:]}")
        axes.set_ylim(bottom=0)
        labels = [as_written(str(value)) for value in values]
        slanted: dict[str, Any] = {"rotation": 20, "ha": "right", "rotation_mode": "anchor"}
        is_long = sum(map(len, labels)) > LETTERS_IN_A_ROW
        axes.set_xticks(range(len(values)), labels, **(slanted if is_long else {}))
        axes.set_xlim(-0.4, len(values) - 0.6)
        axes.set_xlabel(as_written(axis))
        axes.grid(visible=False, axis="x")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside right upper", handlelength=3.4
    )
    over = [
        name for name, is_there in (("seeds", has_seeds), ("all other axes", others)) if is_there
    ]
    caption = f"Marks are means over {' and '.join(over)}, " if over else "A mark is a replay, "
    caption += "evenly spaced as the scenario lists the values."
    if has_seeds:
        caption += " Whiskers reach from the least to the greatest of what a mark is the mean of."
    return Plot(
        f"over_axis_{place + 1}",
        f"Mean JCT and queuing time over {axis}",
        caption,
        svg_text(figure, f"over-axis-{place + 1}"),
    )
