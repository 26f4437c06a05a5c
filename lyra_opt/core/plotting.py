"""Pictures of instances and solutions, and of the progress of solvers over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from lyra_opt.core.errors import UserError, show_value, without_inner_frames
from lyra_opt.core.picture_styles import house_style, require_style, style_in_force
from lyra_opt.core.pictures import (
    Drawing,
    as_written,
    legend_beside,
    line_style,
    make_logarithmic,
    record,
    require_picture_path,
    save_picture,
    shortened,
    stacked,
)
from lyra_opt.core.problem import problem_of_instance
from lyra_opt.core.result import Status
from lyra_opt.core.solving import START_KEPT, Answer
from lyra_opt.core.verifying import for_another_instance

SolutionT = TypeVar("SolutionT")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, FigureBase

    from lyra_opt.core.problem import Problem, ProblemInstance
    from lyra_opt.core.trajectory import TrajectoryPoint

    Drawn: TypeAlias = Answer[SolutionT] | SolutionT

WIDTH_INCHES, HEIGHT_INCHES = 9.0, 3.4

LOGARITHMIC_FROM = 50
"""The ratio of the largest to the smallest value from which an axis is logarithmic."""

WORTH_DRAWING_S = 0.1
"""The run time in seconds from which the progress of a run is drawn."""

MOST_SOLUTIONS = 6
"""The most solutions that fit below one another on a page in the style paper."""

LEAST_RANGE = 1e-5
"""The range, relative to the margins of an axis, below which it shows values as equal."""

MOST_WIDTHS = 5
"""The number of runs whose lines have different widths."""

SHORTEST_S = 1e-4
"""Shorter times, in seconds, are drawn at this time, because clocks cannot distinguish them."""


@without_inner_frames
def plot(
    instance: ProblemInstance[SolutionT] | Answer[SolutionT],
    solutions: Drawn[SolutionT]
    | Sequence[Drawn[SolutionT]]
    | Mapping[str, Drawn[SolutionT]]
    | None = None,
    *,
    progress: bool | None = None,
    style: str = "page",
    file: str | Path | None = None,
) -> Figure:
    """Return a picture of an instance, alone or side by side with solutions.

    It shows at most a few dozen servers, jobs or machines and says how many are left out.

    Parameters
    ----------
    instance
        An instance of any problem, or an answer, which contains its instance.
    solutions
        An answer or a solution, a list of these, or a mapping from names to them. Without any, only
        the instance is drawn. Answers without a solution are left out.
    progress
        Whether to draw the incumbents and dual bounds of the answers over time below. By default
        they are drawn if a run took at least 0.1 s and reported more than its result, in the style
        ``paper`` only without any solution.
    style
        ``page``, or ``paper``: one column wide, in 8-point text, also readable without colours.
    file
        A ``.svg``, ``.png`` or ``.pdf`` file to write as well, completely or not at all. The data
        of the picture is written beside it as ``.csv``. Equal pictures give equal bytes.

    Raises
    ------
    UserError
        If there is nothing to draw, a solution is not valid for the instance, or the file cannot be
        written.
    """
    if isinstance(instance, Answer):
        solutions = instance if solutions is None else solutions
        instance = instance.instance
    if callable(getattr(instance, "plot", None)):
        name = type(instance).__name__
        raise UserError(f"lo.plot draws instances and answers; {name} has its own method plot()")
    problem = problem_of_instance(instance)
    given = _by_name(solutions)
    answers = {name: each for name, each in given.items() if isinstance(each, Answer)}
    found = _valid_solutions(problem, instance, given)
    if style == "paper" and len(found) > MOST_SOLUTIONS:
        raise UserError(
            f"{len(found)} solutions do not fit on a page of a paper: give at most "
            f"{MOST_SOLUTIONS}, or take the style page"
        )

    def drawing() -> Drawing:
        drawings = []
        if found or solutions is None:
            drawings.append(problem.drawing_of(instance, found))
        is_wanted = progress
        if progress is None:
            has_room = not (drawings and style_in_force().is_narrow)
            is_wanted = has_room and has_progress(answers.values())
        if is_wanted:
            drawings.append(drawing_of_progress(answers))
        if not drawings:
            ends = (
                f": {name} is {each.status}" + f" ({each.message})" * bool(each.message)
                for name, each in answers.items()
            )
            raise UserError("there is no solution to draw" + "".join(ends))
        return stacked(drawings)

    return drawn_figure(lambda: drawing().figure(), style, file)


@without_inner_frames
def plot_progress(
    answers: Answer | Sequence[Answer] | Mapping[str, Answer],
    *,
    style: str = "page",
    file: str | Path | None = None,
) -> Figure:
    """Return a picture of incumbents and dual bounds over time, with one mark per run.

    Dual bounds are dashed lines; a star is a proof that the incumbent is optimal. The time axis
    begins at the call of the solver and is logarithmic if the times differ widely.

    Parameters
    ----------
    answers
        Answers for one instance: an answer, a list of answers, or a mapping from names to answers.
    style, file
        As for `plot`.

    Raises
    ------
    UserError
        If no answer has recorded any progress, or the file cannot be written.
    """
    named = _by_name(answers)
    for each in named.values():
        if not isinstance(each, Answer):
            raise UserError(
                f"answers must be objects that `solve` returned, not {show_value(each)}"
            )
    return drawn_figure(lambda: drawing_of_progress(named).figure(), style, file)


def drawn_figure(draw: Callable[[], Figure], style: str, file: str | Path | None) -> Figure:
    """Return a figure drawn in a style, and write it to `file` if a file is given."""
    require_style("style", style)
    if file is not None:
        require_picture_path("file", file)
    with house_style(style):
        figure = draw()
    if file is not None:
        save_picture(file, figure)
    return figure


def _by_name(given: Any) -> dict[str, Any]:
    """Return answers and solutions by name; an answer without a name is named after its solver."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {str(name): each for name, each in given.items()}
    found: dict[str, Any] = {}
    is_list = isinstance(given, Sequence) and not isinstance(given, str)
    for place, each in enumerate(given if is_list else [given]):
        name = f"solution {place + 1}"
        if isinstance(each, Answer):
            name = each.solver + f" ({START_KEPT})" * bool(each.start_kept)
        found[_unused(name, found)] = each
    return found


def _valid_solutions(
    problem: Problem, instance: ProblemInstance, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the given solutions by name; raise `UserError` if one is not valid."""
    found = {}
    for name, each in given.items():
        if isinstance(each, Answer):
            other = for_another_instance(instance, each.claims())
            if other is not None:
                raise UserError(f"{name}: the solution {other}")
        elif not isinstance(each, problem.all_solution_classes):
            raise UserError(f"{name}: {problem.wrong_type_message(each, 'an answer or ')}")
        solution = each.solution if isinstance(each, Answer) else each
        if solution is None:
            continue
        is_checked = isinstance(each, Answer) and each.instance is instance
        violations = () if is_checked else problem.check(instance, solution).violations
        if violations:
            raise UserError(f"{name}: the solution is not valid: {'; '.join(violations)}")
        found[name] = solution
    return found


def _unused(name: str, names: Mapping[str, Any]) -> str:
    """Return `name`, with a number added if it is already one of `names`."""
    number = 2
    shown = name
    while shown in names:
        shown = f"{name} ({number})"
        number += 1
    return shown


def has_progress(answers: Iterable[Answer]) -> bool:
    """Return whether a run took long enough, and reported enough, for its progress to be drawn."""
    return any(
        (answer.wall_time_s or 0) >= WORTH_DRAWING_S
        and len({point.elapsed_s for point in answer.trajectory}) > 1
        for answer in answers
    )


def drawing_of_progress(answers: Mapping[str, Answer]) -> Drawing:
    """Return a drawing of incumbents and dual bounds over time, with one mark per run.

    Parameters
    ----------
    answers
        Answers for one instance, by name; answers without recorded progress are left out.

    Raises
    ------
    UserError
        If no answer has recorded any progress.
    """
    told = {name: answer for name, answer in answers.items() if answer.trajectory}
    if not told:
        raise UserError(
            "no answer has recorded incumbents or bounds over time, so nothing can be drawn"
        )
    points = [point for answer in told.values() for point in answer.trajectory]
    first = next(iter(told.values()))
    variant = first.instance.variant
    objective = as_written(shortened(first.problem.objective_in_words(first.instance), 60))

    def draw(figure: FigureBase) -> None:
        from matplotlib.ticker import MaxNLocator

        axes = figure.subplots()
        names = list(told)
        for place, (name, answer) in enumerate(told.items()):
            # Later lines are drawn thinner, so that lines that coincide remain visible.
            width = 1.3 + 0.6 * max(0, min(len(told), MOST_WIDTHS) - 1 - place)
            look = line_style(name, names)
            _draw_run(axes, answer, look, width * style_in_force().line_factor)
            record(
                axes,
                (
                    {"run": name, "time_s": point.elapsed_s, point.kind: point.value}
                    for point in answer.trajectory
                ),
                "progress",
            )
        if is_wide([_shown_s(point) for point in points]):
            make_logarithmic(axes.xaxis)
        else:
            axes.set_xlim(0, 1.03 * max(map(_shown_s, points)))
        values = [point.value for point in points]
        if is_wide(values):
            make_logarithmic(axes.yaxis)
        else:
            axes.ticklabel_format(axis="y", useOffset=False)
            top, margin = max(values), 0.05 * abs(max(values))
            if top - min(values) < LEAST_RANGE * margin:
                axes.set_ylim(top - margin, top + margin)
            elif all(float(value).is_integer() for value in values):
                axes.yaxis.set_major_locator(MaxNLocator(steps=[1, 2, 5, 10], integer=True))
        if first.problem.terms_of(first.instance).keys:  # the numbers mean nothing to a reader
            axes.tick_params(axis="y", which="both", labelleft=False)
        axes.set_xlabel("Time since the call of the solver (s)")
        axes.set_ylabel(f"Objective ({objective})")
        axes.set_title(f"Incumbents and dual bounds, {variant.sense}imised", loc="left")
        _add_legend(figure, told)

    return Drawing(WIDTH_INCHES, max(HEIGHT_INCHES, 0.19 * (len(told) + 5)), draw)


def is_wide(values: Sequence[float]) -> bool:
    """Return whether positive numbers differ so widely that a logarithmic axis is clearer."""
    return min(values) > 0 and max(values) > LOGARITHMIC_FROM * min(values)


def _shown_s(point: TrajectoryPoint) -> float:
    return max(point.elapsed_s, SHORTEST_S)


def _draw_run(axes: Axes, answer: Answer, look: Mapping[str, Any], width: float) -> None:
    """Draw incumbents and dual bounds of a run as steps, and a star at a proof of optimality."""
    for kind, dashes in (("objective", "-"), ("dual_bound", "--")):
        points = [point for point in answer.trajectory if point.kind == kind]
        axes.plot(
            [_shown_s(point) for point in points],
            [point.value for point in points],
            **{**look, "linestyle": dashes},
            drawstyle="steps-post",
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
            color=look["color"],
            markeredgecolor="white",
            markeredgewidth=0.5,
            clip_on=False,
            zorder=4,
        )


def _add_legend(figure: FigureBase, answers: Mapping[str, Answer]) -> None:
    from matplotlib.lines import Line2D

    names = list(answers)
    kinds = {point.kind for answer in answers.values() for point in answer.trajectory}
    is_proved = any(answer.status is Status.OPTIMAL for answer in answers.values())
    looks = [line_style(name, names) | {"linestyle": "-", "markersize": 4.5} for name in names]
    handles = [
        Line2D([], [], label=as_written(shortened(name, 24)), **look)
        for name, look in zip(names, looks, strict=True)
    ]
    grey: dict[str, Any] = {"color": "#555555"}
    if "objective" in kinds:
        handles.append(Line2D([], [], label="incumbent", **grey))
    if "dual_bound" in kinds:
        handles.append(Line2D([], [], linestyle="--", label="dual bound", **grey))
    if is_proved:
        star: dict[str, Any] = {"linestyle": "", "marker": "*", "markersize": 9}
        handles.append(Line2D([], [], label="proved optimal", **star, **grey))
    legend_beside(figure, handles)
