"""Unpack compressed files, and recognise archives."""

from __future__ import annotations

import gzip
import io

from lyra_opt.core.errors import InputError

_BEGINNINGS = {
    b"\x1f\x8b": "gzip",
    **{b"BZh%d1AY&SY" % level: "bz2" for level in range(1, 10)},
    b"\xfd7zXZ\x00": "xz",
    b"PK\x03\x04": "zip",
    b"(\xb5/\xfd": "zstd",
    b"7z\xbc\xaf'\x1c": "7z",
    b"Rar!\x1a\x07": "rar",
}
_TAR_AT = 257
XZ_MEMORY_BYTES = 256 * 2**20


def unpacked(source: str, data: bytes, most: int) -> bytes:
    """Return at most `most` bytes of what a file holds that gzip, bz2 or xz compressed.

    The bytes of any other file are returned as they are.

    Raises
    ------
    InputError
        If the file is damaged, or is an archive, which may hold several files.
    """
    kind = _kind_of(data)
    if kind in ("gzip", "bz2", "xz"):
        try:
            data = _decompressed(kind, data, most)
        except Exception as error:  # whatever damaged data makes the standard library raise
            reason = f"is a damaged or truncated {kind} file ({error or type(error).__name__})"
            raise InputError(source, reason) from None
        kind = "tar" if _kind_of(data) == "tar" else None
    if kind is not None:
        raise InputError(source, f"is a {kind} archive: unpack it first")
    return data


def _kind_of(data: bytes) -> str | None:
    if data[_TAR_AT : _TAR_AT + 5] == b"ustar" and b"\0" in data[:_TAR_AT]:
        return "tar"
    return next((kind for mark, kind in _BEGINNINGS.items() if data.startswith(mark)), None)


def _decompressed(kind: str, data: bytes, most: int) -> bytes:
    if kind == "gzip":
        return gzip.GzipFile(fileobj=io.BytesIO(data)).read(most)
    if kind == "bz2":
        import bz2

        return bz2.BZ2File(io.BytesIO(data)).read(most)
    import lzma

    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY_BYTES)
    content = decompressor.decompress(data, most)
    if len(content) < most and not decompressor.eof:
        raise EOFError("its end is missing")
    return content
