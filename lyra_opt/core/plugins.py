"""What is found by name through entry points: in the tree, or in somebody's own package."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import LONGEST_SHOWN_VALUE, FieldError, UserError
from lyra_opt.core.nearest import meant
from lyra_opt.core.own_files import is_reference, load_reference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from importlib.metadata import EntryPoint


@dataclass(frozen=True)
class NamedMaker:
    """What makes an object that the command line lists.

    Parameters
    ----------
    name
        The name it is known by.
    summary
        What it is, on one line.
    make
        Returns it.
    """

    name: str
    summary: str
    make: Callable[..., Any]


@dataclass(frozen=True)
class Copies:
    """Makes copies of an object that serves for one run, one for each run."""

    of: Any

    def __call__(self) -> Any:
        """Return a copy of the object as it is now."""
        return deepcopy(self.of)


def maker_of(given: Any) -> Callable[[], Any]:
    """Return what makes one for each run: a class or function does, an object is copied."""
    maker: Callable[[], Any] = given if callable(given) else Copies(given)
    return maker


class Plugins:
    """The objects of an entry-point group, loaded when they are asked for, and a user's own.

    Parameters
    ----------
    group
        Of the entry points.
    noun
        What one of them is, for errors.
    kind
        What each must be an instance of; None for a protocol that is not checked.
    needs
        Attributes that each must have.
    adapt
        Makes one of something else that a user may give, class or object; returns None if it
        cannot.
    checks_names
        Whether each must have the name of its entry point as its own.
    also_meant
        Returns names that are registered nowhere, but that a user may have meant; it is asked only
        where a name is unknown.
    """

    def __init__(
        self,
        group: str,
        noun: str,
        kind: type | None = None,
        *,
        needs: tuple[str, ...] = (),
        adapt: Callable[[Any], Any] | None = None,
        checks_names: bool = True,
        also_meant: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._group, self._noun, self._kind = group, noun, kind
        self._needs, self._adapt = needs, adapt
        self._checks_names, self._also_meant = checks_names, also_meant
        self._loaded: dict[str, Any] = {}
        self._own: dict[str, tuple[Any, Any]] = {}

    @cached_property
    def _points(self) -> dict[str, EntryPoint]:
        found: dict[str, EntryPoint] = {}
        for point in entry_points(group=self._group):
            known = found.setdefault(point.name, point)
            if known.value != point.value:
                raise UserError(
                    f"{self._noun} {point.name!r} is called so twice: {known.value}, {point.value}"
                )
        return found

    def names(self, problem: str | None = None) -> list[str]:
        """Return all names, in order; of a problem, what follows ``problem.`` in them."""
        if problem is None:
            return sorted(self._points)
        prefix = f"{problem}."
        return sorted(name.removeprefix(prefix) for name in self._points if name.startswith(prefix))

    def of(self, given: Any, problem: str | None = None) -> Any:
        """Return what a name, a class or an object stands for; see `find`.

        A class stands for an object made without arguments.

        Raises
        ------
        UserError
            If there is none of the name, or what is given is of another kind or problem.
        """
        if isinstance(given, str):
            return self.find(given, problem)
        what = given if isinstance(given, type) else type(given)
        return self._checked(given, f"{self._noun} {what.__qualname__}", problem)

    def find(self, name: str, problem: str | None = None) -> Any:
        """Return the object called `name`; of a problem, the one called ``problem.name``.

        ``my_file.py:NAME`` is what the file has of that name, no entry point. A class stands for an
        object made without arguments.

        Raises
        ------
        UserError
            If there is none (the message names the nearest, or all), or it is somebody's own and
            cannot be loaded, or is of another kind or problem.
        """
        if is_reference(name):
            return self._in_file(name, problem)
        key = name if problem is None else f"{problem}.{name}"
        if key not in self._loaded:
            unknown = self._unknown(name, problem)
            if unknown is not None:
                raise UserError(f"{self._noun} {name[:LONGEST_SHOWN_VALUE]!r}: {unknown}")
            self._loaded[key] = self._load(self._points[key], name)
        return self._loaded[key]

    def is_foreign(self, name: str, problem: str | None = None) -> bool:
        """Return whether a name stands for something of a user's own; nothing is loaded."""
        point = self._points.get(name if problem is None else f"{problem}.{name}")
        is_own = point is not None and point.value.startswith("lyra_opt.")
        return is_reference(name) or (point is not None and not is_own)

    def require_known(self, field: str, name: str, problem: str | None = None) -> None:
        """Raise `FieldError` if there is nothing of the name; nothing is loaded."""
        rule = self._unknown(name, problem)
        if rule is not None:
            raise FieldError(field, name, rule)

    def _unknown(self, name: str, problem: str | None) -> str | None:
        """Return what to say of a name that there is not, with the nearest; None if there is."""
        if (name if problem is None else f"{problem}.{name}") in self._points:
            return None
        others = [
            of
            for of, _, its_name in (key.partition(".") for key in self._points)
            if its_name == name
        ]
        if problem is not None and others:
            return f"is a {self._noun} of {' and of '.join(others)}, not of {problem}"
        of_problem = "" if problem is None else f" of {problem}"
        return f"no such {self._noun}{of_problem}; " + meant(
            name, self.names(problem), also=self._also_meant()
        )

    def _load(self, point: EntryPoint, name: str) -> Any:
        shown = f"{self._noun} {name!r}: {point.value}"
        try:
            loaded = point.load()
        except (Exception, SystemExit) as error:  # somebody's own module may fail in any way
            raise UserError(f"{shown} cannot be loaded: {error}") from error
        found = self._checked(loaded, shown)
        own = getattr(found, "name", name)
        if point.name != name:
            own, name = f"{found.problem}.{own}", point.name
        if own != name and self._checks_names:
            raise UserError(f"{self._noun} {name!r}: {point.value} calls itself {own!r}")
        return found

    def _in_file(self, reference: str, problem: str | None) -> Any:
        shown = f"{self._noun} {reference!r}"
        try:
            loaded = load_reference(reference)
        except UserError as error:
            raise UserError(f"{shown}: {error}") from error.__cause__
        known, found = self._own.get(reference, (None, None))
        if loaded is not known or problem not in (None, getattr(found, "problem", problem)):
            found = self._checked(loaded, shown, problem)
            self._own[reference] = loaded, found
        return found

    def _checked(self, loaded: Any, shown: str, problem: str | None = None) -> Any:
        """Return the object that was loaded, or that a class makes, if it is one of these.

        Parameters
        ----------
        shown
            What it is called in errors.
        """
        try:
            found = None if self._adapt is None else self._adapt(loaded)
            if found is None:
                found = loaded() if isinstance(loaded, type) else loaded
        except (Exception, SystemExit) as error:  # somebody's own
            raise UserError(f"{shown} cannot be made: {error}") from error
        if self._kind is not None and not isinstance(found, self._kind):
            kind = f"{self._kind.__module__}.{self._kind.__qualname__}"
            raise UserError(f"{shown} is no {self._noun}: it must be a {kind}")
        missing = [name for name in self._needs if getattr(found, name, None) is None]
        if missing:
            raise UserError(f"{shown} is no {self._noun}: it has no {' and no '.join(missing)}")
        if problem is not None and found.problem != problem:
            raise UserError(f"{shown} is a {self._noun} of {found.problem}, not of {problem}")
        return found

    def all(self) -> dict[str, Any]:
        """Return all of them by name, in order."""
        return {name: self.find(name) for name in self.names()}

    def forget(self) -> None:
        """Look again at what is installed when next asked."""
        self.__dict__.pop("_points", None)
        self._loaded.clear()
        self._own.clear()
