"""A picture of runs: incumbent and dual bound of each solver over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import UserError
from lyra_opt.core.pictures import (
    COLOURS,
    TEXT_POINTS,
    Drawing,
    as_written,
    make_logarithmic,
    shortened,
)
from lyra_opt.core.result import Status
from lyra_opt.core.texts import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

    from lyra_opt.core.solving import Answer
    from lyra_opt.core.trajectory import TrajectoryPoint

WIDTH_INCHES, HEIGHT_INCHES = 9.0, 3.4

LOGARITHMIC_FROM = 50
"""Ratio of the largest to the smallest number from which on an axis is logarithmic."""

WORTH_DRAWING_S = 0.1
"""Time of a run from which on its progress is of interest."""

MOST_WIDTHS = 5
"""Runs whose lines have a width of their own."""

SHORTEST_S = 1e-4
"""Times below are drawn there: clocks tell no shorter ones apart."""


def has_progress(answers: Iterable[Answer]) -> bool:
    """Return whether a run that took its time said more than its result."""
    return any(
        (answer.wall_time_s or 0) >= WORTH_DRAWING_S
        and len({point.elapsed_s for point in answer.trajectory}) > 1
        for answer in answers
    )


def drawing_of_progress(answers: Mapping[str, Answer]) -> Drawing:
    """Return a drawing of incumbents and dual bounds over time, a colour a run.

    Parameters
    ----------
    answers
        To one instance, by name; those that say nothing are left out.

    Raises
    ------
    UserError
        If none says anything.
    """
    told = {name: answer for name, answer in answers.items() if answer.trajectory}
    if not told:
        raise UserError("there are no incumbents or bounds over time to draw")
    points = [point for answer in told.values() for point in answer.trajectory]
    variant = next(iter(told.values())).instance.variant

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots()
        for place, answer in enumerate(told.values()):
            # Lines that coincide can be told apart: the later, the thinner.
            width = 1.3 + 0.6 * max(0, min(len(told), MOST_WIDTHS) - 1 - place)
            _draw_run(axes, answer, COLOURS[place % len(COLOURS)], width)
        if _is_wide([_shown_s(point) for point in points]):
            make_logarithmic(axes.xaxis)
        else:
            axes.set_xlim(left=0)
        if _is_wide([point.value for point in points]):
            make_logarithmic(axes.yaxis)
        axes.set_xlabel("Time since the call of the solver (s)")
        axes.set_ylabel(f"Objective ({words(str(variant))})")
        axes.set_title(f"Incumbents and dual bounds, {variant.sense}imised", loc="left")
        _add_legend(figure, list(told))

    return Drawing(WIDTH_INCHES, max(HEIGHT_INCHES, 0.19 * (len(told) + 5)), draw)


def _is_wide(values: Sequence[float]) -> bool:
    """Return whether numbers are best read on a logarithmic axis."""
    return min(values) > 0 and max(values) > LOGARITHMIC_FROM * min(values)


def _shown_s(point: TrajectoryPoint) -> float:
    return max(point.elapsed_s, SHORTEST_S)


def _draw_run(axes: Axes, answer: Answer, colour: str, width: float) -> None:
    """Draw what a run knew when, as steps; where it ends with a proof, a star."""
    for kind, style, marker in (("objective", "-", "o"), ("dual_bound", "--", "|")):
        points = [point for point in answer.trajectory if point.kind == kind]
        axes.plot(
            [_shown_s(point) for point in points],
            [point.value for point in points],
            drawstyle="steps-post",
            linestyle=style,
            color=colour,
            marker=marker,
            markersize=3 + width,
            linewidth=width,
        )
    if answer.status is Status.OPTIMAL and answer.objective is not None:
        end_s = max(map(_shown_s, answer.trajectory))
        axes.plot(
            end_s,
            answer.objective,
            marker="*",
            markersize=11,
            color=colour,
            clip_on=False,
            zorder=4,
        )


def _add_legend(figure: FigureBase, names: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=COLOURS[place % len(COLOURS)], label=as_written(shortened(name, 24)))
        for place, name in enumerate(names)
    ]
    grey: dict[str, Any] = {"color": "#555555"}
    handles += [
        Line2D([], [], marker="o", markersize=3.5, label="incumbent", **grey),
        Line2D([], [], linestyle="--", marker="|", markersize=3.5, label="dual bound", **grey),
        Line2D([], [], linestyle="", marker="*", markersize=9, label="proved optimal", **grey),
    ]
    figure.legend(handles=handles, loc="outside right upper", fontsize=TEXT_POINTS)
