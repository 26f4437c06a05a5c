"""Schemes and solvers of a user, in one file each and without a package."""

import pytest

from lyra_opt.experiments.simulation.running.replays import load_replays
from lyra_opt.experiments.store import ResultStore
from tests.conftest import assert_one_line_error
from tests.experiments.simulation.conftest import THREE_JOBS, figures, schemes
from tests.tables import beside, tables

FILE = beside(__file__, "own_schemes.txt")
SCENARIO = beside(__file__, "own_schemes.toml")
REFUSED = tables(__file__, "own_schemes_refused")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with a user's Python file, a scenario that names it, and a trace."""
    (tmp_path / "mine.py").write_text(FILE)
    (tmp_path / "own.toml").write_text(SCENARIO)
    (tmp_path / "three.csv").write_text(THREE_JOBS)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    return tmp_path


def test_a_scenario_names_files_beside_it(folder, run):
    """The file is found from any folder and in worker processes; results have the class name."""
    out = folder / "runs"
    assert run("simulate", folder / "own.toml", "--processes", 2, "--out", out)[0] == 0
    runs = {each.scheme: each for each in load_replays(out).runs}
    mine, sjf = runs["Shortest"], runs["sjf"]
    assert mine.key == "Shortest seed=0"
    assert mine.setting["summary"] == "Shortest first."
    assert mine.figures["jct_mean_s"] == sjf.figures["jct_mean_s"]
    assert runs["own queue"].figures["jct_mean_s"] == sjf.figures["jct_mean_s"]
    assert runs["longest"].figures["jct_mean_s"] > sjf.figures["jct_mean_s"]
    files = {f"{folder / 'mine.py'}:{name}" for name in ("Shortest", "Greedy", "key")}
    with ResultStore.open(out) as store:
        before = store.study
    assert set(before.settings["files"]) == files
    (folder / "mine.py").write_text(f"{FILE}# changed\n")
    again = run("simulate", folder / "own.toml", "--out", out, "--resume")
    assert_one_line_error(again, str(out))
    assert set(runs) == {
        *("sjf", "Shortest", "longest", "own queue"),
        'fifo reclaimer="mine.py:Greedy"',
    }


@pytest.mark.parametrize("name", ["../mine.py:Shortest", "../mine.py:MIXED"])
def test_named_on_the_command_line(name, folder, simulate):
    """A policy or a scheme is named by a path relative to the working directory."""
    scenario = folder / "own.toml"
    like = {"../mine.py:Shortest": "sjf", "../mine.py:MIXED": "fifo"}[name]
    mine = figures(simulate(scenario, *schemes(name), "--format=json"))
    other = figures(simulate(scenario, *schemes(like), "--format=json"))
    assert mine["scheme"] == name.partition(":")[2]
    assert mine["jct_mean_s"] == other["jct_mean_s"]


@pytest.mark.parametrize(("name", "parts"), REFUSED["schemes"])
def test_refused_before_the_run(name, parts, folder, simulate):
    """The error is one line, and no simulation runs."""
    assert_one_line_error(simulate(folder / "own.toml", *schemes(name)), *parts)


@pytest.mark.parametrize(("queue", "parts"), REFUSED["queues"])
def test_queues_that_are_refused(queue, parts, folder, simulate):
    """The name, the parameters and the kind of an own order are checked before the run."""
    entry = f'schemes=[{{name="fifo", queue="{queue}"}}]'
    assert_one_line_error(simulate(folder / "own.toml", "--set", entry), *parts)


def test_a_sort_key_must_be_a_number(folder, run):
    """The row of the replay that failed names the job and its key."""
    entry = 'schemes=[{name="fifo", queue="mine.py:name_of"}]'
    exit_code, _, err = run("simulate", folder / "own.toml", "--set", entry)
    assert exit_code == 1
    assert "has the sort key 'a', which must be a number or a tuple of numbers" in err


def test_gpus_must_be_reserved(folder, run):
    """The message says how, and only the key of the run names the policy."""
    exit_code, _, err = run("simulate", folder / "own.toml", *schemes("../mine.py:Unreserved"))
    assert exit_code == 1
    told = "at 0 s: job a must get GPUs that `view.fit` or `view.reserve` returned, not {0: 1}"
    assert f"failed: Unreserved seed=0: SimulationError: {told}" in err


def test_two_of_one_name_are_refused(folder, simulate):
    """Their rows would have the same name."""
    (folder / "theirs.py").write_text(FILE)
    both = schemes("../mine.py:Shortest", "../theirs.py:Shortest")
    assert_one_line_error(simulate(folder / "own.toml", *both), "theirs.py", "both named Shortest")


@pytest.mark.parametrize("processes", [1, 2])
def test_where_a_policy_failed(processes, folder, run):
    """The row names file and line; the traceback is printed on request."""
    text = FILE.replace("return self.sign *", "return self.sgn *")
    (folder / "mine.py").write_text(text)
    line = next(n for n, each in enumerate(text.splitlines(), 1) if "self.sgn" in each)
    asked = (folder / "own.toml", *schemes("../mine.py:Shortest", "sjf"), "--processes", processes)
    exit_code, _, err = run("simulate", *asked)
    assert exit_code == 1
    assert f"has no attribute 'sgn' (mine.py, line {line})" in err
    assert "Traceback" not in err
    assert f'mine.py", line {line}' in run("simulate", *asked, "--debug")[2]


def test_parameters_that_there_are_not(folder, simulate):
    """The error names the nearest parameter, also for a user's policy."""
    change = 'schemes=[{name="mine.py:Shortest", sing=1}]'
    result = simulate(folder / "own.toml", "--set", change)
    assert_one_line_error(result, "sing is 1: unknown key; did you mean sign?")
