"""Exact models for other solvers, as objects and as files, for ``import lyra_opt as lo``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    Protocol,
    TypeVar,
    overload,
    runtime_checkable,
)

from lyra_opt.core.documents import write_bytes
from lyra_opt.core.errors import InputError, UserError, counted, without_inner_frames
from lyra_opt.core.loading import load_solution as load_solution_document
from lyra_opt.core.nearest_names import meant
from lyra_opt.core.problem import problem_of_instance
from lyra_opt.core.solver import find_solver, solver_names
from lyra_opt.formulations.model_files import OBJECTIVE_CONSTANT, cpsat_bytes, linear_bytes
from lyra_opt.formulations.solution_files import INTEGER_TOLERANCE, read_solver_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pulp
    from ortools.math_opt.python import mathopt
    from ortools.sat.python import cp_model

    from lyra_opt.core.problem import ProblemInstance
    from lyra_opt.formulations.exact_model import ReadBack
    from lyra_opt.formulations.solution_files import SolverFile

LANGUAGE_OF_SUFFIX = {".mps": "mathopt", ".lp": "mathopt", ".pb": "cpsat", ".txtpb": "cpsat"}
"""The modelling language of the model that is written, for each suffix of a model file."""

SOLVER_FILE = ".sol"
"""The suffix of the solution files of other solvers."""

CLAIM_TOLERANCE = 1e-6
"""Objectives in these files are sums of unrounded values, and have few digits."""

PERHAPS_OF_ANOTHER = "; the file may belong to another instance or model"
"""The likely reason why the variables are known but the objective differs."""

SolutionT = TypeVar("SolutionT")


@runtime_checkable
class Modelled(Protocol):
    """The interface of a solver that can return its exact model for use by other solvers."""

    name: str
    summary: str
    variants: Any
    exact_variants: Any
    language: str
    """``pulp``, ``cpsat`` or ``mathopt``; empty for a solver without a model."""
    form: str
    """The form of the model, such as ``strengthened``; empty for the plain model."""

    def supports(self, instance: Any) -> Any:
        """Return why the solver does not support an instance; None if it does."""

    def model(self, instance: Any) -> Any:
        """Return the complete model, with the objective of the instance."""


@runtime_checkable
class Readable(Modelled, Protocol):
    """The interface of a solver whose exported model leads back to solutions."""

    def read_back(self, instance: Any) -> ReadBack:
        """Return the way from values of the model's variables to a solution."""


@overload
def model(
    instance: ProblemInstance, name: Literal["pulp", "pulp-strengthened", "pulp-patterns"] = ...
) -> pulp.LpProblem: ...


@overload
def model(
    instance: ProblemInstance, name: Literal["cpsat", "cpsat-strengthened", "cpsat-patterns"]
) -> cp_model.CpModel: ...


@overload
def model(
    instance: ProblemInstance, name: Literal["mathopt", "mathopt-strengthened", "mathopt-patterns"]
) -> mathopt.Model: ...


@overload
def model(instance: ProblemInstance, name: str) -> Any: ...


@without_inner_frames
def model(instance: ProblemInstance, name: str = "pulp") -> Any:
    """Return an exact model of an instance as an object of its modelling library.

    The model is complete and can be inspected, changed and solved. Its objective is that of the
    instance, in the same units and sense, up to the rounding of data to floats or, for CP-SAT, to
    integers. Variables and rows have the names in ``formulations/*/README.md``, with positions in
    the file as indices. Forms such as ``-strengthened`` exclude solutions that some optimal
    solution makes unnecessary.

    The models for the objective ``mean_jct`` of allocation use a grid of time. The optimum of the
    ``mathopt`` model is never above the instance's, that of the ``cpsat`` model never below.

    Solve CP-SAT models with ``solver.parameters.presolve_inclusion_work_limit = 0``. A part of
    CP-SAT's presolve (OR-Tools 9.15) has proved wrong optima for small heterogeneous instances in
    rounds. Solve PuLP models with CBC only without its preprocessing, for example
    ``model.solve(pulp.PULP_CBC_CMD(options=["preprocess off"]))``. With it, CBC has proved wrong
    optima for small network instances.

    Parameters
    ----------
    instance
        An instance of any problem.
    name
        ``pulp``, ``cpsat`` or ``mathopt``, optionally with ``-strengthened`` (reclaiming and
        knapsacks) or ``-patterns`` (network); or the name of a solver that uses such a model.

    Returns
    -------
    pulp.LpProblem, ortools.sat.python.cp_model.CpModel or ortools.math_opt.python.mathopt.Model

    Raises
    ------
    UserError
        If no such model exists for this kind of instance, or this instance is too large for it.
    """
    return _modelled(instance, name).model(instance)


@without_inner_frames
def export_model(
    instance: ProblemInstance, path: str | Path, model: str | Sequence[str] | None = None
) -> str | None:
    """Write an exact model to a file for other solvers; equal instances give equal bytes.

    The optimum of the model is that of the instance, except for ``mean_jct`` of allocation, whose
    models use a grid of time. The optimum in ``.mps`` and ``.lp`` files is then never above the
    instance's, that in ``.pb`` and ``.txtpb`` files never below.

    Parameters
    ----------
    instance
        An instance of any problem.
    path
        The file: ``.mps`` (free format, with the sense) or ``.lp`` for MILP solvers, ``.pb`` or
        ``.txtpb`` for CP-SAT. It is written completely or not at all.
    model
        A name as for `model`; None for the plain model. From a list of solvers, the first one with
        a model is taken, or the plain model if none has one. Files of one form are the same for all
        modelling languages.

    Returns
    -------
    str or None
        A remark if the optimum of the model may differ from the instance's.

    Raises
    ------
    UserError
        If no such model exists, it cannot be written to this kind of file, or the file cannot be
        written.
    """
    return exported(instance, path, model).remark


class Exported(NamedTuple):
    """A model that was written to a file.

    Parameters
    ----------
    size
        The name, rows and columns of the model in words.
    remark
        A remark if the optimum of the model may differ from the instance's.
    """

    size: str
    remark: str | None


def exported(
    instance: ProblemInstance, path: str | Path, model: str | Sequence[str] | None
) -> Exported:
    """Write an exact model to a file as `export_model`, and return what was written."""
    suffix = Path(path).suffix
    language = LANGUAGE_OF_SUFFIX.get(suffix)
    if language is None:
        raise UserError(f"{path}: the file of a model must be named {_any_of(LANGUAGE_OF_SUFFIX)}")
    if model is None or not isinstance(model, str):
        problem = problem_of_instance(instance).name
        having = (name for name in model or () if _solver_with_model(problem, name, instance))
        model = next(having, language)
    form = _modelled(instance, model).form
    found = next(
        (one for one in _models_of(instance) if (one.language, one.form) == (language, form)), None
    )
    if found is None:
        others = [each for each, of in LANGUAGE_OF_SUFFIX.items() if of != language]
        raise UserError(
            f"{path}: model {model} has no {language} version, which {suffix} files need; "
            f"write it to a file named {_any_of(others)}"
        )
    _require_supported(instance, found)
    stated = found.model(instance)
    as_bytes = cpsat_bytes if language == "cpsat" else linear_bytes
    write_bytes(path, as_bytes(stated, suffix))
    if language == "cpsat":
        rows, columns = len(stated.proto.constraints), len(stated.proto.variables)
        counts = f"{counted(rows, 'constraint')}, {counted(columns, 'variable')}"
    else:
        rows, columns = stated.get_num_linear_constraints(), stated.get_num_variables()
        columns += suffix == ".lp" and stated.objective.offset != 0  # has `OBJECTIVE_CONSTANT`
        counts = f"{counted(rows, 'row')}, {counted(columns, 'column')}"
    size = f"{path}: model {'-'.join(filter(None, (language, form)))}, {counts}"
    if instance.variant in found.exact_variants:
        return Exported(size, None)
    remark = f"{path}: the optimum of this model may differ from the instance's: {found.summary}"
    return Exported(size, remark)


@without_inner_frames
def load_solution(instance: ProblemInstance[SolutionT], path: str | Path) -> SolutionT | None:
    """Return the solution in a file, which may be the file of another solver.

    Parameters
    ----------
    instance
        The instance that is solved.
    path
        A solution file of the toolkit, or a file ``*.sol`` that HiGHS, Gurobi, SCIP or CBC wrote
        for a model of `export_model`. Its variables are recognised by their names.

    Returns
    -------
    solution or None
        The solution, not yet verified; `lyra_opt.verify` checks it. None if the file has none.

    Raises
    ------
    UserError
        If the file is not valid, names variables that no model of the instance has, or has a
        fractional value for an integer variable.
    """
    solution: SolutionT | None = claimed_solution(instance, path)[0]
    return solution


def claimed_solution(instance: ProblemInstance, path: str | Path) -> tuple[Any, Mapping[str, Any]]:
    """Return the solution in a file as `load_solution`, and the values that the file claims.

    The variables of different forms of a model can have the same names. The first form is taken
    whose solution has the objective that the file claims, or else the first that has a solution.
    """
    problem = problem_of_instance(instance)
    if Path(path).suffix != SOLVER_FILE:
        return load_solution_document(path, problem)
    given = read_solver_file(path)
    unclaimed = {"instance": instance.name}
    if given.values is None:
        return None, unclaimed
    forms = {
        one.form: one
        for one in _models_of(instance)
        if isinstance(one, Readable) and one.language == LANGUAGE_OF_SUFFIX[".mps"]
    }
    found: list[tuple[Any, Mapping[str, Any]]] = []
    refused: list[str] = []
    for one in forms.values():
        if one.supports(instance) is not None:
            continue
        if instance.variant not in one.exact_variants:
            rule = "cannot be read back, because the model of these instances is a relaxation"
            refused.append(f"{rule}: {one.summary}")
            continue
        back = one.read_back(instance)
        try:
            solution = back.solution(_values_of(instance, back, given))
        except ValueError as error:
            refused.append(str(error))
            continue
        except RuntimeError as error:
            refused.append(f"its values describe no solution: {error}")
            continue
        objective = None if solution is None else problem.check(instance, solution).objective
        if given.objective is None or not back.has_objective:
            found.append((solution, unclaimed))
        elif objective is not None and _is_close(given.objective, objective):
            return solution, unclaimed | {"objective": objective}
        else:
            claimed = {"objective": given.objective, "hint": PERHAPS_OF_ANOTHER}
            found.append((solution, unclaimed | claimed))
    if not found:
        rule = refused[0] if refused else "no model of the instance can be exported"
        raise InputError(str(path), rule)
    return found[0]


def _values_of(instance: ProblemInstance, back: ReadBack, given: SolverFile) -> list[float]:
    """Return the value of each variable; raise `ValueError` if one is unknown or fractional."""
    known = {OBJECTIVE_CONSTANT, *(variable.name for variable in back.variables)}
    values = given.values or {}
    unknown = next((name for name in values if name not in known), None)
    if unknown is not None:
        raise ValueError(
            f"belongs to another instance or model: variable {unknown!r} is in no model of "
            f"instance {instance.name}; solve a model that solve --export writes for it"
        )
    found = []
    for variable in back.variables:
        value = values.get(variable.name, 0.0)
        if variable.integer and abs(value - round(value)) > INTEGER_TOLERANCE:
            rule = f"must be an integer within {INTEGER_TOLERANCE:g}"
            raise ValueError(f"variable {variable.name!r}: {value:g} {rule}")
        found.append(round(value) if variable.integer else value)
    return found


def _is_close(claimed: float, objective: float) -> bool:
    return math.isclose(claimed, objective, rel_tol=CLAIM_TOLERANCE, abs_tol=CLAIM_TOLERANCE)


def _modelled(instance: ProblemInstance, name: str) -> Modelled:
    """Return the solver that builds the model called `name`; raise `UserError` if it is unknown."""
    models = _models_of(instance)
    known: dict[str, Modelled] = {}
    for one in models:
        known.setdefault("-".join(filter(None, (one.language, one.form))), one)
    problem = problem_of_instance(instance).name
    found = known.get(name) or _solver_with_model(problem, name, instance)
    if found is None:
        raise UserError(
            f"model {name!r}: unknown model for {instance.variant} instances of {problem}; "
            f"{meant(name, known)}"
        )
    _require_supported(instance, found)
    return found


def _solver_with_model(problem: str, name: str, instance: ProblemInstance) -> Modelled | None:
    """Return the solver called `name`; None if it is unknown or has no model for the instance."""
    try:
        solver = find_solver(problem, name)
    except UserError:  # the name is unknown, or the solver of a user cannot be loaded
        return None
    if not isinstance(solver, Modelled) or not solver.language:
        return None
    return solver if instance.variant in solver.variants else None


def _models_of(instance: ProblemInstance) -> list[Modelled]:
    """Return the registered solvers with a model for instances of this kind, by name."""
    named = solver_names(problem_of_instance(instance).name)
    solvers = (_solver_with_model(problem, name, instance) for problem, name in named)
    return [one for one in solvers if one is not None]


def _require_supported(instance: ProblemInstance, solver: Modelled) -> None:
    if (refused := solver.supports(instance)) is not None:
        raise UserError(f"model {solver.name!r}: {refused.reason}")


def _any_of(suffixes: Iterable[str]) -> str:
    return " or ".join(f"*{suffix}" for suffix in suffixes)
