"""What is found by name through entry points: in the tree, or in somebody's own package."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable
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


class Plugins:
    """The objects of an entry-point group, loaded when they are asked for.

    Parameters
    ----------
    group
        Of the entry points.
    noun
        What one of them is, for errors.
    kind
        What each must be an instance of; None for a protocol that is not checked.
    checks_names
        Whether each must have the name of its entry point as its own.
    """

    def __init__(
        self, group: str, noun: str, kind: type | None = None, *, checks_names: bool = True
    ) -> None:
        self._group, self._noun, self._kind = group, noun, kind
        self._checks_names = checks_names
        self._loaded: dict[str, Any] = {}

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

    def find(self, name: str, problem: str | None = None) -> Any:
        """Return the object called `name`; of a problem, the one called ``problem.name``.

        A class stands for an object made without arguments.

        Raises
        ------
        UserError
            If there is none (the message names all), or it is somebody's own and cannot be loaded.
        """
        key = name if problem is None else f"{problem}.{name}"
        if key not in self._loaded:
            point = self._points.get(key)
            if point is None:
                known = ", ".join(self.names(problem)) or "none"
                rule = f"must be one of: {known}"
                if problem is not None:
                    rule = f"no such {self._noun} for the problem {problem}; known: {known}"
                raise UserError(f"{self._noun} {name!r}: {rule}")
            self._loaded[key] = self._load(point, name)
        return self._loaded[key]

    def _load(self, point: EntryPoint, name: str) -> Any:
        try:
            loaded = point.load()
            found = loaded() if isinstance(loaded, type) else loaded
        except Exception as error:  # somebody's own module may fail in any way
            raise UserError(
                f"{self._noun} {name!r}: {point.value} cannot be loaded: {error}"
            ) from None
        if self._kind is not None and not isinstance(found, self._kind):
            raise UserError(f"{self._noun} {name!r}: {point.value} is no {self._noun}")
        own = getattr(found, "name", name)
        if point.name != name:
            own, name = f"{found.problem}.{own}", point.name
        if own != name and self._checks_names:
            raise UserError(f"{self._noun} {name!r}: {point.value} calls itself {own!r}")
        return found

    def all(self) -> dict[str, Any]:
        """Return all of them by name, in order."""
        return {name: self.find(name) for name in self.names()}

    def forget(self) -> None:
        """Look again at what is installed when next asked."""
        self.__dict__.pop("_points", None)
        self._loaded.clear()
