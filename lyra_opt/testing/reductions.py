"""Reduce a JSON document step by step, whatever problem it describes.

Hypothesis shrinks the choices from which an instance was drawn. A choice that is small for
Hypothesis need not be small for a reader: a server and the workers on it are several choices. This
module takes steps in the file format of the instance, and the parser decides which steps lead to a
valid instance.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from lyra_opt.core.documents import JsonObject

Path = tuple[str | int, ...]

MOST_IN_PAIRS = 60
"""Most numbers of a document that are also lowered in pairs."""

_GONE = object()


def reductions(document: JsonObject) -> Iterator[JsonObject]:
    """Yield smaller variants of a JSON document, with entries removed or values lowered.

    Many variants are not valid. An entry of a list is removed together with everything that refers
    to its ``id`` or ``name``, and optionally a top-level number is lowered by one as well. A key is
    removed, so that its default applies. A number becomes 0, 1, half or one less, either alone,
    with all numbers of its kind, or with one other number. A string becomes the first string of its
    kind. Complexity O(values^2) documents.
    """
    nodes = list(_nodes(document))
    numbers = {
        path: value
        for path, value in nodes
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    }
    lowered = {path: max(0, value - 1) for path, value in numbers.items()}
    for path, value in nodes:
        if path and isinstance(path[-1], int):
            name = value.get("id", value.get("name")) if isinstance(value, dict) else None
            fewer = _edited(document, {path: _GONE}) if name is None else _without(document, name)
            if fewer is not _GONE:
                yield fewer
                tops = [path for path in lowered if len(path) == 1]
                yield from (_edited(fewer, {top: lowered[top]}) for top in tops)
    of_kind: dict[Path, dict[Path, Any]] = {}
    for path, value in nodes:
        if len(path) > 1 and isinstance(path[-1], str):
            yield _edited(document, {path: _GONE})
        if isinstance(value, str):
            of_kind.setdefault(_kind(path), {})[path] = value
    for texts in of_kind.values():
        first = next(iter(texts.values()))
        yield from (_edited(document, {path: first}) for path in texts if texts[path] != first)
    for path, value in numbers.items():
        for smaller in (0, 1, value // 2):
            if smaller < value:
                yield _edited(document, {path: smaller})
    kinds = {_kind(path) for path in numbers}
    for kind in sorted(kinds, key=str):
        of_one = [path for path in numbers if _kind(path) == kind]
        yield _edited(document, {path: numbers[path] // 2 for path in of_one})
        yield _edited(document, {path: lowered[path] for path in of_one})
    yield from (_edited(document, {path: number}) for path, number in lowered.items())
    if len(lowered) <= MOST_IN_PAIRS:
        yield from (_edited(document, dict(pair)) for pair in combinations(lowered.items(), 2))


def _nodes(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    yield path, value
    if isinstance(value, dict | list):
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _nodes(entry, (*path, key))


def _kind(path: Path) -> Path:
    return tuple(key for key in path if isinstance(key, str))


def _edited(value: Any, edits: dict[Path, Any]) -> Any:
    """Return a copy of a document with new values at some paths, or with these paths removed."""
    if () in edits:
        return edits[()]
    inside: dict[str | int, dict[Path, Any]] = {}
    for (key, *rest), new in edits.items():
        inside.setdefault(key, {})[tuple(rest)] = new
    if isinstance(value, list):
        entries = [_edited(entry, inside.get(key, {})) for key, entry in enumerate(value)]
        return [entry for entry in entries if entry is not _GONE]
    if isinstance(value, dict):
        found = {key: _edited(entry, inside.get(key, {})) for key, entry in value.items()}
        return {key: entry for key, entry in found.items() if entry is not _GONE}
    return value


def _without(value: Any, name: str) -> Any:
    """Return a copy without the entry `name`, references to it, and lists that become empty."""
    if isinstance(value, list):
        entries = [_without(entry, name) for entry in value]
        kept = [entry for entry in entries if entry is not _GONE]
        return kept if kept or not value else _GONE
    if isinstance(value, dict):
        if name in [entry for entry in value.values() if isinstance(entry, str)]:
            return _GONE
        found = {key: _without(entry, name) for key, entry in value.items() if key != name}
        return _GONE if _GONE in found.values() else found
    return value
