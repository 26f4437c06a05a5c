"""Representations of objects: short text in a terminal, and HTML in a notebook."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import one_line
from lyra_opt.core.texts import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jinja2 import Template

MOST_ENTRIES, FIRST_ENTRIES = 8, 3
"""Longest list that a `repr` shows in full, and the number of entries that it shows of longer
lists."""

MOST_ROWS, LONGEST_TEXT, LONGEST_FACT = 5, 60, 400
"""In a notebook: rows of a table, characters of a table cell, and characters of any other text."""

LARGEST_DRAWN = 24
"""Largest size of an instance, such as its number of servers, of which notebooks show a picture."""

LEFT = "text-align: left; padding-right: 1em; word-break: normal"


def short_repr(value: Any) -> str:
    """Return the `repr` of a dataclass with long lists cut, and the number of omitted entries."""
    shown = ", ".join(
        f"{each.name}={_short(getattr(value, each.name))}" for each in fields(value) if each.repr
    )
    return f"{type(value).__qualname__}({shown})"


def sizes_of(value: Any) -> str:
    """Return the fields of an instance on one line: lists by their length, empty ones left out.

    Assumptions are left out too, because they are sentences.
    """
    parts = []
    for each in fields(value):
        entry = getattr(value, each.name)
        is_text = each.name in ("name", "assumptions")
        if not each.repr or is_text or entry is None or entry in ((), {}, False):
            continue
        is_list = isinstance(entry, tuple | Mapping)
        parts.append(
            f"{len(entry):,} {words(each.name)}" if is_list else f"{words(each.name)} {entry}"
        )
    return one_line(f"{value.problem} instance {value.name}: {', '.join(parts)}")


def _short(value: Any) -> str:
    if isinstance(value, StrEnum):
        return repr(str(value))
    if not isinstance(value, tuple | Mapping) or len(value) <= MOST_ENTRIES:
        return repr(value)
    more = f"... {len(value) - FIRST_ENTRIES:,} more"
    if isinstance(value, Mapping):
        pairs = list(value.items())[:FIRST_ENTRIES]
        return f"{{{', '.join(f'{key!r}: {entry!r}' for key, entry in pairs)}, {more}}}"
    return f"({', '.join(map(repr, value[:FIRST_ENTRIES]))}, {more})"


def html_of(
    title: str,
    facts: Mapping[str, str],
    tables: Sequence[Mapping[str, Any]] = (),
    picture: str = "",
) -> str:
    """Return HTML for a notebook, without scripts; all text is escaped.

    Parameters
    ----------
    title
        The heading.
    facts
        Texts by name, shown as a table with two columns.
    tables
        Each with ``caption``, ``columns``, ``rows`` and ``more``, a text on the rows left out.
    picture
        SVG, shown on a white background.
    """
    return _template().render(
        title=one_line(title), facts=facts, tables=tables, picture=picture, left=LEFT
    )


def html_of_object(value: Any) -> str:
    """Return HTML for a dataclass: a table of its fields, and one table for each list of objects.

    A small instance of a problem also gets a picture.
    """
    given = {each.name: getattr(value, each.name) for each in fields(value) if each.repr}
    lists = {
        name: entries
        for name, entries in given.items()
        if isinstance(entries, tuple) and entries and is_dataclass(entries[0])
    }
    facts = {
        words(name): _cell(entry, LONGEST_FACT)
        for name, entry in given.items()
        if name not in lists and entry != ""
    }
    problem = getattr(value, "problem", None)
    title = type(value).__name__ if problem is None else f"{problem} {type(value).__name__.lower()}"
    picture = "" if problem is None else picture_of(value)
    return html_of(title, facts, [_table(*each) for each in lists.items()], picture)


def picture_of(instance: Any, answer: Any = None) -> str:
    """Return an SVG picture of an instance and its solution; empty if the instance is large."""
    from lyra_opt.core.pictures import svg_text
    from lyra_opt.core.plugins import PROBLEMS

    problem = PROBLEMS.find(instance.problem)
    if problem.size(instance) > LARGEST_DRAWN:
        return ""
    shown = {} if answer is None else {answer.solver: answer.solution}
    figure = problem.drawing_of(instance, shown).figure()
    # A notebook is a single HTML page, so every picture needs its own ids.
    return svg_text(figure, f"picture-{zlib.crc32(repr((instance, answer)).encode()):x}")


def _table(name: str, entries: Sequence[Any]) -> dict[str, Any]:
    """Return caption, columns and first rows of the table for a list of objects."""
    shown, more = entries[:MOST_ROWS], len(entries) - MOST_ROWS
    names = [
        each.name
        for each in fields(entries[0])
        if any(getattr(entry, each.name) is not None for entry in shown)
    ]
    return {
        "caption": f"{words(name)} ({len(entries):,})",
        "columns": [words(name) for name in names],
        "rows": [[_cell(getattr(entry, name)) for name in names] for entry in shown],
        "more": f"{more:,} more" if more > 0 else "",
    }


def _cell(value: Any, longest: int = LONGEST_TEXT) -> str:
    if value is None:
        text = "none"
    elif isinstance(value, bool):
        text = "yes" if value else "no"
    elif isinstance(value, float):
        text = f"{value:.10g}"
    elif isinstance(value, Mapping):
        text = ", ".join(f"{key}: {_cell(entry)}" for key, entry in value.items()) or "none"
    elif isinstance(value, tuple):
        text = ", ".join(_cell(each, longest) for each in value) or "none"
    elif is_dataclass(value):
        text = " ".join(_parts(value))
    else:
        text = str(value)
    text = one_line(text)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _parts(value: Any) -> Iterator[str]:
    """Yield the texts of an object for a table cell: its id, then its fields without defaults."""
    for place, each in enumerate(fields(value)):
        held = getattr(value, each.name)
        if place == 0 and isinstance(held, str):
            yield _cell(held)
        elif held != each.default:
            yield f"{words(each.name)} {_cell(held)}"


@cache
def _template() -> Template:
    from jinja2 import Environment

    text = (files("lyra_opt.core") / "representation.html.jinja").read_text("utf-8")
    return Environment(autoescape=True).from_string(text)
