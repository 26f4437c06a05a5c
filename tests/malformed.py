"""Documents with one defect each and the errors that name it, from ``malformed.toml``."""

import json
import re
from copy import deepcopy
from typing import Any, NamedTuple

from lyra_opt.instances.library import library
from tests.tables import tables

ABSENT = object()
"""The value of a field that is left out."""


class Defect(NamedTuple):
    """A change that makes a valid document malformed, and the error that names it."""

    changes: dict[str, Any]
    """Values by field, such as ``jobs[0].id``; `ABSENT` removes the field."""
    error: str
    """A part of the error message; an error that begins with "is" follows the field's name."""

    @property
    def expected(self):
        """A part of the error message, with the name of the field."""
        field = next(iter(self.changes))
        return f"{field} {self.error}" if self.error.startswith("is ") else self.error

    def __str__(self):
        """The name of the test case: the message up to its first colon."""
        return self.expected.partition(":")[0]

    def in_(self, document):
        """Return a copy of the document that has the defect."""
        return changed(document, self.changes)


def changed(document, changes):
    """Return a copy of a document with new values by field; `ABSENT` removes a field."""
    copy = deepcopy(document)
    for place, value in changes.items():
        target = copy
        *path, last = re.findall(r"[^.\[\]]+", place)
        for step in path:
            target = target[int(step) if isinstance(target, list) else step]
        key = int(last) if isinstance(target, list) else last
        if value is ABSENT:
            del target[key]
        else:
            target[key] = value
    return copy


class Malformed(NamedTuple):
    """A valid document of a format, and its defects."""

    valid: dict[str, Any]
    by_form: list[Defect]
    """Defects that a JSON Schema finds."""
    by_rule: list[Defect]
    """Defects that only the parser finds: NaN, 1.0 for 1, references, sums."""


def _defect(fields, *rest):
    *value, error = rest
    if isinstance(fields, dict):
        return Defect({name: _value(each) for name, each in fields.items()}, error)
    return Defect({fields: _value(value[0]) if value else ABSENT}, error)


def _value(value):
    return None if value == "null" else value


def _malformed(valid, **defects):
    if not valid.startswith("{"):
        valid = (library().folder / f"{valid}.json").read_text()
    by_form, by_rule = (
        [_defect(*row) for row in defects.get(name, ())] for name in ("by_form", "by_rule")
    )
    return Malformed(json.loads(valid), by_form, by_rule)


INSTANCES, SOLUTIONS = (
    {name: _malformed(**table) for name, table in kind.items()}
    for kind in tables(__file__).values()
)
"""Malformed documents by problem; solutions also by form, such as ``allocation-schedule``."""


def defects(table, *, by_form_only=False):
    """Return every defect of a table, each with the name of its document."""
    return [
        (name, defect)
        for name, malformed in table.items()
        for defect in malformed.by_form + ([] if by_form_only else malformed.by_rule)
    ]
