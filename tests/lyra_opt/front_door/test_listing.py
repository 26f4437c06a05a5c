"""The names that functions take are data frames with the rows of the commands."""

import json
from html import unescape

import pandas as pd

import lyra_opt as lo


def printed(run, *arguments):
    exit_code, out, err = run(*arguments)
    assert exit_code == 0, err
    return out


def names_of(text, below=0):
    """Return the first word of each line of a printed list, as far as it is not indented."""
    return [line.split(" ")[0] for line in text.splitlines()[below:] if line[0] != " "]


def test_solvers(run):
    """Each row is an object of ``solvers --format json``; lists are text."""
    records = json.loads(printed(run, "solvers", "--problem", "network", "--format=json"))
    table = lo.solvers("network")
    assert table.index.name is None  # a named index beside its column would be ambiguous
    assert list(table.index) == list(table.query("solver == solver").solver)
    assert list(table.index) == [each["name"] for each in records]
    for key in ("problem", "summary", "gives_bound", "available"):
        assert list(table[key]) == [each[key] for each in records]
    assert list(table.variants) == [", ".join(each["variants"]) for each in records]
    assert set(lo.solvers().problem) == {
        *("allocation", "heterogeneous", "network", "preemption", "reclaim")
    }


def test_the_other_lists_have_the_rows_of_the_commands(run):
    listed = json.loads(printed(run, "library", "list", "--grade", "open", "--format=json"))
    table = lo.library(grade="open")
    assert list(table.index) == [each["id"] for each in listed]
    assert list(table.best_bound) == [each["best_bound"] for each in listed]
    empty = lo.library("reclaim", "hard", "open")
    assert empty["size"].dtype == lo.library("reclaim")["size"].dtype == int
    assert str(empty).endswith("\nThe library has no such instances.")
    assert "<p>The library has no such instances.</p>" in empty._repr_html_()
    changes = {"cluster.servers": 1}
    without_jobs = lo.schemes("plain", changes=changes)
    assert "scenario plain does not name any. Give" in " ".join(str(without_jobs).split())
    of_command = printed(run, "schemes", "--for", "plain", "--set", "cluster.servers=1")
    assert "scenario plain does not name any" in of_command
    jobs = pd.DataFrame({"job_id": ["a"], "submit_time_s": [0], "duration_s": [9], "gpus": [2]})
    assert lo.schemes("plain", changes=changes, jobs=jobs).obstacle["allox"].startswith("job a has")
    assert list(lo.schemes().index) == names_of(printed(run, "schemes"), below=2)
    lines = printed(run, "schemes", "--for", "dally-batch").splitlines()[2:]
    in_scenario = dict(line.strip().split("   ", 1) for line in lines)
    obstacles = lo.schemes("dally-batch").obstacle.fillna("runs")
    assert dict(obstacles) == {name: text.strip() for name, text in in_scenario.items()}
    assert list(lo.scenarios().index) == names_of(printed(run, "scenarios", "list"))
    assert list(lo.families("network").index) == names_of(printed(run, "generate", "network"))
    assert {"reclaim-gap", "library"} <= set(lo.studies().index)
    assert lo.papers().tables["lyra"].startswith("1, 2, 3")
    for table in (lo.solvers().drop(columns="reason"), lo.families(), lo.studies(), lo.papers()):
        assert len(table) > 3
        assert not table.isna().any(axis=None)


def test_labels_of_rows_are_printed():
    """Unless the first column repeats them, or they are only numbers."""
    fleet = lo.load("lyra-figure-5")
    turned = lo.compare(fleet, ["lyra-greedy", "exact"]).T
    assert names_of(repr(turned), below=2)[:2] == ["status", "objective"]
    assert names_of(repr(lo.solvers("network").head(2).T), below=2)[:2] == ["solver", "problem"]
    assert repr(lo.studies().reset_index(drop=True)) == repr(lo.studies())
    assert repr(lo.cite("gavel")).startswith("@inproceedings{gavel,\n")


def test_a_list_prints_all_of_its_text(monkeypatch):
    """Pandas would cut it after fifty letters; a choice of rows prints as well."""
    monkeypatch.setenv("COLUMNS", "60")
    table = lo.scenarios()
    words = " ".join(str(table).replace("-\n", "-").split())
    assert max(map(len, str(table).splitlines())) <= 60
    for each in table.description.str.split().str[-1]:
        assert each in words
    assert "plain" not in str(table.loc[["pollux"]])
    assert table.description["pollux"][:60] in unescape(table._repr_html_())
    assert "text-align: right" not in table._repr_html_()
    assert isinstance(table, pd.DataFrame)
