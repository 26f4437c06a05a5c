"""How the sub-commands print: tables for people, JSON for programs, nothing else on stdout."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.documents import format_document
from lyra_opt.errors import UserError, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WIDTH_WITHOUT_TERMINAL = 200
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
