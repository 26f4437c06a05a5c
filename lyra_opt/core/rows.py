"""Conversion of the rows of pandas data frames into dictionaries of field values."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lyra_opt.core.errors import FieldError
from lyra_opt.core.foreign import as_python
from lyra_opt.core.rules import Integer, Named, OrNull, Rule


def rows_as_documents(
    frame: Any, rules: Mapping[str, Rule], infinite: Collection[str], beside: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return each row of a data frame as a dictionary of field values, without missing cells.

    A whole number of type float64 becomes an integer if its field is an integer, because pandas
    turns a column of integers with missing values into floats. A column such as ``gpus.V100``
    becomes an entry of the mapping ``gpus``. An index with the name of a field becomes a column.
    Time O(rows times columns).

    Parameters
    ----------
    frame
        A data frame with one column per field.
    rules
        The rules of the fields, by name.
    infinite
        Fields in which an infinite number stands for null.
    beside
        Names of further columns that the frame may have.
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
    """Return the mapping field that a column such as ``gpus.V100`` belongs to, and its rule.

    For any other column, the field is the empty string, and the rule is that of the column.
    """
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
