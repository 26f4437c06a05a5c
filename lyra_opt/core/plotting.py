"""Pictures of instances and of solutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

SolutionT = TypeVar("SolutionT")

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from lyra_opt.core.instance import ProblemInstance
    from lyra_opt.core.pictures import Drawing
    from lyra_opt.core.problem import Problem
    from lyra_opt.core.solving import Answer

    Drawn: TypeAlias = Answer[SolutionT] | SolutionT


def plot(
    instance: ProblemInstance[SolutionT] | Answer[SolutionT],
    solutions: Drawn[SolutionT]
    | Sequence[Drawn[SolutionT]]
    | Mapping[str, Drawn[SolutionT]]
    | None = None,
    *,
    progress: bool | None = None,
    file: str | Path | None = None,
) -> Figure:
    """Return a picture of an instance, alone or with solutions of it side by side.

    It shows at most some dozen servers, jobs or machines one by one, and says what is left out.

    Parameters
    ----------
    instance
        Of any problem; or an answer, which holds its instance.
    solutions
        An answer or a solution, a list of these, or a mapping from names to them; without any the
        instance is drawn alone. Answers without a solution are left out.
    progress
        Whether incumbents and dual bounds of the answers over time stand below; by default where a
        run of a tenth of a second or more said more than its result.
    file
        Where the picture is written too, as ``.svg`` or ``.png``: whole or not at all, and the
        same bytes for the same picture.

    Raises
    ------
    UserError
        If there is nothing to draw of what was given, a solution is not valid for the instance, or
        the file cannot be written.
    """
    from lyra_opt.core.errors import UserError
    from lyra_opt.core.pictures import stacked
    from lyra_opt.core.problem import problem_of_instance
    from lyra_opt.core.progress_plot import drawing_of_progress, has_progress
    from lyra_opt.core.solving import Answer

    if isinstance(instance, Answer):
        solutions = instance if solutions is None else solutions
        instance = instance.instance
    problem = problem_of_instance(instance)
    given = _by_name(solutions)
    answers = {name: each for name, each in given.items() if isinstance(each, Answer)}
    found = _valid_solutions(problem, instance, given)
    drawings = []
    if found or solutions is None:
        drawings.append(problem.drawing_of(instance, found))
    if has_progress(answers.values()) if progress is None else progress:
        drawings.append(drawing_of_progress(answers))
    if not drawings:
        raise UserError("there is no solution to draw")
    return _saved(stacked(drawings), file)


def plot_progress(
    answers: Answer | Sequence[Answer] | Mapping[str, Answer],
    *,
    file: str | Path | None = None,
) -> Figure:
    """Return a picture of incumbents and dual bounds over time, a colour a run.

    Bounds are dashed; a star is a proof that the incumbent is optimal. Times are since the call of
    the solver, on a logarithmic axis where they differ much.

    Parameters
    ----------
    answers
        To one instance: an answer, a list of answers, or a mapping from names to them.
    file
        Where the picture is written too, as ``.svg`` or ``.png``.

    Raises
    ------
    UserError
        If no answer says anything, or the file cannot be written.
    """
    from lyra_opt.core.errors import UserError, show_value
    from lyra_opt.core.progress_plot import drawing_of_progress
    from lyra_opt.core.solving import Answer

    named = _by_name(answers)
    for each in named.values():
        if not isinstance(each, Answer):
            raise UserError(f"{show_value(each)} is no answer of a solver, which `solve` returns")
    return _saved(drawing_of_progress(named), file)


def _saved(drawing: Drawing, file: str | Path | None) -> Figure:
    """Return a drawing as a figure, and write it to the file if there is one."""
    from lyra_opt.core.pictures import require_picture_path, save_picture

    if file is not None:
        require_picture_path("file", str(file))
    figure = drawing.figure()
    if file is not None:
        save_picture(file, figure)
    return figure


def _by_name(given: Any) -> dict[str, Any]:
    """Return answers and solutions by name, which is that of the solver where there is none."""
    from lyra_opt.core.solving import Answer

    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {str(name): each for name, each in given.items()}
    found: dict[str, Any] = {}
    is_list = isinstance(given, Sequence) and not isinstance(given, str)
    for place, each in enumerate(given if is_list else [given]):
        name = each.solver if isinstance(each, Answer) else f"solution {place + 1}"
        found[_unused(name, found)] = each
    return found


def _valid_solutions(
    problem: Problem, instance: ProblemInstance, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the solutions that there are; `UserError` for one that is not valid."""
    from lyra_opt.core.errors import UserError
    from lyra_opt.core.solving import Answer
    from lyra_opt.core.verifying import for_another_instance

    found = {}
    for name, each in given.items():
        if isinstance(each, Answer):
            other = for_another_instance(instance, each.claims())
            if other is not None:
                raise UserError(f"{name}: the solution {other}")
        elif not isinstance(each, problem.all_solution_classes):
            raise UserError(f"{name}: {problem.is_no_solution(each, 'an answer or ')}")
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
    """Return a name that none of the names is: two answers may be of one solver."""
    number = 2
    shown = name
    while shown in names:
        shown = f"{name} ({number})"
        number += 1
    return shown
