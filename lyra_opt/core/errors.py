"""Errors that a user can fix: each is one line that names the place, the value and the rule."""

import json
import sys
import sysconfig
import traceback
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from numbers import Integral
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, TypeVar, cast

from lyra_opt.core.nearest_names import meant

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
ClassT = TypeVar("ClassT")

LONGEST_SHOWN_VALUE = 60


class UserError(Exception):
    """An error in the user's input, with a one-line message; commands exit with code 2."""

    def _render_traceback_(self) -> list[str]:
        """Return the text for IPython and notebooks: the user's own lines, and the message."""
        lines = []
        for frame in _own_frames(self):
            path = Path(frame.filename)  # a cell of a notebook has no file
            file = f"{path.name}, " if path.is_file() else ""
            lines.append(f"{file}line {frame.lineno}: {frame.line}")
        return [*lines, f"{type(self).__name__}: {self}"]

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the data from which pickle rebuilds the error, including its attributes."""
        return _made_anew, (type(self), self.args, vars(self))


def _made_anew(kind: type[UserError], args: tuple[Any, ...], state: dict[str, Any]) -> UserError:
    error = kind.__new__(kind, *args)
    vars(error).update(state)
    return error


def without_inner_frames(function: FunctionT) -> FunctionT:
    """Wrap a function for users: below their call, a `UserError` has one frame of the toolkit.

    So has a `KeyboardInterrupt`, which Ctrl-C and, in long runs, SIGTERM raise. With
    ``python -X dev``, and in calls from the toolkit itself, the traceback has all frames.
    """

    @wraps(function)
    def ending_here(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except (UserError, KeyboardInterrupt) as error:
            caller = sys._getframe(1).f_globals.get("__name__", "")  # noqa: SLF001 - documented
            if sys.flags.dev_mode or caller.partition(".")[0] == __name__.partition(".")[0]:
                raise
            raise error.with_traceback(None) from None
        except TypeError as error:
            is_of_call = error.__traceback__ is not None and error.__traceback__.tb_next is None
            if is_of_call and (said := _wrong_argument(function, given, named)):
                raise UserError(said) from None
            raise

    return cast("FunctionT", ending_here)


def _wrong_argument(
    function: Callable[..., Any], given: tuple[Any, ...], named: Mapping[str, Any]
) -> str:
    """Return the message for an unknown or a missing argument, or ""."""
    called = signature(function)
    parameters = called.parameters
    known = [name for name in parameters if name not in ("self", "cls")]
    unknown = next((name for name in named if name not in known), None)
    if unknown is None or any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        try:
            called.bind(*given, **named)
        except TypeError as error:
            return f"{function.__qualname__.removesuffix('.__init__')}: {error}"
        return ""
    return f"{function.__name__} has no argument {unknown}; {meant(unknown, known)}"


def methods_without_inner_frames(made: type[ClassT]) -> type[ClassT]:
    """Wrap constructor and public methods of a class as `without_inner_frames` wraps functions."""
    for name, member in list(vars(made).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, FunctionType):
            setattr(made, name, without_inner_frames(member))
        elif isinstance(member, classmethod):
            setattr(made, name, classmethod(without_inner_frames(member.__func__)))
    return made


class FieldError(UserError, ValueError):
    """An error for a field whose value breaks a rule.

    Parameters
    ----------
    field
        Path of the field, such as ``jobs[2].workers[0].base``; empty for the whole document.
    value
        The offending value.
    rule
        The rule as a verb phrase, such as "must be an integer of at least 0".
    """

    def __init__(self, field: str, value: object, rule: str) -> None:
        super().__init__(one_line(f"{field or 'document'} is {show_value(value)}: {rule}"))
        self.field = field
        self.value = value
        self.rule = rule

    def inside(self, prefix: str) -> "FieldError":
        """Return this error with `prefix`, the enclosing object's path, before the field's path."""
        separator = "." if self.field and not self.field.startswith("[") else ""
        return FieldError(f"{prefix}{separator}{self.field}", self.value, self.rule)


class MissingFieldError(FieldError):
    """An error for a required field that is missing."""

    def __init__(self, field: str) -> None:
        super().__init__(field, None, "")
        self.args = (f"{field} is missing",)

    def inside(self, prefix: str) -> "MissingFieldError":
        """Return this error with `prefix`, the enclosing object's path, before the field's path."""
        return MissingFieldError(f"{prefix}.{self.field}")


class NoAttributeError(UserError, AttributeError):
    """An error for an attribute that an object does not have; the message names similar ones."""


class CutShortError(UserError):
    """An error that ends a series of solver runs or replays; stored results are kept."""


class DiskFullError(CutShortError):
    """An error for a full disk, which ends a series of runs because no result can be stored."""


class InputError(UserError):
    """An error for an input file that cannot be used; the message names the file and the reason."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(one_line(f"{source}: {reason}"))
        self.source = source
        self.reason = reason


@contextmanager
def in_file(source: str) -> Iterator[None]:
    """Turn the field errors that are raised in a ``with`` block into errors that name the file."""
    try:
        yield
    except FieldError as error:
        raise InputError(source, str(error)) from None


def one_line(text: str) -> str:
    """Return `text` with line breaks and other control characters escaped."""
    return "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in text
    )


class ReturnedError(TypeError):
    """An error for an invalid return value of a method in a user's own code.

    Parameters
    ----------
    method
        The method; the message names the line on which it begins.
    problem
        The value that it returned, and the rule.
    """

    def __init__(self, method: MethodType, problem: str) -> None:
        super().__init__(f"{method.__qualname__} {problem}")
        code = method.__code__
        self.place = f"({Path(code.co_filename).name}, line {code.co_firstlineno})"


def require_returned(
    method: Any, returned: Iterable[object], known: Container[object], rule: str
) -> None:
    """Raise `ReturnedError` if a user's method returned an index or an id that is not valid.

    Parameters
    ----------
    method, returned
        The method in a user's own code, and the indices or ids that it returned.
    known
        The range of valid indices, or all valid ids.
    rule
        The values that the method must return, for the message.
    """
    for value in returned:
        given = value
        if type(value) is int and value in known:  # a shortcut, because simulations call this often
            continue
        if isinstance(value, Integral) and not isinstance(value, bool):
            given = int(value)  # `in range` compares NumPy integers one by one, which is slow
        if not (type(given) is int or isinstance(given, str)) or given not in known:
            raise ReturnedError(method, f"returned {show_value(value)}: it must return {rule}")


def failure_of(error: BaseException) -> str:
    """Return the error that a user's own code raised, with file and line, as one line of text.

    The line is the last one in the traceback outside the toolkit and the installed packages,
    because that is the code to fix. If no such line exists, it is the last line of the traceback.
    """
    frame = (_own_frames(error) or traceback.extract_tb(error.__traceback__))[-1]
    place = f"({Path(frame.filename).name}, line {frame.lineno})"
    if isinstance(error, ReturnedError):
        place = error.place
    if isinstance(error, SystemExit):
        return f"it exited {place}"
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"{one_line(said)} {place}"


def _own_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Return the frames of a traceback outside the toolkit and the installed packages."""
    installed = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")]
    toolkit = Path(__file__).parents[1]
    return [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "site-packages" not in frame.filename
        and not any(map(Path(frame.filename).is_relative_to, (toolkit, *installed)))
    ]


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1.

    >>> counted(1, "job"), counted(2000, "job")
    ('1 job', '2,000 jobs')
    """
    return f"{number:,} {noun}" + "s" * (number != 1)


def show_value(value: object) -> str:
    """Return `value` as JSON on one line, cut to at most 60 characters."""
    if isinstance(value, dict | list | tuple):
        shown = "an object" if isinstance(value, dict) else f"a list of {len(value)}"
        return shown if value else json.dumps(value)
    try:
        shown = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        shown = repr(value)
    shown = one_line(shown)
    if len(shown) > LONGEST_SHOWN_VALUE:
        shown = shown[: LONGEST_SHOWN_VALUE - 3] + "..."
    return shown
