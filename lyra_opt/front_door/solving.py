"""One instance, one solver or several."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from lyra_opt.core.instance import ProblemInstance
    from lyra_opt.core.solving import Answer

SolutionT = TypeVar("SolutionT")


def solve(
    instance: ProblemInstance[SolutionT],
    solver: str | None = None,
    *,
    time_limit_s: float | None = None,
    seed: int = 0,
    certify: bool = False,
) -> Answer[SolutionT]:
    """Return the checked answer of a solver, by default the problem's own choice.

    Parameters
    ----------
    instance
        Of any problem.
    solver
        Its name, as ``lyra-opt solvers`` lists it.
    time_limit_s
        Seconds that it may take; None is no limit.
    seed
        Of random choices.
    certify
        Whether to add the problem's own bound.

    Raises
    ------
    UserError
        If there is no such solver.
    """
    from lyra_opt.core.problem import problem_of_instance
    from lyra_opt.core.result import Limits
    from lyra_opt.core.solver import find_solver
    from lyra_opt.core.solving import solve_and_check

    problem = problem_of_instance(instance)
    name = solver or problem.default_solver_of(instance.variant)
    return solve_and_check(
        problem,
        instance,
        find_solver(problem.name, name),
        limits=Limits(time_s=time_limit_s),
        seed=seed,
        certify=certify,
    )


def compare(
    instance: ProblemInstance,
    solvers: Sequence[str],
    *,
    time_limit_s: float | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Return the answers of several solvers to one instance, a row a solver."""
    import pandas as pd

    answers = [solve(instance, each, time_limit_s=time_limit_s, seed=seed) for each in solvers]
    return pd.DataFrame([answer.as_json_object("") for answer in answers])
