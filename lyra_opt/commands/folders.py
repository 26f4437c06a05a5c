"""Folders that commands write into: found out to be fit before time is spent."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from lyra_opt.core.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def require_folder_path(option: str, folder: Path) -> None:
    """Raise `UserError` if `folder`, which need not be there yet, is or lies below a file."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{option} {folder}: is a file, not a folder")
    above = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not above.is_dir():
        raise UserError(f"{option} {folder}: {above} is a file, not a folder")


def make_folder(folder: Path) -> None:
    """Make a folder and those above it; `UserError` if that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: cannot be made: {error.strerror or error}") from None


@contextmanager
def output_folder(option: str, folder: Path | None) -> Iterator[None]:
    """Have a folder that files can be written to, so that no time is lost on what cannot be kept.

    What was made of it is removed again if nothing has been written in the end.

    Parameters
    ----------
    option
        Which names it.
    folder
        None does nothing.

    Raises
    ------
    UserError
        If it cannot be made or written to.
    """
    if folder is None:
        yield
        return
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        make_folder(folder)
        try:
            TemporaryFile(dir=folder).close()
        except OSError as error:
            reason = error.strerror or error
            raise UserError(f"{option} {folder}: cannot be written to: {reason}") from None
        yield
    finally:
        for path in made:
            with suppress(OSError):  # it is not empty
                path.rmdir()
