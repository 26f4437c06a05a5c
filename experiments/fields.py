"""Tables of a TOML file as dataclasses, each key declared once.

A key is a field of a frozen dataclass made by `key`, which says its rule, its default and what it
means; `parsed` reads a table, `schema_of` returns its JSON schema, and `described` lists the keys
for people.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from inspect import cleandoc
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lyra_opt.core.documents import Record, join_path
from lyra_opt.core.errors import FieldError, show_value
from lyra_opt.core.validation import (
    require_choice,
    require_flag,
    require_integer,
    require_number,
    require_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

TableT = TypeVar("TableT")

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Rule(Protocol):
    """What holds for the values of a key."""

    def check(self, path: str, value: object) -> Any:
        """Return the value, made what the program works with; `FieldError` if it is wrong."""

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the values."""

    def in_words(self) -> str:
        """Return what values there are, in a few words."""


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer from `least` to `most`."""

    least: int = 0
    most: int = 2**53 - 1

    def check(self, path: str, value: object) -> int:
        """See `Rule`."""
        return require_integer(path, value, minimum=self.least, maximum=self.most)

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        return {"type": "integer", "minimum": self.least, "maximum": self.most}

    def in_words(self) -> str:
        """See `Rule`."""
        return f"integer of at least {self.least}"


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number of at least, or above, `least`, and at most `most`."""

    least: float = 0.0
    most: float | None = None
    above: bool = False

    def check(self, path: str, value: object) -> float:
        """See `Rule`."""
        number = require_number(path, value, minimum=self.least, above=self.above)
        if self.most is not None and number > self.most:
            raise FieldError(path, value, f"must be at most {self.most:g}")
        return number

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        bounds = {"exclusiveMinimum" if self.above else "minimum": self.least}
        return {"type": "number", **bounds, **({} if self.most is None else {"maximum": self.most})}

    def in_words(self) -> str:
        """See `Rule`."""
        most = "" if self.most is None else f", at most {self.most:g}"
        return f"number {'above' if self.above else 'of at least'} {self.least:g}{most}"


@dataclass(frozen=True, slots=True)
class Text:
    """A string that is not empty; one of `choices` if there are any."""

    choices: tuple[str, ...] = ()

    def check(self, path: str, value: object) -> str:
        """See `Rule`."""
        if self.choices:
            return require_choice(path, value, self.choices)
        return require_text(path, value)

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        return {"enum": list(self.choices)} if self.choices else {"type": "string", "minLength": 1}

    def in_words(self) -> str:
        """See `Rule`."""
        return " or ".join(f'"{choice}"' for choice in self.choices) or "text"


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    def check(self, path: str, value: object) -> bool:
        """See `Rule`."""
        return require_flag(path, value)

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        return {"type": "boolean"}

    def in_words(self) -> str:
        """See `Rule`."""
        return "true or false"


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list that is not empty, of values that keep a rule; none twice if they are `distinct`."""

    rule: Rule
    distinct: bool = False

    def check(self, path: str, value: object) -> tuple[Any, ...]:
        """See `Rule`."""
        if not isinstance(value, list) or not value:
            raise FieldError(path, value, "must be a list that is not empty")
        found: dict[Any, None] = {}
        entries = []
        for position, each in enumerate(value):
            entry = self.rule.check(f"{path}[{position}]", each)
            if self.distinct and entry in found:
                raise FieldError(f"{path}[{position}]", each, "must not occur twice")
            if self.distinct:
                found[entry] = None
            entries.append(entry)
        return tuple(entries)

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        unique = {"uniqueItems": True} if self.distinct else {}
        return {"type": "array", "items": self.rule.schema(), "minItems": 1, **unique}

    def in_words(self) -> str:
        """See `Rule`."""
        return f"list of: {self.rule.in_words()}"


@dataclass(frozen=True, slots=True)
class OneOrList:
    """A value that keeps a rule, or a list of such values, none of them twice."""

    rule: Rule

    def check(self, path: str, value: object) -> tuple[Any, ...]:
        """See `Rule`."""
        if isinstance(value, list):
            return ListOf(self.rule, distinct=True).check(path, value)
        return (self.rule.check(path, value),)

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        return {"anyOf": [self.rule.schema(), ListOf(self.rule, distinct=True).schema()]}

    def in_words(self) -> str:
        """See `Rule`."""
        return f"{self.rule.in_words()}, or list of them"


@dataclass(frozen=True, slots=True)
class Seeds:
    """A number of seeds from 0 on, at most `most`, or a list of them."""

    most: int

    def check(self, path: str, value: object) -> tuple[int, ...]:
        """See `Rule`."""
        if isinstance(value, list):
            return ListOf(Integer(), distinct=True).check(path, value)
        return tuple(range(Integer(1, self.most).check(path, value)))

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        listed = ListOf(Integer(), distinct=True)
        return {"anyOf": [Integer(1, self.most).schema(), listed.schema()]}

    def in_words(self) -> str:
        """See `Rule`."""
        return "number of seeds from 0 on, or list of them"


@dataclass(frozen=True, slots=True)
class Line:
    """Text on one line, for titles and pages, which cannot show control characters."""

    def check(self, path: str, value: object) -> str:
        """See `Rule`."""
        text = require_text(path, value)
        if not text.isprintable():
            raise FieldError(path, text, "must be printable text on one line")
        return text

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        return Text().schema()

    def in_words(self) -> str:
        """See `Rule`."""
        return "text"


@dataclass(frozen=True, slots=True)
class Name:
    """A name that is fit for a folder."""

    def check(self, path: str, value: object) -> str:
        """See `Rule`."""
        name = require_text(path, value)
        if not NAME.fullmatch(name):
            raise FieldError(
                path,
                name,
                "must begin with a letter or digit, go on with those, '.', '_' or '-', at most 100",
            )
        return name

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        return {"type": "string", "pattern": f"^{NAME.pattern}$"}

    def in_words(self) -> str:
        """See `Rule`."""
        return "text"


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose keys are the fields of a dataclass."""

    of: type[Any]

    @property
    def tables(self) -> tuple[type[Any], ...]:
        """Those whose keys a list of such tables is described by."""
        return (self.of,)

    def check(self, path: str, value: object) -> Any:
        """See `Rule`."""
        return parsed(self.of, value, path)

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        return schema_of(self.of)

    def in_words(self) -> str:
        """See `Rule`."""
        return "table"


@dataclass(frozen=True, slots=True)
class Settings:
    """A table whose keys are the arguments of a dataclass that checks them itself.

    What they mean is read from its docstring.
    """

    of: type[Any]

    def check(self, path: str, value: object) -> Any:
        """See `Rule`."""
        known = [each.name for each in fields(self.of)]
        given = Record(value, path, known).chosen(*known)
        for name, default, _ in self.arguments():
            if name in given and isinstance(default, tuple) and not isinstance(given[name], list):
                raise FieldError(join_path(path, name), given[name], "must be a list")
        arguments = {
            name: tuple(each) if isinstance(each, list) else each for name, each in given.items()
        }
        try:
            return self.of(**arguments)
        except FieldError as error:
            raise error.inside(path) from None

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        names = {bool: "boolean", int: "number", float: "number", str: "string", tuple: "array"}
        properties = {
            name: {"type": names[type(default)], "description": meaning}
            for name, default, meaning in self.arguments()
        }
        return {"type": "object", "additionalProperties": False, "properties": properties}

    def in_words(self) -> str:
        """See `Rule`."""
        return "table"

    def arguments(self) -> Iterator[tuple[str, Any, str]]:
        """Yield name, default and meaning of each."""
        meanings = _documented(self.of)
        for each in fields(self.of):
            yield each.name, each.default, meanings.get(each.name, "")


def _documented(of: type[Any]) -> dict[str, str]:
    """Return what the docstring of a class says of its parameters, by name."""
    section = cleandoc(of.__doc__ or "").partition("Parameters\n----------\n")[2]
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line in section.partition("\n\n")[0].splitlines():
        if line and not line.startswith(" "):
            names = line.split(", ")
        else:
            for name in names:
                found.setdefault(name, []).append(line.strip())
    return {name: " ".join(lines) for name, lines in found.items()}


@dataclass(frozen=True, slots=True)
class Named:
    """A table with names of the user's own as keys, and values that keep a rule."""

    rule: Rule

    def check(self, path: str, value: object) -> dict[str, Any]:
        """See `Rule`."""
        if not isinstance(value, dict):
            raise FieldError(path, value, "must be a table")
        return {name: self.rule.check(join_path(path, name), each) for name, each in value.items()}

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        return {"type": "object", "additionalProperties": self.rule.schema()}

    def in_words(self) -> str:
        """See `Rule`."""
        return f"table by name of: {self.rule.in_words()}"


@dataclass(frozen=True, slots=True)
class Anything:
    """A value whose rule is that of what takes it."""

    def check(self, path: str, value: object) -> Any:  # noqa: ARG002
        """See `Rule`."""
        return tuple(value) if isinstance(value, list) else value

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        return {}

    def in_words(self) -> str:
        """See `Rule`."""
        return "any value"


def key(rule: Rule, meaning: str, default: Any = MISSING, *, shown: str = "") -> Any:
    """Return the field of a table's dataclass that stands for a key.

    Parameters
    ----------
    rule
        What holds for its values.
    meaning
        A clause for people, with the unit.
    default
        Its value where it is left out, which need not keep the rule; without one it is required.
    shown
        The default in words, where the value does not say it.
    """
    said = {"rule": rule, "meaning": meaning, "shown": shown, "default": default}
    if isinstance(default, Mapping):  # dataclasses take it for one that might change
        return field(default_factory=lambda: default, metadata=said)
    return field(default=default, metadata=said)


def parsed(table: type[TableT], value: object, path: str = "") -> TableT:
    """Return a table of a document.

    Parameters
    ----------
    table
        A dataclass whose fields are made by `key`.
    value
        The table as decoded.
    path
        Where it stands in its document, for errors.

    Raises
    ------
    FieldError
        If a key is unknown or missing, or a value breaks its rule.
    """
    declared = {each.name: each for each in fields(table)}  # type: ignore[arg-type]
    record = Record(value, path, declared)
    values = {}
    for name, each in declared.items():
        if name in record:
            values[name] = each.metadata["rule"].check(join_path(path, name), record.required(name))
        elif each.metadata["default"] is MISSING:
            record.required(name)
    try:
        return table(**values)
    except FieldError as error:
        if path and not error.field.startswith(path):
            raise error.inside(path) from None
        raise


def rule_at(table: type[Any], path: str) -> Rule | None:
    """Return the rule of the key at a path such as ``cluster.loans.gpu_type``; None without one."""
    name, _, rest = path.partition(".")
    rule: Rule | None = next(
        (each.metadata["rule"] for each in fields(table) if each.name == name), None
    )
    if not rest:
        return rule
    return rule_at(rule.of, rest) if isinstance(rule, Table) else None


def schema_of(table: type[Any]) -> dict[str, Any]:
    """Return the JSON schema of a table."""
    properties, required = {}, []
    for each in fields(table):
        rule = each.metadata["rule"]
        properties[each.name] = {**rule.schema(), "description": each.metadata["meaning"]}
        if each.metadata["default"] is MISSING:
            required.append(each.name)
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        **({"required": required} if required else {}),
    }


def document_schema(table: type[Any], title: str) -> dict[str, Any]:
    """Return the JSON schema of a file whose keys are those of a table."""
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": draft, "title": title, **schema_of(table)}


_KINDS = {bool: "true or false", int: "integer", float: "number", tuple: "list of: number"}


@dataclass(frozen=True, slots=True)
class Described:
    """A key, for people; its path, its values, its default and what it means."""

    path: str
    values: str
    default: str
    meaning: str


def described(table: type[Any], path: str = "") -> Iterator[Described]:
    """Yield every key of a table and of those in it, in order."""
    for each in fields(table):
        rule, place = each.metadata["rule"], join_path(path, each.name)
        if isinstance(rule, Table):
            yield from described(rule.of, place)
        elif isinstance(rule, Settings):
            for name, default, meaning in rule.arguments():
                shown = show_value(list(default) if isinstance(default, tuple) else default)
                yield Described(join_path(place, name), _KINDS[type(default)], shown, meaning)
        elif isinstance(rule, Named) and isinstance(rule.rule, Table):
            yield from described(rule.rule.of, f"{place}.NAME")
        elif isinstance(rule, ListOf) and (tables := getattr(rule.rule, "tables", ())):
            for inner in tables:
                yield from described(inner, f"{place}[]")
        else:
            yield Described(place, rule.in_words(), _default(each), each.metadata["meaning"])


def keys_text(table: type[Any], columns: int = 100) -> str:
    """Return every key of a table with its values, its default and what it means, for people."""
    lines = []
    for each in described(table):
        head = f"{each.path}  ({each.values}; default: {each.default})"
        lines += wrap(head, columns, subsequent_indent=" " * 8)
        lines += [f"    {line}" for line in wrap(each.meaning, columns - 4)]
    return "\n".join(lines)


def _default(each: Any) -> str:
    if each.metadata["shown"]:
        return str(each.metadata["shown"])
    if each.metadata["default"] is MISSING:
        return "required"
    default = each.metadata["default"]
    if default is None or default == () or default == {}:
        return "none"
    return show_value(list(default) if isinstance(default, tuple) else default)


def with_change(document: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a document with the value of a key changed or added; tables on its way are made.

    Raises
    ------
    FieldError
        If something on the way is no table.
    """
    name, _, rest = path.partition(".")
    changed = dict(document)
    if not rest:
        changed[name] = value
        return changed
    inner = changed.get(name, {})
    if not isinstance(inner, dict):
        raise FieldError(name, inner, f"is no table, so that {rest} of it cannot be set")
    try:
        changed[name] = with_change(inner, rest, value)
    except FieldError as error:
        raise error.inside(name) from None
    return changed
