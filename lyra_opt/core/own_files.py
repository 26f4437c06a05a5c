"""Load classes and objects from a user's own Python file: ``my_solver.py:MySolver``.

A file becomes a module whose name encodes the path of the file, so that other processes, such as
workers of studies, find the file when they unpickle its objects. The file can import modules from
its own folder; installed modules take precedence over them.
"""

import hashlib
import os
import re
import sys
import traceback
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from modulefinder import ModuleFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from lyra_opt.core.documents import unreadable
from lyra_opt.core.errors import InputError
from lyra_opt.core.nearest_names import meant

_copies: list[Path] = []


def stand_in(path: str | Path) -> Path:
    """Return the path from which to read a user's file, which is a local copy if one exists."""
    if not _copies:
        return Path(path)
    path = Path(os.path.normpath(path))  # in "a/../b", the folder "a" may have no copy
    if path.is_absolute() and (copy := copy_below(_copies[0], path)).exists():
        return copy
    return path


def copy_below(folder: Path, path: str | Path) -> Path:
    """Return the path under `folder` at which the copy of another machine's file is stored."""
    return folder / Path(path).relative_to("/")


def work_as_in(working_folder: str, copies: Path) -> None:
    """Let this process read copies of another machine's files from the folder `copies`."""
    here = copy_below(copies, working_folder)
    here.mkdir(parents=True, exist_ok=True)
    os.chdir(here)
    _copies[:] = [copies]


_MODULE = "lyra_opt_own_file_"
_REFERENCE = re.compile(r"(?P<path>.+\.py):(?P<name>[^\W\d]\w*)", re.DOTALL)


def is_reference(text: str) -> bool:
    """Return whether a text is ``my_file.py:NAME``, or the name of a Python file alone."""
    return _REFERENCE.fullmatch(text) is not None or text.endswith(".py")


def path_in(reference: str) -> Path:
    """Return the file's path in a reference such as ``my_file.py:NAME``."""
    match = _REFERENCE.fullmatch(reference)
    return Path(reference if match is None else match["path"])


def located(text: str, folder: Path) -> str:
    """Prefix a reference such as ``my_file.py:NAME`` with `folder` if the file exists there.

    Any other text is returned unchanged.
    """
    beside = str(folder / text)
    return beside if is_reference(text) and stand_in(path_in(beside)).is_file() else text


def name_in(text: str) -> str:
    """Return the display name of a component, which is NAME for ``my_file.py:NAME``.

    >>> name_in("policies/my_policy.py:MyPolicy"), name_in("fifo")
    ('MyPolicy', 'fifo')
    """
    match = _REFERENCE.fullmatch(text)
    return text if match is None else match["name"]


def content_sha256(reference: str) -> str:
    """Return the SHA-256 of the file in a reference such as ``my_file.py:NAME``.

    A file that cannot be read raises `InputError`.
    """
    return hashlib.sha256(_read(path_in(reference))).hexdigest()


def files_of(reference: str) -> list[Path]:
    """Return the absolute paths of a user's file and of the files it imports from its folder.

    Files that it opens at run time are not included.
    """
    file = path_in(reference).absolute()
    return list(_beside(file, hashlib.sha256(_read(file)).hexdigest()))


@lru_cache(maxsize=16)
def _beside(file: Path, sha256: str) -> tuple[Path, ...]:  # noqa: ARG001 - part of the key
    beside = ModuleFinder(path=[str(file.parent)])  # reads the imports without running the code
    beside.run_script(str(file))
    files = (getattr(each, "__file__", None) for each in beside.modules.values())
    return tuple(sorted({file, *map(Path, filter(None, files))}))


def load_reference(reference: str) -> Any:
    """Return the object that a reference such as ``my_file.py:NAME`` names.

    A file is loaded again only after it has changed.

    Raises
    ------
    InputError
        If the file does not exist, fails while it is loaded (the message names the line), or does
        not define the name.
    """
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise InputError(
            reference, f"name the class or object to load from it, such as {reference}:NAME"
        )
    module = _module_of(Path(match["path"]))
    try:
        return getattr(module, match["name"])
    except AttributeError:
        own = [name for name, each in vars(module).items() if _is_own(name, each, module)]
        hint = meant(match["name"], own, "it defines")
        raise InputError(match["path"], f"does not define {match['name']}; {hint}") from None


def _is_own(name: str, value: object, module: ModuleType) -> bool:
    of = getattr(value, "__module__", None)
    return not name.startswith("_") and of == module.__name__


def _module_of(path: Path) -> ModuleType:
    """Return the module of a Python file, loading it again if its content has changed."""
    sha256 = hashlib.sha256(_read(path)).hexdigest()
    name = _MODULE + str(path.resolve()).encode().hex()
    known = sys.modules.get(name)
    if known is not None and known.__dict__.get("__sha256__") == sha256:
        return known
    sys.modules.pop(name, None)
    try:
        module = import_module(name)
    except (Exception, SystemExit) as error:  # a user's file may raise anything
        where = _line_of(error, str(stand_in(path).resolve()))
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise InputError(f"{path}{where}", f"cannot be loaded: {said}") from error
    module.__dict__["__sha256__"] = sha256
    return module


def _line_of(error: BaseException, file: str) -> str:
    """Return ", line N" for the line of a file that raised an error; empty if none did."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return f", line {error.lineno}"
    lines = [
        each.lineno for each in traceback.extract_tb(error.__traceback__) if each.filename == file
    ]
    return f", line {lines[-1]}" if lines else ""


def _read(path: Path) -> bytes:
    try:
        return stand_in(path).read_bytes()
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None


class _Source(SourceLoader):
    """A module loader that ignores cached bytecode, which can miss changes within one second."""

    def __init__(self, file: str) -> None:
        self._file = file

    def get_filename(self, fullname: str) -> str:  # noqa: ARG002
        return self._file

    def get_data(self, path: str | bytes) -> bytes:
        return Path(str(path)).read_bytes()

    def exec_module(self, module: ModuleType) -> None:
        folder = str(Path(self._file).parent)
        if folder not in sys.path:
            sys.path.append(folder)
        super().exec_module(module)


class _Finder(MetaPathFinder):
    """An import hook that finds a user's file from the module name that encodes its path."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if not fullname.startswith(_MODULE):
            return None
        file = stand_in(bytes.fromhex(fullname.removeprefix(_MODULE)).decode())
        return spec_from_loader(fullname, _Source(str(file)))


sys.meta_path.append(_Finder())
