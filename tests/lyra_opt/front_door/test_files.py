"""Files of the front door: what is saved is loaded again, as the class that was asked for."""

import io

import pytest

import lyra_opt as lo
from lyra_opt.core.errors import InputError, UserError
from lyra_opt.core.loading import load_solution
from lyra_opt.core.problem import find_problem
from tests.lyra_opt.reclaim import examples

FLEET = examples.fleet("ab", examples.job_on("j", "a"), name="unnamed")


@pytest.mark.parametrize("name", ["fleet.json", "fleet.json.gz"])
def test_what_is_saved_is_loaded(tmp_path, name):
    """Compressed where the name says so, as readers of files expect."""
    lo.save(FLEET, tmp_path / name)
    assert lo.load(tmp_path / name) == FLEET
    assert ((tmp_path / name).read_bytes()[:2] == b"\x1f\x8b") is name.endswith(".gz")


def test_a_class_is_asked_for(tmp_path):
    """A file of another problem is refused, and both problems are named."""
    path = tmp_path / "fleet.json"
    lo.save(FLEET, path)
    assert lo.load(path, lo.reclaim.Instance) == FLEET
    with pytest.raises(InputError, match=r"fleet\.json: .* of reclaim, not of network$"):
        lo.load(path, lo.network.Instance)


def test_an_answer_is_saved_as_its_solution(tmp_path):
    """Which `verify` reads; one without a solution has nothing to save."""
    answer = lo.solve(FLEET, "exact")
    lo.save(answer, tmp_path / "solution.json")
    solution, claims = load_solution(tmp_path / "solution.json", find_problem("reclaim"))
    assert solution == answer.solution == lo.reclaim.Solution(servers=("b",))
    assert claims == {"instance": "unnamed", "objective": 0}
    unsupported = lo.solve(FLEET, "lyra-greedy-elastic")
    with pytest.raises(UserError, match=r"has no solution to save \(unsupported"):
        lo.save(unsupported, tmp_path / "none.json")
    assert not (tmp_path / "none.json").exists()


@pytest.mark.parametrize("wrong", [None, 3, io.StringIO("{}")])
def test_what_is_no_path_is_refused(wrong):
    """In a line, whether it is to be read or written."""
    with pytest.raises(UserError, match="must be a string or a Path"):
        lo.load(wrong)
    with pytest.raises(UserError, match="must be a string or a Path"):
        lo.save(FLEET, wrong)


def test_a_solution_is_no_instance(tmp_path):
    """Errors say what takes a solution, and what can be saved."""
    path, answer = tmp_path / "solution.json", lo.solve(FLEET, "exact")
    lo.save(answer, path)
    with pytest.raises(InputError, match="must be the format of an instance, not of a solution"):
        lo.load(path)
    with pytest.raises(UserError, match="must be an instance or an answer"):
        lo.save(answer.solution, path)


def test_a_file_wins_over_the_library(tmp_path, monkeypatch):
    """An id is the name of a file, too, if there is such a file."""
    monkeypatch.chdir(tmp_path)
    assert lo.load("lyra-figure-5", lo.reclaim.Instance).name == "lyra-figure-5"
    lo.save(FLEET, "lyra-figure-5")
    assert lo.load("lyra-figure-5") == FLEET
