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
    threads: int = 1,
    start: SolutionT | Answer[SolutionT] | None = None,
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
    threads
        At most so many, by those who can use them; with more than one, runs differ.
    start
        A solution, or an answer that holds one; what comes of it is never worse.
    seed
        Of random choices.
    certify
        Whether to add the problem's own bound.

    Raises
    ------
    UserError
        If there is no such solver, or the start is no valid solution.
    """
    from lyra_opt.core.problem import problem_of_instance
    from lyra_opt.core.result import Limits
    from lyra_opt.core.solver import find_solver
    from lyra_opt.core.solving import Answer, require_valid_start, solve_and_check

    problem = problem_of_instance(instance)
    if start is not None:
        start = start.solution if isinstance(start, Answer) else start
        require_valid_start(problem, instance, start, "start")
    name = solver or problem.default_solver_of(instance.variant)
    return solve_and_check(
        problem,
        instance,
        find_solver(problem.name, name),
        limits=Limits(time_s=time_limit_s, threads=threads),
        seed=seed,
        certify=certify,
        warm_start=start,
        record=True,
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
