"""The interface of readers of snapshots.

`lyra_opt.registry` lists the built-in readers; other packages register theirs in the entry-point
group ``lyra_opt.snapshot_readers``.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lyra_opt.core.errors import InputError
from lyra_opt.instances.snapshots.owners import Form
from lyra_opt.instances.snapshots.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A file of a snapshot, unpacked unless it is a zip archive.

    Parameters
    ----------
    source
        Its name in error messages.
    content
        Its content.
    """

    source: str
    content: bytes


@contextmanager
def blaming(source: str, name: str = "") -> Iterator[None]:
    """Turn a `ValueError` into an `InputError` that names a file and an object in it."""
    try:
        yield
    except ValueError as error:
        raise InputError(source, f"{name}: {error}" if name else str(error)) from None


class SnapshotReader(ABC):
    """A reader of the files that describe the state of a cluster."""

    name: str
    """Its name in the registry."""

    collect: str
    """The commands that write its files."""

    example: str
    """A short command that writes a file for it, for messages."""

    @abstractmethod
    def recognises(self, file: SnapshotFile) -> bool:
        """Return whether a file looks as if it were for this reader, without parsing it."""

    @abstractmethod
    def read(self, files: Sequence[SnapshotFile], owners: Mapping[str, Form]) -> Snapshot:
        """Return the snapshot that the files describe together.

        `owners` states how the pods of further kinds of owners stand, by kind; see
        `lyra_opt.instances.snapshots.owners.KINDS`.

        Raises
        ------
        InputError
            If a file is damaged, or its content cannot be read truthfully.
        """

    @abstractmethod
    def allowed(self, files: Sequence[SnapshotFile]) -> tuple[dict[str, Any], Collection[str]]:
        """Return the fields of the files that a plan needs as JSON data that the reader reads.

        The second value has texts that are equal in all clusters, such as kinds of objects;
        `lyra_opt.instances.snapshots.anonymise` replaces all other names.
        """
