"""The conformance suite: what every solver of every problem must keep, one's own included.

Call `assert_conforms` from a test with instances of your choice; each broken rule is an
`AssertionError` that names the rule. The rules are numbered in the docstring, and the messages
cite the number.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lyra_opt.core.result import Limits, Number, Status, StoppedBy, same_value
from lyra_opt.core.seeding import generator
from lyra_opt.core.solver import Solver, find_solver
from lyra_opt.core.solving import solve_and_check

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.core.problem import Problem
    from lyra_opt.core.solver import SolverLike
    from lyra_opt.core.solving import Answer

SHORT_TIMES_S = 0.0, 1e-3


def assert_conforms(
    solver: SolverLike,
    problem: Problem,
    instance: Any,
    *,
    optimum: Number | None = None,
    best_solution: Any = None,
    seed: int = 0,
    time_limits_s: Sequence[float] = SHORT_TIMES_S,
) -> Answer:
    """Assert that `solver` keeps the rules on `instance`, and return its answer.

    1. It declares its problem, and takes what its variants say.
    2. It is available and takes the instance: what is skipped is not tested.
    3. Its claims survive the checker: the solution is valid, the objective is the checker's.
    4. The same seed gives the same answer.
    5. Running it does not change the instance.
    6. A solver that says so proves optimality when it runs without limits.
    7. A solver that gives no bound returns none, and claims no optimality.
    8. bound <= optimum <= objective when minimising, the other way round when maximising.
    9. It is never worse than the solution that it was given to start from.
    10. A time limit, be it 0, never makes it claim what it did not prove, or fail; where it leaves
        no solution it is named.
    11. The observer sees objectives that improve, and ends with the answer's; the bounds that it
        sees keep rule 8.

    Objectives that are floats count as equal within 1e-9 relative
    (`lyra_opt.core.result.same_value`).

    Parameters
    ----------
    solver
        An object, a class, a name or ``my_file.py:NAME``.
    optimum
        The true optimum from an independent method, None if it is not known.
    best_solution
        A solution as good as any that the solver may find, to start from; None starts from the
        solver's own answer.
    time_limits_s
        Those of rule 10.
    """
    if not isinstance(solver, Solver):
        solver = find_solver(problem.name, solver)
    assert solver.problem == problem.name, "rule 1: the problem is not the solver's"
    missing = solver.availability()
    assert missing is None, f"rule 2: the solver is not available: {missing.reason}"
    skip = solver.supports(instance)
    assert skip is None, f"rule 2: the solver does not take the instance: {skip.reason}"
    assert instance.variant in solver.variants, "rule 1: takes an undeclared variant"
    before = problem.instance_document(instance)
    seen: dict[str, list[Number]] = {"objective": [], "dual_bound": []}
    answer = solve_and_check(
        problem,
        instance,
        solver,
        seed=seed,
        observer=lambda kind, value, _solution=None: seen[kind].append(value),
    )
    assert answer.status is not Status.ERROR, f"rule 3: {answer.message}"
    again = solve_and_check(problem, instance, solver, seed=seed)
    same = (answer.status, answer.solution, answer.objective, answer.dual_bound)
    assert same == (again.status, again.solution, again.objective, again.dual_bound), (
        f"rule 4: {same} first, then {again}"
    )
    assert problem.instance_document(instance) == before, "rule 5: the instance was changed"
    if instance.variant in solver.exact_variants:
        assert answer.status in (Status.OPTIMAL, Status.INFEASIBLE), (
            f"rule 6: no proof without limits, but {answer.status} "
            f"(objective {answer.objective}, bound {answer.dual_bound})"
        )
    if not solver.gives_bound:
        assert answer.dual_bound is None, "rule 7: a bound from a solver that gives none"
    sign = 1 if instance.variant.sense == "min" else -1
    if optimum is not None:
        _assert_brackets(answer.dual_bound, optimum, answer.objective, sign)
        for bound in seen["dual_bound"]:
            _assert_brackets(bound, optimum, None, sign)
    _assert_observed(seen["objective"], answer.objective, sign)
    start = answer.solution if best_solution is None else best_solution
    if start is not None:
        _assert_keeps_start(solver, problem, instance, start, sign, seed)
    for time_s in time_limits_s:
        hurried = solve_and_check(
            problem, instance, solver, seed=seed, limits=Limits(time_s=time_s)
        )
        assert hurried.status is not Status.ERROR, f"rule 10: {hurried.message}"
        if optimum is not None:
            _assert_brackets(hurried.dual_bound, optimum, hurried.objective, sign)
        if answer.solution is not None and hurried.solution is None:
            assert hurried.stopped_by is StoppedBy.TIME, "rule 10: what stopped it is not said"
    return answer


def _assert_keeps_start(
    solver: Solver, problem: Problem, instance: Any, start: Any, sign: int, seed: int
) -> None:
    started = solver.solve(
        instance, limits=Limits(), rng=generator(seed=seed + 1), warm_start=start
    )
    value = problem.check(instance, start).objective
    assert value is not None, "the solution to start from is not valid"
    assert started.objective is not None, "rule 9: the start was lost"
    assert not _is_beyond(value, started.objective, sign), (
        f"rule 9: {started.objective} from a start of {value}"
    )


def _assert_brackets(
    bound: Number | None, optimum: Number, objective: Number | None, sign: int
) -> None:
    if bound is not None:
        assert not _is_beyond(optimum, bound, sign), (
            f"rule 8: bound {bound} beyond optimum {optimum}"
        )
    if objective is not None:
        assert not _is_beyond(objective, optimum, sign), (
            f"rule 8: objective {objective} beyond optimum {optimum}"
        )


def _assert_observed(seen: list[Number], objective: Number | None, sign: int) -> None:
    improvements = all(sign * later < sign * earlier for earlier, later in pairwise(seen))
    assert improvements, f"rule 11: observed objectives {seen} do not improve"
    if seen:
        assert objective is not None, f"rule 11: observed {seen[-1]} last, answered nothing"
        assert same_value(seen[-1], objective), (
            f"rule 11: observed {seen[-1]} last, answered {objective}"
        )


def _is_beyond(better: Number, worse: Number, sign: int) -> bool:
    """Whether the first is better than the second by more than the rounding of floats."""
    return sign * better < sign * worse and not same_value(better, worse)
