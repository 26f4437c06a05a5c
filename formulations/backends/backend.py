"""What a backend is: how it is told of a model, how it is run, and what it says of a run."""

from __future__ import annotations

import threading
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from lyra_opt.core.stopwatch import OutOfTimeError, interruption_in_force, within_time

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
    """How a backend is to run, beside the limits in force: time, and as many threads at most.

    Parameters
    ----------
    seed
        From 0 to 2**31 - 2.
    watch
        Who is told of solutions and bounds as they come, by backends that have callbacks.
    """

    seed: int = 0
    watch: Watch | None = None


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
        Minimises from values of all variables, if any; RuntimeError if the backend fails.
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
    run: Callable[[Built, Values | None, Settings], BackendRun]
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


ResultT = TypeVar("ResultT")

PATIENCE_S = 0.2
"""How long an interrupted run may take to end before it is left to itself."""


def interruptible(
    run: Callable[[], ResultT], interrupt: Callable[[], object] | None = None
) -> ResultT:
    """Return what `run` does, in a thread of its own while this one waits for it.

    Python hears Ctrl-C between its own steps alone, and of a backend's run all is one step. The
    time limit in force is that of the thread too. In other threads than the main one, which hear
    no Ctrl-C, it is run at once. Where Ctrl-C asks the run to end
    (`lyra_opt.core.interrupting`), the run is interrupted and its result returned.

    Parameters
    ----------
    run
        Calls machine code that lets other threads run.
    interrupt
        Makes it end soon. Without it, it goes on unheeded until its limit or the process ends.

    Raises
    ------
    OutOfTimeError
        If Ctrl-C asks a run to end that cannot be interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        return run()
    results: list[ResultT] = []
    errors: list[BaseException] = []
    is_done = threading.Event()  # a thread whose `join` was interrupted counts as ended

    def keep() -> None:
        try:
            results.append(run())
        except BaseException as error:  # raised where somebody waits for it
            errors.append(error)
        finally:
            is_done.set()

    def end_soon() -> None:
        if interrupt is None:
            raise OutOfTimeError
        with suppress(Exception):
            interrupt()

    listeners = interruption_in_force().listeners
    thread = threading.Thread(target=copy_context().run, args=(keep,), daemon=True)
    try:
        listeners.append(end_soon)
        thread.start()
        is_done.wait()
    except BaseException:
        if interrupt is not None:
            with suppress(Exception):
                interrupt()
        is_done.wait(PATIENCE_S)
        raise
    finally:
        listeners.remove(end_soon)
    if errors:
        raise errors[0]
    return results[0]
