"""Inner loops written once and run in two ways: interpreted when small, compiled when large.

A kernel is a function over flat sequences of integers that neither allocates arrays nor slices
them: scratch space comes in as arguments. What belongs together comes in as one named tuple of
arrays and integers. Interpreted, a kernel gets Python lists, which are faster there than arrays and
whose integers cannot overflow. Compiled by numba, it gets int64 arrays; numba is imported only
then, and the machine code is cached on disk, so that a small process never pays for compiling, nor
even for importing the compiler.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from functools import cache, cached_property
from hashlib import sha256
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.stopwatch import loading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

LOGGER = logging.getLogger(__name__)

COMPILE_FROM_WORK = 1_000
"""Elementary steps from which a kernel runs compiled.

Interpreted, that many steps take about a millisecond for a greedy and five for a minimum cut;
compiled, a tenth of that, after about a second of loading numba and its cache, once a process.
"""

LOADED_EARLIER = 16
"""How many times earlier than that a kernel runs compiled when it is loaded already."""

LARGEST_COMPILED_INTEGER = 2**62

READY = (np.ndarray, np.generic, int, float)
"""What machine code takes as it is."""

PLAIN = frozenset((np.ndarray, int))
"""Types that most named tuples consist of, which are then not looked at one by one."""


class Kernel:
    """A function that runs interpreted or compiled; make one with the decorator `kernel`.

    Parameters
    ----------
    function
        The inner loop. It may call other kernels that are globals of its module.
    makes_lists
        Whether it makes lists, for a heap as a rule. All other kernels own nothing: compiled, they
        count no references, which in a named tuple of arrays would take longer than the work. Of
        arrays they return only arguments, or tuples that hold such.
    """

    def __init__(self, function: Callable[..., Any], *, makes_lists: bool = False) -> None:
        self._function = function
        self._makes_lists = makes_lists
        self._compiled: Any = None
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__

    def run(self, *arguments: Any, work: int, largest: int) -> Any:
        """Run the kernel on integers and integer arrays, in the way that fits.

        Parameters
        ----------
        arguments
            Integers, int64 arrays, and named tuples of both. Arrays meant as results are returned
            by the kernel, not changed in place: interpreted, it works on copies.
        work
            Estimate of the elementary steps.
        largest
            Bound on every intermediate integer; from 2**62 on the kernel runs interpreted,
            where integers do not overflow.
        """
        if self.compiles(work, largest=largest):
            return self.compiled(*arguments)
        return self.interpreted(*arguments)

    def compiles(self, work: int, *, largest: int) -> bool:
        """Whether a run of that size is compiled; arguments as for `run`.

        Once it is loaded, machine code pays for much smaller runs too.
        """
        least = COMPILE_FROM_WORK if self._compiled is None else COMPILE_FROM_WORK // LOADED_EARLIER
        return work >= least and largest < LARGEST_COMPILED_INTEGER

    def interpreted(self, *arguments: Any) -> Any:
        """Run the function as written, on lists."""
        return self(*map(_as_lists, arguments))

    def compiled(self, *arguments: Any) -> Any:
        """Run the function as machine code, on int64 arrays."""
        integers = tuple(map(_as_arrays, arguments))
        if self._compiled is None:
            with loading():
                self._load(integers)
        try:
            return self._compiled(*integers)
        except SystemError as error:
            # Ctrl-C while numba makes named tuples, which it does not look out for.
            if isinstance(error.__cause__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            raise

    def __call__(self, *arguments: Any) -> Any:
        """Run interpreted without conversion."""
        return self._interpreted(*arguments)

    @cached_property
    def _interpreted(self) -> Callable[..., Any]:
        """The function as written, but that it calls other kernels as the functions they are."""
        called = {name: value._interpreted for name, value in self._called().items()}  # noqa: SLF001
        return self._linked(called) if called else self._function

    def _linked(self, called: dict[str, Any]) -> FunctionType:
        """Return the function with others in the place of the kernels that it calls."""
        function = self._function
        return FunctionType(
            function.__code__,
            {**function.__globals__, **called},
            function.__name__,
            function.__defaults__,
        )

    def _load(self, arguments: tuple[Any, ...]) -> None:
        """Compile the function for the types of `arguments`, or load it from the cache."""
        import numba

        # Machine code knows fields by place, and the cache of numba does not tell orders apart; nor
        # can it be read once a class that it names is gone.
        fields = {repr(_fields(argument)) for argument in arguments if _is_named(argument)}
        compiled = self._dispatcher("".join(sorted(fields)), {})
        with _compiling_announced():
            compiled.compile(tuple(numba.typeof(argument) for argument in arguments))
        self._compiled = compiled

    def _dispatcher(self, fields: str, made: dict[Kernel, Any]) -> Any:
        """Return numba's form of the function, in which kernels that it calls are linked.

        Only the outermost kernel is called from Python and kept in the cache. A called kernel is
        compiled without a wrapper for Python, and once where several kernels call it: that saves a
        quarter of the time.

        Parameters
        ----------
        fields
            Named tuples among the arguments of the outermost kernel; a part of the name of all.
        made
            The forms of the kernels that the outermost one calls, filled here; empty for itself.
        """
        import numba

        if self in made:
            return made[self]
        function, is_outermost = self._function, not made
        made[self] = None
        # numba resolves globals when it compiles: give it the compiled callees.
        linked = self._linked(
            {
                name: value._dispatcher(fields, made)  # noqa: SLF001
                for name, value in self._called().items()
            }
        )
        # The cache compares the age of this function's file alone: name all that is compiled.
        linked.__qualname__ = f"{function.__qualname__}_{self._digest(fields)}"
        linked.__module__ = function.__module__
        options = {"_nrt": self._counts_references(), "no_cfunc_wrapper": True}
        if not is_outermost:
            made[self] = numba.njit(no_cpython_wrapper=True, **options)(linked)
            return made[self]
        try:
            return numba.njit(cache=True, **options)(linked)
        except RuntimeError:  # no folder to keep the cache in: compile anew in each process
            return numba.njit(**options)(linked)

    def _counts_references(self) -> bool:
        """Whether the function, or a kernel that it calls, makes lists."""
        return self._makes_lists or any(
            called._counts_references()  # noqa: SLF001
            for called in self._called().values()
        )

    def _called(self) -> dict[str, Kernel]:
        """Return the kernels that the function calls, by the name that it knows them by."""
        names = self._function.__code__.co_names
        values = {name: self._function.__globals__.get(name) for name in names}
        return {name: value for name, value in values.items() if isinstance(value, Kernel)}

    def _digest(self, fields: str) -> str:
        """Return a name for the code of the function and of all kernels that it calls."""
        code = self._function.__code__
        values = {name: self._function.__globals__.get(name) for name in code.co_names}
        numbers = {name: value for name, value in values.items() if type(value) is int}
        parts = [_code_parts(code), numbers, fields, self._counts_references()]
        parts += [value._digest(fields) for value in self._called().values()]  # noqa: SLF001
        return sha256(repr(parts).encode()).hexdigest()[:12]


@contextmanager
def _compiling_announced() -> Iterator[None]:
    """Log, once per process, that a kernel is compiled which the cache does not hold."""
    from numba.core import event

    class Announcement(event.Listener):  # type: ignore[misc]  # numba is not typed
        def on_start(self, _event: Any) -> None:
            _announce_compiling()

        def on_end(self, _event: Any) -> None:
            pass

    with event.install_listener("numba:compile", Announcement()):
        yield


@cache
def _announce_compiling() -> None:
    LOGGER.warning("compiling inner loops, once per machine and version; this takes up to 20 s")


def _is_named(argument: Any) -> bool:
    return hasattr(argument, "_fields")


def _as_lists(argument: Any) -> Any:
    """Return an argument as an interpreted kernel gets it."""
    if isinstance(argument, np.ndarray):
        return argument.tolist()
    if _is_named(argument):
        return type(argument)(*map(_as_lists, argument))
    return argument


def _as_arrays(argument: Any) -> Any:
    """Return an argument as a compiled kernel gets it; lists are left by interpreted ones."""
    if isinstance(argument, READY):
        return argument
    if _is_named(argument):
        if PLAIN.issuperset(map(type, argument)):
            return argument
        return type(argument)(*map(_as_arrays, argument))
    return np.array(argument, dtype=np.int64)


def _fields(argument: Any) -> Any:
    """Return class and fields of a named tuple and of those in it; None for anything else."""
    if not _is_named(argument):
        return None
    kind = type(argument)
    inner = [_fields(value) for value in argument]
    return kind.__module__, kind.__qualname__, argument._fields, inner


def _code_parts(code: CodeType) -> list[Any]:
    """Return what a function does, without the addresses and line numbers of its code."""
    constants = [
        _code_parts(value) if isinstance(value, CodeType) else value for value in code.co_consts
    ]
    return [code.co_code, code.co_names, constants]


def kernel(function: Callable[..., Any]) -> Kernel:
    """Turn an inner loop into a `Kernel`."""
    return Kernel(function)


def kernel_with_lists(function: Callable[..., Any]) -> Kernel:
    """Turn an inner loop that makes lists, as for a heap, into a `Kernel`."""
    return Kernel(function, makes_lists=True)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that cannot be written to.

    To numba that is another type of array: a kernel is compiled once only if an argument is
    always of the same.
    """
    view = array.view()
    view.flags.writeable = False
    return view
