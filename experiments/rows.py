"""Records as rows of plain values: SQLite stores them, and workers on other machines return them.

A row comes from a file or a machine that anybody may have changed. So every value is compared with
the type of its column before a record is made of it.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from lyra_opt.core.errors import FieldError
from lyra_opt.experiments.records import BESIDE, FLAG, JSON, MOMENT, NUMBER, RunRecord, StudyRecord

if TYPE_CHECKING:
    from collections.abc import Mapping
    from dataclasses import Field

    from lyra_opt.core.result import Number

LARGEST_STORED_INTEGER = 2**63 - 1
LARGEST_PARAMETER = 2**53
"""The largest integer parameter of a family: pictures draw parameters as floats."""
RecordT = TypeVar("RecordT", StudyRecord, RunRecord)

_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "text"),
    "int": ((int,), "an integer"),
    "bool": ((int,), "0 or 1"),
    "float": ((int, float), "a number"),
    "Number": ((int, float), "a number"),
    "AxisValue": ((str, int, float), "text or a number"),
    "str | int": ((str, int), "text or an integer"),
    "str | None": ((str, type(None)), "text or null"),
    "Mapping": ((dict,), "a JSON object"),
    "Sequence": ((list,), "a JSON list"),
}
"""What a value has to be, by the annotation of its column, or of the entries of its column."""

_MOMENT = re.compile(r"(19|20)\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?\+00:00")
_INTEGER = re.compile(r"-?[0-9]{1,300}")  # more digits do not fit a float


def columns_of(record: type[StudyRecord | RunRecord]) -> list[Field[Any]]:
    """Return the fields of a record that are columns of its table."""
    return [column for column in fields(record) if column.metadata != BESIDE]


def encoded(record: StudyRecord | RunRecord) -> dict[str, Any]:
    """Return the columns of a record, by name, as texts, integers, floats and None."""
    row = {}
    for column in columns_of(type(record)):
        value = getattr(record, column.name)
        if value is None:
            pass
        elif column.metadata == JSON:
            value = json.dumps(value, separators=(",", ":"))
        elif column.metadata == NUMBER:
            value = _storable(value)
        elif isinstance(value, str):  # a message may hold anything that a solver's error holds
            value = value.encode("utf-8", "backslashreplace").decode()
        row[column.name] = value
    return row


def decoded(kind: type[RecordT], row: Mapping[str, Any]) -> RecordT:
    """Return the record of a row.

    Raises
    ------
    FieldError
        If a column is missing, is unknown or breaks its rule; names it.
    """
    known = columns_of(kind)
    for name in row.keys() ^ {column.name for column in known}:
        raise FieldError(name, row.get(name), "missing, or not a column of this table")
    values = {column.name: _decoded(column, row[column.name]) for column in known}
    statuses = getattr(kind, "statuses", None)
    if statuses is not None:
        if values["status"] not in list(statuses):
            raise FieldError("status", values["status"], f"must be one of {', '.join(statuses)}")
        values["status"] = statuses(values["status"])
    record = kind(**values)
    record.check()
    return record


def _decoded(column: Field[Any], value: Any) -> Any:
    annotation = str(column.type)
    if value is None and annotation.endswith("| None"):
        return None
    if column.metadata == JSON:
        return _decoded_json(column.name, annotation, value)
    if column.metadata == NUMBER and isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    name = "str" if column.name == "status" else annotation.removesuffix(" | None")
    _require(column.name, value, name)
    if isinstance(value, float) and not math.isfinite(value) and column.metadata != NUMBER:
        raise FieldError(column.name, value, "must be finite")
    if column.metadata == MOMENT:
        _require_moment(column.name, value)
    if column.metadata == FLAG and value not in (0, 1):
        raise FieldError(column.name, value, "must be 0 or 1")
    return bool(value) if column.metadata == FLAG else value


def _decoded_json(name: str, annotation: str, text: Any) -> Any:
    _require(name, text, "str")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise FieldError(name, text, "must be JSON") from None
    if value is None and annotation.endswith("| None"):
        return None
    kind, _, rest = annotation.removesuffix(" | None").partition("[")
    _require(name, value, kind)
    entry_type = rest.removesuffix("]").removeprefix("str, ")
    if entry_type in _TYPES:
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for key, entry in entries:
            _require(f"{name}.{key}", entry, entry_type)
    return value


def _require(name: str, value: Any, annotation: str) -> None:
    types, words = _TYPES[annotation]
    if not isinstance(value, types):
        shown = f"{len(value)} bytes" if isinstance(value, bytes) else value
        raise FieldError(name, shown, f"must be {words}")
    if annotation == "str | int" and isinstance(value, int) and abs(value) > LARGEST_PARAMETER:
        raise FieldError(name, value, f"must be from -{LARGEST_PARAMETER} to {LARGEST_PARAMETER}")


def _require_moment(name: str, value: str) -> None:
    try:
        is_moment = _MOMENT.fullmatch(value) and datetime.fromisoformat(value)
    except ValueError:  # such as 30 February
        is_moment = None
    if not is_moment:
        raise FieldError(name, value, "must be a time such as 2026-01-31T12:00:00.000+00:00")


def _storable(number: Number) -> Number | str:
    """Return the number, as text where it is an integer of more than 64 bits."""
    if isinstance(number, int) and not -LARGEST_STORED_INTEGER <= number <= LARGEST_STORED_INTEGER:
        return str(number)
    return number
