"""Objects whose fields are declared once: `key` says rule, default and meaning of each.

A class made by `declared` checks its fields at construction by their rules. The same declarations
read documents (`parsed`), write them (`written`), are their JSON schema (`schema_of`), and list
the keys for people (`lyra_opt.core.described`). Tables of TOML files, whose fields are declared by
`key` in plain dataclasses, are checked as they are read.
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
from lyra_opt.core.errors import FieldError, MissingFieldError
from lyra_opt.core.foreign import as_python
from lyra_opt.core.frozen import FrozenDict
from lyra_opt.core.representations import html_of_object, short_repr
from lyra_opt.core.rows import rows_as_documents
from lyra_opt.core.rules import Number, OrNull, Rule, require_choice
from lyra_opt.core.texts import meant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from enum import StrEnum

    import numpy as np


TableT = TypeVar("TableT")

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_PLAN = "__declared_fields__"


@dataclass(frozen=True, slots=True)
class Key:
    """What is declared of a field; see `key`."""

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
        """Whether it has no default."""
        return self.default is MISSING

    @property
    def null_is_infinite(self) -> bool:
        """Whether data frames hold infinity for null, where a missing value says something else."""
        is_number = isinstance(self.rule, OrNull) and isinstance(self.rule.rule, Number)
        return is_number and self.default is not None

    @property
    def in_documents(self) -> str:
        """What documents call it, and errors."""
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
    """Return the field of a dataclass that stands for a key of documents.

    Parameters
    ----------
    rule
        What holds for its values.
    meaning
        A clause for people, with the unit.
    default
        Its value where it is left out, which need not keep the rule; without one it is required.
    computed
        Its value where it is left out or None, from the object with all other fields.
    shown
        The default in words, where the value does not say it.
    always_written
        Whether documents hold it even where it is the default.
    named
        What documents call it, where that is not the name of the field.
    """
    if isinstance(default, Mapping):
        default = FrozenDict(default)
    if computed is not None:
        default = None
    said = {
        "rule": rule,
        "meaning": meaning,
        "default": default,
        "computed": computed,
        "shown": shown,
        "always_written": always_written,
        "named": named,
    }
    return field(default=default, metadata=said)


class _Plan:
    """What is done with the fields of a class, worked out once."""

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
        # Documents may hold null only where a rule takes it; in Python None is "left out" too.
        self.not_null = tuple(
            (each.in_documents, each.rule) for each in self.keys if each.default is None
        )


def keys_of(table: type[Any]) -> tuple[Key, ...]:
    """Return the keys of a class, as declared, those of its bases first."""
    return _plan_of(table).keys


def is_declared(table: type[Any]) -> bool:
    """Return whether objects of a class keep what their keys hold; see `declared`."""
    plan: _Plan | None = vars(table).get(_PLAN)  # its own, not that of a base
    return plan is not None and plan.is_declared


def _plan_of(table: type[Any]) -> _Plan:
    plan: _Plan | None = vars(table).get(_PLAN)
    if plan is None:
        plan = _Plan(table, {}, is_declared=False)
        setattr(table, _PLAN, plan)
    return plan


BROKEN_RULE = "If a rule is broken; names the field, its value and the rule."
"""What is said of every declared class."""


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(key, field))
def declared(
    *, slots: bool = True, kw_only: bool = True, schema: Mapping[str, Any] | None = None
) -> Callable[[type[TableT]], type[TableT]]:
    """Return what makes a class a frozen dataclass whose fields keep their rules.

    At construction each field but those that are their default is checked by its rule and kept as
    the rule returns it: lists become tuples, mappings read-only. Then the class's own
    ``__post_init__`` runs, for what holds between fields. The meanings of the fields become the
    parameters of the docstring, which says too that broken rules are errors.

    Parameters
    ----------
    slots, kw_only
        As of `dataclasses.dataclass`; without slots for classes with cached properties.
    schema
        What the JSON schema says beside the rules of the fields, of what holds between them.
    """

    def make(table: type[TableT]) -> type[TableT]:
        made = dataclass(frozen=True, slots=slots, kw_only=kw_only, repr=False)(table)
        made.__repr__ = short_repr  # type: ignore[method-assign]
        setattr(made, "_repr_html_", html_of_object)  # noqa: B010 - asked for by notebooks
        plan = _Plan(made, schema or {}, is_declared=True)
        setattr(made, _PLAN, plan)
        made.__doc__ = _with_parameters(made.__doc__ or "", plan.keys)
        # mypy allows no method to be replaced
        setattr(made, "__init__", _constructor_of(made, plan.keys))  # noqa: B010
        if not slots:
            setattr(made, "__getstate__", _fields_alone)  # noqa: B010 - mypy knows the other one
        return made

    return make


def _constructor_of(table: type[Any], keys: tuple[Key, ...]) -> Callable[..., None]:
    """Return a constructor that checks each field and keeps the value that its rule returns.

    It stands in for the one that `dataclass` writes, which would set each field before it is
    checked; that one still raises `TypeError` for arguments that do not fit.
    """
    init = table.__init__
    between: Callable[[Any], None] | None = getattr(table, "__post_init__", None)
    arguments = [each for each in fields(table) if each.init]
    names = tuple(each.name for each in arguments)
    positional = tuple(each.name for each in arguments if not each.kw_only)
    known = frozenset(names)
    # Those of a base that declares no rules, such as `CheckReport`.
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

    @wraps(init)
    def construct(self: Any, *given: Any, **named: Any) -> None:
        values = {**dict(zip(positional, given, strict=False)), **named} if given else named
        fits = not given or len(values) == len(given) + len(named)
        if not (fits and required <= values.keys() <= known):
            unknown = next((name for name in named if name not in known), None)
            if unknown is None:
                init(self, *given, **named)
            hint = meant(unknown, names)
            raise TypeError(f"{type(self).__name__} has no field {unknown!r}; {hint}")
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
    """Return what is pickled of an object: no cached arrays, which would come back writeable."""
    return {each.name: getattr(of, each.name) for each in keys_of(type(of))}


def _unless_missing(check: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    """Return a check of a field that may be None, and so pandas' NA, which is left out then."""
    return lambda path, value: None if as_python(value) is None else check(path, value)


def _with_parameters(docstring: str, keys: tuple[Key, ...]) -> str:
    """Return a docstring with sections of parameters and errors before its other sections."""
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
    """Return an object that a document holds.

    Parameters
    ----------
    table
        A dataclass whose fields are made by `key`.
    value
        The object as decoded.
    path
        Where it stands in its document, for errors.
    beside
        Keys that it may have beside its own, which are passed over.

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
    """Return the rows of a data frame as documents hold objects; see `rows_as_documents`.

    Parameters
    ----------
    beside
        Names of columns that there may be beside its fields.
    """
    keys = keys_of(table)
    infinite = [each.name for each in keys if each.null_is_infinite]
    rules = {each.name: each.rule for each in keys}
    return rows_as_documents(frame, rules, infinite, beside)


def written(value: Any) -> dict[str, Any]:
    """Return an object as documents hold it, defaults left out; `parsed` reads it again."""
    document: dict[str, Any] = {}
    for name, path, write, is_always_written, default, computed in _plan_of(type(value)).writes:
        each = getattr(value, name)
        if is_always_written or each != (default if computed is None else computed(value)):
            document[path] = each if write is None else write(each)
    return document


@dataclass(frozen=True, slots=True)
class Table(Rule):
    """An object whose keys are the fields of a dataclass."""

    of: type[Any]

    @property
    def tables(self) -> tuple[type[Any], ...]:
        """Those whose keys a list of such tables is described by."""
        return (self.of,)

    def check(self, path: str, value: Any) -> Any:
        """See `Rule`."""
        return value if isinstance(value, self.of) else parsed(self.of, value, path)

    def write(self, value: Any) -> dict[str, Any]:
        """See `Rule`."""
        return written(value)

    def rows_of(self, frame: Any) -> Any:
        """See `Rule`."""
        return rows_of(frame, self.of)

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        return schema_of(self.of)

    def in_words(self) -> str:
        """See `Rule`."""
        return "table"


@dataclass(frozen=True, slots=True)
class OneOfTables(Rule):
    """An object whose key ``kind`` says which of several dataclasses has its other keys."""

    tables: tuple[type[Any], ...]

    def check(self, path: str, value: Any) -> Any:
        """See `Rule`."""
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
        """See `Rule`."""
        return {"kind": value.kind, **written(value)}

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        return {"oneOf": [schema_of(table, kind={"const": table.kind}) for table in self.tables]}

    def in_words(self) -> str:
        """See `Rule`."""
        return " or ".join(f'"{table.kind}"' for table in self.tables)


@dataclass(frozen=True, slots=True)
class Settings(Rule):
    """A table whose keys are the arguments of a dataclass that checks them itself.

    What they mean is read from its docstring.
    """

    of: type[Any]

    def check(self, path: str, value: Any) -> Any:
        """See `Rule`."""
        if isinstance(value, self.of):
            return value
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


def rule_at(table: type[Any], path: str) -> Rule | None:
    """Return the rule of the key at a path such as ``cluster.loans.gpu_type``; None without one."""
    name, _, rest = path.partition(".")
    rule = next((each.rule for each in keys_of(table) if each.name == name), None)
    if not rest:
        return rule
    return rule_at(rule.of, rest) if isinstance(rule, Table) else None


def schema_of(table: type[Any], **beside: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a table; `beside` are keys that stand before its own."""
    plan = _plan_of(table)
    properties: dict[str, Any] = dict(beside)
    for each in plan.keys:
        said = {**each.rule.schema(), "description": each.meaning}
        if plan.is_declared and each.default not in (MISSING, None):
            said["default"] = each.rule.write(each.default)
        properties[each.in_documents] = said
    required = [*beside, *plan.required]
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        **({"required": required} if required else {}),
        **plan.schema,
    }


def document_schema(table: type[Any], title: str) -> dict[str, Any]:
    """Return the JSON schema of a file whose keys are those of a table."""
    return {"$schema": _DRAFT, "title": title, **schema_of(table)}


def format_schema(
    format_name: str, version: int, description: str, schema: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the JSON schema of files of a format, with what no schema can say.

    Parameters
    ----------
    format_name, version
        What such files have as keys of these names.
    description
        What they hold, a sentence.
    schema
        Of their keys.
    """
    return {
        "$schema": _DRAFT,
        "$id": f"urn:{format_name.replace('/', ':')}:{version}",
        "title": format_name,
        "description": description,
        "$comment": "JSON Schema takes 8.0 for an integer, lyra-opt does not. Nor can it say what "
        "holds between keys, such as that ids are known: the parser of lyra-opt does.",
        **schema,
    }


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
        raise FieldError(name, inner, f"must be a table, so that {rest} can be set in it")
    try:
        changed[name] = with_change(inner, rest, value)
    except FieldError as error:
        raise error.inside(name) from None
    return changed


# Types of declared fields that take more than they keep, for type checkers alone: a list of
# dictionaries may be given where tuples of objects are kept, and a name where a variant is.
KeptT = TypeVar("KeptT")
GivenT = TypeVar("GivenT")
EntryT = TypeVar("EntryT")
VariantT = TypeVar("VariantT", bound="StrEnum")


class Field(Generic[KeptT, GivenT]):
    """A field that is given as one type and read as another."""

    @overload
    def __get__(self, instance: None, owner: type) -> Field[KeptT, GivenT]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> KeptT: ...
    def __get__(self, instance: object, owner: type) -> Any:
        """Return what is kept."""

    def __set__(self, instance: object, value: GivenT) -> None:
        """Take what is given."""


class Frame(Protocol):
    """What type checkers know of a data frame, whether they know pandas or not."""

    @property
    def columns(self) -> Any:
        """Its columns."""


TupleOf: TypeAlias = Field[tuple[EntryT, ...], "Sequence[EntryT] | np.ndarray"]
"""Scalars, or an array of them."""

TablesOf: TypeAlias = Field[
    tuple[EntryT, ...], "Sequence[EntryT | Mapping[str, Any]] | Sequence[EntryT] | Frame"
]
"""Objects, each of which may be given as a document holds it, or all of them as a data frame."""

VariantOf: TypeAlias = Field[VariantT, VariantT | str]
"""A member of an enumeration, or its name."""
