"""What is found by name through entry points: in the tree, or in somebody's own package."""

from __future__ import annotations

from functools import cached_property
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import UserError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


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

    def names(self) -> list[str]:
        """Return all names, in order."""
        return sorted(self._points)

    def find(self, name: str) -> Any:
        """Return the object called `name`.

        Raises
        ------
        UserError
            If there is none (the message names all), or it is somebody's own and cannot be loaded.
        """
        if name not in self._loaded:
            point = self._points.get(name)
            if point is None:
                known = ", ".join(self.names())
                raise UserError(f"{self._noun} {name!r}: must be one of: {known}")
            try:
                found = point.load()
            except Exception as error:  # somebody's own module may fail in any way
                raise UserError(
                    f"{self._noun} {name!r}: {point.value} cannot be loaded: {error}"
                ) from None
            if self._kind is not None and not isinstance(found, self._kind):
                raise UserError(f"{self._noun} {name!r}: {point.value} is no {self._noun}")
            if getattr(found, "name", name) != name and self._checks_names:
                raise UserError(f"{self._noun} {name!r}: {point.value} calls itself {found.name!r}")
            self._loaded[name] = found
        return self._loaded[name]

    def all(self) -> dict[str, Any]:
        """Return all of them by name, in order."""
        return {name: self.find(name) for name in self.names()}
