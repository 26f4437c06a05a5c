"""Backends for solvers that users install: every solver that PuLP or MathOpt can call.

These backends are not listed one by one. Their names come from PuLP and MathOpt: ``pulp-gurobi`` is
PuLP's GUROBI with the model of ``pulp-highs``, and ``mathopt-cp-sat`` is MathOpt's CP_SAT. A form
is appended, as in ``pulp-scip-cmd-strengthened``. Their answers are not trusted: every solution is
checked, and bounds are used only from the solvers in `PULP_BOUNDS`.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from lyra_opt.core.result import Number, StoppedBy
from lyra_opt.core.solver import Solver, find_solver, solver_names
from lyra_opt.core.stopwatch import is_out_of_time, limits_in_force, remaining_s
from lyra_opt.core.temporary import TemporaryFolder
from lyra_opt.formulations.backends import mathopt as of_mathopt
from lyra_opt.formulations.backends import pulp as of_pulp
from lyra_opt.formulations.backends.backend import Backend, BackendRun, Built, Settings, Values
from lyra_opt.formulations.exact_model import ExactModelSolver

PULP_BOUNDS: Mapping[str, Callable[[Any], Number]] = {
    "GUROBI": lambda model: model.ObjBound,
    "SCIP_PY": lambda model: model.getDualbound(),
}
"""Functions that read the lower bound from a solver's own model after PuLP's run; all are tested.

"""

PULP_PARAMETERS: Mapping[str, Callable[[Settings], dict[str, Any]]] = {
    "GUROBI": lambda settings: {
        "manageEnv": True,  # otherwise Gurobi prints these options
        "envOptions": {
            "OutputFlag": 0,
            "Threads": limits_in_force().threads,
            "Seed": settings.seed,
            "MIPGapAbs": 0.0,
            "IntFeasTol": 1e-6,
        },
    },
}
"""Parameters in a solver's own interface, where PuLP has no common parameter."""

PULP_SINGLE_THREADED = {"SCIP_PY"}
"""Solvers that accept a number of threads but only print a warning about it."""

PULP_OWN = {"PULP_CBC_CMD", "HiGHS"}
"""Solvers that the toolkit has its own backends for: ``pulp-cbc`` and ``pulp-highs``."""

MATHOPT_TYPES = ("CP_SAT", "GLPK", "GUROBI", "SANTORINI", "XPRESS")
"""MathOpt's solvers of integer programmes other than GSCIP and HiGHS."""


@dataclass(frozen=True)
class ForeignSolvers:
    """A group of solvers that PuLP or MathOpt can call, found by names such as ``pulp-gurobi``.

    It implements `lyra_opt.core.solver.SolverMaker`.

    Parameters
    ----------
    like
        The registered solver whose model these solvers run.
    backends
        Returns the backends by name.
    """

    like: str
    backends: Callable[[], Mapping[str, Backend]]

    def names(self) -> list[str]:
        """Return the names of the solvers, without suffixes such as ``-strengthened``."""
        return sorted(self.backends())

    def make(self, problem: str, name: str) -> Solver | None:
        """Build the solver of `problem` with this name; None if the group has no such solver."""
        for _, twin in solver_names(problem):
            form = twin.removeprefix(self.like)
            backend = self.backends().get(name.removesuffix(form))
            if twin.startswith(self.like) and name.endswith(form) and backend is not None:
                model = find_solver(problem, twin)
                if isinstance(model, ExactModelSolver):
                    return type(model)(model.formulation, model.statement, backend)
        return None


# PuLP


@cache
def pulp_backends() -> dict[str, Backend]:
    """Return a backend, by name, for each solver that PuLP can call, except CBC and HiGHS."""
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
    """Return the parameters that the solver's PuLP class accepts."""
    taken = dict(inspect.signature(solver.__init__).parameters)
    if solver.name in PULP_SINGLE_THREADED:
        taken.pop("threads", None)
    return taken


@cache
def _missing_of_pulp(solver: Any) -> str | None:
    """Return why PuLP cannot run the solver on this machine; None if it can."""
    try:
        is_installed = bool(solver(msg=False).available())
    except Exception as error:  # third-party code may raise anything
        return f"PuLP cannot run {solver.name} on this machine: {error}"
    return None if is_installed else f"PuLP cannot find {solver.name} on this machine"


def _run_by_pulp(solver: Any, built: Built, start: Values | None, settings: Settings) -> BackendRun:
    """Run a solver through PuLP, whose status only shows whether a solution was found.

    The solver receives those of the time limit, zero gaps, thread limit and start that its PuLP
    class accepts.
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
        one.tmpDir = str(directory)  # used by solvers that exchange files
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
    """Return a backend, by name, for each of MathOpt's integer solvers, except SCIP and HiGHS."""
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
    """Try the solver on an empty model; return why MathOpt cannot run it, or None if it can."""
    from ortools.math_opt.python import mathopt

    if solver_type not in mathopt.SolverType.__members__:
        return f"this version of OR-Tools does not include {solver_type}"
    try:
        of_mathopt.solve(mathopt.Model(), solver_type, None, {})
    except Exception as error:  # third-party code may raise anything
        # OR-Tools reports "bad_function_call" if it could not load the library of the solver.
        reason = "its library is missing" if f"{error}" == "bad_function_call" else error
        return f"OR-Tools cannot run {solver_type} on this machine: {reason}"
    return None


def _run_by_mathopt(
    solver_type: str, built: Built, start: Values | None, settings: Settings
) -> BackendRun:
    return of_mathopt.run(solver_type, built, start, settings, threads=limits_in_force().threads)


PULP = ForeignSolvers("pulp-highs", pulp_backends)
MATHOPT = ForeignSolvers("mathopt-highs", mathopt_backends)
