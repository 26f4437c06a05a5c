"""What every solver is, and the registry that finds solvers by name."""

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
    from collections.abc import Iterable, Sequence

    import numpy as np

    from lyra_opt.core.result import Limits


class Observer(Protocol):
    """Who is told of what a run finds."""

    def __call__(self, kind: str, value: Number, solution: Any = None) -> None:
        """Take an improvement: ``("objective", value)`` or ``("dual_bound", value)``.

        The solution of an objective is given by those who have it at hand: it is what is kept of a
        run that must be ended from outside.
        """


SolveT = TypeVar("SolveT", bound=Callable[..., SolveResult[Any]])


def _keeping_limits(solve: SolveT) -> SolveT:
    """Return a method `solve` that runs with its `limits` in force."""

    @wraps(solve)
    def limited(self: Any, *given: Any, **named: Any) -> SolveResult[Any]:
        with limited_to(named.get("limits") or limits_in_force()):
            return solve(self, *given, **named)

    return cast("SolveT", limited)


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Why a solver does not take an instance, or is not available at all."""

    reason: str


class Solver(ABC):
    """A heuristic or an exact method for one decision problem.

    A solver keeps no state between runs, changes none of its arguments and breaks ties by a
    documented order, so that the same seed gives the same answer. It never grades itself:
    `lyra_opt.core.solving.solve_and_check` recomputes what it claims.

    The limits of `solve` are in force while it runs, for every function that it calls too: see
    `lyra_opt.core.stopwatch`.
    """

    name: str
    """The name the command line knows it by, such as ``lyra-greedy``."""
    problem: str
    """The name of the problem it solves, such as ``reclaim``."""
    variants: Sequence[str]
    """The variants of the problem that it takes, such as ``rigid``."""
    exact_variants: Sequence[str] = ()
    """Those of the variants of which a run without limits ends with a proof."""
    gives_bound: bool = False
    """Whether it returns a dual bound of its own."""
    is_parallel: bool = False
    """Whether it uses more than one thread where limits allow them."""
    engine: str = ""
    """What its bounds rest on, such as ``highs``; empty for code of its own."""
    modules: tuple[str, ...] = ()
    """Python modules that it needs and that may not be installed."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "solve" in vars(cls):
            cls.solve = _keeping_limits(cls.solve)  # type: ignore[method-assign]

    @property
    def summary(self) -> str:
        """What it is, on one line: the first line of the docstring, where a class says no other."""
        first, _, _ = (type(self).__doc__ or "").strip().partition("\n")
        return first.replace("`", "").removesuffix(".")

    def availability(self) -> Unsupported | None:
        """Return why it cannot run on this machine, None if it can.

        That is which package is missing; none is imported.
        """
        for module in self.modules:
            package = module.partition(".")[0]
            if find_spec(package) is None:
                return Unsupported(f"the Python package {package} is not installed")
        return None

    def load(self) -> None:
        """Import the modules; what that takes is no solver's time."""
        with loading():
            for module in self.modules:
                import_module(module)

    def supports(self, instance: Any) -> Unsupported | None:
        """Return why the solver does not take `instance`, None if it does.

        That is that it takes other variants; a solver may have more reasons.
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
            What the run may use. `lyra_opt.core.stopwatch` tells what is left of it.
        rng
            The only source of randomness.
        warm_start
            A valid solution to start from; the answer is never worse.
        observer
            Told of each improvement.
        """


class HeuristicSolver(Solver):
    """A rule that claims no proof; of the limits it keeps the time.

    Ask for a bound with ``certify`` where it gives none.
    """

    @abstractmethod
    def apply(self, instance: Any, rng: np.random.Generator) -> SolveResult[Any]:
        """Return what the rule makes of an instance that `supports` accepts.

        A rule that may take long asks `lyra_opt.core.stopwatch.require_time` now and then, and
        lets `OutOfTimeError` pass where it has nothing to return by then.
        """

    def stopped(self, instance: Any) -> SolveResult[Any]:  # noqa: ARG002
        """Return what takes next to no time, where the rule was stopped and has nothing."""
        return SolveResult(status=Status.UNKNOWN, stopped_by=StoppedBy.TIME)

    def objective_of(self, instance: Any, solution: Any) -> Number | None:
        """Return the value of a solution that somebody gives, None if it is not valid.

        As the checker finds it; rules that know a faster way have their own.
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
        """Apply the rule; return the warm start instead where that is better.

        Rules that are done within `lyra_opt.core.stopwatch.GRACE_S` are never stopped.
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
                found = replace(
                    found,
                    status=Status.FEASIBLE,
                    solution=warm_start,
                    objective=start,
                    message=None,
                )
        if observer is not None and found.objective is not None:
            observer("objective", found.objective)
        return found


class Answering:
    """A policy that decides step by step: it answers instances through a solver."""

    problem: ClassVar[str]
    """The name of the problem whose `Problem.solver_of` makes that solver."""


SolverLike = str | Solver | type[Solver] | Answering | type[Answering]
"""What a solver can be given as: the name of a registered one, ``my_file.py:NAME`` for one in a
file of one's own, an object, or a class that is made without arguments."""


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
"""All solvers, as ``problem.name``."""


class SolverMaker(Protocol):
    """What makes the solvers whose names begin with the word by which it is registered."""

    def names(self) -> Sequence[str]:
        """Return the names to list, whether such a solver can run here or not."""

    def make(self, problem: str, name: str) -> Solver | None:
        """Return the solver of a name, None if there is none for the problem."""


MAKERS = Plugins("lyra_opt.solver_makers", "maker of solvers", needs=("names", "make"))


def solver_names(problem: str | None = None) -> list[tuple[str, str]]:
    """Return (problem, name) of every registered solver, of one problem or of all, in order."""
    if problem is not None:  # those of other problems are not imported
        return [(problem, name) for name in SOLVERS.names(problem)]
    parted = (name.partition(".") for name in SOLVERS.names())
    return [(of, name) for of, _, name in parted]


def made_solver_names() -> list[str]:
    """Return the names that makers list."""
    return [name for maker in MAKERS.all().values() for name in maker.names()]


def find_solver(problem: str, given: SolverLike) -> Solver:
    """Return a solver of `problem`, however it is given; see `Plugins.of` for errors."""
    try:
        solver: Solver = SOLVERS.of(given, problem)
    except UserError:
        made = _made(problem, given) if isinstance(given, str) else None
        if made is None:
            raise
        return made
    return solver


def is_registered(solver: Solver) -> bool:
    """Return whether a solver is the one that is found by its name."""
    try:
        return find_solver(solver.problem, solver.name) is solver
    except UserError:
        return False


def require_different_names(names: Iterable[str]) -> None:
    """Raise `UserError` for a name that occurs twice: their answers could not be told apart."""
    seen = set()
    for name in names:
        if name in seen:
            raise UserError(f"solver {name!r} is named twice; rename one of them")
        seen.add(name)


@cache
def _made(problem: str, name: str) -> Solver | None:
    """Return a solver whose name is registered nowhere, but that a maker knows; made once."""
    prefix = name.partition("-")[0]
    if prefix not in MAKERS.names():
        return None
    maker: SolverMaker = MAKERS.find(prefix)
    return maker.make(problem, name)


def is_built_in(solver: Solver) -> bool:
    """Return whether a solver comes with the toolkit, whose tests hold it to its rules."""
    return type(solver).__module__.partition(".")[0] == "lyra_opt"
