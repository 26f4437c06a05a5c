"""Conversion between objects with declared fields and pandas data frames."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from lyra_opt.core.errors import FieldError, MissingFieldError
from lyra_opt.core.fields import Key, Table, keys_of, rows_of
from lyra_opt.core.foreign import is_frame
from lyra_opt.core.rules import ListOf

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pandas as pd

InstanceT = TypeVar("InstanceT")


class Column(NamedTuple):
    """A column of a data frame: the name of a field, its pandas type and its meaning."""

    name: str
    dtype: str
    meaning: str


def columns_of(table: type[Any]) -> tuple[Column, ...]:
    """Return the data-frame columns for objects of a class, in the order of its fields."""
    return tuple(
        Column(each.name, each.rule.dtype, each.meaning)
        for each in keys_of(table)
        if not _has_own_frame(each)
    )


def frame_of(table: type[Any], objects: Sequence[Any]) -> pd.DataFrame:
    """Return a data frame with one row per object and one column per field.

    Lists and mappings become cells, except lists that have a data frame of their own. A null that
    means "no limit" becomes infinity. Time O(objects times fields).

    Parameters
    ----------
    table
        The class of the objects, made by `lyra_opt.core.fields.declared`.
    objects
        The objects, such as the servers or the jobs of an instance; may be empty.
    """
    import pandas as pd

    columns = {}
    rules = {each.name: each for each in keys_of(table)}
    for column in columns_of(table):
        values = [getattr(each, column.name) for each in objects]
        if rules[column.name].null_is_infinite:
            values = [math.inf if value is None else value for value in values]
        columns[column.name] = pd.Series(values, dtype=column.dtype)
    return pd.DataFrame(columns)


def frames_of(instance: Any) -> dict[str, pd.DataFrame]:
    """Return a data frame for each list of objects in an instance, and for each inner list.

    Time O(entries times fields).
    """
    found = {}
    for outer in _lists_of_tables(type(instance)):
        objects = getattr(instance, outer.name)
        found[outer.name] = frame_of(outer.of, objects)
        for inner in _lists_of_tables(outer.of):
            of = [(each, entry) for each in objects for entry in getattr(each, inner.name)]
            frame = frame_of(inner.of, [entry for _, entry in of])
            names = [getattr(each, outer.unique) for each, _ in of]
            frame.insert(0, inner.parent, names)
            found[inner.name] = frame
    return found


def of_frames(table: type[InstanceT], given: Mapping[str, Any]) -> InstanceT:
    """Build an object of a class from its fields, where a data frame can replace a list.

    The data frame of an inner list has a column that names the outer entry of each row.

    Raises
    ------
    FieldError
        If a rule is broken; names frame, row (from 0) and column, such as ``workers[3].server``.
    """
    arguments = dict(given)
    row_of: dict[str, int] = {}
    for outer in _lists_of_tables(table):
        if not is_frame(given.get(outer.name)):
            continue
        records = rows_of(given[outer.name], outer.of)
        arguments[outer.name] = records
        for inner in _lists_of_tables(outer.of):
            if inner.name in given:
                nested = _in_their_entries(outer, records, inner, arguments.pop(inner.name))
                row_of |= nested
    try:
        return table(**arguments)
    except FieldError as error:
        place = re.match(r"\w+\[\d+\]\.\w+\[\d+\]", error.field)
        if place is None or place[0] not in row_of:
            raise
        field = f"{place[0].rpartition('.')[2].partition('[')[0]}[{row_of[place[0]]}]"
        field += error.field[place.end() :]
        if isinstance(error, MissingFieldError):
            raise MissingFieldError(field) from None
        raise FieldError(field, error.value, error.rule) from None


def _in_their_entries(
    outer: _Listed, records: list[dict[str, Any]], inner: _Listed, frame: Any
) -> dict[str, int]:
    """Move the rows of an inner list's data frame into the outer records that the rows name.

    Return the row number for the path of each inserted entry.
    """
    parent = inner.parent
    position_of = {each.get(outer.unique): place for place, each in enumerate(records)}
    row_of = {}
    for record in records:
        if inner.name in record:
            rule = f"cannot be combined with the data frame {inner.name}"
            raise FieldError(f"{outer.name}.{inner.name}", record[inner.name], rule)
    for row, entry in enumerate(rows_of(frame, inner.of, parent)):
        if parent not in entry:
            raise MissingFieldError(f"{inner.name}[{row}].{parent}")
        name = entry.pop(parent)
        if name not in position_of:
            rule = f"must be the {outer.unique} of one of the {outer.name}"
            raise FieldError(f"{inner.name}[{row}].{parent}", name, rule)
        position = position_of[name]
        entries = records[position].setdefault(inner.name, [])
        row_of[f"{outer.name}[{position}].{inner.name}[{len(entries)}]"] = row
        entries.append(entry)
    return row_of


class _Listed(NamedTuple):
    """A field that contains a list of objects, with the class of the objects.

    `unique` and `parent` have the same meaning as in `lyra_opt.core.rules.ListOf`.
    """

    name: str
    of: type[Any]
    unique: str
    parent: str


def _lists_of_tables(table: type[Any]) -> Iterator[_Listed]:
    for each in keys_of(table):
        if isinstance(each.rule, ListOf) and isinstance(each.rule.rule, Table):
            yield _Listed(each.name, each.rule.rule.of, each.rule.unique, each.rule.parent)


def _has_own_frame(each: Key) -> bool:
    return isinstance(each.rule, ListOf) and bool(each.rule.parent)
