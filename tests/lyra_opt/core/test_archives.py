"""Compressed files and archives: one file is read, several are refused in one line."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest

from lyra_opt.core.archives import MOST_ENTRIES
from lyra_opt.core.documents import read_text
from lyra_opt.core.errors import InputError
from lyra_opt.instances.workloads.readers import read_workload
from tests.instances.workloads.test_readers import OURS, PAI_JOBS, PAI_TASKS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def zipped(contents: Mapping[str, str]) -> bytes:
    """Return a zip archive."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return stream.getvalue()


def tarred(contents: Mapping[str, str], mode: str = "w:gz") -> bytes:
    """Return a tar archive, with a folder."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:  # type: ignore[call-overload]
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in contents.items():
            entry = tarfile.TarInfo(f"folder/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content.encode()))
    return stream.getvalue()


ONE = {"._jobs.csv": "of macOS", "jobs.csv": OURS}
PACKED = {
    "jobs.csv.gz": gzip.compress(OURS.encode()),
    "jobs.csv.bz2": bz2.compress(OURS.encode()),
    "jobs.csv.xz": lzma.compress(OURS.encode()),
    "jobs.zip": zipped(ONE),
    "jobs.tar": tarred(ONE, "w:"),
    "jobs.tar.gz": tarred(ONE),
    "jobs.tgz": tarred(ONE),
    "jobs.tar.xz": tarred(ONE, "w:xz"),
}


@pytest.mark.parametrize("name", PACKED)
def test_the_only_file_is_read(tmp_path: Path, name: str) -> None:
    """By its content, whatever it is called; the workload has the name without endings."""
    path = tmp_path / name
    path.write_bytes(PACKED[name])
    assert read_text(path) == OURS
    assert read_workload(path).name == "jobs"


@pytest.mark.parametrize("name", PACKED)
def test_damaged_archives_are_refused(tmp_path: Path, name: str) -> None:
    """Wherever they are cut; only zeros at the end of a tar archive may be missing."""
    path = tmp_path / name
    for size in range(20, len(PACKED[name]) - 8, 7):
        path.write_bytes(PACKED[name][:size])
        try:
            assert len(read_workload(path).jobs) == 2
        except InputError:
            continue
        assert name == "jobs.tar"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (zipped({"a.csv": OURS, "b.csv": OURS}), "is a zip archive that does not hold exactly one"),
        (tarred({"a.csv": OURS, "b.csv": OURS}), "is a tar archive that does not hold exactly one"),
        (zipped({"._a": ""}), "is a zip archive that does not hold exactly one file"),
        (
            zipped({f"{number}/": "" for number in range(MOST_ENTRIES + 1)}),
            "is a zip archive that does not hold exactly one file: unpack it first",
        ),
        (
            tarred({f"._{number}": "" for number in range(MOST_ENTRIES)}),
            "does not hold exactly one",
        ),
        (b"(\xb5/\xfd" + b"x" * 9, "is a zstd archive: unpack it first"),
        (b"7z\xbc\xaf'\x1cx", "is a 7z archive: unpack it first"),
        (gzip.compress(gzip.compress(OURS.encode())), "is not UTF-8 text"),
    ],
)
def test_other_archives_are_to_be_unpacked_first(tmp_path: Path, data: bytes, reason: str) -> None:
    """In one line that says what the file is."""
    path = tmp_path / "jobs.csv"
    path.write_bytes(data)
    with pytest.raises(InputError, match=reason):
        read_workload(path)


@pytest.mark.parametrize("name", ["x.gz", "x.bz2", "x.xz", "x.zip", "x.tar.gz"])
def test_what_unpacks_to_too_much_is_not_unpacked_whole(tmp_path: Path, name: str) -> None:
    """Reading stops at the limit of the reader."""
    path, text = tmp_path / name, " " * 2**22
    packed = {
        "x.gz": gzip.compress(text.encode()),
        "x.bz2": bz2.compress(text.encode()),
        "x.xz": lzma.compress(text.encode()),
        "x.zip": zipped({"a": text}),
        "x.tar.gz": tarred({"a": text}),
    }
    path.write_bytes(packed[name])
    with pytest.raises(InputError, match=r"is larger than 1 MiB once unpacked|truncated tar"):
        read_text(path, 2**20)


def test_both_tables_of_alibaba_may_be_archives(tmp_path: Path) -> None:
    """The other table is found beside the one that is named, by its name."""
    for name, text in (("task", PAI_TASKS), ("job", PAI_JOBS)):
        path = tmp_path / f"pai_{name}_table.tar.gz"
        path.write_bytes(tarred({f"pai_{name}_table.csv": text}))
        (tmp_path / f"pai_{name}_table.csv").write_text(text)
    plain = read_workload(tmp_path / "pai_task_table.csv")
    assert read_workload(tmp_path / "pai_task_table.tar.gz").jobs == plain.jobs
