"""Documents are read strictly, compressed ones too, and written whole or not at all."""

import bz2
import gzip
import io
import json
import lzma
import os
import tarfile
import zipfile

import pytest

from lyra_opt.core.documents import (
    format_document,
    gzip_bytes,
    parse_toml,
    read_text,
    write_bytes,
    write_text,
)
from lyra_opt.core.errors import DiskFullError, FieldError, InputError, UserError, show_value


def test_written_files_have_ordinary_permissions(tmp_path):
    """Not the private ones of a temporary file."""
    plain = tmp_path / "plain"
    plain.touch()
    write_text(tmp_path / "ours", "text")
    assert (tmp_path / "ours").stat().st_mode == plain.stat().st_mode


def test_a_failed_write_leaves_the_old_file_whole(tmp_path, monkeypatch):
    """As on a full disk; the temporary file is gone."""
    target = tmp_path / "file"
    write_text(target, "old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DiskFullError, match="cannot be written: the disk is full"):
        write_text(target, "new")
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_links_and_devices_stay_what_they_are(tmp_path):
    """A link's target is replaced, and a pipe is written to."""
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    target.write_text("old")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text(pipe, "through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert pipe.is_fifo()


def test_writing_into_a_missing_folder_is_a_user_error(tmp_path):
    """Named, in one line."""
    with pytest.raises(UserError, match="cannot be written: No such file or directory"):
        write_bytes(tmp_path / "none" / "file", b"")


def test_gzip_depends_on_content_alone():
    """No time stamp and no name: equal bytes on any day."""
    assert gzip_bytes(b"content")[4:8] == b"\0\0\0\0"
    assert gzip_bytes(b"content") == gzip_bytes(b"content")


def test_formatted_documents_are_json():
    """A key a line, an object a line in lists, and the same values when read."""
    document = {"a": 1, "b": [{"c": 2}, {"d": [3]}], "e": [], "f": {"g": None}, "h": "é\n"}
    text = format_document(document)
    assert json.loads(text) == document
    assert '  {"c": 2},\n' in text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (8.0, "8.0"),
        ("a\nb", '"a\\nb"'),
        ([1, 2], "a list of 2"),
        ({}, "{}"),
        ({"a": 1}, "an object"),
        ("x" * 100, '"' + "x" * 56 + "..."),
    ],
)
def test_shown_values_fit_on_a_line(value, shown):
    """As JSON, cut where they are long."""
    assert show_value(value) == shown


def test_errors_name_their_place():
    """A path grows from the inside out."""
    error = FieldError("base", 1.5, "must be an integer").inside("workers[0]").inside("jobs[2]")
    assert str(error) == "jobs[2].workers[0].base is 1.5: must be an integer"
    assert str(FieldError("", 0, "must not be").inside("jobs[2]")) == "jobs[2] is 0: must not be"


DEEP = {
    "key": "x." * 45_000 + "x = 1",
    "header": "a = 1\n  [" + "x." * 45_000 + "x]",
    "array header": "[[" + "x . " * 45_000 + "x]]",
    "inline": "a = {b = 1, " + "x." * 45_000 + "x = 1}",
    "quoted": '"a\\"b" . ' * 45_000 + "x = 1",
    "literal": "'a b'." * 45_000 + "x = 1",
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_a_key_of_thousands_of_parts_is_refused(text):
    """The parser would take the square of their number: 12 s for 90 kB."""
    with pytest.raises(InputError, match="deep.toml: is nested too deeply to be a study"):
        parse_toml(text, "deep.toml", "a study")


def test_what_is_not_deep_is_parsed():
    """Long words and texts, many keys, and a dotted key of a depth that nobody needs."""
    text = "word = '" + "a." * 500 + "'\n" + "x." * 90 + "x = 1\n" + "y.z.a = {b.c = 2}\n"
    parsed = parse_toml(text + f"{'k' * 100_000} = 3\n", "wide.toml", "a study")
    assert parsed["y"] == {"z": {"a": {"b": {"c": 2}}}}
    assert len(parsed) == 4


TEXT = "job_id,submit_time_s,duration_s,gpus\na,0,1,1\n"
COMPRESSED = {"gzip": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("kind", COMPRESSED)
def test_compressed_files_are_told_by_their_content(tmp_path, kind):
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


def archives():
    """Return small archives by kind."""
    zipped, tarred = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("jobs.csv", TEXT)
    with tarfile.open(fileobj=tarred, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("jobs.csv"))
    return {"zip": zipped.getvalue(), "tar": tarred.getvalue(), "zstd": b"(\xb5/\xfdx"}


@pytest.mark.parametrize(("kind", "data"), archives().items())
def test_archives_are_to_be_unpacked_first(tmp_path, kind, data):
    """A compressed tar archive too, and none is taken for a table."""
    path = tmp_path / "jobs.csv"
    for content in (data, gzip.compress(data)) if kind == "tar" else (data,):
        path.write_bytes(content)
        with pytest.raises(InputError, match=f"is a {kind} archive: unpack it first"):
            read_text(path)
