"""The base class of all solvers, and functions that find solvers by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, cast

from lyra_opt.core.errors import UserError
from lyra_opt.core.plugins import Plugins
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Number, SolveResult, Status, StoppedBy
from lyra_opt.core.stopwatch import OutOfTimeError, grace, limited_to, limits_in_force, loading

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np

    from lyra_opt.core.documents import JsonObject
    from lyra_opt.core.result import Limits


class Observer(Protocol):
    """A function that a solver calls for each improvement it finds."""

    def __call__(self, kind: str, value: Number, solution: Any = None) -> None:
        """Receive an improvement: ``("objective", value)`` or ``("dual_bound", value)``.

        A solver passes the solution of an objective if it has it at hand. If the run must be
        killed, the last such solution is its result.
        """


SolveT = TypeVar("SolveT", bound=Callable[..., SolveResult[Any]])


def _keeping_limits(solve: SolveT) -> SolveT:
    """Wrap a method `solve` so that the given limits are in force while it runs."""

    @wraps(solve)
    def limited(self: Any, *given: Any, **named: Any) -> SolveResult[Any]:
        with limited_to(named.get("limits") or limits_in_force()):
            return solve(self, *given, **named)

    return cast("SolveT", limited)


@dataclass(frozen=True, slots=True)
class Unsupported:
    """The reason why a solver does not support an instance, or is not available."""

    reason: str


class Solver(ABC):
    """Base class for a heuristic or an exact method for one decision problem.

    A solver keeps no state between runs, does not change its arguments, and breaks ties by a
    documented order, so that equal seeds give equal answers. It never grades itself:
    `lyra_opt.core.solving.solve_and_check` recomputes its claims.

    The limits of `solve` are in force while it runs, for every function that it calls as well; see
    `lyra_opt.core.stopwatch`.
    """

    name: str
    """The name of the solver on the command line, such as ``lyra-greedy``."""
    problem: str
    """The name of the problem that it solves, such as ``reclaim``."""
    variants: Sequence[str]
    """The variants of the problem that it supports, such as ``rigid``."""
    exact_variants: Sequence[str] = ()
    """The variants for which a run without limits ends with a proof."""
    gives_bound: bool = False
    """Whether it returns a dual bound of its own."""
    is_parallel: bool = False
    """Whether it uses more than one thread if the limits allow it."""
    engine: str = ""
    """The backend that computes its bounds, such as ``highs``; empty if it uses no backend."""
    modules: tuple[str, ...] = ()
    """The Python modules that it needs and that may not be installed."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "solve" in vars(cls):
            cls.solve = _keeping_limits(cls.solve)  # type: ignore[method-assign]

    @property
    def summary(self) -> str:
        """A description of the solver on one line; by default the first line of its docstring."""
        first, _, _ = (type(self).__doc__ or "").strip().partition("\n")
        return first.replace("`", "").removesuffix(".")

    def availability(self) -> Unsupported | None:
        """Return why the solver cannot run on this machine; None if it can.

        The reason is a missing package; no package is imported to find out.
        """
        for module in self.modules:
            package = module.partition(".")[0]
            if find_spec(package) is None:
                return Unsupported(f"the Python package {package} is not installed")
        return None

    def load(self) -> None:
        """Import the modules of the solver; this time does not count as its run time."""
        with loading():
            for module in self.modules:
                import_module(module)

    def proof_trees(self, instance: Any, solution: Any) -> Iterator[JsonObject]:
        """Yield search trees that can prove a solution, as keys of a proof file."""
        raise NotImplementedError

    def supports(self, instance: Any) -> Unsupported | None:
        """Return why the solver does not support `instance`; None if it does.

        By default the only reason is the variant; a subclass may have other reasons.
        """
        if instance.variant in self.variants:
            return None
        return Unsupported(
            f"{self.name} supports {' and '.join(self.variants)} instances only; "
            f"this instance is {instance.variant}"
        )

    @abstractmethod
    def solve(
        self,
        instance: Any,
        *,
        limits: Limits,
        rng: np.random.Generator,
        warm_start: Any = None,
        observer: Observer | None = None,
    ) -> SolveResult[Any]:
        """Solve a validated instance.

        Parameters
        ----------
        instance
            A validated instance that `supports` accepts.
        limits
            The resources of the run; `lyra_opt.core.stopwatch` tells the time that is left.
        rng
            The only source of randomness.
        warm_start
            A valid solution to start from; the answer is never worse.
        observer
            A function to call for each improvement.
        """


class HeuristicSolver(Solver):
    """Base class for heuristics, which claim no proof and observe only the time limit.

    If a heuristic returns no dual bound, ``certify`` computes one.
    """

    @abstractmethod
    def apply(self, instance: Any, rng: np.random.Generator) -> SolveResult[Any]:
        """Apply the heuristic to an instance that it supports, and return the result.

        A rule that may take long calls `lyra_opt.core.stopwatch.require_time` regularly. If it has
        nothing to return when the time is over, it lets `OutOfTimeError` pass.
        """

    def stopped(self, instance: Any) -> SolveResult[Any]:  # noqa: ARG002
        """Return a quick result for a heuristic that was stopped before it found a solution."""
        return SolveResult(status=Status.UNKNOWN, stopped_by=StoppedBy.TIME)

    def objective_of(self, instance: Any, solution: Any) -> Number | None:
        """Return the objective of a given solution; None if the solution is not valid.

        By default the checker computes it; a subclass may use a faster method.
        """
        return find_problem(self.problem).check(instance, solution).objective

    def solve(
        self,
        instance: Any,
        *,
        limits: Limits,  # noqa: ARG002
        rng: np.random.Generator,
        warm_start: Any = None,
        observer: Observer | None = None,
    ) -> SolveResult[Any]:
        """Apply the heuristic, and return the warm start instead if it is better.

        A rule that ends within `lyra_opt.core.stopwatch.GRACE_S` seconds is never stopped.
        """
        found: SolveResult[Any]
        try:
            with grace():
                found = self.apply(instance, rng)
        except OutOfTimeError:
            found = self.stopped(instance)
        if warm_start is not None:
            start, objective = self.objective_of(instance, warm_start), found.objective
            is_better = instance.variant.is_better
            if start is not None and (objective is None or is_better(start, objective)):
                own = "no solution"
                if objective is not None:
                    terms = find_problem(self.problem).terms_of(instance)
                    own = f"a solution with objective {terms.in_words(objective)}"
                found = replace(
                    found,
                    status=Status.FEASIBLE,
                    solution=warm_start,
                    objective=start,
                    message=f"the start is kept; the solver itself found {own}",
                )
        if observer is not None and found.objective is not None:
            observer("objective", found.objective)
        return found


class Answering:
    """Base class for step-by-step policies that a solver can apply to instances."""

    problem: ClassVar[str]
    """The name of the problem; `Problem.solver_of` makes the solver."""


SolverLike = str | Solver | type[Solver] | Answering | type[Answering]
"""A solver: a registered name, ``my_file.py:NAME`` for a solver in a user's file, an object, or a
class whose constructor needs no arguments."""


def _adapted(given: Any) -> Solver | None:
    if not issubclass(given if isinstance(given, type) else type(given), Answering):
        return None
    solver: Solver = find_problem(given.problem).solver_of(given)
    return solver


SOLVERS = Plugins(
    *("lyra_opt.solvers", "solver", Solver),
    needs=("name", "problem", "variants"),
    adapt=_adapted,
    also_meant=lambda: made_solver_names(),
)
"""All registered solvers, by ``problem.name``."""


class SolverMaker(Protocol):
    """A factory of solvers, registered under the first word of their names, such as ``pulp``."""

    def names(self) -> Sequence[str]:
        """Return the solver names to list, including solvers that cannot run on this machine."""

    def make(self, problem: str, name: str) -> Solver | None:
        """Make the solver called `name`; return None if the problem has no such solver."""


MAKERS = Plugins("lyra_opt.solver_makers", "maker of solvers", needs=("names", "make"))


def solver_names(problem: str | None = None) -> list[tuple[str, str]]:
    """Return the (problem, name) pairs of the registered solvers, for one problem or for all."""
    if problem is not None:  # avoids importing the solvers of other problems
        return [(problem, name) for name in SOLVERS.names(problem)]
    parted = (name.partition(".") for name in SOLVERS.names())
    return [(of, name) for of, _, name in parted]


def made_solver_names() -> list[str]:
    """Return the names of all solvers that the factories list."""
    return [name for maker in MAKERS.all().values() for name in maker.names()]


def find_solver(problem: str, given: SolverLike) -> Solver:
    """Return the solver of `problem` for a name, a class or an object."""
    try:
        solver: Solver = SOLVERS.of(given, problem)
    except UserError:
        made = _solver_from_factory(problem, given) if isinstance(given, str) else None
        if made is None:
            raise
        return made
    return solver


def is_registered(solver: Solver) -> bool:
    """Return whether looking up a solver by its name returns this solver object."""
    try:
        return find_solver(solver.problem, solver.name) is solver
    except UserError:
        return False


def require_different_names(names: Iterable[str]) -> None:
    """Raise `UserError` if two solvers have the same name, because names identify their answers."""
    seen = set()
    for name in names:
        if name in seen:
            raise UserError(f"solver {name!r} is named twice; rename one of them")
        seen.add(name)


@cache
def _solver_from_factory(problem: str, name: str) -> Solver | None:
    """Build, once, a solver such as `pulp-gurobi`, whose name only a factory recognises."""
    prefix = name.partition("-")[0]
    if prefix not in MAKERS.names():
        return None
    maker: SolverMaker = MAKERS.find(prefix)
    return maker.make(problem, name)


def is_built_in(solver: Solver) -> bool:
    """Return whether a solver belongs to the toolkit, not to a plug-in or a user's file.

    The tests of the toolkit check that its solvers keep the rules of `Solver`.
    """
    return type(solver).__module__.partition(".")[0] == "lyra_opt"
