"""``library score``: one solver is run and checked, and ranked among the stored results."""

import io
import json
import re
from dataclasses import replace

import pandas as pd
import pytest

import lyra_opt as lo
from lyra_opt.__main__ import main
from lyra_opt.core.solver import SOLVERS
from lyra_opt.experiments.library_score import STORED_LIMIT_S, Selection, scored
from lyra_opt.experiments.pool import LocalProcesses
from lyra_opt.experiments.scoreboard_results import stored_runs
from lyra_opt.front_door import scoring
from lyra_opt.front_door.listed_frame import Comparison
from lyra_opt.instances.library import library
from tests.tables import tables

TABLES = tables(__file__)
ID = "lyra-figure-5"


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    """Stand in a folder with a user's solvers."""
    (tmp_path / "my.py").write_text(TABLES["solvers"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def score(capsys, *arguments):
    """Return exit code, output and messages of the command."""
    status = main(["library", "score", *arguments, "--processes", "1"])
    return status, *capsys.readouterr()


def test_an_own_solver_is_ranked_among_the_stored_results(capsys, tmp_path):
    status, out, _ = score(capsys, "my.py:Mine", "--id", ID, "--id", "messy-dist-v1-s20-k6-seed0")
    assert status == 0
    assert {"mine", "exact", "lyra-greedy"} <= {line.split()[4] for line in ranks(out)}
    (first,) = stored_runs("reclaim", {ID})[:1]
    assert f"ran on {first.started_at[:10]} on {first.cpu} (2 processors) with 0.5 s" in out
    assert "Times of different machines are not comparable" in out
    assert not (tmp_path / "better-solutions").exists()
    marked = [line for line in ranks(out) if "(this run)" in line]
    assert [line.split()[4] for line in marked] == ["mine"]


def test_python_gives_the_same_ranking(capsys):
    """The frame has the rows of the command's JSON; the solver is a class of an imported file."""
    from my import Mine

    _, out, _ = score(capsys, "my.py:Mine", "--id", ID, "--format=json")
    frame = lo.score(Mine, ids=[ID])
    expected = [each["solver"] for each in json.loads(out)["ranking"]]
    assert sorted(frame.solver) == sorted(expected)
    assert frame.attrs["results"][0]["objective"] == json.loads(out)["results"][0]["objective"]


def test_runs_without_a_result_are_counted_with_the_reason(capsys):
    """Unsupported instances in the output of the command and of Python, which is quiet else."""
    ids = [ID, "messy-dist-v1-s20-k6-seed0"]
    frame = lo.score("my.py:Small", ids=ids)
    (sentence,) = frame.attrs["missing"]
    assert sentence.startswith("1 of 2 runs of small are left out, because the solver does not")
    assert sentence.endswith(f"the first: {ids[1]}: only small fleets")
    assert sentence in capsys.readouterr().err
    assert lo.score("my.py:Mine", ids=ids).attrs["missing"] == []


def test_interrupted_runs_are_counted(monkeypatch):
    """Ctrl-C or SIGTERM leaves the command a ranking of the results so far, but Python none."""

    class Interrupted(LocalProcesses):
        def start(self, tasks, folder, shares):
            yield from super().start(tasks[:1], folder, shares)
            raise KeyboardInterrupt

    selection = Selection(ids=[ID, "messy-dist-v1-s20-k6-seed0"])
    status, found = scored("my.py:Mine", selection, None, Interrupted(1))
    assert status == 130
    assert found.missing == ["1 of 2 runs of mine are missing, because they were interrupted"]
    monkeypatch.setattr(scoring, "scored", lambda *_: (status, found))
    with pytest.raises(KeyboardInterrupt):
        lo.score("my.py:Mine")


def test_the_own_solver_is_bold_among_the_profiles(capsys, tmp_path):
    words = ("--problem", "reclaim", "--plot", str(tmp_path / "own.svg"))
    assert score(capsys, "lyra-greedy", "--id", ID, *words)[0] == 0
    assert {"lyra-greedy", "exact"} <= set(pd.read_csv(tmp_path / "own_gap_percent.csv").solver)
    drawn = (tmp_path / "own.svg").read_text()
    assert ">exact (exact)<" in drawn
    assert re.search(r"\b700\b[^>]*>lyra-greedy<", drawn)


def test_the_frame_prints_intervals_in_the_cell_of_their_measure():
    """Each end, in a column of its own too, has the unit of its measure: percent or a share."""
    keys = [of + end for of in ("gap_to_best_percent", "gap") for end in ("", "_low", "_high")]
    frame = Comparison([[44.3, 29.86, 59.07, 0.5, 0.4, 0.6]], columns=keys)
    assert "44.3 [29.9, 59.1]   50.0 [40.0, 60.0]" in str(frame)
    alone = str(frame[["gap_to_best_percent_low", "gap_high"]])
    assert "gap to best low (%)" in alone
    assert alone.split()[-2:] == ["29.9", "60.0"]


def ranks(out):
    return [line for line in out.splitlines() if "2 instances" in line]


def test_a_better_solution_is_written_and_can_be_submitted(capsys, monkeypatch, tmp_path):
    """The record knows a worse value than the stored runs and the solver find."""
    known = dict(library().known)
    worse = replace(known[ID], best_known=9, best_bound=None)
    monkeypatch.setitem(vars(library()), "known", known | {ID: worse})
    status, out, _ = score(capsys, "exact", "--problem", "reclaim", "--id", ID)
    assert status == 0
    assert f"{ID}: exact found {known[ID].best_known}, the record is 9" in out
    file = f"better-solutions/{ID}.solution.json"
    assert f'To submit: lyra-opt library submit {file} --by "YOUR NAME"' in out
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert main(["library", "submit", file]) == 1
    assert "is not better than the best known" in capsys.readouterr().out


def test_programs_get_the_results_of_all_solvers(capsys):
    """Without digits beyond those of the clock, and without intervals of two instances."""
    given = ("my.py:Mine", "--id", ID, "--id", "messy-dist-v1-s20-k6-seed0")
    document = json.loads(score(capsys, *given, "--format", "json")[1])
    csv = pd.read_csv(io.StringIO(score(capsys, *given, "--format", "csv")[1]))
    for results in (pd.DataFrame(document["results"]), csv):
        assert len(results[results.solver == "mine"]) == len(results[results.solver == "exact"])
        assert {"instance", "objective", "best_known", "time_s", "remark"} <= {*results}
    for row in document["ranking"]:
        assert row["time_s"] == round(row["time_s"], 4)
        assert row["time_s_low"] is None


def test_instances_that_are_newer_than_the_scoreboard_are_counted(monkeypatch):
    """Also if no other solver has a result, as of a problem that is new in the library."""
    stored = stored_runs("reclaim", {ID})
    other = "messy-dist-v1-s20-k6-seed0"
    monkeypatch.setattr("lyra_opt.experiments.scoreboard_results.stored_runs", lambda *_: stored)
    (sentence,) = lo.score("my.py:Mine", ids=[ID, other]).attrs["missing"]
    assert sentence == (
        "1 of 2 instances have no stored results of other solvers; the scoreboard is older than "
        f"{other}"
    )
    stored.clear()
    frame = lo.score("my.py:Mine", ids=[ID])
    assert list(frame.solver) == ["mine"]
    assert frame.attrs["times"].endswith("no other solver has results.")


PROBLEMS = sorted({each.problem for each in library("library-2026.1").entries.values()})


@pytest.mark.parametrize("problem", PROBLEMS)
def test_stored_results_are_complete(problem):
    """All instances of an edition or none, no failures, one time limit, and solvers that exist."""
    ids = {each.id for each in library().of_problem(problem)}
    runs = stored_runs(problem, ids)
    found = {run.instance_name for run in runs}
    first = {each.id for each in library("library-2026.1").of_problem(problem)}
    assert first <= found
    for catalogue in library().catalogues:
        of = {each.id for each in catalogue.instances if each.problem == problem}
        assert found & of in (set(), of)
    assert {run.time_limit_s for run in runs} == {STORED_LIMIT_S}
    assert {run.solver for run in runs} <= set(SOLVERS.names(problem))
    assert all(run.content_sha256 == library().entry(run.instance_name).sha256 for run in runs)
