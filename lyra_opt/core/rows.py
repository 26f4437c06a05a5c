"""Rows of pandas data frames as documents hold objects."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import FieldError
from lyra_opt.core.foreign import as_python
from lyra_opt.core.rules import Integer, Named, OrNull, Rule

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


def rows_as_documents(
    frame: Any, rules: Mapping[str, Rule], infinite: Collection[str], beside: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return the rows of a frame as documents hold them; what is missing is left out.

    A whole number of type float64 is an integer where one is asked for, since pandas makes floats
    of a column of integers as soon as one is missing. Columns such as ``gpus.V100`` are entries of
    a mapping. An index that is called like a field is a column. Time O(rows times columns).

    Parameters
    ----------
    frame
        With a column a field.
    rules
        Those of the fields, by name.
    infinite
        Fields whose null an infinite number stands for.
    beside
        Names of columns that there may be beside the fields.
    """
    if frame.index.name in (*rules, *beside):
        frame = frame.reset_index()
    names = [str(name) for name in frame.columns]
    for name in names:
        if names.count(name) > 1:
            raise FieldError(name, name, "two columns have this name")
    records: list[dict[str, Any]] = [{} for _ in range(len(frame))]
    for place, name in enumerate(names):
        key, rule = _entry_of_a_mapping(name, names, rules)
        for record, value in zip(records, frame.iloc[:, place].tolist(), strict=True):
            if _is_missing(value):
                continue
            kept = _as_integer(value) if _is_integer(rule) else value
            if name in infinite and kept == math.inf:
                kept = None
            if key:
                record.setdefault(key, {})[name[len(key) + 1 :]] = kept
            else:
                record[name] = kept
    return records


def _entry_of_a_mapping(
    column: str, columns: Sequence[str], rules: Mapping[str, Rule]
) -> tuple[str, Rule | None]:
    """Return the field of which a column is an entry, empty if none, and the rule of its values."""
    field, dot, _ = column.partition(".")
    rule = rules.get(field)
    rule = rule.rule if isinstance(rule, OrNull) else rule
    if dot and isinstance(rule, Named) and column not in rules and field not in columns:
        return field, rule.rule
    return "", rules.get(column)


def _is_integer(rule: Rule | None) -> bool:
    return isinstance(rule.rule if isinstance(rule, OrNull) else rule, Integer)


def _as_integer(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_missing(value: Any) -> bool:
    return as_python(value) is None or (isinstance(value, float) and value != value)
