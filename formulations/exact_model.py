"""The solver that every exact model becomes: start, build, run, read back, check.

Three things are declared apart. A `Formulation` says how a problem's instances become numbers and
how values of variables become solutions; a `Statement` is one of the files in which the same
inequalities stand in a backend's own words; a `Backend` is what runs them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from lyra_opt.core.errors import one_line
from lyra_opt.core.result import BACKEND_RUNS, Limits, StoppedBy
from lyra_opt.core.solver import Solver, Unsupported
from lyra_opt.core.stopwatch import (
    OutOfTimeError,
    grace,
    is_out_of_time,
    require_time,
    within_time,
)
from lyra_opt.core.trajectory import Improvements
from lyra_opt.formulations.backends.backend import (
    Backend,
    BackendRun,
    Built,
    NoSolutionError,
    Settings,
)
from lyra_opt.formulations.exact_solver import (
    FLOAT_MARGIN,
    LARGEST_SEED,
    concluded,
    proved_cost,
    valued,
    valued_start,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from fractions import Fraction

    import numpy as np

    from lyra_opt.core.problem import Problem
    from lyra_opt.core.result import Number, SolveResult
    from lyra_opt.core.solver import Observer
    from lyra_opt.formulations.backends.backend import CostUnit, Values
    from lyra_opt.formulations.exact_solver import Incumbent

    Start = Callable[[Any, np.random.Generator], Any]


class ModelData(Protocol):
    """The numbers of an instance's model, and the way between solutions and values."""

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to decide: the start is optimal."""

    def start(self, solution: Any) -> Values | None:
        """Return the values of all variables for a valid solution; None to start from nothing."""

    def solution(self, values: Values) -> Any:
        """Return the solution that values of all variables stand for once they are rounded.

        None if the backend's tolerances may be why there is none; RuntimeError if they cannot be.
        """

    def dual_bound(self, cost: Fraction) -> Number | None:
        """Return the bound on the objective that a lower bound on the model's cost is.

        Infinite where that proves that there is no solution, None where it proves nothing.
        """

    @property
    def unit(self) -> CostUnit:
        """What the model's cost is in the objective."""


@dataclass(frozen=True, kw_only=True)
class Formulation:
    """What is to be known of a problem and of one form of its model, whatever the backend.

    Parameters
    ----------
    problem
        The problem.
    variants
        Those that the model is of.
    supports
        What says why an instance is beyond the model, or beyond a backend's arithmetic (whether
        in floats: the second argument).
    data
        What makes the numbers: of an instance, of the incumbent (None if there is none, and then
        nothing is left out), for a backend in floats or not.
    whole
        What makes the numbers of a model for others to solve, where not as `data` does without an
        incumbent.
    begin
        What finds a solution to start from, or None; see `best_of`.
    simple_bound
        What bounds the objective before anything is run; None where nothing is known.
    tidied
        What brings a valid warm start into the form of solutions of the model.
    suffix
        What the form adds to the names of backends, such as ``-strengthened``.
    margin
        How far, relatively, bounds in floats are moved to the safe side.
    summary
        The model, in a few words.
    is_exact
        Whether a run without limits ends with a proof.
    gives_bound
        As of `lyra_opt.core.solver.Solver`.
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
    """A model in a backend's own words: variables, constraints, objective.

    Parameters
    ----------
    add_variables
        Adds them to the model and returns them, kind by kind: a named tuple of mappings.
    constraints
        Each adds its rows to the model.
    add_objective
        Sets what is minimised.
    """

    add_variables: Callable[[Any, Any], Any]
    constraints: Sequence[Callable[[Any, Any, Any], None]]
    add_objective: Callable[[Any, Any, Any], None]


class ExactModelSolver(Solver):
    """A formulation with one backend.

    Starts from the warm start or, without one, from what the formulation begins with, and never
    returns worse. Claims optimality only where the bound, moved to the safe side, is within the
    variant's proof gap of the objective: equal to it, where that is an integer. The seed of the
    backend comes from the generator.

    Of the limits time and threads are kept: nodes and memory are not passed on, because the
    backends count neither alike. The start and the numbers of the model keep the time within 0.2 s;
    the backends look at the clock between steps of their own: HiGHS has taken 2.7 s where 0.3 s
    were allowed, on a reclaim model of 520 servers. Backends get the time that is left once the
    model is theirs.

    Parameters
    ----------
    formulation
        The problem and the form of the model.
    statement
        The model in the backend's words.
    backend
        What runs it.
    """

    def __init__(self, formulation: Formulation, statement: Statement, backend: Backend) -> None:
        self.formulation, self.statement, self.backend = formulation, statement, backend
        self.name = f"{backend.name}{formulation.suffix}"
        self.problem, self.variants = formulation.problem.name, formulation.variants
        is_exact = formulation.is_exact and backend.gives_bound
        self.exact_variants = formulation.variants if is_exact else ()
        self.is_parallel = backend.is_parallel
        self.gives_bound = formulation.gives_bound
        self.modules = backend.modules
        self.engine = backend.engine or backend.name.rpartition("-")[2]
        self.language, self.form = backend.language, formulation.suffix.removeprefix("-")

    @property
    def summary(self) -> str:
        """Which model, and what runs it."""
        return f"{self.formulation.summary}, by {self.backend.in_words}"

    def availability(self) -> Unsupported | None:
        """Return why the backend cannot run here, None if it can."""
        without = super().availability()
        if without is None and (reason := self.backend.missing()) is not None:
            return Unsupported(one_line(reason))
        return without

    def supports(self, instance: Any) -> Unsupported | None:
        """Return why the instance is beyond the model or the backend's arithmetic."""
        return self.formulation.supports(instance, self.backend.in_floats)

    def build(self, data: Any) -> Built:
        """Return the backend's model: variables, constraints in their order, objective."""
        model, stated = self.backend.new_model(), self.statement
        variables = stated.add_variables(model, data)
        for add_constraint in within_time(stated.constraints):
            add_constraint(model, data, variables)
        stated.add_objective(model, data, variables)
        return Built(model, variables)

    def model(self, instance: Any) -> Any:
        """Return the whole model of an instance, with the instance's objective for its own.

        In the backend's own type; see `lyra_opt.front_door.models.model`.
        """
        self.load()
        form, in_floats = self.formulation, self.backend.in_floats
        data = (
            form.whole(instance, in_floats) if form.whole else form.data(instance, None, in_floats)
        )
        model = self.build(data).model
        self.backend.set_unit(model, data.unit)
        return model

    def solve(
        self,
        instance: Any,
        *,
        limits: Limits,  # noqa: ARG002
        rng: np.random.Generator,
        warm_start: Any = None,
        observer: Observer | None = None,
    ) -> SolveResult[Any]:
        """Solve `instance`; see `lyra_opt.core.solver.Solver.solve`.

        Raises
        ------
        ValueError
            If the warm start is no valid solution.
        RuntimeError
            If the backend fails within its limit, or claims what its tolerances do not excuse.
        """
        self.load()
        seed = int(rng.integers(LARGEST_SEED))  # drawn first: the start must not move it
        form, problem = self.formulation, self.formulation.problem
        if observer is not None:
            observer = Improvements(observer, instance.variant)
        ending: dict[str, Any] = {
            "observer": observer,
            "promises_proof": bool(self.exact_variants),
        }
        incumbent, bound = None, None
        try:
            with grace():
                incumbent = self._begun(instance, warm_start, rng)
                if observer is not None and incumbent is not None:
                    observer("objective", incumbent[1], incumbent[0])
                bound = form.simple_bound(instance)
                if observer is not None and bound is not None:
                    observer("dual_bound", bound)
            require_time()
            data = form.data(instance, incumbent, self.backend.in_floats)
            if data.is_settled and incumbent is not None:
                return concluded(instance, incumbent, incumbent[1], **ending)
            built = self.build(data)
            start = None if incumbent is None else data.start(incumbent[0])
            require_time()
        except OutOfTimeError:
            ending |= {"stopped_by": StoppedBy.TIME, "counters": {BACKEND_RUNS: 0}}
            return concluded(instance, incumbent, bound, **ending)
        watch = None if observer is None else _Watch(self, instance, data, observer)
        try:
            run = self.backend.run(built, start, Settings(seed=seed, watch=watch))
        except Exception as error:
            if isinstance(error, NoSolutionError) and not form.is_exact:
                ending["message"] = (
                    "the backend finds no solution of a model that has one: its times and works "
                    "are too far apart for the backend's tolerances, and nothing is proved"
                )
                return concluded(instance, incumbent, bound, **ending)
            if not is_out_of_time():
                raise
            # What a backend does at its limit, a crash too, costs what it found and nothing else.
            run = BackendRun(stopped_by=StoppedBy.TIME)
            if not isinstance(error, OutOfTimeError):
                ending["message"] = f"at its limit the backend failed: {one_line(str(error))}"
        if watch is not None and watch.error is not None:
            raise watch.error
        found = None
        if run.values is not None:
            with grace(), suppress(OutOfTimeError):
                solution = data.solution(run.values)
                found = None if solution is None else valued(problem, instance, solution)
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
        return concluded(instance, incumbent, bound, **ending)

    def bound_of(
        self, data: ModelData, bound: Number | Fraction | None, *, is_done: bool
    ) -> Number | None:
        """Return the bound on the objective that a backend's bound on the cost proves, if any."""
        if not self.backend.gives_bound:
            return None
        cost = proved_cost(bound, is_done=is_done, margin=self.formulation.margin)
        return None if cost is None else data.dual_bound(cost)

    def _begun(
        self, instance: Any, warm_start: Any, rng: np.random.Generator
    ) -> Incumbent[Any] | None:
        """Return the solution to start from with its value."""
        form = self.formulation
        if warm_start is None:
            solution = form.begin(instance, rng)
            return None if solution is None else valued(form.problem, instance, solution)
        solution, objective = valued_start(form.problem, instance, warm_start)
        return form.tidied(instance, solution), objective


class _Watch:
    """Tells an observer, in the instance's objective, what a backend says of its run.

    An exception must not pass through a backend's own code: it is kept until the run is over.
    """

    def __init__(
        self, solver: ExactModelSolver, instance: Any, data: ModelData, observer: Observer
    ) -> None:
        self._solver, self._instance, self._data = solver, instance, data
        self._observer = observer
        self.error: Exception | None = None

    def found(self, values: Values) -> None:
        """Tell what the solution is worth to the checker, if these values are one."""
        try:
            solution = self._data.solution(values)
            problem = self._solver.formulation.problem
            known = None if solution is None else valued(problem, self._instance, solution)
            if known is not None:
                self._observer("objective", known[1], known[0])
        except Exception as error:
            self.error = error

    def bounded(self, bound: Number) -> None:
        """Tell what the bound proves."""
        try:
            proved = self._solver.bound_of(self._data, bound, is_done=False)
            if proved is not None:
                self._observer("dual_bound", proved)
        except Exception as error:
            self.error = error


def best_of(*heuristics: Solver) -> Start:
    """Return what begins with the best answer of some heuristics, the first of ties."""

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
