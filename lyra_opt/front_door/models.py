"""Exact models for other solvers, for ``import lyra_opt as lo``: as objects and as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload, runtime_checkable

from lyra_opt.core.documents import write_bytes
from lyra_opt.core.errors import UserError
from lyra_opt.core.problem import problem_of_instance
from lyra_opt.core.solver import find_solver, solver_names
from lyra_opt.formulations.model_files import cpsat_bytes, linear_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pulp
    from ortools.math_opt.python import mathopt
    from ortools.sat.python import cp_model

    from lyra_opt.core.problem import ProblemInstance

LANGUAGE_OF_SUFFIX = {".mps": "mathopt", ".lp": "mathopt", ".pb": "cpsat", ".txtpb": "cpsat"}
"""In which language a model is stated that a file of this kind holds."""


@runtime_checkable
class Modelled(Protocol):
    """A solver whose model others can solve."""

    name: str
    summary: str
    variants: Any
    exact_variants: Any
    language: str
    """``pulp``, ``cpsat`` or ``mathopt``; empty if it has no such model after all."""
    form: str
    """Such as ``strengthened``; empty for the plain one."""

    def supports(self, instance: Any) -> Any:
        """As of `lyra_opt.core.solver.Solver`."""

    def model(self, instance: Any) -> Any:
        """Return the whole model, with the instance's objective for its own."""


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


def model(instance: ProblemInstance, name: str = "pulp") -> Any:
    """Return an exact model of an instance, to be looked at, changed and solved by its own library.

    It is the whole problem: nothing is left out because a solution is known. Its objective is the
    instance's, in the same units and sense, up to the rounding of data to floats or, for CP-SAT, to
    integers. Variables and rows have the names of ``formulations/*/README.md``, with positions in
    the file; forms such as ``-strengthened`` leave out what some optimal solution does without.

    The models of ``mean_jct`` of allocation are on a grid of time: ``mathopt`` never above the
    optimum, ``cpsat`` never below it.

    Solve CP-SAT's with ``solver.parameters.presolve_inclusion_work_limit = 0``: a part of its
    presolve (OR-Tools 9.15) has proved wrong optima of small models of heterogeneous rounds.

    Parameters
    ----------
    instance
        Of any problem.
    name
        ``pulp``, ``cpsat`` or ``mathopt``, with ``-strengthened`` (reclaiming and knapsacks) or
        ``-patterns`` (network) for another form; or a solver that runs such a model, as
        ``lyra-opt solvers`` names it.

    Returns
    -------
    pulp.LpProblem, ortools.sat.python.cp_model.CpModel or ortools.math_opt.python.mathopt.Model

    Raises
    ------
    UserError
        If there is no such model of instances of this kind, or this one is beyond it.
    """
    return _modelled(instance, name).model(instance)


def export_model(
    instance: ProblemInstance, path: str | Path, model: str | Sequence[str] | None = None
) -> str | None:
    """Write an exact model for other solvers, whole or not at all; the same bytes every time.

    The optimum of the model is the instance's, but for ``mean_jct`` of allocation, whose models are
    on a grid of time: that of ``.mps`` and ``.lp`` is never above the instance's, that of ``.pb``
    and ``.txtpb`` never below it.

    Parameters
    ----------
    instance
        Of any problem.
    path
        The file: ``.mps`` (free format, with its sense) or ``.lp`` for solvers of mixed-integer
        programmes, ``.pb`` or ``.txtpb`` for CP-SAT.
    model
        As the name of `model`, None for the plain one; of several solvers, the first that has a
        model is meant, and the plain one where none has. Files of one form are the same whatever
        the language: all state the same constraints by the same names.

    Returns
    -------
    str or None
        A remark where the optimum of the model may be another than the instance's.

    Raises
    ------
    UserError
        If there is no such model, no file of this kind for it, or the file cannot be written.
    """
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
    if instance.variant in found.exact_variants:
        return None
    return f"{path}: the optimum of this model may differ from the instance's: {found.summary}"


def _modelled(instance: ProblemInstance, name: str) -> Modelled:
    """Return the solver whose model is meant."""
    models = _models_of(instance)
    known: dict[str, Modelled] = {}
    for one in models:
        known.setdefault("-".join(filter(None, (one.language, one.form))), one)
    problem = problem_of_instance(instance).name
    found = known.get(name) or _solver_with_model(problem, name, instance)
    if found is None:
        raise UserError(
            f"model {name!r}: unknown model for {instance.variant} instances of {problem}; "
            f"known: {', '.join(known) or 'none'}"
        )
    _require_supported(instance, found)
    return found


def _solver_with_model(problem: str, name: str, instance: ProblemInstance) -> Modelled | None:
    """Return the solver of a name, None if there is none or it has no model of such instances."""
    try:
        solver = find_solver(problem, name)
    except UserError:  # no solver, or somebody's own that cannot be loaded
        return None
    if not isinstance(solver, Modelled) or not solver.language:
        return None
    return solver if instance.variant in solver.variants else None


def _models_of(instance: ProblemInstance) -> list[Modelled]:
    """Return the registered solvers with a model of instances of this kind, by name."""
    named = solver_names(problem_of_instance(instance).name)
    solvers = (_solver_with_model(problem, name, instance) for problem, name in named)
    return [one for one in solvers if one is not None]


def _require_supported(instance: ProblemInstance, solver: Modelled) -> None:
    if (refused := solver.supports(instance)) is not None:
        raise UserError(f"model {solver.name!r}: {refused.reason}")


def _any_of(suffixes: Iterable[str]) -> str:
    return " or ".join(f"*{suffix}" for suffix in suffixes)
