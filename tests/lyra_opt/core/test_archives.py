"""Compressed files are read, and archives refused in one line that names their kind."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest

from lyra_opt.core.documents import read_text
from lyra_opt.core.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "job_id,submit_time_s,duration_s,gpus\na,0,1,1\n"
COMPRESSED = {"gzip": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("kind", COMPRESSED)
def test_compressed_files_are_told_by_their_content(tmp_path: Path, kind: str) -> None:
    """Whole they are read, cut anywhere refused; what is too large is not unpacked whole."""
    path = tmp_path / "jobs.csv"
    data = COMPRESSED[kind](TEXT.encode())
    path.write_bytes(data)
    assert read_text(path) == TEXT
    for size in range(20, len(data) - 8, 7):
        path.write_bytes(data[:size])
        with pytest.raises(InputError, match=f"is a damaged or truncated {kind} file"):
            read_text(path)
    path.write_bytes(COMPRESSED[kind](b" " * 2**22))
    with pytest.raises(InputError, match="is larger than 1 MiB once unpacked"):
        read_text(path, 2**20)


def archives() -> dict[str, bytes]:
    """Return small archives by kind."""
    zipped, tarred = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("jobs.csv", TEXT)
    with tarfile.open(fileobj=tarred, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("jobs.csv"))
    return {"zip": zipped.getvalue(), "tar": tarred.getvalue(), "zstd": b"(\xb5/\xfdx"}


@pytest.mark.parametrize(("kind", "data"), archives().items())
def test_archives_are_to_be_unpacked_first(tmp_path: Path, kind: str, data: bytes) -> None:
    """A compressed tar archive too, and none is taken for a table."""
    path = tmp_path / "jobs.csv"
    for content in (data, gzip.compress(data)) if kind == "tar" else (data,):
        path.write_bytes(content)
        with pytest.raises(InputError, match=f"is a {kind} archive: unpack it first"):
            read_text(path)
