"""The conformance suite: the rules that every solver must keep, including your own.

Call `assert_conforms` from a test with instances of your choice. A broken rule raises an
`AssertionError` that cites the number of the rule in the docstring.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from lyra_opt.core.problem import Problem, find_problem, problem_of_instance
from lyra_opt.core.result import Limits, Number, Status, StoppedBy, same_value
from lyra_opt.core.seeding import generator
from lyra_opt.core.solver import Solver, SolverLike, find_solver
from lyra_opt.core.solving import Answer, solve_and_check

SHORT_TIMES_S = 0.0, 1e-3


@dataclass(frozen=True, kw_only=True)
class Conformance:
    """The result of a solver that broke no rule, which prints as a sentence.

    Parameters
    ----------
    answer
        The answer of the solver without limits.
    has_optimum, has_start
        Whether an optimum was given, which rule 8 needs, and a solution to start from, for rule 9.
    """

    answer: Answer
    has_optimum: bool
    has_start: bool

    def __str__(self) -> str:
        """Return the verdict, the answer and the rules that were not tested."""
        answer, terms = self.answer, self.answer.problem.terms_of(self.answer.instance)
        values = {"objective": answer.objective, "bound": answer.dual_bound}
        known = [
            f"{name} {terms.in_words(value)}" for name, value in values.items() if value is not None
        ]
        where = f"{answer.instance.name} ({answer.problem.name})"
        said = f"{answer.solver} conforms on {where}: {', '.join([str(answer.status), *known])}."
        if not self.has_optimum:
            said += " Not tested: rule 8, because no optimum is given."
        if not self.has_start:
            said += " Not tested: rule 9, because there is no solution to start from."
        return said


def assert_conforms(
    solver: SolverLike,
    problem: Problem | str | None,
    instance: Any,
    *,
    optimum: Number | None = None,
    best_solution: Any = None,
    seed: int = 0,
    time_limits_s: Sequence[float] = SHORT_TIMES_S,
) -> Conformance:
    """Assert that `solver` keeps the rules on `instance`; ``print`` shows the verdict.

    1. It declares its problem, and accepts only instances of its declared variants.
    2. It is available and supports the instance; a skipped instance would not be a test.
    3. The checker confirms its claims: the solution is valid, and the objective is the checker's.
    4. The same seed gives the same answer.
    5. Solving does not change the instance.
    6. A solver that is declared exact proves optimality when it runs without limits.
    7. A solver that declares no bounds returns no bound, and claims no optimality.
    8. bound <= optimum <= objective when minimising, and the reverse when maximising.
    9. Its answer is never worse than its warm start.
    10. With any time limit, even 0, it neither fails nor claims what it did not prove. If it finds
        no solution, it names the time limit as the reason.
    11. The observer sees improving objectives, the last of which is the answer's. The bounds that
        it sees keep rule 8.

    Float objectives count as equal within 1e-9 relative (`lyra_opt.core.result.same_value`).

    Parameters
    ----------
    solver
        An object, a class, a name or ``my_file.py:NAME``.
    problem
        The problem, or its name such as ``reclaim``; None for the problem of the instance.
    optimum
        The true optimum from an independent method; None if unknown.
    best_solution
        A warm start at least as good as any solution that the solver may find; None uses the
        solver's own answer.
    time_limits_s
        The time limits for rule 10, in seconds.
    """
    if problem is None:
        problem = problem_of_instance(instance)
    elif isinstance(problem, str):
        problem = find_problem(problem)
    if not isinstance(solver, Solver):
        solver = find_solver(problem.name, solver)
    assert solver.problem == problem.name, "rule 1: the solver declares another problem"
    missing = solver.availability()
    assert missing is None, f"rule 2: the solver is not available: {missing.reason}"
    skip = solver.supports(instance)
    assert skip is None, f"rule 2: the solver does not support the instance: {skip.reason}"
    assert instance.variant in solver.variants, "rule 1: it supports a variant it does not declare"
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
        f"rule 4: the same seed first gave {same}, then {again}"
    )
    assert problem.instance_document(instance) == before, "rule 5: the instance was changed"
    if instance.variant in solver.exact_variants:
        assert answer.status in (Status.OPTIMAL, Status.INFEASIBLE), (
            f"rule 6: it must prove optimality without limits, but ended {answer.status} "
            f"(objective {answer.objective}, bound {answer.dual_bound})"
        )
    if not solver.gives_bound:
        assert answer.dual_bound is None, "rule 7: it returns a bound, but declares none"
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
            assert hurried.stopped_by is StoppedBy.TIME, "rule 10: stopped_by must be TIME"
    return Conformance(answer=answer, has_optimum=optimum is not None, has_start=start is not None)


def _assert_keeps_start(
    solver: Solver, problem: Problem, instance: Any, start: Any, sign: int, seed: int
) -> None:
    started = solver.solve(
        instance, limits=Limits(), rng=generator(seed=seed + 1), warm_start=start
    )
    value = problem.check(instance, start).objective
    assert value is not None, "the warm start is not valid"
    assert started.objective is not None, "rule 9: it returns no solution despite a warm start"
    assert not _is_beyond(value, started.objective, sign), (
        f"rule 9: objective {started.objective} is worse than its warm start {value}"
    )


def _assert_brackets(
    bound: Number | None, optimum: Number, objective: Number | None, sign: int
) -> None:
    if bound is not None:
        assert not _is_beyond(optimum, bound, sign), (
            f"rule 8: bound {bound} is beyond the optimum {optimum}"
        )
    if objective is not None:
        assert not _is_beyond(objective, optimum, sign), (
            f"rule 8: objective {objective} is better than the optimum {optimum}"
        )


def _assert_observed(seen: list[Number], objective: Number | None, sign: int) -> None:
    improvements = all(sign * later < sign * earlier for earlier, later in pairwise(seen))
    assert improvements, f"rule 11: observed objectives {seen} do not improve"
    if seen:
        assert objective is not None, f"rule 11: observed {seen[-1]} last, but has no solution"
        assert same_value(seen[-1], objective), (
            f"rule 11: observed {seen[-1]} last, but answered {objective}"
        )


def _is_beyond(better: Number, worse: Number, sign: int) -> bool:
    """Return whether `better` is better than `worse` by more than a rounding error."""
    return sign * better < sign * worse and not same_value(better, worse)
