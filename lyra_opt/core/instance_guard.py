"""See whether a solver has changed its instance, and keep the others from it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from copy import copy
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.fields import is_declared, keys_of
from lyra_opt.core.frozen import FrozenDict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lyra_opt.core.problem import Problem, ProblemInstance


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
        self._kept = [(path, part, copy(part)) for path, part in _parts(instance, "")]
        self.instance = instance
        self._fields = {each.name: getattr(instance, each.name) for each in fields(instance)}

    def restore(self) -> list[str]:
        """Put back what was changed; return where, as paths of fields."""
        changed = []
        for name, value in self._fields.items():
            if getattr(self.instance, name) is not value:
                object.__setattr__(self.instance, name, value)
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


class PrivateCopy:
    """An instance made for one solver alone, so that no force can reach that of the others.

    Its content is compared when the solver is done. Time and memory O(instance): some 0.3 s at
    10,000 servers, in all.

    Parameters
    ----------
    problem
        That it belongs to.
    instance
        Of which it is a copy.
    """

    def __init__(self, problem: Problem, instance: ProblemInstance) -> None:
        self._problem = problem
        self._document = problem.instance_document(instance)
        self.instance = pickle.loads(pickle.dumps(instance))  # noqa: S301 - our own bytes

    def restore(self) -> list[str]:
        """Return what was changed of the copy, as keys of its document; there is no other harm."""
        try:
            found = self._problem.instance_document(self.instance)
        except Exception:  # what was put there may be anything
            found = {}
        return [name for name in self._document if found.get(name) != self._document[name]]


def _is_same(part: Any, kept: Any) -> bool:
    if isinstance(part, np.ndarray):
        return bool(part.tobytes() == kept.tobytes())  # nan is the same as nan
    return bool(part == kept)


def _parts(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the arrays, dicts, lists and sets that a value is or holds, with their paths."""
    if isinstance(value, FrozenDict):
        pass
    elif isinstance(value, dict | list | set):
        yield path, value
    elif isinstance(value, np.ndarray):
        if value.flags.writeable:
            yield path, value
        return
    entries: Any = ()
    if isinstance(value, Mapping):
        entries = value.items()
    elif isinstance(value, list | tuple):
        entries = enumerate(value)
    elif is_dataclass(value):
        kind: Any = type(value)
        for name in _fields_left_open(kind):
            yield from _parts(getattr(value, name), f"{path}.{name}" if path else name)
    for key, entry in entries:
        if not isinstance(entry, int | float | str):
            yield from _parts(entry, f"{path}[{key}]")


@cache
def _fields_left_open(kind: Any) -> list[str]:
    """Return the fields of a dataclass that its declaration does not freeze."""
    frozen = {each.name for each in keys_of(kind)} if is_declared(kind) else set()
    return [each.name for each in fields(kind) if each.name not in frozen]
