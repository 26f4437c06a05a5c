"""Unpack files that were compressed, or put into an archive alone."""

from __future__ import annotations

import gzip
import io
from typing import TYPE_CHECKING

from lyra_opt.core.errors import InputError

if TYPE_CHECKING:
    import tarfile
    from collections.abc import Callable, Iterator

_BEGINNINGS = {
    b"\x1f\x8b": "gzip",
    **{b"BZh%d1AY&SY" % level: "bz2" for level in range(1, 10)},
    b"\xfd7zXZ\x00": "xz",
    b"PK\x03\x04": "zip",
    b"(\xb5/\xfd": "zstd",
    b"7z\xbc\xaf'\x1c": "7z",
    b"Rar!\x1a\x07": "rar",
}
_COMPRESSED = frozenset({"gzip", "bz2", "xz"})
_TAR = b"ustar"
_TAR_AT = 257
_ZIP_ENTRY = b"PK\x01\x02"
MOST_ENTRIES = 100
"""Entries of an archive that are looked at; folders and hidden files count."""

XZ_MEMORY_BYTES = 256 * 2**20


def unpacked(source: str, data: bytes, largest_bytes: int) -> bytes:
    """Return the content of a compressed file, or of the only file of an archive.

    Parameters
    ----------
    source
        The name of the file, for errors.
    data
        The bytes of the file. They are returned as they are if their beginning is not that of a
        known archive.
    largest_bytes
        At most one byte more than this is returned.

    Raises
    ------
    InputError
        If the archive is damaged, holds several files, or has a format that is not unpacked.
    """
    kind = _kind_of(data)
    if kind in _COMPRESSED:
        data = _content(source, kind, data, largest_bytes)
        kind = "tar" if _is_tar(data) else None
    return data if kind is None else _content(source, kind, data, largest_bytes)


def _content(source: str, kind: str, data: bytes, largest_bytes: int) -> bytes:
    if kind not in _READERS:
        raise InputError(source, f"is a {kind} archive: unpack it first")
    try:
        return _READERS[kind](data, largest_bytes + 1)
    except _SeveralFilesError:
        reason = f"is a {kind} archive that does not hold exactly one file: unpack it first"
        raise InputError(source, reason) from None
    except Exception as error:  # whatever the readers raise for damaged archives
        raise InputError(
            source, f"is a damaged or truncated {kind} file ({error or type(error).__name__})"
        ) from None


class _SeveralFilesError(Exception):
    pass


def _kind_of(data: bytes) -> str | None:
    if _is_tar(data):
        return "tar"
    return next((kind for mark, kind in _BEGINNINGS.items() if data.startswith(mark)), None)


def _is_tar(data: bytes) -> bool:
    return data[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR and b"\0" in data[:_TAR_AT]


def _from_gzip(data: bytes, most: int) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
        return stream.read(most)


def _from_bz2(data: bytes, most: int) -> bytes:
    import bz2

    with bz2.BZ2File(io.BytesIO(data)) as stream:
        return stream.read(most)


def _from_xz(data: bytes, most: int) -> bytes:
    import lzma

    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY_BYTES)
    content = decompressor.decompress(data, most)
    if len(content) < most and not decompressor.eof:
        raise EOFError("its end is missing")
    return content


def _from_zip(data: bytes, most: int) -> bytes:
    import zipfile

    if data.count(_ZIP_ENTRY) > MOST_ENTRIES:  # refused before the entries fill the memory
        raise _SeveralFilesError
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        name = _only(info.filename for info in archive.infolist() if not info.is_dir())
        with archive.open(name) as stream:
            return stream.read(most)


def _from_tar(data: bytes, most: int) -> bytes:
    import tarfile

    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        files = (entry.name for entry in _first_entries(archive) if entry.isfile())
        stream = archive.extractfile(_only(files))
        assert stream is not None, "a regular file has content"
        with stream:
            return stream.read(most)


def _first_entries(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for number, entry in enumerate(archive):
        if number == MOST_ENTRIES:
            raise _SeveralFilesError
        yield entry


def _only(names: Iterator[str]) -> str:
    """Return the only name; files that macOS adds to archives do not count."""
    found = ""
    for name in names:
        if name.startswith("__MACOSX/") or name.rpartition("/")[2].startswith("._"):
            continue
        if found:
            raise _SeveralFilesError
        found = name
    if not found:
        raise _SeveralFilesError
    return found


_READERS: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": _from_gzip,
    "bz2": _from_bz2,
    "xz": _from_xz,
    "zip": _from_zip,
    "tar": _from_tar,
}
