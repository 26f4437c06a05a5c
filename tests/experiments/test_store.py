"""The store: what goes in comes out, and what is no store is refused in one line."""

import shutil
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from lyra_opt.core.errors import DiskFullError, UserError
from lyra_opt.core.result import Status
from lyra_opt.experiments.store import STORE_FILE, ResultStore, table_path
from tests.conftest import assert_one_line_error
from tests.draws import draws
from tests.experiments.records import make_replay, make_run, make_study


def test_rows_come_back_as_they_went_in(tmp_path):
    columns = {"objective": 3, "dual_bound": 2.5, "counters": {"nodes": 7}}
    columns |= {"solution": {"servers": ["é"]}, "family_parameters": {"semantics": "rigid"}}
    run = make_run("c", "s", Status.FEASIBLE, **columns)
    failed = make_run("c", "t", Status.ERROR, position=1, message="no", solution=None)
    with ResultStore.create(tmp_path / "a" / "b", make_study(2)) as store:
        store.add(failed)
        store.add(run)
    with ResultStore.open(tmp_path / "a" / "b") as store:
        assert store.study == make_study(2)
        assert store.runs() == [run, failed]
        assert store.statuses() == {"c, s": Status.FEASIBLE, "c, t": Status.ERROR}


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@draws(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    axes=st.dictionaries(st.text(), st.integers() | st.floats(allow_nan=False) | st.text()),
    figures=st.none() | st.dictionaries(st.text(), JSON_VALUES),
    key=st.text(),
    seed=st.integers(0, 2**53),
    wall_time_s=st.none() | st.floats(0, allow_infinity=False),
)
def test_whatever_a_simulation_says_comes_back(tmp_path, **columns):
    """Every kind of run, with names and numbers of any kind, to the last digit."""
    run = make_replay(**columns)
    (tmp_path / STORE_FILE).unlink(missing_ok=True)
    with ResultStore.create(tmp_path, replace(make_study(1), kind="replay")) as store:
        store.add(run)
        assert store.runs() == [replace(run, assumptions=[])]
        assert store.statuses() == {run.key: "finished"}


def test_a_kind_of_run_that_nobody_knows_is_named(tmp_path):
    with ResultStore.create(tmp_path, make_study(1)) as store:
        store._connection.execute("UPDATE study SET kind = 'dream'")
        with pytest.raises(UserError, match="runs is dream: must be one of: solver, replay"):
            store.runs()


def test_numbers_and_messages_of_any_size_and_kind_are_stored(tmp_path):
    run = make_run("c", "s", Status.FEASIBLE, objective=2**80, dual_bound=-(10**30))
    failed = make_run("c", "t", Status.ERROR, position=1, message="file \udcff")
    with ResultStore.create(tmp_path, make_study(2)) as store:
        store.add(run)
        store.add(failed)
        assert store.runs() == [run, replace(failed, message="file \\udcff")]


def test_what_a_deleted_store_left_behind_is_not_taken_for_results(tmp_path):
    """SQLite would replay the log beside the file into whatever has the file's name next."""
    killed = ResultStore.create(tmp_path / "a", make_study(1)).start_writing()
    killed.add(make_run("old", "s", Status.UNKNOWN))
    shutil.copytree(tmp_path / "a", tmp_path / "b")  # as after kill -9: the log is still there
    assert (tmp_path / "b" / f"{STORE_FILE}-wal").exists()
    (tmp_path / "b" / STORE_FILE).unlink()
    with ResultStore.create(tmp_path / "b", make_study(1)) as store:
        assert store.runs() == []
    killed.__exit__(None, None, None)


def test_later_run_takes_the_place_of_an_earlier_one(tmp_path):
    failed = make_run("c", "s", Status.ERROR)
    solved = replace(failed, status=Status.OPTIMAL, objective=1, dual_bound=1)
    with ResultStore.create(tmp_path, make_study(1)) as store:
        store.add(failed)
        store.add(solved)
        assert store.runs() == [solved]


def test_stored_runs_can_be_read_while_the_study_runs(tmp_path):
    with ResultStore.create(tmp_path, make_study(1)).start_writing() as writer:
        writer.add(make_run("c", "s", Status.UNKNOWN))
        with ResultStore.open(tmp_path) as reader:
            assert len(reader.runs()) == 1
    assert [path.name for path in tmp_path.iterdir()] == [STORE_FILE]


def test_what_a_killed_process_left_unfinished_goes(tmp_path):
    """Protects the disk from files that nobody can find; finished tables stay."""
    ResultStore.create(tmp_path, make_study(1)).__exit__(None, None, None)
    folder = table_path(tmp_path, "a", "jobs").parent
    folder.mkdir(parents=True)
    for name in ("jobs.csv.gz", ".jobs.csv.gz.x1y2z3_4"):
        (folder / name).write_bytes(b"")
    with ResultStore.open(tmp_path).start_writing():
        assert [path.name for path in folder.iterdir()] == ["jobs.csv.gz"]


def test_second_store_in_one_folder_is_refused(tmp_path):
    ResultStore.create(tmp_path, make_study(1)).__exit__(None, None, None)
    with pytest.raises(UserError, match="already exists"):
        ResultStore.create(tmp_path, make_study(1))


def test_a_full_disk_is_called_full(tmp_path):
    """Not damaged: nothing is lost, and there is something to do about it."""
    with ResultStore.create(tmp_path, make_study(2)) as store:
        run = make_run("c", "s", Status.ERROR)
        store.add(run)
        pages = store._pragma("page_count")
        store._connection.execute(f"PRAGMA max_page_count = {pages + 1}")
        with pytest.raises(DiskFullError, match="the disk is full"):
            store.add(replace(run, key="another", message="x" * 100_000))
        assert store.runs() == [run]


def test_a_store_that_is_cut_off_is_refused(tmp_path, run):
    """Nothing is written; sessions have files that are not a store."""
    with ResultStore.create(tmp_path, make_study(1)) as store:
        store.add(make_run("c", "s", Status.UNKNOWN))
    content = (tmp_path / STORE_FILE).read_bytes()
    (tmp_path / STORE_FILE).write_bytes(content[:5000])
    assert_one_line_error(run("report", tmp_path), "malformed")
    assert not (tmp_path / "report.html").exists()


def test_a_folder_is_not_suggested_as_a_store_of_results(tmp_path):
    (tmp_path / "runs" / STORE_FILE).mkdir(parents=True)
    for name in ("runs", "run"):
        with pytest.raises(UserError, match=r"has no store of results \(results.sqlite\)$"):
            ResultStore.open(tmp_path / name)
