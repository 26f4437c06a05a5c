"""The solver class of all exact models: it builds and runs a model, and checks the solution.

Three objects describe such a solver. A `Formulation` turns an instance into the numbers of a model
and turns values of variables into a solution. A `Statement` writes the variables, constraints and
objective in the modelling interface of one backend; a `RowStatement` writes them once, as rows, for
all backends. A `Backend` runs the model.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from lyra_opt.core.errors import one_line
from lyra_opt.core.problem import Problem
from lyra_opt.core.result import BACKEND_RUNS, Limits, Number, SolveResult, StoppedBy
from lyra_opt.core.solver import Observer, Solver, Unsupported
from lyra_opt.core.stopwatch import OutOfTimeError, grace, is_out_of_time, require_time, within_time
from lyra_opt.core.trajectory import Improvements
from lyra_opt.formulations.backends.backend import (
    Backend,
    BackendRun,
    Built,
    CostUnit,
    Settings,
    Values,
    add_bounded,
)
from lyra_opt.formulations.backends.rows import Row, Term
from lyra_opt.formulations.exact_solver import (
    FLOAT_MARGIN,
    LARGEST_SEED,
    Incumbent,
    proved_cost,
    result_of,
    start_with_objective,
    with_objective,
)

Start = Callable[[Any, np.random.Generator], Any]


class ModelData(Protocol):
    """The coefficients of an instance's model, and the conversion from and to solutions."""

    @property
    def is_settled(self) -> bool:
        """Whether the start solution is already known to be optimal, so that no run is needed."""

    def start(self, solution: Any) -> Values | None:
        """Return values of all variables for a valid solution; None to run without a start."""

    def solution(self, values: Values) -> Any:
        """Return the solution that rounded values of the variables describe.

        Return None where the backend's tolerances can explain values that describe no solution.

        Raises
        ------
        RuntimeError
            If the backend's tolerances cannot explain them.
        """

    def dual_bound(self, cost: Fraction) -> Number | None:
        """Return the bound on the objective that follows from a lower bound on the model's cost.

        An infinite bound proves that the instance is infeasible. None means that nothing is proved.
        """

    @property
    def unit(self) -> CostUnit:
        """The scale and offset that turn the model's cost into the objective of the instance."""


@dataclass(frozen=True, kw_only=True)
class Formulation:
    """A model of a problem, independent of the backend: its coefficients, limits and start.

    Parameters
    ----------
    problem
        The problem.
    variants
        The variants of the problem that the model covers.
    supports
        Returns why the model, or the arithmetic of a backend, cannot handle an instance. The second
        argument says whether the backend computes in floats.
    data
        Returns the numbers of the model. Arguments: the instance, the incumbent (None if no
        solution is known; then nothing is fixed or removed because of it), and whether the backend
        computes in floats.
    whole
        Returns the numbers of the complete model that users export; by default `data` without an
        incumbent.
    begin
        Returns a start solution, or None; see `best_of`.
    simple_bound
        Returns a bound on the objective before any run; None if no such bound is known.
    tidied
        Rewrites a valid warm start so that the model can represent it.
    suffix
        The suffix that this form adds to solver names, such as ``-strengthened``.
    margin
        The relative amount by which bounds in floats are moved to the safe side.
    summary
        A description of the model in a few words.
    is_exact
        Whether a run without limits ends with a proof of optimality.
    gives_bound
        Whether solvers of this form return a dual bound.
    """

    problem: Problem
    variants: Sequence[str]
    supports: Callable[[Any, bool], Unsupported | None]
    data: Callable[[Any, Any, bool], ModelData]
    begin: Start
    simple_bound: Callable[[Any], Number | None]
    summary: str
    tidied: Callable[[Any, Any], Any] = lambda _, solution: solution
    whole: Callable[[Any, bool], ModelData] | None = None
    suffix: str = ""
    margin: float = FLOAT_MARGIN
    is_exact: bool = True
    gives_bound: bool = True


@dataclass(frozen=True, slots=True)
class Statement:
    """One model written for one backend: variables, constraints and objective.

    Parameters
    ----------
    add_variables
        Adds the variables to the model and returns them as a named tuple of mappings, one mapping
        per kind of variable.
    constraints
        Functions that each add the rows of one constraint to the model.
    add_objective
        Sets the cost that is minimised.
    """

    add_variables: Callable[[Any, Any], Any]
    constraints: Sequence[Callable[[Any, Any, Any], None]]
    add_objective: Callable[[Any, Any, Any], None]

    def build(self, backend: Backend, data: Any) -> Built:
        """Return the backend's model: variables, constraints in order, and objective."""
        model = backend.new_model()
        variables = self.add_variables(model, data)
        for add_constraint in within_time(self.constraints):
            add_constraint(model, data, variables)
        self.add_objective(model, data, variables)
        return Built(model, variables)


@dataclass(frozen=True, slots=True)
class RowStatement:
    """One model written for all backends, as rows of terms.

    The variables are those of the named tuple `largest` of the model's data, from 0 to these
    values.

    Parameters
    ----------
    constraints
        Functions of the data and the variables that each yield the rows of one constraint.
    cost
        Returns the terms of the cost that is minimised.
    continuous
        The kinds of variables that need not be integers.
    """

    constraints: Sequence[Callable[[Any, Any], Iterable[Row]]]
    cost: Callable[[Any, Any], Iterable[Term]]
    continuous: Sequence[str] = ()

    def build(self, backend: Backend, data: Any) -> Built:
        """Return the backend's model: variables, constraints in order, and objective."""
        model = backend.new_model()
        add_variable = partial(backend.add_variable, model)
        variables = add_bounded(data.largest, add_variable, self.continuous)
        for rows in within_time(self.constraints):
            for row in rows(data, variables):
                backend.add_row(model, row)
        backend.minimize(model, self.cost(data, variables))
        return Built(model, variables)


class ReadBack(NamedTuple):
    """The way back from the values of a complete model's variables to a solution.

    Parameters
    ----------
    variables
        The variables of the model, in the order of the values.
    solution
        Returns the solution that values of all variables describe. It returns None, or raises
        RuntimeError, if they describe no solution.
    has_objective
        Whether the objective of the model is that of the instance.
    """

    variables: Sequence[Any]
    solution: Callable[[Values], Any]
    has_objective: bool = True


class ExactModelSolver(Solver):
    """An exact solver that writes a formulation as a model for one backend, and runs the backend.

    The solver starts from the warm start or, without one, from the start solution of the
    formulation. It never returns a worse solution than that. It claims optimality only if the
    bound, moved to the safe side, lies within the variant's proof gap of the objective; for integer
    objectives both must be equal. The random generator supplies the seed of the backend.

    The limits on time and threads are enforced. Limits on nodes and memory are not passed on,
    because backends count them differently. Building the start and the model overruns the time
    limit by at most 0.2 s. Backends check the time between their own steps: HiGHS has taken 2.7 s
    with a limit of 0.3 s, on a reclaim model of 520 servers. A backend gets the time that is left
    after the model is built.

    Parameters
    ----------
    formulation
        The problem and the form of the model.
    statement
        The model, in the backend's modelling interface or as rows for any backend.
    backend
        The backend that runs the model.
    """

    def __init__(
        self, formulation: Formulation, statement: Statement | RowStatement, backend: Backend
    ) -> None:
        self.formulation, self.statement, self.backend = formulation, statement, backend
        self.name = f"{backend.name}{formulation.suffix}"
        self.problem, self.variants = formulation.problem.name, formulation.variants
        is_exact = formulation.is_exact and backend.gives_bound
        self.exact_variants = formulation.variants if is_exact else ()
        self.is_parallel = backend.is_parallel
        self.gives_bound = formulation.gives_bound
        self.modules = backend.modules
        self.engine = backend.name.rpartition("-")[2]
        self.language, self.form = backend.language, formulation.suffix.removeprefix("-")

    @property
    def summary(self) -> str:
        """A description of the model and of the backend that solves it."""
        return f"{self.formulation.summary}, by {self.backend.in_words}"

    def availability(self) -> Unsupported | None:
        """Return why the backend cannot run on this machine; None if it can."""
        without = super().availability()
        if without is None and (reason := self.backend.missing()) is not None:
            return Unsupported(one_line(reason))
        return without

    def supports(self, instance: Any) -> Unsupported | None:
        """Return why the model or backend cannot handle the instance exactly; None if they can."""
        return self.formulation.supports(instance, self.backend.in_floats)

    def build(self, data: Any) -> Built:
        """Return the backend's model: variables, constraints in order, and objective."""
        return self.statement.build(self.backend, data)

    def model(self, instance: Any) -> Any:
        """Return the complete model of an instance, with the instance's own objective.

        The model has the backend's own type; see `lyra_opt.front_door.models.model`.
        """
        self.load()
        data = self._whole(instance)
        model = self.build(data).model
        self.backend.set_unit(model, data.unit)
        return model

    def read_back(self, instance: Any) -> ReadBack:
        """Return the way from values of the variables of `model` to a solution of an instance."""
        self.load()
        data = self._whole(instance)
        return ReadBack(self.build(data).in_order, data.solution)

    def _whole(self, instance: Any) -> ModelData:
        form, in_floats = self.formulation, self.backend.in_floats
        return (
            form.whole(instance, in_floats) if form.whole else form.data(instance, None, in_floats)
        )

    def solve(
        self,
        instance: Any,
        *,
        limits: Limits,  # noqa: ARG002
        rng: np.random.Generator,
        warm_start: Any = None,
        observer: Observer | None = None,
    ) -> SolveResult[Any]:
        """Solve `instance` by building the model, running the backend and checking the result.

        Raises
        ------
        ValueError
            If the warm start is not a valid solution.
        RuntimeError
            If the backend fails before its time limit, or returns values that its tolerances cannot
            explain.
        """
        self.load()
        # The seed is drawn first, because computing a start solution may use the generator too.
        seed = int(rng.integers(LARGEST_SEED))
        form, problem = self.formulation, self.formulation.problem
        if observer is not None:
            observer = Improvements(observer, instance.variant)
        ending: dict[str, Any] = {"observer": observer, "promises_proof": bool(self.exact_variants)}
        incumbent, bound = None, None
        try:
            with grace():
                incumbent = self._start_solution(instance, warm_start, rng)
                if observer is not None and incumbent is not None:
                    observer("objective", incumbent[1], incumbent[0])
                bound = form.simple_bound(instance)
                if observer is not None and bound is not None:
                    observer("dual_bound", bound)
            require_time()
            data = form.data(instance, incumbent, self.backend.in_floats)
            if data.is_settled and incumbent is not None:
                return result_of(instance, incumbent, incumbent[1], **ending)
            built = self.build(data)
            start = None if incumbent is None else data.start(incumbent[0])
            require_time()
        except OutOfTimeError:
            ending |= {"stopped_by": StoppedBy.TIME, "counters": {BACKEND_RUNS: 0}}
            return result_of(instance, incumbent, bound, **ending)
        watch = None if observer is None else _Watch(self, instance, data, observer)
        try:
            run = self.backend.run(built, start, Settings(seed=seed, watch=watch))
        except Exception as error:
            if not is_out_of_time():
                raise
            # If a backend crashes at its time limit, the incumbent found so far is still returned.
            run = BackendRun(stopped_by=StoppedBy.TIME)
            if not isinstance(error, OutOfTimeError):
                ending["message"] = f"the backend failed at its time limit: {one_line(str(error))}"
        if watch is not None and watch.error is not None:
            raise watch.error
        found = None
        if run.values is not None:
            with grace(), suppress(OutOfTimeError):
                solution = data.solution(run.values)
                found = None if solution is None else with_objective(problem, instance, solution)
        if found is not None and (
            incumbent is None or instance.variant.is_better(found[1], incumbent[1])
        ):
            incumbent = found
            if observer is not None:
                observer("objective", incumbent[1], incumbent[0])
        proved = self.bound_of(data, run.bound, is_done=run.stopped_by is None)
        if proved is not None and (bound is None or instance.variant.is_better(bound, proved)):
            bound = proved
        ending |= {"stopped_by": run.stopped_by, "counters": run.counters}
        return result_of(instance, incumbent, bound, **ending)

    def bound_of(
        self, data: ModelData, bound: Number | Fraction | None, *, is_done: bool
    ) -> Number | None:
        """Convert a backend's bound on the cost into a proved bound on the objective, or None."""
        if not self.backend.gives_bound:
            return None
        cost = proved_cost(bound, is_done=is_done, margin=self.formulation.margin)
        return None if cost is None else data.dual_bound(cost)

    def _start_solution(
        self, instance: Any, warm_start: Any, rng: np.random.Generator
    ) -> Incumbent[Any] | None:
        form = self.formulation
        if warm_start is None:
            solution = form.begin(instance, rng)
            return None if solution is None else with_objective(form.problem, instance, solution)
        solution, objective = start_with_objective(form.problem, instance, warm_start)
        return form.tidied(instance, solution), objective


class _Watch:
    """Passes the solutions and bounds of a running backend to an observer.

    Both are converted to the objective of the instance. Exceptions must not pass through the
    backend's own code, so the first one is stored in `error` and raised after the run.
    """

    def __init__(
        self, solver: ExactModelSolver, instance: Any, data: ModelData, observer: Observer
    ) -> None:
        self._solver, self._instance, self._data = solver, instance, data
        self._observer = observer
        self.error: Exception | None = None

    def found(self, values: Values) -> None:
        """Report the objective of the solution that `values` describe, if it is valid."""
        try:
            solution = self._data.solution(values)
            problem = self._solver.formulation.problem
            known = None if solution is None else with_objective(problem, self._instance, solution)
            if known is not None:
                self._observer("objective", known[1], known[0])
        except Exception as error:
            self.error = error

    def bounded(self, bound: Number) -> None:
        """Report the dual bound on the objective that the backend's cost bound proves."""
        try:
            proved = self._solver.bound_of(self._data, bound, is_done=False)
            if proved is not None:
                self._observer("dual_bound", proved)
        except Exception as error:
            self.error = error


def best_of(*heuristics: Solver) -> Start:
    """Return a function that runs the heuristics on an instance and returns the best solution."""

    def begin(instance: Any, rng: np.random.Generator) -> Any:
        best: Incumbent[Any] | None = None
        for heuristic in heuristics:
            if best is not None and is_out_of_time():
                break
            if not (heuristic.availability() or heuristic.supports(instance)):
                found = heuristic.solve(instance, limits=Limits(), rng=rng)
                if found.objective is not None and (
                    best is None or instance.variant.is_better(found.objective, best[1])
                ):
                    best = found.solution, found.objective
        return None if best is None else best[0]

    return begin
