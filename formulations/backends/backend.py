"""What a backend is: how it is told of a model, how it is run, and what it says of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from lyra_opt.core.stopwatch import remaining_s, within_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lyra_opt.core.result import Number, StoppedBy

    Values = Sequence[Number]

_SPELLED = {
    "cpsat": "OR-Tools CP-SAT",
    "gscip": "SCIP",
    "highs": "HiGHS",
    "lp": "",
    "mathopt": "OR-Tools MathOpt",
    "pulp": "PuLP",
}
"""Names of packages and solvers, as their makers write them."""

KindsT = TypeVar("KindsT", bound="tuple[Mapping[Any, Any], ...]")


@dataclass(frozen=True, slots=True)
class Built:
    """A backend's model with its variables.

    Parameters
    ----------
    model
        The model, in the backend's own type.
    variables
        Kinds of variables, each a mapping from keys to variables in the backend's own type.
    """

    model: Any
    variables: Iterable[Mapping[Any, Any]]

    @property
    def in_order(self) -> list[Any]:
        """All variables, kind by kind: the order of starts and of values."""
        return [variable for kind in self.variables for variable in kind.values()]


class CostUnit(NamedTuple):
    """What a model's cost is in the instance's objective: ``scale * cost + offset``.

    Costs are minimised, so that a negative scale stands for an objective that is maximised.
    """

    scale: Fraction = Fraction(1)
    offset: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendRun:
    """What a backend says of one run of a minimisation, not believed yet.

    Parameters
    ----------
    values
        Of all variables as `Built.in_order` lists them, not rounded; None without a solution.
    bound
        Its lower bound on the optimum, as it says it: an int if it computes in exact arithmetic,
        else a float; a Fraction if the bound was computed here, without its word. What that proves
        `lyra_opt.formulations.exact_solver.proved_cost` says, which knows what else may stand here.
    stopped_by
        The limit that ended the run, None if it ran to its end.
    counters
        Effort spent, by name.
    """

    values: Values | None = None
    bound: Number | Fraction | None = None
    stopped_by: StoppedBy | None = None
    counters: Mapping[str, int] = field(default_factory=dict)


class NoSolutionError(RuntimeError):
    """A backend claims that a model has no solution."""


class Watch(Protocol):
    """Who is told of a run while it goes on; callbacks of backends call it, from any thread."""

    def found(self, values: Values) -> None:
        """Take values of all variables of a better solution."""

    def bounded(self, bound: Number) -> None:
        """Take a lower bound on the cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a backend is to run.

    Parameters
    ----------
    time_s
        Wall-clock seconds at the start, None for no limit.
    seed
        From 0 to 2**31 - 2.
    threads
        At most so many.
    watch
        Who is told of solutions and bounds as they come, by backends that have callbacks.
    """

    time_s: float | None = None
    seed: int = 0
    threads: int = 1
    watch: Watch | None = None

    @property
    def left_s(self) -> float | None:
        """Seconds that the limit leaves now: the backend's model has been built meanwhile."""
        left_s = remaining_s()
        return self.time_s if left_s is None else left_s


class Run(Protocol):
    """What runs a model."""

    def __call__(self, built: Built, start: Values | None, settings: Settings) -> BackendRun:
        """Minimise from values of all variables, if any.

        RuntimeError if the backend fails.
        """


@dataclass(frozen=True, kw_only=True)
class Backend:
    """A solver of models, for minimisations.

    Parameters
    ----------
    name
        The name the command line knows it by.
    new_model
        What makes an empty model.
    run
        What runs one.
    in_floats
        Whether it computes in floats, or in integers alone.
    modules
        The Python modules that it needs.
    engine
        What it runs, as `lyra_opt.core.solver.Solver.engine`; empty for the last part of the name,
        such as ``highs`` of ``pulp-highs``.
    title
        What runs a model, where the name does not say it as ``pulp-highs`` does.
    missing
        Says why it cannot run here although its modules are there, None if it can.
    is_parallel
        Whether it uses more than one thread where it may.
    gives_bound
        Whether what it says of a bound can be taken for one.
    language
        What its models are written in: ``pulp``, ``cpsat``, ``mathopt``; empty where they are of no
        use to others.
    set_unit
        What replaces a model's cost by the instance's objective, in its sense.
    """

    name: str
    new_model: Callable[[], Any]
    run: Run
    in_floats: bool
    modules: tuple[str, ...]
    engine: str = ""
    title: str = ""
    missing: Callable[[], str | None] = lambda: None
    is_parallel: bool = False
    gives_bound: bool = True
    language: str = ""
    set_unit: Callable[[Any, CostUnit], None] = lambda _model, _unit: None

    @property
    def in_words(self) -> str:
        """What runs it, as its makers write it."""
        if self.title:
            return self.title
        package, _, solver = self.name.partition("-")
        names = (_SPELLED.get(package, package), _SPELLED.get(solver, solver.upper()))
        return " with ".join(filter(None, names))


def added(largest: KindsT, add: Callable[[str, int], Any]) -> KindsT:
    """Return a variable in the place of the largest value of each, added by name and that value.

    `largest` is a named tuple of mappings, one for each kind of variables.
    """
    kinds: Any = largest
    return type(largest)(
        *(
            {
                key: add(name_of(kind, key), most)
                for key, most in within_time(of_kind.items(), every=1000)
            }
            for kind, of_kind in kinds._asdict().items()
        )
    )


def name_of(kind: str, key: object) -> str:
    """Return the name of a variable, such as ``rack_3_0``; ``M`` where the key is empty."""
    return "_".join(map(str, (kind, *(key if isinstance(key, tuple) else (key,)))))
