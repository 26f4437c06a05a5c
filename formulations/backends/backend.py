"""The interface of a backend (a general solver such as HiGHS): how it receives and runs a model."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple, Protocol, TypeVar

from lyra_opt.core.result import Number, StoppedBy
from lyra_opt.core.stopwatch import OutOfTimeError, interruption_in_force, within_time
from lyra_opt.formulations.backends.rows import Row, Term

Values = Sequence[Number]

_SPELLED = {
    "cpsat": "OR-Tools CP-SAT",
    "gscip": "SCIP",
    "highs": "HiGHS",
    "lp": "",
    "mathopt": "OR-Tools MathOpt",
    "pulp": "PuLP",
}
"""Packages and solvers as their authors spell them."""

KindsT = TypeVar("KindsT", bound="tuple[Mapping[Any, Any], ...]")


@dataclass(frozen=True, slots=True)
class Built:
    """A backend's model together with its variables.

    Parameters
    ----------
    model
        The model, in the backend's own type.
    variables
        One mapping per kind of variable, from keys to variables of the backend's own type.
    """

    model: Any
    variables: Iterable[Mapping[Any, Any]]

    @property
    def in_order(self) -> list[Any]:
        """All variables, kind by kind, in the order of start values and solution values."""
        return [variable for kind in self.variables for variable in kind.values()]


class CostUnit(NamedTuple):
    """The conversion from a model's cost to the objective: ``scale * cost + offset``.

    Models minimise cost, so the scale is negative if the objective is maximised.
    """

    scale: Fraction = Fraction(1)
    offset: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendRun:
    """The unchecked result of one run of a backend, which minimises the cost of a model.

    Parameters
    ----------
    values
        The unrounded values of all variables, in the order of `Built.in_order`; None without a
        solution.
    bound
        The lower bound on the optimum as the backend reports it. An int comes from exact arithmetic
        and a float from rounded arithmetic. A Fraction is a bound that the toolkit computed itself.
        `lyra_opt.formulations.exact_solver.proved_cost` decides what the bound proves.
    stopped_by
        The limit that ended the run; None if the run finished.
    counters
        Effort counters by name, such as ``nodes``.
    """

    values: Values | None = None
    bound: Number | Fraction | None = None
    stopped_by: StoppedBy | None = None
    counters: Mapping[str, int] = field(default_factory=dict)


class NoSolutionError(RuntimeError):
    """A backend claims that a model is infeasible."""


class Watch(Protocol):
    """Receives solutions and bounds during a run, from backend callbacks in any thread."""

    def found(self, values: Values) -> None:
        """Receive the values of all variables in a better solution."""

    def bounded(self, bound: Number) -> None:
        """Receive a lower bound on the cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of one backend run; the time and thread limits in force apply as well.

    Parameters
    ----------
    seed
        The random seed, from 0 to 2**31 - 2.
    watch
        Receives solutions and bounds during the run, if the backend has callbacks.
    """

    seed: int = 0
    watch: Watch | None = None


@dataclass(frozen=True, kw_only=True)
class Backend:
    """A general solver that minimises the cost of a model.

    Parameters
    ----------
    name
        The solver name that users type on the command line.
    new_model
        Returns an empty model.
    add_variable
        Adds a variable from 0 to a largest value to a model, and returns it. Arguments: the model,
        the name, the largest value, and whether the variable must be an integer.
    add_row
        Adds a row to a model.
    minimize
        Sets the cost that a model minimises, a sum of terms.
    run
        Minimises the cost, starting from values of all variables if they are given. Raises
        RuntimeError if the backend fails.
    in_floats
        Whether the backend computes in floats; otherwise it computes in integers only.
    modules
        The Python modules that the backend needs.
    title
        A description such as ``PuLP with SCIP_CMD``; empty if `in_words` can build it from the
        name.
    missing
        Returns why the backend cannot run on this machine although its modules are installed; None
        if it can.
    is_parallel
        Whether the backend uses more than one thread if the limits allow it.
    gives_bound
        Whether the bounds that the backend reports can be trusted as bounds.
    language
        The modelling interface: ``pulp``, ``cpsat`` or ``mathopt``; empty if its models are not
        exported.
    set_unit
        Replaces the model's cost by the objective of the instance, with the objective's sense.
    """

    name: str
    new_model: Callable[[], Any]
    add_variable: Callable[[Any, str, Number, bool], Any]
    add_row: Callable[[Any, Row], None]
    minimize: Callable[[Any, Iterable[Term]], None]
    run: Callable[[Built, Values | None, Settings], BackendRun]
    in_floats: bool
    modules: tuple[str, ...]
    title: str = ""
    missing: Callable[[], str | None] = lambda: None
    is_parallel: bool = False
    gives_bound: bool = True
    language: str = ""
    set_unit: Callable[[Any, CostUnit], None] = lambda _model, _unit: None

    @property
    def in_words(self) -> str:
        """The backend's description, such as ``PuLP with HiGHS``."""
        if self.title:
            return self.title
        package, _, solver = self.name.partition("-")
        names = (_SPELLED.get(package, package), _SPELLED.get(solver, solver.upper()))
        return " with ".join(filter(None, names))


def add_bounded(
    largest: KindsT, add: Callable[[str, Number, bool], Any], continuous: Sequence[str] = ()
) -> KindsT:
    """Add a variable from 0 to n for each value n in `largest`; return a tuple of the same form.

    Parameters
    ----------
    largest
        A named tuple of mappings, one mapping per kind of variable.
    add
        Adds a variable, given its name, its upper bound, and whether it must be an integer.
    continuous
        The kinds of variables that need not be integers.
    """
    kinds: Any = largest
    return type(largest)(
        *(
            {
                key: add(name_of(kind, key), most, kind not in continuous)
                for key, most in within_time(of_kind.items(), every=1000)
            }
            for kind, of_kind in kinds._asdict().items()
        )
    )


def name_of(kind: str, key: object) -> str:
    """Return the name of a variable, such as ``rack_3_0``; only the kind if the key is empty."""
    return "_".join(map(str, (kind, *(key if isinstance(key, tuple) else (key,)))))


ResultT = TypeVar("ResultT")

PATIENCE_S = 0.2
"""How long an interrupted run may take to end, in seconds, before the caller stops waiting."""


def interruptible(
    run: Callable[[], ResultT], interrupt: Callable[[], object] | None = None
) -> ResultT:
    """Return the result of `run`, which is called in a new thread so that Ctrl-C can interrupt it.

    Python handles Ctrl-C only between its own bytecode instructions, and a backend run is a single
    instruction. The new thread runs under the time limit in force. Outside the main thread, which
    alone receives Ctrl-C, `run` is called directly. Where Ctrl-C asks the run to stop
    (`lyra_opt.core.interrupting`), the run is interrupted and its result is returned.

    Parameters
    ----------
    run
        Calls machine code that lets other threads run.
    interrupt
        Makes `run` end soon. Without it, an interrupted run continues in the background until its
        limit or the end of the process.

    Raises
    ------
    OutOfTimeError
        If Ctrl-C asks a run to stop that has no `interrupt`.
    """
    if threading.current_thread() is not threading.main_thread():
        return run()
    results: list[ResultT] = []
    errors: list[BaseException] = []
    is_done = threading.Event()  # after an interrupted `join`, Python takes a thread for ended

    def keep() -> None:
        try:
            results.append(run())
        except BaseException as error:  # the waiting thread raises it
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
