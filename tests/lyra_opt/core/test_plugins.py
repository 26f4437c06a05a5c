"""Objects found by name: those that are there, and those of somebody's own that are broken."""

import pickle
import subprocess
import sys
from dataclasses import dataclass

import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.core.plugins import Plugins
from tests.tables import tables

TABLES = tables(__file__)


@dataclass
class Point:
    """An entry point that loads, or does not."""

    name: str
    loaded: object

    value = "x:Y"

    def load(self):
        if isinstance(self.loaded, Exception):
            raise self.loaded
        return self.loaded


@pytest.fixture
def fruit(monkeypatch):
    """Return a function that makes a group of strings called fruits."""

    def make(*points):
        monkeypatch.setattr("lyra_opt.core.plugins.entry_points", lambda group: points)
        return Plugins("tests.fruits", "fruit", str)

    return make


def test_found_by_name(fruit):
    """In order, each loaded once."""
    fruits = fruit(Point("pear", "P"), Point("apple", "A"))
    assert fruits.names() == ["apple", "pear"]
    assert fruits.all() == {"apple": "A", "pear": "P"}
    assert fruits.find("pear") is fruits.find("pear")


@pytest.mark.parametrize(("name", "message"), TABLES["refused"])
def test_refused(name, message, fruit):
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


def test_those_of_a_problem_by_their_own_name(fruit):
    """A class is made into an object; what calls itself otherwise is refused."""
    fruits = fruit(Point("apple.pip", Pip), Point("apple.seed", Pip), Point("pear.pip", Pip))
    fruits._kind = None
    assert fruits.names("apple") == ["pip", "seed"]
    assert isinstance(fruits.find("pip", "apple"), Pip)
    with pytest.raises(UserError, match=r"'apple.seed': x:Y has the name 'apple.pip'"):
        fruits.find("seed", "apple")
    with pytest.raises(UserError, match=r"'pear.pip': x:Y has the name"):
        fruits.find("pip", "pear")
    with pytest.raises(
        UserError, match="fruit 'stone': unknown fruit for problem pear; known: pip$"
    ):
        fruits.find("stone", "pear")
    with pytest.raises(UserError, match="fruit 'seed': is a fruit of apple, not of pear$"):
        fruits.find("seed", "pear")


OWN = TABLES["own"]


@pytest.fixture
def own(tmp_path):
    """Return a file that defines a few fruits, and imports one beside it."""
    (tmp_path / "beside.py").write_text("KERNEL = 3\n")
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return path


@pytest.fixture
def fruits():
    """Return a group without entry points."""
    return Plugins("tests.no-fruits", "fruit", needs=("name",))


class TestOwn:
    """What is no entry point: objects, classes, and what is in a file."""

    def test_found_in_a_file(self, fruits, own):
        """Made once, with modules beside the file, and anew when the file has changed."""
        found = fruits.find(f"{own}:Pip", "apple")
        assert (found.name, found.kernel) == ("own-pip", 3)
        assert fruits.of(f"{own}:Pip") is found
        own.write_text(OWN.replace("own-pip", "new-pip"))
        assert fruits.find(f"{own}:Pip").name == "new-pip"

    def test_objects_of_a_file_reach_other_processes(self, fruits, own):
        """A fresh process, which has not been told of the file, unpickles them."""
        sent = pickle.dumps(fruits.find(f"{own}:Pip"))
        read = "pickle.loads(sys.stdin.buffer.read())"
        code = f"import lyra_opt.core.plugins, pickle, sys; print({read}.name)"
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, input=sent, capture_output=True, check=True)
        assert done.stdout.decode() == "own-pip\n"

    def test_classes_and_objects(self, fruits):
        """A class is made into an object, an object is what it is."""
        pip = Pip()
        assert isinstance(fruits.of(Pip), Pip)
        assert fruits.of(pip, "apple") is pip

    @pytest.mark.parametrize(("name", "message"), TABLES["nothing_of_the_kind"])
    def test_nothing_of_the_kind(self, name, message, fruits, own):
        """The file has nothing of the name, or something else."""
        with pytest.raises(UserError, match=message):
            fruits.find(f"{own}:{name}")

    def test_a_file_alone(self, fruits, own):
        """Does not say what in it is meant."""
        with pytest.raises(
            UserError, match="name the class or object to load from it, such as .*own.py:NAME"
        ):
            fruits.find(str(own))

    def test_another_problem(self, fruits, own):
        """Is named, for a file and for an object, also when it has been found before."""
        for given in (f"{own}:Pip", Pip, Pip(), f"{own}:Pip"):
            fruits.of(given, "apple")
            with pytest.raises(UserError, match=r"Pip'? is a fruit of apple, not of pear$"):
                fruits.of(given, "pear")
