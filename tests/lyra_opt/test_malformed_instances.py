"""Malformed instance files, each made from Lyra's Figure 5 by one defect that names the case."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from lyra_opt.core.documents import LARGEST_DOCUMENT_BYTES
from lyra_opt.core.errors import InputError
from lyra_opt.core.loading import load_instance
from tests.conftest import FIGURE_5

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Change = "Callable[[dict[str, Any]], object]"


def _put(*path: str | int, value: Any) -> Callable[[dict[str, Any]], None]:
    """Return a change that sets the value at `path`."""

    def change(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = value

    return change


def _drop(*path: str | int) -> Callable[[dict[str, Any]], None]:
    """Return a change that removes the key at `path`."""

    def change(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        del document[path[-1]]

    return change


WORKERS = ("jobs", 0, "workers")

# Name of the defect: how to make it, and what the error must say of field, value and rule.
DEFECTS: dict[str, tuple[Any, str]] = {
    "format_missing": (_drop("format"), "format is missing"),
    "format_of_something_else": (_put("format", value="other"), 'format is "other": must be one'),
    "format_not_text": (_put("format", value=1), "format is 1: must be one of"),
    "version_of_the_future": (_put("version", value=2), "version is 2: must be 1"),
    "version_true": (_put("version", value=True), "version is true: must be 1"),
    "version_decimal": (_put("version", value=1.0), "version is 1.0: must be 1"),
    "name_missing": (_drop("name"), "name is missing"),
    "name_empty": (_put("name", value=""), 'name is "": must be a string that is not empty'),
    "name_number": (_put("name", value=5), "name is 5: must be a string"),
    "semantics_unknown": (
        _put("semantics", value="soft"),
        'semantics is "soft": must be one of: interchangeable, rigid',
    ),
    "reclaim_servers_above_fleet": (
        _put("reclaim_servers", value=7),
        "reclaim_servers is 7: must be at most the 6 servers on loan",
    ),
    "reclaim_servers_negative": (
        _put("reclaim_servers", value=-1),
        "reclaim_servers is -1: must be an integer of at least 0",
    ),
    "reclaim_servers_decimal": (
        _put("reclaim_servers", value=2.0),
        "reclaim_servers is 2.0: must be an integer",
    ),
    "reclaim_servers_above_servers_on_loan": (
        lambda document: [server.update(on_loan=False) for server in document["servers"][1:]],
        "reclaim_servers is 2: must be at most the 1 servers on loan",
    ),
    "servers_not_a_list": (_put("servers", value={}), "servers is {}: must be a list"),
    "server_not_an_object": (_put("servers", 0, value="s1"), 'servers[0] is "s1": must be an obj'),
    "server_id_missing": (_drop("servers", 0, "id"), "servers[0].id is missing"),
    "server_id_duplicate": (
        _put("servers", 1, "id", value="s1"),
        'servers[1].id is "s1": must be unique',
    ),
    "server_gpus_zero": (
        _put("servers", 0, "gpus", value=0),
        "servers[0].gpus is 0: must be an integer of at least 1",
    ),
    "server_gpus_decimal": (
        _put("servers", 0, "gpus", value=8.0),
        "servers[0].gpus is 8.0: must be an integer",
    ),
    "server_gpus_true": (_put("servers", 0, "gpus", value=True), "servers[0].gpus is true: must"),
    "server_gpus_beyond_exact_json": (
        _put("servers", 0, "gpus", value=2**53),
        "must be at most 9007199254740991",
    ),
    "server_on_loan_number": (
        _put("servers", 0, "on_loan", value=1),
        "servers[0].on_loan is 1: must be true or false",
    ),
    "server_key_unknown": (
        _put("servers", 0, "rack", value=1),
        "servers[0].rack is 1: unknown key; the known keys are id, gpus, on_loan",
    ),
    "job_id_duplicate": (_put("jobs", 3, "id", value="a"), 'jobs[3].id is "a": must be unique'),
    "job_weight_negative": (
        _put("jobs", 0, "weight", value=-1),
        "jobs[0].weight is -1: must be an integer of at least 0",
    ),
    "job_weight_text": (_put("jobs", 0, "weight", value="1"), 'jobs[0].weight is "1": must be'),
    "job_gpus_per_worker_zero": (
        _put("jobs", 0, "gpus_per_worker", value=0),
        "jobs[0].gpus_per_worker is 0: must be an integer of at least 1",
    ),
    "job_min_workers_null": (
        _put("jobs", 0, "min_workers", value=None),
        "jobs[0].min_workers is null: must be an integer",
    ),
    "job_min_workers_unlike_base_in_rigid": (
        _put("jobs", 0, "min_workers", value=11),
        "jobs[0].min_workers is 11: must equal the job's 12 base workers in a rigid instance",
    ),
    "job_min_workers_above_workers": (
        lambda document: (
            document.update(semantics="interchangeable")
            or document["jobs"][0].update(min_workers=13)
        ),
        "jobs[0].min_workers is 13: must be at most the job's 12 workers",
    ),
    "job_without_workers": (
        _put(*WORKERS, value=[]),
        "jobs[0].workers is []: must have at least one entry",
    ),
    "job_workers_missing": (_drop(*WORKERS), "jobs[0].workers is missing"),
    "job_key_unknown": (_put("jobs", 0, "gpu", value=1), "jobs[0].gpu is 1: unknown key"),
    "worker_on_unknown_server": (
        _put(*WORKERS, 0, "server", value="s9"),
        'jobs[0].workers[0].server is "s9": must be the id of a server',
    ),
    "worker_on_one_server_twice": (
        _put(*WORKERS, 1, "server", value="s1"),
        'jobs[0].workers[1].server is "s1": must be named at most once in a job',
    ),
    "worker_entry_without_workers": (
        _put(*WORKERS, 0, "base", value=0),
        "jobs[0].workers[0] is 0: must have at least one base or flexible worker",
    ),
    "worker_base_decimal": (
        _put(*WORKERS, 0, "base", value=6.0),
        "jobs[0].workers[0].base is 6.0: must be an integer of at least 0",
    ),
    "worker_flexible_negative": (
        _put(*WORKERS, 0, "flexible", value=-1),
        "jobs[0].workers[0].flexible is -1: must be an integer of at least 0",
    ),
    "job_beyond_the_gpus_of_a_server": (
        _put(*WORKERS, 0, "base", value=9),
        "jobs[0].workers[0] is 9: the GPUs of job 'a' on server 's1' must be at most the 8 left",
    ),
    "jobs_together_beyond_the_gpus_of_a_server": (
        _put("jobs", 1, "workers", 0, "server", value="s1"),
        "jobs[1].workers[0] is 8: the GPUs of job 'b' on server 's1' must be at most the 2 left",
    ),
    "gpus_together_beyond_exact_json": (
        lambda document: [server.update(gpus=2**52) for server in document["servers"]],
        "servers[1].gpus is 4503599627370496: all servers up to this one must have at most",
    ),
    "key_unknown_and_endless": (_put("k" * 5000, value=1), "k... is 1: unknown key"),
    "key_unknown": (_put("comment", value="x"), 'comment is "x": unknown key'),
    "weight_nan": (
        _put("jobs", 0, "weight", value=float("nan")),
        "jobs[0].weight is NaN: must be an integer of at least 0",
    ),
    "weight_infinite": (
        _put("jobs", 0, "weight", value=float("inf")),
        "jobs[0].weight is Infinity: must be an integer of at least 0",
    ),
}


def _assert_refused(path: Path, expected: str) -> None:
    with pytest.raises(InputError) as refusal:
        load_instance(path)
    message = str(refusal.value)
    assert message.startswith(f"{path}: ")
    assert expected in message
    assert "\n" not in message


@pytest.mark.parametrize("defect", DEFECTS)
def test_defect_in_a_field_is_named(
    defect: str, figure_5_document: dict[str, Any], tmp_path: Path
) -> None:
    """One line with file, field, value and rule."""
    change, expected = DEFECTS[defect]
    change(figure_5_document)
    path = tmp_path / f"{defect}.json"
    path.write_text(json.dumps(figure_5_document))
    _assert_refused(path, expected)


FIGURE_5_TEXT = '{"format": "lyra-opt/reclaim"}'

RAW_FILES: dict[str, tuple[str, bytes, str]] = {
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
    "endless_integer": ("digits.json", b'{"a": ' + b"9" * 5000 + b"}", "holds an integer of th"),
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
def test_defect_in_the_bytes_is_named(defect: str, tmp_path: Path) -> None:
    """What is no JSON object in UTF-8 is refused before any field is looked at."""
    name, data, expected = RAW_FILES[defect]
    path = tmp_path / name
    path.write_bytes(data)
    _assert_refused(path, expected)


def test_file_beyond_the_largest_size(tmp_path: Path) -> None:
    """A huge file is refused by its size, without parsing it."""
    path = tmp_path / "huge.json"
    with path.open("wb") as stream:
        stream.truncate(LARGEST_DOCUMENT_BYTES + 1)
    _assert_refused(path, "is larger than 64 MiB once unpacked")


def test_gzip_beyond_the_largest_size(tmp_path: Path) -> None:
    """A small file that unpacks into a huge one is refused too."""
    path = tmp_path / "bomb.json.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        block = b"[" * 2**20
        for _ in range(LARGEST_DOCUMENT_BYTES // 2**20 + 1):
            stream.write(block)
    _assert_refused(path, "is larger than 64 MiB once unpacked")


def test_missing_file_and_folder(tmp_path: Path) -> None:
    """What cannot be opened is named."""
    _assert_refused(tmp_path / "none.json", "cannot be read: No such file or directory")
    _assert_refused(tmp_path, "cannot be read: Is a directory")
