"""Hypothesis strategies for documents, derived from the declared rules of their fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from lyra_opt.core.fields import schema_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy

    from lyra_opt.core.documents import JsonObject

LONGEST = 4
"""Most entries of a list or an object, and most characters of a string."""


def documents_of(table: type[Any]) -> SearchStrategy[JsonObject]:
    """Return a strategy for JSON objects in which every field keeps its own rule.

    Rules between fields may be broken.

    Parameters
    ----------
    table
        A class with declared fields; see `lyra_opt.core.fields`.
    """
    return values_of(schema_of(table))


def values_of(schema: JsonObject) -> SearchStrategy[Any]:
    """Return a strategy for JSON values that conform to a schema of declared fields."""
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    for choices in ("anyOf", "oneOf"):
        if choices in schema and "type" not in schema:
            return st.one_of([values_of(each) for each in schema[choices]])
    by_type: dict[str, Callable[[], SearchStrategy[Any]]] = {
        "null": st.none,
        "boolean": st.booleans,
        "integer": lambda: st.integers(schema["minimum"], schema["maximum"]),
        "number": lambda: _numbers(schema),
        "string": _texts,
        "array": lambda: _lists(schema),
        "object": lambda: _objects(schema),
    }
    return by_type[schema["type"]]()


def _numbers(schema: JsonObject) -> SearchStrategy[float]:
    least = schema.get("exclusiveMinimum", schema.get("minimum"))
    return st.floats(
        least,
        schema.get("maximum"),
        exclude_min="exclusiveMinimum" in schema,
        allow_nan=False,
        allow_infinity=False,
    )


def _texts() -> SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=LONGEST)


def _lists(schema: JsonObject) -> SearchStrategy[list[Any]]:
    if "prefixItems" in schema:
        return st.tuples(*map(values_of, schema["prefixItems"])).map(list)
    return st.lists(
        values_of(schema["items"]),
        min_size=schema.get("minItems", 0),
        max_size=LONGEST,
        unique_by=repr if schema.get("uniqueItems") else None,
    )


def _objects(schema: JsonObject) -> SearchStrategy[JsonObject]:
    least = schema.get("minProperties", 0)
    if isinstance(schema["additionalProperties"], dict):
        values = values_of(schema["additionalProperties"])
        return st.dictionaries(_texts(), values, min_size=least, max_size=LONGEST)
    required = schema.get("required", ())
    fields = {name: values_of(each) for name, each in schema["properties"].items()}
    return st.fixed_dictionaries(
        {name: fields[name] for name in fields if name in required},
        optional={name: fields[name] for name in fields if name not in required},
    ).filter(lambda drawn: len(drawn) >= least)
