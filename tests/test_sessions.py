"""Sessions of the command line in ``sessions/*.txt``: commands in turn, and what they must print.

A session begins with ``== `` and a name. It holds files, each with its name in a line
``-- NAME --`` and its text below, and commands without ``lyra-opt``, each in a line that begins
with ``$ ``; variables of the environment, as ``NAME=VALUE``, stand before the command. Below a
command stand its expectations, one per line, each a word and its object:

* ``exit``: the exit code, 0 if there is no such line
* ``out``, ``err``: a text on the standard output, or on the standard error; line breaks are blanks
* ``no``: a text that is on neither; ``nothing``: ``out`` or ``err``, which must be empty
* ``error``: a text in the one line that refuses bad input, with exit code 2; the line is short if
  it suggests a name
* ``read``: a file to look at instead of the standard output; ``save``: a file in which to keep
  what was printed or read
* ``has``, ``lacks``: a text that is in the file that was read, and one that is not
* ``edit``: a new file, ``: ``, and two texts with `` => `` between; it has what was printed or
  read, with the second text in the place of the first
* ``json``: the path of values in the JSON that was printed or read, ``*`` for each entry of a list,
  and the values; floats may be rounded, and objects may have more keys
* ``keys``: a path as for ``json``, and the keys of the object there, in order
* ``column``: a column of the CSV table that was printed or read, and its values as for ``json``
* ``within``: a path as for ``json``, and the least and the greatest number that can be there
* ``same``: a saved file, and the path of values that are equal there; without a path, all its text
* ``files``: the files and folders of the session, in order; those of a folder after ``FOLDER: ``
"""

import gzip
import io
import json
import re
import shlex
from pathlib import Path

import pandas as pd
import pytest

from tests.conftest import FIGURE_5, assert_one_line_error

FOLDER = Path(__file__).with_name("sessions")
SESSIONS = [
    pytest.param(session, id=f"{file.stem}: {session.splitlines()[0]}")
    for file in sorted(FOLDER.glob("*.txt"))
    for session in re.split(r"^== ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
]
PLACES = {
    "FIGURES": str(FIGURE_5.parent),
    "FIGURE_5": str(FIGURE_5),
    "TOPOLOGY": str(FIGURE_5.parent.parent / "network" / "four-racks.toml"),
}


def values_at(found, path):
    """Return the values at a path."""
    key, _, rest = path.partition("/")
    if key == "*":
        return [values_at(each, rest) for each in found]
    return values_at(found[int(key) if isinstance(found, list) else key], rest) if key else found


def is_like(found, expected):
    """Return whether values are those expected."""
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(is_like, found, expected))
    if isinstance(expected, dict):
        return all(key in found and is_like(found[key], expected[key]) for key in expected)
    return bool(found == (pytest.approx(expected) if type(expected) is float else expected))


def check(ran, expectations, folder):
    """Hold what a command did against its expectations."""
    exit_code, out, err = ran
    told = {"out": out, "err": err, "read": out}
    refusals = [text for word, text in expectations if word == "error"]
    if refusals:
        assert_one_line_error(ran, *refusals)
        assert "did you mean" not in err or len(err) < 250
    assert str(exit_code) == dict(expectations).get("exit", "2" if refusals else "0"), err
    for word, text in expectations:
        if word in ("out", "err"):
            assert text in " ".join(told[word].split()), told[word]
        elif word == "no":
            assert text not in out + err
        elif word == "nothing":
            assert not told[text]
        elif word == "save":
            (folder / text).write_text(told["read"])
        elif word == "read":
            content = (folder / text).read_bytes()
            is_packed = text.endswith(".gz")
            told["read"] = (gzip.decompress(content) if is_packed else content).decode()
        elif word in ("has", "lacks"):
            assert (text in told["read"]) == (word == "has"), text
        elif word == "edit":
            target, _, change = text.partition(": ")
            old, new = change.split(" => ")
            assert old in told["read"]
            (folder / target).write_text(told["read"].replace(old, new))
        elif word == "keys":
            path, *keys = text.split()
            assert [*values_at(json.loads(told["read"]), path.strip("/"))] == keys
        elif word == "json":
            path, _, expected = text.partition(" ")
            found = values_at(json.loads(told["read"]), path.strip("/"))
            assert is_like(found, json.loads(expected)), (path, found)
        elif word == "column":
            name, _, expected = text.partition(" ")
            found = [*pd.read_csv(io.StringIO(told["read"]))[name].replace(float("nan"), None)]
            assert is_like(found, json.loads(expected)), (name, found)
        elif word == "same":
            file, _, path = text.partition(" ")
            texts = told["read"], (folder / file).read_text()
            found, expected = (values_at(json.loads(t), path) for t in texts) if path else texts
            assert is_like(found, expected), (path, found)
        elif word == "within":
            path, least, greatest = text.split()
            found = values_at(json.loads(told["read"]), path)
            assert float(least) <= found <= float(greatest), (path, found)
        elif word == "files":
            place, _, names = text.rpartition(": ")
            assert " ".join(sorted(path.name for path in (folder / place).iterdir())) == names
        else:
            assert word in ("exit", "error"), word


@pytest.mark.parametrize("session", SESSIONS)
def test_session(session, run, tmp_path, monkeypatch):
    """Each command, in a fresh folder and without traces, does what its session says."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LYRA_OPT_TRACES", raising=False)
    for part in re.split(r"^(?=\$|-- )", session, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        if head.startswith("-- "):
            path = tmp_path / head.strip("- ")
            path.parent.mkdir(exist_ok=True)
            path.write_text(body)
            continue
        for name, place in PLACES.items():
            head = head.replace(name, place)
        lines = [line.partition(" ")[::2] for line in body.splitlines() if line.strip()]
        try:
            _, *words = shlex.split(head)
            while words and re.match("[A-Z_]+=", words[0]):
                monkeypatch.setenv(*words.pop(0).split("=", 1))
            check(run(*words), lines, tmp_path)
        except AssertionError as error:
            raise AssertionError(f"{head}: {error}") from error
