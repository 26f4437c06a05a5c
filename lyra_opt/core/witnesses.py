"""Confirmation of an answer by an independent method (the witness), for ``--certify``.

A proof is more credible if a second, independent method finds it. Methods are independent if they
use different engines: HiGHS (through any package), CBC, SCIP, CP-SAT, and the toolkit's own bounds
together with its own searches. Models may start from the simple bounds of their problem; what a
witness proves beyond these bounds is independent.
"""

from dataclasses import replace
from typing import Any

from lyra_opt.core.execution import Executor, execute
from lyra_opt.core.problem import Problem
from lyra_opt.core.result import BACKEND_RUNS, Limits, Status
from lyra_opt.core.solver import Observer, Solver, find_solver, is_built_in
from lyra_opt.core.solving import Answer, Witness, refute_claims, solve_and_check
from lyra_opt.core.stopwatch import interruption_in_force

OWN_ENGINE = "lyra-opt"
"""The engine of the problems' own bounds, and of the searches that use them."""

LIMIT_S = 10.0
"""The time limit in seconds of a solver as a witness, if the run has no limit."""


def engine_of(solver: Solver) -> str:
    """Return the engine that computes the bounds of a solver."""
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
    """Run and check a solver, and compare its answer with an independent witness.

    The witness is the problem's own bound, which takes milliseconds, or a solver with another
    engine. The solver starts from the solution and has the time limit of the run, or 10 s. It is
    used if the run's solver computes with the problem's own bound, or claims a proof that this
    bound cannot confirm.

    Returns
    -------
    Answer
        The answer with the better of the two bounds; an error if they contradict one another.
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
        return _with_witness(answer, engine_of(solver), limits, executor)
    return answer


def _with_witness(answer: Answer, engine: str, limits: Limits, executor: Executor) -> Answer:
    """Return the answer after a solver with another engine has tried to confirm it."""
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
    if said.counters.get(BACKEND_RUNS) == 0:  # its bound comes from the toolkit, not the backend
        return replace(
            answer, message=f"the witness {said.solver} ran out of time before its search started"
        )
    return _confirmed(answer, said)


def _confirmed(answer: Answer, said: Answer) -> Answer:
    """Return the answer with the better of its bound and the witness's bound."""
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
    """Return whether the witness `said` has a better solution than `answer`."""
    if said.objective is None or answer.objective is None:
        return False
    return bool(answer.instance.variant.is_better(said.objective, answer.objective))


def _witness_for(answer: Answer, engine: str) -> Solver | None:
    """Return a usable solver whose engine is not `engine`; None if no such solver exists."""
    for name in answer.problem.witnesses:
        solver = find_solver(answer.problem.name, name)
        is_usable = not (solver.availability() or solver.supports(answer.instance))
        if is_usable and engine_of(solver) != engine:
            return solver
    return None
