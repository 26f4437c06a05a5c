"""Components found by name: built-in ones, those of installed packages, and those in a user's file.

The built-in components stand in `lyra_opt.registry`. Other packages bring theirs by entry points.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from lyra_opt.core.built_in import BUILT_IN, REMOVED
from lyra_opt.core.errors import LONGEST_SHOWN_VALUE, FieldError, UserError
from lyra_opt.core.own_files import is_reference, load_reference
from lyra_opt.core.texts import meant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
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


@cache
def _made(components: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the built-in components of a function of the registry, which is called once."""
    return components()


class Plugins:
    """The components of one group, each loaded on first use.

    Parameters
    ----------
    group
        The key of the group in `lyra_opt.core.built_in.BUILT_IN`, and the name of the entry-point
        group of other packages.
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
        """The entry points of other packages; those of the toolkit's own older installs are not."""
        found: dict[str, EntryPoint] = {}
        for point in entry_points(group=self._group):
            if point.value.startswith("lyra_opt."):
                continue
            known = found.setdefault(point.name, point)
            other = known.value if known.value != point.value else None
            if self._built_in(point.name) is not None:
                other = "lyra_opt"
            if other is not None:
                raise UserError(
                    f"{self._noun} {point.name!r} is registered twice: by {other} and by "
                    f"{point.value}; remove one of the two packages"
                )
        return found

    def _built_in(self, key: str) -> Any:
        """Return the built-in component of a key; None if the toolkit has no such component."""
        groups = BUILT_IN.get(self._group, {})
        for components in groups.get(key.partition(".")[0] if "" not in groups else "", ()):
            found = _made(components).get(key)
            if found is not None:
                return found
        return None

    def _keys(self, problem: str | None = None) -> list[str]:
        """Return the keys of all components, or of those of one problem, in order."""
        groups = BUILT_IN.get(self._group, {})
        chosen = groups.values() if problem is None else [groups.get(problem, ())]
        keys = {
            key for functions in chosen for components in functions for key in _made(components)
        }
        prefix = "" if problem is None else f"{problem}."
        return sorted(keys | {key for key in self._points if key.startswith(prefix)})

    def names(self, problem: str | None = None) -> list[str]:
        """Return all names, in order; for a problem, the part of each after ``problem.``."""
        prefix = "" if problem is None else f"{problem}."
        return [key.removeprefix(prefix) for key in self._keys(problem)]

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
            built_in = self._built_in(key)
            self._loaded[key] = (
                self._load(self._points[key], name)
                if built_in is None
                else self._checked(built_in, f"{self._noun} {name!r}")
            )
        return self._loaded[key]

    def is_foreign(self, name: str, problem: str | None = None) -> bool:
        """Return whether a name means a component that is not built in, without loading that."""
        key = name if problem is None else f"{problem}.{name}"
        return is_reference(name) or key in self._points

    def require_known(self, field: str, name: str, problem: str | None = None) -> None:
        """Raise `FieldError` if there is nothing of the name; nothing is loaded."""
        rule = self._unknown(name, problem)
        if rule is not None:
            raise FieldError(field, name, rule)

    def _unknown(self, name: str, problem: str | None) -> str | None:
        """Return what to say of a name that there is not, with the nearest; None if there is."""
        key = name if problem is None else f"{problem}.{name}"
        if self._built_in(key) is not None or key in self._points:
            return None
        if key in REMOVED.get(self._group, {}):
            return REMOVED[self._group][key]
        others = [
            of
            for of, _, its_name in (each.partition(".") for each in self._keys())
            if its_name == name
        ]
        if problem is not None and others:
            return f"is a {self._noun} of {' and of '.join(others)}, not of {problem}"
        of_problem = "" if problem is None else f" for problem {problem}"
        hint = meant(name, self.names(problem), also=self._also_meant())
        return f"unknown {self._noun}{of_problem}; {hint}"

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
            raise UserError(
                f"{self._noun} {name!r}: {point.value} has the name {own!r}; both must be equal"
            )
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
            raise UserError(f"{shown} cannot be created: {error}") from error
        if self._kind is not None and not isinstance(found, self._kind):
            kind = f"{self._kind.__module__}.{self._kind.__qualname__}"
            raise UserError(f"{shown} must be a {kind}, not {type(found).__name__}")
        missing = [name for name in self._needs if getattr(found, name, None) is None]
        if missing:
            raise UserError(f"{shown} is not a {self._noun}: it lacks {' and '.join(missing)}")
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


PROBLEMS = Plugins("lyra_opt.problems", "problem")
"""All problems (`lyra_opt.core.problem.Problem`) by name."""
