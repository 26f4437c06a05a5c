"""Read the files that describe the state of a real cluster.

`read_snapshot` recognises the reader by the content of the files; `READERS` has all readers.
"""

import codecs
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from lyra_opt.core.documents import source_name, unpacked, unreadable
from lyra_opt.core.errors import InputError, UserError
from lyra_opt.core.plugins import Plugins
from lyra_opt.instances.snapshots.owners import Form
from lyra_opt.instances.snapshots.reader import SnapshotFile, SnapshotReader
from lyra_opt.instances.snapshots.snapshot import Snapshot

READERS = Plugins("lyra_opt.snapshot_readers", "snapshot reader", SnapshotReader)
"""All registered readers of snapshots by name."""

OTHER_FORMS = (
    (
        re.compile(rb"(?:(?:#|---)[^\n]*\n)*(?:apiVersion|items|kind|metadata):"),
        "; it looks like YAML: give kubectl the option -o json",
    ),
    (
        re.compile(rb"(?:NAME|NAMESPACE|JOBID|PARTITION|NODELIST)\b"),
        "; it looks like a table for people: give kubectl -o json, and Slurm --json",
    ),
)
"""How files begin that are in a form that no reader takes, and what to do about it."""

LARGEST_FILE_BYTES = 2 * 2**30
_NO_OWNERS: Mapping[str, Form] = MappingProxyType({})


def read_snapshot(
    paths: Iterable[str | Path],
    reader: str | None = None,
    *,
    owners: Mapping[str, Form] = _NO_OWNERS,
) -> Snapshot:
    """Return the state of a cluster that some files describe together.

    Parameters
    ----------
    paths
        The files, plain or compressed by gzip, bz2 or xz; ``-`` is the standard input.
    reader
        The name of the reader; None recognises it by the content of the files.
    owners
        How the pods of further kinds of owners stand, by kind: ``gang`` (together), ``single``
        (each on its own) or ``fixed`` (they cannot leave their nodes).

    Raises
    ------
    InputError
        If a file cannot be read, no reader recognises it, it is damaged, or its content cannot be
        read truthfully.
    UserError
        If no files are given, or two of them are for different readers.
    """
    files = [read_file(path) for path in paths]
    if not files:
        raise UserError("no snapshot files are given")
    snapshot: Snapshot = reader_of(files, reader).read(files, owners)
    return snapshot


def read_file(path: str | Path) -> SnapshotFile:
    """Read and unpack a file, except for zip archives; text in UTF-16 becomes UTF-8.

    PowerShell writes the output of a command in UTF-16.
    """
    source = source_name(path)
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    if not data.startswith(b"PK\x03\x04"):
        data = unpacked(source, data, LARGEST_FILE_BYTES + 1)
    if len(data) > LARGEST_FILE_BYTES:
        raise InputError(source, f"is larger than {LARGEST_FILE_BYTES // 2**30} GiB once unpacked")
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        data = data.decode("utf-16", errors="replace").encode()
    data = data.removeprefix(codecs.BOM_UTF8)
    if not data or data[:4096].isspace():
        raise InputError(source, "the file is empty")
    return SnapshotFile(source, data)


def reader_of(files: list[SnapshotFile], name: str | None = None) -> SnapshotReader:
    """Return the reader that a name or, without it, the content of all files tells.

    Raises
    ------
    UserError
        If no reader has the name, or the files are for different readers.
    InputError
        If no reader recognises a file.
    """
    if name is not None:
        named: SnapshotReader = READERS.find(name)
        return named
    readers: dict[str, SnapshotReader] = READERS.all()
    sources: dict[str, str] = {}
    for file in files:
        found = next((each for each in readers.values() if each.recognises(file)), None)
        if found is None:
            start = file.content[:4096].lstrip()
            hint = next((hint for begin, hint in OTHER_FORMS if begin.match(start)), "")
            wanted = "; ".join(f"{name}: {each.example}" for name, each in readers.items())
            raise InputError(
                file.source, f"is not a snapshot that a reader knows{hint}. Known are {wanted}"
            )
        sources.setdefault(found.name, file.source)
    if len(sources) > 1:
        (one, source), (two, other), *_ = sources.items()
        raise UserError(
            f"{source} is for the reader {one}, but {other} is for {two}; "
            f"give the files of one cluster"
        )
    return readers[next(iter(sources))]
