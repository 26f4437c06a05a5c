"""Registries of components such as solvers, from the toolkit, other packages and users' files.

`lyra_opt.registry` lists the built-in components. Other packages add theirs through entry points.
"""

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from lyra_opt.core.built_in import BUILT_IN, REMOVED
from lyra_opt.core.errors import LONGEST_SHOWN_VALUE, FieldError, UserError
from lyra_opt.core.nearest_names import meant
from lyra_opt.core.own_files import is_reference, load_reference


@dataclass(frozen=True)
class NamedMaker:
    """A factory function with a name and a summary, which the command line lists.

    Parameters
    ----------
    name
        The name of the object.
    summary
        A description on one line.
    make
        The function that returns the object.
    """

    name: str
    summary: str
    make: Callable[..., Any]


@dataclass(frozen=True)
class Copies:
    """A factory of copies of an object, one copy for each run."""

    of: Any

    def __call__(self) -> Any:
        """Return a copy of the object as it is now."""
        return deepcopy(self.of)


def maker_of(given: Any) -> Callable[[], Any]:
    """Return a factory that makes an object for each run, from a class, function or prototype."""
    maker: Callable[[], Any] = given if callable(given) else Copies(given)
    return maker


@cache
def _made(components: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """Call a function of `lyra_opt.registry` once, and return the components that it lists."""
    return components()


class Plugins:
    """The components of one group, such as all solvers; each is loaded at its first use.

    Parameters
    ----------
    group
        The key of the group in `lyra_opt.core.built_in.BUILT_IN`, which is also the name of the
        entry-point group for other packages.
    noun
        The word for a component in error messages, such as "solver".
    kind
        The class of all components; None if a protocol takes its place, which is not checked.
    needs
        Attributes that each component must have.
    adapt
        A function that turns other objects or classes into a component; it returns None for those
        it does not support.
    checks_names
        Whether the name of each component must be the name of its entry point.
    also_meant
        A function that returns further names that a user may have meant. It is called only for an
        unknown name.
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
        """The entry points that other packages registered for this group, by name.

        Entry points of older versions of the toolkit are left out.
        """
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
        """Return the keys of all components, or of the components for one problem, in order."""
        groups = BUILT_IN.get(self._group, {})
        chosen = groups.values() if problem is None else [groups.get(problem, ())]
        keys = {
            key for functions in chosen for components in functions for key in _made(components)
        }
        prefix = "" if problem is None else f"{problem}."
        return sorted(keys | {key for key in self._points if key.startswith(prefix)})

    def names(self, problem: str | None = None) -> list[str]:
        """Return the names of all components, or of the components for one problem, alphabetically.

        For a problem, the names lack the prefix ``problem.``.
        """
        prefix = "" if problem is None else f"{problem}."
        return [key.removeprefix(prefix) for key in self._keys(problem)]

    def of(self, given: Any, problem: str | None = None) -> Any:
        """Return the component for a name, a class or an object.

        A class stands for an object made without arguments.

        Raises
        ------
        UserError
            If the name is unknown, or the component has the wrong class or problem.
        """
        if isinstance(given, str):
            return self.find(given, problem)
        what = given if isinstance(given, type) else type(given)
        return self._checked(given, f"{self._noun} {what.__qualname__}", problem)

    def find(self, name: str, problem: str | None = None) -> Any:
        """Return the component called `name`, or called ``problem.name`` if a problem is given.

        A name such as ``my_file.py:NAME`` refers to an object or a class in a Python file. A class
        stands for an object made without arguments.

        Raises
        ------
        UserError
            If the name is unknown (the message names a similar name, or all), or if a component of
            a plug-in or a file cannot be loaded or has the wrong class or problem.
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
        """Return whether a name refers to a component that is not built in, without loading it."""
        key = name if problem is None else f"{problem}.{name}"
        return is_reference(name) or key in self._points

    def require_known(self, field: str, name: str, problem: str | None = None) -> None:
        """Raise `FieldError` if a name is unknown; no component is loaded."""
        rule = self._unknown(name, problem)
        if rule is not None:
            raise FieldError(field, name, rule)

    def _unknown(self, name: str, problem: str | None) -> str | None:
        """Return the error message for an unknown name; None if the name is known."""
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
        if "," in name:
            hint = "give each name separately, not with commas"
        return f"unknown {self._noun}{of_problem}; {hint}"

    def _load(self, point: EntryPoint, name: str) -> Any:
        shown = f"{self._noun} {name!r}: {point.value}"
        try:
            loaded = point.load()
        except (Exception, SystemExit) as error:  # a plug-in may raise anything
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
        """Return a loaded component, constructed if it is a class; raise `UserError` if not valid.

        Parameters
        ----------
        shown
            The name of the component in errors.
        """
        try:
            found = None if self._adapt is None else self._adapt(loaded)
            if found is None:
                found = loaded() if isinstance(loaded, type) else loaded
        except UserError as error:
            raise UserError(f"{shown}: {error}") from error.__cause__
        except (Exception, SystemExit) as error:  # a user's constructor may raise anything
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
        """Return all components by name, in order."""
        return {name: self.find(name) for name in self.names()}

    def forget(self) -> None:
        """Forget all components, so that installed plug-ins are searched again at the next use."""
        self.__dict__.pop("_points", None)
        self._loaded.clear()
        self._own.clear()


PROBLEMS = Plugins("lyra_opt.problems", "problem")
"""All problems (`lyra_opt.core.problem.Problem`) by name."""
