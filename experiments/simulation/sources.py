"""Where scenario files are: those that have names, and others by their path."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from lyra_opt.core.documents import read_text, unknown_key
from lyra_opt.core.errors import InputError, UserError
from lyra_opt.core.plugins import Plugins

SUFFIX = ".toml"
LARGEST_SCENARIO_BYTES = 2**20

COLLECTIONS = Plugins("lyra_opt.scenarios", "collection of scenarios")
"""Packages that hold scenario files, in the tree or outside of it."""


@lru_cache(maxsize=1)
def bundled() -> dict[str, Any]:
    """Return the scenario files that have names, by name, in order."""
    found: dict[str, Any] = {}
    for collection in COLLECTIONS.names():
        folder = files(COLLECTIONS.find(collection))
        for entry in sorted(folder.iterdir(), key=lambda each: each.name):
            if entry.name.endswith(SUFFIX):
                name = entry.name.removesuffix(SUFFIX)
                if name in found:
                    raise UserError(f"scenario {name!r} is called so twice: {found[name]}, {entry}")
                found[name] = entry
    return found


def require_no_stream(path: Path) -> None:
    """Raise `InputError` for a pipe or a device: several processes read what a scenario names."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError(str(path), "is no regular file, which can be read more than once")


def scenario_text(name_or_path: str) -> tuple[str, str, Path]:
    """Return the text of a scenario, where it is from for errors, and its folder.

    Raises
    ------
    UserError
        If there is no scenario called so (the message names all), or no such file.
    """
    if name_or_path.endswith(SUFFIX) or "/" in name_or_path:
        require_no_stream(Path(name_or_path))
        text = read_text(name_or_path, LARGEST_SCENARIO_BYTES)
        return text, name_or_path, Path(name_or_path).parent
    known = bundled()
    if name_or_path not in known:
        rule = unknown_key(name_or_path, list(known), noun="scenario")
        raise UserError(f"scenario {name_or_path!r}: {rule} (a file ends in {SUFFIX})")
    entry = known[name_or_path]
    return entry.read_text(encoding="utf-8"), f"scenario {name_or_path}", Path(str(entry)).parent
