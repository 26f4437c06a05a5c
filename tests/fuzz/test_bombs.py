"""Small files that unpack to more objects than the memory holds: each is refused in one line."""

import gzip
import json
import subprocess
import sys

import pytest

from lyra_opt.core.documents import parse_json, read_text
from lyra_opt.core.errors import InputError, UserError
from lyra_opt.core.reading_memory import MEMORY_VARIABLE
from lyra_opt.instances.workloads.readers import read_workload
from tests.fuzz.damage import readers, undamaged
from tests.reference.drawing import Draw
from tests.tables import tables

ELEMENTS = ("{}", "[]", '{"a":0}', '"ab"', "1.5", "[[1.5]]", '[{"":[]}]')
UNIQUE_ROWS = {"usage": "{},8,1\n", "throughputs": "m{},16,1,1,1,1\n"}


def bomb(kind):
    """Return a valid file of a kind with a few thousand rows, or objects, too many."""
    document = undamaged(Draw(kind), kind)
    if not isinstance(document, str):
        return json.dumps(document | {"bomb": [{}] * 20_000})
    if document.startswith("["):
        return document[:-1] + ",{}" * 20_000 + "]"
    if readers()[kind][0] == ".toml":
        return document + "\nbomb = [" + "[]," * 20_000 + "]\n"
    if kind in UNIQUE_ROWS:
        return document + "".join(UNIQUE_ROWS[kind].format(row) for row in range(5_000))
    return document + "\n".join(["", *document.splitlines()[1:]]) * 5_000


@pytest.mark.parametrize("kind", sorted(readers().keys() - {"slowdowns", "node list"}))
def test_bombs_are_refused_by_every_reader(tmp_path, monkeypatch, kind):
    """In one line that names the file and the variable that sets the limit.

    Tables of slowdowns and node lists have no such limit: at most 4 and 16 MiB of text are read.
    """
    suffix, read = readers()[kind]
    path = tmp_path / f"bomb{suffix}"
    path.write_bytes(gzip.compress(bomb(kind).encode()))
    monkeypatch.setenv(MEMORY_VARIABLE, "1")
    with pytest.raises(UserError) as caught:
        read(path)
    said = str(caught.value)
    assert said.startswith(f"{path}: needs more than 1 MiB of memory to be read."), said
    assert MEMORY_VARIABLE in said


def test_the_limit_is_a_number_of_mib(monkeypatch):
    """Above 0; a larger one reads what a smaller one refuses."""
    text = "[" + "{}," * 20_000 + "{}]"
    for limit in ("0", "-1", "many", "1e3"):
        monkeypatch.setenv(MEMORY_VARIABLE, limit)
        with pytest.raises(UserError, match=f'{MEMORY_VARIABLE} is "{limit}": must be a number'):
            parse_json(text, "bomb")
    monkeypatch.setenv(MEMORY_VARIABLE, "10")
    assert len(parse_json(text, "bomb")) == 20_001


MEASURED = tables(__file__)["measured"]


@pytest.mark.slow
@pytest.mark.parametrize("row", [*ELEMENTS, "a,0,1,1", "9.5,0.5,2.5,70000"])
@pytest.mark.parametrize("count", [150_000, 2_000_000])
def test_the_estimate_is_above_what_is_needed(tmp_path, row, count):
    """Read or refused, a file never takes more memory than the limit says."""
    if row in ELEMENTS:
        path, text = tmp_path / "x.json.gz", '{"x":[' + f"{row}," * count + "0]}"
    else:
        path = tmp_path / "x.csv"
        text = "job_id,submit_time_s,duration_s,gpus\n" + f"{row}\n" * count
    path.write_bytes(gzip.compress(text.encode(), 1) if path.suffix == ".gz" else text.encode())
    command = [sys.executable, "-c", MEASURED, str(path), "150", row]
    subprocess.run(command, check=True, env={MEMORY_VARIABLE: "150"}, cwd=tmp_path)


def test_a_row_of_hundreds_of_thousands_of_fields_is_refused(tmp_path):
    """Rows are limited one by one, for a single one can fill the memory."""
    path = tmp_path / "wide.csv"
    path.write_text("job_id,submit_time_s,duration_s,gpus\n" + "," * 2**21)
    with pytest.raises(InputError, match="has a row of more than 1,048,576 characters"):
        read_workload(path)


def test_wide_characters_count_in_full(tmp_path, monkeypatch):
    """A single character outside of the basic plane makes a text four times as large."""
    path = tmp_path / "wide.txt"
    monkeypatch.setenv(MEMORY_VARIABLE, "1")
    path.write_text("a" * 2**18)
    assert len(read_text(path)) == 2**18
    path.write_text("a" * 2**18 + "\U0001f600")
    with pytest.raises(InputError, match="needs more than 1 MiB"):
        read_text(path)
