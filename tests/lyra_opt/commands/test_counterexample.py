"""``lyra-opt counterexample``: what it writes stands, and bad input gets one line."""

import json
import re

import pytest

import lyra_opt as lo
from lyra_opt.commands import progress
from lyra_opt.core.loading import load_instance, load_solution
from lyra_opt.testing import counterexamples
from tests.conftest import assert_one_line_error
from tests.tables import tables

TABLES = tables(__file__)


SMALL = ("--max", "servers=3", "--max", "jobs=2")
GREEDY = ("counterexample", "--heuristic", "lyra-greedy", "--against", "optimum", *SMALL)
KEYS = [
    *("found", "problem", "variant", "heuristic", "against", "min_ratio", "seed", "limits"),
    *("file", "solution_files", "instance", "objective", "against_objective", "optimum"),
    *("proved_by", "ratio", "size", "no_smaller_plain", "plain", "tried", "tried_plain"),
    *("skipped", "skip_reason", "stopped_by", "wall_time_s"),
]


@pytest.fixture(autouse=True)
def _in_a_fresh_folder(tmp_path, monkeypatch):
    """Files have default names, and few instances are drawn: the search has tests of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(counterexamples, "DRAWS_OF_A_SIZE", 5)
    monkeypatch.setattr(counterexamples, "DRAWS", 10)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 1000.0)


def test_logs_show_how_far_the_search_is(run, monkeypatch):
    """Without a terminal, a line says from time to time below which size the search looks."""
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.001)
    _, _, err = run(*GREEDY)
    assert re.search(r"counterexample: searching below servers .*, \d+ s gone\n", err)


def searched(run, *arguments):
    """Return exit code and record of a search, which says nothing on stderr."""
    exit_code, out, err = run("counterexample", *arguments, "--format=json")
    assert err == ""
    return exit_code, json.loads(out)


def assert_verified(run, record, prover):
    """Assert that each solution verifies, and that each solver gives its value on the file."""
    loaded = load_instance(record["file"])
    values = record["objective"], record["against_objective"]
    for path, value in zip(record["solution_files"], values, strict=True):
        _, claims = load_solution(path, loaded.problem)
        assert claims["objective"] == value
        assert run("verify", record["file"], path)[0] == 0
    named = record["heuristic"], record["against"]
    for name, value in zip(named, values, strict=True):
        solver = prover if name == "optimum" else name
        answer = lo.solve(loaded.instance, solver, seed=record["seed"])
        assert answer.objective == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(("arguments", "files"), TABLES["files"])
def test_the_files_hold_what_is_claimed(run, tmp_path, arguments, files):
    """Read back: each solution verifies, and each solver gives its value on the written file."""
    exit_code, record = searched(run, *arguments, *SMALL)
    assert exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == files
    assert sorted([record["file"], *record["solution_files"]]) == files
    assert load_instance(record["file"]).instance.name == record["instance"]
    assert record["objective"] > record["against_objective"] >= record["optimum"]
    assert_verified(run, record, "brute-force")


@pytest.mark.parametrize(("arguments", "prover", "variant"), TABLES["allocation_files"])
def test_the_files_of_an_allocation(run, arguments, prover, variant):
    """As for reclaim; of the reduction, the heuristic's value is the smaller."""
    exit_code, record = searched(run, *arguments)
    assert exit_code == 0
    assert list(record) == KEYS
    assert (record["problem"], record["variant"]) == ("allocation", variant)
    assert record["proved_by"] == prover
    values = record["objective"], record["against_objective"]
    smaller, larger = values if variant == "jct_reduction" else values[::-1]
    assert record["ratio"] == pytest.approx(larger / smaller)
    assert record["ratio"] > 1 + 1e-6
    assert record["size"]["gpus"] == load_instance(record["file"]).instance.gpus
    assert_verified(run, record, prover)


def test_json_has_every_key_found_or_not(run):
    """In the documented order; exit code 1 and no file where nothing was found."""
    exit_code, record = searched(run, *GREEDY[1:])
    assert exit_code == 0
    assert list(record) == KEYS
    assert record["found"]
    assert record["ratio"] == record["objective"] / record["against_objective"]
    assert record["size"]["servers"] == len(load_instance(record["file"]).instance.servers)
    exit_code, record = searched(run, *GREEDY[1:], "--max", "servers=2")
    assert exit_code == 1
    assert list(record) == KEYS
    assert not record["found"]
    assert record["file"] is record["objective"] is record["ratio"] is None


def test_a_search_from_an_instance(run):
    """A large instance becomes as small as those that the search finds alone."""
    fleet = lo.generate("reclaim", "messy-dist", servers=12, reclaim=4, seed=1)
    lo.save(fleet, "large.json")
    asked = ("--heuristic", "random", "--against", "optimum")
    exit_code, record = searched(run, *asked, "--from", "large.json")
    assert exit_code == 0
    assert record["size"]["servers"] <= 3
    assert_verified(run, record, "exact")
    lo.save(lo.load("lyra-figure-5"), "equal.json")
    refused = run("counterexample", "--heuristic=scf", *asked[2:], "--from=equal.json")
    assert_one_line_error(refused, 'start is "lyra-figure-5": the heuristic is not worse on')
    refused = run("counterexample", *asked, "--from=equal.json", "--variant=interchangeable")
    assert_one_line_error(refused, "variant is", "must be that of the instance, rigid")


def test_an_infinite_ratio_is_null(run):
    """JSON has no infinity."""
    _, record = searched(run, "--heuristic", "random", "--against", "optimum", *SMALL)
    assert (record["against_objective"], record["ratio"]) == (0, None)


def test_for_people(run):
    """Both values, the proof, what smallest means and the files; the same but for times again."""
    exit_code, out, _ = run(*GREEDY)
    assert exit_code == 0
    lines = out.splitlines()
    assert lines[0] == "lyra-greedy is worse than optimum: 2 against 1, ratio 2"
    assert lines[1].startswith("optimum: 1, proved by ")
    assert lines[2].startswith("smallest found, most important first: servers 3, jobs 2, ")
    assert lines[3].startswith("proved: no smaller plain instance is a counterexample ")
    assert "lyra-greedy-against-optimum.optimum.solution.json" in lines[5]
    assert run(*GREEDY)[1].splitlines()[:-1] == lines[:-1]


def test_none_found(run, tmp_path):
    """One line on stdout, exit code 1, nothing written; it also names the limit that ended it."""
    exit_code, out, err = run(*GREEDY, "--max", "servers=2", "--min-ratio", 50)
    assert (exit_code, err) == (1, "")
    assert out.count("\n") == 1
    assert out.startswith(
        "no counterexample found: no rigid instance of at most servers 2, jobs 2, "
    )
    assert "by a factor of 50" in out
    assert "ended by the time limit" in run(*GREEDY, "--time-limit", 1e-9)[1]
    assert not list(tmp_path.iterdir())
