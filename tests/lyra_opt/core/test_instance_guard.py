"""What a solver does to its instance is found, and undone."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from lyra_opt.core.instance_guard import InstanceGuard


@dataclass(frozen=True)
class Anything:
    """An instance of parts of all kinds; the last two cannot be changed."""

    name: str
    numbers: Any
    by_name: dict[str, dict[str, int]]
    entries: list[int]
    jobs: tuple[int, ...]
    ratio: float


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda it: it.numbers.__setitem__(1, 7.0), "numbers"),
        (lambda it: it.by_name["a"].__setitem__("b", 7), "by_name[a]"),
        (lambda it: it.by_name.clear(), "by_name"),
        (lambda it: it.entries.append(7), "entries"),
        (lambda it: object.__setattr__(it, "ratio", 7.0), "ratio"),
    ],
)
def test_what_is_changed_is_told_and_put_back(change, where):
    """Parts of all kinds, at any depth."""

    def make():
        numbers = np.array([1.0, np.nan, 2.0])
        return Anything("one", numbers, {"a": {"b": 1}}, [1, 2], (1, 2), 0.5)

    instance = make()
    guard = InstanceGuard(instance)
    change(instance)
    assert guard.restore() == [where]
    assert np.array_equal(instance.numbers, make().numbers, equal_nan=True)
    assert replace(instance, numbers=None) == replace(make(), numbers=None)
    assert guard.restore() == []
