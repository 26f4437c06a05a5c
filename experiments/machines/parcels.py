"""Pickle tasks for other machines, and use content hashes to send shared parts only once."""

import io
import os
import pickle
import platform
import site
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import cloudpickle

from lyra_opt.commands.messages import Loudness, loudness
from lyra_opt.core.documents import unreadable
from lyra_opt.core.errors import UserError
from lyra_opt.experiments.pool import SentOnce, Task, in_words
from lyra_opt.experiments.records import current_environment
from lyra_opt.instances.traces import TRACES_VARIABLE

SAME = ("python", "lyra-opt")
"""Packages whose versions must match on all machines; for Python, the first two numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """The settings that all tasks of one run on other machines share.

    Parameters
    ----------
    id
        Unique id of the call.
    working_folder, traces_folder
        Absolute folders of the sending process; the latter is the value of LYRA_OPT_TRACES, None if
        it is not set.
    versions
        Versions that must match, by package name.
    loudness
        Amount of output in the logs of workers.
    """

    id: str
    working_folder: str
    traces_folder: str | None
    versions: dict[str, str]
    loudness: Loudness


def new_errand() -> Errand:
    """Return the settings of a new call from this process."""
    traces = os.environ.get(TRACES_VARIABLE)
    return Errand(
        id=f"lyra-opt-{uuid4().hex}",
        working_folder=str(Path.cwd()),
        traces_folder=None if traces is None else str(Path(traces).absolute()),
        versions=versions_here(),
        loudness=loudness(),
    )


def versions_here() -> dict[str, str]:
    """Return the versions of the packages that must match on every machine, by name."""
    versions = current_environment().versions | {
        "python": ".".join(platform.python_version_tuple()[:2])
    }
    return {name: str(versions[name]) for name in SAME}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """A pickled task, with the hashes of the files and shared objects that it needs.

    Parameters
    ----------
    task
        The pickled task, without objects that are sent once.
    files
        SHA-256 of each file that the task reads, by absolute path.
    objects
        SHA-256 of each pickled object that the task shares with other tasks.
    """

    task: bytes
    files: dict[str, str]
    objects: tuple[str, ...]

    @property
    def contents(self) -> list[str]:
        """SHA-256 of each file content or object that the parcel needs."""
        return list(dict.fromkeys([*self.files.values(), *self.objects]))


class Contents:
    """A cache of the files and the pickled shared objects of tasks, by SHA-256."""

    def __init__(self) -> None:
        self._bytes: dict[str, bytes] = {}
        self._files: dict[str, str] = {}
        self._objects: dict[int, tuple[Any, tuple[str, ...]]] = {}
        self._modules = list(_own_modules())

    def __getitem__(self, content_sha256: str) -> bytes:
        return self._bytes[content_sha256]

    def parcel(self, task: Task) -> Parcel:
        """Pickle a task for sending, and cache the files and shared objects that it needs.

        Raises
        ------
        UserError
            If a part of the task cannot be pickled, or a file cannot be read.
        """
        with _pickled_by_value(self._modules):
            try:
                data, objects = self._pickled(task)
            except Exception as error:  # a user's object may raise anything
                reason = in_words(error)
                raise UserError(f"{task.key}: cannot be sent to other machines: {reason}") from None
        files = {path: self._file(path) for path in map(os.path.abspath, task.files)}
        return Parcel(task=data, files=files, objects=objects)

    def _file(self, path: str) -> str:
        if path not in self._files:
            try:
                self._files[path] = self._kept(Path(path).read_bytes())
            except OSError as error:
                raise unreadable(path, error) from None
        return self._files[path]

    def _kept(self, data: bytes) -> str:
        digest = sha256(data).hexdigest()
        self._bytes[digest] = data
        return digest

    def object(self, value: SentOnce) -> tuple[str, ...]:
        """Return the SHA-256 of a shared object, followed by those of the shared objects in it."""
        if id(value) not in self._objects:
            data, inner = self._pickled(value)
            self._objects[id(value)] = value, (self._kept(data), *inner)  # value keeps its id
        return self._objects[id(value)][1]

    def _pickled(self, value: Any) -> tuple[bytes, tuple[str, ...]]:
        stream = io.BytesIO()
        pickler = _Pickler(stream, value, self.object)
        pickler.dump(value)
        return stream.getvalue(), tuple(pickler.objects)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """A pickler that replaces each shared object inside a task by its SHA-256."""

    def __init__(
        self, stream: io.BytesIO, whole: Any, sent: Callable[[SentOnce], tuple[str, ...]]
    ) -> None:
        super().__init__(stream)
        self._whole, self._sent = whole, sent
        self.objects: dict[str, None] = {}

    def persistent_id(self, value: Any) -> str | None:
        """Return the SHA-256 of a shared object; None for any other object."""
        if not isinstance(value, SentOnce) or value is self._whole:
            return None
        found = self._sent(value)
        self.objects |= dict.fromkeys(found)
        return found[0]


class Unpickler(pickle.Unpickler):
    """An unpickler for the task and the objects of a parcel.

    Parameters
    ----------
    stream
        The pickled bytes.
    shared
        Returns a shared object by its SHA-256.
    """

    def __init__(self, stream: io.BytesIO, shared: Callable[[str], Any]) -> None:
        super().__init__(stream)
        self._shared = shared

    def persistent_load(self, pid: str) -> Any:
        """Return the shared object with this SHA-256."""
        return self._shared(pid)


def _own_modules() -> Iterator[ModuleType]:
    """Yield imported modules that workers lack, whose classes must be pickled by value.

    Installed modules are skipped, because workers have them. Python files that the user names are
    skipped too, because they are sent as files.
    """
    # Packages in site folders of the user or the system count as installed modules.
    folders = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
    folders += [*site.getsitepackages(), site.getusersitepackages()]
    installed = [Path(folder) for folder in folders]
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is None or name == "__main__" or name.startswith("lyra_opt"):
            continue
        if not any(map(Path(file).is_relative_to, installed)):
            yield module


@contextmanager
def _pickled_by_value(modules: list[ModuleType]) -> Iterator[None]:
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
