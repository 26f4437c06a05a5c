"""Keys of tables that are declared once: what is read, refused, described and said to editors."""

import copy
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.described import described
from lyra_opt.core.errors import FieldError, UserError
from lyra_opt.core.fields import Settings, Table, key, parsed, rule_at, schema_of, with_change
from lyra_opt.core.rules import Anything, Flag, Integer, ListOf, Named, Number, Text
from lyra_opt.instances.family import generate
from lyra_opt.reclaim import Instance
from tests.tables import tables

TABLES = tables(__file__)


@dataclass(frozen=True)
class Checked:
    """Checks its arguments itself.

    Parameters
    ----------
    share
        Of something, at most 1.
    parts
        Of it.
    """

    share: float = 0.5
    parts: tuple[float, ...] = (1.0,)

    def __post_init__(self):
        if self.share > 1:
            raise FieldError("share", self.share, "must be at most 1")


@dataclass(frozen=True, kw_only=True)
class Inner:
    """A table in a table."""

    count: int = key(Integer(1, 9), "how many")
    share: float = key(Number(0, 1, above=True), "a part", 0.5)

    def __post_init__(self):
        if self.count == 7:
            raise FieldError("count", self.count, "must not be unlucky")


@dataclass(frozen=True, kw_only=True)
class Outer:
    """A table."""

    name: str = key(Text(), "called so")
    kind: str = key(Text(("a", "b")), "of two", "a")
    on: bool = key(Flag(), "whether", False)
    inner: Inner | None = key(Table(Inner), "inside", None, shown="nothing")
    rows: tuple[Inner, ...] = key(ListOf(Table(Inner)), "several", ())
    named: Mapping[str, Inner] = key(Named(Table(Inner)), "by name", {})
    checked: Checked = key(Settings(Checked), "checked", Checked())
    free: Any = key(Anything(), "whatever", None)


FULL = {
    "name": "x",
    "kind": "b",
    "on": True,
    "inner": {"count": 3, "share": 1},
    "rows": [{"count": 1}, {"count": 2, "share": 0.25}],
    "named": {"one": {"count": 9}},
    "checked": {"share": 0.75, "parts": [1.0, 0.5]},
    "free": [1, 2],
}


def test_everything_is_read():
    """Tables, lists of them, tables by name, and arguments of another class."""
    found = parsed(Outer, FULL)
    assert (found.name, found.kind, found.on) == ("x", "b", True)
    assert found.inner == Inner(count=3, share=1.0)
    assert found.rows == (Inner(count=1), Inner(count=2, share=0.25))
    assert found.named == {"one": Inner(count=9)}
    assert found.checked == Checked(0.75, (1.0, 0.5))
    assert found.free == (1, 2)
    assert parsed(Outer, {"name": "y"}) == Outer(name="y")


@pytest.mark.parametrize(("path", "value", "field", "part"), TABLES["wrong_values"])
def test_what_is_wrong_is_named(path, value, field, part):
    """By its path, with the rule, and the nearest key where one is unknown."""
    with pytest.raises(FieldError) as caught:
        parsed(Outer, with_change(FULL, path, value))
    assert caught.value.field == field
    assert part in str(caught.value)


def test_what_is_missing_is_named():
    """A key without a default."""
    with pytest.raises(FieldError, match=r"inner\.count is missing"):
        parsed(Outer, {"name": "x", "inner": {}})


@given(st.dictionaries(st.sampled_from(list(FULL)), st.sampled_from([0, "x", True, [], {}, 0.5])))
def test_schema_and_parser_agree(changes):
    """Whatever the schema refuses is refused; what it takes breaks at most a rule of its own."""
    document = {**FULL, **changes}
    validator = jsonschema.Draft202012Validator(schema_of(Outer))
    try:
        parsed(Outer, document)
    except FieldError:
        return
    assert validator.is_valid(document)


def test_keys_are_described():
    """Each with its path, values, default and meaning, those of other classes too."""
    found = {each.path: each for each in described(Outer)}
    assert list(found) == [
        *("name", "kind", "on", "inner.count", "inner.share", "rows[].count", "rows[].share"),
        *("named.NAME.count", "named.NAME.share", "checked.share", "checked.parts", "free"),
    ]
    assert (found["name"].default, found["kind"].default) == ("required", '"a"')
    assert found["kind"].values == '"a" or "b"'
    assert (found["checked.share"].meaning, found["checked.share"].default) == (
        "Of something, at most 1.",
        "0.5",
    )


def test_rules_are_found_by_path():
    """Through tables; a path that leads nowhere has none."""
    assert isinstance(rule_at(Outer, "inner.count"), Integer)
    assert isinstance(rule_at(Outer, "name"), Text)
    for path in ("nothing", "inner.nothing", "name.x"):
        assert rule_at(Outer, path) is None


def test_changes_make_tables_on_their_way():
    """And leave the document as it was."""
    document = {"a": {"b": 1}}
    assert with_change(document, "a.c.d", 2) == {"a": {"b": 1, "c": {"d": 2}}}
    assert document == {"a": {"b": 1}}
    with pytest.raises(FieldError, match="must be a table, so that"):
        with_change(document, "a.b.c", 2)


@pytest.mark.parametrize("copied", [lambda it: pickle.loads(pickle.dumps(it)), copy.deepcopy])
def test_copies_are_as_frozen_as_what_they_are_of(copied):
    """At the border of a process arrays would be writeable again."""
    instance = generate("reclaim", "messy-dist", servers=9, reclaim=3, seed=1)
    again = copied(instance)
    assert again == instance
    index = again.index
    arrays = [index.weight, index.slack, index.on_loan, *index.losses, *index.base, *index.gpus]
    assert not any(array.flags.writeable for array in arrays)


def test_a_constructor_names_the_nearest_field():
    """An argument that does not exist is a slip of one that does; a missing one has its name."""
    with pytest.raises(UserError, match="has no field 'reclaim_gpus'; did you mean reclaim_serv"):
        Instance(reclaim_gpus=3)
    with pytest.raises(UserError, match="Instance needs the field reclaim_servers"):
        Instance(name="x")


def test_a_constructor_takes_its_own_arguments_alone():
    """Fields are given by name where a class says so, and those that it computes not at all."""
    given = {"servers": [{"id": "a", "gpus": 8}], "jobs": [], "reclaim_servers": 1}
    with pytest.raises(TypeError, match="positional"):
        Instance("x", **given)
    with pytest.raises(UserError, match="has no field 'index'; known: .* jobs$"):
        Instance(index=None, **given)
