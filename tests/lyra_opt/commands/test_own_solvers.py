"""Solvers of a user's own on the command line, and names that there are not."""

import json
from pathlib import Path

import pytest

import lyra_opt as lo
from tests.conftest import assert_one_line_error
from tests.tables import tables

TABLES = tables(__file__)
NETWORK = lo.generate("network", "epoch", jobs=6, timers="none")
ROUNDS_OF_JOBS = lo.generate("heterogeneous", "offline", jobs=4)

FIGURE_5 = Path(__file__).parents[3] / "instances/library/lyra-figure-5.json"

OWN = TABLES["own"]


@pytest.fixture(autouse=True)
def _own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with a file of one's own."""
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)


def test_solve(run):
    """Beside a registered one, under its own name."""
    solvers = ("--solver", "own.py:FirstInFile", "--solver", "exact")
    exit_code, out, _ = run("solve", FIGURE_5, *solvers, "--format=json")
    assert exit_code == 0
    mine, exact = json.loads(out)
    assert mine["solver"] == "first-in-file"
    assert (mine["status"], mine["objective"]) == ("feasible", exact["objective"])


def test_counterexample(run):
    """The problem follows from the solver; files are called after it."""
    asked = ("--heuristic", "own.py:FirstInFile", "--against", "optimum", "--max", "servers=2")
    exit_code, out, _ = run("counterexample", *asked, "--format=json")
    assert exit_code == 0
    found = json.loads(out)
    assert (found["heuristic"], found["problem"]) == ("first-in-file", "reclaim")
    assert found["file"] == "first-in-file-against-optimum.json"
    assert found["objective"] > found["optimum"]


ROUNDS = TABLES["rounds"]


@pytest.mark.parametrize(
    ("instance", "own", "like"),
    [
        (ROUNDS_OF_JOBS, "Queues", "tiresias"),
        (NETWORK, "Tightest", "best-fit"),
        (NETWORK, "TIGHTEST", "best-fit"),
    ],
)
def test_policies_answer_instances(instance, own, like, run):
    """As the registered solver of the same rule does."""
    Path("rounds.py").write_text(ROUNDS)
    lo.save(instance, "instance.json")
    solvers = ("--solver", f"rounds.py:{own}", "--solver", like)
    exit_code, out, _ = run("solve", "instance.json", *solvers, "--format=json")
    assert exit_code == 0
    mine, other = json.loads(out)
    assert mine["solver"] == {"Queues": "my-queues"}.get(own, "my-best-fit")
    assert mine["objective"] == other["objective"]


IDS = TABLES["ids"]


@pytest.mark.parametrize(
    ("instance", "own", "told"),
    [
        (NETWORK, "Gangs", "it must return positions of gangs"),
        (NETWORK, "Machines", 'returned "m0": it must return positions of machines'),
        (ROUNDS_OF_JOBS, "Jobs", "returned 0: it must return ids of active jobs"),
        (ROUNDS_OF_JOBS, "Servers", "returned 0: it must return ids of servers"),
        (lo.generate("allocation", "load", jobs=3), "Targets", "job must be one of state.active"),
    ],
)
def test_ids_in_the_place_of_positions(instance, own, told, run):
    """And the other way round: the message names the line of the method."""
    Path("ids.py").write_text(IDS)
    lo.save(instance, "instance.json")
    exit_code, *texts = run("solve", "instance.json", "--solver", f"ids.py:{own}")
    line = IDS.partition(f"class {own}(")[0].count("\n") + 2
    assert exit_code == 1
    assert told in "".join(texts)
    assert f"(ids.py, line {line})" in "".join(texts)


def test_where_it_failed(run):
    """The traceback names file and line."""
    exit_code, _, err = run("solve", FIGURE_5, "--solver", "own.py:Failing", "--debug")
    assert exit_code == 1
    assert f'own.py", line {OWN.splitlines().index("        return 1 // 0") + 1}' in err


@pytest.mark.parametrize(("arguments", "parts"), TABLES["unknown_names"])
def test_names_that_there_are_not(arguments, parts, run):
    """The nearest is named, or where it belongs; not all."""
    result = run(*(str(FIGURE_5) if word == "FIGURE_5" else word for word in arguments.split()))
    assert_one_line_error(result, *parts)
    assert len(result[2]) < 250
