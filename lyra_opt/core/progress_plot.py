"""A picture of runs: incumbent and dual bound of each solver over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.core.pictures import COLOURS, Drawing, as_written, shortened
from lyra_opt.core.result import Status
from lyra_opt.core.texts import words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

    from lyra_opt.core.solving import Answer
    from lyra_opt.core.trajectory import TrajectoryPoint

WIDTH_INCHES, HEIGHT_INCHES = 9.0, 3.4

LOGARITHMIC_FROM = 50
"""Ratio of the largest to the smallest number from which on an axis is logarithmic."""

SHORTEST_S = 1e-4
"""Times below are drawn there: clocks tell no shorter ones apart."""


def has_progress(answers: Sequence[Answer]) -> bool:
    """Return whether a run said more than its result: an objective or a bound on its way."""
    return any(len({point.elapsed_s for point in answer.trajectory}) > 1 for answer in answers)


def drawing_of_progress(answers: Mapping[str, Answer]) -> Drawing:
    """Return a drawing of incumbents and dual bounds over time, a colour a run.

    Parameters
    ----------
    answers
        To one instance, by name; those that say nothing are left out.
    """

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots()
        told = {name: answer for name, answer in answers.items() if answer.trajectory}
        for place, answer in enumerate(told.values()):
            _draw_run(axes, answer, COLOURS[place % len(COLOURS)])
        axes.set_xlabel("Time since the start of the run (s)")
        times = [max(p.elapsed_s, SHORTEST_S) for each in told.values() for p in each.trajectory]
        if times and max(times) > LOGARITHMIC_FROM * min(times):
            axes.set_xscale("log")
        else:
            axes.set_xlim(left=0)
        values = [point.value for each in told.values() for point in each.trajectory]
        if values and min(values) > 0 and max(values) > LOGARITHMIC_FROM * min(values):
            axes.set_yscale("log")
        axes.set_ylabel("Objective")
        variants = {str(answer.instance.variant) for answer in answers.values()}
        sense = {answer.sense for answer in answers.values()}
        axes.set_title(
            f"{', '.join(map(words, sorted(variants)))}, {'/'.join(sorted(sense))}imised",
            loc="left",
        )
        _add_legend(figure, list(told))

    return Drawing(WIDTH_INCHES, HEIGHT_INCHES, draw)


def _draw_run(axes: Axes, answer: Answer, colour: str) -> None:
    """Draw what a run knew when, as steps; where it ends with a proof, a star."""
    for kind, style, marker in (("objective", "-", "o"), ("dual_bound", "--", "|")):
        points = [point for point in answer.trajectory if point.kind == kind]
        axes.plot(
            [max(point.elapsed_s, SHORTEST_S) for point in points],
            [point.value for point in points],
            drawstyle="steps-post",
            linestyle=style,
            color=colour,
            marker=marker,
            markersize=3.5,
            linewidth=1.4,
        )
    if answer.status is Status.OPTIMAL and answer.objective is not None:
        end_s = max(point.elapsed_s for point in answer.trajectory)
        at = max(end_s, SHORTEST_S), answer.objective
        axes.plot(*at, marker="*", markersize=11, color=colour, clip_on=False, zorder=4)


def _add_legend(figure: FigureBase, names: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=COLOURS[place % len(COLOURS)], label=as_written(shortened(name, 24)))
        for place, name in enumerate(names)
    ]
    grey = {"color": "#555555"}
    handles += [
        Line2D([], [], marker="o", markersize=3.5, label="incumbent", **grey),
        Line2D([], [], linestyle="--", marker="|", markersize=3.5, label="dual bound", **grey),
        Line2D([], [], linestyle="", marker="*", markersize=9, label="proved optimal", **grey),
    ]
    figure.legend(handles=handles, loc="outside right upper", fontsize=8)
