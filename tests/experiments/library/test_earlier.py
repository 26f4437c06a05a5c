"""A record of a later day forgets nothing: not who found what, nor other instances of the day."""

import json
from dataclasses import replace

import pytest

from lyra_opt.experiments.library.building import known_of, write_record
from lyra_opt.experiments.library.grading import GradingRun, GradingRuns
from lyra_opt.experiments.library.plan import read_plan
from lyra_opt.instances.library import library
from lyra_opt.instances.library.documents import Grade, Proof
from lyra_opt.instances.library.shelf import Library
from tests.instances.library.parts import part_of_library

PROVED, OPEN = "load-v1-n4-load200-seed0", "worst-case-v1-n61-extra54"
DAY, NEXT = "2026-11-23", "2099-01-01"


@pytest.fixture
def shelf(tmp_path):
    """Return a library of two instances with the record of the first day alone."""
    folder = part_of_library(tmp_path / "library", PROVED, OPEN).folder
    kept = ("library-2026.1.json", f"best-known-{DAY}.json")
    for kind in ("catalogues", "records", "proofs"):
        for path in (folder / kind).iterdir():
            if path.name not in kept:
                path.unlink()
    return Library(folder)


def run(shelf, name, method, engine, **others):
    return GradingRun(
        id=name,
        sha256=shelf.entry(name).sha256,
        method=method,
        engine=engine,
        is_exact=method in ("exact", "order-tree"),
        **{"status": "optimal", "time_limit_s": 4.0, "time_s": 0.1, **others},
    )


def plan():
    return read_plan(library().folder / "plans" / "library-2026.1.toml")


def recorded(shelf, runs, *names):
    write_record(plan(), shelf, [shelf.entry(name) for name in names], runs, NEXT)
    return Library(shelf.folder)


def test_a_second_engine_confirms_what_one_had_proved(shelf, tmp_path):
    """Those who found value and bound first keep the credit; the relaxation is not asked."""
    before, runs = shelf.known[PROVED], GradingRuns(tmp_path / "work")
    value = before.best_known
    runs.add(run(shelf, PROVED, "order-tree", "glop", objective=value, dual_bound=value - 1e-12))
    now = recorded(shelf, runs, PROVED).known[PROVED]
    assert (before.proof, now.proof) == (Proof.ONE_METHOD, Proof.TWO_METHODS)
    assert set(now.proved_with) == {"exact", "order-tree"}
    found = (value, before.found_by, before.found_with)
    assert (now.best_known, now.found_by, now.found_with) == found
    assert now.grade is Grade.EASY
    assert sorted(each.method for each in now.runs) == ["exact", "order-tree"]


def test_a_worse_run_changes_nothing_of_what_is_known(shelf, tmp_path):
    before, runs = shelf.known[OPEN], GradingRuns(tmp_path / "work")
    worse = {"objective": before.best_known * 1.1, "dual_bound": before.best_bound * 0.9}
    runs.add(run(shelf, OPEN, "exact", "lyra-opt", status="feasible", **worse))
    now = known_of(plan(), shelf, shelf.entry(OPEN), runs)
    assert replace(now, runs=()) == replace(before, runs=())


def test_a_tighter_bound_is_its_own_and_the_solution_is_not(shelf, tmp_path):
    before, runs = shelf.known[OPEN], GradingRuns(tmp_path / "work")
    tighter = (before.best_bound + before.best_known) / 2
    runs.add(run(shelf, OPEN, "exact", "lyra-opt", status="feasible", dual_bound=tighter))
    now = recorded(shelf, runs, OPEN).known[OPEN]
    assert (now.best_bound, now.bound_with) == (tighter, "exact")
    assert (now.best_known, now.found_with) == (before.best_known, before.found_with)
    assert now.grade is Grade.OPEN


def test_a_day_adds_to_its_record_and_is_the_same_the_second_time(shelf, tmp_path):
    """Runs of several people on several instances come to one record, in the catalogue's order."""
    first, second = GradingRuns(tmp_path / "first"), GradingRuns(tmp_path / "second")
    value = shelf.known[PROVED].best_known
    first.add(run(shelf, OPEN, "exact", "lyra-opt", status="feasible"))
    second.add(run(shelf, PROVED, "order-tree", "glop", objective=value, dual_bound=value))
    shelf = recorded(shelf, first, OPEN)
    shelf = recorded(shelf, second, PROVED)
    (of_day,) = (record for record in shelf.records if record.date == NEXT)
    assert [best.id for best in of_day.instances] == [PROVED, OPEN]
    file = shelf.folder / "records" / f"best-known-{NEXT}.json"
    text = file.read_text()
    recorded(shelf, second, PROVED)
    assert json.loads(file.read_text())["instances"] == json.loads(text)["instances"]


def test_a_better_solution_comes_along(shelf, tmp_path):
    """Of the runs; one that is not better leaves the library's where it is."""
    loaded = shelf.load(OPEN)
    old = shelf.solution_file(OPEN).read_bytes()
    solution, claims = shelf.solution(OPEN)
    for factor, is_kept in ((1.01, True), (1 - 1e-12, True), (0.99, False)):
        claimed = claims["objective"] * factor  # what it is worth is the business of checkers
        document = loaded.problem.solution_document(loaded.instance, solution, claimed)
        values = {"status": "feasible", "objective": claimed, "solution": document}
        runs = GradingRuns(tmp_path / str(factor))
        runs.add(run(shelf, OPEN, "exact", "lyra-opt", **values))
        recorded(shelf, runs, OPEN)
        assert (shelf.solution_file(OPEN).read_bytes() == old) is is_kept
        assert len(list((shelf.folder / "solutions").glob(f"{OPEN}.*"))) == 1
