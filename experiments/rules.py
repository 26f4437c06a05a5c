"""Apply rules to the keys of a table, and combine them into rules of lists.

A rule takes the path of a field and its value, and returns the value checked or raises
`FieldError`; `lyra_opt.validation` holds the simple ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from lyra_opt.documents import Record, join_path
from lyra_opt.errors import FieldError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def required(record: Record, key: str, rule: Callable[[str, object], T]) -> T:
    """Return the value of `key`, which must be there and keep `rule`."""
    return rule(join_path(record.path, key), record.required(key))


def optional(record: Record, key: str, rule: Callable[[str, object], T], default: T) -> T:
    """Return the value of `key`, which must keep `rule`, or `default` without it."""
    return required(record, key, rule) if key in record else default


def filled(record: Record, key: str) -> list[tuple[str, Any]]:
    """Return (path, value) of each entry of the list at `key`, which must not be empty."""
    entries = list(record.items_of(key))
    if not entries:
        raise FieldError(join_path(record.path, key), [], "must not be empty")
    return entries


def list_of(rule: Callable[[str, object], T]) -> Callable[[str, object], tuple[T, ...]]:
    """Return the rule of a list: not empty, no entry twice, and every entry keeps `rule`."""

    def require_list(field: str, values: object) -> tuple[T, ...]:
        if not isinstance(values, list) or not values:
            raise FieldError(field, values, "must be a list that is not empty")
        checked: dict[T, None] = {}  # by entry: a set in the order of the list
        for position, value in enumerate(values):
            entry = rule(f"{field}[{position}]", value)
            if entry in checked:
                raise FieldError(f"{field}[{position}]", value, "must not occur twice")
            checked[entry] = None
        return tuple(checked)

    return require_list
