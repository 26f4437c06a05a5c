"""Output of the sub-commands: tables for people, JSON for programs, and checks of output paths.

Nothing else is written to stdout.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from html import escape
from io import StringIO
from pathlib import Path
from shutil import get_terminal_size
from tempfile import TemporaryFile
from typing import Any

from lyra_opt.core.documents import format_document
from lyra_opt.core.errors import UserError, one_line
from lyra_opt.core.folding import fold
from lyra_opt.core.table import FORMATS, WIDE, Table, table_of_records, text_of_tables

WIDTH_OF_TEXT = 100
"""The largest width of sentences in columns, also without a terminal."""


def require_file_path(option: str, path: str) -> None:
    """Raise `UserError` if `path`, the value of `option`, cannot be written as a file."""
    if path == "-":
        raise UserError(f"{option} -: must be a file, not the standard output")
    if not Path(path).absolute().parent.is_dir():
        raise UserError(f"{option} {path}: the folder does not exist")
    if Path(path).is_dir():
        raise UserError(f"{option} {path}: is a folder, not a file")
    _require_writable(option, path, Path(path).absolute().parent)


def _require_writable(option: str, path: str | Path, folder: Path) -> None:
    try:
        TemporaryFile(dir=folder).close()
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"{option} {path}: the folder cannot be written to: {reason}") from None


def print_json(value: Any) -> None:
    """Print an object, or an array of objects, as JSON with one key per line."""
    if isinstance(value, list):
        value_text = ",\n".join(format_document(entry, ascii_only=True).rstrip() for entry in value)
        print(f"[\n{value_text}\n]" if value else "[]")
    else:
        print(format_document(value, ascii_only=True), end="")


def print_table(table: Table, elsewhere: str | None = "--format csv") -> None:
    """Print a table, wrapped to the width of the terminal if stdout is a terminal.

    On a narrow terminal, columns may be left out if `elsewhere`, an option or a file, shows them.
    """
    if isinstance(sys.stdout, _Html):
        sys.stdout.add(table)
    else:
        print(table.plain(terminal_width(), elsewhere), end="")


class _Html(StringIO):
    """Printed text as HTML: tables, and lines in a font of equal widths that the page folds."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def add(self, table: Table | None = None) -> None:
        """Add the text printed since the last table, and a table."""
        if text := self.getvalue().strip("\n"):
            # Notebooks written as HTML would break lines inside words.
            style = "font-family: monospace; white-space: pre-wrap; word-break: normal"
            self.parts.append(f'<pre style="{style}">{escape(text)}</pre>')
        self.parts += [] if table is None else [table.html()]
        self.seek(0)
        self.truncate()


def html_of_printed(show: Callable[[], None]) -> str:
    """Return as HTML for a notebook what a function prints with the functions of this module."""
    page = _Html()
    with redirect_stdout(page):
        show()
    page.add()
    return "".join(page.parts)


def print_formatted(form: str, tables: Sequence[Table], document: Any = None) -> bool:
    """Print tables for programs or papers; return False if `form` is the format of a terminal.

    Parameters
    ----------
    form
        The value of ``--format``.
    tables
        The tables for Markdown and LaTeX; CSV has the first one, unless the document is a list.
    document
        The object that JSON has, or a list of objects, which are also the rows of CSV; by default
        the rows of the first table.
    """
    if form == "json":
        print_json(tables[0].records() if document is None else document)
    elif form == "csv":
        rows = table_of_records(document) if isinstance(document, list) else tables[0]
        print(rows.text(form), end="")
    elif form in FORMATS and form != "table":
        print(text_of_tables(tables, form), end="")
    else:
        return False
    return True


def print_line(text: str, indent: str = "") -> None:
    """Print a sentence; on a terminal it is folded, and continuation lines begin with `indent`."""
    first, *others = fold(one_line(text), terminal_width() - len(indent), keeps_words=True)
    print(first, *(f"{indent}{line}" for line in others), sep="\n")


def print_meanings(meanings: Mapping[str, str], indent: int = 0) -> None:
    """Print names with their meanings in two columns."""
    width = max(map(len, meanings))
    room = text_width() - indent - width - 2
    for name, text in meanings.items():
        first, *others = fold(one_line(text), room, keeps_words=True)
        print(f"{' ' * indent}{name:<{width}}  {first}".rstrip())
        for other in others:
            print(" " * (indent + width + 2) + other)


def terminal_width() -> int:
    """Return the terminal's width in characters, or a huge number if stdout is not a terminal."""
    return get_terminal_size().columns if sys.stdout.isatty() else WIDE


def text_width() -> int:
    """Return the width for longer texts: the terminal's width, but at most `WIDTH_OF_TEXT`."""
    return min(terminal_width(), WIDTH_OF_TEXT)


@contextmanager
def stdout_kept_clean() -> Iterator[None]:
    """Redirect stdout to stderr within a ``with`` block, including the output of native code.

    Some solvers print even when told to be silent; a program that reads JSON from stdout must not
    get this text.
    """
    sys.stdout.flush()
    try:
        saved = os.dup(1)
    except OSError:  # stdout is closed
        yield
        return
    try:
        os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)


def require_folder_path(option: str, folder: Path) -> None:
    """Raise `UserError` if `folder`, which need not exist, is a file or lies below a file."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{option} {folder}: is a file, not a folder")
    above = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not above.is_dir():
        raise UserError(f"{option} {folder}: {above} is a file, not a folder")


def make_folder(folder: Path) -> None:
    """Create a folder and its parents; raise `UserError` if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: cannot be created: {error.strerror or error}") from None


@contextmanager
def output_folder(option: str, folder: Path | None) -> Iterator[None]:
    """Create a folder and check that files can be written to it, before time is spent on results.

    Folders that were created are removed at the end of the block if they are still empty.

    Parameters
    ----------
    option
        The option that names the folder, for errors.
    folder
        The folder; None does nothing.

    Raises
    ------
    UserError
        If the folder cannot be created or written to.
    """
    if folder is None:
        yield
        return
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        make_folder(folder)
        _require_writable(option, folder, folder)
        yield
    finally:
        for path in made:
            with suppress(OSError):  # it is not empty
                path.rmdir()
