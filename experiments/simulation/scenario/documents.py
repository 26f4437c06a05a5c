"""The text of scenario files: find and read it, merge cases into it, and write values as TOML."""

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from lyra_opt.core.documents import parse_toml, read_text, unknown_key
from lyra_opt.core.errors import FieldError, InputError, UserError
from lyra_opt.core.plugins import Plugins

SUFFIX = ".toml"
LARGEST_SCENARIO_BYTES = 2**20
COLLECTIONS = Plugins("lyra_opt.scenarios", "collection of scenarios")
"""Packages with scenario files: the bundled ones, and those of plug-ins."""

CASE = "case"
"""The axis of the cases in results."""

CASE_KEYS = ("cluster", "gpu_types", "jobs", "speed", "tenure")
"""Keys that a scenario takes from one of its cases."""

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@lru_cache(maxsize=1)
def bundled() -> dict[str, Any]:
    """Return the files of all named scenarios, by name, in order."""
    found: dict[str, Any] = {}
    for collection in COLLECTIONS.names():
        folder = files(COLLECTIONS.find(collection))
        for entry in sorted(folder.iterdir(), key=lambda each: each.name):
            if entry.name.endswith(SUFFIX):
                name = entry.name.removesuffix(SUFFIX)
                if name in found:
                    raise UserError(f"two scenarios are named {name!r}: {found[name]} and {entry}")
                found[name] = entry
    return found


def require_no_stream(path: Path) -> None:
    """Raise `InputError` for a pipe or a device, because several processes read each file."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError(str(path), "must be a regular file, which can be read more than once")


def scenario_text(name_or_path: str) -> tuple[str, str, Path]:
    """Return the text of a scenario, its source for error messages, and its folder.

    Raises
    ------
    UserError
        If no scenario has this name, or the file does not exist.
    """
    if name_or_path.endswith(SUFFIX) or "/" in name_or_path:
        require_no_stream(Path(name_or_path))
        text = read_text(name_or_path, LARGEST_SCENARIO_BYTES)
        return text, name_or_path, Path(name_or_path).parent
    known = bundled()
    if name_or_path not in known:
        rule = unknown_key(name_or_path, list(known), noun="scenario")
        raise UserError(f"scenario {name_or_path!r}: {rule} (the name of a file ends in {SUFFIX})")
    entry = known[name_or_path]
    return entry.read_text(encoding="utf-8"), f"scenario {name_or_path}", Path(str(entry)).parent


def with_case(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a scenario's document merged with one of its cases; the scenario's keys win.

    ``name`` is the name of a bundled scenario, or a TOML file.

    Raises
    ------
    FieldError
        If the case does not exist, or has cases itself.
    """
    try:
        text, source, _ = scenario_text(name)
        case = parse_toml(text, source, "a scenario")
    except UserError as error:
        raise FieldError("cases", name, f"cannot be read: {error}") from None
    if "cases" in case:
        raise FieldError("cases", name, "must not have cases itself")
    return _merged({part: case[part] for part in CASE_KEYS if part in case}, document)


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return two nested tables merged key by key; values of ``above`` win."""
    found = dict(below)
    for name, value in above.items():
        inner = found.get(name)
        are_tables = isinstance(value, dict) and isinstance(inner, dict)
        found[name] = _merged(inner or {}, value) if are_tables else value
    return found


def is_user_object(value: object) -> bool:
    """Return whether a value is a user's class, function or object, which no file can hold."""
    is_plain = value is None or isinstance(value, str | Path | int | float | Iterable)
    return isinstance(value, type) or not (is_plain or hasattr(value, "item"))


def plain(value: Any) -> Any:
    """Return a Python value as TOML data: tuples, ranges and arrays as lists, paths as text.

    Raises
    ------
    UserError
        If TOML has no such value.

    Examples
    --------
    >>> plain({"seeds": range(2), "load": 0.5, "file": Path("a.csv")})
    {'seeds': [0, 1], 'load': 0.5, 'file': 'a.csv'}
    """
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, str | Path):
        return str(value)
    if is_user_object(value):
        raise UserError(
            f"{shown_value(value)} must be a text, a number, a list or a table; pass classes and "
            "objects as schemes=, jobs= or cluster="
        )
    if isinstance(value, Iterable):
        return [plain(each) for each in value]
    return value.item() if hasattr(value, "item") else value


def toml_text(document: Mapping[str, Any]) -> str:
    """Return a document as the text of a TOML file, with one key per line.

    >>> print(toml_text({"seeds": [0, 1], "axes": {"cluster.servers": [4, 8]}}), end="")
    seeds = [0, 1]
    axes = {"cluster.servers" = [4, 8]}
    """
    return "".join(f"{_key(name)} = {shown_value(value)}\n" for name, value in document.items())


def _key(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else json.dumps(name)


def shown_value(value: object) -> str:
    """Return a value as TOML text; a class or an object as its name."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown_value, value))}]"
    if isinstance(value, dict):
        entries = (f"{_key(name)} = {shown_value(each)}" for name, each in value.items())
        return "{" + ", ".join(entries) + "}"
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    if is_user_object(value):
        return str(getattr(value, "__name__", type(value).__name__))
    return json.dumps(value)
