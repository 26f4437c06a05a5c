"""Studies of the instance library: several problems, all solvers, and one of a user's own."""

import pytest

from lyra_opt.__main__ import main
from lyra_opt.core.errors import InputError
from lyra_opt.core.result import Status
from lyra_opt.core.solver import solver_names
from lyra_opt.experiments.command import find_study
from lyra_opt.experiments.study import read_study
from lyra_opt.instances.library import library
from tests.experiments.test_runner import runs_of
from tests.tables import beside, tables

STUDY = beside(__file__, "library_study.toml")


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Return a solver of reclaiming in a file of the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(tables(__file__, "library_score")["solvers"])
    return "mine.py:Mine"


def written(folder, names):
    path = folder / "some.toml"
    path.write_text(STUDY.replace('"NAMES"', names))
    return path


def test_every_instance_of_the_newest_edition_meets_every_solver_of_its_problem():
    """So that no ranking leaves out what its author does not like."""
    study = read_study(find_study("library"))
    assert {dict(cell.parameters)["library"] for cell in study.cells} == set(library().entries)
    ran = {(cell.problem, configuration.solver) for cell, configuration in study.runs()}
    problems = {entry.problem for entry in library().entries.values()}
    assert ran == {pair for problem in problems for pair in solver_names(problem)}
    assert len({configuration.time_limit_s for configuration in study.configurations}) == 1
    of_reclaim = {each.solver: each for each in study.configurations if each.problem == "reclaim"}
    assert of_reclaim["exact"].reference
    assert not of_reclaim["lyra-greedy"].reference


def test_filters_leave_what_they_name(tmp_path):
    path = written(tmp_path, '"*"')
    text = path.read_text()

    def cells(line):
        path.write_text(text.replace('ids = ["lyra-figure-5", "hurt-first"]', line))
        return {str(dict(cell.parameters)["library"]) for cell in read_study(path).cells}

    entries, known = library().entries, library().known
    easy = cells('grades = ["easy"]')
    assert {known[name].grade for name in easy} == {"easy"}
    assert {entries[name].problem for name in easy} == {"reclaim", "network"}
    assert max(entries[name].size for name in cells("largest_size = 20")) <= 20


def test_rows_are_of_the_problem_of_each_instance(tmp_path, own):
    """With a solver of a user's own, named on the command line, on the instances it is for."""
    study = written(tmp_path, '"scf", "list-placement"')
    folder = tmp_path / "out"
    command = ["study", str(study), "--out", str(folder), "--processes", "1", "--solver", own]
    assert main(command) == 0
    rows = {(run.problem, run.instance_name, run.solver, run.status) for run in runs_of(folder)}
    assert rows == {
        ("reclaim", "lyra-figure-5", "scf", Status.FEASIBLE),
        ("reclaim", "lyra-figure-5", "mine", Status.FEASIBLE),
        ("network", "hurt-first", "list-placement", Status.FEASIBLE),
    }
    assert {run.family_group for run in runs_of(folder)} == {"reclaim", "network"}


def test_a_solver_of_no_problem_of_the_study_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"solvers\[0\]\.names\[0\] is \"afs\": .*allocation"):
        read_study(written(tmp_path, '"afs"'))
