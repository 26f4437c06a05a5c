"""Descriptions of the keys of file formats, as plain text and as Markdown tables."""

from collections.abc import Iterable, Iterator
from dataclasses import MISSING, dataclass, replace
from textwrap import wrap
from typing import Any

from lyra_opt.core.documents import join_path
from lyra_opt.core.errors import show_value
from lyra_opt.core.fields import Key, OneOfTables, Settings, Table, keys_of
from lyra_opt.core.rules import ListOf, Named, OrNull

_KINDS = {bool: "true or false", int: "integer", float: "number", tuple: "list of: number"}


@dataclass(frozen=True, slots=True)
class Described:
    """The description of one key: its path, allowed values, default and meaning."""

    path: str
    values: str
    default: str
    meaning: str


def described(table: type[Any], path: str = "") -> Iterator[Described]:
    """Yield a description of every key of a dataclass, including keys of nested dataclasses."""
    for each in keys_of(table):
        rule, place = each.rule, join_path(path, each.in_documents)
        if isinstance(rule, Table):
            yield from described(rule.of, place)
        elif isinstance(rule, OneOfTables):
            kind = join_path(place, "kind")
            yield Described(kind, rule.in_words(), _default(each), each.meaning)
            for inner in rule.tables:
                for row in described(inner, place):
                    yield replace(row, meaning=f"of kind {inner.kind}: {row.meaning}")
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
            yield Described(place, rule.in_words(), _default(each), each.meaning)
            if isinstance(rule, OrNull) and isinstance(rule.rule, Table):
                yield from described(rule.rule.of, place)


def markdown_table(rows: Iterable[Described]) -> str:
    """Return descriptions of keys as a Markdown table."""
    lines = ["| key | values | default | meaning |", "| --- | --- | --- | --- |"]
    for row in rows:
        cells = (f"`{row.path}`", row.values, row.default, row.meaning)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def keys_text(keys: type[Any] | Iterable[Described], columns: int) -> str:
    """Return a plain-text list of keys, each with its allowed values, default and meaning."""
    lines = []
    for each in described(keys) if isinstance(keys, type) else keys:
        head = f"{each.path}  ({each.values}; default: {each.default})"
        lines += wrap(head, columns, subsequent_indent=" " * 8)
        lines += [f"    {line}" for line in wrap(each.meaning, columns - 4)]
    return "\n".join(lines)


def _default(each: Key) -> str:
    if each.shown:
        return each.shown
    if each.default is MISSING:
        return "required"
    if each.default is None or each.default == () or each.default == {}:
        return "none"
    default = each.rule.write(each.default)
    return show_value(list(default) if isinstance(default, tuple) else default)
