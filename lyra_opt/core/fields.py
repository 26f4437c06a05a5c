"""Dataclasses whose fields declare a validation rule, a default and a description.

A class made by `declared` checks its fields at construction. The same declarations read documents
(`parsed`), write them (`written`), give their JSON schema (`schema_of`) and list the keys for users
(`lyra_opt.core.described`). Tables of TOML files are plain dataclasses whose fields are declared by
`key`; they are checked when a file is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import wraps
from inspect import cleandoc
from textwrap import indent, wrap
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Protocol,
    TypeAlias,
    TypeVar,
    dataclass_transform,
    overload,
)

from lyra_opt.core.documents import Record, join_path, unknown_key
from lyra_opt.core.errors import FieldError, MissingFieldError, UserError, without_inner_frames
from lyra_opt.core.foreign import as_python
from lyra_opt.core.frozen import FrozenDict
from lyra_opt.core.nearest_names import meant
from lyra_opt.core.representations import html_of_object, short_repr
from lyra_opt.core.rows import rows_as_documents
from lyra_opt.core.rules import Number, OrNull, Rule, located, require_choice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from enum import StrEnum

    import numpy as np


TableT = TypeVar("TableT")

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_PLAN = "__declared_fields__"


@dataclass(frozen=True, slots=True)
class Key:
    """The declaration of one field, with its name, rule, default and description."""

    name: str
    rule: Rule
    meaning: str
    default: Any = MISSING
    computed: Callable[[Any], Any] | None = None
    shown: str = ""
    always_written: bool = False
    named: str = ""

    @property
    def is_required(self) -> bool:
        """Whether the field has no default."""
        return self.default is MISSING

    @property
    def null_is_infinite(self) -> bool:
        """Whether a data frame stores null as infinity, as a missing cell means the default."""
        is_number = isinstance(self.rule, OrNull) and isinstance(self.rule.rule, Number)
        return is_number and self.default is not None

    @property
    def in_documents(self) -> str:
        """The name of the field in documents and in errors."""
        return self.named or self.name


def key(
    rule: Rule,
    meaning: str,
    default: Any = MISSING,
    *,
    computed: Callable[[Any], Any] | None = None,
    shown: str = "",
    always_written: bool = False,
    named: str = "",
) -> Any:
    """Declare a dataclass field with a validation rule, which is also a key in files.

    Parameters
    ----------
    rule
        The rule for its values.
    meaning
        A phrase that explains the field to users, with its unit.
    default
        The value if the key is left out; it need not keep the rule. Without a default the key is
        required.
    computed
        A function that computes the value from the object if the key is left out or None.
    shown
        The default in words, for defaults that do not explain themselves.
    always_written
        Whether documents contain the key even if its value is the default.
    named
        The name in documents, if it differs from the name of the field.
    """
    if isinstance(default, Mapping):
        default = FrozenDict(default)
    if computed is not None:
        default = None
    metadata = {
        "rule": rule,
        "meaning": meaning,
        "default": default,
        "computed": computed,
        "shown": shown,
        "always_written": always_written,
        "named": named,
    }
    return field(default=default, metadata=metadata)


class _Plan:
    """The precomputed instructions for reading and writing the fields of one class."""

    def __init__(self, table: type[Any], schema: Mapping[str, Any], *, is_declared: bool) -> None:
        self.keys = tuple(
            Key(each.name, **each.metadata) for each in fields(table) if "rule" in each.metadata
        )
        self.schema = schema
        self.is_declared = is_declared
        self.names = {each.in_documents: each.name for each in self.keys}
        self.is_renamed = any(each.named for each in self.keys)
        self.required = tuple(each.in_documents for each in self.keys if each.is_required)
        self.writes = tuple(
            (
                each.name,
                each.in_documents,
                None if type(each.rule).write is Rule.write else each.rule.write,
                each.is_required or each.always_written,
                each.default,
                each.computed,
            )
            for each in self.keys
        )
        # None leaves a field out in Python; in a document, the field's rule must allow null.
        self.not_null = tuple(
            (each.in_documents, each.rule) for each in self.keys if each.default is None
        )


def keys_of(table: type[Any]) -> tuple[Key, ...]:
    """Return the field declarations of a class in order, beginning with its base classes."""
    return _plan_of(table).keys


def is_declared(table: type[Any]) -> bool:
    """Return whether `declared` decorates the class itself, not only one of its base classes."""
    plan: _Plan | None = vars(table).get(_PLAN)  # `vars` ignores the base classes
    return plan is not None and plan.is_declared


def _plan_of(table: type[Any]) -> _Plan:
    plan: _Plan | None = vars(table).get(_PLAN)
    if plan is None:
        plan = _Plan(table, {}, is_declared=False)
        setattr(table, _PLAN, plan)
    return plan


BROKEN_RULE = "If a rule is broken; names the field, its value and the rule."
"""The text of the section "Raises" in the docstring of every declared class."""


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(key, field))
def declared(
    *, slots: bool = True, kw_only: bool = True, schema: Mapping[str, Any] | None = None
) -> Callable[[type[TableT]], type[TableT]]:
    """Return a decorator that makes a class a frozen dataclass with validated fields.

    At construction each field is checked by its rule, unless its value is the default, and stored
    as the rule returns it: lists become tuples, and mappings become read-only. Then the class's own
    ``__post_init__`` checks the rules between fields. The decorator adds sections "Parameters" and
    "Raises" to the docstring.

    Parameters
    ----------
    slots, kw_only
        As for `dataclasses.dataclass`; classes with cached properties need ``slots=False``.
    schema
        Entries of the JSON schema for rules between fields.
    """

    def make(table: type[TableT]) -> type[TableT]:
        made = dataclass(frozen=True, slots=slots, kw_only=kw_only, repr=False)(table)
        made.__repr__ = short_repr  # type: ignore[method-assign]
        setattr(made, "_repr_html_", html_of_object)  # noqa: B010 - notebooks call it
        plan = _Plan(made, schema or {}, is_declared=True)
        setattr(made, _PLAN, plan)
        made.__doc__ = _with_parameters(made.__doc__ or "", plan.keys)
        setattr(made, "__init__", _constructor_of(made, plan.keys))  # noqa: B010 - mypy
        if not slots:
            setattr(made, "__getstate__", _fields_alone)  # noqa: B010 - mypy
        return made

    return make


def _constructor_of(table: type[Any], keys: tuple[Key, ...]) -> Callable[..., None]:
    """Return a constructor that checks each field and stores the value that its rule returns.

    It replaces the constructor of `dataclass`, which would set each field before it is checked.
    Calls with wrong arguments are passed to the old constructor, which raises `TypeError`.
    """
    init = table.__init__
    between: Callable[[Any], None] | None = getattr(table, "__post_init__", None)
    arguments = [each for each in fields(table) if each.init]
    names = tuple(each.name for each in arguments)
    positional = tuple(each.name for each in arguments if not each.kw_only)
    known = frozenset(names)
    # Fields of a base class without rules, such as `CheckReport`, are not checked.
    without_rule = {each.name: each.default for each in arguments if "rule" not in each.metadata}
    required = frozenset(each.name for each in keys if each.is_required)
    checks = tuple(
        (
            each.name,
            each.in_documents,
            each.rule.check if each.default is not None else _unless_missing(each.rule.check),
            each.default,
        )
        for each in keys
    )
    computed = tuple((each.name, each.computed) for each in keys if each.computed is not None)
    keep = object.__setattr__

    @without_inner_frames
    @wraps(init)
    def construct(self: Any, *given: Any, **named: Any) -> None:
        values = {**dict(zip(positional, given, strict=False)), **named} if given else named
        fits = not given or len(values) == len(given) + len(named)
        if not (fits and required <= values.keys() <= known):
            unknown = next((name for name in named if name not in known), None)
            if unknown is not None:
                hint = meant(unknown, names)
                raise UserError(f"{type(self).__name__} has no field {unknown!r}; {hint}")
            if fits:
                missing = next(name for name in names if name in required - values.keys())
                raise UserError(f"{type(self).__name__} needs the field {missing}")
            init(self, *given, **named)
        for name, default in without_rule.items():
            keep(self, name, values.get(name, default))
        for name, path, check, default in checks:
            value = values.get(name, default)
            keep(self, name, value if value is default else check(path, value))
        for name, value_of in computed:
            if getattr(self, name) is None:
                keep(self, name, value_of(self))
        if between is not None:
            between(self)

    return construct


def _fields_alone(of: Any) -> dict[str, Any]:
    """Return an object's fields for pickling, without cached values.

    A cached array would become writeable.
    """
    return {each.name: getattr(of, each.name) for each in keys_of(type(of))}


def _unless_missing(check: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    """Return a check for an optional field that accepts None and pandas' NA as "left out"."""
    return lambda path, value: None if as_python(value) is None else check(path, value)


def _with_parameters(docstring: str, keys: tuple[Key, ...]) -> str:
    """Return a docstring with the sections "Parameters" and "Raises" added."""
    lines = ["Parameters", "----------"]
    for each in keys:
        lines += [each.name, indent("\n".join(wrap(each.meaning, 92)), "    ")]
    text = cleandoc(docstring)
    head, rest = text, ""
    for title in ("Raises", "Notes"):
        before, found, after = text.partition(f"\n\n{title}\n{'-' * len(title)}\n")
        if found and len(before) < len(head):
            head, rest = before, found + after
    if "Raises\n------\n" not in rest:
        lines += ["", "Raises", "------", "FieldError", f"    {BROKEN_RULE}"]
    return f"{head}\n\n" + "\n".join(lines) + rest


def parsed(
    table: type[TableT], value: object, path: str = "", *, beside: tuple[str, ...] = ()
) -> TableT:
    """Build an object of class `table` from a decoded JSON or TOML document, checking its fields.

    Parameters
    ----------
    table
        A dataclass whose fields are made by `key`.
    value
        The object as decoded.
    path
        The path of the object in its document, for errors.
    beside
        Further keys that the object may have; they are ignored.

    Raises
    ------
    FieldError
        If a key is unknown or missing, or a value breaks its rule.
    """
    plan = _plan_of(table)
    if type(value) is not dict and not isinstance(value, Mapping):
        raise FieldError(path, value, "must be an object")
    given = value
    if beside:
        given = {name: each for name, each in value.items() if name not in beside}
    if not plan.names.keys() >= given.keys():
        unknown = next(name for name in given if name not in plan.names)
        known = (*beside, *plan.names)
        raise FieldError(join_path(path, str(unknown)), given[unknown], unknown_key(unknown, known))
    for name in plan.required:
        if name not in given:
            raise MissingFieldError(join_path(path, name))
    try:
        if not plan.is_declared:
            rules = {each.in_documents: each.rule for each in plan.keys}
            given = {name: rules[name].check(name, each) for name, each in given.items()}
        for name, rule in plan.not_null:
            if name in given and given[name] is None:
                rule.check(name, None)
        if plan.is_renamed:
            given = {plan.names[name]: each for name, each in given.items()}
        return table(**given)
    except FieldError as error:
        raise error.inside(path) if path else error from None


def rows_of(frame: Any, table: type[Any], *beside: str) -> list[dict[str, Any]]:
    """Return each row of a data frame as a dictionary of field values for the class `table`.

    Parameters
    ----------
    beside
        Names of further columns that the frame may have.
    """
    keys = keys_of(table)
    infinite = [each.name for each in keys if each.null_is_infinite]
    rules = {each.name: each.rule for each in keys}
    return rows_as_documents(frame, rules, infinite, beside)


def written(value: Any) -> dict[str, Any]:
    """Return an object as a JSON-ready dictionary, without fields that have default values."""
    document: dict[str, Any] = {}
    for name, path, write, is_always_written, default, computed in _plan_of(type(value)).writes:
        each = getattr(value, name)
        if is_always_written or each != (default if computed is None else computed(value)):
            document[path] = each if write is None else write(each)
    return document


@dataclass(frozen=True, slots=True)
class Table(Rule):
    """The rule for an object whose keys are the fields of a dataclass."""

    of: type[Any]

    @property
    def tables(self) -> tuple[type[Any], ...]:
        """The dataclass of the object, as a tuple with one entry."""
        return (self.of,)

    def check(self, path: str, value: Any) -> Any:
        """Return a decoded JSON object as an instance of the rule's dataclass."""
        return value if isinstance(value, self.of) else parsed(self.of, value, path)

    def write(self, value: Any) -> dict[str, Any]:
        """Return the object as a document, without fields that have default values."""
        return written(value)

    def rows_of(self, frame: Any) -> Any:
        """Return one document per row of a data frame."""
        return rows_of(frame, self.of)

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the dataclass."""
        return schema_of(self.of)

    def in_words(self) -> str:
        """Return the word "table"."""
        return "table"


@dataclass(frozen=True, slots=True)
class OneOfTables(Rule):
    """The rule for an object whose key ``kind`` selects the dataclass of its other keys."""

    tables: tuple[type[Any], ...]

    def check(self, path: str, value: Any) -> Any:
        """Return the object as an instance of the dataclass that its ``kind`` selects."""
        if isinstance(value, self.tables):
            return value
        if type(value) is not dict and not isinstance(value, Mapping):
            raise FieldError(path, value, "must be an object")
        by_kind = {table.kind: table for table in self.tables}
        if "kind" not in value:
            raise MissingFieldError(join_path(path, "kind"))
        kind = require_choice(join_path(path, "kind"), value["kind"], by_kind)
        return parsed(by_kind[kind], value, path, beside=("kind",))

    def write(self, value: Any) -> dict[str, Any]:
        """Return the object as a document that begins with its ``kind``."""
        return {"kind": value.kind, **written(value)}

    def schema(self) -> dict[str, Any]:
        """Return a JSON schema with one alternative per ``kind``."""
        return {"oneOf": [schema_of(table, kind={"const": table.kind}) for table in self.tables]}

    def in_words(self) -> str:
        """Return the possible values of ``kind``, joined by "or"."""
        return " or ".join(f'"{table.kind}"' for table in self.tables)


@dataclass(frozen=True, slots=True)
class Settings(Rule):
    """The rule for an object whose keys are the arguments of a dataclass with its own checks.

    The meanings of the keys are read from the docstring of the dataclass.
    """

    of: type[Any]

    def check(self, path: str, value: Any) -> Any:
        """Return an instance of the dataclass, constructed with the given keys as arguments."""
        if isinstance(value, self.of):
            return value
        known = [each.name for each in fields(self.of)]
        given = Record(value, path, known).chosen(*known)
        for name, default, _ in self.arguments():
            is_list = isinstance(given.get(name), list | tuple)
            if name in given and isinstance(default, tuple) and not is_list:
                raise FieldError(join_path(path, name), given[name], "must be a list")
        arguments = {
            name: tuple(each) if isinstance(each, list) else each for name, each in given.items()
        }
        with located(path):
            return self.of(**arguments)

    def schema(self) -> dict[str, Any]:
        """Return a JSON schema with the type and the meaning of each argument."""
        names = {bool: "boolean", int: "number", float: "number", str: "string", tuple: "array"}
        properties = {
            name: {"type": names[type(default)], "description": meaning}
            for name, default, meaning in self.arguments()
        }
        return {"type": "object", "additionalProperties": False, "properties": properties}

    def in_words(self) -> str:
        """Return the word "table"."""
        return "table"

    def arguments(self) -> Iterator[tuple[str, Any, str]]:
        """Yield (name, default, meaning) of each argument of the dataclass."""
        meanings = _documented(self.of)
        for each in fields(self.of):
            yield each.name, each.default, meanings.get(each.name, "")


def _documented(of: type[Any]) -> dict[str, str]:
    """Return the descriptions of parameters in a class's docstring, by parameter name."""
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


def rule_at(table: type[Any], path: str) -> Rule | None:
    """Return the rule of the key at a path such as ``cluster.loans.gpu_type``; None if unknown."""
    name, _, rest = path.partition(".")
    rule = next((each.rule for each in keys_of(table) if each.name == name), None)
    if not rest:
        return rule
    return rule_at(rule.of, rest) if isinstance(rule, Table) else None


def schema_of(table: type[Any], **beside: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a dataclass, preceded by the schemas `beside` of further keys."""
    plan = _plan_of(table)
    properties: dict[str, Any] = dict(beside)
    for each in plan.keys:
        schema = {**each.rule.schema(), "description": each.meaning}
        if plan.is_declared and each.default not in (MISSING, None):
            schema["default"] = each.rule.write(each.default)
        properties[each.in_documents] = schema
    required = [*beside, *plan.required]
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        **({"required": required} if required else {}),
        **plan.schema,
    }


def document_schema(table: type[Any], title: str) -> dict[str, Any]:
    """Return the JSON schema of a file that has the keys of a table."""
    return {"$schema": _DRAFT, "title": title, **schema_of(table)}


def format_schema(
    format_name: str, version: int, description: str, schema: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the JSON schema of a file format, with a comment on rules that no schema can express.

    Parameters
    ----------
    format_name, version
        The values of the keys ``format`` and ``version`` in such files.
    description
        A sentence on the content of such files.
    schema
        The schema of the keys.
    """
    return {
        "$schema": _DRAFT,
        "$id": f"urn:{format_name.replace('/', ':')}:{version}",
        "title": format_name,
        "description": description,
        "$comment": "JSON Schema accepts 8.0 as an integer; lyra-opt refuses it. A schema cannot "
        "state rules between keys, such as that an id is known; lyra-opt checks them.",
        **schema,
    }


def with_change(document: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a document with one key changed or added; missing tables on its path are created.

    Raises
    ------
    FieldError
        If a value on the path is not a table.
    """
    name, _, rest = path.partition(".")
    changed = dict(document)
    if not rest:
        changed[name] = value
        return changed
    inner = changed.get(name, {})
    if not isinstance(inner, dict):
        raise FieldError(name, inner, f"must be a table, so that {rest} can be set in it")
    with located(name):
        changed[name] = with_change(inner, rest, value)
    return changed


# For type checkers only: the type that a field accepts may differ from the type it stores.
# For example, a field given as a list of dictionaries is stored as a tuple of objects.
KeptT = TypeVar("KeptT")
GivenT = TypeVar("GivenT")
EntryT = TypeVar("EntryT")
VariantT = TypeVar("VariantT", bound="StrEnum")


class Field(Generic[KeptT, GivenT]):
    """A field, for type checkers, that accepts one type and stores another."""

    @overload
    def __get__(self, instance: None, owner: type) -> Field[KeptT, GivenT]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> KeptT: ...
    def __get__(self, instance: object, owner: type) -> Any:
        """Return the stored value."""

    def __set__(self, instance: object, value: GivenT) -> None:
        """Accept a value of a type that the field converts."""


class Frame(Protocol):
    """A data frame as type checkers see it, whether pandas is installed or not."""

    @property
    def columns(self) -> Any:
        """The columns of the frame."""


TupleOf: TypeAlias = Field[tuple[EntryT, ...], "Sequence[EntryT] | np.ndarray"]
"""A field that accepts a sequence or an array and stores a tuple of scalars."""

TablesOf: TypeAlias = Field[
    tuple[EntryT, ...], "Sequence[EntryT | Mapping[str, Any]] | Sequence[EntryT] | Frame"
]
"""A field that accepts objects, their documents or a data frame, and stores a tuple of objects."""

VariantOf: TypeAlias = Field[VariantT, VariantT | str]
"""A field that accepts a variant or its name and stores the variant."""
