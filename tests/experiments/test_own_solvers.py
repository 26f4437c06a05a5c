"""Studies that name a solver in a file of one's own, beside the study."""

import hashlib
from pathlib import Path

import pytest

from lyra_opt.core.errors import InputError, UserError
from lyra_opt.experiments.pool import LocalProcesses
from lyra_opt.experiments.runner import run_study
from lyra_opt.experiments.study import read_study
from tests.experiments.test_runner import SMALL, runs_of
from tests.tables import tables

TABLES = tables(__file__)

OWN = TABLES["solvers"]
NAMED = ('"scf"', '"mine.py:Mine"')


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Return the file beside the study, away from the working directory."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    return path


@pytest.mark.parametrize("processes", [0, 1])
def test_rows_say_where_the_solver_is_from(processes, own, write_study, tmp_path):
    """Here and in worker processes; called by its own name, which is its headline's too."""
    headline = ("seeds = 2", 'seeds = 2\nheadline = ["my-greedy"]')
    study = read_study(write_study(*SMALL, NAMED, headline))
    assert run_study(study, tmp_path / "out", engine=LocalProcesses(processes)) == 0
    rows = runs_of(tmp_path / "out")
    mine = [row for row in rows if row.solver == "my-greedy"]
    theirs = [row for row in rows if row.solver == "lyra-greedy"]
    assert [row.objective for row in mine] == [row.objective for row in theirs]
    assert len(mine) == 2
    for row in mine:
        assert row.configuration == "my-greedy"
        assert row.solver_source == f"{own}:Mine"
        assert row.solver_sha256 == hashlib.sha256(own.read_bytes()).hexdigest()
    assert all(row.solver_source is row.solver_sha256 is None for row in theirs)


def test_a_solver_that_changes_is_another_study(own, write_study, tmp_path):
    """Runs of two versions do not end in one store, nor does one that changed meanwhile run."""
    study = read_study(write_study(*SMALL, NAMED))
    own.write_text(f"{OWN}\n# changed\n")
    assert read_study(study.source).meaning_hash() != study.meaning_hash()
    assert run_study(study, tmp_path / "out", engine=LocalProcesses(0)) == 1
    failed = [row for row in runs_of(tmp_path / "out") if row.solver == "my-greedy"]
    assert failed
    for row in failed:
        assert "mine.py: has changed since the study was loaded" in (row.message or "")
    with pytest.raises(UserError, match="another study"):
        run_study(read_study(study.source), tmp_path / "out", engine=LocalProcesses(0), resume=True)


@pytest.mark.parametrize(("given", "message"), TABLES["refused"])
def test_refused(given, message, own, write_study):
    """Names file, field and what is wrong."""
    path = write_study(('"scf"', f'"{given}"'))
    with pytest.raises(InputError, match=rf"tiny\.toml: solvers\[0\]\.names.*{message}"):
        read_study(path)
    assert not list(Path.cwd().iterdir())
