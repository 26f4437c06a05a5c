"""Pictures of instances and of solutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from lyra_opt.core.problem import Problem


def plot(instance: Any, solutions: Any = None, *, file: str | Path | None = None) -> Figure:
    """Return a picture of an instance, alone or with solutions of it side by side.

    It shows at most some dozen servers, jobs or machines one by one, and says what is left out.

    Parameters
    ----------
    instance
        Of any problem.
    solutions
        An answer or a solution, a list of these, or a mapping from names to them; without any the
        instance is drawn alone. Answers without a solution are left out.
    file
        Where the picture is written too, as ``.svg`` or ``.png``: whole or not at all, and the
        same bytes for the same picture.

    Raises
    ------
    UserError
        If none of the answers has a solution, a solution is not valid for the instance, or the
        file cannot be written.
    """
    from lyra_opt.core.pictures import require_picture_path, save_picture
    from lyra_opt.core.problem import problem_of_instance

    if file is not None:
        require_picture_path("file", str(file))
    problem = problem_of_instance(instance)
    figure = problem.drawing_of(instance, _by_name(problem, instance, solutions)).figure()
    if file is not None:
        save_picture(file, figure)
    return figure


def _by_name(problem: Problem, instance: Any, given: Any) -> dict[str, Any]:
    """Return valid solutions by name."""
    from lyra_opt.core.errors import UserError
    from lyra_opt.core.solving import Answer

    if given is None:
        return {}
    if isinstance(given, Mapping):
        named = list(given.items())
    else:
        several = list(given) if isinstance(given, Sequence) else [given]
        named = [
            (each.solver if isinstance(each, Answer) else f"solution {place + 1}", each)
            for place, each in enumerate(several)
        ]
    found: dict[str, Any] = {}
    for name, each in named:
        solution = each.solution if isinstance(each, Answer) else each
        if solution is None:
            continue
        is_checked = isinstance(each, Answer) and each.instance is instance
        violations = () if is_checked else problem.check(instance, solution).violations
        if violations:
            raise UserError(f"{name}: the solution is not valid: {'; '.join(violations)}")
        found[_unused(str(name), found)] = solution
    if not found:
        raise UserError("there is no solution to draw")
    return found


def _unused(name: str, names: Mapping[str, Any]) -> str:
    """Return a name that none of the names is: two answers may be of one solver."""
    number = 2
    shown = name
    while shown in names:
        shown = f"{name} ({number})"
        number += 1
    return shown
