"""Backends that others install: any solver that PuLP or MathOpt knows, by the name it has there.

They have no line of their own anywhere: ``pulp-gurobi`` is PuLP's GUROBI with the model that
``pulp-highs`` runs, ``mathopt-cp-sat`` MathOpt's CP_SAT, and forms follow, as in
``pulp-scip-cmd-strengthened``. Of most of them nothing is known but what PuLP or MathOpt says,
which is not believed: solutions are checked, and bounds are taken only where `PULP_BOUNDS` says
how.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from lyra_opt.core.result import StoppedBy
from lyra_opt.core.solver import find_solver, solver_names
from lyra_opt.core.stopwatch import is_out_of_time, limits_in_force, remaining_s
from lyra_opt.core.temporary import TemporaryFolder
from lyra_opt.formulations.backends import mathopt as of_mathopt
from lyra_opt.formulations.backends import pulp as of_pulp
from lyra_opt.formulations.backends.backend import Backend, BackendRun
from lyra_opt.formulations.exact_model import ExactModelSolver

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lyra_opt.core.result import Number
    from lyra_opt.core.solver import Solver
    from lyra_opt.formulations.backends.backend import Built, Settings, Values

PULP_BOUNDS: Mapping[str, Callable[[Any], Number]] = {
    "GUROBI": lambda model: model.ObjBound,
    "SCIP_PY": lambda model: model.getDualbound(),
}
"""How a solver's own model, as PuLP leaves it, says its lower bound. Each was tried."""

PULP_PARAMETERS: Mapping[str, Callable[[Settings], dict[str, Any]]] = {
    "GUROBI": lambda settings: {
        "manageEnv": True,  # or it prints what is set here
        "envOptions": {
            "OutputFlag": 0,
            "Threads": limits_in_force().threads,
            "Seed": settings.seed,
            "MIPGapAbs": 0.0,
            "IntFeasTol": 1e-6,
        },
    },
}
"""What is said in a solver's own words, where PuLP has no common one."""

PULP_SINGLE_THREADED = {"SCIP_PY"}
"""Those that take a number of threads only to complain of it."""

PULP_OWN = {"PULP_CBC_CMD", "HiGHS"}
"""Those that are backends of the toolkit, ``pulp-cbc`` and ``pulp-highs``."""

MATHOPT_TYPES = ("CP_SAT", "GLPK", "GUROBI", "SANTORINI", "XPRESS")
"""Those of MathOpt that solve integer programmes, but for GSCIP and HiGHS."""


@dataclass(frozen=True)
class ForeignSolvers:
    """A group of solvers whose names are made; see `lyra_opt.core.solver.SolverMaker`.

    Parameters
    ----------
    like
        The registered solver whose model they run.
    backends
        Returns them by name.
    """

    like: str
    backends: Callable[[], Mapping[str, Backend]]

    def names(self) -> list[str]:
        """Return the names of plain models; forms follow them."""
        return sorted(self.backends())

    def make(self, problem: str, name: str) -> Solver | None:
        """Return the solver of a name, or None if it is not one of these."""
        for _, twin in solver_names(problem):
            form = twin.removeprefix(self.like)
            backend = self.backends().get(name.removesuffix(form))
            if twin.startswith(self.like) and name.endswith(form) and backend is not None:
                model = find_solver(problem, twin)
                if isinstance(model, ExactModelSolver):
                    return ExactModelSolver(model.formulation, model.statement, backend)
        return None


# PuLP


@cache
def pulp_backends() -> dict[str, Backend]:
    """Return the backends that PuLP knows, beside those of the toolkit."""
    from pulp import apis

    found = {}
    for solver in apis._all_solvers:  # noqa: SLF001 (`listSolvers` has names that `getSolver` refuses)
        if solver.name not in PULP_OWN:
            name = f"pulp-{solver.name.lower().replace('_', '-')}"
            found[name] = replace(
                of_pulp.CBC,
                name=name,
                title=f"PuLP with {solver.name}",
                run=partial(_run_by_pulp, solver),
                missing=partial(_missing_of_pulp, solver),
                is_parallel="threads" in _parameters(solver) or solver.name in PULP_PARAMETERS,
                gives_bound=solver.name in PULP_BOUNDS,
            )
    return found


def _parameters(solver: Any) -> Mapping[str, inspect.Parameter]:
    """Return what its class takes."""
    taken = dict(inspect.signature(solver.__init__).parameters)
    if solver.name in PULP_SINGLE_THREADED:
        taken.pop("threads", None)
    return taken


@cache
def _missing_of_pulp(solver: Any) -> str | None:
    """Return why PuLP cannot run it here."""
    try:
        is_there = bool(solver(msg=False).available())
    except Exception as error:  # of anybody's software
        return f"PuLP cannot run {solver.name} here: {error}"
    return None if is_there else f"PuLP finds no {solver.name} here"


def _run_by_pulp(solver: Any, built: Built, start: Values | None, settings: Settings) -> BackendRun:
    """Run one of PuLP's solvers; of its status only whether there is a solution is read.

    It is given what its PuLP class takes of a time limit, gaps of 0, threads and a start.
    """
    import pulp

    variables, model = built.in_order, built.model
    of_pulp.set_start(variables, start)
    wanted = {
        "msg": False,
        "timeLimit": remaining_s(),
        "gapRel": 0.0,
        "gapAbs": 0.0,
        "threads": limits_in_force().threads,
        "warmStart": start is not None,
    }
    taken = _parameters(solver)
    given = {name: value for name, value in wanted.items() if name in taken and value is not None}
    own_of = PULP_PARAMETERS.get(solver.name)
    own = {} if own_of is None else own_of(settings)
    with TemporaryFolder() as directory:
        one = solver(**given, **own)
        one.tmpDir = str(directory)  # of those that exchange files
        model.solve(one)
        bound_of = PULP_BOUNDS.get(solver.name)
        bound = None if bound_of is None else bound_of(model.solverModel)
        if hasattr(one, "close"):
            one.close()
    has_solution = model.sol_status in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible)
    values = [variable.value() for variable in variables] if has_solution else None
    return BackendRun(
        values=None if values is None or None in values else values,
        bound=bound,
        stopped_by=StoppedBy.TIME if is_out_of_time() else None,
    )


# MathOpt


@cache
def mathopt_backends() -> dict[str, Backend]:
    """Return the backends of MathOpt, beside those of the toolkit."""
    named = {f"mathopt-{name.lower().replace('_', '-')}": name for name in MATHOPT_TYPES}
    return {
        name: replace(
            of_mathopt.GSCIP,
            name=name,
            title=f"MathOpt with {solver_type}",
            run=partial(_run_by_mathopt, solver_type),
            missing=partial(_missing_of_mathopt, solver_type),
            is_parallel=True,
            gives_bound=False,
        )
        for name, solver_type in named.items()
    }


@cache
def _missing_of_mathopt(solver_type: str) -> str | None:
    """Return why MathOpt cannot run it here, which only a run can tell."""
    from ortools.math_opt.python import mathopt

    if solver_type not in mathopt.SolverType.__members__:
        return f"this version of OR-Tools has no {solver_type}"
    try:
        of_mathopt.solve(mathopt.Model(), solver_type, None, {})
    except Exception as error:  # of anybody's software
        # OR-Tools calls into a library that it has not found or loaded.
        reason = "its library is not there" if f"{error}" == "bad_function_call" else error
        return f"OR-Tools cannot run {solver_type} here: {reason}"
    return None


def _run_by_mathopt(
    solver_type: str, built: Built, start: Values | None, settings: Settings
) -> BackendRun:
    return of_mathopt.run(solver_type, built, start, settings, threads=limits_in_force().threads)


PULP = ForeignSolvers("pulp-highs", pulp_backends)
MATHOPT = ForeignSolvers("mathopt-highs", mathopt_backends)
