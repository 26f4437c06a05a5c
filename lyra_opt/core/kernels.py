"""Inner loops that are written once and run interpreted on small inputs, compiled on large ones.

A kernel is a function over flat sequences of integers. It allocates no arrays and takes no slices;
scratch arrays are arguments, and related arrays and integers are one named tuple. An interpreted
kernel gets Python lists, which are faster than arrays there and whose integers cannot overflow.
Numba compiles a kernel for int64 arrays. Numba is imported only then, and the machine code is
cached on disk, so a small process neither compiles nor imports the compiler.
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
"""Number of elementary steps from which a kernel runs compiled.

Interpreted, 1,000 steps take about 1 ms in a greedy and 5 ms in a minimum cut. Compiled, they take
a tenth of that, after about 1 s per process to load numba and its cache.
"""

LOADED_EARLIER = 16
"""Factor by which `COMPILE_FROM_WORK` shrinks for a kernel whose machine code is loaded already."""

LARGEST_COMPILED_INTEGER = 2**62

READY = (np.ndarray, np.generic, int, float)
"""Types that machine code accepts without conversion."""

PLAIN = frozenset((np.ndarray, int))
"""Types in most named tuples; a tuple with only these types needs no conversion of its entries."""


class Kernel:
    """A function that runs interpreted or compiled, made by the decorator `kernel`.

    Parameters
    ----------
    function
        The inner loop. It may call other kernels that are globals of its module.
    makes_lists
        Whether the function creates lists, such as a heap. Other kernels own no memory, so numba
        compiles them without reference counts, which would cost more than the work itself. They
        return no arrays except their arguments, alone or in tuples.
    """

    def __init__(self, function: Callable[..., Any], *, makes_lists: bool = False) -> None:
        self._function = function
        self._makes_lists = makes_lists
        self._compiled: Any = None
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__

    def run(self, *arguments: Any, work: int, largest: int) -> Any:
        """Run the kernel, compiled if the work is large enough and no integer can overflow.

        Parameters
        ----------
        arguments
            Integers, int64 arrays, and named tuples of both. The kernel returns its results; it
            must not return them by changing an argument, because interpreted it works on copies.
        work
            The estimated number of elementary steps.
        largest
            An upper bound on every intermediate integer. From 2**62 on the kernel runs interpreted,
            because Python's integers cannot overflow.
        """
        if self.compiles(work, largest=largest):
            return self.compiled(*arguments)
        return self.interpreted(*arguments)

    def compiles(self, work: int, *, largest: int) -> bool:
        """Return whether `run` would use compiled code for the given amount of work.

        A kernel that is loaded already runs compiled from a smaller amount of work on.
        """
        least = COMPILE_FROM_WORK if self._compiled is None else COMPILE_FROM_WORK // LOADED_EARLIER
        return work >= least and largest < LARGEST_COMPILED_INTEGER

    def interpreted(self, *arguments: Any) -> Any:
        """Run the function as Python code on lists."""
        return self(*map(_as_lists, arguments))

    def compiled(self, *arguments: Any) -> Any:
        """Run the function as machine code on int64 arrays."""
        integers = tuple(map(_as_arrays, arguments))
        if self._compiled is None:
            with loading():
                self._load(integers)
        try:
            return self._compiled(*integers)
        except SystemError as error:
            # Numba wraps a Ctrl-C during the creation of named tuples in a SystemError.
            if isinstance(error.__cause__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            raise

    def __call__(self, *arguments: Any) -> Any:
        """Run the function as Python code, without converting the arguments."""
        return self._interpreted(*arguments)

    @cached_property
    def _interpreted(self) -> Callable[..., Any]:
        """The Python function, linked with the Python functions of the kernels that it calls."""
        called = {name: value._interpreted for name, value in self._called().items()}  # noqa: SLF001
        return self._linked(called) if called else self._function

    def _linked(self, called: dict[str, Any]) -> FunctionType:
        """Return a copy of the function in which the functions `called` replace kernels by name."""
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

        # A kernel's name lists its tuples' fields, because numba's cache ignores their order.
        # Numba cannot load a cache entry that names a class that no longer exists.
        fields = {repr(_fields(argument)) for argument in arguments if _is_named(argument)}
        compiled = self._dispatcher("".join(sorted(fields)), {})
        with _compiling_announced():
            compiled.compile(tuple(numba.typeof(argument) for argument in arguments))
        self._compiled = compiled

    def _dispatcher(self, fields: str, made: dict[Kernel, Any]) -> Any:
        """Return numba's version of the function, linked with the kernels that it calls.

        Only the outermost kernel is called from Python and cached on disk. A called kernel is
        compiled once and without a Python wrapper, which saves a quarter of the compile time.

        Parameters
        ----------
        fields
            The named tuples among the arguments of the outermost kernel; part of every name in the
            cache.
        made
            The compiled versions of the called kernels, filled here; empty for the outermost
            kernel.
        """
        import numba

        if self in made:
            return made[self]
        function, is_outermost = self._function, not made
        made[self] = None
        # Numba resolves global names when it compiles, so called kernels must be compiled first.
        linked = self._linked(
            {
                name: value._dispatcher(fields, made)  # noqa: SLF001
                for name, value in self._called().items()
            }
        )
        # Numba's cache checks only the age of this file, so each name contains a hash of all code.
        linked.__qualname__ = f"{function.__qualname__}_{self._digest(fields)}"
        linked.__module__ = function.__module__
        options = {"_nrt": self._counts_references(), "no_cfunc_wrapper": True}
        if not is_outermost:
            made[self] = numba.njit(no_cpython_wrapper=True, **options)(linked)
            return made[self]
        try:
            return numba.njit(cache=True, **options)(linked)
        except RuntimeError:  # no folder for the cache exists, so each process compiles again
            return numba.njit(**options)(linked)

    def _counts_references(self) -> bool:
        """Return whether the function, or a kernel that it calls, creates lists."""
        return self._makes_lists or any(
            called._counts_references()  # noqa: SLF001
            for called in self._called().values()
        )

    def _called(self) -> dict[str, Kernel]:
        """Return the kernels that the function calls, by their names in its module."""
        names = self._function.__code__.co_names
        values = {name: self._function.__globals__.get(name) for name in names}
        return {name: value for name, value in values.items() if isinstance(value, Kernel)}

    def _digest(self, fields: str) -> str:
        """Return a hash of the code of the function and of all kernels that it calls."""
        code = self._function.__code__
        values = {name: self._function.__globals__.get(name) for name in code.co_names}
        numbers = {name: value for name, value in values.items() if type(value) is int}
        parts = [_code_parts(code), numbers, fields, self._counts_references()]
        parts += [value._digest(fields) for value in self._called().values()]  # noqa: SLF001
        return sha256(repr(parts).encode()).hexdigest()[:12]


@contextmanager
def _compiling_announced() -> Iterator[None]:
    """Log a warning, once per process, when a kernel is compiled that is not in the cache."""
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
    """Return an argument with its arrays converted to lists, for an interpreted kernel."""
    if isinstance(argument, np.ndarray):
        return argument.tolist()
    if _is_named(argument):
        return type(argument)(*map(_as_lists, argument))
    return argument


def _as_arrays(argument: Any) -> Any:
    """Return an argument with its lists converted to int64 arrays, for a compiled kernel."""
    if isinstance(argument, READY):
        return argument
    if _is_named(argument):
        if PLAIN.issuperset(map(type, argument)):
            return argument
        return type(argument)(*map(_as_arrays, argument))
    return np.array(argument, dtype=np.int64)


def _fields(argument: Any) -> Any:
    """Return class and field names of a named tuple, recursively; None for any other value."""
    if not _is_named(argument):
        return None
    kind = type(argument)
    inner = [_fields(value) for value in argument]
    return kind.__module__, kind.__qualname__, argument._fields, inner


def _code_parts(code: CodeType) -> list[Any]:
    """Return the parts of a code object that define its behaviour, such as its bytecode."""
    constants = [
        _code_parts(value) if isinstance(value, CodeType) else value for value in code.co_consts
    ]
    return [code.co_code, code.co_names, constants]


def kernel(function: Callable[..., Any]) -> Kernel:
    """Make an inner loop a `Kernel`; used as a decorator."""
    return Kernel(function)


def kernel_with_lists(function: Callable[..., Any]) -> Kernel:
    """Decorate an inner loop that creates lists, such as a heap, to make it a `Kernel`."""
    return Kernel(function, makes_lists=True)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view of an array.

    Numba treats a read-only array as a different type. A kernel is compiled only once if an
    argument is always read-only or never.
    """
    view = array.view()
    view.flags.writeable = False
    return view
