"""A mapping that does not change, so that what an instance holds stays what it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class FrozenDict(dict[KeyT, ValueT]):
    """A dictionary that refuses every change; equal to dictionaries of the same items.

    It is a `dict`, so that look-ups, JSON and pickles cost what theirs cost, and hashable if its
    values are. ``|`` and ``copy`` return dictionaries that may be changed.

    Raises
    ------
    TypeError
        On any change.
    """

    __slots__ = ()

    def _refuse(self, *_arguments: Any, **_named: Any) -> NoReturn:
        raise TypeError("a mapping in a frozen object cannot be changed; change a copy: dict(...)")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Callable[[Mapping[Any, Any]], Any], tuple[dict[Any, Any]]]:
        return FrozenDict, (dict(self),)
