"""Objects found by name: those that are there, and those of somebody's own that are broken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.core.plugins import Plugins

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Point:
    """An entry point that loads, or does not."""

    name: str
    loaded: object

    value = "x:Y"

    def load(self) -> object:
        if isinstance(self.loaded, Exception):
            raise self.loaded
        return self.loaded


@pytest.fixture
def fruit(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Plugins]:
    """Return a function that makes a group of strings called fruits."""

    def make(*points: Point) -> Plugins:
        monkeypatch.setattr("lyra_opt.core.plugins.entry_points", lambda group: points)
        return Plugins("tests.fruits", "fruit", str)

    return make


def test_found_by_name(fruit: Callable[..., Plugins]) -> None:
    """In order, each loaded once."""
    fruits = fruit(Point("pear", "P"), Point("apple", "A"))
    assert fruits.names() == ["apple", "pear"]
    assert fruits.all() == {"apple": "A", "pear": "P"}
    assert fruits.find("pear") is fruits.find("pear")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("plum", "fruit 'plum': must be one of: apple, broken, odd$"),
        ("broken", "fruit 'broken': x:Y cannot be loaded: no such module$"),
        ("odd", "fruit 'odd': x:Y is no fruit$"),
    ],
)
def test_refused(name: str, message: str, fruit: Callable[..., Plugins]) -> None:
    """With the names of all, or with what is wrong; others can be had all the same."""
    fruits = fruit(
        Point("apple", "A"), Point("broken", ImportError("no such module")), Point("odd", 7)
    )
    with pytest.raises(UserError, match=message):
        fruits.find(name)
    assert fruits.find("apple") == "A"


class Pip:
    """A solver that cannot do anything but say what it is."""

    name, problem = "pip", "apple"


def test_those_of_a_problem_by_their_own_name(fruit: Callable[..., Plugins]) -> None:
    """A class is made into an object; what calls itself otherwise is refused."""
    fruits = fruit(Point("apple.pip", Pip), Point("apple.seed", Pip), Point("pear.pip", Pip))
    fruits._kind = None
    assert fruits.names("apple") == ["pip", "seed"]
    assert isinstance(fruits.find("pip", "apple"), Pip)
    with pytest.raises(UserError, match=r"'apple.seed': x:Y calls itself 'apple.pip'"):
        fruits.find("seed", "apple")
    with pytest.raises(UserError, match=r"'pear.pip': x:Y calls itself"):
        fruits.find("pip", "pear")
    with pytest.raises(UserError, match="no such fruit for the problem pear; known: pip$"):
        fruits.find("stone", "pear")
