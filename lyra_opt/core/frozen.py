"""A dictionary that cannot be changed, so that the content of an instance stays fixed."""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class FrozenDict(dict[KeyT, ValueT]):
    """A dictionary that refuses every change; it equals any dictionary with the same items.

    As a subclass of `dict` it is as fast as a dictionary for look-ups, JSON and pickling. It is
    hashable if its values are. ``|`` and ``copy`` return ordinary dictionaries.

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
