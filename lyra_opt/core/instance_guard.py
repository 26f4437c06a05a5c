"""See whether a solver has changed its instance, and put back what it was."""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import fields
from enum import Enum
from functools import cache
from typing import Any

import numpy as np

from lyra_opt.core.frozen import FrozenDict

_PLAIN = (int, float, str, bool, tuple)
"""Types that cannot be changed themselves; of a tuple the entries count."""


class InstanceGuard:
    """What of an instance can be changed in place, and what it held at first.

    Frozen dataclasses, read-only arrays and mappings cannot, short of force, and only the rest is
    copied: that keeps it cheap beside any solver. Time and memory O(what can be changed).

    Parameters
    ----------
    instance
        A dataclass.
    """

    def __init__(self, instance: Any) -> None:
        self._kept = [
            (path, part, part.copy() if isinstance(part, np.ndarray) else type(part)(part))
            for path, part in _parts(instance, "")
        ]
        self._instance = instance
        self._fields = {each.name: getattr(instance, each.name) for each in fields(instance)}

    def restore(self) -> list[str]:
        """Put back what was changed; return where, as paths of fields."""
        changed = []
        for name, value in self._fields.items():
            if getattr(self._instance, name) is not value:
                object.__setattr__(self._instance, name, value)
                changed.append(name)
        for path, part, kept in self._kept:
            if _is_same(part, kept):
                continue
            changed.append(path)
            if isinstance(part, np.ndarray):
                part[...] = kept
            elif isinstance(part, list):
                part[:] = kept
            else:
                part.clear()
                part.update(kept)
        return changed


def _is_same(part: Any, kept: Any) -> bool:
    if isinstance(part, np.ndarray):
        return bool(part.tobytes() == kept.tobytes())  # nan is the same as nan
    return bool(part == kept)


def _parts(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the arrays, dicts, lists and sets that a value is or holds, with their paths."""
    is_frozen = isinstance(value, FrozenDict)
    if (isinstance(value, dict | list | set) and not is_frozen) or (
        isinstance(value, np.ndarray) and value.flags.writeable
    ):
        yield path, value
    entries: Any = ()
    if isinstance(value, Mapping):
        entries = value.items()
    elif isinstance(value, list | tuple):
        if value and not _can_change(type(value[0])) and len(set(map(type, value))) == 1:  # type: ignore[arg-type]
            return
        entries = enumerate(value)
    for key, entry in entries:
        if not isinstance(entry, int | float | str):
            yield from _parts(entry, f"{path}[{key}]")
    if _is_dataclass(value):
        for name in _changeable_fields(type(value)):  # type: ignore[arg-type]
            yield from _parts(getattr(value, name), f"{path}.{name}" if path else name)


def _is_dataclass(value: Any) -> bool:
    return hasattr(value, "__dataclass_fields__")


@cache
def _changeable_fields(kind: Any) -> tuple[str, ...]:
    """Return the fields of a dataclass whose declared types leave something to change."""
    known = vars(builtins) | vars(sys.modules[kind.__module__])

    def can_change(annotation: object) -> bool:
        if not isinstance(annotation, str):
            return True
        words = set(re.findall(r"\w+", annotation)) - {"None"}
        return any(_can_change(known.get(word)) for word in words)

    return tuple(each.name for each in fields(kind) if can_change(each.type))


@cache
def _can_change(kind: Hashable) -> bool:
    """Whether a type, or what stands for one that is not known, leaves something to change."""
    if not isinstance(kind, type):
        return True
    if _is_dataclass(kind):
        return bool(_changeable_fields(kind))
    return not (kind in _PLAIN or issubclass(kind, Enum))
