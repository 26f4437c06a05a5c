"""Damaged stores: each is read, or refused in a line that names the place.

A change concerns one cell of a table, a value within the JSON of a cell, or a file beside the rows.
"""

import json
import shutil
import sqlite3

import pytest

from lyra_opt.__main__ import main
from lyra_opt.experiments.frames import load_study
from lyra_opt.experiments.store import STORE_FILE
from tests.conftest import assert_one_line_error
from tests.fuzz.damage import ODD_CELLS, ODD_VALUES, outcome, places_in
from tests.fuzz.test_descriptors import SMALL
from tests.reference.drawing import Draw
from tests.tables import tables

TRACE = "job_id,submit_time_s,duration_s,gpus\na,0,100,2\nb,10,50,1\nc,20,30,2\n"
ODD_BLOBS = (b"", b"\xff", "\ud800".encode("utf-8", "surrogatepass"))
STRINGS = [value for value in ODD_VALUES if isinstance(value, str) and value.isprintable()]
NESTED = ["[" * 10_000, '{"a": {"b": [1]}}', "NaN", "2024-13-01T00:00:00.000+00:00"]
ODD = (None, 0, -1, 1.5, 1e308, *ODD_BLOBS, *ODD_CELLS, *STRINGS, *NESTED)
MANY = 400


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Return the store of a study and one of replays."""
    folder = tmp_path_factory.mktemp("stores")
    (folder / "small.toml").write_text(SMALL)
    (folder / "three.csv").write_text(TRACE)
    found = {name: folder / name for name in ("study", "replays")}
    small = ["study", str(folder / "small.toml"), "--processes", "1", "--out", str(found["study"])]
    replays = ["simulate", "plain", "--jobs", str(folder / "three.csv"), "--processes", "1"]
    replays += ["--set", "cluster.servers=1", "--scheme", "fifo", "--out", str(found["replays"])]
    assert main(small) == main(replays) == 0
    return found


def damage(draw, folder):
    """Change one cell of a store; return which one."""
    connection = sqlite3.connect(folder / STORE_FILE)
    with connection:
        table = draw.pick("study", "run", "run", "run", "run", "run")
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        rows = [row[0] for row in connection.execute(f"SELECT rowid FROM {table}")]
        column, row = draw.choice(columns), draw.choice(rows)
        cell = f"{table} WHERE rowid = {row}"
        ((old,),) = connection.execute(f"SELECT {column} FROM {cell}")
        new = draw.choice(ODD)
        if isinstance(old, str) and old.startswith("{") and old != "{}" and draw.sometimes(0.8):
            document = json.loads(old)
            within, key = draw.choice(places_in(document))
            within[key] = draw.choice(ODD_VALUES)
            new = json.dumps(document)
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (new, row))
    connection.close()
    return f"{cell}: {column} = {new!r}"


def try_damaged(source, folder, numbers, read):
    """Return how many damaged stores were refused; each of the others is read."""
    refused = 0
    for number in numbers:
        shutil.copytree(source, folder)
        what = damage(Draw(f"{source.name} {number}"), folder)
        said = outcome(read, folder)
        assert said in ("read", "refused"), f"number {number}: {what}: {said}"
        refused += said == "refused"
        shutil.rmtree(folder)
    return refused


def report(folder):
    """Draw the page of a store; a fault of the program is no refusal."""
    from lyra_opt.experiments.records import ReplayRecord
    from lyra_opt.experiments.report import write_report as of_study
    from lyra_opt.experiments.simulation.running.replays import load_replays
    from lyra_opt.experiments.simulation.showing.report import write_report
    from lyra_opt.experiments.store import ResultStore

    with ResultStore.open(folder) as store:
        is_of_replays = store.study.kind == ReplayRecord.kind
    if is_of_replays:
        write_report(load_replays(folder))
    else:
        of_study(folder)


@pytest.mark.parametrize("kind", ["study", "replays"])
def test_a_damaged_store_is_read_or_refused(kind, stores, tmp_path):
    """In Python, where rows are a data frame."""
    assert try_damaged(stores[kind], tmp_path / "damaged", range(MANY // 4), load_study) > 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:constrained_layout not applied")  # beside a long name
@pytest.mark.parametrize("kind", ["study", "replays"])
def test_a_damaged_store_has_a_page_or_is_refused(kind, stores, tmp_path, monkeypatch):
    # A damaged name may be too long for a picture; the page is written all the same.
    monkeypatch.setattr("tests.conftest.faults_of", lambda *_, **__: [])
    assert try_damaged(stores[kind], tmp_path / "damaged", range(MANY), report) > 0


SPOILED = tables(__file__)["spoiled"]


@pytest.mark.parametrize("name", SPOILED)
def test_a_report_names_file_and_row(name, stores, tmp_path, run):
    kind, statement, message = SPOILED[name]
    folder = shutil.copytree(stores[kind], tmp_path / "spoiled")
    (folder / "report.html").unlink(missing_ok=True)
    if statement:
        with sqlite3.connect(folder / STORE_FILE) as connection:
            connection.execute(statement)
    else:
        (table,) = folder.glob("runs/*/jobs.csv.gz")
        table.write_bytes(table.read_bytes()[:-20])
    assert_one_line_error(run("report", folder), f": error: {folder}", message)
    assert not (folder / "report.html").exists()
