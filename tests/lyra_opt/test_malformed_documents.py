"""Malformed files, each refused in one line with file, field, value and rule, and exit code 2."""

import gzip

import pytest

from lyra_opt.core.documents import LARGEST_DOCUMENT_BYTES
from lyra_opt.core.loading import load_instance
from tests.conftest import FIGURE_5, assert_one_line_error, assert_refused
from tests.malformed import INSTANCES, SOLUTIONS, defects


@pytest.mark.parametrize(("name", "defect"), defects(INSTANCES), ids=str)
def test_defect_in_an_instance_is_named(name, defect, run, write_json):
    """Whatever the format."""
    path = write_json("bad.json", defect.in_(INSTANCES[name].valid))
    assert_one_line_error(run("solve", path), f"{path}: ", defect.expected)


@pytest.mark.parametrize(("name", "defect"), defects(SOLUTIONS), ids=str)
def test_defect_in_a_solution_is_named(name, defect, run, write_json):
    """A file that is no solution at all is bad input, not an invalid solution."""
    instance = write_json("instance.json", INSTANCES[name.partition("-")[0]].valid)
    path = write_json("bad.json", defect.in_(SOLUTIONS[name].valid))
    assert_one_line_error(run("verify", instance, path), f"{path}: ", defect.expected)


FIGURE_5_TEXT = '{"format": "lyra-opt/reclaim"}'

RAW_FILES = {
    "empty": ("empty.json", b"", "the file is empty"),
    "blank": ("blank.json", b" \n", "the file is empty"),
    "half_a_document": ("half.json", b'{"format": ', "is not valid JSON: Expecting value at line"),
    "two_documents": ("two.json", b"{} {}", "is not valid JSON: Extra data"),
    "not_an_object": ("list.json", b"[1]", "must be a JSON object, not a list"),
    "duplicate_key": ("twice.json", b'{"a": 1, "a": 1}', 'the key "a" occurs twice'),
    "not_utf8": ("latin.json", b'{"name": "\xe9"}', "is not UTF-8 text (byte 10)"),
    "utf16": ("utf16.json", FIGURE_5_TEXT.encode("utf-16"), "is not UTF-8 text (byte 0)"),
    "byte_order_mark": ("bom.json", b"\xef\xbb\xbf{}", "is not valid JSON"),
    "brackets": ("brackets.json", b"[" * 200_000, "must be a JSON object, not a list"),
    "nested_objects": ("nested.json", b'{"a":' * 200_000, "is nested too deeply"),
    "endless_integer": (
        "digits.json",
        b'{"a": ' + b"9" * 5000 + b"}",
        "contains an integer with th",
    ),
    "truncated_gzip": ("cut.json.gz", gzip.compress(b"{}" * 500)[:20], "truncated gzip"),
    "damaged_gzip": (
        "damaged.json.gz",
        (lambda data: data[:15] + b"\xff\xff\xff" + data[18:])(gzip.compress(bytes(range(256)))),
        "is a damaged or truncated gzip file",
    ),
    "gzip_by_name_only": ("plain.json.gz", b"{}", "is named .gz but is not a gzip file"),
    "brackets_inside": ("inside.json", b'{"a":' + b"[" * 200_000, "is nested too deeply"),
    "number_beyond_floats": ("e400.json", b'{"format": 1e400}', "format is Infinity: must be one"),
    "lone_surrogate": (
        "surrogate.json",
        FIGURE_5.read_bytes().replace(b'"lyra-figure-5"', rb'"\udfff"'),
        'name is "\\udfff": must be Unicode text without lone surrogates',
    ),
    "empty_gzip": ("nothing.json.gz", gzip.compress(b""), "the file is empty"),
}


@pytest.mark.parametrize("defect", RAW_FILES)
def test_defect_in_the_bytes_is_named(defect, tmp_path):
    """What is no JSON object in UTF-8 is refused before any field is looked at."""
    name, data, expected = RAW_FILES[defect]
    path = tmp_path / name
    path.write_bytes(data)
    assert_refused(load_instance, path, expected)


def test_file_beyond_the_largest_size(tmp_path):
    """A huge file is refused by its size, without parsing it."""
    path = tmp_path / "huge.json"
    with path.open("wb") as stream:
        stream.truncate(LARGEST_DOCUMENT_BYTES + 1)
    assert_refused(load_instance, path, "is larger than 64 MiB once unpacked")


def test_gzip_beyond_the_largest_size(tmp_path):
    """A small file that unpacks into a huge one is refused too."""
    path = tmp_path / "bomb.json.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        block = b"[" * 2**20
        for _ in range(LARGEST_DOCUMENT_BYTES // 2**20 + 1):
            stream.write(block)
    assert_refused(load_instance, path, "is larger than 64 MiB once unpacked")


def test_missing_file_and_folder(tmp_path):
    """What cannot be opened is named."""
    assert_refused(
        load_instance, tmp_path / "none.json", "cannot be read: No such file or directory"
    )
    assert_refused(load_instance, tmp_path, "cannot be read: Is a directory")
