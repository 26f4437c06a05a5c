"""Read and write JSON documents, strictly and safely.

The reader refuses input that other JSON readers accept: duplicate keys, and text that is not
UTF-8. It also refuses files that would exhaust the memory, because they are huge or deeply
nested. The writer writes to a temporary file and renames it, so that after a crash or on a full
disk the old file is still complete.
"""

import errno
import gzip
import io
import json
import logging
import os
import re
import sys
import tomllib
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from lyra_opt.core.errors import (
    DiskFullError,
    FieldError,
    InputError,
    MissingFieldError,
    UserError,
    show_value,
)
from lyra_opt.core.nearest_names import meant, nearest
from lyra_opt.core.reading_memory import require_memory_for_json, require_memory_for_text
from lyra_opt.core.temporary import unfinished_file

LOGGER = logging.getLogger(__name__)

STANDARD_INPUT = "the standard input"

LARGEST_DOCUMENT_BYTES = 64 * 2**20

_TOML_KEY = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
DEEP_TOML_KEY = re.compile(
    rf"(?:^|[\[{{,])[ \t]*+{_TOML_KEY}(?:[ \t]*+\.[ \t]*+{_TOML_KEY}){{99}}", re.MULTILINE
)
"""A key with 100 parts or more, for which the parser would need minutes (quadratic time)."""

MOST_FILES_COMPARED = 1000
"""The largest number of files of a folder that are compared with the name of a missing file."""

JSON_WHITE_SPACE = " \t\r\n"
LONGEST_SHOWN_KEY = 60

JsonObject = dict[str, Any]


class _RefusedJsonError(ValueError):
    """An error for JSON that Python's decoder accepts but this project refuses."""


def read_json_object(path: str | Path) -> JsonObject:
    """Read one JSON object from a file, which may be compressed.

    Parameters
    ----------
    path
        The file, or ``-`` for the standard input.

    Raises
    ------
    InputError
        If the file cannot be read, is larger than 64 MiB once unpacked, needs too much memory, is
        not UTF-8 or not JSON, repeats a key, or is not an object at its top level.
    """
    require_path(path)
    source = source_name(path)
    text = read_text(path)
    if text.lstrip(JSON_WHITE_SPACE)[:1] == "[":  # refused before it fills the memory
        raise InputError(source, "must be a JSON object, not a list")
    document = parse_json(text, source)
    if not isinstance(document, dict):
        raise InputError(source, f"must be a JSON object, not {show_value(document)}")
    return document


def require_path(path: object) -> None:
    """Raise `UserError` if `path` is neither a string nor a path object."""
    if not isinstance(path, str | os.PathLike):
        raise UserError(f"path must be a string or a Path, not {show_value(path)}")


def source_name(path: str | Path) -> str:
    """Return the name of a file in error messages; ``-`` becomes "the standard input"."""
    return STANDARD_INPUT if str(path) == "-" else str(path)


def read_text(path: str | Path, largest_bytes: int = LARGEST_DOCUMENT_BYTES) -> str:
    """Read a UTF-8 text file of at most `largest_bytes` after decompression.

    A file that is compressed by gzip, bz2 or xz is unpacked. ``-`` is the standard input.

    Raises
    ------
    InputError
        If the file cannot be read or unpacked, is too large or empty, or is not UTF-8.
    """
    source = source_name(path)
    data = _read_bytes(path, largest_bytes)
    if not data or data.isspace():
        raise InputError(source, "the file is empty")
    require_memory_for_text(source, data)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(source, f"is not UTF-8 text (byte {error.start})") from None


def _read_bytes(path: str | Path, largest_bytes: int) -> bytes:
    source = source_name(path)
    LOGGER.info("reading %s", source)
    too_large = InputError(source, f"is larger than {largest_bytes // 2**20} MiB once unpacked")
    try:
        with _opened(path) as stream:
            data = stream.read(largest_bytes + 1)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    content = unpacked(source, data, largest_bytes + 1)
    if content is data and source.endswith(".gz") and data:
        raise InputError(source, "is named .gz but is not a gzip file")
    data = content
    if len(data) > largest_bytes:
        raise too_large
    return data


def unreadable(path: str | Path, error: Exception) -> InputError:
    """Return the error for a file that cannot be read; it suggests a file with a similar name."""
    hint = hint_at_similar_file(path) if isinstance(error, FileNotFoundError) else ""
    reason = error.strerror if isinstance(error, OSError) else None
    return InputError(source_name(path), f"cannot be read: {reason or error}{hint}")


def hint_at_similar_file(path: str | Path) -> str:
    """Return "; did you mean FILE?" for a missing file; "" if its folder has no similar name."""
    path = Path(path)
    with suppress(OSError):
        beside = islice(path.parent.iterdir(), MOST_FILES_COMPARED)
        likely = nearest(path.name, (each.name for each in beside if each.is_file()))
        if likely is not None:
            return f"; did you mean {path.with_name(likely)}?"
    return ""


def _opened(path: str | Path) -> AbstractContextManager[BinaryIO]:
    if str(path) != "-":
        return Path(path).open("rb")
    if sys.stdin is None:  # closed by whoever started us
        raise ValueError("it is closed")
    return nullcontext(sys.stdin.buffer)


def parse_json(text: str, source: str) -> Any:
    """Parse JSON text and refuse duplicate keys; `source` is the file name for error messages."""
    require_memory_for_json(source, text)
    try:
        # NaN and infinities are read as floats, so that each field's rule can reject them by name.
        return json.loads(text, object_pairs_hook=_unique_keys)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise InputError(source, f"is not valid JSON: {error.msg} at {where}") from None
    except _RefusedJsonError as error:
        raise InputError(source, str(error)) from None
    except RecursionError:
        raise InputError(source, "is nested too deeply to be valid") from None
    except ValueError:  # more digits than Python converts
        raise InputError(source, "contains an integer with thousands of digits") from None
    except MemoryError:
        raise InputError(source, "does not fit into memory") from None


def parse_toml(text: str, source: str, what: str) -> JsonObject:
    """Parse TOML text; errors name the file `source` and the expected content `what`."""
    if DEEP_TOML_KEY.search(text):
        raise InputError(source, f"is nested too deeply to be {what}")
    require_memory_for_json(source, text)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise InputError(source, f"is nested too deeply to be {what}") from None
    except ValueError as error:  # no TOML, or an integer of more digits than Python converts
        raise InputError(source, f"is not valid TOML: {error}") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> JsonObject:
    record = dict(pairs)
    if len(record) < len(pairs):
        seen = set()
        for key, _ in pairs:
            if key in seen:
                raise _RefusedJsonError(f"the key {show_value(key)} occurs twice in one object")
            seen.add(key)
    return record


class Record:
    """A JSON object or TOML table with a fixed set of allowed keys.

    Parameters
    ----------
    fields
        The decoded object.
    path
        The path of the object in its document, for errors; empty for the document itself.
    known
        All allowed keys; any other key raises `FieldError` at construction.
    """

    def __init__(self, fields: object, path: str, known: Collection[str]) -> None:
        if not isinstance(fields, dict):
            raise FieldError(path, fields, "must be an object")
        for key in fields:
            if key not in known:
                raise FieldError(join_path(path, str(key)), fields[key], unknown_key(key, known))
        self._fields = fields
        self.path = path

    def __contains__(self, key: str) -> bool:
        return key in self._fields

    def required(self, key: str) -> Any:
        """Return the value of `key`; raise `MissingFieldError` if the key is missing."""
        if key not in self._fields:
            raise MissingFieldError(join_path(self.path, key))
        return self._fields[key]

    def items_of(self, key: str) -> Iterator[tuple[str, Any]]:
        """Yield (path, value) for each entry of the list at `key`, which must exist."""
        values = self.required(key)
        path = join_path(self.path, key)
        if not isinstance(values, list):
            raise FieldError(path, values, "must be a list")
        return ((f"{path}[{position}]", value) for position, value in enumerate(values))

    def chosen(self, *keys: str) -> JsonObject:
        """Return the given keys that are present, with their values."""
        return {key: self._fields[key] for key in keys if key in self._fields}


def unknown_key(key: object, known: Collection[str], *, noun: str = "key") -> str:
    """Return the error text for an unknown key, which suggests a similar key or lists all keys.

    Parameters
    ----------
    noun
        The word for the key in the message, such as "column".
    """
    return f"unknown {noun}; {meant(key, known)}"


def join_path(path: str, key: str) -> str:
    """Return the path of `key` inside the object at `path`."""
    if len(key) > LONGEST_SHOWN_KEY:
        key = key[: LONGEST_SHOWN_KEY - 3] + "..."
    return f"{path}.{key}" if path else key


def require_format(document: JsonObject, expected: str, version: int) -> None:
    """Check the ``format`` and ``version`` keys of a document."""
    for name in ("format", "version"):
        if name not in document:
            raise MissingFieldError(name)
    given, number = document["format"], document["version"]
    if given != expected:
        raise FieldError("format", given, f'must be "{expected}"')
    if isinstance(number, bool) or not isinstance(number, int) or number != version:
        raise FieldError("version", number, f"must be {version}")


def format_document(document: JsonObject, *, ascii_only: bool = False) -> str:
    """Return JSON text with one line per key and, in lists of objects, one line per object.

    With `ascii_only`, characters outside ASCII are escaped, for outputs with an unknown encoding.
    """
    lines = []
    for key, value in document.items():
        if isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
            entries = ",\n  ".join(json.dumps(entry, ensure_ascii=ascii_only) for entry in value)
            shown = f"[\n  {entries}\n ]"
        else:
            shown = json.dumps(value, ensure_ascii=ascii_only)
        lines.append(f" {json.dumps(key)}: {shown}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write_text(path: str | Path, text: str) -> None:
    """Write text to a UTF-8 file completely or not at all; lone surrogates are escaped."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write a file completely or not at all: to a temporary file in the same folder, then renamed.

    For a symbolic link, the file that it points to is replaced. A path that exists but is not a
    regular file, such as a device or a pipe, is written directly.

    Raises
    ------
    UserError
        If the file cannot be written; `DiskFullError` if the disk is full.
    """
    LOGGER.info("writing %s", path)
    target = Path(path)
    temporary = None
    try:
        target = target.resolve()
        if target.exists() and not target.is_file():
            with target.open("wb") as stream:
                stream.write(data)
            return
        handle, temporary = unfinished_file(target.parent)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
            # `mkstemp` makes files private, so the file gets the permissions that `open` gives.
            mask = os.umask(0)
            os.umask(mask)
            Path(temporary).chmod(0o666 & ~mask)
            Path(temporary).replace(target)
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: a loop of links
        if temporary is not None:
            with suppress(OSError):
                Path(temporary).unlink(missing_ok=True)
        raise unwritable(path, error) from None


def unwritable(path: str | Path, error: Exception) -> UserError:
    """Return the error for a file that cannot be written: `DiskFullError` if the disk is full."""
    number = error.errno if isinstance(error, OSError) else None
    if number in (errno.ENOSPC, errno.EDQUOT):
        return DiskFullError(f"{path}: cannot be written: the disk is full")
    reason = error.strerror if isinstance(error, OSError) else None
    return UserError(f"{path}: cannot be written: {reason or error}")


def gzip_bytes(data: bytes) -> bytes:
    """Compress `data` without a time stamp, so that equal data always gives equal bytes."""
    return gzip.compress(data, compresslevel=9, mtime=0)


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
    """Return the content of a file, unpacking at most `most` bytes of gzip, bz2 or xz data.

    Raises
    ------
    InputError
        If the file is damaged, or is an archive that may contain several files.
    """
    kind = _kind_of(data)
    if kind in ("gzip", "bz2", "xz"):
        try:
            data = _decompressed(kind, data, most)
        except Exception as error:  # damaged data raises errors of many types
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
