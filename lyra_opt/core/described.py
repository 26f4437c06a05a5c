"""Fields that are declared, as people read them: on the terminal, in Markdown, as data frames."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import join_path
from lyra_opt.core.errors import show_value
from lyra_opt.core.fields import Key, Settings, Table, keys_of
from lyra_opt.core.rules import ListOf, Named

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    for each in keys_of(table):
        rule, place = each.rule, join_path(path, each.name)
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
            yield Described(place, rule.in_words(), _default(each), each.meaning)


def keys_text(table: type[Any], columns: int = 100) -> str:
    """Return every key of a table with its values, its default and what it means, for people."""
    lines = []
    for each in described(table):
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
