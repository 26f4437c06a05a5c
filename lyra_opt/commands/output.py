"""How the sub-commands print: tables for people, JSON for programs, nothing else on stdout."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import format_document
from lyra_opt.core.errors import UserError, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

WIDTH_WITHOUT_TERMINAL = 1_000_000
"""Wider than any table: what a file or a pipe gets is neither cut nor wrapped."""

LONGEST_LIST = 12


def require_file_path(option: str, path: str) -> None:
    """Raise `UserError` if no file can be written to `path`, which `option` gave."""
    if not Path(path).absolute().parent.is_dir():
        raise UserError(f"{option} {path}: the folder does not exist")
    if Path(path).is_dir():
        raise UserError(f"{option} {path}: is a folder, not a file")


def print_json(value: Any) -> None:
    """Write one JSON value to stdout: an object, or an array of objects, a key a line."""
    if isinstance(value, list):
        value_text = ",\n".join(format_document(entry, ascii_only=True).rstrip() for entry in value)
        print(f"[\n{value_text}\n]" if value else "[]")
    else:
        print(format_document(value, ascii_only=True), end="")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], right: int) -> None:
    """Print a table; the columns from position `right` on are numbers, aligned to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(
        width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL, highlight=False
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for position, column in enumerate(columns):
        table.add_column(column, justify="right" if position >= right else "left")
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    console.print(table)


def show_list(values: Sequence[str]) -> str:
    """Return names on one line, the first dozen and how many there are."""
    shown = one_line(", ".join(values[:LONGEST_LIST])) or "none"
    if len(values) > LONGEST_LIST:
        shown += f", ... ({len(values)} in all)"
    return shown


def show_value_of(value: object) -> str:
    """Return a measure for people: a float with ten digits, of a list or object all entries."""
    if isinstance(value, list | dict):
        return show_list(show_entries(value))
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def show_count(value: object) -> str:
    """Return a value for a table: empty for none, of a list or object how many entries it has."""
    if value is None:
        return ""
    return str(len(value)) if isinstance(value, list | dict) else show_value_of(value)


def show_entries(value: Sequence[Any] | Mapping[str, Any]) -> list[str]:
    """Return each entry of a list or an object as text: of an entry that is an object, its values.

    >>> show_entries({"a": 2}), show_entries([{"job": "a", "start_s": 0.5}])
    (['a 2'], ['a 0.5'])
    """
    if isinstance(value, dict):
        return [f"{key} {show_value_of(entry)}" for key, entry in value.items()]
    return [
        " ".join(map(show_value_of, entry.values() if isinstance(entry, dict) else [entry]))
        for entry in value
    ]


def words(key: str) -> str:
    """Return a key of ``solve --json`` as words.

    >>> words("used_gpus"), words("makespan_s")
    ('used GPUs', 'makespan, s')
    """
    name = f"{key.removesuffix('_s')}, s" if key.endswith("_s") else key
    return name.replace("_", " ").replace("gpus", "GPUs")


def show_seconds(time_s: float | None) -> str:
    """Return a duration in the unit that suits it."""
    if time_s is None:
        return ""
    return f"{time_s:.2f} s" if time_s >= 1 else f"{1000 * time_s:.2f} ms"


@contextmanager
def stdout_kept_clean() -> Iterator[None]:
    """Send whatever is printed to stdout meanwhile, by Python or by native code, to stderr.

    Solvers print, some even when told to be silent; a program that reads our JSON from stdout
    must not see it.
    """
    sys.stdout.flush()
    try:
        saved = os.dup(1)
    except OSError:  # there is no stdout to keep clean
        yield
        return
    try:
        os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)
