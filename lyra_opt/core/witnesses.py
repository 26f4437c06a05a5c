"""An independent witness beside an answer: ``--certify``.

A proof is worth more if a second method finds it. Independent are methods that run different
engines: HiGHS is one, whoever calls it, CBC, SCIP and CP-SAT are others, and the bounds of the
toolkit are one with its own searches. (Models may start from the simple bounds of their problem;
what a witness proves beyond them is its own.)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lyra_opt.core.execution import execute
from lyra_opt.core.result import BACKEND_RUNS, Limits, Status
from lyra_opt.core.solver import find_solver, is_built_in
from lyra_opt.core.solving import Answer, Witness, refute_claims, solve_and_check
from lyra_opt.core.stopwatch import interruption_in_force

if TYPE_CHECKING:
    from lyra_opt.core.execution import Executor
    from lyra_opt.core.problem import Problem
    from lyra_opt.core.solver import Observer, Solver

OWN_ENGINE = "lyra-opt"
"""Of the problems' own bounds, and of the searches that are made of them."""

LIMIT_S = 10.0
"""Of a witness that is a solver, where the run itself has no limit."""


def engine_of(solver: Solver) -> str:
    """Return what the bounds of a solver rest on; two of one engine are one witness."""
    return solver.engine or (OWN_ENGINE if is_built_in(solver) else solver.name)


def solve_and_certify(
    problem: Problem,
    instance: Any,
    solver: Solver,
    *,
    limits: Limits | None = None,
    seed: int = 0,
    warm_start: Any = None,
    observer: Observer | None = None,
    record: bool = False,
    executor: Executor = execute,
) -> Answer:
    """Run and check a solver, as `solve_and_check`; hold its answer against an independent witness.

    That is the problem's own bound, in milliseconds; or a solver of another engine, which starts
    from the solution and has the limit of the run, or 10 s without one. It is asked where the
    problem's own bound is what the solver itself computes with, and where the solver claims a proof
    that the bound cannot confirm.

    Returns
    -------
    Answer
        With the better of both bounds; an error if they contradict one another.
    """
    limits = limits or Limits()
    is_same_bound = solver.gives_bound and engine_of(solver) == OWN_ENGINE
    answer = solve_and_check(
        problem,
        instance,
        solver,
        limits=limits,
        seed=seed,
        certify=not is_same_bound,
        warm_start=warm_start,
        observer=observer,
        record=record,
        executor=executor,
    )
    if answer.status in (Status.ERROR, Status.UNSUPPORTED) or interruption_in_force().is_asked:
        return answer
    claims_proof = answer.status in (Status.OPTIMAL, Status.INFEASIBLE)
    is_confirmed = answer.witness is not None and answer.witness.proves
    if is_same_bound or (claims_proof and not is_confirmed):
        return _asked(answer, engine_of(solver), limits, executor)
    return answer


def _asked(answer: Answer, engine: str, limits: Limits, executor: Executor) -> Answer:
    """Return the answer with what a solver of another engine says of it."""
    witness = _witness_for(answer, engine)
    if witness is None:
        message = "no independent solver can check this instance"
        return replace(answer, message=answer.message or message)
    limits = replace(limits, time_s=LIMIT_S) if limits.time_s is None else limits
    said = solve_and_check(
        answer.problem,
        answer.instance,
        witness,
        limits=limits,
        seed=answer.seed,
        warm_start=answer.solution,
        executor=executor,
    )
    if said.status is not Status.ERROR:
        held, said = refute_claims([answer, said])
        if held.status is Status.ERROR:
            return held
    if said.status is Status.ERROR:
        return replace(answer, message=f"the witness {said.solver} failed: {said.message}")
    if said.counters.get(BACKEND_RUNS) == 0:  # its bound is a simple one of the toolkit's
        return replace(
            answer, message=f"the witness {said.solver} ran out of time before its search started"
        )
    return _confirmed(answer, said)


def _confirmed(answer: Answer, said: Answer) -> Answer:
    """Return the answer with the better of two bounds that do not contradict one another."""
    variant = answer.instance.variant
    bound, other = answer.dual_bound, said.dual_bound
    if bound is None or (other is not None and variant.is_better(bound, other)):
        bound = other
    found = replace(answer, dual_bound=bound)
    proves = replace(answer, dual_bound=other).gap == 0
    if answer.status is Status.INFEASIBLE:
        proves = said.status is Status.INFEASIBLE
    elif found.gap == 0:
        found = replace(found, status=Status.OPTIMAL)
    return replace(
        found,
        witness=Witness(
            method=said.solver,
            dual_bound=other,
            proves=proves,
            is_better=bound != answer.dual_bound,
            objective=said.objective if _finds_better(said, answer) else None,
            stopped_by=said.stopped_by,
            wall_time_s=said.wall_time_s or 0.0,
        ),
    )


def _finds_better(said: Answer, answer: Answer) -> bool:
    """Whether the solution of one answer is better than that of another."""
    if said.objective is None or answer.objective is None:
        return False
    return bool(answer.instance.variant.is_better(said.objective, answer.objective))


def _witness_for(answer: Answer, engine: str) -> Solver | None:
    """Return the first witness of the problem that runs another engine and takes the instance."""
    for name in answer.problem.witnesses:
        solver = find_solver(answer.problem.name, name)
        is_usable = not (solver.availability() or solver.supports(answer.instance))
        if is_usable and engine_of(solver) != engine:
            return solver
    return None
